package machine

import (
	"math"
	"slices"
	"time"
)

// The words of the machine: settings, prices and answers go in, a Verdict comes out. Below
// them are the requests under way.

// RequestUnit is the unit of limits on requests. Each request takes one.
const RequestUnit = "requests"

// Settings are what the caller sets.
type Settings struct {
	MaxWait time.Duration // the longest wait that is obeyed
	Share   float64       // the part of what remains that may be used, more than 0, at most 1
	Pace    bool          // requests are spaced by Answer.Pace
	Jitter  time.Duration // waits that a server asks for end up to this much later; 0 or more
	Part    bool          // another Machine bounds how many requests are under way
}

// An Answer contains what the answer to a request asks for.
type Answer struct {
	Wait       time.Duration // before the next request, however long; 0 to go on
	Pace       time.Duration // between requests, 0 for no pace
	Refused    bool          // a limit refused the request
	AtOnce     int64         // how many requests may be under way, 0 if no policy bounds that
	Stocks     []Stock       // the limits whose remaining units are known
	RetryAfter bool          // Retry-After decided Wait: it overrides exhausted limits
	Elsewhere  bool          // the Machines of parts know what remains, and wait after refusals
	Explained  bool          // the Machine of a part explains the refusal
}

// Exhausted reports whether nothing remains of some limit.
func (a *Answer) Exhausted() bool {
	return slices.ContainsFunc(a.Stocks, func(s Stock) bool { return s.Left == 0 })
}

// spacing returns the time between two requests that use no more than the quotas of the limits of
// requests, if their windows are over before answers arrive. To wait for each answer would use only
// a part of a quota. It returns 0 if the answer refuses something, or if another limit counts.
func (a *Answer) spacing(typical time.Duration) (spacing time.Duration) {
	if a.Refused || a.RetryAfter {
		return 0
	}
	for i := range a.Stocks {
		s := &a.Stocks[i]
		stale := s.Unit == RequestUnit && s.Quota > 0 && 0 < s.Window && s.Window <= typical
		if stale {
			spacing = max(spacing, s.Window/time.Duration(s.Quota))
		} else if s.Unit == RequestUnit || s.Left == 0 {
			return 0
		}
	}
	return spacing
}

// A Stock is what remains of a limit.
type Stock struct {
	Unit, Policy string        // RequestUnit or another; the name, as much as is remembered
	Left         int64         // quota units
	Quota        int64         // 0 if it is not known
	Window       time.Duration // of the policy, 0 if it is not known
	Reset        time.Duration // until the limit changes, else the window
	Ends         bool          // Reset is known
}

// A Verdict is whether a request may be sent.
type Verdict struct {
	Open    bool          // it may be sent
	Until   time.Time     // if not Open: when to ask again at the latest, never zero
	Certain bool          // no answer to a request under way allows it earlier
	Polite  bool          // waiting is a courtesy: a request whose deadline comes earlier is sent at once
	Depends bool          // at Until the machine stops waiting for an answer, which may never come
	Reason  Reason        // if not Open
	step    time.Duration // if Polite: the time between that request and the next
}

// A Reason is why a request may not be sent yet, as the caller shows it.
type Reason string

const (
	First       Reason = "first"       // the first requests of a key are under way
	Limit       Reason = "limit"       // too little is left of a limit
	RetryAfter  Reason = "retry-after" // the server asked to wait
	Backoff     Reason = "backoff"     // a refusal asked for no wait
	Probe       Reason = "probe"       // a probe is under way
	Concurrency Reason = "concurrency" // as many are under way as the server takes
	Pace        Reason = "pace"
)

// Hurries reports whether a request with that many ahead of it would miss its deadline
// by waiting politely.
func (v *Verdict) Hurries(deadline time.Time, ahead int) bool {
	return v.Polite && !deadline.IsZero() && deadline.Before(v.Until.Add(scale(v.step, float64(ahead))))
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

// A Price is what a request takes of the limits of a unit, of a policy, or of both.
type Price struct {
	Unit, Policy string  // either may be "", which is any
	Units        float64 // 0 or more
}

// traffic is what has been sent with a key.
type traffic struct {
	last   time.Time // when the last request was sent
	probed time.Time // the same, but zero if that request got no answer: the next goes in its place
	number int64     // of the last request, from 1
	failed int64     // requests that got no answer
	under  trips     // requests under way
}

// A Trip is a request, before and after it is sent. It is an element of the list of requests under
// way, so it is added and removed without memory and without a search.
type Trip struct {
	Prices     []Price
	Follows    bool // it follows a redirection
	Owner      any  // of the caller, who sets it after Send
	number     int64
	failed     int64 // traffic.failed when it was sent
	unordered  bool  // sent within closeBy of another with prices: the server may have seen either first
	at         time.Time
	prev, next *Trip
}

// Sent returns when the request was sent; zero before.
func (t *Trip) Sent() time.Time { return t.at }

// trips are requests under way in the order in which they were sent.
type trips struct {
	first, last *Trip
	n           int
	priced      int // those with prices
}

func (l *trips) push(t *Trip) {
	end := &l.first
	if l.last != nil {
		end = &l.last.next
	}
	*end, t.prev, l.last = t, l.last, t
	l.n++
	if t.Prices != nil {
		l.priced++
	}
}

func (l *trips) remove(t *Trip) {
	before, after := &l.first, &l.last // what points to t
	if t.prev != nil {
		before = &t.prev.next
	}
	if t.next != nil {
		after = &t.next.prev
	}
	*before, *after = t.next, t.prev
	l.n--
	if t.Prices != nil {
		l.priced--
	}
}
