package chi

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestChi(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		search := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
			f := announce.FixedWindow{Name: "search", Quota: 5, Used: 2, Window: time.Minute, Left: time.Minute}.Fields()
			return announce.Decision{Fields: f}, nil
		}}
		take, _ := fake.Take()
		router := New(&announce.Middleware{Take: take}, search, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") })
		for _, want := range []struct {
			code  int
			limit string
		}{
			{http.StatusOK, `"search";r=3;t=60, "window";r=0;t=60`},
			{http.StatusTooManyRequests, `"window";r=0;t=60`},
		} {
			w := fake.Get(router, "/search")
			require.Equal(t, want.code, w.Code)
			require.Equal(t, want.limit, w.Header().Get("RateLimit"))
		}
	})
}
