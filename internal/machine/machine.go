// Package machine decides when the requests of one key may be sent. A Machine has no
// lock, no clock and no channel: its caller passes the time, and the passage of time is
// an event like any other (Tick). It gets numbers and returns numbers, and reads no
// response.
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
// After a wait the machine probes if nothing remained or a request was refused. Otherwise
// it counts, as after a Retry-After on a 200. If something is left at the end of a window,
// the machine goes on with what is left.
package machine

import (
	"math"
	"slices"
	"time"
)

// A phase is one of the four states of the picture above.
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
	// firstWait is how long further requests wait for the first answer. A slow server
	// that announces nothing costs this time, once.
	firstWait = 500 * time.Millisecond
	// closeBy is the time within which two requests may overtake each other.
	closeBy = 100 * time.Millisecond
)

// A Machine is what is known of a key. The zero Machine knows nothing.
type Machine struct {
	phase   phase
	start   opening
	pause   pause
	probes  probes
	budgets budgets
	meters  meters
	pace    time.Duration
	pool    pool
	backoff backoff
	rate    rate
	answers answers

	traffic
	bodies     int   // answers whose bodies have not ended
	learnt     int64 // the last request when the budgets were learnt
	refused    int64 // the last request when a refusal was last counted
	lastSilent bool  // the newest successful answer had no limits
	priced     bool  // a request with prices has been answered
}

// An opening is the data of the phase unknown.
type opening struct {
	since time.Time // when the first request was sent
	sent  int64     // how many since then
}

// A pause is the data of the phase waiting.
type pause struct {
	until     time.Time
	reason    Reason
	thenProbe bool // probing follows, not counting
}

// probes are the data of the phase probing.
type probes struct {
	began time.Time // when the first wave was sent
	since time.Time // when this wave was sent
	wave  float64   // how many requests this wave has; a float64, since it may double for ever
	sent  int64     // requests of this wave
}

// Tick advances the machine to a time. Callers call it before every other method.
func (m *Machine) Tick(now time.Time, r *Settings) {
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
		if m.pause.thenProbe {
			m.probe()
		}
	}
	ended, stuck := m.budgets.expire(now, r), m.budgets.stuck(now, r, &m.traffic)
	if ended || stuck {
		m.pace = 0
		m.probe() // anew: an earlier probe is forgotten
	}
}

// probe begins to probe: the machine knows only that nothing was left.
func (m *Machine) probe() { m.phase, m.probes = probing, probes{} }

// Ask returns whether a request with these prices may be sent now. It changes nothing.
func (m *Machine) Ask(now time.Time, r *Settings, prices []Price) Verdict {
	if v := m.askPhase(now, r, prices); !v.Open {
		return v
	}
	v := Verdict{Open: true, Certain: m.under.n == 0}
	m.budgets.ask(&v, now, r, prices, &m.traffic)
	m.meters.ask(&v, now, r, prices, &m.traffic)
	if !v.Open {
		return v
	}
	if most := m.pool.room(r); most > 0 && m.UnderWay() >= most { // and some of these may hang
		if next := m.hung(r); now.Before(next) {
			return Verdict{Until: next, Depends: true, Reason: Concurrency}
		}
	}
	if next := m.last.Add(min(m.rate.interval(), r.MaxWait)); now.Before(next) {
		return Verdict{Until: next, Known: true, Certain: m.under.n == 0, Reason: Backoff}
	}
	step := min(m.pace, r.MaxWait)
	if next := m.last.Add(step); r.Pace && now.Before(next) {
		return Verdict{Until: next, Polite: true, Reason: Pace, step: step}
	}
	return Verdict{Open: true}
}

// Peek is Ask after Tick, but changes nothing.
func (m *Machine) Peek(now time.Time, r *Settings, prices []Price) Verdict {
	then := *m
	then.budgets = slices.Clone(m.budgets)
	then.Tick(now, r)
	return then.Ask(now, r, prices)
}

// askPhase returns whether the phase lets a request go.
func (m *Machine) askPhase(now time.Time, r *Settings, prices []Price) Verdict {
	switch m.phase {
	case waiting:
		return Verdict{Until: m.pause.until, Known: true, Certain: true, Reason: m.pause.reason}
	case unknown:
		if most := max(1, int64(firstTrips*r.Share)); m.start.sent >= most {
			return Verdict{Until: m.start.since.Add(firstWait), Polite: true, Reason: First}
		}
	case probing:
		if end := m.probes.since.Add(waveTime); float64(m.probes.sent) >= m.probes.wave && now.Before(end) {
			return Verdict{Until: end, Reason: Probe}
		}
	}
	if prices != nil && !m.priced && m.under.priced > 0 { // the first answer contains what is left
		if next := m.hung(r); now.Before(next) {
			return Verdict{Until: next, Depends: true, Reason: First}
		}
	}
	return Verdict{Open: true}
}

// Send counts a request as sent.
func (m *Machine) Send(t *Trip, now time.Time, r *Settings) {
	m.number++
	m.rate.sent(m.last, now)
	m.last = now
	*t = Trip{Prices: t.Prices, number: m.number, failed: m.failed, at: now}
	if u := m.under.last; u != nil && u.Prices != nil && t.Prices != nil && now.Sub(u.at) < closeBy {
		u.unordered, t.unordered = true, true
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
	m.budgets.send(t)
	m.meters.send(t, now, r)
	m.under.push(t)
}

// send counts a probe. The next wave goes after a second. It has twice as many probes if the
// first probe takes twice as long as the fastest answers lately: where these take several
// seconds, more probes would only be refused. If no wave had more than one probe, a bucket
// with answers of 20 s would need 105 s for its jobs in place of 96.
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

// Failed takes note that a request got no answer; the server may have counted it. If other
// requests wait for the answer, the next of them goes in its place. Otherwise GCRA on a
// network that loses 5 % would refuse 15 requests in place of 7.
func (m *Machine) Failed(t *Trip) {
	m.under.remove(t)
	m.failed++
	switch {
	case m.phase == unknown && !t.at.Before(m.start.since):
		m.start.sent--
	case m.phase == probing && !t.at.Before(m.probes.since): // not one of an earlier wave
		m.probes.sent--
	}
}

// Answered learns from an answer, and reports whether what is known has become newer
// or stricter by it.
func (m *Machine) Answered(t *Trip, a *Answer, received time.Time, r *Settings) bool {
	m.under.remove(t)
	m.answers.add(t, a, received)
	m.priced = m.priced || t.Prices != nil
	if a.AtOnce > 0 {
		m.pool.atOnce = int(min(a.AtOnce, math.MaxInt32))
	}
	wait, stale := min(a.Wait, r.MaxWait), a.isStale(m.answers.fastest)
	if stale {
		wait = 0 // it was over before the answer arrived
	}
	fresh := t.number > m.refused // not under way when a refusal was counted
	switch {
	case !a.Refused:
		m.served(a, fresh)
	case fresh:
		wait = m.rejected(a, received, r)
	}
	limits := wait > 0 || a.limitsRequests()
	newer := limits && t.number > m.learnt
	if newer {
		m.phase, m.pace = counting, 0
	}
	stricter := wait > 0 && m.wait(received.Add(wait), a.reason(), a.Refused || a.Exhausted())
	m.meters.learn(t, a, received, r, &m.traffic)
	if stale {
		if m.phase != waiting {
			stricter = m.budgets.learnStale(a, received, r, &m.traffic)
		}
	} else if limits {
		m.pace = max(m.pace, scale(a.Pace, 1/r.Share))
		stricter = m.budgets.learn(t, a, newer, received, r, &m.traffic) || stricter
	} else if a.Elsewhere {
		m.budgets.giveBack(t, r)
	}
	if newer || stricter {
		m.learnt = m.number
	}
	return newer || stricter
}

// reason returns the reason of the wait after an answer.
func (a *Answer) reason() Reason {
	switch {
	case a.RetryAfter && a.Wait > 0:
		return RetryAfter
	case a.Wait > 0:
		return Limit
	}
	return Backoff
}

// served takes note of an answer that is no refusal.
func (m *Machine) served(a *Answer, fresh bool) {
	if m.phase == unknown || m.phase == probing {
		m.phase = counting
	}
	m.lastSilent = len(a.Stocks) == 0
	if fresh {
		m.backoff.recovered()
		m.rate.recovered()
		m.pool.regrow()
	}
}

// rejected takes note of a refusal, once for all requests that were under way together,
// and returns how long the key has to wait.
func (m *Machine) rejected(a *Answer, received time.Time, r *Settings) time.Duration {
	m.refused = m.number
	if m.lastSilent || !a.Exhausted() {
		m.rate.slow(received, m.UnderWay() == 0 && a.Wait == 0)
		if m.rate.most > 0 {
			m.pool.most = 0 // the number under way is not the reason
		} else {
			m.pool.shrink(m.UnderWay() + 1)
		}
	}
	return m.backoff.wait(a.Wait, r.MaxWait, &m.rate)
}

// wait makes the key wait until a time, and probe afterwards if thenProbe. It reports
// whether that is later than what was known.
func (m *Machine) wait(until time.Time, reason Reason, thenProbe bool) bool {
	if m.phase != waiting {
		m.phase, m.pause = waiting, pause{until, reason, thenProbe}
		return true
	}
	m.pause.thenProbe = m.pause.thenProbe || thenProbe
	later := m.pause.until.Before(until)
	if later {
		m.pause.until, m.pause.reason = until, reason
	}
	return later
}

// Idle reports whether nothing is lost with a machine that has not been used for
// some time.
func (m *Machine) Idle(now time.Time, r *Settings) bool {
	return now.Sub(m.last) > idleTime && m.Loss(now, r) == NothingLost
}

// A Loss is what would be lost with a machine.
type Loss int

const (
	NothingLost Loss = iota
	CountLost        // what remains of limits, or how many may be under way
	WaitLost         // a wait in force, or callers that wait
)

// idleTime is how long a key with nothing in force is remembered.
const idleTime = 10 * time.Minute

// Loss returns what would be lost with a machine.
func (m *Machine) Loss(now time.Time, r *Settings) Loss {
	if m.phase == waiting && now.Before(m.pause.until) {
		return WaitLost
	}
	used := now.Sub(m.last) <= idleTime
	most := NothingLost
	if used && (m.pool.most > 0 || m.rate.most > 0 || m.pool.atOnce > 0 || len(m.meters) > 0) {
		most = CountLost
	}
	for i := range m.budgets {
		switch b := &m.budgets[i]; {
		case b.over(now) || b.end.IsZero() && !used:
		case b.left < 1 && !b.end.IsZero() && now.Before(m.last.Add(r.MaxWait)):
			return WaitLost
		default:
			most = CountLost
		}
	}
	return most
}

// answers are how fast requests were served lately.
type answers struct {
	n       int           // how many answers there were
	fastest time.Duration // the shortest time to one; 0 if nothing is known
}

// Fastest returns the shortest time to an answer lately, 0 if nothing is known.
func (m *Machine) Fastest() time.Duration { return m.answers.fastest }

// UnderWay returns how many requests were sent and not answered to the end of their bodies.
func (m *Machine) UnderWay() int { return m.under.n + m.bodies }

// OpenBody counts a request as under way whose answer has begun, and reports whether its
// caller calls CloseBody when the body ends: if a pool is in force, or may be soon, because
// the key is new.
func (m *Machine) OpenBody() bool {
	if m.pool.most == 0 && m.pool.atOnce == 0 && m.number > firstTrips {
		return false
	}
	m.bodies++
	return true
}

// CloseBody ends what OpenBody has begun.
func (m *Machine) CloseBody() { m.bodies-- }

// manyAnswers is how many answers the fastest is sought among.
const manyAnswers = 64

func (l *answers) add(t *Trip, a *Answer, received time.Time) {
	if a.Refused { // which takes no time
		return
	}
	took := max(received.Sub(t.at), 0)
	if l.n%manyAnswers == 0 {
		l.fastest = took
	}
	l.n++
	l.fastest = min(l.fastest, took)
}

const (
	// slowRounds is how many rounds of answers pass before one more request is let under
	// way.
	slowRounds = 6
	// calmRounds is how many times more slowly a pool grows close to the number that was
	// refused, since each refusal costs a wait.
	calmRounds = 10
)

// A pool bounds how many requests may be under way.
type pool struct {
	most    int  // 0 if there is no such bound
	ceiling int  // requests that were under way when most was set
	spell   bool // nothing was served since then
	round   int  // answers since most has grown
	atOnce  int  // the number in a policy, 0 if no policy has one
}

// room returns how many may be under way, 0 for any number.
func (p *pool) room(r *Settings) int {
	if p.atOnce == 0 {
		return p.most
	}
	most := max(1, int(float64(p.atOnce)*r.Share))
	if p.most > 0 {
		most = min(most, p.most)
	}
	return most
}

// shrink halves the number of requests that may be under way, after a refusal that no
// limit explains, which suggests a limit on concurrency. Refusals with nothing served in
// between are one spell, after which as many go again within seconds: only the first of
// them sets the number close to which the pool grows slowly.
func (p *pool) shrink(together int) {
	p.round = 0
	if p.spell {
		p.most = max(1, p.most/2)
		return
	}
	p.spell = true
	if p.most = max(1, together/2); together == p.ceiling { // the number is certain
		p.most = max(1, together-1)
	}
	p.ceiling = together
}

// regrow lets one more be under way after some rounds; a round is as many answers as may be
// under way.
func (p *pool) regrow() {
	p.spell = false
	if p.most == 0 {
		return
	}
	round := slowRounds * p.most
	if p.most == p.ceiling-1 || p.most == p.ceiling {
		round *= calmRounds
	}
	if p.round++; p.round >= round {
		p.most, p.round = p.most+1, 0
	}
}
