package ratelimit

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Sequence checks the responses that one client got from one server, for the tests of
// servers, as [Check] checks a single one. It compares them with models of limiters: a fixed
// window, a sliding log, a sliding window counter and a token bucket. A server that none of
// them explains, not even as up to four servers that count apart, has a fault. CONFORMANCE.md
// lists the rules. The zero Sequence is ready to use. It remembers at most 64 limits. It is
// not for concurrent use, but the requests may overlap, and answers may be lost.
type Sequence struct {
	// Alone promises that no other client uses the quota, that every request costs the
	// same, and that the server announces all it knows. A fault is then a finding of
	// [LevelShould]. Otherwise other clients, requests that are free, or a server that
	// lowers its numbers (draft-11 Section 8.3) may explain it, and the level is
	// [LevelNote].
	Alone bool

	// Of policies and findings there are hashes: they may be as long as a server likes.
	seed     maphash.Seed
	runs     map[uint64]*run
	order    []*run           // the runs as they came
	found    map[uint64]bool  // what Add has returned
	keys     map[uint64]*keys // partition keys, by the name of the policy
	began    time.Time
	recent   [64]time.Time // when the latest responses arrived
	added    int           // how many arrived, lost ones included
	overlaps int           // positive if one of the latest responses overlapped with another
	silent   refused       // refusals without limits
	latest   int64         // what remained of the tightest limit at least; -1 if that is unknown
}

// The bounds of what a Sequence remembers.
const (
	maxRuns  = 64
	maxFound = 256 // distinct findings; hostile responses may give any number
	maxName  = 64  // bytes of the name of a policy
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
// A limit of requests is checked if it has a policy with a quota, in current or older
// fields. A response from a cache is not checked (draft-11 Section 7.3). Only responses
// with a status below 400 count as served, because a server need not count those that
// failed. A limit has at most one finding about its numbers, from the fourth response on.
func (s *Sequence) Add(resp *http.Response, sent, received time.Time) []Finding {
	if received.IsZero() {
		received = time.Now()
	}
	if sent.IsZero() || sent.After(received) {
		sent = received
	}
	if s.runs == nil {
		s.seed, s.runs, s.found, s.keys = maphash.MakeSeed(), map[uint64]*run{}, map[uint64]bool{}, map[uint64]*keys{}
		s.began, s.latest = received, -1
	}
	x := &exchange{Sequence: s, sent: sent, received: received}
	x.overlap()
	if resp == nil {
		s.silent.owed, s.latest = promise{}, -1
		return nil
	}
	x.resp = resp
	x.advice = Advisor{MaxWait: math.MaxInt64}.Advise(resp, received)
	x.served = resp.StatusCode < http.StatusBadRequest
	x.check()
	x.numbers()
	x.partitionKeys()
	x.policies()
	x.refusal() // compares with what was announced before
	x.limits()
	return x.findings
}

// Models returns in a sentence for each limit what it behaves like so far, as in
//
//	"api": a fixed window of 60 s with quota 100, as announced (12 responses; a sliding log would look the same so far)
func (s *Sequence) Models() []string {
	var list []string
	for _, r := range s.order {
		if n := r.Responses(); n > 0 {
			list = append(list, fmt.Sprintf("%q: %s", r.name, r.model(n)))
		}
	}
	return list
}

// model returns what the limit behaves like after n responses.
func (r *run) model(n int) string {
	left := r.Run.Models()
	if len(left) == 0 {
		return fmt.Sprintf("like no limiter that is known (%d responses)", n)
	}
	first := left[0]
	var b strings.Builder
	b.WriteString("a " + first.Name)
	if seconds, ok := r.terms.window.Value(); ok {
		fmt.Fprintf(&b, " of %d s", seconds)
	}
	fmt.Fprintf(&b, " with quota %d, as announced", r.terms.quota)
	if first.Counters > 1 {
		fmt.Fprintf(&b, ", counted %d times apart: servers that do not share their counts", first.Counters)
	}
	fmt.Fprintf(&b, " (%d responses", n)
	for i, m := range left[1:] {
		switch {
		case i == 0:
			b.WriteString("; a ")
		case i == len(left)-2:
			b.WriteString(" or a ")
		default:
			b.WriteString(", a ")
		}
		b.WriteString(m.Name)
	}
	if len(left) > 1 {
		b.WriteString(" would look the same so far")
	}
	return b.String() + ")"
}

// An exchange is a request and its response, while it is added.
type exchange struct {
	*Sequence
	resp           *http.Response
	sent, received time.Time
	pending        int // responses that arrived after this was sent; the bound of recent if there may be more
	advice         Advice
	served         bool
	findings       []Finding
}

// overlap notes when the response arrived, and with how many others it overlaps.
func (x *exchange) overlap() {
	for _, at := range x.recent[:min(x.added, len(x.recent))] {
		if at.After(x.sent) {
			x.pending++
		}
	}
	if x.pending == len(x.recent) {
		x.pending = math.MaxInt32 // there may be more
	}
	x.recent[x.added%len(x.recent)] = x.received
	x.added++
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
func (x *exchange) add(r sequenceRule, certain bool, field string, item int, args ...any) {
	f := r.in(field, item, args...)
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
	if d := x.advice.Fields.Dialect; d == "draft-06" || d == "draft-07" {
		x.milliseconds(h)
	}
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

// milliseconds checks that the resets of the older drafts are in seconds. ParseAny divides
// those that are in milliseconds if a window shows it.
func (x *exchange) milliseconds(h http.Header) {
	plain, _ := ParseAny(h, LegacyOptions{Reset: TimeSeconds, Now: x.received})
	for i := range plain.Limits {
		if l := &plain.Limits[i]; i < len(x.advice.Fields.Limits) && l.Reset.n >= 1000 && x.advice.Fields.Limits[i].Reset.n*1000-l.Reset.n < 1000 && x.advice.Fields.Limits[i].Reset.n < l.Reset.n {
			field, item := x.field(LimitField, l.Name, RoleReset, i)
			x.report(ruleSeconds.in(field, item, "milliseconds"))
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
	name      string // of the policy, cut to maxName
	announced bool   // as a current policy
	changes   int    // of its terms
	terms     terms  // as it was announced
	former    terms  // before the latest change
	added     int    // how many responses had arrived after the latest with this limit
	early     int    // refusals although something remained
	hidden    bool   // responses announced another limit in its place
	refused
}

// terms are what has to stay the same of a policy.
type terms struct {
	quota  int64
	unit   Unit
	window Seconds
}

func (p *Policy) terms() terms { return terms{p.Quota, p.Unit.canonical(), p.Window} }

// A subject is what is remembered apart. Older fields have one set of names for all
// limits of a server, and announce the tightest: another quota or window there is another
// limit.
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
		r = &run{name: strings.Clone(p.Name[:min(len(p.Name), maxName)]), terms: p.terms()}
		x.runs[key] = r
		x.order = append(x.order, r)
	}
	return r
}

// policies checks that policies stay: those of the current fields, since another quota in
// older ones is another subject. One of a 503 may be one that holds for a time (draft-11
// Section 5.2). One change may be that of a plan.
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
		case r.terms == p.terms():
		case x.pending > 0 && r.former == p.terms(): // a response from before the change
		default:
			f := ruleChanged.in(PolicyField, i)
			if r.changes == 0 {
				f.Level = LevelNote
			}
			x.report(f)
			*r = run{name: r.name, announced: true, terms: p.terms(), former: r.terms, changes: r.changes + 1}
		}
	}
}

// keys are the partition keys of policies of one name.
type keys struct {
	seen  map[uint64]bool
	times int
}

// partitionKeys checks that the keys of a name are not new each time: clients cannot tell
// then which limit is theirs.
func (x *exchange) partitionKeys() {
	const many = 12
	for i := range x.advice.Fields.Limits {
		l := &x.advice.Fields.Limits[i]
		if l.PartitionKey == nil || !x.isCurrent() {
			continue
		}
		name := maphash.String(x.seed, l.Name)
		k := x.keys[name]
		if k == nil {
			if len(x.keys) == maxRuns {
				return
			}
			k = &keys{seen: map[uint64]bool{}}
			x.keys[name] = k
		}
		if k.times++; len(k.seen) < 4*maxRuns {
			k.seen[maphash.Bytes(x.seed, l.PartitionKey)] = true
		}
		if n := len(k.seen); n >= many && n > k.times/2 {
			x.add(ruleNewKeys, true, LimitField, i)
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
		if r := x.run(p); r != nil && r.terms == p.terms() {
			x.limit(r, l, p, i)
		}
	}
}

// limit checks l, whose policy is p, against what is remembered of it. A doubt is certain
// only if the requests concern the limit: one of several that never falls may be that of
// others.
func (x *exchange) limit(r *run, l *Limit, p *Policy, item int) {
	if x.pending > len(x.recent) {
		return // too many overlap
	}
	now := limiters.Response{
		Sent: x.sent.Sub(x.began).Seconds(), Received: x.received.Sub(x.began).Seconds(),
		Remaining: float64(l.Remaining), Reset: -1, Pending: x.pending, Others: x.others(r), Overlaps: x.overlaps > 0,
	}
	if l.Reset.ok {
		now.Reset = float64(l.Reset.n)
	}
	switch {
	case x.advice.Refused:
		now.Outcome = limiters.Refused
	case !x.served:
		now.Outcome = limiters.Failed
	}
	terms := limiters.Terms{Quota: float64(p.Quota), Window: float64(p.Window.n), Slack: x.slack()}
	doubts := r.Add(now, terms)
	r.added = x.added
	concerned := r.Known() || len(x.advice.Fields.Limits) == 1
	r.hidden = r.hidden || !x.isCurrent() && now.Others > 0
	for _, d := range doubts {
		field, whose, role := LimitField, item, RoleRemaining
		switch d.Number {
		case limiters.Quota:
			field, whose, role = PolicyField, -1, RoleQuota
		case limiters.Reset:
			role = RoleReset
		}
		if d.Rule == limiters.Double && !x.isCurrent() || r.hidden {
			d.Certain = false // older fields have no unit, and announce the tightest limit alone
		}
		field, whose = x.field(field, l.Name, role, whose)
		x.add(sequenceRule(d.Rule), d.Certain && concerned, field, whose, d.Args...)
	}
}

// others returns how many requests came between the latest response with a limit and this
// one, which the limit may have counted.
func (x *exchange) others(r *run) int {
	if r.added == 0 {
		return x.added - 1
	}
	return x.added - 1 - r.added
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
