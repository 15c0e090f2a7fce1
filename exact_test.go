package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExact: a reset keeps the precision that the response has, though Limit.Reset is
// whole seconds, rounded up.
func TestExact(t *testing.T) {
	for _, tt := range []struct {
		name, wire string
		want       time.Duration
		reset      int64
	}{
		{"a duration (OpenAI)", "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 120ms", 120 * time.Millisecond, 1},
		{"a longer one", "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 6m0.5s", 6*time.Minute + 500*time.Millisecond, 361},
		{"milliseconds by their word", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: 1500", 1500 * time.Millisecond, 2},
		{"milliseconds since the epoch", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230001250", 750 * time.Millisecond, 1},
		{"milliseconds by the window", "X-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset-Minute: 30500", 30500 * time.Millisecond, 31},
		{"a fraction", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1.25", 1250 * time.Millisecond, 2},
		{"whole seconds", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30s", 30 * time.Second, 30},
		{"a shared one", "X-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset: 2.5s", 2500 * time.Millisecond, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1795230000, 5e8)
			f, err := ParseAny(wire(tt.wire), LegacyOptions{Now: now})
			require.NoError(t, err)
			require.Len(t, f.Limits, 1)
			require.Equal(t, SecondsOf(tt.reset), f.Limits[0].Reset)
			got, ok := f.reset(0)
			require.True(t, ok)
			require.Equal(t, tt.want, got)

			f.Limits[0].Reset = SecondsOf(tt.reset + 9) // as the caller says now
			got, _ = f.reset(0)
			require.Equal(t, time.Duration(tt.reset+9)*time.Second, got)
			require.Nil(t, f.Writable().exact)
		})
	}
}
