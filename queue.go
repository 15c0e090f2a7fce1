package ratelimit

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// look asks the machine at a time whether a request with these prices may be sent.
func (e *entry) look(g *Gate, now time.Time, prices []machine.Price) machine.Verdict {
	r := e.settings(g)
	e.machine.Tick(now, &r)
	return e.machine.Ask(now, &r, prices)
}

// state returns the Wait of a request with these prices, or of the front of the queue, which
// nothing overtakes. It changes nothing.
func (e *entry) state(g *Gate, now time.Time, prices []machine.Price) Wait {
	r := e.settings(g)
	if front := e.queue.first; front != nil {
		prices = front.pass.trip.Prices
	}
	v := e.machine.Peek(now, &r, prices)
	w := e.waitOf(&v)
	w.Queued = e.queue.n
	return w
}

// waitOf returns the Wait that a verdict means.
func (e *entry) waitOf(v *machine.Verdict) Wait {
	w := Wait{Key: e.key.String(), UnderWay: e.machine.UnderWay(), Advice: e.advice, Reason: string(v.Reason)}
	if !v.Depends {
		w.Until = v.Until
	}
	return w
}

// holder returns the entry that holds a request back, with its verdict: the key e, or a resource
// of the path. It returns nil if the request may be sent. The entry past is not asked, because the
// request has waited there.
func (g *Gate) holder(e *entry, p *Pass, deadline, now time.Time, first bool, past *entry) (*entry, machine.Verdict) {
	holds := func(x *entry) (machine.Verdict, bool) {
		if x == past {
			return machine.Verdict{}, false
		}
		v := x.look(g, now, p.trip.Prices)
		ahead := x.queue.n
		if first {
			ahead = 0
		}
		return v, !(ahead == 0 && v.Open || v.Hurries(deadline, ahead))
	}
	if v, ok := holds(e); ok {
		return e, v
	}
	r := g.settings()
	for _, x := range e.resourcesOf(p.path, now, &r) {
		x.refresh(now, &r)
		if v, ok := holds(x); ok {
			return x, v
		}
	}
	return nil, machine.Verdict{}
}

// send counts a request as sent with a key, and with the resources of its path.
func (e *entry) send(g *Gate, p *Pass, now time.Time) {
	r := g.settings()
	p.entry, p.era = e, e.era
	e.machine.Send(&p.trip, now, &r)
	if p.path == "" {
		return
	}
	p.trip.Owner = p
	for _, x := range e.resourcesOf(p.path, now, &r) {
		p.next = &leg{entry: x, era: x.era, next: p.next, trip: machine.Trip{Prices: p.trip.Prices}}
		x.machine.Send(&p.next.trip, now, &r)
	}
}

// A waiter is a request that waits. There may be many, so it is small.
type waiter struct {
	pass       *Pass
	at         *entry        // in whose queue it is
	err        error         // why it is not let through
	wake       chan struct{} // closed when pass or err is decided
	deadline   time.Time     // zero if there is none
	prev, next *waiter       // in the queue
	index      int32         // in the deadlines
	first      bool          // it waits in front of the others
	decided    bool
}

// A queue is a list of waiters in the order in which they came. Waiters that are marked as first
// are in front of the others.
type queue struct {
	first, last *waiter
	follower    *waiter // the last waiter that is marked as first, or nil
	n           int
}

// add puts a waiter behind the others, or behind those marked as first if it is one of them.
func (q *queue) add(w *waiter) {
	w.prev, w.next = q.last, nil
	if w.first {
		w.prev, w.next = q.follower, q.first
		if q.follower != nil {
			w.next = q.follower.next
		}
		q.follower = w
	}
	if w.prev == nil {
		q.first = w
	} else {
		w.prev.next = w
	}
	if w.next == nil {
		q.last = w
	} else {
		w.next.prev = w
	}
	q.n++
}

func (q *queue) remove(w *waiter) {
	if w == q.follower {
		q.follower = w.prev
	}
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

// A notice is called before a request begins to wait. The function that it returns is called
// when the wait is over.
type notice func(Wait) (done func())

// An entrant is a request that comes to a Gate.
type entrant struct {
	key       keyName // a request with the zero keyName never waits
	path      string  // the first segment, which belongs to a resource; "" if the key has none
	prices    []machine.Price
	cancelled <-chan struct{} // closed to end the wait; may be nil
	follows   bool            // it follows a redirection: it has waited its turn already
	waiting   notice          // called before Gate.Waiting; may be nil
	wait      *Wait           // for both, when the wait begins; nil if neither is set
}

// enter waits until a request may be sent.
func (g *Gate) enter(ctx context.Context, r *entrant) (*Pass, error) {
	if ctx.Err() != nil { // or the request is counted without being sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g, path: r.path}
	p.trip.Prices = r.prices
	if r.key == (keyName{}) {
		return p, nil
	}
	deadline, _ := ctx.Deadline()
	w, err := g.begin(p, r, deadline)
	switch {
	case err != nil:
		g.announce(r)()
		return nil, err
	case w == nil:
		return p, nil
	}
	return g.wait(ctx, r, w)
}

// begin lets a request through if it may be sent at once. Otherwise it sets r.wait and puts the
// request into the queue. If the deadline is certain to come first, it returns an error.
func (g *Gate) begin(p *Pass, r *entrant, deadline time.Time) (*waiter, *WaitError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now() // with the lock, so that the time of the machine never goes back
	e := g.entry(r.key, now)
	if e == nil {
		return nil, nil
	}
	x, v := g.holder(e, p, deadline, now, r.follows, nil)
	if x == nil {
		e.send(g, p, now)
		g.settle(e, now)
		return nil, nil
	}
	if r.waiting != nil || g.Waiting != nil {
		w := x.state(g, now, r.prices)
		r.wait = &w
	}
	if err := x.refuses(&v, deadline); err != nil {
		return nil, err
	}
	w := &waiter{pass: p, wake: make(chan struct{}), deadline: deadline, first: r.follows}
	x.enqueue(w)
	g.admit(x, now)
	if w.decided && w.err == nil { // the waiters ahead could be sent, and then this one
		return nil, nil
	}
	return w, nil
}

// announce calls r.waiting and then Gate.Waiting. It returns a function that calls their results
// in reverse order.
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
		if !begun { // a panic of the second
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

// refuses returns an error if the deadline of a request is certain to come before its answer.
func (e *entry) refuses(v *machine.Verdict, deadline time.Time) *WaitError {
	if v.Certain && !deadline.IsZero() && deadline.Before(v.Until.Add(e.machine.Fastest())) {
		return e.tooLate(v)
	}
	return nil
}

// wait waits until a waiter is let through.
func (g *Gate) wait(ctx context.Context, r *entrant, w *waiter) (*Pass, error) {
	over := false
	defer func() {
		if !over { // a panic of Waiting, or of its result
			_, _ = g.leave(w, errCancelled)
			w.pass.Failed() // if the request has been let through meanwhile
		}
	}()
	done := g.announce(r)
	p, err := g.await(ctx, r.cancelled, w)
	done()
	over = true
	return p, err
}

// await waits until the wait is decided, or the caller gives up.
func (g *Gate) await(ctx context.Context, cancelled <-chan struct{}, w *waiter) (*Pass, error) {
	select {
	case <-w.wake:
		return w.result()
	case <-ctx.Done():
		return g.leave(w, context.Cause(ctx))
	case <-cancelled:
		return g.leave(w, errCancelled)
	}
}

var errCancelled = errors.New("ratelimit: request canceled")

// leave removes a waiter from its queue, unless its wait has been decided meanwhile.
func (g *Gate) leave(w *waiter, cause error) (*Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.decided {
		e, now := w.at, time.Now()
		if cause == context.DeadlineExceeded {
			cause = e.late(g, w, now)
		}
		e.dequeue(w)
		w.decide(cause)
		g.admit(e, now)
	}
	return w.result()
}

// late returns the error of a waiter whose deadline has come.
func (e *entry) late(g *Gate, w *waiter, now time.Time) error {
	v := e.look(g, now, w.pass.trip.Prices)
	if !v.Known {
		v.Until = time.Time{}
	}
	return e.tooLate(&v)
}

// tooLate returns the error of a request whose deadline comes before the end of a wait.
func (e *entry) tooLate(v *machine.Verdict) *WaitError {
	return &WaitError{Until: v.Until, Advice: e.advice, Reason: string(v.Reason)}
}

// result returns the decision.
func (w *waiter) result() (*Pass, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.pass, nil
}

// admit lets through all waiters that may be sent, in their order, and sets the timer to the
// time of the next.
func (g *Gate) admit(e *entry, now time.Time) {
	if e.queue.n > 0 || e.timer != nil {
		var until time.Time
		for e.queue.n > 0 && until.IsZero() {
			until = g.admitOne(e, now)
		}
		g.ringAt(e, until, now)
	}
	g.settle(e, now)
}

// admitOne lets one waiter through, or fails one whose deadline comes too early. If it can do
// neither yet, it returns when to call it again.
func (g *Gate) admitOne(e *entry, now time.Time) (until time.Time) {
	front := e.queue.first
	v := e.look(g, now, front.pass.trip.Prices)
	switch {
	case v.Open && front.inTime(now.Add(e.machine.Fastest())):
		g.letThrough(front, now)
	case v.Open:
		front.dismiss(&WaitError{Until: now, Advice: e.advice})
	case len(e.doomed) > 0 && v.Hurries(e.doomed[0].deadline, 0):
		g.letThrough(e.doomed[0], now)
	case len(e.doomed) > 0 && e.refuses(&v, e.doomed[0].deadline) != nil:
		e.doomed[0].dismiss(e.refuses(&v, e.doomed[0].deadline))
	default:
		return v.Until
	}
	return time.Time{}
}

// inTime reports whether an answer at a time comes before the deadline.
func (w *waiter) inTime(answer time.Time) bool {
	return w.deadline.IsZero() || !w.deadline.Before(answer)
}

// ringAt sets the timer of an entry, or stops it if until is zero. The timer belongs to no
// caller, so that a slow caller delays no other.
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
				e.until = time.Time{} // so that a timer that has rung too early is set again
				g.admit(e, time.Now())
			}
		})
	}
	e.until = until
}

// letThrough sends a request that has waited for its entry. If another entry holds the request
// back, it moves to the queue of that entry.
func (g *Gate) letThrough(w *waiter, now time.Time) {
	past, e := w.at, w.at.ofKey()
	past.dequeue(w)
	x, v := g.holder(e, w.pass, w.deadline, now, w.first, past)
	if x == nil {
		e.send(g, w.pass, now)
		w.decide(nil)
		return
	}
	if err := x.refuses(&v, w.deadline); err != nil {
		w.decide(err)
		return
	}
	x.enqueue(w)
	if x.queue.n == 1 { // else the timer is set
		g.ringAt(x, v.Until, now)
	}
}

// dismiss ends the wait of a request that cannot be sent in time.
func (w *waiter) dismiss(err *WaitError) {
	w.at.dequeue(w)
	w.decide(err)
}

// decide ends the wait.
func (w *waiter) decide(err error) {
	w.err, w.decided = err, true
	close(w.wake)
}

// enqueue puts a request into the queue of an entry.
func (e *entry) enqueue(w *waiter) {
	w.at = e
	e.ofKey().waiting++
	e.queue.add(w)
	if !w.deadline.IsZero() {
		heap.Push(&e.doomed, w)
	}
}

func (e *entry) dequeue(w *waiter) {
	e.queue.remove(w)
	e.ofKey().waiting--
	if !w.deadline.IsZero() {
		heap.Remove(&e.doomed, int(w.index))
	}
}
