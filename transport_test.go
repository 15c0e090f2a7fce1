package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	_ http.RoundTripper           = (*Transport)(nil)
	_ error                       = (*WaitError)(nil)
	_ interface{ Timeout() bool } = (*WaitError)(nil)
	_ http.RoundTripper           = roundTripFunc(nil)
)

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A script answers requests one after the other, the last answer again and
// again, and notes when they came.
type script struct {
	mu    sync.Mutex
	lines []string // field lines of each answer
	delay time.Duration
	start time.Time
	seen  []time.Duration
}

func newScript(lines ...string) *script { return &script{lines: lines, start: time.Now()} }

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.seen = append(s.seen, time.Since(s.start))
	lines := s.lines[min(len(s.seen), len(s.lines))-1]
	s.mu.Unlock()
	time.Sleep(s.delay)
	switch lines {
	case "fail":
		return nil, errors.New("script: no connection")
	case "hang":
		time.Sleep(time.Hour)
		return answer(req, ""), nil
	}
	return answer(req, lines), nil
}

// answer is a response with those field lines, after a status line if it is not 200.
func answer(req *http.Request, lines string) *http.Response {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok { // HTTP/1.1 200 OK
			resp.StatusCode, _ = strconv.Atoi(strings.Fields(line)[1])
			continue
		}
		resp.Header.Add(name, value)
	}
	return resp
}

func newRequest(t testing.TB, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	return req
}

// get sends a request and returns what went wrong.
func get(t testing.TB, rt http.RoundTripper, address string) error {
	t.Helper()
	_, err := rt.RoundTrip(newRequest(t, address))
	return err
}

const example = "http://api.example/"

// entryOf is what a Transport knows of a host.
func entryOf(t *Transport, host string) *entry { return t.gate.keys[keyName{"http", host}] }

func seconds(list ...int) (all []time.Duration) {
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

// A request that follows a redirection after its wait is the probe that is due then.
func TestTransportRedirectProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var seen []time.Duration
		rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			seen = append(seen, time.Since(start))
			if req.URL.Path == "/" {
				return answer(req, "HTTP/1.1 303 See Other\nLocation: /there\nRetry-After: 5\n"+`RateLimit: "a";r=0;t=5`), nil
			}
			time.Sleep(500 * time.Millisecond)
			return answer(req, ""), nil
		})}
		var wg sync.WaitGroup
		wg.Go(func() {
			resp, err := (&http.Client{Transport: rt}).Get(example)
			require.NoError(t, err)
			resp.Body.Close()
		})
		time.Sleep(5200 * time.Millisecond)
		require.NoError(t, get(t, rt, example+"other"))
		wg.Wait()
		require.Equal(t, times(0, 5000, 5500), seen)
	})
}

// A request in the queue is refused as soon as a wait begins that is too long.
func TestTransportQueueDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=1;t=60`, `RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, example))
		s.delay = 100 * time.Millisecond
		go func() { _ = get(t, rt, example) }() // takes what remains
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		var wait *WaitError
		require.ErrorAs(t, err, &wait)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.Equal(t, 30*time.Second, time.Until(wait.Until))
	})
}

// A base that obeys the contexts of its requests, as one on a network does.
type obedient struct{ http.RoundTripper }

func (o obedient) RoundTrip(req *http.Request) (*http.Response, error) {
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := o.RoundTripper.RoundTrip(req)
		done <- result{resp, err}
	}()
	select {
	case r := <-done:
		return r.resp, r.err
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// The very first answer to a key is not waited for if that would miss a
// deadline.
func TestTransportHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript("")
		s.delay = 400 * time.Millisecond
		rt := &Transport{Base: obedient{s}}
		ctx, cancel := context.WithTimeout(t.Context(), firstWait-time.Millisecond)
		defer cancel()
		errs := make(chan error, 2*firstTrips)
		for range cap(errs) {
			go func() {
				_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
				errs <- err
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.Equal(t, s.delay, time.Since(s.start))
	})
}

// Requests that follow each other: when are they sent?
func TestTransportSequence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		t     *Transport
		lines []string
		want  []time.Duration
	}{
		{"nothing is announced", &Transport{}, []string{""}, seconds(0, 0, 0)},
		{"a policy alone", &Transport{}, []string{`RateLimit-Policy: "a";q=1;w=60`}, seconds(0, 0, 0)},
		{"malformed", &Transport{}, []string{`RateLimit: "a";r=`}, seconds(0, 0, 0)},
		{"from a cache", &Transport{}, []string{"Age: 5\n" + `RateLimit: "a";r=0;t=30`}, seconds(0, 0, 0)},
		{"enough remains", &Transport{}, []string{`RateLimit: "a";r=5;t=30`}, seconds(0, 0, 0)},
		{"nothing remains", &Transport{}, []string{`RateLimit: "a";r=0;t=30`}, seconds(0, 30, 60)},
		{"nothing remains, then silence", &Transport{}, []string{`RateLimit: "a";r=0;t=30`, ""}, seconds(0, 30, 30, 30)},
		{"Retry-After", &Transport{}, []string{"Retry-After: 7"}, seconds(0, 7, 14)},
		{"Retry-After before the window", &Transport{}, []string{"Retry-After: 7\n" + `RateLimit: "a";r=0;t=30`}, seconds(0, 7, 14)},
		{"Retry-After, then what remains", &Transport{}, []string{"Retry-After: 7\n" + `RateLimit: "a";r=2;t=30`, ""}, seconds(0, 7, 7, 30, 30)},
		{"Retry-After of 0 takes back", &Transport{}, []string{"Retry-After: 0\n" + `RateLimit: "a";r=0;t=30`}, seconds(0, 0, 0)},
		{"counted", &Transport{}, []string{`RateLimit: "a";r=2;t=30`, ""}, seconds(0, 0, 0, 30, 30, 30)},
		{"counted, of two limits", &Transport{}, []string{`RateLimit: "a";r=2;t=10, "b";r=3;t=30`, ""}, seconds(0, 0, 0, 10, 30, 30)},
		{"counted, by the window of the policy", &Transport{},
			[]string{`RateLimit-Policy: "a";q=9;w=60` + "\n" + `RateLimit: "a";r=1`, ""}, seconds(0, 0, 60, 60)},
		{"newer fields", &Transport{}, []string{`RateLimit: "a";r=1;t=30`, `RateLimit: "a";r=1;t=50`, ""}, seconds(0, 0, 0, 50, 50)},
		{"not counted, other units", &Transport{},
			[]string{`RateLimit-Policy: "a";q=9;qu="content-bytes"` + "\n" + `RateLimit: "a";r=1;t=30`, ""}, seconds(0, 0, 0, 0)},
		{"not counted, unknown", &Transport{}, []string{"X-RateLimit-Limit: 9\nX-RateLimit-Reset: 30"}, seconds(0, 0, 0, 0)},
		{"counted, t of 0 is within a second", &Transport{}, []string{`RateLimit: "a";r=1;t=0`, ""}, seconds(0, 0, 1, 1)},
		{"no end is known", &Transport{}, []string{`RateLimit: "a";r=1`, ""}, seconds(0, 0, 0, 0)},
		{"no end of nothing is known", &Transport{}, []string{`RateLimit: "a";r=0`}, seconds(0, 0, 0, 0)},
		{"bytes are exhausted", &Transport{},
			[]string{`RateLimit-Policy: "a";q=9;qu="content-bytes"` + "\n" + `RateLimit: "a";r=0;t=30`}, seconds(0, 30, 60)},
		{"the longest wait", &Transport{}, []string{`RateLimit: "a";r=0;t=999999999999999`}, seconds(0, 600, 1200)},
		{"the longest wait, then silence", &Transport{}, []string{`RateLimit: "a";r=0;t=1000`, ""}, seconds(0, 600, 600, 600)},
		{"the longest wait, counted", &Transport{}, []string{`RateLimit: "a";r=1;t=1000`, ""}, seconds(0, 0, 600, 600, 600)},
		{"an answer whose time has ended", &Transport{}, []string{`RateLimit: "a";r=0;t=1000`, `RateLimit: "a";r=9;t=0`}, seconds(0, 600, 600, 600)},
		{"a short longest wait", &Transport{Advisor: Advisor{MaxWait: time.Second}}, []string{`RateLimit: "a";r=0;t=30`}, seconds(0, 1, 2)},
		{"paced", &Transport{Pace: true}, []string{`RateLimit: "a";r=10;t=30`}, seconds(0, 3, 6)},
		{"paced, then silence", &Transport{Pace: true}, []string{`RateLimit: "a";r=3;t=30`, ""}, seconds(0, 10, 20, 30, 30)},
		{"not paced", &Transport{}, []string{`RateLimit: "a";r=10;t=30`}, seconds(0, 0, 0)},
		{"paced no slower than the longest wait", &Transport{Pace: true}, []string{`RateLimit: "a";r=1;t=999999999999999`}, seconds(0, 600, 1200)},
		{"a failed request may have been served", &Transport{}, []string{`RateLimit: "a";r=2;t=30`, "fail", ""}, seconds(0, 0, 0, 30, 30)},
		{"a failed probe has learnt nothing", &Transport{}, []string{`RateLimit: "a";r=0;t=30`, "fail", `RateLimit: "a";r=0;t=5`}, seconds(0, 30, 30, 35)},
		{"the first fails", &Transport{}, []string{"fail", "fail", ""}, seconds(0, 0, 0, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(tc.lines...)
				tc.t.Base = s
				for range tc.want {
					_ = get(t, tc.t, example)
				}
				require.Equal(t, tc.want, s.seen)
			})
		})
	}
}

// times are when requests are sent, in milliseconds.
func times(list ...int) (all []time.Duration) {
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	return all
}

// Requests that come at the same time, of which nothing, or one answer, is known.
func TestTransportConcurrent(t *testing.T) {
	ten := make([]int, firstTrips)
	unheard := "HTTP/1.1 500 Internal Server Error"
	for _, tc := range []struct {
		name  string
		t     *Transport
		known string // the answer to a request before, if any
		lines []string
		delay int // of each answer
		want  []time.Duration
	}{
		{"ten go at once, the others with the first answer", &Transport{}, "", []string{""}, 100, times(append(ten, 100, 100)...)},
		{"any answer", &Transport{}, "", []string{unheard}, 100, times(append(ten, 100, 100)...)},
		{"no answer is waited for longer than half a second", &Transport{}, "", []string{""}, 3600e3, times(append(ten, 500, 500)...)},
		{"a failure is as good as an answer", &Transport{}, "", []string{"fail"}, 300, times(append(ten, 300, 300)...)},
		{"a share of the ten", &Transport{Share: 0.25}, "", []string{""}, 100, times(0, 0, 100, 100)},
		{"at least one", &Transport{Share: 0.01}, "", []string{""}, 100, times(0, 100, 100)},
		{"the first answer asks for a wait", &Transport{}, "", []string{"Retry-After: 30"}, 100, times(append(ten, 30100, 30100)...)},
		{"the probe goes alone", &Transport{}, `RateLimit: "a";r=0;t=30`, []string{`RateLimit: "a";r=2;t=30`, ""}, 500,
			times(30000, 30500, 30500, 60500, 61000)},
		{"the probe fails, another goes", &Transport{}, `RateLimit: "a";r=0;t=10`, []string{"fail", ""}, 400, times(10000, 10400, 10800, 10800, 10800)},
		{"the probe hangs, two more go after a second", &Transport{}, `RateLimit: "a";r=0;t=10`, []string{"hang"}, 0,
			times(10000, 11000, 11000, 12000, 12000, 12000, 12000, 13000)},
		{"the probe hangs, one of the others is answered", &Transport{}, `RateLimit: "a";r=0;t=10`, []string{"hang", ""}, 500,
			times(10000, 11000, 11000, 11500, 11500, 11500)},
		{"no end is known, and no answer comes", &Transport{}, `RateLimit: "a";r=1`, []string{"hang"}, 0, times(0, 1000, 2000, 2000, 3000)},
		{"the window ends, and no answer comes", &Transport{}, `RateLimit: "a";r=1;t=30`, []string{"hang", ""}, 0, times(0, 30000, 30000)},
		{"those under way count", &Transport{}, `RateLimit: "a";r=2;t=30`, []string{""}, 500, times(0, 0, 30000, 30500, 30500)},
		{"those that are older than the window do not", &Transport{}, `RateLimit: "a";r=2;t=30`, []string{`RateLimit: "a";r=2;t=1`}, 3000,
			times(0, 0, 3000, 3000, 4000)},
		{"paced", &Transport{Pace: true}, `RateLimit: "a";r=10;t=30`, []string{`RateLimit: "a";r=10;t=30`}, 0, times(3000, 6000, 9000, 12000)},
		{"a share of what remains", &Transport{Share: 0.5}, `RateLimit: "a";r=4;t=30`, []string{""}, 500, times(0, 0, 30000, 30500)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(tc.known)
				tc.t.Base = s
				if tc.known != "" {
					require.NoError(t, get(t, tc.t, example))
				}
				s.lines, s.delay, s.seen = tc.lines, time.Duration(tc.delay)*time.Millisecond, nil
				var wg sync.WaitGroup
				for range tc.want {
					wg.Go(func() { _ = get(t, tc.t, example) })
				}
				wg.Wait()
				require.Equal(t, tc.want, s.seen)
			})
		})
	}
}

// closing is a body that notes what happens to it.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestTransportDeadline(t *testing.T) {
	for _, tc := range []struct {
		name     string
		t        *Transport
		lines    string
		deadline time.Duration
		refused  bool
		until    time.Duration
	}{
		{"before the wait ends", &Transport{}, `RateLimit: "a";r=0;t=30`, 29 * time.Second, true, 30 * time.Second},
		{"after the wait ends", &Transport{}, `RateLimit: "a";r=0;t=30`, 31 * time.Second, false, 0},
		{"no wait", &Transport{}, `RateLimit: "a";r=1;t=30`, time.Second, false, 0},
		{"before the pace allows", &Transport{Pace: true}, `RateLimit: "a";r=10;t=30`, time.Second, false, 0},
		{"before Retry-After", &Transport{}, "Retry-After: 60", 59 * time.Second, true, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(tc.lines, "")
				tc.t.Base = s
				require.NoError(t, get(t, tc.t, example))

				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				body := &closing{Reader: strings.NewReader("x")}
				req := newRequest(t, example).WithContext(ctx)
				req.Body = body
				resp, err := tc.t.RoundTrip(req)
				if !tc.refused {
					require.NoError(t, err)
					require.Len(t, s.seen, 2)
					require.Zero(t, body.closed, "a body that is sent is not ours")
					return
				}
				require.Nil(t, resp)
				require.Len(t, s.seen, 1, "nothing is sent")
				require.Zero(t, time.Since(s.start), "at once")
				require.Equal(t, 1, body.closed)
				var refused *WaitError
				require.ErrorAs(t, err, &refused)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, refused.Timeout())
				require.Equal(t, tc.until, refused.Until.Sub(s.start))
				require.NotZero(t, refused.Advice)
				require.NotContains(t, refused.Error(), `"`)
				require.Contains(t, refused.Error(), "2000-01-01T00:0")
			})
		})
	}
}

// The client's Timeout is a deadline too, and its error says so.
func TestTransportClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &Transport{Base: newScript(`RateLimit: "a";r=0;t=30`)}, Timeout: 10 * time.Second}
		start := time.Now()
		resp, err := client.Get(example)
		require.NoError(t, err)
		resp.Body.Close()
		_, err = client.Get(example)
		var refused *WaitError
		require.ErrorAs(t, err, &refused)
		var timeout *url.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Zero(t, time.Since(start))
	})
}

func TestTransportCancel(t *testing.T) {
	errStop := errors.New("stop")
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`, "")
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, example))

		var cancels []context.CancelCauseFunc
		results := make([]error, 4)
		bodies := make([]closing, 4)
		var wg sync.WaitGroup
		for i := range results {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			req := newRequest(t, example).WithContext(ctx)
			req.Body = &bodies[i]
			wg.Go(func() { _, results[i] = rt.RoundTrip(req) })
			synctest.Wait() // they queue in this order
		}
		time.Sleep(10 * time.Second)
		cancels[0](errStop) // waits at the gate
		cancels[2](nil)     // waits for its turn
		synctest.Wait()
		require.Equal(t, errStop, results[0])
		require.Equal(t, context.Canceled, results[2])
		wg.Wait()
		require.NoError(t, results[1])
		require.NoError(t, results[3])
		require.Equal(t, seconds(0, 30, 30), s.seen)
		require.Equal(t, []int{1, 0, 1, 0}, []int{bodies[0].closed, bodies[1].closed, bodies[2].closed, bodies[3].closed})
		require.Zero(t, entryOf(rt, "api.example").queue.Len())

		// A deadline that nothing was known to be before.
		s.lines, s.delay, s.seen = []string{`RateLimit: "a";r=1;t=60`, ""}, 30*time.Second, nil
		require.NoError(t, get(t, rt, example))
		wg.Go(func() { require.NoError(t, get(t, rt, example)) })
		synctest.Wait() // nothing is left now
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		require.Equal(t, context.DeadlineExceeded, err)
		wg.Wait()
	})
}

// Waits that are extended while a request has its turn.
func TestTransportLongerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, example))
		results := make([]error, 2)
		var wg sync.WaitGroup
		for i := range results {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			wg.Go(func() { _, results[i] = rt.RoundTrip(newRequest(t, example).WithContext(ctx)) })
			synctest.Wait()
		}
		wg.Wait()
		require.NoError(t, results[0])
		var refused *WaitError
		require.ErrorAs(t, results[1], &refused)
		require.Equal(t, 10*time.Second, time.Since(s.start), "refused as soon as the probe has learnt it")
	})
}

// A request whose context has ended is not sent, nor counted.
func TestTransportEnded(t *testing.T) {
	s := newScript("")
	rt := &Transport{Base: s}
	body := &closing{}
	ctx, cancel := context.WithCancelCause(t.Context())
	errStop := errors.New("stop")
	cancel(errStop)
	req := newRequest(t, example).WithContext(ctx)
	req.Body = body
	_, err := rt.RoundTrip(req)
	require.Equal(t, errStop, err)
	require.Equal(t, 1, body.closed)
	require.Empty(t, s.seen)
	require.Empty(t, rt.gate.keys)
}

func TestTransportDefault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{}}
	resp, err := client.Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestTransportOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			order = append(order, req.URL.Path)
			return answer(req, `RateLimit: "a";r=0;t=1`), nil
		})}
		var wg sync.WaitGroup
		var want []string
		for i := range 20 {
			path := fmt.Sprintf("/%d", i)
			want = append(want, path)
			wg.Go(func() { require.NoError(t, get(t, rt, "http://api.example"+path)) })
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, want, order, "first come, first served")
	})
}

func TestTransportRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var seen []time.Duration
		client := &http.Client{Transport: &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			seen = append(seen, time.Since(start))
			resp := answer(req, "Location: /foo/123\n"+`RateLimit: "problemPolicy";r=0;t=10`)
			if req.URL.Path == "/" {
				resp.StatusCode = http.StatusFound
			}
			return resp, nil
		})}}
		for range 2 {
			resp, err := client.Get(example)
			require.NoError(t, err)
			resp.Body.Close()
		}
		require.Equal(t, seconds(0, 0, 10, 10), seen)
	})
}

// As many redirections as are remembered are followed at once, whatever the order.
func TestTransportRedirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript("HTTP/1.1 302 Found\nLocation: /a\n" + `RateLimit: "a";r=0;t=10`)
		rt := &Transport{Base: s}
		var following []*http.Request
		for i := range rt.redirected {
			first := httptest.NewRequest("GET", fmt.Sprintf("http://%d.example/", i), nil)
			resp, err := rt.RoundTrip(first)
			require.NoError(t, err)
			next := first.Clone(t.Context())
			next.Response = resp
			following = append(following, next)
		}
		for _, next := range following {
			_, err := rt.RoundTrip(next)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(s.start))
		runtime.KeepAlive(following)
	})
}

// Nothing is sent of a redirection that is followed after its context has ended.
func TestTransportRedirectEnded(t *testing.T) {
	s := newScript("HTTP/1.1 302 Found\nLocation: /a")
	rt := &Transport{Base: s}
	first := httptest.NewRequest("GET", example, nil)
	resp, err := rt.RoundTrip(first)
	require.NoError(t, err)
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	next := first.Clone(ctx)
	next.Response = resp
	_, err = rt.RoundTrip(next)
	require.Equal(t, ended, err)
	require.Len(t, s.seen, 1)
}

func TestTransportKeys(t *testing.T) {
	for address, want := range map[string]string{
		"http://api.example/a":         "http://api.example",
		"HTTP://API.Example:80/b?c#d":  "http://api.example",
		"http://api.example:/":         "http://api.example",
		"http://api.example:443/":      "http://api.example:443",
		"https://user:pw@api.example/": "https://api.example",
		"https://api.example:443/":     "https://api.example",
		"https://api.example:8443/":    "https://api.example:8443",
		"http://[2001:db8::80]/":       "http://[2001:db8::80]",
		"http://[2001:db8::80]:80/":    "http://[2001:db8::80]",
		"acme://api.example/":          "acme://api.example",
		"opaque:thing":                 "opaque://",
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, want, originOf(u).String())
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, "http://api.example/a"))
		require.NoError(t, get(t, rt, "https://api.example/a"))
		require.NoError(t, get(t, rt, "http://api.example:8080/a"))
		require.NoError(t, get(t, rt, "http://example/a"))
		require.Equal(t, seconds(0, 0, 0, 0), s.seen)
		require.NoError(t, get(t, rt, "http://API.EXAMPLE:80/b"))
		require.Equal(t, seconds(0, 0, 0, 0, 30), s.seen)
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s, Key: func(req *http.Request) string { return req.Header.Get("Authorization") }}
		for _, user := range []string{"a", "b", "", "a"} {
			req := newRequest(t, example)
			req.Header.Set("Authorization", user)
			_, err := rt.RoundTrip(req)
			require.NoError(t, err)
		}
		require.Equal(t, seconds(0, 0, 0, 30), s.seen)
	})
}

func TestTransportLeavesResponses(t *testing.T) {
	body := &closing{Reader: strings.NewReader("no")}
	rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, "Retry-After: 30")
		resp.StatusCode, resp.Body = http.StatusTooManyRequests, body
		return resp, nil
	})}
	req := newRequest(t, example)
	before := req.Clone(req.Context())
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, before, req, "the request is as it was")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "nothing is sent again")
	require.Zero(t, body.closed)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "no", string(text))
}

func TestTransportHandMade(t *testing.T) {
	rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) { return nil, nil })}
	_, err := rt.RoundTrip(nil)
	require.Equal(t, errNoURL, err)
	body := &closing{}
	_, err = rt.RoundTrip(&http.Request{Body: body})
	require.Equal(t, errNoURL, err)
	require.Equal(t, 1, body.closed)
	resp, err := rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.NoError(t, err)
	require.Nil(t, resp)

	rt.Base = roundTripFunc(func(req *http.Request) (*http.Response, error) { return &http.Response{}, nil })
	_, err = rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.NoError(t, err)

	rt.Base = roundTripFunc(func(req *http.Request) (*http.Response, error) { panic("base") })
	require.Panics(t, func() { _ = get(t, rt, example) })
	require.Zero(t, entryOf(rt, "api.example").machine.under.n, "counted as failed")
}

func TestTransportObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Advice
		rt := &Transport{
			Base: newScript("", `RateLimit-Policy: "a";q=1`, "fail", `RateLimit: "a";r=7`, "Retry-After: 3", "", "HTTP/1.1 429 Too Many Requests"),
			Observe: func(req *http.Request, a Advice) {
				require.Equal(t, "api.example", req.URL.Host)
				seen = append(seen, a)
			},
		}
		for range 7 {
			_ = get(t, rt, example)
		}
		require.Len(t, seen, 4)
		require.Equal(t, "a", seen[0].Fields.Policies[0].Name)
		require.Equal(t, int64(7), seen[1].Fields.Limits[0].Remaining)
		require.Equal(t, 3*time.Second, seen[2].Wait)
		require.True(t, seen[3].Refused)
	})
}

// A desk answers requests when a test says so, in any order.
type desk struct{ in chan inquiry }

type inquiry struct {
	req   *http.Request
	reply chan string
}

func (d *desk) RoundTrip(req *http.Request) (*http.Response, error) {
	q := inquiry{req, make(chan string)}
	d.in <- q
	return answer(req, <-q.reply), nil
}

// Late answers: one to a request that was sent earlier than what is known was
// learnt makes that stricter, not looser.
func TestTransportLateAnswers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []string // to three requests at the same time, in the order in which they arrive
		next    []int    // seconds until each of the following is sent
	}{
		{"in order", []string{"r=9;t=60", "r=8;t=60", "r=1;t=60"}, []int{0, 60}},
		{"the last is first", []string{"r=1;t=60", "r=8;t=60", "r=9;t=60"}, []int{0, 60}},
		{"the wait is first", []string{"r=0;t=30", "r=8;t=60", "r=9;t=60"}, []int{30}},
		{"the wait is last", []string{"r=8;t=60", "r=9;t=60", "r=0;t=30"}, []int{30}},
		{"the longer wait is first", []string{"r=0;t=30", "r=0;t=10", "r=9;t=60"}, []int{30}},
		{"the longer wait is last", []string{"r=0;t=10", "r=5;t=60", "r=0;t=30"}, []int{30}},
		{"silence counts", []string{"r=3;t=60", "", ""}, []int{0, 60}},
		{"silence first counts too", []string{"", "", "r=3;t=60"}, []int{0, 60}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{make(chan inquiry)}
				rt := &Transport{Base: d}
				var wg sync.WaitGroup
				send := func() inquiry {
					wg.Go(func() { require.NoError(t, get(t, rt, example)) })
					return <-d.in
				}
				reply := func(q inquiry, limit string) {
					if limit != "" {
						limit = `RateLimit: "a";` + limit
					}
					q.reply <- limit
					synctest.Wait()
				}
				reply(send(), "r=100;t=60")
				under := []inquiry{send(), send(), send()}
				for i, limit := range tc.answers {
					reply(under[i], limit)
				}
				start := time.Now()
				for _, want := range tc.next {
					q := send()
					require.Equal(t, time.Duration(want)*time.Second, time.Since(start))
					reply(q, "")
				}
				wg.Wait()
			})
		})
	}
}

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
			require.Zero(t, e.queue.Len())
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

func TestTransportMemory(t *testing.T) {
	host := func(i int) string { return fmt.Sprintf("%d.example", i) }
	fill := func(t *testing.T, rt *Transport, from, n int) {
		for i := range n {
			require.NoError(t, get(t, rt, "http://"+host(from+i)+"/"))
			require.LessOrEqual(t, len(rt.gate.keys), maxKeys)
		}
	}
	t.Run("the oldest goes first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rt := &Transport{Base: newScript(`RateLimit: "a";r=5;t=999999999999999`)}
			fill(t, rt, 0, maxKeys)
			fill(t, rt, 0, 1) // is the newest now
			fill(t, rt, maxKeys, 1)
			require.NotNil(t, entryOf(rt, host(0)))
			require.Nil(t, entryOf(rt, host(1)))
			fill(t, rt, maxKeys, 2*maxKeys)
			require.NotNil(t, entryOf(rt, host(3*maxKeys-1)))
			require.Nil(t, entryOf(rt, host(0)))
		})
	})
	t.Run("one that says nothing goes before one that counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(`RateLimit: "a";r=5;t=60`)
			rt := &Transport{Base: s}
			fill(t, rt, 0, maxKeys-1)
			s.lines = []string{""}
			fill(t, rt, maxKeys, 2)
			require.NotNil(t, entryOf(rt, host(0)))
			require.Nil(t, entryOf(rt, host(maxKeys)))
		})
	})
	t.Run("a wait in force is never displaced", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScript("Retry-After: 60")
			rt := &Transport{Base: s}
			fill(t, rt, 0, 1)
			s.lines = []string{`RateLimit: "a";r=0;t=999999999`}
			fill(t, rt, 1, 3*maxKeys) // hostile hosts
			start := time.Now()
			fill(t, rt, 0, 1)
			require.Equal(t, time.Minute, time.Since(start))
			require.Nil(t, entryOf(rt, host(maxKeys)), "nothing is kept of it")
			time.Sleep(DefaultMaxWait)
			fill(t, rt, 4*maxKeys, 1)
			require.NotNil(t, entryOf(rt, host(4*maxKeys)), "the waits have ended")
		})
	})
	waits := func(t *testing.T, g *Gate, from, n int, wait time.Duration) {
		for i := range n {
			p, err := g.Enter(t.Context(), host(from+i))
			require.NoError(t, err)
			p.Answered(Advice{Wait: wait, Source: SourceRetryAfter}, time.Now())
		}
	}
	t.Run("the one wait that has ended is displaced", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			waits(t, &g, 0, 1, 2*time.Second)
			waits(t, &g, 1, maxKeys, time.Minute)
			require.Nil(t, g.keys[keyName{rest: host(maxKeys)}])
			time.Sleep(3 * time.Second)
			waits(t, &g, maxKeys, 1, time.Minute)
			require.NotNil(t, g.keys[keyName{rest: host(maxKeys)}])
			require.Nil(t, g.keys[keyName{rest: host(0)}])
		})
	})
	t.Run("a wait that is forgotten is displaced at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			waits(t, &g, 0, maxKeys+1, time.Minute)
			g.Forget(host(5))
			waits(t, &g, maxKeys, 1, time.Minute)
			require.NotNil(t, g.keys[keyName{rest: host(maxKeys)}])
			require.Nil(t, g.keys[keyName{rest: host(5)}])
		})
	})
	t.Run("waits are looked at once a second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			waits(t, &g, 0, 1, 1500*time.Millisecond)
			waits(t, &g, 1, maxKeys-1, time.Minute)
			for _, tc := range []struct {
				after time.Duration
				kept  bool
			}{{0, false}, {time.Second, false}, {600 * time.Millisecond, false}, {400 * time.Millisecond, true}} {
				time.Sleep(tc.after)
				waits(t, &g, maxKeys, 1, time.Minute)
				require.Equal(t, tc.kept, g.keys[keyName{rest: host(maxKeys)}] != nil)
			}
		})
	})
	t.Run("a key that was displaced learns from an answer that comes later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			enter := func(key string) *Pass {
				p, err := g.Enter(t.Context(), key)
				require.NoError(t, err)
				return p
			}
			known := func(key string) bool { return g.keys[keyName{rest: key}] != nil }
			answered, failed, late := enter("slow"), enter("slow"), enter("late")
			waits(t, &g, 0, maxKeys, 0)
			require.False(t, known("slow") || known("late"))
			answered.Answered(Advice{Wait: time.Minute, Source: SourceRetryAfter}, time.Now())
			failed.Failed()
			require.Len(t, g.keys, maxKeys)
			require.Zero(t, g.keys[keyName{rest: "slow"}].machine.under.n)
			waits(t, &g, maxKeys, maxKeys, time.Minute)
			late.Answered(Advice{Wait: time.Minute, Source: SourceRetryAfter}, time.Now())
			require.False(t, known("late"), "all others have to wait")
			start := time.Now()
			enter("slow").Failed()
			require.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("a key that was not used for long begins anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScript("")
			rt := &Transport{Base: s}
			fill(t, rt, 0, 1)
			require.Equal(t, counting, entryOf(rt, host(0)).machine.phase)
			time.Sleep(idleTime + time.Second)
			s.delay = time.Millisecond
			var wg sync.WaitGroup
			wg.Go(func() { fill(t, rt, 0, 1) })
			synctest.Wait()
			rt.gate.mu.Lock()
			require.Equal(t, unknown, entryOf(rt, host(0)).machine.phase)
			rt.gate.mu.Unlock()
			wg.Wait()
		})
	})
	t.Run("nothing of a response is kept", func(t *testing.T) {
		long := strings.Repeat("n", 1000)
		rt := &Transport{Base: newScript(`RateLimit: "` + long + `";r=0;t=60;pk=:YQ==:;x="` + strings.Repeat("x", 1<<20) + `"`)}
		require.NoError(t, get(t, rt, example))
		a := entryOf(rt, "api.example").machine.advice
		require.Equal(t, Advice{
			Wait: time.Minute, Asked: time.Minute, Source: SourceLimit, Limit: Limit{Name: long[:maxKeptName], Reset: SecondsOf(60)},
		}, a)
	})
	t.Run("long keys", func(t *testing.T) {
		var g Gate
		for i := range 2 {
			for range 2 {
				p, err := g.Enter(t.Context(), strings.Repeat("k", 1<<20)+strconv.Itoa(i))
				require.NoError(t, err)
				p.Failed()
			}
		}
		require.Len(t, g.keys, 2)
		for k := range g.keys {
			require.LessOrEqual(t, len(k.scheme)+len(k.rest), maxKey)
		}
	})
}

// A hostile response announces more limits than are counted.
func TestTransportManyLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits []Limit
		for i := range maxMembers {
			limits = append(limits, Limit{Name: "a", Remaining: int64(i + 2), Reset: SecondsOf(int64(100 + i%500))})
		}
		line, err := FormatLimits(limits...)
		require.NoError(t, err)
		s := newScript("RateLimit: "+line, "")
		rt := &Transport{Base: s}
		for range 5 {
			require.NoError(t, get(t, rt, example))
			require.LessOrEqual(t, len(entryOf(rt, "api.example").machine.budgets), maxBudgets)
		}
		require.Equal(t, seconds(0, 0, 0, 100, 101), s.seen)
	})
}

// Real servers, of both versions of HTTP, on a real network.
func TestTransportServers(t *testing.T) {
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
				if err := SetLimits(w.Header(), Limit{Name: "a", Remaining: quota - n, Reset: SecondsOf(60)}); err != nil {
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

func TestTransportGoroutines(t *testing.T) {
	rt := &Transport{Base: newScript(`RateLimit: "a";r=0;t=30`)}
	require.NoError(t, get(t, rt, example))
	before := runtime.NumGoroutine()
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		require.Error(t, err)
		cancel()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
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

// An answer that makes what is known stricter is the newest from then on.
func TestTransportLateAnswerIsNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{make(chan inquiry)}
		rt := &Transport{Base: d}
		var wg sync.WaitGroup
		send := func() inquiry {
			wg.Go(func() { require.NoError(t, get(t, rt, example)) })
			return <-d.in
		}
		reply := func(q inquiry, limit string) {
			q.reply <- `RateLimit: "a";` + limit
			synctest.Wait()
		}
		reply(send(), "r=100;t=60")
		second, third := send(), send()
		reply(second, "r=50;t=60")
		fourth := send()
		reply(third, "r=1;t=60") // may have been served after the fourth
		reply(fourth, "r=40;t=60")
		start := time.Now()
		fifth := send()
		sixth := send()
		require.Equal(t, time.Minute, time.Since(start))
		reply(fifth, "r=0;t=1")
		reply(sixth, "r=0;t=1")
		wg.Wait()
	})
}

// Requests at the same time, after others that came one by one.
func TestTransportThenConcurrent(t *testing.T) {
	const delay = 100 * time.Millisecond
	for _, tc := range []struct {
		name  string
		lines []string
		pause time.Duration
		want  []time.Duration // of those at the same time, from the pause on
	}{
		{"a probe where nothing remained", []string{`RateLimit: "a";r=0;t=10`, ""}, 11 * time.Second, []time.Duration{0, delay, delay}},
		{"a probe where all has been sent", []string{`RateLimit: "a";r=1;t=10`, "", ""}, 11 * time.Second, []time.Duration{0, delay, delay}},
		{"a probe after a refusal", []string{"HTTP/1.1 429 Too Many Requests\nRetry-After: 10", ""}, 11 * time.Second,
			[]time.Duration{0, delay, delay}},
		{"no probe where something remained", []string{`RateLimit: "a";r=5;t=10`, ""}, 11 * time.Second, []time.Duration{0, 0, 0}},
		{"no probe after a Retry-After that refused nothing", []string{"Retry-After: 10", ""}, 11 * time.Second, []time.Duration{0, 0, 0}},
		{"no probe for what says nothing", []string{`RateLimit: "a";r=5;t=0`, ""}, 0, []time.Duration{0, 0, 0}},
		{"no probe within the window", []string{`RateLimit: "a";r=5;t=10`, ""}, time.Second, []time.Duration{0, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(append([]string{""}, tc.lines...)...)
				rt := &Transport{Base: s}
				for range tc.lines {
					require.NoError(t, get(t, rt, example))
				}
				time.Sleep(tc.pause)
				s.start, s.seen, s.lines, s.delay = time.Now(), nil, []string{""}, delay
				var wg sync.WaitGroup
				for range tc.want {
					wg.Go(func() { require.NoError(t, get(t, rt, example)) })
				}
				wg.Wait()
				require.Equal(t, tc.want, s.seen)
			})
		})
	}
}

// What the target of a redirection says is newer than what the redirection
// says.
func TestTransportRedirectAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var seen []time.Duration
		rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			seen = append(seen, time.Since(start))
			if req.URL.Path == "/" {
				resp := answer(req, "Location: /foo\n"+`RateLimit: "a";r=0;t=10`)
				resp.StatusCode = http.StatusFound
				return resp, nil
			}
			return answer(req, `RateLimit: "a";r=50;t=10`), nil
		})}
		resp, err := (&http.Client{Transport: rt}).Get(example)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, counting, entryOf(rt, "api.example").machine.phase, "no probe is due")
		require.NoError(t, get(t, rt, example+"foo"))
		require.Equal(t, seconds(0, 0, 0), seen)
	})
}

type closingBase struct {
	http.RoundTripper
	closed int
}

func (c *closingBase) CloseIdleConnections() { c.closed++ }

func TestTransportCloseIdleConnections(t *testing.T) {
	base := &closingBase{}
	(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	(&Transport{Base: newScript("")}).CloseIdleConnections() // has none to close
}

// Request.Cancel ends a wait, as it does in net/http.
func TestTransportRequestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, example))
		cancel := make(chan struct{})
		req := newRequest(t, example)
		req.Cancel = cancel //lint:ignore SA1019 net/http still obeys it
		body := &closing{}
		req.Body = body
		time.AfterFunc(time.Second, func() { close(cancel) })
		_, err := rt.RoundTrip(req)
		require.Equal(t, errCancelled, err)
		require.Equal(t, time.Second, time.Since(s.start))
		require.Equal(t, 1, body.closed)
		require.Zero(t, entryOf(rt, "api.example").queue.Len())
	})
}

// A redirection may ask for a wait before it is followed (RFC 9110 Section 10.2.3).
func TestTransportRedirectRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		lines   string
		timeout time.Duration
		want    []time.Duration
		refused bool
	}{
		{"303 with Retry-After", "HTTP/1.1 303 See Other\nRetry-After: 5", time.Minute, seconds(0, 5), false},
		{"302 with limits alone", "HTTP/1.1 302 Found\n" + `RateLimit: "a";r=0;t=5`, time.Minute, seconds(0, 0), false},
		{"303 with Retry-After of 0", "HTTP/1.1 303 See Other\nRetry-After: 0", time.Minute, seconds(0, 0), false},
		{"the deadline is earlier", "HTTP/1.1 303 See Other\nRetry-After: 5", 4 * time.Second, seconds(0), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var seen, waiting []time.Duration
				rt := &Transport{
					Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
						seen = append(seen, time.Since(start))
						if req.URL.Path == "/" {
							return answer(req, tc.lines+"\nLocation: /there"), nil
						}
						return answer(req, ""), nil
					}),
					Waiting: func(_ *http.Request, until time.Time, a Advice) {
						require.Equal(t, SourceRetryAfter, a.Source)
						waiting = append(waiting, until.Sub(start))
					},
				}
				resp, err := (&http.Client{Transport: rt, Timeout: tc.timeout}).Get(example)
				require.Equal(t, tc.want, seen)
				if tc.refused {
					var early *WaitError
					require.ErrorAs(t, err, &early)
					require.Equal(t, 5*time.Second, early.Until.Sub(start))
					require.Zero(t, time.Since(start))
					return
				}
				require.NoError(t, err)
				resp.Body.Close()
				if d := time.Since(start); d > 0 {
					require.Equal(t, []time.Duration{d}, waiting)
				}
			})
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rt := &Transport{Base: newScript("HTTP/1.1 303 See Other\nLocation: /there\nRetry-After: 60", "")}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := (&http.Client{Transport: rt}).Do(newRequest(t, example).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
		})
	})
}

// Only http.Client follows a redirection. Whoever sends the same request again waits.
func TestTransportRedirectClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript("HTTP/1.1 302 Found\nLocation: /there\n"+`RateLimit: "a";r=0;t=10`, "")
		rt := &Transport{Base: s}
		resp, err := (&http.Client{Transport: rt}).Get(example)
		require.NoError(t, err)
		resp.Body.Close()
		again := resp.Request.Clone(t.Context())
		require.NotNil(t, again.Response)
		s.lines = []string{"", "", `RateLimit: "a";r=0;t=10`, ""}
		require.NoError(t, get(t, rt, example))
		_, err = rt.RoundTrip(again)
		require.NoError(t, err)
		require.Equal(t, seconds(0, 0, 10, 20), s.seen)
	})
}

// Whatever panics, bodies are closed, and the request counts as one without answer.
func TestTransportPanics(t *testing.T) {
	for name, rt := range map[string]*Transport{
		"Key":     {Key: func(*http.Request) string { panic("key") }},
		"Observe": {Observe: func(*http.Request, Advice) { panic("observe") }},
		"Waiting": {Waiting: func(*http.Request, time.Time, Advice) { panic("waiting") }},
		"Advise": {Advisor: Advisor{Legacy: LegacyOptions{Dialects: []*Dialect{{Name: "broken", Fields: []DialectField{
			{Name: "X-Unknown", Read: func([]Fact, string) ([]Fact, bool) { panic("read") }},
		}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers []*closing
				rt.Base = roundTripFunc(func(req *http.Request) (*http.Response, error) {
					if req.Body != nil {
						req.Body.Close()
					}
					resp := answer(req, "Retry-After: 5\nX-Unknown: 1")
					body := &closing{}
					answers, resp.Body = append(answers, body), body
					return resp, nil
				})
				for range 3 {
					req := newRequest(t, example)
					body := &closing{}
					req.Body = body
					resp, ok := (*http.Response)(nil), true
					func() {
						defer func() { ok = recover() == nil }()
						resp, _ = rt.RoundTrip(req)
					}()
					if ok {
						resp.Body.Close()
					}
					require.Equal(t, 1, body.closed)
				}
				for _, body := range answers {
					require.Equal(t, 1, body.closed)
				}
				if e := entryOf(rt, "api.example"); e != nil {
					require.Zero(t, e.machine.under.n)
					require.Zero(t, e.queue.Len())
				}
			})
		})
	}
}

func TestTransportWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []string
		s := newScript(`RateLimit: "a";r=0;t=30`, "Retry-After: 7", "")
		rt := &Transport{Base: s, Waiting: func(req *http.Request, until time.Time, a Advice) {
			require.Zero(t, a.Fields, "nothing of the response is kept")
			waits = append(waits, fmt.Sprint(req.URL.Path, " ", until.Sub(s.start), " ", a.Source))
		}}
		for i := range 4 {
			require.NoError(t, get(t, rt, example+strconv.Itoa(i)))
			if i == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := rt.RoundTrip(httptest.NewRequestWithContext(ctx, "GET", example+"refused", nil))
				require.ErrorAs(t, err, new(*WaitError))
			}
		}
		require.Equal(t, []string{"/1 30s limit", "/2 37s retry-after"}, waits, "a request that is refused does not wait")
	})
}

// The key "" is for requests that nothing holds back: health checks, and streams.
func TestTransportNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		seen := 0
		rt := &Transport{Base: s, Key: func(*http.Request) string { return "" }, Observe: func(*http.Request, Advice) { seen++ }}
		for range 50 {
			require.NoError(t, get(t, rt, example))
		}
		require.Zero(t, time.Since(s.start))
		require.Equal(t, 50, seen, "answers are read all the same")
		require.Empty(t, rt.gate.keys)
	})
}

func TestKeyByAuthorization(t *testing.T) {
	key := func(address string, credentials ...string) string {
		req := newRequest(t, address)
		req.Header["Authorization"] = credentials
		return KeyByAuthorization(req)
	}
	require.Equal(t, "http://api.example", key(example))
	require.Equal(t, key(example, "Bearer a"), key(example+"path?query", "Bearer a"))
	keys := map[string]bool{}
	for _, k := range []string{
		key(example), key(example, "Bearer a"), key(example, "Bearer b"), key(example, "Bearer a", "Bearer b"),
		key("https://api.example/", "Bearer a"), key("http://api.example:8080/", "Bearer a"),
	} {
		require.NotContains(t, k, "Bearer")
		keys[k] = true
	}
	require.Len(t, keys, 6)
}

// Many leave a queue: each leaves from its own place.
func TestTransportQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		rt := &Transport{Base: s}
		require.NoError(t, get(t, rt, example))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
				require.Equal(t, context.Canceled, err)
			})
		}
		synctest.Wait()
		require.Equal(t, 10_000, entryOf(rt, "api.example").queue.Len())
		cancel()
		wg.Wait()
		require.Zero(t, entryOf(rt, "api.example").queue.Len())
	})
}

// A wait that begins wakes only those whose deadlines it misses.
func TestGateWakesNobodyInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		first, err := g.Enter(t.Context(), "k")
		require.NoError(t, err)
		first.Answered(Advisor{}.Advise(shortResponse("a r=1;t=60"), time.Now()), time.Now())
		taken, err := g.Enter(t.Context(), "k")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = g.Enter(ctx, "k") })
		}
		hurried, cancelHurried := context.WithTimeout(t.Context(), time.Minute)
		defer cancelHurried()
		wg.Go(func() {
			_, err := g.Enter(hurried, "k")
			var early *WaitError
			require.ErrorAs(t, err, &early)
		})
		synctest.Wait()
		queue := &g.keys[keyName{rest: "k"}].queue
		var woken []chan struct{}
		for place := queue.Front(); place != nil; place = place.Next() {
			w := place.Value.(*waiter)
			woken = append(woken, w.wake)
			w.wake = make(chan struct{}, 1) // which nobody waits for
		}
		taken.Answered(Advisor{}.Advise(shortResponse("Retry-After: 120"), time.Now()), time.Now())
		n := 0
		for place := queue.Front(); place != nil; place = place.Next() {
			n += len(place.Value.(*waiter).wake)
		}
		require.Equal(t, 1, n, "the first, to look again later")
		require.Equal(t, 100, queue.Len(), "the hurried one is refused")
		require.Len(t, woken, 101)
		for _, wake := range woken { // so that all go on
			wake <- struct{}{}
		}
		cancel()
		wg.Wait()
	})
}

// A Gate by itself, in front of something that is no HTTP.
func TestGate(t *testing.T) {
	wait := Advice{Wait: time.Minute, Source: SourceRetryAfter}
	enter := func(t *testing.T, g *Gate, key string) *Pass {
		t.Helper()
		p, err := g.Enter(t.Context(), key)
		require.NoError(t, err)
		return p
	}
	t.Run("waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var waits []string
			g := Gate{Waiting: func(key string, until time.Time, a Advice) {
				waits = append(waits, fmt.Sprint(key, " ", until.Sub(start), " ", a.Source))
			}}
			enter(t, &g, "a").Answered(wait, time.Now())
			enter(t, &g, "b").Answered(Advice{}, time.Now())
			enter(t, &g, "b").Failed()
			require.Zero(t, time.Since(start))
			enter(t, &g, "a").Failed()
			require.Equal(t, time.Minute, time.Since(start))
			require.Equal(t, []string{"a 1m0s retry-after"}, waits)
		})
	})
	t.Run("a share that is none is all", func(t *testing.T) {
		for share, want := range map[float64]float64{0.5: 0.5, 0: 1, -0.5: 1, 1: 1, 1.5: 1, math.Inf(1): 1, math.NaN(): 1} {
			require.Equal(t, want, (&Gate{Share: share}).settings().share, share)
		}
	})
	t.Run("a second answer says nothing", func(t *testing.T) {
		var g Gate
		p := enter(t, &g, "a")
		p.Answered(Advice{}, time.Now())
		p.Answered(wait, time.Now())
		p.Failed()
		require.Zero(t, g.keys[keyName{rest: "a"}].machine.under.n)
		enter(t, &g, "a").Failed()
	})
	t.Run("a key with callers that wait is not displaced", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			var under []*Pass
			for range firstTrips {
				under = append(under, enter(t, &g, "a"))
			}
			var wg sync.WaitGroup
			wg.Go(func() { enter(t, &g, "a").Failed() })
			synctest.Wait()
			for i := range 2 * maxKeys {
				enter(t, &g, strconv.Itoa(i)).Answered(Advice{}, time.Now())
			}
			require.Contains(t, g.keys, keyName{rest: "a"})
			for _, p := range under {
				p.Answered(Advice{}, time.Now())
			}
			wg.Wait()
		})
	})
	t.Run("no pass", func(t *testing.T) {
		var none *Pass // as of an Enter that failed
		none.Failed()
		none.Answered(wait, time.Now())
		new(Pass).Failed()
		new(Pass).Answered(wait, time.Now())
	})
	t.Run("the received time counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			p := enter(t, &g, "a")
			received := time.Now()
			time.Sleep(59 * time.Second) // the body was long
			p.Answered(wait, received)
			enter(t, &g, "a").Failed()
			require.Equal(t, time.Minute, time.Since(received))
		})
	})
	t.Run("forget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var g Gate
			late := enter(t, &g, "a")
			enter(t, &g, "a").Answered(wait, time.Now())
			var wg sync.WaitGroup
			wg.Go(func() { enter(t, &g, "a").Failed() })
			time.Sleep(time.Second)
			g.Forget("a")
			wg.Wait()
			require.Equal(t, time.Second, time.Since(start), "whoever waits goes")
			late.Answered(wait, time.Now())
			enter(t, &g, "a").Failed()
			require.Equal(t, time.Second, time.Since(start), "an answer from before is not learnt from")
			require.Zero(t, g.keys[keyName{rest: "a"}].machine.under.n)
			g.Forget("never seen")
		})
	})
	says := func(p *Pass, fields string) {
		p.Answered(Advisor{}.Advise(shortResponse(fields), time.Now()), time.Now())
	}
	t.Run("nothing was known of the key for longer than one request took", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			slow := enter(t, &g, "a")
			time.Sleep(idleTime + time.Second)
			next := enter(t, &g, "a")
			slow.Answered(wait, time.Now())
			require.Equal(t, 1, g.keys[keyName{rest: "a"}].machine.under.n)
			next.Failed()
			require.Zero(t, g.keys[keyName{rest: "a"}].machine.under.n)
		})
	})
	t.Run("who need not wait is not told to", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			enter(t, &g, "a").Answered(wait, time.Now())
			start := time.Now()
			var waits []time.Duration
			g.Waiting = func(_ string, until time.Time, _ Advice) {
				waits = append(waits, until.Sub(start))
				time.Sleep(2 * time.Minute) // it should not
			}
			var wg sync.WaitGroup
			wg.Go(func() { enter(t, &g, "a").Failed() })
			time.Sleep(61 * time.Second)
			enter(t, &g, "a").Failed()
			require.Equal(t, 61*time.Second, time.Since(start))
			wg.Wait()
			require.Equal(t, []time.Duration{time.Minute}, waits)
		})
	})
	t.Run("let through, and Waiting panics", func(t *testing.T) {
		var g Gate
		says(enter(t, &g, "a"), "a r=1;t=60")
		under := enter(t, &g, "a")
		g.Waiting = func(string, time.Time, Advice) {
			says(under, "a r=9;t=60")
			panic("waiting")
		}
		require.Panics(t, func() { _, _ = g.Enter(t.Context(), "a") })
		require.Zero(t, g.keys[keyName{rest: "a"}].machine.under.n)
	})
	t.Run("cancelled, while an answer waits for the lock", func(t *testing.T) {
		begun := make(chan struct{})
		g := Gate{Waiting: func(string, time.Time, Advice) { close(begun) }}
		says(enter(t, &g, "a"), "a r=1;t=60")
		under := enter(t, &g, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if p, err := g.Enter(ctx, "a"); err == nil {
				p.Failed()
			}
		})
		<-begun
		pause := func() { time.Sleep(5 * time.Millisecond) }
		g.mu.Lock()
		cancel()
		pause()
		wg.Go(func() { says(under, "a r=9;t=60") })
		pause()
		g.mu.Unlock()
		g.mu.Lock() // whoever has waited for a millisecond now gets the lock in turn
		pause()
		g.mu.Unlock()
		wg.Wait()
		require.Zero(t, g.keys[keyName{rest: "a"}].machine.under.n)
	})
	t.Run("no key", func(t *testing.T) {
		var g Gate
		enter(t, &g, "").Answered(wait, time.Now())
		enter(t, &g, "").Failed()
		require.Empty(t, g.keys)
	})
	t.Run("the context has ended", func(t *testing.T) {
		var g Gate
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := g.Enter(ctx, "a")
		require.Equal(t, context.Canceled, err)
	})
}

// Pace refuses no request, however many are ahead of it.
func TestTransportPaceDeadlines(t *testing.T) {
	for _, tc := range []struct {
		name      string
		deadlines []int // in seconds, of requests that come at the same time, one after the other
		want      []int // when each is sent, in seconds
	}{
		{"none is in a hurry", []int{30, 30, 30}, []int{3, 6, 9}},
		{"one behind two others", []int{30, 30, 8, 30}, []int{0, 3, 6, 9}},
		{"all are", []int{1, 1, 1}, []int{0, 0, 0}},
		{"no more than remain", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 25}, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(`RateLimit: "a";r=10;t=30`, "")
				rt := &Transport{Base: s, Pace: true}
				require.NoError(t, get(t, rt, example))
				s.seen, s.lines = nil, []string{""}
				var wg sync.WaitGroup
				for _, d := range tc.deadlines {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(d)*time.Second)
					defer cancel()
					wg.Go(func() { _, _ = rt.RoundTrip(newRequest(t, example).WithContext(ctx)) })
					synctest.Wait()
				}
				wg.Wait()
				require.Equal(t, seconds(tc.want...), s.seen)
			})
		})
	}
	t.Run("a pace that becomes slower", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(`RateLimit: "a";r=10;t=10`, `RateLimit: "a";r=10;t=100`)
			rt := &Transport{Base: s, Pace: true}
			require.NoError(t, get(t, rt, example))
			var wg sync.WaitGroup
			for range 4 {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				wg.Go(func() {
					_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
					require.NoError(t, err)
				})
			}
			wg.Wait()
			require.Equal(t, seconds(0, 1, 11, 11, 11), s.seen)
		})
	})
}
