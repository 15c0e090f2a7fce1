// Package limiters models what each kind of limiter announces: a fixed window, a sliding log,
// a token bucket and a sliding window counter. A Run reads the numbers of the responses with one
// limit, keeps the models that explain them, and reports when no model is left.
package limiters

import (
	"cmp"
	"math"
	"slices"
)

// Terms are the properties of a limit that do not change.
type Terms struct {
	Quota  float64
	Window float64 // in seconds; 0 if unknown
	Slope  float64 // units a second: the server lowers Remaining to Slope × Reset; 0 if it does not
}

// An Outcome is what a server did with a request.
type Outcome int

// The outcomes.
const (
	Served Outcome = iota
	Refused
	Failed // for another reason: the limiter may have counted the request
)

// A Response contains the numbers of one limit in one response. Times are in seconds since a
// moment that is the same for all responses of a Run.
type Response struct {
	Sent, Received float64 // the limiter decided in between
	Remaining      float64 // quota units
	Reset          float64 // in seconds; negative if there is no reset
	Outcome        Outcome
	Pending        int  // responses that arrived after this request was sent
	Others         int  // requests since the previous response that the limiter may have counted
	Overlaps       bool // some of the latest requests overlapped, so their order is not certain
}

// counts returns 1 if the limiter certainly counted the request, and 0 otherwise.
func (r *Response) counts() float64 {
	if r.Outcome == Served {
		return 1
	}
	return 0
}

// A span is the lowest and the highest value that a number can have.
type span struct{ low, high float64 }

func (s span) widened(by float64) span { return span{s.low - by, s.high + by} }

func (s span) meets(other span) bool { return s.low <= other.high && other.low <= s.high }

// and returns the part that two spans have in common, or s if they have none.
func (s span) and(other span) span {
	if !s.meets(other) {
		return s
	}
	return span{max(s.low, other.low), min(s.high, other.high)}
}

// MaxLost is how many responses in a row may be lost without notice.
const MaxLost = 5

// The bounds of what is remembered and assumed.
const (
	maxTracks    = 4       // servers that count apart; a restart is one more
	maxLog       = 64      // entries of a log or a sliding window counter
	maxEvents    = 256     // responses that diagnose can run again
	least        = 4       // responses before a verdict
	settledFalls = 3       // falls of Remaining after which the cost of a request is known
	often        = 8       // responses after which unlikely looks again
	settled      = 20      // responses after which a change of behavior may be a restart
	shortest     = 0.25    // seconds of a window
	rounding     = 1.0     // seconds by which a reset may be off, at most
	day          = 86400.0 // seconds
)

// A Run is what is remembered of a limit. The zero Run has seen nothing.
type Run struct {
	terms     Terms
	models    []*model
	events    []Response
	responses int
	since     int  // responses since the models began
	again     bool // the models began anew once
	falls     falls
	last      Response
	told      bool  // Add has returned a verdict
	wrong     fault // of the model that was dropped last
	apart     bool  // a dropped model had several counters, which took turns
}

// falls summarize the differences of Remaining from one response to the next.
type falls struct {
	number int     // how often Remaining fell from one request to the next
	most   float64 // the largest of these falls
	least  float64 // the smallest difference, whether Remaining fell or rose
}

// Cost returns how many units one request costs, or 1 if that is unknown.
func (r *Run) Cost() float64 {
	if r.falls.number >= settledFalls && r.terms.Slope == 0 {
		return r.falls.least
	}
	return 1
}

// Least returns the lowest number that remains on any counter of the models that are left. If no model
// is left, it returns 0 and false.
func (r *Run) Least() (least float64, ok bool) {
	for _, m := range r.models {
		for i := range m.tracks {
			if shown := m.tracks[i].shown; !ok || shown < least {
				least, ok = shown, true
			}
		}
	}
	return least, ok
}

// Known reports whether a request has lowered what remains. If so, requests are known to use this
// limit.
func (r *Run) Known() bool { return r.falls.number > 0 }

// Responses returns how many responses were added.
func (r *Run) Responses() int { return r.responses }

// Add compares a response with the models that are left. It returns at most one Doubt for each Rule
// about how Remaining falls. When no model is left, it returns one more Doubt, once: the verdict. The
// terms must not change.
func (r *Run) Add(now Response, terms Terms) []Doubt {
	terms.Slope = r.terms.Slope
	r.terms = terms
	r.responses++
	if len(r.events) == maxEvents {
		r.events = slices.Delete(r.events, 0, maxEvents/2)
	}
	r.events = append(r.events, now)
	doubts := r.fall(now)
	if !r.told {
		if d, ok := r.verdict(now); ok {
			r.told = true
			doubts = append(doubts, d)
		}
	}
	if r.told {
		r.events = nil
	}
	return doubts
}

// verdict drops the models that do not explain a response, and looks for a fault of the limiter. ok is
// false if there is none, or if it is too early to tell.
func (r *Run) verdict(now Response) (d Doubt, ok bool) {
	if r.models == nil {
		r.models = newModels()
	}
	switch {
	case r.stands():
		r.models = nil
		return Doubt{Spent, true, Remaining, []any{r.upwards(now, 0)}}, true
	case r.step(now):
		r.since++
		return r.unlikely()
	case r.capped(), r.since >= settled && !r.again && r.restarted():
		return Doubt{}, false
	case r.responses < least:
		r.models = nil // it is too early to tell
		return Doubt{}, false
	}
	return r.diagnose(now), true
}

// unlikely looks for a fault if each model needs several counters that seldom take turns. A fixed window
// with one counter and a fault is then the likelier explanation. ok is false if this does not explain
// all responses. unlikely looks only after every eighth response, because each look takes long.
func (r *Run) unlikely() (d Doubt, ok bool) {
	likely := func(m *model) bool { return len(m.tracks) == 1 || 8*m.moves > m.seen }
	if r.responses < 2*often || r.responses%often > 0 || slices.ContainsFunc(r.models, likely) {
		return Doubt{}, false
	}
	if r.explained(kinds, Terms{r.terms.Quota, r.terms.Window, r.slope()}, nil) >= 0 { // it lowers Remaining
		return Doubt{}, false
	}
	d, ok = r.changed(fixedWindow + 1)
	d.Certain = true
	return d, ok
}

// capped reports whether the models explain the responses of a server that lowers Remaining in
// proportion to the reset, as draft-11 Section 8.5 recommends.
func (r *Run) capped() bool {
	next := *r
	next.terms.Slope = r.slope()
	return next.terms.Slope != r.terms.Slope && r.becomes(next)
}

// restarted begins all models anew with the latest response that may be the first response of a
// restarted server. It reports whether a model explains the responses since then. The server may have
// restarted as another kind of limiter.
func (r *Run) restarted() bool {
	first := len(r.events) - 1
	for first > 0 && r.events[first].Remaining < r.full(&r.events[first]) {
		first--
	}
	next := *r
	next.again, next.events = true, r.events[first:]
	return r.becomes(next)
}

// becomes reports whether a model explains all responses of another run. If so, r becomes that run.
func (r *Run) becomes(next Run) bool {
	next.models, next.since, next.apart = newModels(), 0, false
	if slices.ContainsFunc(next.events, func(e Response) bool { return !next.step(e) }) {
		return false
	}
	*r = next
	return true
}

// full returns the lowest number that remains of the whole quota after a request and the requests that
// overlap with it.
func (r *Run) full(e *Response) float64 {
	return r.terms.Quota - r.Cost()*float64(1+e.Others+e.Pending)
}

// slope returns the lowest slope with which a server may lower Remaining (see Terms.Slope), at least
// the rate of the policy. It returns 0 if the server does not seem to lower Remaining.
func (r *Run) slope() float64 {
	lowered := Terms{}
	if r.terms.Window > 0 {
		lowered.Slope = r.terms.Quota / r.terms.Window
	}
	for _, e := range r.events {
		switch {
		case e.Reset > 0:
			lowered.Slope = max(lowered.Slope, e.Remaining/e.Reset)
		case e.Reset == 0 && e.Remaining > 0:
			return 0
		}
	}
	few := 3
	if n := len(r.events); n > 1 && r.events[n-1].Remaining < r.events[n-2].Remaining-MaxLost {
		few = 1 // lost responses do not explain the fall
	}
	for i := range r.events {
		if few > 0 && lowered.caps(&r.events[i]) {
			few--
		}
	}
	if few > 0 {
		return 0
	}
	return lowered.Slope
}

// step drops the models that do not explain the response, and reports whether one is left.
func (r *Run) step(now Response) bool {
	r.models = slices.DeleteFunc(r.models, func(m *model) bool {
		if m.add(&now, &r.terms, r.Cost(), maxTracks) {
			return false
		}
		r.wrong = m.wrong
		r.apart = r.apart || m.moves > 3
		return true
	})
	return len(r.models) > 0
}

// Models returns the names of the models that are left, the model with the fewest counters first,
// and how many counters the first model needs.
func (r *Run) Models() (names []string, counters int) {
	models := slices.CompactFunc(slices.Clone(r.models), func(a, b *model) bool { return a.name() == b.name() })
	slices.SortStableFunc(models, func(a, b *model) int { return len(a.tracks) - len(b.tracks) })
	for _, m := range models {
		names, counters = append(names, m.name()), cmp.Or(counters, len(m.tracks))
	}
	return names, counters
}

// fall notes by how much a response lowers what remains, and returns the doubts about this fall.
func (r *Run) fall(now Response) []Doubt {
	before, f := r.last, &r.falls
	r.last = now
	by := before.Remaining - now.Remaining
	if r.responses < 2 || by == 0 {
		return nil
	}
	if f.least == 0 {
		f.least = math.Abs(by)
	}
	f.least = min(f.least, math.Abs(by))
	if by < 0 || now.Others > 0 {
		return nil // units came back, or several requests took some
	}
	if f.number++; now.Overlaps {
		return nil // the responses may have changed places
	}
	f.most = max(f.most, by)
	switch {
	case f.least < f.most:
		return []Doubt{{Rule: Uneven, Number: Remaining}}
	case f.least > 1 && f.number >= 6:
		lowered := Terms{Slope: r.slope()}
		free := slices.DeleteFunc(slices.Clone(r.events), func(e Response) bool { return lowered.caps(&e) })
		return []Doubt{{Double, len(free) > 1, Remaining, []any{f.least}}}
	}
	return nil
}
