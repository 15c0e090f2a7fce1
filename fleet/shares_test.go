package fleet

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A bucket is a server that limits tokens: quota at most, of which rate come back each second.
type bucket struct {
	quota, rate float64

	mu      sync.Mutex
	at      time.Time
	left    float64
	served  map[string][]time.Time // by the name of the process
	refused int
}

func (s *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(20 * time.Millisecond)
	tokens, err := strconv.ParseFloat(r.Header.Get("X-Tokens"), 64)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, status := time.Now(), http.StatusOK
	if s.at.IsZero() {
		s.left, s.served = s.quota, make(map[string][]time.Time)
	} else {
		s.left = min(s.quota, s.left+s.rate*now.Sub(s.at).Seconds())
	}
	s.at = now
	if name := r.Header.Get("X-Process"); s.left < tokens {
		status = http.StatusTooManyRequests
		s.refused++
	} else {
		s.left -= tokens
		s.served[name] = append(s.served[name], now)
	}
	w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"t";q=%.0f;qu="tokens";w=%.0f`, s.quota, s.quota/s.rate))
	w.Header().Set("RateLimit", fmt.Sprintf(`"t";r=%d;t=%.0f`, int(s.left), math.Ceil((s.quota-s.left)/s.rate)))
	w.WriteHeader(status)
}

// between returns how many requests of each process were served in a span of time, and the longest
// time without one.
func (s *bucket) between(from, to time.Time, name string) (n int, gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := from
	for _, at := range s.served[name] {
		if at.After(from) && at.Before(to) {
			n, gap, last = n+1, max(gap, at.Sub(last)), at
		}
	}
	return n, max(gap, to.Sub(last))
}

// forever is a number of requests that no process sends in a test.
const forever = 1 << 30

// Processes that always have work get equal shares of a limit.
func TestFleetEqualShares(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), &bucket{quota: 5000, rate: 1000}
			j := job{Redis: redis.addr, URL: serve(t, s), Workers: 4, Requests: forever, Tokens: 200}
			for i := range n {
				j.Name = fmt.Sprint(i)
				j.start(t)
			}
			time.Sleep(5 * time.Second) // the full bucket is used up
			from := time.Now()
			time.Sleep(20 * time.Second)
			got := make(map[string]int)
			for i := range n {
				got[fmt.Sprint(i)], _ = s.between(from, time.Now(), fmt.Sprint(i))
			}
			t.Log(got, "refused", s.refused)
			counts := slices.Sorted(maps.Values(got))
			require.GreaterOrEqual(t, counts[0]*100, counts[n-1]*60)
			require.Zero(t, s.refused)
		})
	}
}

// A large request is sent although a process with small requests uses all that comes back. The
// requests behind it in its process do not wait longer than others.
func TestFleetLargeRequest(t *testing.T) {
	t.Parallel()
	for _, tokens := range []int64{400, 1000, 4000} {
		t.Run(fmt.Sprint(tokens), func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), &bucket{quota: 20000, rate: 1000}
			small := job{Name: "small", Redis: redis.addr, URL: serve(t, s), Workers: 4, Requests: forever, Tokens: 200}
			large := small
			large.Name, large.First = "large", tokens
			small.start(t)
			time.Sleep(6 * time.Second) // the full bucket is used up
			began := time.Now()
			large.start(t)
			until(t, func() bool { n, _ := s.between(began, time.Now(), "large"); return n > 0 })
			took := time.Since(began)
			time.Sleep(10 * time.Second)
			of, gap := s.between(began.Add(took), time.Now(), "large")
			others, _ := s.between(began.Add(took), time.Now(), "small")
			t.Logf("after %.1f s; then %d served, %d of the other process, longest gap %.1f s; %d refused", took.Seconds(), of, others, gap.Seconds(), s.refused)
			require.LessOrEqual(t, took, 5*time.Second)
			require.GreaterOrEqual(t, of*100, others*60)
			require.Zero(t, s.refused)
		})
	}
}

// The claim of a process that is killed ends. Its request needs all of the limit, which no other
// process lets it have until then.
func TestFleetKillClaim(t *testing.T) {
	t.Parallel()
	redis, s := startStore(t), &bucket{quota: 20000, rate: 1000}
	small := job{Name: "small", Redis: redis.addr, URL: serve(t, s), Workers: 4, Requests: forever, Tokens: 200}
	large := small
	large.Name, large.Workers, large.Tokens = "large", 1, 20000
	small.start(t)
	time.Sleep(6 * time.Second)
	killed := large.start(t)
	until(t, func() bool {
		_, gap := s.between(time.Now().Add(-time.Second), time.Now(), "small")
		return gap >= time.Second
	})
	began := time.Now()
	require.NoError(t, killed.cmd.Process.Kill())
	time.Sleep(6 * time.Second)
	served, gap := s.between(began, time.Now(), "small")
	t.Logf("%d served, longest gap %.1f s; %d refused", served, gap.Seconds(), s.refused)
	require.LessOrEqual(t, gap, claimTime+time.Second)
	require.GreaterOrEqual(t, served, 15)
	require.Zero(t, s.refused)
}
