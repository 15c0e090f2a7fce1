package ratelimit

import (
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/older"
)

// tenant is what a gateway says of its own.
var tenant = [2]string{`"tenant";q=100;w=60`, `"tenant";r=99;t=60`}

// limitFields returns the fields for limits of a header, Retry-After, and which fields are exposed.
func limitFields(h http.Header) http.Header {
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(key string, _ []string) bool {
		return !older.HasAnchor(key) && key != retryAfterKey && key != exposeField
	})
	return h
}

// A response without a header gets one.
func TestModifyResponseNilHeader(t *testing.T) {
	m := limited(t, ``, `"tenant";r=99;t=60`)
	served(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		resp := &http.Response{Request: r}
		require.NoError(t, m.ModifyResponse(resp))
		require.Equal(t, wire(`RateLimit: "tenant";r=99;t=60`), resp.Header)
	})), nil)
}

// Without OnError nobody hears of a fault, and the response passes.
func TestModifyResponseUnheard(t *testing.T) {
	m := limited(t, ``, `"tenant";r=99;t=60`)
	w := served(m.Handler(proxyTo(responseOf("RateLimit: default"), m)), nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, wire(`RateLimit: "tenant";r=99;t=60`), limitFields(w.Header()))
}

// proxyTo is a proxy in front of an upstream that always answers alike.
func proxyTo(upstream *http.Response, m *Middleware) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "upstream.example"}) },
		Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			resp := *upstream
			resp.Header, resp.Request, resp.Body = upstream.Header.Clone(), r, io.NopCloser(strings.NewReader("body"))
			return &resp, nil
		}),
		ModifyResponse: m.ModifyResponse,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// TestModifyResponseOverWire: over HTTP/1.1 and HTTP/2, with early hints of upstream,
// which make the proxy clear the header that Handler has written to.
func TestModifyResponseOverWire(t *testing.T) {
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
				maps.Copy(w.Header(), wire(written("X-RateLimit-*: 50, 0, 30")))
				_, _ = io.WriteString(w, "hello")
			}))
			defer upstream.Close()
			to, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			m := limited(t, tenant[0], tenant[1], Draft06)
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ModifyResponse: m.ModifyResponse}
			server := httptest.NewUnstartedServer(m.Handler(proxy))
			server.EnableHTTP2 = tc.version == 2
			server.StartTLS()
			defer server.Close()
			hinted := ""
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				hinted = h.Get("Link")
				return nil
			}})
			resp, err := server.Client().Do(newRequest(t, server.URL).WithContext(ctx))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, tc.version, resp.ProtoMajor)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(body))
			require.Equal(t, tc.link, hinted)
			require.Equal(t, wire(written(`
				limits: default 0/50 t=30, tenant 99/100 w=60 t=60
				RateLimit-*: 50, 0, 30
				X-RateLimit-*: 50, 0, 60`)), limitFields(resp.Header))
			require.Equal(t, 30*time.Second, Advisor{}.Advise(resp, time.Now()).Wait)
			for _, f := range Check(resp) {
				require.Equal(t, LevelNote, f.Level, "%v", f)
			}
		})
	}
}

// ModifyResponse without a Handler in front of it has nothing to say.
func TestModifyResponseAlone(t *testing.T) {
	m := &Middleware{OnError: func(http.ResponseWriter, *http.Request, error) bool { t.Error("heard of nothing"); return false }}
	for _, r := range []*http.Request{nil, httptest.NewRequest("GET", "/", nil)} {
		resp := &http.Response{Header: wire("X-RateLimit-Remaining: 5"), Request: r}
		require.NoError(t, m.ModifyResponse(resp))
		require.Equal(t, wire("X-RateLimit-Remaining: 5"), resp.Header)
	}
}

// The header that Handler has written to belongs to another goroutine where a handler
// between runs the proxy in one of its own: it is left alone.
func TestModifyResponseLeavesHeader(t *testing.T) {
	m := limited(t, ``, `"tenant";r=99;t=60`)
	proxy := proxyTo(responseOf(""), m)
	for name, tc := range map[string]struct {
		between func(http.Handler) http.Handler
		leaves  bool
	}{
		"the proxy itself": {func(next http.Handler) http.Handler { return next }, false},
		"a timeout":        {func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 10*time.Second, "") }, true},
		"a timeout, and another Handler behind it": {func(next http.Handler) http.Handler {
			return http.TimeoutHandler(m.Handler(next), 10*time.Second, "")
		}, true},
		"another Handler": {m.Handler, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			proxy.ModifyResponse = func(resp *http.Response) error {
				err := m.ModifyResponse(resp)
				require.Equal(t, tc.leaves, w.Header()[limitKey] != nil)
				require.NotEmpty(t, resp.Header[limitKey])
				return err
			}
			m.Handler(tc.between(proxy)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			require.Equal(t, wire(`RateLimit: "tenant";r=99;t=60`), limitFields(w.Header()))
		})
	}
}

// lawProxy is law 11 for a Middleware in front of a proxy: no client waits less than
// it would without the gateway, or than the gateway asks for; and nothing is there
// twice.
func lawProxy(t testing.TB, rnd *rand.Rand) (joined bool) {
	upstream := responseOf("")
	upstream.StatusCode = []int{200, 200, 403, 429, 503}[rnd.IntN(5)]
	upstream.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	for range rnd.IntN(3) {
		f := fuzzFields(rnd)
		if rnd.IntN(3) == 0 {
			_ = f.Writable().Set(upstream.Header)
		} else {
			_ = writtenDialects[rnd.IntN(len(writtenDialects))].Set(upstream.Header, f, time.Now())
		}
	}
	if rnd.IntN(4) == 0 {
		upstream.Header.Set("Retry-After", []string{"0", "1", "60"}[rnd.IntN(3)])
	}
	direct := Advisor{}.Advise(upstream, time.Now())
	stack := newRandomStack(rnd, false)
	proxy := proxyTo(upstream, stack.middlewares[len(stack.middlewares)-1])
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
	through := Advisor{}.Advise(w.Result(), time.Now())
	require.GreaterOrEqual(t, through.Asked, direct.Asked, "law 11: %v\n%v", upstream.Header, w.Header())
	if stack.faulty {
		return false
	}
	require.GreaterOrEqual(t, max(through.Pace, through.Asked), direct.Pace, "law 11: %v\n%v", upstream.Header, w.Header())
	for _, own := range stack.said {
		mine := Advice{Fields: own}
		mine.follow()
		require.GreaterOrEqual(t, max(through.Pace, through.Asked), mine.Pace, "law 11: %v\n%v", own, w.Header())
		if through.Source != SourceRetryAfter {
			require.GreaterOrEqual(t, through.Asked, mine.Wait, "law 11: %v\n%v", own, w.Header())
		}
	}
	for key, lines := range w.Header() {
		require.Len(t, lines, 1, key)
	}
	lawForms(t, w.Header(), stack.said)
	return len(stack.said) > 0 && w.Header()[limitKey] != nil
}

// TestModifyResponseRandom is law 11 for random upstreams behind random Middlewares.
func TestModifyResponseRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 17))
	joined := 0
	synctest.Test(t, func(t *testing.T) {
		for range 2500 {
			if lawProxy(t, rnd) {
				joined++
			}
		}
	})
	require.Greater(t, joined, 500)
}
