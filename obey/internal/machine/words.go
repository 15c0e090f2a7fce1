package machine

import (
	"math"
	"slices"
	"time"
)

// This file has what goes into a Machine (Settings, Answer) and what comes out (Verdict). At its end
// are the requests (Price, Trip).

// RequestUnit is the unit of limits on requests. Each request takes one.
const RequestUnit = "requests"

// Settings are what the caller sets.
type Settings struct {
	MaxWait time.Duration // the longest wait that is obeyed
	Share   float64       // the part of what remains that may be used, more than 0, at most 1
	Jitter  time.Duration // waits that a server asks for end up to this much later; 0, or less, is no later
	Pace    bool          // requests are spaced by Answer.Pace
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
	Jittered   bool          // Wait contains its random part already
	Elsewhere  bool          // the Machines of parts know what remains, and wait after refusals
	Explained  bool          // the Machine of a part explains the refusal
}

// Exhausted reports whether nothing remains of some limit.
func (a *Answer) Exhausted() bool {
	return slices.ContainsFunc(a.Stocks, func(s Stock) bool { return s.Remaining == 0 })
}

// spacing is for limits of requests whose windows are over before answers arrive. It returns the time
// between two requests that keeps within the quotas. Waiting for each answer would use only a part of a
// quota. It returns 0 for a refusal, or if another limit counts.
func (a *Answer) spacing(typical time.Duration) (spacing time.Duration) {
	if a.Refused || a.RetryAfter {
		return 0
	}
	for i := range a.Stocks {
		switch s := &a.Stocks[i]; {
		case s.Unit == RequestUnit && s.Quota > 0 && 0 < s.Window && s.Window <= typical:
			spacing = max(spacing, s.Window/time.Duration(s.Quota))
		case s.Unit == RequestUnit, s.Remaining == 0:
			return 0
		}
	}
	return spacing
}

// A Stock is what remains of a limit.
type Stock struct {
	Unit, Policy string        // RequestUnit or another; the name, as much as is remembered
	Remaining    int64         // quota units
	Quota        int64         // 0 if it is not known
	Window       time.Duration // of the policy, 0 if it is not known
	Reset        time.Duration // until the limit changes; the window if the answer has no reset
	Ends         bool          // Reset is known: the answer has a reset or a window
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

// Hurries reports whether a request would miss its deadline by waiting politely. ahead is how many
// requests are in front of it.
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

// A Trip is a request, before and after it is sent.
type Trip struct {
	Prices    []Price
	Follows   bool      // it follows a redirection
	Owner     any       // of the caller, who sets it after Send
	At        time.Time // when it was sent; zero before. A caller may set an earlier time after Send
	number    int64
	failed    int64 // Machine.failed when it was sent
	unordered bool  // sent within closeBy of another with prices: the server may have seen either first
}
