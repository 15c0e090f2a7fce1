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
	"github.com/httpfields/ratelimit/announce"
)

// A limiter decides whether a request is served.
type limiter interface {
	// wait returns how long a request would be refused, if no other request takes from the limiter:
	// 0 if enough is left, and a nanosecond if that is unknown.
	wait(now time.Time, costs []cost) time.Duration
	// take counts a request, which is served if it does not have to wait. done, which may be nil, is
	// called when the request has been served.
	take(now time.Time, costs []cost, served bool) (done func())
	// state returns the remaining units and the resets.
	state(now time.Time) []state
}

// try serves a request if enough is left.
func try(l limiter, now time.Time, costs []cost) (served bool, done func()) {
	served = l.wait(now, costs) == 0
	return served, l.take(now, costs, served)
}

// unknown is the wait for something without an announced end.
const unknown = time.Nanosecond

// A state is the state of one limit.
type state struct {
	policy    ratelimit.Policy
	remaining int64
	reset     time.Duration // below 0 if absent
}

// A fixedWindow allows a number of requests in each window. Without a phase, the first window
// begins with the simulation.
type fixedWindow struct {
	quota     int64
	window    time.Duration
	phase     time.Duration // from the beginning of the simulation to that of a window
	onRequest bool          // a window begins with the first request after the previous window
	meter     meter
	number    time.Time // the beginning of the window
	used      int64
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

// policy returns a policy with a name for the counted units.
func (m meter) policy(quota int64, window time.Duration) ratelimit.Policy {
	p := policyOf(quota, window)
	if m.field != "" {
		p.Name, p.Unit = m.name, "tokens"
	}
	return p
}

func (l *fixedWindow) wait(now time.Time, costs []cost) time.Duration {
	l.turn(now)
	if l.used+l.meter.units(costs) <= l.quota {
		return 0
	}
	return l.number.Add(l.window).Sub(now)
}

func (l *fixedWindow) take(_ time.Time, costs []cost, served bool) (done func()) {
	if served {
		l.used += l.meter.units(costs)
	}
	return nil
}

func (l *fixedWindow) turn(now time.Time) {
	begin := now.Add(-l.phase).Truncate(l.window).Add(l.phase)
	if l.onRequest {
		if begin = l.number; now.Sub(begin) >= l.window {
			begin = now
		}
	}
	if !begin.Equal(l.number) {
		l.number, l.used = begin, 0
	}
}

func (l *fixedWindow) state(now time.Time) []state {
	l.turn(now)
	return []state{{l.meter.policy(l.quota, l.window), l.quota - l.used, l.number.Add(l.window).Sub(now)}}
}

// policyOf returns a policy. Its name has the window, so that a server can have several
// policies.
func policyOf(quota int64, window time.Duration) ratelimit.Policy {
	return ratelimit.Policy{Name: "per-" + window.String(), Quota: quota, Window: ratelimit.CeilSeconds(window)}
}

// A slidingWindow allows a number of requests within any time of the window's length.
type slidingWindow struct {
	quota  int64
	window time.Duration
	all    bool        // refused requests count too
	taken  []time.Time // within the window, oldest first
}

func (l *slidingWindow) wait(now time.Time, _ []cost) time.Duration {
	l.turn(now)
	if int64(len(l.taken)) < l.quota {
		return 0
	}
	return l.taken[int64(len(l.taken))-l.quota].Add(l.window).Sub(now)
}

func (l *slidingWindow) take(now time.Time, _ []cost, served bool) (done func()) {
	if served || l.all {
		l.taken = append(l.taken, now)
	}
	return nil
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
	return []state{{policyOf(l.quota, l.window), max(0, l.quota-int64(len(l.taken))), reset}}
}

// A weightedWindow counts requests in windows. It adds the part of the previous window that
// is less than a window ago.
type weightedWindow struct {
	fixedWindow
	previous int64
	plain    bool // it is announced as a fixed window
	all      bool // refused requests count too, as in a stick table of HAProxy
}

func (l *weightedWindow) turn(now time.Time) {
	before, used := l.number, l.used
	if l.fixedWindow.turn(now); !l.number.Equal(before) {
		if l.previous = 0; l.number.Sub(before) == l.window {
			l.previous = used
		}
	}
}

func (l *weightedWindow) wait(now time.Time, _ []cost) time.Duration {
	if x := l.state(now)[0]; x.remaining == 0 {
		return max(x.reset, unknown)
	}
	return 0
}

func (l *weightedWindow) take(_ time.Time, _ []cost, served bool) (done func()) {
	if served || l.all {
		l.used++
	}
	return nil
}

func (l *weightedWindow) state(now time.Time) []state {
	l.turn(now)
	left := l.number.Add(l.window).Sub(now)
	limit := announce.SlidingWindow{Quota: l.quota, Previous: l.previous, Current: l.used, Window: l.window, Left: left}.Fields().Limits[0]
	reset, _ := limit.Reset.Duration()
	if l.plain {
		reset = left
	}
	return []state{{policyOf(l.quota, l.window), limit.Remaining, reset}}
}

// A bucket has room for a number of tokens. A request takes one token, and tokens flow in
// continuously. GCRA (generic cell rate algorithm) is equivalent.
type bucket struct {
	perSecond float64
	burst     float64
	untilFull bool // the reset is the time until all tokens are back, not until the next one
	meter     meter
	tokens    float64
	at        time.Time
}

func (l *bucket) wait(now time.Time, costs []cost) time.Duration {
	l.flow(now)
	missing := float64(l.meter.units(costs)) - l.tokens
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing/l.perSecond*float64(time.Second)), unknown)
}

func (l *bucket) take(_ time.Time, costs []cost, served bool) (done func()) {
	if served {
		l.tokens -= float64(l.meter.units(costs))
	}
	return nil
}

func (l *bucket) flow(now time.Time) {
	if l.at.IsZero() {
		l.tokens = l.burst
	} else {
		// The additional nanosecond keeps rounding from removing a token that is due.
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

// several is a list of limiters. A request needs a unit of each. If one of them refuses it, none of
// them counts it.
type several []limiter

func (l several) wait(now time.Time, costs []cost) (longest time.Duration) {
	for _, one := range l {
		longest = max(longest, one.wait(now, costs))
	}
	return longest
}

func (l several) take(now time.Time, costs []cost, served bool) (done func()) {
	if !served {
		return nil
	}
	var ends []func()
	for _, one := range l {
		if _, done := try(one, now, costs); done != nil {
			ends = append(ends, done)
		}
	}
	return func() {
		for _, done := range ends {
			done()
		}
	}
}

func (l several) state(now time.Time) (all []state) {
	for _, one := range l {
		all = append(all, one.state(now)...)
	}
	return all
}

// concurrent serves a number of requests at the same time.
type concurrent struct {
	slots, used int64
	says        bool // it announces a policy
}

func (l *concurrent) wait(time.Time, []cost) time.Duration {
	if l.used < l.slots {
		return 0
	}
	return unknown
}

func (l *concurrent) take(_ time.Time, _ []cost, served bool) (done func()) {
	if !served {
		return nil
	}
	l.used++
	return func() { l.used-- }
}

func (l *concurrent) state(time.Time) []state {
	if !l.says {
		return nil
	}
	p := ratelimit.Policy{Name: "slots", Quota: l.slots, Unit: ratelimit.ConcurrentRequests}
	return []state{{p, l.slots - l.used, -1}}
}

// unlimited serves every request.
func unlimited() limiter { return several{} }

// A visit is a request at a server. Its luck depends only on the seed, the job and the number
// of the try, not on the order of goroutines.
type visit struct {
	now    time.Time // of the decision
	clock  time.Time // the same by the clock of the server
	number int       // how many requests were decided before
	served bool
	states []state
	wait   time.Duration // until a refused request could be served
	rnd    *rand.Rand
}

// A server is an http.RoundTripper: the network and what is behind it.
type server struct {
	limit  limiter
	each   []limiter // instead of limit: one limiter for each node or path; nodes are chosen at random
	paths  bool      // each has one limiter for each path
	oddity oddity
	say    func(http.Header, *visit) // writes fields on every response
	refuse refusal
	skew   time.Duration                  // of its clock
	work   func(number int) time.Duration // how long the handler works; number counts served requests from 0
	way    time.Duration                  // the longest time from client to server, and back; half of it on average
	loses  float64                        // the part of lost requests; half of them are lost after they were served
	turns  map[int]chan struct{}          // if not nil, requests are held, one at a time for each limiter, until an oracle would send them
	poll   time.Duration                  // how often an oracle looks; 0 is 10 ms

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
}

var errLost = errors.New("simulate: the connection was lost")

// reset means that the connection is reset.
const reset = -1

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	rnd := s.luck(req.Header.Get(jobField))
	lost, up, down := rnd.Float64(), s.trip(rnd), s.trip(rnd)
	time.Sleep(up)
	if lost < s.loses/2 {
		time.Sleep(down)
		return nil, errLost
	}
	resp, err := s.oddity.answer(s, req, rnd)
	time.Sleep(down)
	if err == nil && lost < s.loses {
		resp.Body.Close() // ends it
		err = errLost
	}
	if err != nil {
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
	resp := answerOf(req, http.StatusOK)
	if s.oddity.body > 0 && v.served && req.Context().Err() == nil {
		resp.Body, done = &slowBody{ctx: req.Context(), takes: s.oddity.body, end: sync.OnceFunc(s.locked(done))}, nil
	}
	if done != nil {
		s.locked(done)()
	}
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	s.say(resp.Header, v)
	if v.served {
		s.oddity.spoil(resp, rnd)
	} else {
		s.refuse.write(resp.Header, v)
		resp.StatusCode = s.refuse.status
	}
	return resp, nil
}

// locked returns a function that calls f with the server's lock held.
func (s *server) locked(f func()) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f != nil {
			f()
		}
	}
}

func answerOf(req *http.Request, status int) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// hold returns when an oracle would send the request, which is when enough is left for it.
func (s *server) hold(req *http.Request, rnd *rand.Rand) (v *visit, work time.Duration, done func()) {
	node, l := s.limitOf(req, rnd)
	if s.turns != nil {
		s.mu.Lock()
		turn := s.turns[node]
		if turn == nil {
			turn = make(chan struct{}, 1)
			s.turns[node] = turn
		}
		s.mu.Unlock()
		turn <- struct{}{}
		defer func() { <-turn }()
		for !s.allows(l, req) && req.Context().Err() == nil {
			time.Sleep(max(s.poll, 10*time.Millisecond))
		}
	}
	return s.decide(l, rnd, costsOf(req))
}

// limitOf returns the limiter that decides about a request.
func (s *server) limitOf(req *http.Request, rnd *rand.Rand) (node int, l limiter) {
	switch {
	case len(s.each) == 0:
		return 0, s.limit
	case s.paths:
		job, _ := strconv.Atoi(req.Header.Get(jobField)) // luck has checked it
		node = job % len(s.each)
	default:
		node = rnd.IntN(len(s.each))
	}
	return node, s.each[node]
}

func (s *server) allows(l limiter, req *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.wait(time.Now(), costsOf(req)) == 0
}

// decide asks the limiter. A negative work means that the connection is reset.
func (s *server) decide(l limiter, rnd *rand.Rand, costs []cost) (v *visit, work time.Duration, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = &visit{now: time.Now(), clock: time.Now().Add(s.skew), number: len(s.events), rnd: rnd}
	v.served, done = try(l, v.now, costs)
	v.states = l.state(v.now)
	if !v.served {
		v.wait = l.wait(v.now, costs)
	}
	s.events = append(s.events, event{time.Since(epoch), v.served})
	if v.served {
		work = s.work(s.served) + delayOf(l)
		s.served++
	}
	return v, work, done
}
