// Package gateway is a reverse proxy that lets ten requests a second through to its
// upstream.
package gateway

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"golang.org/x/time/rate"
)

const name, perSecond, burst = "gateway", 10, 20

// New returns the handler of a gateway in front of upstream.
func New(upstream *url.URL) http.Handler {
	limiter := rate.NewLimiter(perSecond, burst)
	m := &announce.Middleware{Take: func(*http.Request) (d announce.Decision, err error) {
		now := time.Now()
		if !limiter.AllowN(now, 1) {
			d.Violated = []string{name}
		}
		d.Fields = announce.TokenBucket{Name: name, Burst: burst, PerSecond: perSecond, Tokens: limiter.TokensAt(now)}.Fields()
		return d, nil
	}}
	return m.Handler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
	})
}
