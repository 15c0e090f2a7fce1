// Package giveback gives a unit back if a request fails through no fault of the client.
package giveback

import (
	"net/http"

	"github.com/httpfields/ratelimit/announce"
)

// GiveBack calls back with the Decision for each response with a status of 500 or more. Put
// it behind the Middleware.
func GiveBack(next http.Handler, back func(*http.Request, *announce.Decision)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		if d, ok := announce.DecisionOf(r.Context()); ok && seen.status >= 500 {
			back(r, d) // by the partition key of d.Fields.Limits, for example
		}
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
