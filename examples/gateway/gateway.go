package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A gateway forwards requests within its policy. Requests that upstream is
// likely to refuse are forwarded as well (draft-11 Section 7.2).
type gateway struct {
	proxy  httputil.ReverseProxy
	window window
}

func newGateway(upstream *url.URL, policy ratelimit.Policy, now func() time.Time) *gateway {
	return &gateway{
		proxy: httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(upstream)
				r.SetXForwarded()
			},
		},
		window: window{policy: policy, now: now},
	}
}

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
	proxy := g.proxy // a copy for each request, whose ModifyResponse knows what the gateway says
	proxy.ModifyResponse = func(resp *http.Response) error {
		if err := ratelimit.RestrictHeader(resp.Header, own, ratelimit.LegacyOptions{}); err != nil {
			log.Print("forwarded as it is: ", err) // returned, it would become 502 Bad Gateway
		}
		return nil
	}
	proxy.ServeHTTP(w, r)
}

// A window counts requests in windows of fixed length.
type window struct {
	policy ratelimit.Policy
	now    func() time.Time

	mu   sync.Mutex
	end  time.Time
	used int64
}

// take takes one request out of the window, if one is left, and returns what the
// gateway says of it.
func (w *window) take() (f ratelimit.Fields, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	length, _ := w.policy.Window.Duration()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(length), 0
	}
	if ok = w.used < w.policy.Quota; ok {
		w.used++
	}
	f = ratelimit.FixedWindow{Name: w.policy.Name, Quota: w.policy.Quota, Used: w.used, Window: length, Left: w.end.Sub(now)}.Fields()
	f.Policies[0], f.Limits[0].PartitionKey = w.policy, w.policy.PartitionKey
	return f, ok
}
