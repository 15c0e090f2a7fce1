package ratelimittest_test

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// kinds are all kinds of limiters.
var kinds = []struct {
	name string
	kind ratelimittest.Kind
}{
	{"fixed window", ratelimittest.FixedWindow},
	{"window from first", ratelimittest.WindowFromFirst},
	{"sliding log", ratelimittest.SlidingLog},
	{"sliding counter", ratelimittest.SlidingCounter},
	{"token bucket", ratelimittest.TokenBucket},
	{"concurrency", ratelimittest.Concurrency},
}

// one returns a list with a limit.
func one(name string, quota, window int64, kind ratelimittest.Kind) []ratelimittest.Limit {
	p := ratelimit.Policy{Name: name, Quota: quota}
	if kind != ratelimittest.Concurrency {
		p.Window = ratelimit.SecondsOf(window)
	}
	return []ratelimittest.Limit{{Policy: p, Kind: kind}}
}

// dialects returns the dialects with these names, separated by spaces.
func dialects(t testing.TB, names string) (list []*ratelimit.Dialect) {
	t.Helper()
	for _, name := range strings.Fields(names) {
		d, ok := ratelimit.LookupDialect(name)
		require.True(t, ok, name)
		list = append(list, d)
	}
	return list
}

// A crowd are clients of one API.
type crowd struct {
	workers int
	think   time.Duration // at most, between an answer and the next request
	travel  time.Duration // at most, each way
	obeys   bool          // they wait as long as refusals ask
}

// drive sends n requests in virtual time, and returns the findings above a note.
func (c *crowd) drive(api *ratelimittest.API, rnd *rand.Rand, n int) (faults []string, refused int) {
	var mu sync.Mutex
	s := &ratelimittest.Sequence{Alone: true}
	upTo := func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rnd.Int64N(int64(most) + 1))
	}
	base := api.RoundTripper()
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for {
				time.Sleep(upTo(c.think))
				sent := time.Now()
				time.Sleep(upTo(c.travel))
				req, _ := http.NewRequest(http.MethodPost, "http://api.example/", strings.NewReader("eight by"))
				resp, err := base.RoundTrip(req)
				if err != nil {
					panic(err)
				}
				time.Sleep(upTo(c.travel))
				received := time.Now()
				mu.Lock()
				if n--; n < 0 {
					mu.Unlock()
					return
				}
				for _, f := range s.Add(resp, sent, received) {
					if f.Level > ratelimittest.LevelNote {
						faults = append(faults, fmt.Sprintf("%v in %d %v", f, resp.StatusCode, resp.Header))
					}
				}
				mu.Unlock()
				advice := ratelimit.Advise(resp, received)
				if advice.Refused {
					mu.Lock()
					refused++
					mu.Unlock()
					if c.obeys {
						time.Sleep(advice.Wait)
					}
				}
			}
		})
	}
	workers.Wait()
	return faults, refused
}

// seeded returns a source of random numbers for a test.
func seeded(t *testing.T) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, t.Name())
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// honestForms are the forms of TestKindsAreHonest. "" is the current form.
var honestForms = []string{"", "draft-06", "x-ratelimit", "x-ratelimit-unix", "github", "openai", "anthropic", "draft-07"}

// Every kind of limiter is honest: 10,000 requests, in runs with other quotas, windows, forms and
// clients.
func TestKindsAreHonest(t *testing.T) {
	t.Parallel()
	const runs, requests = 20, 500
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rnd, refusals := seeded(t), 0
			for run := range runs {
				form := honestForms[run%len(honestForms)]
				if k.kind == ratelimittest.Concurrency && form == "draft-07" {
					form = "" // draft-07 needs a reset
				}
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Duration(rnd.Int64N(int64(time.Hour))))
					api := &ratelimittest.API{
						Limits: one("requests", 1+rnd.Int64N(60), 1+rnd.Int64N(60), k.kind), Dialects: dialects(t, form),
						Skew: time.Duration(rnd.Int64N(int64(time.Minute))), Latency: time.Duration(rnd.Int64N(int64(time.Second))),
					}
					if k.kind == ratelimittest.TokenBucket && run%2 == 0 {
						api.Limits[0].Burst = 1 + rnd.Int64N(100)
					}
					if k.kind == ratelimittest.Concurrency {
						api.Limits[0].Policy.Quota = 1 + rnd.Int64N(3)
					}
					c := &crowd{
						workers: 1 + run%2*rnd.IntN(6), obeys: run%3 > 0,
						think: time.Duration(rnd.Int64N(int64(time.Second))), travel: time.Duration(rnd.Int64N(int64(300 * time.Millisecond))),
					}
					faults, refused := c.drive(api, rnd, requests)
					require.Empty(t, faults, "run %d: %s, %+v, %+v", run, form, api.Limits, *c)
					refusals += refused
				})
			}
			require.Greater(t, refusals, 100)
		})
	}
}

// A limiter serves its quota, and then what comes back. A number is how many requests are served of
// 20 that come at that time, in seconds.
func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kind   ratelimittest.Kind
		burst  int64
		at     []float64
		served []int
	}{
		{"fixed window: by the clock", ratelimittest.FixedWindow, 0, []float64{57, 59.9, 60, 119, 120}, []int{6, 0, 6, 0, 6}},
		{"fixed window: no burst", ratelimittest.FixedWindow, 9, []float64{57, 60}, []int{6, 6}},
		{"window from first: a window after the first request", ratelimittest.WindowFromFirst, 0, []float64{57, 116.9, 117, 200, 230}, []int{6, 0, 6, 6, 0}},
		{"sliding log: a window after each", ratelimittest.SlidingLog, 0, []float64{57, 116.9, 117, 120}, []int{6, 0, 6, 0}},
		{"sliding counter: a part of the window before", ratelimittest.SlidingCounter, 0, []float64{57, 60, 70, 80, 120, 180}, []int{6, 0, 1, 1, 4, 2}},
		{"sliding counter: nothing of two windows ago", ratelimittest.SlidingCounter, 0, []float64{57, 120}, []int{6, 6}},
		{"token bucket: one by one", ratelimittest.TokenBucket, 0, []float64{57, 66.9, 67, 87, 400}, []int{6, 0, 1, 2, 6}},
		{"token bucket: a burst", ratelimittest.TokenBucket, 9, []float64{57, 67, 400}, []int{9, 1, 9}},
		{"concurrency: when they are answered", ratelimittest.Concurrency, 0, []float64{57, 57.5, 58.1}, []int{6, 0, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &ratelimittest.API{Limits: one("a", 6, 60, tc.kind), Latency: time.Second}
				api.Limits[0].Burst = tc.burst
				start := time.Now().Truncate(time.Minute)
				var got []int
				for _, at := range tc.at {
					time.Sleep(time.Until(start.Add(time.Duration(at * float64(time.Second)))))
					before := api.Counts().Served
					for range 20 {
						go get(t, api, "/")
					}
					synctest.Wait()
					got = append(got, int(api.Counts().Served-before))
				}
				require.Equal(t, tc.served, got)
				time.Sleep(2 * time.Second)
				require.EqualValues(t, 20*len(tc.at), api.Counts().Served+api.Counts().Refused)
			})
		})
	}
}

// get sends a request in memory.
func get(t testing.TB, api *ratelimittest.API, path string, fields ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://api.example"+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := api.RoundTripper().RoundTrip(req)
	require.NoError(t, err)
	return resp
}

// A client that waits as long as a refusal asks is served: never too early, and in every form.
func TestRefusalsEndInTime(t *testing.T) {
	for _, k := range kinds[:len(kinds)-1] {
		for _, form := range []string{"", "draft-06", "x-ratelimit-unix", "anthropic", "openai"} {
			for _, bare := range []bool{false, true} {
				t.Run(fmt.Sprint(k.name, " ", form, " bare ", bare), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						rnd := seeded(t)
						api := &ratelimittest.API{Limits: one("requests", 3, 7, k.kind), Dialects: dialects(t, form), Bare: bare}
						waits := 0
						for range 300 {
							time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
							if resp := get(t, api, "/"); resp.StatusCode == http.StatusTooManyRequests {
								wait := ratelimit.Advise(resp, time.Now()).Wait
								require.Positive(t, wait)
								time.Sleep(wait)
								waits++
								require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
							}
						}
						require.Greater(t, waits, 20)
						require.Zero(t, api.Counts().Early)
					})
				})
			}
		}
	}
}

// Requests under a load of other units are refused for the limit that they exceed, and served when
// enough has come back.
func TestCosts(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &ratelimittest.API{
					Limits: append(one("requests", 1000, 60, ratelimittest.FixedWindow), one("tokens", 100, 60, k.kind)...),
					Cost: func(r *http.Request) map[ratelimit.Unit]int64 {
						return map[ratelimit.Unit]int64{"tokens": r.ContentLength, "other": 5}
					},
					Latency: time.Millisecond,
				}
				api.Limits[1].Policy.Unit = "tokens"
				if k.kind != ratelimittest.TokenBucket {
					api.Limits[1].Burst = 200 // means nothing
				}
				post := func(tokens int) *http.Response {
					req, err := http.NewRequest(http.MethodPost, "http://api.example/", strings.NewReader(strings.Repeat("x", tokens)))
					require.NoError(t, err)
					resp, err := api.RoundTripper().RoundTrip(req)
					require.NoError(t, err)
					return resp
				}
				if k.kind == ratelimittest.Concurrency {
					go post(70)
					synctest.Wait()
				} else {
					require.Equal(t, http.StatusOK, post(70).StatusCode)
				}
				resp := post(40)
				require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
				problem, err := ratelimit.ReadProblem(resp)
				require.NoError(t, err)
				require.Equal(t, []string{"tokens"}, problem.ViolatedPolicies)
				wait, asked := ratelimit.ParseRetryAfter(resp.Header, time.Now())
				require.Equal(t, k.kind != ratelimittest.Concurrency, asked)
				time.Sleep(wait + api.Latency)
				require.Equal(t, http.StatusOK, post(40).StatusCode)
				require.Equal(t, http.StatusOK, post(0).StatusCode)

				never := post(101) // more than the whole quota
				require.Equal(t, http.StatusTooManyRequests, never.StatusCode)
				_, asked = ratelimit.ParseRetryAfter(never.Header, time.Now())
				require.False(t, asked)
			})
		})
	}
}

// A log is bounded, and still exact to a 4096th of the window.
func TestLongLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 50_000
		api := &ratelimittest.API{Limits: one("a", quota, 60, ratelimittest.SlidingLog)}
		for range quota {
			require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, http.StatusTooManyRequests, get(t, api, "/").StatusCode)
		time.Sleep(10*time.Second + 60*time.Second/4096)
		require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
	})
}
