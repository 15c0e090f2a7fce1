package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A runningProxy is the command in front of a server.
type runningProxy struct {
	url, admin string
	end        context.CancelFunc // has the effect of an interrupt
	status     chan int           // its exit status
	stderr     *bytes.Buffer      // may be read after the end
}

// startProxy runs the verb in front of a server, on a socket, until the test ends.
func startProxy(t testing.TB, to string, args ...string) *runningProxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	p := &runningProxy{end: cancel, status: make(chan int, 1), stderr: &bytes.Buffer{}}
	args = append([]string{"-to", to, "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, args...)
	go func() {
		p.status <- run(ctx, append([]string{"proxy"}, args...), nil, in, p.stderr)
		in.Close()
	}()
	lines := bufio.NewReader(out)
	p.url = readAddress(t, lines, "listening on ")
	var hasPath bool
	p.admin, hasPath = strings.CutSuffix(readAddress(t, lines, "metrics on "), "/metrics")
	require.Equal(t, strings.HasPrefix(p.admin, "http://"), hasPath, "the path of a socket is no address")
	t.Cleanup(cancel)
	return p
}

func readAddress(t testing.TB, r *bufio.Reader, before string) string {
	t.Helper()
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), before)
	require.True(t, ok, line)
	return address
}

// The flags reach the proxy.
func TestProxyCommand(t *testing.T) {
	var n atomic.Int64
	upstream := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		require.Equal(t, "/v1/chat", r.URL.Path)
		require.Empty(t, r.Header["X-Request-Tokens"])
		w.Header().Set("RateLimit-Policy", `"t";q=100;w=3600;qu="tokens"`)
		w.Header().Set("RateLimit", `"t";r=50;t=3600`)
		io.WriteString(w, "hello")
	})
	p := startProxy(t, upstream+"/v1", "-cost-header", "X-Request-Tokens", "-key", "X-Tenant", "-max-wait", "1s", "-pace")
	for _, tc := range []struct {
		tenant, cost string
		status       int
	}{{"a", "40", 200}, {"a", "90", 429}, {"b", "90", 200}} {
		resp, _ := trial.Send(t, "POST", p.url+"/chat", strings.NewReader("x"), "X-Request-Tokens", tc.cost, "X-Tenant", tc.tenant)
		require.Equal(t, tc.status, resp.StatusCode, tc)
	}
	require.EqualValues(t, 2, n.Load())
	p.end()
	require.Equal(t, exitFine, <-p.status)
	require.Empty(t, p.stderr.String())
}

// References to the server are rewritten unless -rewrite is false. A server that is down is printed
// without the path of the request.
func TestProxyRewrites(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Location", server.URL+"/a")
	}))
	defer server.Close()
	rewriting, passing := startProxy(t, server.URL), startProxy(t, server.URL, "-rewrite=false")
	for _, tc := range []struct {
		proxy *runningProxy
		want  string
	}{{rewriting, rewriting.url}, {passing, server.URL}} {
		resp, _ := trial.Send(t, "GET", tc.proxy.url, nil)
		require.Equal(t, tc.want+"/a", resp.Header.Get("Content-Location"))
	}
	server.CloseClientConnections()
	server.Close()
	resp, body := trial.Send(t, "GET", passing.url+"/s3cret", nil)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "this proxy got no answer from the server\n", body)
	passing.end()
	<-passing.status
	require.Contains(t, passing.stderr.String(), "ratelimit proxy: GET 127.0.0.1:")
	require.NotContains(t, passing.stderr.String(), "s3cret")
}

// An interrupt ends waiting requests, and lets in-flight requests end.
func TestProxyEnds(t *testing.T) {
	proceed := make(chan bool)
	arrived := make(chan bool)
	p := startProxy(t, trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			arrived <- true
			<-proceed
			io.WriteString(w, "done")
		case "/exhaust":
			w.Header().Set("Retry-After", "60")
			w.Header().Set("RateLimit", `"hour";r=9`)
		}
	}))
	type answer struct {
		status     int
		retryAfter string
		body       string
	}
	answers := map[string]chan answer{"/slow": make(chan answer, 1), "/wait": make(chan answer, 1)}
	get := func(path string) {
		resp, body := trial.Send(t, "GET", p.url+path, nil)
		answers[path] <- answer{resp.StatusCode, resp.Header.Get("Retry-After"), body}
	}
	go get("/slow")
	<-arrived
	trial.Send(t, "GET", p.url+"/exhaust", nil)
	go get("/wait")
	trial.Until(t, "it waits", func() bool {
		_, text := trial.Send(t, "GET", p.admin+"/metrics", nil)
		return strings.Contains(text, `ratelimit_waiting{key="anonymous"} 1`+"\n")
	})
	p.end()
	got := <-answers["/wait"]
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, []string{"60", "59", "58"}, got.retryAfter)
	require.Contains(t, got.body, `"retry-after":`)
	trial.Until(t, "the proxy no longer listens", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case <-p.status:
		t.Fatal("it has ended before what is under way")
	default:
	}
	proceed <- true
	require.Equal(t, answer{200, "", "done"}, <-answers["/slow"])
	require.Equal(t, exitFine, <-p.status)
	require.Contains(t, p.stderr.String(), "ratelimit proxy: stopping while 1 request waits: the answer is 503\n")
}

// On TCP a page in a browser could reach both addresses by a name of its own (DNS rebinding). It
// cannot reach a Unix socket.
func TestProxyHosts(t *testing.T) {
	upstream := trial.Serve(t, func(http.ResponseWriter, *http.Request) {})
	status := func(network, address, method, path string) int {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequest(method, "http://attacker.example"+path, strings.NewReader("a body"))
		require.NoError(t, err)
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, tc := range []struct {
		listen, admin string // networks
		want          []int
	}{
		{"tcp", "tcp", []int{421, 421}}, {"unix", "tcp", []int{200, 421}}, {"tcp", "unix", []int{421, 200}}, {"unix", "unix", []int{200, 200}},
	} {
		folder := t.TempDir()
		var args []string
		if tc.listen == "unix" {
			args = append(args, "-listen", "unix:"+folder+"/l")
		}
		if tc.admin == "unix" {
			args = append(args, "-admin", "unix:"+folder+"/a")
		}
		p := startProxy(t, upstream, args...)
		address := func(shown string) string { return strings.TrimPrefix(strings.TrimPrefix(shown, "http://"), "unix:") }
		got := []int{status(tc.listen, address(p.url), "POST", "/"), status(tc.admin, address(p.admin), "GET", "/metrics")}
		require.Equal(t, tc.want, got, tc)
		p.end()
		<-p.status
	}
}

func TestProxyFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	for _, tc := range []struct {
		name string
		args []string
		want int
		text string // a part of the output
	}{
		{"no server", nil, exitFailed, "-to is missing"},
		{"a file", []string{"-to", "ftp://a/"}, exitFailed, "-to is not an address"},
		{"a server of HTTPS", []string{"-to", "https://a/", "-listen", busy.Addr().String()}, exitFailed, "in use"},
		{"a password", []string{"-to", "http://u:p@a/"}, exitFailed, "leave the rest out"},
		{"a query", []string{"-to", "http://a/?b"}, exitFailed, "leave the rest out"},
		{"no wait", []string{"-to", "http://a/", "-max-wait", "0s"}, exitFailed, "-max-wait"},
		{"a wrong key", []string{"-to", "http://a/", "-key", "a,,b"}, exitFailed, "-key"},
		{"a wrong cost", []string{"-to", "http://a/", "-cost-header", "a b"}, exitFailed, "-cost-header"},
		{"a negative queue", []string{"-to", "http://a/", "-queue", "-1"}, exitFailed, "-queue"},
		{"a negative memory", []string{"-to", "http://a/", "-body-memory", "-1"}, exitFailed, "-body-memory"},
		{"a host with a port", []string{"-to", "http://a/", "-host", "a:1"}, exitFailed, "-host"},
		{"a host without a name", []string{"-to", "http://a/", "-host", "a,,b"}, exitFailed, "-host"},
		{"two hosts", []string{"-to", "http://a/", "-host", "proxy.example,b", "-listen", busy.Addr().String()}, exitFailed, "in use"},
		{"an address without a port", []string{"-to", "http://a/", "-listen", "8700"}, exitFailed, "ratelimit proxy: -listen is not an address: write 127.0.0.1:8700 or unix:PATH\nFor help"},
		{"no address, which would be all of them", []string{"-to", "http://a/", "-listen", ""}, exitFailed, "-listen is not an address"},
		{"a socket without a path", []string{"-to", "http://a/", "-admin", "unix:"}, exitFailed, "-admin is not an address: write 127.0.0.1:8701 or unix:PATH\n"},
		{"no host", []string{"-to", "http://:80/"}, exitFailed, "-to is not an address"},
		{"no socket", []string{"-to", "http://a/", "-listen", "unix:/no/such/folder/s"}, exitFailed, "ratelimit proxy: -listen: "},
		{"an argument", []string{"-to", "http://a/", "b"}, exitFailed, "give the server with -to"},
		{"a busy port", []string{"-to", "http://a/", "-listen", busy.Addr().String()}, exitFailed, "in use"},
		{"a busy port for what it counts", []string{"-to", "http://a/", "-listen", "127.0.0.1:0", "-admin", busy.Addr().String()}, exitFailed, "address already in use: give another address, such as 127.0.0.1:0\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			got := run(t.Context(), append([]string{"proxy"}, tc.args...), nil, &stdout, &stderr)
			require.Equal(t, tc.want, got, stderr.String())
			require.Contains(t, stdout.String()+stderr.String(), tc.text)
		})
	}
}
