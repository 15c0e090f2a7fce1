// Package machine decides when the requests of one key may be sent. A Machine has no
// lock, no clock, no timer and no channel: its caller passes the time. It gets numbers and
// returns numbers, and reads no response.
package machine

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

const (
	// closeBy is the time within which two requests may overtake each other.
	closeBy = 100 * time.Millisecond
	// keepTime is how long the last unit of a limit is kept for the request that follows a redirection.
	// Otherwise a request that waits would take that unit, and every other request would be redirected
	// in vain.
	keepTime = 10 * time.Millisecond
	// probeTime is the time between two probes. A probe that hangs must not starve its key.
	probeTime = time.Second
	// idleTime is how long a key with nothing in force is remembered. If MaxWait has cut a wait, the
	// key is also remembered after it, for as long as the server had asked for. Otherwise a client that
	// comes back at the end of each wait would wait no longer than MaxWait, however often it is
	// refused.
	idleTime = 10 * time.Minute
)

// A Machine is what is known of a key. A Machine that has only Settings knows nothing.
type Machine struct {
	Settings
	Typical   time.Duration // how long answers took lately, on average; 0 if nothing is known
	until     time.Time     // when the latest wait ends
	reason    Reason        // of that wait
	probing   bool          // after that wait requests are probes, until an answer
	limits    []limit       // those of requests in the newest answer, and those in other units that requests had prices for
	resets    roundedResets
	pace      time.Duration // between requests, as a courtesy
	spacing   time.Duration // between requests, by limits whose windows are shorter than answers take
	pool      pool
	backoff   backoff
	rate      rate
	keptUntil time.Time // until then the last unit is kept for a request that follows a redirection

	last           time.Time // when the last request was sent
	probed         time.Time // like last, but zero if that request got no answer: the next request goes in its place
	number         int64     // of the last request, from 1
	failed         int64     // requests that got no answer
	underWay       []*Trip   // requests under way, in the order in which they were sent
	pricedUnderWay int       // how many of them have prices
	bodies         int       // answers whose bodies have not ended
	learnt         int64     // number when the limits were learnt
	refused        int64     // number when a refusal was last counted
	anyServed      bool      // a request has been served
	lastSilent     bool      // the newest answer to a served request had no limits
	pricedAnswered bool      // a request with prices has been answered
}

// Ask returns whether a request may be sent now, or the first reason to wait. It changes nothing.
func (m *Machine) Ask(now time.Time, t *Trip) Verdict {
	if now.Before(m.until) {
		return Verdict{Until: m.until, Certain: true, Reason: m.reason}
	}
	hung := m.last.Add(min(mostBackoff, m.MaxWait)) // requests in flight may hang
	if v := m.askFirst(now, hung, t); !v.Open {
		return v
	}
	v := Verdict{Open: true, Certain: len(m.underWay) == 0}
	for i := range m.limits {
		m.hold(&v, &m.limits[i], now, t.Prices)
	}
	if !v.Open {
		return v
	}
	if room := m.pool.room(m.Share); room > 0 && m.UnderWay() >= room && now.Before(hung) {
		return Verdict{Until: hung, Depends: true, Reason: Concurrency}
	}
	if next := m.last.Add(min(max(m.rate.interval(), m.spacing), m.MaxWait)); now.Before(next) {
		v = Verdict{Until: next, Certain: len(m.underWay) == 0, Reason: Backoff}
		if m.spacing > 0 {
			v.Reason = Limit
		}
		return v
	}
	step := min(m.pace, m.MaxWait)
	if next := m.last.Add(step); m.Pace && now.Before(next) {
		return Verdict{Until: next, Polite: true, Reason: Pace, step: step}
	}
	if !t.Follows && now.Before(m.keptUntil) {
		return Verdict{Until: m.keptUntil, Reason: Limit}
	}
	return Verdict{Open: true}
}

// Redirected keeps the last unit of a limit of requests for the request that follows a redirection.
func (m *Machine) Redirected(now time.Time) {
	if slices.ContainsFunc(m.limits, func(l limit) bool { return l.flow == nil && 1 <= l.remaining && l.remaining < 2 }) {
		m.keptUntil = now.Add(keepTime)
	}
}

// Send counts a request as sent.
func (m *Machine) Send(t *Trip, now time.Time) {
	m.number++
	m.rate.sent(m.last, now)
	m.last, m.probed = now, now
	*t = Trip{Prices: t.Prices, Follows: t.Follows, number: m.number, failed: m.failed, At: now}
	if t.Prices != nil {
		m.pricedUnderWay++
		if n := len(m.underWay); n > 0 && m.underWay[n-1].Prices != nil && now.Sub(m.underWay[n-1].At) < closeBy {
			m.underWay[n-1].unordered, t.unordered = true, true
		}
	}
	m.underWay = append(m.underWay, t)
	for i := range m.limits {
		l := &m.limits[i]
		need := m.need(l, t.Prices)
		m.add(l, -need, now)
		l.sent += need
	}
}

// remove ends a request that was under way.
func (m *Machine) remove(t *Trip) {
	byNumber := func(u *Trip, number int64) int { return cmp.Compare(u.number, number) }
	i, found := slices.BinarySearchFunc(m.underWay, t.number, byNumber)
	if !found {
		return
	}
	m.underWay = slices.Delete(m.underWay, i, i+1)
	if t.Prices != nil {
		m.pricedUnderWay--
	}
}

// Failed ends a request that got no answer; the server may have counted it. If it was a probe, the next
// request goes in its place. Otherwise a GCRA limiter behind a network that loses 5 % would refuse 15
// requests instead of 7.
func (m *Machine) Failed(t *Trip) {
	m.remove(t)
	m.failed++
	if t.number == m.number {
		m.probed = time.Time{}
	}
}

// RefusedElsewhere ends a refused request if the Machine of the key learns from the refusal in place of
// this Machine. explained reports whether this Machine waited half a second where a whole one was
// announced, which explains the refusal.
func (m *Machine) RefusedElsewhere(t *Trip) (explained bool) {
	m.Failed(t)
	return m.resets.refused()
}

// Answered learns from an answer, and reports whether the answer has replaced what was known, or made a
// limit or a wait stricter.
func (m *Machine) Answered(t *Trip, a *Answer, received time.Time) bool {
	m.remove(t)
	m.resets.halveSeconds(a, received)
	m.pricedAnswered = m.pricedAnswered || t.Prices != nil
	m.pool.atOnce = cmp.Or(a.AtOnce, m.pool.atOnce)
	wait := cmp.Or(m.count(t, a, received), min(a.Wait, m.MaxWait))
	spacing := a.spacing(m.Typical)
	if spacing > 0 {
		wait = 0 // it was over before the answer arrived
	}
	limits := wait > 0 || slices.ContainsFunc(a.Stocks, func(s Stock) bool { return s.Unit == RequestUnit })
	newer := limits && t.number > m.learnt
	if newer {
		m.until, m.probing, m.pace, m.spacing = time.Time{}, false, 0, 0
	}
	stricter := wait > 0 && m.wait(received.Add(wait), a)
	stricter = m.learnLimits(a, &arrival{t, received, a.Refused, newer}) || stricter
	switch {
	case spacing > 0:
		m.limits = slices.DeleteFunc(m.limits, func(l limit) bool { return l.flow == nil })
		m.spacing = max(m.spacing, scale(spacing, 1/m.Share))
	case limits:
		m.pace = max(m.pace, scale(a.Pace, 1/m.Share))
	}
	if newer || stricter {
		m.learnt = m.number
	}
	return newer || stricter
}

// count counts an answer as served or refused. It returns the wait after a refusal that counts.
func (m *Machine) count(t *Trip, a *Answer, received time.Time) (wait time.Duration) {
	fresh := t.number > m.refused // not in flight when a refusal was counted
	switch {
	case !a.Refused:
		m.served(t, a, received)
		if fresh {
			m.backoff.recovered()
			m.rate.recovered()
			m.pool.regrow()
		}
	case fresh:
		return m.rejected(a, received)
	case m.pool.refused > 0 && !m.anyServed: // one of the first requests, which were sent together
		m.pool.refused++
		m.pool.bound = max(1, min(m.pool.bound, m.pool.ceiling-m.pool.refused))
	}
	return 0
}

// served learns from an answer that is no refusal. It drops a limit of requests if it was used up and
// its window is over.
func (m *Machine) served(t *Trip, a *Answer, received time.Time) {
	took := max(received.Sub(t.At), 0)
	m.Typical = cmp.Or(m.Typical, took)
	m.Typical += (took - m.Typical) / 8
	m.limits = slices.DeleteFunc(m.limits, func(l limit) bool {
		over := !received.Before(l.end) && (!l.end.IsZero() || t.number > l.learnt)
		return l.flow == nil && l.remaining < 1 && over
	})
	m.probing = m.probing && received.Before(m.until)
	m.lastSilent = len(a.Stocks) == 0
	if !m.anyServed && m.lastSilent && m.refused > 0 && m.pool.bound == 0 { // only refusals show what is left
		m.pool.shrink(firstRequests)
	}
	m.anyServed = true
}

// rejected counts a refusal, once for all requests under way together, and returns the wait.
func (m *Machine) rejected(a *Answer, received time.Time) time.Duration {
	m.refused = m.number
	if explained := m.resets.refused() || a.Explained; !explained && (m.lastSilent || !a.Exhausted()) {
		together := m.UnderWay() + 1
		if m.rate.served > 0 { // half of a thousand is too many if five were served
			together = min(together, mostPerServed*m.rate.served)
		}
		if !a.Elsewhere {
			m.rate.slow(received, m.UnderWay() == 0 && a.Wait == 0)
		}
		if !m.Part {
			m.pool.shrink(together)
		}
	}
	if a.Elsewhere {
		return 0
	}
	return m.backoff.wait(a.Wait, m.MaxWait)
}

// wait makes the key wait until a time, after an answer, and reports whether the wait has become
// longer.
func (m *Machine) wait(until time.Time, a *Answer) bool {
	m.probing = m.probing || a.Refused || a.Exhausted()
	if !m.until.Before(until) {
		return false
	}
	m.until, m.reason = until, Limit
	switch {
	case a.Wait == 0:
		m.reason = Backoff
	case a.RetryAfter:
		m.reason = RetryAfter
	}
	if a.Wait > 0 && !a.Jittered {
		m.until = until.Add(Late(m.Jitter))
	}
	return true
}

// Idle reports whether no request has been sent for idleTime.
func (m *Machine) Idle(now time.Time) bool { return now.Sub(m.last) > idleTime }

// A Loss is what would be lost if a machine were forgotten.
type Loss int

const (
	NothingLost Loss = iota
	CountLost        // what remains of limits, how many may be under way, or how long the next wait is
	WaitLost         // a wait in force, or callers that wait
)

// Loss returns what would be lost if a machine were forgotten.
func (m *Machine) Loss(now time.Time) Loss {
	if now.Before(m.until) {
		return WaitLost
	}
	loss := NothingLost
	counts := m.pool.room(1) > 0 || m.rate.perSecond > 0 || len(m.limits) > 0
	if counts && !m.Idle(now) || now.Before(m.until.Add(m.backoff.asked)) {
		loss = CountLost
	}
	for i := range m.limits {
		switch l := &m.limits[i]; {
		case !now.Before(l.end):
		case l.flow == nil && l.remaining < 1 && now.Before(m.last.Add(m.MaxWait)):
			return WaitLost
		default:
			loss = CountLost
		}
	}
	return loss
}

// Trips returns the requests under way, in the order in which they were sent. If a server counts parts
// of a key apart, each part has a Machine, like the key itself. A request has a Trip with the key, and
// one with each part that it may belong to.
func (m *Machine) Trips() iter.Seq[*Trip] { return slices.Values(m.underWay) }

// Take takes the limits out of a Machine, and the wait that an answer asked for. It returns them as
// an answer that announces them now, so that the Machine of a part can learn them.
func (m *Machine) Take(now time.Time) (a Answer) {
	for i := range m.limits {
		l := &m.limits[i]
		left := m.remaining(l, now)
		for t := range m.Trips() {
			left += m.taken(l, t)
		}
		s := Stock{Unit: l.unit, Policy: l.policy, Remaining: int64(max(left/m.Share, 0)), Quota: int64(l.quota)}
		if s.Ends = !l.end.IsZero(); s.Ends {
			s.Reset = max(l.end.Sub(now), 0)
		}
		a.Stocks = append(a.Stocks, s)
	}
	if now.Before(m.until) && m.probing && m.reason != Backoff {
		a.Wait, a.RetryAfter, a.Refused, a.Jittered = m.until.Sub(now), m.reason == RetryAfter, true, true
		m.until, m.probing = time.Time{}, false
	}
	m.limits, m.pace, m.spacing = nil, 0, 0
	return a
}

// Returned ends a request that took nothing from the limits of this Machine, because its answer
// belongs to another Machine. It gives back what was subtracted for the request.
func (m *Machine) Returned(t *Trip, now time.Time) {
	for i := range m.limits {
		l := &m.limits[i]
		m.add(l, m.taken(l, t), now)
		l.sent -= m.need(l, t.Prices)
	}
	m.Failed(t)
	m.failed-- // the request got an answer
}
