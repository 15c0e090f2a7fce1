package ratelimittest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/httpfields/ratelimit"
)

func fieldsOf(states []state) (f ratelimit.Fields) {
	for i := range states {
		f.Policies = append(f.Policies, states[i].policy)
		f.Limits = append(f.Limits, states[i].limit)
	}
	return f
}

// asks returns how long a refusal asks to wait; 0 if it asks for no wait.
func (a *API) asks(v *visit) (wait time.Duration) {
	if wait, ok := a.retryAfter(v).Duration(); ok {
		return wait
	}
	for i := range v.states {
		if s := &v.states[i]; !a.Silent && s.limit.Remaining == 0 && s.reset != unknown {
			wait = max(wait, s.reset)
		}
	}
	return wait
}

// retryAfter returns the Retry-After of a refusal. It is absent if a is Bare, or if no time is known. It
// does not end before the reset of a limit with nothing remaining, unless the resets of the vendor are
// the times until the whole quota is back.
func (a *API) retryAfter(v *visit) ratelimit.Seconds {
	if a.Bare || v.wait == unknown {
		return ratelimit.Seconds{}
	}
	asked, _ := ratelimit.CeilSeconds(max(v.wait, a.like.leastWait)).Value()
	if reset, ok := fieldsOf(v.states).RetryAfter().Value(); ok && !a.Silent && !a.like.untilFull {
		asked = max(asked, reset)
	}
	return ratelimit.SecondsOf(asked)
}

// announce writes the limits and Retry-After.
func (a *API) announce(h http.Header, v *visit) {
	if v.refused() {
		if seconds, ok := a.retryAfter(v).Value(); ok {
			h["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
		}
	}
	if a.Silent || len(v.states) == 0 {
		return
	}
	f := fieldsOf(v.states)
	if a.Current || len(a.Dialects) == 0 && !a.like.own {
		must("the current fields", f.Set(h))
	}
	for _, d := range a.Dialects {
		must("dialect "+d.Name(), d.Set(h, f, v.written()))
	}
	if a.like.finish != nil {
		a.like.finish(h, v)
	}
}

// must panics if the limits cannot be written in a form.
func must(form string, err error) {
	if err != nil {
		panic(fmt.Sprintf("ratelimittest: the limits cannot be announced in %s: %v", form, err))
	}
}

// written returns the time to pass to Dialect.Set. To write a reset as a point in time, Set drops the
// fraction of a second of this time, and adds whole seconds. If a reset would then be early, written
// returns the next second.
func (v *visit) written() time.Time {
	second := v.now.Truncate(time.Second)
	for i := range v.states {
		s := &v.states[i]
		if whole, ok := s.limit.Reset.Duration(); ok && second.Add(whole).Before(v.now.Add(s.reset)) {
			return second.Add(time.Second)
		}
	}
	return second
}

// refuse answers a request that exceeds a limit.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, v *visit) {
	status := cmp.Or(a.Status, http.StatusTooManyRequests)
	contentType, body := "application/json; charset=utf-8", a.like.body
	switch {
	case a.like.html:
		contentType = "text/html; charset=utf-8"
	case body != "":
	case a.Bare:
		contentType, body = "text/plain; charset=utf-8", http.StatusText(status)+"\n"
	default:
		p := ratelimit.NewProblem(ratelimit.QuotaExceeded)
		if !a.Silent {
			p.ViolatedPolicies = v.violated
		}
		p.Status = status
		p.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
