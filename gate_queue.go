package ratelimit

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"
)

// A waiter is a caller that waits. There may be many, so it is small.
type waiter struct {
	pass         *Pass
	err          error         // why it will not be let through
	wake         chan struct{} // closed when pass or err is decided
	deadline     time.Time     // zero if there is none
	link[waiter]               // in the queue
	index        int32         // in the deadlines
	decided      bool
}

// A queue holds waiters in the order in which they came.
type queue = chain[waiter, *waiter]

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
type notice func(until time.Time, a Advice) (done func())

// enter is Enter with two additions: it ends when cancelled is closed, and it calls own
// before Gate.Waiting.
func (g *Gate) enter(ctx context.Context, cancelled <-chan struct{}, key keyName, prices []price, own notice) (*Pass, error) {
	if ctx.Err() != nil { // it would be counted without being sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g}
	p.trip.prices = prices
	if key == (keyName{}) {
		return p, nil
	}
	deadline, _ := ctx.Deadline()
	w, e, err := g.begin(p, key, deadline)
	switch {
	case err != nil:
		g.announce(key, own, err.Until, err.Advice)()
		return nil, err
	case w == nil:
		return p, nil
	}
	return g.wait(ctx, cancelled, key, e, w, own)
}

// begin lets a request through if it may be sent at once. Otherwise it puts the request
// into the queue and returns its waiter, or an error if it would wait in vain.
func (g *Gate) begin(p *Pass, key keyName, deadline time.Time) (*waiter, *entry, *WaitError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now() // not before: what the machine is told goes forwards
	e := g.entry(key, now)
	if e == nil {
		return nil, nil, nil
	}
	v := e.look(g, now, p.trip.prices)
	if ahead := e.queue.n; ahead == 0 && v.open || v.hurries(deadline, ahead) {
		e.send(g, p, now)
		g.settle(e, now)
		return nil, nil, nil
	}
	if err := e.refuses(&v, deadline); err != nil {
		return nil, nil, err
	}
	w := e.enqueue(p, deadline)
	g.admit(e, now)
	g.settle(e, now)
	if w.decided && w.err == nil { // those ahead of it could go, and so it could
		return nil, nil, nil
	}
	return w, e, nil
}

// announce calls own and then Gate.Waiting, because a wait begins. It returns a function
// that calls, in the other order, what these have returned.
func (g *Gate) announce(key keyName, own notice, until time.Time, a Advice) (over func()) {
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
	if own != nil {
		first = own(until, a)
	}
	if g.Waiting != nil {
		second = g.Waiting(key.String(), until, a)
	}
	begun = true
	return over
}

// refuses returns an error if the deadline of a request is certain to come before an
// answer would.
func (e *entry) refuses(v *verdict, deadline time.Time) *WaitError {
	if v.certain && !deadline.IsZero() && deadline.Before(v.until.Add(e.machine.answers.fastest)) {
		return &WaitError{Until: v.until, Advice: e.advice}
	}
	return nil
}

// wait waits until a waiter is let through.
func (g *Gate) wait(ctx context.Context, cancelled <-chan struct{}, key keyName, e *entry, w *waiter, own notice) (*Pass, error) {
	over := false
	defer func() {
		if !over { // Waiting panicked, or what it returned
			_, _ = g.leave(e, w, errCancelled)
			w.pass.Failed() // if it has been let through meanwhile
		}
	}()
	done := func() {}
	if own != nil || g.Waiting != nil {
		g.mu.Lock()
		until, advice := e.until, e.advice
		g.mu.Unlock()
		done = g.announce(key, own, until, advice)
	}
	p, err := g.await(ctx, cancelled, e, w)
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
		g.settle(e, now)
	}
	return w.result()
}

// late returns the error for a waiter whose deadline has come.
func (e *entry) late(g *Gate, w *waiter, now time.Time) error {
	err := &WaitError{Advice: e.advice}
	if v := e.look(g, now, w.pass.trip.prices); v.known {
		err.Until = v.until
	}
	return err
}

// result returns what has been decided.
func (w *waiter) result() (*Pass, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.pass, nil
}

// admit lets through all waiters that may be sent, first come, first served, and has the
// timer ring when there may be more. It refuses those whose deadline comes before an
// answer would.
func (g *Gate) admit(e *entry, now time.Time) {
	for e.queue.n > 0 {
		front := e.queue.first
		v := e.look(g, now, front.pass.trip.prices)
		switch {
		case v.open && front.inTime(now.Add(e.machine.answers.fastest)):
			e.letThrough(g, front, now)
		case v.open:
			e.dismiss(front, &WaitError{Until: now, Advice: e.advice})
		case len(e.doomed) > 0 && v.hurries(e.doomed[0].deadline, 0):
			e.letThrough(g, e.doomed[0], now)
		case len(e.doomed) > 0 && e.refuses(&v, e.doomed[0].deadline) != nil:
			e.dismiss(e.doomed[0], e.refuses(&v, e.doomed[0].deadline))
		default:
			g.ringAt(e, v.until, now)
			return
		}
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer, e.until = nil, time.Time{}
	}
}

// inTime reports whether an answer at that time comes before the deadline.
func (w *waiter) inTime(answer time.Time) bool {
	return w.deadline.IsZero() || !w.deadline.Before(answer)
}

// ringAt has the timer of an entry ring at a time. The timer belongs to no caller, so
// that a caller that is slow to look holds back no other.
func (g *Gate) ringAt(e *entry, until, now time.Time) {
	if e.until.Equal(until) {
		return
	}
	e.until = until
	if e.timer != nil {
		e.timer.Reset(until.Sub(now))
		return
	}
	e.timer = time.AfterFunc(until.Sub(now), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if e.queue.n > 0 {
			e.until = time.Time{}
			now := time.Now()
			g.admit(e, now)
			g.settle(e, now)
		}
	})
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

// enqueue puts a request at the end of the queue.
func (e *entry) enqueue(p *Pass, deadline time.Time) *waiter {
	w := &waiter{pass: p, wake: make(chan struct{}), deadline: deadline}
	e.queue.push(w)
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

// enterAtOnce counts a request that nothing holds back.
func (g *Gate) enterAtOnce(ctx context.Context, key keyName, prices []price) (*Pass, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g}
	p.trip.prices = prices
	if key == (keyName{}) {
		return p, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if e := g.entry(key, now); e != nil {
		e.look(g, now, prices)
		e.send(g, p, now)
		g.settle(e, now)
	}
	return p, nil
}
