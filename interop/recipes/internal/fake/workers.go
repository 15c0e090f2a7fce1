package fake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

const example = "http://api.example"

// A Fetch sends a request, and returns the status of the answer.
type Fetch func(ctx context.Context, url string) (status int, err error)

// Retries tests a client that sends refused requests again. Another process has spent the quota, so
// the first request is served after a refusal and a minute. The next one fails at once, because its
// deadline is before the end of the wait.
func Retries(t *testing.T, newClient func(base http.RoundTripper) Fetch) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spent := Spent()
		_, err := (&http.Client{Transport: spent.RoundTripper()}).Get(example)
		require.NoError(t, err)
		fetch, start := newClient(spent.RoundTripper()), time.Now()
		status, err := fetch(t.Context(), example)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, time.Minute, time.Since(start))
		require.EqualValues(t, 1, spent.Counts().Refused)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = fetch(ctx, example)
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// Waiting sends two requests. It returns when the second one waits for the minute that the first one
// has spent, and done waits for its end.
func Waiting(t *testing.T, get func() (*http.Response, error)) (done func()) {
	t.Helper()
	resp, err := get()
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	ended := make(chan error)
	go func() {
		_, err := get()
		ended <- err
	}()
	synctest.Wait()
	return func() { require.NoError(t, <-ended) }
}

// FiveWorkers has five workers send requests to a server that refuses all for a minute. Only
// the bodies contain how long that lasts. It fails if more than five requests are refused, or
// if a body does not reach its reader.
func FiveWorkers(t *testing.T, a ratelimit.Advisor, status int, body func(left time.Duration) string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Minute)
		var refused atomic.Int64
		client := &http.Client{Transport: &obey.Transport{Advisor: a, Base: Memory(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(50 * time.Millisecond)
			left := time.Until(end)
			if left <= 0 {
				fmt.Fprint(w, "served")
				return
			}
			refused.Add(1)
			w.WriteHeader(status)
			fmt.Fprint(w, body(left))
		}))}}
		var workers sync.WaitGroup
		for range 5 {
			workers.Go(func() {
				for served := 0; served < 10; {
					resp, err := client.Get(example)
					require.NoError(t, err)
					text, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NotEmpty(t, text)
					if resp.StatusCode == http.StatusOK {
						served++
					}
				}
			})
		}
		workers.Wait()
		require.LessOrEqual(t, refused.Load(), int64(5))
		require.Less(t, time.Since(end), 10*time.Second)
	})
}
