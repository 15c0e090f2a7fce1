package price

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := New().Handler(fake.JSON("hello"))
		for _, tc := range []struct {
			path, limit, after string
			code               int
		}{
			{"/", `"points";r=99;t=1`, "", http.StatusOK},
			{"/export", `"points";r=49;t=1`, "", http.StatusOK},
			{"/", `"points";r=48;t=1`, "", http.StatusOK},
			{"/", `"points";r=47;t=1`, "", http.StatusOK},
			{"/export/all", `"points";r=0;t=1`, "1", http.StatusTooManyRequests},
			{"/", `"points";r=46;t=1`, "", http.StatusOK},
		} {
			w := fake.Get(handler, tc.path)
			require.Equal(t, tc.code, w.Code)
			require.Equal(t, `"points";q=100;qu="points";w=10`, w.Header().Get("RateLimit-Policy"))
			require.Equal(t, tc.limit, w.Header().Get("RateLimit"))
			require.Equal(t, tc.after, w.Header().Get("Retry-After"))
		}
		for range 40 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		w := fake.Get(handler, "/export")
		require.Equal(t, "5", w.Header().Get("Retry-After"), "50 points less the 6 that are left, at ten a second")
	})
}
