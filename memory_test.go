//go:build !race

// The race detector takes memory of its own.

package ratelimit

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A waiter holds less than 1 KiB of heap, its stack and that of its context not counted.
func TestWaiterMemory(t *testing.T) {
	const waiters = 2000
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what the first has found may be swept now
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var g Gate
	p, err := g.Enter(t.Context(), "a")
	require.NoError(t, err)
	p.Answered(Advice{Wait: time.Hour}, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Add(waiters)
	enter := func() {
		_, _ = g.Enter(ctx, "a")
		all.Done()
	}
	before := heap()
	for range waiters {
		go enter()
	}
	queue := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.keys[keyName{rest: "a"}].queue.n
	}
	for queue() < waiters {
		runtime.Gosched()
	}
	each := (heap() - before) / waiters
	cancel()
	all.Wait()
	t.Logf("%.0f bytes of heap each", each)
	require.Less(t, each, 1024.0)
	require.Greater(t, each, 100.0)
}
