package limiters

import "math"

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
	windows int     // windows that began after another one
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
	early  bool    // more remains than can have come back; if false, less than must have come back
	most   float64 // the highest or lowest number that could remain
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
	low     float64 // base of a bucket, less what refused requests cost, at least
	left    float64 // base with the part of a token that is not announced, at most
	at      span    // the time of the latest response that did not overlap with others
	since   float64 // requests served since then
	asked   float64 // requests since then that may have been counted
	end     span    // the time at which the reset ends
	rolled  float64 // the time at which the first response of the window arrived
	begin   float64 // the time at which the window began, at least; -Inf if unknown
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
	capped bool    // more may remain
	holds  float64 // Remaining, or the most that may remain if it is capped
}

// add reports whether the model explains a response. If so, it remembers the response.
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

// nearest returns the index of the track that explains the response best, and how; -1 if none does.
func (v *view) nearest() (best int, move step) {
	best, move.gap = -1, math.Inf(1)
	for i := range v.tracks {
		v.forget(&v.tracks[i])
		s := v.step(&v.tracks[i])
		switch {
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

// caps reports whether the server has lowered Remaining.
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

// conserved reports whether all tracks together have used no more than all requests cost. Then
// earlier responses may have been added to the wrong track.
func (v *view) conserved() bool {
	used := v.Quota - v.Remaining
	for i := range v.tracks {
		used += v.Quota - v.tracks[i].shown
	}
	return used <= v.cost*v.asked
}

func (v *view) isBucket() bool { return v.kind == bucketNext || v.kind == bucketFull }

// ending returns the time at which the reset ends, or otherwise if there is no reset.
func (v *view) ending(otherwise span) span {
	if v.Reset < 0 || v.tillUnit() {
		return otherwise
	}
	return span{v.Sent + v.Reset - rounding - v.jitter, v.Received + v.Reset + rounding}
}

// tillUnit reports whether the reset may be when the next unit is back instead of the end of the
// window, as announce.SlidingWindow announces it.
func (v *view) tillUnit() bool { return v.kind == weighted && v.Remaining == 0 }

// A step is how a track explains a response.
type step struct {
	ok      bool
	gap     float64 // the units by which less remains than possible
	rolls   bool    // a window begins
	wider   float64 // the jitter that the reset needs
	deficit float64 // the new deficit of the track
	filled  float64 // the most units, with a part of a token
	low     float64 // the new low of the track
	begin   float64 // the new begin of the track
	fault   fault
}

func failed(of Number, early bool, most float64) step {
	return step{fault: fault{number: of, early: early, most: most}}
}

// between returns a step if no more than most remains, and lost responses explain the units that are
// missing to least.
func (v *view) between(t *track, least, most float64) step {
	if v.Remaining > most {
		return failed(Remaining, true, most)
	}
	s := step{ok: true, gap: most - v.Remaining, deficit: t.deficit, filled: v.Remaining}
	if v.capped {
		return s
	}
	missing := least - v.cost*float64(1+v.Pending+v.Others) - v.Remaining
	short := missing
	if !v.Overlaps { // otherwise the responses may still arrive
		s.deficit = max(t.deficit-0.1*v.cost, 0) + max(missing, 0)
		short = s.deficit
	}
	if short > v.cost*float64(MaxLost+v.widest) {
		return failed(Remaining, false, least)
	}
	return s
}

// after subtracts this request from base, and the requests since whose responses had
// arrived before this one was sent.
func (v *view) after(t *track, base float64) float64 {
	if t.at.high > v.Sent { // this one may be older than the base
		return base + v.cost*float64(v.Pending+v.widest)
	}
	return base - v.cost*(max(t.since-float64(v.Pending), 0)+v.counts())
}

// step returns how a track explains a response.
func (v *view) step(t *track) step {
	longest := 1.1 * v.Window
	if v.tillUnit() {
		longest = max(longest, v.Window*(1+1/v.Quota)) // if the whole quota was used in an instant
	}
	if v.Window > 0 && !v.isBucket() && v.Reset > longest+rounding+1 { // it is longer than a limiter can announce
		return failed(Reset, false, v.Window)
	}
	if t.rolled > v.Sent { // the response may be of the window before
		return step{ok: true, filled: v.Remaining, low: v.Remaining, begin: t.begin}
	}
	switch v.kind {
	case fixedWindow:
		return v.inWindow(t)
	case slidingLog, slidingLast:
		return v.inLog(t)
	case weighted:
		return v.inWeighted(t)
	}
	return v.inBucket(t)
}

// inWindow is step for a fixed window. Either the window goes on, or a new one begins.
func (v *view) inWindow(t *track) step {
	most := v.after(t, t.left)
	now := v.ending(span{v.Sent, math.Inf(1)})
	fits, wider := v.agrees(now, t.end)
	if fits && v.Remaining <= most {
		s := v.between(t, t.shown, most)
		s.wider = wider
		return s
	}
	over := v.Received >= t.end.low-1
	wider = 0
	if most := v.jittered(); !over && v.Received >= t.end.low-1-most {
		over, wider = true, most // earlier resets had jitter, but no more than rounding explained
	}
	s := v.between(&track{}, v.Quota, v.fresh())
	switch {
	case !over && !fits, over && s.ok && !v.begins(t, now):
		return failed(Reset, false, 0)
	case !over:
		return failed(Remaining, true, most)
	}
	s.rolls, s.wider = true, wider
	return s
}

// agrees reports whether two resets end at the same time, and the jitter that this needs.
func (v *view) agrees(now, end span) (ok bool, jitter float64) {
	if now.widened(1).meets(end) {
		return true, 0
	}
	if most := v.jittered(); v.jitter == 0 && now.widened(1+most).meets(end) {
		return true, most
	}
	return false, 0
}

// jittered returns the seconds that a server may add to resets at random.
func (v *view) jittered() float64 { return max(v.Window, v.longest) / 10 }

// begins reports whether a window that ends at now can have begun between the end of the window
// of t and the response.
func (v *view) begins(t *track, now span) bool {
	return now.widened(1).meets(span{t.end.low + v.window.low, v.Received + v.window.high})
}

// rate returns how many units come back in a second.
func (v *view) rate() span {
	if v.Window == 0 {
		return span{0, 1 / v.each.low}
	}
	return span{v.Quota / v.window.high, v.Quota / v.window.low}
}

// refilled returns what a track contains at most if units come back at a rate in units a second:
// with a part of a unit, and as announced.
func (v *view) refilled(t *track, rate float64) (filled, most float64) {
	passed := max(v.Received-t.at.low, 0)
	filled = min(v.after(t, t.left+rate*passed), v.fresh())
	return filled, math.Floor(filled + 0.5)
}

// inBucket is step for a token bucket.
func (v *view) inBucket(t *track) step {
	rate := v.rate()
	filled, most := v.refilled(t, rate.high)
	if v.kind == bucketNext && v.Received < t.end.low-0.5 { // before the next token
		most = min(most, v.after(t, t.base))
		if now := v.ending(t.end).widened(1); now.high < t.end.low || now.low > t.end.high && v.Outcome != Refused {
			return failed(Reset, false, 0)
		}
	}
	least := math.Floor(min(t.low+rate.low*(v.Sent-t.at.high), v.Quota)) - v.cost*t.asked
	s := v.between(t, least, most)
	s.filled, s.low = filled, v.Remaining
	if v.Outcome == Refused {
		s.low = min(s.low, least-v.cost)
	}
	missing := v.missing(filled)
	missing.high = max(missing.high, v.Quota-s.low)
	switch {
	case !s.ok, v.Reset < 0:
	case v.Window > 0 && !v.full(missing), v.kind == bucketFull && !v.each.meets(v.eachUnit(missing)):
		return failed(Reset, false, 0)
	}
	return s
}

// missing returns how many units are missing if at most the given number remains.
func (v *view) missing(most float64) span {
	if v.capped {
		return span{v.Quota - most, v.Quota - v.Remaining}
	}
	return span{v.Quota - v.Remaining, v.Quota - v.Remaining}
}

// full reports whether the reset fits a bucket with a known rate.
func (v *view) full(missing span) bool {
	rate, slack := v.rate(), rounding+1+v.Window/10
	if v.kind == bucketNext {
		return v.Reset <= max(missing.high-v.Quota+1, 1)/rate.low+slack
	}
	return v.Reset >= (missing.low-1)/rate.high-rounding-1 && v.Reset <= (missing.high+1)/rate.low+slack
}

// eachUnit returns the seconds between two tokens, given a reset until the bucket is full.
func (v *view) eachUnit(missing span) span {
	each := span{max(v.Reset-rounding-1, 0) / (missing.high + 0.5) / 1.1, math.Inf(1)}
	if most := max(missing.low-1, v.counts()); most > 0 {
		each.high = (v.Reset + rounding + 1) / most
	}
	return each
}

// inWeighted is step for a sliding window counter. The units used in the previous window come
// back no faster than the tokens of a bucket.
func (v *view) inWeighted(t *track) step {
	filled, most := v.refilled(t, v.Quota/v.window.low)
	now, begin := v.ending(span{v.Sent, math.Inf(1)}), t.begin
	fits, wider := v.agrees(now, t.end)
	rolls := !fits
	switch {
	case fits:
		now = t.end
	case v.Received >= t.end.low-1 && v.begins(t, now):
		begin = t.end.low
	default:
		return failed(Reset, false, 0)
	}
	inside, possible := v.counts(), 0.0
	share := max(min((now.high-v.Sent)/v.window.low, 1), 0) // of the previous window that still counts
	for _, e := range t.entries {
		if e.high < begin {
			possible += e.most * share
		} else {
			possible += e.most
		}
		if e.low > t.end.high-v.window.low+1 && e.high <= v.Sent {
			inside += e.least
		}
	}
	if v.Received < t.end.low-1 {
		most = min(most, v.Quota-v.cost*inside)
	}
	least := v.Quota - v.cost*possible - 1
	if v.Window == 0 && math.IsInf(begin, -1) {
		least = t.shown - 1
	}
	s := v.between(t, least, most)
	s.filled, s.rolls, s.begin, s.wider = filled, rolls, begin, wider
	return s
}

// commit adds a response to a track.
func (v *view) commit(t *track, s step) {
	v.enter(t)
	if s.wider > 0 {
		v.jitter = s.wider
		t.end.low -= s.wider
	}
	t.deficit, t.begin = s.deficit, s.begin
	now := v.ending(span{t.at.low + v.window.low, v.Received + v.window.high})
	switch {
	case s.rolls:
		v.windows++
		t.end, t.rolled = now, v.Received
	case v.tillUnit():
	case v.kind == fixedWindow || v.kind == weighted:
		t.end = t.end.and(v.ending(t.end))
	case v.Pending == 0 && !v.capped:
		t.end = now // of base
	}
	t.shown = v.Remaining
	if (v.Pending > 0 || v.capped) && !s.rolls { // the base stays while requests overlap
		t.asked += float64(1 + v.Others)
		if v.Sent >= t.at.high {
			t.since += v.counts()
		}
		return
	}
	t.at, t.since, t.asked = span{v.Sent, v.Received}, 0, 0
	t.left, t.base, t.low = max(min(v.holds+1, s.filled), v.holds), v.holds, s.low
}
