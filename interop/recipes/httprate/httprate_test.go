package httprate

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// A client sends 25 requests to a limit of ten a minute, and is never refused. httprate with
// the same windows also serves each of them.
func TestHTTPRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * time.Second) // in the middle of a window
		l := &Limiter{Quota: 10, Window: time.Minute, Key: httprate.Key("all"), Counter: httprate.NewLocalLimitCounter(time.Minute)}
		judge := httprate.LimitBy(l.Quota, l.Window, httprate.Key("*"), httprate.WithLimitCounter(httprate.NewLocalLimitCounter(l.Window)))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Limit", "Remaining", "Reset"} {
				w.Header().Del("X-RateLimit-" + name) // its reset is the end of the window
			}
		}))
		handler := (&announce.Middleware{Take: l.Take}).Handler(judge)
		client := &http.Client{Transport: &obey.Transport{Base: fake.Memory(handler)}}
		start := time.Now()
		for range 25 {
			resp, err := client.Get("http://api.example")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Empty(t, ratelimittest.Check(resp))
		}
		require.Less(t, time.Since(start), 3*time.Minute)

		w := httptest.NewRecorder()
		for w.Code == http.StatusOK { // a client that does not wait
			w = fake.Get(handler, "/")
		}
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		wait, ok := ratelimit.ParseRetryAfter(w.Header(), time.Now())
		require.True(t, ok)
		time.Sleep(wait)
		w = fake.Get(handler, "/")
		require.Equal(t, http.StatusOK, w.Code, "there is room for a request after Retry-After")
	})
}
