package main

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/httpfields/ratelimit"
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

// take asks for one bucket after the other. After an empty one it only looks at
// the rest, so that a client that comes too often for the first policy loses no
// unit of the second. The other way round it does, as redis_rate takes out of one
// bucket at a time: let the first be the one that fills up fast.
func (s *shared) take(ctx context.Context, partition []byte, policies []ratelimit.Policy) (tokens []float64, violated []string, err error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for _, p := range policies {
		units := 1
		if violated != nil {
			units = 0
		}
		window, _ := p.Window.Duration()
		bucket := redis_rate.Limit{Rate: int(p.Quota), Burst: int(p.Quota), Period: window}
		result, err := s.limiter.AllowN(limited, p.Name+":"+hex.EncodeToString(partition), bucket, units)
		if err != nil {
			return nil, nil, err
		}
		if result.Allowed < units || units == 0 && result.Remaining < 1 {
			violated = append(violated, p.Name)
		}
		tokens = append(tokens, float64(p.Quota)-result.ResetAfter.Seconds()*perSecond(p))
	}
	return tokens, violated, nil
}
