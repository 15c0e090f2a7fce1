// Package gateway is a reverse proxy that lets ten requests a second through to its
// upstream.
package gateway

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/httpfields/ratelimit"
	"golang.org/x/time/rate"
)

const name, perSecond, burst = "gateway", 10, 20

// New returns the handler of a gateway in front of upstream.
func New(upstream *url.URL) http.Handler {
	limiter := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		passes := limiter.AllowN(now, 1)
		own := ratelimit.TokenBucket{Name: name, Burst: burst, PerSecond: perSecond, Tokens: limiter.TokensAt(now)}.Fields()
		if !passes {
			if err := ratelimit.Refuse(w, r, own, ratelimit.NewProblem(ratelimit.QuotaExceeded, name)); err != nil {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			}
			return
		}
		proxy := httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
			ModifyResponse: func(resp *http.Response) error {
				if err := ratelimit.RestrictHeader(resp.Header, own, ratelimit.LegacyOptions{}); err != nil {
					log.Print("forwarded as it is: ", err)
				}
				return nil
			},
		}
		proxy.ServeHTTP(w, r)
	})
}
