package ratelimit

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is the number of keys. Beyond it the key with which the least is lost
	// is forgotten, of these the one used longest ago, but never one with a wait in
	// force.
	maxKeys = 1024
	// maxKey is the length of a key; longer ones are remembered by a hash.
	maxKey = 256
	// idleTime is how long a key with nothing in force is remembered.
	idleTime = 10 * time.Minute
	// sweepTime is how often waits are looked at that may have ended.
	sweepTime = time.Second
)

// seed is that of hashes of keys. It differs in each process, so that a hash tells
// nobody what was hashed.
var seed = maphash.MakeSeed()

// A Gate holds back requests that servers do not allow yet: [Transport] is one in
// front of an [http.RoundTripper]. Use it for other protocols, and for queues of
// work: Enter before each request, and tell the [Pass] of its answer, with the
// [Advice] of an [Advisor].
//
// Requests of one key share their limits. Those that have to wait go in the order
// in which they came. The zero Gate is ready to use. Its fields must not be changed,
// and it must not be copied, after the first use. It is safe for concurrent use.
//
//   - Nothing is known of a key at first: ten requests go at once, and the others
//     wait for the first answer to any of them, half a second at most.
//   - While a wait is in force, nothing goes. Nor does more than remains of a limit
//     of requests: each request counts, those under way included, until newer
//     fields arrive. Answers may arrive out of order: one whose request was sent
//     before the newest fields were learnt can only make things stricter.
//   - After a window of which nothing was left, and after a refusal, nobody knows
//     how much remains (draft-11 Sections 4.1.2 and 8.4): one request goes as a
//     probe; after a second two more, then four, until there is an answer. One that
//     fails is replaced by another. A window that ended with something left holds
//     nobody back.
//   - A refusal that asks for no wait makes the key wait for half a second, the
//     next one for a second, and so on up to 32 s, half of it at random. Later it
//     begins with half of the wait that was enough the last time, and grows by a
//     quarter until that. After a refusal that no exhausted limit explains, half as
//     many requests are let under way at a time, and with the answers that follow
//     one more each round; ten rounds pass before there are as many as were refused,
//     and ten before there are more. Where those under way hang, another goes
//     after 32 s.
//
// It remembers at most 1024 keys; where all of these have to wait, others are not
// held back.
type Gate struct {
	// MaxWait is the longest wait that is obeyed, after which a probe goes; 0, or
	// less, is DefaultMaxWait.
	MaxWait time.Duration
	// Pace spaces the requests by Advice.Pace too. It never refuses one: a request
	// whose deadline comes before its turn goes at once.
	Pace bool
	// Share is the part of the remaining requests that are this Gate's, more than 0
	// and at most 1: 1/N where N processes share a quota. The pace is as many times
	// slower. Any other value is 1.
	Share float64
	// Waiting is called before a caller begins to wait, with the time when the first
	// of those who wait may go, and the advice in force; nil is not called. It
	// should return soon, and must not Enter with the same key: those who came later
	// stay behind its caller.
	Waiting func(key string, until time.Time, a Advice)

	mu    sync.Mutex
	keys  map[keyName]*entry
	lists [losses]list.List // of *entry, those used longest ago first
	swept time.Time         // when waits were last looked at
}

// A keyName is a key in two parts, of which an origin needs both: so it costs no
// memory to look one up.
type keyName struct{ scheme, rest string }

// A loss is what would be lost with a key.
type loss int

const (
	nothingLost loss = iota
	countLost        // what remains of limits, or how many may be under way
	waitLost         // a wait in force, or callers that wait

	losses // their number
)

// An entry is what is known of a key, and who waits for it. It is guarded by the
// lock of its Gate.
type entry struct {
	key     keyName
	machine machine
	era     int       // grows when the key is forgotten
	queue   list.List // of *waiter, in the order in which they came
	doomed  deadlines // of these, those with a deadline
	loss    loss
	place   *list.Element // in the list of that loss
}

// A waiter is a caller that waits.
type waiter struct {
	pass     *Pass
	err      error         // or why it will not be let through
	through  bool          // whether pass or err is decided
	wake     chan struct{} // has room for one
	until    time.Time     // when the first in the queue looks again; zero for others
	deadline time.Time     // zero if there is none
	place    *list.Element // in the queue
	index    int           // in the deadlines
}

// A Pass is the leave to send one request. Its holder calls either Answered or
// Failed; a second call does nothing, so Failed may be deferred. Those of a nil Pass
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
	// Until is when the wait ends.
	Until time.Time
	// Advice is that of the most recent response, without its Fields.
	Advice Advice
}

// Error says when the wait ends.
func (e *WaitError) Error() string {
	return "ratelimit: not sent: the deadline is before the end of the wait at " + e.Until.UTC().Format(time.RFC3339)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true, as that of [net.Error].
func (e *WaitError) Timeout() bool { return true }

// Enter waits until a request with that key may be sent. The key "" is never held
// back. It returns a [*WaitError] as soon as it is certain that the deadline of ctx
// comes before the end of a wait, and the cause of ctx if it ends meanwhile.
func (g *Gate) Enter(ctx context.Context, key string) (*Pass, error) {
	var waiting func(time.Time, Advice)
	if g.Waiting != nil {
		waiting = func(until time.Time, a Advice) { g.Waiting(key, until, a) }
	}
	return g.enter(ctx, nil, keyName{rest: key}, waiting)
}

// enter is Enter, which ends when cancelled is closed.
func (g *Gate) enter(ctx context.Context, cancelled <-chan struct{}, key keyName, waiting func(time.Time, Advice)) (*Pass, error) {
	if ctx.Err() != nil { // it would be counted without being sent
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g}
	if key == (keyName{}) {
		return p, nil
	}
	deadline, _ := ctx.Deadline()
	g.mu.Lock()
	now := time.Now() // not before: what the machine is told goes forwards
	e := g.entry(key, now)
	if e == nil {
		g.mu.Unlock()
		return p, nil
	}
	v := e.look(g, now)
	if ahead := e.queue.Len(); ahead == 0 && v.open || v.hurries(deadline, ahead) {
		e.send(p, now)
		g.settle(e, now)
		g.mu.Unlock()
		return p, nil
	}
	if err := v.refuses(deadline, &e.machine); err != nil {
		g.mu.Unlock()
		return nil, err
	}
	w := e.enqueue(p, deadline)
	g.admit(e, now)
	g.settle(e, now)
	if w.through { // behind others who could go, but had not looked yet
		g.mu.Unlock()
		return w.result()
	}
	until, advice := e.queue.Front().Value.(*waiter).until, e.machine.advice
	g.mu.Unlock()
	return g.wait(ctx, cancelled, e, w, func() {
		if waiting != nil {
			waiting(until, advice)
		}
	})
}

// refuses returns an error if the deadline of a request is certain to come before
// the gate opens.
func (v *verdict) refuses(deadline time.Time, m *machine) error {
	if v.certain && !deadline.IsZero() && deadline.Before(v.until) {
		return &WaitError{Until: v.until, Advice: m.advice}
	}
	return nil
}

// wait waits until a waiter is let through.
func (g *Gate) wait(ctx context.Context, cancelled <-chan struct{}, e *entry, w *waiter, begin func()) (*Pass, error) {
	begun := false
	defer func() {
		if !begun { // it panicked
			_, _ = g.leave(e, w, errCancelled)
			w.pass.Failed() // if it has been let through meanwhile
		}
	}()
	begin()
	begun = true
	timer := time.NewTimer(idleTime)
	timer.Stop() // until this is the first in the queue
	defer timer.Stop()
	for {
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return g.leave(e, w, context.Cause(ctx))
		case <-cancelled:
			return g.leave(e, w, errCancelled)
		}
		g.mu.Lock()
		if !w.through && e.queue.Front() == w.place {
			g.admit(e, time.Now())
		}
		through, until := w.through, w.until
		g.mu.Unlock()
		if through {
			return w.result()
		}
		if !until.IsZero() {
			timer.Reset(time.Until(until))
		}
	}
}

var errCancelled = errors.New("ratelimit: request canceled")

// leave takes a waiter out of the queue, unless it has been let through meanwhile.
func (g *Gate) leave(e *entry, w *waiter, cause error) (*Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.through {
		e.dequeue(w)
		w.decide(cause)
		g.admit(e, time.Now())
	}
	return w.result()
}

// result returns what has been decided, which nobody changes any more.
func (w *waiter) result() (*Pass, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.pass, nil
}

// Answered says that the request was answered at a time, with an advice of its
// answer.
func (p *Pass) Answered(a Advice, received time.Time) { p.answered(&a, received, time.Now()) }

func (p *Pass) answered(a *Advice, received, now time.Time) {
	if p == nil || p.gate == nil {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := p.end(now); e != nil {
		r := g.settings()
		e.machine.answered(&p.trip, a, received, &r)
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
		e.machine.send(&p.trip, now)
	}
	return e
}

// Forget forgets all that is known of a key: after a change of credentials, say.
// Answers to requests that are under way are not learnt from.
func (g *Gate) Forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.keys[keyName{rest: key}.short()]; e != nil {
		now := time.Now()
		e.forget()
		g.admit(e, now)
		g.settle(e, now)
	}
}

// forget forgets what was learnt. The requests under way belong to an earlier era.
func (e *entry) forget() {
	e.era++
	e.machine = machine{}
}

// entry returns what is known of a key, or nil if nothing can be remembered of it.
// The lock is held.
func (g *Gate) entry(key keyName, now time.Time) *entry {
	key = key.short()
	if e := g.keys[key]; e != nil {
		if r := g.settings(); e.queue.Len() == 0 && e.machine.idle(now, &r) {
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
		return keyName{"#", hex(maphash.Comparable(seed, k))}
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
	if e.queue.Len() > 0 {
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
func (e *entry) look(g *Gate, now time.Time) verdict {
	r := g.settings()
	e.machine.tick(now, &r)
	return e.machine.ask(now, &r)
}

// send counts a request as sent.
func (e *entry) send(p *Pass, now time.Time) {
	p.entry, p.era = e, e.era
	e.machine.send(&p.trip, now)
}

// admit lets through as many waiters as may be sent, first come, first served,
// and has the first of the others look again when there may be more. Those whose
// deadline comes before the end of a wait are refused.
func (g *Gate) admit(e *entry, now time.Time) {
	for e.queue.Len() > 0 {
		front := e.queue.Front().Value.(*waiter)
		v := e.look(g, now)
		switch {
		case v.open:
			e.letThrough(front, now)
		case len(e.doomed) > 0 && v.hurries(e.doomed[0].deadline, 0):
			e.letThrough(e.doomed[0], now)
		case len(e.doomed) > 0 && v.refuses(e.doomed[0].deadline, &e.machine) != nil:
			hopeless := e.doomed[0]
			e.dequeue(hopeless)
			hopeless.decide(v.refuses(hopeless.deadline, &e.machine))
		default:
			if !front.until.Equal(v.until) {
				front.until = v.until
				front.signal()
			}
			return
		}
	}
}

// letThrough sends a request that has waited.
func (e *entry) letThrough(w *waiter, now time.Time) {
	e.dequeue(w)
	e.send(w.pass, now)
	w.decide(nil)
}

// decide ends the wait.
func (w *waiter) decide(err error) {
	w.err, w.through = err, true
	w.signal()
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been woken, and has not looked yet
	}
}

// enqueue puts a request at the end of the queue.
func (e *entry) enqueue(p *Pass, deadline time.Time) *waiter {
	w := &waiter{pass: p, wake: make(chan struct{}, 1), deadline: deadline}
	w.place = e.queue.PushBack(w)
	if !deadline.IsZero() {
		heap.Push(&e.doomed, w)
	}
	return w
}

func (e *entry) dequeue(w *waiter) {
	e.queue.Remove(w.place)
	if !w.deadline.IsZero() {
		heap.Remove(&e.doomed, w.index)
	}
}

// deadlines is a heap of waiters, the earliest deadline first.
type deadlines []*waiter

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *deadlines) Push(x any) {
	w := x.(*waiter)
	w.index = len(*d)
	*d = append(*d, w)
}

func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = slices.Delete(*d, len(*d)-1, len(*d))
	return last
}

// A Transport is an [http.RoundTripper] that keeps a client within the limits that
// servers announce: a [Gate] in front of another. The zero Transport is ready to
// use. Its fields must not be changed, and it must not be copied, after the first
// use. It is safe for concurrent use, if Base, Key, Waiting and Observe are.
//
// Each request waits until its Gate lets it through, and is then sent once, as it
// is. Each response is returned as it is, whatever its status: nothing is sent
// again. A request that follows a redirection does not wait (draft-11 Section 6),
// unless the redirection has a Retry-After (RFC 9110 Section 10.2.3).
type Transport struct {
	// Base sends the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
	// Advisor reads the responses.
	Advisor Advisor
	// Key returns what requests have in common that share their limits; nil is the
	// origin: scheme, host and port. A request with the key "" is not held back.
	// See KeyByAuthorization.
	Key func(*http.Request) string
	// Pace and Share are those of [Gate].
	Pace  bool
	Share float64
	// Waiting is called before a request begins to wait, with the time when the first
	// of those that wait may go, and the advice in force; nil is not called. It should
	// return soon, as that of [Gate], and must not send requests with the same key.
	Waiting func(*http.Request, time.Time, Advice)
	// Observe is called, before RoundTrip returns, for every response that says
	// anything about limits; nil is not called.
	Observe func(*http.Request, Advice)

	once sync.Once
	gate Gate

	mu         sync.Mutex
	redirected [32]weak.Pointer[http.Response] // that have not been followed yet
	nextPlace  int
}

var errNoURL = errors.New("ratelimit: request without URL")

// RoundTrip sends req when the limits allow it. It returns a [*WaitError] at once
// if the context's deadline comes before that, the cause of the context if it ends
// meanwhile, and otherwise whatever Base returns.
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	sent := false
	defer func() {
		if !sent && req != nil && req.Body != nil { // as a RoundTripper must
			req.Body.Close()
		}
	}()
	if req == nil || req.URL == nil {
		return nil, errNoURL
	}
	t.once.Do(func() { t.gate.MaxWait, t.gate.Pace, t.gate.Share = t.Advisor.MaxWait, t.Pace, t.Share })
	pass, err := t.enter(req)
	if err != nil {
		return nil, err
	}
	defer pass.Failed() // says nothing after an answer: Base failed, or something panicked
	sent = true
	resp, err = t.base().RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	t.learn(req, resp, pass)
	return resp, nil
}

// learn takes what a response says. Where a function of the caller's panics, nobody
// else closes the body.
func (t *Transport) learn(req *http.Request, resp *http.Response, pass *Pass) {
	done := false
	defer func() {
		if !done && resp.Body != nil {
			resp.Body.Close()
		}
	}()
	received := time.Now()
	advice := t.Advisor.Advise(resp, received)
	pass.answered(&advice, received, received)
	if resp.StatusCode/100 == 3 {
		t.noteRedirect(resp)
	}
	if t.Observe != nil && advice.says() {
		t.Observe(req, advice)
	}
	done = true
}

// CloseIdleConnections closes those of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// says reports whether the response says anything about limits.
func (a *Advice) says() bool {
	return a.Refused || a.Source != SourceNone || a.Fields.Limits != nil || a.Fields.Policies != nil
}

// enter waits until req may be sent.
func (t *Transport) enter(req *http.Request) (*Pass, error) {
	key := originOf(req.URL)
	if t.Key != nil {
		key = keyName{rest: t.Key(req)}
	}
	var waiting func(time.Time, Advice)
	if t.Waiting != nil {
		waiting = func(until time.Time, a Advice) { t.Waiting(req, until, a) }
	}
	ctx := req.Context()
	cancelled := req.Cancel //lint:ignore SA1019 net/http still obeys it
	if req.Response == nil || !t.follows(req.Response) {
		return t.gate.enter(ctx, cancelled, key, waiting)
	}
	if err := t.waitRedirect(ctx, cancelled, req.Response, waiting); err != nil {
		return nil, err
	}
	return t.gate.enterAtOnce(ctx, key)
}

// noteRedirect remembers a response that may be followed. http.Client does so at
// once. A copy of the following request, sent later, follows nothing.
func (t *Transport) noteRedirect(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.redirected[t.nextPlace] = weak.Make(resp)
	t.nextPlace = (t.nextPlace + 1) % len(t.redirected)
}

// follows reports whether a request follows a response, for the first time.
func (t *Transport) follows(resp *http.Response) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.redirected[:], weak.Make(resp))
	if i < 0 {
		return false
	}
	t.redirected[i] = weak.Pointer[http.Response]{}
	return true
}

// waitRedirect waits for as long as a redirection asks for, which has just arrived.
func (t *Transport) waitRedirect(ctx context.Context, cancelled <-chan struct{}, resp *http.Response, waiting func(time.Time, Advice)) error {
	now := time.Now()
	a := t.Advisor.Advise(resp, now)
	if a.Source != SourceRetryAfter || a.Wait == 0 {
		return nil
	}
	until := now.Add(a.Wait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		return &WaitError{Until: until, Advice: kept(&a)}
	}
	if waiting != nil {
		waiting(until, kept(&a))
	}
	timer := time.NewTimer(a.Wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-cancelled:
		return errCancelled
	}
}

// enterAtOnce counts a request that nothing holds back.
func (g *Gate) enterAtOnce(ctx context.Context, key keyName) (*Pass, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := &Pass{gate: g}
	if key == (keyName{}) {
		return p, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if e := g.entry(key, now); e != nil {
		e.look(g, now)
		e.send(p, now)
		g.settle(e, now)
	}
	return p, nil
}

// KeyByAuthorization is a [Transport.Key] for servers that limit each user: requests
// to one origin with the same field Authorization share their limits. The key holds
// a hash of the field, which is of no use outside of this process.
func KeyByAuthorization(req *http.Request) string {
	origin := originOf(req.URL).String()
	lines := req.Header["Authorization"]
	if len(lines) == 0 {
		return origin
	}
	return origin + "#" + hex(maphash.String(seed, strings.Join(lines, "\n")))
}

// originOf returns the origin of an address (RFC 6454 Section 4): its scheme, and its
// host with the port, unless that is the one by default.
func originOf(u *url.URL) keyName {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return keyName{scheme, strings.TrimSuffix(host, ":")}
}

// String returns an origin as RFC 6454 Section 6.2 writes it.
func (k keyName) String() string { return k.scheme + "://" + k.rest }
