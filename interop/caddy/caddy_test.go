package caddy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/stretchr/testify/require"
)

const config = `{
	"admin": {"disabled": true, "config": {"persist": false}}, "logging": {"logs": {"default": {"level": "ERROR"}}},
	"apps": {"http": {"servers": {"gateway": {"listen": ["ADDRESS"], "automatic_https": {"disable": true}, "routes": [{"handle": [
		{"handler": "zone", "name": "outer", "max_events": 9, "window": "15m"}, {"handler": "zone", "name": "INNER", "max_events": 5, "window": "15m"},
		{"handler": "reverse_proxy", "upstreams": [{"dial": "UPSTREAM"}]}
	]}]}}}}
}`

// TestCaddy puts two limiters in front of Caddy's reverse proxy. Upstream sends an older form,
// sends hints, streams, or is down.
func TestCaddy(t *testing.T) {
	caddy.RegisterModule(Zone{})
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
	require.ErrorContains(t, caddy.Load([]byte(strings.ReplaceAll(text, "INNER", "zürich")), true), "zone")
	require.NoError(t, caddy.Load([]byte(strings.ReplaceAll(text, "INNER", "inner")), true))
	defer func() { require.NoError(t, caddy.Stop()) }()

	for i, path := range []string{"/", "/hints", "/events"} {
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
			requireHeader(t, resp.Header, fmt.Sprintf(`"default";r=60, "inner";r=%d, "outer";r=%d`, 4-i, 8-i), strconv.Itoa(4-i))
		})
	}
	upstream.Close()
	for _, want := range []struct {
		status int
		limits string
	}{
		{http.StatusBadGateway, `"inner";r=1, "outer";r=5`},
		{http.StatusBadGateway, `"inner";r=0, "outer";r=4`},
		{http.StatusTooManyRequests, `"inner";r=0, "outer";r=3`},
	} {
		resp, err := http.Get("http://" + address)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want.status, resp.StatusCode)
		requireHeader(t, resp.Header, want.limits, "")
		require.Equal(t, want.status == http.StatusTooManyRequests, resp.Header.Get("Retry-After") != "")
	}
}

// requireHeader compares the limits without their resets, which depend on the clock.
func requireHeader(t *testing.T, h http.Header, limits, older string) {
	t.Helper()
	require.Equal(t, []string{limits}, []string{regexp.MustCompile(`;t=\d+`).ReplaceAllString(strings.Join(h.Values("RateLimit"), "\n"), "")}, fmt.Sprint(h))
	require.Equal(t, older, h.Get("X-RateLimit-Remaining"))
}
