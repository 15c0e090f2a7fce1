package ratelimit

import (
	"math"
	"slices"
	"time"
)

// The words of the machine: what it is told, and what it answers.

// requestUnit is the unit of which each request takes one.
const requestUnit = "requests"

const (
	// waveTime is how long a wave of probes is waited for before the next goes. A
	// probe that hangs must not starve its key.
	waveTime = time.Second
	// mostBackoff is the longest wait after a refusal that asks for none. Where as many
	// requests are under way as may be, and all of them hang, another goes after it.
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
	unit, policy string // requestUnit, or another; and the name
	left         int64
	quota        int64         // 0 if it is not known
	window       time.Duration // of the policy, 0 if it is not known
	reset        time.Duration // until the limit changes, else the window
	ends         bool          // whether reset is known
}

// A verdict says whether a request may be sent.
type verdict struct {
	open  bool
	until time.Time // if not open: when to ask again at the latest
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
	if v.open || until.After(v.until) {
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

// pessimist returns the least that may be left, and the number to whose multiples it is
// rounded: Anthropic rounds tokens to the nearest thousand.
func (s *stock) pessimist() (left, grain float64) {
	const rounded = 1000
	if s.unit == "tokens" && s.left%rounded == 0 {
		return float64(max(s.left-rounded/2, 0)), rounded
	}
	return float64(s.left), 1
}

// A price is what a request takes of the limits that it concerns. The unit or the
// policy may be "", which is any.
type price struct {
	unit, policy string
	units        float64 // more than 0
}

// takes returns what a request takes of a limit. The first of these that applies counts:
//
//   - the sum of the prices that name the policy;
//   - the sum of the prices in this unit that name no policy;
//   - 1 of a limit of requests, 0 of any other.
func takes(prices []price, unit, policy string) float64 {
	if len(prices) == 0 {
		if unit == requestUnit {
			return 1
		}
		return 0
	}
	var named, others float64
	isNamed, isPriced := false, unit != requestUnit
	for i := range prices {
		switch p := &prices[i]; {
		case p.unit != "" && p.unit != unit:
		case p.policy == "":
			others, isPriced = others+p.units, true
		case p.policy == policy:
			named, isNamed = named+p.units, true
		}
	}
	switch {
	case isNamed:
		return named
	case isPriced:
		return others
	}
	return 1
}
