package announce_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// The tests of this file send requests over connections on loopback. interop/announce_test.go
// has tests with other libraries.

// overBoth runs a test over HTTP/1.1 and over HTTP/2.
func overBoth(t *testing.T, test func(t *testing.T, version int)) {
	t.Helper()
	for version, name := range []string{1: "HTTP/1.1", 2: "HTTP/2"} {
		if version > 0 {
			t.Run(name, func(t *testing.T) { test(t, version) })
		}
	}
}

// start starts a server without a log. HTTP/2 uses TLS.
func start(t *testing.T, version int, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000} // more than any test needs
	if s.EnableHTTP2 = version == 2; s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// sendTo sends a request without a body, and requires that the response has this version.
func sendTo(t *testing.T, s *httptest.Server, version int, method string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
	require.NoError(t, err)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, version, resp.ProtoMajor)
	return resp
}

// bodyOf reads the rest of a response.
func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

// The announcements of the two limiters of these tests.
const (
	innerSays = "inner 5/9 w=60 t=30"
	outerSays = "outer 50/90 w=60 t=40"
	bothSay   = innerSays + ", " + outerSays

	hijackedSay = outerSays + ", " + innerSays // a limiter in front announces first
)

// A pair is two Middlewares.
type pair struct {
	inner, outer *announce.Middleware
	done         chan string // the names of limiters whose Done was called
}

func newPair(t testing.TB) *pair {
	p := &pair{done: make(chan string, 2000)}
	limiter := func(name, says string) *announce.Middleware {
		policies, limits := bothFields(says)
		m := limited(t, policies, limits)
		take := m.Take
		m.Take = func(r *http.Request) (announce.Decision, error) {
			d, err := take(r)
			d.Done = func() { p.done <- name }
			return d, err
		}
		m.OnFault = func(_ *http.Request, err error) { t.Error(err) }
		return m
	}
	p.inner, p.outer = limiter("inner", innerSays), limiter("outer", outerSays)
	return p
}

// requireDone waits until the Done of these limiters was called.
func (p *pair) requireDone(t *testing.T, names ...string) {
	t.Helper()
	var heard []string
	for range names {
		heard = append(heard, <-p.done)
	}
	require.ElementsMatch(t, names, heard)
	require.Empty(t, p.done)
}

// requireSays requires that a header contains the fields of these limits exactly once.
func requireSays(t *testing.T, says string, h http.Header) {
	t.Helper()
	want := http.Header{}
	if says != "" {
		want = trial.Wire(written("limits: " + says))
	}
	require.Equal(t, want, limitFields(h))
}

// A doubtfulReader hides all methods except Read.
type doubtfulReader struct{ io.Reader }

// answers are handlers, and the responses that the client gets.
var answers = []struct {
	name    string
	method  string // "" is GET
	status  int    // 0 is 200
	body    string
	trailer http.Header
	serve   func(t *testing.T, w http.ResponseWriter)
}{
	{name: "nothing is written", serve: func(*testing.T, http.ResponseWriter) {}},
	{name: "WriteHeader", status: 202, serve: func(_ *testing.T, w http.ResponseWriter) { w.WriteHeader(202) }},
	{name: "WriteHeader twice", status: 202, serve: func(_ *testing.T, w http.ResponseWriter) {
		w.WriteHeader(202)
		w.WriteHeader(500)
	}},
	{name: "Write", body: "hello", serve: func(_ *testing.T, w http.ResponseWriter) { _, _ = w.Write([]byte("hello")) }},
	{name: "Write of nothing", serve: func(_ *testing.T, w http.ResponseWriter) { _, _ = w.Write(nil) }},
	{name: "WriteString", body: "hello", serve: func(t *testing.T, w http.ResponseWriter) {
		_, ok := w.(io.StringWriter)
		require.True(t, ok)
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "io.Copy", body: "hello", serve: func(t *testing.T, w http.ResponseWriter) {
		_, ok := w.(io.ReaderFrom)
		require.True(t, ok)
		n, err := io.Copy(w, doubtfulReader{strings.NewReader("hello")})
		require.Equal(t, int64(5), n)
		require.NoError(t, err)
	}},
	{name: "Flush", body: "hello", serve: func(_ *testing.T, w http.ResponseWriter) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "ResponseController.Flush", body: "hello", serve: func(t *testing.T, w http.ResponseWriter) {
		require.NoError(t, http.NewResponseController(w).Flush())
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "deadlines", body: "hello", serve: func(t *testing.T, w http.ResponseWriter) {
		c := http.NewResponseController(w)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "204", status: 204, serve: func(_ *testing.T, w http.ResponseWriter) { w.WriteHeader(204) }},
	{name: "304", status: 304, serve: func(_ *testing.T, w http.ResponseWriter) {
		w.Header().Set("Etag", `"a"`)
		w.WriteHeader(304)
	}},
	{name: "http.Error", status: 404, body: "gone\n", serve: func(_ *testing.T, w http.ResponseWriter) { http.Error(w, "gone", 404) }},
	{name: "HEAD", method: "HEAD", serve: func(_ *testing.T, w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") }},
	{name: "HEAD, and nothing is written", method: "HEAD", serve: func(*testing.T, http.ResponseWriter) {}},
	{name: "the fields are not in the header before it is sent", body: "hello", serve: func(t *testing.T, w http.ResponseWriter) {
		require.Empty(t, w.Header())
		_, _ = io.WriteString(w, "hello")
		require.NotEmpty(t, w.Header()[draft.LimitKey])
	}},
	{name: "trailers that are declared", body: "hello", trailer: http.Header{"X-Sum": {"1"}}, serve: func(_ *testing.T, w http.ResponseWriter) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", "1")
	}},
	{name: "trailers with the prefix", body: "hello", trailer: http.Header{"X-Sum": {"1"}}, serve: func(_ *testing.T, w http.ResponseWriter) {
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	}},
	{name: "trailers with the names of fields of limits", body: "hello", trailer: http.Header{"X-Sum": {"1"}}, serve: func(_ *testing.T, w http.ResponseWriter) {
		w.Header()["Trailer"] = []string{"ratelimit, X-Sum", "RateLimit-Policy"}
		w.Header().Set("X-Sum", "0")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", "1")
	}},
	{name: "a trailer with the name of a field of limits", body: "hello", serve: func(_ *testing.T, w http.ResponseWriter) {
		w.Header().Set("Trailer", "RateLimit")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "a recovered panic", status: 500, body: "sorry\n", serve: func(*testing.T, http.ResponseWriter) { panic("a mistake") }},
	{name: "a recovered panic behind a header", status: 202, body: "sorry\n", serve: func(_ *testing.T, w http.ResponseWriter) {
		w.WriteHeader(202)
		panic("a mistake")
	}},
}

// recovering responds for a handler that panics.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch v := recover(); v {
			case nil:
			case http.ErrAbortHandler:
				panic(v)
			default:
				http.Error(w, "sorry", 500)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// The fields are in the header once, however a handler responds. The rest of the response is
// the same as without a Middleware.
func TestAnnounce(t *testing.T) {
	for _, tc := range answers {
		t.Run(tc.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, version int) {
				p := newPair(t)
				next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tc.serve(t, w) })
				for says, handler := range map[string]http.Handler{innerSays: p.inner.Handler(next), bothSay: p.outer.Handler(p.inner.Handler(next))} {
					resp := sendTo(t, start(t, version, recovering(handler)), version, tc.method)
					body := bodyOf(t, resp)
					require.Equal(t, max(tc.status, 200), resp.StatusCode)
					require.Equal(t, tc.body, body)
					requireSays(t, says, resp.Header)
					require.Equal(t, tc.trailer, resp.Trailer)
					for _, f := range ratelimittest.Check(resp) {
						require.Equal(t, ratelimittest.LevelNote, f.Level, "%v", f)
					}
				}
				p.requireDone(t, "inner", "inner", "outer")
			})
		})
	}
}

// One of two limiters refuses GET and HEAD requests.
func TestAnnounceRefusals(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		for _, method := range []string{"GET", "HEAD"} {
			for refuser, says := range map[string]string{"outer": outerSays, "inner": bothSay} {
				p := newPair(t)
				m := map[string]*announce.Middleware{"inner": p.inner, "outer": p.outer}[refuser]
				take := m.Take
				m.Take = func(r *http.Request) (announce.Decision, error) {
					d, err := take(r)
					d.Violated = []string{refuser}
					return d, err
				}
				resp := sendTo(t, start(t, version, p.outer.Handler(p.inner.Handler(accept))), version, method)
				require.Equal(t, 429, resp.StatusCode)
				require.Equal(t, method == "GET", strings.Contains(bodyOf(t, resp), refuser))
				h := limitFields(resp.Header)
				h.Del("Retry-After")
				requireSays(t, says, h)
			}
		}
	})
}

// Events arrive when they are flushed. The fields arrive with the first event.
func TestAnnounceStreams(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		more := make(chan bool) // the client has read an event
		events := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-more:
				case <-r.Context().Done():
				}
			}
		})
		upstream := start(t, version, p.inner.Handler(events))
		for name, handler := range map[string]http.Handler{
			"direct":          p.outer.Handler(p.inner.Handler(events)),
			"through a proxy": p.outer.Handler(reverseProxy(t, upstream)),
		} {
			t.Run(name, func(t *testing.T) {
				resp := sendTo(t, start(t, version, handler), version, "GET")
				requireSays(t, bothSay, resp.Header)
				lines := bufio.NewReader(resp.Body)
				for i := range 3 {
					line, err := lines.ReadString('\n')
					require.NoError(t, err)
					require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
					_, err = lines.ReadString('\n')
					require.NoError(t, err)
					more <- true
				}
				_, err := lines.ReadByte()
				require.ErrorIs(t, err, io.EOF)
				p.requireDone(t, "inner", "outer")
			})
		}
	})
}

// reverseProxy returns a proxy in front of a server.
func reverseProxy(t *testing.T, upstream *httptest.Server) *httputil.ReverseProxy {
	to, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: upstream.Client().Transport,
		ErrorLog:  log.New(io.Discard, "", 0),
	}
}

// A 100 or 103 has no fields, and the final response has them once. A reverse proxy clears
// the header after each 103.
func TestAnnounceInformational(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range strings.Count(r.URL.Path, "/103") {
				w.Header().Set("Link", fmt.Sprintf("</%d.css>; rel=preload", i))
				w.WriteHeader(http.StatusEarlyHints)
			}
			_, err := io.Copy(w, r.Body) // the server sends 100 when the body is read
			require.NoError(t, err)
		})
		upstream := start(t, version, p.inner.Handler(next))
		for name, handler := range map[string]http.Handler{
			"direct":          p.outer.Handler(p.inner.Handler(next)),
			"through a proxy": p.outer.Handler(reverseProxy(t, upstream)),
		} {
			for path, want := range map[string][]int{"/100": {100}, "/103": {103}, "/103/103/103": {103, 103, 103}} {
				t.Run(name+path, func(t *testing.T) {
					s := start(t, version, handler)
					s.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
					var early []int
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
						early = append(early, status)
						requireSays(t, "", http.Header(h))
						return nil
					}})
					req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader("hello"))
					require.NoError(t, err)
					if path == "/100" {
						req.Header.Set("Expect", "100-continue")
					}
					resp, err := s.Client().Do(req)
					require.NoError(t, err)
					defer resp.Body.Close()
					require.Equal(t, "hello", bodyOf(t, resp))
					requireSays(t, bothSay, resp.Header)
					if path == "/100" {
						early = slices.Compact(early) // a proxy also sends its own
					}
					require.Equal(t, want, early)
					p.requireDone(t, "inner", "outer")
				})
			}
		}
	})
}

// net/http would repeat the fields of the header in the trailers, next to the trailers of upstream.
func TestAnnounceTrailers(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		upstream := start(t, version, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "RateLimit, X-RateLimit-Remaining, X-Sum")
			_, _ = io.WriteString(w, "hello")
			w.Header().Set("RateLimit", `"late";r=1`)
			w.Header().Set("X-RateLimit-Remaining", "1")
			w.Header().Set("X-Sum", "1")
		}))
		resp := sendTo(t, start(t, version, p.outer.Handler(p.inner.Handler(reverseProxy(t, upstream)))), version, "GET")
		require.Equal(t, "hello", bodyOf(t, resp))
		requireSays(t, bothSay, resp.Header)
		require.Equal(t, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Sum": {"1"}}, resp.Trailer)
	})
}

// If no handler recovers, the server closes the connection, or resets the stream. Done is
// called once.
func TestAnnouncePanics(t *testing.T) {
	for _, panicking := range []any{"a mistake", http.ErrAbortHandler} {
		t.Run(fmt.Sprint(panicking), func(t *testing.T) {
			overBoth(t, func(t *testing.T, version int) {
				p := newPair(t)
				sends := false
				handler := p.outer.Handler(p.inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if sends {
						_, _ = io.WriteString(w, "hel")
						w.(http.Flusher).Flush()
					}
					panic(panicking)
				})))
				s := start(t, version, handler)
				_, err := s.Client().Get(s.URL)
				require.Error(t, err)
				p.requireDone(t, "inner", "outer")

				sends = true
				resp := sendTo(t, s, version, "GET")
				requireSays(t, bothSay, resp.Header)
				b, err := io.ReadAll(resp.Body)
				require.Error(t, err)
				require.Equal(t, "hel", string(b))
				p.requireDone(t, "inner", "outer")
			})
		})
	}
}

// http.TimeoutHandler has a header of its own. It abandons a handler that takes too long,
// together with the announcements of a limiter in that handler.
func TestAnnounceTimeouts(t *testing.T) {
	p := newPair(t)
	limited := map[string]func(within func(http.Handler) http.Handler, next http.Handler) http.Handler{
		"inside": func(within func(http.Handler) http.Handler, next http.Handler) http.Handler {
			return p.outer.Handler(p.inner.Handler(within(next)))
		},
		"between": func(within func(http.Handler) http.Handler, next http.Handler) http.Handler {
			return p.outer.Handler(within(p.inner.Handler(next)))
		},
		"outside": func(within func(http.Handler) http.Handler, next http.Handler) http.Handler {
			return within(p.outer.Handler(p.inner.Handler(next)))
		},
	}
	for _, tc := range []struct {
		place  string
		late   bool
		status int
		says   string
	}{
		{"inside", false, 202, bothSay},
		{"inside", true, 503, bothSay},
		{"between", false, 202, bothSay},
		{"between", true, 503, outerSays},
		{"outside", false, 202, bothSay},
		{"outside", true, 503, ""},
	} {
		t.Run(fmt.Sprintf("%s, late: %v", tc.place, tc.late), func(t *testing.T) {
			overBoth(t, func(t *testing.T, version int) {
				within := func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "") }
				if tc.late {
					within = func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Millisecond, "late") }
				}
				answered, running := make(chan bool, 1), make(chan error, 1)
				next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tc.late {
						<-answered
					}
					w.WriteHeader(202)
					d, ok := announce.DecisionOf(r.Context())
					require.True(t, ok)
					require.Equal(t, "inner", d.Fields.Limits[0].Name)
					_, err := io.WriteString(w, "hello")
					running <- err
				})
				resp := sendTo(t, start(t, version, limited[tc.place](within, next)), version, "GET")
				require.Equal(t, tc.status, resp.StatusCode)
				requireSays(t, tc.says, resp.Header)
				answered <- true
				if tc.late {
					require.Equal(t, "late", bodyOf(t, resp))
					require.ErrorIs(t, <-running, http.ErrHandlerTimeout)
				} else {
					require.Equal(t, "hello", bodyOf(t, resp))
					require.NoError(t, <-running)
				}
				p.requireDone(t, "inner", "outer")
			})
		})
	}
}

// A flush announces, even if the writer in front cannot be flushed, such as the writer of
// http.TimeoutHandler.
func TestAnnounceFailedFlush(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
			requireSays(t, bothSay, w.Header())
			w.WriteHeader(202)
		})
		resp := sendTo(t, start(t, version, http.TimeoutHandler(p.outer.Handler(p.inner.Handler(next)), time.Minute, "")), version, "GET")
		require.Equal(t, 202, resp.StatusCode)
		requireSays(t, bothSay, resp.Header)
	})
}

// buffering holds back the response of a handler until it is complete.
func buffering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer := httptest.NewRecorder()
		maps.Copy(buffer.Header(), w.Header())
		next.ServeHTTP(buffer, r)
		maps.Copy(w.Header(), buffer.Header())
		w.Header().Set("Content-Length", fmt.Sprint(buffer.Body.Len()))
		w.WriteHeader(buffer.Code)
		_, _ = buffer.Body.WriteTo(w)
	})
}

func TestAnnounceBuffers(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		p := newPair(t)
		for name, handler := range map[string]http.Handler{
			"inside":     p.outer.Handler(p.inner.Handler(buffering(accept))),
			"between":    p.outer.Handler(buffering(p.inner.Handler(accept))),
			"outside":    buffering(p.outer.Handler(p.inner.Handler(accept))),
			"everywhere": buffering(p.outer.Handler(buffering(p.inner.Handler(buffering(accept))))),
		} {
			t.Run(name, func(t *testing.T) {
				resp := sendTo(t, start(t, version, handler), version, "GET")
				require.Equal(t, 202, resp.StatusCode)
				requireSays(t, bothSay, resp.Header)
			})
		}
	})
}

// TestAnnounceConcurrent sends 800 requests at once through two limiters, a timeout and a
// proxy that flushes at once. A fifth of the requests take too long.
func TestAnnounceConcurrent(t *testing.T) {
	overBoth(t, func(t *testing.T, version int) {
		upstream := start(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), trial.Wire(written("X-RateLimit-*: 100, 60, 50")))
			if r.URL.Path == "/late" {
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, "hello")
		}))
		p := newPair(t)
		proxy := reverseProxy(t, upstream)
		proxy.FlushInterval = -1
		answered := make(chan bool)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			<-answered
			w.WriteHeader(http.StatusBadGateway) // too late
		}
		within := func(d time.Duration) http.Handler {
			return p.outer.Handler(http.TimeoutHandler(p.inner.Handler(proxy), d, "late"))
		}
		mux := http.NewServeMux()
		mux.Handle("/", within(time.Minute))
		mux.Handle("/late", within(10*time.Millisecond))
		s := start(t, version, mux)

		send := func(path string) error {
			resp, err := s.Client().Get(s.URL + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			status, text, says, older := 200, "hello", "default 60/100 t=50, "+bothSay, "9"
			if path == "/late" {
				status, text, says, older = 503, "late", outerSays, ""
			}
			want := trial.Wire(written("limits: " + says))
			for key := range want {
				if got := resp.Header[key]; fmt.Sprint(got) != fmt.Sprint(want[key]) {
					err = errors.Join(err, fmt.Errorf("%s: %v, want %v", key, got, want[key]))
				}
			}
			if resp.StatusCode != status || string(body) != text || resp.Header.Get("X-RateLimit-Limit") != older {
				err = errors.Join(err, fmt.Errorf("%d %q %v", resp.StatusCode, body, resp.Header))
			}
			return err
		}
		// HTTP/2 then has one connection for all requests. A server of net/http closes a connection
		// whose SETTINGS take two seconds. On a busy machine the SETTINGS of many new connections take
		// so long.
		require.NoError(t, send("/"))
		p.requireDone(t, "inner", "outer")
		const n = 800
		errs := make([]error, n)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = send([]string{"/late", "/", "/", "/", "/"}[i%5]) })
		}
		all.Wait()
		close(answered)
		require.NoError(t, errors.Join(errs...))
		heard := map[string]int{}
		for range 2 * n {
			heard[<-p.done]++
		}
		require.Equal(t, map[string]int{"inner": n, "outer": n}, heard)
	})
}
