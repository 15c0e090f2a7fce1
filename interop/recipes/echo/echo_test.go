package echo

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &announce.Middleware{Take: (&fake.Window{Quota: 9, Length: time.Hour}).Take}
		search := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
			f := announce.FixedWindow{Name: "search", Quota: 5, Used: 2, Window: time.Minute, Left: time.Minute}.Fields()
			return announce.Decision{Fields: f}, nil
		}}
		e := New(all, search, func(c echo.Context) error {
			_, ok := announce.DecisionOf(c.Request().Context())
			require.True(t, ok)
			return c.String(http.StatusOK, "found")
		})
		codes := map[int]int{}
		for range 10 {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/search", nil))
			codes[w.Code]++
			if w.Code == http.StatusOK {
				require.Equal(t, "found", w.Body.String())
				require.Contains(t, w.Header().Get("RateLimit"), `"search";r=3;t=60`)
			}
			require.Contains(t, w.Header().Get("RateLimit"), `"window";r=`)
		}
		require.Equal(t, map[int]int{http.StatusOK: 9, http.StatusTooManyRequests: 1}, codes)
	})
}
