package ratelimit

import (
	"slices"
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

// lawMachine: a query changes nothing, whoever may not go learns when to ask again,
// and whoever does so may go in the end, though no answer ever comes.
func lawMachine(t testing.TB, m machine, r *settings, now time.Time) {
	m.budgets = slices.Clone(m.budgets)
	under := m.under
	for range 8 {
		m.tick(now, r)
		before := m
		before.budgets = slices.Clone(m.budgets)
		v := m.ask(now, r)
		require.True(t, before.under == m.under, "a query changes nothing")
		before.under, m.under = trips{}, trips{} // the rest, without all of the list
		require.Equal(t, before, m, "a query changes nothing")
		m.under = under
		if v.open {
			return
		}
		require.True(t, v.until.After(now), "%+v", m)
		now = v.until
	}
	require.Fail(t, "nobody goes", "%+v", m)
}

// The bytes are events: who is sent, answered, fails, and how much time passes.
func FuzzMachine(f *testing.F) {
	answers := []Advice{{}, {Refused: true}}
	for _, fields := range []string{
		"a r=0;t=7", "a r=1;t=30", "a r=5;t=2", "a r=3;t=0", "a r=0;t=0", "a r=0", "a r=2", "Retry-After: 5", "Retry-After: 0", "429; a r=0;t=3",
		"429; a r=9;t=9", "429; Retry-After: 1", "503; Retry-After: 5; a r=2;t=60", "a r=1;t=999999999999999; b r=4;t=1",
	} {
		answers = append(answers, Advisor{}.Advise(shortResponse(fields), epoch))
	}
	f.Add([]byte{0, 0, 0, 2, 3, 1, 200, 0, 0, 0, 0}, true, uint8(2))
	f.Add([]byte{0, 2, 0, 1, 1, 0, 3, 0, 1, 1, 0, 2, 11}, false, uint8(0))
	f.Fuzz(func(t *testing.T, events []byte, pace bool, share uint8) {
		r := settings{maxWait: 10 * time.Minute, share: 1 / (1 + float64(share)), pace: pace}
		m, now := machine{}, epoch
		var under []*trip
		for i := 0; i+1 < len(events) && i < 400; i += 2 {
			kind, arg := events[i]%5, events[i+1]
			m.tick(now, &r)
			switch {
			case kind == 0 && m.ask(now, &r).open:
				under = append(under, new(trip))
				m.send(under[len(under)-1], now)
			case kind == 1:
				now = now.Add(time.Duration(arg) * time.Duration(arg) * time.Millisecond)
			case kind >= 2 && len(under) > 0:
				j := int(arg) % len(under)
				sent := under[j]
				under = slices.Delete(under, j, j+1)
				if kind == 2 {
					m.failed(sent)
				} else {
					m.answered(sent, &answers[int(arg)%len(answers)], now, &r)
				}
			}
			require.Equal(t, len(under), m.under.n)
			require.LessOrEqual(t, len(m.budgets), maxBudgets)
			lawMachine(t, m, &r, now)
		}
	})
}
