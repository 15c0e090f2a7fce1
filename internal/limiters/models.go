package limiters

import (
	"math"
	"slices"
)

// A kind is a kind of limiter, with how it writes a reset.
type kind int

const (
	fixedWindow kind = iota // t is until the end of the window
	slidingLog              // t is until the oldest request leaves it
	slidingLast             // t is until all have left it
	bucketNext              // t is until the next token
	bucketFull              // t is until the bucket is full
	weighted                // a sliding window counter: t is until the end of its window
	kinds
)

// A model is one kind of limiter, with as many counters as the responses need.
type model struct {
	kind    kind
	tracks  []track
	last    int     // the track of the latest response
	moves   int     // how often another track was the latest
	slips   int     // how often a response was taken for that of another track
	seen    int     // responses
	asked   float64 // requests that may have been counted
	widest  int     // how many answers were on their way at most
	jitter  float64 // seconds that are added to resets at random
	longest float64 // reset
	each    span    // seconds in which a bucket of unknown rate gives back a unit; high 0 if nothing shows it
	wrong   fault   // why the latest response is not explained
}

// A fault is what a model does not explain.
type fault struct {
	number Number
	early  bool // more remains than can have come back; else less than must have
	most   float64
}

func newModels() []model {
	list := make([]model, kinds)
	for k := range list {
		list[k].kind = kind(k)
	}
	return list
}

// A track is one counter: of a node, of an endpoint, or of a life between two restarts.
type track struct {
	shown   float64 // what remained in the latest response
	base    float64 // what remained at the time below
	left    float64 // units at most, with the part of a token in a bucket
	at      span    // when that was decided
	since   float64 // requests served since then
	anchor  anchor
	end     span    // of the window, or when the next token comes
	rolled  float64 // when a window was seen to have begun
	entries []entry // what a log or a sliding window counter has counted
	deficit float64 // how many units were missing lately
}

// An anchor is how much a bucket held at least, before when, and how many requests it may
// have counted since.
type anchor struct{ units, at, since float64 }

// An entry is requests that were counted at some time, how many of them at least and at most.
type entry struct {
	span
	least, most float64
}

// A view is a response in the eyes of a model.
type view struct {
	*Response
	*Terms
	*model
	cost   float64
	window span // seconds
}

// add reports whether the model explains a response, and remembers it.
func (m *model) add(r *Response, terms *Terms, cost float64, most int) bool {
	m.longest = max(m.longest, r.Reset)
	m.seen++
	m.asked += r.counts() + float64(r.Others)
	m.widest = max(m.widest, min(r.Pending, 64))
	v := view{Response: r, Terms: terms, model: m, cost: cost}
	if terms.Window > 0 {
		v.window = span{terms.Window - 1, terms.Window + 0.5}
		if v.window.low < 0.25 {
			v.window.low = 0.25
		}
	} else {
		v.window = span{max(m.longest-terms.Slack, 0.25), math.Inf(1)}
	}
	best, gap := -1, math.Inf(1)
	var move step
	for i := range m.tracks {
		s := v.step(&m.tracks[i])
		if s.ok && (s.gap < gap || s.gap == gap && i == m.last) {
			best, gap, move = i, s.gap, s
		} else if !s.ok && (i == m.last || len(m.tracks) == 1) {
			m.wrong = s.fault
		}
	}
	if best < 0 {
		return v.begin(most) || v.slip()
	}
	if best != m.last {
		m.last = best
		m.moves++
	}
	v.commit(&m.tracks[best], move)
	return true
}

// begin begins a track, if there may be one: the first, or that of another server, which
// has counted no more than what was asked.
func (v *view) begin(most int) bool {
	first := len(v.tracks) == 0
	if most > 3 && len(v.tracks) == 3 && v.moves < 3 && v.seen > 12 {
		return false // servers that do not share their counts answer in turn
	}
	if len(v.tracks) == most || !first && v.Remaining < v.Quota-v.cost*float64(1+v.Others+v.Pending) && !v.conserved() {
		return false
	}
	if v.Remaining > v.Quota || v.tooLong() {
		return false
	}
	t := track{shown: v.Remaining, base: v.Remaining, left: v.Remaining, at: span{v.Sent, v.Received}, rolled: math.Inf(-1)}
	v.tracks = append(v.tracks, t)
	v.model.last = len(v.tracks) - 1
	n := &v.tracks[v.model.last]
	v.learn()
	n.end = v.ending(span{v.Sent, v.Received + v.window.high})
	v.enter(n, step{})
	if v.isBucket() || v.kind == weighted {
		n.left = min(v.Remaining+1, v.Quota-v.cost*v.counts())
	}
	n.anchor = anchor{units: v.Remaining, at: v.Received}
	return true
}

// conserved reports whether all that is used on all counters is no more than what was asked,
// so that responses which overlapped may have been those of another counter.
func (v *view) conserved() bool {
	used := v.Quota - v.Remaining
	for i := range v.tracks {
		used += v.Quota - v.tracks[i].shown
	}
	return v.Overlaps && used <= v.cost*v.asked
}

// slip takes a response into the track that is nearest to it. Which of several counters a
// response is of is a guess, which may have been wrong before.
func (v *view) slip() bool {
	if len(v.tracks) < 2 || v.slips >= v.moves/5 || v.Remaining > v.Quota || v.tooLong() {
		return false
	}
	v.slips++
	nearest := 0
	for i := range v.tracks {
		if math.Abs(v.tracks[i].shown-v.Remaining) < math.Abs(v.tracks[nearest].shown-v.Remaining) {
			nearest = i
		}
	}
	v.model.last = nearest
	t := &v.tracks[nearest]
	v.commit(t, step{ok: true, rolls: true, filled: v.Remaining + 1})
	t.anchor = anchor{units: v.Remaining, at: v.Received}
	return true
}

// tooLong reports whether a reset is longer than any of this limiter.
func (v *view) tooLong() bool {
	if v.Reset < 0 || v.Window == 0 {
		return false
	}
	most := v.Window*1.1 + v.Slack + 1
	if v.kind == weighted && v.Remaining == 0 {
		most *= 2
	}
	return v.Reset > most
}

func (v *view) isBucket() bool { return v.kind == bucketNext || v.kind == bucketFull }

// ending returns when the reset ends, or a default if there is none.
func (v *view) ending(otherwise span) span {
	if v.Reset < 0 {
		return otherwise
	}
	return span{v.Sent + v.Reset - v.Slack - v.jitter, v.Received + v.Reset + v.Slack}
}

// A step is how a track explains a response.
type step struct {
	ok      bool
	gap     float64 // how much less remains than could
	rolls   bool    // a window begins
	stays   bool    // the response is older than what is known
	wider   float64 // the jitter that it takes
	deficit float64 // units that are missing lately
	later   bool    // a request was counted whose answer was lost
	filled  float64 // units at most, with the part of a token
	fault   fault
}

func failed(of Number, early bool, most float64) step {
	return step{fault: fault{number: of, early: early, most: most}}
}

// short reports whether more is missing than lost answers explain, given the least that
// should remain.
func (v *view) short(t *track, least float64) (deficit float64, short bool) {
	least -= v.cost * (1 + float64(v.Pending) + float64(v.Others))
	if v.Overlaps { // what is missing may still be on its way
		return t.deficit, v.Remaining < least-v.cost*float64(maxLost+v.widest)
	}
	deficit = max(t.deficit-0.1*v.cost, 0) + max(least-v.Remaining, 0)
	return deficit, deficit > v.cost*float64(maxLost+v.widest)
}

// poor reports whether a bucket holds less than what has flowed in allows.
func (v *view) poor(t *track, rate float64) bool {
	a := &t.anchor
	least := min(a.units+rate*(v.Sent-a.at), v.Quota) - v.cost*(a.since+1+float64(v.Others+v.Pending))
	return v.Remaining+1 < least-v.cost*(float64(maxLost+v.widest)+0.1*a.since)
}

// moor moves the anchor to a response that proves more than the anchor does.
func (v *view) moor(t *track, rate float64) {
	a := &t.anchor
	a.since += 1 + float64(v.Others)
	if least := min(a.units+rate*(v.Sent-a.at), v.Quota) - v.cost*a.since; v.Remaining >= least || v.Remaining+2 >= v.Quota {
		*a = anchor{units: v.Remaining, at: v.Received}
	}
}

// after returns the most that can remain of a base when the requests since, whose answers
// had arrived before this one was sent, and this one are taken off.
func (v *view) after(t *track, base float64) float64 {
	if t.at.high > v.Sent { // this one may be older than the base
		return base + v.cost*float64(v.Pending+v.widest)
	}
	return base - v.cost*(max(t.since-float64(v.Pending), 0)+v.counts())
}

func (v *view) step(t *track) step {
	if v.tooLong() {
		return failed(Reset, false, v.Window)
	}
	if v.Pending > 0 && t.rolled >= v.Sent { // it may be of the window before
		return step{ok: v.Remaining <= v.Quota, stays: true}
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

// inWindow explains a response by a fixed window, which goes on or begins.
func (v *view) inWindow(t *track) step {
	most := v.after(t, t.left)
	now := v.ending(span{v.Sent, math.Inf(1)})
	fits, wider := v.agrees(now, t.end)
	before := v.Sent <= t.end.high+1
	if before && fits && v.Remaining <= most {
		if v.poor(t, 0) {
			return failed(Remaining, false, t.shown)
		}
		return step{ok: true, gap: most - v.Remaining, wider: wider}
	}
	over := v.Received >= t.end.low-1
	fresh := v.Quota - v.cost*v.counts()
	short := v.Remaining < v.Quota-v.cost*float64(1+v.Pending+v.Others+maxLost+v.widest)
	switch {
	case !over && !fits:
		return failed(Reset, false, 0)
	case !over || v.Remaining > fresh:
		return failed(Remaining, true, most)
	case short:
		return failed(Remaining, false, v.Quota)
	case v.Reset >= 0 && !v.begins(t, now):
		return failed(Reset, false, 0)
	}
	return step{ok: true, gap: fresh - v.Remaining, rolls: true}
}

// agrees reports whether a reset ends when an earlier one did, and how much jitter that takes.
func (v *view) agrees(now, end span) (ok bool, jitter float64) {
	if v.Reset < 0 || now.widened(1).meets(end) {
		return true, 0
	}
	if most := v.jittered(); v.jitter == 0 && now.widened(1+most).meets(end) {
		return true, most
	}
	return false, 0
}

// jittered returns by how much resets may be longer at random.
func (v *view) jittered() float64 { return max(v.Window, v.longest) / 10 }

// begins reports whether a window that ends at now can follow one of t: by the clock, or
// with the first request.
func (v *view) begins(t *track, now span) bool {
	if v.Window == 0 {
		return now.high >= t.end.low
	}
	for k := 1.0; k <= 3; k++ {
		if now.widened(1).meets(span{t.end.low + k*v.window.low, t.end.high + k*v.window.high}) {
			return true
		}
	}
	if v.Sent > t.end.high+3*v.Window {
		return true
	}
	since := v.Sent
	if v.Others > 0 || v.Pending > 0 || v.Outcome != Served {
		since = t.end.low
	}
	return now.widened(1).meets(span{since + v.window.low, v.Received + v.window.high})
}

// inLog explains a response by a sliding log.
func (v *view) inLog(t *track) step {
	certain, possible := 0.0, 0.0 // requests in the log
	oldest, leaves := math.Inf(1), math.Inf(1)
	first, last := math.Inf(-1), math.Inf(-1) // when the newest was served
	for _, e := range t.entries {
		if e.high+v.window.high < v.Sent {
			continue
		}
		possible += e.most
		oldest, last = min(oldest, e.low), max(last, e.high)
		if e.least == 0 {
			continue
		}
		if e.high <= v.Sent {
			first = max(first, e.low)
		}
		if e.low+v.window.low > v.Received && e.high <= v.Sent {
			certain += e.least
			leaves = min(leaves, e.high)
		}
	}
	most := v.Quota - v.cost*(certain+v.counts())
	if v.kind == slidingLog && t.end.high > 0 && v.jitter == 0 && v.Received < t.end.low-1 { // before the oldest leaves
		most = min(most, v.after(t, t.base))
	}
	least := v.Quota - v.cost*possible
	deficit, short := v.short(t, least)
	switch {
	case v.Remaining > most:
		return failed(Remaining, true, most)
	case short:
		return failed(Remaining, false, least)
	}
	s := step{ok: true, gap: most - v.Remaining, deficit: deficit}
	if v.Reset < 0 {
		return s
	}
	resets := span{0, v.window.high}
	switch {
	case v.kind == slidingLog:
		resets.high = min(resets.high, leaves+v.window.high-v.Sent)
		if possible > 0 && v.Pending == 0 {
			resets.low = oldest + v.window.low - v.Received
		} else if possible == 0 && v.Others == 0 && v.Outcome == Served {
			resets.low = v.window.low
		}
	case v.Outcome == Served:
		resets.low = v.window.low - (v.Received - v.Sent)
	default:
		resets.low = first + v.window.low - v.Received
		if v.Others == 0 && v.Pending == 0 && v.Outcome == Refused && possible > 0 {
			resets.high = last + v.window.high - v.Sent
			if s.later = v.Reset > resets.high+v.Slack+1; s.later {
				s.deficit += v.cost
				if s.deficit > v.cost*maxLost {
					return failed(Reset, false, 0)
				}
				resets.high = v.window.high
			}
		}
	}
	if v.Window == 0 {
		resets.low = min(resets.low, v.longest-v.Slack) // the window is not known better
	}
	resets = resets.widened(v.Slack + 1)
	if v.Reset < resets.low || v.Reset > resets.high+max(v.jitter, v.jittered()) {
		return failed(Reset, false, 0)
	}
	if v.Reset > resets.high+v.jitter {
		s.wider = v.jittered()
	}
	return s
}

// rate returns how many units come back in a second.
func (v *view) rate() span {
	if v.Window == 0 {
		if v.each.low > 0 {
			return span{0, 1 / v.each.low}
		}
		return span{0, v.Quota / 0.25}
	}
	return span{v.Quota / v.window.high, v.Quota / v.window.low}
}

// inBucket explains a response by a token bucket.
func (v *view) inBucket(t *track) step {
	rate, passed := v.rate(), v.passed(t.at)
	filled := min(v.after(t, t.left+rate.high*passed.high), v.Quota-v.cost*v.counts())
	most := math.Floor(filled + 0.5)
	if v.kind == bucketNext && t.end.high > 0 && v.Received < t.end.low-0.5 { // before the next token
		most = min(most, v.after(t, t.base))
		if v.Reset >= 0 && v.Window == 0 && !v.ending(span{}).widened(1).meets(t.end) {
			return failed(Reset, false, 0)
		}
	}
	switch {
	case v.Remaining > most:
		return failed(Remaining, true, most)
	case v.poor(t, rate.low):
		return failed(Remaining, false, t.anchor.units)
	case v.Reset < 0:
	case v.Window > 0 && !v.full(), v.Window == 0 && v.kind == bucketFull && !v.each.meets(v.eachUnit()) && v.each.high > 0:
		return failed(Reset, false, 0)
	}
	return step{ok: true, gap: most - v.Remaining, filled: filled}
}

// full reports whether the reset is that of a bucket with a known rate.
func (v *view) full() bool {
	rate, slack := v.rate(), v.Slack+1+v.Window/10
	if v.kind == bucketNext {
		return v.Reset <= 1/rate.low+slack
	}
	missing := v.Quota - v.Remaining
	return v.Reset >= (missing-1)/rate.high-v.Slack-1 && v.Reset <= (missing+1)/rate.low+slack
}

// eachUnit returns the seconds in which a bucket of unknown rate gives back a unit, by the
// time in which it is full.
func (v *view) eachUnit() span {
	missing := v.Quota - v.Remaining
	each := span{max(v.Reset-v.Slack-1, 0) / (missing + 0.5) / 1.1, math.Inf(1)}
	if most := max(missing-1, v.counts()); most > 0 {
		each.high = (v.Reset + v.Slack + 1) / most
	}
	return each
}

// learn takes from a reset what it shows of the rate of a bucket.
func (v *view) learn() {
	if v.Window > 0 || !v.isBucket() || v.Reset < 0 {
		return
	}
	each := span{max(v.Reset-v.Slack-1, 0) / 1.1, math.Inf(1)}
	if v.kind == bucketFull {
		each = v.eachUnit()
	}
	if v.each.high == 0 {
		v.each = each
	}
	v.each = span{max(v.each.low, each.low), min(v.each.high, each.high)}
}

// inWeighted explains a response by a sliding window counter. What the window before counts
// melts away, at most as fast as a bucket fills.
func (v *view) inWeighted(t *track) step {
	rate, passed := v.Quota/v.window.low, v.passed(t.at)
	filled := min(v.after(t, t.left+rate*passed.high), v.Quota-v.cost*v.counts())
	most := math.Floor(filled + 0.5)
	if begin := t.end.high - v.window.low; v.Received < t.end.low-1 {
		inside := v.counts()
		for _, e := range t.entries {
			if e.low > begin+1 && e.high <= v.Sent {
				inside += e.least
			}
		}
		most = min(most, v.Quota-v.cost*inside)
	}
	possible := 0.0
	for _, e := range t.entries {
		if e.high+2*v.window.high >= v.Sent {
			possible += e.most
		}
	}
	least := v.Quota - v.cost*possible - 1
	if v.Window == 0 {
		least = t.shown - 1
	}
	deficit, short := v.short(t, least)
	switch {
	case v.Remaining > most:
		return failed(Remaining, true, most)
	case short:
		return failed(Remaining, false, least)
	case v.Reset < 0 || v.Remaining == 0:
		return step{ok: true, gap: most - v.Remaining, deficit: deficit, filled: filled}
	}
	now := v.ending(span{})
	fits, wider := v.agrees(now, t.end)
	if fits && v.Sent <= t.end.high+1 {
		return step{ok: true, gap: most - v.Remaining, wider: wider, deficit: deficit, filled: filled}
	}
	if v.Received >= t.end.low-1 && (v.Window == 0 || v.follows(t, now)) {
		return step{ok: true, gap: most - v.Remaining, rolls: true, deficit: deficit, filled: filled}
	}
	return failed(Reset, false, 0)
}

// follows reports whether a window that ends at now follows one of t by the clock.
func (v *view) follows(t *track, now span) bool {
	for k := 1.0; k <= 3; k++ {
		if now.widened(1).meets(span{t.end.low + k*v.window.low, t.end.high + k*v.window.high}) {
			return true
		}
	}
	return v.Sent > t.end.high+3*v.Window
}

// commit takes a response into a track.
func (v *view) commit(t *track, s step) {
	v.enter(t, s)
	if s.stays {
		return
	}
	if s.wider > 0 {
		v.jitter = s.wider
		t.end.low -= s.wider
	}
	before := t.at
	t.deficit = s.deficit
	v.learn()
	switch v.kind {
	case fixedWindow, weighted:
		if v.kind == fixedWindow && s.rolls {
			t.anchor = anchor{units: v.Remaining, at: v.Received}
		} else if v.kind == fixedWindow {
			v.moor(t, 0)
		}
		v.toWindow(t, s, before)
	case bucketNext, bucketFull:
		v.moor(t, v.rate().low)
	}
	if v.Reset >= 0 && v.Pending == 0 && v.kind != fixedWindow && v.kind != weighted {
		t.end = v.ending(span{}) // with what remained then
	}
	v.take(t, s)
	t.shown = v.Remaining
}

// take notes what remains at most. While requests overlap the response before is the base.
func (v *view) take(t *track, s step) {
	if v.Pending > 0 && !s.rolls {
		if v.Sent >= t.at.high {
			t.since += v.counts()
		}
		return
	}
	t.at, t.since = span{v.Sent, v.Received}, 0
	t.left, t.base = v.Remaining, v.Remaining
	if v.isBucket() || v.kind == weighted {
		t.left = max(min(v.Remaining+1, s.filled), v.Remaining)
	}
}

// toWindow notes when the window ends.
func (v *view) toWindow(t *track, s step, before span) {
	now := v.ending(span{before.low + v.window.low, v.Received + v.window.high})
	switch {
	case s.rolls:
		t.end, t.rolled = now, v.Received
	case v.Reset >= 0 && (v.kind == fixedWindow || v.Remaining > 0):
		t.end = t.end.and(now)
	}
}

// memory returns how long a request counts, at most.
func (v *view) memory() float64 {
	if v.kind == weighted {
		return 2 * v.window.high
	}
	return v.window.high
}

// enter notes the requests that the counter has counted, or may have.
func (v *view) enter(t *track, s step) {
	if v.isBucket() || v.kind == fixedWindow {
		return
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return e.high+v.memory() < v.Sent })
	if len(t.entries) >= maxLog { // each two become one
		half := t.entries[:0]
		for pair := range slices.Chunk(t.entries, 2) {
			e, next := pair[0], pair[len(pair)-1]
			if len(pair) == 2 {
				e = entry{span{min(e.low, next.low), max(e.high, next.high)}, e.least + next.least, e.most + next.most}
			}
			half = append(half, e)
		}
		t.entries = half
	}
	if v.Others > 0 {
		t.entries = append(t.entries, entry{span{t.at.low, v.Received}, 0, float64(v.Others)})
	}
	if v.Outcome != Refused {
		t.entries = append(t.entries, entry{span{v.Sent, v.Received}, v.counts(), 1})
	}
	missing := (v.Quota - v.Remaining) / v.cost
	for _, e := range t.entries {
		missing -= e.most
	}
	if s.later {
		t.entries = append(t.entries, entry{span: span{v.Sent, v.Received + v.Reset - v.window.low + v.Slack}})
	}
	if missing > 0 { // it was counted, and no answer shows it
		t.entries = append(t.entries, entry{span{v.Received - v.memory(), v.Received}, 0, missing})
	}
}
