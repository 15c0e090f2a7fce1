// Package api is an API whose instances share the quotas of their clients in one
// Redis.
package api

import (
	"fmt"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-redis/redis_rate/v10"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/redis/go-redis/v9"
)

const keyField = "X-API-Key"

var minute = redis_rate.PerMinute(60)

// New returns the handler of an instance.
func New(client *redis.Client) http.Handler {
	counter := redis_rate.NewLimiter(client)
	limiter := &announce.Middleware{
		Take: func(r *http.Request) (announce.Decision, error) {
			result, err := counter.Allow(r.Context(), r.Header.Get(keyField), minute)
			if err != nil {
				return announce.Decision{}, err
			}
			return decide(result), nil
		},
		Dialects: []*ratelimit.Dialect{ratelimit.XRateLimitUnix},
		OnError: func(_ http.ResponseWriter, _ *http.Request, err error) bool {
			log.Print("without a limit: ", err)
			return false
		},
	}
	router := chi.NewRouter()
	router.Use(limiter.Handler)
	router.Get("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	return router
}

// decide returns the fields for a bucket. Redis knows when it will be full.
func decide(result *redis_rate.Result) (d announce.Decision) {
	burst, perSecond := result.Limit.Burst, float64(result.Limit.Rate)/result.Limit.Period.Seconds()
	tokens := float64(burst) - perSecond*result.ResetAfter.Seconds()
	d.Fields = announce.TokenBucket{Name: "minute", Burst: int64(burst), PerSecond: perSecond, Tokens: tokens}.Fields()
	d.Fields.Limits[0] = d.Fields.Limits[0].Cap(d.Fields.Policies[0], 10) // at most ten at once, not all sixty
	if result.Allowed == 0 {
		d.Violated = []string{"minute"}
	}
	return d
}
