package interop

import (
	"testing"
)

// TestInterop talks to every server and every reader, and compares the results with the tables
// of README.md.
func TestInterop(t *testing.T) {
	// Servers in this process come first, one after the other, because some windows are as short
	// as a second.
	t.Run("read by us, Go", func(t *testing.T) { readServers(t, isGo) })
	t.Run("read by us, Node", func(t *testing.T) {
		readServers(t, func(module string) bool { return !isGo(module) })
	})
	t.Run("read by others", func(t *testing.T) {
		for _, r := range readers {
			t.Run(r.name, r.read)
		}
	})
	if !t.Failed() {
		checkMatrix(t)
	}
}

func readServers(t *testing.T, which func(module string) bool) {
	for _, s := range servers {
		if !which(s.module) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if !isGo(s.module) {
				t.Parallel()
			}
			readServer(t, s)
		})
	}
}
