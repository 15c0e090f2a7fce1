package ratelimit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

// Times and numbers of the machine.
const (
	// firstTrips is how many requests of a key go before anything is known: a
	// browser opens six connections.
	firstTrips = 10
	// firstWait is how long the others wait for the first answer. A server that
	// announces nothing and is slow costs no more than this, once.
	firstWait = 500 * time.Millisecond
	// waveTime is how long a wave of probes is waited for before the next goes. A
	// probe that hangs must not starve its key.
	waveTime = time.Second
	// leastBackoff and mostBackoff bound the wait after a refusal that asks for
	// none. Where as many are under way as may be, and all of them hang, another
	// goes after mostBackoff.
	leastBackoff = 100 * time.Millisecond
	mostBackoff  = 32 * time.Second
	// calmRounds is how many rounds of answers pass before as many requests are let
	// under way as were refused, and before there are more.
	calmRounds = 10
	// mostAgain is how often these rounds become four times as many.
	mostAgain = 3
	// maxBudgets is the number of limits of a key that are counted apart.
	maxBudgets = 16
	// maxKeptName is how much of a limit's name is remembered.
	maxKeptName = 128
	// closeBy is how close to each other requests are sent that may overtake each
	// other on their way.
	closeBy = 100 * time.Millisecond
	// requestUnit is the unit of which each request takes one.
	requestUnit = "requests"
)

// settings are those of a Gate that the machine obeys.
type settings struct {
	maxWait time.Duration
	share   float64 // more than 0, at most 1
	pace    bool
}

// A report is what an answer says.
type report struct {
	wait    time.Duration // before the next request, however long; 0 to go on
	pace    time.Duration // between requests, 0 if there is none
	refused bool
	atOnce  int64   // as many requests may be under way, 0 if no policy says so
	stocks  []stock // what remains of each limit that says so
	waived  bool    // the wait takes the place of limits with nothing remaining
}

// A stock is what remains of a limit.
type stock struct {
	unit, policy string // requestUnit, or another; and the name
	left         int64
	quota        int64         // 0 if it is not known
	window       time.Duration // of the policy, 0 if it is not known
	reset        time.Duration // until the limit changes, else the window
	ends         bool          // whether reset is known
}

// A price is what a request takes of the limits that it concerns. The unit or the
// policy may be "", which is any.
type price struct {
	unit, policy string
	units        float64 // more than 0
}

// takes returns what a request takes of a limit. A price that names the policy goes
// before those that do not; of requests it takes one if no price says otherwise.
func takes(prices []price, unit, policy string) float64 {
	if len(prices) == 0 {
		if unit == requestUnit {
			return 1
		}
		return 0
	}
	var named, others float64
	isNamed, isPriced := false, unit != requestUnit
	for i := range prices {
		switch p := &prices[i]; {
		case p.unit != "" && p.unit != unit:
		case p.policy == "":
			others, isPriced = others+p.units, true
		case p.policy == policy:
			named, isNamed = named+p.units, true
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

// A machine is what is known of a key.
type machine struct {
	phase   phase
	start   start
	pause   pause
	probes  probes
	budgets []budget // limits of requests in force
	meters  []meter  // limits in other units, of which requests have taken something
	pace    time.Duration
	pool    pool
	backoff backoff
	answers answers

	last    time.Time // when the last request was sent
	number  int64     // of the last request, from 1
	learnt  int64     // the last request when the budgets were learnt
	refused int64     // the last request when a refusal was last heeded
	silent  int64     // answers, and failures, that said nothing of what remains
	mute    bool      // the latest request that was served has said nothing of what remains
	priced  bool      // a request with prices has been answered
	under   trips     // requests under way
}

// A start is the data of the phase unknown.
type start struct {
	since time.Time // when the first request was sent
	sent  int64     // requests
}

// A pause is the data of the phase waiting.
type pause struct {
	until   time.Time
	careful bool // probing follows, not counting
}

// Probes are the data of the phase probing.
type probes struct {
	began time.Time // when the first wave was sent
	since time.Time // when this wave was
	wave  float64   // requests of this wave; there is no end to how they grow
	sent  int64     // of these
}

// A budget is a limit of requests in force.
type budget struct {
	policy string
	left   float64   // requests that may still be sent; a part of one waits for the end
	end    time.Time // of the window; zero if that is not said, or over
	from   time.Time // requests under way that were sent earlier were not taken off; zero if all were
	number int64     // of the last request when this was learnt
}

// over reports whether the window has ended.
func (b *budget) over(now time.Time) bool { return !b.end.IsZero() && !now.Before(b.end) }

// outlasts reports whether a budget is in force for longer than another.
func (b *budget) outlasts(c *budget) bool {
	return !c.end.IsZero() && (b.end.IsZero() || b.end.After(c.end))
}

// covers reports whether b allows nothing that c does not. A budget without an end can
// be dropped early, so it never stands in for one with an end.
func (b *budget) covers(c *budget) bool {
	return b.policy == c.policy && b.left <= c.left && !c.outlasts(b) && (!b.end.IsZero() || c.end.IsZero())
}

// A trip is a request on its way.
type trip struct {
	prices     []price
	number     int64
	silent     int64 // machine.silent when it was sent
	crowded    bool  // another with prices was sent at about the same time: the server may have seen either first
	at         time.Time
	prev, next *trip // under way, by number
}

// trips is a list of requests under way in the order in which they were sent.
type trips struct {
	first, last *trip
	n           int
	priced      int // those with prices
}

func (l *trips) push(t *trip) {
	t.prev = l.last
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.n++
	if t.prices != nil {
		l.priced++
	}
}

func (l *trips) remove(t *trip) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
	if t.prices != nil {
		l.priced--
	}
}

// requests returns what those that were sent after a time take of a limit of requests.
func (l *trips) requests(policy string, after time.Time) float64 {
	n := 0.0
	if l.priced == 0 {
		n = float64(l.n)
	}
	for t := l.first; t != nil; t = t.next {
		switch late := t.at.After(after); {
		case l.priced > 0 && late:
			n += takes(t.prices, requestUnit, policy)
		case l.priced == 0 && late:
			return n
		case l.priced == 0:
			n--
		}
	}
	return n
}

// A verdict says whether a request may be sent.
type verdict struct {
	open  bool
	until time.Time // if not open: when to ask again at the latest
	// known is true if until is when a limit lets more through, as far as anything
	// tells.
	known bool
	// certain is true if no answer to a request under way can open the gate
	// earlier.
	certain bool
	// polite is true if waiting is a courtesy. A request whose deadline comes
	// earlier goes at once.
	polite bool
	step   time.Duration // polite: the time between that request and the next
}

// hurries reports whether waiting politely, with that many requests ahead, would miss
// the deadline.
func (v *verdict) hurries(deadline time.Time, ahead int) bool {
	return v.polite && !deadline.IsZero() && deadline.Before(v.until.Add(scale(v.step, float64(ahead))))
}

// later makes a verdict wait until a time, if it does not wait for longer already.
func (v *verdict) later(until time.Time, known bool) {
	if v.open || until.After(v.until) {
		v.open, v.until, v.known = false, until, known
	}
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
	ended, stuck := m.expire(now), m.stuck(now, r)
	if ended || stuck {
		m.pace = 0
		m.probe() // anew: an earlier probe is forgotten
	}
}

// expire ends the windows whose time has come, and reports whether one of them
// ended with nothing left. One that ended with something left goes on with that:
// nothing says that there is less (draft-11 Section 8.4).
func (m *machine) expire(now time.Time) (spent bool) {
	m.budgets = slices.DeleteFunc(m.budgets, func(b budget) bool {
		drop := b.over(now) && b.left <= 0
		spent = spent || drop
		return drop
	})
	for i := range m.budgets {
		if b := &m.budgets[i]; b.over(now) {
			b.left, b.end = max(b.left, 1), time.Time{}
		}
	}
	return spent
}

// stuck drops budgets with nothing left, if no end is known, or one that is further
// away than anyone waits. It reports whether there were any.
func (m *machine) stuck(now time.Time, r *settings) bool {
	before := len(m.budgets)
	m.budgets = slices.DeleteFunc(m.budgets, func(b budget) bool {
		switch {
		case b.left >= 1:
			return false
		case b.end.IsZero():
			return m.under.n == 0 || !now.Before(m.last.Add(waveTime))
		}
		return !now.Before(m.last.Add(r.maxWait))
	})
	return len(m.budgets) < before
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
	m.askBudgets(&v, now, r, prices)
	for i := 0; i < len(m.meters) && prices != nil; i++ {
		m.askMeter(&v, &m.meters[i], now, r, prices)
	}
	if !v.open {
		return v
	}
	if most := m.pool.bound(r); most > 0 && m.under.n >= most { // some of which may hang
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
	if prices != nil && !m.priced && m.under.priced > 0 { // what is left is in its answer
		if next := m.last.Add(min(mostBackoff, r.maxWait)); now.Before(next) {
			return verdict{until: next}
		}
	}
	return verdict{open: true}
}

// askBudgets makes a verdict wait for the budgets of which less is left than a
// request takes.
func (m *machine) askBudgets(v *verdict, now time.Time, r *settings, prices []price) {
	for i := range m.budgets {
		b := &m.budgets[i]
		need := takes(prices, requestUnit, b.policy)
		if need == 0 || b.left >= need {
			continue
		}
		end, known := m.last.Add(r.maxWait), true
		switch {
		case b.end.IsZero():
			end, known = m.last.Add(waveTime), false
			if m.under.n == 0 { // more than is left of it goes as a probe
				continue
			}
		case b.end.Before(end):
			end = b.end
		}
		if now.Before(end) {
			v.later(end, known)
		}
	}
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
	m.settle(t, a, received, r)
	switch {
	case !a.refused:
		m.served(a, fresh)
	case fresh && (m.mute || !a.exhausted()):
		m.pool.shrink(m.under.n + 1)
	}
	wait := m.waitOf(a, fresh, r)
	said := a.saysRequests()
	if said {
		m.giveBack(t, r)
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
			stricter = m.add(m.budgetOf(t, s, received, r)) || stricter
		}
	}
	if newer || stricter {
		m.learnt = m.number
	}
	return newer || stricter
}

// exhausted reports whether nothing remains of some limit.
func (a *report) exhausted() bool {
	return slices.ContainsFunc(a.stocks, func(s stock) bool { return s.left == 0 })
}

// saysRequests reports whether an answer says what remains of a limit of requests.
func (a *report) saysRequests() bool {
	return slices.ContainsFunc(a.stocks, func(s stock) bool { return s.unit == requestUnit })
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

// A backoff is how long the key waits after refusals that ask for no wait, or for one
// longer than MaxWait.
type backoff struct {
	latest  time.Duration // the upper bound of the latest wait; 0 if nothing was refused since an answer
	proven  time.Duration // the one after which a request was served
	longest time.Duration // the latest wait that was cut; 0 if none was since an answer
}

// next returns the upper bound of a wait, which grows by half each time. It begins
// with a third of what was enough the last time, and grows by a quarter until then.
func (b *backoff) next() time.Duration {
	d := b.proven / 3
	switch {
	case b.latest == 0:
	case b.latest < b.proven:
		d = b.latest + b.latest/4
	default:
		d = b.latest + b.latest/2
	}
	b.latest = min(max(d, leastBackoff), mostBackoff)
	return b.latest
}

// cut returns the wait that is obeyed: at most longest at first, and half as much
// again each time until it is what was asked for. Otherwise a short MaxWait would have
// the client refused for ever.
func (b *backoff) cut(asked, longest time.Duration) time.Duration {
	if asked <= longest {
		b.longest = 0
		return asked
	}
	b.longest = min(asked, max(longest, b.longest+b.longest/2))
	return b.longest
}

// recovered ends the backoff: there was an answer that is no refusal.
func (b *backoff) recovered() {
	if b.latest > 0 {
		b.proven, b.latest = b.latest, 0
	}
	b.longest = 0
}

// A pool bounds how many requests may be under way.
type pool struct {
	most    int // 0 if there is no such bound
	ceiling int // requests that were under way when most was set
	again   int // how often in succession that was the same number
	round   int // answers since most has grown
	atOnce  int // what a policy says, 0 if none does
}

// bound returns how many may be under way, 0 for any number.
func (p *pool) bound(r *settings) int {
	if p.atOnce == 0 {
		return p.most
	}
	most := max(1, int(float64(p.atOnce)*r.share))
	if p.most > 0 {
		most = min(most, p.most)
	}
	return most
}

// shrink halves the number of requests that may be under way, after a refusal that no
// limit explains, which suggests a limit on concurrency. Requests that were under way
// together count as one refusal.
func (p *pool) shrink(together int) {
	p.most, p.round = max(1, together-1), 0
	if p.again++; together != p.ceiling {
		p.ceiling, p.again, p.most = together, 0, max(1, together/2)
	}
}

// regrow lets one more be under way after a round: as many answers as may be under
// way. Close to the number that was refused it grows ten times more slowly, since each
// refusal costs a wait, and again four times as slowly where it is that number each time.
func (p *pool) regrow() {
	if p.most == 0 {
		return
	}
	round := p.most
	if p.most == p.ceiling-1 || p.most == p.ceiling {
		round *= calmRounds << (2 * min(p.again, mostAgain))
	}
	if p.round++; p.round >= round {
		p.most, p.round = p.most+1, 0
	}
}

// answers are how fast requests were served lately.
type answers struct {
	n       int           // of these
	fastest time.Duration // the shortest time to one; 0 if nothing is known
}

// manyAnswers is how many answers are lately.
const manyAnswers = 64

func (l *answers) add(t *trip, a *report, received time.Time) {
	if a.refused { // which takes no time
		return
	}
	took := max(received.Sub(t.at), 0)
	if l.n%manyAnswers == 0 {
		l.fastest = took
	}
	l.n++
	l.fastest = min(l.fastest, took)
}

// budgetOf returns what may be sent of a limit, until its window ends if that is
// known. The server may not have counted requests sent within one window of this
// answer, nor those answered without a count; they are taken off. It has counted
// older ones: taking them off twice would halve the rate of a server whose answers
// take longer than its windows.
func (m *machine) budgetOf(t *trip, s *stock, received time.Time, r *settings) (b budget) {
	d := s.reset
	if s.ends && d == 0 && s.left > 0 {
		d = time.Second // it has been rounded down, or is that of a slow clock
	}
	b.number, b.policy = m.number, s.policy
	if s.ends {
		b.end, b.from = received.Add(d), received.Add(-d)
	}
	left := float64(s.left) - m.under.requests(s.policy, b.from) - float64(m.silent-t.silent)
	b.left = left * r.share
	return b
}

// giveBack returns what a request took of each budget, because its answer says what
// remains: either it was served before the answer from which the budget was learnt,
// and is counted in that, or its own answer is the stricter one.
func (m *machine) giveBack(t *trip, r *settings) {
	for i := range m.budgets {
		switch b := &m.budgets[i]; {
		case t.number > b.number:
			b.left += takes(t.prices, requestUnit, b.policy)
		case t.at.After(b.from):
			b.left += takes(t.prices, requestUnit, b.policy) * r.share
		}
	}
}

// scale multiplies a duration, saturating.
func scale(d time.Duration, by float64) time.Duration {
	if d == 0 {
		return 0 // also +Inf times
	}
	if x := float64(d) * by; x < math.MaxInt64 {
		return time.Duration(x)
	}
	return math.MaxInt64
}

// add adds a budget, and reports whether it allows less than the others.
func (m *machine) add(b budget) bool {
	b.policy = b.policy[:min(len(b.policy), maxKeptName)]
	if slices.ContainsFunc(m.budgets, func(c budget) bool { return c.covers(&b) }) {
		return false
	}
	m.budgets = slices.DeleteFunc(m.budgets, func(c budget) bool { return b.covers(&c) })
	if n := len(m.budgets); n < maxBudgets {
		b.policy = keepName(m.budgets[:cap(m.budgets)], n, b.policy)
		m.budgets = append(m.budgets, b)
		return true
	}
	last := &m.budgets[maxBudgets-1]
	if b.left < last.left {
		last.left, last.from, last.number = b.left, b.from, b.number
	}
	if last.end.IsZero() || b.end.After(last.end) { // an end that is not said takes none away
		last.end = b.end
	}
	return true
}

// keepName returns a name that holds no memory of the response: the one that was in
// that place before, if it is the same, else a copy.
func keepName(list []budget, i int, name string) string {
	if i < len(list) && list[i].policy == name {
		return list[i].policy
	}
	return strings.Clone(name)
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

// A meter is a limit in another unit, of which requests take as much as their prices
// say: tokens of a model, bytes, points. The prices of those under way are taken off
// what an answer says is left, and what flows in afterwards is added.
type meter struct {
	unit, policy string
	quota        float64   // 0 if it is not known
	left         float64   // of this Gate's share, at that time
	at           time.Time // the time
	end          time.Time // of the window; zero if that is not said
	asked        time.Time // when the request was sent whose answer said what is left
	learnt       int64     // the last request when it did
	sent         float64   // what all requests have taken, those refused left out
	flow         flow
}

// A flow is how fast units flow back into a limit.
type flow struct {
	policy float64       // units a second, by the policy's window; 0 if that is not known
	reset  float64       // by the reset, if that is when all are back; 0 if that is not known
	until  time.Duration // the reset
	agreed int           // answers in succession whose resets have said the same
	shown  float64       // as answers have shown it
	times  int           // that they have
	// The answer with which the next one is compared: when its request was sent, what
	// it said is left, and what all requests until then had taken. The time is zero
	// if there is none.
	since       time.Time
	left, taken float64
}

// leastFlow is the part of the flow that the window or the reset suggests below which
// nothing flows in: the limit is one of fixed windows.
const leastFlow = 1.0 / 16

// rate returns how many units flow in each second, 0 if nothing tells, or if they come
// back all at once. Of several signs the slowest counts. The reset of one answer is
// none, since that of some servers is when the next unit is back; those of several
// answers are, if they agree.
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

// learn compares an answer with an earlier one. Nothing can be seen of a limit that was
// full.
func (f *flow) learn(at time.Time, left, taken, grain float64, full bool) {
	d := at.Sub(f.since)
	if !f.since.IsZero() && (d < time.Second || max(f.policy, f.reset)*d.Seconds() < 2*grain) {
		return // as rounded numbers show little of a short time, and an older answer nothing
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

// need returns how much has to be there for a request: what it takes, but no more than
// there is when the limit is as full as it gets.
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

// askMeter makes a verdict wait until as much has flowed into a meter as a request
// takes, or else until its window ends. Where nothing says when that is, one goes, and
// the others wait for its answer.
func (m *machine) askMeter(v *verdict, x *meter, now time.Time, r *settings, prices []price) {
	need := x.need(prices, r)
	missing := need - x.now(now, r)
	if missing <= 0 || need == 0 {
		return
	}
	until, known := m.last.Add(min(mostBackoff, r.maxWait)), false
	rate := x.flow.rate() * r.share
	switch {
	case rate > 0:
		until, known = now.Add(scale(time.Second, missing/rate)), true
	case now.Before(x.end):
		until, known = x.end, true
	case m.under.priced == 0:
		return
	}
	if latest := m.last.Add(r.maxWait); until.After(latest) {
		until = latest
	}
	if now.Before(until) {
		v.later(until, known)
	}
}

// settle tells the meters what an answer says is left of the limits of which its
// request has taken something.
func (m *machine) settle(t *trip, a *report, received time.Time, r *settings) {
	if t.prices == nil {
		return
	}
	m.priced = true
	for i := range a.stocks {
		s := &a.stocks[i]
		if s.unit == requestUnit || takes(t.prices, s.unit, s.policy) == 0 {
			continue
		}
		if x := m.meter(t, s); x != nil {
			m.fill(x, t, s, a.refused, received, r)
		}
	}
}

// fill puts into a meter what an answer says is left. One to a request that was sent
// before the meter was learnt settles what that request has taken, and else can only
// make it stricter: the server may have counted others that are under way, or not.
func (m *machine) fill(x *meter, t *trip, s *stock, refused bool, received time.Time, r *settings) {
	own := x.need(t.prices, r)
	if refused {
		x.sent -= own
	}
	var under, newer float64
	for u := m.under.first; u != nil; u = u.next {
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
	x.flow.told(s)
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
	x.quota, x.asked, x.learnt = float64(s.quota), t.at, m.number
	x.left, x.at, x.end = (left-under)*r.share, received, time.Time{}
	if s.ends {
		x.end = received.Add(s.reset)
	}
}

// pessimist returns what is left at least, and to what it is rounded. Anthropic rounds to
// the nearest thousand.
func (s *stock) pessimist() (left, grain float64) {
	const rounded = 1000
	if s.unit == "tokens" && s.left%rounded == 0 {
		return float64(max(s.left-rounded/2, 0)), rounded
	}
	return float64(s.left), 1
}

// told takes over what a limit says of its flow.
func (f *flow) told(s *stock) {
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

// meter returns the meter of a limit, a new one if there is none yet; nil if there are
// too many.
func (m *machine) meter(t *trip, s *stock) *meter {
	policy := s.policy[:min(len(s.policy), maxKeptName)]
	for i := range m.meters {
		if x := &m.meters[i]; x.policy == policy && x.unit == s.unit {
			return x
		}
	}
	if len(m.meters) == maxBudgets {
		return nil
	}
	x := meter{unit: strings.Clone(s.unit), policy: strings.Clone(policy), quota: float64(s.quota)}
	x.sent = takes(t.prices, s.unit, policy)
	for u := m.under.first; u != nil; u = u.next {
		x.sent += takes(u.prices, s.unit, policy)
	}
	m.meters = append(m.meters, x)
	return &m.meters[len(m.meters)-1]
}
