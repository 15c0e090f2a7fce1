package main

import (
	"context"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"golang.org/x/time/rate"
)

// A memory keeps the buckets of one process, by golang.org/x/time/rate.
type memory struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string][]*rate.Limiter // by partition key; the server knows few
}

func newMemory() *memory {
	return &memory{now: time.Now, buckets: map[string][]*rate.Limiter{}}
}

func (m *memory) take(_ context.Context, partition []byte, policies []ratelimit.Policy) (tokens []float64, violated []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	buckets, ok := m.buckets[string(partition)]
	if !ok {
		for _, p := range policies {
			buckets = append(buckets, rate.NewLimiter(rate.Limit(perSecond(p)), int(p.Quota))) // full at first
		}
		m.buckets[string(partition)] = buckets
	}
	for i, bucket := range buckets {
		if bucket.TokensAt(now) < 1 {
			violated = append(violated, policies[i].Name)
		}
	}
	for _, bucket := range buckets {
		if violated == nil {
			bucket.AllowN(now, 1)
		}
		tokens = append(tokens, bucket.TokensAt(now))
	}
	return tokens, violated, nil
}
