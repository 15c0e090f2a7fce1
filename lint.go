package ratelimit

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A Level is how much a [Finding] matters.
type Level int

const (
	LevelMust   Level = iota // the specification says MUST, REQUIRED, or defines it so
	LevelShould              // the specification says SHOULD, or recommends it
	LevelNote                // legal, and likely a mistake or of no use to clients
)

// String returns "must", "should" or "note".
func (l Level) String() string {
	switch l {
	case LevelMust:
		return "must"
	case LevelShould:
		return "should"
	}
	return "note"
}

// A Finding is a rule that a response does not keep.
type Finding struct {
	Rule  string // id in CONFORMANCE.md, such as "P16"
	Level Level
	Field string // name of the field at fault
	Item  int    // index of the member in that field, from 0; -1 where none is at fault
	// Message says in one sentence what to do. It never repeats the content of
	// a field.
	Message string
}

// Check holds a response against each rule of the specification (draft-11) that
// one response can show, for the tests of server authors. It returns nil for a
// response that keeps them all, for one without fields of rate limits, and for
// nil.
//
// The body is not looked at, and of trailers only whether the fields are among
// them. Older fields, such as X-RateLimit-Remaining, are read only to see
// whether they contradict the current ones. A rule about a field that is
// malformed is not checked further.
func Check(resp *http.Response) []Finding {
	if resp == nil {
		return nil
	}
	c := checker{resp: resp, h: resp.Header}
	var policyErr, limitErr error
	c.fields.Policies, policyErr = ParsePolicies(c.h[policyKey]...)
	c.fields.Limits, limitErr = ParseLimits(c.h[limitKey]...)
	c.lists(policyErr, limitErr)
	c.policies()
	c.limits()
	if policyErr == nil && limitErr == nil {
		c.joins()
	}
	c.response()
	c.retryAfter()
	c.legacy()
	return c.findings
}

// A checker collects what is found in a response.
type checker struct {
	resp     *http.Response
	h        http.Header
	fields   Fields
	findings []Finding
}

func (c *checker) find(rule string, level Level, field string, item int, message string) {
	c.findings = append(c.findings, Finding{rule, level, field, item, message})
}

// lists checks that the fields can be parsed.
func (c *checker) lists(policyErr, limitErr error) {
	c.list(PolicyField, c.h[policyKey], len(c.fields.Policies), policyErr)
	c.list(LimitField, c.h[limitKey], len(c.fields.Limits), limitErr)
}

func (c *checker) list(field string, lines []string, members int, err error) {
	var e *FieldError
	switch {
	case errors.As(err, &e):
		c.find(malformedRule(e), LevelMust, field, e.Item, malformedMessage(e))
	case len(lines) > 0 && members == 0:
		c.find(listRules[field], LevelMust, field, -1, "leave the field out when there is nothing to say")
	}
}

// listRules are the rules that make the fields Lists of Items with String
// values.
var listRules = map[string]string{PolicyField: "P1", LimitField: "L1"}

// paramRules are the rules about the parameters of a field.
var paramRules = map[string]map[string]string{
	PolicyField: {quotaKey: "P13", unitKey: "P14", windowKey: "P16", partitionKey: "P17"},
	LimitField:  {remainingKey: "L5", resetKey: "L7", partitionKey: "L10"},
}

// malformedRule returns the rule that a field breaks so that it cannot be
// parsed.
func malformedRule(e *FieldError) string {
	switch {
	case e.Err == ErrMissing && e.Field == PolicyField:
		return "P6"
	case e.Err == ErrMissing:
		return "L2"
	case e.Err == ErrType && e.Param == "" && e.Field == PolicyField:
		return "P2"
	case e.Err == ErrType, e.Err == ErrRange:
		if rule, ok := paramRules[e.Field][e.Param]; ok {
			return rule
		}
	}
	return listRules[e.Field]
}

// malformedMessage says what to do about an error, and where.
func malformedMessage(e *FieldError) string {
	place := "line " + strconv.Itoa(e.Line) + ", offset " + strconv.Itoa(e.Offset) + ": "
	switch {
	case e.Err == ErrMissing:
		return place + "add the parameter " + e.Param + ", without which clients ignore the whole field"
	case e.Err == ErrType && e.Param == "":
		return place + "write the name in double quotes, or clients ignore the whole field"
	case e.Err == ErrTooMany:
		return place + "write no more than clients have to read, 1024 members with 256 parameters each"
	case e.Err == ErrSyntax:
		return place + "write what RFC 9651 allows here, or clients ignore the whole field"
	}
	return place + "write " + paramForms[e.Param] + ", or clients ignore the whole field"
}

// paramForms say how parameters are written.
var paramForms = map[string]string{
	quotaKey:     "q as an integer from 0",
	unitKey:      "qu in double quotes",
	windowKey:    "w as an integer from 1",
	partitionKey: "pk in base64 between colons",
	remainingKey: "r as an integer from 0",
	resetKey:     "t as an integer from 0",
}

// policies checks each policy on its own.
func (c *checker) policies() {
	if i := repeated(c.fields.Policies, policyIdentity); i >= 0 {
		c.find("P18", LevelShould, PolicyField, i, duplicateMessage)
	}
	for i := range c.fields.Policies {
		p := &c.fields.Policies[i]
		c.member(PolicyField, "P2", i, p.Name, p.PartitionKey, p.Params)
		switch p.Unit {
		case "", Requests, ContentBytes, ConcurrentRequests:
		case requestAlias:
			c.find("P15", LevelShould, PolicyField, i, `write the unit as "requests", or leave it out`)
		default:
			c.find("P15", LevelShould, PolicyField, i, "use a registered quota unit, which clients know how to count")
		}
	}
}

const duplicateMessage = "give each member of the field its own name and partition key"

// limits checks each limit on its own.
func (c *checker) limits() {
	if i := repeated(c.fields.Limits, limitIdentity); i >= 0 {
		c.find("P18", LevelShould, LimitField, i, duplicateMessage)
	}
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		c.member(LimitField, "L1", i, l.Name, l.PartitionKey, l.Params)
	}
}

// member checks what policies and limits have in common.
func (c *checker) member(field, nameRule string, i int, name string, key []byte, params Params) {
	if name == "" {
		c.find(nameRule, LevelShould, field, i, "give the policy a name, by which clients and problem documents can tell it")
	}
	for _, p := range params {
		if !prefixed(p.Key) {
			c.find("P11", LevelShould, field, i, "prefix the extension parameter with a vendor's identifier, as in acme-burst")
			break
		}
	}
	if personal(key) {
		c.find("S9", LevelShould, field, i, "hash the partition key, because it looks like an address of the client")
	}
}

// prefixed reports whether a key of a parameter begins with what may be a
// vendor's identifier.
func prefixed(key string) bool { return strings.IndexAny(key, "-_.") > 0 }

// personal reports whether a partition key looks like an IP address, with or
// without port or prefix length, or like an e-mail address.
func personal(key []byte) bool {
	const longest = 254 // of an e-mail address
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
	used := make([]bool, len(c.fields.Policies))
	policies := newMatcher(&c.fields)
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		j := policies.policyOf(l)
		if j < 0 {
			c.find("L1", LevelNote, LimitField, i, "announce the policy of this limit in RateLimit-Policy, which gives it a unit, a quota and a window")
			continue
		}
		used[j] = true
		c.join(i, l, &c.fields.Policies[j])
	}
	for j := range used {
		if !used[j] {
			c.find("S11", LevelNote, PolicyField, j, "report in RateLimit what remains of this policy, or leave it out if it does not apply")
		}
	}
}

func (c *checker) join(i int, l *Limit, p *Policy) {
	if l.Remaining > p.Quota {
		c.find("L5", LevelNote, LimitField, i, "let r be at most the q of the policy, because clients may take no more")
	}
	if p.Window.ok && l.Reset.ok && l.Reset.n > p.Window.n {
		c.find("L7", LevelNote, LimitField, i, "let t be at most the w of the policy, because no window lasts longer")
	}
	if p.Unit != ConcurrentRequests && l.Cap(*p, 1).Remaining < l.Remaining {
		c.find("S5", LevelShould, LimitField, i, "lower r or raise t, so that r in t seconds is no more than q in w seconds")
	}
}

// response checks the fields against the rest of the response.
func (c *checker) response() {
	trailers := map[string]bool{}
	for key := range c.resp.Trailer {
		trailers[http.CanonicalHeaderKey(key)] = true
	}
	redirection := c.resp.StatusCode/100 == 3
	old, stored := aged(c.h), c.storable()
	for _, f := range []struct{ field, key, trailerRule string }{
		{PolicyField, policyKey, "P12"},
		{LimitField, limitKey, "L4"},
	} {
		if trailers[f.key] {
			c.find(f.trailerRule, LevelMust, f.field, -1, "send the field in the header section, never in the trailer section")
		}
		if len(c.h[f.key]) == 0 {
			continue
		}
		if redirection {
			c.find("S2", LevelShould, f.field, -1, "leave the field out of redirections, because it may keep clients from following them")
		}
		switch {
		case old:
			c.find("K1", LevelNote, f.field, -1, "leave the field out of responses from a cache, where clients ignore it")
		case stored:
			c.find("K1", LevelNote, f.field, -1, "send Cache-Control: no-store, or leave the field out, because clients ignore it on a response from a cache")
		}
	}
}

// storable reports whether the response says that a cache may use it again.
// What caches do where it says nothing is not held against it.
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
	date, dated := c.date()
	for _, line := range c.h["Expires"] {
		if t, ok := parseDate(trim(line)); ok && dated && t.After(date) {
			return true
		}
	}
	return false
}

// date returns when the response was made, by its own account.
func (c *checker) date() (time.Time, bool) {
	lines := c.h[dateKey]
	if len(lines) == 0 {
		return time.Time{}, false
	}
	return parseDate(trim(lines[0]))
}

const dateKey = "Date"

// retryAfter checks that Retry-After is no earlier than the reset of a limit
// with nothing remaining. With something remaining they need not agree.
func (c *checker) retryAfter() {
	var longest time.Duration
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		if reset, ok := l.Reset.Duration(); ok && l.Remaining == 0 {
			longest = max(longest, reset)
		}
	}
	date, dated := c.date()
	for _, line := range c.h[retryAfterKey] {
		if _, ok := delaySeconds(trim(line)); ok || dated {
			break
		}
		if _, ok := readDate(trim(line)); ok {
			return // and no other date to measure it by
		}
	}
	if wait, ok := ParseRetryAfter(c.h, date); ok && wait < longest {
		c.find("S3", LevelShould, retryAfterKey, -1, "let Retry-After be no earlier than the t of each limit with nothing remaining")
	}
}

// legacy checks that older fields do not contradict the current ones: they name
// the limit closest to exhaustion (draft-06).
func (c *checker) legacy() {
	if len(c.fields.Limits) == 0 {
		return
	}
	_, dated := c.date()
	// Without Date, absolute times cannot be compared. Far in the future they
	// are all past, which is 0.
	old, _ := ParseLegacy(c.h, LegacyOptions{Now: time.Unix(farthest>>20, 0)})
	d, _ := LookupDialect(old.Dialect)
	for i := range old.Limits {
		l := &old.Limits[i]
		remaining, reset := c.agrees(l, dated)
		switch {
		case !remaining:
			c.find("6-5", LevelShould, d.Remaining, -1, legacyMessage)
		case !reset:
			c.find("6-5", LevelShould, d.Reset, -1, legacyMessage)
		}
		if p, ok := old.PolicyOf(*l); ok && !c.allots(p.Quota) {
			c.find("6-5", LevelShould, d.Limit, -1, legacyMessage)
		}
	}
}

const legacyMessage = "say the same as in RateLimit and RateLimit-Policy, because clients read the one or the other"

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
