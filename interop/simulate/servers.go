package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A limiter decides whether a request is served.
type limiter interface {
	// has reports whether there is enough for a request.
	has(now time.Time, costs []cost) bool
	// take takes what it costs, if there is enough. done, which may be nil, is called
	// when the request has been served.
	take(now time.Time, costs []cost) (ok bool, done func())
	// state returns what remains, and until when.
	state(now time.Time) []state
	// allows returns how many requests can be served within a time.
	allows(d time.Duration) float64
}

// A state is what a limiter knows of one of its limits.
type state struct {
	policy    ratelimit.Policy
	remaining int64
	reset     time.Duration // below 0 is none
}

// A fixedWindow allows a number of requests in each window. The first window begins with the
// simulation.
type fixedWindow struct {
	quota  int64
	window time.Duration
	meter  meter
	number time.Time // the beginning of the window
	used   int64
}

// A meter counts requests, or the costs of requests in one field.
type meter struct{ name, field string }

// units returns the units that a request takes.
func (m meter) units(costs []cost) (n int64) {
	if m.field == "" {
		return 1
	}
	for _, c := range costs {
		if c.field == m.field {
			n += c.taken
		}
	}
	return n
}

// policy names a policy after the things that it counts.
func (m meter) policy(quota int64, window time.Duration) ratelimit.Policy {
	p := policyOf(quota, window)
	if m.field != "" {
		p.Name, p.Unit = m.name, "tokens"
	}
	return p
}

func (l *fixedWindow) has(now time.Time, costs []cost) bool {
	l.turn(now)
	return l.used+l.meter.units(costs) <= l.quota
}

func (l *fixedWindow) take(now time.Time, costs []cost) (bool, func()) {
	if !l.has(now, costs) {
		return false, nil
	}
	l.used += l.meter.units(costs)
	return true, nil
}

func (l *fixedWindow) turn(now time.Time) {
	if begin := now.Truncate(l.window); !begin.Equal(l.number) {
		l.number, l.used = begin, 0
	}
}

func (l *fixedWindow) state(now time.Time) []state {
	l.turn(now)
	return []state{{l.meter.policy(l.quota, l.window), l.quota - l.used, l.number.Add(l.window).Sub(now)}}
}

func (l *fixedWindow) allows(d time.Duration) float64 {
	return float64(l.quota) * max(1, math.Ceil(float64(d)/float64(l.window)))
}

// policyOf returns a policy, which is named after its window so that a server can
// have several.
func policyOf(quota int64, window time.Duration) ratelimit.Policy {
	return ratelimit.Policy{Name: "per-" + window.String(), Quota: quota, Window: ratelimit.CeilSeconds(window)}
}

// A slidingWindow allows a number of requests within any time of the window's length.
type slidingWindow struct {
	quota  int64
	window time.Duration
	all    bool        // refused requests count too, as in a stick table of HAProxy
	taken  []time.Time // within the window, oldest first
}

func (l *slidingWindow) has(now time.Time, _ []cost) bool {
	l.turn(now)
	return int64(len(l.taken)) < l.quota
}

func (l *slidingWindow) take(now time.Time, costs []cost) (bool, func()) {
	ok := l.has(now, costs)
	if ok || l.all {
		l.taken = append(l.taken, now)
	}
	return ok, nil
}

func (l *slidingWindow) turn(now time.Time) {
	for len(l.taken) > 0 && !now.Before(l.taken[0].Add(l.window)) {
		l.taken = l.taken[1:]
	}
}

func (l *slidingWindow) state(now time.Time) []state {
	l.turn(now)
	reset := l.window
	if len(l.taken) > 0 {
		reset = l.taken[0].Add(l.window).Sub(now)
	}
	return []state{{policyOf(l.quota, l.window), l.quota - int64(len(l.taken)), reset}}
}

func (l *slidingWindow) allows(d time.Duration) float64 {
	return (&fixedWindow{quota: l.quota, window: l.window}).allows(d)
}

// A weightedWindow counts requests in windows, and adds a part of the previous window to
// the current one: the part that is less than a window ago.
type weightedWindow struct {
	fixedWindow
	previous int64
	plain    bool // it is announced as a fixed window
}

func (l *weightedWindow) turn(now time.Time) {
	before, used := l.number, l.used
	if l.fixedWindow.turn(now); !l.number.Equal(before) {
		if l.previous = 0; l.number.Sub(before) == l.window {
			l.previous = used
		}
	}
}

func (l *weightedWindow) fields(now time.Time) ratelimit.Fields {
	l.turn(now)
	left := l.number.Add(l.window).Sub(now)
	return ratelimit.SlidingWindow{Quota: l.quota, Previous: l.previous, Current: l.used, Window: l.window, Left: left}.Fields()
}

func (l *weightedWindow) has(now time.Time, _ []cost) bool {
	return l.fields(now).Limits[0].Remaining > 0
}

func (l *weightedWindow) take(now time.Time, costs []cost) (bool, func()) {
	if !l.has(now, costs) {
		return false, nil
	}
	l.used++
	return true, nil
}

func (l *weightedWindow) state(now time.Time) []state {
	limit := l.fields(now).Limits[0]
	reset, _ := limit.Reset.Duration()
	if l.plain {
		reset = l.number.Add(l.window).Sub(now)
	}
	return []state{{policyOf(l.quota, l.window), limit.Remaining, reset}}
}

// A bucket has room for a number of tokens. A request takes one, and tokens flow in all the time.
// GCRA (generic cell rate algorithm) is the same in other words.
type bucket struct {
	perSecond float64
	burst     float64
	untilFull bool // whether the reset is when all are back, not when the next one is
	meter     meter
	others    float64 // how often in a second others come
	each      float64 // what each of them takes, if there is as much
	tokens    float64
	at        time.Time
	taken     time.Time // when others have taken theirs
}

func (l *bucket) has(now time.Time, costs []cost) bool {
	l.flow(now)
	return l.tokens >= float64(l.meter.units(costs))
}

func (l *bucket) take(now time.Time, costs []cost) (bool, func()) {
	if !l.has(now, costs) {
		return false, nil
	}
	l.tokens -= float64(l.meter.units(costs))
	return true, nil
}

func (l *bucket) flow(now time.Time) {
	if l.others > 0 {
		gap := time.Duration(float64(time.Second) / l.others)
		for next := l.taken.Add(gap); !l.taken.IsZero() && !next.After(now); next = next.Add(gap) {
			l.flowTo(next)
			if l.tokens >= l.each {
				l.tokens -= l.each
			}
			l.taken = next
		}
		if l.taken.IsZero() {
			l.taken = now
		}
	}
	l.flowTo(now)
}

func (l *bucket) flowTo(now time.Time) {
	if l.at.IsZero() {
		l.tokens = l.burst
	} else {
		// A nanosecond's worth more than flowed in keeps a token that is due from
		// being rounded away.
		l.tokens = min(l.burst, l.tokens+now.Sub(l.at).Seconds()*l.perSecond+1e-9)
	}
	l.at = now
}

func (l *bucket) state(now time.Time) []state {
	l.flow(now)
	missing := math.Floor(l.tokens) + 1 - l.tokens
	if l.untilFull {
		missing = l.burst - l.tokens
	}
	policy := l.meter.policy(int64(l.burst), time.Duration(l.burst/l.perSecond*float64(time.Second)))
	return []state{{policy, int64(l.tokens), time.Duration(missing / l.perSecond * float64(time.Second))}}
}

func (l *bucket) allows(d time.Duration) float64 { return l.burst + d.Seconds()*l.perSecond }

// several are limiters that must all have a unit for a request.
type several []limiter

func (l several) has(now time.Time, costs []cost) bool {
	for _, one := range l {
		if !one.has(now, costs) {
			return false
		}
	}
	return true
}

func (l several) take(now time.Time, costs []cost) (bool, func()) {
	if !l.has(now, costs) {
		return false, nil
	}
	for _, one := range l {
		one.take(now, costs)
	}
	return true, nil
}

func (l several) state(now time.Time) (all []state) {
	for _, one := range l {
		all = append(all, one.state(now)...)
	}
	return all
}

func (l several) allows(d time.Duration) float64 {
	least := math.Inf(1)
	for _, one := range l {
		least = min(least, one.allows(d))
	}
	return least
}

// concurrent serves a number of requests at the same time, each for a fixed time.
type concurrent struct {
	slots, used int64
	each        time.Duration
	says        bool // whether it has a policy
}

func (l *concurrent) has(time.Time, []cost) bool { return l.used < l.slots }

func (l *concurrent) take(now time.Time, costs []cost) (bool, func()) {
	if !l.has(now, costs) {
		return false, nil
	}
	l.used++
	return true, func() { l.used-- }
}

func (l *concurrent) state(time.Time) []state {
	if !l.says {
		return nil
	}
	p := ratelimit.Policy{Name: "slots", Quota: l.slots, Unit: ratelimit.ConcurrentRequests}
	return []state{{p, l.slots - l.used, -1}}
}

func (l *concurrent) allows(d time.Duration) float64 {
	return float64(l.slots) * max(1, math.Floor(float64(d)/float64(l.each)))
}

// outage refuses all requests for some time, and none before and after.
type outage struct {
	unlimited
	from, to time.Duration
}

func (l outage) has(now time.Time, _ []cost) bool {
	return now.Before(epoch.Add(l.from)) || !now.Before(epoch.Add(l.to))
}

func (l outage) take(now time.Time, costs []cost) (bool, func()) { return l.has(now, costs), nil }

// unlimited serves every request.
type unlimited struct{}

func (unlimited) has(time.Time, []cost) bool            { return true }
func (unlimited) take(time.Time, []cost) (bool, func()) { return true, nil }
func (unlimited) state(time.Time) []state               { return nil }
func (unlimited) allows(time.Duration) float64          { return math.Inf(1) }

// A visit is a request at a server. Its luck depends on the seed, the job and the
// number of the try alone, not on the order in which goroutines run.
type visit struct {
	now    time.Time // of the decision
	served bool
	states []state
	wait   time.Duration // until a refused request could be served
	rnd    *rand.Rand
}

// accepted answers that a job goes on, with the time to ask again, like many APIs that work in the
// background.
func accepted(h http.Header, _ *visit) { h.Set("Retry-After", "1") }

// silent writes nothing.
func silent(http.Header, *visit) {}

// current writes the current fields.
func current(h http.Header, v *visit) {
	var f ratelimit.Fields
	for _, s := range v.states {
		f.Policies = append(f.Policies, s.policy)
		l := ratelimit.Limit{Name: s.policy.Name, Remaining: s.remaining}
		if s.reset >= 0 {
			l.Reset = ratelimit.CeilSeconds(s.reset)
		}
		f.Limits = append(f.Limits, l)
	}
	if err := f.Set(h); err != nil {
		panic(err) // the limiters above are at fault
	}
}

// untrue writes the current fields with other numbers than those of the limiter.
func untrue(lie func(s *state, rnd *rand.Rand)) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		lie(&v.states[0], v.rnd)
		current(h, v)
	}
}

// unix writes X-RateLimit with the Unix time of the end of the window. The clock of the server is
// wrong by skew, which clients cannot see without a Date.
func unix(skew time.Duration, date bool) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		s := v.states[0]
		end := v.now.Add(skew + s.reset + time.Second - 1).Unix() // rounded up
		h.Set("X-RateLimit-Limit", strconv.FormatInt(s.policy.Quota, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(s.remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(end, 10))
		if date {
			h.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		}
	}
}

// likeGitHub writes the fields of GitHub.
func likeGitHub(h http.Header, v *visit) {
	unix(0, true)(h, v)
	h.Set("X-RateLimit-Used", strconv.FormatInt(v.states[0].policy.Quota-v.states[0].remaining, 10))
	h.Set("X-RateLimit-Resource", "core")
}

func refuseTooMany(http.Header, *visit) int { return http.StatusTooManyRequests }

func refuseForbidden(http.Header, *visit) int { return http.StatusForbidden }

func refuseRetryAfter(h http.Header, v *visit) int {
	h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(v.states[0].reset.Seconds())), 10))
	return http.StatusTooManyRequests
}

func refuseUnavailable(h http.Header, _ *visit) int {
	h.Set("Retry-After", "1")
	return http.StatusServiceUnavailable
}

// A server is an http.RoundTripper: the network and what is behind it.
type server struct {
	limit  limiter
	say    func(http.Header, *visit)      // writes fields on every response
	refuse func(http.Header, *visit) int  // writes fields on refusals, and returns the status
	work   func(number int) time.Duration // for how long the handler works, of the requests served the first is 0
	way    time.Duration                  // the longest time from client to server, and back; half of it on average
	loses  float64                        // the part of the requests that are lost, half of them after they were served
	turn   chan struct{}                  // if not nil, requests are held, one at a time, until the limiter lets them pass, as an oracle would

	mu     sync.Mutex
	seed   uint64
	tries  map[string]uint64 // of each job
	served int
	events []event
}

// An event is the result of a request that reached a server.
type event struct {
	at     time.Duration // since the beginning
	served bool
	cost   int64
}

var errLost = errors.New("simulate: the connection was lost")

// reset is the work of a connection that is reset.
const reset = -1

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	rnd := s.luck(req.Header.Get(jobField))
	lost, up, down := rnd.Float64(), s.trip(rnd), s.trip(rnd)
	time.Sleep(up)
	if lost < s.loses/2 {
		time.Sleep(down)
		return nil, errLost
	}
	resp, err := s.serve(req, rnd)
	time.Sleep(down)
	if lost < s.loses || err != nil {
		return nil, errLost
	}
	return resp, nil
}

func (s *server) trip(rnd *rand.Rand) time.Duration {
	return time.Duration(rnd.Float64() * float64(s.way))
}

func (s *server) luck(job string) *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, err := strconv.ParseUint(job, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("a request without %s", jobField))
	}
	s.tries[job]++
	return rand.New(rand.NewPCG(s.seed, number<<32|s.tries[job]))
}

func (s *server) serve(req *http.Request, rnd *rand.Rand) (*http.Response, error) {
	v, work, done := s.hold(req, rnd)
	if work < 0 {
		return nil, errLost
	}
	select {
	case <-time.After(work):
	case <-req.Context().Done():
	}
	if done != nil {
		s.mu.Lock()
		done()
		s.mu.Unlock()
	}
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
	s.say(resp.Header, v)
	if !v.served {
		resp.StatusCode = s.refuse(resp.Header, v)
	}
	return resp, nil
}

// hold returns when an oracle would send the request: when there is enough for it.
func (s *server) hold(req *http.Request, rnd *rand.Rand) (v *visit, work time.Duration, done func()) {
	if s.turn != nil {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		for !s.allows(req) && req.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return s.decide(rnd, costsOf(req))
}

func (s *server) allows(req *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit.has(time.Now(), costsOf(req))
}

// decide asks the limiter. A negative work is a connection that is reset.
func (s *server) decide(rnd *rand.Rand, costs []cost) (v *visit, work time.Duration, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = &visit{now: time.Now(), rnd: rnd}
	v.served, done = s.limit.take(v.now, costs)
	v.states = s.limit.state(v.now)
	if !v.served {
		v.wait = waitOf(s.limit, v.now, costs)
	}
	var all int64
	for _, c := range costs {
		all += c.taken
	}
	s.events = append(s.events, event{time.Since(epoch), v.served, all})
	if v.served {
		work = s.work(s.served)
		s.served++
	}
	return v, work, done
}

// waitOf returns the time until a limiter has enough for a request, if no other request takes from
// it, to a tenth of a second. It returns an hour if the limiter never has enough.
func waitOf(l limiter, now time.Time, costs []cost) time.Duration {
	switch l := l.(type) {
	case *bucket:
		missing := float64(l.meter.units(costs)) - l.tokens
		return time.Duration(max(missing, 0) / l.perSecond * float64(time.Second))
	case *fixedWindow:
		if l.has(now, costs) {
			return 0
		}
		return l.number.Add(l.window).Sub(now)
	case several:
		var longest time.Duration
		for _, one := range l {
			longest = max(longest, waitOf(one, now, costs))
		}
		return longest
	}
	return 0
}

// refuseUntil announces when the request could be served.
func refuseUntil(h http.Header, v *visit) int {
	h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(v.wait.Seconds())), 10))
	return http.StatusTooManyRequests
}

// likeOpenAI writes the fields of OpenAI: durations to the millisecond.
func likeOpenAI(h http.Header, v *visit) {
	for _, s := range v.states {
		name := "requests"
		if s.policy.Unit == "tokens" {
			name = "tokens"
		}
		h.Set("x-ratelimit-limit-"+name, strconv.FormatInt(s.policy.Quota, 10))
		h.Set("x-ratelimit-remaining-"+name, strconv.FormatInt(s.remaining, 10))
		reset := s.reset.Truncate(time.Millisecond)
		if reset < s.reset {
			reset += time.Millisecond
		}
		h.Set("x-ratelimit-reset-"+name, reset.String())
	}
}

// likeAnthropic writes the fields of Anthropic: thousands of tokens, and dates.
func likeAnthropic(h http.Header, v *visit) {
	for _, s := range v.states {
		name, remaining := "requests", s.remaining
		if s.policy.Unit == "tokens" {
			name, remaining = s.policy.Name, (s.remaining+500)/1000*1000
		}
		h.Set("anthropic-ratelimit-"+name+"-limit", strconv.FormatInt(s.policy.Quota, 10))
		h.Set("anthropic-ratelimit-"+name+"-remaining", strconv.FormatInt(remaining, 10))
		h.Set("anthropic-ratelimit-"+name+"-reset", v.now.Add(s.reset+time.Second-1).UTC().Format(time.RFC3339))
	}
	h.Set("Date", v.now.UTC().Format(http.TimeFormat))
}

// onRefusal writes fields on refusals alone.
func onRefusal(say func(http.Header, *visit)) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		if !v.served {
			say(h, v)
		}
	}
}
