package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A window is a server with a fixed window, and a network that delays and
// reorders. It counts what it had to refuse, all by the clock of the test.
type window struct {
	quota  int
	length time.Duration
	every  int // only each such answer carries fields, 1 is all
	rnd    *rand.Rand

	mu      sync.Mutex
	end     time.Time
	used    int
	served  int
	refused int
}

func (w *window) RoundTrip(req *http.Request) (*http.Response, error) {
	w.travel()
	lines := w.serve()
	w.travel()
	return answer(req, lines), nil
}

func (w *window) travel() {
	w.mu.Lock()
	d := time.Duration(w.rnd.Int64N(int64(50 * time.Millisecond)))
	w.mu.Unlock()
	time.Sleep(d)
}

func (w *window) serve() (lines string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(w.length), 0
	}
	if w.used == w.quota {
		w.refused++
	} else {
		w.used++
		w.served++
	}
	if (w.served+w.refused)%w.every != 0 {
		return ""
	}
	l := Limit{Name: "a", Remaining: int64(w.quota - w.used), Reset: CeilSeconds(w.end.Sub(now))}
	return LimitField + ": " + l.String()
}

// Whatever the order of answers, no request is sent that the server has to
// refuse.
func TestTransportExact(t *testing.T) {
	for seed := range uint64(20) {
		w := &window{quota: 1 + int(seed)*3, length: 3 * time.Second, every: 1, rnd: rand.New(rand.NewPCG(seed, 0))}
		synctest.Test(t, func(t *testing.T) {
			rt := &Transport{Base: w}
			start := time.Now()
			require.NoError(t, get(t, rt, example)) // ten at once would be too many
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 3 {
						require.NoError(t, get(t, rt, example))
					}
				})
			}
			wg.Wait()
			require.Zero(t, w.refused, "quota %d", w.quota)
			require.Equal(t, 1+64*3, w.served)
			// Each window loses at most the rounding of t and a few flights.
			windows := (1 + 64*3 + w.quota - 1) / w.quota
			require.LessOrEqual(t, time.Since(start), time.Duration(windows)*(w.length+1200*time.Millisecond))
			e := entryOf(rt, "api.example")
			require.Zero(t, e.machine.under.n)
			require.Zero(t, e.queue.n)
		})
	}
}

// Fields that come with each third answer only.
func TestTransportExactSilence(t *testing.T) {
	w := &window{quota: 20, length: 3 * time.Second, every: 3, rnd: rand.New(rand.NewPCG(1, 0))}
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Base: w}
		for range 3 { // nothing is announced before the third answer
			require.NoError(t, get(t, rt, example))
		}
		var wg sync.WaitGroup
		for range 17 {
			wg.Go(func() { require.NoError(t, get(t, rt, example)) })
		}
		wg.Wait()
		require.Equal(t, 20, w.served)
		require.Zero(t, w.refused)
	})
}

// Real servers, of both versions of HTTP, on a real network.
func TestTransportServers(t *testing.T) {
	t.Parallel()
	const quota = 80
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP %d", version), func(t *testing.T) {
			var served atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != version {
					t.Errorf("HTTP/%d", r.ProtoMajor)
				}
				n := served.Add(1)
				if n > quota {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				if err := (Fields{Limits: []Limit{{Name: "a", Remaining: quota - n, Reset: SecondsOf(60)}}}).Set(w.Header()); err != nil {
					t.Error(err)
				}
				_, _ = io.Copy(w, r.Body)
			}))
			server.EnableHTTP2 = version == 2
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that were dialled in vain
			server.StartTLS()
			defer server.Close()

			base := server.Client()
			client := &http.Client{Transport: &Transport{Base: base.Transport}, Timeout: 30 * time.Second}
			var ok, refused atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 2 {
						resp, err := client.Post(server.URL, "text/plain", strings.NewReader("hello"))
						var early *WaitError
						if errors.As(err, &early) {
							refused.Add(1)
							continue
						}
						if err != nil || resp.StatusCode != http.StatusOK {
							t.Error(err)
							continue
						}
						ok.Add(1)
						body, err := io.ReadAll(resp.Body)
						if err != nil || string(body) != "hello" {
							t.Errorf("%q, %v", body, err)
						}
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
			require.Equal(t, int64(quota), served.Load(), "sent as many as allowed, and no more")
			require.Equal(t, int64(quota), ok.Load())
			require.Equal(t, int64(2*64-quota), refused.Load())
		})
	}
}

// A pipeListener is a network in memory, whose time a test can drive.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A bucketServer is a limiting server: a token bucket that refuses what it has no
// token for.
type bucketServer struct {
	policy Policy

	mu      sync.Mutex
	tokens  float64
	at      time.Time
	served  int
	refused int
}

func (b *bucketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(5 * time.Millisecond) // of a network
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	rate := float64(b.policy.Quota) / float64(b.policy.Window.n)
	b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*rate, float64(b.policy.Quota))
	b.at = now
	status := http.StatusOK
	if b.tokens < 1 {
		status = http.StatusTooManyRequests
		b.refused++
	} else {
		b.tokens--
		b.served++
	}
	next := time.Duration((1 - b.tokens + float64(int(b.tokens))) / rate * float64(time.Second))
	f := Fields{
		Policies: []Policy{b.policy},
		Limits:   []Limit{{Name: b.policy.Name, Remaining: int64(b.tokens), Reset: CeilSeconds(next)}},
	}
	if err := f.Set(w.Header()); err != nil {
		panic(err)
	}
	w.WriteHeader(status)
}

// What a Transport is worth: 50 requests by 10 workers to a server that allows
// 5 a second.
func TestTransportWorth(t *testing.T) {
	run := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) (server *bucketServer, took time.Duration) {
		policy := Policy{Name: "default", Quota: 5, Window: SecondsOf(1)}
		server = &bucketServer{policy: policy, tokens: float64(policy.Quota)}
		synctest.Test(t, func(t *testing.T) {
			server.at = time.Now()
			listener := &pipeListener{make(chan net.Conn), make(chan struct{})}
			httpServer := &http.Server{Handler: server}
			go func() { _ = httpServer.Serve(listener) }()
			base := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 10}
			client := &http.Client{Transport: wrap(base)}
			start := time.Now()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for range 5 {
						resp, err := client.Get(example)
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
			took = time.Since(start)
			base.CloseIdleConnections()
			require.NoError(t, httpServer.Close())
		})
		return server, took
	}

	without, took := run(t, func(base http.RoundTripper) http.RoundTripper { return base })
	t.Logf("without Transport: %d served, %d refused, in %v", without.served, without.refused, took)
	require.Greater(t, without.refused, 25, "most are refused")

	with, took := run(t, func(base http.RoundTripper) http.RoundTripper { return &Transport{Base: base} })
	early := 10 - int(with.policy.Quota)                                             // ten at once are five too many
	best := float64(with.served-int(with.policy.Quota)) / float64(with.policy.Quota) // beyond the bucket's first tokens
	t.Logf("with Transport: %d served, %d refused, in %v; the quota allows it in %.1fs", with.served, with.refused, took, best)
	require.Equal(t, 50-early, with.served)
	require.Equal(t, early, with.refused)
	require.LessOrEqual(t, took.Seconds(), best/0.9, "within 10 % of the quota")
}
