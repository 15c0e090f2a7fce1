// Package dryrun logs the requests that a limit would refuse.
package dryrun

import (
	"log/slog"
	"net/http"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

type Take = func(*http.Request) (announce.Decision, error)

// DryRun returns a limiter that refuses no request, and announces nothing.
func DryRun(take Take) Take {
	return func(r *http.Request) (announce.Decision, error) {
		d, err := take(r)
		if len(d.Violated) > 0 {
			slog.InfoContext(r.Context(), "would be refused", "policies", d.Violated, "path", r.URL.Path)
			d.Violated = nil
		}
		d.Fields = ratelimit.Fields{} // leave this out to announce the limit before it is enforced
		return d, err
	}
}
