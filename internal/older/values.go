package older

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// This file reads values. The shapes, in the order in which they are tried:
//
//	100                               one number
//	{"limit": 100, "remaining": 99}   an object in JSON, whose keys are words of names
//	100:60, 1000:3600                 pairs of a number and a window
//	limit=100; remaining=99           a record, whose keys are words of names
//	100, 1000                         a list of numbers; one of them counts
//	99, 99;w=1, 0;w=60                a list of numbers with their windows
//	39/40, 600/15m, 12h               a member: with a quota, with a window, or a window alone
//
// A function that reads a shape appends facts. It returns false if a part of the value is unreadable.

// Bounds of a field. RFC 9651 Sections 3.1 and 3.1.2 require a parser of the current fields to
// support as many members and parameters.
const (
	MaxMembers = 1024
	MaxParams  = 256
	maxFacts   = 4 * MaxMembers // of a record, or of pairs
	maxJSON    = 64 << 10
	maxDepth   = 8
)

// A Fact is one number, name or time that a field contains, of one policy.
type Fact struct {
	Policy string // "" means the policy of the field
	Role   Role
	Format Format // of a time
	Value  string

	item // of a policy, or of a member of a list
}

// An item is what a member of a list contains about a policy.
type item struct {
	quota, window int64
	name          string
	params        string // all parameters
	draft         string // shown by the key of the window
}

// isCount reports whether a value is a number.
func isCount(s string) bool {
	_, ok := text.ParseCount(s)
	return ok
}

// isNothing reports whether a value means that there is no limit.
func isNothing(s string) bool { return strings.EqualFold(s, "unlimited") }

// below joins the name of a group and the name of a policy in the group.
func below(group, s string) string {
	switch {
	case s == "":
		return group
	case group == "":
		return s
	}
	return group[:min(len(group), maxGroup)] + "-" + s
}

// maxGroup is the number of bytes of a group's name that the names of its policies begin with. It
// bounds memory: a header can name a group once, and then a hundred thousand policies.
const maxGroup = 128

const noFault = -1 // in place of the offset of unreadable text

// read appends the facts of a line, and returns the offset of unreadable text, or noFault. The name of
// the field decides how the line is read. If it does not, the shape of the line decides.
func (f *Field) read(facts []Fact, line string, first bool) (_ []Fact, bad int) {
	n, ok := f.name, true
	if n.Format == minutes && isCount(line) {
		line += "min"
	}
	switch {
	case n.dictionary:
		facts, ok = n.readDictionary(facts, line)
	case n.Format == bans:
		facts, ok = readBans(line)
	case n.Format == percents:
		facts, ok = readPercents(line)
	case n.kind == waitKind: // nothing of the policy remains until the end of the wait (NestJS)
		if _, ok = parseMoment(line, n.Format, &text.Clock{}); ok {
			facts = append(facts, Fact{Role: Remaining, Value: "0"}, Fact{Role: Reset, Value: line})
		}
	case n.Role.isText():
		facts = append(facts, Fact{Role: n.Role, Value: text.Unquote(line)})
	case f.columns != 0: // each member belongs to another policy
		for part := range strings.SplitSeq(line, separatorOf(line)) {
			facts = append(facts, Fact{Role: n.Role, Value: text.Trim(part)})
		}
	default:
		return n.readShape(facts, line, first)
	}
	if !ok {
		return facts, 0
	}
	return facts, noFault
}

// readShape is read for the shapes at the top of this file.
func (n *name) readShape(facts []Fact, line string, first bool) (_ []Fact, bad int) {
	ok := true
	switch {
	case n.Role.number() && text.All(line, text.Digit): // a fast path for nearly all values
		return append(facts, Fact{Role: n.Role, Value: line}), noFault
	case line[0] == '{':
		facts, ok = n.readJSON(facts, line)
	case !n.Role.time() && isPairs(line):
		facts, ok = n.readPairs(facts, line)
	case isRecord(line):
		facts, ok = n.readRecord(facts, line)
	case n.kind == looseKind && n.Role == Quota && strings.IndexByte(line, '/') > 0: // 10/40 is used and quota (Gorgias)
		facts, ok = readCount(facts, "", None, line)
	case n.Role.time() && isDate(line): // it may contain a comma
		facts = append(facts, Fact{Role: n.Role, Value: line})
	default:
		return n.readList(facts, line, first)
	}
	if !ok {
		return facts, 0
	}
	return facts, noFault
}

// A member is a member of a list.
type member struct {
	item
	value    string // without the parameters
	behind   int64  // the window in the parameters
	isPolicy bool   // it is a quota, perhaps with a window
	leads    bool   // it is the first of its line
	closed   bool   // no quote is open at its end
}

// readList reads the members of a list, at most MaxMembers, by the grammar of the field's role.
// first is true for the first line of the field.
func (n *name) readList(facts []Fact, line string, first bool) (_ []Fact, bad int) {
	role, off, bad := n.Role, 0, noFault
	if n.kind == anchorKind {
		role = Quota
	}
	quotas := role == Quota || role == Policies
	for i := 0; off <= len(line); i++ {
		if i == MaxMembers {
			return facts, off
		}
		all, closed := cutMember(line[off:], quotas)
		m := member{leads: i == 0, closed: closed}
		m.read(all, quotas)
		ok := closed
		switch {
		case !quotas && (!closed || m.leads && m.value == ""): // a quote is open, or there is no number
			return facts, off
		case text.Trim(all) == "":
		case role == Policies:
			facts, ok = m.listed(facts)
		case role == Quota:
			facts, ok = m.quotaOrPolicy(facts, first)
		default:
			facts, ok = n.numberOfWindow(facts, &m)
		}
		if !ok && bad == noFault {
			bad = off
		}
		off += len(all) + 1
	}
	return facts, bad
}

// read reads the text of a member. quotas is true if it may be a quota.
func (m *member) read(s string, quotas bool) {
	value, params, _ := text.Cut(s, ';')
	m.value = text.Trim(text.Unquote(text.Trim(value)))
	m.readParams(params)
	m.behind = m.window
	m.isPolicy = quotas && m.readPolicy(m.value)
}

// listed appends a member of a list of policies (draft-06 Section 3.2). A word in such a list is the
// name of an algorithm, and is skipped. listed returns false for any other member that is no policy.
func (m *member) listed(facts []Fact) ([]Fact, bool) {
	if !m.isPolicy {
		return facts, text.Past(m.value, 0, text.Alpha) > 0
	}
	return append(facts, Fact{Role: Policies, item: m.item}), m.closed
}

// quotaOrPolicy appends a member of the field of the quota. Policies with a window come after a quota
// (drafts 00 to 03 Section 3.1). The quota is the first number of the first line, because other lines
// belong to other limiters. It returns false if the member is malformed.
func (m *member) quotaOrPolicy(facts []Fact, first bool) ([]Fact, bool) {
	behind := m.params != "" || m.window > 0
	if m.leads {
		behind = m.params != "" && !first
	}
	switch {
	case m.isPolicy && behind:
		return append(facts, Fact{Role: Policies, item: m.item}), m.closed
	case !m.leads && (m.params != "" || !isCount(m.value)): // ten;w=1 is no quota
		return facts, false
	}
	at := len(facts)
	facts, ok := readCount(facts, "", Quota, m.value)
	if len(facts) > at {
		facts[at].item = m.item
	}
	if m.behind > 0 {
		facts = appendWindow(facts, m.behind)
	}
	return facts, ok
}

// numberOfWindow appends a member of any other list. After the first number come the numbers of other
// windows. A member that repeats the first number has the window of the first. It returns false if the
// member is malformed.
func (n *name) numberOfWindow(facts []Fact, m *member) ([]Fact, bool) {
	ok := true
	switch {
	case m.leads && n.Role.time():
		facts = append(facts, Fact{Role: n.Role, Value: m.value})
	case m.leads, m.params == "" && isCount(m.value):
		if facts, ok = readCount(facts, "", n.Role, m.value); m.window > 0 {
			facts = appendWindow(facts, m.window)
		}
	case m.window == 0:
		ok = false
	case len(facts) > 0 && m.value == facts[0].Value:
		facts = appendWindow(facts, m.window)
	default:
		facts = append(facts, Fact{Role: n.Role, Value: m.value, item: item{window: m.window}})
	}
	return facts, ok
}

// appendWindow appends a window in seconds.
func appendWindow(facts []Fact, window int64) []Fact {
	return append(facts, Fact{Role: Window, Format: Seconds, Value: strconv.FormatInt(window, 10)})
}

// cutMember cuts the first member off a list. A comma between two digits is a part of a number. In a
// list of quotas it must also separate thousands, and no parameter may follow. ok is false if a quote is
// never closed.
func cutMember(line string, quota bool) (member string, ok bool) {
	const longest = 32 // of a number
	member, _, ok = text.Cut(line, ',')
	for end := len(member); isInNumber(line, end); end = len(member) {
		more, _, _ := text.Cut(line[end+1:], ',')
		next := line[:end+1+len(more)]
		if quota && (end > longest || !text.IsThousands(text.Trim(next))) {
			break
		}
		member = next
	}
	return member, ok
}

// isInNumber reports whether a comma is between two digits.
func isInNumber(line string, comma int) bool {
	return 0 < comma && comma < len(line)-1 && text.Is(line[comma-1], text.Digit) && text.Is(line[comma+1], text.Digit)
}

// readParams reads the parameters of a member.
func (m *item) readParams(params string) {
	m.params = params
	for n := 0; params != "" && n < MaxParams; n++ {
		var param string
		param, params, _ = text.Cut(params, ';')
		key, value, _ := strings.Cut(text.Trim(param), "=")
		value = text.Unquote(text.Trim(value))
		switch strings.ToLower(text.Trim(key)) {
		case "window":
			m.window, m.draft = parseWindow(value), draft00
		case "w":
			m.window, m.draft = parseWindow(value), draft03
		case "name": // Envoy
			if text.IsName(value) {
				m.name = value
			}
		}
	}
}

// readPolicy reads a quota, perhaps with a window (100/1h). It returns false if there is no number, if
// the number is negative, or if the window is unreadable.
func (m *item) readPolicy(value string) bool {
	count, window, over := cutOver(value)
	v, ok := text.ParseCount(count)
	if !ok || v.Neg {
		return false
	}
	if m.quota = v.Floor(); over {
		own := parseWindow(window)
		m.window = cmp.Or(m.window, own)
		return own > 0
	}
	return true
}

// cutOver cuts 600/15m, and 10 per 1 hour (Flask-Limiter). ok is false if there is neither a slash nor
// the word per.
func cutOver(value string) (count, over string, ok bool) {
	if count, over, ok = strings.Cut(value, " per "); !ok {
		count, over, ok = strings.Cut(value, "/")
	}
	return text.Trim(count), text.Trim(over), ok
}

// isPairs reports whether a value begins with a number before a colon: 100:1,1000:10 (Riot), or
// 5:10:60 with a penalty behind the window (Path of Exile).
func isPairs(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line[text.Past(line, 0, text.Digit):], " "), ":")
}

// readPairs reads numbers with their windows in seconds. If there are several pairs, the windows name
// the policies. It returns false if a pair has no window, or if there are too many pairs.
func (n *name) readPairs(facts []Fact, line string) ([]Fact, bool) {
	role, several, ok := cmp.Or(n.Role, Quota), strings.IndexByte(line, ',') >= 0, true
	for pair := range strings.SplitSeq(line, ",") {
		count, rest, _ := strings.Cut(pair, ":")
		window, _, _ := strings.Cut(rest, ":")
		w, isWindow := text.ParseNumber(text.Trim(window))
		if len(facts) > maxFacts || !isWindow {
			ok = false
			continue
		}
		policy := ""
		if several {
			policy = strconv.FormatInt(w.Ceil(), 10)
		}
		facts = append(facts, Fact{Policy: policy, Role: role, Value: text.Trim(count)},
			Fact{Policy: policy, Role: Window, Format: Seconds, Value: text.Trim(window)})
	}
	return facts, ok
}

// readCount reads the value of a quota, a remaining or used units: a number, or a pair (600/15m,
// 39/40). A quota may also be only a window (12h, AspNetCoreRateLimit). Without a role, 5/60 is
// used and quota (Hotstuff), and 60/1m is quota and window.
func readCount(facts []Fact, policy string, role Role, value string) ([]Fact, bool) {
	value = text.Trim(text.Unquote(text.Trim(value)))
	first, second, _ := cutOver(value)
	a, isPair := text.ParseCount(first)
	b, isCounted := text.ParseCount(second)
	switch {
	case role.time(), isCount(text.Trim(strings.TrimSuffix(value, "%"))), isNothing(value):
		return append(facts, Fact{Policy: policy, Role: role, Value: value}), true
	case role == Quota && parseWindow(value) > 0:
		return append(facts, Fact{Policy: policy, Role: Window, Value: value}), true
	case !isPair:
		return facts, false
	case role == None && isCounted && a.N <= b.N: // 100/60 is a quota and its window
		role = Used
	case role == None:
		role = Quota
	}
	other, ok := Fact{Policy: policy, Role: Window, Format: Seconds, Value: second}, parseWindow(second) > 0
	if role != Quota {
		second, _, _ = strings.Cut(second, "(") // 32/40 (Shopify), 18/5000 (api) (Salesforce)
		other = Fact{Policy: policy, Role: Quota, Value: text.Trim(second)}
		ok = isCount(other.Value)
	}
	if ok {
		facts = append(facts, Fact{Policy: policy, Role: role, Value: first}, other)
	}
	return facts, ok
}

// isPart reports whether a number is a part of the quota: 85%. n is the name of its field.
func (fact *Fact) isPart(n *name) bool {
	return (fact.Role == Used || fact.Role == Remaining) &&
		(max(fact.Format, n.Format) >= Fraction || strings.HasSuffix(fact.Value, "%"))
}

// readKeyed reads a value with a key. If the key is a word of field names, the word is the role of
// the value. Any other key names a policy, and the value has the role of the field.
func (n *name) readKeyed(facts []Fact, group, key string, said Row, value string) ([]Fact, bool) {
	if said.Role != None && !strings.Contains(value, "/") { // with a slash, the key is a name that looks like a word
		return append(facts, Fact{Policy: below(group, said.Policy), Role: said.Role, Format: said.Format, Value: value}), true
	}
	if n.Role == None {
		return facts, true
	}
	return readCount(facts, below(group, key), n.Role, value)
}

// parseWindow reads the length of a window in seconds: a number, a duration, or a word. It
// returns 0 for any other value, and for a window without a fixed length.
func parseWindow(s string) int64 {
	if v, ok := text.ParseCount(s); ok {
		return v.Ceil()
	}
	span, _ := text.ParseSpan(s)
	return span.Ceil()
}

// isRecord reports whether a value looks like a record (total=100; remaining=99), or like names
// with a number each: Microsoft.Compute/HighCostGet3Min;46 (Azure). The value is not empty.
func isRecord(s string) bool {
	if !text.Is(s[0], text.Alpha) {
		return false
	}
	key, _, ok := cutKey(s)
	if !ok {
		var number string
		key, number, _ = strings.Cut(s, ";")
		number, _, _ = strings.Cut(number, ",")
		ok = isCount(text.Trim(number))
	}
	return ok && strings.IndexByte(key, ' ') < 0
}

// cutKey cuts a part of a record at its first = or colon. ok is false if there is no key.
func cutKey(part string) (key, value string, ok bool) {
	key, value, ok = cutEither(part, '=', ':')
	if key = text.Trim(key); !ok || key == "" {
		return "", part, false
	}
	return key, text.Trim(value), true
}

// cutEither cuts a text at the first of two separators. ok is false if there is none.
func cutEither(s string, a, b byte) (head, tail string, ok bool) {
	for i := range len(s) {
		if s[i] == a || s[i] == b {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// readRecord reads a record. Its keys are words of field names, or the letters q, r, t and w. Any
// other key names a policy, and the value has the role of the field (Salesforce, Microsoft Dev
// Tunnels). A part without a key names a policy too (Auth0). After such a name, a part without a
// key is a number (IBM API Connect).
func (n *name) readRecord(facts []Fact, line string) ([]Fact, bool) {
	named, ok := "", true
	for parts := 0; line != ""; parts++ {
		part, rest, _ := cutEither(line, ',', ';')
		part, line = text.Trim(part), rest
		key, value, keyed := cutKey(part)
		said, valid := keyOf(key), true
		prose, isProse := readProse(facts, part)
		switch {
		case parts >= maxFacts:
			return facts, false
		case isProse:
			facts = prose
		case named != "" && isCount(part):
			facts = append(facts, Fact{Policy: named, Role: n.Role, Value: part})
		case !keyed, said.Role == Name:
			if value = text.Unquote(value); text.IsName(value) && !isCount(value) {
				named = value
			} else {
				valid = false
			}
		default:
			facts, valid = n.readKeyed(facts, named, key, said, text.Unquote(value))
		}
		ok = ok && valid
	}
	return facts, ok
}

// readProse reads Remaining: 394 Time until reset: 3589 (Pingdom). It also reads key:abc 22/2000
// reset=3530s (Eventbrite), where key is the name of the policy. The result ok is false if fewer
// than two words of the part have a key. A date is no prose: only its hour looks like a key.
func readProse(facts []Fact, part string) (_ []Fact, ok bool) {
	if strings.IndexByte(part, ' ') < 0 { // a fast path for nearly all parts
		return facts, false
	}
	policy, last, keys := "", "", 0
	for word := range strings.FieldsSeq(part) {
		key, value, keyed := cutKey(word)
		if keyed {
			keys++
		} else {
			key = last
		}
		last = ""
		switch said := keyOf(key); {
		case value == "":
			last = key
		case said.Role != None:
			facts = append(facts, Fact{Policy: policy, Role: said.Role, Format: Seconds, Value: value})
		case keyed:
			policy = key
		default:
			facts, _ = readCount(facts, policy, None, value)
		}
	}
	return facts, keys > 1
}

// readDictionary reads RateLimit: limit=100, remaining=50, reset=5 (draft-07 Section 3). This is a
// record in which limit and reset are required.
func (n *name) readDictionary(facts []Fact, line string) ([]Fact, bool) {
	facts, _ = n.readRecord(facts, line)
	var said uint // the roles, as bits
	for i := range facts {
		if v, isNumber := text.ParseNumber(facts[i].Value); isNumber && !v.Neg {
			said |= 1 << facts[i].Role
		}
	}
	if said>>Quota&1 == 0 || said>>Reset&1 == 0 {
		return nil, false
	}
	return facts[:min(len(facts), MaxMembers)], len(facts) <= MaxMembers
}

// usualKeys are the keys of draft-07, and keys of one letter. Some of these are from the current
// fields.
var usualKeys = map[string]Row{
	"limit": {Role: Quota}, "remaining": {Role: Remaining}, "reset": {Role: Reset},
	"q": {Role: Quota}, "r": {Role: Remaining}, "t": {Role: Reset, Format: Seconds}, "w": {Role: Window, Format: Seconds}, "b": {Role: Name},
}

// keyOf returns the meaning of a key in a record or a JSON object.
func keyOf(key string) (k Row) {
	if k, ok := usualKeys[key]; ok || len(key) > longestName { // a fast path for nearly all keys
		return k
	}
	var n name
	var room [maxWords]token
	said, first := sentence(room[:0], key)
	if policy := n.clause(nil, said[first:]); n.Role != Policies {
		k = Row{Role: n.Role, Format: n.Format, Policy: joinWords(policy)}
	}
	return k
}

// readJSON reads a JSON object (Trakt, Basecamp). Its keys are words of field names.
func (n *name) readJSON(facts []Fact, line string) ([]Fact, bool) {
	v, ok := parseJSON(line)
	object, _ := v.(map[string]any)
	named := ""
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if keyOf(key).Role == Name {
			named, _ = object[key].(string)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, isText := object[key].(string)
		if number, isNumber := object[key].(json.Number); isNumber {
			value, isText = number.String(), true
		}
		if said := keyOf(key); isText && said.Role != Name {
			facts, _ = n.readKeyed(facts, named, key, said, value) // {"minute": 6} under Remaining
		}
	}
	return facts, ok
}

// parseJSON reads a JSON object or array. ok is false if the text is malformed or too long.
func parseJSON(s string) (v any, ok bool) {
	if len(s) > maxJSON {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	ok = dec.Decode(&v) == nil
	return v, ok
}
