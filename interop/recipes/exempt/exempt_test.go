package exempt

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

// A Decision without Fields reveals no limit.
func TestHidden(t *testing.T) {
	handler := (&announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
		return announce.Decision{Violated: []string{"strangers"}, Problem: ratelimit.NewProblem(ratelimit.QuotaExceeded)}, nil
	}}).Handler(fake.JSON("hello"))
	w := fake.Get(handler, "/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Empty(t, w.Header().Get("RateLimit")+w.Header().Get("RateLimit-Policy")+w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "strangers")
}

func TestExempt(t *testing.T) {
	take, _ := fake.Take()
	handler := (&announce.Middleware{Take: Exempt(take, Free)}).Handler(fake.JSON("hello"))
	for _, tc := range []struct {
		method, path string
		code         int
		told         bool
	}{
		{http.MethodGet, "/", http.StatusOK, true},
		{http.MethodGet, "/", http.StatusTooManyRequests, true},
		{http.MethodGet, "/healthz", http.StatusOK, false},
		{http.MethodOptions, "/", http.StatusOK, false},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
		require.Equal(t, tc.code, w.Code, tc)
		require.Equal(t, tc.told, w.Header().Get("RateLimit") != "", tc)
	}
}
