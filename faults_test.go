package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What once went wrong for fast clients, each with the figure that was measured then
// and the most that it may be now.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		measure func(t *testing.T) float64
		before  float64
		want    float64
	}{
		{"a slow request after a window with 99 of 100 left: failed of 200", func(t *testing.T) float64 {
			failed, _ := afterSlowProbe(t, `RateLimit: "a";r=99;t=1`)
			return failed
		}, 200, 0},
		{"a slow request after a window with 99 of 100 left: seconds", func(t *testing.T) float64 {
			_, took := afterSlowProbe(t, `RateLimit: "a";r=99;t=1`)
			return took
		}, 60, 1.1},
		{"a slow probe: failed of 200", func(t *testing.T) float64 {
			failed, _ := afterSlowProbe(t, `RateLimit: "a";r=0;t=1`)
			return failed
		}, 200, 0},
		{"a slow probe: seconds", func(t *testing.T) float64 {
			_, took := afterSlowProbe(t, `RateLimit: "a";r=0;t=1`)
			return took
		}, 60, 1.2},
		{"a probe that hangs: seconds", func(t *testing.T) float64 {
			return waitedFor(t, times(0, 1000, 1001), `RateLimit: "a";r=0;t=1`, "hang", `RateLimit: "a";r=99;t=1`)
		}, 600, 1},
		{"the probe of an earlier window hangs: seconds", func(t *testing.T) float64 {
			return waitedFor(t, times(0, 1000, 1001, 3100), `RateLimit: "a";r=0;t=1`, "hang", `RateLimit: "a";r=99;t=1`)
		}, 594, 0},
		{"nothing is known, all fail after 0.9 s: seconds", func(t *testing.T) float64 {
			return untilFailed(t, 900*time.Millisecond, "fail")
		}, 45, 1.8},
		{"the server went down, all fail after 30 s: seconds", func(t *testing.T) float64 {
			return untilFailed(t, 30*time.Second, `RateLimit: "a";r=0;t=1`, "fail")
		}, 1500, 36},
		{"bursts of 20 every 1.5 s, a window of 1 s, answers after 300 ms: mean ms", meanOfBursts, 585, 307},
		{"429 alone: refused in a second", refusedBy("HTTP/1.1 429 Too Many Requests\n"), 1981, 15},
		{"Retry-After: 0: refused in a second", refusedBy("HTTP/1.1 429 Too Many Requests\nRetry-After: 0\n"), 1981, 15},
		{"r=50 beside a 429: refused in a second", refusedBy("HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=50;t=10`), 1981, 15},
		{"r=0;t=0: refused in a second", refusedBy("HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=0;t=0`), 199, 15},
		{"nothing remains, nobody says for how long: refused in a second",
			refusedBy("HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=0`), 199, 15},
		{"a wait begins: woken of 10,000", wokenByWait, 10_000, 1},
		{"tries that time out earlier than a wait ends, repeated at WaitError.Until: failed of 10", failedOfRetries, 9, 0},
		{"the last second of a Unix reset: refused of 300, mean of 20", refusedInLastSecond, 65.6, 7.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Less(t, tc.want, tc.before)
			got := tc.measure(t)
			t.Log(got)
			require.LessOrEqual(t, got, tc.want)
		})
	}
}

// A pointing server answers by the number of a request, from 1.
type pointing func(number int) (after time.Duration, lines string)

// server returns an http.RoundTripper. Lines of "fail" are no answer.
func (p pointing) server() http.RoundTripper {
	var mu sync.Mutex
	number := 0
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		number++
		after, lines := p(number)
		mu.Unlock()
		select {
		case <-time.After(after):
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
		if lines == "fail" {
			return nil, errors.New("no connection")
		}
		return answer(req, lines), nil
	})
}

// afterSlowProbe sends a request, when its window has ended one that takes a minute,
// and then 200 of 50 ms with deadlines of 30 s. It returns how many of these fail, and
// how many seconds they take.
func afterSlowProbe(t *testing.T, begin string) (failed, took float64) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Base: pointing(func(number int) (time.Duration, string) {
			switch number {
			case 1:
				return 0, "RateLimit-Policy: \"a\";q=100;w=1\n" + begin
			case 2:
				return time.Minute, `RateLimit: "a";r=99;t=1`
			}
			return 50 * time.Millisecond, `RateLimit: "a";r=99;t=1`
		}).server()}
		require.NoError(t, get(t, rt, example))
		time.Sleep(time.Second)
		go func() { _ = get(t, rt, example) }()
		synctest.Wait()
		start := time.Now()
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
				}
			})
		}
		all.Wait()
		took = time.Since(start).Seconds()
	})
	return failed, took
}

// waitedFor sends requests at those times, and returns how many seconds the last one
// waits.
func waitedFor(t *testing.T, begins []time.Duration, lines ...string) (waited float64) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(lines...)
		rt := &Transport{Base: s}
		for _, begin := range begins {
			time.Sleep(begin - time.Since(s.start))
			go func() { _ = get(t, rt, example) }()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		last := len(begins) - 1
		waited = (s.seen[last] - begins[last]).Seconds()
	})
	return waited
}

// untilFailed sends 50 requests at once, after one for each of the lines before the
// last, and returns after how many seconds all have failed.
func untilFailed(t *testing.T, after time.Duration, lines ...string) (took float64) {
	synctest.Test(t, func(t *testing.T) {
		known := len(lines) - 1
		rt := &Transport{Base: pointing(func(number int) (time.Duration, string) {
			if number <= known {
				return 0, lines[number-1]
			}
			return after, lines[known]
		}).server()}
		for range known {
			require.NoError(t, get(t, rt, example))
		}
		time.Sleep(time.Second)
		start := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { require.Error(t, get(t, rt, example)) })
		}
		all.Wait()
		took = time.Since(start).Seconds()
	})
	return took
}

// meanOfBursts returns how many milliseconds a request takes on average.
func meanOfBursts(t *testing.T) (mean float64) {
	const bursts, size = 25, 20
	synctest.Test(t, func(t *testing.T) {
		left := 0
		rt := &Transport{Base: pointing(func(number int) (time.Duration, string) {
			left = 1000 - (number-1)%size - 1
			return 300 * time.Millisecond, `RateLimit: "a";r=` + strconv.Itoa(left) + `;t=1`
		}).server()}
		var mu sync.Mutex
		var total time.Duration
		var all sync.WaitGroup
		for range bursts {
			for range size {
				all.Go(func() {
					start := time.Now()
					require.NoError(t, get(t, rt, example))
					mu.Lock()
					total += time.Since(start)
					mu.Unlock()
				})
			}
			time.Sleep(1500 * time.Millisecond)
		}
		all.Wait()
		mean = float64(total.Milliseconds()) / (bursts * size)
	})
	return mean
}

// refusedBy returns how often ten workers are refused within a second, who try again
// at once: the mean of many times, to the nearest whole number, as the waits are
// random.
func refusedBy(lines string) func(t *testing.T) float64 {
	return func(t *testing.T) float64 {
		const times = 200
		refused := 0
		for range times {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				rt := &Transport{Base: pointing(func(int) (time.Duration, string) {
					return 5 * time.Millisecond, lines
				}).server()}
				var mu sync.Mutex
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						for {
							if _, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx)); err != nil {
								return
							}
							mu.Lock()
							refused++
							mu.Unlock()
						}
					})
				}
				all.Wait()
			})
		}
		return float64((refused + times/2) / times)
	}
}

// wokenByWait returns how many of those in the queue a wait that begins wakes.
func wokenByWait(t *testing.T) (woken float64) {
	g := new(Gate)
	pass, err := g.Enter(t.Context(), "key")
	require.NoError(t, err)
	e := g.keys[keyName{rest: "key"}]
	for range 10_000 {
		e.enqueue(&Pass{gate: g}, time.Time{})
	}
	pass.Answered(Advice{Wait: time.Minute, Source: SourceRetryAfter}, time.Now())
	for w := e.queue.first; w != nil; w = w.next {
		if w.decided {
			woken++
		}
	}
	return woken
}

// failedOfRetries has ten workers try three times each, with a second for each try,
// while nothing remains for ten. It returns how many fail.
func failedOfRetries(t *testing.T) (failed float64) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Base: newScript(`RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=100;t=10`)}
		require.NoError(t, get(t, rt, example))
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
					cancel()
					if err == nil {
						return
					}
					if wait := (*WaitError)(nil); errors.As(err, &wait) {
						time.Sleep(time.Until(wait.Until))
					}
				}
				mu.Lock()
				failed++
				mu.Unlock()
			})
		}
		all.Wait()
	})
	return failed
}

// refusedInLastSecond has 20 workers do 300 jobs at their pace, by a server with 50
// requests per 10 s, whose windows end between two seconds, and whose resets are
// Unix times: in the last part of a window the reset is 0. It returns how often they
// are refused.
func refusedInLastSecond(t *testing.T) (refused float64) {
	const times = 20 // the waits after refusals are random
	for range times {
		synctest.Test(t, func(t *testing.T) {
			const part = 400 * time.Millisecond
			time.Sleep(time.Until(epoch))
			var begin time.Time
			used := 0
			rt := &Transport{Gate: &Gate{Pace: true}, Base: pointing(func(int) (time.Duration, string) {
				now := time.Now()
				if window := now.Add(-part).Truncate(10 * time.Second).Add(part); !window.Equal(begin) {
					begin, used = window, 0
				}
				lines := ""
				if used == 50 {
					refused++
					lines = "HTTP/1.1 429 Too Many Requests\n"
				} else {
					used++
				}
				end := begin.Add(10 * time.Second)
				return 75 * time.Millisecond, lines + "X-RateLimit-Limit: 50\nX-RateLimit-Remaining: " + strconv.Itoa(50-used) +
					"\nX-RateLimit-Reset: " + strconv.FormatInt(end.Unix(), 10) +
					"\nDate: " + now.UTC().Format(http.TimeFormat)
			}).server()}
			jobs := make(chan struct{}, 300)
			for range cap(jobs) {
				jobs <- struct{}{}
			}
			close(jobs)
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range jobs {
						for {
							resp, err := rt.RoundTrip(newRequest(t, example))
							require.NoError(t, err)
							if resp.StatusCode == http.StatusOK {
								break
							}
						}
					}
				})
			}
			all.Wait()
		})
	}
	return refused / times
}
