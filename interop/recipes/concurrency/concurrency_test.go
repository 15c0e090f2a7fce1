package concurrency

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/stretchr/testify/require"
)

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &Limiter{}
		handler := (&announce.Middleware{Take: limiter.Take}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Second)
		}))
		get := func(key string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-API-Key", key)
			handler.ServeHTTP(w, r)
			return w
		}
		for range slots {
			go get("ada")
		}
		synctest.Wait()
		w := get("ada")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, `"slots";r=0`, w.Header().Get("RateLimit"))
		require.Equal(t, `"slots";q=4;qu="concurrent-requests"`, w.Header().Get("RateLimit-Policy"))
		w = get("grace")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, `"slots";r=3`, w.Header().Get("RateLimit"))
		synctest.Wait()
		require.Empty(t, limiter.busy)
	})
}
