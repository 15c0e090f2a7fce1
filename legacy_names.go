package ratelimit

import (
	"slices"
	"strings"
)

// The names of these fields are sentences in a tiny language:
//
//	[X-][vendor-]RateLimit[-policy…]-role[-unit]     X-RateLimit-Remaining-Minute
//	[X-][vendor-]RateLimit-role[-unit][-policy…]     X-Acme-Rate-Limit-Reset-Ms-Search
//	[X-]prefix-role[-unit]                           X-Acme-Remaining, beside X-Acme-Limit
//
// The anchor is RateLimit in one word or two. The one word may be glued to the word
// before it (ReadRateLimit; not the first of two, as in Corporate-Limit), and the role to a policy (UserLimit) or to its unit
// (ResetMs). A stop word says that the field is about limits, and no limit.

// A meaning is what the name of a field says.
type meaning struct {
	kind     nameKind
	role     Role
	format   TimeFormat
	per      int64  // seconds of a time's unit that no TimeFormat is for, or 0
	rank     uint8  // of fields for one role the lowest counts
	policy   string // in lower case, "" if the name has none
	seconds  bool   // the policy begins with the length of its window
	allotted bool   // the role is told by a word that says enough
	window   Seconds
	unit     Unit
	read     func([]Fact, string) ([]Fact, bool)
	family   string // the key up to the anchor or the role; or the name of a dialect
	order    order
}

// A nameKind is what can be expected of a value.
type nameKind uint8

const (
	roleName   nameKind = iota // one value of a role
	anchorName                 // no more than the anchor: RateLimit, X-RateLimit
	plainName                  // a policy without a role: X-RateLimit-Minute
	waitName                   // the word retry: how long to wait, no limit
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

// isAllotted reports whether a word says that what is given is a quota. Next to
// another that says how much is used, it needs none that says what remains
// (Mashery).
func isAllotted(s string) bool {
	return strings.EqualFold(s, "allotted") || strings.EqualFold(s, "alloted")
}

// isDash reports whether a byte may stand between two words.
func isDash(b byte) bool { return b == '-' || b == '_' }

// mayRemain reports whether a key without an anchor may say what remains of
// something, by its last word or the first behind X.
func mayRemain(key string) bool {
	last := key[strings.LastIndexByte(key, '-')+1:]
	if wordOf(last).role == RoleRemaining || isAllotted(last) || strings.EqualFold(key, "X-Rl") {
		return true
	}
	_, rest, _ := strings.Cut(key, "-")
	first, _, _ := strings.Cut(rest, "-")
	return wordOf(first).role == RoleRemaining
}

// mayAsk reports whether a key may ask for a wait in place of Retry-After: it ends
// in one of the words that such keys end in, or goes on behind Retry-After.
func mayAsk(key string) bool {
	const wait, retry = "retry-after", "retry"
	n := len(key)
	if n < len("Retry-In") || n == len(wait) && strings.EqualFold(key, wait) {
		return false
	}
	switch string([]byte{key[n-2] | 0x20, key[n-1] | 0x20}) {
	case "er", "ms", "ds", "is", "ec", "cs", "in", "at": // after, ms, seconds, millis, sec, secs, in, at
		return indexFold(key, retry) >= 0
	}
	return n > len(wait) && strings.EqualFold(key[:len(wait)], wait)
}

// parseWait returns what a key without an anchor says that asks for a wait:
// [X-][vendor-]Retry-After[-unit], or Retry-After-NAME, which is about a policy.
func parseWait(key string) (m meaning, ok bool) {
	if !isToken(key) {
		return m, false
	}
	s := split(key)
	at := 0
	for at < s.n && wordOf(s.word(at)).class != retryWord {
		at++
	}
	if at == s.n {
		return m, false
	}
	m = meaning{kind: waitName, format: TimeSeconds, family: key[:s.ends[min(at+1, s.n-1)]], order: looseOrder}
	var p phrase
	units := 0
	for i := at + 1; i < s.n; i++ {
		w := wordOf(s.word(i))
		switch {
		case w.class == unitWord && p.n == 0:
			m.units([]word{w})
			units++
		case w.class == stopWord || at > 0 || units == 0:
			return m, false // X-Retry-Count
		default:
			p.add(s.word(i))
		}
	}
	m.policy = p.text()
	return m, units > 0 || strings.EqualFold(s.word(at), "retryafter")
}

// A wordClass is what a word is in the language.
type wordClass uint8

const (
	otherWord wordClass = iota // a part of a policy's name
	valueWord                  // the role of a number or a time
	titleWord                  // the role of a policy's name
	listWord                   // the role of Integer policies
	unitWord                   // of a time
	emptyWord                  // says nothing: per, this
	retryWord                  // how long to wait
	labelWord                  // part of a policy's name next to a role, else a stop word
	stopWord                   // the field is no limit
)

// A word is what is known of a word.
type word struct {
	class  wordClass
	role   Role
	rank   uint8 // of words for one role, the lowest counts; it is 0 if the role is clear without an anchor
	format TimeFormat
	per    int64
}

const longestWord = 16 // of those below

// wordOf returns what is known of a word. Letters count in any case.
func wordOf(s string) word {
	var buf [longestWord]byte
	// Each word is also used for other things somewhere; testdata/lookalikes.json
	// has the fields that it must not turn into limits.
	switch string(toLower(&buf, s)) {
	case "limit", "limits", "quota":
		return word{class: valueWord, role: RoleQuota}
	case "max", "maximum", "total", "capacity", "allowed", "allowance", "allotted", "alloted", "allotment", "ceiling", "lim":
		return word{class: valueWord, role: RoleQuota, rank: 1}
	case "remaining", "remain", "remains", "left":
		return word{class: valueWord, role: RoleRemaining}
	case "available", "avail", "rem":
		return word{class: valueWord, role: RoleRemaining, rank: 1}
	case "used", "usage":
		return word{class: valueWord, role: RoleUsed}
	case "observed", "count", "current", "consumed", "spent":
		return word{class: valueWord, role: RoleUsed, rank: 1}
	case "reset", "resets":
		return word{class: valueWord, role: RoleReset}
	case "next", "clear", "renew", "renews", "renewal", "refresh", "refreshes", "refill", "expiry", "expires", "expire", "expiration", "ends", "until":
		return word{class: valueWord, role: RoleReset, rank: 1}
	case "window", "interval", "period", "duration", "timeframe":
		return word{class: valueWord, role: RoleWindow, rank: 1}
	case "name":
		return word{class: titleWord, role: RoleName}
	case "bucket", "resource", "category", "group":
		return word{class: titleWord, role: RoleName, rank: 1}
	case "scope":
		return word{class: titleWord, role: RoleName, rank: 2}
	case "policy", "policies":
		return word{class: listWord, role: RolePolicies}
	case "ms", "msec", "millis", "milliseconds":
		return word{class: unitWord, format: TimeMillis}
	case "sec", "secs", "seconds", "after", "in", "ttl":
		return word{class: unitWord, format: TimeSeconds}
	case "minutes", "mins":
		return word{class: unitWord, format: TimeSeconds, per: 60}
	case "hours":
		return word{class: unitWord, format: TimeSeconds, per: 3600}
	case "at", "date", "time", "timestamp", "datetime", "epoch", "unix", "utc", "gmt", "iso":
		return word{class: unitWord}
	case "per", "this":
		return word{class: emptyWord}
	case "retry", "retryafter":
		return word{class: retryWord}
	case "url", "uri", "link", "docs", "documentation", "help", "info", "message", "reason", "warning", // texts
		"enabled", "disabled", "active", "exceeded", "reached", "hit", "nearlimit", "overlimit", "over", "near", "exempt", "bypass",
		"whitelisted", "blocked", "banned", "throttled", "limited", "ratelimited", "status", "state", "error", "problem", "unlimited", // states
		"type", "version", "region", "mode", "algorithm", "strategy", "source", "field", // kinds
		"cost", "costs", "request", "requested", "currentrequest", "increment", "rate", "fillrate", "delay", "metrics", // costs of one request
		"percent", "percentage", "utilization", "ratio": // parts
		return word{class: stopWord}
	case "key", "id", "ip", "user", "client", "account", "plan", "tier", "rule", "match", "matched":
		return word{class: labelWord}
	}
	return word{}
}

// toLower returns s in lower case, in buf; nothing if it is too long for one of
// the words here.
func toLower(buf *[longestWord]byte, s string) []byte {
	if len(s) > len(buf) {
		return nil
	}
	for i := range len(s) {
		buf[i] = s[i]
		if is(s[i], alpha) {
			buf[i] |= 0x20
		}
	}
	return buf[:len(s)]
}

// suffixRoles are the roles that are glued to the end of a policy's name, as in
// UserLimit. Shorter ones end too many other words (focused, cleft).
var suffixRoles = [...]string{"remaining", "limit", "reset", "quota", "usage"}

// glued returns the role at the end of a word, or at the beginning with a unit
// behind it, and the policy's part of the word.
func glued(s string) (policy string, w word) {
	for _, suffix := range suffixRoles {
		if n := len(s) - len(suffix); n >= 2 && strings.EqualFold(s[n:], suffix) {
			return s[:n], wordOf(s[n:])
		}
	}
	for _, prefix := range [...]string{"reset", "window"} {
		if len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
			if unit := wordOf(s[len(prefix):]); unit.class == unitWord {
				w = wordOf(prefix)
				w.format, w.per = unit.format, unit.per
				return "", w
			}
		}
	}
	return "", word{}
}

// maxWords is how many words of a key are looked at; the last holds all behind.
const maxWords = 16

// A sentence is a key in words.
type sentence struct {
	key  string
	n    int
	ends [maxWords]int // a word begins behind the end of that before it, and the dash
}

func split(key string) sentence {
	s := sentence{key: key}
	dash := byte('-')
	if strings.IndexByte(key, dash) < 0 {
		dash = '_' // HTTP_X_RATELIMIT_LIMIT
	}
	for i := range len(key) {
		if key[i] == dash && s.n < maxWords-1 {
			s.ends[s.n] = i
			s.n++
		}
	}
	s.ends[s.n] = len(key)
	s.n++
	return s
}

func (s *sentence) word(i int) string {
	start := 0
	if i > 0 {
		start = s.ends[i-1] + 1
	}
	return s.key[start:s.ends[i]]
}

// prefixed is how many words stand before the sentence: X, or HTTP and X.
func (s *sentence) prefixed() (n int) {
	if s.n > 2 && strings.EqualFold(s.word(0), "http") {
		n = 1
	}
	if s.n > n+1 && strings.EqualFold(s.word(n), "x") {
		return n + 1
	}
	return 0
}

// repeats reports whether the word is the first of rate-limit, as in a policy
// that repeats the anchor.
func (s *sentence) repeats(i int) bool {
	return i+1 < s.n && strings.EqualFold(s.word(i), "rate") && strings.EqualFold(s.word(i+1), "limit")
}

// An anchor is where a sentence has the word RateLimit, from the word first to
// behind. Other words may be glued to it.
type anchor struct {
	first, behind int
	before, after string
}

// anchor finds the first anchor.
func (s *sentence) anchor() (a anchor, ok bool) {
	const whole, rate = "ratelimit", "rate"
	for i := range s.n {
		w := s.word(i)
		if at := indexFold(w, whole); at >= 0 {
			a = anchor{i, i + 1, w[:at], w[at+len(whole):]}
			if strings.EqualFold(a.after, "s") {
				a.after = ""
			}
			return a, true
		}
		if i+1 < s.n && strings.EqualFold(w, rate) {
			if next := s.word(i + 1); strings.EqualFold(next, "limit") || strings.EqualFold(next, "limits") {
				return anchor{first: i, behind: i + 2}, true
			}
		}
	}
	return a, false
}

// indexFold is strings.Index without case.
func indexFold(s, lower string) int {
	for i := 0; i+len(lower) <= len(s); i++ {
		if s[i]|0x20 == lower[0] && strings.EqualFold(s[i:i+len(lower)], lower) {
			return i
		}
	}
	return -1
}

// A phrase is the words of a policy's name.
type phrase struct {
	parts [maxWords + 1]string
	n     int
}

func (p *phrase) add(s string) {
	if s != "" && p.n < len(p.parts) {
		p.parts[p.n] = s
		p.n++
	}
}

// text joins the words, in lower case.
func (p *phrase) text() string {
	switch p.n {
	case 0:
		return ""
	case 1:
		return lowerCase(p.parts[0])
	}
	return strings.ToLower(strings.Join(p.parts[:p.n], "-"))
}

// usualNames are those of policies in most responses.
var usualNames = [...]string{"requests", "tokens", "second", "minute", "hour", "day", "daily", "month"}

// lowerCase is strings.ToLower. The usual names cost no allocation.
func lowerCase(s string) string {
	var buf [longestWord]byte
	lower := toLower(&buf, s)
	for _, name := range usualNames {
		if string(lower) == name {
			return name
		}
	}
	return strings.ToLower(s)
}

// parseKey returns what a key with an anchor says.
func parseKey(key string) (m meaning, ok bool) {
	if !isToken(key) { // a header made by hand may have any key
		return m, false
	}
	s := split(key)
	a, ok := s.anchor()
	if !ok {
		return m, false
	}
	if a.first > 0 && isRate(s.word(a.first-1)) {
		return m, false
	}
	var p phrase
	m.prefix(&s, a, &p)
	ok = m.clause(&s, a, &p)
	m.policy = p.text()
	return m, ok
}

// isRate reports whether a word tells of a rate that is not one of requests.
func isRate(s string) bool {
	var buf [longestWord]byte
	switch string(toLower(&buf, s)) {
	case "bit", "baud", "frame", "refresh", "sample", "sampling", "heart", "interest", "exchange", "tax":
		return true
	}
	return false
}

// prefix reads what stands before the anchor: the family, and a name for its
// policies unless it is X or a vendor's.
func (m *meaning) prefix(s *sentence, a anchor, p *phrase) {
	first := s.prefixed()
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
	m.family = s.key[:s.ends[a.behind-1]]
	for i := first; i < a.first; i++ {
		m.vendor(s.word(i), p)
	}
	m.vendor(a.before, p)
}

// vendor reads a word before the anchor.
func (m *meaning) vendor(s string, p *phrase) {
	if v, ok := vendorOf(s); ok {
		m.unit, m.format = v.unit, v.format
		return
	}
	p.add(s)
}

// A vendor is a word before the anchor that names nobody's policy.
type vendor struct {
	unit   Unit
	format TimeFormat // of small resets
}

// vendorOf returns what is known of a vendor by its prefix. Any other word names
// the policies of its family.
func vendorOf(s string) (v vendor, ok bool) {
	var buf [longestWord]byte
	switch string(toLower(&buf, s)) {
	case "sib", "ogw", "contentful", "zendesk": // Brevo, Lark
		return vendor{format: TimeSeconds}, true
	case "ai": // Kong, APISIX
		return vendor{unit: "tokens", format: TimeSeconds}, true
	case "gw": // KuCoin
		return vendor{format: TimeMillis}, true
	case "gate", "hb": // Gate.io, HTX
		return vendor{format: TimeUnix}, true
	case "beta": // Atlassian
		return vendor{unit: "points"}, true
	case "sentry", "anthropic", "hubspot", "discogs", "ms", "amzn", "github", "docker":
		return vendor{}, true
	}
	return v, false
}

// clause reads what stands behind the anchor: role, unit, and policy. It is
// false if that is no limit.
func (m *meaning) clause(s *sentence, a anchor, p *phrase) bool {
	switch w := wordOf(a.after); {
	case a.after == "":
	case strings.EqualFold(a.after, "bysize"): // Mistral
		m.unit = "tokens"
	case (w.class == valueWord || w.class == listWord) && a.behind == s.n: // RateLimitRemaining
		m.role = w.role
		m.family = m.family[:len(m.family)-len(a.after)]
		return true
	default:
		return false
	}
	if a.behind == s.n {
		m.kind = anchorName
		return true
	}
	var words [maxWords]word
	for i := a.behind; i < s.n; i++ {
		words[i] = wordOf(s.word(i))
		if words[i].class == stopWord && !s.repeats(i) {
			return false
		}
		if words[i].class == retryWord {
			m.kind = waitName
		}
	}
	said := words[a.behind:s.n]
	if m.kind == waitName {
		m.format = TimeSeconds
		m.units(said)
		return true
	}
	at, part := roleAt(said, s.word(s.n-1))
	if at < 0 {
		m.kind = plainName
		if slices.ContainsFunc(said, func(w word) bool { return w.class == labelWord }) {
			return false
		}
	} else {
		m.role, m.rank = said[at].role, said[at].rank
	}
	return m.rest(s, a.behind, said, at, part, p)
}

// roleAt returns the index of the word that is the role, and makes it so in said:
// the last that is no unit, else the first, else the last if a role is glued to
// the policy's part of it, else the only one between others. In Remaining-Quota and Quota-Remaining it is remaining.
// A title is the role only if there is nothing else but titles.
func roleAt(said []word, tail string) (at int, part string) {
	last := len(said) - 1
	for last > 0 && said[last].class == unitWord {
		last--
	}
	first := said[0]
	switch {
	case said[last].class == valueWord && (said[last].role != RoleQuota || first.class != valueWord || first.role == RoleQuota):
		return last, ""
	case first.class == valueWord:
		return 0, ""
	case first.class == unitWord && first.format == TimeSeconds && last == 0: // X-RateLimit-After
		said[0] = word{class: valueWord, role: RoleReset, format: TimeSeconds}
		return 0, ""
	case said[last].class == titleWord || said[last].class == listWord:
		for _, w := range said {
			if w.class != titleWord && w.class != listWord {
				return -1, ""
			}
		}
		return last, ""
	case last == len(said)-1:
		if part, w := glued(tail); w.class == valueWord {
			said[last] = w
			return last, part
		}
	}
	isValue := func(w word) bool { return w.class == valueWord }
	if at = slices.IndexFunc(said, isValue); at >= 0 && slices.ContainsFunc(said[at+1:], isValue) {
		at = -1
	}
	return at, ""
}

// rest reads the words that are not the role: units of a time, and the policy, of
// which part is glued to the role. What remains of a time is a reset; other
// numbers have no such unit.
func (m *meaning) rest(s *sentence, from int, said []word, at int, part string, p *phrase) bool {
	counts, units := 0, 0
	for i, w := range said {
		if i != at && w.class == unitWord {
			units++
		} else if i != at && w.class != emptyWord {
			counts++
		}
	}
	switch {
	case units == 0 || counts > 0 || part != "":
	case m.role == RoleRemaining:
		m.role = RoleReset
	case m.role == RoleQuota || m.role == RoleUsed:
		return false
	}
	timed := m.role == RoleReset || m.role == RoleWindow
	before := p.n
	for i, w := range said {
		switch {
		case i == at:
			m.units(said[i : i+1])
			p.add(part)
		case w.class == emptyWord:
		case w.class == unitWord && timed:
			m.units(said[i : i+1])
		default:
			m.seconds = m.seconds || p.n == before && all(s.word(from+i), digit)
			p.add(s.word(from + i))
		}
	}
	return true
}

// units reads the words of a time's unit.
func (m *meaning) units(said []word) {
	for _, w := range said {
		if w.format != TimeGuess {
			m.format, m.per = w.format, w.per
		}
	}
}

// parseLoose returns what a key without an anchor may say, if another field of
// the same policy says more.
func parseLoose(key string) (m meaning, ok bool) {
	switch {
	case !isToken(key):
		return m, false
	case strings.EqualFold(key, "X-Rl"): // ip-api
		return meaning{role: RoleRemaining, family: "ip-api", order: looseOrder}, true
	case strings.EqualFold(key, "X-Ttl"):
		return meaning{role: RoleReset, format: TimeSeconds, family: "ip-api", order: looseOrder}, true
	}
	s := split(key)
	first := s.prefixed()
	var words [maxWords]word
	for i := first; i < s.n; i++ {
		if words[i] = wordOf(s.word(i)); words[i].class == retryWord || words[i].class == stopWord || isThing(s.word(i)) {
			return m, false
		}
	}
	said := words[first:s.n]
	at, part := roleAt(said, "")
	if at < 0 || said[at].class != valueWord {
		return m, false
	}
	m.role = said[at].role
	var p phrase
	if !m.rest(&s, first, said, at, part, &p) {
		return m, false
	}
	m.policy, m.order = p.named(), looseOrder
	labelled := slices.ContainsFunc(said, func(w word) bool { return w.class == labelWord })
	if (labelled || said[at].rank > 0) && !p.counted() || p.n == 0 && first == 0 {
		return m, false
	}
	m.allotted = isAllotted(s.word(first + at))
	m.family = key[:len(key)-len(s.word(s.n-1))]
	m.family = strings.TrimSuffix(m.family, "-")
	return m, true
}

// named joins the words without those that say no more than that there is a quota,
// unless there are no others. A word may end in one (DayLimit).
func (p *phrase) named() string {
	var q phrase
	for _, part := range p.parts[:p.n] {
		if name, w := glued(part); w.role == RoleQuota {
			part = name
		}
		if wordOf(part).role != RoleQuota {
			q.add(part)
		}
	}
	if q.n == 0 {
		return p.text()
	}
	return q.text()
}

// counted reports whether one of the words says that requests are counted.
func (p *phrase) counted() bool {
	for _, part := range p.parts[:p.n] {
		if isCounted(part) || windowOfPart(strings.ToLower(part)).ok {
			return true
		}
	}
	return false
}

// isCounted reports whether a word says that requests are counted.
func isCounted(s string) bool {
	var buf [longestWord]byte
	switch string(toLower(&buf, s)) {
	case "requests", "calls", "call", "api", "limit", "limits", "quota", "quotas", "throttle", "usage", "hits", "queries", "qps":
		return true
	}
	return false
}

// isThing reports whether a word is one of the things, other than requests, of
// which servers say how many remain.
func isThing(s string) bool {
	var buf [longestWord]byte
	switch string(toLower(&buf, s)) {
	case "page", "pages", "paging", "pagination", "item", "items", "result", "results", "record", "records", "row", "rows", "list", "cursor", "offset", "batch",
		"product", "products", "customer", "customers", "cart", "order", "orders", "stock", "inventory", "seat", "seats", "ticket", "tickets", "coupon",
		"storage", "disk", "space", "memory", "mem", "heap", "cpu", "battery", "upload", "uploads", "download", "downloads", "file", "files", "size", "length",
		"content", "body", "chunk", "chunks", "bytes", "session", "sessions", "login", "password", "otp", "attempt", "attempts", "retries", "redirect", "redirects",
		"trial", "license", "licenses", "users", "members", "accounts", "balance", "price", "discount", "budget", "cache", "ttl", "range",
		"depth", "hops", "age", "time", "times", "days", "queue", "job", "jobs", "task", "tasks", "step", "steps", "pool", "connection", "connections", "votes", "views",
		"posts", "messages", "comments", "pixel", "pixels", "image", "images", "width", "height":
		return true
	}
	return false
}

// Windows and units of policies, by the words of their names.

// windowOfName returns the window of a policy by its name: a number of seconds
// that it begins with, if seconds says so, else the last part that tells.
func windowOfName(name string, seconds bool) Seconds {
	if seconds {
		first, rest, _ := strings.Cut(name, "-")
		next, _, _ := strings.Cut(rest, "-")
		if n := parseDigits(first); all(first, digit) && n >= minWindow && nanoseconds(next) == 0 {
			return SecondsOf(min(n, MaxInteger))
		}
	}
	for rest := name; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		w := windowOfPart(part)
		if !w.ok {
			continue
		}
		_, before := cutLast(rest)
		if n := parseDigits(before); before != "" && all(before, digit) && n >= minWindow && nanoseconds(part) > 0 { // 24-hour
			return SecondsOf(min(saturatingMul(n, w.n), MaxInteger))
		}
		return w
	}
	return Seconds{}
}

// cutLast cuts the last part off a name.
func cutLast(name string) (rest, part string) {
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case '-', '_', '/', ' ':
			return name[:i], name[i+1:]
		}
	}
	return "", name
}

// windowOfPart returns the window that a part of a name tells: minute, hourly,
// 5h, 24hour, per_day, qpd, and those behind another word, AppDay and Get30Min.
// A month has no fixed number of seconds.
func windowOfPart(part string) Seconds {
	if len(part) > maxTime {
		return Seconds{}
	}
	if n := windowOfWord(strings.ToLower(part)); n > 0 {
		return SecondsOf(n)
	}
	letters := len(part)
	for letters > 0 && is(part[letters-1], alpha) {
		letters--
	}
	digits := letters
	for digits > 0 && is(part[digits-1], digit) {
		digits--
	}
	if digits < letters && letters < len(part) { // 30Min, of a name before it
		if n, ok := parseDuration(strings.ToLower(part[digits:])); ok && n >= minWindow {
			return SecondsOf(n)
		}
	}
	for _, suffix := range [...]string{"second", "minute", "hour", "day", "week"} {
		if n := len(part) - len(suffix); n >= 2 && strings.EqualFold(part[n:], suffix) {
			return SecondsOf(windowOfWord(suffix))
		}
	}
	return Seconds{}
}

// windowOfWord returns the seconds of a word for a window, or 0.
func windowOfWord(lower string) int64 {
	switch lower {
	case "second", "secondly", "sec", "qps", "rps", "tps":
		return 1
	case "minute", "minutely", "min", "qpm", "rpm", "tpm":
		return 60
	case "hour", "hourly", "qph", "rph", "tph":
		return 3600
	case "day", "daily", "today", "qpd", "rpd", "tpd":
		return 86400
	case "week", "weekly":
		return 604800
	}
	return 0
}

// unitOfName returns the unit of a policy by its name; "" is requests, or not
// known.
func unitOfName(name string) Unit {
	for rest := name; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		switch part = lowerCase(part); part {
		case "tokens", "tpm", "tps", "tph", "tpd":
			return "tokens"
		case "images", "characters", "credits", "points", "complexity", "neurons", "errors", "weight":
			return Unit(part)
		case "concurrent", "concurrency":
			return ConcurrentRequests
		}
	}
	return ""
}
