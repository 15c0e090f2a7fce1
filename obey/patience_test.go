package obey

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
)

// A refusing server refuses the first requests with a header, and then serves. It counts the bodies
// of refusals that are open.
type refusing struct {
	refusals int
	header   http.Header
	status   int
	sent     []time.Duration // when requests arrived, from began
	began    time.Time
	open     int
}

func (s *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	s.sent = append(s.sent, time.Since(s.began))
	if len(s.sent) > s.refusals {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	}
	s.open++
	return &http.Response{StatusCode: s.status, Header: s.header.Clone(), Body: &countedBody{Reader: strings.NewReader("no"), server: s}}, nil
}

type countedBody struct {
	io.Reader
	server *refusing
	closed bool
}

func (b *countedBody) Close() error {
	if !b.closed {
		b.closed = true
		b.server.open--
	}
	return nil
}

// Patience bounds the waits of a request, retries included. A refusal that would be sent again too
// late is returned at once.
func TestTransportPatience(t *testing.T) {
	const patience = 2 * time.Minute
	for _, tc := range []struct {
		name     string
		retry    int // Retry-After, in seconds
		retries  int
		refusals int
		deadline time.Duration // of the context; 0 is none
		status   int           // 0 is a WaitError
		took     time.Duration
		sent     int
	}{
		{"a wait that is short enough", 30, 3, 1, 0, 200, 30 * time.Second, 2},
		{"exactly as long", 120, 3, 1, 0, 200, 2 * time.Minute, 2},
		{"a wait that is too long", 130, 3, 1, 0, 429, 0, 1},
		{"two hours", 7200, 3, 9, 0, 429, 0, 1},
		{"three days", 277403, 3, 9, 0, 429, 0, 1},
		{"two waits that are too long together", 70, 3, 2, 0, 429, 70 * time.Second, 2},
		{"three waits that are short enough together", 40, 3, 3, 0, 200, 2 * time.Minute, 4},
		{"without retries", 130, 0, 1, 0, 429, 0, 1},
		{"a deadline that is shorter", 60, 3, 1, 30 * time.Second, 429, 0, 1},
		{"a deadline that is longer", 130, 3, 1, time.Hour, 429, 0, 1},
		{"a deadline that is longer, and a short wait", 30, 3, 1, time.Hour, 200, 30 * time.Second, 2},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			server := &refusing{refusals: tc.refusals, status: 429, header: http.Header{"Retry-After": {strconv.Itoa(tc.retry)}}, began: time.Now()}
			rt := &Transport{Base: server, MaxRetries: tc.retries, Patience: patience}
			req := trial.NewRequest(t, trial.Example)
			if tc.deadline > 0 {
				ctx, cancel := context.WithTimeout(req.Context(), tc.deadline)
				defer cancel()
				req = req.WithContext(ctx)
			}
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, tc.took, time.Since(server.began))
			require.Len(t, server.sent, tc.sent)
			require.NoError(t, resp.Body.Close())
			require.Zero(t, server.open, "bodies are closed")
		})
	}
}

// A request that comes during a wait that is too long fails at once, with the end of the wait.
func TestTransportPatienceWaitError(t *testing.T) {
	for _, retries := range []int{0, 3} {
		trial.InBubble(t, strconv.Itoa(retries), func(t *testing.T) {
			server := &refusing{refusals: 9, status: 429, header: http.Header{"Retry-After": {"300"}}, began: time.Now()}
			rt := &Transport{Base: server, MaxRetries: retries, Patience: 2 * time.Minute}
			resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			body := &trial.Closing{Reader: strings.NewReader("x")}
			req := trial.NewRequest(t, trial.Example)
			req.Body = body
			_, err = rt.RoundTrip(req)
			var early *WaitError
			require.ErrorAs(t, err, &early)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, server.began.Add(5*time.Minute), early.Until)
			require.Equal(t, ReasonRetryAfter, early.Reason)
			require.Equal(t, 1, body.Closed)
			require.Equal(t, server.began, time.Now())
			time.Sleep(3*time.Minute + 1)
			resp, err = rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err, "the rest of the wait is short enough")
			require.NoError(t, resp.Body.Close())
			require.Len(t, server.sent, 2)
		})
	}
}

// A wait whose end depends on the answer to another request ends with the patience.
func TestTransportPatienceDepends(t *testing.T) {
	trial.InBubble(t, "concurrent requests", func(t *testing.T) {
		rt := &Transport{Patience: 5 * time.Second, Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Second)
			return trial.ResponseOf(`RateLimit-Policy: "c";q=1;qu="concurrent-requests"`), nil
		})}
		_, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			done <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		_, err = rt.RoundTrip(trial.NewRequest(t, trial.Example))
		var early *WaitError
		require.ErrorAs(t, err, &early)
		require.Equal(t, []any{ReasonConcurrency, 5 * time.Second}, []any{early.Reason, time.Since(began)})
		require.NoError(t, <-done, "what is under way is not cancelled")
	})
}

// A redirection that asks for a longer wait is not followed.
func TestTransportPatienceRedirect(t *testing.T) {
	for wait, fails := range map[string]bool{"100": false, "130": true} {
		trial.InBubble(t, wait, func(t *testing.T) {
			client := &http.Client{Transport: &Transport{Patience: 2 * time.Minute, Base: trial.RoundTripFunc(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/there" {
					return trial.ResponseOf(""), nil
				}
				return trial.ResponseOf("HTTP/1.1 302 Found\nLocation: /there\nRetry-After: " + wait), nil
			})}}
			resp, err := client.Get(trial.Example)
			if !fails {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return
			}
			require.ErrorAs(t, err, new(*WaitError))
		})
	}
}

// A final refusal is not sent again, and delays no other request. Some other refusals of the same
// server are not final.
func TestTransportFinal(t *testing.T) {
	finals := map[string]func(*http.Response) (time.Duration, bool){
		"X-Should-Retry: false": func(r *http.Response) (time.Duration, bool) {
			return ratelimit.Final, r.Header.Get("X-Should-Retry") == "false"
		},
		"Grpc-Retry-Pushback-Ms: -1": func(r *http.Response) (time.Duration, bool) {
			return ratelimit.Final, strings.HasPrefix(r.Header.Get("Grpc-Retry-Pushback-Ms"), "-")
		},
	}
	for line, final := range finals {
		for _, retryAfter := range []string{"", "\nRetry-After: 60"} {
			trial.InBubble(t, line+retryAfter, func(t *testing.T) {
				server := &refusing{refusals: 9, status: 429, header: trial.Wire(line + retryAfter), began: time.Now()}
				observed := 0
				rt := &Transport{Base: server, MaxRetries: 4, Advisor: ratelimit.Advisor{Refused: final},
					Observe: func(_ *http.Request, a ratelimit.Advice) {
						require.True(t, a.Final)
						observed++
					}}
				for range 3 { // other requests of the key
					resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
					require.NoError(t, err)
					require.Equal(t, 429, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, []time.Duration{0, 0, 0}, server.sent)
				require.Equal(t, 3, observed)
				require.Zero(t, server.open)
			})
		}
	}
}

// A request inside of Observe waits as others do, and not for its own caller.
func TestTransportObserveSends(t *testing.T) {
	for _, retries := range []int{0, 1} {
		trial.InBubble(t, strconv.Itoa(retries), func(t *testing.T) {
			began := time.Now()
			var inner time.Duration
			rt := &Transport{MaxRetries: retries}
			rt.Base = trial.RoundTripFunc(func(r *http.Request) (*http.Response, error) {
				resp := trial.ResponseOf("HTTP/1.1 200 OK")
				if r.URL.Path == "/x" {
					resp = trial.ResponseOf("HTTP/1.1 429 Too Many Requests\nRetry-After: 2")
				}
				resp.Body = io.NopCloser(strings.NewReader("text"))
				return resp, nil
			})
			rt.Observe = func(r *http.Request, a ratelimit.Advice) {
				if r.URL.Path == "/x" && inner == 0 {
					resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example+"rate_limit"))
					require.NoError(t, errors.Join(err, resp.Body.Close()))
					inner = time.Since(began)
				}
			}
			resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example+"x"))
			require.NoError(t, errors.Join(err, resp.Body.Close()))
			require.Equal(t, 2*time.Second, inner)
		})
	}
}
