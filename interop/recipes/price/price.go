// Package price limits requests by their prices.
package price

import (
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"golang.org/x/time/rate"
)

const perSecond, burst = 10, 100

// PriceOf returns the price of a request, at most burst.
func PriceOf(r *http.Request) int {
	if strings.HasPrefix(r.URL.Path, "/export") {
		return 50
	}
	return 1
}

// New returns a limiter in points.
func New() *announce.Middleware {
	bucket := rate.NewLimiter(perSecond, burst)
	return &announce.Middleware{Take: func(r *http.Request) (d announce.Decision, err error) {
		price, now := PriceOf(r), time.Now()
		allowed := bucket.AllowN(now, price)
		tokens := bucket.TokensAt(now)
		if !allowed {
			d.Violated = []string{"points"}
			tokens -= float64(price - 1) // the reset is then the time until the whole price is available
		}
		d.Fields = announce.TokenBucket{Name: "points", Burst: burst, PerSecond: perSecond, Tokens: tokens}.Fields()
		d.Fields.Policies[0].Unit = "points"
		return d, nil
	}}
}
