package main

import (
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
	// take takes a unit for a request if there is one. done, which may be nil, is
	// called when the request has been served.
	take(now time.Time) (ok bool, done func())
	// state returns what remains, and until when.
	state(now time.Time) []state
	// allows returns how many requests can be served within a time.
	allows(d time.Duration) float64
}

// A state is what a limiter knows of one of its limits.
type state struct {
	policy    ratelimit.Policy
	remaining int64
	reset     time.Duration
}

// A fixedWindow allows so many requests in each window. The first window begins
// with the simulation.
type fixedWindow struct {
	quota  int64
	window time.Duration
	number time.Time // the beginning of the window
	used   int64
}

func (l *fixedWindow) take(now time.Time) (bool, func()) {
	l.turn(now)
	if l.used == l.quota {
		return false, nil
	}
	l.used++
	return true, nil
}

func (l *fixedWindow) turn(now time.Time) {
	if begin := now.Truncate(l.window); !begin.Equal(l.number) {
		l.number, l.used = begin, 0
	}
}

func (l *fixedWindow) state(now time.Time) []state {
	l.turn(now)
	return []state{{policyOf(l.quota, l.window), l.quota - l.used, l.number.Add(l.window).Sub(now)}}
}

func (l *fixedWindow) allows(d time.Duration) float64 {
	return float64(l.quota) * max(1, math.Ceil(float64(d)/float64(l.window)))
}

// policyOf returns a policy, which is named after its window so that a server can
// have several.
func policyOf(quota int64, window time.Duration) ratelimit.Policy {
	return ratelimit.Policy{Name: "per-" + window.String(), Quota: quota, Window: ratelimit.CeilSeconds(window)}
}

// A slidingWindow allows so many requests within any time of the window's length.
type slidingWindow struct {
	quota  int64
	window time.Duration
	taken  []time.Time // within the window, oldest first
}

func (l *slidingWindow) take(now time.Time) (bool, func()) {
	l.turn(now)
	if int64(len(l.taken)) == l.quota {
		return false, nil
	}
	l.taken = append(l.taken, now)
	return true, nil
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

// A bucket holds up to so many tokens, of which a request takes one, and more flow
// in all the time. GCRA (generic cell rate algorithm) is the same, told otherwise.
type bucket struct {
	perSecond float64
	burst     float64
	untilFull bool // whether the reset is when all are back, not when the next one is
	tokens    float64
	at        time.Time
}

func (l *bucket) take(now time.Time) (bool, func()) {
	l.flow(now)
	if l.tokens < 1 {
		return false, nil
	}
	l.tokens--
	return true, nil
}

func (l *bucket) flow(now time.Time) {
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
	policy := policyOf(int64(l.burst), time.Duration(l.burst/l.perSecond*float64(time.Second)))
	return []state{{policy, int64(l.tokens), time.Duration(missing / l.perSecond * float64(time.Second))}}
}

func (l *bucket) allows(d time.Duration) float64 { return l.burst + d.Seconds()*l.perSecond }

// several are limiters all of which must have a unit.
type several []limiter

func (l several) take(now time.Time) (bool, func()) {
	for _, one := range l {
		for _, s := range one.state(now) {
			if s.remaining == 0 {
				return false, nil
			}
		}
	}
	for _, one := range l {
		one.take(now)
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

// concurrent serves so many requests at a time, each for that long.
type concurrent struct {
	slots, used int64
	each        time.Duration
}

func (l *concurrent) take(time.Time) (bool, func()) {
	if l.used == l.slots {
		return false, nil
	}
	l.used++
	return true, func() { l.used-- }
}

func (l *concurrent) state(time.Time) []state { return nil }

func (l *concurrent) allows(d time.Duration) float64 {
	return float64(l.slots) * max(1, math.Floor(float64(d)/float64(l.each)))
}

// unlimited serves every request.
type unlimited struct{}

func (unlimited) take(time.Time) (bool, func()) { return true, nil }
func (unlimited) state(time.Time) []state       { return nil }
func (unlimited) allows(time.Duration) float64  { return math.Inf(1) }

// A visit is a request at a server. Its luck depends on the seed, the job and the
// number of the try alone, not on the order in which goroutines run.
type visit struct {
	now    time.Time // of the decision
	served bool
	states []state
	rnd    *rand.Rand
}

// silent writes nothing.
func silent(http.Header, *visit) {}

// current writes the current fields.
func current(h http.Header, v *visit) {
	var f ratelimit.Fields
	for _, s := range v.states {
		f.Policies = append(f.Policies, s.policy)
		f.Limits = append(f.Limits, ratelimit.Limit{
			Name: s.policy.Name, Remaining: s.remaining, Reset: ratelimit.CeilSeconds(s.reset)})
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

// unix writes X-RateLimit with the Unix time of the end of the window. The clock of
// the server is wrong by skew, and does not show where there is no Date.
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

// likeGitHub writes what GitHub does.
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
	refuse func(http.Header, *visit) int  // and on those of refused requests, of which it returns the status
	work   func(number int) time.Duration // for how long the handler works, of the requests served the first is 0
	way    time.Duration                  // the longest time from client to server, and back; half of it on average
	loses  float64                        // the part of the requests that are lost, half of them after they were served

	mu     sync.Mutex
	seed   uint64
	tries  map[string]uint64 // of each job
	served int
	events []event
}

// An event is what became of a request that reached a server.
type event struct {
	at     time.Duration // since the beginning
	served bool
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
	v, work, done := s.decide(rnd)
	if work < 0 {
		return nil, errLost
	}
	time.Sleep(work)
	if done != nil {
		s.mu.Lock()
		done()
		s.mu.Unlock()
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

// decide asks the limiter. A negative work is a connection that is reset.
func (s *server) decide(rnd *rand.Rand) (v *visit, work time.Duration, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = &visit{now: time.Now(), rnd: rnd}
	v.served, done = s.limit.take(v.now)
	v.states = s.limit.state(v.now)
	s.events = append(s.events, event{time.Since(epoch), v.served})
	if v.served {
		work = s.work(s.served)
		s.served++
	}
	return v, work, done
}
