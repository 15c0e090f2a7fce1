package obey

import (
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// A line has the requests that wait for one Machine. A key has a line, and so has each part of a key.
type line struct {
	of         *key
	name       string // of a part: the name of its key, a space, and what is counted apart
	machine    machine.Machine
	advice     ratelimit.Advice // of the newest response that changed the machine
	queue      queue
	byDeadline deadlines // the waiters in queue that have a deadline
	timer      *time.Timer
	until      time.Time // when the timer rings; zero if it is not set
}

// state returns the Wait of a request. If requests wait already, it is the Wait of the first of them,
// because no request overtakes it.
func (e *line) state(now time.Time, t *machine.Trip) Wait {
	if e.queue.Len() > 0 {
		t = &e.queue.front().pass.trip
	}
	v := e.machine.Ask(now, t)
	w := Wait{Key: e.name, Reason: Reason(v.Reason), Queued: e.queue.Len(), UnderWay: e.machine.UnderWay(), Advice: e.advice}
	if !v.Depends {
		w.Until = v.Until
	}
	return w
}

// learn updates a line from an answer.
func (e *line) learn(t *machine.Trip, a *ratelimit.Advice, answer *machine.Answer, received time.Time) {
	if e.machine.Answered(t, answer, received) {
		e.advice = kept(*a, e.advice.Limit.Name)
	}
}

// A waiter is a request that waits. There may be many, so it is small.
type waiter struct {
	pass     *Pass
	at       *line         // in whose queue it is, or was last
	place    *list.Element // in the queue
	err      error         // why it is not let through
	wake     chan struct{} // closed when the wait is decided
	deadline time.Time     // zero if there is none
	index    int32         // in the deadlines
	patient  bool          // the deadline is for the wait, and not for the answer
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

// enqueue puts a request into the queue of a line.
func (e *line) enqueue(w *waiter) {
	w.at = e
	w.place = e.queue.of(w).PushBack(w)
	if !w.deadline.IsZero() {
		heap.Push(&e.byDeadline, w)
	}
}

func (e *line) dequeue(w *waiter) {
	e.queue.of(w).Remove(w.place)
	if !w.deadline.IsZero() {
		heap.Remove(&e.byDeadline, int(w.index))
	}
}

// terms are what a request costs, and how it may wait.
type terms struct {
	route     routeName                // the zero value if the key is not divided
	trip      machine.Trip             // its prices, and whether it follows a redirection
	cancelled <-chan struct{}          // closed to end the wait; may be nil
	patience  time.Time                // when the wait ends at the latest; zero is when the context ends
	waited    time.Duration            // how long earlier tries have waited; counted if the Transport has a Patience
	waiting   func(Wait) (done func()) // called before Gate.Waiting; may be nil
}

// enter waits until a request may be sent. A request with an empty key never waits.
func (g *Gate) enter(ctx context.Context, key []byte, r *terms) (*Pass, error) {
	if ctx.Err() != nil { // otherwise the request would be counted, and not sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g, route: r.route, trip: r.trip}
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

// begin lets a request through if it may be sent at once. Otherwise it puts the request into the queue,
// and returns why it waits. If the deadline is certain to come first, the wait fails at once.
func (g *Gate) begin(asks *waiter, key []byte) (w *waiter, why Wait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now() // with the lock, so that the time of the machine never goes back
	k := g.key(key, now)
	if k == nil {
		return nil, why
	}
	x, v := k.enters(asks, now)
	if x == nil {
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
		v := e.machine.Ask(now, &e.queue.front().pass.trip) // no request overtakes the one in front
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
func (e *line) tooLate(v *machine.Verdict) *WaitError {
	return &WaitError{Until: v.Until, Advice: e.advice, Reason: Reason(v.Reason)}
}

// misses reports whether the deadline of a request is certain to come before its answer, or before
// the end of its wait if only the wait has a deadline.
func (e *line) misses(w *waiter, v *machine.Verdict) bool {
	end := v.Until
	if !w.patient {
		end = end.Add(e.of.machine.Typical)
	}
	return v.Certain && !w.deadline.IsZero() && w.deadline.Before(end)
}

// decide ends a wait.
func (w *waiter) decide(err error) {
	w.err, w.decided = err, true
	close(w.wake)
}

// enters sends a request if no line holds it back. Otherwise it returns the line that holds it back,
// and the verdict of the line.
func (k *key) enters(w *waiter, now time.Time) (*line, machine.Verdict) {
	x, v := k.holder(w, now)
	if x != nil { // its timer may be late
		x.admit(now)
		x, v = k.holder(w, now)
	}
	if x == nil {
		k.send(w.pass, now)
	}
	return x, v
}

// holds reports whether a line holds a request back.
func (e *line) holds(w *waiter, now time.Time) (v machine.Verdict, ok bool) {
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
// stops the timer, because the timer keeps the line in memory.
func (e *line) admit(now time.Time) {
	for e.queue.Len() > 0 && e.admitOne(now) {
	}
	if e.queue.Len() == 0 && !e.until.IsZero() {
		e.timer.Stop()
		e.until = time.Time{}
	}
}

// admitOne lets one waiter through, or fails one whose deadline comes too early. If it can do
// neither yet, it sets the timer, and returns false.
func (e *line) admitOne(now time.Time) bool {
	front := e.queue.front()
	v := e.machine.Ask(now, &front.pass.trip)
	if v.Open {
		v.Until, v.Certain = now, true
		e.release(front, &v, now)
		return true
	}
	if len(e.byDeadline) > 0 {
		w := e.byDeadline[0]
		own := e.machine.Ask(now, &w.pass.trip) // it may cost more than the request in front
		hurries := v.Hurries(w.deadline, 0) && (own.Open || own.Hurries(w.deadline, 0))
		if hurries || e.misses(w, &v) {
			e.release(w, &v, now)
			return true
		}
	}
	until := v.Until
	w, next := e.of.scoutOf(e, now)
	if w != nil {
		e.release(w, &machine.Verdict{Until: now}, now)
		return true
	}
	if now.Before(next) && next.Before(until) {
		until = next
	}
	e.ringAt(until, now)
	return false
}

// release takes a waiter out of the queue. If its deadline is too early, the wait fails. If another
// line holds the request back, it moves to the queue of that line. Otherwise it is sent.
func (e *line) release(w *waiter, v *machine.Verdict, now time.Time) {
	e.dequeue(w)
	if e.misses(w, v) {
		w.decide(e.tooLate(v))
		return
	}
	x, other := e.of.holder(w, now)
	switch {
	case x == nil:
		e.of.send(w.pass, now)
		w.decide(nil)
	case x.misses(w, &other):
		w.decide(x.tooLate(&other))
	default:
		x.enqueue(w)
		x.ringAt(now, now) // not admit, which could move the request back
	}
}

// ringAt sets the timer of a line. The timer belongs to no caller, because a slow caller
// would delay all others.
func (e *line) ringAt(until, now time.Time) {
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
func (e *line) ring() {
	e.of.gate.mu.Lock()
	defer e.of.gate.mu.Unlock()
	e.until = time.Time{}
	e.admit(time.Now())
}
