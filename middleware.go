package ratelimit

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
)

// A Decision is what a limiter says of one request.
type Decision struct {
	// Fields are what the response says, whether the request passes or not. They have to
	// [Fields.Validate]. Without members nothing is written or deleted.
	Fields   Fields
	Violated []string // the policies that the request exceeds, such as "burst": any refuses it, none lets it pass
	Problem  *Problem // of a refusal, as [Refuse] sends it; nil is NewProblem(QuotaExceeded, Violated...)
	// Done is called once, when the request has been answered or next has panicked. It
	// frees the slot of a limit on concurrent requests. nil is not called.
	Done func()
}

// A Middleware asks a limiter about each request, says in the response what the limiter
// says, and answers the requests that exceed a limit. Its Handler is a constructor of
// middleware, as chi and others take it:
//
//	m := &ratelimit.Middleware{Take: take}
//	r.Use(m.Handler)                    // chi
//	http.ListenAndServe(addr, m.Handler(mux))
//
// Middlewares stack: with one for all routes and one for a route behind it, every
// response tells the limits of both, and of two policies with one name the tighter.
type Middleware struct {
	// Take takes a unit of quota for a request, in whose context it may wait. It may be
	// called by several goroutines at once. If it returns an error, nothing of the
	// Decision is used but Done, and the request passes, unless OnError answers it.
	Take func(*http.Request) (Decision, error)
	// Dialects are older forms that are written as well, for clients that know nothing
	// else. Each costs a request some two microseconds, three times what the current
	// fields do, because Dialect.Set reads back what it writes.
	Dialects []*Dialect
	// OnError hears of a Take that failed, and of what could not be written of a
	// Decision, as a [*FieldError] or another error of [Refuse]: it is where to log, and
	// where a service that would rather be closed than open answers 503. It returns true
	// if it has answered the request. nil answers nothing. What ModifyResponse reports
	// comes with a nil ResponseWriter, and cannot be answered.
	OnError func(http.ResponseWriter, *http.Request, error) bool
}

// Handler returns a handler that lets requests through to next, which finds the fields
// in its header, and the Decision by [DecisionOf]. The ResponseWriter of next is that of
// the server, so that it can be flushed and hijacked. A reverse proxy behind Handler
// needs [Middleware.ModifyResponse].
//
// Fields that the header holds already, of an outer Handler or another limiter, are
// joined with the Decision as by [RestrictHeader]: members of one name become the
// tighter of the two, all others stand next to each other. Dialects are written of the
// result, and other older fields are lowered in place, so that what a client reads is
// true, whichever limiter refuses it. If the two mean different things by one name,
// OnError hears of an ErrConflict, and the fields stay as they are.
//
// A refused request gets the answer of [Refuse], without the fields and Extensions that
// cannot be written, and next does not see it. The fields are exposed, as by [Expose],
// if a handler of CORS in front has set Access-Control-Allow-Origin.
//
// Where Take fails and OnError does not answer, next is called without fields; but a
// request whose context is done gets 503 and nothing else: to hang up early must not be
// a way around the limit.
//
// Handler panics if Take or next is nil, or one of the Dialects is nil or writes to the
// current fields, as [Draft07] does. Later changes to m, its slices included, have no effect.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if m.Take == nil || next == nil {
		panic("ratelimit: a Middleware without Take, or without a next handler")
	}
	for _, d := range m.Dialects {
		if err := d.beside(); err != nil {
			panic("ratelimit: a dialect that cannot be written beside the current fields: " + err.Error())
		}
	}
	fixed := *m
	fixed.Dialects = slices.Clone(m.Dialects)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fixed.serve(w, r, next) })
}

// beside returns why d cannot be written next to the current fields.
func (d *Dialect) beside() error {
	if d == nil {
		return errors.New("it is nil")
	}
	known := d.table()
	if _, ok := known.Role(limitKey); ok {
		return refuse(LimitField, ErrDuplicate)
	}
	if role, ok := known.Role(policyKey); ok && role != older.Policies { // a list of policies yields to the current form
		return refuse(PolicyField, ErrDuplicate)
	}
	return nil
}

// A handling is what a Handler knows of a request. It is part of the context of
// those behind it.
type handling struct {
	context.Context
	outer    *handling // of the Handler around this one, or nil
	by       *Middleware
	header   http.Header // of the response
	decision Decision
	decided  bool    // there is a Decision
	said     *Fields // what this and all outer Handlers have written; nil if that is nothing
}

type handlingKey struct{}

// Value returns the handling itself for its key, so that the handling needs no second
// context.
func (s *handling) Value(key any) any {
	if key == (handlingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// handlingOf returns the handling of the innermost Handler in front of a context, or
// nil.
func handlingOf(ctx context.Context) *handling {
	s, _ := ctx.Value(handlingKey{}).(*handling)
	return s
}

// outward returns the handlings from the innermost to the outermost.
func (s *handling) outward() iter.Seq[*handling] {
	return func(yield func(*handling) bool) {
		for ; s != nil && yield(s); s = s.outer {
		}
	}
}

// DecisionOf returns, in a handler behind a [Middleware], what the limiter has said of
// the request with that context; of several Middlewares it is the innermost. ok is false
// if there is none, or if its Take has failed. The Decision is a copy, because the
// response has been written to already; values in Params and Extensions are shared. Its
// Done is nil, because the Middleware calls it.
func DecisionOf(ctx context.Context) (d *Decision, ok bool) {
	s := handlingOf(ctx)
	if s == nil || !s.decided {
		return nil, false
	}
	copied := s.decision
	copied.Done = nil
	copied.Fields = copied.Fields.clone()
	if copied.Problem != nil {
		p := *copied.Problem
		p.ViolatedPolicies, p.Extensions = slices.Clone(p.ViolatedPolicies), maps.Clone(p.Extensions)
		copied.Problem = &p
	}
	return &copied, true
}

// clone returns a copy of f that shares only the values in Params.
func (f Fields) clone() Fields {
	f.Policies, f.Limits = slices.Clone(f.Policies), slices.Clone(f.Limits)
	for i := range f.Policies {
		p := &f.Policies[i]
		p.PartitionKey, p.Params = slices.Clone(p.PartitionKey), slices.Clone(p.Params)
	}
	for i := range f.Limits {
		l := &f.Limits[i]
		l.PartitionKey, l.Params = slices.Clone(l.PartitionKey), slices.Clone(l.Params)
	}
	return f
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := r.Context()
	s := &handling{Context: ctx, outer: handlingOf(ctx), by: m, header: w.Header()}
	var err error
	s.decision, err = m.Take(r)
	if s.decision.Done != nil {
		defer s.decision.Done()
	}
	s.decided = err == nil
	if s.outer != nil {
		s.said = s.outer.said
	}
	switch {
	case s.decided:
		m.decide(w, r, next, s)
	case m.answered(w, r, err):
	case ctx.Err() != nil:
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	default:
		next.ServeHTTP(w, r.WithContext(s))
	}
}

// answered reports whether OnError has answered the request.
func (m *Middleware) answered(w http.ResponseWriter, r *http.Request, err error) bool {
	return m.OnError != nil && m.OnError(w, r, err)
}

// decide lets a request through, or refuses it.
func (m *Middleware) decide(w http.ResponseWriter, r *http.Request, next http.Handler, s *handling) {
	d := &s.decision
	err := s.announce()
	var a refusal
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
		if s.said != nil {
			a.wait = longer(a.wait, s.said.RetryAfter()) // an outer limit may end later
		}
		a.send(w, r)
	default:
		exposeAbroad(s.header)
		next.ServeHTTP(w, r.WithContext(s))
	}
}

// announce writes the fields of the decision in the current form and in those of Dialects,
// each as far as it can be written.
func (s *handling) announce() error {
	own := &s.decision.Fields
	err, joins := own.Validate(), s.said != nil || hasAnchors(s.header)
	switch {
	case own.empty():
		return nil
	case joins && err != nil:
		return err
	case joins:
		return s.joinThere()
	case err == nil:
		err = own.Set(s.header)
	}
	if err == nil {
		s.said = own
	}
	return errors.Join(err, s.by.setOlder(s.header, own))
}

// empty reports whether f has no members.
func (f *Fields) empty() bool { return len(f.Policies) == 0 && len(f.Limits) == 0 }

// hasAnchors reports whether some name in a header looks like that of a field for
// limits.
func hasAnchors(h http.Header) bool {
	for key := range h {
		if older.HasAnchor(key) {
			return true
		}
	}
	return false
}

// setOlder writes f in the older forms.
func (m *Middleware) setOlder(h http.Header, f *Fields) (err error) {
	for _, d := range m.Dialects {
		err = errors.Join(err, d.Set(h, *f, time.Time{}))
	}
	return err
}

// joinThere joins the fields of the decision with those that the header holds or, if a
// handler in between has replaced the header, with those that outer Handlers have
// written.
func (s *handling) joinThere() error {
	own := s.decision.Fields
	if s.said != nil {
		var err error
		if own, err = Restrict(*s.said, own); err != nil {
			return err
		}
	}
	o := LegacyOptions{Dialects: s.dialects(), Now: time.Now()}
	there, err := ParseAny(s.header, o)
	f, clash := Restrict(there.known(false), own)
	if clash != nil {
		return clash
	}
	legacy := make(http.Header, 6)
	err = errors.Join(err, f.Set(legacy)) // for what yields to the current form
	for _, d := range s.by.Dialects {
		if fault := d.Set(legacy, f, o.Now); fault != nil {
			err = errors.Join(err, fault) // what is there in that form is lowered
			continue
		}
		d.remove(s.header) // it is written anew
	}
	err = errors.Join(err, f.pass(s.header, &own, &o))
	maps.Copy(s.header, legacy)
	s.said = &f
	return err
}

// dialects returns the dialects that this and all outer Handlers write.
func (s *handling) dialects() (list []*Dialect) {
	for of := range s.outward() {
		list = append(list, of.by.Dialects...)
	}
	return list
}

// ModifyResponse is for an [net/http/httputil.ReverseProxy] behind Handler:
//
//	proxy := &httputil.ReverseProxy{Rewrite: rewrite, ModifyResponse: m.ModifyResponse}
//	http.ListenAndServe(addr, m.Handler(proxy))
//
// It joins what Handler, and outer Handlers, have said of the request to what upstream
// says in whatever form, as [RestrictHeader] does: a client is told no more than either
// allows, and nothing twice. Dialects are written of the result, unless upstream says in
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
// it is, unless one of the Dialects writes it. If the response has an Age, clients ignore
// all limits in it (draft-11 Section 7.3).
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
	upstream = upstream.known(Advise(resp, o.Now).Refused)
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
		for _, d := range of.by.Dialects {
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
