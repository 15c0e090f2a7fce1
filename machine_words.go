package ratelimit

import (
	"math"
	"slices"
	"time"
)

// The words of the machine: what it is told of settings, prices and answers, what it
// answers, and the requests under way. Those that wait in front of a Gate are in a list
// of the same kind.

// requestUnit is the unit of which each request takes one.
const requestUnit = "requests"

const (
	// waveTime is how long a wave of probes is waited for before the next goes. A
	// probe that hangs must not starve its key.
	waveTime = time.Second
	// mostBackoff is the longest wait after a refusal that asks for none. Where a request
	// waits for those under way, and all of these hang, it goes after it.
	mostBackoff = 32 * time.Second
)

// settings are those of a Gate that the machine obeys.
type settings struct {
	maxWait time.Duration
	share   float64 // more than 0, at most 1
	pace    bool
}

// A report is what an answer says, in the words of the machine.
type report struct {
	wait    time.Duration // before the next request, however long; 0 to go on
	pace    time.Duration // between requests, 0 if there is none
	refused bool
	atOnce  int64   // as many requests may be under way, 0 if no policy says so
	stocks  []stock // what remains of each limit that says so
	waived  bool    // the wait takes the place of limits with nothing remaining
}

// exhausted reports whether nothing remains of some limit.
func (a *report) exhausted() bool {
	return slices.ContainsFunc(a.stocks, func(s stock) bool { return s.left == 0 })
}

// saysRequests reports whether an answer says what remains of a limit of requests.
func (a *report) saysRequests() bool {
	return slices.ContainsFunc(a.stocks, func(s stock) bool { return s.unit == requestUnit })
}

// A stock is what remains of a limit.
type stock struct {
	unit, policy string // requestUnit, or another; and the name, as much as is remembered
	left         int64
	quota        int64         // 0 if it is not known
	window       time.Duration // of the policy, 0 if it is not known
	reset        time.Duration // until the limit changes, else the window
	ends         bool          // whether reset is known
}

// A verdict says whether a request may be sent.
type verdict struct {
	open  bool
	until time.Time // if not open: when to ask again at the latest; then it is never zero
	// known is true if until is when a limit lets more through, as far as anything
	// tells.
	known bool
	// certain is true if no answer to a request under way can open the gate
	// earlier.
	certain bool
	// polite is true if waiting is a courtesy. A request whose deadline comes
	// earlier goes at once.
	polite bool
	step   time.Duration // polite: the time between that request and the next
}

// hurries reports whether a request with that many ahead of it would miss its deadline
// by waiting politely.
func (v *verdict) hurries(deadline time.Time, ahead int) bool {
	return v.polite && !deadline.IsZero() && deadline.Before(v.until.Add(scale(v.step, float64(ahead))))
}

// later makes a verdict wait until a time, if it does not wait for longer already.
func (v *verdict) later(until time.Time, known bool) {
	if v.open || v.until.Before(until) {
		v.open, v.until, v.known = false, until, known
	}
}

// scale multiplies a duration, saturating.
func scale(d time.Duration, by float64) time.Duration {
	if d == 0 {
		return 0 // also +Inf times
	}
	if x := float64(d) * by; x < math.MaxInt64 {
		return time.Duration(x)
	}
	return math.MaxInt64
}

// A price is what a request takes of the limits that it concerns. The unit or the
// policy may be "", which is any.
type price struct {
	unit, policy string
	units        float64 // more than 0
}

// traffic is what has been sent with a key.
type traffic struct {
	last   time.Time // when the last request was sent
	number int64     // of the last request, from 1
	silent int64     // answers, and failures, that said nothing of what remains
	under  trips     // requests under way
}

// hung returns when it is no longer waited for those under way, because they may hang.
func (s *traffic) hung(r *settings) time.Time { return s.last.Add(min(mostBackoff, r.maxWait)) }

// A trip is a request on its way.
type trip struct {
	prices  []price
	number  int64
	silent  int64 // traffic.silent when it was sent
	crowded bool  // another with prices was sent at about the same time: the server may have seen either first
	at      time.Time
	link[trip]
}

// trips are requests under way in the order in which they were sent.
type trips struct {
	chain[trip, *trip]
	priced int // those with prices
}

func (l *trips) push(t *trip) {
	l.chain.push(t)
	if t.prices != nil {
		l.priced++
	}
}

func (l *trips) remove(t *trip) {
	l.chain.remove(t)
	if t.prices != nil {
		l.priced--
	}
}

// A chain is a list whose elements hold its links themselves, so that to add one, and to
// take it out, costs no memory and no search.
type chain[T any, E interface {
	*T
	links() *link[T]
}] struct {
	first, last *T
	n           int
}

// A link joins an element of a chain to those before and behind it.
type link[T any] struct{ prev, next *T }

func (l *link[T]) links() *link[T] { return l }

func (c *chain[T, E]) push(e *T) {
	E(e).links().prev = c.last
	if c.last == nil {
		c.first = e
	} else {
		E(c.last).links().next = e
	}
	c.last = e
	c.n++
}

func (c *chain[T, E]) remove(e *T) {
	l := E(e).links()
	if l.prev == nil {
		c.first = l.next
	} else {
		E(l.prev).links().next = l.next
	}
	if l.next == nil {
		c.last = l.prev
	} else {
		E(l.next).links().prev = l.prev
	}
	*l = link[T]{}
	c.n--
}
