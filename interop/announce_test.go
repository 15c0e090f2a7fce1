package interop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
			f, err := ratelimit.Parse(resp.Header)
			require.NoError(t, err)
			require.Len(t, f.Limits, 2)
			require.ElementsMatch(t, []string{"inner", "outer"}, []string{f.Limits[0].Name, f.Limits[1].Name})
			exposed := ", " + strings.Join(resp.Header.Values("Access-Control-Expose-Headers"), ", ") + ","
			for _, field := range []string{"X-Id", "RateLimit", "RateLimit-Policy"} {
				require.Equal(t, 1, strings.Count(exposed, ", "+field+","), exposed)
			}
		})
	}
}
