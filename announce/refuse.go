package announce

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/older"
)

// Refuse answers a request that exceeds a limit. It replaces the current fields of w
// ([ratelimit.Fields.Set]), lowers the older fields ([ratelimit.RestrictHeader]), raises
// Retry-After ([ratelimit.Fields.SetRetryAfter]), and sends p ([ratelimit.Problem.ServeHTTP]). A
// nil p is NewProblem(QuotaExceeded). If w has an Access-Control-Allow-Origin, Refuse exposes the
// fields to scripts ([ratelimit.Expose]). Behind a [Middleware], the response also announces the
// limits of its Decision.
//
// If a limit has fewer units left than the request costs, its Reset may be too early. Set
// Retry-After before the call to the time until enough is available: Refuse keeps it.
//
// On error nothing is written. If p names a violated policy that is not in f, the error wraps
// ErrMissing. Otherwise it comes from [ratelimit.Fields.Set] or [ratelimit.Problem.MarshalJSON].
func Refuse(w http.ResponseWriter, r *http.Request, f ratelimit.Fields, p *ratelimit.Problem) error {
	p, err := refusalOf(&f, p, nil)
	if err != nil {
		return err
	}
	h := w.Header()
	found, _ := older.Find(nil, h, nil)
	if err := f.Set(h); err != nil {
		return err
	}
	if len(found) == 0 {
		f.SetRetryAfter(h)
		if lines := h["Access-Control-Allow-Origin"]; len(lines) > 0 && lines[0] != "" {
			ratelimit.Expose(h)
		}
	} else { // lower the older fields, as far as possible
		_ = ratelimit.RestrictHeader(h, cmp.Or(p.Status, http.StatusTooManyRequests), f, ratelimit.RestrictOptions{Refused: true})
	}
	p.ServeHTTP(w, r)
	return nil
}

// refusalOf returns the problem of a refusal: p, or the default problem with the violated policies
// if p is nil. If the Extensions cannot be sent, it leaves them out, and returns an error.
func refusalOf(f *ratelimit.Fields, p *ratelimit.Problem, violated []string) (_ *ratelimit.Problem, err error) {
	if p == nil {
		p = ratelimit.NewProblem(ratelimit.QuotaExceeded, violated...)
	}
	if len(p.Extensions) > 0 {
		if _, err = p.MarshalJSON(); err != nil {
			plain := *p
			plain.Extensions = nil
			p = &plain
		}
	}
	for i, name := range p.ViolatedPolicies {
		if err == nil && !names(f, name) {
			err = fmt.Errorf("ratelimit: violated policy %d is not in the fields: %w", i+1, ratelimit.ErrMissing)
		}
	}
	return p, err
}

func names(f *ratelimit.Fields, policy string) bool {
	return slices.ContainsFunc(f.Policies, func(p ratelimit.Policy) bool { return p.Name == policy }) ||
		slices.ContainsFunc(f.Limits, func(l ratelimit.Limit) bool { return l.Name == policy })
}
