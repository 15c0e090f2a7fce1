// Package gin puts a Middleware into gin.
package gin

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/httpfields/ratelimit/announce"
)

// Limit returns a handler for Use, for all routes, a group, or one route.
func Limit(m *announce.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r // its context has the Decision
			c.Next()
		})
		m.Handler(next).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
