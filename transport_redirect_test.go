package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
		inBubble(t, tc.name, func(t *testing.T) {
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
				Waiting: func(_ *http.Request, until time.Time, a Advice) func() {
					require.Equal(t, SourceRetryAfter, a.Source)
					waiting = append(waiting, until.Sub(start))
					return nil
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
	}
	inBubble(t, "cancelled", func(t *testing.T) {
		rt := &Transport{Base: newScript("HTTP/1.1 303 See Other\nLocation: /there\nRetry-After: 60", "")}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := (&http.Client{Transport: rt}).Do(newRequest(t, example).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
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
