package obey

import (
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// state returns the Wait of a request, or of the front of the queue, which nothing overtakes.
func (e *entry) state(now time.Time, t *machine.Trip) Wait {
	if e.queue.Len() > 0 {
		t = &e.queue.front().pass.trip
	}
	v := e.machine.Ask(now, t)
	w := Wait{Key: e.key, Reason: Reason(v.Reason), Queued: e.queue.Len(), UnderWay: e.machine.UnderWay(), Advice: e.advice}
	if !v.Depends {
		w.Until = v.Until
	}
	return w
}

// A waiter is a request that waits. There may be many, so it is small.
type waiter struct {
	pass     *Pass
	at       *entry        // in whose queue it is, or was last
	place    *list.Element // in the queue
	err      error         // why it is not let through
	wake     chan struct{} // closed when the wait is decided
	deadline time.Time     // zero if there is none
	index    int32         // in the deadlines
	patient  bool          // only the wait has this deadline, and not the answer
	decided  bool
}

// A queue has requests that follow redirections in front of all others. Both kinds are in the
// order of arrival.
type queue struct{ followers, others list.List }

func (q *queue) Len() int { return q.followers.Len() + q.others.Len() }

// of returns the part of the queue that a waiter belongs to.
func (q *queue) of(w *waiter) *list.List {
	if w.pass.trip.Follows {
		return &q.followers
	}
	return &q.others
}

// front returns the waiter in front of all others. The queue must not be empty.
func (q *queue) front() *waiter {
	return cmp.Or(q.followers.Front(), q.others.Front()).Value.(*waiter)
}

// deadlines is a heap of waiters, the earliest deadline first.
type deadlines []*waiter

func (d deadlines) Len() int           { return len(d) }
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
	last := len(*d) - 1
	w := (*d)[last]
	(*d)[last], *d = nil, (*d)[:last]
	return w
}

// enqueue puts a request into the queue of an entry.
func (e *entry) enqueue(w *waiter) {
	w.at = e
	w.place = e.queue.of(w).PushBack(w)
	if !w.deadline.IsZero() {
		heap.Push(&e.doomed, w)
	}
}

func (e *entry) dequeue(w *waiter) {
	e.queue.of(w).Remove(w.place)
	if !w.deadline.IsZero() {
		heap.Remove(&e.doomed, int(w.index))
	}
}

// An entrant is a request that comes to a Gate.
type entrant struct {
	path      string                   // the first segment, which belongs to a resource; "" if the key has none
	trip      machine.Trip             // its prices, and whether it follows a redirection
	cancelled <-chan struct{}          // closed to end the wait; may be nil
	patience  time.Time                // when the wait ends at the latest; zero is when the context ends
	waited    time.Duration            // before earlier tries; counted if the Transport has a Patience
	waiting   func(Wait) (done func()) // called before Gate.Waiting; may be nil
}

// enter waits until a request may be sent. A request with an empty key never waits.
func (g *Gate) enter(ctx context.Context, key []byte, r *entrant) (*Pass, error) {
	if ctx.Err() != nil { // or the request is counted without being sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g, path: r.path, leg: leg{trip: r.trip}}
	asks := waiter{pass: p}
	asks.deadline, _ = ctx.Deadline()
	if !r.patience.IsZero() && (asks.deadline.IsZero() || r.patience.Before(asks.deadline)) {
		asks.deadline, asks.patient = r.patience, true
	}
	w, why := g.begin(&asks, key)
	if w == nil {
		return p, nil
	}
	var expired <-chan time.Time
	if w.patient {
		timer := time.NewTimer(time.Until(w.deadline))
		defer timer.Stop()
		expired = timer.C
	}
	waited := false
	defer func() {
		if !waited { // Waiting has panicked, or its result
			g.leave(w, errCancelled)
			p.Failed() // if the request has been let through meanwhile
		}
	}()
	g.during(why, r.waiting, func() {
		select {
		case <-w.wake:
		case <-ctx.Done():
			g.leave(w, context.Cause(ctx))
		case <-expired:
			g.leave(w, errExpired)
		case <-r.cancelled:
			g.leave(w, errCancelled)
		}
	})
	waited = true
	if w.err != nil {
		return nil, w.err
	}
	return p, nil
}

var (
	errCancelled = errors.New("ratelimit: request canceled")
	errExpired   = errors.New("ratelimit: the patience has ended") // becomes a WaitError
)

// begin lets a request through if it may be sent at once. Otherwise it puts the request into the
// queue, and returns why it waits. If the deadline is certain to come first, the wait is over.
func (g *Gate) begin(asks *waiter, key []byte) (w *waiter, why Wait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now() // with the lock, so that the time of the machine never goes back
	e := g.entry(key, now)
	if e == nil {
		return nil, why
	}
	x, v := e.holder(asks, now)
	if x != nil { // unless its timer is late
		x.admit(now)
		x, v = e.holder(asks, now)
	}
	if x == nil {
		e.send(asks.pass, now)
		return nil, why
	}
	why = x.state(now, &asks.pass.trip)
	w = &waiter{pass: asks.pass, deadline: asks.deadline, patient: asks.patient, wake: make(chan struct{})}
	if x.misses(w, &v) {
		w.decide(x.tooLate(&v))
		return w, why
	}
	x.enqueue(w)
	x.admit(now)
	return w, why
}

// during calls waiting and Gate.Waiting, waits, and then calls their results in reverse order.
// If one of the functions panics, the results of earlier functions are still called.
func (g *Gate) during(why Wait, waiting func(Wait) func(), wait func()) {
	for _, begin := range [...]func(Wait) func(){waiting, g.Waiting} {
		if begin != nil {
			if done := begin(why); done != nil {
				defer done()
			}
		}
	}
	wait()
}

// leave ends a wait, unless it has been decided meanwhile.
func (g *Gate) leave(w *waiter, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.decided {
		return
	}
	e, now := w.at, time.Now()
	if cause == errExpired { // the wait may end at the same time
		if e.admit(now); w.decided {
			return
		}
		e, cause = w.at, context.DeadlineExceeded
	}
	late := !w.deadline.IsZero() && !now.Before(w.deadline)
	if cause == context.DeadlineExceeded || cause == errCancelled && late { // http.Client.Timeout also cancels
		v := e.machine.Ask(now, &e.queue.front().pass.trip) // which nothing overtakes
		if own := e.machine.Ask(now, &w.pass.trip); v.Until.Before(own.Until) {
			v = own
		}
		if v.Depends {
			v.Until = time.Time{}
		}
		cause = e.tooLate(&v)
	}
	e.dequeue(w)
	w.decide(cause)
	e.admit(now)
}

// tooLate returns the error of a request whose deadline comes before the end of a wait.
func (e *entry) tooLate(v *machine.Verdict) *WaitError {
	return &WaitError{Until: v.Until, Advice: e.advice, Reason: Reason(v.Reason)}
}

// misses reports whether the deadline of a request is certain to come before its answer, or before
// the end of its wait if only the wait has a deadline.
func (e *entry) misses(w *waiter, v *machine.Verdict) bool {
	end := v.Until
	if !w.patient {
		end = end.Add(e.machine.Typical)
	}
	return v.Certain && !w.deadline.IsZero() && w.deadline.Before(end)
}

// decide ends a wait.
func (w *waiter) decide(err error) {
	w.err, w.decided = err, true
	close(w.wake)
}

// holder returns the entry that holds a request back, with its verdict: the key e, or a
// resource of the path. It returns nil if the request may be sent. It does not ask the entry
// in whose queue the request was.
func (e *entry) holder(w *waiter, now time.Time) (*entry, machine.Verdict) {
	if v, ok := e.holds(w, now); ok {
		return e, v
	}
	for _, x := range e.ofPath(w.pass.path, now) {
		if v, ok := x.holds(w, now); ok {
			return x, v
		}
	}
	return nil, machine.Verdict{}
}

// holds reports whether an entry holds a request back.
func (e *entry) holds(w *waiter, now time.Time) (v machine.Verdict, ok bool) {
	if e == w.at {
		return v, false
	}
	v = e.machine.Ask(now, &w.pass.trip)
	ahead := e.queue.followers.Len()
	if !w.pass.trip.Follows {
		ahead = e.queue.Len()
	}
	return v, !(ahead == 0 && v.Open || v.Hurries(w.deadline, ahead))
}

// admit lets through all waiters that may be sent, in their order. If no request waits, it
// stops the timer, because the timer keeps the entry in memory.
func (e *entry) admit(now time.Time) {
	for e.queue.Len() > 0 && e.admitOne(now) {
	}
	if e.queue.Len() == 0 && !e.until.IsZero() {
		e.timer.Stop()
		e.until = time.Time{}
	}
}

// admitOne lets one waiter through, or fails one whose deadline comes too early. If it can do
// neither yet, it sets the timer, and returns false.
func (e *entry) admitOne(now time.Time) bool {
	front := e.queue.front()
	v := e.machine.Ask(now, &front.pass.trip)
	if v.Open {
		v.Until, v.Certain = now, true
		e.release(front, &v, now)
		return true
	}
	if len(e.doomed) > 0 {
		w := e.doomed[0]
		own := e.machine.Ask(now, &w.pass.trip) // it may cost more than the request in front
		hurries := v.Hurries(w.deadline, 0) && (own.Open || own.Hurries(w.deadline, 0))
		if hurries || e.misses(w, &v) {
			e.release(w, &v, now)
			return true
		}
	}
	e.ringAt(v.Until, now)
	return false
}

// release takes a waiter out of the queue. If its deadline is too early, the wait fails. Otherwise
// the request is sent. If another entry holds it back, it moves to the queue of that entry.
func (e *entry) release(w *waiter, v *machine.Verdict, now time.Time) {
	e.dequeue(w)
	if e.misses(w, v) {
		w.decide(e.tooLate(v))
		return
	}
	key := e.ofKey()
	x, held := key.holder(w, now)
	switch {
	case x == nil:
		key.send(w.pass, now)
		w.decide(nil)
	case x.misses(w, &held):
		w.decide(x.tooLate(&held))
	default:
		x.enqueue(w)
		x.ringAt(now, now) // not admit, which could move the request back
	}
}

// ringAt sets the timer of an entry. The timer belongs to no caller, because a slow caller
// would delay all others.
func (e *entry) ringAt(until, now time.Time) {
	switch {
	case until.Equal(e.until):
		return
	case e.timer == nil:
		e.timer = time.AfterFunc(until.Sub(now), e.ring)
	default:
		e.timer.Reset(until.Sub(now))
	}
	e.until = until
}

// ring is called by the timer.
func (e *entry) ring() {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	e.until = time.Time{}
	e.admit(time.Now())
}

// send counts a request as sent with a key, and with the resources of its path.
func (e *entry) send(p *Pass, now time.Time) {
	p.entry = e
	e.machine.Send(&p.trip, now)
	p.trip.Owner = p
	for _, x := range e.ofPath(p.path, now) {
		p.legOf(x, now)
	}
}
