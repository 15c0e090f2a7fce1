package interop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/klauspost/compress/gzhttp"
	"github.com/rs/cors"
	"github.com/stretchr/testify/require"
)

// The fields of a Middleware pass through other libraries, over connections. The tests of package
// announce use net/http alone.

// announcing is a Middleware that serves all requests.
func announcing(name string) *announce.Middleware {
	f := announce.FixedWindow{Name: name, Quota: 9, Used: 4, Window: time.Minute, Left: 30 * time.Second}.Fields()
	return &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) { return announce.Decision{Fields: f}, nil }}
}

var inner, outer = announcing("inner").Handler, announcing("outer").Handler

// requireBoth requires that the header has both limits exactly once.
func requireBoth(t *testing.T, h http.Header) {
	t.Helper()
	f, err := ratelimit.Parse(h)
	require.NoError(t, err)
	names := map[string]int{}
	for _, l := range f.Limits {
		names[l.Name]++
	}
	require.Equal(t, map[string]int{"inner": 1, "outer": 1}, names, h)
}

// The 101 of a WebSocket has the fields, also through a reverse proxy, and messages pass in both
// directions.
func TestAnnounceWebSocket(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, w.Header())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for kind, b, err := conn.ReadMessage(); err == nil; kind, b, err = conn.ReadMessage() {
			_ = conn.WriteMessage(kind, b)
		}
	})
	through := func(h http.Handler) http.Handler {
		upstream := httptest.NewServer(h)
		t.Cleanup(upstream.Close)
		to, err := url.Parse(upstream.URL)
		require.NoError(t, err)
		return httputil.NewSingleHostReverseProxy(to)
	}
	for way, handler := range map[string]http.Handler{
		"direct":                       outer(inner(echo)),
		"through a proxy":              outer(inner(through(echo))),
		"through a proxy, both limit":  outer(through(inner(echo))),
		"through a proxy, one of them": through(outer(inner(echo))),
	} {
		t.Run(way, func(t *testing.T) {
			s := httptest.NewServer(handler)
			t.Cleanup(s.Close)
			conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL, "http"), nil)
			require.NoError(t, err)
			defer conn.Close()
			requireBoth(t, resp.Header)
			require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte("hello")))
			_, b, err := conn.ReadMessage()
			require.NoError(t, err)
			require.Equal(t, "hello", string(b))
		})
	}
}

// Compression and CORS work in front of two Middlewares, between them, and behind them.
func TestAnnounceLibraries(t *testing.T) {
	text := strings.Repeat("hello, ", 2000)
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	zip := func(next http.Handler) http.Handler { return gzhttp.GzipHandler(next) }
	allow := cors.New(cors.Options{AllowedOrigins: []string{"*"}, ExposedHeaders: []string{"X-Id"}}).Handler
	for name, handler := range map[string]http.Handler{
		"outside": zip(allow(outer(inner(hello)))),
		"between": outer(zip(allow(inner(hello)))),
		"inside":  outer(inner(zip(allow(hello)))),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(handler)
			s.EnableHTTP2 = true
			s.StartTLS()
			t.Cleanup(s.Close)
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
			require.NoError(t, err)
			req.Header.Set("Origin", "https://page.example")
			resp, err := s.Client().Do(req) // the request asks for gzip
			require.NoError(t, err)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, text, string(b))
			require.True(t, resp.Uncompressed)
			requireBoth(t, resp.Header)
			exposed := ", " + strings.Join(resp.Header.Values("Access-Control-Expose-Headers"), ", ") + ","
			for _, field := range []string{"X-Id", "RateLimit", "RateLimit-Policy"} {
				require.Equal(t, 1, strings.Count(exposed, ", "+field+","), exposed)
			}
		})
	}
}
