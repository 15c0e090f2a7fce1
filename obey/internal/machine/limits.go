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
	left         float64   // of the caller's share; requests in flight have been subtracted
	end          time.Time // of the window; zero if it is unknown
	sent         float64   // what all requests but refused ones have taken, since the limit is known
	learnt       int64     // the last request when left was learnt
	from         time.Time // requests in flight then that were sent after this time were subtracted
	flow         *flow     // nil for a limit of requests
}

// limitOf returns the limit of a stock, a new one if there is none yet; nil if there are too many.
func (m *Machine) limitOf(s *Stock) *limit {
	same := func(l limit) bool { return l.policy == s.Policy && l.unit == s.Unit }
	if i := slices.IndexFunc(m.limits, same); i >= 0 {
		return &m.limits[i]
	}
	if len(m.limits) == maxLimits {
		return nil
	}
	l := limit{unit: RequestUnit, policy: strings.Clone(s.Policy)}
	if s.Unit != RequestUnit {
		l.unit, l.flow = strings.Clone(s.Unit), &flow{}
	}
	m.limits = append(m.limits, l)
	return &m.limits[len(m.limits)-1]
}

// hold makes a verdict wait until enough has flowed into a limit, or else until its window ends.
// Afterwards, or if the end is unknown, one request goes, and the others wait for its answer.
func (m *Machine) hold(v *Verdict, l *limit, now time.Time, prices []Price) {
	need, rate := m.need(l, prices), l.flow.rate()*m.Share
	missing := need - m.left(l, now)
	if rate > 0 {
		missing += m.room(l, rate, need)
	}
	if missing <= 0 || need == 0 {
		return
	}
	until, depends := l.end, false
	if rate > 0 {
		until = now.Add(scale(time.Second, missing/rate))
	} else if !now.Before(l.end) {
		under, wait := m.under.n, probeTime
		if l.flow != nil { // such requests take long
			under, wait = m.under.priced, mostBackoff
		}
		if under == 0 || l.flow == nil && m.probed.Before(l.end) {
			return
		}
		until, depends = m.probed.Add(wait), true
	}
	if latest := m.last.Add(m.MaxWait); latest.Before(until) {
		until = latest
	}
	if now.Before(until) && v.Until.Before(until) { // no other limit waits for longer
		v.Open, v.Until, v.Depends, v.Reason = false, until, depends, Limit
	}
}

// room returns how much a request with a need leaves to other clients, at a rate at which units flow
// in. What may be left because of rounding is a part of it.
func (m *Machine) room(l *limit, rate, need float64) float64 {
	units := rate
	if full := l.quota * m.Share; full > 0 {
		units = min(rate, full*mostRoom, full-need)
	}
	return max(units-l.flow.rounded, 0)
}

// need returns how much must be left for a request: what it takes, but at most what a
// full limit holds.
func (m *Machine) need(l *limit, prices []Price) float64 {
	units := Takes(prices, l.unit, l.policy)
	if l.quota > 0 {
		units = min(units, l.quota*m.Share)
	}
	return units
}

// left returns what is left of a limit at a time.
func (m *Machine) left(l *limit, now time.Time) float64 {
	if l.flow == nil {
		return l.left
	}
	left := l.left + l.flow.rate()*m.Share*max(now.Sub(l.flow.at), 0).Seconds()
	if l.quota > 0 {
		left = min(left, max(l.quota*m.Share, l.left))
	}
	return left
}

// add adds to what is left of a limit at a time.
func (m *Machine) add(l *limit, units float64, now time.Time) {
	l.left = m.left(l, now) + units
	if l.flow != nil {
		l.flow.at = now
	}
}

// giveBack adds what a request took of all limits, because it took nothing of them.
func (m *Machine) giveBack(t *Trip, now time.Time) {
	for i := range m.limits {
		l := &m.limits[i]
		m.add(l, m.taken(l, t), now)
		l.sent -= m.need(l, t.Prices)
	}
}

// taken returns what was subtracted from a limit for a request.
func (m *Machine) taken(l *limit, t *Trip) float64 {
	switch need := m.need(l, t.Prices); {
	case t.number > l.learnt:
		return need
	case l.from.Before(t.at):
		return need * m.Share
	}
	return 0
}

// An arrival is that of an answer.
type arrival struct {
	of      *Trip
	at      time.Time
	refused bool
	newer   bool // it replaces what is known of limits of requests
}

// learnLimits updates the limits from an answer, and reports whether a limit of requests allows less
// than before. A newer answer replaces all limits of requests.
func (m *Machine) learnLimits(a *Answer, e *arrival) (stricter bool) {
	for i := range a.Stocks {
		s := &a.Stocks[i]
		requests := s.Unit == RequestUnit
		if requests && a.RetryAfter && s.Left == 0 || !requests && Takes(e.of.Prices, s.Unit, s.Policy) == 0 {
			continue
		}
		if l := m.limitOf(s); l != nil && m.fill(l, s, e) {
			stricter = stricter || requests
		}
	}
	m.limits = slices.DeleteFunc(m.limits, func(l limit) bool { return e.newer && l.flow == nil && l.learnt < m.number })
	return stricter
}

// fill sets a limit to what an answer announces, and reports whether it allows less than
// before. If the request was sent before the limit was learnt, fill gives back its price,
// and only lowers the limit.
func (m *Machine) fill(l *limit, s *Stock, e *arrival) bool {
	var from, end time.Time
	if s.Ends {
		end = e.at.Add(s.reset())
	}
	if s.Ends && l.flow == nil {
		from = e.at.Add(-s.reset())
	}
	left := m.remaining(l, s, e, from)
	if l.learnt > 0 && (l.flow == nil && !e.newer || e.of.number <= l.learnt) {
		m.add(l, m.taken(l, e.of), e.at) // the answer contains what is left after the request
		stricter := left < l.left
		l.left = min(l.left, left)
		if s.Ends && (stricter || l.end.IsZero()) {
			l.end = end
		}
		return stricter
	}
	l.quota, l.left, l.learnt = float64(s.Quota), left, m.number
	l.from, l.end = from, end
	if l.flow != nil {
		l.flow.at = e.at
	}
	return true
}

// remaining returns what an answer leaves of a limit for the caller. It subtracts the requests in
// flight that were sent after from, although the server may have counted them.
func (m *Machine) remaining(l *limit, s *Stock, e *arrival, from time.Time) float64 {
	flying, later := m.inFlight(l, e.of.number, from)
	left := float64(s.Left)
	if l.flow == nil {
		flying += float64(m.failed - e.of.failed)
	} else {
		own := m.need(l, e.of.Prices)
		if e.refused {
			l.sent -= own
		}
		l.flow.note(s)
		if s.Left != s.Quota {
			left = max(left-l.flow.rounded, 0)
		}
		if !e.of.unordered {
			l.flow.learn(reading{e.of.at, e.at.Add(s.Reset), left, l.sent - later}, l.quota, left+own >= l.quota)
		}
	}
	return (left - flying) * m.Share
}

// inFlight returns what the requests in flight take of a limit that were sent after from, because the
// server has counted earlier requests. later is the part of requests with higher numbers than number.
func (m *Machine) inFlight(l *limit, number int64, from time.Time) (all, later float64) {
	t := m.under.first
	for all = float64(m.under.n); t != nil && !from.Before(t.at); t = t.next {
		all--
	}
	if m.under.priced == 0 && l.flow == nil { // each takes one
		return all * m.need(l, nil), 0
	}
	for all = 0; t != nil; t = t.next {
		need := m.need(l, t.Prices)
		all += need
		if t.number > number {
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
	at        time.Time     // when what is left was true
	policy    float64       // units a second, by the policy's window; 0 if that is not known
	reset     float64       // by the reset, if that is when all are back; 0 if that is not known
	until     time.Duration // the reset
	agreed    int           // answers in succession with the same flow by their resets
	thousands int           // answers in succession with so many left; below 0 after any other answer
	rounded   float64       // how much less may be left than answers announce
	shown     float64       // units a second, as answers have shown
	times     int           // how many answers have shown it
	steady    bool          // less than half of the quota came back when a window ended
	since     reading       // with which the next one is compared; its time is zero if there is none
}

// A reading is what an answer shows of a limit: when its request was sent, when the window ends, what
// was left, and what all requests until then had taken.
type reading struct {
	at, end     time.Time
	left, taken float64
}

const (
	// leastFlow is a part of the flow that the window or the reset suggests. If less than
	// this part flows in, the limit has fixed windows, or other clients take the rest.
	leastFlow = 1.0 / 16
	// claim is the part of what other clients take that a client counts on all the same. If two
	// clients of an account left each other what the other one takes, one would starve.
	claim = 1.0 / 4
	// Anthropic rounds tokens to the nearest thousand. If that were not known, 300 jobs at its limits
	// would need 667 s in place of 631. One answer does not show it, but several do.
	step, several = 1000, 3
	// mostRoom is the largest part of the quota that a client leaves to others. It leaves what flows
	// in within a second. If a client took units as soon as there are enough for one request, there
	// would never be enough for a second client.
	mostRoom = 1.0 / 8
)

// rate returns how many units flow in each second; 0 if that is unknown, or if all units
// come back at once:
//
//   - Before answers have shown a flow, quota ÷ window or, without a window, what is
//     missing ÷ reset if several answers agree on that. A single reset may be the time
//     of the next unit.
//   - Afterwards the slower of that, agreed or not, and what answers have shown, with a part of
//     the difference; 0 if answers show almost nothing, unless other clients take the rest.
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
	case f.shown < most*leastFlow && !f.steady:
		return 0
	}
	return min(most, f.shown+(most-f.shown)*claim)
}

// learn compares a reading with an earlier one. A limit that is full, or whose quota is unknown,
// shows no flow.
func (f *flow) learn(r reading, quota float64, full bool) {
	d, isFirst := r.at.Sub(f.since.at), f.since.at.IsZero()
	if !isFirst && (d < time.Second || max(f.policy, f.reset)*d.Seconds() < max(2, 4*f.rounded)) {
		return // rounded numbers show little of a short time, and an older answer shows nothing
	}
	in := r.left - f.since.left + r.taken - f.since.taken
	if !isFirst && !r.at.Before(f.since.end) {
		f.steady = in < quota/2
	}
	if !isFirst && !full {
		if f.times == 0 {
			f.shown = in / d.Seconds()
		}
		f.shown = max((f.shown+in/d.Seconds())/2, 0)
		f.times++
	}
	f.since = r
}

// note stores the flow that a limit announces, and whether what is left is rounded.
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
	switch {
	case s.Left%step != 0:
		f.thousands, f.rounded = math.MinInt, 0
	case 0 < s.Left && s.Left != s.Quota: // a full limit is not rounded
		if f.thousands++; f.thousands >= several {
			f.rounded = step / 2
		}
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

// halve halves resets of a second, unless they may be the last second of a longer window. If
// units return one by one, the first of two is back after half a second.
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

// reset returns the time until the limit changes. A reset of 0 with something left is a second:
// servers round resets down, or have a slow clock and send no Date. Otherwise 50 per 10 s in
// X-RateLimit with a Unix reset would cost 71 refused requests in place of 25.
func (s *Stock) reset() time.Duration {
	if s.Reset == 0 && s.Left > 0 {
		return time.Second
	}
	return s.Reset
}
