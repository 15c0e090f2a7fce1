package caddy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/httpfields/ratelimit"
	"github.com/stretchr/testify/require"
)

// A Limiter is a Middleware as a module of Caddy.
type Limiter struct {
	Name string `json:"name"`
}

func (Limiter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.limiter", New: func() caddy.Module { return new(Limiter) }}
}

func (l *Limiter) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	f := ratelimit.FixedWindow{Name: l.Name, Quota: 9, Used: 4, Window: time.Minute, Left: 30 * time.Second}.Fields()
	m := &ratelimit.Middleware{Take: func(*http.Request) (ratelimit.Decision, error) { return ratelimit.Decision{Fields: f}, nil }}
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = next.ServeHTTP(w, r) })).ServeHTTP(w, r)
	return err
}

const config = `{
	"admin": {"disabled": true, "config": {"persist": false}}, "logging": {"logs": {"default": {"level": "ERROR"}}},
	"apps": {"http": {"servers": {"gateway": {"listen": ["ADDRESS"], "automatic_https": {"disable": true}, "routes": [{"handle": [
		{"handler": "limiter", "name": "outer"}, {"handler": "limiter", "name": "inner"},
		{"handler": "reverse_proxy", "upstreams": [{"dial": "UPSTREAM"}]}
	]}]}}}}
}`

// TestCaddy puts two limiters in front of Caddy's reverse proxy. Upstream sends an older form,
// sends hints, streams, or is down.
func TestCaddy(t *testing.T) {
	caddy.RegisterModule(Limiter{})
	more := make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.Header().Set("X-RateLimit-Limit", "100")
		w.Header().Set("X-RateLimit-Remaining", "60")
		w.Header().Set("X-RateLimit-Reset", "50")
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-more // the client has read the header
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer upstream.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	text := strings.NewReplacer("ADDRESS", address, "UPSTREAM", upstream.Listener.Addr().String()).Replace(config)
	require.NoError(t, caddy.Load([]byte(text), true))
	defer func() { require.NoError(t, caddy.Stop()) }()

	for _, path := range []string{"/", "/hints", "/events"} {
		t.Run(path, func(t *testing.T) {
			resp, err := http.Get("http://" + address + path)
			require.NoError(t, err)
			defer resp.Body.Close()
			if path == "/events" {
				more <- true
			}
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(b))
			requireHeader(t, resp.Header, `"default";r=60;t=50, "inner";r=5;t=30, "outer";r=5;t=30`, "5")
		})
	}
	upstream.Close()
	resp, err := http.Get("http://" + address)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	requireHeader(t, resp.Header, `"inner";r=5;t=30, "outer";r=5;t=30`, "")
}

func requireHeader(t *testing.T, h http.Header, limits, older string) {
	t.Helper()
	require.Equal(t, []string{limits}, h.Values("RateLimit"), fmt.Sprint(h))
	require.Equal(t, older, h.Get("X-RateLimit-Remaining"))
}
