package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/httpfields/ratelimit"
)

const (
	burst = "burst"
	daily = "daily"
)

// A bucket is a quota that every client gets, once full in each window. Units
// flow in evenly, so that it does not come back at one moment.
type bucket struct {
	name   string
	quota  int
	window time.Duration
}

// buckets are what every client gets. The short window keeps clients from using
// up the long one at once (draft-11 Section 8.5). While capacity is reduced the
// fields say so with a lower quota (Section 5.2).
func buckets(reduced bool) []bucket {
	perTenSeconds := 10
	if reduced {
		perTenSeconds = 2
	}
	return []bucket{{burst, perTenSeconds, 10 * time.Second}, {daily, 1000, 24 * time.Hour}}
}

func (b bucket) perSecond() float64 { return float64(b.quota) / b.window.Seconds() }

// An engine keeps the buckets of the clients.
type engine interface {
	// take takes a unit out of each bucket of a client, where none of them is
	// empty. It returns what is in them then, in units and parts of one, and the
	// names of those that were empty. An error means that nobody knows.
	take(ctx context.Context, partition []byte, buckets []bucket) (tokens []float64, violated []string, err error)
}

// fieldsOf says what is in the buckets of a client.
func fieldsOf(partition []byte, buckets []bucket, tokens []float64) ratelimit.Fields {
	var f ratelimit.Fields
	for i, b := range buckets {
		of := ratelimit.TokenBucket{Name: b.name, Burst: int64(b.quota), PerSecond: b.perSecond(), Tokens: tokens[i]}.Fields()
		of.Policies[0].PartitionKey, of.Limits[0].PartitionKey = partition, partition
		f = f.Join(of)
	}
	return f
}

// partitionKey tells clients apart without telling who they are: it comes from
// the request alone (draft-11 Section 6.1), and nobody can find the API key that
// belongs to it, nor the one that would give another client's.
func partitionKey(secret []byte, apiKey string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(apiKey))
	return mac.Sum(nil)[:12]
}
