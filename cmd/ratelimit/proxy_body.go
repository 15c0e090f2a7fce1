package main

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Of a body at most so many parts of so many bytes are read while its request waits.
const (
	earlyParts = 64
	earlyPart  = 4 << 10
)

// An earlyBody is a body that is read while its request waits. net/http sees that a
// client hangs up only when it has read what the client sent before, so a request with
// a body of more than 256 KiB stays in the queue until its turn comes.
type earlyBody struct {
	io.ReadCloser
	once  sync.Once
	ended chan struct{} // nil if nothing was read early; closed when that is over
	parts chan part     // likewise; closed behind the last one
	rest  part          // that which was not read to its end
}

type part struct {
	data []byte
	err  error
}

// begin begins to read. It is called before Read, if at all.
func (b *earlyBody) begin() {
	b.once.Do(func() {
		parts := make(chan part, earlyParts)
		b.parts, b.ended = parts, make(chan struct{})
		go func() {
			defer close(b.ended)
			defer close(parts)
			for range earlyParts {
				buffer := make([]byte, earlyPart)
				n, err := b.ReadCloser.Read(buffer)
				parts <- part{buffer[:n], err}
				if err != nil {
					return
				}
			}
		}()
	})
}

// finish ends the reading before its handler does: net/http allows none afterwards. What
// a client has sent is read at once; one that still sends gets the answer, and its
// connection is closed.
func (b *earlyBody) finish(w *http.ResponseController) {
	if b == nil || b.ended == nil {
		return
	}
	select {
	case <-b.ended:
		return
	case <-time.After(100 * time.Millisecond):
	}
	_ = w.Flush()
	_ = w.SetReadDeadline(time.Now())
	<-b.ended
}

// Read reads what was read early, and then the rest.
func (b *earlyBody) Read(p []byte) (int, error) {
	for b.parts != nil && len(b.rest.data) == 0 && b.rest.err == nil {
		next, ok := <-b.parts
		if !ok {
			b.parts = nil
		}
		b.rest = next
	}
	if len(b.rest.data) == 0 && b.rest.err == nil {
		return b.ReadCloser.Read(p)
	}
	n := copy(p, b.rest.data)
	b.rest.data = b.rest.data[n:]
	if len(b.rest.data) > 0 {
		return n, nil
	}
	return n, b.rest.err
}
