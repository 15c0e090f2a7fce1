package main

import (
	"context"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A gateway forwards requests within its policy. Requests that upstream is
// likely to refuse are forwarded as well (draft-11 Section 7.2).
type gateway struct {
	proxy  *httputil.ReverseProxy
	window window
}

func newGateway(upstream *url.URL, policy ratelimit.Policy, now func() time.Time) *gateway {
	return &gateway{
		proxy: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(upstream)
				r.SetXForwarded()
			},
			ModifyResponse: restrict,
		},
		window: window{policy: policy, now: now},
	}
}

// ownFields is the key under which a request's context holds the fields of the
// gateway.
type ownFields struct{}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, ok := g.window.take()
	if !ok {
		p := ratelimit.NewProblem(ratelimit.QuotaExceeded, g.window.policy.Name)
		if err := ratelimit.Refuse(w, r, own, p); err != nil {
			log.Print(err)
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
		return
	}
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ownFields{}, own)))
}

// restrict lets a response say what upstream and the gateway say. Where the two
// cannot be put together it leaves the response as it is.
func restrict(resp *http.Response) error {
	own, _ := resp.Request.Context().Value(ownFields{}).(ratelimit.Fields)
	h := resp.Header
	f, err := combine(h, own)
	if err != nil {
		log.Print("forwarded as it is: ", err)
		return nil // an error would become 502 Bad Gateway
	}
	// Clients obey Retry-After before all else, so it must not be too early.
	if resp.StatusCode == http.StatusTooManyRequests || h.Get("Retry-After") != "" {
		f.SetRetryAfter(h)
	}
	if h.Get("Access-Control-Allow-Origin") != "" {
		ratelimit.Expose(h)
	}
	return nil
}

// combine writes the fields of upstream, in whatever form h has them, and those
// of the gateway to h in the current form. Legacy fields stay as well, for
// clients that know no others.
//
// It is an error, and h stays as it is, if a field is malformed, as one malformed
// member spoils all that is joined to it, or if a name means two things.
func combine(h http.Header, own ratelimit.Fields) (ratelimit.Fields, error) {
	upstream, err := ratelimit.ParseAny(h, ratelimit.LegacyOptions{})
	if err != nil {
		return upstream, err
	}
	f, err := ratelimit.Restrict(upstream, own)
	if err != nil {
		return upstream, err
	}
	// A legacy response may leave out what remains, a current one may not.
	f.Limits = slices.DeleteFunc(f.Limits, func(l ratelimit.Limit) bool { return l.Remaining == ratelimit.Unknown })
	return f, f.Set(h)
}

// A window counts requests in windows of fixed length.
type window struct {
	policy ratelimit.Policy
	now    func() time.Time

	mu   sync.Mutex
	end  time.Time
	left int64
}

// take takes one request out of the window, if one is left, and returns what the
// gateway says of it.
func (w *window) take() (f ratelimit.Fields, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !now.Before(w.end) {
		length, _ := w.policy.Window.Duration()
		w.end, w.left = now.Add(length), w.policy.Quota
	}
	if ok = w.left > 0; ok {
		w.left--
	}
	f.Policies = []ratelimit.Policy{w.policy}
	f.Limits = []ratelimit.Limit{{
		Name:         w.policy.Name,
		Remaining:    w.left,
		Reset:        ratelimit.CeilSeconds(w.end.Sub(now)),
		PartitionKey: w.policy.PartitionKey,
	}}
	return f, ok
}
