package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

const (
	burst = "burst"
	daily = "daily"
)

// A bucket is a quota of each client for a window. Units flow in evenly, so that the quota does
// not come back all at once.
type bucket struct {
	name   string
	quota  int
	window time.Duration
}

// buckets returns the quotas of each client. The short window keeps clients from using up the
// long one at once (draft-11 Section 8.5). While capacity is reduced, the quota is lower
// (Section 5.2).
func buckets(reduced bool) []bucket {
	perTenSeconds := 10
	if reduced {
		perTenSeconds = 2
	}
	return []bucket{{burst, perTenSeconds, 10 * time.Second}, {daily, 1000, 24 * time.Hour}}
}

func (b bucket) perSecond() float64 { return float64(b.quota) / b.window.Seconds() }

// An engine stores the buckets of the clients.
type engine interface {
	// take takes a unit from each bucket of a client, if no bucket is empty. It returns the
	// contents afterwards, in units with fractions, and the names of the empty buckets. On
	// error the contents are unknown.
	take(ctx context.Context, partition []byte, buckets []bucket) (tokens []float64, violated []string, err error)
}

// fieldsOf returns the fields that announce the buckets of a client.
func fieldsOf(partition []byte, buckets []bucket, tokens []float64) ratelimit.Fields {
	var f ratelimit.Fields
	for i, b := range buckets {
		of := announce.TokenBucket{Name: b.name, Burst: int64(b.quota), PerSecond: b.perSecond(), Tokens: tokens[i]}.Fields()
		of.Policies[0].PartitionKey, of.Limits[0].PartitionKey = partition, partition
		f = f.Join(of)
	}
	return f
}

// partitionKey distinguishes clients without identifying them. It depends on the request alone
// (draft-11 Section 6.1). Without the secret, it reveals neither the API key nor the partition
// keys of other clients.
func partitionKey(secret []byte, apiKey string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(apiKey))
	return mac.Sum(nil)[:12]
}
