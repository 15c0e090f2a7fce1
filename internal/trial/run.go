package trial

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// InBubble is t.Run in virtual time.
func InBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// RequireAllocs fails if a call of f makes another number of allocations than wanted.
func RequireAllocs(t *testing.T, want int, f func()) {
	t.Helper()
	require.Equal(t, float64(want), testing.AllocsPerRun(100, f))
}

// Allocated returns how many bytes f allocates, garbage included.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
