package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"math"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"golang.org/x/time/rate"
)

const (
	burst = "burst"
	daily = "daily"
)

// policies are what every client gets. The short window keeps clients from using
// up the long one at once (draft-11 Section 8.5). While capacity is reduced the
// fields say so with a lower quota (Section 5.2).
func policies(reduced bool) []ratelimit.Policy {
	perTenSeconds := int64(10)
	if reduced {
		perTenSeconds = 2
	}
	return []ratelimit.Policy{
		{Name: burst, Quota: perTenSeconds, Window: ratelimit.CeilSeconds(10 * time.Second)},
		{Name: daily, Quota: 1000, Window: ratelimit.CeilSeconds(24 * time.Hour)},
	}
}

// partitionKey tells clients apart without telling who they are: it comes from
// the request alone (draft-11 Section 6.1), and nobody can find the API key that
// belongs to it, nor the one that would give another client's.
func partitionKey(secret []byte, apiKey string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(apiKey))
	return mac.Sum(nil)[:12]
}

// A client has a bucket for each policy. Units flow in evenly, so that none of
// its quotas comes back at one moment.
type client struct {
	mu       sync.Mutex
	policies []ratelimit.Policy
	buckets  []*rate.Limiter
}

func newClient(policies []ratelimit.Policy, key []byte) *client {
	c := &client{policies: policies}
	for i := range policies {
		p := &policies[i]
		p.PartitionKey = key
		window, _ := p.Window.Duration()
		perSecond := rate.Limit(float64(p.Quota) / window.Seconds())
		c.buckets = append(c.buckets, rate.NewLimiter(perSecond, int(p.Quota))) // full at first
	}
	return c
}

// take takes a unit out of every bucket, or out of none if one is empty. It
// returns what remains and the policies of those that were empty.
func (c *client) take(now time.Time) (f ratelimit.Fields, violated []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, bucket := range c.buckets {
		if bucket.TokensAt(now) < 1 {
			violated = append(violated, c.policies[i].Name)
		}
	}
	f.Policies = c.policies
	for i, bucket := range c.buckets {
		if violated == nil {
			bucket.AllowN(now, 1)
		}
		f.Limits = append(f.Limits, limit(c.policies[i], bucket, now))
	}
	return f, violated
}

// limit says what is in the bucket, and for how long there is no more: until the
// next unit has flowed in.
func limit(p ratelimit.Policy, bucket *rate.Limiter, now time.Time) ratelimit.Limit {
	tokens := bucket.TokensAt(now)
	whole := math.Floor(tokens)
	wait := (whole + 1 - tokens) / float64(bucket.Limit())
	return ratelimit.Limit{
		Name:         p.Name,
		Remaining:    int64(max(whole, 0)),
		Reset:        ratelimit.SecondsOf(int64(math.Ceil(wait))), // rounded up: not a moment too early
		PartitionKey: p.PartitionKey,
	}
}
