package proxy

import "sync"

// A memory bounds how many bytes of bodies are read ahead, in all requests together.
type memory struct {
	mu    sync.Mutex
	freed *sync.Cond
	left  int64
}

func newMemory(size int64) *memory {
	m := &memory{left: size}
	m.freed = sync.NewCond(&m.mu)
	return m
}

// take waits until n bytes are left, or stop returns true, and reports whether it has
// taken them.
func (m *memory) take(n int, stop func() bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !stop() && m.left < int64(n) {
		m.freed.Wait()
	}
	if stop() {
		return false
	}
	m.left -= int64(n)
	return true
}

// give gives bytes back.
func (m *memory) give(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += int64(n)
	m.freed.Broadcast()
}

// wake has all that wait ask again whether to stop.
func (m *memory) wake() { m.give(0) }
