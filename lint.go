package ratelimit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A Level is how much a [Finding] matters. Levels rise: LevelMust is the highest.
type Level int

const (
	LevelNote   Level = iota // legal, and likely a mistake or of no use to clients
	LevelShould              // the specification says SHOULD, or recommends it
	LevelMust                // the specification says MUST, REQUIRED, or defines it so
)

// String returns "note", "should" or "must".
func (l Level) String() string {
	switch l {
	case LevelMust:
		return "must"
	case LevelShould:
		return "should"
	}
	return "note"
}

// A Finding is a rule that a response breaks.
type Finding struct {
	Rule  string // id in CONFORMANCE.md, such as "P16"
	Level Level
	Field string // name of the field at fault, as it was sent
	Item  int    // index of the member in that field, from 0; -1 where none is at fault
	// Message says in one sentence what to do. It never repeats the content of
	// a field.
	Message string
}

// A rule is what a Finding may be about. CONFORMANCE.md has a row for each.
type rule struct {
	id      string // "" where it is that of the field or of the parameter
	level   Level
	message string // %s stands for the parameter
}

// The indices of the rules, in the order in which Check checks them.
const (
	ruleMissing = iota
	ruleParam
	ruleToken
	ruleDraft06
	ruleDraft07
	ruleMany
	ruleMalformed
	ruleEmpty
	ruleTwice
	ruleNameless
	rulePrefix
	ruleAlias
	ruleUnit
	ruleEmptyUnit
	rulePersonal
	ruleOrphan
	ruleQuota
	ruleReset
	ruleRatio
	ruleTrailer
	ruleRedirection
	ruleCached
	ruleStorable
	ruleRetryForm
	ruleRetryEarly
	ruleOlder
)

var rules = [...]rule{
	ruleMissing:     {"", LevelMust, "add the parameter %s, without which clients ignore the whole field"},
	ruleParam:       {"", LevelMust, "write the parameter %s, or clients ignore the whole field"},
	ruleToken:       {"", LevelMust, "write the name in double quotes, or clients ignore the whole field"},
	ruleDraft06:     {"", LevelMust, "this is the form of drafts 04 to 07: write a name in double quotes, and the quota as q"},
	ruleDraft07:     {"", LevelMust, "this is the form of draft-07: write an item for each policy, its name in double quotes, and what remains as r"},
	ruleMany:        {"", LevelMust, "write no more than clients have to read, 1024 members with 256 parameters each"},
	ruleMalformed:   {"", LevelMust, "write what RFC 9651 allows here, or clients ignore the whole field"},
	ruleEmpty:       {"", LevelMust, "leave the field out when there is nothing to say"},
	ruleTwice:       {"P18", LevelShould, "give each member of the field its own name and partition key"},
	ruleNameless:    {"", LevelShould, "give the policy a name, by which clients and problem documents can refer to it"},
	rulePrefix:      {"P11", LevelShould, "prefix the extension parameter with a vendor's identifier, as in acme-burst"},
	ruleAlias:       {"P15", LevelShould, `write the unit as "requests", or leave it out`},
	ruleUnit:        {"P15", LevelShould, "use a registered quota unit, which clients know how to count"},
	ruleEmptyUnit:   {"P7", LevelShould, "leave qu out, because an empty unit is not a registered one"},
	rulePersonal:    {"S9", LevelShould, "hash the partition key, because it looks like an address of the client"},
	ruleOrphan:      {"L1", LevelNote, "announce the policy of this limit in RateLimit-Policy, which gives it a unit, a quota and a window"},
	ruleQuota:       {"L5", LevelNote, "let r be at most the q of the policy, because clients may take no more"},
	ruleReset:       {"L7", LevelNote, "let t be about the w of the policy at most, because no window lasts that much longer"},
	ruleRatio:       {"S5", LevelNote, "lower r or raise t, so that a client which uses up r within t stays near q in w seconds, or add a policy with a short window"},
	ruleTrailer:     {"", LevelMust, "send the field in the header section, never in the trailer section"},
	ruleRedirection: {"S2", LevelShould, "leave the field out of redirections, because it may keep clients from following them"},
	ruleCached:      {"K1", LevelNote, "leave the field out of responses from a cache, where clients ignore it"},
	ruleStorable:    {"K1", LevelNote, "send Cache-Control: no-store, or leave the field out, because clients ignore it on a response from a cache"},
	ruleRetryForm:   {"9110-10.2.3", LevelMust, "write one Retry-After, as whole seconds or as an HTTP-date in GMT, because many clients read nothing else"},
	ruleRetryEarly:  {"S3", LevelShould, "let Retry-After be no earlier than the end of the wait of each limit with nothing remaining"},
	ruleOlder:       {"6-5", LevelShould, "say the same as in RateLimit and RateLimit-Policy, because clients read the one or the other"},
}

// Check checks a response against each rule of the specification (draft-11) that
// one response can show, for the tests of server authors. A correct server has
// no finding above [LevelNote]. It returns nil for a response that keeps all
// rules, for one without fields of rate limits, and for nil.
//
// Check does not look at the body, and of trailers only at their names. It reads
// older fields, such as X-RateLimit-Remaining, only to see whether they
// contradict the current ones. Of a field that is malformed it checks nothing
// else.
func Check(resp *http.Response) []Finding {
	if resp == nil {
		return nil
	}
	c := checker{resp: resp, h: resp.Header, clock: readClock(resp.Header, time.Time{})}
	var policyErr, limitErr error
	c.fields.Policies, policyErr = ParsePolicies(c.h[policyKey]...)
	c.fields.Limits, limitErr = ParseLimits(c.h[limitKey]...)
	c.list(policyField, len(c.fields.Policies), policyErr)
	c.list(limitField, len(c.fields.Limits), limitErr)
	c.policies()
	c.limits()
	if len(c.fields.Policies) > 0 {
		c.joins()
	}
	c.response()
	c.retryAfter()
	c.older()
	return c.findings
}

// A checker collects what is found in a response.
type checker struct {
	resp     *http.Response
	h        http.Header
	clock    clock
	fields   Fields
	findings []Finding
}

func (c *checker) find(r rule, field string, item int) {
	c.findings = append(c.findings, Finding{r.id, r.level, field, item, r.message})
}

// list checks that a field can be parsed.
func (c *checker) list(field *fieldDef, members int, err error) {
	var e *FieldError
	switch {
	case errors.As(err, &e):
		r := malformed(field, e, c.h[field.key])
		r.message = fmt.Sprintf("line %d, byte %d: %s", e.Line+1, e.Offset+1, r.message)
		c.find(r, field.name, e.Item)
	case len(c.h[field.key]) > 0 && members == 0:
		r := rules[ruleEmpty]
		r.id = field.listRule
		c.find(r, field.name, -1)
	}
}

// malformed returns the rule that a field breaks so that it cannot be parsed.
func malformed(field *fieldDef, e *FieldError, lines []string) rule {
	with := func(r rule, id, text string) rule {
		r.id, r.message = id, strings.Replace(r.message, "%s", text, 1)
		return r
	}
	before, rest := lines[e.Line][:e.Offset], lines[e.Line][e.Offset:]
	def := field.find(e.Param)
	switch {
	case e.Err == ErrMissing:
		return with(rules[ruleMissing], field.missingRule, e.Param)
	case def != nil && (e.Err == ErrType || e.Err == ErrRange):
		return with(rules[ruleParam], def.rule, def.key+" as "+def.form)
	case e.Err == ErrType && field == policyField && rest != "" && is(rest[0], digit):
		return with(rules[ruleDraft06], field.nameRule, "")
	case e.Err == ErrSyntax && field == limitField && strings.HasPrefix(rest, "=") && isToken(trim(before)):
		return with(rules[ruleDraft07], field.listRule, "")
	case e.Err == ErrType:
		return with(rules[ruleToken], field.nameRule, "")
	case e.Err == ErrTooMany:
		return with(rules[ruleMany], field.listRule, "")
	}
	return with(rules[ruleMalformed], field.listRule, "")
}

// policies checks each policy on its own.
func (c *checker) policies() {
	if i := repeated(c.fields.Policies); i >= 0 {
		c.find(rules[ruleTwice], PolicyField, i)
	}
	empty := emptyUnits(c.h[policyKey])
	for i := range c.fields.Policies {
		p := &c.fields.Policies[i]
		c.member(policyField, i, p.Name, p.PartitionKey, p.Params)
		switch p.Unit {
		case "":
			if empty[i] {
				c.find(rules[ruleEmptyUnit], PolicyField, i)
			}
		case Requests, ContentBytes, ConcurrentRequests:
		case requestAlias:
			c.find(rules[ruleAlias], PolicyField, i)
		default:
			c.find(rules[ruleUnit], PolicyField, i)
		}
	}
}

// emptyUnits returns which members have the parameter qu="", of which a Policy
// knows nothing.
func emptyUnits(lines []string) map[int]bool {
	joined := join(lines)
	if !strings.Contains(joined[0], unitKey+`=""`) {
		return nil
	}
	empty := map[int]bool{}
	p := parser{field: policyField, most: maxMembers, item: -1}
	for p.next(joined) {
		empty[p.item] = p.member.seen&(1<<unitParam) != 0 && p.member.unit == ""
	}
	return empty
}

// limits checks each limit on its own.
func (c *checker) limits() {
	if i := repeated(c.fields.Limits); i >= 0 {
		c.find(rules[ruleTwice], LimitField, i)
	}
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		c.member(limitField, i, l.Name, l.PartitionKey, l.Params)
	}
}

// member checks what policies and limits have in common.
func (c *checker) member(field *fieldDef, i int, name string, key []byte, params Params) {
	if name == "" {
		r := rules[ruleNameless]
		r.id = field.nameRule
		c.find(r, field.name, i)
	}
	for _, p := range params {
		if !prefixed(p.Key) {
			c.find(rules[rulePrefix], field.name, i)
			break
		}
	}
	if personal(key) {
		c.find(rules[rulePersonal], field.name, i)
	}
}

// prefixed reports whether a key of a parameter begins with what may be a
// vendor's identifier, or is one that the drafts themselves use without: that of
// the other field, or a comment of draft-11 Appendix C, question 8.
func prefixed(key string) bool {
	switch key {
	case "burst", "comment":
		return true
	}
	return strings.IndexAny(key, "-_.") > 0 || policyField.find(key) != nil || limitField.find(key) != nil
}

// personal reports whether a partition key looks like an IP address, with or
// without port or prefix length, or like an e-mail address.
func personal(key []byte) bool {
	const longest = 254 // of an e-mail address, RFC 5321 Section 4.5.3.1.3
	if len(key) == 0 || len(key) > longest {
		return false
	}
	s := string(key)
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return true
	}
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	local, domain, ok := bytes.Cut(key, []byte("@"))
	return ok && len(local) > 0 && bytes.IndexByte(domain, '.') > 0 && bytes.IndexFunc(key, notMail) < 0
}

func notMail(r rune) bool { return r <= ' ' || r > '~' }

// joins checks limits and policies against each other.
func (c *checker) joins() {
	policies := newMatcher(c.fields.Policies)
	shortest := c.shortest()
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		p := policies.policy(l)
		if p == &noPolicy {
			c.find(rules[ruleOrphan], LimitField, i)
			continue
		}
		if l.Remaining > p.Quota {
			c.find(rules[ruleQuota], LimitField, i)
		}
		if overdue(l, p) {
			c.find(rules[ruleReset], LimitField, i)
		}
		if invites(l, p, shortest[p.Unit.canonical()]) {
			c.find(rules[ruleRatio], LimitField, i)
		}
	}
}

// shortest returns the policy with the shortest window of each unit.
func (c *checker) shortest() map[Unit]*Policy {
	of := make(map[Unit]*Policy, 1)
	for i := range c.fields.Policies {
		p := &c.fields.Policies[i]
		if q := of[p.Unit.canonical()]; p.Window.ok && (q == nil || p.Window.n < q.Window.n) {
			of[p.Unit.canonical()] = p
		}
	}
	return of
}

// tolerance is how much a value may exceed what the policy says before it is
// likely a mistake: jitter raises resets, and an honest window that began with
// little use ends with more remaining than its average rate.
const tolerance = 10

// overdue reports whether a reset is so much longer than the window that it is
// another unit or another point in time. A jitter of ten minutes, after which
// clients come back anyway (draft-11 Section 8.5.1), is none.
func overdue(l *Limit, p *Policy) bool {
	const jitter = int64(DefaultMaxWait / time.Second)
	return p.Window.ok && l.Reset.ok && l.Reset.n > p.Window.n+jitter && l.Reset.n/tolerance >= p.Window.n
}

// invites reports whether a client that uses up l within its reset exceeds the
// rate of the policy by more than the tolerance, and the policy with the shortest
// window does not keep it from that (draft-11 Section 8.5).
func invites(l *Limit, p, shortest *Policy) bool {
	if p.Unit == ConcurrentRequests || l.Cap(*p, tolerance).Remaining >= l.Remaining {
		return false
	}
	if shortest == nil || shortest.Window.n >= p.Window.n || shortest.Window.n < minWindow {
		return true
	}
	windows := (l.Reset.n + shortest.Window.n - 1) / shortest.Window.n
	return mulDiv(uint64(shortest.Quota), uint64(windows), 1, 1) >= l.Remaining
}

// response checks the fields against the rest of the response.
func (c *checker) response() {
	trailers := map[string]bool{}
	for key := range c.resp.Trailer {
		trailers[http.CanonicalHeaderKey(key)] = true
	}
	redirection := c.resp.StatusCode/100 == 3 && c.resp.StatusCode != http.StatusNotModified
	storable := c.storable()
	for _, field := range [...]*fieldDef{policyField, limitField} {
		if trailers[field.key] {
			r := rules[ruleTrailer]
			r.id = field.trailerRule
			c.find(r, field.name, -1)
		}
		if len(c.h[field.key]) == 0 {
			continue
		}
		if redirection {
			c.find(rules[ruleRedirection], field.name, -1)
		}
		switch {
		case c.clock.stored:
			c.find(rules[ruleCached], field.name, -1)
		case storable:
			c.find(rules[ruleStorable], field.name, -1)
		}
	}
}

// storable reports whether the response says that a cache may use it again.
// Where it says nothing, what caches do then is not the fault of the server.
func (c *checker) storable() bool {
	if r := c.resp.Request; r != nil && r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	explicit, fresh := false, false
	for _, line := range c.h["Cache-Control"] {
		for directive := range strings.SplitSeq(strings.ToLower(line), ",") {
			name, value, _ := strings.Cut(trim(directive), "=")
			switch name {
			case "no-store", "no-cache":
				return false
			case "public":
				fresh = true
			case "max-age", "s-maxage":
				age, ok := parseNumber(unquote(value))
				explicit = true
				fresh = fresh || ok && !age.neg && age.n > 0
			}
		}
	}
	if explicit || fresh {
		return fresh
	}
	for _, line := range c.h["Expires"] {
		if t, ok := parseDate(trim(line)); ok && !c.clock.made.IsZero() && t.After(c.clock.made) {
			return true
		}
	}
	return false
}

// retryAfter checks the form of Retry-After, and that it is no earlier than the
// end of the wait of a limit with nothing remaining. With something remaining
// they need not agree.
func (c *checker) retryAfter() {
	lines := c.h[retryAfterKey]
	standard, found := len(lines) == 1, false
	var asked retryAfter
	for _, line := range lines {
		r, ok := parseRetryAfter(line)
		standard = standard && r.standard
		if ok && !found {
			asked, found = r, true
		}
	}
	if len(lines) > 0 && !standard {
		c.find(rules[ruleRetryForm], retryAfterKey, -1)
	}
	least, ok := c.fields.RetryAfter().Duration()
	measured := asked.date.IsZero() || !c.clock.made.IsZero() // else there is no other date to measure it by
	if ok && found && measured && asked.wait(c.clock.made) < least {
		c.find(rules[ruleRetryEarly], retryAfterKey, -1)
	}
}

// older checks that older fields do not contradict the current ones: they name
// the limit closest to exhaustion (draft-06).
func (c *checker) older() {
	if len(c.fields.Limits) == 0 {
		return
	}
	// Both forms count from when the response was made, even if it comes from a
	// cache. Without Date, absolute times cannot be compared: far in the future
	// they are all past, which is 0.
	made, dated := c.clock.made, !c.clock.made.IsZero()
	if !dated {
		made = time.Unix(math.MaxInt64>>20, 0)
	}
	h := maps.Clone(c.h)
	delete(h, ageKey)
	old, _ := ParseLegacy(h, LegacyOptions{Now: made})
	for i := range old.Limits {
		l := &old.Limits[i]
		remaining, reset := c.agrees(l, dated)
		switch {
		case !remaining:
			c.find(rules[ruleOlder], c.olderField(l.Name, RoleRemaining), -1)
		case !reset:
			c.find(rules[ruleOlder], c.olderField(l.Name, RoleReset), -1)
		}
		if p, ok := old.PolicyOf(*l); ok && p.Quota != Unknown && !c.allots(p.Quota) {
			c.find(rules[ruleOlder], c.olderField(l.Name, RoleQuota), -1)
		}
	}
}

// olderField returns the name of the field that tells a number of a policy, as it
// was sent; of several the first in order.
func (c *checker) olderField(policy string, role Role) string {
	best := ""
	for _, key := range slices.Sorted(maps.Keys(c.h)) {
		m, ok := parseKey(key)
		if !ok || m.policy != "" && m.policy != policy || key == policyKey || key == limitKey {
			continue
		}
		if best == "" || m.role == role {
			best = key
		}
		if m.role == role {
			break
		}
	}
	return best
}

// agrees reports whether a current limit has what remains of an older one, and
// then the reset too. A second is within rounding.
func (c *checker) agrees(old *Limit, dated bool) (remaining, reset bool) {
	incomparable := !old.Reset.ok || !dated && old.Reset.n == 0
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		if old.Remaining != Unknown && old.Remaining != l.Remaining {
			continue
		}
		remaining = true
		if d := l.Reset.n - old.Reset.n; incomparable || !l.Reset.ok || -1 <= d && d <= 1 {
			return true, true
		}
	}
	return remaining, false
}

// allots reports whether there is a policy of that quota, or none at all.
func (c *checker) allots(quota int64) bool {
	for i := range c.fields.Policies {
		if c.fields.Policies[i].Quota == quota {
			return true
		}
	}
	return len(c.fields.Policies) == 0
}
