package announce_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
)

// An unwrapper is a writer that only ResponseController can flush and hijack.
type unwrapper struct{ inner http.ResponseWriter }

func (u unwrapper) Header() http.Header { return u.inner.Header() }

func (u unwrapper) Write(b []byte) (int, error) { return u.inner.Write(b) }

func (u unwrapper) WriteHeader(status int) { u.inner.WriteHeader(status) }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.inner }

func unwrapping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(unwrapper{w}, r) })
}

// wrapped returns handlers with two limiters, and unwrappers between the limiters.
func (p *pair) wrapped(next http.Handler) map[string]http.Handler {
	return map[string]http.Handler{
		"without":    p.outer.Handler(p.inner.Handler(next)),
		"behind":     p.outer.Handler(p.inner.Handler(unwrapping(next))),
		"between":    p.outer.Handler(unwrapping(p.inner.Handler(next))),
		"in front":   unwrapping(p.outer.Handler(p.inner.Handler(next))),
		"everywhere": unwrapping(p.outer.Handler(unwrapping(p.inner.Handler(unwrapping(next))))),
	}
}

// http.ResponseController uses the writer of a limiter. It flushes the header with the fields
// even if the writer in front is not a Flusher.
func TestAnnounceController(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		read := make(chan bool) // the client has read the header
		for name, handler := range p.wrapped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
			if r.ProtoMajor == 1 {
				require.NoError(t, c.EnableFullDuplex())
			}
			require.NoError(t, c.Flush())
			select {
			case <-read:
			case <-r.Context().Done():
			}
		})) {
			t.Run(name, func(t *testing.T) {
				resp := sendTo(t, start(t, version, handler), version, "GET")
				requireSays(t, bothSay, resp.Header)
				read <- true
				require.Empty(t, bodyOf(t, resp))
				p.requireDone(t, "inner", "outer")
			})
		}
	})
}

// After a handler has hijacked the connection, the header contains the fields, because the
// handler may send that header.
func TestAnnounceHijack(t *testing.T) {
	p := newPair(t)
	for name, handler := range p.wrapped(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hijack := http.NewResponseController(w).Hijack
		if h, ok := w.(http.Hijacker); ok {
			hijack = h.Hijack
		}
		conn, buffered, err := hijack()
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(buffered, "HTTP/1.1 200 OK\r\nConnection: close\r\n")
		require.NoError(t, w.Header().Write(buffered))
		fmt.Fprint(buffered, "\r\nhello")
		require.NoError(t, buffered.Flush())
	})) {
		t.Run(name, func(t *testing.T) {
			resp := sendTo(t, start(t, 1, handler), 1, "GET")
			require.Equal(t, "hello", bodyOf(t, resp))
			requireSays(t, hijackedSay, resp.Header)
			p.requireDone(t, "inner", "outer")
		})
	}
	t.Run("refused", func(t *testing.T) { // the writer in front refuses, so the header is unchanged
		handler := http.TimeoutHandler(p.outer.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := http.NewResponseController(w).Hijack()
			require.ErrorIs(t, err, http.ErrNotSupported)
			require.ErrorIs(t, http.NewResponseController(w).EnableFullDuplex(), http.ErrNotSupported)
			require.Empty(t, w.Header())
			http.Error(w, "no websockets here", http.StatusNotImplemented)
		})), time.Minute, "")
		resp := sendTo(t, start(t, 1, handler), 1, "GET")
		require.Equal(t, 501, resp.StatusCode)
		requireSays(t, outerSays, resp.Header)
	})
}

// echoing speaks another protocol, and returns what it receives.
func echoing(t *testing.T, fields string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "echo", r.Header.Get("Upgrade"))
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		if fields != "" {
			maps.Copy(w.Header(), trial.Wire(written("limits: "+fields)))
		}
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		defer conn.Close()
		_, _ = io.Copy(conn, buffered)
	})
}

// A response with 101 is final and has the fields. This holds for a reverse proxy too, which
// sends the header without WriteHeader.
func TestAnnounceSwitches(t *testing.T) {
	p := newPair(t)
	silent, speaking := start(t, 1, echoing(t, "")), start(t, 1, echoing(t, "upstream 7/8"))
	for name, tc := range map[string]struct {
		handler http.Handler
		says    []string
	}{
		"direct":                            {p.outer.Handler(p.inner.Handler(echoing(t, ""))), []string{bothSay}},
		"joined":                            {p.outer.Handler(p.inner.Handler(echoing(t, "upstream 7/8"))), []string{"upstream 7/8, " + bothSay}},
		"through a proxy":                   {p.outer.Handler(p.inner.Handler(reverseProxy(t, silent))), []string{hijackedSay}},
		"through a proxy, next to upstream": {p.outer.Handler(p.inner.Handler(reverseProxy(t, speaking))), []string{hijackedSay, "upstream 7/8"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, 1, tc.handler)
			req := trial.NewRequest(t, s.URL)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			resp, err := s.Client().Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			want := http.Header{}
			for _, says := range tc.says {
				for key, lines := range trial.Wire(written("limits: " + says)) {
					want[key] = append(want[key], lines...)
				}
			}
			require.Equal(t, want, limitFields(resp.Header))
			conn := resp.Body.(io.ReadWriteCloser)
			for range 3 {
				_, err = io.WriteString(conn, "hello")
				require.NoError(t, err)
				b := make([]byte, 5)
				_, err = io.ReadFull(conn, b)
				require.NoError(t, err)
				require.Equal(t, "hello", string(b))
			}
			require.NoError(t, conn.Close())
			p.requireDone(t, "inner", "outer")
		})
	}
}

// Writers with different methods.
type (
	plainWriter      struct{ http.ResponseWriter }
	flushingWriter   struct{ plainWriter }
	hijackingWriter  struct{ plainWriter }
	allPurposeWriter struct{ hijackingWriter }
)

func (flushingWriter) Flush() {}

func (allPurposeWriter) Flush() {}

func (hijackingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func (plainWriter) Push(string, *http.PushOptions) error { return nil }

func (plainWriter) CloseNotify() <-chan bool { return nil }

// shapeOf returns the interfaces that a writer implements.
func shapeOf(w http.ResponseWriter) string {
	var s []string
	if _, ok := w.(http.Flusher); ok {
		s = append(s, "Flusher")
	}
	if _, ok := w.(http.Hijacker); ok {
		s = append(s, "Hijacker")
	}
	if _, ok := w.(http.Pusher); ok {
		s = append(s, "Pusher")
	}
	//lint:ignore SA1019 Whether it is there is what is asked.
	if _, ok := w.(http.CloseNotifier); ok {
		s = append(s, "CloseNotifier")
	}
	return strings.Join(s, " ")
}

// The writer of a handler is a Flusher and a Hijacker if the writer in front is. It is never
// a Pusher or a CloseNotifier. It needs no allocation.
func TestAnnounceShapes(t *testing.T) {
	plain := plainWriter{httptest.NewRecorder()}
	p := newPair(t)
	for _, tc := range []struct {
		writer http.ResponseWriter
		shape  string
	}{
		{plain, ""},
		{flushingWriter{plain}, "Flusher"},
		{hijackingWriter{plain}, "Hijacker"},
		{allPurposeWriter{hijackingWriter{plain}}, "Flusher Hijacker"},
	} {
		t.Run(tc.shape, func(t *testing.T) {
			require.Equal(t, strings.TrimSpace(tc.shape+" Pusher CloseNotifier"), shapeOf(tc.writer))
			looked := false
			p.outer.Handler(p.inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				looked = true
				require.Equal(t, tc.shape, shapeOf(w))
				require.Implements(t, (*interface{ FlushError() error })(nil), w)
			}))).ServeHTTP(tc.writer, httptest.NewRequest("GET", "/", nil))
			require.True(t, looked)
			require.Equal(t, tc.writer, announce.AnnouncerOf(tc.writer, ratelimit.Fields{})(), "nothing is announced")
			announcer := announce.AnnouncerOf(tc.writer, laws.FieldsOf(``, `"a";r=1`))
			var kept http.ResponseWriter
			trial.RequireAllocs(t, 0, func() { kept = announcer() })
			require.Equal(t, tc.shape, shapeOf(kept))
		})
	}
	overBoth(t, func(t *testing.T, version int) {
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, shapeOf(w)) })
		ours := p.outer.Handler(p.inner.Handler(next))
		require.Equal(t, []string{1: "Flusher Hijacker", 2: "Flusher"}[version], bodyOf(t, sendTo(t, start(t, version, ours), version, "GET")))
		timed := http.TimeoutHandler(ours, time.Minute, "")
		require.Empty(t, bodyOf(t, sendTo(t, start(t, version, timed), version, "GET")))
	})
}

// A copy that ends before its first byte sends no header: a handler may still refuse.
func TestAnnounceNothingCopied(t *testing.T) {
	inner := laws.FieldsOf(`"inner";q=5;w=60`, `"inner";r=0;t=9`)
	refuse := func(w http.ResponseWriter, r *http.Request, err error) {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, announce.Refuse(w, r, inner, ratelimit.NewProblem(ratelimit.QuotaExceeded, "inner")))
	}
	for name, next := range map[string]http.HandlerFunc{
		"a body that fails": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF))
			refuse(w, r, err)
		},
		"an empty body": func(w http.ResponseWriter, r *http.Request) {
			n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
			require.NoError(t, err)
			require.Zero(t, n)
			refuse(w, r, io.ErrUnexpectedEOF)
		},
	} {
		t.Run(name, func(t *testing.T) {
			day := limited(t, `"day";q=1000;w=86400`, `"day";r=9;t=80000`)
			minute := limited(t, `"minute";q=100;w=60`, `"minute";r=60;t=30`)
			resp := sendTo(t, start(t, 1, day.Handler(minute.Handler(next))), 1, "GET")
			require.Equal(t, 429, resp.StatusCode)
			require.Equal(t, []string{`"inner";r=0;t=9, "minute";r=60;t=30, "day";r=9;t=80000`}, resp.Header[draft.LimitKey])
			require.Equal(t, []string{"9"}, resp.Header[text.RetryAfterKey])
		})
	}
}

// A growing is a reader of parts. At an empty part it ends, and then goes on, as a terminal does.
type growing []string

func (g *growing) Read(p []byte) (int, error) {
	part := (*g)[0]
	if *g = (*g)[1:]; part == "" {
		return 0, io.EOF
	}
	return copy(p, part), nil
}

// A copy ends at the first end of its source, also behind Middlewares.
func TestAnnounceCopiesToTheEnd(t *testing.T) {
	p := newPair(t)
	copied := int64(0)
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		copied, _ = io.Copy(w, &growing{"hello", "", " again", ""})
	})
	require.Equal(t, "hello", bodyOf(t, sendTo(t, start(t, 1, p.outer.Handler(p.inner.Handler(next))), 1, "GET")))
	require.Equal(t, int64(5), copied)
}

// A countingListener counts the bytes that its connections send by sendfile.
type countingListener struct {
	net.Listener
	n atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(*net.TCPConn), l}, nil
}

type countingConn struct {
	*net.TCPConn
	l *countingListener
}

func (c *countingConn) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.TCPConn.ReadFrom(r)
	c.l.n.Add(n)
	return n, err
}

// The server sends a file by sendfile, with or without limiters in front. HTTP/2 and TLS
// copy.
func TestAnnounceSendsFiles(t *testing.T) {
	const size = 4 << 20
	file := filepath.Join(t.TempDir(), "file.bin")
	require.NoError(t, os.WriteFile(file, make([]byte, size), 0o600))
	p := newPair(t)
	send := func(handler http.Handler) (sent int64) {
		s := httptest.NewUnstartedServer(handler)
		l := &countingListener{Listener: s.Listener}
		s.Listener = l
		s.Start()
		resp := sendTo(t, s, 1, "GET")
		n, err := io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.Equal(t, int64(size), n)
		s.Close() // waits until the handler has returned
		return l.n.Load()
	}
	for name, serve := range map[string]http.HandlerFunc{
		"ServeContent": func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(file)
			require.NoError(t, err)
			defer f.Close()
			http.ServeContent(w, r, "file.bin", time.Time{}, f)
		},
		"ServeFile": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) },
		"io.Copy": func(w http.ResponseWriter, _ *http.Request) {
			f, err := os.Open(file)
			require.NoError(t, err)
			defer f.Close()
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, err = io.Copy(w, f)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			without := send(serve)
			require.Greater(t, without, int64(size*99/100))
			require.InDelta(t, without, send(p.inner.Handler(serve)), 512)
			require.InDelta(t, without, send(p.outer.Handler(p.inner.Handler(p.inner.Handler(serve)))), 3*512)
		})
	}
}

// A handler responds while it reads.
func TestAnnounceFullDuplex(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		handler := p.outer.Handler(p.inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			if r.ProtoMajor == 1 { // HTTP/2 needs no permission
				require.NoError(t, c.EnableFullDuplex())
			}
			require.NoError(t, c.Flush())
			b := make([]byte, 1)
			for {
				if _, err := r.Body.Read(b); err != nil {
					return
				}
				_, _ = w.Write(b)
				require.NoError(t, c.Flush())
			}
		})))
		s := start(t, version, handler)
		body, write := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, body)
		require.NoError(t, err)
		resp, err := s.Client().Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		requireSays(t, bothSay, resp.Header)
		for _, c := range []byte("hello") {
			_, err := write.Write([]byte{c})
			require.NoError(t, err)
			b := make([]byte, 1)
			_, err = io.ReadFull(resp.Body, b)
			require.NoError(t, err)
			require.Equal(t, c, b[0])
		}
		require.NoError(t, write.Close())
		require.Empty(t, bodyOf(t, resp))
		p.requireDone(t, "inner", "outer")
	})
}

// http.MaxBytesReader closes the connection through an unexported method of the server's own
// writer. It does not find that method behind a Middleware, or behind any other writer. In
// front of a Middleware it works.
func TestAnnounceMaxBytes(t *testing.T) {
	p := newPair(t)
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		var tooLarge *http.MaxBytesError
		require.ErrorAs(t, err, &tooLarge)
		http.Error(w, "", http.StatusRequestEntityTooLarge)
	})
	for name, tc := range map[string]struct {
		handler http.Handler
		says    string
		closes  bool
	}{
		"without":  {http.MaxBytesHandler(read, 10), "", true},
		"behind":   {p.inner.Handler(http.MaxBytesHandler(read, 10)), innerSays, false},
		"in front": {http.MaxBytesHandler(p.inner.Handler(read), 10), innerSays, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, 1, tc.handler)
			resp, err := s.Client().Post(s.URL, "", strings.NewReader("hello, world"))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.Equal(t, tc.closes, resp.Close)
			requireSays(t, tc.says, resp.Header)
		})
	}
}

// The older form of an inner limiter is written next to status 101, as next to any other
// status.
func TestAnnounceSwitchesOlder(t *testing.T) {
	upstream := start(t, 1, echoing(t, ""))
	for name, next := range map[string]http.Handler{"direct": echoing(t, ""), "through a proxy": reverseProxy(t, upstream)} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.inner.Dialects = []*ratelimit.Dialect{ratelimit.XRateLimit}
			s := start(t, 1, p.outer.Handler(p.inner.Handler(next)))
			req := trial.NewRequest(t, s.URL)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			resp, err := s.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.(io.Closer).Close())
			require.Equal(t, "5", resp.Header.Get("X-RateLimit-Remaining"))
		})
	}
}
