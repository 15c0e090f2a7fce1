// Package announce is for servers: it announces the limits of your rate limiter in every response,
// and refuses requests over a limit. Gateways use it too.
//
//	limiter := &announce.Middleware{Take: take} // take asks your rate limiter
//	http.ListenAndServe(addr, limiter.Handler(mux))
//
// A [Middleware] writes RateLimit-Policy and RateLimit, and the older forms that your clients know. It
// answers a request over a limit with 429, Retry-After and a problem document (RFC 9457). In front of a
// reverse proxy it joins its limits with upstream's. To refuse a request in a handler, call [Refuse]. A
// gateway without net/http calls [ratelimit.RestrictHeader].
//
// # Kinds of limiters
//
// How each kind of limiter fills in the parameters:
//
//	limiter             q      w             r                t
//	fixed window        limit  window        limit − used     end of the window − now
//	sliding log         limit  window        limit − entries  oldest entry + window − now
//	sliding counter     limit  window        see SlidingWindow
//	token bucket, GCRA  burst  burst ÷ rate  whole tokens     until the next token; refused: until it could pass
//	concurrency         slots  absent        free slots       absent; and qu="concurrent-requests"
//
// [FixedWindow] is for the first two kinds, [SlidingWindow] for the third, and [TokenBucket] for
// the fourth. An example of [Middleware] shows the last kind. If r is 0, a client waits for t.
// Otherwise it can spread its requests, one every t ÷ r seconds.
//
// # What to announce
//
// Announce no more than the server can serve (draft-11 Section 6). [ratelimit.Limit.Cap] can keep a
// client from spending a whole quota in the last second of a window. [ratelimit.Limit.Jitter]
// spreads the moments at which clients come back (Section 8.5). Call both before you put a limit
// into a [Decision].
//
// Make partition keys from the request alone (Section 6.1), and hash keys that could identify a
// client. Leave the fields out if a client could use them to saturate the server (Section 8.2).
// Clients need not obey limits, so a server must still protect itself (Section 8.1).
package announce

import (
	"log"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/httpfields/ratelimit"
)

// A Decision is the answer of a limiter to one request.
type Decision struct {
	// Fields are announced in the response, whether the request passes or not. They must be valid
	// ([ratelimit.Fields.Validate]). If they are empty, nothing is written.
	Fields   ratelimit.Fields
	Violated []string           // policies that the request exceeds, such as "burst"; if there are any, the request is refused
	Problem  *ratelimit.Problem // of a refusal, as [Refuse] sends it; nil is NewProblem(QuotaExceeded, Violated...)
	// Done may be nil. Otherwise it is called once, when the request has been answered or next has
	// panicked. It frees the slot of a limit on concurrent requests.
	Done func()
}

// A Middleware asks a limiter about each request, announces the limits in the response, and refuses
// requests over a limit. Call Handler with an [http.Handler], or pass Handler to the Use method of
// a router. A response announces the limits of every Middleware on the request's path.
type Middleware struct {
	// Take takes a unit of quota for a request. Several goroutines call it at once. If it
	// returns an error, only Done of the Decision is used.
	Take func(*http.Request) (Decision, error)
	// Dialects are older forms that are written too. If two of them write what remains into the same
	// field, the first one counts. Each dialect adds about two microseconds to a request.
	Dialects []*ratelimit.Dialect
	// OnError is called if Take fails. If it answers the request, it must return true. If it
	// returns false, or is nil, the request passes.
	OnError func(http.ResponseWriter, *http.Request, error) bool
	// OnFault is called with the error of [ratelimit.RestrictHeader] or [Refuse] if something
	// cannot be announced. If OnError is nil, OnFault is also called with the error of Take. If
	// OnFault is nil, the error is logged, at most once a minute.
	OnFault func(*http.Request, error)
}

// Handler returns a handler that asks the limiter and then calls next. When next sends a header,
// the handler joins its limits with the limits in the header ([ratelimit.RestrictHeader]). These
// may be from an inner Handler, from another limiter, or from the server behind a reverse proxy.
// The outermost of nested Handlers writes the Dialects of all. If a field of limits is in the
// header, its name is removed from Trailer (draft-11 Sections 3.1 and 4.1).
//
// A refused request gets the answer of [Refuse]. If Take fails after the context of the request has
// ended, the answer is 503, so that clients cannot avoid the limit by hanging up.
//
// The ResponseWriter of next is a Flusher and a Hijacker if the server's is. The header contains no
// limits until it is sent: see [DecisionOf]. A flush announces the limits even if it fails. It
// fails behind [http.TimeoutHandler], whose ResponseWriter is no Flusher. Because the
// ResponseWriter is wrapped, [http.MaxBytesReader] cannot close the connection.
//
// Handler panics if Take or next is nil, or if one of the Dialects is nil or writes RateLimit, such
// as [ratelimit.Draft07]. Later changes to m have no effect.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if m.Take == nil || next == nil {
		panic("ratelimit: a Middleware without Take, or without a next handler")
	}
	if err := ratelimit.RestrictHeader(http.Header{}, http.StatusOK, ratelimit.Fields{}, ratelimit.RestrictOptions{Dialects: m.Dialects}); err != nil {
		panic("a Middleware with a dialect that cannot be written next to the current fields: " + err.Error())
	}
	h := &handler{Middleware: *m, next: next}
	h.Dialects = slices.Clone(m.Dialects)
	return h
}

type handler struct {
	Middleware
	next   http.Handler
	logged atomic.Pointer[time.Time] // when a fault was logged; nil is never
}

// ServeHTTP asks the limiter, and refuses the request or passes it to next.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s := &serving{Context: ctx, by: h, writer: w, request: r}
	s.outer, _ = ctx.Value(servingKey{}).(*serving)
	s.lookInFront()
	var err error
	s.decision, err = h.Take(r)
	if s.decision.Done != nil {
		defer s.decision.Done()
	}
	s.decided = err == nil
	if err != nil && h.OnError == nil {
		h.fault(r, err)
	}
	switch {
	case err != nil && h.OnError != nil && h.OnError(w, r, err):
	case err != nil && ctx.Err() != nil:
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	case s.decided && len(s.decision.Violated) > 0:
		s.refuse()
	default:
		s.pass()
	}
}

// pass calls next, and copies back what handlers in front and net/http may still use of the request.
func (s *serving) pass() {
	status := http.StatusInternalServerError // if next panics and a handler in front recovers
	r := s.request.WithContext(s)
	defer func() {
		s.request.MultipartForm, s.request.Pattern = r.MultipartForm, r.Pattern
		s.announce(status)
	}()
	s.by.next.ServeHTTP(s.announcer(), r)
	status = http.StatusOK
}

func (h *handler) fault(r *http.Request, err error) {
	if h.OnFault != nil {
		h.OnFault(r, err)
		return
	}
	last, now := h.logged.Load(), time.Now()
	if (last == nil || now.Sub(*last) >= time.Minute) && h.logged.CompareAndSwap(last, &now) {
		log.Print(err)
	}
}

func (s *serving) refuse() {
	p, err := refusalOf(&s.decision.Fields, s.decision.Problem, s.decision.Violated)
	if err != nil {
		s.by.fault(s.request, err)
	}
	p.ServeHTTP(s.announcer(), s.request)
}
