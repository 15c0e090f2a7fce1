package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// newGateway returns a handler that forwards requests within a policy, and refuses all others.
// It also forwards requests that upstream is likely to refuse (draft-11 Section 7.2).
func newGateway(upstream *url.URL, policy ratelimit.Policy, now func() time.Time) http.Handler {
	w := &window{policy: policy, now: now}
	limiter := &announce.Middleware{Take: w.take}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.SetXForwarded()
		},
	}
	return allowOrigins(limiter.Handler(leaveOrigins(proxy)))
}

const allowOrigin = "Access-Control-Allow-Origin"

// allowOrigins lets scripts of any origin read the gateway's own answers. Without it a page
// would see a refusal as a network error.
func allowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(allowOrigin, "*")
		next.ServeHTTP(w, r)
	})
}

// leaveOrigins leaves the CORS fields of upstream's responses unchanged.
func leaveOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del(allowOrigin)
		w.Header().Del("Access-Control-Expose-Headers")
		next.ServeHTTP(w, r)
	})
}

// A window counts requests in windows of fixed length.
type window struct {
	policy ratelimit.Policy
	now    func() time.Time

	mu   sync.Mutex
	end  time.Time
	used int64
}

// take counts a request, if one is left in the window.
func (w *window) take(*http.Request) (d announce.Decision, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	length, _ := w.policy.Window.Duration()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(length), 0
	}
	if w.used < w.policy.Quota {
		w.used++
	} else {
		d.Violated = []string{w.policy.Name}
	}
	d.Fields = announce.FixedWindow{Name: w.policy.Name, Quota: w.policy.Quota, Used: w.used, Window: length, Left: w.end.Sub(now)}.Fields()
	d.Fields.Policies[0], d.Fields.Limits[0].PartitionKey = w.policy, w.policy.PartitionKey
	return d, nil
}
