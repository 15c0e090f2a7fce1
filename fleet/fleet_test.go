package fleet

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// window returns a server that allows each credential a number of requests in each window. A window
// begins with the first request after the last one.
func window(quota int64, length, takes time.Duration) *ratelimittest.API {
	p := ratelimit.Policy{Name: "default", Quota: quota, Window: ratelimit.CeilSeconds(length)}
	return &ratelimittest.API{
		Limits: []ratelimittest.Limit{{Policy: p, Kind: ratelimittest.WindowFromFirst}}, Latency: takes, Bare: true,
		Key: func(r *http.Request) string { return r.Header.Get("Authorization") },
	}
}

// fiftyIn5s is the server that README.md measures.
func fiftyIn5s() *ratelimittest.API { return window(50, 5*time.Second, 50*time.Millisecond) }

// countsOf returns how many requests were served and refused.
func countsOf(s *ratelimittest.API) (served, refused int) {
	c := s.Counts()
	return int(c.Served), int(c.Refused)
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// Three processes with eight workers each share 50 requests in 5 s. The ideal for 300
// requests is 25 s.
func TestFleetShares(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		requests []int
		set      func(*ratelimittest.API, []job)
		took     time.Duration // at most; each unused window costs 5 s, which a busy machine may cause
		refused  int           // at most
	}{
		{name: "evenly", requests: []int{100, 100, 100}, took: 36 * time.Second, refused: 2},
		{name: "skewed", requests: []int{260, 20, 20}, took: 36 * time.Second, refused: 2},
		{
			name: "two credentials", requests: []int{200, 200, 200}, took: 36 * time.Second, refused: 4,
			set: func(_ *ratelimittest.API, jobs []job) {
				for i := range jobs {
					jobs[i].Credential = []string{"Bearer one", "Bearer two"}
				}
			},
		},
		{
			name: "clocks 60 s apart, points in time", requests: []int{100, 100, 100}, took: 36 * time.Second, refused: 2,
			set: func(s *ratelimittest.API, jobs []job) {
				s.Dialects = []*ratelimit.Dialect{ratelimit.XRateLimitUnix}
				jobs[0].Ahead, jobs[2].Ahead = -60*time.Second, 60*time.Second
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), fiftyIn5s()
			jobs := make([]job, len(tc.requests))
			for i, n := range tc.requests {
				jobs[i] = job{Redis: redis.addr, Workers: 8, Requests: n}
			}
			if tc.set != nil {
				tc.set(s, jobs)
			}
			url, total := serve(t, s), 0
			began := time.Now()
			var all []*process
			for i := range jobs {
				jobs[i].URL = url
				total += jobs[i].Requests
				all = append(all, jobs[i].start(t))
			}
			got := tallies(t, all...)
			took := time.Since(began)
			t.Logf("%.1f s, %d refused", took.Seconds(), got.Refused)
			require.Equal(t, tally{Served: total, Refused: got.Refused}, got)
			require.LessOrEqual(t, got.Refused, tc.refused)
			require.LessOrEqual(t, took, tc.took)
			requireExpiry(t, redis)
		})
	}
}

// requireExpiry requires that everything in a store expires, and that no hashed value is
// stored in plain text.
func requireExpiry(t *testing.T, s *store) {
	t.Helper()
	keys := s.keys(t)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.Regexp(t, `^ratelimit:2:\{[0-9a-f]{64}\}(:leases|:processes)?$`, key)
		left, err := s.rdb.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.Positive(t, left, key)
		require.LessOrEqual(t, left, recordTime)
	}
}

// fleetOf starts processes with eight workers each.
func fleetOf(t *testing.T, n int, j job) (all []*process) {
	t.Helper()
	for range n {
		all = append(all, j.start(t))
	}
	return all
}

// A process is killed while it has requests in flight.
func TestFleetKill(t *testing.T) {
	t.Parallel()
	redis, s := startStore(t), fiftyIn5s()
	s.Latency = 200 * time.Millisecond
	all := fleetOf(t, 3, job{Redis: redis.addr, URL: serve(t, s), Workers: 8, Requests: 100})
	require.Eventually(t, func() bool { served, _ := countsOf(s); return served >= 60 }, time.Minute, time.Millisecond)
	require.NoError(t, all[0].cmd.Process.Kill())
	got := tallies(t, all[1:]...)
	require.Equal(t, []int{200, 0}, []int{got.Served, got.Failed})
	_, refused := countsOf(s)
	t.Logf("%d refused", refused)
	require.LessOrEqual(t, refused, 2)
	require.Eventually(t, func() bool { return redis.underWay(t) == 0 }, 2*leaseTime, 50*time.Millisecond)
}

// A process that starts in the middle of a wait does not send its first ten requests.
func TestFleetJoin(t *testing.T) {
	t.Parallel()
	redis, s := startStore(t), fiftyIn5s()
	url := serve(t, s)
	first := job{Redis: redis.addr, URL: url, Workers: 8, Requests: 80}.start(t)
	require.Eventually(t, func() bool { served, _ := countsOf(s); return served == 50 }, time.Minute, time.Millisecond)
	time.Sleep(time.Second)
	second := job{Redis: redis.addr, URL: url, Workers: 20, Requests: 30}.start(t)
	require.Equal(t, tally{Served: 110}, tallies(t, first, second))
}

// Redis is unavailable for 8 s. Each process continues with its share. The test does not run next
// to the others, because on a busy machine the processes do not use each window.
func TestFleetStoreIsAway(t *testing.T) {
	for _, tc := range []struct {
		name   string
		served int // requests served when Redis becomes unavailable
		after  time.Duration
		leave  func(*testing.T, *store)
		back   func(*testing.T, *store)
	}{
		{"killed in a burst, back without data", 120, 0, kill, func(t *testing.T, s *store) { s.start(t) }},
		{"killed in a wait, back without data", 100, 500 * time.Millisecond, kill, func(t *testing.T, s *store) { s.start(t) }},
		{"stopped in a burst, back with old data", 120, 0, signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), fiftyIn5s()
			began := time.Now()
			all := fleetOf(t, 3, job{Redis: redis.addr, URL: serve(t, s), Workers: 8, Requests: 100, Timeout: 250 * time.Millisecond})
			require.Eventually(t, func() bool { served, _ := countsOf(s); return served >= tc.served }, time.Minute, time.Millisecond)
			time.Sleep(tc.after)
			tc.leave(t, redis)
			time.Sleep(8 * time.Second)
			tc.back(t, redis)
			got := tallies(t, all...)
			t.Logf("%.1f s, %d refused", time.Since(began).Seconds(), got.Refused)
			require.Equal(t, []int{300, 0}, []int{got.Served, got.Failed})
			require.LessOrEqual(t, got.Refused, 15)
			require.LessOrEqual(t, time.Since(began), 36*time.Second)
		})
	}
}

func kill(t *testing.T, s *store) {
	require.NoError(t, s.cmd.Process.Kill())
}

func signal(sig syscall.Signal) func(*testing.T, *store) {
	return func(t *testing.T, s *store) { require.NoError(t, s.cmd.Process.Signal(sig)) }
}

// Without Redis each process has only its Transport.
func TestFleetWithoutStore(t *testing.T) {
	t.Parallel()
	s := fiftyIn5s()
	began := time.Now()
	got := tallies(t, fleetOf(t, 3, job{Redis: freeAddress(t), URL: serve(t, s), Workers: 8, Requests: 50})...)
	t.Logf("%.1f s, %d refused", time.Since(began).Seconds(), got.Refused)
	require.Equal(t, []int{150, 0}, []int{got.Served, got.Failed})
	require.LessOrEqual(t, got.Refused, 150)
}

// A stopped process delays the other processes only until its leases end.
func TestFleetStop(t *testing.T) {
	t.Parallel()
	redis, s := startStore(t), fiftyIn5s()
	s.Latency = 200 * time.Millisecond
	all := fleetOf(t, 3, job{Redis: redis.addr, URL: serve(t, s), Workers: 8, Requests: 100})
	require.Eventually(t, func() bool { served, _ := countsOf(s); return served >= 60 }, time.Minute, time.Millisecond)
	require.NoError(t, all[0].cmd.Process.Signal(syscall.SIGSTOP))
	got := tallies(t, all[1:]...)
	require.NoError(t, all[0].cmd.Process.Signal(syscall.SIGCONT))
	last := all[0].tally(t)
	require.Equal(t, []int{300, 0}, []int{got.Served + last.Served, got.Failed + last.Failed})
	t.Logf("%d refused", got.Refused+last.Refused)
	require.LessOrEqual(t, got.Refused+last.Refused, 2)
}

// A request stays in flight even if its response takes longer than a lease.
func TestFleetLongAnswers(t *testing.T) {
	t.Parallel()
	redis := startStore(t)
	s := window(20, time.Minute, 30*time.Second)
	all := fleetOf(t, 2, job{Redis: redis.addr, URL: serve(t, s), Workers: 5, Requests: 5})
	require.Eventually(t, func() bool { return redis.underWay(t) == 10 }, time.Minute, 10*time.Millisecond)
	for range 25 {
		time.Sleep(time.Second)
		require.EqualValues(t, 10, redis.underWay(t))
	}
	require.Equal(t, tally{Served: 10}, tallies(t, all...))
	require.Zero(t, redis.underWay(t))
}

// If Redis has lost the scripts, they are sent again.
func TestFleetScriptsFlushed(t *testing.T) {
	t.Parallel()
	redis, s := startStore(t), fiftyIn5s()
	all := fleetOf(t, 2, job{Redis: redis.addr, URL: serve(t, s), Workers: 8, Requests: 60})
	var stopped atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !stopped.Load() {
			_ = redis.rdb.ScriptFlush(t.Context()).Err()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	got := tallies(t, all...)
	stopped.Store(true)
	<-done
	require.Equal(t, []int{120, 0}, []int{got.Served, got.Failed})
	require.LessOrEqual(t, got.Refused, 2)
}

// meter returns a server of language models: of 60 requests and 50,000 tokens in 5 s, in buckets.
// Each request takes 1000 tokens.
func meter(t *testing.T, vendor string) *ratelimittest.API {
	t.Helper()
	s, err := ratelimittest.Like(vendor)
	require.NoError(t, err)
	s.Limits, s.Bare = s.Limits[:2], true // requests and tokens
	for i, quota := range []int64{60, 50_000} {
		s.Limits[i].Policy.Quota, s.Limits[i].Policy.Window = quota, ratelimit.SecondsOf(5)
	}
	s.Cost = func(*http.Request) map[ratelimit.Unit]int64 { return map[ratelimit.Unit]int64{"tokens": 1000} }
	return s
}

// Requests cost tokens, which are restored continuously. The test does not run next to the
// others, because an answer that is late on a busy machine costs a refusal.
func TestFleetTokens(t *testing.T) {
	for _, vendor := range []string{"openai", "anthropic"} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), meter(t, vendor)
			j := job{Redis: redis.addr, URL: serve(t, s), Workers: 8, Requests: 60, Tokens: 1000}
			began := time.Now()
			got := tallies(t, fleetOf(t, 3, j)...) // 50 at once and then 10 a second: the ideal is 13 s
			t.Logf("%.1f s, %d refused", time.Since(began).Seconds(), got.Refused)
			require.Equal(t, []int{180, 0}, []int{got.Served, got.Failed})
			require.LessOrEqual(t, got.Refused, 2)
			require.LessOrEqual(t, time.Since(began), 30*time.Second)
		})
	}
}

// KeyBy returns the same key in every process. The key does not contain the credential.
func TestFleetKeysAreEqual(t *testing.T) {
	redis, s := startStore(t), window(50, time.Minute, 0)
	j := job{Redis: redis.addr, URL: serve(t, s), Workers: 1, Requests: 1, Credential: []string{"Bearer s3cret"}}
	require.Equal(t, tally{Served: 1}, j.start(t).tally(t))
	keys := redis.keys(t)
	require.Equal(t, tally{Served: 1}, j.start(t).tally(t))
	require.ElementsMatch(t, keys, redis.keys(t)[:len(keys)])
	for _, key := range redis.keys(t) {
		require.NotContains(t, key, "s3cret")
		require.NotContains(t, key, "127.0.0.1")
	}
}
