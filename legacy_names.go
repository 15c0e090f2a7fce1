package ratelimit

import (
	"cmp"
	"slices"
	"strings"
)

// The names of these fields are sentences in a tiny language:
//
//	[X-][vendor-]RateLimit[-policy…]-role[-unit]     X-RateLimit-Remaining-Minute
//	[X-][vendor-]RateLimit-role[-unit][-policy…]     X-Acme-Rate-Limit-Reset-Ms-Search
//	[X-]prefix-role[-unit]                           X-Acme-Remaining, beside X-Acme-Limit
//	[X-][vendor-]Retry-After[-unit]                  X-Acme-Retry-After-Ms
//
// The anchor is RateLimit in one word or two. The one word may be glued to the
// word before it (ReadRateLimit), and the first of two may not (Corporate-Limit is
// no anchor). The role may be glued to the anchor (RateLimitReset), to a policy
// (UserLimit) or to its unit (ResetMs). A stop word says that the field is about
// limits, and no limit.

// A meaning is what the name of a field says.
type meaning struct {
	kind    nameKind
	role    Role
	format  TimeFormat
	per     int64  // seconds of a time's unit that no TimeFormat is for, or 0
	rank    uint8  // of fields for one role the lowest counts
	policy  string // in lower case, "" if the name has none
	seconds bool   // the policy begins with the length of its window
	enough  bool   // see word
	window  Seconds
	unit    Unit
	read    func([]Fact, string) ([]Fact, bool)
	family  string // the key up to the anchor or the role; or the name of a dialect
	order   order
}

// A nameKind is what can be expected of a value.
type nameKind uint8

const (
	roleName   nameKind = iota // one value of a role
	anchorName                 // no more than the anchor: RateLimit, X-RateLimit
	plainName                  // a policy without a role: X-RateLimit-Minute
	waitName                   // the word retry: how long to wait, no limit
	recordName                 // a state, which may be told by a record of numbers
	tailName                   // the second half of a policy's name (Zoom)
)

// An order says which fields go before others, where they say different things
// of one policy.
type order int8

const (
	ownOrder       order = iota // of a caller's dialect
	draftOrder                  // RateLimit-*
	xOrder                      // X-RateLimit-*
	dashedOrder                 // X-Rate-Limit-*, Rate-Limit-*
	vendorOrder                 // any other prefix before the anchor
	exceptionOrder              // known by its whole name
	looseOrder                  // without an anchor

	noOrder order = -1
)

// main reports whether fields belong to the families that are read together.
func (o order) main() bool { return draftOrder <= o && o <= dashedOrder }

// wordShift is how far hasAnchor moves on, less than five, by the last byte that
// it looks at: the distance of that byte from the end of "limit".
var wordShift = [256]uint8{'l': 1, 'L': 1, 'i': 4, 'I': 4, 'm': 3, 'M': 3}

// hasAnchor reports whether a key holds the words rate and limit, one behind the
// other. Every response has some twenty keys without, so it is made for speed: it
// looks at every fifth byte (the algorithm of Boyer, Moore and Horspool).
func hasAnchor(key string) bool {
	const limit, rate = "limit", "rate"
	for i := len(rate+limit) - 1; i < len(key); i += len(limit) - int(wordShift[key[i]]) {
		if key[i]|0x20 != 't' || !strings.EqualFold(key[i-4:i+1], limit) {
			continue
		}
		end := i - 4
		dashed := isDash(key[end-1])
		if dashed {
			end--
		}
		if start := end - len(rate); start >= 0 && strings.EqualFold(key[start:end], rate) && (!dashed || start == 0 || isDash(key[start-1])) {
			return true
		}
	}
	return false
}

// isDash reports whether a byte may stand between two words.
func isDash(b byte) bool { return b == '-' || b == '_' }

// maxWords is how many words of a key are looked at; the last holds all behind.
const maxWords = 16

// split cuts a key into words, in buf.
func split(buf *[maxWords]word, key string) []word {
	dash := "-"
	if !strings.Contains(key, dash) {
		dash = "_" // HTTP_X_RATELIMIT_LIMIT
	}
	last := 0
	for text, rest, more := strings.Cut(key, dash); more && last < maxWords-1; text, rest, more = strings.Cut(key, dash) {
		buf[last], key = wordOf(text), rest
		last++
	}
	buf[last] = wordOf(key)
	return buf[:last+1]
}

// beforeSentence is how many words stand before the sentence: X, or HTTP and X.
func beforeSentence(s []word) (n int) {
	if s[0].is("http") {
		n = 1
	}
	if len(s) > n+1 && s[n].is("x") {
		return n + 1
	}
	return 0
}

// An anchor is where a sentence has the word RateLimit, from the word first to
// behind. Other words may be glued to it.
type anchor struct {
	first, behind int
	end           int // of the anchor, in bytes of the key
	before, after string
}

// findAnchor finds the first anchor.
func findAnchor(s []word) (a anchor, ok bool) {
	const whole = "ratelimit"
	start := 0
	for i, w := range s {
		if at := indexFold(w.text, whole); at >= 0 {
			end := at + len(whole)
			a = anchor{i, i + 1, start + end, w.text[:at], w.text[end:]}
			if strings.EqualFold(a.after, "s") {
				a.after = ""
			}
			return a, true
		}
		end := start + len(w.text)
		if isAnchor(s[i:]) {
			return anchor{first: i, behind: i + 2, end: end + len("-limit")}, true
		}
		start = end + 1
	}
	return a, false
}

// isAnchor reports whether a sentence begins with the anchor in two words.
func isAnchor(s []word) bool {
	return len(s) > 1 && s[0].is("rate") && (s[1].is("limit") || s[1].is("limits"))
}

// indexFold is strings.Index without case.
func indexFold(s, lower string) int {
	for i := 0; i+len(lower) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(lower)], lower) {
			return i
		}
	}
	return -1
}

// joinWords joins the words of a policy's name, in lower case.
func joinWords(words []string) string { return lowerCase(strings.Join(words, "-")) }

// parseKey returns what a key says that has an anchor, or asks for a wait.
func parseKey(key string) (m meaning, ok bool) {
	if !isToken(key) { // a header made by hand may have any key
		return m, false
	}
	var buf [maxWords]word
	s := split(&buf, key)
	if at := slices.IndexFunc(s, func(w word) bool { return w.class == retryWord }); at >= 0 {
		m, ok = parseWait(s, at)
		return m, ok && !strings.EqualFold(key, retryAfterKey)
	}
	a, ok := findAnchor(s)
	if !ok || a.first > 0 && s[a.first-1].class == rateWord {
		return m, false
	}
	var few [maxWords + 1]string
	policy := m.prefix(few[:0], s, a)
	m.family = key[:a.end]
	said := s[a.behind:]
	switch _, known := unglue(nil, a.after); {
	case a.after == "":
	case strings.EqualFold(a.after, "bysize"): // Mistral
		m.unit = "tokens"
	case known: // RateLimitRemaining
		said = s[a.behind-1:]
		said[0] = wordOf(a.after)
	default:
		return m, false
	}
	if len(said) == 0 {
		m.kind = anchorName
	} else if policy, ok = m.clause(policy, said); !ok {
		return m, false
	}
	m.policy = joinWords(policy)
	return m, true
}

// parseWait reads a key whose word at an index is retry. Units of time follow; if
// retry is the first word, a policy may follow too: Retry-After-NAME.
func parseWait(s []word, at int) (m meaning, isTime bool) {
	m = meaning{kind: waitName, format: TimeSeconds, family: retryAfterKey, order: looseOrder}
	_, isTime = findAnchor(s[:at])
	isTime = isTime || s[at].is("retryafter")
	var few [maxWords]string
	policy := few[:0]
	for _, w := range s[at+1:] {
		switch {
		case w.class == unitWord && len(policy) == 0:
			m.in(w)
			isTime = true
		case w.class == stopWord || at > 0: // X-Retry-Count
			return m, false
		default:
			policy = append(policy, w.text)
		}
	}
	m.policy = joinWords(policy)
	return m, isTime
}

// in sets the unit of a time.
func (m *meaning) in(w word) {
	if w.format != TimeGuess {
		m.format, m.per = w.format, w.per
	}
}

// prefix reads what stands before the anchor: the order of the family, and the
// words that name its policies, which are neither X nor a vendor's.
func (m *meaning) prefix(policy []string, s []word, a anchor) []string {
	first := beforeSentence(s)
	switch {
	case a.first > first || a.before != "":
		m.order = vendorOrder
	case a.behind > a.first+1:
		m.order = dashedOrder
	case first > 0:
		m.order = xOrder
	default:
		m.order = draftOrder
	}
	for _, w := range s[first:a.first] {
		policy = m.vendor(policy, w.text)
	}
	return m.vendor(policy, a.before)
}

// vendor reads one word before the anchor.
func (m *meaning) vendor(policy []string, s string) []string {
	if v, ok := vendorOf(s); ok {
		m.unit, m.format = v.unit, v.format
	} else if s != "" {
		policy = append(policy, s)
	}
	return policy
}

// clause reads the words behind the anchor: role, unit and policy. It appends the
// words of the policy, and returns false if the field is no limit.
func (m *meaning) clause(policy []string, said []word) (_ []string, ok bool) {
	var buf [2 * maxWords]word
	said = spread(buf[:0], said)
	for i, w := range said {
		switch {
		case w.class == stateWord && len(said) == 1:
			m.kind = recordName
			return policy, true
		case (w.class == stopWord || w.class == stateWord) && !isAnchor(said[i:]): // some repeat the anchor
			return nil, false
		}
	}
	at, part := roleAt(said)
	if at >= 0 {
		m.role, m.rank, m.enough = said[at].role, said[at].rank, said[at].enough
	} else if m.kind = plainName; has(said, labelWord) {
		return nil, false
	}
	if onlyUnits(said, at) {
		switch m.role {
		case RoleRemaining: // what remains of a time is a reset
			m.role = RoleReset
		case RoleQuota, RoleUsed: // other numbers have no such unit
			return nil, false
		}
	}
	isTime := m.role == RoleReset || m.role == RoleWindow
	for i, w := range said {
		switch {
		case i == at:
			m.in(w)
			if part != "" {
				policy = append(policy, part)
			}
		case w.class == emptyWord || w.text == "" || at >= 0 && said[at].covers(w, i-at):
		case w.class == unitWord && isTime:
			m.in(w)
		default:
			if len(policy) == 0 {
				m.seconds = all(w.text, digit)
			}
			policy = append(policy, w.text)
		}
	}
	return policy, true
}

// covers reports whether another value word adds nothing to the role:
// Remaining-Count, Limit-Window, Window-Reset, Until-Reset.
func (role *word) covers(w word, offset int) bool {
	switch {
	case role.role == RoleWindow:
		return w.role == RoleQuota
	case role.role == RoleReset && offset < 0:
		return w.role == RoleReset || w.role == RoleWindow
	case role.role == RoleReset && offset == 1 && w.is("limit"): // Refresh-Limit
		return true
	}
	return w.role == RoleUsed
}

// has reports whether one of the words is of a class.
func has(said []word, class wordClass) bool {
	return slices.ContainsFunc(said, func(w word) bool { return w.class == class })
}

// onlyUnits reports whether units stand next to the role, and nothing else.
func onlyUnits(said []word, role int) (only bool) {
	for i, w := range said {
		switch {
		case i == role || w.class == emptyWord:
		case w.class == unitWord:
			only = true
		default:
			return false
		}
	}
	return only
}

// roleAt returns the index of the word that is the role, and the policy if one is
// glued to it. It is the reset behind seconds, else the last word that is no unit,
// else the first, else a role glued to the last word, else the only value word in
// between. In Remaining-Quota and Quota-Remaining it is remaining. A title is the
// role only if there are no words but titles.
func roleAt(said []word) (at int, part string) {
	last := len(said) - 1
	for last > 0 && said[last].class == unitWord {
		last--
	}
	first := said[0]
	isSpan := first.class == unitWord && first.format != TimeGuess
	if isSpan { // Seconds-Until-Reset-Quota
		for at, w := range slices.Backward(said) {
			if w.role == RoleReset {
				return at, ""
			}
		}
	}
	switch {
	case said[last].class == valueWord && !first.outweighs(said[last]):
		return last, ""
	case first.class == valueWord && said[1].class == valueWord && said[1].rank < first.rank: // Usage-Limit-10s
		return 1, ""
	case first.class == valueWord:
		return 0, ""
	case isSpan && last == 0: // X-RateLimit-After
		said[0].class, said[0].role = valueWord, RoleReset
		return 0, ""
	case said[last].class == titleWord || said[last].class == listWord:
		if slices.ContainsFunc(said, func(w word) bool { return w.class != titleWord && w.class != listWord }) {
			return -1, ""
		}
		return last, ""
	}
	if part, w := glued(said[last].text); w.class == valueWord {
		said[last] = w
		return last, part
	}
	isValue := func(w word) bool { return w.class == valueWord }
	at = slices.IndexFunc(said, isValue)
	if slices.ContainsFunc(said[at+1:], isValue) {
		return -1, ""
	}
	return at, ""
}

// outweighs reports whether the first word is the role, and not the last, where
// both could be. What remains goes before its quota, and a word that is used for a
// role alone before one that has other uses. A window after a quota is a window.
func (first *word) outweighs(last word) bool {
	if first.class != valueWord || first.role == last.role || first.role == RoleQuota && last.role == RoleWindow {
		return false
	}
	return last.role == RoleQuota && last.rank >= first.rank || first.rank < last.rank
}

// gluedRoles are the roles that may be glued to a policy's name, as in UserLimit.
// Shorter words end too many others (focused, cleft).
var gluedRoles = [...]string{"remaining", "limit", "reset", "quota", "usage"}

// glued returns the role at the end of a word, and the policy's part of the word.
func glued(s string) (policy string, w word) {
	for _, role := range gluedRoles {
		if n := len(s) - len(role); n >= 2 && strings.EqualFold(s[n:], role) {
			return s[:n], wordOf(s[n:])
		}
	}
	return "", word{}
}

// spread appends words to a list, and cuts those that consist of known words, with
// a role among them: RemainingPerMinute, ResetInSeconds, MaxRequests.
func spread(list, words []word) []word {
	for _, w := range words {
		if parts, _ := unglue(list, w.text); has(parts[len(list):], valueWord) {
			list = parts
		} else {
			list = append(list, w)
		}
	}
	return list
}

// longestGlued is the length of the longest word that is cut into others.
const longestGlued = 24

// unglue appends the known words that a text consists of, if it does. It prefers
// long ones.
func unglue(list []word, s string) (_ []word, ok bool) {
	if len(s) > longestGlued {
		return list, false
	}
	var dead uint32
	return unglueFrom(list, s, 0, &dead)
}

// unglueFrom is unglue from an index on. The bit of an index in dead says that no
// known words begin there, so that nothing is looked up twice.
func unglueFrom(list []word, s string, from int, dead *uint32) (_ []word, ok bool) {
	if from == len(s) || *dead>>from&1 != 0 {
		return list, from == len(s)
	}
	for to := min(from+longestWord, len(s)); to >= from+2; to-- {
		if w := wordOf(s[from:to]); w.class != otherWord || w.counts || w.isWindow() {
			if all, ok := unglueFrom(append(list, w), s, to, dead); ok {
				return all, true
			}
		}
	}
	*dead |= 1 << from
	return list, false
}

// The fields of ip-api, which tell no more by their words than X does.
const remainingOfIPAPI, resetOfIPAPI = "X-Rl", "X-Ttl"

// parseLoose reads a key without an anchor. It counts only if another field of the
// same policy says more.
func parseLoose(key string) (m meaning, ok bool) {
	switch {
	case strings.EqualFold(key, remainingOfIPAPI):
		return meaning{role: RoleRemaining, family: "ip-api", order: looseOrder}, true
	case strings.EqualFold(key, resetOfIPAPI):
		return meaning{role: RoleReset, format: TimeSeconds, family: "ip-api", order: looseOrder}, true
	}
	var buf [maxWords]word
	s := split(&buf, key)
	first := beforeSentence(s)
	said := s[first:]
	if !isToken(key) || has(said, retryWord) || has(said, thingWord) {
		return m, false
	}
	var few [maxWords]string
	policy, ok := m.clause(few[:0], said)
	if !ok || !m.role.counted() && m.role != RoleWindow || len(policy) == 0 && first == 0 {
		return m, false
	}
	if (has(said, labelWord) || m.rank > 0) && !counted(policy) || len(policy) > 0 && isPlural(policy[len(policy)-1]) {
		return m, false
	}
	m.enough = m.enough || slices.ContainsFunc(said, func(w word) bool { return w.asked })
	m.policy, m.order = named(policy), looseOrder
	m.family = cmp.Or(strings.TrimSuffix(key[:len(key)-len(s[len(s)-1].text)], "-"), m.policy)
	return m, true
}

// named joins the words of a policy without an anchor. It leaves out those that
// only say that there is a quota, and, if another tells the window, that it is one
// of requests. A word may end in quota (DayLimit).
func named(policy []string) string {
	var few [maxWords]string
	said := few[:0]
	windowed := slices.ContainsFunc(policy, func(part string) bool { return windowOfPart(part).ok })
	for _, part := range policy {
		if name, w := glued(part); w.role == RoleQuota {
			part = name
		}
		if w := wordOf(part); w.role != RoleQuota && !(windowed && w.asked) {
			said = append(said, part)
		}
	}
	if len(said) == 0 {
		said = policy
	}
	return joinWords(said)
}

// counted reports whether one of the words says that requests are counted.
func counted(policy []string) bool {
	return slices.ContainsFunc(policy, func(part string) bool {
		return wordOf(part).counts || windowOfPart(part).ok
	})
}

// isPlural reports whether a word looks like the plural of things whose rate is
// not limited: Photos, Projects.
func isPlural(s string) bool {
	w, n := wordOf(s), len(s)
	return n >= 4 && s[n-1]|0x20 == 's' && strings.IndexByte("aius", s[n-2]|0x20) < 0 && !w.counts && w.role == RoleNone && !windowOfPart(s).ok
}
