// Package exempt leaves some requests uncounted.
package exempt

import (
	"net/http"

	"github.com/httpfields/ratelimit"
)

type Take = func(*http.Request) (ratelimit.Decision, error)

// Exempt makes a limiter that does not count probes, preflights, nor who has a key for
// internal use.
func Exempt(take Take, internalKey string) Take {
	return func(r *http.Request) (ratelimit.Decision, error) {
		switch {
		case r.URL.Path == "/healthz", r.Method == http.MethodOptions, r.Header.Get("X-API-Key") == internalKey:
			return ratelimit.Decision{}, nil // it passes, and nothing is said
		}
		return take(r)
	}
}
