package ratelimit

import (
	"container/list"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// A Cost is what a request takes of a limit. A request without costs takes one unit of each
// limit of requests, and nothing of other limits, such as the tokens of a model. A limit uses
// the costs that name its policy. If there are none, it uses the costs that name only its
// unit. Matching costs are added. A Cost that matches no limit has no effect.
type Cost struct {
	Unit   Unit   // of the policy, such as "tokens"; "" is any unit if Policy is set, else Requests
	Policy string // the name of the policy, such as "input-tokens"; "" is every policy with that unit
	Units  int64  // an estimate of the units that the request takes, such as 1200; 0 or less is none
}

// A Gate delays requests until servers allow them. [Transport] uses one for an [http.Client]. Use
// it directly for other protocols and for queues of work. Call Enter or TryEnter before each
// request, and pass the [Advice] of an [Advisor] to the [Pass] after each answer.
//
// Requests with the same key share their limits. They wait in the order in which they came, so that
// small requests do not starve a large one. The zero Gate is ready to use. After the first use it
// must not be copied, and its fields must not be changed. It is safe for concurrent use.
//
//   - For a new key, ten requests are sent at once. All others wait for the first answer, at most
//     half a second. A request whose deadline comes earlier is sent at once. If requests have
//     costs, only one is sent before the first answer.
//   - During a wait nothing is sent. Otherwise the number of requests sent and under way never
//     exceeds what remains of a limit. A late answer, to a request that was sent before the newest
//     answer arrived, can only make a limit stricter.
//   - The costs of requests under way are reserved. If less is left than a request costs, it waits
//     until enough has flowed back. The rate is that of the policy's window. If answers show a
//     slower one, because other clients take the rest, it is that and a quarter of the difference.
//     What flows back within a second, at most an eighth of the quota, is left to other clients.
//     If no rate is known, a request waits for the end of the window. A request that costs more
//     than the quota is sent when the limit is full.
//   - After a refusal, or a window that was used up, the server may or may not allow more (draft-11
//     Sections 4.1.2 and 8.4). One request is sent as a probe. Each second another probe is sent,
//     until there is an answer. If a probe fails, another takes its place.
//   - Servers round resets up. If no reset has been longer than a second, for at least a second,
//     the Gate halves resets of a second. It stops after a refusal, a quota below 2, or a window.
//   - If answers take longer than the window of a limit of requests, their numbers are out of date
//     when they arrive. Requests are then spaced by window ÷ quota until a refusal.
//   - After a refusal that asks for no wait, the key waits for up to 300 ms. Each further refusal
//     makes the wait 1.5 times as long, up to 32 s. Half of each wait is random. Later such waits
//     begin with half of the one that was enough, and do not skip it. If a request is refused
//     although no other is under way, requests are spaced from then on. They are further apart
//     after each refusal, and a little closer after each served request.
//   - A refusal that no exhausted limit explains halves the number of requests that may be under
//     way. For a new key, this number becomes at most what was served. Answers raise it again,
//     slowly near the number that was refused; if that is refused again, it becomes one less.
//     Refusals count as one if no request was served in between. A policy of concurrent requests
//     sets the number directly. If the requests under way hang, another is sent after 32 s.
//   - If the deadline of a request that has waited leaves less time than recent answers took on
//     average, the request fails instead of being sent.
//
// A wait lasts longer by the time for which the machine was suspended.
type Gate struct {
	// MaxWait is the longest wait that is obeyed; 0, or less, is DefaultMaxWait. After it one
	// request is sent as a probe. Each refused probe makes the next wait 1.5 times as long, up
	// to the wait that the server asks for.
	MaxWait time.Duration
	// Pace also spaces requests by Advice.Pace. A request whose deadline comes before its
	// turn is sent at once.
	Pace bool
	// Share is the part of each limit that this Gate may use, more than 0 and at most 1. If N
	// processes share a quota, set 1/N. Any other value is 1. The pace is slower by the same
	// factor.
	Share float64
	// MaxKeys is how many keys are remembered; 0, or less, is 16,384. If all of them have a
	// wait in force, requests with other keys are sent at once. See [Gate.Keys].
	MaxKeys int
	// Waiting is called before a request begins to wait, also if the wait ends at once with a
	// [WaitError]. Its result done is called when the wait is over. Both functions may be nil.
	// If Waiting blocks, it delays only that request.
	Waiting func(Wait) (done func())

	mu    sync.Mutex
	keys  map[string]*entry
	used  list.List // of the values of keys, those used longest ago first
	swept time.Time // when all keys were last looked at
}

// A Pass is the permission to send one request. Call Answered or Failed after it. A second
// call does nothing, so Failed may be deferred. On a nil Pass both do nothing.
type Pass struct {
	gate       *Gate
	path       string // as in the entrant
	redirected bool   // the answer is a redirection, which the client may follow at once
	leg               // of the key, followed by those of the resources of the path
}

// A leg is a request as an entry counts it.
type leg struct {
	entry *entry // nil if the key is "", if there was no room for it, or if the end is known
	trip  machine.Trip
	next  *leg
}

// A Wait describes why requests of a key wait, and for how long.
type Wait struct {
	// Key is the key of the requests. If the server counts resources separately and a resource
	// is exhausted, a space and the name of the resource follow: see [Transport.Key].
	Key string
	// Until is when the next request of the key may be sent; zero if that depends on the
	// answer to another request.
	Until time.Time
	// Reason is one of these, which may be labels of metrics; "" if the next request would be
	// sent at once:
	//
	//   - "first": the first requests of the key are under way
	//   - "limit": a limit has too little left
	//   - "retry-after": the server asked to wait
	//   - "backoff": a refusal asked for no wait
	//   - "probe": a probe is under way
	//   - "concurrency": as many requests are under way as the server accepts
	//   - "pace": requests are spaced
	Reason   string
	Queued   int // requests of the key that wait already
	UnderWay int // requests sent and not answered
	// Advice is the advice of the newest response that set the limits in force. It has its
	// Limit, but no Fields.
	Advice Advice
}

// A WaitError is returned if a request was not sent because the deadline of its context comes
// before the end of the wait. It matches [context.DeadlineExceeded].
type WaitError struct {
	Until  time.Time // when the wait ends; zero if that depends on the answer to another request
	Advice Advice    // as in [Wait]
	Reason string    // as in [Wait]
}

// Error contains the end of the wait and the name of the limit, if they are known. The name is
// quoted and cut to 128 bytes.
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

// Timeout returns true. A [net/url.Error] around a WaitError then returns true too.
func (e *WaitError) Timeout() bool { return true }

// Enter waits until a request with this key and these costs may be sent. Requests with the
// key "" never wait. If the deadline of ctx comes first, Enter returns a [*WaitError], as soon
// as that is certain. If ctx ends otherwise, Enter returns its cause.
func (g *Gate) Enter(ctx context.Context, key string, costs ...Cost) (*Pass, error) {
	return g.enter(ctx, []byte(key), &entrant{trip: machine.Trip{Prices: pricesOf(costs)}})
}

// TryEnter is Enter for a caller that has other work to do. If the request may not be sent now,
// pass is nil, and until is a later time at which to ask again. Otherwise until is the zero time.
// TryEnter does not overtake requests that wait in Enter, and does not call Waiting. Do not send
// the request by a [Transport] with the same Gate, which would count it twice.
func (g *Gate) TryEnter(key string, costs ...Cost) (pass *Pass, until time.Time) {
	p := &Pass{gate: g, leg: leg{trip: machine.Trip{Prices: pricesOf(costs)}}}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if e := g.entry([]byte(key), now); e != nil {
		e.admit(now) // the timer may be late
		if e.queue.Len() > 0 {
			return nil, e.until
		}
		if v := e.machine.Ask(now, &p.trip); !v.Open {
			return nil, v.Until
		}
		e.send(p, now)
	}
	return p, time.Time{}
}

// Answered reports the answer to the request: its advice, and when it arrived. The zero time and a
// time in the future mean now.
func (p *Pass) Answered(a Advice, received time.Time) {
	p.answered(&a, "", received, false)
}

// answered is Answered for a Transport. resource is the name of the resource in the answer, or
// "". If end is not nil, the request is under way until the caller calls end, when the body ends.
func (p *Pass) answered(a *Advice, resource string, received time.Time, hasBody bool) (end func()) {
	p.finish(func(now time.Time) {
		if received.IsZero() || received.After(now) {
			received = now
		}
		// The sum has a monotonic reading, so that a change of the wall clock changes no wait.
		p.learn(a, resource, now.Add(received.Sub(now)), now)
		e := p.entry
		if hasBody && e.machine.OpenBody() {
			end = sync.OnceFunc(e.closed)
		}
		if e.place == nil && p.gate.keys[e.key] == nil { // displaced meanwhile
			p.gate.remember(e, now)
		}
	})
	return end
}

// Failed reports that there will be no answer. The server may have counted the request.
func (p *Pass) Failed() {
	p.finish(func(time.Time) {
		for l := &p.leg; l != nil; l = l.next {
			l.entry.machine.Failed(&l.trip)
		}
	})
}

// finish ends the request, unless its end is known already. It calls learn, and then lets
// through the requests that may now be sent.
func (p *Pass) finish(learn func(now time.Time)) {
	if p == nil || p.gate == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.entry == nil {
		return
	}
	now := time.Now()
	learn(now)
	for l := &p.leg; l != nil; l = l.next {
		if p.redirected {
			l.entry.machine.Redirected(now)
		}
		l.entry.admit(now)
	}
	p.leg = leg{}
}

// closed ends a request whose answer had a body.
func (e *entry) closed() {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	e.machine.CloseBody()
	e.admit(time.Now())
}

// learn updates the key, and the resources of the path, from an answer.
func (p *Pass) learn(a *Advice, resource string, received, now time.Time) {
	var few [4]machine.Stock
	answer := answerOf(a, p.trip.Prices, few[:0])
	e := p.entry
	e.endScout(p.path)
	limits, named := answer, (*leg)(nil)
	if p.path != "" && resource != "" && len(answer.Stocks) > 0 {
		if x := e.resource(p.path, resource, now); x != nil {
			named = p.legOf(x, now)
			answer, limits = divide(answer)
		}
	}
	for l := p.next; l != nil; l = l.next {
		x := l.entry
		switch {
		case answer.Refused: // by a limit of the key: the resource may have counted the request
			answer.Explained = x.machine.RefusedElsewhere(&l.trip) || answer.Explained
		case l == named:
			x.learn(l, a, &limits, received)
		case len(limits.Stocks) > 0: // of something else
			x.machine.Returned(&l.trip, now)
		default:
			x.machine.Answered(&l.trip, &machine.Answer{}, received)
		}
	}
	if limits.Refused && !answer.Refused { // by a limit of the resource
		e.machine.Returned(&p.trip, now)
	} else {
		e.learn(&p.leg, a, &answer, received)
	}
}

// divide divides an answer that names a resource. The limits belong to the resource. A wait or a
// refusal belongs to the key, unless an exhausted limit explains it.
func divide(a machine.Answer) (key, resource machine.Answer) {
	key, resource = a, a
	key.Stocks, key.Pace, key.Elsewhere, resource.AtOnce = nil, 0, true, 0
	if a.Exhausted() {
		key.Wait, key.RetryAfter, key.Refused = 0, false, false
	}
	return key, resource
}

// learn updates an entry from an answer.
func (e *entry) learn(l *leg, a *Advice, answer *machine.Answer, received time.Time) {
	if e.machine.Answered(&l.trip, answer, received) {
		e.advice = a.kept(e.advice.Limit.Name)
	}
}

// legOf returns the leg of a request for a resource or a scout. If there is none, the request is
// counted as if it had been known when the request was sent.
func (p *Pass) legOf(x *entry, now time.Time) *leg {
	for l := p.next; l != nil; l = l.next {
		if l.entry.key == x.key { // also if it has been forgotten meanwhile
			return l
		}
	}
	p.next = &leg{entry: x, next: p.next, trip: machine.Trip{Prices: p.trip.Prices}}
	x.machine.Join(&p.next.trip, &p.trip, now)
	return p.next
}

// Forget forgets a key and its resources (see [Transport.Key]), for example after a change of
// credentials. If the key is an origin, such as "https://api.example", it also forgets all
// keys that [KeyBy] has made of that origin. Answers to requests under way have no effect.
func (g *Gate) Forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch e := g.find(key); {
	case e == nil:
	case e.parent != nil:
		e.parent.forgetResource(e, now)
	default:
		g.forget(e, now)
	}
	if strings.Index(key, "://") > 0 {
		for k, e := range g.keys {
			if strings.HasPrefix(k, key+keyMark) {
				g.forget(e, now)
			}
		}
	}
}

// forget forgets a key and its resources. Their waiters ask again.
func (g *Gate) forget(e *entry, now time.Time) {
	g.used.MoveToFront(e.place)
	g.renew(e).admit(now)
}

// State returns why the next request of a key would wait. A resource waits at least as long as
// its key. If the Gate does not know the key, ok is false. State changes nothing.
func (g *Gate) State(key string) (w Wait, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.find(key)
	if e == nil {
		return Wait{}, false
	}
	now := time.Now()
	w = e.state(now, &machine.Trip{})
	if key := e.ofKey().state(now, &machine.Trip{}); key.outlasts(&w) {
		w.Until, w.Reason, w.Advice = key.Until, key.Reason, key.Advice
	}
	return w, true
}

// outlasts reports whether w ends after other. A wait that depends on an answer is the longest.
func (w *Wait) outlasts(other *Wait) bool {
	switch {
	case w.Reason == "" || other.Reason == "":
		return w.Reason != ""
	case w.Until.IsZero() || other.Until.IsZero():
		return !other.Until.IsZero()
	}
	return w.Until.After(other.Until)
}

// Keys returns the keys that the Gate knows when the loop begins, and their resources, in no
// order. If there are more than MaxKeys, the Gate forgets keys that have no wait in force.
func (g *Gate) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		g.mu.Lock()
		known := slices.AppendSeq(make([]string, 0, len(g.keys)), maps.Keys(g.keys))
		for _, e := range g.keys {
			known = slices.AppendSeq(known, maps.Keys(e.resources))
		}
		g.mu.Unlock()
		slices.Values(known)(yield) // without the lock
	}
}

// newMachine returns a machine that knows nothing.
func (g *Gate) newMachine() machine.Machine {
	r := machine.Settings{MaxWait: longestWait(g.MaxWait), Share: min(g.Share, 1), Pace: g.Pace}
	if !(r.Share > 0) { // NaN included
		r.Share = 1
	}
	return machine.Machine{Settings: r}
}

// pricesOf converts costs for the machine. The result is nil if there are none.
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

// answerOf converts the advice of the answer to a request with these prices for the machine.
// It appends the limits to stocks, so that the caller can provide the memory.
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
	metered := false // an exhausted limit that this request has costs for; its meter waits instead
	var others time.Duration
	for i := range a.Fields.Limits {
		p := policies.policy(&a.Fields.Limits[i])
		s := stockOf(&a.Fields, i, p)
		zeros := p.Quota == 0 && s.Ends && s.Reset == 0 // Tyk sends these if there is no limit
		if zeros || a.Fields.Limits[i].Remaining < 0 || p.Unit == ConcurrentRequests {
			continue // concurrent requests do not come back with time
		}
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

// stockOf converts the limit at index i, whose policy is p.
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

// kept returns the part of an advice that is remembered. It holds no memory of the response.
// If the name of the limit is equal to remembered, the result uses that instead of a copy.
func (a Advice) kept(remembered string) Advice {
	a.Fields = Fields{}
	a.Limit.Params, a.Limit.PartitionKey = nil, nil
	if name := cutName(a.Limit.Name); name != remembered {
		remembered = strings.Clone(name)
	}
	a.Limit.Name = remembered
	return a
}
