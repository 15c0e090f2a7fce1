package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A memory stores the buckets of one process, with golang.org/x/time/rate.
type memory struct {
	now func() time.Time

	mu       sync.Mutex
	limiters map[string][]*rate.Limiter // by partition key; the server knows few
}

func newMemory() *memory {
	return &memory{now: time.Now, limiters: map[string][]*rate.Limiter{}}
}

func (m *memory) take(_ context.Context, partition []byte, buckets []bucket) (tokens []float64, violated []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	limiters, ok := m.limiters[string(partition)]
	if !ok {
		for _, b := range buckets {
			limiters = append(limiters, rate.NewLimiter(rate.Limit(b.perSecond()), b.quota)) // full at first
		}
		m.limiters[string(partition)] = limiters
	}
	for i, l := range limiters {
		if l.TokensAt(now) < 1 {
			violated = append(violated, buckets[i].name)
		}
	}
	for _, l := range limiters {
		if violated == nil {
			l.AllowN(now, 1)
		}
		tokens = append(tokens, l.TokensAt(now))
	}
	return tokens, violated, nil
}
