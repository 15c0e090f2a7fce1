package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
)

// ModifyResponse is for an [net/http/httputil.ReverseProxy] behind Handler:
//
//	proxy := &httputil.ReverseProxy{Rewrite: rewrite, ModifyResponse: m.ModifyResponse}
//	http.ListenAndServe(addr, m.Handler(proxy))
//
// It joins what Handler, and outer Handlers, have said of the request to what upstream
// says in whatever form, as [RestrictHeader] does: a client is told no more than either
// allows, and nothing twice. Legacy is written of the result, unless upstream says in
// those fields what remains; then these are lowered in place. A response stays as it is
// if Handler had nothing to say of the request, or its context has lost its values on
// the way.
//
// All is written to the response, and taken back from the header that Handler has
// written to, because the proxy adds the one to the other. Older fields of another
// limiter move with it, lowered as well, unless upstream has them. Behind a handler that
// runs the proxy in another goroutine, as [http.TimeoutHandler] does, nothing is taken
// back: its header is its own, and is replaced by that of the response.
//
// It returns nil whatever the fields are, because an error would become 502 Bad Gateway,
// and reports to OnError what could not be joined: members that mean different things by
// one name stand next to each other (ErrConflict), and a malformed current field is
// replaced, since clients ignore it. An older field with more than one number stays as
// it is, unless Legacy writes it. If the response has an Age, clients ignore all limits
// in it (draft-11 Section 7.3).
func (m *Middleware) ModifyResponse(resp *http.Response) error {
	if resp.Request == nil {
		return nil
	}
	s := handlingOf(resp.Request.Context())
	if s == nil || s.said == nil {
		return nil
	}
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	headers := s.headers(resp.Request.Context())
	s.takeBack(resp, headers)
	if err := s.joinResponse(resp); err != nil && m.OnError != nil {
		m.OnError(nil, resp.Request, err)
	}
	if len(headers) > 0 && s.header.Get("Access-Control-Allow-Origin") != "" {
		Expose(resp.Header)
	}
	return nil
}

// takeBack moves fields from the headers that Handlers have written to, to which the
// proxy will add the response. What Handlers have written is deleted there; older fields
// of others move to the response, unless it has them.
func (s *handling) takeBack(resp *http.Response, headers []http.Header) {
	ours := tablesOf(s.dialects())
	for _, h := range headers {
		for key, lines := range h {
			mine := key == policyKey || key == limitKey || hasRole(ours, key)
			if !mine && !older.HasAnchor(key) {
				continue
			}
			if _, there := resp.Header[key]; !mine && !there {
				resp.Header[key] = lines
			}
			delete(h, key)
		}
	}
}

// headers returns the headers of Handlers that belong to the goroutine of the caller.
// Others are not touched. A Handler whose context has the same Done is in that
// goroutine. If a context was derived behind it, the stack tells: a Transport with a
// deadline for each try derives one in the same goroutine, and [http.TimeoutHandler] in
// another.
func (s *handling) headers(ctx context.Context) (list []http.Header) {
	here := -1 // the Handlers of this goroutine, which are the innermost
	for of := range s.outward() {
		if of.Done() != ctx.Done() && here < 0 {
			here = serving()
		}
		if here >= 0 && len(list) >= here {
			break
		}
		list = append(list, of.header)
	}
	return list
}

// tablesOf returns the fields of dialects.
func tablesOf(dialects []*Dialect) (tables []*older.Table) {
	for _, d := range dialects {
		tables = append(tables, d.table())
	}
	return tables
}

// hasRole reports whether one of the dialects has a field of that name.
func hasRole(dialects []*older.Table, key string) bool {
	return slices.ContainsFunc(dialects, func(t *older.Table) bool { _, ok := t.Role(key); return ok })
}

// serving returns how many calls of [Middleware.serve] the goroutine is in.
func serving() (calls int) {
	const serve = "github.com/httpfields/ratelimit.(*Middleware).serve"
	var room [64]uintptr
	for skip := 2; ; skip += len(room) {
		n := runtime.Callers(skip, room[:])
		frames := runtime.CallersFrames(room[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == serve {
				calls++
			}
		}
		if n < len(room) {
			return calls
		}
	}
}

// joinResponse joins what Handlers have said to a response of upstream. What cannot be
// joined stands next to each other.
func (s *handling) joinResponse(resp *http.Response) error {
	h, own := resp.Header, *s.said
	o := LegacyOptions{Now: time.Now()}
	upstream, err := ParseAny(h, o)
	upstream = upstream.known(Advisor{}.Advise(resp, o.Now).Refused)
	f, clash := Restrict(upstream, own)
	if clash != nil {
		f = upstream.explicit().Join(own.explicit())
		// Of two policies of one name the first counts: a client has to see that a limit
		// is one of requests.
		f.Policies = slices.Concat(policiesOf(f.Policies, true), policiesOf(f.Policies, false))
	}
	err = errors.Join(err, clash)
	if fault := f.pass(h, &own, &o); fault != nil {
		err = errors.Join(err, fault, f.Set(h))
	}
	for of := range s.outward() {
		for _, d := range of.by.Legacy {
			if !d.tells(h) {
				err = errors.Join(err, d.Set(h, f, o.Now))
			}
		}
	}
	return err
}

// policiesOf returns those policies that count requests, or those that do not.
func policiesOf(list []Policy, requests bool) []Policy {
	return slices.DeleteFunc(slices.Clone(list), func(p Policy) bool { return p.Unit.countsRequests() != requests })
}

// explicit returns f with the numbers that a limit has from its policy, so that limits
// mean the same without their policies.
func (f Fields) explicit() Fields {
	policies := newMatcher(f.Policies)
	f.Limits = slices.Clone(f.Limits)
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		wait := l.wait(p)
		l.Remaining, l.Reset = lower(l.Remaining, p.Quota), longer(l.Reset, wait)
	}
	return f
}

// tells reports whether a field of the dialect says what remains in one number, so that
// it is lowered in place.
func (d *Dialect) tells(h http.Header) bool {
	for key, lines := range h {
		role, ok := d.table().Role(key)
		if ok && (role == older.Remaining || role == older.Used) && len(lines) == 1 && !strings.Contains(lines[0], ",") {
			return true
		}
	}
	return false
}
