package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/obey"
)

// A bucket is a server that limits tokens: at most quota of them, and rate come back each second.
type bucket struct {
	quota, rate float64
	takes       time.Duration // for a response; 0 is 20 ms

	mu   sync.Mutex
	at   time.Time
	left float64
}

func (s *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(cmp.Or(s.takes, 20*time.Millisecond))
	tokens, err := strconv.ParseFloat(r.Header.Get("X-Tokens"), 64)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, status := time.Now(), http.StatusOK
	if s.at.IsZero() {
		s.left = s.quota
	} else {
		s.left = min(s.quota, s.left+s.rate*now.Sub(s.at).Seconds())
	}
	s.at = now
	if s.left < tokens {
		status = http.StatusTooManyRequests
	} else {
		s.left -= tokens
	}
	w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"t";q=%.0f;qu="tokens";w=%.0f`, s.quota, s.quota/s.rate))
	w.Header().Set("RateLimit", fmt.Sprintf(`"t";r=%d;t=%.0f`, int(s.left), math.Ceil((s.quota-s.left)/s.rate)))
	w.WriteHeader(status)
}

// A chronicle is a server that writes down when it has served each process or user, and how often it
// has refused their requests.
type chronicle struct {
	http.Handler

	mu      sync.Mutex
	served  map[string][]time.Time
	refused map[string]int
}

func (s *chronicle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	s.Handler.ServeHTTP(answer, r)
	s.mu.Lock()
	if s.served == nil {
		s.served, s.refused = make(map[string][]time.Time), make(map[string]int)
	}
	if name := cmp.Or(r.Header.Get("X-Process"), r.Header.Get("Authorization")); answer.Code != http.StatusOK {
		s.refused[name]++
	} else {
		s.served[name] = append(s.served[name], time.Now())
	}
	s.mu.Unlock()
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
}

// since returns how many requests of a process were served since a time, and the longest time
// without one.
func (s *chronicle) since(from time.Time, name string) (n int, gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := from
	for _, at := range s.served[name] {
		if at.After(from) {
			n, gap, last = n+1, max(gap, at.Sub(last)), at
		}
	}
	return n, max(gap, time.Since(last))
}

func (s *chronicle) refusals() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

// forever is a number of requests that no process sends in a test.
const forever = 1 << 30

// Processes that always have work get equal shares of a limit.
func TestFleetEqualShares(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		processes int
		workers   int
		server    http.Handler
		tokens    int64
	}{
		{"two", 2, 4, &bucket{quota: 5000, rate: 1000}, 200},
		{"three", 3, 4, &bucket{quota: 5000, rate: 1000}, 200},
		{"slow answers", 2, 10, &bucket{quota: 5000, rate: 1000, takes: time.Second}, 200},
		{"requests", 2, 4, window(20, 2*time.Second, 20*time.Millisecond), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			redis, c := startStore(t), &chronicle{Handler: tc.server}
			j := job{Redis: redis.addr, URL: serve(t, c), Workers: tc.workers, Requests: forever, Tokens: tc.tokens}
			for i := range tc.processes {
				j.Name = fmt.Sprint(i)
				j.start(t)
			}
			time.Sleep(5 * time.Second) // a full bucket is used up
			from := time.Now()
			time.Sleep(20 * time.Second)
			var got []int
			for i := range tc.processes {
				n, _ := c.since(from, fmt.Sprint(i))
				got = append(got, n)
			}
			t.Logf("%d served, refused %v", got, c.refusals())
			require.GreaterOrEqual(t, slices.Min(got)*100, slices.Max(got)*60)
			require.Empty(t, c.refusals())
		})
	}
}

// A large request is sent although a process with small requests uses all that comes back. The
// requests behind it in its process do not wait longer than others.
func TestFleetLargeRequest(t *testing.T) {
	t.Parallel()
	for tokens, most := range map[int64]time.Duration{400: 5 * time.Second, 1000: 5 * time.Second, 4000: 10 * time.Second} {
		t.Run(fmt.Sprint(tokens), func(t *testing.T) {
			t.Parallel()
			redis, c := startStore(t), &chronicle{Handler: &bucket{quota: 20000, rate: 1000}}
			small := job{Name: "small", Redis: redis.addr, URL: serve(t, c), Workers: 4, Requests: forever, Tokens: 200}
			large := small
			large.Name, large.First = "large", tokens
			small.start(t)
			time.Sleep(6 * time.Second) // the full bucket is used up
			began := time.Now()
			large.start(t)
			until(t, func() bool { n, _ := c.since(began, "large first"); return n > 0 })
			took := time.Since(began)
			time.Sleep(10 * time.Second)
			of, gap := c.since(began.Add(took), "large")
			others, _ := c.since(began.Add(took), "small")
			t.Logf("after %.1f s; then %d served, %d of the other process, longest gap %.1f s; refused %v", took.Seconds(), of, others, gap.Seconds(), c.refusals())
			require.LessOrEqual(t, took, most)
			require.GreaterOrEqual(t, of*100, others*60)
			require.Empty(t, c.refusals())
		})
	}
}

// The claim of a process that is killed ends. Its request needs all of the limit, which no other
// process lets it have until then.
func TestFleetKillClaim(t *testing.T) {
	t.Parallel()
	redis, c := startStore(t), &chronicle{Handler: &bucket{quota: 20000, rate: 1000}}
	small := job{Name: "small", Redis: redis.addr, URL: serve(t, c), Workers: 4, Requests: forever, Tokens: 200}
	large := small
	large.Name, large.Workers, large.Tokens = "large", 1, 20000
	small.start(t)
	time.Sleep(6 * time.Second)
	killed := large.start(t)
	until(t, func() bool {
		_, gap := c.since(time.Now().Add(-time.Second), "small")
		return gap >= time.Second
	})
	began := time.Now()
	require.NoError(t, killed.cmd.Process.Kill())
	time.Sleep(6 * time.Second)
	served, gap := c.since(began, "small")
	t.Logf("%d served, longest gap %.1f s; refused %v", served, gap.Seconds(), c.refusals())
	require.LessOrEqual(t, gap, claimTime+time.Second)
	require.GreaterOrEqual(t, served, 15)
	require.Empty(t, c.refusals())
}

// The clock of Redis goes back while requests wait. The times of the record then lie in the future.
func TestFleetClockBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		server http.Handler
		tokens int64
		back   time.Duration
	}{
		{"requests", window(20, time.Second, 20*time.Millisecond), 0, 20 * time.Second},
		{"requests, forward", window(20, time.Second, 20*time.Millisecond), 0, -20 * time.Second},
		{"tokens", &bucket{quota: 5000, rate: 1000}, 200, 20 * time.Second},
		{"tokens, a day", &bucket{quota: 5000, rate: 1000}, 200, 24 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			redis, c := startStore(t), &chronicle{Handler: tc.server}
			j := job{Redis: redis.addr, URL: serve(t, c), Workers: 4, Requests: forever, Tokens: tc.tokens, Skewed: true}
			fleetOf(t, 2, j)
			time.Sleep(6 * time.Second)
			began := time.Now()
			require.NoError(t, redis.rdb.Set(t.Context(), offset, -tc.back.Seconds(), 0).Err())
			time.Sleep(10 * time.Second)
			served, gap := c.since(began, "")
			t.Logf("%d served, longest gap %.1f s; refused %v", served, gap.Seconds(), c.refusals())
			require.LessOrEqual(t, gap, 2*time.Second)
			require.LessOrEqual(t, c.refusals()[""], 2)
		})
	}
}

// A process without Redis, and without others, waits for tokens all the same.
func TestFleetTokensWithoutStore(t *testing.T) {
	t.Parallel()
	c := &chronicle{Handler: &bucket{quota: 2000, rate: 1000}}
	j := job{Redis: freeAddress(t), URL: serve(t, c), Workers: 4, Requests: 40, Tokens: 200}
	got := j.start(t).tally(t)
	t.Logf("refused %v", c.refusals())
	require.Equal(t, []int{40, 0}, []int{got.Served, got.Failed})
	require.LessOrEqual(t, got.Refused, 2)
}

// The record of a key is overwritten in the middle of the work. The other key notices nothing.
func TestFleetUnreadableRecord(t *testing.T) {
	t.Parallel()
	redis, c := startStore(t), &chronicle{Handler: fiftyIn5s()}
	const broken, good = "Bearer one", "Bearer two"
	j := job{Redis: redis.addr, URL: serve(t, c), Workers: 8, Requests: 200, Credential: []string{broken, good}}
	began := time.Now()
	all := fleetOf(t, 3, j)
	until(t, func() bool { n, _ := c.since(began, broken); return n >= 60 })
	r, err := http.NewRequest("GET", j.URL, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", broken)
	key := (&Turns{}).keysOf(obey.KeyBy("Authorization")(r))[0]
	require.Equal(t, "hash", redis.rdb.Type(t.Context(), key).Val())
	require.NoError(t, redis.rdb.Set(t.Context(), key, "x", 0).Err())
	got := tallies(t, all...)
	t.Logf("%.1f s, refused %v, %d errors", time.Since(began).Seconds(), c.refusals(), got.Unanswered)
	require.Equal(t, []int{600, 0}, []int{got.Served, got.Failed})
	require.LessOrEqual(t, c.refusals()[good], 2)
	require.LessOrEqual(t, c.refusals()[broken], 10)
	require.LessOrEqual(t, time.Since(began), 36*time.Second)
	require.Equal(t, "hash", redis.rdb.Type(t.Context(), key).Val())
}
