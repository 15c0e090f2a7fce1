package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"math"
	"time"

	"github.com/httpfields/ratelimit"
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

// perSecond is how many units of a policy flow in evenly, so that none of a
// client's quotas comes back at one moment.
func perSecond(p ratelimit.Policy) float64 {
	window, _ := p.Window.Duration()
	return float64(p.Quota) / window.Seconds()
}

// partitionKey tells clients apart without telling who they are: it comes from
// the request alone (draft-11 Section 6.1), and nobody can find the API key that
// belongs to it, nor the one that would give another client's.
func partitionKey(secret []byte, apiKey string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(apiKey))
	return mac.Sum(nil)[:12]
}

// An engine keeps a bucket of units for each policy and partition key.
type engine interface {
	// take takes a unit out of each bucket of a partition key, where none of
	// them is empty. It returns what is in the buckets then, in units and parts
	// of one, and the names of the policies whose buckets were empty. An error
	// means that nobody knows.
	take(ctx context.Context, partition []byte, policies []ratelimit.Policy) (tokens []float64, violated []string, err error)
}

// fieldsOf says what is in the buckets of a partition key.
func fieldsOf(partition []byte, policies []ratelimit.Policy, tokens []float64) ratelimit.Fields {
	var f ratelimit.Fields
	for i, p := range policies {
		p.PartitionKey = partition
		f.Policies = append(f.Policies, p)
		f.Limits = append(f.Limits, limit(p, tokens[i]))
	}
	return f
}

// limit says what is in a bucket, and for how long there is no more: until the
// next unit has flowed in.
func limit(p ratelimit.Policy, tokens float64) ratelimit.Limit {
	whole := math.Floor(tokens)
	wait := (whole + 1 - tokens) / perSecond(p)
	return ratelimit.Limit{
		Name:         p.Name,
		Remaining:    int64(max(whole, 0)),
		Reset:        ratelimit.SecondsOf(int64(math.Ceil(wait))), // rounded up: not a moment too early
		PartitionKey: p.PartitionKey,
	}
}
