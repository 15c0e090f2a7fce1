// Package chi puts Middlewares into chi.
package chi

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/httpfields/ratelimit/announce"
)

// New returns a router with a limit for all routes, and another one for searches.
func New(all, search *announce.Middleware, find http.HandlerFunc) http.Handler {
	r := chi.NewRouter()
	r.Use(all.Handler)
	r.With(search.Handler).Get("/search", find)
	return r
}
