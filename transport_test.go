package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
func entryOf(t *Transport, host string) *entry { return t.gate().keys[keyName{"http", host}] }

func seconds(list ...int) (all []time.Duration) {
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
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
		{"the server moves to the next draft", &Transport{}, []string{`RateLimit: "d";r=9;t=30`, `RateLimit: "d";a=1;w=30`, ""}, seconds(0, 0, 0, 30, 30)},
		{"the server moves to the next draft, whose names are Tokens", &Transport{},
			[]string{`RateLimit: "d";r=2;t=30`, "RateLimit-Policy: d;q=100;w=60\nRateLimit: d;a=0;w=50", ""}, seconds(0, 0, 50, 50)},
		{"the server moves to the next draft, and its names to another case", &Transport{},
			[]string{`RateLimit: "Day";r=5;t=30`, `RateLimit: day;a=1;w=40`, ""}, seconds(0, 0, 0, 40, 40)},
		{"the server moves to the next draft, and back", &Transport{},
			[]string{`RateLimit: "d";r=9;t=30`, `RateLimit: d;a=0;w=20`, `RateLimit: "d";r=1;t=30`, ""}, seconds(0, 0, 20, 20, 50, 50)},
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
		{"paced", &Transport{Gate: &Gate{Pace: true}}, []string{`RateLimit: "a";r=10;t=30`}, seconds(0, 3, 6)},
		{"paced, then silence", &Transport{Gate: &Gate{Pace: true}}, []string{`RateLimit: "a";r=3;t=30`, ""}, seconds(0, 10, 20, 30, 30)},
		{"not paced", &Transport{}, []string{`RateLimit: "a";r=10;t=30`}, seconds(0, 0, 0)},
		{"paced no slower than the longest wait", &Transport{Gate: &Gate{Pace: true}}, []string{`RateLimit: "a";r=1;t=999999999999999`}, seconds(0, 600, 1200)},
		{"a failed request may have been served", &Transport{}, []string{`RateLimit: "a";r=2;t=30`, "fail", ""}, seconds(0, 0, 0, 30, 30)},
		{"a failed probe has learnt nothing", &Transport{}, []string{`RateLimit: "a";r=0;t=30`, "fail", `RateLimit: "a";r=0;t=5`}, seconds(0, 30, 30, 35)},
		{"the first fails", &Transport{}, []string{"fail", "fail", ""}, seconds(0, 0, 0, 0)},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			s := newScript(tc.lines...)
			tc.t.Base = s
			for range tc.want {
				_ = get(t, tc.t, example)
			}
			require.Equal(t, tc.want, s.seen)
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

// Requests that come at the same time, of which nothing is known, or the answers to others
// that came before, one by one.
func TestTransportConcurrent(t *testing.T) {
	ten := make([]int, firstTrips)
	unheard := "HTTP/1.1 500 Internal Server Error"
	for _, tc := range []struct {
		name  string
		t     *Transport
		known []string      // the answers to requests before
		pause time.Duration // after them
		lines []string
		delay int // of each answer
		want  []time.Duration
	}{
		{"ten go at once, the others with the first answer", &Transport{}, nil, 0, []string{""}, 100, times(append(ten, 100, 100)...)},
		{"any answer", &Transport{}, nil, 0, []string{unheard}, 100, times(append(ten, 100, 100)...)},
		{"no answer is waited for longer than half a second", &Transport{}, nil, 0, []string{""}, 3600e3, times(append(ten, 500, 500)...)},
		{"a failure is as good as an answer", &Transport{}, nil, 0, []string{"fail"}, 300, times(append(ten, 300, 300)...)},
		{"a share of the ten", &Transport{Gate: &Gate{Share: 0.25}}, nil, 0, []string{""}, 100, times(0, 0, 100, 100)},
		{"at least one", &Transport{Gate: &Gate{Share: 0.01}}, nil, 0, []string{""}, 100, times(0, 100, 100)},
		{"the first answer asks for a wait", &Transport{}, nil, 0, []string{"Retry-After: 30"}, 100, times(append(ten, 30100, 30100)...)},
		{"the probe goes alone", &Transport{}, []string{`RateLimit: "a";r=0;t=30`}, 0, []string{`RateLimit: "a";r=2;t=30`, ""}, 500,
			times(30000, 30500, 30500, 60500, 61000)},
		{"the probe fails, another goes", &Transport{}, []string{`RateLimit: "a";r=0;t=10`}, 0, []string{"fail", ""}, 400, times(10000, 10400, 10800, 10800, 10800)},
		{"the probe hangs, two more go after a second", &Transport{}, []string{`RateLimit: "a";r=0;t=10`}, 0, []string{"hang"}, 0,
			times(10000, 11000, 11000, 12000, 12000, 12000, 12000, 13000)},
		{"the probe hangs, one of the others is answered", &Transport{}, []string{`RateLimit: "a";r=0;t=10`}, 0, []string{"hang", ""}, 500,
			times(10000, 11000, 11000, 11500, 11500, 11500)},
		{"no end is known, and no answer comes", &Transport{}, []string{`RateLimit: "a";r=1`}, 0, []string{"hang"}, 0, times(0, 1000, 2000, 2000, 3000)},
		{"the window ends, and no answer comes", &Transport{}, []string{`RateLimit: "a";r=1;t=30`}, 0, []string{"hang", ""}, 0, times(0, 30000, 30000)},
		{"those under way count", &Transport{}, []string{`RateLimit: "a";r=2;t=30`}, 0, []string{""}, 500, times(0, 0, 30000, 30500, 30500)},
		{"those that are older than the window do not", &Transport{}, []string{`RateLimit: "a";r=2;t=30`}, 0, []string{`RateLimit: "a";r=2;t=1`}, 3000,
			times(0, 0, 3000, 3000, 4000)},
		{"paced", &Transport{Gate: &Gate{Pace: true}}, []string{`RateLimit: "a";r=10;t=30`}, 0, []string{`RateLimit: "a";r=10;t=30`}, 0, times(3000, 6000, 9000, 12000)},
		{"a share of what remains", &Transport{Gate: &Gate{Share: 0.5}}, []string{`RateLimit: "a";r=4;t=30`}, 0, []string{""}, 500, times(0, 0, 30000, 30500)},

		{"a probe where nothing remained", &Transport{}, []string{"", `RateLimit: "a";r=0;t=10`}, 11 * time.Second, []string{""}, 100, times(0, 100, 100)},
		{"a probe where all has been sent", &Transport{}, []string{"", `RateLimit: "a";r=1;t=10`, ""}, 11 * time.Second, []string{""}, 100, times(0, 100, 100)},
		{"one at a time after a refusal that no answer explains", &Transport{}, []string{"", "HTTP/1.1 429 Too Many Requests\nRetry-After: 10"}, 11 * time.Second,
			[]string{""}, 100, times(0, 100, 200)},
		{"no probe where something remained", &Transport{}, []string{"", `RateLimit: "a";r=5;t=10`}, 11 * time.Second, []string{""}, 100, times(0, 0, 0)},
		{"no probe after a Retry-After that refused nothing", &Transport{}, []string{"", "Retry-After: 10"}, 11 * time.Second, []string{""}, 100, times(0, 0, 0)},
		{"no probe for what says nothing", &Transport{}, []string{"", `RateLimit: "a";r=5;t=0`}, 0, []string{""}, 100, times(0, 0, 0)},
		{"no probe within the window", &Transport{}, []string{"", `RateLimit: "a";r=5;t=10`}, time.Second, []string{""}, 100, times(0, 0, 0)},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			s := newScript(tc.known...)
			tc.t.Base = s
			for range tc.known {
				require.NoError(t, get(t, tc.t, example))
			}
			time.Sleep(tc.pause)
			s.start, s.lines, s.delay, s.seen = time.Now(), tc.lines, time.Duration(tc.delay)*time.Millisecond, nil
			var wg sync.WaitGroup
			for range tc.want {
				wg.Go(func() { _ = get(t, tc.t, example) })
			}
			wg.Wait()
			require.Equal(t, tc.want, s.seen)
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
		{"before the pace allows", &Transport{Gate: &Gate{Pace: true}}, `RateLimit: "a";r=10;t=30`, time.Second, false, 0},
		{"before Retry-After", &Transport{}, "Retry-After: 60", 59 * time.Second, true, time.Minute},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
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
			require.Contains(t, refused.Error(), "2000-01-01T00:0")
			require.Equal(t, strings.Contains(tc.lines, "RateLimit"), strings.Contains(refused.Error(), `limit "a"`))
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
		require.Zero(t, entryOf(rt, "api.example").queue.n)

		// A deadline that nothing was known to be before.
		s.lines, s.delay, s.seen = []string{`RateLimit: "a";r=1;t=60`, ""}, 30*time.Second, nil
		require.NoError(t, get(t, rt, example))
		start := time.Now()
		wg.Go(func() { require.NoError(t, get(t, rt, example)) })
		synctest.Wait() // nothing is left now
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		var early *WaitError
		require.ErrorAs(t, err, &early)
		require.Equal(t, time.Minute, early.Until.Sub(start))
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
	require.Empty(t, rt.gate().keys)
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
		require.Zero(t, entryOf(rt, "api.example").queue.n)

		rt = &Transport{Base: newScript("HTTP/1.1 303 See Other\nLocation: /a\nRetry-After: 30")}
		redirection, err := rt.RoundTrip(newRequest(t, example))
		require.NoError(t, err)
		start, again := time.Now(), make(chan struct{})
		req = newRequest(t, example)
		req.Response = redirection
		req.Cancel = again //lint:ignore SA1019 net/http still obeys it
		time.AfterFunc(time.Second, func() { close(again) })
		_, err = rt.RoundTrip(req)
		require.Equal(t, errCancelled, err, "the wait of a redirection")
		require.Equal(t, time.Second, time.Since(start))
	})
}

// Whatever panics, bodies are closed, and the request counts as one without answer.
func TestTransportPanics(t *testing.T) {
	for name, rt := range map[string]*Transport{
		"Key":     {Key: func(*http.Request) string { panic("key") }},
		"Observe": {Observe: func(*http.Request, Advice) { panic("observe") }},
		"Waiting": {Waiting: func(*http.Request, time.Time, Advice) func() { panic("waiting") }},
		"Advise": {Advisor: Advisor{Legacy: LegacyOptions{Dialects: []*Dialect{{Name: "broken", Fields: []DialectField{
			{Name: "X-Unknown", Read: func([]Fact, string) ([]Fact, bool) { panic("read") }},
		}}}}}},
	} {
		inBubble(t, name, func(t *testing.T) {
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
				require.Zero(t, e.queue.n)
			}
		})
	}
}

func TestTransportWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []string
		s := newScript(`RateLimit: "a";r=0;t=30`, "Retry-After: 7", "")
		rt := &Transport{Base: s, Waiting: func(req *http.Request, until time.Time, a Advice) func() {
			require.Zero(t, a.Fields, "nothing of the response is kept")
			waits = append(waits, fmt.Sprint(req.URL.Path, " ", until.Sub(s.start), " ", a.Source))
			return nil
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
		require.Equal(t, []string{"/refused 30s limit", "/1 30s limit", "/2 37s retry-after"}, waits)
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
		require.Empty(t, rt.gate().keys)
	})
}

// KeyBy keeps the origin, and tells apart what the fields tell apart.
func TestKeyBy(t *testing.T) {
	key := func(address string, fields ...string) string {
		req := newRequest(t, address)
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			req.Header.Add(name, value)
		}
		return KeyBy("authorization", "X-API-Key")(req)
	}
	require.Equal(t, "http://api.example", key(example))
	require.Equal(t, "http://api.example", KeyBy()(newRequest(t, example)))
	require.Equal(t, key(example, "Authorization: Bearer a"), key(example+"path?query", "Authorization: Bearer a"))
	keys := map[string]bool{}
	for _, k := range []string{
		key(example), key(example, "Authorization: Bearer a"), key(example, "Authorization: Bearer b"),
		key(example, "Authorization: Bearer a", "Authorization: Bearer b"), key(example, "X-Api-Key: Bearer a"),
		key(example, "Authorization: Bearer a", "X-Api-Key: x"), key(example, "Authorization: Bearer a", "X-Api-Key: y"),
		key("https://api.example/", "Authorization: Bearer a"), key("http://api.example:8080/", "Authorization: Bearer a"),
	} {
		require.NotContains(t, k, "Bearer")
		keys[k] = true
	}
	require.Len(t, keys, 9)
}

// Many leave a queue: each leaves from its own place.
func TestTransportQueue(t *testing.T) {
	t.Parallel()
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
		require.Equal(t, 10_000, entryOf(rt, "api.example").queue.n)
		cancel()
		wg.Wait()
		require.Zero(t, entryOf(rt, "api.example").queue.n)
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
		inBubble(t, tc.name, func(t *testing.T) {
			s := newScript(`RateLimit: "a";r=10;t=30`, "")
			rt := &Transport{Base: s, Gate: &Gate{Pace: true}}
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
	}
	inBubble(t, "a pace that becomes slower", func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=10;t=10`, `RateLimit: "a";r=10;t=100`)
		rt := &Transport{Base: s, Gate: &Gate{Pace: true}}
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
}
