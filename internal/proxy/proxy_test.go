package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A runningProxy is a proxy in front of a server.
type runningProxy struct {
	url, admin string
	proxy      *Proxy
	server     *httptest.Server
	log        *bytes.Buffer // may be read after end
}

// startProxy runs a proxy in front of a server until the test ends.
func startProxy(t testing.TB, to string, set ...func(*Config)) *runningProxy {
	t.Helper()
	address, err := url.Parse(to)
	require.NoError(t, err)
	r := &runningProxy{log: &bytes.Buffer{}}
	logger := log.New(r.log, "", 0)
	c := Config{To: address, Fields: []string{"Authorization", "X-API-Key"}, MaxWait: ratelimit.DefaultMaxWait, Queue: 1000, BodyMemory: 64 << 20, Rewrite: true, Log: logger}
	for _, f := range set {
		f(&c)
	}
	r.proxy = New(c)
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config.Handler = r.proxy.guard(r.server.Listener, r.proxy)
	r.server.Config.DisableGeneralOptionsHandler = true
	r.server.Config.ConnContext = withConn
	r.server.Config.ErrorLog = logger
	r.server.Start()
	admin := httptest.NewServer(r.proxy.guard(r.server.Listener, r.proxy.Admin()))
	t.Cleanup(func() {
		admin.Close()
		r.end()
	})
	r.url, r.admin = r.server.URL, admin.URL
	return r
}

// end ends the proxy, and waits until no request is in flight.
func (p *runningProxy) end() {
	p.proxy.Stop()
	p.server.CloseClientConnections()
	p.server.Close()
	p.proxy.underWay.Wait()
}

// inProcess returns a proxy in front of a handler, without connections, for tests in virtual time.
func inProcess(server http.HandlerFunc, set ...func(*Config)) *Proxy {
	c := Config{To: &url.URL{Scheme: "https", Host: "api.example"}, Fields: []string{"Authorization"}, MaxWait: ratelimit.DefaultMaxWait, Queue: 1000, Log: log.New(io.Discard, "", 0)}
	c.Share = answeredBy(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		server(w, r)
		resp := w.Result()
		resp.Request = r
		return resp, nil
	})
	for _, f := range set {
		f(&c)
	}
	return New(c)
}

// answeredBy returns the Share of a Config whose requests a function answers.
func answeredBy(f trial.RoundTripFunc) func(http.RoundTripper, func(*http.Request) string, func(*http.Request) []obey.Cost) http.RoundTripper {
	return func(http.RoundTripper, func(*http.Request) string, func(*http.Request) []obey.Cost) http.RoundTripper {
		return f
	}
}

// ask returns the response of a handler.
func ask(h http.Handler, method, path string, body io.Reader, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The settings of some tests.
func maxWait(d time.Duration) func(*Config)  { return func(c *Config) { c.MaxWait = d } }
func costHeader(field string) func(*Config)  { return func(c *Config) { c.CostHeader = field } }
func fieldsOf(names ...string) func(*Config) { return func(c *Config) { c.Fields = names } }

// metric returns the value of a line of /metrics, or -1.
func (p *runningProxy) metric(t testing.TB, line string) float64 {
	t.Helper()
	_, text := trial.Send(t, "GET", p.admin+"/metrics", nil)
	for l := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return v
		}
	}
	return -1
}

// dial connects to the proxy, to send bytes that net/http does not send.
func (p *runningProxy) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

func TestProxyForwards(t *testing.T) {
	type seen struct {
		method, uri, host, body string
		header                  http.Header
	}
	var got seen
	upstream := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.RequestURI, r.Host, string(body), r.Header}
		w.Header()["X-Two"] = []string{"a", "b"}
		w.Header().Set("Trailer", "X-Sum, RateLimit")
		w.Header().Set("RateLimit", `"early";r=2`)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "short and stout")
		w.Header().Set("X-Sum", "15")
		w.Header().Set("RateLimit", `"late";r=1`)
	})
	host := strings.TrimPrefix(upstream, "http://")
	for _, tc := range []struct {
		name, to, method, path, body string
		fields                       []string
		uri                          string
		header                       http.Header // "" means that the field must be absent
	}{
		{name: "unchanged", method: "GET", path: "/a/b?c=d", uri: "/a/b?c=d",
			fields: []string{"Authorization", "Bearer secret", "User-Agent", "mine/1", "Accept-Encoding", "br"},
			header: http.Header{"Authorization": {"Bearer secret"}, "User-Agent": {"mine/1"}, "Accept-Encoding": {"br"}}},
		{name: "a path before", to: "/v1/", method: "POST", path: "/chat", body: "{}", uri: "/v1/chat"},
		{name: "escapes and a query that net/url does not like", method: "GET", path: "/a%2Fb/%C3%A9?x=1;y=%zz", uri: "/a%2Fb/%C3%A9?x=1;y=%zz"},
		{name: "a method of its own", method: "PURGE", path: "/", uri: "/"},
		{name: "hop by hop", method: "GET", path: "/", uri: "/",
			fields: []string{"Connection", "X-Hop", "X-Hop", "1", "Keep-Alive", "timeout=5", "Proxy-Authorization", "Basic eA=="},
			header: http.Header{"X-Hop": nil, "Keep-Alive": nil, "Proxy-Authorization": nil}},
		{name: "fields that identify the client", method: "GET", path: "/", uri: "/",
			fields: []string{"X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1"},
			header: http.Header{"X-Forwarded-For": nil, "Forwarded": nil}},
		{name: "the cost", method: "POST", path: "/", body: "x", uri: "/",
			fields: []string{"X-Request-Tokens", "12"}, header: http.Header{"X-Request-Tokens": nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := startProxy(t, upstream+tc.to, costHeader("x-request-tokens"))
			resp, body := trial.Send(t, tc.method, p.url+tc.path, strings.NewReader(tc.body), tc.fields...)
			require.Equal(t, []any{tc.method, tc.uri, host, tc.body}, []any{got.method, got.uri, got.host, got.body})
			for name, want := range tc.header {
				require.Equal(t, want, got.header[name], name)
			}
			require.Equal(t, http.StatusTeapot, resp.StatusCode)
			require.Equal(t, "short and stout", body)
			require.Equal(t, []string{"a", "b"}, resp.Header["X-Two"])
			require.Equal(t, []string{`"early";r=2`}, resp.Header.Values("RateLimit"))
			require.Equal(t, http.Header{"X-Sum": {"15"}, "Ratelimit": {`"late";r=1`}}, resp.Trailer)
		})
	}
}

func TestProxyPassesBodiesAsTheyAre(t *testing.T) {
	upstream := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, "hello")
		z.Close()
	})
	p := startProxy(t, upstream)
	client := http.Client{Transport: &http.Transport{DisableCompression: true}}
	resp, err := client.Get(p.url)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
}

func TestProxyEarlyHints(t *testing.T) {
	var upstream string
	upstream = trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Link"] = []string{"</a.css>; rel=preload", "<" + upstream + r.URL.Path + "/b.css>; rel=preload"}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	})
	for _, keep := range []bool{false, true} {
		p := startProxy(t, upstream, func(c *Config) { c.Rewrite = !keep })
		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, h textproto.MIMEHeader) error { hints = append(hints, h["Link"]...); return nil },
		})
		r, _ := http.NewRequestWithContext(ctx, "GET", p.url+"/x", nil)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		to, n := p.url, 1.0
		if keep {
			to, n = upstream, 0
		}
		require.Equal(t, []string{"</a.css>; rel=preload", "<" + to + "/x/b.css>; rel=preload"}, hints)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Empty(t, resp.Header["Link"])
		require.Empty(t, resp.Header["Content-Type"], "no type is guessed")
		require.Equal(t, n, p.metric(t, `ratelimit_rewritten_total{key="anonymous"}`))
	}
}

// The server responds to each part of a body before the client sends the next part. A body of
// 64 MiB passes in both directions. Both happen after a wait, in which the proxy has already
// read a part.
func TestProxyStreamsBodies(t *testing.T) {
	var n atomic.Int64
	upstream := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 1 {
			w.Header().Set("RateLimit", `"default";r=0;t=1`)
			return
		}
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		buffer := make([]byte, 32<<10)
		for {
			k, err := r.Body.Read(buffer)
			w.Write(buffer[:k])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
	p := startProxy(t, upstream)
	t.Run("part by part", func(t *testing.T) {
		trial.Send(t, "GET", p.url, nil)
		out, in := io.Pipe()
		go func() { io.WriteString(in, "part 0\n") }()
		resp, err := http.Post(p.url, "text/plain", out)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for i := range 5 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("part %d\n", i), line)
			fmt.Fprintf(in, "part %d\n", i+1)
		}
		in.Close()
	})
	t.Run("64 MiB", func(t *testing.T) {
		trial.Send(t, "GET", p.url, nil)
		sent := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
		_, got := trial.Send(t, "POST", p.url, bytes.NewReader(sent))
		require.True(t, got == string(sent))
	})
}

func TestProxyWebSocket(t *testing.T) {
	p := startProxy(t, trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "websocket", r.Header.Get("Upgrade"))
		_, err := io.CopyN(io.Discard, r.Body, min(r.ContentLength, 4))
		require.NoError(t, err)
		conn, buffer, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(conn, buffer)
	}))
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"no body", "Content-Length: 0\r\n\r\n", http.StatusSwitchingProtocols},
		{"a body", "Content-Length: 4\r\n\r\nbody", http.StatusSwitchingProtocols},
		{"a body that has not ended", "Content-Length: 9\r\n\r\nbody", http.StatusBadGateway},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := p.dial(t)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+tc.body)
			answers := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			for range 3 {
				if tc.status != http.StatusSwitchingProtocols {
					break
				}
				io.WriteString(conn, "ping\n")
				line, err := answers.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "ping\n", line)
			}
		})
	}
	p.end()
	require.NotContains(t, p.log.String(), "panic")
}

// Several clients with one credential stay within the limit together.
func TestProxyShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ratelimittest.API{Limits: []ratelimittest.Limit{{
			Policy: ratelimit.Policy{Name: "s", Quota: 20, Window: ratelimit.SecondsOf(1)}, Kind: ratelimittest.WindowFromFirst,
		}}}
		p := inProcess(s.ServeHTTP)
		ask(p, "GET", "/", nil) // the limit is known from now on
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 5 {
					ask(p, "GET", "/", nil)
				}
			})
		}
		clients.Wait()
		require.Equal(t, ratelimittest.Counts{Served: 41}, s.Counts())
		k := p.stats.snapshot(time.Now())[0]
		require.EqualValues(t, []any{int64(41), 0}, []any{k.Requests, k.Waiting})
		require.Positive(t, k.Waited)
	})
}

// waitingFor answers a request that has the value in the field, and counts it. Other requests
// get 200 at once.
func waitingFor(field, value string, n *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if r.URL.Path == "/exhaust" {
			w.Header().Set(field, value)
			if field != "RateLimit" { // a Retry-After on a success counts next to current fields
				w.Header().Set("RateLimit", `"hour";r=9`)
			}
		}
	}
}

func TestProxyHoldsNoLongerThanMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		p := inProcess(waitingFor("RateLimit", `"hour";r=0;t=60`, &n), maxWait(5*time.Second))
		ask(p, "GET", "/exhaust", nil)
		began := time.Now()
		for _, body := range []io.Reader{nil, strings.NewReader("with a body")} {
			resp := ask(p, "POST", "/", body)
			require.Equal(t, http.StatusTooManyRequests, resp.Code)
			require.Equal(t, "60", resp.Header().Get("Retry-After"))
			require.Equal(t, "application/problem+json", resp.Header().Get("Content-Type"))
			var problem struct {
				Type       string   `json:"type"`
				Violated   []string `json:"violated-policies"`
				RetryAfter int      `json:"retry-after"`
			}
			require.NoError(t, json.Unmarshal(resp.Body.Bytes(), &problem))
			require.Contains(t, problem.Type, "quota-exceeded")
			require.Equal(t, []string{"hour"}, problem.Violated)
			require.Equal(t, 60, problem.RetryAfter)
		}
		require.Zero(t, time.Since(began))
		require.EqualValues(t, 1, n.Load())
		k := p.stats.snapshot(time.Now())[0]
		require.Equal(t, []int64{2, 0}, []int64{k.TooLate, k.Refused})
	})
}

// Refusals are passed on, and no request is sent twice.
func TestProxyPassesRefusals(t *testing.T) {
	var n atomic.Int64
	p := startProxy(t, trial.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, "no")
	}))
	resp, body := trial.Send(t, "POST", p.url, strings.NewReader("x"))
	require.Equal(t, []any{http.StatusTooManyRequests, "60", "no"}, []any{resp.StatusCode, resp.Header.Get("Retry-After"), body})
	require.EqualValues(t, 1, n.Load())
	require.Equal(t, 1.0, p.metric(t, `ratelimit_refused_total{key="anonymous",by="server"}`))
}

// A cost is a decimal number above 0.
func TestCosts(t *testing.T) {
	require.Nil(t, costsOf(nil))
	for _, text := range []string{"", "0", "-1", "+1", " 1", "1.5", "1e3", "0x10", "1_0", "9223372036854775808", "many"} {
		require.Nil(t, costsOf([]string{text}), text)
	}
	require.Nil(t, costsOf([]string{"1", "2"}))
	require.EqualValues(t, 12, costsOf([]string{"12"})[0].Units)
}

// A malformed body is the client's fault, before and while it is forwarded.
func TestProxyBrokenBodies(t *testing.T) {
	const text = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nno length\r\n"
	for _, waits := range []bool{false, true} {
		var n atomic.Int64
		p := startProxy(t, trial.Serve(t, waitingFor("Retry-After", "60", &n)))
		if waits {
			trial.Send(t, "GET", p.url+"/exhaust", nil)
		}
		conn := p.dial(t)
		io.WriteString(conn, text)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Regexp(t, `(?s)^HTTP/1.1 400 .*\r\nConnection: close\r\n.*is broken\n`, string(answer))
		p.end()
		require.Empty(t, p.log.String())
	}
}

// A client with Expect: 100-continue gets the interim response when its request begins to
// wait. An Early Hints response of the server does not disturb this.
func TestProxyExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, front := startPiped(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Retry-After", "1")
			w.Header().Set("RateLimit", `"hour";r=9`)
			w.Write(body)
		})
		_, answers := front.connect(t, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		status := func() int {
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			return resp.StatusCode
		}
		require.Equal(t, []int{http.StatusEarlyHints, http.StatusOK}, []int{status(), status()})
		conn, answers := front.connect(t, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n")
		require.Equal(t, http.StatusContinue, status())
		require.EqualValues(t, 1, p.held.Load())
		require.Equal(t, http.StatusEarlyHints, status())
		io.WriteString(conn, "a prompt")
		resp, err := http.ReadResponse(answers, nil)
		for err == nil && resp.StatusCode == http.StatusContinue { // that of the server
			resp, err = http.ReadResponse(answers, nil)
		}
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "a prompt", string(body))
	})
}

// A client is asked for its body at the beginning of the wait, although the body cannot be read yet.
func TestProxyExpectationsWithoutMemory(t *testing.T) {
	p := startProxy(t, trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"hour";r=0;t=30`)
	}), maxWait(time.Minute))
	trial.Send(t, "GET", p.url, nil)
	p.proxy.memory.left.Store(0)
	conn := p.dial(t)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, resp.StatusCode)
}

// The references in a response that changes the protocol are rewritten too.
func TestProxySwitchRewrites(t *testing.T) {
	var upstream string
	upstream = trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Location: "+upstream+"/a\r\n\r\n")
	})
	conn := startProxy(t, upstream).dial(t)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, "http://localhost/a", resp.Header.Get("Content-Location"))
}

// The log contains nothing of a malformed response.
func TestProxyMalformedResponse(t *testing.T) {
	upstream := trial.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: sec\x7fret\r\n\r\n")
		conn.Close()
	})
	p := startProxy(t, upstream)
	resp, _ := trial.Send(t, "GET", p.url, nil)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	want := "GET " + strings.TrimPrefix(upstream, "http://") + ": net/http: HTTP/1.x transport connection broken: malformed MIME header\n"
	require.Equal(t, want, p.log.String())
}

// The texts of errors of net/http for HTTP/1.1, also as Go 1.25 writes them, and for HTTP/2.
func TestErrorText(t *testing.T) {
	const h1, h2 = "net/http: HTTP/1.x transport connection broken: ", "stream error: stream ID 1; PROTOCOL_ERROR; "
	for text, want := range map[string]string{
		h1 + `malformed MIME header line: X hunter2: "`:                                                          h1 + "malformed MIME header",
		h1 + "malformed MIME header initial line: hunter2":                                                       h1 + "malformed MIME header",
		h1 + `bad trailer key "hunter2"`:                                                                         h1 + "bad trailer key",
		h1 + `too many transfer encodings: ["chunked" "hunter2"]`:                                                h1 + "too many transfer encodings",
		h2 + `invalid header field name "hunter2 "`:                                                              h2 + "invalid header field name",
		h2 + `invalid pseudo-header ":hunter2"`:                                                                  h2 + "invalid pseudo-header",
		`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="hunter2"`: "http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR",
		h1 + "read tcp [::1]:5->[::1]:80: read: connection reset by peer":                                        "",
		h2 + "malformed response from server: missing status pseudo header":                                      "",
		`exec: "no-such-program": executable file not found in $PATH`:                                            "",
		"net/http: server response headers exceeded 1048576 bytes; aborted":                                      "",
		"tls: failed to verify certificate: x509: certificate is valid for a, not b":                             "",
		`dial tcp: lookup a.example on [::1]:53: server misbehaving, "line: " "debug="`:                          "",
	} {
		require.Equal(t, cmp.Or(want, text), ErrorText(errors.New(text)))
	}
}

// The server of -to does not get requests for other servers, nor requests in absolute form.
func TestProxyIsNoForwardProxy(t *testing.T) {
	var n atomic.Int64
	p := startProxy(t, trial.Serve(t, waitingFor("", "", &n)))
	for text, want := range map[string]int{
		"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\nAuthorization: Bearer x\r\n\r\n": http.StatusMisdirectedRequest,
		"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n":                        http.StatusMisdirectedRequest,
		"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n":                                    http.StatusBadRequest,
	} {
		conn := p.dial(t)
		io.WriteString(conn, text)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, want, resp.StatusCode)
	}
	require.Zero(t, n.Load())
}

func TestProxyMetrics(t *testing.T) {
	var n atomic.Int64
	p := startProxy(t, trial.Serve(t, waitingFor("RateLimit", `"a \"b\" \\c";r=7;t=60, "a \"b\" \\c";r=5;t=30;pk=:c2VjcmV0:, "x";r=0`, &n)))
	trial.Send(t, "GET", p.url+"/exhaust", nil)
	require.Equal(t, 5.0, p.metric(t, `ratelimit_remaining{key="anonymous",policy="a \"b\" \\c"}`))
	require.Equal(t, -1.0, p.metric(t, `ratelimit_reset_seconds{key="anonymous",policy="x"}`))
	reset := p.metric(t, `ratelimit_reset_seconds{key="anonymous",policy="a \"b\" \\c"}`)
	require.True(t, 0 < reset && reset <= 30, reset)
	_, text := trial.Send(t, "GET", p.admin+"/metrics", nil)
	require.NotContains(t, text, "c2VjcmV0")

	resp, _ := trial.Send(t, "GET", p.admin+"/nothing", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	resp, text = trial.Send(t, "GET", p.admin+"/", nil)
	require.Contains(t, text, "<title>ratelimit proxy</title>")
	require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';")
}

// The number of keys is bounded, and the number of policies for each key.
func TestProxyStatsAreBounded(t *testing.T) {
	s := newStats(&obey.Gate{}, nil)
	end := s.wait("first")
	for i := range maxKeys {
		s.of(strconv.Itoa(i)).Requests++
	}
	end() // the key was dropped
	s.of("0").Requests++
	s.of("new")
	require.Len(t, s.snapshot(time.Now()), maxKeys)
	require.EqualValues(t, 2, s.keys["0"].Requests)
	require.NotContains(t, s.keys, "1", "the key that was used longest ago")

	var header []string
	for i := range 100 {
		header = append(header, fmt.Sprintf(`"p%d";r=1`, i))
	}
	var n atomic.Int64
	p := startProxy(t, trial.Serve(t, waitingFor("RateLimit", strings.Join(header, ", "), &n)))
	trial.Send(t, "GET", p.url+"/exhaust", nil)
	_, text := trial.Send(t, "GET", p.admin+"/metrics", nil)
	require.Equal(t, maxPolicies, strings.Count(text, "ratelimit_remaining{"))

	s.observe("long", ratelimit.Advice{Fields: ratelimit.Fields{Limits: []ratelimit.Limit{{Name: strings.Repeat("n", 1<<20)}}}}, time.Now())
	require.Len(t, s.keys["long"].Limits[0].Policy, maxName)
}

// A refused request gets its response at once, while its body is still being sent. This works
// repeatedly on one connection, and for a body that never ends.
func TestProxyRefusesBodies(t *testing.T) {
	var n atomic.Int64
	p := startProxy(t, trial.Serve(t, waitingFor("Retry-After", "60", &n)), maxWait(time.Second))
	trial.Send(t, "GET", p.url+"/exhaust", nil)
	for range 200 {
		resp, _ := trial.Send(t, "POST", p.url, strings.NewReader("a prompt"))
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	}
	out, in := io.Pipe()
	defer in.Close()
	go io.WriteString(in, "the first part")
	resp, err := http.Post(p.url, "text/plain", out)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.EqualValues(t, 1, n.Load())
}

// If a response comes before the body ends, it reaches the client, whatever is left of the
// body. net/http never reads a body after the handler has returned.
func TestProxyEarlyAnswers(t *testing.T) {
	server := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		read, err := strconv.ParseInt(r.URL.Query().Get("read"), 10, 64)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, r.Body, read)
		require.NoError(t, err)
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, "too large")
	})
	p := startProxy(t, server)
	for _, tc := range []struct {
		name string
		body func() io.Reader
	}{
		{"short", func() io.Reader { return strings.NewReader("a prompt of 16 b") }},
		{"of 100 KiB", func() io.Reader { return strings.NewReader(strings.Repeat("a", 100<<10)) }},
		{"of 1 MiB", func() io.Reader { return strings.NewReader(strings.Repeat("a", 1<<20)) }},
		{"chunked", func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("a", 100<<10))) }},
		{"slow", func() io.Reader { return &slowReader{left: 10} }},
	} {
		for _, read := range []string{"0", "10"} {
			t.Run(tc.name+", the server reads "+read+" bytes", func(t *testing.T) {
				for range 60 {
					resp, text := trial.Send(t, "POST", p.url+"/?read="+read, tc.body())
					require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
					require.Equal(t, "too large", text)
				}
			})
		}
	}
	p.end()
	require.NotContains(t, p.log.String(), "panic")
}

// If a client never sends the rest of its body, its connection is closed.
func TestProxyUnfinishedBody(t *testing.T) {
	p := startProxy(t, trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, http.NewResponseController(w).EnableFullDuplex()) // the server does not wait for the body
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	conn := p.dial(t)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^HTTP/1.1 413 .*\r\nConnection: close\r\n`, string(answer))
}

// A slowReader has ten bytes each millisecond.
type slowReader struct{ left int }

func (r *slowReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	r.left--
	time.Sleep(time.Millisecond)
	return copy(p, "0123456789"), nil
}

func TestRequestBody(t *testing.T) {
	const most = 256 << 10
	for _, size := range []int{0, 1, most - 1, most, most + 1, 1 << 20} {
		for _, begun := range []bool{false, true} {
			p := &Proxy{config: Config{BodyMemory: 16 * most}}
			p.memory.left.Store(1 << 20)
			sent := strings.Repeat("abcdefg", size/7+1)[:size]
			r := httptest.NewRequest("POST", "/", iotest.HalfReader(strings.NewReader(sent)))
			b := p.bodyOf(nil, r)
			if begun {
				b.begin(nil)
				b.begin(nil)
			}
			got, err := io.ReadAll(b)
			require.NoError(t, err)
			require.True(t, string(got) == sent, size)
			require.EqualValues(t, 1<<20, p.memory.left.Load(), "given back")
			n, err := b.Read(make([]byte, 1))
			require.Equal(t, []any{0, io.EOF}, []any{n, err}, "at its end")
		}
	}
	p := &Proxy{config: Config{BodyMemory: 16 * most}}
	p.memory.left.Store(1 << 20)
	b := p.bodyOf(nil, httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(io.ErrUnexpectedEOF))))
	left := make(chan error, 1)
	b.begin(func(err error) { left <- err })
	require.ErrorIs(t, <-left, errBroken)
	got, err := io.ReadAll(b)
	require.Equal(t, "ab", string(got))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A quietReader is a body that blocks after its end, and may not be read then.
type quietReader struct {
	text string
	err  error
}

func (r *quietReader) Read(p []byte) (int, error) {
	if r.text == "" {
		select {}
	}
	n := copy(p, r.text)
	if r.text = r.text[n:]; r.text == "" {
		return n, r.err
	}
	return n, nil
}

// A body is read ahead up to its end, as long as there is memory and the request waits.
func TestReadAhead(t *testing.T) {
	const memory = 1 << 20
	for name, test := range map[string]struct {
		size, memory, most int
		err                error
		asked              bool
		want               int
		parts              int // of memory
	}{
		"to its end":             {10, memory, memory, io.EOF, false, 10, 1},
		"to where it is broken":  {10, memory, memory, io.ErrUnexpectedEOF, false, 10, 1},
		"a sixteenth of memory":  {3 * partSize, memory, 2 * partSize, io.EOF, false, 2 * partSize, 2},
		"what is left of memory": {3 * partSize, partSize + 1, memory, io.EOF, false, partSize, 1},
		"no memory":              {10, partSize - 1, memory, io.EOF, false, 0, 0},
		"it is sent":             {10, memory, memory, io.EOF, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Proxy{config: Config{BodyMemory: 16 * int64(test.most)}}
				p.memory.left.Store(int64(test.memory))
				left := 0
				body := iotest.HalfReader(&quietReader{strings.Repeat("x", test.size), test.err})
				b := p.bodyOf(nil, httptest.NewRequest("POST", "/", body))
				if test.asked {
					_, _ = b.Read(make([]byte, 1))
				}
				for range 3 {
					b.begin(func(error) { left++ })
					synctest.Wait()
				}
				require.Len(t, slices.Concat(b.ahead...), test.want)
				require.Len(t, b.ahead, test.parts)
				require.EqualValues(t, test.memory-test.parts*partSize, p.memory.left.Load())
				require.Equal(t, test.err == io.ErrUnexpectedEOF, left == 1)
				require.False(t, b.reading)
				b.finish(http.NewResponseController(httptest.NewRecorder()))
				require.EqualValues(t, test.memory, p.memory.left.Load(), "given back")
				_, err := b.Read(make([]byte, 1))
				require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			})
		})
	}
	reading := func() (*Proxy, *io.PipeWriter, *requestBody) {
		p := &Proxy{config: Config{BodyMemory: 16 * memory}}
		p.memory.left.Store(memory)
		in, out := io.Pipe()
		b := p.bodyOf(nil, httptest.NewRequest("POST", "/", in))
		b.begin(func(error) {})
		_, _ = out.Write([]byte("read"))
		return p, out, b
	}
	t.Run("it is sent while it is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, out, b := reading()
			synctest.Wait()
			require.Equal(t, 4, b.take(make([]byte, 10)))
			require.EqualValues(t, memory-partSize, p.memory.left.Load(), "the next part is being read")
			require.NoError(t, out.Close())
			synctest.Wait()
			require.EqualValues(t, memory, p.memory.left.Load(), "given back")
		})
	})
	t.Run("it ends while it is read", func(t *testing.T) {
		p, out, b := reading()
		go b.finish(http.NewResponseController(httptest.NewRecorder()))
		trial.Until(t, "it ends", b.gone.Load)
		_, _ = out.Write([]byte("late"))
		trial.Until(t, "the memory is given back", func() bool { return p.memory.left.Load() == memory })
	})
}
