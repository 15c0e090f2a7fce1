package main

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"
)

// crowded is a bucket from which other clients take a part.
func crowded(perSecond, burst, part float64) func() limiter {
	gap := time.Duration(float64(time.Second) / (perSecond * part))
	return func() limiter { return withOthers(&bucket{perSecond: perSecond, burst: burst}, gap, 1, nil) }
}

// loggedAll remembers each request of the last 5 s.
func loggedAll() limiter { return &slidingWindow{quota: 50, window: 5 * time.Second, all: true} }

// countedAll is a stick table of HAProxy: a rate is a sliding counter.
func countedAll() limiter {
	return &weightedWindow{fixedWindow: fixedWindow{quota: 50, window: 5 * time.Second}, all: true}
}

// outage refuses all requests for some time.
func outage(from, to time.Duration) limiter {
	return &front{limiter: unlimited(), shut: func(now time.Time) time.Duration {
		if now.Before(epoch.Add(from)) {
			return 0
		}
		return max(epoch.Add(to).Sub(now), 0)
	}}
}

func fiveAtOnce() limiter { return &concurrent{slots: 5, says: true} }

// lognormal is the work time of a model. Half of the responses take longer than the median.
func lognormal(median time.Duration) func(int) time.Duration {
	return func(number int) time.Duration {
		rnd := rand.New(rand.NewPCG(7, uint64(number)))
		return time.Duration(float64(median) * math.Exp(0.5*rnd.NormFloat64()))
	}
}

// terse are servers that announce little, or respond slowly.
var terse = []scenario{
	{name: "fields on refusals alone; 20/s, burst 5; 30 workers", loses: "a client does not know what is left between two refusals. Transport sends a few requests at a time, and waits a second after each refusal", ideal: 15, load: load{workers: 30, jobs: 300},
		server: near(40*time.Millisecond, tokens(20, 5, false), onRefusal(current), tooMany, 10*time.Millisecond), wanted: wanted{seconds: 33, refused: 70}},
	{name: `5 at a time, qu="concurrent-requests"; 0.2 s; 30 workers`, ideal: 12, load: load{workers: 30, jobs: 300},
		server: near(0, fiveAtOnce, current, tooMany, 200*time.Millisecond), wanted: wanted{seconds: 13, refused: 10}},
	{name: "429 alone; 20/s, burst 1 (nginx without burst); 20 workers", ideal: 15, load: jobs300,
		server: near(40*time.Millisecond, tokens(20, 1, false), silent, tooMany, 10*time.Millisecond), wanted: wanted{seconds: 28, refused: 90}},
	{name: "429 alone; 10/s, burst 1, others take 60 %; 9 workers, 100 jobs", ideal: 25, load: load{workers: 9, jobs: 100},
		server: near(40*time.Millisecond, crowded(10, 1, 0.6), silent, tooMany, 10*time.Millisecond), wanted: wanted{seconds: 90, refused: 160},
		note: "most refusals are due to the other clients, and a bare 429 has no time. Transport slows down after each of them", reached: 500},
	{name: "50 per 5 s, a sliding log, refused ones counted, 429 alone; 10 workers, 200 jobs", ideal: 15, load: load{workers: 10, jobs: 200, within: 2 * time.Minute},
		server: near(0, loggedAll, silent, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 38, refused: 50}},
	{name: "the same; 30 workers, 400 jobs; given up after 2 min", ideal: 35, load: load{workers: 30, jobs: 400, within: 2 * time.Minute},
		server: near(0, loggedAll, silent, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 60, refused: 61}},
	{name: "HAProxy's stick table, 50 per 5 s, refused ones counted; given up after 3 min; 10 workers, 200 jobs", ideal: 15, load: load{workers: 10, jobs: 200, within: 3 * time.Minute},
		server: near(10*time.Millisecond, countedAll, silent, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 30, refused: 60}},
	{name: "HAProxy's stick table; 300 jobs at once", ideal: 25, load: load{workers: 300, each: 1, within: 3 * time.Minute},
		server: near(10*time.Millisecond, countedAll, silent, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 50, refused: 420}},
	{name: "HAProxy's stick table; 30 workers, 400 jobs", ideal: 35, load: load{workers: 30, jobs: 400, within: 3 * time.Minute},
		server: near(10*time.Millisecond, countedAll, silent, tooMany, 50*time.Millisecond), wanted: wanted{seconds: 60, refused: 110}},
	{name: "no limit, 429 alone from second 2 to 4; 0.1 s; 20 workers, 1000 jobs", ideal: 7, load: load{workers: 20, jobs: 1000},
		server: near(0, func() limiter { return outage(2*time.Second, 4*time.Second) }, silent, tooMany, 100*time.Millisecond), wanted: wanted{seconds: 15, refused: 30}},
	{name: "7.7/s, burst 3, q=3;w=1; 1.5 s; 40 workers, 320 jobs", ideal: 42, load: load{workers: 40, jobs: 320},
		server: near(0, tokens(7.7, 3, false), current, tooMany, 1500*time.Millisecond), wanted: wanted{seconds: 110, refused: 5}},
	{name: "5 at a time, 429 and Retry-After: 1 (an API server of Kubernetes); 50 ms; 40 workers", ideal: 3, load: load{workers: 40, jobs: 300},
		server: near(0, func() limiter { return &concurrent{slots: 5} }, silent, refusal{http.StatusTooManyRequests, inASecond}, 50*time.Millisecond), wanted: wanted{seconds: 10, refused: 10}},
	{name: "OpenAI's resets of milliseconds; 20/s, burst 2; 20 workers", ideal: 15, load: jobs300,
		server: near(10*time.Millisecond, tokens(20, 2, false), likeOpenAI, tooMany, 10*time.Millisecond), wanted: wanted{seconds: 20, refused: 9}},
	{name: "GCRA, 10/s, burst 5, X-RateLimit in whole seconds; 50 ms; 10 workers, 200 jobs", ideal: 19.5, load: load{workers: 10, jobs: 200},
		server: near(0, tokens(10, 5, true), inForm("X-RateLimit, seconds", 0, false), refusal{http.StatusTooManyRequests, untilServed}, 50*time.Millisecond), wanted: wanted{seconds: 26, refused: 6}},
	{name: "10 per second, fixed windows, the same fields; 50 ms; 10 workers, 200 jobs", ideal: 19, load: load{workers: 10, jobs: 200},
		server: near(0, fixed(10, time.Second), inForm("X-RateLimit, seconds", 0, false), refusal{http.StatusTooManyRequests, untilServed}, 50*time.Millisecond), wanted: wanted{seconds: 22, refused: 2}},
	{name: "3 per 321 s, 3.6 s, timeouts of 18 s; 20 workers, 20 jobs", ideal: 1819, load: load{workers: 20, jobs: 20, timeout: 18 * time.Second},
		server: near(0, tokens(3.0/321, 3, false), silent, refusal{http.StatusTooManyRequests, untilServed}, 3600*time.Millisecond), wanted: wanted{seconds: 2000, refused: 140}},
	{name: "20 per minute, 8 s lognormal, timeouts of 30 s; 20 workers, 100 jobs", loses: "Transport does not send a request whose timeout is too close, and its probes wait for slow answers. Most other clients are refused a thousand times", ideal: 248, load: load{workers: 20, jobs: 100, timeout: 30 * time.Second},
		server: func() *server {
			return &server{limit: fixed(20, time.Minute)(), say: current, refuse: tooMany, work: lognormal(8 * time.Second)}
		}, wanted: wanted{seconds: 420, refused: 140}},
	{name: "20 per minute, burst 3, 8 s; 20 workers, 60 jobs", ideal: 179, load: load{workers: 20, jobs: 60},
		server: near(0, tokens(20.0/60, 3, false), current, tooMany, 8*time.Second), wanted: wanted{seconds: 205, refused: 40}},
	{name: "MaxWait 1 s, Retry-After 60 s: 5 per minute; 10 workers, 110 jobs", ideal: 1260, load: load{workers: 10, jobs: 110}, maxWait: time.Second,
		server: near(0, fixed(5, time.Minute), silent, refusal{http.StatusTooManyRequests, untilReset}, 10*time.Millisecond), wanted: wanted{seconds: 1340, refused: 230}},
}
