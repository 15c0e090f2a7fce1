// Package echo puts Middlewares into echo.
package echo

import (
	"github.com/httpfields/ratelimit/announce"
	"github.com/labstack/echo/v4"
)

// New returns a server with a limit for all routes, and another one for searches.
func New(all, search *announce.Middleware, find echo.HandlerFunc) *echo.Echo {
	e := echo.New()
	e.Use(echo.WrapMiddleware(all.Handler))
	e.GET("/search", find, echo.WrapMiddleware(search.Handler))
	return e
}
