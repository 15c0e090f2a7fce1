// Package exempt leaves some requests uncounted.
package exempt

import (
	"net/http"

	"github.com/httpfields/ratelimit"
)

type Take = func(*http.Request) (ratelimit.Decision, error)

// Exempt makes a limiter that does not count the requests that are free.
func Exempt(take Take, free func(*http.Request) bool) Take {
	return func(r *http.Request) (ratelimit.Decision, error) {
		if free(r) {
			return ratelimit.Decision{}, nil // it passes, and nothing is said
		}
		return take(r)
	}
}

// Free is true for probes and for preflights.
func Free(r *http.Request) bool { return r.URL.Path == "/healthz" || r.Method == http.MethodOptions }
