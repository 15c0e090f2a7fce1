// Package body writes the wait into the body, for agents and scripts that do not see the
// header.
package body

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

type Take = func(*http.Request) (announce.Decision, error)

// InBody returns a limiter whose refusals contain the wait in words, and as a member of the
// problem document.
func InBody(take Take) Take {
	return func(r *http.Request) (announce.Decision, error) {
		d, err := take(r)
		if seconds, ok := d.Fields.RetryAfter().Value(); ok && len(d.Violated) > 0 {
			d.Problem = ratelimit.NewProblem(ratelimit.QuotaExceeded, d.Violated...)
			d.Problem.Detail = fmt.Sprintf("Wait %d seconds before the next request.", seconds)
			d.Problem.Extensions = map[string]json.RawMessage{"retry-after": fmt.Append(nil, seconds)}
		}
		return d, err
	}
}
