package obey

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A network carries requests to a host, and the responses back. Each direction takes a random
// time, so requests and responses overtake each other. It counts the responses by status.
type network struct {
	host   *laws.Host
	most   time.Duration // each way
	every  int           // only every n-th response has fields; 0 and 1 mean all
	mu     sync.Mutex
	rnd    *rand.Rand
	counts map[int]int
}

func networkTo(l laws.Limiter, most time.Duration, seed uint64) *network {
	return &network{
		host: &laws.Host{Form: "current", Limiters: []laws.Limiter{l}},
		most: most, rnd: rand.New(rand.NewPCG(seed, 0)), counts: map[int]int{},
	}
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	n.travel()
	resp := n.host.Serve(0)
	n.mu.Lock()
	n.counts[resp.StatusCode]++
	if n.every > 0 && (n.counts[200]+n.counts[429])%n.every != 0 {
		resp.Header = http.Header{}
	}
	n.mu.Unlock()
	n.travel()
	resp.Body, resp.Request = http.NoBody, req
	return resp, nil
}

func (n *network) travel() {
	n.mu.Lock()
	d := time.Duration(n.rnd.Int64N(int64(n.most)))
	n.mu.Unlock()
	time.Sleep(d)
}

// For any order of responses, no request is sent that the server would refuse. This holds
// even if only every third response has fields.
func TestTransportExact(t *testing.T) {
	for seed := range uint64(21) {
		synctest.Test(t, func(t *testing.T) {
			const window = 3 * time.Second
			requests, quota, first, every := 1+64*3, 1+int(seed)*3, 1, 0 // ten requests at once would be too many
			if seed == 20 {
				requests, quota, first, every = 20, 20, 3, 3 // nothing is announced before the third answer
			}
			n := networkTo(&laws.Fixed{Name: "a", Quota: int64(quota), Window: window}, 50*time.Millisecond, seed)
			n.every = every
			rt := &Transport{Base: n}
			start := time.Now()
			for range first {
				require.NoError(t, get(t, rt, trial.Example))
			}
			var all sync.WaitGroup
			for range requests - first {
				all.Go(func() { require.NoError(t, get(t, rt, trial.Example)) })
			}
			all.Wait()
			require.Equal(t, map[int]int{200: requests}, n.counts, "quota %d", quota)
			// Each window loses at most the rounding of t and a few flights.
			windows := (requests + quota - 1) / quota
			require.LessOrEqual(t, time.Since(start), time.Duration(windows)*(window+1200*time.Millisecond))
		})
	}
}

// Real servers, with both versions of HTTP, on a real network.
func TestTransportServers(t *testing.T) {
	t.Parallel()
	const quota, workers, each = 80, 64, 2
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP %d", version), func(t *testing.T) {
			var served, ok, refused atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, version, r.ProtoMajor)
				n := served.Add(1)
				if n > quota {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Remaining: quota - n, Reset: ratelimit.SecondsOf(60)}}}
				assert.NoError(t, f.Set(w.Header()))
				_, _ = io.Copy(w, r.Body)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // unused connections would be logged
			server.EnableHTTP2 = version == 2
			server.StartTLS()
			defer server.Close()

			client := &http.Client{Transport: &Transport{Base: server.Client().Transport}, Timeout: 30 * time.Second}
			send := func() {
				resp, err := client.Post(server.URL, "text/plain", strings.NewReader("hello"))
				if errors.As(err, new(*WaitError)) {
					refused.Add(1)
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.Equal(t, "hello", string(body))
				ok.Add(1)
			}
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for range each {
						send()
					}
				})
			}
			all.Wait()
			counts := []int64{served.Load(), ok.Load(), refused.Load()}
			require.Equal(t, []int64{quota, quota, workers*each - quota}, counts, "exactly the allowed number")
		})
	}
}

// TestTransportWorth sends 50 requests from 10 workers to a server that allows 5 a second.
func TestTransportWorth(t *testing.T) {
	const workers, each, quota = 10, 5, 5
	run := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) (served, refused int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			n := networkTo(&laws.Pail{Name: "default", Burst: quota, PerSecond: quota}, 5*time.Millisecond, 1)
			rt := wrap(n)
			start := time.Now()
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for range each {
						require.NoError(t, get(t, rt, trial.Example))
					}
				})
			}
			all.Wait()
			served, refused, took = n.counts[200], n.counts[429], time.Since(start)
		})
		return served, refused, took
	}

	served, refused, took := run(t, func(base http.RoundTripper) http.RoundTripper { return base })
	t.Logf("without Transport: %d served, %d refused, in %v", served, refused, took)
	require.Greater(t, refused, 25, "most are refused")

	served, refused, took = run(t, func(base http.RoundTripper) http.RoundTripper { return &Transport{Base: base} })
	const early = workers - quota                          // ten requests at once are five too many
	const best = float64(workers*each-early-quota) / quota // beyond the bucket's first tokens
	t.Logf("with Transport: %d served, %d refused, in %v; the quota allows it in %.1fs", served, refused, took, best)
	require.Equal(t, workers*each-early, served)
	require.Equal(t, early, refused)
	require.LessOrEqual(t, took.Seconds(), best/0.9, "within 10 % of the quota")
}
