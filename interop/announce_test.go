package interop

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	gorilla "github.com/gorilla/websocket"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"
	"github.com/rs/cors"
	"github.com/stretchr/testify/require"
)

// The fields of a Middleware pass through other libraries, over connections. announce_test.go
// of the root has the tests with net/http.

// announcing is a Middleware that serves all requests.
func announcing(name string) *announce.Middleware {
	f := announce.FixedWindow{Name: name, Quota: 9, Used: 4, Window: time.Minute, Left: 30 * time.Second}.Fields()
	return &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) { return announce.Decision{Fields: f}, nil }}
}

var inner, outer = announcing("inner").Handler, announcing("outer").Handler

// around wraps a handler. The outermost wrapper is first.
func around(next http.Handler, wraps ...func(http.Handler) http.Handler) http.Handler {
	for i := len(wraps) - 1; i >= 0; i-- {
		next = wraps[i](next)
	}
	return next
}

// requireAnnounced requires that the header has both limits exactly once.
func requireAnnounced(t *testing.T, h http.Header) {
	t.Helper()
	for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
		require.Len(t, h[key], 1, key)
		require.Equal(t, 1, strings.Count(h[key][0], `"inner"`), h)
		require.Equal(t, 1, strings.Count(h[key][0], `"outer"`), h)
	}
}

// startVersion starts a server of HTTP/1.1, or of HTTP/2 over TLS.
func startVersion(t *testing.T, version int, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	if s.EnableHTTP2 = version == 2; s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func proxied(t *testing.T, s *httptest.Server) http.Handler {
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: s.Client().Transport}
}

// The 101 has the fields, and messages pass in both directions.
func TestAnnounceWebsockets(t *testing.T) {
	servers := map[string]http.HandlerFunc{
		"gorilla": func(w http.ResponseWriter, r *http.Request) {
			conn, err := new(gorilla.Upgrader).Upgrade(w, r, w.Header())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for kind, b, err := conn.ReadMessage(); err == nil; kind, b, err = conn.ReadMessage() {
				_ = conn.WriteMessage(kind, b)
			}
		},
		"coder": func(w http.ResponseWriter, r *http.Request) {
			conn, err := coder.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			for kind, b, err := conn.Read(r.Context()); err == nil; kind, b, err = conn.Read(r.Context()) {
				_ = conn.Write(r.Context(), kind, b)
			}
		},
	}
	for name, server := range servers {
		silent := startVersion(t, 1, server)
		limited := startVersion(t, 1, inner(server))
		for way, handler := range map[string]http.Handler{
			"direct":                        outer(inner(server)),
			"through a proxy":               outer(inner(proxied(t, silent))),
			"through a proxy, limited both": outer(proxied(t, limited)),
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				s := startVersion(t, 1, handler)
				address := "ws" + strings.TrimPrefix(s.URL, "http")
				theirs, resp, err := gorilla.DefaultDialer.Dial(address, nil)
				require.NoError(t, err)
				defer theirs.Close()
				requireLimits(t, resp.Header, way, name)
				require.NoError(t, theirs.WriteMessage(gorilla.TextMessage, []byte("hello")))
				_, b, err := theirs.ReadMessage()
				require.NoError(t, err)
				require.Equal(t, "hello", string(b))

				conn, resp, err := coder.Dial(t.Context(), address, nil)
				require.NoError(t, err)
				defer conn.CloseNow()
				requireLimits(t, resp.Header, way, name)
				require.NoError(t, conn.Write(t.Context(), coder.MessageText, []byte("hello")))
				_, b, err = conn.Read(t.Context())
				require.NoError(t, err)
				require.Equal(t, "hello", string(b))
			})
		}
	}
}

// requireLimits requires that a 101 has both limits. Upstream's limit has its own line.
func requireLimits(t *testing.T, h http.Header, way, server string) {
	t.Helper()
	f, err := ratelimit.Parse(h)
	require.NoError(t, err)
	names := map[string]int{}
	for _, l := range f.Limits {
		names[l.Name]++
	}
	want := map[string]int{"inner": 1, "outer": 1}
	require.Equal(t, want, names, "%s, %s: %v", way, server, h)
}

// TestAnnounceLibraries puts handlers of other libraries in front of two Middlewares, between
// them, and behind them.
func TestAnnounceLibraries(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	zip := func(next http.Handler) http.Handler { return gzhttp.GzipHandler(next) }
	allow := cors.New(cors.Options{AllowedOrigins: []string{"*"}, ExposedHeaders: []string{"X-Id"}}).Handler
	router := func(wraps ...func(http.Handler) http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(wraps...)
		r.Get("/", hello)
		return r
	}
	engine := gin.New()
	engine.GET("/", gin.WrapF(hello))
	e := echo.New()
	e.Use(echo.WrapMiddleware(outer), echo.WrapMiddleware(inner))
	e.GET("/", echo.WrapHandler(hello))
	quiet := middleware.RequestLogger(&middleware.DefaultLogFormatter{Logger: discard{}})
	for name, handler := range map[string]http.Handler{
		"gzhttp outside":            around(hello, zip, outer, inner),
		"gzhttp between":            around(hello, outer, zip, inner),
		"gzhttp inside":             around(hello, outer, inner, zip),
		"gzhttp outside and inside": around(hello, zip, outer, inner, zip),
		"cors outside":              around(hello, allow, outer, inner),
		"cors between":              around(hello, outer, allow, inner),
		"cors inside":               around(hello, outer, inner, allow),
		"chi, all outside":          router(quiet, middleware.Recoverer, middleware.Compress(5), outer, inner),
		"chi, all inside":           router(outer, inner, quiet, middleware.Recoverer, middleware.Compress(5)),
		"chi, all between":          router(outer, quiet, middleware.Recoverer, middleware.Compress(5), inner),
		"gin inside":                around(engine, outer, inner),
		"echo":                      e,
	} {
		for version := 1; version <= 2; version++ {
			t.Run(name+map[int]string{1: ", HTTP/1.1", 2: ", HTTP/2"}[version], func(t *testing.T) {
				s := startVersion(t, version, handler)
				req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
				require.NoError(t, err)
				req.Header.Set("Origin", "https://page.example")
				resp, err := s.Client().Do(req) // the request asks for gzip
				require.NoError(t, err)
				defer resp.Body.Close()
				require.Equal(t, version, resp.ProtoMajor)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, text, string(b))
				requireAnnounced(t, resp.Header)
				if strings.Contains(name, "gzhttp") || strings.Contains(name, "chi") {
					require.True(t, resp.Uncompressed)
				}
				if strings.HasPrefix(name, "cors") {
					exposed := strings.Join(resp.Header.Values("Access-Control-Expose-Headers"), ", ")
					for _, field := range []string{"X-Id", "RateLimit", "RateLimit-Policy"} {
						require.Equal(t, 1, strings.Count(", "+exposed+",", ", "+field+","), exposed)
					}
				}
			})
		}
	}
}

var text = strings.Repeat("hello, ", 2000)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = bufio.NewReader(strings.NewReader(text)).WriteTo(w)
})

// discard is a logger.
type discard struct{}

func (discard) Print(...any) {}

// TestAnnounceRecoverer puts chi's Recoverer in front of a handler that panics.
func TestAnnounceRecoverer(t *testing.T) {
	for version := 1; version <= 2; version++ {
		panics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a mistake") })
		s := startVersion(t, version, around(panics, middleware.RequestLogger(&middleware.DefaultLogFormatter{Logger: discard{}}), middleware.Recoverer, outer, inner))
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		requireAnnounced(t, resp.Header)
	}
}
