package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGateState checks why requests wait, until when, and how many wait, for one and for many
// callers.
func TestGateState(t *testing.T) {
	const depends = -1
	answered := func(t *testing.T, g *Gate, fields ...string) {
		for _, f := range fields {
			entered(t, g, "a", f)
		}
	}
	for _, tc := range []struct {
		name     string
		gate     func() *Gate
		prepare  func(t *testing.T, g *Gate)
		reason   string
		from, to time.Duration // from and to bound Until; zero if it depends on other requests
		under    int
	}{
		{name: "first", reason: "first", from: 500 * time.Millisecond, under: 10, prepare: func(t *testing.T, g *Gate) {
			for range firstOnes {
				enter(t, g, "a")
			}
		}},
		{name: "limit", reason: "limit", from: 5 * time.Second, prepare: func(t *testing.T, g *Gate) { answered(t, g, "a r=0;t=5") }},
		{name: "the rest is under way", reason: "limit", from: 20 * time.Second, under: 1, prepare: func(t *testing.T, g *Gate) {
			answered(t, g, "a r=1;t=20")
			enter(t, g, "a")
		}},
		{name: "retry-after", reason: "retry-after", from: 5 * time.Second, prepare: func(t *testing.T, g *Gate) { answered(t, g, "429; Retry-After: 5") }},
		{name: "backoff", reason: "backoff", from: 50 * time.Millisecond, to: 100 * time.Millisecond, prepare: func(t *testing.T, g *Gate) { answered(t, g, "429") }},
		{name: "probe", reason: "probe", from: time.Second, under: 1, prepare: func(t *testing.T, g *Gate) {
			answered(t, g, "a r=0;t=5")
			enter(t, g, "a")
		}},
		{name: "concurrency", reason: "concurrency", from: depends, under: 5, prepare: func(t *testing.T, g *Gate) {
			answered(t, g, `RateLimit-Policy: "a";q=5;qu="concurrent-requests"`)
			for range 5 {
				enter(t, g, "a")
			}
		}},
		{name: "pace", reason: "pace", gate: func() *Gate { return &Gate{Pace: true} }, from: 3 * time.Second, prepare: func(t *testing.T, g *Gate) {
			answered(t, g, "a r=10;t=30")
		}},
	} {
		for _, callers := range []int{1, 1000} {
			inBubble(t, fmt.Sprint(tc.name, ", ", callers), func(t *testing.T) {
				g := &Gate{}
				if tc.gate != nil {
					g = tc.gate()
				}
				_, ok := g.State("a")
				require.False(t, ok)
				tc.prepare(t, g)
				now := time.Now()
				check := func(w Wait, queued int) {
					t.Helper()
					require.Equal(t, Wait{Key: "a", Reason: tc.reason, Queued: queued, UnderWay: tc.under}, Wait{Key: w.Key, Reason: w.Reason, Queued: w.Queued, UnderWay: w.UnderWay})
					require.Zero(t, w.Advice.Fields)
					if tc.from == depends {
						require.Zero(t, w.Until)
						return
					}
					require.GreaterOrEqual(t, w.Until.Sub(now), tc.from)
					require.LessOrEqual(t, w.Until.Sub(now), max(tc.from, tc.to))
				}
				w, ok := g.State("a")
				require.True(t, ok)
				check(w, 0)
				var mu sync.Mutex
				var heard []Wait
				g.Waiting = func(w Wait) func() {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, w)
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				for range callers {
					go func() { _, _ = g.Enter(ctx, "a") }()
				}
				synctest.Wait()
				w, _ = g.State("a")
				check(w, callers)
				require.Len(t, heard, callers)
				slices.SortFunc(heard, func(a, b Wait) int { return a.Queued - b.Queued })
				for i, w := range heard {
					check(w, i)
				}
				before, _ := g.State("a")
				after, _ := g.State("a")
				require.Equal(t, before, after, "a query changes nothing")
				cancel()
				synctest.Wait()
			})
		}
	}
	var g Gate
	entered(t, &g, "b", "")
	entered(t, &g, "http://b.example", "")
	w, ok := g.State("b")
	require.True(t, ok)
	require.Equal(t, Wait{Key: "b"}, w, "a request would be sent at once")
	keys := slices.Sorted(g.Keys())
	require.Equal(t, []string{"b", "http://b.example"}, keys)
	for range g.Keys() {
		break
	}
}

const firstOnes = 10

// An answer that comes late, to an earlier request, replaces the advice only if it is stricter.
func TestGateStateLateAnswer(t *testing.T) {
	for late, want := range map[string]int64{"a r=0;t=90": 90, "a r=0;t=30": 60} {
		inBubble(t, late, func(t *testing.T) {
			var g Gate
			start, first, second := time.Now(), enter(t, &g, "a"), enter(t, &g, "a")
			second.Answered(advised("a r=0;t=60"), time.Now())
			first.Answered(advised(late), time.Now())
			w, _ := g.State("a")
			require.Equal(t, time.Duration(want)*time.Second, w.Until.Sub(start))
			require.Equal(t, SecondsOf(want), w.Advice.Limit.Reset)
		})
	}
}

// If a deadline is before the end of a wait, the error has the reason of the wait.
func TestWaitErrorReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "429; Retry-After: 5")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.Enter(ctx, "a")
		var early *WaitError
		require.ErrorAs(t, err, &early)
		require.Equal(t, "retry-after", early.Reason)
	})
}

// While there is room, no key with a wait in effect is forgotten.
func TestGateMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		g := Gate{MaxKeys: n}
		for i := range n {
			p, _ := g.TryEnter(fmt.Sprint(i))
			p.Answered(Advice{Wait: 30 * time.Second, Source: SourceLimit}, time.Now())
		}
		for i := range n {
			p, _ := g.TryEnter(fmt.Sprint(i))
			require.Nil(t, p, i)
		}
		require.Len(t, slices.Collect(g.Keys()), n)
	})
}
