package obey

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

func TestRoundTripAllocations(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines string
		want  float64
	}{
		{"no fields", "", 1},
		{"current fields", ratelimit.LimitField + ": " + `"default";r=50;t=30`, 4},
		{"older fields", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := trial.ResponseOf(trial.Unrelated + tc.lines)
			// If a request had to wait, it would fail, and the test with it.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			rt := &Transport{Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) { return answer, nil })}
			req := trial.NewRequest(t, trial.Example).WithContext(ctx)
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = rt.RoundTrip(req) }), tc.want)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.lines != "", ratelimit.Advise(resp, trial.Arrival).Pace > 0)
		})
	}
}

// BenchmarkGateState reads the state of 10,000 keys. In the fastest round, gap-ns is the longest
// time that Keys took between two keys. It includes the time for which the lock is held.
func BenchmarkGateState(b *testing.B) {
	const keys = 10_000
	var g Gate
	for i := range keys {
		p, _ := g.TryEnter("https://api.example/" + strconv.Itoa(i))
		p.Answered(ratelimit.Advice{Wait: time.Hour, Fields: ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Reset: ratelimit.SecondsOf(3600)}}}}, time.Now())
	}
	b.ReportAllocs()
	shortest, n := time.Hour, 0
	for b.Loop() {
		last, longest := time.Now(), time.Duration(0)
		n = 0
		for key := range g.Keys() {
			longest = max(longest, time.Since(last))
			if w, ok := g.State(key); ok && w.Reason == ReasonLimit {
				n++
			}
			last = time.Now()
		}
		shortest = min(shortest, longest)
	}
	require.Equal(b, keys, n)
	b.ReportMetric(float64(shortest), "gap-ns")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/keys, "ns/key")
}
