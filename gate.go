package ratelimit

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is the number of keys. Beyond it the key with which the least is lost
	// is forgotten, of these the one used longest ago, but never one with a wait in
	// force.
	maxKeys = 1024
	// maxKey is the length of a key; longer ones are remembered by a hash.
	maxKey = 256
	// sweepTime is how often waits are looked at that may have ended.
	sweepTime = time.Second
)

// seed is that of hashes of keys. It differs in each process, so that a hash tells
// strangers nothing of what was hashed.
var seed = maphash.MakeSeed()

// A Cost is what a request takes of limits. A request takes one of each limit of
// requests, unless a Cost for these says otherwise, and of other limits what its Costs
// say: tokens of a model, bytes, points. A Cost for a limit that the server does not
// announce does nothing.
//
// Where a Cost names the policy of a limit, those that do not name it are not counted
// for that limit. Otherwise all that concern a limit are added up.
type Cost struct {
	// Unit is the unit of the policy, such as "tokens". "" is any unit where Policy is
	// given, else Requests.
	Unit Unit
	// Policy is the name of the policy, where several have that unit
	// ("input-tokens"). "" is each of them.
	Policy string
	// Units is how many quota units the request takes, by an estimate; 0 or less is
	// none.
	Units int64
}

// A Gate holds back requests that servers do not allow yet: [Transport] is one in
// front of an [http.RoundTripper]. Use it for other protocols, and for queues of
// work: Enter, or TryEnter, before each request, and tell the [Pass] of its answer,
// with the [Advice] of an [Advisor].
//
// Requests of one key share their limits. Those that have to wait go in the order
// in which they came, so that small ones do not starve a large one. The zero Gate is
// ready to use. Its fields must not be changed, and it must not be copied, after the
// first use. It is safe for concurrent use.
//
//   - Nothing is known of a key at first: ten requests go at once, and the others
//     wait for the first answer to any of them, half a second at most. Of those with
//     Costs one goes, and the others wait for its answer, because it says what is left
//     of what they need.
//   - While a wait is in force, nothing goes. Nor does more than remains of a limit
//     of requests: each request counts, those under way included, until newer
//     fields arrive. Answers may arrive out of order: one whose request was sent
//     before the newest fields were learnt can only make things stricter.
//   - What a request costs of other limits is reserved while it is under way. Where less
//     is left than it needs, it waits until enough has flowed in: as the window of the
//     policy says, or as several answers have shown, whichever is slower. Where nothing
//     flows in, it waits until the window ends. A request that costs more than the quota
//     goes as a probe when the limit is as full as it gets.
//   - After a window of which nothing was left, and after a refusal, nothing says how
//     much remains (draft-11 Sections 4.1.2 and 8.4): one request goes as a probe; after a
//     second two more, then four, until there is an answer, but one at a time while
//     answers could not be there yet. One that fails is replaced by another. A window that
//     ended with something left holds no request back.
//   - A refusal that asks for no wait makes the key wait for a tenth of a second, and
//     half as long again each time up to 32 s, half of it at random. Later it
//     begins with a third of the wait that was enough the last time, and grows by a
//     quarter until that.
//   - After a refusal that no exhausted limit explains, or one that the answers to
//     other requests do not mention, half as many requests are let under way at a time,
//     and with the answers that follow one more each round; ten rounds pass before
//     there are as many as were refused, and ten before there are more, or up to 640
//     where that number is refused again and again. A policy of concurrent requests says
//     it itself. Where those under way hang, another goes after 32 s.
//   - A request that has waited, and whose deadline comes before the server has answered
//     any request lately, is not sent: it would take something of the limit for nothing.
//
// It remembers at most 1024 keys; where all of these have to wait, others are not
// held back.
//
// A wait lasts longer by the time for which the machine was suspended meanwhile,
// because Go's clock stands still then.
type Gate struct {
	// MaxWait is the longest wait that is obeyed, after which a probe goes; 0, or
	// less, is DefaultMaxWait. Where a probe is refused, the next wait is half as long
	// again, up to what the server asks for.
	MaxWait time.Duration
	// Pace spaces the requests by Advice.Pace too. It never refuses one: a request
	// whose deadline comes before its turn goes at once.
	Pace bool
	// Share is the part of what remains that is this Gate's, more than 0 and at most
	// 1: 1/N where N processes share a quota. The pace is as many times slower. Any
	// other value is 1.
	//
	// What is best depends on how even the load is. Where all processes are busy, Share
	// and Pace together are refused nothing, and use 95 % of a fixed window. Where one
	// process is busy and the others are not, the two together use 60 % of it with 4
	// processes, and 33 % with 16: take Pace alone for a few processes (97 %), and Share
	// alone for more (95 %). To use all of it, send by one process.
	Share float64
	// Waiting is called before a caller begins to wait, with the time when the first
	// of those who wait may go, and the advice in force; nil is not called. What it
	// returns is called, unless it is nil, when that wait is over, whatever ends it. Both
	// are called at once, one after the other, for a caller that gets a [WaitError]
	// without waiting. A Waiting that blocks holds back its caller alone.
	Waiting func(key string, until time.Time, a Advice) (done func())

	mu    sync.Mutex
	keys  map[keyName]*entry
	lists [losses]list.List // of *entry, those used longest ago first
	swept time.Time         // when waits were last looked at
}

// A keyName is a key in two parts, of which an origin needs both: so it costs no
// memory to look one up.
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

// An entry is what is known of a key, and who waits for it. It is guarded by the
// lock of its Gate.
type entry struct {
	key     keyName
	machine machine
	advice  Advice // from the most recent response that made things newer or stricter
	era     int    // grows when the key is forgotten
	queue   queue
	doomed  deadlines // of these, those with a deadline
	timer   *time.Timer
	until   time.Time // when the timer rings; zero while none waits
	loss    loss
	place   *list.Element // in the list of that loss
}

// A waiter is a caller that waits. There may be many, so that it is small.
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

// A Pass is the leave to send one request. Its holder calls either Answered or
// Failed; a second call does nothing, so Failed may be deferred. On a nil Pass both
// do nothing.
type Pass struct {
	gate  *Gate
	entry *entry // nil if nothing is to be learnt, or has been
	era   int
	trip  trip
}

// A WaitError says that a request was not sent because the deadline of its context
// comes before the end of the wait. It matches [context.DeadlineExceeded].
type WaitError struct {
	// Until is when the wait ends; zero if nothing says when, because it depends on
	// the answers to other requests.
	Until time.Time
	// Advice is that of the most recent response, without its Fields.
	Advice Advice
}

// Error says when the wait ends, and names the limit that is the reason, if one is. The
// name is quoted and cut to 128 bytes; nothing else of the fields is in the text.
func (e *WaitError) Error() string {
	text := "ratelimit: not sent: the deadline is before the end of the wait"
	if !e.Until.IsZero() {
		text += " at " + e.Until.UTC().Format(time.RFC3339)
	}
	if e.Advice.hasLimit() {
		text += ", limit " + strconv.QuoteToASCII(cutName(e.Advice.Limit.Name))
	}
	return text
}

// Unwrap returns [context.DeadlineExceeded].
func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true, as that of [net.Error].
func (e *WaitError) Timeout() bool { return true }

// A notice is called before a caller begins to wait, and what it returns when the wait
// is over.
type notice func(until time.Time, a Advice) (done func())

// Enter waits until a request with that key and these costs may be sent. The key "" is
// never held back. It returns a [*WaitError] as soon as it is certain that the deadline
// of ctx comes before the end of a wait, and when the deadline comes. If ctx ends
// otherwise, it returns the cause.
func (g *Gate) Enter(ctx context.Context, key string, costs ...Cost) (*Pass, error) {
	return g.enter(ctx, nil, nameOfKey(key), pricesOf(costs), nil)
}

// TryEnter is Enter for a caller that has other work to do: it never waits. Where the
// request may not be sent now, pass is nil, and until is when to ask again, which is
// always later than now. Otherwise until is the zero time. It does not overtake those
// that wait in Enter, and Waiting is not called.
//
// Whoever has a Pass sends the request himself, and tells the Pass of the answer. A
// [Transport] with the same Gate would count the request twice.
func (g *Gate) TryEnter(key string, costs ...Cost) (pass *Pass, until time.Time) {
	p := &Pass{gate: g}
	p.trip.prices = pricesOf(costs)
	if key == "" {
		return p, time.Time{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	e := g.entry(nameOfKey(key), now)
	if e == nil {
		return p, time.Time{}
	}
	defer g.settle(e, now)
	if e.queue.n > 0 {
		g.admit(e, now)
	}
	if e.queue.n > 0 {
		return nil, e.until
	}
	v := e.look(g, now, p.trip.prices)
	if !v.open {
		return nil, v.until
	}
	e.send(g, p, now)
	return p, time.Time{}
}

// pricesOf returns costs as the machine is told them, nil if there are none.
func pricesOf(costs []Cost) (prices []price) {
	for _, c := range costs {
		p := price{policy: cutName(c.Policy), units: float64(max(c.Units, 0))}
		if c.Policy == "" || c.Unit != "" {
			p.unit = string(c.Unit.canonical())
		}
		prices = append(prices, p)
	}
	return prices
}

// enter is Enter, which ends when cancelled is closed, and calls own before that of the
// Gate.
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

// begin lets a request through, if it may be sent at once, or else puts it into the
// queue and returns its waiter, or an error if it would wait in vain.
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
	if w.decided && w.err == nil { // behind others that could go
		return nil, nil, nil
	}
	return w, e, nil
}

// announce tells both who listen that a wait begins, and returns what tells them in the
// other order that it is over.
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
// answer can.
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

// Answered says that the request was answered at a time, with an advice of its
// answer. A time in the future is taken for now.
func (p *Pass) Answered(a Advice, received time.Time) { p.answered(&a, received, time.Now()) }

func (p *Pass) answered(a *Advice, received, now time.Time) {
	if p == nil || p.gate == nil {
		return
	}
	if received.After(now) {
		received = now
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := p.end(now); e != nil {
		var few [4]stock
		r := g.settings()
		told := reportOf(a, p.trip.prices, few[:0])
		if e.machine.answered(&p.trip, &told, received, &r) {
			e.advice = a.kept(e.advice.Limit.Name)
		}
		g.admit(e, now)
		g.settle(e, now)
	}
}

// Failed says that there will be no answer to the request. It may have been served.
func (p *Pass) Failed() {
	if p == nil || p.gate == nil {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.entry == nil { // as after an answer
		return
	}
	now := time.Now()
	if e := p.end(now); e != nil {
		e.machine.failed(&p.trip)
		g.admit(e, now)
		g.settle(e, now)
	}
}

// end returns the entry that learns how the request has ended, whose machine has
// been told the time. It is nil where nothing is to be learnt, and the second time.
func (p *Pass) end(now time.Time) *entry {
	e, g := p.entry, p.gate
	p.entry = nil
	if e == nil || e.era != p.era {
		return nil
	}
	displaced := g.keys[e.key] != e
	if displaced {
		if e = g.entry(e.key, now); e == nil {
			return nil
		}
	}
	r := g.settings()
	e.machine.tick(now, &r)
	if displaced { // what it has not counted yet
		e.machine.send(&p.trip, now, &r)
	}
	return e
}

// Forget forgets all that is known of a key: after a change of credentials, say.
// Answers to requests that are under way are not learnt from. An origin, such as
// "https://api.example", is the key of a [Transport] without a Key; with it those keys
// are forgotten that [KeyBy] has made of that origin.
func (g *Gate) Forget(key string) {
	name := nameOfKey(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for k, e := range g.keys {
		if k == name.short() || name.scheme != "" && k.scheme == name.scheme && strings.HasPrefix(k.rest, name.rest+keyMark) {
			e.forget()
			g.admit(e, now)
			g.settle(e, now)
		}
	}
}

// keyMark stands between the origin and the hash in a key of [KeyBy]. No origin has it.
const keyMark = "#"

// forget forgets what was learnt. The requests under way belong to an earlier era.
func (e *entry) forget() {
	e.era++
	e.machine, e.advice = machine{}, Advice{}
}

// entry returns what is known of a key, or nil if nothing can be remembered of it.
// The lock is held.
func (g *Gate) entry(key keyName, now time.Time) *entry {
	key = key.short()
	if e := g.keys[key]; e != nil {
		if r := g.settings(); e.queue.n == 0 && e.machine.idle(now, &r) {
			e.forget()
		}
		return e
	}
	if len(g.keys) >= maxKeys && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[keyName]*entry)
	}
	e := &entry{key: keyName{strings.Clone(key.scheme), strings.Clone(key.rest)}}
	e.place = g.lists[e.loss].PushBack(e)
	g.keys[e.key] = e
	return e
}

// short returns a hash in place of a long key.
func (k keyName) short() keyName {
	if len(k.scheme)+len(k.rest) > maxKey {
		return keyName{keyMark, hex(maphash.Comparable(seed, k))}
	}
	return k
}

func hex(hash uint64) string { return strconv.FormatUint(hash, 16) }

// displace forgets the key with which the least is lost, and reports whether there
// is one.
func (g *Gate) displace(now time.Time) bool {
	for loss := range waitLost {
		if oldest := g.lists[loss].Front(); oldest != nil {
			g.remove(oldest.Value.(*entry))
			return true
		}
	}
	if now.Sub(g.swept) < sweepTime {
		return false
	}
	g.swept = now
	waits := &g.lists[waitLost]
	for range waits.Len() { // each goes to the back, or to where it belongs now
		g.settle(waits.Front().Value.(*entry), now)
	}
	return g.displace(now)
}

func (g *Gate) remove(e *entry) {
	g.lists[e.loss].Remove(e.place)
	delete(g.keys, e.key)
}

// settle puts an entry, which has just been used, where it belongs.
func (g *Gate) settle(e *entry, now time.Time) {
	r := g.settings()
	loss := e.machine.loss(now, &r)
	if e.queue.n > 0 {
		loss = waitLost
	}
	if loss == e.loss {
		g.lists[loss].MoveToBack(e.place)
		return
	}
	g.lists[e.loss].Remove(e.place)
	e.loss, e.place = loss, g.lists[loss].PushBack(e)
}

// settings returns those that the machine obeys.
func (g *Gate) settings() settings {
	r := settings{maxWait: maxWait(g.MaxWait), share: min(g.Share, 1), pace: g.Pace}
	if !(r.share > 0) { // NaN included
		r.share = 1
	}
	return r
}

// look tells the machine the time, and asks whether a request may be sent.
func (e *entry) look(g *Gate, now time.Time, prices []price) verdict {
	r := g.settings()
	e.machine.tick(now, &r)
	return e.machine.ask(now, &r, prices)
}

// send counts a request as sent.
func (e *entry) send(g *Gate, p *Pass, now time.Time) {
	p.entry, p.era = e, e.era
	r := g.settings()
	e.machine.send(&p.trip, now, &r)
}

// admit lets through as many waiters as may be sent, first come, first served,
// and has the timer ring when there may be more. Those whose deadline comes before an
// answer can are refused.
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

// ringAt has the timer of an entry ring at a time. It belongs to no caller, so that
// one that is slow to look holds back no other.
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
	last := (*d)[len(*d)-1]
	*d = slices.Delete(*d, len(*d)-1, len(*d))
	return last
}

// reportOf tells the machine what an advice says, for a request with these prices. Its
// stocks are appended to a list.
func reportOf(a *Advice, prices []price, stocks []stock) report {
	told := report{
		wait: max(a.Wait, a.Asked), pace: a.Pace, refused: a.Refused, waived: a.Source == SourceRetryAfter, stocks: stocks,
	}
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Policies {
		if p := &a.Fields.Policies[i]; p.Unit == ConcurrentRequests && p.Quota > 0 && (told.atOnce == 0 || p.Quota < told.atOnce) {
			told.atOnce = p.Quota
		}
	}
	priced := false // the wait is that of a limit whose units the request has counted
	var others time.Duration
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		p := policies.policy(l)
		if l.Remaining < 0 || p.Unit == ConcurrentRequests { // the number of these does not come back with time
			continue
		}
		s := stockOf(&a.Fields, i, p)
		told.stocks = append(told.stocks, s)
		switch {
		case s.left > 0:
		case s.unit != requestUnit && takes(prices, s.unit, s.policy) > 0:
			priced = true
		default:
			others = max(others, s.reset)
		}
	}
	if priced && (a.Source == SourceLimit || a.Source == SourceWindow) {
		told.wait = others
	}
	return told
}

// stockOf returns what a limit says, the number of whose policy is p.
func stockOf(f *Fields, i int, p *Policy) stock {
	l := &f.Limits[i]
	s := stock{unit: string(p.Unit.canonical()), policy: l.Name, left: l.Remaining, quota: max(p.Quota, 0)}
	if l.exhausted(p) {
		s.left = 0
	}
	s.window, _ = p.Window.Duration()
	if s.reset, s.ends = f.reset(i); !s.ends {
		s.reset, s.ends = s.window, p.Window.ok
	}
	return s
}

// kept returns a text that holds no memory of the response: the one that is remembered
// already, if it is the same, else a copy.
func kept(text, remembered string) string {
	if text == remembered {
		return remembered
	}
	return strings.Clone(text)
}

// kept returns of an advice only what is remembered. It holds no memory of the
// response; name is one that is remembered already.
func (a *Advice) kept(name string) Advice {
	k := *a
	k.Fields = Fields{}
	k.Limit.Params, k.Limit.PartitionKey = nil, nil
	k.Limit.Name = kept(cutName(k.Limit.Name), name)
	return k
}
