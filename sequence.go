package ratelimit

import (
	"hash/maphash"
	"math"
	"net/http"
	"strings"
	"time"

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

// The indices of the rules of a Sequence.
const (
	ruleSpent = iota
	ruleUneven
	ruleClock
	ruleStays
	ruleFast
	ruleUnixTime
	ruleNoMore
	ruleTooSoon
	ruleBefore
	ruleEarly
	ruleServed
	ruleExceeded
	ruleShort
	ruleChanged
	ruleBare
	ruleNegative
	ruleFraction
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

// lose forgets what earlier responses promise: nothing tells whether a request was
// counted whose answer was lost, came from a cache, or is that it failed.
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
	for _, f := range Check(x.resp) {
		of := func(index int) bool { return strings.HasSuffix(f.Message, rules[index].message) }
		if old && (of(ruleDraft06) || of(ruleDraft07)) || rounded && of(ruleRetryEarly) {
			f.Level = LevelNote
		}
		x.report(f)
	}
}

// add adds a finding about a field and the index of its member. certain reports
// whether it has no explanation but a fault, given that the client is alone.
func (x *exchange) add(index int, certain bool, field string, item int) {
	r := sequenceRules[index]
	if !certain || !x.Alone {
		r.level = LevelNote
	}
	x.report(Finding{r.id, r.level, field, item, r.message})
}

// judge adds a finding that other clients are no explanation of.
func (x *exchange) judge(index int, field string, item int) {
	r := sequenceRules[index]
	x.report(Finding{r.id, r.level, field, item, r.message})
}

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
	if key := olderKey(found, policy, older.Role(role)); key != "" {
		return key, -1
	}
	return field, item
}

// A subject is what is remembered apart. Older fields have one set of names for all
// limits of a server, and tell the tightest, so that there another quota or window is
// another limit.
type subject struct {
	identity
	terms
}

// terms are what has to stay the same of a policy.
type terms struct {
	quota  int64
	unit   Unit
	window Seconds
}

func (p *Policy) terms() terms { return terms{p.Quota, p.Unit.canonical(), p.Window} }

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

// policies checks that policies stay, which only the current fields name. One of a
// 503 may be one that holds for a time (draft-11 Section 5.2).
func (x *exchange) policies() {
	if !x.isCurrent() || x.resp.StatusCode == http.StatusServiceUnavailable {
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

// refusal checks a refusal, and what it promises.
func (x *exchange) refusal() {
	f := &x.advice.Fields
	silent := f.Limits == nil && f.Policies == nil
	if silent && isStored(x.resp.Header) || !x.refused && !x.served {
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
