package proxy

import (
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// partSize is the number of bytes of a part of memory.
const partSize = 4 << 10

// linger is the time in which a client that still sends its body can read an early answer.
const linger = 500 * time.Millisecond

// A requestBody is the body of a request that the proxy forwards. http.Transport may read a body longer
// than the handler runs, and the body that net/http gave to the handler panics then. Therefore only the
// method read reads that body, and never after finish.
type requestBody struct {
	server  io.ReadCloser // the body from the server of net/http
	reads   sync.Mutex    // is held while server is read
	proceed func()        // lets a client that expects 100 send the body; nil if it does not
	whole   atomic.Bool   // the body was read to its end
	broken  atomic.Bool   // the body has no end, because the client has hung up or has broken the rules of HTTP
	gone    atomic.Bool   // the request has ended: nothing is read or kept

	memory  *memory
	most    int64 // bytes of the memory that this body may take
	mu      sync.Mutex
	grown   sync.Cond
	ahead   net.Buffers // what was read ahead, in parts
	taken   int64       // bytes of the memory for ahead, and for the part that is being read
	reading bool        // more is being read ahead
	asked   bool        // the request is sent: no more is read ahead
}

// bodyOf returns the body of a request, or nil if it has none. One body uses at most a sixteenth of
// the memory.
func (p *Proxy) bodyOf(w http.ResponseWriter, r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &requestBody{server: r.Body, memory: &p.memory, most: max(p.config.BodyMemory/16, partSize)}
	b.grown.L = &b.mu
	if r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		b.proceed = func() { w.WriteHeader(http.StatusContinue) }
	}
	return b
}

func (b *requestBody) read(p []byte) (int, error) {
	b.reads.Lock()
	defer b.reads.Unlock()
	if b.gone.Load() {
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

// begin begins to read ahead while the request waits, or goes on after there was no memory. It calls
// leave if the body turns out to be broken. net/http notices that a client has hung up only when it has
// read everything that the client had sent.
func (b *requestBody) begin(leave func(error)) {
	if !b.start() {
		return
	}
	go func() {
		b.readAhead(math.MaxInt)
		if b.broken.Load() {
			leave(errBroken)
		}
	}()
}

// start lets the client send its body, and reports whether the caller must call readAhead.
func (b *requestBody) start() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proceed != nil && !b.asked { // otherwise net/http would, while the server's hints are passed on
		b.proceed()
		b.proceed = nil // once, in the goroutine of the handler
	}
	if b.reading || !b.hasRoom(0) {
		return false
	}
	b.reading = true
	return true
}

// readAhead reads until there is no room, or more than most bytes were read. It returns how many bytes
// were read.
func (b *requestBody) readAhead(most int) (size int) {
	var room []byte // the rest of the last part
	for more := true; more && size <= most; {
		if len(room) == 0 {
			room = make([]byte, partSize)
		}
		n, _ := b.read(room)
		more = b.keep(room, n)
		room = room[n:]
		size += n
	}
	return size
}

// keep keeps the first n bytes of room, and reports whether to read more.
func (b *requestBody) keep(room []byte, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch last := len(b.ahead) - 1; {
	case n == 0 || b.gone.Load():
	case last < 0 || len(room) == partSize:
		b.ahead = append(b.ahead, room[:n])
	default: // the room follows the last bytes
		b.ahead[last] = b.ahead[last][:len(b.ahead[last])+n]
	}
	b.reading = b.hasRoom(len(room) - n)
	b.release()
	b.grown.Signal()
	return b.reading
}

// hasRoom reports whether to read more. If the last part has no room, it takes memory for another
// part. The caller holds the lock.
func (b *requestBody) hasRoom(room int) bool {
	switch {
	case b.asked || b.whole.Load() || b.broken.Load():
		return false
	case room > 0:
		return true
	case b.taken+partSize > b.most || !b.memory.take(partSize):
		return false
	}
	b.taken += partSize
	return true
}

// release gives the memory back if nothing is kept. The caller holds the lock.
func (b *requestBody) release() {
	if len(b.ahead) == 0 && !b.reading {
		b.memory.give(b.taken)
		b.taken = 0
	}
}

// Read reads what was read ahead, and then the rest.
func (b *requestBody) Read(p []byte) (int, error) {
	if n := b.take(p); n > 0 {
		return n, nil
	}
	return b.read(p)
}

// take copies bytes that were read ahead to p. It waits if more is being read ahead, and returns 0 if
// there is no more.
func (b *requestBody) take(p []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = true
	for len(b.ahead) == 0 && b.reading {
		b.grown.Wait()
	}
	n, _ := b.ahead.Read(p)
	b.release()
	return n
}

// Close does nothing, because http.Transport closes the body while a read may be under way. See
// finish.
func (b *requestBody) Close() error { return nil }

// early reports whether the request is answered before its body was read to its end.
func (b *requestBody) early() bool { return b != nil && !b.whole.Load() }

// finish ends the reading of the body. Call it before the handler ends. If the body was not read to its
// end, net/http discards a part of it, so that a client that still sends can read the answer before the
// connection is reset.
func (b *requestBody) finish(w *http.ResponseController) {
	b.mu.Lock()
	b.asked = true
	b.gone.Store(true)
	b.ahead = nil
	b.release()
	b.mu.Unlock()
	if !b.early() {
		return
	}
	_ = w.SetReadDeadline(time.Now().Add(linger))
	b.reads.Lock()
	defer b.reads.Unlock()
	_ = b.server.Close()
}

// A memory is the number of bytes of all bodies that may still be read ahead.
type memory struct{ left atomic.Int64 }

// take reports whether n bytes are left, and takes them.
func (m *memory) take(n int64) bool {
	if m.left.Add(-n) < 0 {
		m.give(n)
		return false
	}
	return true
}

func (m *memory) give(n int64) { m.left.Add(n) }
