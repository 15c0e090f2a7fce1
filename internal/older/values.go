package older

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// Bounds of a field. RFC 9651 Sections 3.1 and 3.1.2 ask a parser of the current fields to
// support so many members and parameters.
const (
	MaxMembers = 1024
	MaxParams  = 256
	maxJSON    = 64 << 10
	maxDepth   = 8
)

// isCount reports whether a value is a number.
func isCount(s string) bool {
	_, ok := text.ParseCount(s)
	return ok
}

// isNothing reports whether a value is the word that stands in place of a number where
// there is no limit.
func isNothing(s string) bool { return strings.EqualFold(s, "unlimited") }

// below joins the name of a group of policies with the name of one of them.
func below(group, s string) string {
	switch {
	case s == "":
		return group
	case group == "":
		return s
	}
	return group[:min(len(group), maxGroup)] + "-" + s
}

// maxGroup is how much of the name of a group stands before that of each of its
// policies. A header can name a group once, and then a hundred thousand of these.
const maxGroup = 128

// noFault stands for the offset of unreadable text if all of the text could be read.
const noFault = -1

// read appends what a line of a field says, and returns the offset of what cannot be
// read, or noFault.
func (f *Field) read(facts []Fact, line string, first bool) (_ []Fact, bad int) {
	n := f.name
	ok := true
	switch {
	case n.row != nil && n.row.Read != nil:
		facts, ok = n.row.Read(nil, line)
	case n.role.number() && text.All(line, text.Digit): // as nearly all values
		facts = append(facts, Fact{Role: n.role, Value: line})
	case n.kind == waitKind: // nothing of the policy remains until then (NestJS) (no vendor case)
		if _, ok = parseMoment(line, n.format); ok {
			facts = append(facts, Fact{Role: Remaining, Value: "0"}, Fact{Role: Reset, Value: line})
		}
	case n.role == Name || n.role == Subname:
		facts = append(facts, Fact{Role: Name, Value: text.Unquote(line)})
	case f.columns != 0: // each member belongs to another policy
		for part := range strings.SplitSeq(line, separatorOf(line)) {
			facts = append(facts, Fact{Role: n.role, Value: text.Trim(part)})
		}
	case line[0] == '{':
		facts, ok = n.readJSON(facts, line)
	case !n.role.time() && isPairs(line):
		facts, ok = n.readPairs(facts, line)
	case isRecord(line):
		facts, ok = n.readRecord(facts, line)
	case n.role == Policies:
		return readItems(facts, Policies, line, first)
	case isNumbers(line):
		facts, ok = readNumbers(facts, n.role, line)
	case n.kind == looseKind && n.role == Quota && strings.IndexByte(line, '/') > 0: // 10/40 is used and quota (Gorgias)
		facts, ok = readCount(facts, None, line)
	case n.role == Quota || n.kind == anchorKind:
		return readItems(facts, Quota, line, first)
	default:
		return n.readMembers(facts, line)
	}
	if !ok {
		return facts, 0
	}
	return facts, noFault
}

// firstMember returns the first value of a time, without its parameters.
func firstMember(line string) string {
	n := name{role: Reset}
	facts, _ := n.readMembers(nil, line)
	if len(facts) == 0 {
		return ""
	}
	return facts[0].Value
}

// readMembers reads what remains, what is used, or a time: a value, and others with a
// window of their own, as in 99, 99;w=1, 0;w=60. A member that repeats the first one tells
// the window of the first.
func (n *name) readMembers(facts []Fact, line string) (_ []Fact, bad int) {
	if n.role.time() {
		single := !strings.ContainsAny(line, ";,") // as nearly all values
		if !single {                               // a date has a comma
			_, single = text.ParseTime(line)
		}
		if single {
			return append(facts, Fact{Role: n.role, Value: text.Unquote(line)}), noFault
		}
	}
	from := len(facts)
	for off := 0; off <= len(line) && len(facts) <= MaxMembers; {
		member, _, ok := text.Cut(line[off:], ',')
		for end := off + len(member); isThousands(line, end); end = off + len(member) {
			more, _, _ := text.Cut(line[end+1:], ',')
			member = line[off : end+1+len(more)]
		}
		value, params, _ := text.Cut(member, ';')
		value = text.Unquote(text.Trim(value))
		var m item
		m.readParams(params)
		switch {
		case !ok:
		case len(facts) == from && n.role.time():
			facts = append(facts, Fact{Role: n.role, Value: value})
		case len(facts) == from:
			if facts, ok = readCount(facts, n.role, value); len(line) == len(member) {
				facts = appendWindow(facts, m.window, ok)
			}
		case m.window == 0:
			ok = false
		case value == facts[from].Value:
			facts = appendWindow(facts, m.window, len(facts) == from+1)
		default:
			facts = append(facts, Fact{Role: n.role, Value: value, item: item{window: m.window}})
		}
		if !ok {
			return facts, off
		}
		off += len(member) + 1
	}
	return facts, noFault
}

// isThousands reports whether a comma is between two digits, and so may separate thousands.
func isThousands(line string, comma int) bool {
	return 0 < comma && comma < len(line)-1 && line[comma] == ',' && text.Is(line[comma-1], text.Digit) && text.Is(line[comma+1], text.Digit)
}

// Pairs: 100:1,1000:10 (Riot), or 5:10:60 with a penalty behind the window (Path of Exile).

// isPairs reports whether a value begins with a number before a colon.
func isPairs(line string) bool {
	rest := strings.TrimLeft(line[text.Skip(line, 0, text.Digit):], " ")
	return text.Is(line[0], text.Digit) && rest != "" && rest[0] == ':'
}

// readPairs reads numbers with their windows in seconds. If there are several, the window
// names the policy.
func (n *name) readPairs(facts []Fact, line string) ([]Fact, bool) {
	role, several, ok := cmp.Or(n.role, Quota), strings.IndexByte(line, ',') >= 0, true
	for pair := range strings.SplitSeq(line, ",") {
		count, rest, _ := strings.Cut(pair, ":")
		window, _, _ := strings.Cut(rest, ":")
		w, isWindow := text.ParseNumber(text.Trim(window))
		if len(facts) > 4*MaxMembers || !isWindow {
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

// readCount reads the value of a quota, a remaining, or what is used: a number, a
// pair (600/15m, 39/40), or for a quota a window alone (12h, of AspNetCoreRateLimit).
// Without a role, 5/60 is used and quota (Hotstuff), 60/1m quota and window.
func readCount(facts []Fact, role Role, value string) ([]Fact, bool) {
	value = text.Trim(text.Unquote(text.Trim(value)))
	if isCount(value) {
		return append(facts, Fact{Role: role, Value: value}), true
	}
	first, second, over := strings.Cut(value, "/")
	if a, ok := text.ParseCount(text.Trim(first)); ok && over {
		switch b, counted := text.ParseCount(text.Trim(second)); {
		case role != None:
		case counted && a.N <= b.N:
			role = Used
		default:
			role = Quota
		}
		other := Fact{Role: Window, Format: Seconds, Value: text.Trim(second)}
		ok := parseWindow(other.Value) > 0
		if role != Quota {
			second, _, _ = strings.Cut(second, "(") // 32/40 (Shopify), 18/5000 (api) (Salesforce)
			other = Fact{Role: Quota, Value: text.Trim(second)}
			ok = isCount(other.Value)
		}
		if ok {
			facts = append(facts, Fact{Role: role, Value: text.Trim(first)}, other)
		}
		return facts, ok
	}
	if role == Quota && parseWindow(value) > 0 {
		return append(facts, Fact{Role: Window, Value: value}), true
	}
	return facts, isNothing(value)
}

// parseWindow reads the length of a window in seconds: a number, a duration, or a word
// for it; 0 if it is none, or has no fixed length.
func parseWindow(s string) int64 {
	if v, ok := text.ParseCount(s); ok {
		return v.Ceil()
	}
	span, _ := text.ParseSpan(s)
	return span.Ceil()
}

// cutMember cuts the first member off a list of numbers.
func cutMember(line string) (member, rest string) {
	for i := range len(line) {
		if line[i] == ',' && !isThousands(line, i) {
			return text.Trim(line[:i]), line[i+1:]
		}
	}
	return text.Trim(line), ""
}

// isNumbers reports whether a value with a comma is a list of numbers. Of a longer one
// than is read only the beginning is looked at.
func isNumbers(line string) bool {
	if strings.IndexByte(line, ',') < 0 {
		return false // as nearly all values
	}
	for n := 0; line != "" && n <= MaxMembers; n++ {
		var number string
		if number, line = cutMember(line); !isCount(number) {
			return false
		}
	}
	return true
}

// readNumbers reads a list of numbers. One of them counts (see tally.heeds).
func readNumbers(facts []Fact, role Role, line string) ([]Fact, bool) {
	for n := 0; line != ""; n++ {
		if n == MaxMembers {
			return facts, false
		}
		var number string
		number, line = cutMember(line)
		facts = append(facts, Fact{Role: role, Value: number})
	}
	return facts, true
}

// Records: total=100; remaining=99, or HttpRequestRatePerPort:1499.

// isRecord reports whether a value looks like a record, or like names that have a number
// each: Microsoft.Compute/HighCostGet3Min;46 (Azure).
func isRecord(s string) bool {
	if s == "" || !text.Is(s[0], text.Alpha) {
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

// cutKey cuts a part of a record at its first = or colon.
func cutKey(part string) (key, value string, ok bool) {
	end := 0
	for end < len(part) && part[end] != '=' && part[end] != ':' {
		end++
	}
	if key = text.Trim(part[:end]); end == len(part) || key == "" {
		return "", part, false
	}
	return key, text.Trim(part[end+1:]), true
}

// readRecord reads a record. Its keys are the words of field names, or the letters
// q, r, t and w. Any other key names a policy, whose value has the role of the field
// (Salesforce, Microsoft Dev Tunnels); so does a part without one (Auth0), but behind a
// name it is a number (IBM API Connect).
func (n *name) readRecord(facts []Fact, line string) ([]Fact, bool) {
	named, ok := "", true
	for parts := 0; line != ""; parts++ {
		var part string
		part, line = cutPart(line)
		key, value, keyed := cutKey(part)
		said := keyOf(key)
		switch {
		case parts >= 4*MaxMembers:
			return facts, false
		case isProse(part):
			facts = readProse(facts, part)
		case isCount(part) && named == "":
			ok = false
		case isCount(part):
			facts = append(facts, Fact{Policy: named, Role: n.role, Value: part})
		case !keyed, said.role == Name:
			if value = text.Unquote(value); text.IsName(value) {
				named = value
			} else {
				ok = false
			}
		case said.role != None && !strings.Contains(value, "/"): // else it is a name that looks like a word
			facts = append(facts, Fact{Policy: below(named, said.policy), Role: said.role, Format: said.format, Value: text.Unquote(value)})
		case n.role.time():
			facts = append(facts, Fact{Policy: below(named, key), Role: n.role, Value: value})
		case n.role != None:
			var valid bool
			from := len(facts)
			facts, valid = readCount(facts, n.role, value)
			for i := from; i < len(facts); i++ {
				facts[i].Policy = below(named, key)
			}
			ok = ok && valid
		}
	}
	return facts, ok
}

// isProse reports whether a part of a record has several keys.
func isProse(part string) bool {
	if strings.IndexByte(part, ' ') < 0 { // as nearly all parts
		return false
	}
	keys := 0
	for word := range strings.FieldsSeq(part) {
		if key, _, ok := cutKey(word); ok && text.Is(key[0], text.Alpha) {
			keys++
		}
	}
	return keys > 1
}

// readProse reads Remaining: 394 Time until reset: 3589 (Pingdom), and key:abc 22/2000
// reset=3530s (Eventbrite), in which the first key is the name of the policy.
func readProse(facts []Fact, part string) []Fact {
	policy, last := "", ""
	for word := range strings.FieldsSeq(part) {
		key, value, keyed := cutKey(word)
		if !keyed {
			key = last
		}
		last = ""
		switch said := keyOf(key); {
		case value == "":
			last = key
		case said.role != None:
			facts = append(facts, Fact{Policy: policy, Role: said.role, Format: Seconds, Value: value})
		case keyed:
			policy = key
		default:
			from := len(facts)
			facts, _ = readCount(facts, None, value)
			for i := from; i < len(facts); i++ {
				facts[i].Policy = policy
			}
		}
	}
	return facts
}

// cutPart cuts the first part off a record.
func cutPart(line string) (part, rest string) {
	if end := strings.IndexAny(line, ",;"); end >= 0 {
		line, rest = line[:end], line[end+1:]
	}
	return text.Trim(line), rest
}

// readDictionary reads RateLimit: limit=100, remaining=50, reset=5 (draft-07 Section 3), a
// record in which limit and reset are required.
func (f *Field) readDictionary(facts []Fact) (_ []Fact, faults []Fault) {
	line := text.Trim(strings.Join(f.several(), ","))
	if line == "" {
		return nil, nil
	}
	facts, _ = f.name.readRecord(facts, line)
	var said uint // roles, as bits
	for i := range facts {
		if v, isNumber := text.ParseNumber(facts[i].Value); isNumber && !v.Neg {
			said |= 1 << facts[i].Role
		}
	}
	switch {
	case said>>Quota&1 == 0 || said>>Reset&1 == 0:
		return nil, []Fault{{Key: f.Key, Cause: Missing}}
	case len(facts) > MaxMembers:
		return facts[:MaxMembers], []Fault{{Key: f.Key, Cause: TooMany}}
	}
	return facts, nil
}

// A keyWord is what a key in a record, or in a JSON object, says.
type keyWord struct {
	role   Role
	format Format // of a time
	policy string
}

// keyOf returns what a key says.
func keyOf(key string) (k keyWord) {
	switch key {
	case "q":
		return keyWord{role: Quota}
	case "r":
		return keyWord{role: Remaining}
	case "t":
		return keyWord{role: Reset, format: Seconds}
	case "w":
		return keyWord{role: Window, format: Seconds}
	case "b":
		return keyWord{role: Name}
	}
	if len(key) > longestKey {
		return k
	}
	if t := tokenOf(key); t.kind == roleWord && t.role != Policies { // as nearly all keys
		return keyWord{role: t.role}
	}
	var n name
	var room [maxWords]token
	if policy := n.clause(nil, split(room[:0], key)); n.role != Policies {
		k = keyWord{n.role, n.format, joinWords(policy)}
	}
	return k
}

// longestKey is the length of a key whose words are read.
const longestKey = 64

// readJSON reads an object in JSON (Trakt, Basecamp), whose keys are the words of field
// names.
func (n *name) readJSON(facts []Fact, line string) ([]Fact, bool) {
	v, ok := parseJSON(line)
	object, _ := v.(map[string]any)
	named := ""
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if keyOf(key).role == Name {
			named, _ = object[key].(string)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, isText := object[key].(string)
		if number, isNumber := object[key].(json.Number); isNumber {
			value, isText = number.String(), true
		}
		switch said := keyOf(key); {
		case said.role == Name || !isText:
		case said.role == None && n.role != None: // {"minute": 6} under Remaining
			facts = append(facts, Fact{Policy: below(named, key), Role: n.role, Value: value})
		default:
			facts = append(facts, Fact{Policy: below(named, said.policy), Role: said.role, Format: said.format, Value: value})
		}
	}
	return facts, ok
}

// parseJSON reads an object or an array in JSON.
func parseJSON(s string) (v any, ok bool) {
	s = text.Trim(s)
	if len(s) > maxJSON {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.UseNumber()
	return v, dec.Decode(&v) == nil
}
