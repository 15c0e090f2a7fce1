package ratelimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Check returns the rules of draft-11 that a response breaks, for tests of servers. A correct
// server has no finding above [LevelNote]. CONFORMANCE.md lists the rules, and the faults that
// Check does not find. A [Sequence] finds faults that only several responses show. The result
// is nil if the response breaks no rule, has no fields of limits, or is nil. A test should
// therefore also require the fields. Keys of http.Header must be canonical, as for [Parse].
//
// A malformed field has one finding, because strict clients ignore the field (draft-11 Section 7).
// Check reads no body, and older fields only to find contradictions to the current fields. A
// response in the form of the next draft has one note, and is not checked further.
func Check(resp *http.Response) []Finding {
	if resp == nil {
		return nil
	}
	c := checker{resp: resp, clock: text.Clock{Header: resp.Header}}
	if parseNextLimits(c.resp.Header[draft.LimitKey]) != nil {
		c.add(ruleNext, LimitField, -1)
		c.retryAfter() // its form is that of RFC 9110, whatever the draft
		return c.findings
	}
	c.fields.Policies = checkField[Policy](&c, draft.Policies)
	c.fields.Limits = checkField[Limit](&c, draft.Limits)
	c.joins()
	c.response()
	c.retryAfter()
	c.older()
	return c.findings
}

// A checker collects the findings of one response.
type checker struct {
	resp     *http.Response
	clock    text.Clock
	fields   Fields
	findings []Finding
}

// add adds a finding, as rule.in returns it.
func (c *checker) add(r rule, field string, item int, args ...any) {
	c.findings = append(c.findings, r.in(field, item, args...))
}

// checkField parses a field, checks each of its members, and returns them.
func checkField[T Policy | Limit, M identified[T]](c *checker, field *draft.Field) []T {
	lines := c.resp.Header[field.Key]
	list, err := parseList[T](field, lines)
	switch {
	case err != nil:
		e := err.(*FieldError)
		r, args := malformed(field, e, lines)
		c.findings = append(c.findings, r.at(*e, args...))
		return nil
	case len(lines) > 0 && len(list) == 0:
		c.add(ruleEmpty, field.Name, -1)
	}
	if twice := repeated[T, M](list); twice > 0 {
		c.add(ruleTwice, field.Name, twice)
	}
	p := parser{Scanner: sf.Scanner{Text: strings.Join(lines, separator)}, field: field, item: -1}
	for p.next() {
		c.member(field, p.item, &p.member)
	}
	return list
}

// malformed returns the rule that a malformed field breaks, and the arguments of its message.
func malformed(field *draft.Field, e *FieldError, lines []string) (r rule, args []any) {
	before, rest := lines[e.Line][:e.Offset], lines[e.Line][e.Offset:]
	def := field.Find(e.Param)
	switch {
	case e.Err == ErrMissing:
		return ruleMissing, []any{e.Param}
	case def != nil && (e.Err == ErrType || e.Err == ErrRange):
		return ruleParam, []any{def.Key, def.Form}
	case e.Err == ErrType && field == draft.Policies && rest != "" && text.Is(rest[0], text.Digit):
		return ruleDraft06, nil
	case field == draft.Limits && strings.HasPrefix(rest, "=") && text.IsToken(text.Trim(before)):
		return ruleDraft07, nil
	case e.Err == ErrType:
		return ruleToken, nil
	case e.Err == ErrTooMany:
		return ruleMany, nil
	}
	return ruleMalformed, nil
}

// member checks a member on its own.
func (c *checker) member(field *draft.Field, i int, m *member) {
	if m.twice != 0 {
		c.add(ruleParamTwice, field.Name, i)
	}
	if m.name == "" {
		c.add(ruleNameless, field.Name, i)
	}
	foreign := func(p Param) bool { return draft.Policies.Find(p.Key) != nil || draft.Limits.Find(p.Key) != nil }
	if slices.ContainsFunc(m.params, func(p Param) bool { return !prefixed(p.Key) && !foreign(p) }) {
		c.add(rulePrefix, field.Name, i)
	}
	if at := slices.IndexFunc(m.params, foreign); at >= 0 { // no parameter of field itself is in params
		key, owner := m.params[at].Key, LimitField
		if draft.Policies.Find(key) != nil {
			owner = PolicyField
		}
		c.add(ruleForeign, field.Name, i, key, owner)
	}
	if personal(m.key) {
		c.add(rulePersonal, field.Name, i)
	}
	if c.secret(m.key) {
		c.add(ruleSecret, field.Name, i)
	}
	if m.seen&(1<<draft.UnitSlot) == 0 {
		return
	}
	switch Unit(m.unit) {
	case "":
		c.add(ruleEmptyUnit, field.Name, i)
	case Requests, ContentBytes, ConcurrentRequests:
	case requestAlias:
		c.add(ruleAlias, field.Name, i)
	case "tokens", "cost", "percent": // of language models, of GraphQL, and of servers without numbers
		c.add(ruleUsedUnit, field.Name, i)
	default:
		c.add(ruleUnit, field.Name, i)
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
	policies := newMatcher(c.fields.Policies)
	shortest := c.shortest()
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		p := policies.policy(l)
		switch {
		case p != &noPolicy:
			if l.Remaining > p.Quota {
				c.add(ruleQuota, LimitField, i)
			}
		case len(c.fields.Policies) > 0:
			c.add(ruleOrphan, LimitField, i)
		}
		switch late := overdue(l, p); {
		case late && l.Reset.n >= older.LeastUnix:
			c.add(ruleMoment, LimitField, i)
		case late:
			c.add(ruleReset, LimitField, i)
		}
		if invites(l, p, shortest[p.Unit.Canonical()]) {
			c.add(ruleRatio, LimitField, i)
		}
	}
}

// shortest returns the policy with the shortest window of each unit.
func (c *checker) shortest() map[Unit]*Policy {
	of := make(map[Unit]*Policy, 1)
	for i := range c.fields.Policies {
		p := &c.fields.Policies[i]
		if q := of[p.Unit.Canonical()]; p.Window.ok && (q == nil || p.Window.n < q.Window.n) {
			of[p.Unit.Canonical()] = p
		}
	}
	return of
}

// tolerance is the factor by which a value may exceed its policy before it is likely a mistake.
// Jitter makes resets longer. If little is used early in a window, more remains at its end than
// the average rate gives.
const tolerance = 10

// overdue reports whether a reset is so long that it was probably written in another unit, or as
// a point in time. Without a window it recognizes only a point in time. A jitter of ten minutes
// is accepted, because clients come back by then anyway (draft-11 Section 8.5.1).
func overdue(l *Limit, p *Policy) bool {
	const jitter = int64(DefaultMaxWait / time.Second)
	if !p.Window.ok {
		return l.Reset.n >= older.LeastUnix
	}
	return l.Reset.n > p.Window.n+jitter && l.Reset.n/tolerance >= p.Window.n
}

// invites reports whether a client may go more than tolerance times as fast as p, the policy of l,
// until the reset of l (Section 8.5). The policy with the shortest window can prevent that.
func invites(l *Limit, p, shortest *Policy) bool {
	if p.Unit == ConcurrentRequests || l.Cap(*p, tolerance).Remaining >= l.Remaining {
		return false
	}
	if shortest == nil || shortest.Window.n >= p.Window.n {
		return true
	}
	windows := (l.Reset.n + shortest.Window.n - 1) / shortest.Window.n
	return text.SaturatingMul(shortest.Quota, windows) >= l.Remaining
}

// response checks the fields against the rest of the response.
func (c *checker) response() {
	status, storable, trailers := c.resp.StatusCode, c.storable(), HeaderOf(c.resp.Trailer)
	refused := status == http.StatusTooManyRequests
	if refused && storable && len(c.resp.Header[draft.PolicyKey])+len(c.resp.Header[draft.LimitKey]) > 0 {
		c.add(ruleStored, "Cache-Control", -1)
	}
	limits := c.fields.Limits
	if refused && len(limits) == 1 && limits[0].Remaining > 0 && len(c.resp.Header[text.RetryAfterKey]) == 0 && !text.Stored(c.resp.Header) {
		c.add(ruleRefused, LimitField, 0)
	}
	for _, field := range [...]*draft.Field{draft.Policies, draft.Limits} {
		if _, sent := trailers[field.Key]; sent {
			c.add(ruleTrailer, field.Name, -1)
		}
		if len(c.resp.Header[field.Key]) == 0 {
			continue
		}
		if status/100 == 3 && status != http.StatusNotModified {
			c.add(ruleRedirection, field.Name, -1)
		}
		switch {
		case text.Stored(c.resp.Header):
			c.add(ruleCached, field.Name, -1)
		case storable && !refused:
			c.add(ruleStorable, field.Name, -1)
		}
	}
}

// storable reports whether the header permits a cache to reuse the response. Without a permission
// a cache may do so too, but then the server has no fault.
func (c *checker) storable() bool {
	if r := c.resp.Request; r != nil && r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	explicit, fresh := false, false // a lifetime is given, and is not over
	for _, line := range c.resp.Header["Cache-Control"] {
		for directive := range strings.SplitSeq(strings.ToLower(line), ",") {
			name, value, _ := strings.Cut(text.Trim(directive), "=")
			switch name {
			case "no-store", "no-cache":
				return false
			case "public":
				fresh = true
			case "max-age", "s-maxage":
				age, ok := text.ParseNumber(text.Unquote(value))
				explicit = true
				fresh = fresh || ok && age.Floor() > 0
			}
		}
	}
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

// retryAfter checks that Retry-After has the form of RFC 9110 Section 10.2.3. It may not end before
// the wait of a limit with nothing remaining. A limit with something remaining may have a later
// reset, as in the example of draft-11 Appendix B.3.
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
		c.retryLate(int64(wait / time.Second))
	}
	// Only a successful response with something remaining has no reason to wait.
	if a := Advise(c.resp, made); a.Source == SourceNone && len(a.Fields.Limits) > 0 {
		c.add(ruleRetryIgnored, text.RetryAfterKey, -1)
	}
}

// retryLate checks that a Retry-After is not far beyond all resets and windows of the response.
// A Retry-After in milliseconds is.
func (c *checker) retryLate(asked int64) {
	latest, milli := int64(0), false
	compare := func(end int64) {
		latest = max(latest, end)
		// Rounding may move the end by a second.
		milli = milli || end > 0 && asked/1000 >= end-1 && asked/500 >= end && (asked-1)/1000 <= end
	}
	all := c.fields.Join(c.readOlder(withoutCurrent(c.resp.Header)))
	for i := range all.Limits {
		compare(all.Limits[i].Reset.n)
	}
	for i := range all.Policies {
		compare(all.Policies[i].Window.n)
	}
	switch {
	case latest == 0 || asked/tolerance < latest:
	case milli:
		c.add(ruleRetryMilli, text.RetryAfterKey, -1)
	default:
		c.add(ruleRetryLate, text.RetryAfterKey, -1)
	}
}

// older checks that older fields do not contradict the current ones. They must contain one of
// the current limits, and only quotas of current policies. The limit should be the one closest
// to exhaustion (draft-06 Section 3.1).
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
		case !reset && l.Remaining != Unknown: // else the current fields have no member for it
			c.add(ruleOlder, olderKey(fields, &old, l.Name, older.Reset), -1)
		}
	}
	blamed := map[string]bool{} // one field may hold many quotas
	for i := range old.Policies {
		p := &old.Policies[i]
		same := func(current Policy) bool { return current.Quota == p.Quota }
		if p.Quota == Unknown || len(c.fields.Policies) == 0 || slices.ContainsFunc(c.fields.Policies, same) {
			continue
		}
		if key := olderKey(fields, &old, p.Name, older.Quota); !blamed[key] {
			blamed[key] = true
			c.add(ruleOlder, key, -1)
		}
	}
}

// readOlder reads the older fields in h. Absolute times count from the time at which the response
// was made, like the seconds of current fields. Without Date this time is unknown, and absolute
// resets are absent in the result. They are recognized because they change with the arrival.
func (c *checker) readOlder(h http.Header) Fields {
	read := func(arrived time.Time) Fields {
		old, _, _ := parseLegacy(h, &LegacyOptions{}, text.Clock{Header: h, Arrived: arrived})
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
			old.Limits[i].Reset = Seconds{}
		}
	}
	return old
}

// olderKey returns the key of the older field that most likely contains a number of a policy. It
// prefers fields of the policy, or of no policy that was read, then fields of the role, then the
// alphabet. The word Requests names no policy if no other unit is counted.
func olderKey(fields []older.Field, read *Fields, policy string, role older.Role) (best string) {
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

// agrees reports whether a current limit has the Remaining of an older limit. It also reports
// whether such a limit has its Reset, give or take a second. Both are true if there is no current
// limit. A later Reset agrees too if it is not later than that of another current limit, because
// [RestrictHeader] writes such a Reset.
func (c *checker) agrees(old *Limit) (remaining, reset bool) {
	if len(c.fields.Limits) == 0 {
		return true, true
	}
	later, another := false, false
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		d, known := old.Reset.n-l.Reset.n, old.Reset.ok && l.Reset.ok
		before, behind := known && d < -1, known && d > 1
		switch same := !before && !behind; {
		case old.Remaining != Unknown && old.Remaining != l.Remaining:
			another = another || known && !behind
		case same:
			return true, true
		default:
			remaining, later = true, later || behind
		}
	}
	return remaining, later && another
}
