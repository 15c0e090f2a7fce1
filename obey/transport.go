package obey

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// A Transport is an [http.RoundTripper] that keeps a client within the limits that servers
// announce. It puts a [Gate] in front of another RoundTripper. The zero Transport is ready to
// use. After the first use it must not be copied, and its fields must not be changed. It is
// safe for concurrent use, if Base, Key, Cost, Waiting and Observe are.
//
// Each request waits until the Gate lets it through. It is sent once, unless MaxRetries allows
// more. Requests and responses are not changed.
//
// A request that follows a redirection is counted like any other. It waits for as long as the
// Retry-After of the redirection asks (RFC 9110 Section 10.2.3), and then goes in front of requests
// that have not been sent yet. If one unit of a limit is left after a redirection, it is kept for that
// request for 10 ms.
//
// A request is under way until its answer arrives. For a new key, or if concurrent requests
// are limited, it is under way until the body ends or is closed.
type Transport struct {
	Base    http.RoundTripper // sends the requests; nil is http.DefaultTransport
	Advisor ratelimit.Advisor // reads the responses
	// Key returns a text that is equal for requests that share their limits; nil is the
	// origin: scheme, host and port. Requests with the key "" never wait. See [KeyBy]. If the
	// shards of a server answer 503 independently, return a different text for each shard.
	//
	// If Key is nil, or returns what a function of KeyBy returns, the Transport learns which routes of
	// a key the server limits apart. A route is whether the method is safe, and the path up to its
	// first segment that looks like a value, at most four segments. A limit delays the routes that have
	// announced it, and routes that have not been served yet. Limits with one name, or in one
	// X-RateLimit-Resource or X-RateLimit-Bucket, are one limit. Limits without a name are one while
	// their quotas and resets agree. A refusal with a wait that no exhausted limit explains delays the
	// whole key, until requests of other routes show that the wait belongs to its route alone.
	//
	// A limit, and a route with refusals of its own, are parts of the key. [Gate.Keys] lists them. The
	// name of a part is the key, a space, and the name of the resource or limit, or else a hash of
	// the route. At most 256 routes of a key are remembered. Routes do not show what comes after a
	// value: if each user or channel in the path has limits of its own, set a Key.
	Key func(*http.Request) string
	// Gate delays the requests. Several Transports, and clients of other protocols, may
	// share one. nil is a Gate of the Transport's own, with the MaxWait of Advisor. A Gate
	// obeys Advice.Asked up to its own MaxWait.
	Gate *Gate
	// Cost returns what a request takes of limits in other units than requests, such as the
	// tokens of its prompt; nil is none. It must leave the body as it is.
	Cost func(*http.Request) []Cost
	// Patience is how long a request may wait, all its retries together; 0, or less, is as long
	// as its context allows. A request that would wait longer fails at once with a [WaitError]. A
	// refusal is returned at once if the request would wait longer before it is sent again.
	// Patience cancels nothing that is under way.
	Patience time.Duration
	// Waiting is like [Gate.Waiting], with the request. It is called before Gate.Waiting, and its done
	// is called after the done of Gate.Waiting.
	Waiting func(*http.Request, Wait) (done func())
	// Observe is called for every response with information about limits. It is called after the Gate
	// has processed the response, and before RoundTrip returns or sends the request again. Observe may
	// send requests of its own. It may be nil.
	Observe func(*http.Request, ratelimit.Advice)
	// MaxRetries is how often a refused request is sent again; 0, or less, is never. The request waits
	// as long as the refusal asks, and then at the end of the queue. A request is sent again if the
	// Gate remembers its key, and if it has no body or a GetBody. After a 503 the request must also
	// have the method GET, HEAD, OPTIONS or TRACE, or an Idempotency-Key or X-Idempotency-Key. This
	// does not apply to a 503 whose wait comes from Advisor.Refused.
	//
	// If the deadline comes before the end of the wait, the refusal is returned. Its body is cut
	// to the first 64 KiB, and to what came within a second. If the context is cancelled, its
	// cause is returned. Cost is called once, Waiting and Observe for each try.
	MaxRetries int

	once sync.Once
	own  Gate // if Gate is nil
}

var errNoURL = errors.New("ratelimit: request without URL")

// RoundTrip sends req when the limits allow it, and returns the result of Base. If the deadline
// comes first, it returns a [*WaitError], as soon as that is certain. If the context ends
// otherwise during the wait, it returns its cause.
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
	var few [2 * maxKey]byte // the keys of most requests need no other memory
	r, key := t.termsOf(req, few[:0])
	if r.trip.Follows = req.Response != nil; r.trip.Follows && len(key) > 0 {
		if err := t.waitRedirect(req, key, &r); err != nil {
			return nil, err
		}
	}
	pass, err := t.enter(req.Context(), key, &r)
	if err != nil {
		return nil, err
	}
	sent = true
	known := pass.key != nil // else no refusal would delay the next try
	resp, advice, err := t.send(req, pass)
	for try := 0; try < t.MaxRetries && known && sendsAgain(req, resp, &advice); try++ {
		resp, advice, err = t.sendAgain(req, resp, key, &r)
	}
	return resp, err
}

// enter waits until the Gate lets a request through, but no longer than its patience.
func (t *Transport) enter(ctx context.Context, key []byte, r *terms) (*Pass, error) {
	if t.Patience <= 0 {
		return t.gate().enter(ctx, key, r)
	}
	began := time.Now()
	r.patience = began.Add(t.Patience - r.waited)
	defer func() { r.waited += time.Since(began) }()
	return t.gate().enter(ctx, key, r)
}

// send sends a request that the Gate has let through, and passes the advice of the answer to the
// Gate and to Observe. If a function of the caller panics, it closes the body, because the caller
// does not get the response.
func (t *Transport) send(req *http.Request, pass *Pass) (resp *http.Response, a ratelimit.Advice, err error) {
	defer pass.Failed() // does nothing after an answer
	if resp, err = t.base().RoundTrip(req); err != nil || resp == nil {
		return resp, a, err
	}
	learnt := false
	defer func() {
		if !learnt && resp.Body != nil {
			resp.Body.Close()
		}
	}()
	received := time.Now()
	a = t.Advisor.Advise(resp, received)
	redirects := resp.StatusCode/100 == 3 && resp.Header.Get("Location") != ""
	resource := cmp.Or(text.FirstLine(resp.Header["X-Ratelimit-Resource"]), text.FirstLine(resp.Header["X-Ratelimit-Bucket"]))
	end := pass.answered(&a, resource, received, takesRoom(resp, &a), redirects)
	if end != nil || redirects && resp.Body != nil {
		resp.Body = &answerBody{resp.Body, end, received}
	}
	informed := a.Refused || a.Source != ratelimit.SourceNone || a.Fields.Limits != nil || a.Fields.Policies != nil
	if t.Observe != nil && informed {
		t.Observe(req, a)
	}
	learnt = true
	return resp, a, nil
}

// takesRoom reports whether a request is under way until the body of its answer ends. The body of a 101
// is a connection, which no limiter of requests counts. A refused request takes no room at the server.
func takesRoom(resp *http.Response, a *ratelimit.Advice) bool {
	return hasBody(resp.Body) && resp.StatusCode != http.StatusSwitchingProtocols && !a.Refused
}

// gate returns the Gate that delays the requests.
func (t *Transport) gate() *Gate {
	if t.Gate != nil {
		return t.Gate
	}
	t.once.Do(func() { t.own.MaxWait = t.Advisor.MaxWait })
	return &t.own
}

// CloseIdleConnections closes the idle connections of Base, if Base has this method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }

// termsOf returns the terms of a request, and appends its key to memory.
func (t *Transport) termsOf(req *http.Request, memory []byte) (r terms, key []byte) {
	origin := appendOrigin(memory, req.URL)
	key = origin
	r = terms{route: routeOf(req), cancelled: req.Cancel} //lint:ignore SA1019 net/http still obeys it
	if t.Key != nil {
		if key = append(origin[len(origin):], t.Key(req)...); !isKeyBy(key, origin) {
			r.route = routeName{}
		}
	}
	if t.Cost != nil {
		r.trip.Prices = pricesOf(t.Cost(req))
	}
	if t.Waiting != nil {
		r.waiting = func(w Wait) func() { return t.Waiting(req, w) }
	}
	return r, key
}

// waitRedirect waits as long as the redirection that led to the request asks. The Gate delays
// the key of the redirection, but the request may have another key.
func (t *Transport) waitRedirect(req *http.Request, key []byte, r *terms) (err error) {
	g, received := t.gate(), time.Now()
	if b, ok := req.Response.Body.(*answerBody); ok { // else another layer has replaced the body
		received = b.received
	}
	// Advisor.Refused has been called for this response, whose body is closed now.
	a := ratelimit.Advisor{Legacy: t.Advisor.Legacy, MaxWait: g.MaxWait}.Advise(req.Response, received)
	until := received.Add(a.Wait)
	if a.Source != ratelimit.SourceRetryAfter || time.Until(until) <= 0 {
		return nil
	}
	until = until.Add(machine.Late(g.Jitter))
	ctx := req.Context()
	w := Wait{Key: string(key), Until: until, Reason: ReasonRetryAfter, Advice: kept(a, "")}
	began := time.Now()
	impatient := t.Patience > 0 && until.Sub(began) > t.Patience
	defer func() { r.waited += time.Since(began) }()
	g.during(w, r.waiting, func() {
		if deadline, ok := ctx.Deadline(); impatient || ok && deadline.Before(until) {
			err = &WaitError{Until: until, Advice: w.Advice, Reason: w.Reason}
			return
		}
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done(): // enter returns the cause
		case <-r.cancelled:
			err = errCancelled
		}
	})
	return err
}

// sendsAgain reports whether a request may be sent again after its answer.
func sendsAgain(req *http.Request, resp *http.Response, a *ratelimit.Advice) bool {
	switch {
	case !a.Refused, a.Final, hasBody(req.Body) && req.GetBody == nil:
		return false
	case resp.StatusCode != http.StatusServiceUnavailable || a.Source == ratelimit.SourceRefused:
		return true // a limiter has refused the request before it had an effect
	}
	// as net/http does when it loses a connection
	return isSafe(req.Method) || req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// isSafe reports whether a method only reads (RFC 9110 Section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// sendAgain sends a refused request again, after the wait. It returns the refusal and a zero Advice if
// the deadline comes first, if the Gate does not remember the key, or if GetBody fails. The zero Advice
// ends the tries.
func (t *Transport) sendAgain(req *http.Request, refusal *http.Response, key []byte, r *terms) (*http.Response, ratelimit.Advice, error) {
	keepBody(refusal)
	r.trip.Follows = false
	pass, err := t.enter(req.Context(), key, r)
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(req.Context().Err(), context.DeadlineExceeded)
	if err != nil && !late {
		return nil, ratelimit.Advice{}, err
	}
	if err != nil || pass.key == nil {
		return refusal, ratelimit.Advice{}, nil
	}
	defer pass.Failed() // if GetBody fails or panics
	again := *req
	if hasBody(req.Body) {
		if again.Body, err = req.GetBody(); err != nil { // after the wait, because it may open a file
			return refusal, ratelimit.Advice{}, nil
		}
	}
	resp, a, err := t.send(&again, pass)
	if resp != nil && resp.Request == &again {
		resp.Request = req
	}
	return resp, a, err
}

// hasBody reports whether a request or a response has a body.
func hasBody(body io.ReadCloser) bool { return body != nil && body != http.NoBody }

// How much of the body of a refusal is kept, in bytes, and how long it is read.
const (
	mostKept    = 64 << 10
	longestRead = time.Second
)

// keepBody replaces the body of a response by a copy of its beginning. It closes the body, so that the
// connection is free during the wait. If the body is longer, the copy ends with io.ErrUnexpectedEOF. If
// the body takes too long, the copy ends with os.ErrDeadlineExceeded. If the body panics before then,
// the panic reaches the caller.
func keepBody(resp *http.Response) {
	body := resp.Body
	if !hasBody(body) {
		return
	}
	reader, writer := io.Pipe()
	var panicked any
	go func() {
		var err error
		defer func() {
			panicked = recover() // the caller cannot recover it here
			writer.CloseWithError(err)
		}()
		var n int64
		if n, err = io.Copy(writer, io.LimitReader(body, mostKept+1)); n > mostKept {
			err = io.ErrUnexpectedEOF
		}
	}()
	late := time.AfterFunc(longestRead, func() { writer.CloseWithError(os.ErrDeadlineExceeded) })
	kept, _ := io.ReadAll(reader)
	if late.Stop() {
		body.Close()
		if panicked != nil {
			panic(panicked)
		}
	} else {
		go func() { // net/http closes a compressed body only after its first Read has ended
			defer func() { _ = recover() }() // the caller goes on without the body
			body.Close()
		}()
	}
	kept = kept[:min(len(kept), mostKept)]
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(kept), reader)) // which goes on with the error
}

// An answerBody is the body of an answer whose request is under way until the body ends, or the body of
// a redirection. The Retry-After of a redirection counts from received.
type answerBody struct {
	io.ReadCloser
	end      func() // ends the request; a second call does nothing; nil if it has ended
	received time.Time
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.end != nil {
		b.end()
	}
	return n, err
}

func (b *answerBody) Close() error {
	if b.end != nil {
		b.end() // first, because Close may wait for a Read under way
	}
	return b.ReadCloser.Close()
}
