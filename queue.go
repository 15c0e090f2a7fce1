package ratelimit

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is Gate.MaxKeys if that is 0. Beyond it the key with which the least is lost
	// is forgotten, of these the one used longest ago, but never one with a wait in force.
	maxKeys = 16_384
	// maxKey is the length of a key; longer ones are remembered by a hash.
	maxKey = 256
	// sweepTime is how often waits are looked at that may have ended.
	sweepTime = time.Second
)

// A keyName is a key in two parts. To look up an origin, which consists of both, costs
// no memory.
type keyName struct{ scheme, rest string }

// nameOfKey returns a key in its parts.
func nameOfKey(key string) keyName {
	if scheme, rest, ok := strings.Cut(key, "://"); ok && scheme != "" {
		return keyName{scheme, rest}
	}
	return keyName{rest: key}
}

// String returns the key. An origin is written as RFC 6454 Section 6.2 has it.
func (k keyName) String() string {
	if k.scheme == "" {
		return k.rest
	}
	return k.scheme + "://" + k.rest
}

// short returns a hash in place of a long key.
func (k keyName) short() keyName {
	if len(k.scheme)+len(k.rest) > maxKey {
		return keyName{keyMark, hashOf([]byte(k.String()))}
	}
	return k
}

// belongsTo reports whether k was made of another key: by KeyBy of its origin.
func (k keyName) belongsTo(other keyName) bool {
	return other.scheme != "" && strings.HasPrefix(k.rest, other.rest+keyMark)
}

// keyMark stands between the origin and the hash in a key of [KeyBy]. No origin has it.
const keyMark = "#"

// hashOf returns 128 bits of the SHA-256 of data, in hexadecimal: the same in every process.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// An entry is what is known of a key, and who waits for it. It is guarded by the
// lock of its Gate.
type entry struct {
	key     keyName
	machine machine.Machine
	advice  Advice // from the most recent response that made things newer or stricter
	era     int    // grows when the key is forgotten
	queue   queue
	doomed  deadlines // of the waiters in queue that have one
	timer   *time.Timer
	until   time.Time // when the timer rings; zero while none waits
	loss    machine.Loss
	inList  *list.Element // in the list of that loss
}

// forget forgets what was learnt. The requests under way belong to an earlier era.
func (e *entry) forget() {
	e.era++
	e.machine, e.advice = machine.Machine{}, Advice{}
}

// entry returns what is known of a key, or nil if nothing can be remembered of it.
// The lock is held.
func (g *Gate) entry(key keyName, now time.Time) *entry {
	key = key.short()
	if e := g.keys[key]; e != nil {
		if r := g.settings(); e.queue.n == 0 && e.machine.Idle(now, &r) {
			e.forget()
		}
		return e
	}
	most := g.MaxKeys
	if most <= 0 {
		most = maxKeys
	}
	if len(g.keys) >= most && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[keyName]*entry)
	}
	e := &entry{key: keyName{strings.Clone(key.scheme), strings.Clone(key.rest)}}
	e.inList = g.lists[e.loss].PushBack(e)
	g.keys[e.key] = e
	return e
}

// displace forgets the key with which the least is lost, and reports whether there
// is one.
func (g *Gate) displace(now time.Time) bool {
	for lost := range machine.WaitLost {
		if oldest := g.lists[lost].Front(); oldest != nil {
			g.remove(oldest.Value.(*entry))
			return true
		}
	}
	if now.Sub(g.swept) < sweepTime {
		return false
	}
	g.swept = now
	waits := &g.lists[machine.WaitLost]
	for range waits.Len() { // each goes to the back, or to where it belongs now
		g.settle(waits.Front().Value.(*entry), now)
	}
	return g.displace(now)
}

func (g *Gate) remove(e *entry) {
	g.lists[e.loss].Remove(e.inList)
	delete(g.keys, e.key)
}

// settle puts an entry, which has just been used, where it belongs.
func (g *Gate) settle(e *entry, now time.Time) {
	r := g.settings()
	lost := e.machine.Loss(now, &r)
	if e.queue.n > 0 {
		lost = machine.WaitLost
	}
	if lost == e.loss {
		g.lists[lost].MoveToBack(e.inList)
		return
	}
	g.lists[e.loss].Remove(e.inList)
	e.loss, e.inList = lost, g.lists[lost].PushBack(e)
}

// look tells the machine the time, and asks whether a request may be sent.
func (e *entry) look(g *Gate, now time.Time, prices []machine.Price) machine.Verdict {
	r := g.settings()
	e.machine.Tick(now, &r)
	return e.machine.Ask(now, &r, prices)
}

// state returns the Wait of the next request with these prices. It changes nothing.
func (e *entry) state(g *Gate, now time.Time, prices []machine.Price) Wait {
	r := g.settings()
	if front := e.queue.first; front != nil { // nothing overtakes it
		prices = front.pass.trip.Prices
	}
	v := e.machine.Peek(now, &r, prices)
	w := e.waitOf(&v)
	w.Queued = e.queue.n
	return w
}

// waitOf returns what a verdict says of a wait.
func (e *entry) waitOf(v *machine.Verdict) Wait {
	w := Wait{Key: e.key.String(), UnderWay: e.machine.UnderWay(), Advice: e.advice, Reason: string(v.Reason)}
	if !v.Depends {
		w.Until = v.Until
	}
	return w
}

// send counts a request as sent.
func (e *entry) send(g *Gate, p *Pass, now time.Time) {
	p.entry, p.era = e, e.era
	r := g.settings()
	e.machine.Send(&p.trip, now, &r)
}

// A waiter is a caller that waits. There may be many, so it is small.
type waiter struct {
	pass       *Pass
	err        error         // why it will not be let through
	wake       chan struct{} // closed when pass or err is decided
	deadline   time.Time     // zero if there is none
	prev, next *waiter       // in the queue
	index      int32         // in the deadlines
	decided    bool
}

// A queue holds waiters in the order in which they came.
type queue struct {
	first, last *waiter
	n           int
}

func (q *queue) push(w *waiter) {
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.n++
}

func (q *queue) pushFront(w *waiter) {
	w.next = q.first
	if q.first == nil {
		q.last = w
	} else {
		q.first.prev = w
	}
	q.first = w
	q.n++
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.n--
}

// deadlines is a heap of waiters, the earliest deadline first.
type deadlines []*waiter

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = int32(i), int32(j)
}

func (d *deadlines) Push(x any) {
	w := x.(*waiter)
	w.index = int32(len(*d))
	*d = append(*d, w)
}

func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = slices.Delete(*d, len(*d)-1, len(*d))
	return last
}

// A notice is called before a caller begins to wait, and what it returns when the wait
// is over.
type notice func(Wait) (done func())

// An entrant is a request that asks to be let through.
type entrant struct {
	key       keyName // the zero keyName is never held back
	prices    []machine.Price
	cancelled <-chan struct{} // when it is closed the wait ends; may be nil
	follows   bool            // a redirection: it has waited its turn, and waits in front of the others
	waiting   notice          // is called before Gate.Waiting; may be nil
	wait      *Wait           // for these, when the wait begins; nil if there are none
}

// enter waits until a request may be sent.
func (g *Gate) enter(ctx context.Context, r *entrant) (*Pass, error) {
	if ctx.Err() != nil { // it would be counted without being sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g}
	p.trip.Prices = r.prices
	if r.key == (keyName{}) {
		return p, nil
	}
	deadline, _ := ctx.Deadline()
	w, e, err := g.begin(p, r, deadline)
	switch {
	case err != nil:
		g.announce(r)()
		return nil, err
	case w == nil:
		return p, nil
	}
	return g.wait(ctx, r, e, w)
}

// begin lets a request through if it may be sent at once. Otherwise it sets r.wait and puts
// the request into the queue, or returns an error if the request would wait in vain.
func (g *Gate) begin(p *Pass, r *entrant, deadline time.Time) (*waiter, *entry, *WaitError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now() // not before: what the machine is told goes forwards
	e := g.entry(r.key, now)
	if e == nil {
		return nil, nil, nil
	}
	v := e.look(g, now, r.prices)
	ahead := e.queue.n
	if r.follows {
		ahead = 0
	}
	if ahead == 0 && v.Open || v.Hurries(deadline, ahead) {
		e.send(g, p, now)
		g.settle(e, now)
		return nil, nil, nil
	}
	if r.waiting != nil || g.Waiting != nil {
		w := e.state(g, now, r.prices)
		r.wait = &w
	}
	if err := e.refuses(&v, deadline); err != nil {
		return nil, nil, err
	}
	w := e.enqueue(p, deadline, r.follows)
	g.admit(e, now)
	if w.decided && w.err == nil { // those ahead of it could go, and so it could
		return nil, nil, nil
	}
	return w, e, nil
}

// announce calls r.waiting and then Gate.Waiting, because a wait begins. It returns a
// function that calls, in the other order, what these have returned.
func (g *Gate) announce(r *entrant) (over func()) {
	if r.wait == nil {
		return func() {}
	}
	var first, second func()
	over = func() {
		if first != nil {
			defer first()
		}
		if second != nil {
			second()
		}
	}
	begun := false
	defer func() {
		if !begun { // the second panicked
			over()
		}
	}()
	if r.waiting != nil {
		first = r.waiting(*r.wait)
	}
	if g.Waiting != nil {
		second = g.Waiting(*r.wait)
	}
	begun = true
	return over
}

// refuses returns an error if the deadline of a request is certain to come before an
// answer would.
func (e *entry) refuses(v *machine.Verdict, deadline time.Time) *WaitError {
	if v.Certain && !deadline.IsZero() && deadline.Before(v.Until.Add(e.machine.Fastest())) {
		return e.tooLate(v)
	}
	return nil
}

// wait waits until a waiter is let through.
func (g *Gate) wait(ctx context.Context, r *entrant, e *entry, w *waiter) (*Pass, error) {
	over := false
	defer func() {
		if !over { // Waiting panicked, or what it returned
			_, _ = g.leave(e, w, errCancelled)
			w.pass.Failed() // if it has been let through meanwhile
		}
	}()
	done := g.announce(r)
	p, err := g.await(ctx, r.cancelled, e, w)
	done()
	over = true
	return p, err
}

// await waits until the wait is decided, or the caller gives up.
func (g *Gate) await(ctx context.Context, cancelled <-chan struct{}, e *entry, w *waiter) (*Pass, error) {
	select {
	case <-w.wake:
		return w.result()
	case <-ctx.Done():
		return g.leave(e, w, context.Cause(ctx))
	case <-cancelled:
		return g.leave(e, w, errCancelled)
	}
}

var errCancelled = errors.New("ratelimit: request canceled")

// leave takes a waiter out of the queue, unless its wait has been decided meanwhile.
func (g *Gate) leave(e *entry, w *waiter, cause error) (*Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.decided {
		now := time.Now()
		if cause == context.DeadlineExceeded {
			cause = e.late(g, w, now)
		}
		e.dequeue(w)
		w.decide(cause)
		g.admit(e, now)
	}
	return w.result()
}

// late returns the error for a waiter whose deadline has come.
func (e *entry) late(g *Gate, w *waiter, now time.Time) error {
	v := e.look(g, now, w.pass.trip.Prices)
	if !v.Known {
		v.Until = time.Time{}
	}
	return e.tooLate(&v)
}

// tooLate returns the error for a request whose deadline comes before the end of a wait.
func (e *entry) tooLate(v *machine.Verdict) *WaitError {
	return &WaitError{Until: v.Until, Advice: e.advice, Reason: string(v.Reason)}
}

// result returns what has been decided.
func (w *waiter) result() (*Pass, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.pass, nil
}

// admit lets through all waiters that may be sent, first come, first served, and has the
// timer ring when there may be more.
func (g *Gate) admit(e *entry, now time.Time) {
	if e.queue.n > 0 || e.timer != nil {
		var until time.Time
		for e.queue.n > 0 && until.IsZero() {
			until = e.admitOne(g, now)
		}
		g.ringAt(e, until, now)
	}
	g.settle(e, now)
}

// admitOne lets one waiter through, or refuses one whose deadline comes before an answer
// would. If it can do neither yet, it returns when to ask again.
func (e *entry) admitOne(g *Gate, now time.Time) (until time.Time) {
	front := e.queue.first
	v := e.look(g, now, front.pass.trip.Prices)
	switch {
	case v.Open && front.inTime(now.Add(e.machine.Fastest())):
		e.letThrough(g, front, now)
	case v.Open:
		e.dismiss(front, &WaitError{Until: now, Advice: e.advice})
	case len(e.doomed) > 0 && v.Hurries(e.doomed[0].deadline, 0):
		e.letThrough(g, e.doomed[0], now)
	case len(e.doomed) > 0 && e.refuses(&v, e.doomed[0].deadline) != nil:
		e.dismiss(e.doomed[0], e.refuses(&v, e.doomed[0].deadline))
	default:
		return v.Until
	}
	return time.Time{}
}

// inTime reports whether an answer at that time comes before the deadline.
func (w *waiter) inTime(answer time.Time) bool {
	return w.deadline.IsZero() || !w.deadline.Before(answer)
}

// ringAt has the timer of an entry ring at a time, not at all if that is zero. The timer
// belongs to no caller, so that a caller that is slow to look holds back no other.
func (g *Gate) ringAt(e *entry, until, now time.Time) {
	switch {
	case until.IsZero():
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
	case until.Equal(e.until):
	case e.timer != nil:
		e.timer.Reset(until.Sub(now))
	default:
		e.timer = time.AfterFunc(until.Sub(now), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if e.queue.n > 0 {
				e.until = time.Time{} // or a timer that rings too early is not set to that time again
				g.admit(e, time.Now())
			}
		})
	}
	e.until = until
}

// letThrough sends a request that has waited.
func (e *entry) letThrough(g *Gate, w *waiter, now time.Time) {
	e.dequeue(w)
	e.send(g, w.pass, now)
	w.decide(nil)
}

// dismiss ends a wait that would be in vain.
func (e *entry) dismiss(w *waiter, err *WaitError) {
	e.dequeue(w)
	w.decide(err)
}

// decide ends the wait.
func (w *waiter) decide(err error) {
	w.err, w.decided = err, true
	close(w.wake)
}

// enqueue puts a request at the end of the queue, or at its front.
func (e *entry) enqueue(p *Pass, deadline time.Time, first bool) *waiter {
	w := &waiter{pass: p, wake: make(chan struct{}), deadline: deadline}
	if first {
		e.queue.pushFront(w)
	} else {
		e.queue.push(w)
	}
	if !deadline.IsZero() {
		heap.Push(&e.doomed, w)
	}
	return w
}

func (e *entry) dequeue(w *waiter) {
	e.queue.remove(w)
	if !w.deadline.IsZero() {
		heap.Remove(&e.doomed, int(w.index))
	}
}
