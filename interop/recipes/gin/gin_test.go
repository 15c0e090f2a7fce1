package gin

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestGin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gin.SetMode(gin.TestMode)
		take, _ := fake.Take()
		router := gin.New()
		router.GET("/open", func(c *gin.Context) { c.String(http.StatusOK, "open") })
		group := router.Group("/api", Limit(&announce.Middleware{Take: take}))
		served := 0
		group.GET("/hello", func(c *gin.Context) {
			served++
			_, ok := announce.DecisionOf(c.Request.Context())
			require.True(t, ok)
			c.String(http.StatusOK, "hello")
		})
		for _, tc := range []struct {
			path, limit string
			code        int
		}{
			{"/api/hello", `"window";r=0;t=60`, http.StatusOK},
			{"/api/hello", `"window";r=0;t=60`, http.StatusTooManyRequests},
			{"/open", "", http.StatusOK},
		} {
			w := fake.Get(router, tc.path)
			require.Equal(t, tc.code, w.Code)
			require.Equal(t, tc.limit, w.Header().Get("RateLimit"))
		}
		require.Equal(t, 1, served)
	})
}
