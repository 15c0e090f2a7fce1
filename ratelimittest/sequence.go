package ratelimittest

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Sequence checks the responses that one client gets from one server. Use it in tests of servers,
// like [Check] for a single response. It compares the responses with models of limiters: a fixed
// window, a sliding log, a sliding window counter and a token bucket. If no model explains the
// responses, the server has a fault. The models allow for up to four servers that count separately.
// CONFORMANCE.md lists the rules. The zero Sequence is ready to use. It remembers at most 64 limits. It
// must not be used concurrently. The requests may overlap, and responses may be lost.
type Sequence struct {
	// Alone promises that no other client uses the quota, that every request costs the same, and that
	// the server lowers its numbers at most as [ratelimit.Limit.Cap] does, with a burst of 1 or more
	// (draft-11 Section 8.3). A fault then has [LevelShould]. Without the promise a fault may have
	// another explanation, and has [LevelNote].
	Alone bool

	// Policies and findings are remembered as hashes, because servers choose their length.
	seed     maphash.Seed
	runs     map[uint64]*run
	order    []*run           // the runs in the order of their first response
	found    map[uint64]bool  // findings that Add has returned
	keys     map[uint64]*keys // partition keys, by the name of the policy
	began    time.Time
	recent   [64]time.Time // when the latest responses arrived
	added    int           // how many responses arrived, including lost ones
	overlaps int           // positive if one of the latest responses overlapped with another
	widest   int           // the most responses that overlapped with one response
	silent   promise       // of the latest refusal without limits
}

// The bounds of what a Sequence remembers.
const (
	maxRuns  = 64
	maxFound = 256 // distinct findings; a hostile server may cause any number
	maxName  = 64  // bytes of the name of a policy
)

// Add checks the next response and returns the new findings: the findings of [Check], and the faults
// that the response shows together with earlier responses. Call it in the order of arrival. It returns
// no finding twice. Two findings of Check are only notes here: the form of drafts 04 to 07, and a
// Retry-After one second before the reset.
//
// received is when the response arrived; the zero time means time.Now(). sent is when the request was
// sent; the zero time means received. A nil resp is a response that was lost or is late: the server may
// have counted its request.
//
// A limit in requests is checked if it has a policy with a quota, in current or older fields. A
// response from a cache is not checked (draft-11 Section 7.3). Only responses with a status below
// 400 count as served, because a server need not count failed requests. A limit has at most one
// finding about its numbers, from the fourth response on, or later if many requests overlap.
func (s *Sequence) Add(resp *http.Response, sent, received time.Time) []Finding {
	if received.IsZero() {
		received = time.Now()
	}
	if sent.IsZero() || sent.After(received) {
		sent = received
	}
	if s.runs == nil {
		s.seed, s.runs, s.found, s.keys = maphash.MakeSeed(), map[uint64]*run{}, map[uint64]bool{}, map[uint64]*keys{}
		s.began = received
	}
	x := &exchange{Sequence: s, resp: resp, sent: sent, received: received}
	x.overlap()
	if resp == nil {
		s.release()
		return nil
	}
	x.advice = ratelimit.Advisor{MaxWait: math.MaxInt64}.Advise(resp, received)
	x.check()
	x.numbers()
	x.milliseconds()
	x.partitionKeys()
	x.policies()
	x.join()
	x.refusal() // must run before limits, because it uses what earlier responses announced
	x.limits()
	return x.findings
}

// Models returns a sentence for each limit: the kind of limiter that the limit behaves like so far, as
// in
//
//	"api" behaves like a fixed window of 60 s with quota 100, as announced (12 responses; a sliding log would look the same so far)
func (s *Sequence) Models() []string {
	var list []string
	for _, r := range s.order {
		if r.Responses() > 0 {
			list = append(list, fmt.Sprintf("%q behaves like %s", r.name, r.behavior()))
		}
	}
	return list
}

// behavior describes the models that explain all responses, the simplest first.
func (r *run) behavior() string {
	models, counters := r.Run.Models()
	responses := fmt.Sprintf("%d responses", r.Responses())
	if r.Responses() == 1 {
		responses = "1 response"
	}
	if len(models) == 0 {
		return "no known kind of limiter (" + responses + ")"
	}
	about := "a " + models[0]
	if seconds, ok := r.terms.window.Value(); ok {
		about += fmt.Sprintf(" of %d s", seconds)
	}
	about += fmt.Sprintf(" with quota %d, as announced", r.terms.quota)
	if counters > 1 {
		about += fmt.Sprintf(", with %d counters: servers that do not share their counts", counters)
	}
	about += " (" + responses
	if len(models) > 1 {
		others := "a " + strings.Join(models[1:], ", a ")
		if at := strings.LastIndex(others, ", "); at >= 0 {
			others = others[:at] + " or" + others[at+1:]
		}
		about += "; " + others + " would look the same so far"
	}
	return about + ")"
}

// An exchange is a request and its response while Add works on them.
type exchange struct {
	*Sequence
	resp           *http.Response
	sent, received time.Time
	pending        int // responses that arrived after this request was sent, at most len(recent)
	advice         ratelimit.Advice
	joined         []joined
	findings       []Finding
}

// A joined limit is a limit of the response with its policy.
type joined struct {
	*ratelimit.Limit
	policy *ratelimit.Policy
	run    *run // nil if the limit is not compared with earlier responses
}

// exhausted reports whether nothing remains of the limit. A quota of 0 permits nothing.
func (m joined) exhausted() bool { return m.Remaining == 0 || m.policy.Quota == 0 }

// join finds the policy of each limit, and what is remembered of it. Only limits in requests are
// compared. Concurrent requests end at times that the client does not know.
func (x *exchange) join() {
	f := &x.advice.Fields
	for l, p := range f.Pairs() {
		m := joined{Limit: l, policy: p}
		if m.Remaining != ratelimit.Unknown && m.policy.Quota != ratelimit.Unknown && m.policy.Unit.Canonical() == ratelimit.Requests {
			if r := x.run(m.policy); r != nil && r.terms == termsOf(m.policy) {
				m.run = r
			}
		}
		x.joined = append(x.joined, m)
	}
}

// overlap notes when the response arrived, and how many other requests overlap with its request.
func (x *exchange) overlap() {
	for _, at := range x.recent[:min(x.added, len(x.recent))] {
		if at.After(x.sent) {
			x.pending++
		}
	}
	x.recent[x.added%len(x.recent)] = x.received
	x.added++
	if x.overlaps = max(x.overlaps-1, 0); x.pending > 0 {
		x.overlaps = len(x.recent)
	}
	x.widest = max(x.widest, x.pending)
}

// report adds a finding, unless Add has returned it before.
func (x *exchange) report(f Finding) {
	if key := maphash.Comparable(x.seed, f); !x.found[key] && len(x.found) < maxFound {
		x.found[key] = true
		x.findings = append(x.findings, f)
	}
}

// doubt reports a finding. certain is true if only a fault explains the finding of a client that is
// alone. If certain is false, or other clients may explain the finding, it becomes a note.
func (x *exchange) doubt(certain bool, f Finding) {
	if !certain || !x.Alone {
		f.Level = LevelNote
	}
	x.report(f)
}

// check adds the findings of Check. It turns two of them into notes: limits in the form of drafts 04 to
// 07, which are correct in their draft, and a Retry-After a second before the reset, which rounding
// explains.
func (x *exchange) check() {
	for _, v := range violations(x.resp) {
		switch v.rule {
		case ruleDraft06, ruleDraft07:
			fields, _ := ratelimit.ParseAny(x.resp.Header, ratelimit.LegacyOptions{}) // the advice has none of a cached response
			if isOldDraft(fields.Dialect) {
				v.Level = LevelNote
			}
		case ruleRetryEarly:
			least, _ := x.advice.Fields.RetryAfter().Duration()
			if x.advice.Asked >= least-time.Second {
				v.Level = LevelNote
			}
		}
		x.report(v.Finding)
	}
}

// isOldDraft reports whether a dialect is one of drafts 04 to 07.
func isOldDraft(dialect string) bool { return dialect == "draft-06" || dialect == "draft-07" }

// isCurrent reports whether the limits are from RateLimit-Policy and RateLimit.
func (x *exchange) isCurrent() bool { return x.advice.Fields.Dialect == draft.Current }

// numbers checks that older fields contain no negative numbers and no fractions. ParseAny
// accepts both. In current fields both are malformed, and Check reports them.
func (x *exchange) numbers() {
	found, _ := older.Find(nil, withoutCurrent(x.resp.Header), nil)
	for i := range found {
		f := &found[i]
		if role := f.Role; role < older.Quota || role > older.Reset || f.Format >= older.Fraction {
			continue
		}
		for _, line := range f.Lines {
			switch v, ok := text.ParseNumber(text.Trim(line)); {
			case ok && v.Neg:
				x.report(ruleNegative.in(f.Key, -1))
			case ok && strings.Contains(line, "."):
				x.report(ruleFraction.in(f.Key, -1))
			}
		}
	}
}

// milliseconds checks that the resets of drafts 04 to 07 are in seconds. If a window shows that a reset
// is in milliseconds, ParseAny divides it, and milliseconds reports it.
func (x *exchange) milliseconds() {
	f := &x.advice.Fields
	if !isOldDraft(f.Dialect) {
		return
	}
	plain, _ := ratelimit.ParseAny(withoutCurrent(x.resp.Header), ratelimit.LegacyOptions{Reset: ratelimit.TimeSeconds, Now: x.received})
	for i := range min(len(plain.Limits), len(f.Limits)) {
		written, read := number(plain.Limits[i].Reset), number(f.Limits[i].Reset)
		if read < written {
			field, item := x.field(ratelimit.LimitField, plain.Limits[i].Name, ratelimit.RoleReset, i)
			x.report(modelRules[limiters.Unit].in(field, item, "milliseconds"))
		}
	}
}

// field returns the field that contains a number of a limit or policy, and the index of the member in
// the field, or -1 for an older field.
func (x *exchange) field(field, policy string, role ratelimit.Role, item int) (string, int) {
	if x.isCurrent() {
		return field, item
	}
	found, _ := older.Find(nil, x.resp.Header, nil)
	return olderKey(found, &x.advice.Fields, policy, older.Role(role)), -1
}

// A run is what a Sequence remembers of a policy and its limit.
type run struct {
	limiters.Run
	name     string // of the policy, cut to maxName
	versions int    // how often new terms were announced, except by a 503
	terms    terms  // as announced
	former   terms  // before the latest change
	added    int    // Sequence.added at the latest response with this limit
	hidden   bool   // some responses contained another limit in place of this one
	early    int    // refusals while something remained
	promise
}

// terms are the properties of a policy that must not change.
type terms struct {
	quota  int64
	unit   ratelimit.Unit
	window ratelimit.Seconds
}

// termsOf cuts a long unit, and keeps no memory of the response.
func termsOf(p *ratelimit.Policy) terms {
	unit := string(p.Unit.Canonical())
	return terms{p.Quota, ratelimit.Unit(strings.Clone(unit[:min(len(unit), maxName)])), p.Window}
}

// A subject identifies a run. Older fields contain only the tightest limit of a server: if the terms
// change, they describe another limit.
type subject struct {
	name, key string
	keyed     bool // the partition key is not absent
	terms
}

// run returns what is remembered of a policy, or nil if there are too many policies.
func (x *exchange) run(p *ratelimit.Policy) *run {
	of := subject{name: p.Name, key: string(p.PartitionKey), keyed: p.PartitionKey != nil}
	if !x.isCurrent() {
		of.terms = termsOf(p)
	}
	key := maphash.Comparable(x.seed, of)
	r := x.runs[key]
	if r == nil && len(x.runs) < maxRuns {
		r = &run{name: strings.Clone(p.Name[:min(len(p.Name), maxName)]), terms: termsOf(p)}
		x.runs[key] = r
		x.order = append(x.order, r)
	}
	return r
}

// policies checks that the terms of policies in current fields stay the same. The first change is a
// note, because it may be a change of plan. A policy in a 503 is not compared, because it may be
// temporary (draft-11 Section 5.2).
func (x *exchange) policies() {
	if x.resp.StatusCode == http.StatusServiceUnavailable {
		return
	}
	for i := range x.advice.Fields.Policies {
		p := &x.advice.Fields.Policies[i]
		r := x.run(p)
		switch {
		case r == nil || r.versions > 0 && r.terms == termsOf(p):
			continue
		case x.pending > 0 && r.former == termsOf(p): // a response from before the change
			continue
		case r.versions > 0:
			f := ruleChanged.in(ratelimit.PolicyField, i)
			if r.versions == 1 {
				f.Level = LevelNote
			}
			x.report(f)
		}
		*r = run{name: r.name, versions: r.versions + 1, terms: termsOf(p), former: r.terms}
	}
}

// keys are the partition keys of policies of one name.
type keys struct {
	seen  map[uint64]bool
	times int
}

// partitionKeys checks that the limits of one name do not have a new partition key in each response:
// clients could not recognize their limit.
func (x *exchange) partitionKeys() {
	const many = 12
	for i := range x.advice.Fields.Limits {
		l := &x.advice.Fields.Limits[i]
		name := maphash.String(x.seed, l.Name)
		k := x.keys[name]
		if k == nil {
			k = &keys{seen: map[uint64]bool{}}
			if len(x.keys) < maxRuns {
				x.keys[name] = k
			}
		}
		if k.times++; len(k.seen) < 4*maxRuns {
			k.seen[maphash.Bytes(x.seed, l.PartitionKey)] = true
		}
		if n := len(k.seen); n >= many && n > k.times/2 {
			x.doubt(true, ruleNewKeys.in(ratelimit.LimitField, i))
		}
	}
}

// limits compares the limits of the response with the limits of earlier responses, unless too many
// requests overlap. The server may have counted requests whose responses arrive later. How many may
// overlap is known only when several times as many responses have arrived.
func (x *exchange) limits() {
	const several = 4
	unclear := x.pending == len(x.recent) || x.added <= several*x.widest
	for i := range x.joined {
		x.unixTime(x.joined[i].Limit, i)
		if x.joined[i].run != nil && !unclear {
			x.limit(&x.joined[i], i)
		}
	}
}

// limit compares a limit with what is remembered of it. A doubt is certain only if the requests are
// known to use the limit. If one of several limits never falls, it may concern other requests.
func (x *exchange) limit(m *joined, item int) {
	r := m.run
	now := limiters.Response{
		Sent: x.sent.Sub(x.began).Seconds(), Received: x.received.Sub(x.began).Seconds(),
		Remaining: float64(m.Remaining), Reset: -1, Pending: x.pending, Others: x.others(r), Overlaps: x.overlaps > 0,
	}
	if known(m.Reset) {
		now.Reset = float64(number(m.Reset))
	}
	switch {
	case x.advice.Refused:
		now.Outcome = limiters.Refused
	case x.resp.StatusCode >= http.StatusBadRequest:
		now.Outcome = limiters.Failed
	}
	doubts := r.Add(now, limiters.Terms{Quota: float64(m.policy.Quota), Window: float64(number(m.policy.Window))})
	r.added = x.added
	r.hidden = r.hidden || !x.isCurrent() && now.Others > 0
	concerned := (r.Known() || len(x.joined) == 1) && !r.hidden
	for _, d := range doubts {
		field, whose, role := ratelimit.LimitField, item, ratelimit.RoleRemaining
		switch d.Number {
		case limiters.Quota:
			field, whose, role = ratelimit.PolicyField, -1, ratelimit.RoleQuota
		case limiters.Reset:
			role = ratelimit.RoleReset
		}
		double := d.Rule == limiters.Double && !x.isCurrent() // older fields have no unit
		field, whose = x.field(field, m.Name, role, whose)
		x.doubt(d.Certain && concerned && !double, modelRules[d.Rule].in(field, whose, d.Args...))
	}
}

// others returns how many requests came between the latest response with a limit and this
// response. The limit may have counted them.
func (x *exchange) others(r *run) int { return x.added - 1 - r.added }

// unixTime checks that a current reset is not a Unix time. An older reset may be one.
func (x *exchange) unixTime(l *ratelimit.Limit, item int) {
	now := x.received.UnixMilli()
	near := func(ms int64) bool { return max(ms-now, now-ms) <= text.Month.Milliseconds() }
	if x.isCurrent() && known(l.Reset) && (near(number(l.Reset)) || near(number(l.Reset)*1000)) {
		x.report(ruleUnixTime.in(ratelimit.LimitField, item))
	}
}
