package machine

import (
	"math"
	"slices"
	"time"
)

// The words of the machine: what it is told of settings, prices and answers, what it
// answers, and the requests under way. Those that wait in front of a Gate are in a list
// of the same kind.

// requestUnit is the unit of which each request takes one.
const RequestUnit = "requests"

const (
	// waveTime is how long a wave of probes is waited for before the next goes. A
	// probe that hangs must not starve its key.
	waveTime = time.Second
	// mostBackoff is the longest wait after a refusal that asks for none. Where a request
	// waits for those under way, and all of these hang, it goes after it.
	mostBackoff = 32 * time.Second
)

// settings are those of a Gate that the machine obeys.
type Settings struct {
	MaxWait time.Duration
	Share   float64 // more than 0, at most 1
	Pace    bool
}

// A report is what an answer says, in the words of the machine.
type Answer struct {
	Wait       time.Duration // before the next request, however long; 0 to go on
	Pace       time.Duration // between requests, 0 if there is none
	Refused    bool
	AtOnce     int64   // as many requests may be under way, 0 if no policy says so
	Stocks     []Stock // what remains of each limit that says so
	RetryAfter bool    // the wait takes the place of limits with nothing remaining
}

// exhausted reports whether nothing remains of some limit.
func (a *Answer) exhausted() bool {
	return slices.ContainsFunc(a.Stocks, func(s Stock) bool { return s.Left == 0 })
}

// saysRequests reports whether an answer says what remains of a limit of requests.
func (a *Answer) saysRequests() bool {
	return slices.ContainsFunc(a.Stocks, func(s Stock) bool { return s.Unit == RequestUnit })
}

// A stock is what remains of a limit.
type Stock struct {
	Unit, Policy string // requestUnit, or another; and the name, as much as is remembered
	Left         int64
	Quota        int64         // 0 if it is not known
	Window       time.Duration // of the policy, 0 if it is not known
	Reset        time.Duration // until the limit changes, else the window
	Ends         bool          // whether reset is known
}

// A verdict says whether a request may be sent.
type Verdict struct {
	Open  bool
	Until time.Time // if not open: when to ask again at the latest; then it is never zero
	// known is true if until is when a limit lets more through, as far as anything
	// tells.
	Known bool
	// certain is true if no answer to a request under way can open the gate
	// earlier.
	Certain bool
	// polite is true if waiting is a courtesy. A request whose deadline comes
	// earlier goes at once.
	Polite bool
	step   time.Duration // polite: the time between that request and the next
}

// hurries reports whether a request with that many ahead of it would miss its deadline
// by waiting politely.
func (v *Verdict) Hurries(deadline time.Time, ahead int) bool {
	return v.Polite && !deadline.IsZero() && deadline.Before(v.Until.Add(scale(v.step, float64(ahead))))
}

// later makes a verdict wait until a time, if it does not wait for longer already.
func (v *Verdict) later(until time.Time, known bool) {
	if v.Open || v.Until.Before(until) {
		v.Open, v.Until, v.Known = false, until, known
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
type Price struct {
	Unit, Policy string
	Units        float64 // more than 0
}

// traffic is what has been sent with a key.
type traffic struct {
	last   time.Time // when the last request was sent
	number int64     // of the last request, from 1
	silent int64     // answers, and failures, that said nothing of what remains
	under  trips     // requests under way
}

// hung returns when it is no longer waited for those under way, because they may hang.
func (s *traffic) hung(r *Settings) time.Time { return s.last.Add(min(mostBackoff, r.MaxWait)) }

// A Trip is a request on its way. It is an element of the list of those under way, so
// that to add and to remove it costs neither memory nor a search.
type Trip struct {
	Prices     []Price
	number     int64
	silent     int64 // traffic.silent when it was sent
	crowded    bool  // another with prices was sent at about the same time: the server may have seen either first
	at         time.Time
	prev, next *Trip
}

// trips are requests under way in the order in which they were sent.
type trips struct {
	first, last *Trip
	n           int
	priced      int // those with prices
}

func (l *trips) push(t *Trip) {
	t.prev, t.next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.n++
	if t.Prices != nil {
		l.priced++
	}
}

func (l *trips) remove(t *Trip) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
	if t.Prices != nil {
		l.priced--
	}
}
