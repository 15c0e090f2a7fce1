package obey

import (
	"cmp"
	"container/list"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// A Cost is what a request takes of a limit. A request without costs takes one unit of each
// limit of requests, and nothing of other limits, such as the tokens of a model. A limit uses
// the costs that name its policy. If there are none, it uses the costs that name only its
// unit. Matching costs are added. A Cost that matches no limit has no effect.
type Cost struct {
	Unit   ratelimit.Unit // of the policy, such as "tokens"; "" is any unit if Policy is set, else Requests
	Policy string         // the name of the policy, such as "input-tokens"; "" is every policy with that unit
	Units  int64          // an estimate of the units that the request takes, such as 1200; 0 or less is none
}

// A Gate delays requests until servers allow them. [Transport] uses one for an [http.Client]. Use
// it directly for other protocols and for queues of work. Call Enter or TryEnter before each
// request, and pass the [ratelimit.Advice] of an [ratelimit.Advisor] to the [Pass] after each answer.
// The zero Gate is ready to use. After the first use it must not be copied, and its fields must not
// be changed. It is safe for concurrent use.
//
// Requests with the same key share their limits. The rules in short:
//
//   - During a wait nothing is sent, and requests sent and under way never exceed what remains of a
//     limit. Costs are reserved until the answer.
//   - For a new key, ten requests are sent, or one if requests have costs. Further requests wait for
//     the first answer, for at most 500 ms without costs. After a wait, or a window that was used up,
//     one request is sent as a probe. All others wait for its answer.
//   - After a refusal that names no wait, and that no announced limit explains, the key waits for up to
//     300 ms at first, and for up to 32 s after many. Afterwards fewer of its requests are under way at
//     once. If only one was under way already, the time between requests grows. Each served request
//     makes the key a little faster.
//   - Some announcements are too coarse: times in whole seconds, and windows that end before the answer
//     arrives. Until a refusal, the Gate assumes the value that allows more.
//   - Requests are sent in the order in which they came. A request whose deadline comes before its
//     turn, or before its answer is likely to arrive, fails at once.
//
// If the computer is suspended during a wait, the wait ends later by the time of the suspension. The
// guide for clients (docs/client.md) has the [rules in full].
//
// [rules in full]: https://github.com/httpfields/ratelimit/blob/main/docs/client.md#how-a-gate-decides
type Gate struct {
	// MaxWait is the longest wait that is obeyed; 0, or less, is DefaultMaxWait. After it one
	// request is sent as a probe. Each refused probe makes the next wait 1.5 times as long, up
	// to the wait that the server asks for, until a request is served.
	MaxWait time.Duration
	// Pace also spaces requests by Advice.Pace. A request whose deadline comes before its
	// turn is sent at once.
	Pace bool
	// Share is the part of each limit that this Gate may use, more than 0 and at most 1. If N
	// processes share a quota, set 1/N. Any other value is 1. The pace is slower by the same
	// factor.
	Share float64
	// Jitter is the longest random time that is added to a wait that a server asks for, after MaxWait
	// has cut the wait; 0, or less, adds nothing. Set it if many processes share a quota. Processes
	// that were refused together then do not come back together.
	Jitter time.Duration
	// MaxKeys is how many keys are remembered; 0, or less, is 16,384. If all of them have a
	// wait in force, requests with other keys are sent at once. See [Gate.Keys].
	MaxKeys int
	// Waiting is called before a request begins to wait, also if the wait ends at once with a
	// [WaitError]. Its result done is called when the wait is over. Both functions may be nil.
	// If Waiting blocks, it delays only that request.
	Waiting func(Wait) (done func())

	mu    sync.Mutex
	keys  map[string]*key
	used  list.List // of the values of keys, those used longest ago first
	swept time.Time // when all keys were last looked at
}

// A Pass is the permission to send one request. Call Answered or Failed after it. A second
// call does nothing, so Failed may be deferred. On a nil Pass both do nothing.
type Pass struct {
	gate  *Gate
	route routeName // as in terms
	key   *key      // nil if it is "", if there was no room for it, or if the request has ended
	trip  machine.Trip
	parts *trip // the request as the parts of the key count it
}

// A Wait describes why requests of a key wait, and for how long.
type Wait struct {
	// Key is the key of the requests. If a part of the key makes them wait, a space and the name
	// of the part follow: see [Transport.Key].
	Key string
	// Until is when the next request of the key may be sent; zero if this time depends on the answer to
	// another request.
	Until time.Time
	// Reason is why the next request would wait; "" if it would be sent at once.
	Reason   Reason
	Queued   int // requests of the key that wait already
	UnderWay int // requests sent and not answered
	// Advice is the advice of the newest response that set the limits in force. Advice.Limit is set,
	// and Advice.Fields is empty.
	Advice ratelimit.Advice
}

// A Reason is why requests wait. Its text may be the label of a metric.
type Reason string

// The reasons to wait.
const (
	ReasonFirst       = Reason(machine.First)       // "first": the first requests of the key are under way
	ReasonLimit       = Reason(machine.Limit)       // "limit": a limit has too little left
	ReasonRetryAfter  = Reason(machine.RetryAfter)  // "retry-after": the server asked to wait
	ReasonBackoff     = Reason(machine.Backoff)     // "backoff": a refusal asked for no wait
	ReasonProbe       = Reason(machine.Probe)       // "probe": a probe is under way
	ReasonConcurrency = Reason(machine.Concurrency) // "concurrency": as many requests are under way as the server accepts
	ReasonPace        = Reason(machine.Pace)        // "pace": requests are spaced
)

// A WaitError is returned if a request was not sent because the wait would end after the deadline of
// its context, or would take longer than [Transport.Patience]. It matches [context.DeadlineExceeded].
type WaitError struct {
	Until  time.Time        // when the wait ends; zero if this time depends on the answer to another request
	Advice ratelimit.Advice // as in [Wait]
	Reason Reason           // as in [Wait]
}

// Error contains the end of the wait and the name of the limit, if they are known. The name is
// quoted and cut to 128 bytes.
func (e *WaitError) Error() string {
	text := "ratelimit: not sent: the wait would end too late"
	if !e.Until.IsZero() {
		text += " at " + e.Until.UTC().Format(time.RFC3339)
	}
	if a := &e.Advice; a.Source == ratelimit.SourceLimit || a.Source == ratelimit.SourceWindow || !a.Limit.Equal(ratelimit.Limit{}) {
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
	return g.enter(ctx, []byte(key), &terms{trip: machine.Trip{Prices: pricesOf(costs)}})
}

// TryEnter is Enter for a caller that has other work to do. If the request may not be sent now,
// pass is nil, and until is a later time at which to ask again. Otherwise until is the zero time.
// TryEnter does not overtake requests that wait in Enter, and does not call Waiting. Do not send
// the request by a [Transport] with the same Gate, which would count it twice.
func (g *Gate) TryEnter(key string, costs ...Cost) (pass *Pass, until time.Time) {
	p := &Pass{gate: g, trip: machine.Trip{Prices: pricesOf(costs)}}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if k := g.key([]byte(key), now); k != nil {
		switch x, v := k.enters(&waiter{pass: p}, now); {
		case x == nil:
		case x.queue.Len() > 0:
			return nil, x.until
		default:
			return nil, v.Until
		}
	}
	return p, time.Time{}
}

// Answered reports the answer to the request: its advice, and when it arrived. The zero time and a
// time in the future mean now.
func (p *Pass) Answered(a ratelimit.Advice, received time.Time) {
	p.answered(&a, "", received, false, false)
}

// answered is Answered for a Transport. resource is the name of the resource in the answer, or "". If
// redirects is true, the client may follow a redirection at once. If end is not nil, the request is
// under way until the caller calls end. The caller does so when the body ends.
func (p *Pass) answered(a *ratelimit.Advice, resource string, received time.Time, hasBody, redirects bool) (end func()) {
	if a.Final { // it shows nothing about other requests
		p.Failed()
		return nil
	}
	p.finish(func(now time.Time) {
		if received.IsZero() || received.After(now) {
			received = now
		}
		// The sum has a monotonic reading, so that a change of the wall clock changes no wait.
		p.learn(a, resource, now.Add(received.Sub(now)), now)
		k := p.key
		if redirects {
			for _, x := range k.lines() {
				x.machine.Redirected(now)
			}
		}
		if hasBody && k.machine.OpenBody() {
			end = sync.OnceFunc(k.closed)
		}
		if k.place == nil && p.gate.keys[k.name] == nil { // displaced meanwhile
			p.gate.remember(k, now)
		}
	})
	return end
}

// Failed reports that there will be no answer. The server may have counted the request.
func (p *Pass) Failed() {
	p.finish(func(now time.Time) {
		p.endScouts(false, false)
		p.key.machine.Failed(&p.trip)
		for t := p.parts; t != nil; t = t.next {
			if !t.scout {
				t.part.machine.Failed(&t.Trip)
			}
		}
	})
}

// finish ends the request, unless it has ended already. It calls learn, and then lets through the
// requests that may now be sent.
func (p *Pass) finish(learn func(now time.Time)) {
	if p == nil || p.gate == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.key == nil {
		return
	}
	now := time.Now()
	learn(now)
	p.key.admit(now)
	for t := p.parts; t != nil; t = t.next {
		t.part.admit(now)
	}
	p.key, p.trip, p.parts = nil, machine.Trip{}, nil
}

// closed ends a request whose answer had a body.
func (k *key) closed() {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	k.machine.CloseBody()
	k.admit(time.Now())
}

// Forget forgets a key and its parts (see [Transport.Key]), or one part, for example after a change
// of credentials. If the key is an origin, such as "https://api.example", it also forgets all keys
// of [KeyBy] for that origin. An answer to a request under way can restore a part, but not a key.
func (g *Gate) Forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch k, x := g.find(key); {
	case k == nil:
	case x != nil:
		k.forgetPart(x)
		k.admit(now)
	default:
		g.forget(k, now)
	}
	if strings.Index(key, "://") > 0 {
		ofOrigin := short(key, maxOrigin) + keyMark
		for name, k := range g.keys {
			if strings.HasPrefix(name, ofOrigin) {
				g.forget(k, now)
			}
		}
	}
}

// forget forgets a key and its parts. Their waiters then wait for a new key.
func (g *Gate) forget(k *key, now time.Time) {
	g.used.MoveToFront(k.place)
	g.renew(k).admit(now)
}

// State returns why the next request of a key, or of a part of a key, would wait (see [Transport.Key]).
// For a key, this is a request with a new route. A part waits at least as long as the whole key. If the
// Gate does not know the key, ok is false. State changes nothing.
func (g *Gate) State(key string) (w Wait, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, x := g.find(key)
	if k == nil {
		return Wait{}, false
	}
	now := time.Now()
	if x == nil {
		w = k.state(now, &machine.Trip{})
	} else {
		w = x.state(now, &machine.Trip{})
		w.Key = x.id
		w.adopt(&k.line, now)
	}
	for _, other := range k.parts() {
		switch {
		case x == nil && new(route).obeys(other):
			w.adopt(&other.line, now)
			w.Queued += other.queue.Len()
		case other.whole:
			w.adopt(&other.line, now)
		}
	}
	return w, true
}

// adopt makes the wait of another line the reason of w if that wait ends later.
func (w *Wait) adopt(e *line, now time.Time) {
	if other := e.state(now, &machine.Trip{}); other.outlasts(w) {
		w.Until, w.Reason, w.Advice = other.Until, other.Reason, other.Advice
	}
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

// Keys returns the keys that the Gate knows when the loop begins, and their parts (see
// [Transport.Key]), in no order. If there are more keys than MaxKeys, the Gate forgets keys that have
// no wait in force.
func (g *Gate) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		g.mu.Lock()
		known := slices.AppendSeq(make([]string, 0, len(g.keys)), maps.Keys(g.keys))
		for _, k := range g.keys {
			for _, x := range k.parts() {
				if x.route == nil || x.advice.Refused && !x.whole { // it is counted apart
					known = append(known, x.id)
				}
			}
		}
		g.mu.Unlock()
		slices.Values(known)(yield) // without the lock
	}
}

// newMachine returns a machine that knows nothing.
func (g *Gate) newMachine() machine.Machine {
	r := machine.Settings{
		MaxWait: cmp.Or(max(g.MaxWait, 0), ratelimit.DefaultMaxWait), Jitter: g.Jitter,
		Share: min(g.Share, 1), Pace: g.Pace,
	}
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
			p.Unit = string(c.Unit.Canonical())
		}
		prices = append(prices, p)
	}
	return prices
}

// answerOf converts an advice for the machine. prices are what the answered request takes. answerOf
// appends the limits to stocks, so that the caller can provide the memory.
func answerOf(a *ratelimit.Advice, prices []machine.Price, stocks []machine.Stock) machine.Answer {
	out := machine.Answer{
		Wait: max(a.Wait, a.Asked), Pace: a.Pace, Refused: a.Refused, AtOnce: atOnce(a.Fields.Policies), Stocks: stocks,
		RetryAfter: a.Source == ratelimit.SourceRetryAfter || a.Source == ratelimit.SourceRefused,
	}
	metered := false // a limit is exhausted for which only requests with costs wait
	var others time.Duration
	i := -1
	for l, p := range a.Fields.Pairs() {
		i++
		s := stockOf(&a.Fields, i, p)
		zeros := p.Quota == 0 && s.Ends && s.Reset == 0 // Tyk sends these if there is no limit
		if zeros || l.Remaining < 0 || p.Unit == ratelimit.ConcurrentRequests {
			continue // concurrent requests do not come back with time
		}
		out.Stocks = append(out.Stocks, s)
		switch {
		case s.Remaining > 0:
		case isMetered(&s, prices):
			metered = true
		default:
			others = max(others, s.Reset)
		}
	}
	if metered && !out.RetryAfter && a.Source != ratelimit.SourceNone {
		out.Wait = others
	}
	return out
}

// isMetered reports whether a limit is in another unit than requests, and a request has costs for it.
// Only such requests wait for the limit.
func isMetered(s *machine.Stock, prices []machine.Price) bool {
	return s.Unit != machine.RequestUnit && machine.Takes(prices, s.Unit, s.Policy) > 0
}

// atOnce returns how many requests the policies of concurrent requests allow to be under way; 0 is any
// number.
func atOnce(policies []ratelimit.Policy) (n int64) {
	for i := range policies {
		if p := &policies[i]; p.Unit == ratelimit.ConcurrentRequests && p.Quota > 0 && (n == 0 || p.Quota < n) {
			n = p.Quota
		}
	}
	return n
}

// stockOf converts Limits[i], whose policy is p.
func stockOf(f *ratelimit.Fields, i int, p *ratelimit.Policy) machine.Stock {
	l := &f.Limits[i]
	s := machine.Stock{Unit: string(p.Unit.Canonical()), Policy: cutName(l.Name), Remaining: l.Remaining, Quota: max(p.Quota, 0)}
	if p.Quota == 0 {
		s.Remaining = 0
	}
	s.Window, _ = p.Window.Duration()
	if s.Reset, s.Ends = f.UntilReset(i); !s.Ends {
		s.Reset, s.Ends = p.Window.Duration()
	}
	return s
}

// kept returns the part of an advice that is remembered. It keeps no memory of the response alive. If
// the name of the limit is equal to remembered, the result contains remembered instead of a copy.
func kept(a ratelimit.Advice, remembered string) ratelimit.Advice {
	a.Fields = ratelimit.Fields{}
	a.Limit.Params, a.Limit.PartitionKey = nil, nil
	if name := cutName(a.Limit.Name); name != remembered {
		remembered = strings.Clone(name)
	}
	a.Limit.Name = remembered
	return a
}

// maxName is how many bytes of the name of a limit are remembered and printed.
const maxName = 128

// cutName returns the part of a name that is remembered and printed.
func cutName(name string) string { return name[:min(len(name), maxName)] }
