package main

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A shared stores the buckets of any number of processes in one Redis or Valkey, with
// go-redis/redis_rate.
type shared struct {
	limiter *redis_rate.Limiter
	timeout time.Duration
}

// newShared connects to Redis at first use. If Redis does not answer within the timeout, a
// request passes without a quota.
func newShared(addr string, timeout time.Duration) *shared {
	client := redis.NewClient(&redis.Options{
		Addr:                  addr,
		DialTimeout:           timeout,
		DialerRetries:         1,
		MaxRetries:            -1, // the next request tries again
		ContextTimeoutEnabled: true,
	})
	return &shared{limiter: redis_rate.NewLimiter(client), timeout: timeout}
}

// Without this, the client would log each failed connection, at each request.
func init() { logging.Disable() }

// take takes a unit from one bucket after the other, because redis_rate takes from one at a
// time. After an empty bucket it only reads the rest, so a request that the first bucket
// refuses takes nothing. A request that a later bucket refuses has taken a unit of the earlier
// ones, so the first bucket should fill up fast.
func (s *shared) take(ctx context.Context, partition []byte, buckets []bucket) (tokens []float64, violated []string, err error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for _, b := range buckets {
		units := 1
		if violated != nil {
			units = 0
		}
		limit := redis_rate.Limit{Rate: b.quota, Burst: b.quota, Period: b.window}
		result, err := s.limiter.AllowN(limited, b.name+":"+hex.EncodeToString(partition), limit, units)
		if err != nil {
			return nil, nil, err
		}
		if result.Allowed < units || units == 0 && result.Remaining < 1 {
			violated = append(violated, b.name)
		}
		tokens = append(tokens, float64(b.quota)-result.ResetAfter.Seconds()*b.perSecond())
	}
	return tokens, violated, nil
}
