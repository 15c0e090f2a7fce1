package ratelimit

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"
)

// A Transport is an [http.RoundTripper] that keeps a client within the limits that
// servers announce: a [Gate] in front of another. The zero Transport is ready to use.
// After the first use it must not be copied, and its fields must not be changed. It is
// safe for concurrent use, if Base, Key, Cost, Waiting and Observe are.
//
// Each request waits until the Gate lets it through, and is sent once, as it is; each
// response is returned as it is. A request that follows a redirection does not wait
// (draft-11 Section 6), unless the redirection has a Retry-After (RFC 9110 Section
// 10.2.3). A 503 without Retry-After is no refusal, as nothing tells it from a server
// that is down; it is what nginx answers unless limit_req_status is 429. A Retry-After
// holds for all requests of the key, which may be slower than the backoff after a 429
// without one.
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
	Waiting func(*http.Request, time.Time, Advice) (done func())
	// Observe is called, before RoundTrip returns, for every response that says anything
	// about limits; nil is not called.
	Observe func(*http.Request, Advice)

	once sync.Once
	own  Gate // where Gate is nil

	mu         sync.Mutex
	redirected [32]weak.Pointer[http.Response] // that have not been followed yet
	nextPlace  int
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
	pass, err := t.enter(req)
	if err != nil {
		return nil, err
	}
	answered := false
	defer func() {
		if !answered { // Base failed, or something panicked
			pass.Failed()
		}
	}()
	sent = true
	resp, err = t.base().RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	t.learn(req, resp, pass)
	answered = true
	return resp, nil
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
func (t *Transport) learn(req *http.Request, resp *http.Response, pass *Pass) {
	done := false
	defer func() {
		if !done && resp.Body != nil {
			resp.Body.Close()
		}
	}()
	received := time.Now()
	advice := t.Advisor.Advise(resp, received)
	pass.answered(&advice, received, received)
	if resp.StatusCode/100 == 3 {
		t.noteRedirect(resp)
	}
	if t.Observe != nil && advice.says() {
		t.Observe(req, advice)
	}
	done = true
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

// enter waits until req may be sent.
func (t *Transport) enter(req *http.Request) (*Pass, error) {
	r := entrant{key: originOf(req.URL), cancelled: req.Cancel} //lint:ignore SA1019 net/http still obeys it
	if t.Key != nil {
		r.key = nameOfKey(t.Key(req))
	}
	if t.Cost != nil {
		r.prices = pricesOf(t.Cost(req))
	}
	if t.Waiting != nil {
		r.waiting = func(until time.Time, a Advice) func() { return t.Waiting(req, until, a) }
	}
	if req.Response != nil && t.follows(req.Response) {
		if err := t.waitRedirect(req, &r); err != nil {
			return nil, err
		}
		r.atOnce = true
	}
	return t.gate().enter(req.Context(), &r)
}

// noteRedirect remembers a response that may be followed. http.Client does so at
// once. A copy of the following request, sent later, follows nothing.
func (t *Transport) noteRedirect(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.redirected[t.nextPlace] = weak.Make(resp)
	t.nextPlace = (t.nextPlace + 1) % len(t.redirected)
}

// follows reports whether a request follows a response, for the first time.
func (t *Transport) follows(resp *http.Response) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.redirected[:], weak.Make(resp))
	if i < 0 {
		return false
	}
	t.redirected[i] = weak.Pointer[http.Response]{}
	return true
}

// waitRedirect waits for as long as a redirection asks for, which has just arrived.
func (t *Transport) waitRedirect(req *http.Request, r *entrant) error {
	now := time.Now()
	a := t.Advisor.Advise(req.Response, now)
	if a.Source != SourceRetryAfter || a.Wait == 0 {
		return nil
	}
	ctx := req.Context()
	until, kept := now.Add(a.Wait), a.kept("")
	done := t.gate().announce(r, until, kept)
	defer done()
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		return &WaitError{Until: until, Advice: kept}
	}
	timer := time.NewTimer(a.Wait)
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
