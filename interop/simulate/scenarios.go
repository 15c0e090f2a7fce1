package main

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// A scenario is a row of a table.
type scenario struct {
	name  string
	ideal float64 // the seconds that the quota requires if no request is lost, 0 if unknown
	load
	server  func() *server
	maxWait time.Duration // of the Transports, 0 for the default
	wanted  wanted
	note    string   // why the goals are out of reach
	reached float64  // the largest number of seconds instead of the goal
	loses   string   // why another client is faster
	kinds   []string // the oddities of a random one
	aside   string   // why it is right that clients obey a random server, although it costs time
}

// A wanted has the goals for a Transport.
type wanted struct {
	seconds, refused float64
}

// short is a server with short responses over a bad network.
func short(limit func() limiter, say func(http.Header, *visit), refuse refusal) func() *server {
	return func() *server {
		return &server{limit: limit(), say: say, refuse: refuse, work: lasts(0), way: 150 * time.Millisecond, loses: 0.05}
	}
}

// lasts is the work of a handler that always takes the same time.
func lasts(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// near is a server behind a network that takes up to way in each direction, and loses nothing.
func near(way time.Duration, limit func() limiter, say func(http.Header, *visit), refuse refusal, work time.Duration) func() *server {
	return func() *server { return &server{limit: limit(), say: say, refuse: refuse, work: lasts(work), way: way} }
}

func fixed(quota int64, window time.Duration) func() limiter {
	return func() limiter { return &fixedWindow{quota: quota, window: window} }
}

func sliding(quota int64, window time.Duration) func() limiter {
	return func() limiter { return &slidingWindow{quota: quota, window: window} }
}

func weighted(quota int64, window time.Duration, plain bool) func() limiter {
	return func() limiter {
		return &weightedWindow{fixedWindow: fixedWindow{quota: quota, window: window}, plain: plain}
	}
}

func tokens(perSecond, burst float64, untilFull bool) func() limiter {
	return func() limiter {
		return &bucket{perSecond: perSecond, burst: burst, untilFull: untilFull, tokens: burst}
	}
}

var (
	fifty   = fixed(50, 10*time.Second)
	jobs300 = load{workers: 20, jobs: 300}
)

func twice(s *state, _ *rand.Rand)  { s.remaining *= 2 }
func always(s *state, _ *rand.Rand) { s.remaining = 50 }
func random(s *state, rnd *rand.Rand) {
	s.remaining, s.reset = rnd.Int64N(51), time.Duration(rnd.Int64N(11))*time.Second
}

// shortAnswers: 300 jobs, 20 workers, up to 150 ms each way, 5 % lost.
var shortAnswers = []scenario{
	{name: "fixed window, 50 per 10 s", ideal: 50, load: jobs300,
		server: short(fifty, current, tooMany), wanted: wanted{seconds: 62, refused: 0}},
	{name: "sliding window, 50 per 10 s", ideal: 50, load: jobs300,
		server: short(sliding(50, 10*time.Second), current, tooMany), wanted: wanted{seconds: 66, refused: 0}},
	{name: "token bucket, 5/s, burst 50, t is the next unit", ideal: 50, load: jobs300,
		server: short(tokens(5, 50, false), current, tooMany), wanted: wanted{seconds: 54, refused: 0}},
	{name: "GCRA, 5/s, burst 10, t is until full", ideal: 58, load: jobs300,
		server: short(tokens(5, 10, true), current, tooMany), wanted: wanted{seconds: 71, refused: 0}},
	{name: "GCRA, 20/s, burst 1, t is the next unit", ideal: 15, load: jobs300,
		server: short(tokens(20, 1, false), current, tooMany), wanted: wanted{seconds: 60, refused: 60},
		note: "each answer announces that nothing remains for a second, because 50 ms are rounded up. A client that obeys sends one request a second, and takes 300 s", reached: 350},
	{name: "10 per 1 s and 50 per 10 s", ideal: 50, load: jobs300,
		server: short(func() limiter { return several{fixed(10, time.Second)(), fifty()} }, current, tooMany), wanted: wanted{seconds: 62, refused: 0}},
	{name: "5 at a time, 503 and Retry-After: 1", ideal: 12, load: jobs300,
		server: func() *server {
			s := short(func() limiter { return &concurrent{slots: 5} }, silent, refusal{http.StatusServiceUnavailable, inASecond})()
			s.work = lasts(200 * time.Millisecond)
			return s
		}, wanted: wanted{seconds: 30, refused: 60}},
	{name: "fixed window, X-RateLimit with a Unix reset", ideal: 50, load: jobs300,
		server: short(fifty, inForm("X-RateLimit, Unix", 0, true), tooMany), wanted: wanted{seconds: 62, refused: 3.4}},
	{name: "the same, its clock 2 min behind, no Date", ideal: 50, load: jobs300,
		server: short(fifty, inForm("X-RateLimit, Unix", -2*time.Minute, false), tooMany), wanted: wanted{seconds: 63, refused: 42}},
	{name: "GitHub's 403 with nothing remaining", ideal: 50, load: jobs300,
		server: short(fifty, inForm("GitHub", 0, true), refusal{http.StatusForbidden, silent}), wanted: wanted{seconds: 62, refused: 4}},
	{name: "fixed window, 429 and Retry-After alone", ideal: 50, load: jobs300,
		server: short(fifty, silent, refusal{http.StatusTooManyRequests, untilReset}), wanted: wanted{seconds: 62, refused: 60}},
	{name: "fixed window, 429 alone", ideal: 50, load: jobs300,
		server: short(fifty, silent, tooMany), wanted: wanted{seconds: 63, refused: 85}},
	{name: "fixed window, says twice what remains", ideal: 50, load: jobs300,
		server: short(fifty, untrue(twice), tooMany), wanted: wanted{seconds: 62, refused: 28}},
	{name: "fixed window, always says r=50", ideal: 50, load: jobs300,
		server: short(fifty, untrue(always), tooMany), wanted: wanted{seconds: 63, refused: 90}},
	{name: "fixed window, random r and t", loses: "Transport obeys numbers that mean nothing", ideal: 50, load: jobs300,
		server: short(fifty, untrue(random), tooMany), wanted: wanted{seconds: 84, refused: 38}},
}

// slowAnswers: a language model, a report. Nothing is lost, and the network takes no time.
var slowAnswers = []scenario{
	{name: "token bucket, 5/s, burst 5; 3 s; 25 × 4", loses: "the first answer of a window takes 3 s, and other requests wait for it. The tokens that flow in meanwhile are lost", ideal: 22, load: load{workers: 25, each: 4},
		server: near(0, tokens(5, 5, false), current, tooMany, 3*time.Second), wanted: wanted{seconds: 60, refused: 20}},
	{name: "token bucket, 5/s, burst 5; 20 s; 50 × 4", ideal: 80, load: load{workers: 50, each: 4},
		server: near(0, tokens(5, 5, false), current, tooMany, 20*time.Second), wanted: wanted{seconds: 150, refused: 40}},
	{name: "1000 per second, never near it; 2 s; 50 × 10", ideal: 20, load: load{workers: 50, each: 10},
		server: near(0, fixed(1000, time.Second), current, tooMany, 2*time.Second), wanted: wanted{seconds: 20.5, refused: 0}},
	{name: "the same, with a MaxWait of 1 s", ideal: 20, load: load{workers: 50, each: 10}, maxWait: time.Second,
		server: near(0, fixed(1000, time.Second), current, tooMany, 2*time.Second), wanted: wanted{seconds: 20.5, refused: 0}},
	{name: "fixed window, 100 per 10 s; 2 s; 30 × 10", ideal: 22, load: load{workers: 30, each: 10},
		server: near(0, fixed(100, 10*time.Second), current, tooMany, 2*time.Second), wanted: wanted{seconds: 26, refused: 0},
		note: "the last 100 of 300 requests are not allowed before 20 s. 30 workers need four rounds of 2 s for them, so 28 s is the least for any client. The rest is a reset that is 2 s old when it arrives, and the probe of each window", reached: 37},
	{name: "weighted window, 50 per 10 s; 50 ms; 20 × 15", ideal: 60, load: load{workers: 20, each: 15},
		server: near(0, weighted(50, 10*time.Second, false), current, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 66, refused: 0}},
	{name: "the same, announced as a fixed window", loses: "Transport waits for the end of each window, as the server asks", ideal: 60, load: load{workers: 20, each: 15},
		server: near(0, weighted(50, 10*time.Second, true), current, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 102, refused: 5}},
	{name: "202 and Retry-After: 1 on every answer, nothing is refused; 0.5 s; 20 × 5", loses: "ten requests are sent before anything is known, and the other requests wait for the first answer", ideal: 2.5, load: load{workers: 20, each: 5},
		server: near(0, unlimited, inASecond, tooMany, 500*time.Millisecond), wanted: wanted{seconds: 3, refused: 0}},
	{name: "no fields; 0.7 s; 10 × 5", ideal: 3.5, load: load{workers: 10, each: 5},
		server: near(0, unlimited, silent, tooMany, 700*time.Millisecond), wanted: wanted{seconds: 3.5, refused: 0}},
	{name: "no fields; 0.2 s; 50 at once", ideal: 0.2, load: load{workers: 50, each: 1},
		server: near(0, unlimited, silent, tooMany, 200*time.Millisecond), wanted: wanted{seconds: 0.4}},
	{name: "the same, where the first five connections are reset", ideal: 0.2, load: load{workers: 50, each: 1},
		server: func() *server {
			return &server{limit: unlimited(), say: silent, work: func(number int) time.Duration {
				if number < 5 {
					return reset
				}
				return 200 * time.Millisecond
			}}
		}, wanted: wanted{seconds: 0.4}},
}
