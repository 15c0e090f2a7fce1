package ratelimit

import (
	"hash/maphash"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Sequence checks what one client got from one server, response by response, for the
// tests of servers, as [Check] does for a single one: whether the remaining quota units
// fall by what was spent, resets go down with the clock, and something comes back after
// them, and whether a refusal comes when nothing remains, and not before. CONFORMANCE.md
// lists its rules. The zero Sequence is ready to use. It remembers at most 64 policies,
// and no content of the responses. It is not for concurrent use, but the requests may
// overlap, and answers may be lost.
type Sequence struct {
	// Alone says that this client alone uses the quota, that every request costs the
	// same, and that the server says all it knows. What then has no other explanation is
	// a finding of [LevelShould]; otherwise other clients, or a server that lowers what
	// it says (draft-11 Section 8.3), may explain it, and it is one of [LevelNote].
	Alone bool

	// Of names and findings there are hashes: they may be as long as a server likes.
	seed   maphash.Seed
	runs   map[uint64]*run
	found  map[uint64]bool // what Add has returned
	recent [64]time.Time   // when the latest responses arrived
	added  int             // how many arrived, lost ones included
	latest time.Time       // when the latest of all arrived
	// overlaps is positive while one of the latest responses is known to have
	// overlapped with another: then which was counted first is not known.
	overlaps int
	calm     calm
	owed     promise
}

// The bounds of what a Sequence remembers.
const (
	maxRuns  = 64
	maxFound = 256 // distinct findings; hostile responses may give any number
)

// Add checks the next response, in the order of arrival, and returns the findings that
// it adds: those of [Check], and those that it shows together with earlier ones. None is
// returned twice. The form of drafts 04 to 07 is a note here, and so is a Retry-After a
// second before the reset.
//
// A zero received, when the response arrived, is time.Now(); a zero sent, when the
// request was sent, is received. A nil resp stands for an answer that was lost or late:
// the server may have counted the request.
//
// A limit of requests is checked if it has a reset and a policy with a quota, in current
// or older fields. A response from a cache says nothing (draft-11 Section 7.3). Only
// those with a status below 400 count as served, because a server need not count those
// that failed.
func (s *Sequence) Add(resp *http.Response, sent, received time.Time) []Finding {
	if received.IsZero() {
		received = time.Now()
	}
	if sent.IsZero() || sent.After(received) {
		sent = received
	}
	if s.runs == nil {
		s.seed, s.runs, s.found = maphash.MakeSeed(), map[uint64]*run{}, map[uint64]bool{}
	}
	x := &exchange{Sequence: s, sent: sent, received: received, idle: sent.Sub(s.latest)}
	x.overlap()
	if resp == nil {
		s.lose()
		return nil
	}
	x.resp = resp
	x.advice = Advisor{MaxWait: math.MaxInt64}.Advise(resp, received)
	x.refused = x.advice.Refused
	x.served = resp.StatusCode < http.StatusBadRequest
	x.check()
	x.numbers()
	x.policies()
	x.limits()
	x.refusal()
	return x.findings
}

// lose forgets what earlier responses promise: it is unknown whether the server counted a
// request whose answer was lost, cached or an error.
func (s *Sequence) lose() { s.calm.ok, s.owed.ok, s.owed.row = false, false, 0 }

// An exchange is a request and its response, while it is added.
type exchange struct {
	*Sequence
	resp            *http.Response
	sent, received  time.Time
	idle            time.Duration // since the latest response before it; negative if they overlap
	pending         int           // responses that arrived after this was sent; more than recent holds if that many
	advice          Advice
	served, refused bool
	findings        []Finding
}

// overlap notes when the response arrived, and with how many others it overlaps.
func (x *exchange) overlap() {
	for _, at := range x.recent[:min(x.added, len(x.recent))] {
		if at.After(x.sent) {
			x.pending++
		}
	}
	if x.pending == len(x.recent) {
		x.pending = math.MaxInt // there may be more
	}
	x.recent[x.added%len(x.recent)] = x.received
	x.added++
	if x.received.After(x.latest) {
		x.latest = x.received
	}
	if x.overlaps = max(x.overlaps-1, 0); x.pending > 0 {
		x.overlaps = len(x.recent)
	}
}

// report adds a finding, unless it was found before.
func (x *exchange) report(f Finding) {
	if key := maphash.Comparable(x.seed, f); !x.found[key] && len(x.found) < maxFound {
		x.found[key] = true
		x.findings = append(x.findings, f)
	}
}

// check adds what Check finds. Two of its findings are notes here: limits in the form
// of drafts 04 to 07 are right by their draft, and a Retry-After that is a second
// before the reset may be rounded otherwise.
func (x *exchange) check() {
	dialect := x.advice.Fields.Dialect
	if isStored(x.resp.Header) { // of which there is no advice
		f, _ := ParseAny(x.resp.Header, LegacyOptions{})
		dialect = f.Dialect
	}
	old := dialect == "draft-06" || dialect == "draft-07"
	least, _ := x.advice.Fields.RetryAfter().Duration()
	rounded := x.advice.Asked >= least-time.Second
	for _, b := range check(x.resp) {
		if old && (b.rule == ruleDraft06 || b.rule == ruleDraft07) || rounded && b.rule == ruleRetryEarly {
			b.Level = LevelNote
		}
		x.report(b.Finding)
	}
}

// add adds a finding about a field and the index of its member. certain reports
// whether it has no explanation but a fault, given that the client is alone.
func (x *exchange) add(r sequenceRule, certain bool, field string, item int) {
	f := r.in(field, item)
	if !certain || !x.Alone {
		f.Level = LevelNote
	}
	x.report(f)
}

// judge adds a finding that other clients are no explanation of.
func (x *exchange) judge(r sequenceRule, field string, item int) { x.report(r.in(field, item)) }

// isCurrent reports whether the numbers are those of RateLimit-Policy and RateLimit.
func (x *exchange) isCurrent() bool {
	return x.advice.Fields.Dialect == currentDialect
}

// slack is by how many seconds a reset may be off: by rounding, and if it is made of
// two times in whole seconds, that of the reset and that of Date, by both.
func (x *exchange) slack() float64 {
	if x.isCurrent() {
		return 1
	}
	return 2
}

// numbers checks what is written in older fields, which ParseAny reads with
// lenience: numbers below zero, and fractions. A strict reader of the current fields
// refuses them, so Check has that.
func (x *exchange) numbers() {
	h := x.older()
	found, _ := older.Find(nil, h, nil)
	for i := range found {
		f := &found[i]
		if role := f.Role(); role < older.Quota || role > older.Reset {
			continue
		}
		for _, line := range f.Lines {
			line = text.Trim(line)
			if negative := strings.HasPrefix(line, "-"); negative && text.All(line[1:], text.Digit) && len(line) > 1 {
				x.judge(ruleNegative, f.Key, -1)
			} else if whole, part, ok := strings.Cut(line, "."); ok && whole != "" && part != "" && text.All(whole, text.Digit) && text.All(part, text.Digit) {
				x.judge(ruleFraction, f.Key, -1)
			}
		}
	}
}

// older returns the fields of the response without the current ones.
func (x *exchange) older() http.Header {
	h := x.resp.Header.Clone()
	delete(h, policyKey)
	delete(h, limitKey)
	return h
}

// field returns the field that tells a limit or its policy, and the index of the
// member in it.
func (x *exchange) field(field, policy string, role Role, item int) (string, int) {
	if x.isCurrent() {
		return field, item
	}
	found, _ := older.Find(nil, x.resp.Header, nil)
	return olderKey(found, &x.advice.Fields, policy, older.Role(role)), -1
}

// A run is what a Sequence remembers of a policy and its limit.
type run struct {
	limiters.Run
	announced bool  // as a current policy
	terms     terms // as it was announced
}

// terms are what has to stay the same of a policy.
type terms struct {
	quota  int64
	unit   Unit
	window Seconds
}

func (p *Policy) terms() terms { return terms{p.Quota, p.Unit.canonical(), p.Window} }

// A subject is what is remembered apart. Older fields have one set of names for all
// limits of a server, and tell the tightest, so that there another quota or window is
// another limit.
type subject struct {
	identity
	terms
}

// run returns what is remembered of a policy, or nil if there are too many.
func (x *exchange) run(p *Policy) *run {
	of := subject{identity: p.identity()}
	if !x.isCurrent() {
		of.terms = p.terms()
	}
	key := maphash.Comparable(x.seed, of)
	r := x.runs[key]
	if r == nil && len(x.runs) < maxRuns {
		r = &run{}
		x.runs[key] = r
	}
	return r
}

// policies checks that policies stay: those of the current fields, since another quota in
// older ones is another subject. One of a 503 may be one that holds for a time (draft-11
// Section 5.2).
func (x *exchange) policies() {
	if x.resp.StatusCode == http.StatusServiceUnavailable {
		return
	}
	for i := range x.advice.Fields.Policies {
		p := &x.advice.Fields.Policies[i]
		r := x.run(p)
		switch {
		case r == nil:
		case !r.announced:
			r.announced, r.terms = true, p.terms()
		case r.terms != p.terms():
			x.judge(ruleChanged, PolicyField, i)
			*r = run{announced: true, terms: p.terms()}
		}
	}
}

// limits checks the limits of the response against those of earlier ones. Slots for
// requests at the same time come back when these end, which no clock tells, and
// without a policy nothing is known to compare with.
func (x *exchange) limits() {
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	for i := range f.Limits {
		l := &f.Limits[i]
		x.unixTime(l, i)
		p := policies.policy(l)
		if l.Remaining == Unknown || p.Quota == Unknown || p.Unit.canonical() != Requests {
			continue
		}
		if r := x.run(p); r != nil {
			x.limit(r, l, p, i)
		}
	}
}

// limit checks l, whose policy is p, against what is remembered of it. A doubt is certain
// only if the requests concern the limit: one of several that never falls may be that of
// others.
func (x *exchange) limit(r *run, l *Limit, p *Policy, item int) {
	now := limiters.Response{
		Observation: limiters.Observation{
			Remaining: l.Remaining, Reset: float64(l.Reset.n), Sent: x.sent, Received: x.received, Served: x.served, Refused: x.refused,
		},
		HasReset: l.Reset.ok, Quota: p.Quota, Idle: x.idle, Pending: x.pending, Slack: x.slack(), Overlaps: x.overlaps > 0, Alone: x.Alone,
	}
	now.Window, _ = p.Window.Duration()
	doubts := r.Add(&now)
	concerned := r.Most() > 0 || len(x.advice.Fields.Limits) == 1
	for _, d := range doubts {
		field, whose, role := LimitField, item, RoleRemaining
		switch d.Number {
		case limiters.Quota:
			field, whose, role = PolicyField, -1, RoleQuota
		case limiters.Reset:
			role = RoleReset
		}
		field, whose = x.field(field, l.Name, role, whose)
		x.add(sequenceRule(d.Rule), d.Certain && concerned, field, whose)
	}
}

// unixTime checks that a current reset is no point in time. ParseAny takes an older
// one for what it is.
func (x *exchange) unixTime(l *Limit, item int) {
	if !x.isCurrent() || !l.Reset.ok {
		return
	}
	now := x.received.UnixMilli()
	near := func(ms int64) bool { return max(ms-now, now-ms) <= text.Month.Milliseconds() }
	if near(l.Reset.n) || l.Reset.n <= math.MaxInt64/1000 && near(l.Reset.n*1000) {
		x.judge(ruleUnixTime, LimitField, item)
	}
}

// refusal checks a refusal, and what it promises.
func (x *exchange) refusal() {
	f := &x.advice.Fields
	silent := f.Limits == nil && f.Policies == nil
	if isStored(x.resp.Header) || !x.refused && !x.served {
		x.lose()
		return
	}
	if silent && x.resp.StatusCode == http.StatusTooManyRequests && x.advice.Source == SourceNone {
		x.judge(ruleBare, retryAfterKey, -1)
	}
	x.early()
	x.promised()
	x.retryEarly()
}

// calm is the latest response that was served, as long as nothing has happened
// since that could explain a refusal.
type calm struct {
	ok       bool
	spare    spare
	received time.Time
	early    int // refusals with something remaining before
	inTime   int // and with nothing
}

// spare is how many more requests a response leaves.
type spare struct {
	requests int64
	priced   bool // what a request costs is known of each limit
	all      bool // every limit is told, not the tightest alone
}

// early checks that a request is refused only when nothing remains.
func (x *exchange) early() {
	const few, lost = 3, 5 // lost is how many answers in a row may have been lost
	now, says := x.spare()
	if !x.refused {
		if says {
			x.calm.ok, x.calm.spare, x.calm.received = true, now, x.received
		}
		return
	}
	before := x.calm
	x.calm.ok = false
	if says && now.requests > 0 { // the refusal itself says so
		x.refusedEarly(now.priced && (now.all || now.requests >= lost))
		return
	}
	if !before.ok || x.overlaps > 0 || x.added < few || x.sent.Before(before.received) {
		return
	}
	then := before.spare
	if then.requests == 0 {
		x.calm.inTime++
		return
	}
	x.calm.early++
	often := x.calm.early >= few && x.calm.early > x.calm.inTime
	x.refusedEarly(then.priced && (then.requests >= lost || then.all && often) || x.complete())
}

func (x *exchange) refusedEarly(certain bool) {
	field := LimitField
	if len(x.advice.Fields.Limits) > 0 {
		field, _ = x.field(LimitField, x.advice.Fields.Limits[0].Name, RoleRemaining, 0)
	}
	x.add(ruleEarly, certain, field, -1)
}

// spare returns how many more requests the response leaves. ok is false if it does not
// say, or has a limit in a unit that may refuse requests while some of it is left.
func (x *exchange) spare() (s spare, ok bool) {
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	s = spare{math.MaxInt64, true, x.isCurrent()}
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		cost, unit := int64(0), p.Unit.canonical()
		if r := x.run(p); r != nil {
			cost = r.Most()
		}
		switch {
		case l.exhausted(p):
			s.requests = 0
		case unit == ConcurrentRequests:
			s.requests = min(s.requests, l.Remaining)
		case l.Remaining == Unknown || unit != Requests:
			return spare{}, false
		default:
			s.requests = min(s.requests, l.Remaining/max(cost, 1))
			s.priced = s.priced && cost > 0
		}
	}
	return s, len(f.Limits) > 0
}

// complete reports whether a whole quota of some limit was served with something left.
func (x *exchange) complete() bool {
	for _, r := range x.runs {
		if r.Complete() {
			return true
		}
	}
	return false
}

// A promise is what the latest refusal says: when to come back.
type promise struct {
	ok           bool
	end          time.Time
	source       Source
	row          int // refusals after the end of such a promise, since a request was served
	broken, kept int
}

// promised checks that something comes back when a refusal says so.
func (x *exchange) promised() {
	o := &x.owed
	switch {
	case !x.refused:
		if o.ok && x.sent.After(o.end) {
			o.kept++
		}
		o.ok, o.row = false, 0
		return
	case x.advice.Source == SourceNone || x.counts(ConcurrentRequests):
		o.ok = false
		return
	}
	switch after := x.sent.Sub(o.end).Seconds(); {
	case !o.ok || after < -x.slack(): // what was said last counts
	case after < x.slack():
		return // this may be the end, or not yet
	default:
		o.row++
		o.broken++
		index, field := ruleNoMore, LimitField
		if o.source == SourceRetryAfter {
			index, field = ruleTooSoon, retryAfterKey
		}
		// A bucket gives back one at a time, which a request may have taken whose
		// answer was lost; three times in a row it is not that.
		x.add(index, o.row >= 3 && o.broken > o.kept && x.overlaps == 0, field, -1)
	}
	o.ok, o.end, o.source = true, x.received.Add(x.advice.Asked), x.advice.Source
}

// counts reports whether the response has a policy of a unit.
func (x *exchange) counts(unit Unit) bool {
	for i := range x.advice.Fields.Policies {
		if x.advice.Fields.Policies[i].Unit == unit {
			return true
		}
	}
	return false
}

// retryEarly notes a Retry-After before the reset of an older limit with nothing
// remaining. It may be that the reset tells when all is back, and Retry-After when
// the next unit is. For current limits Check has the rule.
func (x *exchange) retryEarly() {
	least, ok := x.advice.Fields.RetryAfter().Duration()
	if x.refused && ok && !x.isCurrent() && x.advice.Source == SourceRetryAfter && x.advice.Asked.Seconds()+x.slack() < least.Seconds() {
		x.add(ruleBefore, false, retryAfterKey, -1)
	}
}

// sequenceRules are the rules that a Sequence checks. Each is a note unless a
// Sequence raises it. CONFORMANCE.md has a row for each.
var sequenceRules = [...]rule{
	ruleSpent:    {"L5", LevelShould, "let " + remainingKey + " fall by what each request costs, because it stays higher than what was spent allows"},
	ruleUneven:   {"L5", LevelNote, "let " + remainingKey + " fall by the same for each request, because clients cannot tell what a request costs"},
	ruleClock:    {"L7", LevelShould, "let " + resetKey + " go down with the clock, because it stays the same, and more comes back before it is over"},
	ruleStays:    {"L7", LevelNote, "let " + resetKey + " go down with the clock, unless every request begins the time anew"},
	ruleFast:     {"L7", LevelShould, "write " + resetKey + " in seconds, because it goes down faster than the clock"},
	ruleUnixTime: {"L7", LevelShould, "write " + resetKey + " as seconds from now, because this is the present time since 1970"},
	ruleNoMore:   {"L7", LevelShould, "let something come back at the end of " + resetKey + ", because requests after it are refused again and again"},
	ruleTooSoon:  {"S3", LevelShould, "let Retry-After be no earlier than when a request is served, because requests after it are refused again and again"},
	ruleBefore:   {"6-8", LevelNote, "let Retry-After be no earlier than the reset, because they should be the same point in time"},
	ruleEarly:    {"L5", LevelShould, "let " + remainingKey + " be 0 before a request is refused, because something remained"},
	ruleServed:   {"L5", LevelShould, "refuse requests when " + remainingKey + " is 0, or say what remains, because more were served than can have come back"},
	ruleExceeded: {"P6", LevelShould, "let " + quotaKey + " be the quota that is applied, because more than twice of it was served within a window"},
	ruleShort:    {"P6", LevelShould, "let " + quotaKey + " be the quota that is applied, because much less remains after a window in which nothing was asked"},
	ruleChanged:  {"P3", LevelShould, "let a policy stay the same over a sequence of responses, or give the other one another name"},
	ruleBare:     {"6585-4", LevelShould, "say on a refusal when to come back, by Retry-After or by the fields"},
	ruleNegative: {"6-9", LevelShould, "write a number that is 0 or more, because clients may ignore the field or take it for a large one"},
	ruleFraction: {"6-9", LevelShould, "write a whole number, because many clients read nothing else"},
}

// A sequenceRule is the index of a rule in sequenceRules. The first are those of package
// limiters.
type sequenceRule int

const (
	ruleSpent    = sequenceRule(limiters.Spent)
	ruleUneven   = sequenceRule(limiters.Uneven)
	ruleClock    = sequenceRule(limiters.Clock)
	ruleStays    = sequenceRule(limiters.Stays)
	ruleFast     = sequenceRule(limiters.Fast)
	ruleServed   = sequenceRule(limiters.Served)
	ruleExceeded = sequenceRule(limiters.Exceeded)
	ruleShort    = sequenceRule(limiters.Short)
)

const (
	ruleUnixTime = sequenceRule(limiters.Rules) + iota
	ruleNoMore
	ruleTooSoon
	ruleBefore
	ruleEarly
	ruleChanged
	ruleBare
	ruleNegative
	ruleFraction
)

// in returns the finding that the rule is broken by a member of a field, or by the field if
// item is -1.
func (r sequenceRule) in(field string, item int) Finding {
	of := &sequenceRules[r]
	return Finding{Rule: of.id, Level: of.level, Field: field, Line: -1, Offset: -1, Item: item, Message: of.message}
}
