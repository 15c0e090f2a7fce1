package ratelimit

import (
	"container/list"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

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

// A Pass is the leave to send one request. Its holder calls either Answered or
// Failed; a second call does nothing, so Failed may be deferred. On a nil Pass both
// do nothing.
type Pass struct {
	gate     *Gate
	entry    *entry // nil if nothing is to be learnt, or has been
	era      int
	waitOnly bool // the deadline is that of the wait
	trip     trip
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
		answer := reportOf(a, p.trip.prices, few[:0])
		if e.machine.answered(&p.trip, &answer, received, &r) {
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

// settings returns those that the machine obeys.
func (g *Gate) settings() settings {
	r := settings{maxWait: longestWait(g.MaxWait), share: min(g.Share, 1), pace: g.Pace}
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
	inList  *list.Element // in the list of that loss
}

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
	e.inList = g.lists[e.loss].PushBack(e)
	g.keys[e.key] = e
	return e
}

// displace forgets the key with which the least is lost, and reports whether there
// is one.
func (g *Gate) displace(now time.Time) bool {
	for lost := range waitLost {
		if oldest := g.lists[lost].Front(); oldest != nil {
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
	g.lists[e.loss].Remove(e.inList)
	delete(g.keys, e.key)
}

// settle puts an entry, which has just been used, where it belongs.
func (g *Gate) settle(e *entry, now time.Time) {
	r := g.settings()
	lost := e.machine.loss(now, &r)
	if e.queue.n > 0 {
		lost = waitLost
	}
	if lost == e.loss {
		g.lists[lost].MoveToBack(e.inList)
		return
	}
	g.lists[e.loss].Remove(e.inList)
	e.loss, e.inList = lost, g.lists[lost].PushBack(e)
}
