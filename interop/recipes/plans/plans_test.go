package plans

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestPlans(t *testing.T) {
	free, pro := Plan{"free", 2, 1. / 60}, Plan{"pro", 100, 10}
	limiter := &Limiter{PlanOf: func(r *http.Request) (string, Plan) {
		key := r.Header.Get("X-API-Key")
		if key == "ada" {
			return key, pro
		}
		return key, free
	}}
	handler := (&announce.Middleware{Take: limiter.Take}).Handler(fake.JSON("hello"))
	get := func(key string) (code int, policy string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", key)
		handler.ServeHTTP(w, r)
		return w.Code, w.Header().Get("RateLimit-Policy")
	}
	for i := range 5 {
		code, policy := get("ada")
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, `"pro";q=100;w=10`, policy)
		for _, key := range []string{"grace", "edsger"} {
			code, policy = get(key)
			require.Equal(t, i >= 2, code == http.StatusTooManyRequests)
			require.Equal(t, `"free";q=2;w=120`, policy)
		}
	}
}
