package ratelimit

import (
	"context"
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

const (
	found    = "HTTP/1.1 302 Found\nLocation: /there\n"
	seeOther = "HTTP/1.1 303 See Other\nLocation: /there\n"
)

// A redirection is followed at once (draft-11 Section 6), unless it asks for a wait (RFC
// 9110 Section 10.2.3); the requests after it wait. What its target says is newer than what
// it says itself.
func TestTransportRedirect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []string
		timeout time.Duration
		want    []time.Duration // of one request of a client, and others that follow it
		until   time.Duration   // of the WaitError of the first
	}{
		{"302 with limits", []string{found + `RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=0;t=10`}, 0, seconds(0, 0, 10, 20), 0},
		{"302 with limits, of which the target has more left", []string{found + `RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=5;t=10`},
			0, seconds(0, 0, 0), 0},
		{"303 with Retry-After", []string{seeOther + "Retry-After: 5", ""}, time.Minute, seconds(0, 5), 0},
		{"303 with Retry-After of 0", []string{seeOther + "Retry-After: 0", ""}, time.Minute, seconds(0, 0), 0},
		{"303 with Retry-After, and the deadline is earlier", []string{seeOther + "Retry-After: 5"},
			4 * time.Second, seconds(0), 5 * time.Second},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			s := newScript(tc.answers...)
			var waiting []time.Duration
			rt := &Transport{Base: s, Waiting: func(_ *http.Request, until time.Time, a Advice) func() {
				waiting = append(waiting, until.Sub(s.start))
				return nil
			}}
			resp, err := (&http.Client{Transport: rt, Timeout: tc.timeout}).Do(newRequest(t, example))
			if tc.until > 0 {
				var early *WaitError
				require.ErrorAs(t, err, &early)
				require.Equal(t, tc.until, early.Until.Sub(s.start))
				require.Zero(t, time.Since(s.start))
			} else {
				require.NoError(t, err)
				resp.Body.Close()
			}
			for range len(tc.want) - 2 {
				require.NoError(t, get(t, rt, example))
			}
			require.Equal(t, tc.want, s.seen)
			for _, at := range tc.want {
				if at > 0 {
					require.Contains(t, waiting, at)
				}
			}
		})
	}
	inBubble(t, "cancelled", func(t *testing.T) {
		rt := &Transport{Base: newScript(seeOther+"Retry-After: 60", "")}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := (&http.Client{Transport: rt}).Do(newRequest(t, example).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A request that follows a redirection after its wait is the probe that is due then.
func TestTransportRedirectProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(seeOther+"Retry-After: 5\n"+`RateLimit: "a";r=0;t=5`, "")
		s.delay = 500 * time.Millisecond
		rt := &Transport{Base: s}
		var all sync.WaitGroup
		all.Go(func() {
			_, err := (&http.Client{Transport: rt}).Do(newRequest(t, example))
			require.NoError(t, err)
		})
		time.Sleep(5700 * time.Millisecond)
		require.NoError(t, get(t, rt, example))
		all.Wait()
		require.Equal(t, times(0, 5500, 6000), s.seen)
	})
}

// As many redirections as are remembered are followed at once, whatever the order.
func TestTransportRedirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(found + `RateLimit: "a";r=0;t=10`)
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
		require.Len(t, s.seen, 2*len(rt.redirected))
		runtime.KeepAlive(following)
	})
}

// Only http.Client follows a redirection. Whoever sends the same request again waits.
func TestTransportRedirectClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(found+`RateLimit: "a";r=0;t=10`, "", `RateLimit: "a";r=0;t=10`, "")
		rt := &Transport{Base: s}
		resp, err := (&http.Client{Transport: rt}).Do(newRequest(t, example))
		require.NoError(t, err)
		again := resp.Request.Clone(t.Context())
		require.NotNil(t, again.Response)
		require.NoError(t, get(t, rt, example))
		_, err = rt.RoundTrip(again)
		require.NoError(t, err)
		require.Equal(t, seconds(0, 0, 10, 20), s.seen)
	})
}
