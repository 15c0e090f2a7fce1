package ratelimit

import (
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
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
		resp, _ := anyResponse(lines)
		resp.StatusCode = status
		c := Advisor{MaxWait: time.Duration(most)}
		a := c.Advise(resp, time.Unix(received, 0))
		require.GreaterOrEqual(t, a.Wait, time.Duration(0))
		require.LessOrEqual(t, a.Wait, longestWait(c.MaxWait))
		require.GreaterOrEqual(t, a.Pace, time.Duration(0))
		require.True(t, !a.Capped || a.Wait == longestWait(c.MaxWait))
		require.True(t, a.Wait == 0 || a.Source != SourceNone)
		lawAdviceLimit(t, &a)
		require.True(t, text.IsName(strings.ReplaceAll(a.String(), "µs", "us")), "%q", a.String())

		d, ok := ParseRetryAfter(resp.Header, time.Unix(received, 0))
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.True(t, ok || d == 0)
		require.Equal(t, ok, a.Source == SourceRetryAfter)
		lawAdvise(t, resp.Header, a)
	})
}

// lawAdviceLimit: a limit that is the reason for a wait is one of the fields, and one
// beside a Retry-After is the tightest of them, and exhausted.
func lawAdviceLimit(t testing.TB, a *Advice) {
	t.Helper()
	same := func(l Limit) bool { return l.Equal(a.Limit) }
	switch a.Source {
	case SourceNone:
		require.True(t, a.Limit.Equal(Limit{}))
	case SourceRetryAfter:
		tightest, ok := a.Fields.Tightest()
		p, known := a.Fields.PolicyOf(tightest)
		if ok && (tightest.Remaining == 0 || known && p.Quota == 0) {
			require.True(t, same(tightest), "%v", a.Fields)
		} else {
			require.True(t, a.Limit.Equal(Limit{}))
		}
	default:
		require.True(t, slices.ContainsFunc(a.Fields.Limits, same), "%v", a.Fields)
	}
}

// lawAdvise checks an Advice against its definition: Retry-After in seconds, else
// the longest wait of a limit with nothing remaining, else, for a refusal, the longest
// of one that does not say what remains; and the slowest pace.
func lawAdvise(t testing.TB, h http.Header, a Advice) {
	t.Helper()
	seconds := h[retryAfterKey]
	if len(seconds) == 1 && len(seconds[0]) < 10 && text.All(seconds[0], text.Digit) && seconds[0] != "" {
		n, err := strconv.Atoi(seconds[0])
		require.NoError(t, err)
		require.Equal(t, time.Duration(n)*time.Second, a.Asked)
	}
	var wait, pace, unknown time.Duration
	explained := false // a limit with nothing remaining says when it ends
	for _, l := range a.Fields.Limits {
		p, known := a.Fields.PolicyOf(l)
		left, _ := l.Reset.Duration()
		switch {
		case l.Remaining == 0 || known && p.Quota == 0:
			if !l.Reset.ok {
				left, _ = p.Window.Duration()
			}
			wait = max(wait, left)
			explained = explained || l.Reset.ok || p.Window.ok
		case l.Remaining == Unknown:
			unknown = max(unknown, left)
		case l.Remaining > 0 && (p.Unit == "" || p.Unit == Requests || p.Unit == "request"):
			n := big.NewInt(l.Remaining)
			if known && 0 < p.Quota && p.Quota < l.Remaining {
				n = big.NewInt(p.Quota)
			}
			d := new(big.Int).Add(big.NewInt(int64(left)), n)
			d.Sub(d, big.NewInt(1)).Quo(d, n) // rounded up
			pace = max(pace, time.Duration(d.Int64()))
		}
	}
	require.Equal(t, pace, a.Pace, "%v", a.Fields)
	if a.Refused && !explained {
		wait = unknown
	}
	if a.Source != SourceRetryAfter {
		require.Equal(t, wait, a.Asked, "%v", a.Fields)
	}
}

func FuzzCheck(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, trailers, _ int64) {
		resp, _ := anyResponse(lines)
		resp.StatusCode = status
		if trailers < 0 {
			resp.Trailer = resp.Header
		}
		for _, found := range Check(resp) {
			lawFinding(t, found)
		}
	})
}
