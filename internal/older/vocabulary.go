package older

import (
	"slices"
	"strings"
	"sync"
)

// A Role is the part of a limit that a field or a value contains.
type Role uint8

// The roles of fields and values.
const (
	None      Role = iota // nothing about limits
	Quota                 // the quota
	Remaining             // what remains of the quota
	Used                  // the used units of the quota
	Reset                 // when more becomes available
	Window                // the length of the window
	Name                  // the name of the policy
	Policies              // a list of Integer policies

	Subname // the second half of the name of the policy (Zoom)
	Rate    // the units that are restored each second
	Status  // whether the limit refuses
)

// number reports whether a value with this role is a number of units, or a reset.
func (r Role) number() bool { return Quota <= r && r <= Reset }

// time reports whether a value with this role is a time.
func (r Role) time() bool { return r == Reset || r == Window }

// isText reports whether a value with this role is a word.
func (r Role) isText() bool { return r == Name || r == Subname || r == Status }

// A wordKind is the part that a word has in a name.
type wordKind uint8

const (
	nameWord   wordKind = iota // a part of a policy's name
	roleWord                   // the role of a value
	unitWord                   // the unit of a time
	fillWord                   // it adds nothing: per, this
	retryWord                  // how long to wait
	vendorWord                 // a vendor, before the anchor
	stopWord                   // the field is not a limit: X-RateLimit-Enabled
)

// An evidence is what a word shows about a name without an anchor: whether the name is about a rate
// limit.
type evidence uint8

const (
	neutral    evidence = iota
	counted             // rate limits count it: tokens, quota; its remaining is a limit without another field
	isRequests          // counted, and it adds nothing to the name of a policy with a window: calls
	perRequest          // the number may be that of one request: total
	excluded            // servers count it for other purposes: pages
)

// A word is the meaning of a word in a name.
type word struct {
	kind   wordKind
	role   Role
	weak   bool   // it has other uses, so words without other uses take precedence
	format Format // of a time or of a part
	span   bool   // any number with it is a time
	window int64  // the seconds of a window
	unit   string // the quota unit
	number int64  // it is a number
	shows  evidence
}

// vocabulary has all words, several in a row. A vendor's word before the anchor names no policy. It
// defines the unit of the vendor's fields, and the format of small resets.
var vocabulary = []struct {
	spellings string
	word
}{
	{"limit quota", word{kind: roleWord, role: Quota, shows: counted}},
	{"max capacity allotted", word{kind: roleWord, role: Quota, weak: true}},
	{"total", word{kind: roleWord, role: Quota, weak: true, shows: perRequest}},
	{"remaining remain left", word{kind: roleWord, role: Remaining}},
	{"available", word{kind: roleWord, role: Remaining, weak: true}},
	{"used", word{kind: roleWord, role: Used}},
	{"usage observed count current", word{kind: roleWord, role: Used, weak: true}},
	{"reset resets refresh", word{kind: roleWord, role: Reset}},
	{"next expiry expires renewal until", word{kind: roleWord, role: Reset, weak: true}},
	{"utilization utilisation", word{kind: roleWord, role: Used, format: Fraction}},
	{"window interval period duration", word{kind: roleWord, role: Window, weak: true}},
	{"name resource bucket category group zone action", word{kind: roleWord, role: Name}},
	{"scope", word{kind: roleWord, role: Name, weak: true}},
	{"policy", word{kind: roleWord, role: Policies}},
	{"status", word{kind: roleWord, role: Status, weak: true}},

	{"ms milliseconds millis", word{kind: unitWord, format: Milli, span: true}},
	{"seconds ttl", word{kind: unitWord, format: Seconds, span: true}},
	{"percent percentage pct", word{kind: unitWord, format: Percent}},
	{"after in", word{kind: unitWord, format: Seconds}},
	{"utc at date timestamp", word{kind: unitWord}},
	{"time", word{kind: unitWord, span: true, shows: excluded}},
	{"per to on", word{kind: fillWord}},
	{"size", word{kind: fillWord, shows: excluded}},
	{"retry", word{kind: retryWord}},
	{"retryafter", word{kind: retryWord, format: Seconds}},
	{"wait", word{kind: retryWord, format: Seconds, weak: true}},

	{"second secondly sec", word{window: 1}},
	{"minute minutely min", word{window: 60}},
	{"hour hourly", word{window: 3600}},
	{"day", word{window: 86400}},
	{"daily", word{window: 86400, shows: counted}},
	{"monthly", word{shows: counted}},
	{"week weekly", word{window: 604800}},
	{"qps", word{window: 1, shows: counted}},
	{"five", word{number: 5}},

	{"requests request req calls call", word{shows: isRequests}},
	{"tokens", word{unit: "tokens", shows: counted}},
	{"credits credit", word{unit: "credits", shows: counted}},
	{"api budget points qpm searches units", word{shows: counted}},
	{"weight", word{unit: "weight"}},
	{"concurrent concurrency", word{unit: "concurrent-requests", shows: counted}},

	{"url uri link docs help message reason", word{kind: stopWord}},                                 // texts
	{"enabled active exceeded reached nearlimit overlimit over near overage", word{kind: stopWord}}, // states
	{"cost requested currentrequest increment rate fillrate delay metrics", word{kind: stopWord}},   // of one request
	{"full", word{kind: stopWord}}, // when the whole quota is back, which is less useful than the reset
	{"storage disk kb mb gb cache cpu memory battery page pagination days", word{shows: excluded}},
	{"bytes", word{unit: "content-bytes", shows: excluded}}, // of a response, next to the anchor; else they are stored

	{"sib ogw contentful zendesk", word{kind: vendorWord, format: Seconds}}, // Brevo, Lark
	{"ai", word{kind: vendorWord, unit: "tokens", format: Seconds}},         // Kong, APISIX
	{"gw", word{kind: vendorWord, format: Milli}},                           // KuCoin
	{"beta", word{kind: vendorWord, unit: "points"}},                        // Atlassian
	{"gate sentry anthropic hubspot discogs github", word{kind: vendorWord}},
}

const longestWord = 14 // the length of the longest word above

var dictionary struct {
	once  sync.Once
	words map[string]word
}

// makeDictionary makes a map of the table at first use. sync.OnceValue would keep the table in
// every binary.
func makeDictionary() {
	dictionary.words = make(map[string]word, 4*len(vocabulary))
	for _, row := range vocabulary {
		for spelling := range strings.FieldsSeq(row.spellings) {
			dictionary.words[spelling] = row.word
		}
	}
}

// A token is a word in a name.
type token struct {
	text string
	word
}

// is reports whether a token is a word in lower case, whatever the case of the token.
func (t *token) is(lower string) bool { return strings.EqualFold(t.text, lower) }

// tokenOf looks up a word, in any case.
func tokenOf(s string) token {
	if len(s) > longestWord {
		return token{text: s}
	}
	dictionary.once.Do(makeDictionary)
	var room [longestWord]byte // strings.ToLower would allocate
	lower := append(room[:0], s...)
	for i := range lower {
		lower[i] |= 0x20 // no other byte becomes a letter
	}
	return token{s, dictionary.words[string(lower)]}
}

// gluedWords can end another word, as in UserLimit and AppDay. Shorter words, such as used and left,
// end too many other words (focused, cleft).
var gluedWords = [...]string{"remaining", "limit", "reset", "second", "minute", "hour", "day"}

// glued returns the role or the window at the end of a word, and the rest of the word.
func glued(s string) (rest string, t token) {
	for _, word := range gluedWords {
		if n := len(s) - len(word); n >= 2 && strings.EqualFold(s[n:], word) {
			return s[:n], tokenOf(s[n:])
		}
	}
	return "", token{}
}

// spread appends words to a list. It splits words that consist of known words with a role
// among them: RemainingPerMinute, ResetInSeconds, RenewalPeriod.
func spread(list, said []token) []token {
	for _, t := range said {
		parts, _ := unglue(list, t.text)
		if !slices.ContainsFunc(parts[len(list):], func(t token) bool { return t.kind == roleWord }) {
			parts = append(list, t)
		}
		list = parts
	}
	return list
}

const longestGlued = 24 // the length of the longest word that is split

// unglue splits a text into known words, and appends them. ok is false if that is impossible.
// It tries long words first.
func unglue(list []token, s string) (_ []token, ok bool) {
	if s == "" || len(s) > longestGlued {
		return list, s == ""
	}
	for to := min(longestWord, len(s)); to >= 2; to-- {
		if t := tokenOf(s[:to]); t.word != (word{}) {
			if all, ok := unglue(append(list, t), s[to:]); ok {
				return all, true
			}
		}
	}
	return list, false
}
