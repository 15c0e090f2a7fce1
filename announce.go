package ratelimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A handling is one request in a Handler. It is the context of the handlers behind it, which
// read its Decision, perhaps from other goroutines. Only their ResponseWriter changes it.
type handling struct {
	context.Context
	by       *handler
	writer   http.ResponseWriter // of the server, or of the handler in front
	request  *http.Request
	outer    *handling // of the next Handler in front; nil if there is none
	decision Decision
	decided  bool        // Take succeeded
	outside  http.Header // the fields of another limiter in front; nil if there are none

	mu        sync.Mutex // http.TimeoutHandler may leave a Handler running behind it
	announced bool       // the fields are in the header
	inner     []*Dialect // which the Handlers behind it write
}

type handlingKey struct{}

// Value returns the handling itself for its key, so that it needs no second context.
func (s *handling) Value(key any) any {
	if key == (handlingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func (s *handling) announces() bool {
	return s.decided && len(s.decision.Fields.Policies)+len(s.decision.Fields.Limits) > 0
}

// DecisionOf returns the Decision of the innermost [Middleware] in front of a handler, without
// Done. Without a Middleware, or if its Take failed, ok is false. Do not change its slices and
// its Problem: they are shared.
func DecisionOf(ctx context.Context) (d *Decision, ok bool) {
	s, ok := ctx.Value(handlingKey{}).(*handling)
	if !ok || !s.decided {
		return nil, false
	}
	copied := s.decision
	copied.Done = nil
	return &copied, true
}

// lookOutside keeps the fields that another limiter has written in front of the Handler: a
// handler behind may replace them.
func (s *handling) lookOutside() {
	for key, lines := range s.writer.Header() {
		if older.Knows(key) {
			if s.outside == nil {
				s.outside = make(http.Header)
			}
			s.outside[key] = lines
		}
	}
}

// joinOutside joins the limits of that other limiter with the header of j. A reverse proxy may have
// deleted these fields, after an informational response, or added those of upstream to them.
func (s *handling) joinOutside(j joining) error {
	for key, lines := range s.outside {
		switch now := j.h[key]; {
		case len(now) == 0:
			j.h[key] = lines
		case len(now) > len(lines) && slices.Equal(now[:len(lines)], lines):
			j.h[key] = now[len(lines):]
		}
	}
	outside, _, _ := parseAny(s.outside, &j.options, text.Clock{Header: j.h}) // a malformed field is reported if it is still there
	if j.own = outside.asCurrent(false); len(j.own.Limits)+len(j.own.Policies) == 0 {
		return nil
	}
	return j.join()
}

// announce joins the Decision with the header of a response, once, before the header is
// sent with a final status.
func (s *handling) announce(status int) {
	if s.announced || !s.announces() {
		return
	}
	j := joining{h: s.writer.Header(), status: status, refuses: len(s.decision.Violated) > 0}
	var outside error
	if s.outside != nil {
		outside = s.joinOutside(j)
	}
	j.own = s.decision.Fields
	s.mu.Lock()
	s.announced, j.forms = true, slices.Concat(s.by.Dialects, s.inner)
	s.mu.Unlock()
	if s.outer.writes(j.forms) {
		j.forms = nil
	}
	if err := text.JoinErrors(outside, j.join()); err != nil {
		s.by.fault(s.request, err)
	}
	if len(j.h["Trailer"]) > 0 {
		keepOutOfTrailers(j.h)
	}
}

// keepOutOfTrailers removes the fields of limits in a header from Trailer. net/http would repeat
// them in the trailers, where they must not be (draft-11 Sections 3.1 and 4.1).
func keepOutOfTrailers(h http.Header) {
	names := strings.Split(strings.Join(h["Trailer"], ","), ",")
	names = slices.DeleteFunc(names, func(name string) bool {
		key := http.CanonicalHeaderKey(text.Trim(name))
		return len(h[key]) > 0 && older.Knows(key)
	})
	setLine(h, "Trailer", []string{text.Trim(strings.Join(names, ","))})
}

// writes reports whether a Handler in front will write the forms, each once, from all limits.
// If a handler has hijacked the connection, the Handlers in front have announced before.
func (s *handling) writes(forms []*Dialect) bool {
	if s == nil || !s.announces() {
		return s != nil && s.outer.writes(forms)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner = append(s.inner, forms...)
	return !s.announced
}

// An announcer is the ResponseWriter of the handlers behind a Handler. Like the types below,
// it is one pointer, so it needs no allocation.
type announcer struct{ s *handling }

// announcer returns the ResponseWriter of the response. It is a Flusher and a Hijacker if s.writer
// is, and s.writer itself if nothing is announced.
func (s *handling) announcer() http.ResponseWriter {
	a := announcer{s}
	_, flushes := s.writer.(http.Flusher)
	_, hijacks := s.writer.(http.Hijacker)
	switch {
	case !s.announces():
		return s.writer
	case flushes && hijacks:
		return flushHijacker{hijacker{a}}
	case flushes:
		return flusher{a}
	case hijacks:
		return hijacker{a}
	}
	return a
}

func (a announcer) Header() http.Header { return a.s.writer.Header() }

// WriteHeader passes informational responses; 101 is final.
func (a announcer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		a.s.announce(status)
	}
	a.s.writer.WriteHeader(status)
}

func (a announcer) Write(b []byte) (int, error) {
	a.s.announce(http.StatusOK)
	return a.s.writer.Write(b)
}

func (a announcer) WriteString(text string) (int, error) {
	a.s.announce(http.StatusOK)
	return io.WriteString(a.s.writer, text)
}

// ReadFrom copies the first bytes, since an empty body sends no header. The server sends the rest.
func (a announcer) ReadFrom(r io.Reader) (int64, error) {
	const most = 512
	first, err := io.Copy(struct{ io.Writer }{a}, io.LimitReader(r, most))
	if err != nil || first < most {
		return first, err
	}
	rest, err := io.Copy(a.s.writer, r)
	return first + rest, err
}

// FlushError exists even if s.writer cannot be flushed: otherwise [http.ResponseController]
// would flush a writer further in front, and send the header without the fields.
func (a announcer) FlushError() error {
	a.s.announce(http.StatusOK)
	return http.NewResponseController(a.s.writer).Flush()
}

// Unwrap returns a writer with a Hijack that announces, for [http.ResponseController].
func (a announcer) Unwrap() http.ResponseWriter { return hijacker{a} }

type flusher struct{ announcer }

func (f flusher) Flush() { _ = f.FlushError() }

type hijacker struct{ announcer }

func (h hijacker) Unwrap() http.ResponseWriter { return h.s.writer }

// Hijack announces: a reverse proxy hijacks, and then sends the header without WriteHeader.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.s.writer).Hijack()
	if err == nil {
		h.s.announce(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

type flushHijacker struct{ hijacker }

func (f flushHijacker) Flush() { _ = f.FlushError() }
