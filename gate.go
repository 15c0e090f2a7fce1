package ratelimit

import (
	"container/list"
	"context"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// A Cost is what a request takes of limits. Without one it takes one of each limit of
// requests, and nothing of others, such as the tokens of a model. A Cost for a limit
// that the server does not announce does nothing. Where a Cost names the policy of a
// limit, those that name none are not counted for it. Otherwise all that concern a limit
// are added up.
type Cost struct {
	Unit   Unit   // of the policy, such as "tokens"; "" is any if Policy is given, else Requests
	Policy string // its name, such as "input-tokens", if several have that unit; "" is each of them
	Units  int64  // how many the request takes, by an estimate, such as 1200; 0 or less is none
}

// A Gate holds back requests that servers do not allow yet, as [Transport] does for an
// [http.Client]. Use it for other protocols, and for queues of work: Enter, or TryEnter,
// before each request, and tell the [Pass] of its answer with the [Advice] of an
// [Advisor].
//
// Requests of one key share their limits, and wait in the order in which they came, so
// that small ones do not starve a large one. The zero Gate is ready to use. After the
// first use it must not be copied, and its fields must not be changed. It is safe for
// concurrent use.
//
//   - Of a new key ten requests go at once; the others wait for the first answer, half a
//     second at most. Of those with Costs one goes, and the others wait for its answer,
//     which says what is left.
//   - While a wait is in force, nothing goes. Of a limit of requests no more go than
//     remain, those under way included. An answer to a request that was sent before the
//     newest fields were learnt can only make things stricter.
//   - What a request costs of other limits is reserved while it is under way. Where less
//     is left, it waits until enough has flowed in, by the window of the policy or as
//     several answers have shown, whichever is slower, or else for the end of the
//     window. One that costs more than the quota goes as a probe when the limit is full.
//   - After a refusal, and after a window of which nothing was left, nothing says how
//     much remains (draft-11 Sections 4.1.2 and 8.4): one request goes as a probe, after
//     a second two more, then four, until there is an answer. Where answers take long,
//     probes go one at a time; one that fails is replaced.
//   - If answers take longer than the window of a limit of requests, what they say is over
//     when they arrive. The limit then allows its quota in each window, until a refusal.
//   - A refusal that asks for no wait makes the key wait for a tenth of a second, and
//     half as long again each time up to 32 s, half of it at random. The next time it
//     begins with half of what was enough. If a request is refused although no other is
//     under way, requests are spaced from then on: further apart after each refusal, and
//     a little closer after each request that is served.
//   - A refusal that no exhausted limit explains halves how many requests may be under
//     way; answers let more go again, slowly near the number that was refused. Refusals
//     with nothing served in between count as one.
//     A policy of concurrent requests says that number. Where those under way hang,
//     another goes after 32 s.
//   - A request that has waited is not sent if its deadline comes sooner than the server
//     has answered any request lately.
//
// It remembers at most MaxKeys keys. If all of these have a wait in force, other keys are
// not held back. A wait lasts longer by the time for which the machine was suspended.
type Gate struct {
	// MaxWait is the longest wait that is obeyed, after which a probe goes; 0, or less,
	// is DefaultMaxWait. After a refused probe the next wait is half as long again, up
	// to what the server asks for.
	MaxWait time.Duration
	// Pace spaces requests by Advice.Pace too. One whose deadline comes before its turn
	// goes at once.
	Pace bool
	// Share is the part of what remains that is this Gate's, more than 0 and at most 1,
	// with a pace that many times slower: 1/N where N processes share a quota. Any other
	// value is 1.
	//
	// Where all processes are busy, Share and Pace together are refused nothing, and use
	// 95 % of a fixed window. Where one is busy, they use 60 % of it with 4 processes,
	// and 33 % with 16: take Pace alone for a few processes (97 %), and Share alone for
	// more (95 %).
	Share float64
	// MaxKeys is how many keys are remembered; 0, or less, is 16,384. See [Gate.Keys].
	MaxKeys int
	// Waiting is called before a caller begins to wait. What it returns is called when the
	// wait is over. A caller that gets a [WaitError] at once calls both. Either may be nil.
	// A Waiting that blocks holds back its caller alone.
	Waiting func(Wait) (done func())

	mu    sync.Mutex
	keys  map[keyName]*entry
	lists [machine.Losses]list.List // of *entry, those used longest ago first
	swept time.Time                 // when waits were last looked at
}

// A Pass is the leave to send one request. Call either Answered or Failed; a second call
// does nothing, so Failed may be deferred. On a nil Pass both do nothing.
type Pass struct {
	gate  *Gate
	entry *entry // nil if nothing is to be learnt, or the end is known
	era   int
	trip  machine.Trip
}

// A Wait is why requests of a key wait, and for how long.
type Wait struct {
	// Key is that of the requests. A [Transport] without a Key, or with one of [KeyBy],
	// appends a space and the resource if the server counts its resources apart.
	Key string
	// Until is when the next request of the key may go; zero if that depends on the answer
	// to another request.
	Until time.Time
	// Reason is one of these, which may be labels of metrics; "" if a request goes at once:
	//
	//   - "first": the first requests of the key are under way
	//   - "limit": too little is left of a limit
	//   - "retry-after": the server asked to wait
	//   - "backoff": a refusal asked for no wait
	//   - "probe": a probe is under way
	//   - "concurrency": as many are under way as the server takes
	//   - "pace": requests are spaced
	Reason   string
	Queued   int // requests of the key that wait, without the one that begins to wait
	UnderWay int // requests sent and not answered
	// Advice is that of the newest response that set the limits in force, with its Limit,
	// without its Fields.
	Advice Advice
}

// A WaitError says that a request was not sent because the deadline of its context comes
// before the end of the wait. It matches [context.DeadlineExceeded].
type WaitError struct {
	Until  time.Time // when the wait ends; zero if that depends on the answers to other requests
	Advice Advice    // of the most recent response, without its Fields
	Reason string    // of the wait: see [Wait]
}

// Error says when the wait ends, and names the limit, if one is the reason, quoted and
// cut to 128 bytes.
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

// Timeout returns true, as [net.Error] has it.
func (e *WaitError) Timeout() bool { return true }

// Enter waits until a request with that key and these costs may be sent. The key "" is
// never held back. It returns a [*WaitError] when the deadline of ctx comes, or as soon
// as it is certain to come too early. If ctx ends otherwise, it returns the cause.
func (g *Gate) Enter(ctx context.Context, key string, costs ...Cost) (*Pass, error) {
	return g.enter(ctx, &entrant{key: nameOfKey(key), prices: pricesOf(costs)})
}

// TryEnter is Enter for a caller that has other work to do. If the request may not be
// sent now, pass is nil, and until, which is later than now, is when to ask again;
// otherwise until is the zero time. It does not overtake those that wait in Enter, and
// Waiting is not called. The holder of the Pass sends the request: a [Transport] with
// the same Gate would count it twice.
func (g *Gate) TryEnter(key string, costs ...Cost) (pass *Pass, until time.Time) {
	p := &Pass{gate: g}
	p.trip.Prices = pricesOf(costs)
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
	v := e.look(g, now, p.trip.Prices)
	if !v.Open {
		return nil, v.Until
	}
	e.send(g, p, now)
	return p, time.Time{}
}

// Answered says that the request was answered at a time, with the advice of its answer.
// A time in the future is taken for now.
func (p *Pass) Answered(a Advice, received time.Time) {
	p.answered(&a, received, time.Now(), false)
}

// answered reports whether the request stays under way until the body of the answer ends,
// for which the caller calls closed.
func (p *Pass) answered(a *Advice, received, now time.Time, hasBody bool) (stays bool) {
	if p == nil || p.gate == nil {
		return false
	}
	if now.Before(received) {
		received = now
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	e := p.end(now)
	if e == nil {
		return false
	}
	var few [4]machine.Stock
	r := g.settings()
	answer := answerOf(a, p.trip.Prices, few[:0])
	if e.machine.Answered(&p.trip, &answer, received, &r) {
		e.advice = a.kept(e.advice.Limit.Name)
	}
	if hasBody && e.machine.OpenBody() {
		p.entry, p.era, stays = e, e.era, true
	}
	g.admit(e, now)
	return stays
}

// closed says that the body of an answer has ended.
func (p *Pass) closed() {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := p.entry; e != nil && e.era == p.era && g.keys[e.key] == e {
		e.machine.CloseBody()
		g.admit(e, time.Now())
	}
	p.entry = nil
}

// Failed says that there will be no answer; the request may have been served.
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
		e.machine.Failed(&p.trip)
		g.admit(e, now)
	}
}

// end returns the entry that learns how the request has ended, and tells its machine the
// time. It returns nil if nothing is to be learnt, and when it is called again.
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
	e.machine.Tick(now, &r)
	if displaced { // what it has not counted yet
		e.machine.Send(&p.trip, now, &r)
	}
	return e
}

// Forget forgets what is known of a key, as after a change of credentials. Answers to
// requests that are under way are not learnt from. An origin, such as
// "https://api.example", is the key of a [Transport] without a Key, and stands for all
// keys that [KeyBy] has made of it. A key stands for its resources too: see [Wait].
func (g *Gate) Forget(key string) {
	name := nameOfKey(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for k, e := range g.keys {
		if k == name.short() || k.scheme == name.scheme && k.belongsTo(name) {
			e.forget()
			g.admit(e, now)
		}
	}
}

// State returns why the next request of a key would wait, and whether the key is known. If
// the request would be sent at once, Reason is "". State changes nothing.
func (g *Gate) State(key string) (w Wait, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.keys[nameOfKey(key).short()]
	if e == nil {
		return Wait{}, false
	}
	return e.state(g, time.Now(), nil), true
}

// Keys returns the keys that are known, in no order, as they were when the loop begins.
// After ten minutes without a request, or if there are more than MaxKeys, a key is
// forgotten if no wait is in force.
func (g *Gate) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		g.mu.Lock()
		names := make([]keyName, 0, len(g.keys))
		for name := range g.keys {
			names = append(names, name)
		}
		g.mu.Unlock()
		for _, name := range names {
			if !yield(name.String()) {
				return
			}
		}
	}
}

// settings returns the settings that the machine obeys.
func (g *Gate) settings() machine.Settings {
	r := machine.Settings{MaxWait: longestWait(g.MaxWait), Share: min(g.Share, 1), Pace: g.Pace}
	if !(r.Share > 0) { // NaN included
		r.Share = 1
	}
	return r
}

// pricesOf returns costs in the words of the machine, nil if there are none.
func pricesOf(costs []Cost) (prices []machine.Price) {
	for _, c := range costs {
		p := machine.Price{Policy: cutName(c.Policy), Units: float64(max(c.Units, 0))}
		if c.Policy == "" || c.Unit != "" {
			p.Unit = string(c.Unit.canonical())
		}
		prices = append(prices, p)
	}
	return prices
}

// answerOf puts an advice into the words of the machine, for a request with these
// prices. It appends the stocks to a list of the caller's.
func answerOf(a *Advice, prices []machine.Price, stocks []machine.Stock) machine.Answer {
	out := machine.Answer{
		Wait: max(a.Wait, a.Asked), Pace: a.Pace, Refused: a.Refused, RetryAfter: a.overruled(), Stocks: stocks,
	}
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Policies {
		if p := &a.Fields.Policies[i]; p.Unit == ConcurrentRequests && p.Quota > 0 && (out.AtOnce == 0 || p.Quota < out.AtOnce) {
			out.AtOnce = p.Quota
		}
	}
	metered := false // a limit is exhausted for which this request has costs: its meter waits instead
	var others time.Duration
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		p := policies.policy(l)
		if l.Remaining < 0 || p.Unit == ConcurrentRequests { // the number of these does not come back with time
			continue
		}
		s := stockOf(&a.Fields, i, p)
		out.Stocks = append(out.Stocks, s)
		switch {
		case s.Left > 0:
		case s.Unit != machine.RequestUnit && machine.Takes(prices, s.Unit, s.Policy) > 0:
			metered = true
		default:
			others = max(others, s.Reset)
		}
	}
	if metered && (a.Source == SourceLimit || a.Source == SourceWindow) {
		out.Wait = others
	}
	return out
}

// stockOf returns what is left of the limit at index i, whose policy is p.
func stockOf(f *Fields, i int, p *Policy) machine.Stock {
	l := &f.Limits[i]
	s := machine.Stock{Unit: string(p.Unit.canonical()), Policy: cutName(l.Name), Left: l.Remaining, Quota: max(p.Quota, 0)}
	if l.exhausted(p) {
		s.Left = 0
	}
	s.Window, _ = p.Window.Duration()
	if s.Reset, s.Ends = f.reset(i); !s.Ends {
		s.Reset, s.Ends = s.Window, p.Window.ok
	}
	return s
}

// kept returns the part of an advice that is remembered, which holds no memory of the
// response. remembered is a name that is kept already, and need not be copied again.
func (a *Advice) kept(remembered string) Advice {
	k := *a
	k.Fields = Fields{}
	k.Limit.Params, k.Limit.PartitionKey = nil, nil
	if name := cutName(a.Limit.Name); name != remembered {
		remembered = strings.Clone(name)
	}
	k.Limit.Name = remembered
	return k
}
