package obey

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey/internal/machine"
	"github.com/stretchr/testify/require"
)

// advised returns the advice of a response in the short form of the scores.
func advised(fields string) ratelimit.Advice {
	return ratelimit.Advise(shortResponse(fields), time.Now())
}

// enter lets a request with costs through.
func enter(t *testing.T, g *Gate, key string, costs ...Cost) *Pass {
	t.Helper()
	p, err := g.Enter(t.Context(), key, costs...)
	require.NoError(t, err)
	return p
}

// entered lets a request with costs through, and passes its answer to the Pass.
func entered(t *testing.T, g *Gate, key, fields string, costs ...Cost) {
	t.Helper()
	enter(t, g, key, costs...).Answered(advised(fields), time.Now())
}

// Waiting requests proceed in the order of their arrival, as soon as they may. They fail as
// soon as it is certain that their deadlines are too early.
func TestGateQueue(t *testing.T) { playScores(t, "queue") }

// All scores of testdata/machine.txt, and scores whose costs only a response can carry.
func TestGateMachine(t *testing.T) {
	playScores(t, "machine", trial.Block{Name: "costs, a policy with a long name", Text: strings.ReplaceAll(`
		0 send 1 NAME:tokens=10 | answer 1 NAME r=0;t=30 of q=60;w=60;qu="tokens" | shut 11000 NAME:tokens=10 certain
		0 open other:tokens=10`, "NAME", strings.Repeat("n", 200))})
}

func TestGateReads(t *testing.T) { playScores(t, "gate") }

// A Gate remembers at most maxKeys keys. It forgets the keys whose loss matters least.
func TestGateMemory(t *testing.T) {
	host := func(i int) string { return fmt.Sprintf("%d.example", i) }
	fill := func(t *testing.T, g *Gate, from, n int, a ratelimit.Advice) {
		t.Helper()
		for i := range n {
			enter(t, g, host(from+i)).Answered(a, time.Now())
			require.LessOrEqual(t, len(g.keys), maxKeys)
		}
	}
	wait := func(d time.Duration) ratelimit.Advice {
		return ratelimit.Advice{Wait: d, Source: ratelimit.SourceRetryAfter}
	}
	left := ratelimit.Advice{Fields: ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Remaining: 5, Reset: ratelimit.SecondsOf(1e9)}}}}
	known := func(g *Gate, key string) bool { return g.keys[key] != nil }
	trial.InBubble(t, "the oldest goes first", func(t *testing.T) {
		var g Gate
		fill(t, &g, 0, maxKeys, left)
		fill(t, &g, 0, 1, left) // is now the newest
		pass, _ := g.TryEnter(host(1))
		require.NotNil(t, pass, "and so is this")
		fill(t, &g, maxKeys, 1, left)
		require.True(t, known(&g, host(0)) && known(&g, host(1)) && !known(&g, host(2)))
		fill(t, &g, maxKeys, 2*maxKeys, left)
		require.True(t, known(&g, host(3*maxKeys-1)) && !known(&g, host(0)))
	})
	trial.InBubble(t, "a key without limits is forgotten before a key with a count", func(t *testing.T) {
		g := Gate{MaxKeys: looks}
		fill(t, &g, 0, looks-1, left)
		fill(t, &g, looks, 2, ratelimit.Advice{})
		require.True(t, known(&g, host(0)) && !known(&g, host(looks)))
	})
	trial.InBubble(t, "a wait in force is never displaced", func(t *testing.T) {
		var g Gate
		fill(t, &g, 0, 1, wait(time.Minute))
		fill(t, &g, 1, 3*maxKeys, wait(ratelimit.DefaultMaxWait)) // hostile hosts
		start := time.Now()
		fill(t, &g, 0, 1, wait(ratelimit.DefaultMaxWait))
		require.Equal(t, time.Minute, time.Since(start))
		require.False(t, known(&g, host(maxKeys)), "nothing is kept of it")
		p, until := g.TryEnter("another")
		require.NotNil(t, p)
		require.Zero(t, until)
		p.Answered(left, time.Now())
		time.Sleep(ratelimit.DefaultMaxWait)
		fill(t, &g, 4*maxKeys, 1, left)
		require.True(t, known(&g, host(4*maxKeys)), "the waits have ended")
	})
	trial.InBubble(t, "the one wait that has ended is displaced", func(t *testing.T) {
		var g Gate
		fill(t, &g, 0, 1, wait(2*time.Second))
		fill(t, &g, 1, maxKeys, wait(time.Minute))
		require.False(t, known(&g, host(maxKeys)))
		time.Sleep(3 * time.Second)
		fill(t, &g, maxKeys, 1, wait(time.Minute))
		require.True(t, known(&g, host(maxKeys)) && !known(&g, host(0)))
	})
	trial.InBubble(t, "a wait that is forgotten is displaced at once", func(t *testing.T) {
		var g Gate
		fill(t, &g, 0, maxKeys+1, wait(time.Minute))
		g.Forget(host(5))
		fill(t, &g, maxKeys, 1, wait(time.Minute))
		require.True(t, known(&g, host(maxKeys)) && !known(&g, host(5)))
	})
	trial.InBubble(t, "waits are looked at once a second", func(t *testing.T) {
		var g Gate
		fill(t, &g, 0, 1, wait(1500*time.Millisecond))
		fill(t, &g, 1, maxKeys-1, wait(time.Minute))
		for i, after := range times(0, 1000, 600, 400) {
			time.Sleep(after)
			fill(t, &g, maxKeys, 1, wait(time.Minute))
			require.Equal(t, i == 3, known(&g, host(maxKeys)))
		}
	})
	trial.InBubble(t, "a key that was displaced learns from an answer that comes later", func(t *testing.T) {
		var g Gate
		answered, failed, late := enter(t, &g, "slow"), enter(t, &g, "slow"), enter(t, &g, "late")
		fill(t, &g, 0, maxKeys, ratelimit.Advice{})
		require.False(t, known(&g, "slow") || known(&g, "late"))
		answered.Answered(wait(time.Minute), time.Now())
		failed.Failed()
		require.Len(t, g.keys, maxKeys)
		require.Zero(t, g.keys["slow"].machine.UnderWay())
		fill(t, &g, maxKeys, maxKeys, wait(time.Minute))
		late.Answered(wait(time.Minute), time.Now())
		require.False(t, known(&g, "late"), "all others have to wait")
		start := time.Now()
		enter(t, &g, "slow").Failed()
		require.Equal(t, time.Minute, time.Since(start))
	})
	t.Run("the response is not kept", func(t *testing.T) {
		long := strings.Repeat("n", 1000)
		rt := &Transport{Base: newScript(`RateLimit: "` + long + `";r=0;t=60;pk=:YQ==:;x="` + strings.Repeat("x", 1<<20) + `"`)}
		require.NoError(t, get(t, rt, trial.Example))
		a := entryOf(rt, "api.example").advice
		require.Equal(t, ratelimit.Advice{
			Wait: time.Minute, Asked: time.Minute, Source: ratelimit.SourceLimit, Limit: ratelimit.Limit{Name: long[:maxName], Reset: ratelimit.SecondsOf(60)},
		}, a)
	})
	t.Run("long keys", func(t *testing.T) {
		var g Gate
		for i := range 2 {
			for range 2 {
				enter(t, &g, strings.Repeat("k", 1<<20)+strconv.Itoa(i)).Failed()
			}
		}
		longest := strings.Repeat("k", maxKey)
		enter(t, &g, longest).Failed()
		require.Contains(t, g.keys, longest)
		require.Len(t, g.keys, 3)
		for k := range g.keys {
			require.LessOrEqual(t, len(k), maxKey)
		}
	})
}

// A wait that begins wakes only the requests whose deadlines are too early for it.
func TestGateWakesNobodyInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		entered(t, &g, "k", "a r=1;t=60")
		taken := enter(t, &g, "k")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = g.Enter(ctx, "k") })
		}
		hurried, cancelHurried := context.WithTimeout(t.Context(), time.Minute)
		defer cancelHurried()
		wg.Go(func() {
			_, err := g.Enter(hurried, "k")
			var early *WaitError
			require.ErrorAs(t, err, &early)
		})
		synctest.Wait()
		taken.Answered(advised("302; Retry-After: 120"), time.Now())
		queue := &g.keys["k"].queue
		require.Equal(t, 100, queue.Len(), "the hurried one is refused")
		for place := queue.others.Front(); place != nil; place = place.Next() {
			require.False(t, place.Value.(*waiter).decided)
		}
		cancel()
		wg.Wait()
	})
}

// A Gate without a Transport, for requests that are not HTTP.
func TestGate(t *testing.T) {
	wait := ratelimit.Advice{Wait: time.Minute, Source: ratelimit.SourceRetryAfter}
	t.Run("an invalid share means 1", func(t *testing.T) {
		for share, want := range map[float64]float64{0.5: 0.5, 0: 1, -0.5: 1, 1: 1, 1.5: 1, math.Inf(1): 1, math.NaN(): 1} {
			require.Equal(t, want, (&Gate{Share: share}).newMachine().Share, share)
		}
	})
	t.Run("a second answer is ignored", func(t *testing.T) {
		var g Gate
		p := enter(t, &g, "a")
		p.Answered(ratelimit.Advice{}, time.Now())
		p.Answered(wait, time.Now())
		p.Failed()
		require.Zero(t, g.keys["a"].machine.UnderWay())
		enter(t, &g, "a").Failed()
	})
	trial.InBubble(t, "a key with callers that wait is not displaced", func(t *testing.T) {
		var g Gate
		var under []*Pass
		for range 10 {
			under = append(under, enter(t, &g, "a"))
		}
		var wg sync.WaitGroup
		wg.Go(func() { enter(t, &g, "a").Failed() })
		synctest.Wait()
		for i := range 2 * maxKeys {
			enter(t, &g, strconv.Itoa(i)).Answered(ratelimit.Advice{}, time.Now())
		}
		require.Contains(t, g.keys, "a")
		for _, p := range under {
			p.Answered(ratelimit.Advice{}, time.Now())
		}
		wg.Wait()
	})
	trial.InBubble(t, "a final refusal delays nobody, whatever it announces", func(t *testing.T) {
		var g Gate
		a, start := advised("429; a r=0;t=60; Retry-After: 60"), time.Now()
		a.Final = true
		enter(t, &g, "a").Answered(a, time.Now())
		w, _ := g.State("a")
		require.Equal(t, []any{Reason(""), 0}, []any{w.Reason, w.UnderWay})
		enter(t, &g, "a").Failed()
		require.Equal(t, start, time.Now())
	})
	t.Run("no pass", func(t *testing.T) {
		var none *Pass // the result of a failed Enter
		none.Failed()
		none.Answered(wait, time.Now())
		new(Pass).Failed()
		new(Pass).Answered(wait, time.Now())
	})
	trial.InBubble(t, "the received time counts, but for one in the future, which is now", func(t *testing.T) {
		var g Gate
		p, start := enter(t, &g, "a"), time.Now()
		time.Sleep(59 * time.Second) // the body was long
		p.Answered(wait, start)
		enter(t, &g, "a").Answered(wait, time.Now().Add(1e6*time.Hour))
		require.Equal(t, time.Minute, time.Since(start))
		enter(t, &g, "a").Failed()
		require.Equal(t, 2*time.Minute, time.Since(start))
	})
	t.Run("let through, and Waiting panics", func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "a r=1;t=60")
		under := enter(t, &g, "a")
		g.Waiting = func(Wait) func() {
			under.Answered(advised("a r=9;t=60"), time.Now())
			panic("waiting")
		}
		require.Panics(t, func() { _, _ = g.Enter(t.Context(), "a") })
		require.Zero(t, g.keys["a"].machine.UnderWay())
	})
	t.Run("cancelled, while an answer waits for the lock", func(t *testing.T) {
		begun := make(chan struct{})
		g := Gate{Waiting: func(Wait) func() { close(begun); return nil }}
		entered(t, &g, "a", "a r=1;t=60")
		under := enter(t, &g, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if p, err := g.Enter(ctx, "a"); err == nil {
				p.Failed()
			}
		})
		<-begun
		pause := func() { time.Sleep(5 * time.Millisecond) }
		g.mu.Lock()
		cancel()
		pause()
		wg.Go(func() { under.Answered(advised("a r=9;t=60"), time.Now()) })
		pause()
		g.mu.Unlock()
		g.mu.Lock() // a goroutine that has waited for a millisecond now gets the lock next
		pause()
		g.mu.Unlock()
		wg.Wait()
		require.Zero(t, g.keys["a"].machine.UnderWay())
	})
	trial.InBubble(t, "an error has the longest wait of several responses", func(t *testing.T) {
		var g Gate
		passes := []*Pass{enter(t, &g, "a"), enter(t, &g, "a"), enter(t, &g, "a")}
		for i, minutes := range []int{2, 3, 1} {
			passes[i].Answered(ratelimit.Advice{Wait: time.Duration(minutes) * time.Minute, Source: ratelimit.SourceRetryAfter}, time.Now())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.Enter(ctx, "a")
		var early *WaitError
		require.ErrorAs(t, err, &early)
		require.Equal(t, 3*time.Minute, time.Until(early.Until))
		require.Equal(t, 3*time.Minute, early.Advice.Wait)
	})
	trial.InBubble(t, "what was over when an answer came does not count any more", func(t *testing.T) {
		var g Gate
		refused, late := enter(t, &g, "a"), enter(t, &g, "a")
		refused.Answered(advised("429; a r=0;t=60"), time.Now())
		time.Sleep(2 * time.Minute)
		late.Answered(wait, time.Now())
		start := time.Now()
		enter(t, &g, "a")
		enter(t, &g, "a")
		require.Equal(t, time.Minute, time.Since(start), "no probe goes alone after a wait that refused nothing")
	})
	t.Run("the zero time is now", func(t *testing.T) {
		var g Gate
		enter(t, &g, "a").Answered(wait, time.Time{})
		w, _ := g.State("a")
		require.InDelta(t, 60, time.Until(w.Until).Seconds(), 1)
	})
	t.Run("a wait does not depend on the wall clock", func(t *testing.T) {
		var g Gate
		enter(t, &g, "a").Answered(wait, time.Now().Round(0)) // has no reading of the monotonic clock
		w, _ := g.State("a")
		require.Contains(t, w.Until.String(), " m=")
	})
	trial.InBubble(t, "an answer from before its request took no time", func(t *testing.T) {
		var g Gate
		start := time.Now()
		enter(t, &g, "a").Answered(wait, start.Add(-time.Second))
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(wait.Wait-time.Second-1))
		defer cancel()
		_, err := g.Enter(ctx, "a")
		require.ErrorAs(t, err, new(*WaitError))
		require.Zero(t, time.Since(start), "it is certain to come too early")
	})
}

// If the context has ended, Enter returns its cause.
func TestGateEnded(t *testing.T) {
	var g Gate
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Enter(ctx, "a")
	require.Equal(t, context.Canceled, err)
}

// The machine counts requests in the unit that the root calls Requests.
func TestRequestUnit(t *testing.T) {
	t.Parallel()
	require.Equal(t, string(ratelimit.Requests), machine.RequestUnit)
}

// A limit of concurrent requests hides no other limit.
func TestAnswerOfConcurrent(t *testing.T) {
	a := ratelimit.Advise(trial.ResponseOf("RateLimit-Policy: \"c\";q=5;qu=\"concurrent-requests\", \"a\";q=9\nRateLimit: \"c\";r=3, \"a\";r=4;t=9"), trial.Arrival)
	got := answerOf(&a, nil, nil)
	require.Equal(t, int64(5), got.AtOnce)
	require.Len(t, got.Stocks, 1)
	require.Equal(t, "a", got.Stocks[0].Policy)
	for _, members := range []string{`"c";q=5;U, "d";q=0;U, "e";q=7;U`, `"e";q=7;U, "d";q=0;U, "c";q=5;U`} {
		a := ratelimit.Advise(trial.ResponseOf("RateLimit-Policy: "+strings.ReplaceAll(members, "U", `qu="concurrent-requests"`)), trial.Arrival)
		require.Equal(t, int64(5), answerOf(&a, nil, nil).AtOnce, "the lowest, but for none at all")
	}
}

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
		reason   Reason
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
		{name: "backoff", reason: "backoff", from: 150 * time.Millisecond, to: 300 * time.Millisecond, prepare: func(t *testing.T, g *Gate) { answered(t, g, "429") }},
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
			trial.InBubble(t, fmt.Sprint(tc.name, ", ", callers), func(t *testing.T) {
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
		trial.InBubble(t, late, func(t *testing.T) {
			var g Gate
			start, first, second := time.Now(), enter(t, &g, "a"), enter(t, &g, "a")
			second.Answered(advised("a r=0;t=60"), time.Now())
			first.Answered(advised(late), time.Now())
			w, _ := g.State("a")
			require.Equal(t, time.Duration(want)*time.Second, w.Until.Sub(start))
			require.Equal(t, ratelimit.SecondsOf(want), w.Advice.Limit.Reset)
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
		require.Equal(t, ReasonRetryAfter, early.Reason)
	})
}

// While there is room, no key with a wait in effect is forgotten.
func TestGateMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		g := Gate{MaxKeys: n}
		for i := range n {
			p, _ := g.TryEnter(fmt.Sprint(i))
			p.Answered(ratelimit.Advice{Wait: 30 * time.Second, Source: ratelimit.SourceLimit}, time.Now())
		}
		for i := range n {
			p, _ := g.TryEnter(fmt.Sprint(i))
			require.Nil(t, p, i)
		}
		require.Len(t, slices.Collect(g.Keys()), n)
	})
}

// State describes the request in front of the queue, whatever this request costs.
func TestGateStateOfCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		tokens := func(n int64) Cost { return Cost{Unit: "tokens", Units: n} }
		entered(t, &g, "a", `RateLimit-Policy: "t";q=60;w=60;qu="tokens"; RateLimit: "t";r=5;t=60`, tokens(1))
		w, ok := g.State("a")
		require.True(t, ok)
		require.Empty(t, w.Reason)
		var all sync.WaitGroup
		all.Go(func() { enter(t, &g, "a", tokens(15)).Failed() })
		synctest.Wait()
		w, _ = g.State("a")
		require.Equal(t, []any{ReasonLimit, 1}, []any{w.Reason, w.Queued})
		all.Wait()
	})
}

// The answer to a request that was sent before its key was forgotten has no effect, although the
// key has been displaced since.
func TestGateForgottenAndDisplaced(t *testing.T) {
	g := Gate{MaxKeys: 1}
	pass := enter(t, &g, "a")
	g.Forget("a")
	entered(t, &g, "b", "")
	pass.Answered(advised(`RateLimit: "a";r=0;t=60`), time.Now())
	_, ok := g.State("a")
	require.False(t, ok)
}

// An answer to a request that was sent before its key was displaced does not replace what is known
// since then.
func TestGateDisplacedAndKnownAgain(t *testing.T) {
	g := Gate{MaxKeys: 2}
	old := enter(t, &g, "a")
	enter(t, &g, "b")
	enter(t, &g, "c")
	_, ok := g.State("a")
	require.False(t, ok, "displaced")
	entered(t, &g, "a", `RateLimit: "a";r=0;t=60`)
	old.Answered(advised(`RateLimit: "a";r=9;t=60`), time.Now())
	w, _ := g.State("a")
	require.Equal(t, ReasonLimit, w.Reason)
}

// If a policy limits concurrent requests, the end of a body lets the next request through.
func TestTransportBodyEnds(t *testing.T) {
	for name, end := range map[string]func(io.ReadCloser) error{
		"closed":          io.ReadCloser.Close,
		"read to its end": func(body io.ReadCloser) error { _, err := io.Copy(io.Discard, body); return err },
	} {
		trial.InBubble(t, name, func(t *testing.T) {
			rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				resp := answer(req, `RateLimit-Policy: "c";q=1;qu="concurrent-requests"`)
				resp.Body = io.NopCloser(strings.NewReader("x"))
				return resp, nil
			})}
			first, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			start := time.Now()
			var all sync.WaitGroup
			all.Go(func() {
				second, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
				require.NoError(t, err)
				require.Equal(t, time.Second, time.Since(start))
				require.NoError(t, second.Body.Close())
			})
			time.Sleep(time.Second)
			require.NoError(t, end(first.Body))
			all.Wait()
		})
	}
}
