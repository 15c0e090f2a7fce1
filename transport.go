package ratelimit

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// A Transport is an [http.RoundTripper] that keeps a client within the limits that
// servers announce: a [Gate] in front of another. The zero Transport is ready to use.
// After the first use it must not be copied, and its fields must not be changed. It is
// safe for concurrent use, if Base, Key, Cost, Waiting and Observe are.
//
// Each request waits until the Gate lets it through, and is sent once, as it is, unless
// MaxRetries allows more; each response is returned as it is. A request that follows a
// redirection is counted and waits as any other, in front of those that have not been sent
// yet, and as long as the Retry-After of the redirection asks for (RFC 9110 Section
// 10.2.3). A Retry-After holds for all requests of
// the key. Give each shard of a server its own Key if one of them may answer 503 alone.
// While it is not known how many requests a server takes at a time, and if that is bounded,
// a request is under way until its body has been read to the end or closed.
type Transport struct {
	Base    http.RoundTripper // sends the requests; nil is http.DefaultTransport
	Advisor Advisor           // reads the responses
	// Key returns what requests that share their limits have in common; nil is the
	// origin: scheme, host and port. A request with the key "" is not held back. See
	// [KeyBy].
	Key func(*http.Request) string
	// Gate holds the requests back. Several Transports, and clients of other protocols,
	// may share one. nil is one of the Transport's own, with the MaxWait of Advisor. A
	// Gate obeys Advice.Asked up to its own MaxWait.
	Gate *Gate
	// Cost returns what a request takes of limits in other units than requests, such as
	// the tokens of its prompt; nil is none. It must leave the body as it is.
	Cost func(*http.Request) []Cost
	// Waiting is as [Gate.Waiting], with the request. It is called before that of Gate,
	// and what it returns after what that returned.
	Waiting func(*http.Request, Wait) (done func())
	// Observe is called, before RoundTrip returns, for every response that says anything
	// about limits, and for every refusal before a retry; nil is not called.
	Observe func(*http.Request, Advice)
	// MaxRetries is how often a refused request is sent again, after the wait, at the end
	// of the queue; 0, or less, is never. A request is sent again if it has no body or a
	// GetBody. After a 503 that is no more than a status, its method must also be GET,
	// HEAD, OPTIONS or TRACE, or it must have an Idempotency-Key. If the deadline does not
	// allow the wait, or comes during it, the refusal is returned, with at most the first
	// 64 KiB of its body. If the context is cancelled, its cause is returned. Cost is called
	// once, Waiting and Observe for each try. A request with the key "" is sent once.
	MaxRetries int

	once sync.Once
	own  Gate // where Gate is nil
}

var errNoURL = errors.New("ratelimit: request without URL")

// RoundTrip sends req when the limits allow it. It returns a [*WaitError] at once if the
// deadline comes before that, the cause of the context if it ends meanwhile, and
// otherwise what Base returns.
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	sent := false
	defer func() {
		if !sent && req != nil && req.Body != nil { // as a RoundTripper must
			req.Body.Close()
		}
	}()
	if req == nil || req.URL == nil {
		return nil, errNoURL
	}
	r := t.entrantOf(req)
	if r.follows = req.Response != nil; r.follows {
		if err := t.waitRedirect(req, &r); err != nil {
			return nil, err
		}
	}
	pass, err := t.gate().enter(req.Context(), &r)
	if err != nil {
		return nil, err
	}
	sent = true
	resp, advice, err := t.send(req, pass)
	for try := 0; try < t.MaxRetries && err == nil && sendsAgain(req, resp, &advice, &r); try++ {
		resp, advice, err = t.sendAgain(req, resp, &r)
	}
	return resp, err
}

// send sends a request that has been let through, and learns from the answer.
func (t *Transport) send(req *http.Request, pass *Pass) (resp *http.Response, a Advice, err error) {
	answered := false
	defer func() {
		if !answered { // Base failed, or something panicked
			pass.Failed()
		}
	}()
	resp, err = t.base().RoundTrip(req)
	if err != nil || resp == nil {
		return resp, a, err
	}
	a = t.learn(req, resp, pass)
	answered = true
	return resp, a, nil
}

// gate returns the Gate of the requests.
func (t *Transport) gate() *Gate {
	if t.Gate != nil {
		return t.Gate
	}
	t.once.Do(func() { t.own.MaxWait = t.Advisor.MaxWait })
	return &t.own
}

// learn takes what a response says. Where a function of the caller's panics, it closes
// the body, because the caller does not get it.
func (t *Transport) learn(req *http.Request, resp *http.Response, pass *Pass) Advice {
	done := false
	defer func() {
		if !done && resp.Body != nil {
			resp.Body.Close()
		}
	}()
	received := time.Now()
	advice := t.Advisor.Advise(resp, received)
	// The body of a 101 is a connection, which takes no room of a limiter of requests.
	hasBody := resp.Body != nil && resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols
	if pass.answered(&advice, resourceOf(resp.Header), received, received, hasBody) {
		resp.Body = &trackedBody{ReadCloser: resp.Body, pass: pass}
	}
	if resp.StatusCode/100 == 3 && advice.Source == SourceRetryAfter && resp.Body != nil {
		resp.Body = &datedBody{resp.Body, received}
	}
	if t.Observe != nil && advice.says() {
		t.Observe(req, advice)
	}
	done = true
	return advice
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// says reports whether the response says anything about limits.
func (a *Advice) says() bool {
	return a.Refused || a.Source != SourceNone || a.Fields.Limits != nil || a.Fields.Policies != nil
}

// entrantOf returns what the Gate needs to know of a request.
func (t *Transport) entrantOf(req *http.Request) entrant {
	origin := originOf(req.URL)
	r := entrant{key: origin, path: firstSegment(req.URL.Path), cancelled: req.Cancel} //lint:ignore SA1019 net/http still obeys it
	if t.Key != nil {
		if r.key = nameOfKey(t.Key(req)); !r.key.isOf(origin) {
			r.path = ""
		}
	}
	if t.Cost != nil {
		r.prices = pricesOf(t.Cost(req))
	}
	if t.Waiting != nil {
		r.waiting = func(w Wait) func() { return t.Waiting(req, w) }
	}
	return r
}

// firstSegment returns a path up to its second slash.
func firstSegment(path string) string {
	if path == "" {
		return "/"
	}
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		path = path[:1+i]
	}
	return path[:min(len(path), maxKey)]
}

// resourceOf returns the name of what the limits of a response are for, "" if it has none.
func resourceOf(h http.Header) string {
	for _, key := range [...]string{"X-Ratelimit-Resource", "X-Ratelimit-Bucket"} {
		if lines := h[key]; len(lines) > 0 && lines[0] != "" {
			return lines[0]
		}
	}
	return ""
}

// waitRedirect waits for as long as the redirection asks for that the request follows. Its
// key is held by the Gate, but the request may have another.
func (t *Transport) waitRedirect(req *http.Request, r *entrant) error {
	now := time.Now()
	received := now
	if b, ok := req.Response.Body.(*datedBody); ok { // else it passed another layer, and has just arrived
		received = b.received
	}
	a := t.Advisor.Advise(req.Response, received)
	until := received.Add(a.Wait)
	if a.Source != SourceRetryAfter || !now.Before(until) {
		return nil
	}
	ctx := req.Context()
	kept := a.kept("")
	r.wait = &Wait{Key: r.key.String(), Until: until, Reason: string(machine.RetryAfter), Advice: kept}
	done := t.gate().announce(r)
	defer done()
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		return &WaitError{Until: until, Advice: kept, Reason: r.wait.Reason}
	}
	timer := time.NewTimer(until.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.cancelled:
		return errCancelled
	}
}

// KeyBy returns a [Transport.Key] for servers that limit each user: requests to one
// origin share their limits if all of these fields, such as Authorization, are the same.
// Without any of the fields it is the origin. The key is the same in every process: it
// holds 128 bits of the SHA-256 of the fields, from which a long random credential cannot
// be found, but a short or common one can be guessed. Do not show it to strangers.
func KeyBy(fields ...string) func(*http.Request) string {
	keys := make([]string, len(fields))
	for i, field := range fields {
		keys[i] = http.CanonicalHeaderKey(field)
	}
	return func(req *http.Request) string {
		origin := originOf(req.URL).String()
		var few [256]byte
		hashed, found := few[:0], false
		for _, key := range keys {
			lines := req.Header[key]
			found = found || len(lines) > 0
			hashed = binary.AppendUvarint(hashed, uint64(len(lines)))
			for _, line := range lines {
				hashed = binary.AppendUvarint(hashed, uint64(len(line))) // so that no two lists are one text
				hashed = append(hashed, line...)
			}
		}
		if !found {
			return origin
		}
		return origin + keyMark + hashOf(hashed)
	}
}

// originOf returns the origin of an address (RFC 6454 Section 4): its scheme, and its
// host with the port, unless that is the one by default.
func originOf(u *url.URL) keyName {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return keyName{scheme, strings.TrimSuffix(host, ":")}
}
