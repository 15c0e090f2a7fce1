package limiters

import (
	"math"
	"slices"
)

// An entry is the time of some requests, and their lowest and highest number.
type entry struct {
	span
	least, most float64
}

// inLog is step for a sliding log.
func (v *view) inLog(t *track) step {
	certain, possible := 0.0, 0.0              // requests in the log
	oldest, leaves := math.Inf(1), math.Inf(1) // the earliest and the latest time of the oldest request
	for _, e := range t.entries {
		possible += e.most
		oldest = min(oldest, e.low)
		if e.least > 0 && e.low+v.window.low > v.Received && e.high <= v.Sent {
			certain += e.least
			leaves = min(leaves, e.high)
		}
	}
	most := v.Quota - v.cost*(certain+v.counts())
	if v.kind == slidingLog && v.Received < t.end.low-1 { // before the oldest request leaves
		most = min(most, v.after(t, t.base))
	}
	s := v.between(t, v.Quota-v.cost*possible, most)
	if !s.ok || v.Reset < 0 {
		return s
	}
	resets := span{0, v.window.high} // the resets that the log allows
	switch {
	case v.kind == slidingLog:
		resets.high = min(resets.high, leaves+v.window.high-v.Sent)
		if possible > 0 {
			resets.low = oldest + v.window.low - v.Received
		}
	case v.Outcome == Served:
		resets.low = v.window.low - (v.Received - v.Sent)
	}
	if resets = resets.widened(rounding + 1); v.Reset < resets.low || v.Reset > resets.high {
		return failed(Reset, false, 0)
	}
	return s
}

// memory returns the longest time for which a request counts, in seconds.
func (v *view) memory() float64 {
	if v.kind == weighted {
		return 2 * v.window.high
	}
	return v.window.high
}

// enter adds the requests that a log or a sliding window counter has counted, or may have
// counted.
func (v *view) enter(t *track) {
	if v.isBucket() || v.kind == fixedWindow {
		return
	}
	full := len(t.entries) >= maxLog
	for i := 1; i < len(t.entries) && full; i++ { // join entries in pairs
		e, next := &t.entries[i-1], t.entries[i]
		*e = entry{span{min(e.low, next.low), max(e.high, next.high)}, e.least + next.least, e.most + next.most}
		t.entries = slices.Delete(t.entries, i, i+1)
	}
	if v.Others > 0 {
		t.entries = append(t.entries, entry{span{t.at.low, v.Received}, 0, float64(v.Others)})
	}
	t.entries = append(t.entries, entry{span{v.Sent, v.Received}, v.counts(), 1}) // also if it was refused
	if v.capped {
		return
	}
	missing := (v.Quota - v.Remaining) / v.cost
	for _, e := range t.entries {
		missing -= e.most
	}
	if missing > 0 { // requests that were counted before the first response, or whose responses were lost
		t.entries = append(t.entries, entry{span{v.Received - v.memory(), v.Received}, 0, missing})
	}
}
