// Package proxy is an HTTP proxy in front of one server. It holds requests back until the
// limits that the server announces allow them. The command ratelimit proxy runs it.
package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// A Config has the server of a proxy, and the rules by which requests wait.
type Config struct {
	To         *url.URL      // the server; its path is put before the path of each request
	Fields     []string      // what distinguishes requests with separate limits: fields, path:N and json:NAME; New panics if one is malformed
	CostHeader string        // the field of a request with the number of tokens that it takes, not forwarded; "" is none
	Pace       bool          // spread requests over the window
	MaxWait    time.Duration // how long a request is held at most; more than 0
	Queue      int           // how many requests wait at most
	BodyMemory int64         // how many bytes of bodies are read while their requests wait
	Rewrite    bool          // rewrite the references to the server in headers of responses
	Hosts      []string      // more names by which clients reach the proxy: see guard
	Log        *log.Logger   // for errors; must not be nil
	Talk       *log.Logger   // prints when requests of a key begin to wait and when none waits any more; nil is quiet
	// Share puts a RoundTripper on top of base, so that several proxies share a quota; nil is
	// base alone.
	Share func(base http.RoundTripper, key func(*http.Request) string, cost func(*http.Request) []obey.Cost) http.RoundTripper
}

// A Proxy is a handler that forwards requests when the limits of the server allow it.
type Proxy struct {
	config  Config
	name    string // in loopField
	keys    *keyer
	base    *http.Transport
	reverse *httputil.ReverseProxy
	limited *obey.Transport
	stats   *stats
	memory  memory
	buffers buffers
	held    atomic.Int64 // requests that wait

	stopping context.Context // ends when the proxy does
	stop     context.CancelCauseFunc
	underWay sync.WaitGroup // requests, and WebSockets, which net/http does not track
}

var (
	errStopping = errors.New("the proxy ends")
	errFull     = errors.New("too many requests wait")
	errBroken   = errors.New("the body of the request is broken")
	errGone     = errors.New("the client has hung up")
)

// New returns a Proxy.
func New(c Config) *Proxy {
	gate := &obey.Gate{MaxWait: max(c.MaxWait, ratelimit.DefaultMaxWait), Pace: c.Pace}
	keys, err := newKeyer(c.Fields)
	if err != nil {
		panic(err) // Complete has checked it
	}
	p := &Proxy{config: c, keys: keys, stats: newStats(gate, c.Talk), name: "ratelimit-" + rand.Text()}
	p.base = http.DefaultTransport.(*http.Transport).Clone()
	p.base.DisableCompression = true                          // bodies pass as they are
	p.base.MaxIdleConns, p.base.MaxIdleConnsPerHost = 0, 1024 // all go to one host
	p.memory.left.Store(c.BodyMemory)
	p.buffers.pool.New = func() any { return new(buffer) }
	key, cost := func(r *http.Request) string { return jobOf(r).key }, func(r *http.Request) []obey.Cost { return jobOf(r).costs }
	var base http.RoundTripper = forward{p.base}
	if c.Share != nil {
		base = c.Share(base, key, cost)
	}
	p.stopping, p.stop = context.WithCancelCause(context.Background())
	p.limited = &obey.Transport{
		Base:    base,
		Gate:    gate,
		Key:     key,
		Cost:    cost,
		Waiting: p.waiting,
		Observe: func(r *http.Request, a ratelimit.Advice) { p.stats.observe(jobOf(r).key, a, time.Now()) },
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: turns{p}, ModifyResponse: p.modify, ErrorHandler: p.fail, ErrorLog: c.Log,
		BufferPool: &p.buffers,
	}
	return p
}

// Responses are copied through buffers that are used again. A new buffer for each response
// takes a quarter of the proxy's CPU time.
type buffers struct{ pool sync.Pool }

type buffer [32 << 10]byte

func (b *buffers) Get() []byte { return b.pool.Get().(*buffer)[:] }

func (b *buffers) Put(one []byte) { b.pool.Put((*buffer)(one)) }

// Stop answers requests that wait, now or later, with 503.
func (p *Proxy) Stop() {
	if n := p.held.Load(); n > 0 && p.config.Talk != nil {
		p.config.Talk.Printf("stopping while %s: the answer is 503", waiting(n))
	}
	p.stop(errStopping)
}

// A job is the state of one request. The context of the forwarded request contains it.
type job struct {
	key   string
	parts http.Header // of the request, which the key contains next to fields: see keyer.partsOf
	proxy string      // the address by which the client has reached the proxy
	costs []obey.Cost
	until time.Time       // when the wait ends, as far as this was known when the wait began
	sent  context.Context // the context of the request when it is sent
	leave func(error)     // ends the wait
	body  *requestBody    // nil if the request has none
	conn  net.Conn        // to the client; nil if it is unknown
}

type (
	jobKey  struct{}
	connKey struct{}
)

func jobOf(r *http.Request) *job { return r.Context().Value(jobKey{}).(*job) }

// ServeHTTP forwards a request. A request whose first line has a whole address is meant for another
// server. The server of the Config must not get its credentials.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.underWay.Add(1)
	defer p.underWay.Done()
	switch {
	case r.URL.Host != "":
		http.Error(w, "this proxy forwards to one server: send it requests as if it were that server", http.StatusBadRequest)
		return
	case r.Method == "PRI" || r.RequestURI == "*" && r.Method != http.MethodOptions:
		http.Error(w, "this proxy does not speak HTTP/2", http.StatusBadRequest)
		return
	case p.loops(r):
		http.Error(w, "this proxy sends its requests to itself: -to leads back to it", http.StatusLoopDetected)
		return
	}
	control, j := http.NewResponseController(w), &job{body: p.bodyOf(w, r), proxy: "http://" + r.Host}
	j.conn, _ = r.Context().Value(connKey{}).(net.Conn)
	if _, ok := j.conn.(*net.UnixConn); ok { // the client uses the address of the server
		j.proxy = p.config.To.Scheme + "://" + r.Host
	}
	r = r.WithContext(context.WithValue(r.Context(), jobKey{}, j))
	if j.body != nil {
		_ = control.EnableFullDuplex() // HTTP/2 always has it
		r.Body = j.body
		defer j.body.finish(control)
	}
	j.parts = p.keys.partsOf(r, j.body)
	p.reverse.ServeHTTP(&answer{w, p, j}, r)
	if j.body.early() {
		_ = control.Flush() // the client may wait for the answer before it sends the rest
	}
}

// An answer writes the response to a client.
type answer struct {
	http.ResponseWriter
	proxy *Proxy
	job   *job
}

// WriteHeader rewrites the header, also of informational responses, which ModifyResponse does not
// see. It keeps net/http from guessing a type that the server has not sent.
func (a *answer) WriteHeader(status int) {
	h := a.Header()
	a.proxy.redirect(a.job, h)
	if status >= http.StatusOK && h["Content-Type"] == nil {
		h["Content-Type"] = nil
	}
	a.ResponseWriter.WriteHeader(status)
	for name := range strings.SplitSeq(h.Get("Trailer"), ", ") {
		delete(h, name) // net/http would repeat it in the trailers
	}
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// redirect rewrites the references to the server in a header.
func (p *Proxy) redirect(j *job, h http.Header) {
	if p.config.Rewrite && !strings.HasSuffix(j.proxy, "://") { // else the request has no Host
		m := mapping{p.config.To, j.proxy}
		if n := m.header(h); n > 0 {
			p.stats.update(j.key, func(k *keyStats) { k.Rewrote += int64(n) })
		}
	}
}

// rewrite makes the request that is forwarded.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.config.To)
	if r.In.RequestURI == "*" {
		r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.Opaque = "", "", "*"
	}
	r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy drops what it cannot parse
	r.Out.Header.Add(loopField, p.name)
	j := jobOf(r.Out)
	if field := p.config.CostHeader; field != "" {
		j.costs = costsOf(r.Out.Header.Values(field))
		r.Out.Header.Del(field)
	}
	j.key = p.keys.keyOf(r.Out, j.parts)
	p.stats.update(j.key, func(k *keyStats) {
		k.Requests++
		if j.key == originOf(r.Out) {
			k.Key = "anonymous"
		}
	})
}

// originOf is the key of a request without credentials.
var originOf = obey.KeyBy()

// costsOf returns the cost of a request in tokens. It returns nil if the field is not one decimal number
// above 0.
func costsOf(lines []string) []obey.Cost {
	if len(lines) != 1 {
		return nil
	}
	n, err := strconv.ParseUint(lines[0], 10, 63)
	if err != nil || n == 0 {
		return nil
	}
	return []obey.Cost{{Unit: "tokens", Units: int64(n)}}
}

// turns is the RoundTripper that holds requests back.
type turns struct{ *Proxy }

// RoundTrip holds a request back, and then forwards it. The wait has a context of its own:
// MaxWait and Stop end the wait, but not the exchange.
func (p turns) RoundTrip(r *http.Request) (*http.Response, error) {
	j := jobOf(r)
	j.sent = r.Context()
	ctx, leave := context.WithCancelCause(j.sent)
	defer leave(nil)
	defer context.AfterFunc(p.stopping, func() { leave(errStopping) })()
	j.leave = leave
	ctx, cancel := context.WithTimeout(ctx, p.config.MaxWait)
	defer cancel()
	return p.limited.RoundTrip(r.WithContext(ctx))
}

// forward is the RoundTripper that sends a request after its wait.
type forward struct{ http.RoundTripper }

// RoundTrip sends a request in the context that the request came with, unless its client has hung up.
func (f forward) RoundTrip(r *http.Request) (*http.Response, error) {
	j := jobOf(r)
	if j.body.early() && hungUp(j.conn) {
		return nil, errGone
	}
	return f.RoundTripper.RoundTrip(r.WithContext(j.sent))
}

// lookAfter is the time between two checks whether the client of a waiting request has hung up.
const lookAfter = 500 * time.Millisecond

// watch reads the body of a request that waits, and ends the wait if its client hangs up.
func (j *job) watch() (stop func()) {
	j.body.begin(j.leave)
	done := make(chan struct{})
	go func() {
		for tick := time.Tick(lookAfter); ; {
			select {
			case <-tick:
				j.body.begin(j.leave)
				if j.body.early() && hungUp(j.conn) {
					j.leave(errGone)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// waiting is called when a request begins to wait. Its result is called when the wait ends.
func (p *Proxy) waiting(r *http.Request, w obey.Wait) func() {
	j := jobOf(r)
	j.until = w.Until
	if p.held.Add(1) > int64(p.config.Queue) {
		j.leave(errFull)
		return func() { p.held.Add(-1) }
	}
	over, stop := p.stats.wait(j.key), func() {}
	if j.body != nil {
		stop = j.watch()
	}
	return func() {
		stop()
		p.held.Add(-1)
		over()
	}
}

// modify checks a response before it is passed on. If an answer comes before the end of the request's
// body, modify closes the connection, because net/http would read the rest of the body as the next
// request. In this case an upgrade fails, because the rest would be read as the new protocol.
func (p *Proxy) modify(resp *http.Response) error {
	j := jobOf(resp.Request)
	switch early := j.body.early(); {
	case resp.StatusCode < 100 || resp.StatusCode > 999: // with which net/http panics
		return errors.New("the server answers with a status that does not exist")
	case early && resp.StatusCode == http.StatusSwitchingProtocols:
		return errors.New("the server changes the protocol before the body has ended")
	case resp.StatusCode == http.StatusSwitchingProtocols:
		p.redirect(j, resp.Header) // ReverseProxy does not call WriteHeader
	case early:
		resp.Header.Set("Connection", "close")
	}
	return nil
}

// fail answers a request that the server has not answered.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	j := jobOf(r)
	if j.body.early() { // as in modify
		w.Header().Set("Connection", "close")
	}
	problem, until := ratelimit.NewProblem(ratelimit.QuotaExceeded), j.until
	var late *obey.WaitError
	switch {
	case errors.Is(err, errStopping):
		refuse(w, r, &ratelimit.Problem{Title: "The proxy ends", Status: http.StatusServiceUnavailable}, until)
		return
	case errors.Is(err, errFull):
		problem.Detail = "The request was not sent, because as many requests wait as this proxy holds."
	case r.Context().Err() != nil || errors.Is(err, errGone):
		panic(http.ErrAbortHandler)
	case errors.As(err, &late):
		until = late.Until
		if name := late.Advice.Limit.Name; name != "" {
			problem.ViolatedPolicies = []string{name}
		}
		problem.Detail = "The request was not sent, because it would wait longer than this proxy holds it."
	case j.body != nil && j.body.broken.Load():
		http.Error(w, errBroken.Error(), http.StatusBadRequest)
		return
	default:
		p.config.Log.Printf("%s %s: %.200s", r.Method, p.config.To.Host, ErrorText(err)) // paths and queries may contain credentials
		http.Error(w, "this proxy got no answer from the server", http.StatusBadGateway)
		return
	}
	p.stats.update(j.key, func(k *keyStats) { k.TooLate++ })
	refuse(w, r, problem, until)
}

// content matches an error of net/http that repeats a part of a malformed response. The first group is
// the text before that part.
var content = regexp.MustCompile(`(?s)((?:connection broken|stream error|GOAWAY)[^"]*?)(:? \[?"|(?: initial)? line: |, debug=).*`)

// ErrorText returns the text of an error without the content of a response.
func ErrorText(err error) string { return content.ReplaceAllString(err.Error(), "$1") }

// refuse answers a request that was not sent. until is when the turn of the request would come. If until
// is unknown, the client may try again after a second.
func refuse(w http.ResponseWriter, r *http.Request, problem *ratelimit.Problem, until time.Time) {
	wait := max((time.Until(until)+time.Second-1)/time.Second, 1)
	text := strconv.FormatInt(int64(wait), 10)
	w.Header().Set("Retry-After", text)
	problem.Extensions = map[string]json.RawMessage{"retry-after": json.RawMessage(text)}
	problem.ServeHTTP(w, r)
}
