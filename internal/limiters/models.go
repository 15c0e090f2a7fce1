package limiters

import (
	"math"
	"slices"
)

// A kind is a kind of limiter with a meaning of its reset.
type kind int

const (
	fixedWindow kind = iota // until the window ends
	slidingLog              // until the oldest request leaves the log
	slidingLast             // until the last request leaves the log
	bucketNext              // until the next token comes
	bucketFull              // until the bucket is full
	weighted                // a sliding window counter; until its window ends
	kinds
)

// A model is a limiter of one kind, with as many counters as the responses need.
type model struct {
	kind    kind
	tracks  []track
	last    int     // the index of the track of the latest response
	moves   int     // changes of last
	windows int     // windows that began after another window
	slips   int     // responses that fitted no track, and were added to the latest one
	seen    int     // responses
	asked   float64 // requests that the limiter may have counted
	widest  int     // the most responses that overlapped with one response
	jitter  float64 // seconds that the server adds to resets at random, at most
	longest float64 // the longest reset, in seconds
	each    span    // seconds between two tokens
	wrong   fault   // why the model does not explain the latest response
}

// A fault is why a model does not explain a response.
type fault struct {
	number Number
	early  bool    // more remains than can have come back; if false, less remains than must have come back
	most   float64 // the highest number that can remain if early, else the lowest
}

// name returns the name of the model for people.
func (m *model) name() string {
	return [kinds]string{"fixed window", "sliding log", "sliding log", "token bucket", "token bucket", "sliding window counter"}[m.kind]
}

func newModels() (list []*model) {
	for k := range kinds {
		list = append(list, &model{kind: k, each: span{0, math.Inf(1)}})
	}
	return list
}

// A track is one counter: of a server, of an endpoint, or since a restart.
type track struct {
	shown   float64 // what remained in the latest response
	base    float64 // what remained at the time at
	low     float64 // base of a bucket without what refused requests may have cost
	left    float64 // base with the largest part of a token that is not announced
	at      span    // the time of the latest response that did not overlap with others
	since   float64 // requests served since at
	asked   float64 // requests since at that may have been counted
	end     span    // the time at which the reset ends
	rolled  float64 // the time at which the first response of the window arrived
	begin   float64 // the earliest time at which the window can have begun; -Inf if unknown
	entries []entry // what a log or a sliding window counter has counted
	deficit float64 // units that were missing in the latest responses
}

// A view is a response while a model is compared with it.
type view struct {
	*Response
	*Terms
	*model
	cost   float64
	window span    // seconds
	capped bool    // the server has lowered Remaining, so more may remain
	holds  float64 // Remaining, or the most that may remain if it is capped
}

// add reports whether the model explains a response. If so, add remembers the response. most bounds the
// number of tracks.
func (m *model) add(r *Response, terms *Terms, cost float64, most int) bool {
	m.longest = max(m.longest, r.Reset)
	m.seen++
	m.asked += r.counts() + float64(r.Others)
	m.widest = max(m.widest, min(r.Pending, 64))
	v := view{Response: r, Terms: terms, model: m, cost: cost, capped: terms.caps(r), holds: r.Remaining}
	if v.capped {
		v.holds = v.fresh()
	}
	v.window = terms.window(m.longest)
	best, move := v.nearest()
	switch {
	case best >= 0:
	case v.begin(most):
		return true
	case m.slips >= m.moves/5:
		return false
	default: // an earlier choice of a track was a guess, and may have been wrong
		m.slips++
		best, move = m.last, step{ok: true, rolls: true, filled: v.Remaining + 1, low: v.Remaining, begin: math.Inf(-1)}
	}
	if best != m.last {
		m.last = best
		m.moves++
	}
	v.commit(&m.tracks[best], move)
	return true
}

// window returns the length of a window in seconds. It is at least as long as the longest reset.
func (t *Terms) window(longest float64) span {
	const month = 31 * day
	switch {
	case t.Window <= 0:
		return span{max(longest-rounding, shortest), math.Inf(1)}
	case t.Window >= 28*day && t.Window <= month: // a month of the calendar
		return span{28 * day, month + 0.5}
	}
	return span{max(t.Window-1, shortest), t.Window + 0.5}
}

// nearest returns the index of the track that explains the response best, and its step. If no track
// explains the response, the index is -1.
func (v *view) nearest() (best int, move step) {
	best, move.gap = -1, math.Inf(1)
	outdated := func(e entry) bool { return e.high+v.memory() < v.Sent }
	for i := range v.tracks {
		t := &v.tracks[i]
		t.entries = slices.DeleteFunc(t.entries, outdated)
		switch s := v.step(t); {
		case !s.ok:
			v.wrong = s.fault
		case s.gap < move.gap, s.gap == move.gap && (s.wider < move.wider || s.wider == move.wider && i == v.last):
			best, move = i, s
		}
	}
	return best, move
}

// fresh returns what remains at most after the request.
func (v *view) fresh() float64 { return v.Quota - v.cost*v.counts() }

// caps reports whether the server has lowered Remaining in proportion to the reset.
func (t *Terms) caps(r *Response) bool {
	return t.Slope > 0 && r.Reset >= 0 && r.Remaining == math.Floor(t.Slope*r.Reset+1e-9)
}

// begin adds a track for the response: the first track, or one for another server. It reports
// whether a new track explains the response.
func (v *view) begin(most int) bool {
	first := len(v.tracks) == 0
	if len(v.tracks) == 3 && v.moves < 3 && v.seen > 12 {
		return false // servers that count apart take turns more often
	}
	if len(v.tracks) == most || !first && v.Remaining < v.Quota-v.cost*float64(1+v.Others+v.Pending) && !v.capped && !v.conserved() {
		return false
	}
	if v.Reset >= 0 {
		v.each = v.each.and(v.eachUnit(v.missing(v.fresh())))
	}
	t := track{
		shown: v.Remaining, base: v.holds, low: v.holds, left: v.holds, rolled: math.Inf(-1), begin: math.Inf(-1),
		at:  span{v.Received - v.memory(), v.Received}, // of the requests before the first response
		end: v.ending(span{v.Sent, v.Received + v.window.high}),
	}
	v.enter(&t)
	t.at.low = v.Sent
	if v.isBucket() || v.kind == weighted {
		t.left = min(v.holds+1, v.fresh())
	}
	v.model.last, v.tracks = len(v.tracks), append(v.tracks, t)
	return true
}

// conserved reports whether the tracks, and a new track for this response, have used no more units than
// all requests cost. If so, the response may come from a new counter whose earlier responses were added
// to another track.
func (v *view) conserved() bool {
	used := v.Quota - v.Remaining
	for i := range v.tracks {
		used += v.Quota - v.tracks[i].shown
	}
	return used <= v.cost*v.asked
}

func (v *view) isBucket() bool { return v.kind == bucketNext || v.kind == bucketFull }

// ending returns the time at which the reset ends. If there is no reset, or only one until the next
// unit, it returns the parameter otherwise.
func (v *view) ending(otherwise span) span {
	if v.Reset < 0 || v.tillUnit() {
		return otherwise
	}
	return span{v.Sent + v.Reset - rounding - v.jitter, v.Received + v.Reset + rounding}
}

// tillUnit reports whether the reset may be the time until the next unit is back, as
// announce.SlidingWindow announces it, instead of the time until the end of the window.
func (v *view) tillUnit() bool { return v.kind == weighted && v.Remaining == 0 }
