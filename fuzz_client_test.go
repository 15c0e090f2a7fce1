package ratelimit

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func addResponses(f *testing.F) {
	for _, tc := range adviseCases {
		f.Add(200, tc.wire, int64(0), int64(0))
	}
	for _, tc := range lintCases {
		if len(tc.wire) < 1000 {
			f.Add(302, tc.wire, int64(1795230000), int64(time.Second))
		}
	}
	for _, s := range seeds() {
		if len(s) < 1000 && !strings.Contains(s, "\n") {
			f.Add(429, "RateLimit: "+s+"\nRateLimit-Policy: "+s+"\nRetry-After: "+s, int64(-1<<62), int64(-5))
		}
	}
}

func FuzzAdvise(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, received, most int64) {
		resp := responseOf(lines)
		resp.StatusCode = status
		c := Advisor{MaxWait: time.Duration(most)}
		a := c.Advise(resp, time.Unix(received, 0))
		require.GreaterOrEqual(t, a.Wait, time.Duration(0))
		require.LessOrEqual(t, a.Wait, maxWait(c.MaxWait))
		require.GreaterOrEqual(t, a.Pace, time.Duration(0))
		require.True(t, !a.Capped || a.Wait == maxWait(c.MaxWait))
		require.True(t, a.Wait == 0 || a.Source != SourceNone)
		require.True(t, a.Source == SourceLimit || a.Source == SourceWindow || a.Limit.Equal(Limit{}))

		d, ok := ParseRetryAfter(resp.Header, time.Unix(received, 0))
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.True(t, ok || d == 0)
		require.Equal(t, ok, a.Source == SourceRetryAfter)
	})
}

func FuzzCheck(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, trailers, _ int64) {
		resp := responseOf(lines)
		resp.StatusCode = status
		if trailers < 0 {
			resp.Trailer = resp.Header
		}
		for _, found := range Check(resp) {
			lawFinding(t, found)
		}
		_, policyErr := ParsePolicies(resp.Header.Values(PolicyField)...)
		_, limitErr := ParseLimits(resp.Header.Values(LimitField)...)
		if policyErr != nil || limitErr != nil {
			require.NotNil(t, Check(resp))
		}
	})
}
