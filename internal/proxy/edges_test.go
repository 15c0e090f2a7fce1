package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// References to the server become references to the proxy. Other references stay unchanged.
func TestMapping(t *testing.T) {
	for _, tc := range []struct {
		name, to, field, in, want string
		n                         int
	}{
		{"absolute", "https://api.example", "Location", "https://api.example/next?a=b;c#d", "http://proxy/next?a=b;c#d", 1},
		{"no path", "https://api.example", "Location", "https://api.example", "http://proxy/", 1},
		{"no path, a query", "https://api.example", "Location", "https://api.example?a", "http://proxy/?a", 1},
		{"a port by default", "https://api.example", "Location", "HTTPS://API.example:443/x", "http://proxy/x", 1},
		{"another port", "https://api.example", "Location", "https://api.example:444/x", "https://api.example:444/x", 0},
		{"another scheme", "https://api.example", "Location", "http://api.example/x", "http://api.example/x", 0},
		{"without a scheme", "https://api.example", "Location", "//api.example/x", "http://proxy/x", 1},
		{"another host", "https://api.example", "Location", "https://api.example.evil/x", "https://api.example.evil/x", 0},
		{"relative", "https://api.example", "Location", "/x", "/x", 0},
		{"escapes", "https://api.example", "Content-Location", "https://api.example/a%2Fb", "http://proxy/a%2Fb", 1},
		{"below a path", "https://api.example/v1/", "Location", "https://api.example/v1/x", "http://proxy/x", 1},
		{"below a path, relative", "https://api.example/v1", "Location", "/v1/x?y", "/x?y", 1},
		{"below a path, with a scheme and no host", "https://api.example/v1", "Location", "https:/v1/x", "https:/v1/x", 0},
		{"next to a path", "https://api.example/v1", "Location", "https://api.example/v12", "https://api.example/v12", 0},
		{"no reference", "https://api.example", "Location", "%zz", "%zz", 0},
		{
			"links", "https://api.example", "Link",
			`<https://api.example/?page=2>; rel="next", </b>; title="\"<https://api.example/>", <https://api.example/9>; rel=last, <https://other/>`,
			`<http://proxy/?page=2>; rel="next", </b>; title="\"<https://api.example/>", <http://proxy/9>; rel=last, <https://other/>`, 2,
		},
		{"an open link", "https://api.example", "Link", "<https://api.example/", "<https://api.example/", 0},
		{"refresh", "https://api.example", "Refresh", `5; URL="https://api.example/x"`, `5; URL=http://proxy/x`, 1},
		{"refresh without a time", "https://api.example", "Refresh", "url=https://api.example/x", "url=http://proxy/x", 1},
		{"refresh of itself", "https://api.example", "Refresh", "5", "5", 0},
		{"another field", "https://api.example", "X-Location", "https://api.example/x", "https://api.example/x", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to, err := url.Parse(tc.to)
			require.NoError(t, err)
			h := http.Header{tc.field: {tc.in}}
			m := mapping{to, "http://proxy"}
			require.Equal(t, tc.n, m.header(h))
			require.Equal(t, []string{tc.want}, h[tc.field])
		})
	}
}

// A client that follows redirections and links stays at the proxy.
func TestProxyLeaksNowhere(t *testing.T) {
	var direct atomic.Int64
	var address string
	upstream := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		direct.Add(1)
		if r.URL.Path == "/v1/from" {
			w.Header().Set("Link", "<"+address+"/v1/page2>; rel=next")
			w.Header().Set("Location", address+"/v1/there")
			w.WriteHeader(http.StatusFound)
		}
	})
	address = upstream
	for _, keep := range []bool{false, true} {
		p := startProxy(t, upstream+"/v1", func(c *Config) { c.Rewrite = !keep })
		resp, err := http.DefaultTransport.RoundTrip(trial.NewRequest(t, p.url+"/from"))
		require.NoError(t, err)
		resp.Body.Close()
		want, n := []string{p.url + "/there", "<" + p.url + "/page2>; rel=next"}, 2.0
		if keep {
			want, n = []string{upstream + "/v1/there", "<" + upstream + "/v1/page2>; rel=next"}, 0
		}
		require.Equal(t, want, []string{resp.Header.Get("Location"), resp.Header.Get("Link")})
		require.Equal(t, n, p.metric(t, `ratelimit_rewritten_total{key="anonymous"}`))
		if !keep {
			resp, _ = trial.Send(t, "GET", p.url+"/from", nil)
			require.Equal(t, strings.TrimPrefix(p.url, "http://"), resp.Request.URL.Host)
		}
	}
}

// Through a Unix socket a client uses the address of the server, and references keep it. A status
// that net/http cannot write is answered with 502.
func TestProxyUnix(t *testing.T) {
	to, _ := url.Parse("https://api.example")
	p := New(Config{
		To: to, MaxWait: time.Second, Queue: 1, Rewrite: true, Log: log.New(io.Discard, "", 0),
		Share: answeredBy(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Location", "https://api.example/x")
			resp := w.Result()
			resp.Request = r
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &resp.StatusCode)
			return resp, nil
		}),
	})
	for network, want := range map[string]string{"unix": "https://api.example/x", "tcp": "http://api.example/x"} {
		address := map[string]string{"unix": t.TempDir() + "/s", "tcp": "127.0.0.1:0"}[network]
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		server := &http.Server{Handler: p, ConnContext: withConn}
		defer server.Close()
		go server.Serve(l)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial(network, l.Addr().String()) }}
		defer transport.CloseIdleConnections()
		for path, status := range map[string]int{"/200": 200, "/999": 999, "/1000": 502, "/99": 502} {
			resp, err := transport.RoundTrip(trial.NewRequest(t, "http://api.example"+path))
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, status, resp.StatusCode, path)
			if status != http.StatusBadGateway {
				require.Equal(t, want, resp.Header.Get("Location"))
			}
		}
	}
}

// At most as many requests wait as the Config allows. Further requests get a response at
// once.
func TestProxyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		p := inProcess(waitingFor("Retry-After", "60", &n), func(c *Config) { c.Queue = 3 })
		ask(p, "GET", "/exhaust", nil)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { ask(p, "GET", "/", nil) })
		}
		synctest.Wait()
		require.EqualValues(t, 3, p.held.Load())
		for range 5 {
			resp := ask(p, "POST", "/", strings.NewReader("x"))
			require.Equal(t, http.StatusTooManyRequests, resp.Code)
			require.Equal(t, "60", resp.Header().Get("Retry-After"))
			require.Contains(t, resp.Body.String(), "as this proxy holds")
		}
		require.EqualValues(t, 1, n.Load())
		require.EqualValues(t, 3, p.held.Load())
		p.Stop()
		all.Wait()
	})
}

// If a client hangs up, its request leaves the queue and is never sent, whatever part of it
// has arrived.
func TestProxyHangUp(t *testing.T) {
	var n atomic.Int64
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(waitingFor("Retry-After", "590", &n))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	const clients, memory = 100, 8 << 20
	p := startProxy(t, server.URL, func(c *Config) { c.BodyMemory = memory })
	trial.Send(t, "GET", p.url+"/exhaust", nil)
	before := heap()
	body := strings.Repeat("a", 300<<10)
	ctx, hangUp := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "POST", p.url, strings.NewReader(body))
			if err == nil {
				_, err = http.DefaultTransport.RoundTrip(r)
			}
			if err == nil {
				t.Error("it was answered")
			}
		})
	}
	waiting := func() float64 { return p.metric(t, `ratelimit_waiting{key="anonymous"}`) }
	trial.Until(t, "they wait", func() bool { return waiting() == clients })
	trial.Until(t, "the memory is used", func() bool { return p.proxy.memory.left.Load() < partSize })
	hangUp()
	all.Wait()
	trial.Until(t, "they have left", func() bool { return waiting() == 0 })
	trial.Until(t, "they have ended", func() bool { return p.proxy.memory.left.Load() == memory })
	require.Less(t, heap(), before+memory/4)
	require.EqualValues(t, 1, n.Load())
	require.EqualValues(t, 1, connections.Load(), "that of the first request")
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// If a client hangs up, its request leaves the queue without delay, by the clock of the test.
func TestProxyHangUpAtOnce(t *testing.T) {
	for _, body := range []string{"", "Content-Length: 5\r\n", "Content-Length: 7\r\n\r\nhello", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\na"} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			p, front := startPiped(t, func(w http.ResponseWriter, _ *http.Request) {
				sent++
				w.Header().Set("RateLimit", `"user";r=0;t=590`)
			})
			conn, answers := front.connect(t, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			_, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			conn.Close()
			conn, _ = front.connect(t, "POST / HTTP/1.1\r\nHost: localhost\r\n"+body+"\r\n")
			synctest.Wait()
			require.EqualValues(t, 1, p.held.Load())
			began := time.Now()
			require.NoError(t, conn.Close())
			synctest.Wait()
			require.Zero(t, p.held.Load())
			require.Zero(t, time.Since(began))
			time.Sleep(time.Hour)
			require.Equal(t, 1, sent)
		})
	}
}

// startPiped runs a proxy in front of a server in virtual time, and returns the connections to it.
func startPiped(t *testing.T, server http.HandlerFunc) (*Proxy, *pipes) {
	to := newPipes(t, server)
	p := New(Config{To: &url.URL{Scheme: "http", Host: "api.example"}, MaxWait: time.Hour, Queue: 10, BodyMemory: 1 << 20, Log: log.New(t.Output(), "", 0)})
	p.base.DialContext = to.dial
	return p, newPipes(t, p)
}

// A pipes is a listener of connections in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	ended chan bool
}

// newPipes serves pipes until the test ends.
func newPipes(t *testing.T, h http.Handler) *pipes {
	l := &pipes{conns: make(chan net.Conn), ended: make(chan bool)}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { l.once.Do(func() { close(l.ended) }); return nil }

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	l.conns <- server
	return client, nil
}

// connect sends a text over a new connection, and returns the reader of what comes back.
func (l *pipes) connect(t *testing.T, text string) (net.Conn, *bufio.Reader) {
	conn, _ := l.dial(t.Context(), "", "")
	t.Cleanup(func() { conn.Close() })
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// A web page cannot read responses of the proxy by resolving its own name to this machine
// (DNS rebinding).
func TestProxyHosts(t *testing.T) {
	p := startProxy(t, trial.Serve(t, func(http.ResponseWriter, *http.Request) {}), func(c *Config) { c.Hosts = []string{"Proxy.Example"} })
	for host, want := range map[string]int{
		"attacker.example": 421, "attacker.example:8700": 421, "127.0.0.1.attacker.example": 421, "localhost.attacker.example": 421,
		"localhost": 200, "LOCALHOST:8700": 200, "127.0.0.1:1": 200, "[::1]:8700": 200, "::1": 200, "10.0.0.1": 200, "proxy.example:8700": 200,
		strings.TrimPrefix(p.proxy.config.To.String(), "http://"): 200,
	} {
		for _, address := range []string{p.url, p.admin + "/state"} {
			r := trial.NewRequest(t, address)
			r.Host = host
			resp, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, want, resp.StatusCode, host)
		}
	}
	p.proxy.config.To = &url.URL{Scheme: "https", Host: "API.example:443"}
	require.True(t, p.proxy.serves("api.example"))
}

// raw sends a text, and returns the response.
func (p *runningProxy) raw(t *testing.T, text string) string {
	t.Helper()
	conn := p.dial(t)
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(answer)
}

func TestProxyIsNoServer(t *testing.T) {
	var got atomic.Value
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer upstream.Close()
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>"
	go func() {
		for {
			conn, err := upstream.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			got.Store(line)
			if strings.Contains(line, "/099") {
				io.WriteString(conn, "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n")
			} else {
				io.WriteString(conn, answer)
			}
			conn.Close()
		}
	}()
	p := startProxy(t, "http://"+upstream.Addr().String())
	const rest = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

	text := p.raw(t, "GET /"+rest)
	require.NotContains(t, text, "Content-Type", "no type is guessed")
	require.Contains(t, text, "<html>")
	require.Contains(t, p.raw(t, "OPTIONS *"+rest), "<html>")
	require.Equal(t, "OPTIONS * HTTP/1.1\r\n", got.Load())
	require.Regexp(t, "^HTTP/1.1 400 ", p.raw(t, "PRI *"+rest))
	require.Regexp(t, "^HTTP/1.1 400 ", p.raw(t, "GET *"+rest))
	require.Regexp(t, "^HTTP/1.1 502 ", p.raw(t, "GET /bot123:s3cret/099?key=s3cret"+rest))
	p.end()
	require.NotContains(t, p.log.String(), "s3cret")
	require.NotContains(t, p.log.String(), "panic")
}

// A request that leads back to a proxy is answered with 508, also through another proxy. Requests
// through several proxies to a server are none.
func TestProxyLoop(t *testing.T) {
	for name, proxies := range map[string]int{"itself": 1, "another proxy": 2} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			var first *Proxy
			address := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > 10 {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				first.ServeHTTP(w, r)
			})
			to := address
			for range proxies {
				p := startProxy(t, to)
				first, to = p.proxy, p.url
			}
			resp, _ := trial.Send(t, "GET", address+"/a", nil)
			require.Equal(t, http.StatusLoopDetected, resp.StatusCode)
		})
	}
	var got atomic.Value
	to := trial.Serve(t, func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header["Cdn-Loop"]) })
	for range 3 {
		to = startProxy(t, to).url
	}
	resp, _ := trial.Send(t, "GET", to, nil, "CDN-Loop", "other")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, got.Load(), 4)
}

// Through two proxies to a server of HTTP/2, a client stays at the first one, gets events at once,
// and is refused by the first one after it has learnt from a refusal of the second.
func TestProxyChain(t *testing.T) {
	proceed := make(chan bool)
	var n atomic.Int64
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		switch r.URL.Path {
		case "/v1/redirect":
			http.Redirect(w, r, "https://"+r.Host+"/v1/events", http.StatusFound)
		case "/v1/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			<-proceed
			_, _ = io.WriteString(w, r.Proto+"\n")
		case "/v1/exhaust":
			w.Header().Set("Retry-After", "30")
			w.Header().Set("RateLimit", `"a";r=1`)
		}
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	inner := startProxy(t, upstream.URL+"/v1", maxWait(5*time.Second))
	inner.proxy.base.TLSClientConfig = upstream.Client().Transport.(*http.Transport).TLSClientConfig
	inner.proxy.base.ForceAttemptHTTP2 = true
	outer := startProxy(t, inner.url, maxWait(20*time.Second))

	resp, err := http.Get(outer.url + "/redirect")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, outer.url+"/events", resp.Request.URL.String())
	events := bufio.NewReader(resp.Body)
	for _, want := range []string{"first\n", "HTTP/2.0\n"} {
		line, err := events.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
		if want == "first\n" {
			proceed <- true
		}
	}

	// The inner proxy knows of a wait, and the outer one does not.
	trial.Send(t, "GET", inner.url+"/exhaust", nil)
	before := n.Load()
	for _, from := range []*runningProxy{inner, outer} {
		resp, _ := trial.Send(t, "GET", outer.url, nil)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Zero(t, from.metric(t, `ratelimit_waited_seconds_total{key="anonymous"}`), "it is refused at once")
		require.Equal(t, 1.0, from.metric(t, `ratelimit_refused_total{key="anonymous",by="proxy"}`))
	}
	require.Equal(t, before, n.Load())
}

// A socket is accessible only to its user, replaces a dead socket, and is removed at the end.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, shown, err := listen("admin", "unix:"+path)
	require.NoError(t, err)
	require.Equal(t, "unix:"+path, shown)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, _, err = listen("admin", "unix:"+path)
	require.ErrorContains(t, err, "-admin: unix:"+path+": another program listens")
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	require.Error(t, l.Close(), "it is closed")

	first, _, err := listen("admin", "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, first.Close(), "somebody has removed the socket")
	first, _, err = listen("admin", "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	second, _, err := listen("admin", "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	conn, err := net.Dial("unix", path)
	require.NoError(t, err, "the socket of another proxy stays")
	require.NoError(t, conn.Close())
	require.NoError(t, second.Close())
	require.NoFileExists(t, path)

	dead, err := net.Listen("unix", path)
	require.NoError(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	l, _, err = listen("admin", "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, l.Close())

	other, err := net.ListenPacket("unixgram", path)
	require.NoError(t, err)
	_, _, err = listen("admin", "unix:"+path)
	require.ErrorContains(t, err, "-admin: unix:"+path+": another program listens")
	require.NoError(t, other.Close())
	require.NoError(t, os.Remove(path))

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, _, err = listen("admin", "unix:"+path)
	require.ErrorContains(t, err, "-admin: unix:"+path+": there is a file that is no socket")
	require.FileExists(t, path)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	missing := filepath.Join(filepath.Dir(path), "missing", "s.sock")
	_, _, err = listen("admin", "unix:"+missing)
	require.ErrorContains(t, err, "-admin: unix:"+missing+": ")
}
