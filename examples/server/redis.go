package main

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A shared keeps the buckets of any number of processes in one Redis or Valkey,
// by go-redis/redis_rate.
type shared struct {
	limiter *redis_rate.Limiter
	timeout time.Duration
}

// newShared connects to Redis when it is first asked. A request that has no
// answer after the timeout passes without a quota.
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

// The client would log each connection that fails, at each request.
func init() { logging.Disable() }

// take asks for one bucket after the other, as redis_rate takes out of one at a
// time. After an empty one it only looks at the rest: a request that the first
// refuses takes nothing. One that a later bucket refuses has taken a unit of
// those before, so let the first be one that fills up fast.
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
