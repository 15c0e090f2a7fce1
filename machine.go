package ratelimit

import (
	"math"
	"math/rand/v2"
	"time"
)

// The state of a key is a machine without lock, clock or channel: the time is
// passed in, and time itself is an event like any other (tick). It is told numbers,
// and uses nothing else of this package. Gate is in front of it.
//
//	                     an answer, or half a second
//	unknown ────────────────────────────────────▶ counting ◀──────────────┐
//	ten go at once                                as many as remain go    │
//	                                                 │                    │ an answer,
//	                                                 │ the end of what    │ not a refusal
//	             a wait, or                          ▼ was used up        │
//	any state ───────────────────▶ waiting ──────▶ probing ───────────────┘
//	             a refusal         nothing goes    1, 2, 4, … go
//
// After a wait, probing follows where nothing remained or a request was refused,
// else counting (a Retry-After on 200). A window that ended with something left goes
// on with that.
type phase uint8

const (
	unknown phase = iota
	counting
	waiting
	probing
)

const (
	// firstTrips is how many requests of a key go before anything is known: a
	// browser opens six connections.
	firstTrips = 10
	// firstWait is how long the others wait for the first answer. A server that
	// announces nothing and is slow costs no more than this, once.
	firstWait = 500 * time.Millisecond
	// closeBy is how close to each other requests are sent that may overtake each
	// other on their way.
	closeBy = 100 * time.Millisecond
)

// A machine is what is known of a key.
type machine struct {
	phase   phase
	start   opening
	pause   pause
	probes  probes
	budgets budgets
	meters  meters
	pace    time.Duration
	pool    pool
	backoff backoff
	answers answers

	traffic
	learnt  int64 // the last request when the budgets were learnt
	refused int64 // the last request when a refusal was last heeded
	mute    bool  // the latest request that was served has said nothing of what remains
	priced  bool  // a request with prices has been answered
}

// An opening is the data of the phase unknown.
type opening struct {
	since time.Time // when the first request was sent
	sent  int64     // how many since then
}

// A pause is the data of the phase waiting.
type pause struct {
	until   time.Time
	careful bool // probing follows, not counting
}

// probes are the data of the phase probing.
type probes struct {
	began time.Time // when the first wave was sent
	since time.Time // when this wave was sent
	wave  float64   // how many requests this wave has; a float64, since it may double for ever
	sent  int64     // requests of this wave
}

// tick is the passage of time.
func (m *machine) tick(now time.Time, r *settings) {
	switch m.phase {
	case unknown:
		if m.start.sent > 0 && !now.Before(m.start.since.Add(firstWait)) {
			m.phase = counting
		}
	case waiting:
		if now.Before(m.pause.until) {
			return
		}
		m.phase = counting
		if m.pause.careful {
			m.probe()
		}
	}
	ended, stuck := m.budgets.expire(now), m.budgets.stuck(now, r, &m.traffic)
	if ended || stuck {
		m.pace = 0
		m.probe() // anew: an earlier probe is forgotten
	}
}

// probe begins to probe: nothing is known but that there was nothing left.
func (m *machine) probe() { m.phase, m.probes = probing, probes{} }

// ask returns whether a request with these prices may be sent now. The machine must
// have been told the time.
func (m *machine) ask(now time.Time, r *settings, prices []price) verdict {
	if v := m.askPhase(now, r, prices); !v.open {
		return v
	}
	v := verdict{open: true, certain: m.under.n == 0}
	m.budgets.ask(&v, now, r, prices, &m.traffic)
	for i := 0; i < len(m.meters) && prices != nil; i++ {
		m.meters[i].ask(&v, now, r, prices, &m.traffic)
	}
	if !v.open {
		return v
	}
	if most := m.pool.room(r); most > 0 && m.under.n >= most { // and some of these may hang
		if next := m.last.Add(min(mostBackoff, r.maxWait)); now.Before(next) {
			return verdict{until: next}
		}
	}
	step := min(m.pace, r.maxWait)
	if next := m.last.Add(step); r.pace && now.Before(next) {
		return verdict{until: next, polite: true, step: step}
	}
	return verdict{open: true}
}

// askPhase returns whether the phase lets a request go.
func (m *machine) askPhase(now time.Time, r *settings, prices []price) verdict {
	switch m.phase {
	case waiting:
		return verdict{until: m.pause.until, known: true, certain: true}
	case unknown:
		if most := max(1, int64(firstTrips*r.share)); m.start.sent >= most {
			return verdict{until: m.start.since.Add(firstWait), polite: true}
		}
	case probing:
		if end := m.probes.since.Add(waveTime); float64(m.probes.sent) >= m.probes.wave && now.Before(end) {
			return verdict{until: end}
		}
	}
	if prices != nil && !m.priced && m.under.priced > 0 { // wait for its answer, which says what is left
		if next := m.last.Add(min(mostBackoff, r.maxWait)); now.Before(next) {
			return verdict{until: next}
		}
	}
	return verdict{open: true}
}

// send counts a request as sent.
func (m *machine) send(t *trip, now time.Time, r *settings) {
	m.number++
	m.last = now
	*t = trip{prices: t.prices, number: m.number, silent: m.silent, at: now}
	if u := m.under.last; u != nil && u.prices != nil && t.prices != nil && now.Sub(u.at) < closeBy {
		u.crowded, t.crowded = true, true
	}
	switch m.phase {
	case unknown:
		if m.start.sent == 0 {
			m.start.since = now
		}
		m.start.sent++
	case probing:
		m.probes.send(now, m.answers.fastest)
	}
	for i := range m.budgets {
		b := &m.budgets[i]
		b.left -= takes(t.prices, requestUnit, b.policy)
	}
	for i := range m.meters {
		m.meters[i].send(t, now, r)
	}
	m.under.push(t)
}

// send counts a probe. After a second comes the next wave, of twice as many if the first
// probe takes twice as long as the fastest answers lately: where these take several
// seconds, more probes would only be refused.
func (p *probes) send(now time.Time, fastest time.Duration) {
	if p.began.IsZero() {
		p.began = now
	}
	if !now.Before(p.since.Add(waveTime)) {
		if now.Sub(p.began) > 2*fastest {
			p.wave *= 2
		}
		p.wave, p.sent, p.since = max(1, p.wave), 0, now
	}
	p.sent++
}

// failed says that a request got no answer. It may have been served. Where others
// wait for its answer, one of them goes in its place.
func (m *machine) failed(t *trip) {
	m.under.remove(t)
	m.silent++
	switch {
	case m.phase == unknown && !t.at.Before(m.start.since):
		m.start.sent--
	case m.phase == probing && !m.probes.since.IsZero() && !t.at.Before(m.probes.since): // not one of an earlier wave
		m.probes.sent--
	}
}

// answered learns from an answer, and reports whether what is known has become newer
// or stricter by it.
func (m *machine) answered(t *trip, a *report, received time.Time, r *settings) bool {
	m.under.remove(t)
	m.answers.add(t, a, received)
	if a.atOnce > 0 {
		m.pool.atOnce = int(min(a.atOnce, math.MaxInt32))
	}
	fresh := t.number > m.refused // not under way when a refusal was heeded
	if t.prices != nil {
		m.priced = true
		m.meters.settle(t, a, received, r, &m.traffic)
	}
	switch {
	case !a.refused:
		m.served(a, fresh)
	case fresh && (m.mute || !a.exhausted()):
		m.pool.shrink(m.under.n + 1)
	}
	wait := m.waitOf(a, fresh, r)
	said := a.saysRequests()
	if said {
		m.budgets.giveBack(t, r)
	}
	if wait == 0 && !said {
		m.silent++
		return false
	}
	newer := t.number > m.learnt
	if newer {
		m.phase, m.pace, m.budgets = counting, 0, m.budgets[:0]
	}
	stricter := wait > 0 && m.wait(received.Add(wait), a.refused || a.exhausted())
	m.pace = max(m.pace, scale(a.pace, 1/r.share))
	for i := range a.stocks {
		if s := &a.stocks[i]; s.unit == requestUnit && !(a.waived && s.left == 0) {
			stricter = m.budgets.add(budgetOf(t, s, received, r, &m.traffic)) || stricter
		}
	}
	if newer || stricter {
		m.learnt = m.number
	}
	return newer || stricter
}

// served takes note of an answer that is no refusal.
func (m *machine) served(a *report, fresh bool) {
	if m.phase == unknown || m.phase == probing {
		m.phase = counting
	}
	m.mute = len(a.stocks) == 0
	if fresh {
		m.backoff.recovered()
		m.pool.regrow()
	}
}

// wait makes the key wait until a time, and probe afterwards if it has to be
// careful. It reports whether that is later than what was known.
func (m *machine) wait(until time.Time, careful bool) bool {
	if m.phase != waiting {
		m.phase, m.pause = waiting, pause{until, careful}
		return true
	}
	m.pause.careful = m.pause.careful || careful
	if !until.After(m.pause.until) {
		return false
	}
	m.pause.until = until
	return true
}

// idle reports whether nothing is lost with a machine that has not been used for
// some time.
func (m *machine) idle(now time.Time, r *settings) bool {
	return now.Sub(m.last) > idleTime && m.loss(now, r) == nothingLost
}

// A loss is what would be lost with a machine.
type loss int

const (
	nothingLost loss = iota
	countLost        // what remains of limits, or how many may be under way
	waitLost         // a wait in force, or callers that wait

	losses // their number
)

// idleTime is how long a key with nothing in force is remembered.
const idleTime = 10 * time.Minute

// loss returns what would be lost with a machine.
func (m *machine) loss(now time.Time, r *settings) loss {
	if m.phase == waiting && now.Before(m.pause.until) {
		return waitLost
	}
	used := now.Sub(m.last) <= idleTime
	most := nothingLost
	if used && (m.pool.most > 0 || m.pool.atOnce > 0 || len(m.meters) > 0) {
		most = countLost
	}
	for i := range m.budgets {
		switch b := &m.budgets[i]; {
		case b.over(now) || b.end.IsZero() && !used:
		case b.left < 1 && !b.end.IsZero() && now.Before(m.last.Add(r.maxWait)):
			return waitLost
		default:
			most = countLost
		}
	}
	return most
}

// waitOf returns how long an answer makes the key wait. A refusal that asks for no
// wait backs off, once for all requests that were under way together.
func (m *machine) waitOf(a *report, fresh bool, r *settings) time.Duration {
	if !a.refused || !fresh {
		return min(a.wait, r.maxWait)
	}
	m.refused = m.number
	if wait := m.backoff.cut(a.wait, r.maxWait); wait > 0 {
		m.backoff.latest = 0
		return wait
	}
	d := m.backoff.next()
	return min(d/2+rand.N(d/2), r.maxWait)
}
