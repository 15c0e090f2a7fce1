package announce

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A serving is one request in a Handler. It is the context of the handlers behind it, which may read
// its Decision from other goroutines. Only the ResponseWriter of these handlers changes the serving.
type serving struct {
	context.Context
	by       *handler
	writer   http.ResponseWriter // of the server, or of the handler in front
	request  *http.Request
	outer    *serving // of the next Handler in front; nil if there is none
	decision Decision
	decided  bool        // Take succeeded
	front    http.Header // the fields of another limiter in front; nil if there are none

	mu        sync.Mutex           // http.TimeoutHandler may leave a Handler running behind it
	announced bool                 // the fields are in the header
	inner     []*ratelimit.Dialect // dialects of the Handlers behind
}

type servingKey struct{}

// Value returns the serving itself for its key, so that no second context is needed.
func (s *serving) Value(key any) any {
	if key == (servingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func (s *serving) announces() bool {
	return s.decided && len(s.decision.Fields.Policies)+len(s.decision.Fields.Limits) > 0
}

// DecisionOf returns the Decision of the innermost [Middleware] in front of a handler, without
// Done. Without a Middleware, or if its Take failed, ok is false. Do not change its slices and
// Problem: they are shared.
func DecisionOf(ctx context.Context) (d *Decision, ok bool) {
	s, ok := ctx.Value(servingKey{}).(*serving)
	if !ok || !s.decided {
		return nil, false
	}
	copied := s.decision
	copied.Done = nil
	return &copied, true
}

// lookInFront keeps the fields of another limiter in front, because handlers behind may replace them.
func (s *serving) lookInFront() {
	for key, lines := range s.writer.Header() {
		if older.Knows(key) {
			if s.front == nil {
				s.front = make(http.Header)
			}
			s.front[key] = lines
		}
	}
}

// joinFront joins the limits of the limiter in front with the header of a response. A reverse proxy may
// have deleted these limits after an informational response, or added the limits of its upstream.
func (s *serving) joinFront(h http.Header, status int, refused bool) error {
	for key, lines := range s.front {
		switch now := h[key]; {
		case len(now) == 0:
			h[key] = lines
		case len(now) > len(lines) && slices.Equal(now[:len(lines)], lines):
			h[key] = now[len(lines):]
		}
	}
	for _, key := range [...]string{"Date", "Age", "X-From-Cache"} { // from which ParseAny counts points in time
		s.front[key] = h[key]
	}
	front, _ := ratelimit.ParseAny(s.front, ratelimit.LegacyOptions{}) // RestrictHeader reports the malformed fields of h
	if len(front.Limits)+len(front.Policies) == 0 {
		return nil
	}
	return ratelimit.RestrictHeader(h, status, front, ratelimit.RestrictOptions{Refused: refused})
}

// announce joins the Decision with the header, once, before a final status is sent.
func (s *serving) announce(status int) {
	if s.announced || !s.announces() {
		return
	}
	h, refused := s.writer.Header(), len(s.decision.Violated) > 0
	var inFront error
	if s.front != nil {
		inFront = s.joinFront(h, status, refused)
	}
	s.mu.Lock()
	s.announced = true
	dialects := slices.Concat(s.by.Dialects, s.inner)
	s.mu.Unlock()
	if s.outer.writes(dialects) {
		dialects = nil
	}
	err := ratelimit.RestrictHeader(h, status, s.decision.Fields, ratelimit.RestrictOptions{Refused: refused, Dialects: dialects})
	if err := text.JoinErrors(inFront, err); err != nil {
		s.by.fault(s.request, err)
	}
	if len(h["Trailer"]) > 0 {
		keepOutOfTrailers(h)
	}
}

// keepOutOfTrailers removes fields of limits from Trailer: net/http would repeat them in the
// trailers, where they must not be (draft-11 Sections 3.1 and 4.1).
func keepOutOfTrailers(h http.Header) {
	names := strings.Split(strings.Join(h["Trailer"], ","), ",")
	names = slices.DeleteFunc(names, func(name string) bool {
		key := http.CanonicalHeaderKey(text.Trim(name))
		return len(h[key]) > 0 && older.Knows(key)
	})
	if rest := text.Trim(strings.Join(names, ",")); rest != "" {
		h["Trailer"] = []string{rest}
	} else {
		delete(h, "Trailer")
	}
}

// writes asks a Handler in front to write the dialects of a Handler behind, and reports whether it
// will. After a hijack it will not, because it has already announced.
func (s *serving) writes(dialects []*ratelimit.Dialect) bool {
	if s == nil || !s.announces() {
		return s != nil && s.outer.writes(dialects)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner = append(s.inner, dialects...)
	return !s.announced
}

// An announcer is the ResponseWriter of the handlers behind a Handler. Like the types below, an
// announcer is one pointer, and needs no allocation.
type announcer struct{ s *serving }

// announcer returns the ResponseWriter for next. It is a Flusher and a Hijacker if s.writer is.
func (s *serving) announcer() http.ResponseWriter {
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

// ReadFrom announces with the first bytes, because an empty body sends no header.
func (a announcer) ReadFrom(r io.Reader) (int64, error) {
	const most = 512
	first, err := io.Copy(struct{ io.Writer }{a}, io.LimitReader(r, most))
	if err != nil || first < most {
		return first, err
	}
	rest, err := io.Copy(a.s.writer, r)
	return first + rest, err
}

// FlushError exists even if s.writer cannot be flushed. Without it [http.ResponseController] would
// flush a writer further in front, and send the header without the fields.
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

// Hijack announces, because a reverse proxy hijacks and then sends the header without WriteHeader.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.s.writer).Hijack()
	if err == nil {
		h.s.announce(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

type flushHijacker struct{ hijacker }

func (f flushHijacker) Flush() { _ = f.FlushError() }
