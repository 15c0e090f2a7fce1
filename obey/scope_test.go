package obey

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A crowd is what happens when workers share a Transport. Each worker sends one request after the
// other, and pauses after each answer.
type crowd struct {
	workers []worker
	lasts   time.Duration // of the scene
	// answer returns a response as shortResponse reads it, "429; Retry-After: 60". at is the time
	// since the beginning.
	answer func(path string, at time.Duration) string
	with   func(*Transport) // its settings; nil has none
}

// A worker requests "/path", or "POST /path". A % becomes a number that is new for each request.
type worker struct {
	path  string
	pause time.Duration
}

// A tally counts the answers to the requests for a path.
type tally struct{ served, refused int }

// play lets the workers work, and returns the tallies by path, "" for all paths.
func (c *crowd) play(t *testing.T) map[string]tally {
	var mu sync.Mutex
	begin, counts := time.Now(), map[string]tally{}
	rt := &Transport{}
	if c.with != nil {
		c.with(rt)
	}
	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
		defer time.Sleep(50 * time.Millisecond)
		path := req.URL.Path
		if req.Method != http.MethodGet {
			path = req.Method + " " + path
		}
		mu.Lock()
		defer mu.Unlock()
		resp := shortResponse(c.answer(path, time.Since(begin)))
		resp.Request, resp.Body = req, http.NoBody
		for _, name := range []string{"", path} {
			n := counts[name]
			if resp.StatusCode < 400 {
				n.served++
			} else {
				n.refused++
			}
			counts[name] = n
		}
		return resp, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, w := range c.workers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond) // so that the order is the same in each run
			for n := 0; ctx.Err() == nil; n++ {
				method, path, named := strings.Cut(strings.ReplaceAll(w.path, "%", fmt.Sprint(i, "n", n)), " ")
				if !named {
					method, path = http.MethodGet, method
				}
				req, err := http.NewRequestWithContext(ctx, method, "https://api.example"+path, nil)
				require.NoError(t, err)
				if resp, err := (&http.Client{Transport: rt}).Do(req); err == nil {
					resp.Body.Close()
				}
				pause := time.NewTimer(w.pause)
				select {
				case <-pause.C:
				case <-ctx.Done():
				}
			}
		})
	}
	time.Sleep(c.lasts)
	cancel()
	all.Wait()
	return counts
}

// A limiter takes a unit if one is left, and returns what is left, and the time until the reset.
type limiter func(at time.Duration) (ok bool, left int, reset time.Duration)

// windowsOf returns a limiter with fixed windows. If onRequest, a window begins with the first
// request after the last window, and otherwise by the clock.
func windowsOf(quota int, length time.Duration, onRequest bool) limiter {
	var begin time.Duration
	used := 0
	return func(at time.Duration) (ok bool, left int, reset time.Duration) {
		next := at.Truncate(length)
		if onRequest {
			if next = begin; used == 0 || at-begin >= length {
				next = at
			}
		}
		if next != begin {
			begin, used = next, 0
		}
		if ok = used < quota; ok {
			used++
		}
		return ok, quota - used, begin + length - at
	}
}

// bucketOf returns a bucket that fills within a time. Its reset is when it is full, or when the next
// unit is back.
func bucketOf(quota int, fills time.Duration, untilFull bool) limiter {
	tokens, last, rate := float64(quota), time.Duration(0), float64(quota)/fills.Seconds()
	return func(at time.Duration) (ok bool, left int, reset time.Duration) {
		tokens, last = min(float64(quota), tokens+(at-last).Seconds()*rate), at
		if ok = tokens >= 1; ok {
			tokens--
		}
		missing := math.Floor(tokens) + 1 - tokens
		if untilFull {
			missing = float64(quota) - tokens
		}
		return ok, int(tokens), time.Duration(missing / rate * float64(time.Second))
	}
}

// logOf returns a sliding window: its reset is when the oldest of the requests is out of it.
func logOf(quota int, length time.Duration) limiter {
	var log []time.Duration
	return func(at time.Duration) (ok bool, left int, reset time.Duration) {
		log = slices.DeleteFunc(log, func(t time.Duration) bool { return at-t >= length })
		if ok = len(log) < quota; ok {
			log = append(log, at)
		}
		return ok, quota - len(log), log[0] + length - at
	}
}

// announce answers in a form: "x" is X-Rate-Limit, "retry" is Retry-After in refusals alone, "bare" is
// nothing, and other forms are names of a limit in the current fields.
func (l limiter) announce(form string, quota int, at time.Duration) string {
	ok, left, reset := l(at)
	status := map[bool]string{true: "200", false: "429"}[ok]
	seconds := int(math.Ceil(reset.Seconds()))
	switch {
	case form == "x":
		return fmt.Sprintf("%s; X-Rate-Limit-Limit: %d; X-Rate-Limit-Remaining: %d; X-Rate-Limit-Reset: %d", status, quota, left, seconds)
	case form == "bare" || form == "retry" && ok:
		return status
	case form == "retry":
		return fmt.Sprintf("%s; Retry-After: %d", status, seconds)
	}
	return fmt.Sprintf("%s; %s r=%d;t=%d of q=%d", status, form, left, seconds, quota)
}

// fourGood are four workers who request a good path. Each pauses for a second.
func fourGood(paths ...string) (workers []worker) {
	for i := range 4 {
		workers = append(workers, worker{paths[i%len(paths)], 950 * time.Millisecond})
	}
	return workers
}

// bad answers requests to paths that begin with /bad, and serves all others.
func bad(answer, good string) func(path string, _ time.Duration) string {
	return func(path string, _ time.Duration) string {
		if strings.HasPrefix(path, "/bad") {
			return answer
		}
		return good
	}
}

// One path is always refused, and four workers request another one. They make 2,400 requests in ten
// minutes if nothing delays them.
func TestScopeOneBad(t *testing.T) {
	for _, tc := range []struct {
		name, bad, good string
		served          int // of the good requests, at least
		with            func(*Transport)
	}{
		{name: "Retry-After", bad: "429; Retry-After: 60", served: 2250},
		{name: "Retry-After with 403", bad: "403; Retry-After: 60", served: 2250},
		{name: "a named limit", bad: "429; model-x r=0;t=60 of q=10;w=60", served: 2390},
		{name: "no wait", bad: "429", served: 2350},
		{name: "another limit on good ones", bad: "429; Retry-After: 60", good: "a r=50;t=60", served: 2250},
		{name: "a limit without a name", bad: "429; X-RateLimit-Limit: 10; X-RateLimit-Remaining: 0; X-RateLimit-Reset: 60", served: 2390},
		{
			name:   "a resource",
			bad:    "429; X-RateLimit-Remaining: 0; X-RateLimit-Reset: 60; X-RateLimit-Resource: bad",
			good:   "X-RateLimit-Remaining: 4000; X-RateLimit-Reset: 60; X-RateLimit-Resource: good",
			served: 2390,
		},
		{name: "with retries", bad: "429; Retry-After: 60", served: 2250, with: func(rt *Transport) { rt.MaxRetries = 3 }},
		{name: "per user", bad: "429; Retry-After: 60", served: 2250, with: func(rt *Transport) { rt.Key = KeyBy("Authorization") }},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			c := crowd{with: tc.with, lasts: 10 * time.Minute, answer: bad(tc.bad, tc.good)}
			c.workers = append(fourGood("/ok"), worker{"/bad", 5 * time.Second})
			counts := c.play(t)
			require.GreaterOrEqual(t, counts["/ok"].served, tc.served)
			require.LessOrEqual(t, counts["/bad"].refused, 45)
		})
	}
	trial.InBubble(t, "a Key of the user's own is not divided", func(t *testing.T) {
		c := crowd{workers: append(fourGood("/ok"), worker{"/bad", 5 * time.Second}), lasts: 10 * time.Minute, answer: bad("429; Retry-After: 60", "")}
		c.with = func(rt *Transport) { rt.Key = func(req *http.Request) string { return req.URL.Host } }
		require.LessOrEqual(t, c.play(t)["/ok"].served, 50)
	})
}

// Several paths are refused, or one method of a path.
func TestScopeSeveralBad(t *testing.T) {
	for _, tc := range []struct {
		name, bad string
		workers   []worker
		served    int
	}{
		{"two, Retry-After", "429; Retry-After: 60", []worker{{"/bad1", 5 * time.Second}, {"/bad2", 7 * time.Second}}, 2100},
		{"three, Retry-After", "429; Retry-After: 60", []worker{{"/bad1", 5 * time.Second}, {"/bad2", 7 * time.Second}, {"/bad3", 9 * time.Second}}, 2000},
		{"two, no wait", "429", []worker{{"/bad1", 5 * time.Second}, {"/bad2", 7 * time.Second}}, 2300},
		{"two, a limit", "429; x r=0;t=60", []worker{{"/bad1", 5 * time.Second}, {"/bad2", 7 * time.Second}}, 2390},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			c := crowd{workers: append(fourGood("/ok1", "/ok2", "/ok3", "/ok4"), tc.workers...), lasts: 10 * time.Minute, answer: bad(tc.bad, "")}
			require.GreaterOrEqual(t, c.play(t)[""].served, tc.served)
		})
	}
	trial.InBubble(t, "a POST is refused, and a GET of the same path is not", func(t *testing.T) {
		c := crowd{workers: append(fourGood("/a"), worker{"POST /a", 5 * time.Second}), lasts: 10 * time.Minute}
		c.answer = func(path string, _ time.Duration) string {
			return map[string]string{"POST /a": "429; Retry-After: 60"}[path]
		}
		require.GreaterOrEqual(t, c.play(t)["/a"].served, 2250)
	})
	trial.InBubble(t, "redirections lead to a path that is refused", func(t *testing.T) {
		c := crowd{workers: append(fourGood("/ok"), worker{"/old", 5 * time.Second}), lasts: 10 * time.Minute}
		c.answer = func(path string, _ time.Duration) string {
			return map[string]string{"/old": "307; Location: /bad", "/bad": "429; Retry-After: 60"}[path]
		}
		counts := c.play(t)
		require.GreaterOrEqual(t, counts["/ok"].served, 2250)
		require.LessOrEqual(t, counts["/bad"].refused, 15)
	})
}

// If a server refuses the whole account, the Transport is refused as seldom as one that knows no
// routes, but for one scout in ten minutes.
func TestScopeWholeAccount(t *testing.T) {
	for _, tc := range []struct {
		name, form string
		every      time.Duration // the last minute of each is refused
		times      int
		refused    int // at most, without scouts: what is measured without routes
	}{
		{"once, Retry-After", "retry", 3 * time.Minute, 1, 4},
		{"once, no wait", "bare", 3 * time.Minute, 1, 20},
		{"five times, Retry-After", "retry", 10 * time.Minute, 5, 12},
		{"five times, no wait", "bare", 10 * time.Minute, 5, 42},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			c := crowd{workers: append(fourGood("/ok"), worker{"/other", 5 * time.Second}), lasts: time.Duration(tc.times) * tc.every}
			c.answer = func(_ string, at time.Duration) string {
				in := at % tc.every
				if in < tc.every-time.Minute {
					return ""
				}
				return limiter(func(time.Duration) (bool, int, time.Duration) { return false, 0, tc.every - in }).announce(tc.form, 0, at)
			}
			require.LessOrEqual(t, c.play(t)[""].refused, tc.refused+tc.times)
		})
	}
}

// Two endpoints have limits of their own: /a 15 and /b 900 in each window. In 30 minutes two workers
// could make 2,400 requests to /b.
func TestScopeEndpoints(t *testing.T) {
	for _, tc := range []struct {
		form      string
		length    time.Duration
		onRequest bool
		served    int // requests to /b, at least
	}{
		{"x", 15 * time.Minute, true, 1800},
		{"x", 15 * time.Minute, false, 1800},
		{"x", time.Minute, true, 2390},
		{"x", time.Minute, false, 2390},
		{"retry", 15 * time.Minute, true, 1650},
		{"retry", time.Minute, true, 2350},
		{"named", time.Minute, true, 2390},
		{"named", time.Minute, false, 2390},
	} {
		trial.InBubble(t, fmt.Sprint(tc.form, " ", tc.length, " ", tc.onRequest), func(t *testing.T) {
			const pause = 1450 * time.Millisecond
			quotas := map[string]int{"/a": 15, "/b": 900}
			limits := map[string]limiter{}
			for path, quota := range quotas {
				limits[path] = windowsOf(quota, tc.length, tc.onRequest)
			}
			c := crowd{workers: []worker{{"/a", pause}, {"/b", pause}, {"/b", pause}}, lasts: 30 * time.Minute}
			c.answer = func(path string, at time.Duration) string {
				form := tc.form
				if form == "named" {
					form = path[1:]
				}
				return limits[path].announce(form, quotas[path], at)
			}
			counts := c.play(t)
			require.GreaterOrEqual(t, counts["/b"].served, tc.served)
			require.GreaterOrEqual(t, counts["/a"].served, int(30*time.Minute/tc.length)*15)
			require.LessOrEqual(t, counts["/a"].refused+counts["/b"].refused, 32)
		})
	}
}

// One limit holds for all paths, in each form and with each kind of limiter. Six paths have two workers
// each, who could make more requests than the limit allows.
func TestScopeOneForAll(t *testing.T) {
	const minute = time.Minute
	const runs = 4 // random waits make single runs differ
	for _, tc := range []struct {
		name    string
		form    string
		quota   int
		limits  func() limiter
		served  int // at least, in the mean of the runs
		refused int // at most
	}{
		{"windows of 15 min", "x", 900, func() limiter { return windowsOf(900, 15*minute, false) }, 1800, 5},
		{"windows of 15 min, named", "account", 900, func() limiter { return windowsOf(900, 15*minute, false) }, 1800, 5},
		{"windows of 15 min, Retry-After", "retry", 900, func() limiter { return windowsOf(900, 15*minute, false) }, 1800, 14}, // 10 without routes
		{"windows", "x", 60, func() limiter { return windowsOf(60, minute, false) }, 1800, 0},
		{"windows from the first request", "x", 60, func() limiter { return windowsOf(60, minute, true) }, 1800, 0},
		{"windows of 10 s", "x", 20, func() limiter { return windowsOf(20, 10*time.Second, false) }, 3600, 0},
		{"log", "x", 60, func() limiter { return logOf(60, minute) }, 1800, 0},
		{"bucket", "x", 60, func() limiter { return bucketOf(60, minute, false) }, 1850, 5},
		{"bucket, reset when it is full", "x", 60, func() limiter { return bucketOf(60, minute, true) }, 1790, 5},
		{"bucket of 20, reset when it is full", "x", 20, func() limiter { return bucketOf(20, 10*time.Second, true) }, 3500, 12},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			var workers []worker
			for i := range 6 {
				path := fmt.Sprint("/p", i)
				workers = append(workers, worker{path, time.Duration(100*(1+i)) * time.Millisecond}, worker{path, 700 * time.Millisecond})
			}
			served, refused := 0, 0
			for range runs {
				limit := tc.limits()
				c := crowd{workers: workers, lasts: 30 * minute, answer: func(_ string, at time.Duration) string { return limit.announce(tc.form, tc.quota, at) }}
				all := c.play(t)[""]
				served, refused = served+all.served, refused+all.refused
			}
			require.GreaterOrEqual(t, served, runs*tc.served)
			require.LessOrEqual(t, refused, runs*tc.refused)
		})
	}
}

// A bucket for the whole account asks each refused request to wait for a second. Without routes,
// 1672, 1629, 1457 and 823 requests are refused.
func TestScopeBucket(t *testing.T) {
	for perSecond, refused := range map[float64]int{0.5: 1672, 1: 1629, 3: 1457, 10: 823} {
		trial.InBubble(t, fmt.Sprint(perSecond, " a second"), func(t *testing.T) {
			var workers []worker
			for i := range 8 {
				workers = append(workers, worker{fmt.Sprint("/p", i), time.Duration(200+50*i) * time.Millisecond})
			}
			bucket := bucketOf(10, time.Duration(10/perSecond*float64(time.Second)), false)
			c := crowd{workers: workers, lasts: 30 * time.Minute, answer: func(_ string, at time.Duration) string {
				if ok, _, _ := bucket(at); !ok {
					return "429; Retry-After: 1"
				}
				return ""
			}}
			all := c.play(t)[""]
			require.GreaterOrEqual(t, all.served, int(1700*perSecond))
			require.LessOrEqual(t, all.refused, refused+refused/50)
		})
	}
}

// Many paths have one limit that is not announced. Without routes, 171 requests are refused on average
// of several runs.
func TestScopeCrawler(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		bucket := bucketOf(10, 2*time.Second, false)
		c := crowd{workers: slices.Repeat([]worker{{"/page%x", 100 * time.Millisecond}}, 20), lasts: 10 * time.Minute}
		c.answer = func(_ string, at time.Duration) string { return bucket.announce("bare", 0, at) }
		all := c.play(t)[""]
		require.GreaterOrEqual(t, all.served, 2990)
		require.LessOrEqual(t, all.refused, 240)
	})
}

// Fifteen endpoints announce equal limits without names. Each has its own.
func TestScopeEqualLimits(t *testing.T) {
	for _, onRequest := range []bool{false, true} {
		trial.InBubble(t, fmt.Sprint(onRequest), func(t *testing.T) {
			limits := map[string]limiter{}
			c := crowd{lasts: time.Hour, answer: func(path string, at time.Duration) string { return limits[path].announce("x", 15, at) }}
			for i := range 15 {
				path := fmt.Sprint("/p", i)
				limits[path] = windowsOf(15, 15*time.Minute, onRequest)
				c.workers = append(c.workers, worker{path, time.Duration(10+5*i) * time.Second})
			}
			counts := c.play(t)
			for i, w := range c.workers {
				could := min(60, int(time.Hour/(w.pause+50*time.Millisecond)))
				require.GreaterOrEqual(t, counts[w.path].served, could-4, i)
				require.LessOrEqual(t, counts[w.path].refused, 4, "a probe in each window that is longer than MaxWait")
			}
		})
	}
}

// Requests to /b also take of a second limit. No more is spent of either than is announced.
func TestScopeOverlap(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		account, search := windowsOf(100, time.Minute, false), windowsOf(10, time.Minute, false)
		c := crowd{lasts: 10 * time.Minute}
		for range 4 {
			c.workers = append(c.workers, worker{"/a", 300 * time.Millisecond}, worker{"/b", 400 * time.Millisecond})
		}
		c.answer = func(path string, at time.Duration) string {
			said := account.announce("account", 100, at)
			if path == "/b" {
				status, limit, _ := strings.Cut(search.announce("search", 10, at), "; ")
				if status != "200" {
					said = status + strings.TrimPrefix(said, "200")
				}
				said += "; " + limit
			}
			return said
		}
		counts := c.play(t)
		require.Equal(t, tally{served: 1000}, counts[""])
		require.Equal(t, 100, counts["/b"].served)
	})
}

// Scouts show whether a wait is one of the refused route alone.
func TestScopeScouts(t *testing.T) {
	// The good paths are served first, because a route that has not been served obeys all waits.
	const good = `
		0 /a: 200
		0 /b: 200
		0 /c: 200
		0 /bad: 429; Retry-After: 60
		`
	const alone = good + `
		1 /a: 200
		30 /a: 200
		`
	for _, tc := range []struct{ name, scene string }{
		{"the first goes at once, the second after half of the wait", good + `
			1 /a: 200
			1 /a: waits retry-after
			1 /b: waits retry-after
			29.9 /b: waits retry-after
			30 /b: 200
			30 /a: 200
			30 /c: 200
			30 /bad: waits retry-after
			60 /bad: 200`},
		{"a route that has not been served sends none", good + `
			1 /new: waits retry-after
			30 /new: waits retry-after
			60 /new: 200`},
		{"a route whose newest answer is a refusal sends none", `
			0 /a: 200
			0 /bad: 429
			5 /bad: 429
			5 /a: waits backoff
			10 /bad: 429; Retry-After: 60
			11 /bad: waits retry-after`},
		{"a scout that is refused forbids scouts for ten minutes, also in other waits", good + `
			1 /a: 429; Retry-After: 59
			2 /b: waits retry-after
			31 /b: waits retry-after
			60 /b: 200
			61 /a: 200
			300 /bad: 429; Retry-After: 400
			301 /a: waits retry-after
			600.9 /a: waits retry-after
			601 /b: 200
			601 /a: 200
			601 /c: 200`},
		{"the second one is refused", good + `
			1 /a: 200
			30 /b: 429; Retry-After: 30
			31 /c: waits retry-after
			60 /c: 200`},
		{"a second is too short for two", `
			0 /a: 200
			0 /bad: 429; Retry-After: 1
			0.1 /a: 200
			0.5 /a: waits retry-after
			0.9 /a: waits retry-after
			1 /a: 200`},
		{"two seconds are not", `
			0 /a: 200
			0 /bad: 429; Retry-After: 2
			0.1 /a: 200
			0.9 /a: waits retry-after
			1 /a: 200
			1.1 /a: 200`},
		{"scouts of two waits show nothing together", good + `
			1 /a: 200
			60 /bad: 429; Retry-After: 60
			61 /a: 200
			61 /a: waits retry-after
			90 /a: 200
			90 /b: 200`},
		{"later waits need no scouts", alone + `
			60 /bad: 429; Retry-After: 600
			60 /a: 200
			61 /b: 200
			61 /bad: waits retry-after`},
		{"unless another route is refused during one of them", alone + `
			60 /bad: 429; Retry-After: 600
			70 /b: 429; Retry-After: 60
			70 /a: 429; Retry-After: 60
			130 /a: 200
			130 /b: 200
			660 /bad: 429; Retry-After: 60
			661 /a: waits retry-after
			670 /a: 200
			670 /a: waits retry-after`},
		{"which is one of that route alone", alone + `
			60 /bad: 429; Retry-After: 600
			70 /b: 429; Retry-After: 60
			70 /a: 200
			100 /a: 200
			100 /c: 200
			660 /bad: 429; Retry-After: 60
			660 /a: 200
			660 /c: 200`},
		{"a refusal by an exhausted limit undoes nothing", "0 /bad: 200\n" + alone + `
			31 /b: 429; RateLimit: "b";r=0;t=300
			60 /bad: 429; Retry-After: 60
			60 /a: 200`},
		{"a new key with one route", `
			0 /bad: 429; Retry-After: 60
			1 /a: waits retry-after
			60 /a: 200`},
		{"a method", `
			0 /a: 200
			0 POST /a: 429; Retry-After: 60
			1 /a: 200
			30 /a: 200
			30 /a: 200
			30 POST /a: waits retry-after`},
		{"a scout costs no less than the refused request", `
			0 /a: 200
			0 /big/a: 200
			0 /big/bad: 429; Retry-After: 60
			1 /a: waits retry-after
			1 /big/a: 200
			30 /a: waits retry-after
			30 /big/a: 200
			30 /a: 200`},
		{"a scout with too few units", `
			0 /small/a: 200
			0 /big/a: 200
			0 /big/bad: 429; Retry-After: 60
			1 /small/a: waits retry-after
			1 /big/a: 200`},
		{"a scout with another unit", `
			0 /bytes/a: 200
			0 /big/a: 200
			0 /big/bad: 429; Retry-After: 60
			1 /bytes/a: waits retry-after
			1 /big/a: 200`},
		{"a scout with costs for another policy", `
			0 /daily/a: 200
			0 /big/a: 200
			0 /big/bad: 429; Retry-After: 60
			1 /daily/a: waits retry-after
			1 /big/a: 200`},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			playResources(t, &Transport{Cost: func(req *http.Request) []Cost {
				first, _, _ := strings.Cut(req.URL.Path[1:], "/")
				return map[string][]Cost{
					"big":   {{Unit: "tokens", Units: 500}},
					"small": {{Unit: "tokens", Units: 499}},
					"bytes": {{Unit: "content-bytes", Units: 500}},
					"daily": {{Policy: "daily", Unit: "tokens", Units: 500}},
				}[first]
			}}, tc.scene)
		})
	}
}

// The name of a part is the name of its key, a space, and the name of the resource or of the limit, or
// a hash of the route.
func TestScopeNames(t *testing.T) {
	const key = "https://api.example"
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		var waited []string
		rt.Gate.Waiting = func(w Wait) func() { waited = append(waited, w.Key); return nil }
		begin := time.Now()
		states := func() (all []string) {
			for name := range rt.Gate.Keys() {
				w, ok := rt.Gate.State(name)
				require.True(t, ok)
				require.Equal(t, name, w.Key)
				own := strings.TrimPrefix(strings.TrimPrefix(name, key), " ")
				if len(own) == 16 && strings.Trim(own, "0123456789abcdef") == "" {
					own = "a hash"
				}
				if own += " " + string(w.Reason); w.Reason != "" {
					own += fmt.Sprint(" ", w.Until.Sub(begin))
				}
				all = append(all, own)
			}
			slices.Sort(all)
			return all
		}
		playResources(t, rt, `
			0 /a/secret: 200
			0 /b: search r=9;t=60
			0 /c: 200
			0 /d: 200
			0 /bad/secret: 200
			0 /c: RateLimit: "daily";r=0;t=300
			0 /d: X-RateLimit-Limit: 10; X-RateLimit-Remaining: 0; X-RateLimit-Reset: 90
			0 /bad/secret: 429; Retry-After: 60
			1 /new: waits retry-after
			1 /c: waits limit`)
		require.Equal(t, []string{key, key + " daily"}, waited, "the whole key waits, and then a limit")
		require.Equal(t, []string{" limit 5m0s", "a hash limit 1m30s", "daily limit 5m0s", "search retry-after 1m0s"}, states())
		playResources(t, rt, `
			0 /a/secret: 200
			29 /a/secret: 200`)
		require.Equal(t, []string{" limit 5m0s", "a hash limit 1m30s", "a hash retry-after 1m0s", "daily limit 5m0s", "search "}, states(), "scouts have shown that the wait is that of one route")
		for name := range rt.Gate.Keys() {
			if strings.Contains(name, " ") && !strings.HasSuffix(name, "daily") {
				rt.Gate.Forget(name)
			}
		}
		playResources(t, rt, `
			0 /d: 200
			0 /bad/secret: 200
			0 /b: 200
			0 /c: waits limit`)
		require.Equal(t, []string{" limit 5m0s", "daily limit 5m0s"}, states())
		playResources(t, rt, `
			0 /bad/secret: 429; Retry-After: 60
			0 /bad/secret: waits retry-after`)
	})
}

// If a route alone is refused several times without a wait, it backs off alone. Its part then has a name
// of its own, because the whole key does not wait.
func TestScopeNameOfBackoff(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, `
			0 /a: 200
			0 /bad: 429
			20 /a: 200
			30 /bad: 429
			50 /a: 200`)
		require.Len(t, slices.Collect(rt.Gate.Keys()), 1, "the key")
		playResources(t, rt, "10 /bad: 429")
		require.Len(t, slices.Collect(rt.Gate.Keys()), 2, "the key and the part")
	})
}

// Requests that read a path and requests that write to it have parts with different names.
func TestScopeNamesOfMethods(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, `
			0 /a: 200
			0 /b: 200
			0 POST /a: 429; Retry-After: 600
			0 /b: 200
			300 /b: 200
			300 /a: 429; Retry-After: 100
			300 /b: 200
			350 /b: 200`)
		waits := map[string]time.Duration{}
		for name := range rt.Gate.Keys() {
			require.NotContains(t, waits, name)
			w, _ := rt.Gate.State(name)
			waits[name] = max(time.Until(w.Until), 0)
		}
		lengths := slices.Sorted(maps.Values(waits))
		require.Equal(t, []time.Duration{0, 50 * time.Second, 250 * time.Second}, lengths, "of the key, GET, and POST")
	})
}

// A request of the whole key that waits is shown with the key, and with the route that was refused.
func TestScopeQueued(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /a: 200\n0 /bad: 429; Retry-After: 60")
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return answer(req, ""), nil })
		start := time.Now()
		var all sync.WaitGroup
		for _, path := range []string{"/new1", "/new2", "/bad"} {
			all.Go(func() {
				require.NoError(t, get(t, rt, "https://api.example"+path))
				require.Equal(t, time.Minute, time.Since(start))
			})
		}
		time.Sleep(time.Second)
		w, _ := rt.Gate.State("https://api.example")
		require.Equal(t, []any{ReasonRetryAfter, 3, 0}, []any{w.Reason, w.Queued, w.UnderWay})
		pass, until := rt.Gate.TryEnter("https://api.example")
		require.Nil(t, pass)
		require.Equal(t, time.Minute, until.Sub(start))
		all.Wait()
	})
}

// Scouts that wait already go when their time has come, and then all others.
func TestScopeScoutsQueued(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /a: 200\n0 /b: 200\n0 /bad: 429; Retry-After: 60")
		var seen []string
		start := time.Now()
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			seen = append(seen, fmt.Sprint(time.Since(start), " ", req.URL.Path))
			time.Sleep(time.Second)
			return answer(req, ""), nil
		})
		var all sync.WaitGroup
		for _, path := range []string{"/bad", "/new", "/a", "/b"} {
			all.Go(func() { require.NoError(t, get(t, rt, "https://api.example"+path)) })
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		require.Equal(t, []string{"2ms /a", "30s /b", "31s /new", "1m0s /bad"}, seen)
	})
}

// Only one scout is under way at a time, even if the key lets several requests be under way.
func TestScopeScoutsOneByOne(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /a: 200\n0 /b: 200")
		var mu sync.Mutex
		start, sent := time.Now(), map[string]time.Duration{}
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			sent[req.URL.Path] = time.Since(start)
			mu.Unlock()
			if req.URL.Path == "/bad" {
				return answer(req, "HTTP/1.1 429 x\nRetry-After: 60"), nil
			}
			time.Sleep(time.Second)
			return answer(req, ""), nil
		})
		var all sync.WaitGroup
		send := func(path string) {
			all.Go(func() { require.NoError(t, get(t, rt, "https://api.example"+path)) })
			time.Sleep(time.Millisecond)
		}
		for range 9 {
			send("/a")
		}
		send("/bad") // while nine others are under way: half as many may be from now on
		all.Wait()
		send("/a/1")
		send("/b/1")
		all.Wait()
		require.Equal(t, 9*time.Millisecond, sent["/bad"])
		require.Equal(t, 30*time.Second, sent["/b/1"]-sent["/bad"], "the second scout")
		require.Less(t, sent["/a/1"], 2*time.Second)
	})
}

// A request of a new route waits for the limits of other routes, but only until the route is served.
func TestScopeServedMeanwhile(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /a: 200\n0 /b: 200")
		start := time.Now()
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/b" {
				return answer(req, `RateLimit: "b";r=0;t=60`), nil
			}
			time.Sleep(10 * time.Second)
			return answer(req, ""), nil
		})
		var all sync.WaitGroup
		for i, path := range []string{"/new", "/b", "/new", "/new", "/other"} {
			all.Go(func() {
				require.NoError(t, get(t, rt, "https://api.example"+path))
				require.Equal(t, []time.Duration{10, 0, 20, 20, 70}[i]*time.Second, time.Since(start).Truncate(time.Second), i)
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
	})
}

// A path is one route up to its first value.
func TestRoutePath(t *testing.T) {
	long := strings.Repeat("x", maxSegment)
	for path, want := range map[string]string{
		"": "/", "/": "/", "//a": "/", "/a": "/a", "/a/": "/a", "/a//b": "/a", "*": "/",
		"/repos/golang/go/issues/7": "/repos/golang/go/issues",
		"/a/b/c/d/e":                "/a/b/c/d",
		"/v1/users/42/posts":        "/v1/users",
		"/42":                       "/",
		"/v1/2fa/add/feed/cafe":     "/v1/2fa/add/feed",
		"/commits/4fdc74f":          "/commits",
		"/commits/defaced":          "/commits/defaced",
		"/x/4FDC74F0/y":             "/x",
		"/x/4fdc74g0/y":             "/x/4fdc74g0/y",
		"/x/" + long + "/y":         "/x/" + long + "/y",
		"/x/" + long + "x/y":        "/x",
		"/x/123e4567-e89b-12d3-a456-426614174000": "/x",
		"/2010-04-01/Accounts/AC12":               "/2010-04-01/Accounts/AC12",
	} {
		require.Equal(t, want, routePath(path, maxSegments), path)
	}
	for method, writes := range map[string]bool{"": false, "GET": false, "HEAD": false, "OPTIONS": false, "TRACE": false, "POST": true, "PATCH": true, "get": true} {
		req := trial.NewRequest(t, trial.Example)
		req.Method = method
		require.Equal(t, writes, routeOf(req).writes, method)
	}
}

// A client of very many paths uses memory for 256 routes. Paths without room are distinguished
// by their first segments, and then not at all.
func TestScopeManyPaths(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			said := "X-RateLimit-Limit: 100000\nX-RateLimit-Remaining: 50000\nX-RateLimit-Reset: 3600"
			if strings.HasPrefix(req.URL.Path, "/bad") {
				said = "HTTP/1.1 429 x\nRetry-After: 0"
			}
			return answer(req, said), nil
		})}
		for i := range 10_000 {
			path := fmt.Sprint("/p", i%40, "/q", i)
			if i%7 == 0 {
				path = fmt.Sprint("/r", i, strings.Repeat("/long", 100))
			}
			require.NoError(t, get(t, rt, "https://api.example"+path))
		}
		k, _ := rt.Gate.find("https://api.example")
		require.Len(t, k.scope.routes, maxRoutes+1)
		require.Len(t, k.scope.parts, 1, "all announce one limit")
		whole := 0
		for name := range k.scope.routes {
			whole += strings.Count(name.path, "/")
		}
		require.Less(t, whole, 4*maxRoutes)
		require.NotNil(t, k.scope.routes[routeName{path: "/p3"}], "a first segment")
	})
}
