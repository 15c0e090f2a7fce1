package ratelimit

import (
	"math"
	"strings"
	"time"
)

// A meter is a limit in another unit than requests: tokens of a model, bytes, points.
// Requests take as much as their prices say. The prices of requests under way are taken
// off what an answer says is left, and what flows in afterwards is added.
type meter struct {
	unit, policy string
	quota        float64   // 0 if it is not known
	left         float64   // of this Gate's share, at the time at
	at           time.Time // when left was true
	end          time.Time // of the window; zero if that is not said
	asked        time.Time // when the request was sent whose answer said what is left
	learnt       int64     // the last request when that answer came
	sent         float64   // what all requests but refused ones have taken
	flow         flow
}

// of returns the meter of a limit, a new one if there is none yet; nil if there are
// too many.
func (l *meters) of(t *trip, s *stock, sent *traffic) *meter {
	policy := s.policy[:min(len(s.policy), maxKeptName)]
	for i := range *l {
		if x := &(*l)[i]; x.policy == policy && x.unit == s.unit {
			return x
		}
	}
	if len(*l) == maxBudgets {
		return nil
	}
	x := meter{unit: strings.Clone(s.unit), policy: strings.Clone(policy), quota: float64(s.quota)}
	x.sent = takes(t.prices, s.unit, policy)
	for u := sent.under.first; u != nil; u = u.next {
		x.sent += takes(u.prices, s.unit, policy)
	}
	*l = append(*l, x)
	return &(*l)[len(*l)-1]
}

// ask makes a verdict wait until enough has flowed into a meter, or else until its
// window ends. If nothing says when that is, one request goes, and the others wait for
// its answer.
func (x *meter) ask(v *verdict, now time.Time, r *settings, prices []price, sent *traffic) {
	need := x.need(prices, r)
	missing := need - x.now(now, r)
	if missing <= 0 || need == 0 {
		return
	}
	until, known := sent.last.Add(min(mostBackoff, r.maxWait)), false
	rate := x.flow.rate() * r.share
	switch {
	case rate > 0:
		until, known = now.Add(scale(time.Second, missing/rate)), true
	case now.Before(x.end):
		until, known = x.end, true
	case sent.under.priced == 0:
		return
	}
	if latest := sent.last.Add(r.maxWait); until.After(latest) {
		until = latest
	}
	if now.Before(until) {
		v.later(until, known)
	}
}

// meters are the limits of a key in other units than requests, as far as requests have
// prices in these units.
type meters []meter

// need returns how much has to be there for a request: what it takes, but at most what a
// full limit holds.
func (x *meter) need(prices []price, r *settings) float64 {
	units := takes(prices, x.unit, x.policy)
	if x.quota > 0 {
		units = min(units, x.quota*r.share)
	}
	return units
}

// now returns what is left at a time.
func (x *meter) now(now time.Time, r *settings) float64 {
	left := x.left + x.flow.rate()*r.share*max(now.Sub(x.at), 0).Seconds()
	if x.quota > 0 {
		left = min(left, max(x.quota*r.share, x.left))
	}
	return left
}

// send takes off what a request takes.
func (x *meter) send(t *trip, now time.Time, r *settings) {
	need := x.need(t.prices, r)
	x.left, x.at = x.now(now, r)-need, now
	x.sent += need
}

// settle tells the meters what an answer says is left. Only meters of which the request
// has taken something learn from it.
func (l *meters) settle(t *trip, a *report, received time.Time, r *settings, sent *traffic) {
	for i := range a.stocks {
		s := &a.stocks[i]
		if s.unit == requestUnit || takes(t.prices, s.unit, s.policy) == 0 {
			continue
		}
		if x := l.of(t, s, sent); x != nil {
			x.fill(t, s, a.refused, received, r, sent)
		}
	}
}

// fill puts into a meter what an answer says is left. An answer to a request that was
// sent before the meter was learnt gives back the price of that request, and otherwise
// only lowers the meter: the server may have counted others that are under way, or not.
func (x *meter) fill(t *trip, s *stock, refused bool, received time.Time, r *settings, sent *traffic) {
	own := x.need(t.prices, r)
	if refused {
		x.sent -= own
	}
	var under, newer float64
	for u := sent.under.first; u != nil; u = u.next {
		if u.prices == nil {
			continue
		}
		need := x.need(u.prices, r)
		under += need
		if u.number > t.number {
			newer += need
		}
	}
	left, grain := s.pessimist()
	x.flow.note(s)
	if !t.crowded {
		x.flow.learn(t.at, left, x.sent-newer, grain, x.quota > 0 && left+own >= x.quota)
	}
	if t.number <= x.learnt {
		since := max(x.asked.Sub(t.at), 0).Seconds()
		x.left, x.at = x.now(received, r)+own*r.share, received
		x.left = min(x.left, (left+x.flow.rate()*since-under)*r.share)
		if end := received.Add(s.reset); s.ends && !x.end.IsZero() && end.After(x.end) {
			x.end = end
		}
		return
	}
	x.quota, x.asked, x.learnt = float64(s.quota), t.at, sent.number
	x.left, x.at, x.end = (left-under)*r.share, received, time.Time{}
	if s.ends {
		x.end = received.Add(s.reset)
	}
}

// A flow is how fast units flow back into a limit.
type flow struct {
	policy float64       // units a second, by the policy's window; 0 if that is not known
	reset  float64       // by the reset, if that is when all are back; 0 if that is not known
	until  time.Duration // the reset
	agreed int           // answers in succession whose resets have said the same
	shown  float64       // units a second, as answers have shown
	times  int           // how many answers have shown it
	// The answer with which the next one is compared: when its request was sent, what
	// it said is left, and what all requests until then had taken. The time is zero
	// if there is none.
	since       time.Time
	left, taken float64
}

// leastFlow is a part of the flow that the window or the reset suggests. If less than
// this part flows in, the limit has fixed windows, and nothing flows in.
const leastFlow = 1.0 / 16

// rate returns how many units flow in each second; 0 if nothing tells, or if all come
// back at once:
//
//   - Before answers have shown a flow, quota ÷ window or, without a window, what is
//     missing ÷ reset if several answers agree on that. The reset of a single answer may
//     be that of the next unit.
//   - Afterwards the slower of that, agreed or not, and what answers have shown; 0 if
//     they show next to nothing, as with fixed windows.
func (f *flow) rate() float64 {
	switch {
	case f.times > 0:
	case f.policy == 0 && f.agreed > 1:
		return f.reset
	default:
		return f.policy
	}
	most := f.policy
	if most == 0 {
		most = f.reset
	}
	switch {
	case most == 0, f.policy == 0 && f.shown*f.until.Seconds() < 2: // the reset is when the next unit is back
		return f.shown
	case f.shown < most*leastFlow:
		return 0
	}
	return min(most, f.shown)
}

// learn compares an answer with an earlier one. A limit that is full shows nothing.
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

// note stores what a limit says of its flow.
func (f *flow) note(s *stock) {
	was := f.reset
	f.policy, f.reset, f.until = 0, 0, s.reset
	if s.quota > 0 && s.window > 0 {
		f.policy = float64(s.quota) / s.window.Seconds()
	}
	if s.quota > s.left && s.ends && s.reset > 0 {
		f.reset = float64(s.quota-s.left) / s.reset.Seconds()
	}
	if f.agreed++; math.Abs(f.reset-was) > was/20 {
		f.agreed = 0
	}
}
