package limiters

import (
	"fmt"
	"math"
)

// A Rule is a rule that an honest limiter keeps.
type Rule int

// The rules.
const (
	Spent     Rule = iota // what remains falls by what is spent
	Uneven                // it falls by the same for each request
	Double                // it falls by one
	Clock                 // the reset goes down with the clock
	Unit                  // and is in seconds
	Overdrawn             // requests are refused while nothing remains
	Applied               // the quota is the one that is applied
	Window                // and so is the window
	Back                  // what was spent comes back after a window

	Rules // their number
)

// A Number is one of the numbers that are announced.
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
	Certain bool // there is no explanation but a fault, if the client is alone
	Number  Number
	Args    []any // for the words
}

// A change is what may be wrong with the numbers of a limiter.
type change struct {
	rule   Rule
	number Number
	fits   func(r *Run) bool // whether it is likely at all; nil is always
	args   func(r *Run) []any
	apply  func(r *Run, events []Response, terms *Terms)
}

// changes returns the changes in the order in which they are tried, the likeliest first. A
// variable would be a part of every program that imports the package.
func changes() []change {
	return []change{
		{Unit, Reset, func(r *Run) bool { return r.longest() >= 1000 }, words("milliseconds"), scaled(0.001)},
		{Unit, Reset, func(r *Run) bool { return r.terms.Window > 0 && r.longest() <= r.terms.Window/30 }, words("minutes"), scaled(60)},
		{Applied, Quota, nil, func(r *Run) []any { return []any{r.terms.Quota, r.highest()} }, func(r *Run, _ []Response, terms *Terms) { terms.Quota = r.highest() + 1 }},
		windowed(2),
		{Clock, Reset, hasWindow, words("it seems to be the time that has passed"), func(r *Run, events []Response, terms *Terms) {
			for i := range events {
				if events[i].Reset >= 0 {
					events[i].Reset = max(terms.Window-events[i].Reset, 0)
				}
			}
		}},
		windowed(0.5), windowed(0.001),
		{Clock, Reset, hasWindow, nil, func(_ *Run, events []Response, _ *Terms) {
			for i := range events {
				events[i].Reset = -1
			}
		}},
		{Spent, Remaining, rises, words("it seems to be what is used"), func(r *Run, events []Response, terms *Terms) {
			for i := range events {
				events[i].Remaining = terms.Quota - events[i].Remaining
			}
		}},
	}
}

func hasWindow(r *Run) bool { return r.terms.Window > 0 }

// longest returns the longest reset.
func (r *Run) longest() float64 {
	most := 0.0
	for _, e := range r.events {
		most = max(most, e.Reset)
	}
	return most
}

// rises reports whether what remains rises more often than it falls.
func rises(r *Run) bool {
	up := 0
	for i := 1; i < len(r.events); i++ {
		switch by := r.events[i].Remaining - r.events[i-1].Remaining; {
		case by > 0:
			up++
		case by < 0:
			up--
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

func scaled(by float64) func(*Run, []Response, *Terms) {
	return func(_ *Run, events []Response, _ *Terms) {
		for i := range events {
			if events[i].Reset >= 0 {
				events[i].Reset = math.Ceil(events[i].Reset * by)
			}
		}
	}
}

// highest returns the most that remained.
func (r *Run) highest() float64 {
	most := 0.0
	for _, e := range r.events {
		most = max(most, e.Remaining)
	}
	return most
}

// diagnose runs the responses once more with one thing changed, and returns the change that
// explains them all, or what the model that lasted longest does not explain.
func (r *Run) diagnose(now Response) Doubt {
	same := r.stays(now)
	if now.Remaining == 0 && same >= 2 {
		return Doubt{Rule: Overdrawn, Certain: !r.apart, Number: Remaining}
	}
	for _, c := range changes() {
		if c.rule != Unit && same >= least && r.falls.number == 0 {
			break // it does not fall at all
		}
		events := append([]Response(nil), r.events...)
		terms := r.terms
		if c.fits != nil && !c.fits(r) {
			continue
		}
		c.apply(r, events, &terms)
		if terms.Quota < 1 || !explained(events, terms, r.Cost()) {
			continue
		}
		d := Doubt{Rule: c.rule, Number: c.number, Certain: !r.apart}
		if c.args != nil {
			d.Args = c.args(r)
		} else {
			d.Args = []any{r.course()}
		}
		return d
	}
	d, f := Doubt{Certain: !r.apart}, r.wrong
	switch {
	case same >= least && r.falls.number == 0:
		d.Rule, d.Number, d.Args = Spent, Remaining, []any{r.upwards(now, f.most)}
	case f.number == Reset:
		d.Rule, d.Number, d.Args = Clock, Reset, []any{r.course()}
	case !f.early:
		d.Rule, d.Number, d.Args = Back, Remaining, []any{now.Remaining, max(f.most, 0)}
	case f.most < 0:
		d.Rule, d.Number = Overdrawn, Remaining
	default:
		d.Rule, d.Number, d.Args = Spent, Remaining, []any{r.upwards(now, f.most)}
	}
	return d
}

// stays returns over how many requests that were served what remains is the same.
func (r *Run) stays(now Response) int {
	same := 0
	for i := len(r.events) - 1; i >= 0 && r.events[i].Remaining == now.Remaining; i-- {
		if r.events[i].Outcome == Served {
			same++
		}
	}
	return same
}

// upwards returns in words how what remains does not fall.
func (r *Run) upwards(now Response, most float64) string {
	if same := r.stays(now); same >= least {
		return fmt.Sprintf("it stays %.0f over %d requests that were served", now.Remaining, same)
	}
	return fmt.Sprintf("it is %.0f where at most %.0f can be left", now.Remaining, most)
}

// course returns in words how the resets go on.
func (r *Run) course() string {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, e := range r.events {
		if e.Reset >= 0 {
			lowest, highest = min(lowest, e.Reset), max(highest, e.Reset)
		}
	}
	if lowest == highest {
		return fmt.Sprintf("it is always %.0f", lowest)
	}
	return "no limiter has these resets"
}

// explained reports whether a single counter of any kind explains responses.
func explained(events []Response, terms Terms, cost float64) bool {
	for _, m := range newModels() {
		fits := true
		m.jitter = 1e-9 // seconds: no more
		for i := range events {
			if !m.add(&events[i], &terms, cost, 1) {
				fits = false
				break
			}
		}
		if fits {
			return true
		}
	}
	return false
}
