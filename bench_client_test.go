package ratelimit

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// shelf is a base that answers out of memory.
type shelf struct{ resp *http.Response }

func (s *shelf) RoundTrip(*http.Request) (*http.Response, error) { return s.resp, nil }

func TestRoundTripAllocations(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines string
		want  float64
	}{
		{"no fields", "", 1},
		{"current fields", LimitField + ": " + benchLimit, 4},
		{"older fields", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := &Transport{Base: &shelf{responseOf(unrelated + tc.lines)}}
			req := newRequest(t, example)
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = rt.RoundTrip(req) }), tc.want)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.lines != "", (Advisor{}).Advise(resp, arrival).Pace > 0)
		})
	}
}
