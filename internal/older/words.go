package older

import (
	"cmp"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// The names of these fields are sentences in a tiny language:
//
//	[X-][vendor-]RateLimit[-policy…]-role[-unit]     X-RateLimit-Remaining-Minute
//	[X-][vendor-]RateLimit-role[-unit][-policy…]     X-Acme-Rate-Limit-Reset-Ms-Search
//	[X-]prefix-role[-unit]                           X-Acme-Remaining, next to X-Acme-Limit
//	[X-][vendor-]Retry-After[-unit]                  X-Acme-Retry-After-Ms, X-RateLimit-Wait
//
// The anchor is RateLimit in one word or two. One word may be glued to the word before it
// (FeatureRateLimit). The first of two words may not (Corporate-Limit has no anchor). At the beginning
// of a name, Rate alone is an anchor if a sure role follows (X-Rate-Remaining). The role may be glued
// to the anchor (RateLimitReset), to a policy (UserLimit) or to its unit (ResetMs). A stop word marks a
// field that is about limits but contains none.

// A nameKind is the kind of value that a name announces.
type nameKind uint8

const (
	otherKind  nameKind = iota // the name has no word for limits
	noKind                     // the name has a word for limits, but no limit
	roleKind                   // one value of a role
	anchorKind                 // only the anchor: RateLimit, X-RateLimit
	plainKind                  // a policy without a role: X-RateLimit-Minute
	waitKind                   // how long to wait: X-Retry-After-Ms
	looseKind                  // a role that counts only with other fields of its family
)

// An order ranks fields that contain different numbers of one policy.
type order uint8

const (
	ownOrder    order = iota // of a caller's dialect
	draftOrder               // RateLimit-*
	xOrder                   // X-RateLimit-*
	dashedOrder              // X-Rate-Limit-*, Rate-Limit-*
	vendorOrder              // any other prefix before the anchor
	rowOrder                 // known by its whole name
	looseOrder               // without an anchor
)

// A name is the meaning of the key of a field.
type name struct {
	Row
	kind       nameKind
	order      order
	weak       bool   // a field with a surer word for the role, or with a dash before the role, takes precedence
	place      int    // the rank among the fields of a response, by order, role and weakness
	digits     bool   // the policy begins with the seconds of its window
	hint       hint   // by the policy
	family     string // the vendor's; "" for the drafts, X- and a caller's dialect
	Form       string // the key up to the anchor or the role, in lower case; or the name of a dialect
	counted    bool   // without an anchor: the policy contains a word that rate limits count
	total      bool   // without an anchor: the quota may be that of one request
	words      *name  // the meaning of the words, for a row that counts only next to another field of its vendor
	star       int    // the index of the * in the key of a row, or -1
	hasAnchor  bool   // it contains the word RateLimit, or Rate in front of a role
	dictionary bool   // the key is RateLimit, so the value is a Dictionary unless it is in the current form
}

const maxWords = 16 // the number of words that are read of a key; the last word contains the rest

// sentence splits a key into words, and returns the index of the first word after HTTP and X. The words
// are stored in room.
func sentence(room []token, key string) (said []token, first int) {
	dash := "-"
	if !strings.Contains(key, dash) {
		dash = "_" // HTTP_X_RATELIMIT_LIMIT (GoCardless)
	}
	said = room
	for len(said) < maxWords-1 {
		part, rest, more := strings.Cut(key, dash)
		if !more {
			break
		}
		said, key = append(said, tokenOf(part)), rest
	}
	said = append(said, tokenOf(key))
	for _, prefix := range []string{"http", "x"} {
		if len(said) > first+1 && said[first].is(prefix) {
			first++
		}
	}
	return said, first
}

// parse finds the meaning of a key by its words.
func parse(key string) name {
	n := name{Row: Row{Key: key}}
	var room [maxWords]token
	said, first := sentence(room[:0], key)
	if n, ok := n.wait(said); ok {
		return n
	}
	if a, ok := findAnchor(said); ok {
		n.kind, n.hasAnchor = noKind, true
		return n.behind(said, first, a)
	}
	if last := said[len(said)-1]; !said[first].mayMeanLimit() && !last.mayMeanLimit() { // a fast path for nearly all names
		return n
	}
	n.kind = noKind
	return n.unanchored(said, first)
}

// An anchor is the word RateLimit, or Rate alone, among the words of a key: said[first:behind]. before
// and after are the letters that are glued to it, such as Feature in FeatureRateLimit.
type anchor struct {
	first, behind int
	end           int // the offset in the key behind the anchor
	before, after string
	dashed        bool // it is not one word
}

// findAnchor finds the first anchor. ok is false if there is none.
func findAnchor(said []token) (a anchor, ok bool) {
	const whole = "ratelimit"
	start := 0
	for i := range said {
		s := said[i].text
		for end := len(whole); end <= len(s); end++ {
			if at := end - len(whole); strings.EqualFold(s[at:end], whole) {
				return anchor{first: i, behind: i + 1, end: start + end, before: s[:at], after: s[end:]}, true
			}
		}
		switch rest := said[i:]; {
		case repeatsAnchor(rest):
			return anchor{first: i, behind: i + 2, end: start + len("rate-limit"), dashed: true}, true
		case len(rest) > 1 && rest[0].is("rate") && rest[1].kind == roleWord: // not X-Rate-Plan
			return anchor{first: i, behind: i + 1, end: start + len("rate"), dashed: true}, true
		}
		start += len(s) + 1
	}
	return a, false
}

// repeatsAnchor reports whether a sentence begins with the anchor in two words.
func repeatsAnchor(said []token) bool {
	return len(said) > 1 && said[0].is("rate") && said[1].is("limit")
}

// wait reads a name with the word retry or wait. A unit of time may follow, or a policy, as in
// Retry-After-NAME and X-RateLimit-Retry-After-NAME. The word wait alone counts only after the anchor or
// the word throttle: X-Queue-Wait is about something else. ok is false if the name has neither word.
func (n name) wait(said []token) (_ name, ok bool) {
	at := slices.IndexFunc(said, func(t token) bool { return t.kind == retryWord })
	if at < 0 {
		return n, false
	}
	n.kind = noKind
	none := n
	a, anchored := findAnchor(said[:at])
	if said[at].weak && !anchored && !said[max(at-1, 0)].is("throttle") {
		return none, true
	}
	var few [maxWords]string
	policy, isTime := few[:0], anchored || said[at].format != Guess
	n.Format, n.Form, n.order = Seconds, waitForm, ownOrder // before any other field of the policy
	for _, t := range said[at+1:] {
		switch {
		case t.kind == unitWord:
			n.Format, isTime = cmp.Or(t.format, n.Format), true
		case at > 0 && !anchored: // X-Retry-Count is no wait, unlike Retry-After-NAME
			return none, true
		default:
			policy = append(policy, t.text)
		}
	}
	if !isTime || strings.EqualFold(n.Key, "Retry-After") {
		return none, true
	}
	n.kind = waitKind
	if n.Policy = joinWords(policy); anchored && n.Policy != "" { // the reset of the policy (Phemex); without the anchor, its wait (NestJS)
		n.kind, n.Role, n.order = roleKind, Reset, vendorOrder
		n.Form = strings.ToLower(n.Key[:a.end])
	}
	return n, true
}

// mayMeanLimit reports whether a word is a role, a unit, a window or something that servers count, or
// contains such a word. If a key has no anchor, and neither its first nor its last word is one, the key
// is not about limits.
func (t *token) mayMeanLimit() bool {
	if t.word == (word{}) {
		var room [maxWords]token
		parts, _ := unglue(room[:0], t.text)
		_, end := glued(t.text)
		return end.role != None || len(parts) > 0
	}
	return t.role != None || t.window > 0 || t.shows != neutral || t.kind == unitWord // Acme-Remaining-Day
}

// behind reads the words after the anchor.
func (n name) behind(said []token, first int, a anchor) name {
	n.order, n.Form = draftOrder, strings.ToLower(n.Key[:a.end])
	switch {
	case a.first > first || a.before != "":
		n.order = vendorOrder
	case a.dashed:
		n.order = dashedOrder
	case first > 0:
		n.order, n.Form = xOrder, "x-ratelimit" // HTTP_X_RATELIMIT too
	}
	none := n
	var policy []string
	for _, t := range said[first:a.first] {
		policy = n.prefix(policy, t.text)
	}
	policy = n.prefix(policy, a.before)
	behind := said[a.behind:]
	if a.after != "" {
		switch _, isRole := unglue(nil, a.after); {
		case strings.EqualFold(a.after, "bysize"): // Mistral
			n.Unit = "tokens"
		case isRole: // RateLimitRemaining
			n.weak = true
			behind = said[a.behind-1:]
			behind[0] = tokenOf(a.after)
		default:
			return none
		}
	}
	if len(behind) == 0 {
		n.kind, n.Policy = anchorKind, joinWords(policy)
		return n
	}
	policy = n.clause(policy, behind)
	if len(policy) == 1 && tokenOf(policy[0]).role == Quota {
		policy = nil // in X-RateLimit-Remaining-Quota the word Quota adds nothing
	}
	n.Policy = joinWords(policy)
	return n
}

// prefix reads one word before the anchor. Any word but a vendor's names a policy.
func (n *name) prefix(policy []string, s string) []string {
	switch t := tokenOf(s); {
	case s == "":
	case t.kind == vendorWord:
		n.family, n.Unit, n.Format = strings.ToLower(s), t.unit, t.format
	case t.is("ms"): // Azure
		n.family = "ms"
	default:
		policy = append(policy, s)
	}
	return policy
}

// clause reads the words after the anchor: role, unit and policy. It appends the words of the policy to
// policy. If the field has no limit, the kind and the role of n stay unchanged.
func (n *name) clause(policy []string, said []token) []string {
	var room [2 * maxWords]token
	said = spread(room[:0], said)
	stop, span, percent := marks(said)
	at, part := roleAt(said)
	role := token{}
	if at >= 0 {
		role = said[at]
	}
	switch units := role.role == Used || role.role == Remaining; {
	case stop, span && (role.role == Quota || role.role == Used), percent && !units: // other numbers cannot have these units
		return nil
	case percent:
		role.format = Percent
	case span && role.role == Remaining: // what remains of a time is a reset
		role.role = Reset
	}
	if n.kind = plainKind; at >= 0 {
		n.kind, n.Role, n.weak = roleKind, role.role, n.weak || role.weak
	}
	if role.format >= Fraction {
		n.Format = role.format
	}
	return n.without(at, part, policy, said)
}

// marks reports whether there is a stop word, the unit of a span of time, and the word for percent.
// A stop word does not count in an anchor that a server repeats (Netflix Zuul). A number before a
// unit belongs to the policy's name: X-RateLimit-Limit-10-Seconds.
func marks(said []token) (stop, span, percent bool) {
	for i, t := range said {
		stop = stop || t.kind == stopWord && !repeatsAnchor(said[i:])
		span = span || t.span && (i == 0 || !text.All(said[i-1].text, text.Digit))
		percent = percent || t.format == Percent
	}
	return stop, span, percent
}

// without appends the words of said to policy. It leaves out the role said[at], words that the role
// covers, and units if the role is a time. If a policy is glued to the role, part is this policy.
func (n *name) without(at int, part string, policy []string, said []token) []string {
	for i, t := range said {
		switch {
		case i == at && part != "":
			policy = append(policy, part)
		case i == at && t.kind != unitWord, n.Role.covers(t, i-at):
		case t.kind == unitWord && n.Role.time():
			n.Format = cmp.Or(t.format, n.Format)
		default:
			n.digits = n.digits || len(policy) == 0 && text.All(t.text, text.Digit)
			policy = append(policy, t.text)
		}
	}
	return policy
}

// covers reports whether another word adds nothing to the role, as in Remaining-Count, Limit-Window,
// Window-Reset and Refresh-Limit.
func (r Role) covers(t token, offset int) bool {
	switch {
	case t.kind == fillWord, t.text == "", t.format == Percent:
		return true
	case r == Window:
		return t.role == Reset // the renewal period (GitHub Models)
	case r == Reset:
		return offset < 0 && t.role.time() || offset == 1 && t.role == Quota
	}
	return offset > 0 && t.role == Used
}

// roleAt returns the index of the word that is the role, and the policy if one is glued to the role.
// Without a role, the index is -1. The first of these that matches decides:
//
//  1. the last word that is no unit (Minute-Remaining, Reset-Ms); if this word has other uses or is the
//     quota, a sure word before it decides instead (Remaining-Count, Refresh-Limit)
//  2. the last of the roles at its beginning (Remaining-Minute, RenewalPeriod-Tokens)
//  3. the end of the last word (UserLimit)
//  4. a word in between, preferably a sure one (Seconds-To-Refresh-Limit-Objects)
//  5. a unit that stands alone: a reset (X-RateLimit-After), or a used percentage
//     (X-RateLimit-Percent)
func roleAt(said []token) (at int, part string) {
	last := len(said) - 1
	for last > 0 && said[last].kind == unitWord {
		last--
	}
	sure, between := lastRoles(said[:last])
	t := &said[last]
	switch {
	case sure >= 0 && t.yields():
		return sure, ""
	case t.kind == roleWord:
		return last, ""
	case said[0].kind == roleWord:
		for said[at+1].kind == roleWord && said[at].yields() { // the last word is not a role, so this loop ends
			at++
		}
		return at, ""
	}
	if policy, w := glued(t.text); w.role != None {
		*t = w
		return last, policy
	}
	switch {
	case t.kind != unitWord:
	case t.format == Percent: // the used part, for all four servers that send it
		t.role = Used
		return last, ""
	case t.format != Guess:
		t.role = Reset
		return last, ""
	}
	if sure >= 0 {
		between = sure
	}
	return between, ""
}

// lastRoles returns the indices of the last sure role and of the last other role, or -1.
func lastRoles(said []token) (sure, unsure int) {
	sure, unsure = -1, -1
	for i := range said {
		switch s := &said[i]; {
		case s.kind != roleWord:
		case s.yields():
			unsure = i
		default:
			sure = i
		}
	}
	return sure, unsure
}

// yields reports whether a surer word before this word takes precedence as the role.
func (t *token) yields() bool { return t.weak || t.role == Quota }

// unanchored reads a name without an anchor. The field counts only next to another field of its family,
// unless it is the remaining of something that is counted.
func (n name) unanchored(said []token, first int) name {
	none := n
	said = said[first:]
	policy := n.clause(nil, said)
	if !n.Role.number() && n.Role != Window || len(policy) == 0 { // X-Limit may limit a page
		return none
	}
	shows := func(e evidence) bool { return slices.ContainsFunc(said, func(t token) bool { return t.shows == e }) }
	if n.Role != Reset && shows(excluded) {
		return none
	}
	n.total, n.counted = shows(perRequest), slices.ContainsFunc(policy, isCounted)
	if n.weak && !n.counted {
		return none
	}
	n.kind, n.order, n.Policy = looseKind, looseOrder, looseName(policy)
	n.Form = strings.ToLower(cmp.Or(strings.TrimRight(n.Key[:len(n.Key)-len(said[len(said)-1].text)], "-_"), n.Policy))
	return n
}

// isCounted reports whether a word of a name is something that rate limits count. It also returns true
// for a word that ends in a limit (TokenLimit) or in the time of a rate (AmtPerYear).
func isCounted(part string) bool {
	t := tokenOf(part)
	limited, end := glued(part)
	_, span, _ := strings.Cut(strings.ToLower(part), "per")
	return t.shows == counted || t.shows == isRequests || end.role == Quota && tokenOf(limited).shows != excluded ||
		span == "month" || span == "year" || tokenOf(span).window > 0
}

// looseName joins the words of a policy without an anchor. It leaves out words that only mean that
// there is a quota, also at the end of a word (DayLimit). If another word is a window, it also leaves
// out words for requests.
func looseName(policy []string) string {
	var said []string
	windowed := slices.ContainsFunc(policy, func(part string) bool { return windowOfPart(part) > 0 })
	for _, part := range policy {
		if before, t := glued(part); t.role == Quota {
			part = before
		}
		if t := tokenOf(part); t.role != Quota && !(windowed && t.shows == isRequests) {
			said = append(said, part)
		}
	}
	if len(said) == 0 {
		said = policy
	}
	return joinWords(said)
}

// joinWords joins the words of a policy's name, in lower case.
func joinWords(said []string) string { return strings.ToLower(strings.Join(said, "-")) }

// A hint is what the name of a policy reveals: perhaps a window, perhaps a unit.
type hint struct {
	window int64
	unit   string
}

// hintOf returns the hint in the name of a policy: the unit and the window, in seconds, from the
// last parts of the name that have one. If digits is true, a number at the start is the window.
func hintOf(policy string, digits bool) (h hint) {
	if policy == "" { // usual
		return h
	}
	before := ""
	for part := range strings.SplitSeq(policy, "-") {
		n := cmp.Or(tokenOf(before).number, text.ParseDigits(before)) // five-min, 24-hour
		h.window = cmp.Or(windowOfUnits(n, part), windowOfPart(part), h.window)
		if t := tokenOf(part); t.kind != vendorWord { // X-Ai-Quota may count questions
			h.unit = cmp.Or(t.unit, h.unit)
		}
		before = part
	}
	first, rest, _ := strings.Cut(policy, "-")
	if next, _, _ := strings.Cut(rest, "-"); digits && windowOfUnits(1, next) == 0 {
		h.window = cmp.Or(parseWindow(first), h.window)
	}
	return h
}

// windowOfUnits returns a window of n units of time.
func windowOfUnits(n int64, unit string) int64 {
	span, _ := text.ParseSpan("1" + unit)
	return min(text.SaturatingMul(n, span.Sec), text.MaxInteger)
}

// windowOfPart returns the window in one part of a name: minute, hourly, 5h, 24hour, perday, qps.
// The window may be glued to another word: AppDay, Get30Min. A month has no fixed length.
func windowOfPart(part string) int64 {
	lower := strings.ToLower(part)
	unit := lower
	if i := strings.LastIndex(lower, "per"); i >= 0 { // perday, queriespermin
		unit = lower[i+len("per"):]
	}
	if t := tokenOf(unit); t.window > 0 {
		return t.window
	}
	number := text.TrimRight(lower, text.Alpha)
	digits := number[len(text.TrimRight(number, text.Digit)):]
	if w := windowOfUnits(text.ParseDigits(digits), lower[len(number):]); w > 0 {
		return w
	}
	_, end := glued(part)
	return end.window
}
