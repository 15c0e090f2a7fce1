package limiters

import (
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

// A change corrects a fault that the numbers of a limiter may have.
type change struct {
	rule   Rule
	number Number
	fits   func(r *Run) bool  // whether to try it; nil is always
	args   func(r *Run) []any // of the message
	apply  func(r *Run, events []Response, terms *Terms)
}

// changes returns the changes in the order in which they are tried, the likeliest first. A
// variable would be a part of every program that imports the package.
func changes() []change {
	return []change{
		{Unit, Reset, func(r *Run) bool { return r.longest() >= 1000 }, words("milliseconds"), ofResets(func(reset, _ float64) float64 { return math.Ceil(reset / 1000) })},
		{Applied, Quota, nil, func(r *Run) []any { return []any{r.terms.Quota, r.highest()} }, func(r *Run, _ []Response, terms *Terms) { terms.Quota = r.highest() + 1 }},
		{Spent, Remaining, rises, words("it seems to be what is used"), func(r *Run, events []Response, terms *Terms) {
			for i := range events {
				events[i].Remaining = terms.Quota - events[i].Remaining
			}
		}},
		{Clock, Reset, func(r *Run) bool { return r.longest() <= r.terms.Window+1 }, words("it seems to be the time that has passed"), ofResets(func(reset, window float64) float64 { return max(window-reset, 0) })},
		windowed(2), windowed(0.5), windowed(0.001),
		{Clock, Reset, hasWindow, (*Run).course, ofResets(func(float64, float64) float64 { return -1 })},
	}
}

func hasWindow(r *Run) bool { return r.terms.Window > 0 }

// longest returns the longest reset, in seconds.
func (r *Run) longest() (most float64) {
	for _, e := range r.events {
		most = max(most, e.Reset)
	}
	return most
}

// highest returns the most that remained.
func (r *Run) highest() (most float64) {
	for _, e := range r.events {
		most = max(most, e.Remaining)
	}
	return most
}

// rises reports whether Remaining has risen more than twice.
func rises(r *Run) bool {
	up := 0
	for i := 1; i < len(r.events); i++ {
		if r.events[i].Remaining > r.events[i-1].Remaining {
			up++
		}
	}
	return up > 2
}

// windowed is the change of the window by a factor.
func windowed(by float64) change {
	return change{Window, Quota, hasWindow,
		func(r *Run) []any { return []any{by * r.terms.Window, r.terms.Window} },
		func(_ *Run, _ []Response, terms *Terms) { terms.Window *= by }}
}

func words(text string) func(*Run) []any { return func(*Run) []any { return []any{text} } }

// ofResets is a change of the resets.
func ofResets(to func(reset, window float64) float64) func(*Run, []Response, *Terms) {
	return func(_ *Run, events []Response, terms *Terms) {
		for i := range events {
			if events[i].Reset >= 0 {
				events[i].Reset = to(events[i].Reset, terms.Window)
			}
		}
	}
}

// diagnose returns the first change with which a model explains all responses. If there is
// none, it returns the fault of a model that was left last.
func (r *Run) diagnose(now Response) Doubt {
	d, f := Doubt{Certain: !r.apart, Number: Remaining}, r.wrong
	switch {
	case now.Remaining == 0 && f.early:
		d.Rule = Overdrawn
		return d
	case r.stays(now) >= least && r.falls.number == 0: // Remaining never falls
		d.Rule, d.Args = Spent, []any{r.upwards(now, f.most)}
		return d
	}
	for _, c := range changes() {
		if c.fits != nil && !c.fits(r) {
			continue
		}
		events, terms := slices.Clone(r.events), r.terms
		c.apply(r, events, &terms)
		if explained(events, terms, r.Cost()) {
			return Doubt{c.rule, !r.apart, c.number, c.args(r)}
		}
	}
	switch {
	case f.number == Reset:
		d.Rule, d.Number, d.Args = Clock, Reset, r.course()
		d.Certain = d.Certain && hasWindow(r) // the jitter of an unknown window is unknown
	case !f.early:
		d.Rule, d.Args = Back, []any{now.Remaining, max(f.most, 0)}
	default:
		d.Rule, d.Args = Spent, []any{r.upwards(now, f.most)}
	}
	return d
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

// upwards describes how Remaining does not fall.
func (r *Run) upwards(now Response, most float64) string {
	if same := r.stays(now); same >= least {
		return fmt.Sprintf("it stays %.0f over %d requests that were served", now.Remaining, same)
	}
	return fmt.Sprintf("it is %.0f where at most %.0f can be left", now.Remaining, max(most, 0))
}

// course describes the resets, for a message.
func (r *Run) course() []any {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, e := range r.events {
		if e.Reset >= 0 {
			lowest, highest = min(lowest, e.Reset), max(highest, e.Reset)
		}
	}
	if lowest == highest {
		return []any{fmt.Sprintf("it is always %.0f", lowest)}
	}
	return []any{"no limiter has these resets"}
}

// explained reports whether a model with one counter explains responses.
func explained(events []Response, terms Terms, cost float64) bool {
	return slices.ContainsFunc(newModels(), func(m model) bool {
		m.jitter = 1e-9 // seconds: not zero, so that no more is assumed
		unexplained := func(r Response) bool { return !m.add(&r, &terms, cost, 1) }
		return !slices.ContainsFunc(events, unexplained)
	})
}
