// Package plans has a limit for each customer, as large as the customer's plan.
package plans

import (
	"net/http"
	"sync"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"golang.org/x/time/rate"
)

// A Plan is what customers pay for.
type Plan struct {
	Name  string
	Burst int
	Rate  rate.Limit // per second
}

// A Limiter keeps a bucket for each customer.
type Limiter struct {
	PlanOf  func(*http.Request) (customer string, plan Plan)
	buckets sync.Map
}

// Take is the Take of a announce.Middleware.
func (l *Limiter) Take(r *http.Request) (d announce.Decision, err error) {
	customer, plan := l.PlanOf(r)
	loaded, _ := l.buckets.LoadOrStore([2]string{customer, plan.Name}, rate.NewLimiter(plan.Rate, plan.Burst))
	bucket, now := loaded.(*rate.Limiter), time.Now()
	if !bucket.AllowN(now, 1) {
		d.Violated = []string{plan.Name}
	}
	d.Fields = announce.TokenBucket{
		Name: plan.Name, Burst: int64(plan.Burst), PerSecond: float64(plan.Rate), Tokens: bucket.TokensAt(now),
	}.Fields()
	return d, nil
}
