package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// mostAhead returns how many bytes of one body are read at most while its request waits, so
// that one body does not take the memory of all.
func mostAhead(memory int64) int64 { return max(memory/16, 4<<10) }

// partSize is how many bytes are read at once.
const partSize = 4 << 10

// linger is how long a client that still sends has to read an answer that came before
// its body ended.
const linger = 500 * time.Millisecond

// A requestBody is the body of a request that the proxy forwards. Nothing reads that of
// the server but its method read, and nothing does once it is finished: http.Transport
// may read a body longer than its handler runs, and net/http panics then.
type requestBody struct {
	server   io.ReadCloser
	proceed  func()     // tells a client that waits for it to send the body; nil if it does not wait
	mu       sync.Mutex // is held while that of the server is read
	finished bool
	whole    atomic.Bool // it was read to its end
	broken   atomic.Bool // it has no end: the client has hung up, or sent what is no body

	once  sync.Once
	ahead *ahead // nil if nothing is read ahead
	most  int64  // how much is read ahead at most
}

// bodyOf returns the body of a request, nil if it has none.
func bodyOf(w http.ResponseWriter, r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &requestBody{server: r.Body}
	if r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		b.proceed = func() { w.WriteHeader(http.StatusContinue) }
	}
	return b
}

func (b *requestBody) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.server.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.whole.Store(true)
	default:
		b.broken.Store(true)
	}
	return n, err
}

// begin begins to read while the request waits, and has leave called if the body turns
// out to be broken. It is called before Read, if at all.
func (b *requestBody) begin(m *memory, leave func(error)) {
	b.once.Do(func() {
		b.ahead = newAhead(m)
		if b.proceed != nil { // by itself net/http would do so while the server's hints are passed on
			b.proceed()
		}
		go b.readAhead(leave)
	})
}

func (b *requestBody) readAhead(leave func(error)) {
	buffer := make([]byte, partSize)
	for left := b.most; left >= partSize && b.ahead.room(partSize); left -= partSize {
		n, err := b.read(buffer)
		b.ahead.add(buffer[:n], err != nil, err)
		if b.broken.Load() {
			leave(err)
		}
		if err != nil {
			return
		}
		left += int64(partSize - n)
	}
	b.ahead.add(nil, true, nil)
}

// Read reads what was read ahead, and then the rest.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.ahead != nil {
		b.ahead.stop() // the rest is read by who asks for it
		if n, err := b.ahead.take(p); n > 0 || err != nil {
			return n, err
		}
	}
	return b.read(p)
}

// Close does nothing: what forwards the body may not end that of the server.
func (b *requestBody) Close() error { return nil }

// early reports whether the request is answered before its body was read to its end.
func (b *requestBody) early() bool { return b != nil && !b.whole.Load() }

// finish ends the reading before the handler ends. Of a body that was not read to its
// end net/http discards a part, so that the client, which may still send, reads the
// answer and not that the connection was reset.
func (b *requestBody) finish(w *http.ResponseController) {
	if b.ahead != nil {
		b.ahead.drop()
	}
	if !b.early() {
		return
	}
	_ = w.SetReadDeadline(time.Now().Add(linger))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
	_ = b.server.Close()
}

// An ahead is what was read of a body before the request was sent.
type ahead struct {
	memory *memory
	over   atomic.Bool // no more is read ahead

	mu    sync.Mutex
	grown *sync.Cond
	parts [][]byte
	spare int   // bytes taken of the memory, and not used yet
	ended bool  // nothing is added any more
	err   error // why; nil if the rest is to be read by who asks for it
	gone  bool  // nothing is kept any more
}

func newAhead(m *memory) *ahead {
	a := &ahead{memory: m}
	a.grown = sync.NewCond(&a.mu)
	return a
}

// room waits for memory, and reports whether to read on.
func (a *ahead) room(n int) bool {
	if !a.memory.take(n, a.over.Load) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spare = n
	return true
}

// stop ends the reading ahead.
func (a *ahead) stop() {
	if !a.over.Swap(true) {
		a.memory.wake()
	}
}

// drop forgets what was read.
func (a *ahead) drop() {
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	for _, part := range a.parts {
		a.memory.give(len(part))
	}
	a.parts = nil
}

func (a *ahead) add(data []byte, ended bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	unused := a.spare
	if len(data) > 0 && !a.gone {
		a.parts = append(a.parts, bytes.Clone(data))
		unused -= len(data)
	}
	a.spare = 0
	if unused > 0 {
		a.memory.give(unused)
	}
	a.ended, a.err = ended, err
	a.grown.Signal()
}

// take waits until there is something, and returns 0 and nil if the rest is to be read.
func (a *ahead) take(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.parts) == 0 && !a.ended {
		a.grown.Wait()
	}
	if len(a.parts) == 0 {
		return 0, a.err
	}
	n := copy(p, a.parts[0])
	if a.parts[0] = a.parts[0][n:]; len(a.parts[0]) == 0 {
		a.parts = a.parts[1:]
	}
	a.memory.give(n)
	return n, nil
}
