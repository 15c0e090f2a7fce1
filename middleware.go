package ratelimit

import (
	"errors"
	"net/http"
	"time"
)

// A Decision is what a limiter says of one request.
type Decision struct {
	// Fields are what the response says, whether the request passes or not.
	// Fields without members write nothing and delete nothing, as for a request
	// that costs nothing.
	Fields Fields
	// Violated are the names of the policies that the request exceeds: any
	// refuses it, none lets it pass.
	Violated []string
	// Problem is the answer to a request that is refused, as [Refuse] sends it.
	// nil is NewProblem(QuotaExceeded, Violated...).
	Problem *Problem
	// Done is called once: when the next handler has returned or panicked, or
	// when the request is answered without it. It frees the slot of a limit on
	// concurrent requests. nil is not called.
	Done func()
}

// A Middleware asks a limiter about each request, says in the response what the
// limiter says, and answers in its place the requests that exceed a limit. Its
// Handler is a constructor of middleware, as chi and others take it:
//
//	m := &ratelimit.Middleware{Take: take}
//	r.Use(m.Handler)                    // chi
//	http.ListenAndServe(addr, m.Handler(mux))
//
// Where Take fails, the request passes, unless OnError answers it: a limiter
// that is out of order does not take the service with it.
type Middleware struct {
	// Take takes a unit of quota for a request, and may wait for that: its
	// context is that of the request. It may be called by several goroutines at
	// once. If it returns an error, nothing of the Decision is used but Done.
	Take func(*http.Request) (Decision, error)
	// Legacy are older forms that are written as well, for clients that know
	// nothing else.
	Legacy []*Dialect
	// OnError hears of a Take that failed, and of what could not be written of a
	// Decision, whose error has a [*FieldError] or another of the errors of
	// [Refuse]. It returns true if it has answered the request, which then goes
	// no further. It is where to log, and, for a service that would rather be
	// closed than open, where to answer 503. nil answers nothing.
	OnError func(http.ResponseWriter, *http.Request, error) bool
}

// Handler returns a handler that lets requests through to next, which finds the
// fields already in its header. They replace those that an outer handler has
// written: limits that are to be said together belong into one Decision. The
// ResponseWriter of next is that of the server, so that it can be flushed and
// hijacked.
//
// A request that is refused gets the answer of [Refuse], and next does not see
// it. It is refused whatever can be written: fields that [Fields.Set] or
// [Dialect.Set] refuse are left out, and so are the Extensions of a Problem that
// cannot be written. Where Access-Control-Allow-Origin is in the header already,
// the fields are exposed to scripts, as by [Expose].
//
// Where Take fails and OnError does not answer, next is called without fields;
// but a request whose context is done, because the client has gone, say, gets 503
// and nothing else: to hang up early must not be a way around the limit.
//
// Handler panics if Take is nil, or if a dialect of Legacy is nil, does not
// [Dialect.Validate], cannot be written (it has a Read function), or would write
// to the current fields, as [Draft07] does. Later changes to m have no effect.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if m.Take == nil {
		panic("ratelimit: a Middleware without Take")
	}
	for _, d := range m.Legacy {
		if err := d.beside(); err != nil {
			panic("ratelimit: a dialect that cannot be written beside the current fields: " + err.Error())
		}
	}
	fixed := *m
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fixed.serve(w, r, next) })
}

// beside returns why d cannot be written beside the current fields.
func (d *Dialect) beside() error {
	if d == nil {
		return errors.New("it is nil")
	}
	if err := d.Validate(); err != nil {
		return err
	}
	for i := range d.Fields {
		if d.Fields[i].unwritable() {
			return refuse(d.Fields[i].Name, ErrType)
		}
	}
	known := d.lexicon()
	if known.find(limitKey) != nil {
		return refuse(LimitField, ErrDuplicate)
	}
	if m := known.find(policyKey); m != nil && m.role != RolePolicies { // a list of policies yields to the current form
		return refuse(PolicyField, ErrDuplicate)
	}
	return nil
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	d, err := m.Take(r)
	if d.Done != nil {
		defer d.Done()
	}
	switch {
	case err == nil:
		m.decide(w, r, next, &d)
	case m.answered(w, r, err):
	case r.Context().Err() != nil:
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	default:
		next.ServeHTTP(w, r)
	}
}

// answered reports whether OnError has answered the request.
func (m *Middleware) answered(w http.ResponseWriter, r *http.Request, err error) bool {
	return m.OnError != nil && m.OnError(w, r, err)
}

// decide lets a request through, or refuses it.
func (m *Middleware) decide(w http.ResponseWriter, r *http.Request, next http.Handler, d *Decision) {
	var a refusal
	err := m.announce(w.Header(), &d.Fields)
	refused := len(d.Violated) > 0
	if refused {
		p := d.Problem
		if p == nil {
			p = NewProblem(QuotaExceeded, d.Violated...)
		}
		var fault error
		a, fault = newRefusal(&d.Fields, p)
		err = errors.Join(err, fault)
	}
	switch {
	case err != nil && m.answered(w, r, err):
	case refused:
		a.send(w, r)
	default:
		exposeAbroad(w.Header())
		next.ServeHTTP(w, r)
	}
}

// announce writes the fields in all their forms, each as far as it can be
// written.
func (m *Middleware) announce(h http.Header, f *Fields) error {
	if len(f.Policies) == 0 && len(f.Limits) == 0 {
		return nil
	}
	err := f.Set(h)
	for _, d := range m.Legacy {
		err = errors.Join(err, d.Set(h, *f, time.Time{}))
	}
	return err
}
