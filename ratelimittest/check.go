package ratelimittest

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Check returns the rules of draft-11 that a response breaks, for tests of servers. A correct
// server has no finding above [LevelNote]. CONFORMANCE.md lists the rules, and the faults that
// Check does not find. A [Sequence] finds faults that only several responses show. The result
// is nil if the response breaks no rule, has no fields of limits, or is nil. A test should
// therefore also require the fields. Keys of http.Header must be canonical, as for [ratelimit.Parse].
//
// A malformed field has one finding, because strict clients ignore the field (draft-11 Section 7).
// Check does not read the body. It reads older fields only to find numbers that contradict the current
// fields. A response in the form of the next draft has one note, and is not checked further.
func Check(resp *http.Response) (findings []Finding) {
	if resp == nil {
		return nil
	}
	for _, v := range violations(resp) {
		findings = append(findings, v.Finding)
	}
	return findings
}

// A violation is a finding with its rule.
type violation struct {
	*rule
	Finding
}

// A checker collects the violations of one response.
type checker struct {
	resp       *http.Response
	clock      text.Clock
	fields     ratelimit.Fields
	violations []violation
}

// violations checks a response by all rules.
func violations(resp *http.Response) []violation {
	c := checker{resp: resp, clock: text.Clock{Header: resp.Header}}
	if isNext(resp.Header[draft.LimitKey]) {
		c.add(ruleNext, ratelimit.LimitField, -1)
		c.retryAfter() // RFC 9110 defines its form, whatever the draft
		return c.violations
	}
	c.policies()
	c.limits()
	c.joins()
	c.response()
	c.retryAfter()
	c.older()
	return c.violations
}

// isNext reports whether RateLimit is in the form of the next draft.
func isNext(lines []string) bool {
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, draft.NextRemaining+"=") }) {
		return false // nearly all other fields end here
	}
	f, _ := ratelimit.ParseAny(http.Header{draft.LimitKey: lines}, ratelimit.LegacyOptions{})
	return f.Dialect == draft.Next
}

// add adds a violation with the finding that rule.in returns.
func (c *checker) add(r *rule, field string, item int, args ...any) {
	c.violations = append(c.violations, violation{r, r.in(field, item, args...)})
}

// policies parses RateLimit-Policy, and checks each of its members.
func (c *checker) policies() {
	lines := c.resp.Header[draft.PolicyKey]
	list, err := ratelimit.ParsePolicies(lines...)
	c.whole(draft.Policies, lines, err, ratelimit.Fields{Policies: list})
	c.fields.Policies = list
	written := newSpelling(draft.Policies, lines)
	for i := range list {
		p := &list[i]
		c.member(&written, i, p.Name, p.PartitionKey, p.Params)
		c.unit(i, p.Unit, written.unit)
	}
}

// limits parses RateLimit, and checks each of its members.
func (c *checker) limits() {
	lines := c.resp.Header[draft.LimitKey]
	list, err := ratelimit.ParseLimits(lines...)
	c.whole(draft.Limits, lines, err, ratelimit.Fields{Limits: list})
	c.fields.Limits = list
	written := newSpelling(draft.Limits, lines)
	for i := range list {
		l := &list[i]
		c.member(&written, i, l.Name, l.PartitionKey, l.Params)
	}
}

// whole checks a field as a whole. err is from parsing its lines.
func (c *checker) whole(field *draft.Field, lines []string, err error, members ratelimit.Fields) {
	var e *ratelimit.FieldError
	switch {
	case errors.As(err, &e):
		r, args := malformed(field, e, lines)
		c.violations = append(c.violations, violation{r, r.at(*e, args...)})
	case len(lines) > 0 && len(members.Policies)+len(members.Limits) == 0:
		c.add(ruleEmpty, field.Name, -1)
	case errors.As(members.Validate(), &e) && e.Err == ratelimit.ErrDuplicate && e.Param == "":
		c.add(ruleTwice, field.Name, e.Item)
	}
}

// A spelling reads the members of a well-formed field again. It finds what [ratelimit.Parse] does not
// return.
type spelling struct {
	sf.Scanner
	field *draft.Field
	i     int  // the offset of the next member
	unit  bool // the latest member contains a unit, perhaps an empty one
}

func newSpelling(field *draft.Field, lines []string) spelling {
	s := spelling{Scanner: sf.Scanner{Text: strings.Join(lines, ", ")}, field: field}
	s.i = text.Past(s.Text, 0, text.Space)
	return s
}

// next reads a member, and reports whether it contains a defined parameter twice.
func (s *spelling) next() (twice bool) {
	var seen [draft.Slots]bool
	_, i := s.Read(s.i)
	for i < len(s.Text) && s.Text[i] == ';' {
		i = text.Past(s.Text, i+1, text.Space)
		end := text.PastKey(s.Text, i)
		if p := s.field.Find(s.Text[i:end]); p != nil {
			twice = twice || seen[p.Slot]
			seen[p.Slot] = true
		}
		if i = end; i < len(s.Text) && s.Text[i] == '=' {
			_, i = s.Read(i + 1)
		}
	}
	s.unit = seen[draft.UnitSlot]
	s.i = text.Past(s.Text, min(text.Past(s.Text, i, text.OWS)+1, len(s.Text)), text.OWS) // past the comma
	return twice
}

// malformed returns the rule that a malformed field breaks, and the arguments of its message.
func malformed(field *draft.Field, e *ratelimit.FieldError, lines []string) (r *rule, args []any) {
	before, rest := lines[e.Line][:e.Offset], lines[e.Line][e.Offset:]
	def := field.Find(e.Param)
	switch {
	case e.Err == ratelimit.ErrMissing:
		return ruleMissing, []any{e.Param}
	case def != nil && (e.Err == ratelimit.ErrType || e.Err == ratelimit.ErrRange):
		return paramRules[def.Key], []any{def.Key, def.Form}
	case e.Err == ratelimit.ErrType && field == draft.Policies && rest != "" && text.Is(rest[0], text.Digit):
		return ruleDraft06, nil
	case field == draft.Limits && strings.HasPrefix(rest, "=") && text.IsToken(text.Trim(before)):
		return ruleDraft07, nil
	case e.Err == ratelimit.ErrType:
		return ruleToken, nil
	case e.Err == ratelimit.ErrTooMany:
		return ruleMany, nil
	}
	return ruleMalformed, nil
}

// member checks a member on its own. The member is the next one that written reads.
func (c *checker) member(written *spelling, i int, name string, key []byte, params ratelimit.Params) {
	field := written.field
	if written.next() {
		c.add(ruleParamTwice, field.Name, i)
	}
	if name == "" {
		c.add(ruleNameless, field.Name, i)
	}
	if slices.ContainsFunc(params, func(p ratelimit.Param) bool { return !prefixed(p.Key) && ownerOf(p.Key) == nil }) {
		c.add(rulePrefix, field.Name, i)
	}
	foreign := func(p ratelimit.Param) bool { return ownerOf(p.Key) != nil } // no parameter of field is in params
	if at := slices.IndexFunc(params, foreign); at >= 0 {
		c.add(ruleForeign, field.Name, i, params[at].Key, ownerOf(params[at].Key).Name)
	}
	if personal(key) {
		c.add(rulePersonal, field.Name, i)
	}
	if c.secret(key) {
		c.add(ruleSecret, field.Name, i)
	}
}

// ownerOf returns the field that defines a parameter, or nil.
func ownerOf(key string) *draft.Field {
	for _, f := range [...]*draft.Field{draft.Policies, draft.Limits} {
		if f.Find(key) != nil {
			return f
		}
	}
	return nil
}

// unit checks the unit of a policy. written is true if the policy contains a unit, perhaps an empty one.
func (c *checker) unit(i int, unit ratelimit.Unit, written bool) {
	switch unit {
	case "":
		if written {
			c.add(ruleEmptyUnit, ratelimit.PolicyField, i)
		}
	case ratelimit.Requests, ratelimit.ContentBytes, ratelimit.ConcurrentRequests:
	case "request": // how the table of draft-11 Section 10.3 spells Requests
		c.add(ruleAlias, ratelimit.PolicyField, i)
	case "tokens", "cost", "percent": // of language models, of GraphQL, and of servers without numbers
		c.add(ruleUsedUnit, ratelimit.PolicyField, i)
	default:
		c.add(ruleUnit, ratelimit.PolicyField, i)
	}
}

// secret reports whether a partition key is a part of the credentials of the request.
func (c *checker) secret(key []byte) bool {
	const shortest = 8 // bytes; a shorter key may occur in credentials by chance
	if c.resp.Request == nil || len(key) < shortest {
		return false
	}
	holds := func(line string) bool { return strings.Contains(line, string(key)) }
	for _, name := range [...]string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key"} {
		if slices.ContainsFunc(c.resp.Request.Header[name], holds) {
			return true
		}
	}
	return false
}

// prefixed reports whether the key of an extension parameter may begin with a vendor's
// identifier, or is a comment of draft-11 Appendix C, question 8.
func prefixed(key string) bool {
	return key == "burst" || key == "comment" || strings.IndexAny(key, "-_.") > 0
}

// personal reports whether a partition key looks like an IP address, with or without port or
// prefix length, or like an e-mail address.
func personal(key []byte) bool {
	const longest = 254 // of an e-mail address, RFC 5321 Section 4.5.3.1.3
	if len(key) > longest {
		return false
	}
	s := string(key)
	_, addrErr := netip.ParseAddr(s)
	_, portErr := netip.ParseAddrPort(s)
	_, prefixErr := netip.ParsePrefix(s)
	if addrErr == nil || portErr == nil || prefixErr == nil {
		return true
	}
	local, domain, _ := strings.Cut(s, "@")
	return local != "" && strings.IndexByte(domain, '.') > 0 && text.IsName(s) && !strings.Contains(s, " ")
}

// joins checks each limit against its policy, if it has one.
func (c *checker) joins() {
	shortest, i := c.shortest(), -1
	for l, p := range c.fields.Pairs() {
		i++
		switch {
		case p.Quota != ratelimit.Unknown: // else the limit has no policy
			if l.Remaining > p.Quota {
				c.add(ruleQuota, ratelimit.LimitField, i)
			}
		case len(c.fields.Policies) > 0:
			c.add(ruleOrphan, ratelimit.LimitField, i)
		}
		switch late := overdue(l, p); {
		case late && number(l.Reset) >= older.LeastUnix:
			c.add(ruleMoment, ratelimit.LimitField, i)
		case late:
			c.add(ruleReset, ratelimit.LimitField, i)
		}
		if invites(l, p, shortest[p.Unit.Canonical()]) {
			c.add(ruleRatio, ratelimit.LimitField, i)
		}
		if wastes(l, p) {
			c.add(ruleSlow, ratelimit.LimitField, i)
		}
	}
}

// wastes reports whether a token bucket that holds the quota would lose more than a tenth of its tokens
// while clients wait for the reset. This happens if the bucket fills in a second, and holds few tokens.
func wastes(l *ratelimit.Limit, p *ratelimit.Policy) bool {
	return l.Remaining == 0 && number(l.Reset) == 1 && number(p.Window) == 1 && p.Quota > 0 && p.Quota < tolerance
}

// shortest returns, for each unit, the policy with the shortest window.
func (c *checker) shortest() map[ratelimit.Unit]*ratelimit.Policy {
	of := make(map[ratelimit.Unit]*ratelimit.Policy, 1)
	for i := range c.fields.Policies {
		p := &c.fields.Policies[i]
		if q := of[p.Unit.Canonical()]; known(p.Window) && (q == nil || number(p.Window) < number(q.Window)) {
			of[p.Unit.Canonical()] = p
		}
	}
	return of
}

// tolerance is the factor by which a value may exceed its policy before it is likely a mistake. Two
// things are no mistake: jitter makes resets longer, and a client that uses little early in a window
// has more left at the end than the average rate gives.
const tolerance = 10

// overdue reports whether a reset is so long that it was probably written in another unit, or as
// a point in time. Without a window it recognizes only a point in time. A jitter of ten minutes
// is accepted, because clients come back by then anyway (draft-11 Section 8.5.1).
func overdue(l *ratelimit.Limit, p *ratelimit.Policy) bool {
	const jitter = int64(ratelimit.DefaultMaxWait / time.Second)
	reset, window := number(l.Reset), number(p.Window)
	if !known(p.Window) {
		return reset >= older.LeastUnix
	}
	return reset > window+jitter && reset/tolerance >= window
}

// invites reports whether a client may go more than tolerance times as fast as p, the policy of l,
// until the reset of l (Section 8.5). The policy with the shortest window can prevent that.
func invites(l *ratelimit.Limit, p, shortest *ratelimit.Policy) bool {
	if p.Unit == ratelimit.ConcurrentRequests || l.Cap(*p, tolerance).Remaining >= l.Remaining {
		return false
	}
	if shortest == nil || number(shortest.Window) >= number(p.Window) {
		return true
	}
	windows := (number(l.Reset) + number(shortest.Window) - 1) / number(shortest.Window)
	return text.SaturatingMul(shortest.Quota, windows) >= l.Remaining
}

// response checks the fields against the rest of the response.
func (c *checker) response() {
	storable, stored := c.storable(), text.Stored(c.resp.Header)
	refused := c.resp.StatusCode == http.StatusTooManyRequests
	if refused {
		c.refusal(storable, stored)
	}
	trailers := ratelimit.HeaderOf(c.resp.Trailer)
	for _, field := range [...]*draft.Field{draft.Policies, draft.Limits} {
		if _, sent := trailers[field.Key]; sent {
			c.add(ruleTrailer, field.Name, -1)
		}
		if len(c.resp.Header[field.Key]) == 0 {
			continue
		}
		if status := c.resp.StatusCode; status/100 == 3 && status != http.StatusNotModified {
			c.add(ruleRedirection, field.Name, -1)
		}
		switch {
		case stored:
			c.add(ruleCached, field.Name, -1)
		case storable && !refused:
			c.add(ruleStorable, field.Name, -1)
		}
	}
}

// refusal checks the fields of a 429.
func (c *checker) refusal(storable, stored bool) {
	if storable && len(c.resp.Header[draft.PolicyKey])+len(c.resp.Header[draft.LimitKey]) > 0 {
		c.add(ruleStored, "Cache-Control", -1)
	}
	limits := c.fields.Limits
	if len(limits) == 1 && limits[0].Remaining > 0 && len(c.resp.Header[text.RetryAfterKey]) == 0 && !stored {
		c.add(ruleRefused, ratelimit.LimitField, 0)
	}
}

// storable reports whether the header permits a cache to reuse the response. A cache may also reuse a
// response without such a permission, but that is no fault of the server.
func (c *checker) storable() bool {
	if r := c.resp.Request; r != nil && r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	explicit, fresh := cacheControl(c.resp.Header["Cache-Control"])
	if explicit || fresh {
		return fresh
	}
	for _, line := range c.resp.Header["Expires"] {
		if t, ok := text.ParseDate(text.Trim(line)); ok && !c.clock.Made().IsZero() && t.After(c.clock.Made()) {
			return true
		}
	}
	return false
}

// cacheControl reads the directives that decide whether a cache may reuse a response (RFC 9111 Section
// 5.2.2). fresh is true if they permit it. explicit is true if one of them forbids it, or is an age.
func cacheControl(lines []string) (explicit, fresh bool) {
	for _, line := range lines {
		for directive := range strings.SplitSeq(strings.ToLower(line), ",") {
			name, value, _ := strings.Cut(text.Trim(directive), "=")
			switch name {
			case "no-store", "no-cache":
				return true, false
			case "public":
				fresh = true
			case "max-age", "s-maxage":
				age, ok := text.ParseNumber(text.Unquote(value))
				explicit = true
				fresh = fresh || ok && age.Floor() > 0
			}
		}
	}
	return explicit, fresh
}

// retryAfter checks that Retry-After has the form of RFC 9110 Section 10.2.3, and does not end before
// the wait of a limit with nothing remaining. A limit with something remaining may have a later reset,
// as in the example of draft-11 Appendix B.3.
func (c *checker) retryAfter() {
	lines := c.resp.Header[text.RetryAfterKey]
	var asked *text.RetryAfter // by the first line that can be read
	standard := len(lines) < 2
	for _, line := range lines {
		r, ok := text.ParseRetryAfter(line)
		standard = standard && r.Standard
		if ok && asked == nil {
			asked = &r
		}
	}
	if !standard {
		c.add(ruleRetryForm, text.RetryAfterKey, -1)
	}
	if asked == nil {
		return
	}
	made := c.clock.Made()
	wait := asked.Wait(c.clock.Made) // a date without Date is as far away as can be
	if least, _ := c.fields.RetryAfter().Duration(); wait < least {
		c.add(ruleRetryEarly, text.RetryAfterKey, -1)
	}
	if asked.Date == (text.Date{}) || !made.IsZero() {
		c.retryTime(int64(wait / time.Second))
	}
	// Only a successful response with something remaining has no reason to wait.
	if a := ratelimit.Advise(c.resp, made); a.Source == ratelimit.SourceNone && len(a.Fields.Limits) > 0 {
		c.add(ruleRetryIgnored, text.RetryAfterKey, -1)
	}
}

// retryTime checks that a Retry-After is not far beyond all resets and windows of the response, as a
// Retry-After in milliseconds is. retryTime also notes a Retry-After of 0 next to an exhausted older
// limit: some servers write 0 for less than a second. A Retry-After may be before the reset of an older
// limit, because the reset may tell when the whole quota is back.
func (c *checker) retryTime(asked int64) {
	latest, milli := int64(0), false
	compare := func(end int64) {
		latest = max(latest, end)
		// Rounding may move the end by a second.
		milli = milli || end > 0 && asked/1000 >= end-1 && asked/500 >= end && (asked-1)/1000 <= end
	}
	old := c.readOlder(withoutCurrent(c.resp.Header))
	if asked == 0 && len(c.fields.Limits) == 0 && number(old.RetryAfter()) > 0 {
		c.add(ruleRetryZero, text.RetryAfterKey, -1)
	}
	all := c.fields.Join(old)
	for i := range all.Limits {
		compare(number(all.Limits[i].Reset))
	}
	for i := range all.Policies {
		compare(number(all.Policies[i].Window))
	}
	switch {
	case latest == 0 || asked/tolerance < latest:
	case milli:
		c.add(ruleRetryMilli, text.RetryAfterKey, -1)
	default:
		c.add(ruleRetryLate, text.RetryAfterKey, -1)
	}
}

// older checks that older fields do not contradict the current ones. Older fields must contain one of
// the current limits, and only quotas of current policies. The limit should be the limit closest to
// exhaustion (draft-06 Section 3.1).
func (c *checker) older() {
	if len(c.fields.Limits) == 0 && len(c.fields.Policies) == 0 {
		return
	}
	h := withoutCurrent(c.resp.Header)
	old := c.readOlder(h)
	fields, _ := older.Find(nil, h, nil)
	for i := range old.Limits {
		l := &old.Limits[i]
		remaining, reset := c.agrees(l)
		switch {
		case !remaining:
			c.add(ruleOlder, olderKey(fields, &old, l.Name, older.Remaining), -1)
		case !reset && l.Remaining != ratelimit.Unknown: // else the current fields have no member for it
			c.add(ruleOlder, olderKey(fields, &old, l.Name, older.Reset), -1)
		}
	}
	blamed := map[string]bool{} // one field may hold many quotas
	for i := range old.Policies {
		p := &old.Policies[i]
		same := func(current ratelimit.Policy) bool { return current.Quota == p.Quota }
		if p.Quota == ratelimit.Unknown || len(c.fields.Policies) == 0 || slices.ContainsFunc(c.fields.Policies, same) {
			continue
		}
		if key := olderKey(fields, &old, p.Name, older.Quota); !blamed[key] {
			blamed[key] = true
			c.add(ruleOlder, key, -1)
		}
	}
}

// readOlder reads the older fields in h. Absolute times count from the time at which the response was
// made, like the seconds of current fields. Without Date this time is unknown. readOlder then reads the
// fields with two times of arrival, and leaves out the resets that differ, because these are absolute.
func (c *checker) readOlder(h http.Header) ratelimit.Fields {
	read := func(arrived time.Time) ratelimit.Fields {
		old, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Now: arrived})
		return old
	}
	if !c.clock.Made().IsZero() {
		return read(c.clock.Made())
	}
	epoch := time.Unix(0, 0) // before all points in time that servers write
	if now := time.Now(); now.Unix() < older.LeastUnix {
		epoch = now.Add(-text.Month / 2) // a bubble of testing/synctest, where they are near the clock
	}
	old, later := read(epoch), read(epoch.Add(time.Hour))
	for i := range old.Limits {
		if i >= len(later.Limits) || old.Limits[i].Reset != later.Limits[i].Reset {
			old.Limits[i].Reset = ratelimit.Seconds{}
		}
	}
	return old
}

// olderKey returns the key of the older field that most likely contains a number of a policy. It
// prefers fields of the policy, or of no policy that was read. Of these it prefers fields of the role,
// and then the first one in the alphabet. The word Requests names no policy if no other unit is
// counted.
func olderKey(fields []older.Field, read *ratelimit.Fields, policy string, role older.Role) (best string) {
	named := map[string]bool{}
	for i := range read.Limits {
		named[read.Limits[i].Name] = true
	}
	for i := range read.Policies {
		named[read.Policies[i].Name] = true
	}
	highest := -1
	for _, f := range fields {
		rank := 0
		if f.Policy == policy || !named[f.Policy] {
			rank += 2
		}
		if f.Role == role {
			rank++
		}
		if rank > highest || rank == highest && f.Key < best {
			best, highest = f.Key, rank
		}
	}
	return best
}

// agrees compares an older limit with the current limits. remaining reports whether one of these has the
// same Remaining. reset reports whether such a limit has the same Reset, give or take a second, or
// whether one of the two has no Reset. Both are true if there is no current limit. reset is also true if
// the older Reset is later than the Reset of that limit, and no later than the Reset of a current limit
// with another Remaining. [ratelimit.RestrictHeader] can join the Remaining of one limit with the later
// Reset of another.
func (c *checker) agrees(old *ratelimit.Limit) (remaining, reset bool) {
	if len(c.fields.Limits) == 0 {
		return true, true
	}
	later, covered := false, false // a current limit resets earlier than old; another one does not
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		after, comparable := number(old.Reset)-number(l.Reset), known(old.Reset) && known(l.Reset)
		switch {
		case old.Remaining != ratelimit.Unknown && old.Remaining != l.Remaining:
			covered = covered || comparable && after <= 1
		case !comparable || max(after, -after) <= 1:
			return true, true
		default:
			remaining, later = true, later || after > 1
		}
	}
	return remaining, later && covered
}

// withoutCurrent returns a copy of a header without RateLimit-Policy and RateLimit.
func withoutCurrent(h http.Header) http.Header {
	h = maps.Clone(h)
	delete(h, draft.PolicyKey)
	delete(h, draft.LimitKey)
	return h
}

// number returns a number of seconds; 0 if it is absent.
func number(s ratelimit.Seconds) int64 {
	n, _ := s.Value()
	return n
}

// known reports whether a number of seconds is not absent.
func known(s ratelimit.Seconds) bool { return s != ratelimit.Seconds{} }
