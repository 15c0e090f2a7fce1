package ratelimittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
)

// The memory of a log is bounded, whatever its quota.
func TestLogBound(t *testing.T) {
	p := ratelimit.Policy{Quota: ratelimit.MaxInteger, Window: ratelimit.SecondsOf(60)}
	c := newCounter(&Limit{Policy: p, Kind: SlidingLog})
	now := time.Now()
	for range 300_000 {
		c.state(now)
		c.take(1)
		require.LessOrEqual(t, len(c.log), 2*longLog+1)
		now = now.Add(time.Millisecond)
	}
	require.EqualValues(t, 60_000, c.used/1000*1000)
}
