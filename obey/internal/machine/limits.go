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

// A limit is what a client knows of one limit of the server. The end of the window does not change
// remaining, because only an answer shows a new number (draft-11 Section 8.4). If too little remains,
// and no flow is known, requests wait for the end of the window. Then one request goes as a probe.
type limit struct {
	unit, policy string
	quota        float64   // 0 if it is not known
	remaining    float64   // of the caller's share; requests in flight have been subtracted
	end          time.Time // of the window; zero if it is unknown
	sent         float64   // what requests have taken since the limit is known, without refused requests
	learnt       int64     // Machine.number when remaining was learnt
	from         time.Time // requests that were in flight at learnt, and sent after this time, have been subtracted
	at           time.Time // when remaining was true
	flow         *flow     // nil for a limit of requests
}

// limitOf returns the limit of a stock, and makes it if there is none yet. It returns nil if there are
// maxLimits other limits.
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

// hold makes a verdict wait until enough has flowed into a limit or, if no flow is known, until the
// window of the limit ends. Afterwards, or if the end is unknown, one request goes, and all others wait
// for its answer.
func (m *Machine) hold(v *Verdict, l *limit, now time.Time, prices []Price) {
	need, rate := m.need(l, prices), l.flow.rate()*m.Share
	missing := need + m.leftToOthers(l, rate, need) - m.remaining(l, now)
	if missing <= 0 || need == 0 {
		return
	}
	until, depends := l.end, false
	switch {
	case rate > 0:
		until = now.Add(scale(time.Second, missing/rate))
	case now.Before(l.end):
	case l.flow != nil && m.pricedUnderWay > 0: // such requests take long
		until, depends = m.probed.Add(mostBackoff), true
	case l.flow == nil && len(m.underWay) > 0 && !m.probed.Before(l.end):
		until, depends = m.probed.Add(probeTime), true
	default:
		return
	}
	if latest := m.last.Add(m.MaxWait); latest.Before(until) {
		until = latest
	}
	if now.Before(until) && v.Until.Before(until) { // no other limit waits for longer
		v.Open, v.Until, v.Depends, v.Reason = false, until, depends, Limit
	}
}

// leftToOthers returns how much a request leaves to other clients: what flows in within a second, but at
// most the part othersPart of the quota. flow.rounded counts as a part of this, because it has been
// subtracted already.
func (m *Machine) leftToOthers(l *limit, rate, need float64) float64 {
	if rate == 0 {
		return 0
	}
	full := cmp.Or(l.quota*m.Share, math.Inf(1))
	return max(min(rate, full*othersPart, full-need)-l.flow.rounded, 0)
}

// need returns what a request takes of a limit, but at most what a full limit holds.
func (m *Machine) need(l *limit, prices []Price) float64 {
	units := Takes(prices, l.unit, l.policy)
	if l.quota > 0 {
		units = min(units, l.quota*m.Share)
	}
	return units
}

// remaining returns what remains of a limit at a time.
func (m *Machine) remaining(l *limit, now time.Time) float64 {
	units := l.remaining + l.flow.rate()*m.Share*now.Sub(l.at).Seconds()
	if l.quota > 0 {
		units = min(units, max(l.quota*m.Share, l.remaining))
	}
	return units
}

func (m *Machine) add(l *limit, units float64, now time.Time) {
	l.remaining, l.at = m.remaining(l, now)+units, now
}

// taken returns what was subtracted from a limit for a request.
func (m *Machine) taken(l *limit, t *Trip) float64 {
	switch need := m.need(l, t.Prices); {
	case t.number > l.learnt:
		return need
	case l.from.Before(t.At):
		return need * m.Share
	}
	return 0
}

// An arrival is what limits learn of an answer.
type arrival struct {
	trip    *Trip // of its request
	at      time.Time
	refused bool
	newer   bool // it replaces what is known of limits of requests
}

// learnLimits updates the limits from an answer, and reports whether it has set or lowered a limit of
// requests. A newer answer replaces all limits of requests.
func (m *Machine) learnLimits(a *Answer, e *arrival) (stricter bool) {
	for i := range a.Stocks {
		s := &a.Stocks[i]
		requests := s.Unit == RequestUnit
		if requests && a.RetryAfter && s.Remaining == 0 || !requests && Takes(e.trip.Prices, s.Unit, s.Policy) == 0 {
			continue
		}
		if l := m.limitOf(s); l != nil && m.fill(l, s, e) {
			stricter = stricter || requests
		}
	}
	m.limits = slices.DeleteFunc(m.limits, func(l limit) bool { return e.newer && l.flow == nil && l.learnt < m.number })
	return stricter
}

// fill sets a limit to what an answer announces. If the request was sent before the limit was learnt,
// fill only lowers the limit. It reports whether it has set or lowered the limit.
func (m *Machine) fill(l *limit, s *Stock, e *arrival) bool {
	var from, end time.Time
	if s.Ends {
		end = e.at.Add(s.reset())
	}
	if s.Ends && l.flow == nil {
		from = e.at.Add(-s.reset())
	}
	remaining := m.forCaller(l, s, e, from)
	if l.learnt > 0 && (l.flow == nil && !e.newer || e.trip.number <= l.learnt) {
		m.add(l, m.taken(l, e.trip), e.at) // the server has counted the request
		stricter := remaining < l.remaining
		l.remaining = min(l.remaining, remaining)
		if s.Ends && (stricter || l.end.IsZero()) {
			l.end = end
		}
		return stricter
	}
	l.quota, l.remaining, l.learnt = float64(s.Quota), remaining, m.number
	l.from, l.end, l.at = from, end, e.at
	return true
}

// forCaller returns what remains of a limit for the caller after an answer. It subtracts the requests
// in flight that were sent after from, although the server may have counted them already.
func (m *Machine) forCaller(l *limit, s *Stock, e *arrival, from time.Time) float64 {
	flying, later := m.inFlight(l, e.trip.number, from)
	remaining := float64(s.Remaining)
	if l.flow == nil {
		flying += float64(m.failed - e.trip.failed)
	} else {
		own := m.need(l, e.trip.Prices)
		if e.refused {
			l.sent -= own
		}
		l.flow.note(s)
		if s.Remaining != s.Quota {
			remaining = max(remaining-l.flow.rounded, 0)
		}
		if !e.trip.unordered {
			l.flow.learn(reading{e.trip.At, e.at.Add(s.Reset), remaining, l.sent - later}, l.quota, remaining+own >= l.quota)
		}
	}
	return (remaining - flying) * m.Share
}

// inFlight returns what the requests in flight that were sent after from take of a limit. The server has
// counted requests that were sent earlier. later is the part that was sent after the request with the
// number.
func (m *Machine) inFlight(l *limit, number int64, from time.Time) (all, later float64) {
	under := m.underWay
	for len(under) > 0 && !from.Before(under[0].At) {
		under = under[1:]
	}
	if m.pricedUnderWay == 0 && l.flow == nil { // each takes one
		return float64(len(under)) * m.need(l, nil), 0
	}
	for _, t := range under {
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
	byPolicy   float64       // units a second, by the policy's window; 0 if that is not known
	byReset    float64       // by the reset, if all units are back then; 0 if that is not known
	untilReset time.Duration // the reset
	agreed     int           // answers in succession with the same flow by their resets
	thousands  int           // answers in succession with thousands remaining; below 0 for good after any other number
	rounded    float64       // how much less may remain than answers announce
	byAnswers  float64       // units a second, as answers have shown
	shown      bool          // an answer has shown it
	steady     bool          // less than half of the quota came back when a window ended
	since      reading       // with which the next one is compared; its time is zero if there is none
}

// A reading is what an answer shows of a limit: when its request was sent, when the window ends, what
// remained, and what all requests until then had taken.
type reading struct {
	at, end          time.Time
	remaining, taken float64
}

const (
	// If less than the part leastFlow of the announced flow comes in, the limit has fixed windows, or
	// other clients take the rest.
	leastFlow = 1.0 / 16
	// If answers show less than the announced flow, other clients take the rest. A client counts on
	// the part claim of this rest: otherwise one of two clients of an account would starve.
	claim = 1.0 / 4
	// Anthropic rounds tokens to the nearest thousand. One answer does not show the rounding, but
	// several do. If the client did not know of the rounding, 300 jobs at these limits would need 667 s
	// instead of 631.
	step, several = 1000, 3
	// A client leaves to other clients what flows in within a second, but at most the part othersPart of
	// the quota. If a client took units as soon as there are enough for one request, there would never
	// be enough for a second client.
	othersPart = 1.0 / 8
)

// rate returns how many units flow in each second; 0 if that is unknown, or if all units come back at
// once. The announced flow is quota ÷ window. Without a window, it is what is missing ÷ reset. The
// first of these that applies counts:
//
//   - Before answers have shown a flow, rate returns the announced flow. Without a window, it returns 0
//     until several answers agree on that flow, because a single reset may be that of the next unit.
//   - If no flow is announced, or the reset is that of the next unit, it returns the flow that answers
//     have shown.
//   - If answers have shown almost nothing, it returns 0, unless other clients take the rest.
//   - Otherwise it returns the flow that answers have shown, plus the part claim of what is missing to
//     the announced flow. It never exceeds the announced flow.
func (f *flow) rate() float64 {
	if f == nil {
		return 0
	}
	announced := cmp.Or(f.byPolicy, f.byReset)
	switch {
	case !f.shown && f.byPolicy == 0 && f.agreed < 2:
		return 0
	case !f.shown:
		return announced
	case announced == 0, f.byPolicy == 0 && f.byAnswers*f.untilReset.Seconds() < 2: // the reset is when the next unit is back
		return f.byAnswers
	case f.byAnswers < announced*leastFlow && !f.steady:
		return 0
	}
	return min(announced, f.byAnswers+(announced-f.byAnswers)*claim)
}

// learn compares a reading with an earlier one. A limit that is full, or whose quota is unknown,
// shows no flow.
func (f *flow) learn(r reading, quota float64, full bool) {
	was := f.since
	d := r.at.Sub(was.at).Seconds()
	if !was.at.IsZero() && (d < 1 || max(f.byPolicy, f.byReset)*d < max(2, 4*f.rounded)) {
		return // rounded numbers show little of a short time, and an older answer shows nothing
	}
	f.since = r
	if was.at.IsZero() {
		return
	}
	in := r.remaining - was.remaining + r.taken - was.taken
	if !r.at.Before(was.end) {
		f.steady = in < quota/2
	}
	if full {
		return
	}
	if !f.shown {
		f.shown, f.byAnswers = true, in/d
	}
	f.byAnswers = max((f.byAnswers+in/d)/2, 0)
}

// note stores the flow that a limit announces, and whether what remains is rounded.
func (f *flow) note(s *Stock) {
	was := f.byReset
	f.byPolicy, f.byReset, f.untilReset = 0, 0, s.Reset
	if s.Window > 0 {
		f.byPolicy = float64(s.Quota) / s.Window.Seconds()
	}
	if s.Quota > s.Remaining && s.Reset > 0 {
		f.byReset = float64(s.Quota-s.Remaining) / s.Reset.Seconds()
	}
	if f.agreed++; math.Abs(f.byReset-was) > was/20 {
		f.agreed = 0
	}
	switch {
	case s.Remaining%step != 0:
		f.thousands, f.rounded = math.MinInt, 0
	case 0 < s.Remaining && s.Remaining != s.Quota: // a full limit is not rounded
		if f.thousands++; f.thousands >= several {
			f.rounded = step / 2
		}
	}
}

// roundedResets knows whether resets of a second are rounded up: a limiter that is full again after 0.5
// s announces a second too. With GCRA of 10/s and a burst of 5, 200 jobs take 43 s if each wait is a
// whole second, and 25 s otherwise.
type roundedResets struct {
	since  time.Time // the first answer with a limit
	exact  bool      // a reset was longer, or half of a second was too short
	halved bool      // half of a second has taken the place of a reset
}

// halveSeconds halves resets of a second, unless they may be the last second of a longer window. If
// units return one by one, the first of two is back after half a second.
func (w *roundedResets) halveSeconds(a *Answer, received time.Time) {
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

// refused learns from a refusal. If half of a second has taken the place of a reset, it was too short,
// and resets count in full from now on. explained is true if this is the first refusal that shows this.
func (w *roundedResets) refused() (explained bool) {
	explained = w.halved && !w.exact
	w.exact = w.exact || w.halved
	return explained
}

// reset returns the time until the limit changes. A reset of 0 with something remaining is a second:
// servers round resets down, or have a slow clock and send no Date. Otherwise a limit of 50 per 10 s in
// X-RateLimit, with resets in Unix time, would refuse 71 requests instead of 25.
func (s *Stock) reset() time.Duration {
	if s.Reset == 0 && s.Remaining > 0 {
		return time.Second
	}
	return s.Reset
}
