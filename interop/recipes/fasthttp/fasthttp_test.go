package fasthttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// serve starts a server in memory.
func serve(t *testing.T, handler fasthttp.RequestHandler) (dial func() (net.Conn, error)) {
	l := fasthttputil.NewInmemoryListener()
	server := &fasthttp.Server{Handler: handler}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, <-stopped)
	})
	return l.Dial
}

func TestGateway(t *testing.T) {
	upstream := serve(t, func(c *fasthttp.RequestCtx) {
		for name, value := range map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "60", "X-RateLimit-Reset": "30"} {
			c.Response.Header.Set(name, value)
		}
		c.Response.Header.Add("Set-Cookie", "a=1")
		c.Response.Header.Add("Set-Cookie", "b=2")
		c.SetBodyString("hello")
	})
	take, _ := fake.Take()
	gateway := serve(t, Gateway(&fasthttp.HostClient{Addr: "upstream", Dial: func(string) (net.Conn, error) { return upstream() }},
		func(*fasthttp.RequestCtx) announce.Decision {
			d, err := take(nil)
			require.NoError(t, err)
			return d
		}))
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return gateway() }}}
	t.Cleanup(client.CloseIdleConnections)
	get := func() (*http.Response, string) {
		resp, err := client.Get("http://gateway.example")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(body)
	}
	resp, body := get()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "hello", body)
	require.Equal(t, []string{"a=1", "b=2"}, resp.Header.Values("Set-Cookie"))
	require.Regexp(t, `^"default";r=60;t=30, "window";r=0;t=60$`, resp.Header.Get("RateLimit"))
	require.Equal(t, "0", resp.Header.Get("X-RateLimit-Remaining"), "the limit of the gateway, for clients of the older form")

	resp, body = get()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Contains(t, body, `"violated-policies":["window"]`)
	require.Regexp(t, `^"window";r=0;t=60$`, resp.Header.Get("RateLimit"))
	require.Regexp(t, `^60$`, resp.Header.Get("Retry-After"))
	require.Equal(t, ratelimit.ProblemMediaType, resp.Header.Get("Content-Type"))
}
