package limiters

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Rule is a rule that an honest limiter obeys.
type Rule int

// The rules.
const (
	Spent     Rule = iota // each request lowers Remaining
	Uneven                // each request lowers it by the same number
	Double                // each request lowers it by one
	Clock                 // the reset goes down with the clock
	Unit                  // the reset is in seconds
	Overdrawn             // requests are refused while nothing remains
	Applied               // the limiter applies the quota
	Window                // the limiter applies the window
	Back                  // used units come back after a window

	Rules // the number of rules
)

// A Number is a number that a server announces.
type Number int

// The numbers.
const (
	Quota Number = iota
	Remaining
	Reset
)

// A Doubt is a rule that the limiter seems to break.
type Doubt struct {
	Rule    Rule
	Certain bool   // there is no explanation but a fault, if the client is alone
	Number  Number // the number at fault
	Args    []any  // of the message
}

// diagnose returns the fault of a limiter that no model explains. It changes the announced numbers in
// several ways, the likeliest first. The first change with which a model explains all responses shows
// the fault. Without such a change, diagnose returns the fault of the model that was dropped last.
func (r *Run) diagnose(now Response) Doubt {
	f := r.wrong
	switch {
	case now.Remaining == 0 && f.early:
		return r.doubt(Overdrawn, Remaining)
	case r.stays(now) >= least && r.falls.number == 0: // Remaining never falls
		return r.doubt(Spent, Remaining, r.upwards(now, f.most))
	}
	if d, ok := r.changed(kinds); ok {
		return d
	}
	switch {
	case f.number == Reset:
		return r.untrue(r.course())
	case !f.early:
		return r.doubt(Back, Remaining, now.Remaining, max(f.most, 0))
	}
	return r.doubt(Spent, Remaining, r.upwards(now, f.most))
}

// untrue returns a doubt about the resets.
func (r *Run) untrue(how string) Doubt {
	d := r.doubt(Clock, Reset, how)
	d.Certain = d.Certain && r.terms.Window > 0 // the jitter of an unknown window is unknown
	return d
}

// doubt returns a doubt that is certain unless several counters can explain it.
func (r *Run) doubt(rule Rule, number Number, args ...any) Doubt {
	return Doubt{rule, !r.apart, number, args}
}

// A change replaces one announced number by another one. If a model then explains all responses, doubt
// is the fault.
type change struct {
	possible bool
	terms    Terms
	of       func(*Response) // nil is no change of the responses
	windows  int             // how many windows must follow the first window
	doubt    Doubt
}

// changed returns the fault that the first change shows with which one counter explains all responses.
// The kind of the counter must be below among. If some kind explains the responses without a change, a
// restart may explain a fault of the window too. Two windows must then follow the first window. ok is
// false if no change explains the responses.
func (r *Run) changed(among kind) (d Doubt, ok bool) {
	several := 2
	if among == kinds {
		several = 0
	}
	quota, window := r.terms.Quota, r.terms.Window
	longest, highest, rises := 0.0, 0.0, 0
	for i, e := range r.events {
		longest, highest = max(longest, e.Reset), max(highest, e.Remaining)
		if i > 0 && e.Remaining > r.events[i-1].Remaining {
			rises++
		}
	}
	inSeconds := ofReset(func(reset float64) float64 { return math.Ceil(reset / 1000) })
	untilEnd := ofReset(func(reset float64) float64 { return max(window-reset, 0) })
	used := func(e *Response) { e.Remaining = quota - e.Remaining }
	list := []change{
		{longest >= 1000, r.terms, inSeconds, 0, r.doubt(Unit, Reset, "milliseconds")},
		{highest > 0 && highest+1 != quota, Terms{Quota: highest + 1, Window: window}, nil, 0, r.doubt(Applied, Quota, quota, highest)},
		{rises > 2, r.terms, used, 0, r.doubt(Spent, Remaining, "it seems to be what is used")},
		{longest <= window+1, r.terms, untilEnd, 0, r.doubt(Clock, Reset, "it seems to be the time that has passed")},
	}
	for _, factor := range []float64{2, 0.5, 0.001} {
		w, possible := factor*window, window > 0 && (among == kinds || factor >= 0.5)
		list = append(list, change{possible, Terms{Quota: quota, Window: w}, nil, several, r.doubt(Window, Quota, w, window)})
	}
	for _, c := range list {
		if c.possible && r.explained(among, c.terms, c.of) >= c.windows {
			return c.doubt, true
		}
	}
	if among == kinds && r.wrong.number != Reset {
		return Doubt{}, false
	}
	return r.falseReset(among, several, cmp.Or(window, longest))
}

// falseReset finds the fault of a reset that does not end when the quota is back. windows is how many
// windows must follow the first window. ok is false if the responses show no such fault.
func (r *Run) falseReset(among kind, windows int, window float64) (d Doubt, ok bool) {
	none := func(e *Response) { e.Reset = -1 }
	for _, factor := range []float64{1, 2, 0.5} {
		switch {
		case among < kinds && factor < 2 && r.surprises() < 3:
		case r.explained(among, Terms{Quota: r.terms.Quota, Window: factor * window}, none) < windows:
		case factor == 1:
			return r.untrue(r.course()), true
		default:
			return r.untrue(fmt.Sprintf("what was used is back every %g s", factor*window)), true
		}
	}
	return Doubt{}, false
}

// surprises returns how often the quota was back before the reset had ended, or was not back
// afterwards. A restart or another server explains one or two surprises.
func (r *Run) surprises() (n int) {
	for i, e := range r.events[1:] {
		before := r.events[i]
		full := e.Remaining >= r.full(&e)
		early := full && e.Remaining > before.Remaining+r.Cost()*float64(e.Pending) && e.Received < before.Sent+before.Reset-rounding
		late := !full && before.Reset >= 0 && e.Sent > before.Received+before.Reset+rounding
		if early || late {
			n++
		}
	}
	return n
}

// ofReset is a change of the reset, if there is one.
func ofReset(change func(reset float64) float64) func(*Response) {
	return func(e *Response) {
		if e.Reset >= 0 {
			e.Reset = change(e.Reset)
		}
	}
}

// explained returns how many windows followed the first window in a model that explains the responses
// with these terms and this change, or -1 if no model does. The model has one counter, of a kind below
// among. A nil change changes nothing.
func (r *Run) explained(among kind, terms Terms, change func(*Response)) (windows int) {
	for _, m := range newModels()[:among] {
		m.jitter = 1e-9 // seconds: not zero, so that the model assumes no jitter of its own
		unexplained := func(e Response) bool {
			if change != nil {
				change(&e)
			}
			return !m.add(&e, &terms, r.Cost(), 1)
		}
		if !slices.ContainsFunc(r.events, unexplained) {
			return m.windows
		}
	}
	return -1
}

// stays returns how many requests were served since Remaining changed last.
func (r *Run) stays(now Response) int {
	same := 0
	for i := len(r.events) - 1; i >= 0 && r.events[i].Remaining == now.Remaining; i-- {
		if r.events[i].Outcome == Served {
			same++
		}
	}
	return same
}

// stands reports whether Remaining stays the same although more requests were served than all counters
// together can have given back. If Remaining has never moved, stands also returns false if each
// Remaining fits a server that lowers Remaining (see Terms.Slope).
func (r *Run) stands() bool {
	first := len(r.events) - 1
	now, longest := r.events[first], r.terms.Window
	served, away := 0.0, 0.0 // away counts requests whose units cannot be back
	for i, e := range slices.Backward(r.events) {
		if e.Outcome == Refused || e.Remaining != now.Remaining {
			break
		}
		reset := e.Reset
		if reset < 0 { // the next token
			reset = 0.9*(r.terms.Window-1)/r.terms.Quota + rounding
		}
		served += e.counts()
		if now.Received < e.Sent+reset-rounding {
			away += e.counts()
		}
		first, longest = i, max(longest, e.Reset)
	}
	if missing := (r.terms.Quota - now.Remaining) / r.Cost(); away > maxTracks*max(missing, 1) {
		return true
	}
	if r.falls.least > 0 || longest <= 0 {
		return false
	}
	// Remaining has never moved, so units came back at the rate of the policy at most.
	from := &r.events[first]
	back := maxTracks + (now.Received-from.Sent)*r.terms.Quota/longest
	if from.Reset >= 0 && now.Received >= from.Sent+from.Reset-rounding { // a window may have ended
		back += maxTracks
	}
	if served <= back {
		return false
	}
	lowered := Terms{Slope: r.slope()}
	return slices.ContainsFunc(r.events[first:], func(e Response) bool { return !lowered.caps(&e) })
}

// upwards describes how Remaining does not fall.
func (r *Run) upwards(now Response, most float64) string {
	if same := r.stays(now); same >= least {
		return fmt.Sprintf("it stays %.0f over %d requests that were served", now.Remaining, same)
	}
	return fmt.Sprintf("it is %.0f where at most %.0f can be left", now.Remaining, max(most, 0))
}

// course describes the resets, for a message.
func (r *Run) course() string {
	var resets []float64
	for _, e := range r.events {
		if e.Reset >= 0 {
			resets = append(resets, e.Reset)
		}
	}
	if resets = slices.Compact(resets); len(resets) == 1 {
		return fmt.Sprintf("it is always %.0f", resets[0])
	}
	return "no limiter has these resets"
}
