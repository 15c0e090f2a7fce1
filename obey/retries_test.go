package obey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// TestTransportRetries checks which refused requests are sent again.
func TestTransportRetries(t *testing.T) {
	const (
		tooMany     = "HTTP/1.1 429 Too Many Requests\nRetry-After: 5"
		unavailable = "HTTP/1.1 503 Service Unavailable\nRetry-After: 5"
		forbidden   = "HTTP/1.1 403 Forbidden\nRetry-After: 5"
		failed      = "HTTP/1.1 500 Internal Server Error\nRetry-After: 5"
	)
	cancelled := errors.New("cancelled")
	for _, tc := range []struct {
		name, method, body string
		header             http.Header
		answers            []string
		retries            int
		once               bool          // the body has no GetBody
		empty              bool          // the body is http.NoBody, without GetBody
		noKey              bool          // the key is ""
		reports            time.Duration // what Advisor.Refused reports of a 503
		limit, cancel      time.Duration // of the request
		status             int           // of the response; 0 is an error
		err                error
		want               []time.Duration
	}{
		{name: "POST after 429", method: "POST", body: "x", answers: []string{tooMany, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "POST after 403", method: "POST", body: "x", answers: []string{forbidden, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "GET after 503", method: "GET", answers: []string{unavailable, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "POST after 503", method: "POST", body: "x", answers: []string{unavailable, ""}, retries: 1, status: 503, want: seconds(0)},
		{name: "POST after 503, idempotent", method: "POST", body: "x", header: http.Header{"Idempotency-Key": {"1"}},
			answers: []string{unavailable, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "POST after 503, X-Idempotency-Key", method: "POST", body: "x", header: http.Header{"X-Idempotency-Key": {"1"}},
			answers: []string{unavailable, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "POST after 503 whose wait Advisor.Refused reports", method: "POST", body: "x", reports: 3 * time.Second,
			answers: []string{"HTTP/1.1 503 Service Unavailable", ""}, retries: 1, status: 200, want: seconds(0, 3)},
		{name: "an empty body needs no GetBody", method: "POST", empty: true, answers: []string{tooMany, ""}, retries: 1, status: 200, want: seconds(0, 5)},
		{name: "no key", method: "GET", noKey: true, answers: []string{tooMany, ""}, retries: 1, status: 429, want: seconds(0)},
		{name: "no GetBody", method: "POST", body: "x", once: true, answers: []string{tooMany, ""}, retries: 1, status: 429, want: seconds(0)},
		{name: "no refusal", method: "GET", answers: []string{failed, ""}, retries: 1, status: 500, want: seconds(0)},
		{name: "never", method: "GET", answers: []string{tooMany, ""}, status: 429, want: seconds(0)},
		{name: "used up", method: "POST", body: "x", answers: []string{tooMany}, retries: 2, status: 429, want: seconds(0, 5, 10)},
		{name: "the deadline is too close", method: "POST", body: "x", answers: []string{tooMany}, retries: 2, limit: 4 * time.Second, status: 429, want: seconds(0)},
		{name: "cancelled while it waits", method: "POST", body: "x", answers: []string{tooMany}, retries: 2, cancel: 2 * time.Second, err: cancelled, want: seconds(0)},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			s := newScript(tc.answers...)
			var costs, waits, observed int
			var bodies []*trial.Closing
			rt := &Transport{
				MaxRetries: tc.retries,
				Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
					if req.Body != nil {
						sent, err := io.ReadAll(req.Body)
						require.NoError(t, err)
						require.Equal(t, tc.body, string(sent))
						req.Body.Close()
					}
					resp, err := s.RoundTrip(req)
					body := &trial.Closing{Reader: strings.NewReader("why")}
					bodies, resp.Body = append(bodies, body), body
					return resp, err
				}),
				Cost:    func(*http.Request) []Cost { costs++; return nil },
				Waiting: func(*http.Request, Wait) func() { waits++; return nil },
				Observe: func(*http.Request, ratelimit.Advice) { observed++ },
				Advisor: ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
					return tc.reports, tc.reports > 0 && resp.StatusCode == http.StatusServiceUnavailable
				}},
			}
			if tc.noKey {
				rt.Key = func(*http.Request) string { return "" }
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.limit > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, tc.limit)
				defer stop()
			}
			if tc.cancel > 0 {
				time.AfterFunc(tc.cancel, func() { cancel(cancelled) })
			}
			var body io.Reader
			if tc.body != "" {
				body = strings.NewReader(tc.body)
			}
			if tc.once {
				body = io.MultiReader(body)
			}
			req, err := http.NewRequestWithContext(ctx, tc.method, trial.Example, body)
			require.NoError(t, err)
			for name, lines := range tc.header {
				req.Header[name] = lines
			}
			if tc.empty {
				req.Body = http.NoBody
			}
			resp, err := rt.RoundTrip(req)
			require.Equal(t, tc.want, s.seen)
			require.Equal(t, 1, costs)
			require.LessOrEqual(t, len(tc.want)-1, waits)
			if tc.status == 0 {
				require.ErrorIs(t, err, tc.err)
				require.Equal(t, 1, bodies[0].Closed)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			require.Same(t, req, resp.Request)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "why", string(text))
			resp.Body.Close()
			for _, b := range bodies {
				require.Equal(t, 1, b.Closed)
			}
			if tc.status != 500 {
				require.GreaterOrEqual(t, observed, len(tc.want)-1)
			}
		})
	}
}

// A request is not sent again if the Gate has no room for its key, because nothing would delay it.
func TestTransportRetriesNoRoom(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		before, under, forget bool // when another key gets the only place, and whether it is forgotten
	}{
		{name: "before it was sent", before: true},
		{name: "while it was under way", under: true},
		{name: "before it was sent, and then there is room", before: true, forget: true},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			tries, gate := 0, &Gate{MaxKeys: 1}
			other := func() { entered(t, gate, "other", "429; Retry-After: 60") }
			rt := &Transport{MaxRetries: 3, Gate: gate, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				if tries++; tc.under {
					other()
				}
				if tc.forget {
					gate.Forget("other")
				}
				return answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 60"), nil
			})}
			if tc.before {
				other()
			}
			resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, 1, tries)
		})
	}
}

// If a refusal carries a Retry-After of 0, which servers write that cut a part of a second off, the
// request is sent again when the limit allows it.
func TestTransportRetryAfterOfZero(t *testing.T) {
	for _, tc := range []struct {
		name, refusal string // %d is the seconds left
		free          time.Duration
	}{
		{"a limit", "RateLimit: \"a\";r=0;t=%d", 30 * time.Second},
		{"an older limit", "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: %d", 30 * time.Second},
		{"a limit without units, and a limit with some", "RateLimit: \"a\";r=0;t=%d, \"b\";r=7;t=90", 30 * time.Second},
		{"Traefik's wait", "X-Retry-In: 105.712425ms", 105_712_425},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			start, sent := time.Now(), 0
			rt := &Transport{MaxRetries: 1000, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				sent++
				left := tc.free - time.Since(start)
				if left <= 0 {
					return answer(req, ""), nil
				}
				refusal := strings.ReplaceAll(tc.refusal, "%d", fmt.Sprint(int(left.Seconds())))
				return answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 0\n"+refusal), nil
			})}
			require.NoError(t, get(t, rt, trial.Example))
			require.Equal(t, tc.free, time.Since(start))
			require.Equal(t, 2, sent)
		})
	}
}

// If the deadline has a cause of the caller's own, and comes in a wait of unknown length, the refusal
// is returned too.
func TestTransportRetriesDeadlineCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{MaxRetries: 1, Base: newScript("HTTP/1.1 429 Too Many Requests\nRetry-After: 0")}
		pass, _ := rt.gate().TryEnter("http://api.example") // hangs
		defer pass.Failed()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errCutOff)
		defer cancel()
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx))
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	})
}

// A request that followed a redirection and was refused waits behind the others.
func TestTransportRetriesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var seen []string
		var mu sync.Mutex
		rt := &Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			seen = append(seen, fmt.Sprint(time.Since(start), " ", req.URL.Path))
			n := len(seen)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			switch n {
			case 1:
				return answer(req, "HTTP/1.1 307 Temporary Redirect\nLocation: /new\nRateLimit: \"a\";r=1;t=60"), nil
			case 2:
				return answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 5"), nil
			}
			return answer(req, ""), nil
		})}
		var all sync.WaitGroup
		all.Go(func() {
			resp, err := (&http.Client{Transport: rt}).Do(trial.NewRequest(t, trial.Example+"old"))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
		})
		time.Sleep(150 * time.Millisecond)
		all.Go(func() { require.NoError(t, get(t, rt, trial.Example+"other")) })
		all.Wait()
		require.Equal(t, []string{"0s /old", "100ms /new", "5.2s /other", "5.3s /new"}, seen)
	})
}

// If Base sends another request than it was given, the response names that request, after a
// retry too.
func TestTransportRetriesOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := newScript("HTTP/1.1 429 Too Many Requests\nRetry-After: 5", ""), trial.NewRequest(t, trial.Example+"signed")
		rt := &Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) { return s.RoundTrip(other) })}
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		require.Same(t, other, resp.Request)
		require.Equal(t, seconds(0, 5), s.seen)
	})
}

// The body of a retry is opened when the retry is sent: it may be a file, and waits may be long.
func TestTransportRetriesOpen(t *testing.T) {
	trial.InBubble(t, "", func(t *testing.T) {
		gate := &Gate{}
		fails := errors.New("no such file")
		var opened []time.Duration
		for _, end := range []func() (io.ReadCloser, error){
			func() (io.ReadCloser, error) { return http.NoBody, nil },
			func() (io.ReadCloser, error) { return nil, fails },
			func() (io.ReadCloser, error) { panic("broken") },
		} {
			rt := &Transport{MaxRetries: 1, Base: newScript("HTTP/1.1 429 Too Many Requests\nRetry-After: 60", ""), Gate: gate}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, trial.Example, strings.NewReader("x"))
			require.NoError(t, err)
			start := time.Now()
			req.GetBody = func() (io.ReadCloser, error) {
				opened = append(opened, time.Since(start))
				return end()
			}
			func() {
				defer func() { _ = recover() }()
				_, err = rt.RoundTrip(req)
				require.NoError(t, err, "the retry is served, or the refusal is returned")
			}()
			for key := range gate.Keys() {
				w, _ := gate.State(key)
				require.Zero(t, w.UnderWay)
			}
			time.Sleep(time.Hour)
		}
		require.Equal(t, seconds(60, 60, 60), opened)
	})
}

// The first 64 KiB of a long refusal are kept, and reading beyond them fails.
func TestKeepBody(t *testing.T) {
	for size, cut := range map[int]bool{0: false, mostKept: false, mostKept + 1: true} {
		body := &trial.Closing{Reader: strings.NewReader(strings.Repeat("x", size))}
		resp := &http.Response{Body: body}
		keepBody(resp)
		require.Equal(t, 1, body.Closed)
		text, err := io.ReadAll(resp.Body)
		require.Equal(t, min(size, mostKept), len(text))
		require.Equal(t, cut, err == io.ErrUnexpectedEOF)
	}
	resp := &http.Response{Body: io.NopCloser(iotest.ErrReader(errCutOff))}
	keepBody(resp)
	_, err := io.ReadAll(resp.Body)
	require.Equal(t, errCutOff, err)
	keepBody(&http.Response{})
	trial.InBubble(t, "the body does not come", func(t *testing.T) {
		slow, server := io.Pipe()
		go func() { _, _ = server.Write([]byte("why")) }()
		resp := &http.Response{Body: slow}
		start := time.Now()
		keepBody(resp)
		require.Equal(t, longestRead, time.Since(start))
		text, err := io.ReadAll(resp.Body)
		require.Equal(t, "why", string(text))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
	trial.InBubble(t, "the body cannot be closed while it is read", func(t *testing.T) {
		slow, server := io.Pipe()
		resp := &http.Response{Body: &lockedBody{lock: make(chan struct{}, 1), body: slow}}
		start := time.Now()
		keepBody(resp)
		require.Equal(t, longestRead, time.Since(start))
		server.Close() // the connection ends
		_, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// A request is sent again after the wait although the body of its refusal can be neither read
// nor closed.
func TestTransportRetriesStuckBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, server := io.Pipe()
		tries := 0
		rt := Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			if tries++; tries > 1 {
				return answer(req, ""), nil
			}
			resp := answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 5")
			resp.Body = &lockedBody{lock: make(chan struct{}, 1), body: stuck}
			return resp, nil
		})}
		req, err := http.NewRequest(http.MethodGet, "https://api.example", nil)
		require.NoError(t, err)
		start := time.Now()
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.NoError(t, server.Close())
	})
}

// A body is wrapped only while the number of requests under way may matter. If no such limit
// is known, that is for the first ten requests of a key.
func TestTransportLeavesBodies(t *testing.T) {
	rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, "")
		resp.Body = &trial.Closing{}
		return resp, nil
	})}
	for i := range 12 {
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		_, tracked := resp.Body.(*answerBody)
		require.Equal(t, i < 10, tracked, i)
		require.NoError(t, resp.Body.Close())
	}
}

// If the body of a refusal panics, so does RoundTrip, in the goroutine of its caller, and the
// request is no longer under way. A panic after the second for which the body is read is lost.
func TestTransportRetriesBodyPanics(t *testing.T) {
	for _, tc := range []struct {
		name     string
		body     panicking
		panicked any
	}{
		{"Read", panicking{read: "read"}, "read"},
		{"Read, as a server aborts", panicking{read: http.ErrAbortHandler}, http.ErrAbortHandler},
		{"Read, after three seconds", panicking{read: "read", slow: 3 * time.Second}, nil},
		{"Close", panicking{close: "close"}, "close"},
		{"Close, while Read takes three seconds", panicking{close: "close", slow: 3 * time.Second}, nil},
		{"both", panicking{read: "read", close: "close"}, "close"},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			tries := 0
			rt := &Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				if tries++; tries > 1 {
					return answer(req, ""), nil
				}
				resp := answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 5")
				resp.Body = &tc.body
				return resp, nil
			})}
			func() {
				defer func() { require.Equal(t, tc.panicked, recover()) }()
				resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, 1, tc.body.closed)
			require.Zero(t, entryOf(rt, "api.example").machine.UnderWay())
			require.NoError(t, get(t, rt, trial.Example))
		})
	}
}

// A panicking body panics in Read, after some time, and in Close, if these are set.
type panicking struct {
	read, close any
	slow        time.Duration
	closed      int
}

func (b *panicking) Read([]byte) (int, error) {
	time.Sleep(b.slow)
	if b.read != nil {
		panic(b.read)
	}
	return 0, io.EOF
}

func (b *panicking) Close() error {
	b.closed++
	if b.close != nil {
		panic(b.close)
	}
	return nil
}

// A lockedBody is closed after the Read that is under way, like a compressed body of net/http.
// Its lock is a channel, because virtual time stands still while a goroutine waits for a Mutex.
type lockedBody struct {
	lock chan struct{}
	body io.ReadCloser
}

func (b *lockedBody) Read(p []byte) (int, error) {
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	return b.body.Read(p)
}

func (b *lockedBody) Close() error {
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	return b.body.Close()
}

var errCutOff = errors.New("cut off")

// Retries over real connections: a POST, its redirection and its refusal, over HTTP/1.1 and HTTP/2.
func TestTransportRetriesServer(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprint(h2), func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r.Method+" "+r.URL.Path+" "+string(body))
				switch {
				case r.URL.Path == "/":
					http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
				case len(got) == 2:
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}))
			server.EnableHTTP2 = h2
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Transport = &Transport{Base: client.Transport, MaxRetries: 1}
			resp, err := client.Post(server.URL, "text/plain", strings.NewReader("x"))
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, []string{"POST / x", "POST /there x", "POST /there x"}, got)
			require.Equal(t, h2, resp.ProtoMajor == 2)
		})
	}
}

// fiveSlots serves five requests at a time, each until its body has been read.
type fiveSlots struct {
	mu            sync.Mutex
	used, refused int
}

func (s *fiveSlots) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	ok := s.used < 5
	if ok {
		s.used++
	} else {
		s.refused++
	}
	s.mu.Unlock()
	if !ok { // faster than any other response, so that the order is certain
		time.Sleep(40 * time.Millisecond)
		return answer(req, "HTTP/1.1 429 Too Many Requests"), nil
	}
	time.Sleep(50 * time.Millisecond)
	resp := answer(req, "")
	resp.Body = slotBody{s}
	return resp, nil
}

type slotBody struct{ s *fiveSlots }

func (b slotBody) Read([]byte) (int, error) {
	time.Sleep(2 * time.Second)
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.used--
	return 0, io.EOF
}

func (b slotBody) Close() error { return nil }

// If a server serves few requests at a time, a request is in flight until its body ends.
func TestTransportBodies(t *testing.T) {
	trial.InBubble(t, "five at a time", func(t *testing.T) {
		s, start := &fiveSlots{}, time.Now()
		rt := &Transport{Base: s, MaxRetries: 1000}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				for range 5 {
					resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, err)
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		t.Log(time.Since(start), s.refused)
		require.LessOrEqual(t, s.refused, 10)
		require.Zero(t, entryOf(rt, "api.example").machine.UnderWay())
	})
	for name, body := range map[string]io.ReadCloser{"101": &trial.Closing{Reader: strings.NewReader("")}, "no body": http.NoBody, "nil": nil} {
		trial.InBubble(t, name, func(t *testing.T) {
			rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				resp := answer(req, "")
				if resp.Body = body; name == "101" {
					resp.StatusCode = http.StatusSwitchingProtocols
				}
				return resp, nil
			})}
			resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			require.Equal(t, body, resp.Body)
			require.Zero(t, entryOf(rt, "api.example").machine.UnderWay())
		})
	}
	trial.InBubble(t, "never closed", func(t *testing.T) {
		s := newScript("HTTP/1.1 429 Too Many Requests", "")
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(req)
			resp.Body = &trial.Closing{Reader: strings.NewReader("x")}
			return resp, err
		})}
		for range 3 {
			require.NoError(t, get(t, rt, trial.Example))
		}
		require.InDelta(t, 32, (s.seen[2] - s.seen[1]).Seconds(), 0.2, "it counts as hanging")
	})
	trial.InBubble(t, "read in part", func(t *testing.T) {
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, "")
			resp.Body = &trial.Closing{Reader: strings.NewReader("xy")}
			return resp, nil
		})}
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		for _, want := range []int{1, 1, 0} {
			_, _ = resp.Body.Read(make([]byte, 1))
			require.Equal(t, want, entryOf(rt, "api.example").machine.UnderWay())
		}
	})
	trial.InBubble(t, "forgotten meanwhile", func(t *testing.T) {
		rt := &Transport{Base: &fiveSlots{}}
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		rt.gate().Forget("http://api.example")
		resp.Body.Close()
		resp.Body.Close()
		require.Zero(t, entryOf(rt, "api.example").machine.UnderWay())
	})
}

// A refusal without a body is returned without one.
func TestTransportRetriesNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: trial.Wire("Retry-After: 60"), Body: http.NoBody, Request: req}, nil
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx))
		require.NoError(t, err)
		require.Equal(t, http.NoBody, resp.Body)
	})
}
