package exempt

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestExempt(t *testing.T) {
	handler := (&ratelimit.Middleware{Take: Exempt(fake.Spent().Take, Free)}).Handler(fake.JSON("hello"))
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
