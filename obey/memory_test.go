//go:build !race

// The race detector uses memory too.

package obey

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// inUse returns the number of bytes in use.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // sweeps the garbage that the first call found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A key with a wait and a limit in effect needs little more than 1 KiB of heap.
func TestKeyMemory(t *testing.T) {
	const keys = 100_000
	for _, tc := range []struct {
		name   string
		advice ratelimit.Advice
		most   float64
	}{
		{"a wait", ratelimit.Advice{Wait: time.Hour, Source: ratelimit.SourceRetryAfter}, 1200},
		{"two limits", ratelimit.Advise(trial.ResponseOf("RateLimit: \"minute\";r=0;t=30, \"day\";r=5;t=300"), time.Now()), 1410},
	} {
		g := Gate{MaxKeys: keys}
		before := inUse()
		for i := range keys {
			p, _ := g.TryEnter("https://" + strconv.Itoa(i) + ".example")
			p.Answered(tc.advice, time.Now())
		}
		each := (inUse() - before) / keys
		t.Logf("%s: %.0f bytes of heap each", tc.name, each)
		require.Len(t, g.keys, keys)
		require.Less(t, each, tc.most)
	}
}

// A waiting request needs less than 1,120 bytes of heap, without its stack and its context.
func TestWaiterMemory(t *testing.T) {
	const waiters = 2000
	var g Gate
	p, err := g.Enter(t.Context(), "a")
	require.NoError(t, err)
	p.Answered(ratelimit.Advice{Wait: time.Hour}, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Add(waiters)
	enter := func() {
		_, _ = g.Enter(ctx, "a")
		all.Done()
	}
	before := inUse()
	for range waiters {
		go enter()
	}
	queue := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.keys["a"].queue.Len()
	}
	for queue() < waiters {
		runtime.Gosched()
	}
	each := (inUse() - before) / waiters
	cancel()
	all.Wait()
	t.Logf("%.0f bytes of heap each", each)
	require.Less(t, each, 1120.0)
	require.Greater(t, each, 100.0)
}

// A key keeps no timer when no request waits, because a timer would keep a displaced key in memory.
func TestTimersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{}
		wait := func(end func(cancel context.CancelFunc)) {
			p, err := g.Enter(t.Context(), "key")
			require.NoError(t, err)
			p.Answered(ratelimit.Advice{Refused: true, Wait: time.Minute, Asked: time.Minute, Source: ratelimit.SourceRetryAfter}, time.Time{})
			e := g.keys["key"]
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = g.Enter(ctx, "key") }()
			synctest.Wait()
			require.False(t, e.until.IsZero())
			end(cancel)
			synctest.Wait()
			require.True(t, e.until.IsZero())
			time.Sleep(2 * time.Minute)
			cancel()
			g.Forget("key")
		}
		wait(func(cancel context.CancelFunc) { cancel() })
		wait(func(context.CancelFunc) { g.Forget("key") })
		wait(func(context.CancelFunc) { time.Sleep(2 * time.Minute) })
	})
}
