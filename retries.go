package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// sendsAgain reports whether a request may be sent again after its answer.
func sendsAgain(req *http.Request, resp *http.Response, a *Advice, r *entrant) bool {
	switch {
	case !a.Refused || r.key == (keyName{}):
		return false
	case req.Body != nil && req.Body != http.NoBody && req.GetBody == nil:
		return false
	case resp.StatusCode != http.StatusServiceUnavailable || a.Source == SourceRefused:
		return true // a limiter refused it before it had any effect
	}
	switch req.Method { // as net/http, which sends these again when a connection is lost
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// sendAgain sends a refused request again, after the wait. If the deadline does not allow
// that, it returns the refusal.
func (t *Transport) sendAgain(req *http.Request, refusal *http.Response, r *entrant) (*http.Response, Advice, error) {
	keepBody(refusal)
	r.follows = false
	none := Advice{} // which ends the tries
	again := *req
	if req.GetBody != nil && req.Body != nil && req.Body != http.NoBody {
		body, err := req.GetBody()
		if err != nil {
			return refusal, none, nil
		}
		again.Body = body
	}
	pass, err := t.gate().enter(req.Context(), r)
	if err != nil {
		if again.Body != nil {
			again.Body.Close()
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(req.Context().Err(), context.DeadlineExceeded) {
			return refusal, none, nil
		}
		return nil, none, err
	}
	resp, a, err := t.send(&again, pass)
	if resp != nil && resp.Request == &again {
		resp.Request = req
	}
	return resp, a, err
}

// mostKept is how much of the body of a refusal is kept, in bytes.
const mostKept = 64 << 10

// keepBody reads the beginning of a body into memory, and closes it, so that its connection
// is free during the wait. If there is more, reading it ends with io.ErrUnexpectedEOF.
func keepBody(resp *http.Response) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, mostKept+1))
	resp.Body.Close()
	var rest io.Reader = http.NoBody
	switch {
	case len(kept) > mostKept:
		kept, rest = kept[:mostKept], failing{io.ErrUnexpectedEOF}
	case err != nil:
		rest = failing{err}
	}
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(kept), rest))
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A trackedBody is the body of an answer whose request is under way until it ends.
type trackedBody struct {
	io.ReadCloser
	pass *Pass
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.pass.closed()
	}
	return n, err
}

func (b *trackedBody) Close() error {
	defer b.pass.closed()
	return b.ReadCloser.Close()
}

// A datedBody is the body of a redirection, with the time of its arrival: its Retry-After
// holds from then on.
type datedBody struct {
	io.ReadCloser
	received time.Time
}
