package ratelimit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The state of a key is a machine without lock, clock or channel: the time is
// passed in, and time itself is an event like any other (tick). Gate is in front
// of it.
//
//	                     an answer, or half a second
//	unknown ────────────────────────────────────▶ counting ◀──────────────┐
//	ten go at once                                as many as remain go    │
//	                                                 │                    │ an answer,
//	                                                 │ the end of what    │ not a refusal
//	             a wait, or                          ▼ was used up        │
//	any state ───────────────────▶ waiting ──────▶ probing ───────────────┘
//	             a refusal         nobody goes     1, 2, 4, … go
//
// The end of a wait of which nobody knows that nothing remained (a Retry-After on
// 200) leads to counting. A window that ended with something left goes on with
// that.
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
	// waveTime is how long a wave of probes is waited for before the next, of
	// twice as many, goes. A probe that hangs must not starve its key.
	waveTime = time.Second
	// leastBackoff and mostBackoff bound the wait after a refusal that asks for
	// none. As many as may be under way hold others back for no longer either.
	leastBackoff = 500 * time.Millisecond
	mostBackoff  = 32 * time.Second
	// calmRounds is how many rounds of answers pass before as many requests are let
	// under way as were refused, and before there are more.
	calmRounds = 10
	// maxBudgets is the number of limits of a key that are counted apart.
	maxBudgets = 16
	// maxKeptName is how much of a limit's name is remembered.
	maxKeptName = 128
)

// settings are those of a Gate that the machine obeys.
type settings struct {
	maxWait time.Duration
	share   float64 // more than 0, at most 1
	pace    bool
}

// A machine is what is known of a key.
type machine struct {
	phase   phase
	until   time.Time // waiting: the end of it
	careful bool      // waiting: probing follows, not counting
	since   time.Time // unknown: when the first request was sent; probing: when the wave began
	wave    float64   // probing: how many requests go in it, of which there is no end
	sent    int64     // unknown: requests sent; probing: those of the wave

	budgets []budget
	pace    time.Duration
	most    int           // requests that may be under way, 0 if there is no such bound
	ceiling int           // requests that were under way when most was set
	round   int           // answers since most has grown
	backoff time.Duration // the latest wait, at its longest, after a refusal that asked for none; 0 if nothing was refused since an answer
	enough  time.Duration // the one that an answer followed

	last    time.Time // when the last request was sent
	number  int64     // of the last request, from 1
	learnt  int64     // the last request when the present state was learnt
	refused int64     // the last request when a refusal was last heeded
	silent  int64     // answers, and failures, that said nothing of what remains
	under   trips     // requests under way

	advice Advice // from the most recent response that said anything
}

// A budget is a limit of requests in force.
type budget struct {
	left   float64   // requests that may still be sent; a part of one waits for the end
	end    time.Time // of the window; zero if that is not said, or over
	from   time.Time // requests under way that were sent earlier were not taken off; zero if all were
	number int64     // of the last request when this was learnt
}

// spent reports whether there is no whole request left.
func (b *budget) spent() bool { return b.left < 1 }

// over reports whether the window has ended.
func (b *budget) over(now time.Time) bool { return !b.end.IsZero() && !now.Before(b.end) }

// outlasts reports whether a budget is in force for longer than another.
func (b *budget) outlasts(c *budget) bool {
	return !c.end.IsZero() && (b.end.IsZero() || b.end.After(c.end))
}

// covers reports whether b allows nothing that c does not. One whose end is not said
// may be dropped at any time, so it covers none that has an end.
func (b *budget) covers(c *budget) bool {
	return b.left <= c.left && !c.outlasts(b) && (!b.end.IsZero() || c.end.IsZero())
}

// A trip is a request on its way.
type trip struct {
	number     int64
	silent     int64 // machine.silent when it was sent
	probe      bool
	at         time.Time
	prev, next *trip // under way, by number
}

// trips is a list of requests under way in the order in which they were sent.
type trips struct {
	first, last *trip
	n           int
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
}

// since returns how many were sent after a time.
func (l *trips) since(after time.Time) int {
	n := l.n
	for t := l.first; t != nil && !t.at.After(after); t = t.next {
		n--
	}
	return n
}

// A verdict says whether a request may be sent.
type verdict struct {
	open  bool
	until time.Time // if not open: when to ask again at the latest
	// certain is true if no answer to a request under way can open the gate
	// earlier.
	certain bool
	// polite is true if waiting is a courtesy. A request whose deadline comes
	// earlier goes at once.
	polite bool
	step   time.Duration // polite: the time between that request and the next
}

// hurries reports whether a request with a deadline goes at once because politeness
// would make it miss that, behind as many as are ahead of it.
func (v *verdict) hurries(deadline time.Time, ahead int) bool {
	return v.polite && !deadline.IsZero() && deadline.Before(v.until.Add(scale(v.step, float64(ahead))))
}

// tick is the passage of time.
func (m *machine) tick(now time.Time, r *settings) {
	switch m.phase {
	case unknown:
		if m.sent > 0 && !now.Before(m.since.Add(firstWait)) {
			m.phase = counting
		}
	case waiting:
		if now.Before(m.until) {
			return
		}
		m.phase = counting
		if m.careful {
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
// nobody can tell that there is less (draft-11 Section 8.4).
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

// stuck drops budgets of which nothing is left, if nobody says until when, or for
// longer than anyone waits. It reports whether there were any.
func (m *machine) stuck(now time.Time, r *settings) bool {
	before := len(m.budgets)
	m.budgets = slices.DeleteFunc(m.budgets, func(b budget) bool {
		switch {
		case !b.spent():
			return false
		case b.end.IsZero():
			return m.under.n == 0 || !now.Before(m.last.Add(waveTime))
		}
		return !now.Before(m.last.Add(r.maxWait))
	})
	return len(m.budgets) < before
}

// probe begins to probe: nothing is known but that there was nothing left.
func (m *machine) probe() { m.phase, m.since, m.wave, m.sent = probing, time.Time{}, 0, 0 }

// ask returns whether a request may be sent now. The machine must have been told
// the time.
func (m *machine) ask(now time.Time, r *settings) verdict {
	switch m.phase {
	case waiting:
		return verdict{until: m.until, certain: true}
	case unknown:
		if most := max(1, int64(firstTrips*r.share)); m.sent >= most {
			return verdict{until: m.since.Add(firstWait), polite: true}
		}
	case probing:
		if end := m.since.Add(waveTime); float64(m.sent) >= m.wave && now.Before(end) {
			return verdict{until: end}
		}
	}
	if v := m.askBudgets(r); !v.open {
		return v
	}
	if m.most > 0 && m.under.n >= m.most { // some of which may hang
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

// askBudgets returns whether something is left of every budget.
func (m *machine) askBudgets(r *settings) verdict {
	v := verdict{open: true}
	for i := range m.budgets {
		b := &m.budgets[i]
		if !b.spent() {
			continue
		}
		v.open = false
		end := m.last.Add(r.maxWait)
		switch {
		case b.end.IsZero():
			end = m.last.Add(waveTime)
		case b.end.Before(end):
			end = b.end
		}
		if end.After(v.until) {
			v.until = end
		}
	}
	v.certain = m.under.n == 0
	return v
}

// send counts a request as sent.
func (m *machine) send(t *trip, now time.Time) {
	m.number++
	m.last = now
	*t = trip{number: m.number, silent: m.silent, probe: m.phase == probing, at: now}
	switch m.phase {
	case unknown:
		if m.sent == 0 {
			m.since = now
		}
		m.sent++
	case probing:
		if !now.Before(m.since.Add(waveTime)) {
			m.wave, m.sent, m.since = max(1, 2*m.wave), 0, now
		}
		m.sent++
	}
	for i := range m.budgets {
		m.budgets[i].left--
	}
	m.under.push(t)
}

// failed says that a request got no answer. It may have been served. Where others
// wait for its answer, one of them goes in its place.
func (m *machine) failed(t *trip) {
	m.under.remove(t)
	m.silent++
	if (m.phase == unknown || m.phase == probing) && !t.at.Before(m.since) { // not one of an earlier wave
		m.sent--
	}
}

// answered learns from an answer.
func (m *machine) answered(t *trip, a *Advice, received time.Time, r *settings) {
	m.under.remove(t)
	if !a.Refused && (m.phase == unknown || m.phase == probing) {
		m.phase = counting
	}
	if a.Refused {
		m.shrink(t, a)
	} else if t.number > m.refused {
		m.recovered()
		m.regrow()
	}
	wait := m.waitOf(t, a, r)
	budgets, said := m.budgetsOf(t, a, received, r)
	newer := t.number > m.learnt
	if said {
		m.giveBack(t, r)
	}
	if wait == 0 && len(budgets) == 0 && !said {
		m.silent++
		return
	}
	if newer {
		m.phase, m.pace, m.budgets = counting, 0, m.budgets[:0]
	}
	stricter := wait > 0 && m.wait(received.Add(wait), a.Refused || a.Fields.exhausted())
	m.pace = max(m.pace, scale(a.Pace, 1/r.share))
	for i := range budgets {
		stricter = m.add(budgets[i]) || stricter
	}
	if newer || stricter {
		m.learnt, m.advice = m.number, kept(a)
	}
}

// wait makes the key wait until a time, and probe afterwards if it has to be
// careful. It reports whether that is later than what was known.
func (m *machine) wait(until time.Time, careful bool) bool {
	if m.phase != waiting {
		m.phase, m.until, m.careful = waiting, until, careful
		return true
	}
	m.careful = m.careful || careful
	if !until.After(m.until) {
		return false
	}
	m.until = until
	return true
}

// waitOf returns how long an answer makes the key wait. A refusal that asks for no
// wait backs off, once for all requests that were under way together. So does a
// refused probe of a shared quota, in addition to the wait: others probe as well.
func (m *machine) waitOf(t *trip, a *Advice, r *settings) time.Duration {
	wait := min(a.Wait, r.maxWait)
	if !a.Refused || t.number <= m.refused {
		return wait
	}
	m.refused = m.number
	if wait > 0 && r.share == 1 {
		m.backoff = 0
		return wait
	}
	m.backoff = m.nextBackoff()
	return min(wait+m.backoff/2+rand.N(m.backoff/2), r.maxWait)
}

// nextBackoff doubles the wait, but begins with half of what was enough the last
// time, and grows by a quarter until then.
func (m *machine) nextBackoff() time.Duration {
	d := m.enough / 2
	switch {
	case m.backoff == 0:
	case m.backoff < m.enough:
		d = m.backoff + m.backoff/4
	default:
		d = 2 * m.backoff
	}
	return min(max(d, leastBackoff), mostBackoff)
}

// recovered ends the backoff: there was an answer that is no refusal.
func (m *machine) recovered() {
	if m.backoff > 0 {
		m.enough, m.backoff = m.backoff, 0
	}
}

// shrink halves the number of requests that may be under way, once for all that
// were under way together, after a refusal that no limit with nothing remaining
// explains: a limit on concurrency, say.
func (m *machine) shrink(t *trip, a *Advice) {
	if t.number <= m.refused || t.probe || a.Fields.exhausted() {
		return
	}
	m.ceiling = m.under.n + 1
	m.most, m.round = max(1, m.ceiling/2), 0
}

// regrow lets one more be under way after a round: as many answers as may be under
// way. With one less than were refused, and with as many, it goes on for many rounds:
// each refusal costs a wait.
func (m *machine) regrow() {
	if m.most == 0 {
		return
	}
	round := m.most
	if m.most > 1 && (m.most == m.ceiling-1 || m.most == m.ceiling) {
		round *= calmRounds
	}
	if m.round++; m.round >= round {
		m.most, m.round = m.most+1, 0
	}
}

// budgetsOf returns the limits of a that count requests, and whether a says how
// much remains of any. Retry-After takes the place of limits with nothing remaining
// (draft-11 Section 7).
func (m *machine) budgetsOf(t *trip, a *Advice, received time.Time, r *settings) (list []budget, said bool) {
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		policy := policies.policy(l)
		if l.Remaining < 0 || !policy.Unit.countsRequests() {
			continue
		}
		said = true
		remaining := l.Remaining
		if l.exhausted(policy) {
			remaining = 0
		}
		if remaining == 0 && a.Source == SourceRetryAfter {
			continue
		}
		window := l.Reset
		if !window.ok {
			window = policy.Window
		}
		list = append(list, m.budgetOf(t, remaining, window, received, r))
	}
	return list, said
}

// budgetOf returns what may be sent of a limit, until its window ends if that is
// known. Requests that are still under way, and were sent no longer before the
// answer than the window lasts, may not be counted in it yet; neither may those
// that have been answered meanwhile without a word. Older ones are: whoever
// subtracts them again halves the rate of a server whose answers take longer than
// its windows.
func (m *machine) budgetOf(t *trip, remaining int64, window Seconds, received time.Time, r *settings) (b budget) {
	d, known := window.Duration()
	if known && d == 0 && remaining > 0 {
		d = time.Second // it has been rounded down, or is that of a slow clock
	}
	b.number = m.number
	if known {
		b.end, b.from = received.Add(d), received.Add(-d)
	}
	left := remaining - int64(m.under.since(b.from)) - (m.silent - t.silent)
	b.left = float64(left) * r.share
	return b
}

// giveBack returns what a request took of each budget, because its answer says what
// remains: either it was served before the answer from which the budget was learnt,
// and is counted in that, or its own answer is the stricter one.
func (m *machine) giveBack(t *trip, r *settings) {
	for i := range m.budgets {
		switch b := &m.budgets[i]; {
		case t.number > b.number:
			b.left++
		case t.at.After(b.from):
			b.left += r.share
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
	if slices.ContainsFunc(m.budgets, func(c budget) bool { return c.covers(&b) }) {
		return false
	}
	m.budgets = slices.DeleteFunc(m.budgets, func(c budget) bool { return b.covers(&c) })
	if len(m.budgets) < maxBudgets {
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

// kept returns of an advice only what is remembered. It holds no memory of the
// response.
func kept(a *Advice) Advice {
	k := *a
	k.Fields = Fields{}
	k.Limit.Params, k.Limit.PartitionKey = nil, nil
	k.Limit.Name = strings.Clone(k.Limit.Name[:min(len(k.Limit.Name), maxKeptName)])
	return k
}

// idle reports whether nothing is lost with a machine that has not been used for
// some time.
func (m *machine) idle(now time.Time, r *settings) bool {
	return now.Sub(m.last) > idleTime && m.loss(now, r) == nothingLost
}

// loss returns what would be lost with a machine.
func (m *machine) loss(now time.Time, r *settings) loss {
	if m.phase == waiting && now.Before(m.until) {
		return waitLost
	}
	used := now.Sub(m.last) <= idleTime
	most := nothingLost
	if m.most > 0 && used {
		most = countLost
	}
	for i := range m.budgets {
		switch b := &m.budgets[i]; {
		case b.over(now) || b.end.IsZero() && !used:
		case b.spent() && !b.end.IsZero() && now.Before(m.last.Add(r.maxWait)):
			return waitLost
		default:
			most = countLost
		}
	}
	return most
}
