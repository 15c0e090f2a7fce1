package announce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// decide makes a Take that always returns the same.
func decide(d announce.Decision, err error) func(*http.Request) (announce.Decision, error) {
	return func(*http.Request) (announce.Decision, error) { return d, err }
}

var errDown = errors.New("the limiter is down")

// limited is a Middleware that serves all requests with these fields.
func limited(t testing.TB, policies, limits string, legacy ...*ratelimit.Dialect) *announce.Middleware {
	return &announce.Middleware{Take: decide(announce.Decision{Fields: laws.FieldsOf(policies, limits)}, nil), Dialects: legacy}
}

// served is the response of a handler. The header contains these fields before.
func served(handler http.Handler, before http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), before)
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}

// One limiter.
func TestMiddleware(t *testing.T) { runScenes(t, "one") }

// Several limiters around each other.
func TestMiddlewareStack(t *testing.T) { runScenes(t, "stack") }

// One limiter in front of a proxy.
func TestMiddlewareProxy(t *testing.T) { runScenes(t, "proxy") }

// accept is a handler that serves everything.
var accept = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })

// Without OnError, requests are served if Take fails. But if a client hangs up early, its
// request is not served, so hanging up does not evade the limit.
func TestMiddlewareFailsOpen(t *testing.T) {
	open := (&announce.Middleware{Take: decide(announce.Decision{}, errDown), OnFault: func(*http.Request, error) {}}).Handler(accept)
	w := served(open, nil)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Empty(t, w.Header())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = httptest.NewRecorder()
	open.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	require.Equal(t, 503, w.Code)
}

// logged returns what f logs.
func logged(f func()) string {
	var b strings.Builder
	flags, out := log.Flags(), log.Writer()
	defer func() {
		log.SetFlags(flags)
		log.SetOutput(out)
	}()
	log.SetFlags(0)
	log.SetOutput(&b)
	f()
	return b.String()
}

// Without OnFault each Handler logs at most one line a minute, for any faults.
func TestMiddlewareLogs(t *testing.T) {
	down := errDown.Error() + "\n"
	trial.InBubble(t, "a limiter that is down", func(t *testing.T) {
		m := &announce.Middleware{Take: decide(announce.Decision{}, errDown)}
		one, another := m.Handler(accept), m.Handler(accept)
		send := func(handler http.Handler) string {
			return logged(func() {
				for range 3 {
					require.Equal(t, http.StatusAccepted, served(handler, nil).Code)
				}
			})
		}
		require.Equal(t, down, send(one))
		require.Equal(t, down, send(another), "each Handler alone")
		time.Sleep(time.Minute - time.Second)
		require.Empty(t, send(one))
		time.Sleep(2 * time.Second)
		require.Equal(t, down, send(one))
		require.Empty(t, send(one))
		time.Sleep(time.Hour)
		require.Equal(t, down, send(one))
	})
	trial.InBubble(t, "several faults of one response are one line", func(t *testing.T) {
		m := limited(t, `"a";q=1, "b";q=1`, ``)
		m.Take = decide(announce.Decision{Fields: ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "é"}, {Name: "ü"}}, Limits: []ratelimit.Limit{{Remaining: -5}}}}, nil)
		text := logged(func() { served(m.Handler(accept), nil) })
		require.Equal(t, 1, strings.Count(text, "\n"), text)
	})
	trial.InBubble(t, "from many goroutines at once", func(t *testing.T) {
		handler := (&announce.Middleware{Take: decide(announce.Decision{}, errDown)}).Handler(accept)
		require.Equal(t, down, logged(func() {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { served(handler, nil) })
			}
			all.Wait()
		}))
	})
	trial.InBubble(t, "OnError answers for Take alone, and nothing is logged", func(t *testing.T) {
		heard := 0
		m := &announce.Middleware{Take: decide(announce.Decision{}, errDown), OnError: func(http.ResponseWriter, *http.Request, error) bool {
			heard++
			return false
		}}
		require.Empty(t, logged(func() { served(m.Handler(accept), nil) }))
		require.Equal(t, 1, heard)
		m = &announce.Middleware{Take: decide(announce.Decision{Fields: ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "é"}}}}, nil), OnError: m.OnError}
		require.NotEmpty(t, logged(func() { served(m.Handler(accept), nil) }))
		require.Equal(t, 1, heard)
	})
}

// If Take fails and there is no OnError, OnFault is called.
func TestMiddlewareOnFault(t *testing.T) {
	var heard []error
	onFault := func(r *http.Request, err error) {
		require.NotNil(t, r)
		heard = append(heard, err)
	}
	m := &announce.Middleware{Take: decide(announce.Decision{}, errDown), OnFault: onFault}
	require.Empty(t, logged(func() {
		for range 3 { // each time
			require.Equal(t, http.StatusAccepted, served(m.Handler(accept), nil).Code)
		}
	}))
	require.Equal(t, []error{errDown, errDown, errDown}, heard)

	m.OnError = func(http.ResponseWriter, *http.Request, error) bool { return false }
	heard = nil
	served(m.Handler(accept), nil)
	require.Empty(t, heard, "OnError was called instead")
}

// A policy name that cannot be written does not suppress the other limits.
func TestMiddlewareCafé(t *testing.T) {
	own := laws.FieldsOf(`"cafe";q=10;w=60`, `"cafe";r=4;t=9`)
	own.Policies[0].Name, own.Limits[0].Name = "café", "café"
	for _, tc := range []struct {
		name, before, upstream, answer string
	}{
		{name: "alone"},
		{name: "before an upstream", upstream: "limits: api 50/100 w=60 t=30", answer: "limits: api 50/100 w=60 t=30"},
		{name: "before an upstream with an older form", upstream: "X-RateLimit-*: 100, 50, 30", answer: "limits: default 50/100 t=30\nX-RateLimit-*: 100, 50, 30"},
		{name: "behind another limiter", before: "limits: api 50/100 w=60 t=30", answer: "limits: api 50/100 w=60 t=30"},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			var heard []error
			m := &announce.Middleware{
				Take:    decide(announce.Decision{Fields: own}, nil),
				OnFault: func(_ *http.Request, err error) { heard = append(heard, err) },
				OnError: func(http.ResponseWriter, *http.Request, error) bool { panic("Take has not failed") },
			}
			w := served(m.Handler(setter(tc.upstream)(accept)), trial.Wire(written(tc.before)))
			require.Equal(t, http.StatusAccepted, w.Code)
			require.Equal(t, trial.Wire(written(tc.answer)), w.Header())
			require.Len(t, heard, 1)
			require.ErrorIs(t, heard[0], ratelimit.ErrSyntax)
			require.NotContains(t, heard[0].Error(), "\n")
		})
	}
}

// A refusal contains the wait of its limiter even if the policy's name cannot be written.
func TestMiddlewareCaféRefuses(t *testing.T) {
	own := laws.FieldsOf(`"cafe";q=10;w=60`, `"cafe";r=0;t=45`)
	own.Policies[0].Name, own.Limits[0].Name = "café", "café"
	for _, tc := range []struct{ name, before, want string }{
		{"alone", "", "45"},
		{"behind another limiter", `RateLimit: "api";r=50;t=30`, "45"},
		{"behind another limiter with an older form", "X-RateLimit-*: 100, 50, 30", "45"},
		{"behind another limiter that asks for a longer wait", `RateLimit: "api";r=0;t=50`, "50"},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			m := &announce.Middleware{
				Take:    decide(announce.Decision{Fields: own, Violated: []string{"café"}}, nil),
				OnFault: func(*http.Request, error) {},
			}
			w := served(m.Handler(accept), trial.Wire(written(tc.before)))
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.Equal(t, tc.want, w.Header().Get("Retry-After"))
		})
	}
}

func TestMiddlewarePanics(t *testing.T) {
	require.Panics(t, func() { new(announce.Middleware).Handler(http.NotFoundHandler()) }, "no Take")
	require.Panics(t, func() { (&announce.Middleware{Take: decide(announce.Decision{}, nil)}).Handler(nil) }, "no next handler")
	for _, tc := range []struct {
		name    string
		dialect *ratelimit.Dialect
		panics  bool
	}{
		{"nil", nil, true},
		{"draft-07, which is the field RateLimit", ratelimit.Draft07, true},
		{"the current field for something else", laws.MustDialect("", ratelimit.DialectField{Name: "ratelimit-policy", Role: ratelimit.RoleQuota}), true},
		{"a star that may become a current field", laws.MustDialect("", ratelimit.DialectField{Name: "RateLimit-*", Role: ratelimit.RoleQuota}), true},
		{"a list of policies, which yields to the current form", ratelimit.Draft06, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &announce.Middleware{Take: decide(announce.Decision{}, nil), Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit, tc.dialect}}
			handle := func() { m.Handler(http.NotFoundHandler()) }
			if tc.panics {
				defer func() { require.Contains(t, recover(), "cannot be written next to the current fields") }()
				handle()
			} else {
				require.NotPanics(t, handle)
			}
		})
	}
	for _, d := range laws.Dialects {
		if d != ratelimit.Draft07 {
			require.NotPanics(t, func() {
				(&announce.Middleware{Take: decide(announce.Decision{}, nil), Dialects: []*ratelimit.Dialect{d}}).Handler(accept)
			}, d.Name())
		}
	}
}

// Panics are passed on. An undecided request is not served, and the slot is free again.
func TestMiddlewarePanicking(t *testing.T) {
	done := 0
	m := limited(t, ``, `"a";r=5`)
	take := m.Take
	m.Take = func(r *http.Request) (announce.Decision, error) {
		if r.URL.Path == "/take" {
			panic(http.ErrAbortHandler)
		}
		d, err := take(r)
		d.Done = func() { done++ }
		return d, err
	}
	handler := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/next", r.URL.Path)
		panic(http.ErrAbortHandler)
	}))
	for i, path := range []string{"/take", "/next"} {
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)) })
		require.Equal(t, i, done)
	}
}

// A randomStack is random Middlewares around each other, and the result of a request. Some
// refuse, some fail, some write older forms, and some use one name for different policies.
type randomStack struct {
	middlewares []*announce.Middleware
	said        []ratelimit.Fields // the fields of the limiters that were asked
	faulty      bool               // OnFault was called, because some form cannot express a limit
}

func newRandomStack(rnd *rand.Rand, refuses bool) *randomStack {
	s := &randomStack{}
	for range 1 + rnd.IntN(4) {
		d := announce.Decision{Fields: laws.GatewayFields(rnd)}
		if rnd.IntN(8) == 0 && refuses {
			d.Violated = []string{"a"}
		}
		var err error
		if rnd.IntN(8) == 0 {
			err = errDown
		}
		m := &announce.Middleware{
			Take: func(*http.Request) (announce.Decision, error) {
				if err == nil {
					s.said = append(s.said, d.Fields)
				}
				return d, err
			},
			OnError: func(http.ResponseWriter, *http.Request, error) bool { return false },
			OnFault: func(*http.Request, error) { s.faulty = true },
		}
		for rnd.IntN(2) == 0 {
			if d := laws.Dialects[rnd.IntN(len(laws.Dialects))]; d != ratelimit.Draft07 {
				m.Dialects = append(m.Dialects, d)
			}
		}
		s.middlewares = append(s.middlewares, m)
	}
	return s
}

// lawStack is law 7 for Middlewares around each other, with another limiter outside. No
// client may do more than any limiter allows, and no field is written twice.
func lawStack(t testing.TB, rnd *rand.Rand) (joined int) {
	stack := newRandomStack(rnd, true)
	var handler http.Handler = accept
	another := rnd.IntN(4) == 0 // a limiter outside; Handlers behind a timeout do not see its header
	for _, m := range slices.Backward(stack.middlewares) {
		handler = m.Handler(handler)
		if rnd.IntN(8) == 0 && !another {
			handler = http.TimeoutHandler(handler, time.Minute, "")
		}
	}
	w := httptest.NewRecorder()
	if another {
		maps.Copy(w.Header(), laws.UpstreamHeader(rnd, time.Now()))
	}
	outside := w.Header().Clone()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	laws.Between(t, laws.Passage{
		Status: http.StatusOK, Final: w.Code, Before: outside, After: w.Header(), Options: ratelimit.LegacyOptions{Now: time.Now()},
		Parties: stack.said, Writes: true, Reported: stack.faulty, Endless: w.Code == 429 && w.Header()[text.RetryAfterKey] == nil,
	})
	lawOnce(t, outside, w.Header(), stack)
	return len(stack.said)
}

// lawOnce checks that the fields of a stack are well-formed, and written once.
func lawOnce(t testing.TB, outside, h http.Header, stack *randomStack) {
	for key, lines := range h {
		require.LessOrEqual(t, len(lines), max(len(outside[key]), 1), key)
	}
	if got, err := ratelimit.Parse(h); err == nil && !stack.faulty && outside[draft.PolicyKey] == nil && outside[draft.LimitKey] == nil {
		require.NoError(t, got.Validate(), "nothing is there twice: %v", got)
	}
}

// TestMiddlewareStackRandom is law 7 for random Middlewares.
func TestMiddlewareStackRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 17))
	several := 0
	synctest.Test(t, func(t *testing.T) {
		for range 4000 {
			if lawStack(t, rnd) > 1 {
				several++
			}
		}
	})
	require.Greater(t, several, 1000)
}

// TestDecisionOf: a handler gets the Decision of the innermost limiter.
func TestDecisionOf(t *testing.T) {
	_, ok := announce.DecisionOf(t.Context())
	require.False(t, ok)
	said := func() announce.Decision {
		problem := ratelimit.NewProblem(ratelimit.QuotaExceeded, "inner")
		problem.Extensions = map[string]json.RawMessage{"a": json.RawMessage("1")}
		return announce.Decision{
			Fields:  laws.FieldsOf(`"inner";q=100;w=60;pk=:YQ==:;x=1`, `"inner";r=99;t=60;pk=:YQ==:;x=1`),
			Problem: problem, // Violated is empty, so the request is served
		}
	}
	inner := said()
	inner.Done = func() {} // the Middleware calls it
	called := 0
	next := func(heard bool) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			called++
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			require.Equal(t, "of the server", ctx.Value(http.ServerContextKey), "other values are kept")
			d, ok := announce.DecisionOf(ctx)
			require.Equal(t, heard, ok)
			if !heard {
				require.Nil(t, d)
				return
			}
			require.Equal(t, said(), *d)
			d.Fields, d.Problem = ratelimit.Fields{}, nil
			again, _ := announce.DecisionOf(r.Context())
			require.Equal(t, said(), *again, "each call returns a Decision of its own")
		})
	}
	outer := limited(t, `"outer";q=3;w=60`, `"outer";r=2;t=50`)
	behind := (&announce.Middleware{Take: decide(inner, nil)}).Handler(next(true))
	for name, handler := range map[string]http.Handler{
		"one":                              behind,
		"the inner one of two":             outer.Handler(behind),
		"the inner one, and it has failed": outer.Handler((&announce.Middleware{Take: decide(inner, errDown)}).Handler(next(false))),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), http.ServerContextKey, "of the server")
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		})
	}
	require.Equal(t, 3, called)
}

// tenant has the gateway's own fields.
var tenant = [2]string{`"tenant";q=100;w=60`, `"tenant";r=99;t=60`}

// limitFields returns the fields for limits in a header, Retry-After, and the names of
// exposed fields.
func limitFields(h http.Header) http.Header {
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(key string, _ []string) bool {
		return !older.Knows(key) && key != text.RetryAfterKey && key != "Access-Control-Expose-Headers"
	})
	return h
}

// proxyTo is a proxy in front of an upstream with one fixed response.
func proxyTo(upstream *http.Response) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "upstream.example"}) },
		Transport: trial.RoundTripFunc(func(r *http.Request) (*http.Response, error) {
			resp := *upstream
			resp.Header, resp.Request, resp.Body = upstream.Header.Clone(), r, io.NopCloser(strings.NewReader("body"))
			return &resp, nil
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// Upstream sends early hints over HTTP/1.1 and HTTP/2. They make the proxy clear the header
// to which Handler has written.
func TestMiddlewareProxyOverWire(t *testing.T) {
	const link = "</a.css>; rel=preload"
	for name, tc := range map[string]struct {
		version int
		link    string
	}{"HTTP/1.1": {1, ""}, "HTTP/1.1, with hints": {1, link}, "HTTP/2": {2, ""}, "HTTP/2, with hints": {2, link}} {
		t.Run(name, func(t *testing.T) {
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.link != "" {
					w.Header().Set("Link", tc.link)
					w.WriteHeader(http.StatusEarlyHints)
				}
				maps.Copy(w.Header(), trial.Wire(written("X-RateLimit-*: 50, 0, 30")))
				_, _ = io.WriteString(w, "hello")
			}))
			defer upstream.Close()
			to, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			m := limited(t, tenant[0], tenant[1], ratelimit.Draft06)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
			server := httptest.NewUnstartedServer(m.Handler(proxy))
			server.EnableHTTP2 = tc.version == 2
			server.StartTLS()
			defer server.Close()
			hinted := ""
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				hinted = h.Get("Link")
				return nil
			}})
			resp, err := server.Client().Do(trial.NewRequest(t, server.URL).WithContext(ctx))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, tc.version, resp.ProtoMajor)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(body))
			require.Equal(t, tc.link, hinted)
			require.Equal(t, trial.Wire(written(`
				limits: default 0/50 t=30, tenant 99/100 w=60 t=60
				RateLimit-*: 50, 0, 30
				X-RateLimit-*: 50, 0, 30`)), limitFields(resp.Header))
			require.Equal(t, 30*time.Second, ratelimit.Advise(resp, time.Now()).Wait)
			for _, f := range ratelimittest.Check(resp) {
				require.Equal(t, ratelimittest.LevelNote, f.Level, "%v", f)
			}
		})
	}
}

// lawProxy is law 7 for Middlewares in front of a proxy, for any fields and any clock of
// upstream.
func lawProxy(t testing.TB, rnd *rand.Rand) (joined bool) {
	upstream := trial.ResponseOf("")
	upstream.StatusCode = trial.PickOf(rnd, 200, 200, 304, 403, 429, 503)
	upstream.Header = laws.UpstreamHeader(rnd, time.Now())
	stack := newRandomStack(rnd, false)
	proxy := proxyTo(upstream)
	if rnd.IntN(4) == 0 {
		proxy.Transport = trying("in time", proxy.Transport)
	}
	var handler http.Handler = proxy
	for _, m := range slices.Backward(stack.middlewares) {
		handler = m.Handler(handler)
		if rnd.IntN(8) == 0 {
			handler = http.TimeoutHandler(handler, time.Minute, "")
		}
	}
	w := served(handler, nil)
	laws.Between(t, laws.Passage{
		Status: w.Code, Final: w.Code, Before: upstream.Header, After: w.Header(), Options: ratelimit.LegacyOptions{Now: time.Now()},
		Parties: stack.said, Writes: true, Reported: stack.faulty,
	})
	for key, lines := range w.Header() {
		require.LessOrEqual(t, len(lines), max(len(upstream.Header[key]), 1), key)
	}
	return len(stack.said) > 0 && w.Header()[draft.LimitKey] != nil
}

// TestMiddlewareProxyRandom is law 7 for random upstreams behind random Middlewares.
func TestMiddlewareProxyRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 17))
	joined := 0
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(rnd.IntN(2)) * time.Until(laws.Passed))
		for range 2500 {
			if lawProxy(t, rnd) {
				joined++
			}
		}
	})
	require.Greater(t, joined, 500)
}

// A handler that refuses behind a Middleware removes nothing from the Middleware's
// announcements.
func TestRefuseBehind(t *testing.T) {
	upload := laws.FieldsOf(``, `"upload";r=0;t=40`)
	handler := limited(t, ``, `"all";r=9;t=60`).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, announce.Refuse(w, r, upload, ratelimit.NewProblem(ratelimit.QuotaExceeded, "upload")))
	}))
	w := served(handler, nil)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, []string{`"upload";r=0;t=40, "all";r=9;t=60`}, w.Header()[draft.LimitKey])
	require.Equal(t, []string{"40"}, w.Header()[text.RetryAfterKey])
}

// If two dialects write the same field, the first counts, with and without other limits.
func TestMiddlewareDialectsShare(t *testing.T) {
	const policies, limits = `"api";q=100;w=60`, `"api";r=5;t=30`
	seconds, unix := []*ratelimit.Dialect{ratelimit.XRateLimit, ratelimit.XRateLimitUnix}, []*ratelimit.Dialect{ratelimit.XRateLimitUnix, ratelimit.XRateLimit}
	for _, tc := range []struct {
		name string
		next http.Handler
	}{
		{"no other limits", accept},
		{"another limit behind", limited(t, `"slow";q=10;w=3600`, `"slow";r=9;t=3000`).Handler(accept)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, order := range [][]*ratelimit.Dialect{seconds, unix} {
				h := served(limited(t, policies, limits, order...).Handler(tc.next), nil).Header()
				got := h.Get("X-RateLimit-Reset")
				if order[0] == ratelimit.XRateLimit {
					require.Equal(t, "30", got)
				} else {
					require.Len(t, got, 10, "Unix seconds")
				}
			}
		})
	}
}

// A handler may write the current fields under the names of the draft, which are not the keys of
// net/http, in one line or in addition to another.
func TestMiddlewareSpellings(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		want   string
	}{
		"as in the draft":  {header: http.Header{"RateLimit-Policy": {`"a";q=50`}, "RateLimit": {`"a";r=0;t=40`}}, want: `"a";r=0;t=40`},
		"in small letters": {header: http.Header{"ratelimit": {`"a";r=9;t=40`, `"b";r=5`}}, want: `"a";r=3;t=40, "b";r=5`},
		"in two spellings": {header: http.Header{draft.LimitKey: {`"b";r=5`}, "RateLimit": {`"a";r=2;t=4`}}, want: `"b";r=5, "a";r=2;t=9`},
	} {
		t.Run(name, func(t *testing.T) {
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { maps.Copy(w.Header(), tc.header) })
			h := served(limited(t, `"a";q=50`, `"a";r=3;t=9`).Handler(next), nil).Header()
			require.Equal(t, http.Header{draft.PolicyKey: {`"a";q=50`}, draft.LimitKey: {tc.want}}, h)
		})
	}
}

// net/http removes the files of a form, and handlers in front read which pattern has matched, as
// without a Middleware, even if the handler panics.
func TestMiddlewareKeepsRequest(t *testing.T) {
	const pattern = "POST /upload"
	for name, panics := range map[string]bool{"it returns": false, "it panics": true} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("TMPDIR", folder)
			t.Setenv("TMP", folder) // on Windows
			mux := http.NewServeMux()
			mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, r.ParseMultipartForm(1))
				files, err := os.ReadDir(folder)
				require.NoError(t, err)
				require.Len(t, files, 1)
				if panics {
					panic("a mistake")
				}
			})
			p, matched := newPair(t), ""
			server := start(t, 1, recovering(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { matched = r.Pattern }()
				p.outer.Handler(p.inner.Handler(mux)).ServeHTTP(w, r)
			})))
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			part, err := form.CreateFormFile("file", "name")
			require.NoError(t, err)
			_, _ = part.Write(make([]byte, 1000))
			require.NoError(t, form.Close())
			resp, err := http.Post(server.URL+"/upload", form.FormDataContentType(), &body)
			require.NoError(t, err)
			resp.Body.Close()
			server.Close() // waits until the request has ended
			require.Equal(t, pattern, matched)
			files, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, files)
		})
	}
}

// Upstream announces an unlimited quota, so the tightest limit in front is the tightest of all.
func TestMiddlewareUnlimited(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "unlimited")
		w.Header().Set("X-RateLimit-Remaining", "-1")
	})
	limit := func(name string, quota, remaining int64, next http.Handler) http.Handler {
		return (&announce.Middleware{Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}, Take: decide(announce.Decision{Fields: ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: name, Quota: quota, Window: ratelimit.SecondsOf(60)}},
			Limits:   []ratelimit.Limit{{Name: name, Remaining: remaining, Reset: ratelimit.SecondsOf(30)}},
		}}, nil)}).Handler(next)
	}
	h := served(limit("outer", 10, 9, limit("inner", 5, 2, upstream)), nil).Header()
	require.Equal(t, []string{"5"}, h["X-Ratelimit-Limit"])
	require.Equal(t, []string{"2"}, h["X-Ratelimit-Remaining"])
	require.Equal(t, []string{`"inner";r=2;t=30, "outer";r=9;t=30`}, h[draft.LimitKey])
}

// Points in time count from the Date of upstream. The gateway's clock may differ.
func TestMiddlewareClocks(t *testing.T) {
	for _, skew := range []time.Duration{-time.Minute, 0, time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, name := range []string{"x-ratelimit-unix", "x-ratelimit-date", "github", "twitter", "anthropic", "x-ratelimit"} {
					d, ok := ratelimit.LookupDialect(name)
					require.True(t, ok, name)
					m := limited(t, ``, `"g";r=0;t=50`)
					m.Dialects = []*ratelimit.Dialect{d}
					w := served(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
					})), nil)
					h := laws.WithoutCurrent(w.Header())
					require.Greater(t, len(h), 1, name)
					a := ratelimit.Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, time.Now())
					require.InDelta(t, 50, a.Wait.Seconds(), 1, name)
				}
			})
		})
	}
}

// Points in time of a limiter outside count from the Date of the response too.
func TestMiddlewareClockOutside(t *testing.T) {
	for _, skew := range []time.Duration{-time.Minute, 0, time.Minute} {
		trial.InBubble(t, skew.String(), func(t *testing.T) {
			made := time.Now().Add(skew).UTC()
			before := trial.Wire("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + made.Add(30*time.Second).Format(time.RFC3339))
			before.Set("Date", made.Format(http.TimeFormat))
			w := served(limited(t, ``, `"g";r=5;t=60`).Handler(accept), before)
			require.Equal(t, `"default";r=0;t=30, "g";r=5;t=60`, w.Header().Get("RateLimit"))
			require.Equal(t, before["X-Ratelimit-Reset"], w.Header()["X-Ratelimit-Reset"])
		})
	}
}
