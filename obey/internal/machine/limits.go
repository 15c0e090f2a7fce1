package machine

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// maxLimits is the number of limits of a key that are counted. Further limits are obeyed when
// nothing remains of them.
const maxLimits = 16

// A limit is what is left of a limit of the server. It needs no event when its window ends:
// what is left then may still be used, because no answer has shown that less is left (draft-11
// Section 8.4). If that is too little, one request goes as a probe.
type limit struct {
	unit, policy string
	quota        float64   // 0 if it is not known
	left         float64   // of the caller's share; requests under way have been subtracted
	end          time.Time // of the window; zero if it is unknown
	sent         float64   // what all requests but refused ones have taken, since the limit is known
	learnt       int64     // the last request when left was learnt
	from         time.Time // requests under way then that were sent after this time were subtracted
	flow         *flow     // nil for a limit of requests
}

// limits are the limits in force of a key: those of requests in its newest answer, and those in
// other units that requests had prices for.
type limits []limit

// of returns the limit of a stock, a new one if there is none yet; nil if there are too many.
func (l *limits) of(s *Stock) *limit {
	same := func(x limit) bool { return x.policy == s.Policy && x.unit == s.Unit }
	if i := slices.IndexFunc(*l, same); i >= 0 {
		return &(*l)[i]
	}
	if len(*l) == maxLimits {
		return nil
	}
	x := limit{unit: RequestUnit, policy: strings.Clone(s.Policy)}
	if s.Unit != RequestUnit {
		x.unit, x.flow = strings.Clone(s.Unit), &flow{}
	}
	*l = append(*l, x)
	return &(*l)[len(*l)-1]
}

// ask makes a verdict wait until enough has flowed into a limit, or else until its window ends.
// Afterwards, or if the end is unknown, one request goes, and the others wait for its answer.
func (x *limit) ask(v *Verdict, now time.Time, prices []Price, r *Settings, sent *traffic) {
	need := x.need(prices, r)
	missing := need - x.now(now, r)
	if missing <= 0 || need == 0 {
		return
	}
	until, depends := x.end, false
	if rate := x.flow.rate() * r.Share; rate > 0 {
		until = now.Add(scale(time.Second, missing/rate))
	} else if !now.Before(x.end) {
		under, wait := sent.under.n, probeTime
		if x.flow != nil { // such requests take long
			under, wait = sent.under.priced, mostBackoff
		}
		if under == 0 || x.flow == nil && sent.probed.Before(x.end) {
			return
		}
		until, depends = sent.probed.Add(wait), true
	}
	if latest := sent.last.Add(r.MaxWait); latest.Before(until) {
		until = latest
	}
	if now.Before(until) && v.Until.Before(until) { // no other limit waits for longer
		v.Open, v.Until, v.Depends, v.Reason = false, until, depends, Limit
	}
}

// need returns how much must be left for a request: what it takes, but at most what a
// full limit holds.
func (x *limit) need(prices []Price, r *Settings) float64 {
	units := Takes(prices, x.unit, x.policy)
	if x.quota > 0 {
		units = min(units, x.quota*r.Share)
	}
	return units
}

// now returns what is left at a time.
func (x *limit) now(now time.Time, r *Settings) float64 {
	if x.flow == nil {
		return x.left
	}
	left := x.left + x.flow.rate()*r.Share*max(now.Sub(x.flow.at), 0).Seconds()
	if x.quota > 0 {
		left = min(left, max(x.quota*r.Share, x.left))
	}
	return left
}

// add adds to what is left at a time.
func (x *limit) add(units float64, now time.Time, r *Settings) {
	x.left = x.now(now, r) + units
	if x.flow != nil {
		x.flow.at = now
	}
}

// giveBack adds what a request took of all limits, because it took nothing of them.
func (l limits) giveBack(t *Trip, now time.Time, r *Settings) {
	for i := range l {
		x := &l[i]
		x.add(x.taken(t, r), now, r)
		x.sent -= x.need(t.Prices, r)
	}
}

// taken returns what was subtracted for a request.
func (x *limit) taken(t *Trip, r *Settings) float64 {
	switch need := x.need(t.Prices, r); {
	case t.number > x.learnt:
		return need
	case x.from.Before(t.at):
		return need * r.Share
	}
	return 0
}

// learn updates the limits from an answer, and reports whether a limit of requests allows less
// than before. A newer answer replaces all limits of requests.
func (l *limits) learn(t *Trip, a *Answer, newer bool, received time.Time, r *Settings, sent *traffic) (stricter bool) {
	for i := range a.Stocks {
		s := &a.Stocks[i]
		requests, own := s.Unit == RequestUnit, Takes(t.Prices, s.Unit, s.Policy)
		if requests && a.RetryAfter && s.Left == 0 || !requests && own == 0 {
			continue
		}
		if x := l.of(s); x != nil && x.fill(t, s, a.Refused, newer, received, r, sent) {
			stricter = stricter || requests
		}
	}
	*l = slices.DeleteFunc(*l, func(x limit) bool { return newer && x.flow == nil && x.learnt < sent.number })
	return stricter
}

// served takes note of an answer that refuses nothing. It drops limits of requests that were used
// up, and whose windows are over.
func (l *limits) served(t *Trip, received time.Time) {
	*l = slices.DeleteFunc(*l, func(x limit) bool {
		over := !received.Before(x.end) && (!x.end.IsZero() || t.number > x.learnt)
		return x.flow == nil && x.left < 1 && over
	})
}

// fill sets a limit to what an answer announces, and reports whether it allows less than
// before. If the request was sent before the limit was learnt, fill gives back its price,
// and only lowers the limit. The server may have counted other requests under way, or not.
func (x *limit) fill(t *Trip, s *Stock, refused, newer bool, received time.Time, r *Settings, sent *traffic) bool {
	own := x.need(t.Prices, r)
	var from, end time.Time
	if s.Ends {
		end = received.Add(s.reset())
	}
	if s.Ends && x.flow == nil {
		from = received.Add(-s.reset())
	}
	under, later := x.underWay(sent, t.number, from, r)
	left, grain := s.lowerBound()
	if x.flow == nil {
		under += float64(sent.failed - t.failed)
	} else {
		if refused {
			x.sent -= own
		}
		x.flow.note(s)
		if !t.unordered {
			x.flow.learn(t.at, left, x.sent-later, grain, left+own >= x.quota)
		}
	}
	left = (left - under) * r.Share
	if x.learnt > 0 && (x.flow == nil && !newer || t.number <= x.learnt) {
		x.add(x.taken(t, r), received, r) // the answer contains what is left after the request
		stricter := left < x.left
		x.left = min(x.left, left)
		if s.Ends && (stricter || x.end.IsZero()) {
			x.end = end
		}
		return stricter
	}
	x.quota, x.left, x.learnt = float64(s.Quota), left, sent.number
	x.from, x.end = from, end
	if x.flow != nil {
		x.flow.at = received
	}
	return true
}

// underWay returns what the requests under way take that were sent after from, because the server
// has counted earlier requests. later is the part of requests with higher numbers than number.
func (x *limit) underWay(sent *traffic, number int64, from time.Time, r *Settings) (all, later float64) {
	u := sent.under.first
	for all = float64(sent.under.n); u != nil && !from.Before(u.at); u = u.next {
		all--
	}
	if sent.under.priced == 0 && x.flow == nil { // each takes one
		return all * x.need(nil, r), 0
	}
	for all = 0; u != nil; u = u.next {
		need := x.need(u.Prices, r)
		all += need
		if u.number > number {
			later += need
		}
	}
	return all, later
}

// Takes returns what a request takes of a limit. The first of these that applies counts:
//
//   - the sum of the prices that name the policy;
//   - the sum of the prices in this unit that name no policy;
//   - 1 of a limit of requests, 0 of any other.
func Takes(prices []Price, unit, policy string) float64 {
	var named, others float64
	isNamed, isPriced := false, unit != RequestUnit
	for i := range prices {
		switch p := &prices[i]; {
		case p.Unit != "" && p.Unit != unit:
		case p.Policy == "":
			others, isPriced = others+p.Units, true
		case p.Policy == policy:
			named, isNamed = named+p.Units, true
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

// A flow is how fast units flow back into a limit.
type flow struct {
	at     time.Time     // when what is left was true
	policy float64       // units a second, by the policy's window; 0 if that is not known
	reset  float64       // by the reset, if that is when all are back; 0 if that is not known
	until  time.Duration // the reset
	agreed int           // answers in succession with the same flow by their resets
	shown  float64       // units a second, as answers have shown
	times  int           // how many answers have shown it
	// The answer with which the next answer is compared: when its request was sent, what was left,
	// and what all requests until then had taken. The time is zero if there is no such answer.
	since       time.Time
	left, taken float64
}

// leastFlow is a part of the flow that the window or the reset suggests. If less than
// this part flows in, the limit has fixed windows, and nothing flows in.
const leastFlow = 1.0 / 16

// rate returns how many units flow in each second; 0 if that is unknown, or if all units
// come back at once:
//
//   - Before answers have shown a flow, quota ÷ window or, without a window, what is
//     missing ÷ reset if several answers agree on that. A single reset may be the time
//     of the next unit.
//   - Afterwards the slower of that, agreed or not, and what answers have shown; 0 if
//     answers show almost nothing, as with fixed windows.
func (f *flow) rate() float64 {
	if f == nil {
		return 0
	}
	most := cmp.Or(f.policy, f.reset)
	switch {
	case f.times == 0 && f.policy == 0 && f.agreed < 2:
		return 0
	case f.times == 0:
		return most
	case most == 0, f.policy == 0 && f.shown*f.until.Seconds() < 2: // the reset is when the next unit is back
		return f.shown
	case f.shown < most*leastFlow:
		return 0
	}
	return min(most, f.shown)
}

// learn compares an answer with an earlier one. A limit that is full, or whose quota is unknown,
// shows nothing.
func (f *flow) learn(at time.Time, left, taken, grain float64, full bool) {
	d := at.Sub(f.since)
	if !f.since.IsZero() && (d < time.Second || max(f.policy, f.reset)*d.Seconds() < 2*grain) {
		return // rounded numbers show little of a short time, and an older answer shows nothing
	}
	if !f.since.IsZero() && !full {
		in := (left - f.left + taken - f.taken) / d.Seconds()
		if f.times == 0 {
			f.shown = in
		}
		f.shown = max((f.shown+in)/2, 0)
		f.times++
	}
	f.since, f.left, f.taken = at, left, taken
}

// note stores the flow that a limit announces.
func (f *flow) note(s *Stock) {
	was := f.reset
	f.policy, f.reset, f.until = 0, 0, s.Reset
	if s.Window > 0 {
		f.policy = float64(s.Quota) / s.Window.Seconds()
	}
	if s.Quota > s.Left && s.Reset > 0 {
		f.reset = float64(s.Quota-s.Left) / s.Reset.Seconds()
	}
	if f.agreed++; math.Abs(f.reset-was) > was/20 {
		f.agreed = 0
	}
}

// wholeSeconds knows whether resets of a second are rounded up: a limiter that is full again after
// 0.5 s announces the same. With GCRA of 10/s and a burst of 5, 200 jobs take 43 s if each wait is a
// whole second, and 25 s otherwise.
type wholeSeconds struct {
	since  time.Time // the first answer with a limit
	exact  bool      // a reset was longer, or half of a second was too short
	halved bool      // half of a second has taken the place of a reset
}

// halve halves resets of a second, unless they may be the last second of a longer window. After
// half of the time, one unit of two or more is back, if they come back one after the other.
func (w *wholeSeconds) halve(a *Answer, received time.Time) {
	for i := range a.Stocks {
		s := &a.Stocks[i]
		w.since = cmp.Or(w.since, received)
		w.exact = w.exact || s.Reset > time.Second || s.Window > 0 || s.Quota < 2
	}
	if a.Refused || w.exact || received.Sub(w.since) < time.Second {
		return
	}
	for i := range a.Stocks {
		if s := &a.Stocks[i]; s.Reset == time.Second {
			s.Reset, w.halved = s.Reset/2, true
		}
	}
	if a.Wait == time.Second && a.Exhausted() && !a.RetryAfter {
		a.Wait /= 2
	}
}

// refused takes note of a refusal, and reports whether half of a second, which was too short,
// explains it.
func (w *wholeSeconds) refused() (explained bool) {
	explained = w.halved && !w.exact
	w.exact = w.exact || w.halved
	return explained
}

// lowerBound returns the smallest true value of a rounded Left, and the rounding step.
// Anthropic rounds tokens to the nearest thousand; without lowerBound 300 jobs at its
// limits need 667 s in place of 631.
func (s *Stock) lowerBound() (left, grain float64) {
	const rounded = 1000
	if s.Unit == "tokens" && s.Left%rounded == 0 {
		return float64(max(s.Left-rounded/2, 0)), rounded
	}
	return float64(s.Left), 1
}

// reset returns the time until the limit changes. A reset of 0 with something left is a second:
// servers round resets down, or have a slow clock and send no Date. Otherwise 50 per 10 s in
// X-RateLimit with a Unix reset would cost 71 refused requests in place of 25.
func (s *Stock) reset() time.Duration {
	if s.Reset == 0 && s.Left > 0 {
		return time.Second
	}
	return s.Reset
}
