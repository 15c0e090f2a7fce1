package ratelimit

import (
	"errors"
	"log"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
)

// A Decision is what a limiter says of one request.
type Decision struct {
	// Fields are what the response announces, whether the request passes or not. They have
	// to [Fields.Validate]. Without members nothing is written.
	Fields   Fields
	Violated []string // the policies that the request exceeds, such as "burst": any refuses it, none lets it pass
	Problem  *Problem // of a refusal, as [Refuse] sends it; nil is NewProblem(QuotaExceeded, Violated...)
	// Done is called once, when the request has been answered or next has panicked. It
	// frees the slot of a limit on concurrent requests. nil is not called.
	Done func()
}

// A Middleware asks a limiter about each request, announces in the response what the
// limiter says, and answers the requests that exceed a limit. Its Handler is a constructor
// of middleware, as chi and others take it:
//
//	m := &ratelimit.Middleware{Take: take}
//	r.Use(m.Handler)                    // chi
//	http.ListenAndServe(addr, m.Handler(mux))
//
// Middlewares stack: with one for all routes and one for a route behind it, every
// response announces the limits of both, and of two policies with one name the tighter.
type Middleware struct {
	// Take takes a unit of quota for a request, in whose context it may wait. It may be
	// called by several goroutines at once. If it returns an error, nothing of the
	// Decision is used but Done, and the request passes, unless OnError answers it.
	Take func(*http.Request) (Decision, error)
	// Dialects are older forms that are written as well, for clients that know nothing
	// else. Each costs a request about two microseconds, because what is written is read
	// back.
	Dialects []*Dialect
	// OnError is called with the error of Take. A service that would rather be closed than
	// open answers 503 here, and returns true. If it returns false, or is nil, the request
	// passes.
	OnError func(http.ResponseWriter, *http.Request, error) bool
	// OnFault is called with what cannot be announced as it should be, an error of
	// [RestrictHeader] or [Refuse], and with the error of Take if OnError is nil. If OnFault
	// is nil, package log gets the error, at most once a minute.
	OnFault func(*http.Request, error)
}

// Handler returns a handler that passes requests to next, and announces the Decision in the
// header of the response when its final status is written. It joins the Decision with what
// the header then holds, as [RestrictHeader] does: with the fields of an inner Handler,
// of another limiter in front or behind, or of the server behind a reverse proxy.
//
// Of nested Handlers the outermost writes the Dialects of all. A refused request gets the
// answer of [Refuse], and next does not see it. If Take fails, next is called, and nothing
// is announced; but a request whose context is done gets 503, because to hang up early must
// not be a way around the limit.
//
// The ResponseWriter of next can be flushed and hijacked if that of the server can, and
// unwrapped by [http.ResponseController]. Its header has no fields for limits until the
// status is written: see [DecisionOf]. Behind it, an [http.MaxBytesReader] does not make the
// server send Connection: close.
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
	h := &handler{Middleware: *m, next: next, began: time.Now()}
	h.Dialects = slices.Clone(m.Dialects)
	return h
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

// A handler is what [Middleware.Handler] returns.
type handler struct {
	Middleware
	next   http.Handler
	began  time.Time
	logged atomic.Int64 // when a fault was logged, in nanoseconds since it began; 0 is never
}

func (m *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s := &handling{Context: ctx, by: m, writer: w, request: r, outer: handlingOf(ctx).announcing()}
	var err error
	s.decision, err = m.Take(r)
	if s.decision.Done != nil {
		defer s.decision.Done()
	}
	s.decided = err == nil
	f := &s.decision.Fields
	s.announces = s.decided && len(f.Policies)+len(f.Limits) > 0
	switch {
	case err != nil && m.answered(w, r, err):
	case err != nil && ctx.Err() != nil:
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	case s.decided && len(s.decision.Violated) > 0:
		s.refuse()
	case s.announces:
		s.lookOutside()
		status := http.StatusInternalServerError // for whoever recovers in front, and answers
		defer func() { s.announce(status) }()
		m.next.ServeHTTP(s.announcer(), r.WithContext(s))
		status = http.StatusOK
	default:
		m.next.ServeHTTP(w, r.WithContext(s))
	}
}

// answered reports whether OnError has answered the request.
func (m *handler) answered(w http.ResponseWriter, r *http.Request, err error) bool {
	if m.OnError == nil {
		m.fault(r, err)
		return false
	}
	return m.OnError(w, r, err)
}

// fault reports what cannot be announced.
func (m *handler) fault(r *http.Request, err error) {
	if m.OnFault != nil {
		m.OnFault(r, err)
		return
	}
	last, now := m.logged.Load(), int64(max(time.Since(m.began), 1))
	if (last == 0 || now-last >= int64(time.Minute)) && m.logged.CompareAndSwap(last, now) {
		log.Print(err)
	}
}

// refuse answers a request that exceeds a limit.
func (s *handling) refuse() {
	p := s.decision.Problem
	if p == nil {
		p = NewProblem(QuotaExceeded, s.decision.Violated...)
	}
	status, body, err := refusalOf(&s.decision.Fields, p)
	if err != nil {
		s.by.fault(s.request, err)
	}
	w := s.writer
	if exposeAbroad(w.Header()); s.announces {
		s.lookOutside()
		w = s.announcer()
	}
	sendProblem(w, s.request, status, body)
}
