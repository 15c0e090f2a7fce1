package limiters

import "math"

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

// between returns a step if no more than most remains. If less than least remains, lost responses must
// explain the units that are missing.
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

// after subtracts this request from base. It also subtracts the requests since base whose responses had
// arrived before this request was sent.
func (v *view) after(t *track, base float64) float64 {
	if t.at.high > v.Sent { // this response may be older than the base
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
	if v.Window > 0 && !v.isBucket() && v.Reset > longest+rounding+1 { // no limiter announces so long a reset
		return failed(Reset, false, v.Window)
	}
	if t.rolled > v.Sent { // the response may belong to the window before
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

// agrees reports whether two resets end at the same time, and returns the jitter that this needs.
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

// begins reports whether a window that ends at now can have begun after the end of t's window and
// before the response.
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

// refilled returns the most units that a track may contain if units come back at a rate in units a
// second: filled includes a part of a unit, and most is what the server can announce.
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
	case !v.full(missing), v.kind == bucketFull && !v.each.meets(v.eachUnit(missing)):
		return failed(Reset, false, 0)
	}
	return s
}

// missing returns how many units are missing. If the server has lowered Remaining, up to most units may
// remain.
func (v *view) missing(most float64) span {
	if v.capped {
		return span{v.Quota - most, v.Quota - v.Remaining}
	}
	return span{v.Quota - v.Remaining, v.Quota - v.Remaining}
}

// full reports whether the reset fits a bucket that lacks the given number of units.
func (v *view) full(missing span) bool {
	rate, slack := v.rate(), rounding+1+v.Window/10
	if v.kind == bucketNext {
		return v.Reset <= max(missing.high-v.Quota+1, 1)/rate.low+slack
	}
	return v.Reset >= (missing.low-1)/rate.high-rounding-1 && v.Reset <= (missing.high+1)/rate.low+slack
}

// eachUnit returns bounds for the seconds between two tokens. It assumes that the reset is the time
// until the bucket is full. The upper bound is infinite if perhaps no token is missing.
func (v *view) eachUnit(missing span) span {
	return span{
		max(v.Reset-rounding-1, 0) / (missing.high + 0.5) / 1.1,
		(v.Reset + rounding + 1) / max(missing.low-1, v.counts()),
	}
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
