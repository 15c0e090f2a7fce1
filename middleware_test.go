package ratelimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// decide makes a Take that always says the same.
func decide(d Decision, err error) func(*http.Request) (Decision, error) {
	return func(*http.Request) (Decision, error) { return d, err }
}

var errDown = errors.New("the limiter is down")

// TestMiddleware holds what a response says, byte by byte, and whether the next
// handler was called.
func TestMiddleware(t *testing.T) {
	const policies, spare, spent = `"burst";q=10;w=60, "daily";q=100;w=86400`, `"burst";r=4;t=9`, `"burst";r=0;t=9`
	const current = `
		RateLimit-Policy: "burst";q=10;w=60, "daily";q=100;w=86400
		RateLimit: "burst";r=4;t=9`
	const exhausted = `
		RateLimit-Policy: "burst";q=10;w=60, "daily";q=100;w=86400
		RateLimit: "burst";r=0;t=9
		Retry-After: 9
		Cache-Control: no-store
		Content-Type: application/problem+json`
	const exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["burst"]}`
	for _, tc := range []struct {
		name     string
		before   string // header
		policies string
		limits   string
		violated []string
		problem  *Problem
		err      error
		legacy   []*Dialect
		status   int
		header   string
		body     string
		faults   error // of which OnError hears
	}{
		{name: "passes", policies: policies, limits: spare, status: 202, header: current},
		{name: "refused", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, header: exhausted, body: exceeded},
		{name: "refused with a problem of its own", policies: policies, limits: spent, violated: []string{"burst"},
			problem: NewProblem(TemporaryReducedCapacity), status: 503, header: exhausted,
			body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503}`},
		{name: "a problem without a violated policy passes", policies: policies, limits: spare, problem: NewProblem(QuotaExceeded), status: 202, header: current},
		{name: "older forms beside", policies: policies, limits: spare, legacy: []*Dialect{XRateLimit, Draft06}, status: 202, header: current + `
			RateLimit-Limit: 10
			RateLimit-Remaining: 4
			RateLimit-Reset: 9
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 4
			X-RateLimit-Reset: 9`},
		{name: "older forms of a refusal", policies: policies, limits: spent, violated: []string{"burst"}, legacy: []*Dialect{XRateLimit}, status: 429, body: exceeded, header: exhausted + `
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: 9`},
		{name: "for scripts", before: "Access-Control-Allow-Origin: *", policies: policies, limits: spare, legacy: []*Dialect{XRateLimit}, status: 202, header: current + `
			Access-Control-Allow-Origin: *
			Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 4
			X-RateLimit-Reset: 9`},
		{name: "a refusal for scripts", before: "Access-Control-Allow-Origin: *", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, body: exceeded, header: exhausted + `
			Access-Control-Allow-Origin: *
			Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After`},
		{name: "a later Retry-After stays", before: "Retry-After: 60", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, body: exceeded,
			header: strings.Replace(exhausted, "After: 9", "After: 60", 1)},
		{name: "nothing to say", before: `RateLimit: "outer";r=1`, status: 202, header: `RateLimit: "outer";r=1`},

		{name: "Take fails", before: "X-Id: 1", policies: policies, limits: spent, violated: []string{"burst"}, err: errDown, status: 202, header: "X-Id: 1", faults: errDown},
		{name: "fields that cannot be written", policies: "", limits: `"burst";r=unknown`, status: 202, faults: ErrRange},
		{name: "fields of a refusal that cannot be written", policies: policies, limits: `"burst";r=0;t=9, "x";r=unknown`, violated: []string{"burst"}, status: 429, body: exceeded, faults: ErrRange, header: `
			Retry-After: 9
			Cache-Control: no-store
			Content-Type: application/problem+json`},
		{name: "an older form that cannot be written", policies: policies, limits: `"burst";r=4;t=999999999999`, legacy: []*Dialect{XRateLimitUnix, Draft03}, status: 202, faults: ErrRange,
			header: strings.Replace(current, "t=9", "t=999999999999", 1)},
		{name: "an older form of a refusal that cannot be written", policies: policies, limits: `"Burst";r=0;t=9`, violated: []string{"Burst"}, legacy: []*Dialect{XRateLimitByName}, status: 429,
			body: strings.Replace(exceeded, "burst", "Burst", 1), faults: ErrSyntax,
			header: strings.Replace(exhausted, `RateLimit: "burst"`, `RateLimit: "Burst"`, 1)},
		{name: "a violated policy that is not among the fields", policies: policies, limits: spent, violated: []string{"burst", "x"}, status: 429, header: exhausted,
			body: strings.Replace(exceeded, `["burst"]`, `["burst","x"]`, 1), faults: ErrMissing},
		{name: "a violated policy and no fields", violated: []string{"burst"}, status: 429, body: exceeded, faults: ErrMissing, header: `
			Cache-Control: no-store
			Content-Type: application/problem+json`},
		{name: "a problem that cannot be written", policies: policies, limits: spent, violated: []string{"burst"}, status: 503, header: exhausted, body: `{"title":"busy","status":503}`, faults: ErrSyntax,
			problem: &Problem{Title: "busy", Status: 503, Extensions: map[string]raw{"x": raw(`{`)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var faults []error
			done := 0
			m := &Middleware{
				Take: decide(Decision{
					Fields: fieldsOf(t, tc.policies, tc.limits), Violated: tc.violated, Problem: tc.problem,
					Done: func() { done++ },
				}, tc.err),
				Legacy: tc.legacy,
				OnError: func(_ http.ResponseWriter, _ *http.Request, err error) bool {
					faults = append(faults, err)
					return false
				},
			}
			handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Zero(t, done, "the slot is taken")
				require.Equal(t, wire(tc.header), w.Header(), "next sees the header")
				w.WriteHeader(http.StatusAccepted)
			}))
			serve := func() {
				done = 0
				w := httptest.NewRecorder()
				for key, values := range wire(tc.before) {
					w.Header()[key] = values
				}
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				require.Equal(t, tc.status, w.Code)
				require.Equal(t, sentDocument(tc.body), w.Body.String())
				require.Equal(t, wire(tc.header), w.Header())
				require.Equal(t, 1, done)
			}
			serve()
			if tc.faults == nil {
				require.Empty(t, faults)
			} else {
				require.Len(t, faults, 1)
				require.ErrorIs(t, faults[0], tc.faults)
			}
			m.OnError, m.Take, m.Legacy = nil, nil, nil // which has no effect any more
			serve()
		})
	}
}

// OnError answers in place of the next handler, and of the refusal.
func TestMiddlewareOnError(t *testing.T) {
	good := fieldsOf(t, `"a";q=1`, `"a";r=0;t=1`)
	for _, tc := range []struct {
		name     string
		decision Decision
		err      error
	}{
		{"Take fails", Decision{}, errDown},
		{"fields that cannot be written", Decision{Fields: Fields{Policies: []Policy{{Name: "\n"}}}}, nil},
		{"a refusal that cannot be written", Decision{Fields: good, Violated: []string{"b"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			done := 0
			tc.decision.Done = func() { done++ }
			m := &Middleware{Take: decide(tc.decision, tc.err), OnError: func(w http.ResponseWriter, _ *http.Request, err error) bool {
				require.Error(t, err)
				http.Error(w, "closed", http.StatusServiceUnavailable)
				return true
			}}
			w := httptest.NewRecorder()
			m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("next was called") })).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			require.Equal(t, 503, w.Code)
			require.Equal(t, "closed\n", w.Body.String())
			require.Equal(t, 1, done)
		})
	}
	open := (&Middleware{Take: decide(Decision{}, errDown)}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	w := httptest.NewRecorder()
	open.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, http.StatusTeapot, w.Code, "without OnError it fails open")
	require.Empty(t, w.Header())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = httptest.NewRecorder()
	open.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	require.Equal(t, 503, w.Code, "to hang up early is no way around the limit")
}

func TestMiddlewarePanics(t *testing.T) {
	require.Panics(t, func() { new(Middleware).Handler(http.NotFoundHandler()) }, "no Take")
	require.Panics(t, func() { (&Middleware{Take: decide(Decision{}, nil)}).Handler(nil) }, "no next handler")
	for _, tc := range []struct {
		name    string
		dialect *Dialect
		panics  bool
	}{
		{"nil", nil, true},
		{"draft-07, which is the field RateLimit", Draft07, true},
		{"no name of a field", &Dialect{Fields: []DialectField{{Name: "a b"}}}, true},
		{"a syntax that can only be read", &Dialect{Fields: []DialectField{{Name: "A", Role: RoleUsed, Read: readHeads}}}, true},
		{"a syntax of a field that says nothing", &Dialect{Fields: []DialectField{{Name: "A", Read: readHeads}}}, false},
		{"the current field for something else", &Dialect{Fields: []DialectField{{Name: "ratelimit-policy", Role: RoleQuota}}}, true},
		{"a star that may become a current field", &Dialect{Fields: []DialectField{{Name: "RateLimit-*", Role: RoleQuota}}}, true},
		{"a list of policies, which yields to the current form", Draft06, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &Middleware{Take: decide(Decision{}, nil), Legacy: []*Dialect{XRateLimit, tc.dialect}}
			handle := func() { m.Handler(http.NotFoundHandler()) }
			if tc.panics {
				defer func() { require.Contains(t, recover(), "cannot be written beside the current fields") }()
				handle()
			} else {
				require.NotPanics(t, handle)
			}
		})
	}
	for _, d := range writtenDialects {
		if d != Draft07 {
			require.NoError(t, d.beside(), d.Name)
		}
	}
}

// TestMiddlewareLater: later changes to a Middleware, its slices included, have no
// effect.
func TestMiddlewareLater(t *testing.T) {
	m := &Middleware{Take: decide(Decision{Fields: fieldsOf(t, ``, `"a";r=5`)}, nil), Legacy: []*Dialect{XRateLimit}}
	handler := m.Handler(accept)
	m.Legacy[0], m.Take = nil, nil
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, "5", w.Header().Get("X-RateLimit-Remaining"))
}

// TestMiddlewareEachForm: where the current fields cannot be written, the older ones
// are, and the other way round.
func TestMiddlewareEachForm(t *testing.T) {
	f := fieldsOf(t, ``, `"a";r=5`)
	f.Limits[0].Params = Params{{Key: "A", Value: true}}
	var heard error
	m := &Middleware{Take: decide(Decision{Fields: f}, nil), Legacy: []*Dialect{XRateLimitByName, XRateLimit}, OnError: func(_ http.ResponseWriter, _ *http.Request, err error) bool {
		heard = err
		return false
	}}
	w := httptest.NewRecorder()
	m.Handler(accept).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.ErrorIs(t, heard, ErrSyntax)
	require.Equal(t, wire("X-RateLimit-Remaining: 5\nX-RateLimit-Remaining-A: 5"), w.Header())
}

// overWire serves a handler behind a Middleware over HTTP/1.1 and over HTTP/2.
func overWire(t *testing.T, m *Middleware, next http.HandlerFunc, check func(t *testing.T, server *httptest.Server)) {
	t.Helper()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			server := httptest.NewUnstartedServer(m.Handler(next))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports panics
			server.EnableHTTP2 = version == "HTTP/2.0"
			server.StartTLS()
			t.Cleanup(server.Close) // when the context of the test has ended, and with it whatever waits
			resp, err := server.Client().Get(server.URL + "/version")
			if err == nil {
				require.Equal(t, version, resp.Proto)
				require.NoError(t, resp.Body.Close())
			}
			check(t, server)
		})
	}
}

// informed returns a context whose trace sends informational responses to a
// channel.
func informed(t *testing.T) (context.Context, chan http.Header) {
	informational := make(chan http.Header, 1)
	return httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			informational <- http.Header(h)
			return nil
		},
	}), informational
}

// Early hints, a flushed part of the body, and the rest of it arrive one after the
// other, each with the fields.
func TestMiddlewareStreams(t *testing.T) {
	f := fieldsOf(t, `"a";q=9;w=60`, `"a";r=5;t=30`)
	proceed := make(chan bool, 1)
	wait := func(r *http.Request) {
		select {
		case <-proceed:
		case <-r.Context().Done():
		}
	}
	var done atomic.Int32
	m := &Middleware{Take: decide(Decision{Fields: f, Done: func() { done.Add(1) }}, nil), Legacy: []*Dialect{XRateLimit}}
	overWire(t, m, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			return
		}
		before := done.Load()
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		wait(r)
		_, _ = io.WriteString(w, "first,")
		_ = http.NewResponseController(w).Flush()
		wait(r)
		_, _ = io.WriteString(w, "last")
		if done.Load() != before {
			t.Error("the slot is free before next has returned")
		}
	}, func(t *testing.T, server *httptest.Server) {
		before := done.Load()
		ctx, informational := informed(t)
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		responses := make(chan *http.Response, 1)
		go func() {
			resp, _ := server.Client().Do(req)
			responses <- resp
		}()
		require.Equal(t, "</a.css>; rel=preload", receive(t, informational).Get("Link"))
		proceed <- true
		resp := receive(t, responses)
		require.NotNil(t, resp)
		defer resp.Body.Close()
		got, err := Parse(resp.Header)
		require.NoError(t, err)
		require.Equal(t, f, got)
		require.Equal(t, "5", resp.Header.Get("X-RateLimit-Remaining"))
		part := make([]byte, len("first,"))
		_, err = io.ReadFull(resp.Body, part)
		require.NoError(t, err)
		require.Equal(t, "first,", string(part), "flushed")
		proceed <- true
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "last", string(rest))
		server.Close() // which waits for the handler
		require.Equal(t, before+1, done.Load())
	})
}

// A handler can take the connection over. The slot is free when it returns.
func TestMiddlewareHijack(t *testing.T) {
	var done atomic.Int32
	m := &Middleware{Take: decide(Decision{Fields: fieldsOf(t, ``, `"a";r=5`), Done: func() { done.Add(1) }}, nil)}
	server := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	})))
	defer server.Close()
	req, err := http.NewRequest("GET", server.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := server.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_, err = io.WriteString(resp.Body.(io.Writer), "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "echo hello\n", line)
	require.Eventually(t, func() bool { return done.Load() == 1 }, 10*time.Second, time.Millisecond)
}

// What panics, panics on: the client gets no answer, the slot is free, and the
// server goes on.
func TestMiddlewarePanicking(t *testing.T) {
	var done, served atomic.Int32
	m := &Middleware{Take: func(r *http.Request) (Decision, error) {
		if r.URL.Path == "/take" {
			panic("take")
		}
		return Decision{Fields: fieldsOf(t, ``, `"a";r=5`), Done: func() { done.Add(1) }}, nil
	}}
	overWire(t, m, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			panic(http.ErrAbortHandler)
		}
		served.Add(1)
	}, func(t *testing.T, server *httptest.Server) {
		taken, before := done.Load(), served.Load()
		for _, path := range []string{"/take", "/next"} {
			resp, err := server.Client().Post(server.URL+path, "", nil) // which is not sent again
			if err == nil {
				resp.Body.Close()
			}
			require.Error(t, err, path)
		}
		require.Equal(t, before, served.Load(), "what was not decided does not pass")
		require.Equal(t, taken+1, done.Load())
		resp, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, `"a";r=5`, resp.Header.Get("RateLimit"))
		require.Equal(t, before+1, served.Load())
	})
}

// A Take that waits hears that the client has gone, and the request goes no
// further.
func TestMiddlewareContext(t *testing.T) {
	taking, left, answer := make(chan bool, 1), make(chan error, 1), make(chan bool, 1)
	m := &Middleware{Take: func(r *http.Request) (Decision, error) {
		if r.URL.Path == "/version" {
			return Decision{}, nil
		}
		taking <- true
		<-r.Context().Done()
		left <- r.Context().Err()
		<-answer // not before the client has ended, which may still read it
		return Decision{}, r.Context().Err()
	}}
	overWire(t, m, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Error("next was called")
		}
	}, func(t *testing.T, server *httptest.Server) {
		defer func() { answer <- true }()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		result := make(chan error, 1)
		go func() {
			resp, err := server.Client().Do(req)
			if err == nil {
				resp.Body.Close()
			}
			result <- err
		}()
		receive(t, taking)
		cancel()
		require.ErrorIs(t, receive(t, result), context.Canceled)
		require.ErrorIs(t, receive(t, left), context.Canceled)
	})
}

// A semaphore serves as many requests at a time as it has slots, and says so.
func TestMiddlewareSemaphore(t *testing.T) {
	const slots = 2
	free := make(chan struct{}, slots)
	m := &Middleware{Take: func(*http.Request) (Decision, error) {
		f := Fields{Policies: []Policy{{Name: "slots", Quota: slots, Unit: ConcurrentRequests}}}
		select {
		case free <- struct{}{}:
			f.Limits = []Limit{{Name: "slots", Remaining: slots - int64(len(free))}}
			return Decision{Fields: f, Done: func() { <-free }}, nil
		default:
			f.Limits = []Limit{{Name: "slots"}}
			return Decision{Fields: f, Violated: []string{"slots"}}, nil
		}
	}}
	inside, leave := make(chan bool, slots), make(chan bool, slots)
	server := httptest.NewServer(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- true
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})))
	t.Cleanup(server.Close) // when the context of the test has ended, and with it whatever waits
	get := func() *http.Response {
		resp, err := server.Client().Do(newRequest(t, server.URL).WithContext(t.Context()))
		if err != nil {
			return &http.Response{Status: err.Error()}
		}
		resp.Body.Close()
		return resp
	}
	for range 3 {
		passed := make(chan *http.Response, slots)
		for range slots {
			go func() { passed <- get() }()
			receive(t, inside)
		}
		refused := get()
		require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
		require.Equal(t, `"slots";r=0`, refused.Header.Get("RateLimit"))
		require.Equal(t, `"slots";q=2;qu="concurrent-requests"`, refused.Header.Get("RateLimit-Policy"))
		require.Empty(t, refused.Header.Get("Retry-After"), "nobody knows")
		require.Empty(t, Check(refused))
		var remaining []string
		for range slots {
			leave <- true
			resp := receive(t, passed)
			require.Equal(t, http.StatusOK, resp.StatusCode, resp.Status)
			require.Empty(t, Check(resp))
			remaining = append(remaining, resp.Header.Get("RateLimit"))
		}
		slices.Sort(remaining)
		require.Equal(t, []string{`"slots";r=0`, `"slots";r=1`}, remaining)
		require.Eventually(t, func() bool { return len(free) == 0 }, 10*time.Second, time.Millisecond)
	}
}
