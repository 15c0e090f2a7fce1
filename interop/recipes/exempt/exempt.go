// Package exempt leaves some requests uncounted.
package exempt

import (
	"net/http"

	"github.com/httpfields/ratelimit/announce"
)

type Take = func(*http.Request) (announce.Decision, error)

// Exempt returns a limiter that does not count free requests.
func Exempt(take Take, free func(*http.Request) bool) Take {
	return func(r *http.Request) (announce.Decision, error) {
		if free(r) {
			return announce.Decision{}, nil // it passes, without fields
		}
		return take(r)
	}
}

// Free reports whether a request is a health check or a preflight.
func Free(r *http.Request) bool { return r.URL.Path == "/healthz" || r.Method == http.MethodOptions }
