package main

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Of a body at most so many parts of so many bytes are read while its request waits.
const (
	earlyParts = 64
	earlyPart  = 4 << 10
)

// A client that still sends has so long to read an answer that came before its body ended.
const linger = 500 * time.Millisecond

// A requestBody is the body of a request that the proxy forwards. Nothing reads that of
// the server but its method read, and nothing does once it is finished: http.Transport
// may read a body longer than its handler runs, and net/http panics then.
type requestBody struct {
	server   io.ReadCloser
	mu       sync.Mutex // is held while that is read
	finished bool
	whole    atomic.Bool // it was read to its end

	once  sync.Once
	parts chan part // nil if nothing was read early; closed behind the last one
	rest  part      // that which was not read to its end
}

type part struct {
	data []byte
	err  error
}

// bodyOf returns the body of a request, nil if it has none.
func bodyOf(r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &requestBody{server: r.Body}
}

func (b *requestBody) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.server.Read(p)
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// begin begins to read while the request waits. It is called before Read, if at all.
// net/http sees that a client hangs up only when it has read what the client sent
// before, so a request with a body of more than 256 KiB stays in the queue until its
// turn comes.
func (b *requestBody) begin() {
	b.once.Do(func() {
		parts := make(chan part, earlyParts)
		b.parts = parts
		go func() {
			defer close(parts)
			for range earlyParts {
				buffer := make([]byte, earlyPart)
				n, err := b.read(buffer)
				parts <- part{buffer[:n], err}
				if err != nil {
					return
				}
			}
		}()
	})
}

// Read reads what was read early, and then the rest.
func (b *requestBody) Read(p []byte) (int, error) {
	for b.parts != nil && len(b.rest.data) == 0 && b.rest.err == nil {
		next, ok := <-b.parts
		if !ok {
			b.parts = nil
		}
		b.rest = next
	}
	if len(b.rest.data) == 0 && b.rest.err == nil {
		return b.read(p)
	}
	n := copy(p, b.rest.data)
	b.rest.data = b.rest.data[n:]
	if len(b.rest.data) > 0 {
		return n, nil
	}
	return n, b.rest.err
}

// Close does nothing: what forwards the body may not end that of the server.
func (b *requestBody) Close() error { return nil }

// early reports whether the request is answered before its body was read to its end.
func (b *requestBody) early() bool { return b != nil && !b.whole.Load() }

// finish ends the reading before the handler ends. Of a body that was not read to its
// end net/http discards a part, so that the client, which may still send, reads the
// answer and not that the connection was reset.
func (b *requestBody) finish(w *http.ResponseController) {
	if !b.early() {
		return
	}
	_ = w.SetReadDeadline(time.Now().Add(linger))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
	_ = b.server.Close()
}
