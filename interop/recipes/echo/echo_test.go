package echo

import (
	"fmt"
	"net/http"
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
		take, _ := fake.Take()
		search := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
			f := announce.FixedWindow{Name: "search", Quota: 5, Used: 2, Window: time.Minute, Left: time.Minute}.Fields()
			return announce.Decision{Fields: f}, nil
		}}
		e := New(&announce.Middleware{Take: take}, search, func(c echo.Context) error {
			_, ok := announce.DecisionOf(c.Request().Context())
			require.True(t, ok)
			return c.String(http.StatusOK, "found")
		})
		for _, want := range []string{`200 "search";r=3;t=60, "window";r=0;t=60`, `429 "window";r=0;t=60`} {
			w := fake.Get(e, "/search")
			require.Equal(t, want, fmt.Sprint(w.Code, " ", w.Header().Get("RateLimit")))
		}
	})
}
