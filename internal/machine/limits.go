package machine

import (
	"math"
	"slices"
	"strings"
	"time"
)

// maxBudgets is the number of limits of a key that are counted. Further limits are obeyed
// when nothing remains of them.
const maxBudgets = 16

// A budget is a limit of requests in force.
type budget struct {
	policy string
	left   float64   // requests that may still be sent; a part of one waits for the end
	end    time.Time // of the window; zero if it is unknown, or over
	from   time.Time // in-flight requests sent after this were subtracted from left; zero means all of them
	number int64     // the last request when this was learnt
	steady *steady   // nil if answers arrive in time to show what is left
}

// A steady budget fills up at the end of each window of its policy. It is for answers that
// take longer than a window: their windows are over when they arrive, and to wait for each
// answer would use only a part of the quota.
type steady struct {
	quota  float64
	window time.Duration
}

// stale reports whether the window of a limit of requests is over before an answer that
// announces the limit can arrive.
func (s *Stock) stale(fastest time.Duration) bool {
	return s.Unit == RequestUnit && s.Quota > 0 && 0 < s.Window && s.Window <= fastest
}

// isStale reports whether an answer that refuses nothing has stale limits of requests, and
// no other limit that is exhausted.
func (a *Answer) isStale(fastest time.Duration) bool {
	return !a.Refused && !a.RetryAfter && a.limitsRequests() && !slices.ContainsFunc(a.Stocks, func(s Stock) bool {
		return !s.stale(fastest) && (s.Unit == RequestUnit || s.Left == 0)
	})
}

// learnStale makes the limits of requests of a stale answer steady budgets.
func (l *budgets) learnStale(a *Answer, received time.Time, r *Settings, sent *traffic) (stricter bool) {
	*l = slices.DeleteFunc(*l, func(b budget) bool { return b.steady == nil })
	for i := range a.Stocks {
		s := &a.Stocks[i]
		known := func(b budget) bool {
			return b.policy == s.Policy && b.steady.quota == float64(s.Quota) && b.steady.window == s.Window
		}
		if s.Unit != RequestUnit || len(*l) == maxBudgets || slices.ContainsFunc(*l, known) {
			continue
		}
		b := budget{policy: strings.Clone(s.Policy), number: sent.number, end: received.Add(s.Window), steady: &steady{float64(s.Quota), s.Window}}
		b.left = float64(s.Quota)*r.Share - requestsSince(&sent.under, s.Policy, received.Add(-s.Window))
		*l, stricter = append(*l, b), true
	}
	return stricter
}

// budgets are the limits of requests in force of a key.
type budgets []budget

// over reports whether the window has ended.
func (b *budget) over(now time.Time) bool { return !b.end.IsZero() && !now.Before(b.end) }

// outlasts reports whether a budget is in force for longer than another.
func (b *budget) outlasts(c *budget) bool {
	return !c.end.IsZero() && (b.end.IsZero() || c.end.Before(b.end))
}

// covers reports whether b allows nothing that c forbids. A budget without an end can be
// dropped early, so it never replaces a budget with an end.
func (b *budget) covers(c *budget) bool {
	return b.policy == c.policy && b.left <= c.left && !c.outlasts(b) && (!b.end.IsZero() || c.end.IsZero())
}

// ask makes a verdict wait if less is left of some budget than a request takes.
func (l *budgets) ask(v *Verdict, now time.Time, r *Settings, prices []Price, sent *traffic) {
	for i := range *l {
		b := &(*l)[i]
		need := Takes(prices, RequestUnit, b.policy)
		if need == 0 || b.left >= need {
			continue
		}
		end, known := sent.last.Add(r.MaxWait), true
		switch {
		case b.end.IsZero():
			end, known = sent.last.Add(waveTime), false
			if sent.under.n == 0 { // a request that takes more than is left goes as a probe
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

// expire ends the windows whose time has come, and reports whether a window ended with
// nothing left. A budget with something left stays in force without an end, because no
// answer has shown that less is left (draft-11 Section 8.4).
func (l *budgets) expire(now time.Time, r *Settings) (spent bool) {
	for i := range *l {
		if b := &(*l)[i]; b.steady != nil && b.over(now) {
			b.left, b.end = b.steady.quota*r.Share, now.Add(b.steady.window)
		}
	}
	*l = slices.DeleteFunc(*l, func(b budget) bool {
		drop := b.over(now) && b.left <= 0
		spent = spent || drop
		return drop
	})
	for i := range *l {
		if b := &(*l)[i]; b.over(now) {
			b.left, b.end = max(b.left, 1), time.Time{}
		}
	}
	return spent
}

// stuck drops budgets with nothing left whose end is unknown, or further away than MaxWait.
// It reports whether there were such budgets.
func (l *budgets) stuck(now time.Time, r *Settings, sent *traffic) bool {
	before := len(*l)
	*l = slices.DeleteFunc(*l, func(b budget) bool {
		switch {
		case b.left >= 1:
			return false
		case b.end.IsZero():
			return sent.under.n == 0 || !now.Before(sent.last.Add(waveTime))
		}
		return !now.Before(sent.last.Add(r.MaxWait))
	})
	return len(*l) < before
}

// budgetOf returns what may be sent of a limit, until its window ends if the answer
// contains the end. The server may not have counted requests that were sent within one
// window of this answer, so budgetOf subtracts the requests under way, and the requests
// that failed meanwhile. Otherwise "fixed window, says twice what remains" of
// docs/simulation.md would cost 28 refused requests in place of 25. The server has counted
// older requests. To subtract them again would halve the rate of a server whose answers take
// longer than its windows.
func budgetOf(t *Trip, s *Stock, received time.Time, r *Settings, sent *traffic) (b budget) {
	d := s.Reset
	if s.Ends && d == 0 && s.Left > 0 {
		// Servers round resets down, or have a slow clock and send no Date: then 50 per 10 s
		// in X-RateLimit with a Unix reset would cost 71 refused requests in place of 25.
		d = time.Second
	}
	b.number, b.policy = sent.number, s.Policy
	if s.Ends {
		b.end, b.from = received.Add(d), received.Add(-d)
	}
	left := float64(s.Left) - requestsSince(&sent.under, s.Policy, b.from) - float64(sent.failed-t.failed)
	b.left = left * r.Share
	return b
}

// send subtracts what a request takes.
func (l budgets) send(t *Trip) {
	for i := range l {
		l[i].left -= Takes(t.Prices, RequestUnit, l[i].policy)
	}
}

// learn updates the budgets from an answer, and reports whether they allow less than before.
// A newer answer replaces all budgets.
func (l *budgets) learn(t *Trip, a *Answer, newer bool, received time.Time, r *Settings, sent *traffic) (stricter bool) {
	switch {
	case newer:
		*l = (*l)[:0]
	case a.limitsRequests():
		l.giveBack(t, r)
	}
	for i := range a.Stocks {
		if s := &a.Stocks[i]; s.Unit == RequestUnit && !(a.RetryAfter && s.Left == 0) {
			stricter = l.add(budgetOf(t, s, received, r, sent)) || stricter
		}
	}
	return stricter
}

// add adds a budget, and reports whether it allows less than the others.
func (l *budgets) add(b budget) bool {
	if slices.ContainsFunc(*l, func(c budget) bool { return c.covers(&b) }) {
		return false
	}
	*l = slices.DeleteFunc(*l, func(c budget) bool { return b.covers(&c) })
	n := len(*l)
	if n == maxBudgets {
		return false
	}
	var was string // the name that was in that place before
	if n < cap(*l) {
		was = (*l)[:n+1][n].policy
	}
	b.policy = keptText(b.policy, was)
	*l = append(*l, b)
	return true
}

// giveBack adds what a request took to each budget, because its own answer contains what
// remains. If the server counted the request before the answer from which the budget was
// learnt, that answer already includes it. Otherwise the request's own answer is stricter.
func (l *budgets) giveBack(t *Trip, r *Settings) {
	for i := range *l {
		switch b := &(*l)[i]; {
		case b.steady != nil:
		case t.number > b.number:
			b.left += Takes(t.Prices, RequestUnit, b.policy)
		case b.from.Before(t.at):
			b.left += Takes(t.Prices, RequestUnit, b.policy) * r.Share
		}
	}
}

// requestsSince returns what the trips that began after a time take of a limit of
// requests.
func requestsSince(l *trips, policy string, after time.Time) float64 {
	t, n := l.first, 0.0
	if l.priced == 0 { // each takes one, and most began after that time
		for n = float64(l.n); t != nil && !after.Before(t.at); t = t.next {
			n--
		}
		return n
	}
	for ; t != nil; t = t.next {
		if after.Before(t.at) {
			n += Takes(t.Prices, RequestUnit, policy)
		}
	}
	return n
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

// A meter is a limit in another unit than requests: tokens of a model, bytes, points. A
// request takes its prices. The prices of requests under way are subtracted from what an
// answer announces, and what flows in afterwards is added.
//
// Meters do not replace budgets. A flow that is estimated for requests refuses what windows
// allow, and waits for answers that take longer than the window: a bucket of 5/s with
// answers of 3 s needs 56 s in place of 24.
type meter struct {
	unit, policy string
	quota        float64   // 0 if it is not known
	left         float64   // of the caller's share, at the time at
	at           time.Time // when left was true
	end          time.Time // of the window; zero if it is unknown
	asked        time.Time // when the request was sent from whose answer left was learnt
	learnt       int64     // the last request when that answer came
	sent         float64   // what all requests but refused ones have taken
	flow         flow
}

// meters are the limits of a key in other units than requests, as far as requests have
// prices in these units.
type meters []meter

// of returns the meter of a limit, a new one if there is none yet, with what a request
// takes that is no longer under way; nil if there are too many.
func (l *meters) of(s *Stock, own float64, sent *traffic) *meter {
	for i := range *l {
		if x := &(*l)[i]; x.policy == s.Policy && x.unit == s.Unit {
			return x
		}
	}
	if len(*l) == maxBudgets {
		return nil
	}
	x := meter{unit: strings.Clone(s.Unit), policy: strings.Clone(s.Policy), quota: float64(s.Quota), sent: own}
	for u := sent.under.first; u != nil; u = u.next {
		x.sent += Takes(u.Prices, s.Unit, s.Policy)
	}
	*l = append(*l, x)
	return &(*l)[len(*l)-1]
}

// ask makes a verdict wait if less is left in some meter than a request takes.
func (l meters) ask(v *Verdict, now time.Time, r *Settings, prices []Price, sent *traffic) {
	for i := 0; i < len(l) && prices != nil; i++ {
		l[i].ask(v, now, r, prices, sent)
	}
}

// ask makes a verdict wait until enough has flowed into a meter, or else until its window
// ends. If the end is unknown, one request goes, and the other requests wait for its answer.
func (x *meter) ask(v *Verdict, now time.Time, r *Settings, prices []Price, sent *traffic) {
	need := x.need(prices, r)
	missing := need - x.now(now, r)
	if missing <= 0 || need == 0 {
		return
	}
	until, known := sent.hung(r), false
	rate := x.flow.rate() * r.Share
	switch {
	case rate > 0:
		until, known = now.Add(scale(time.Second, missing/rate)), true
	case now.Before(x.end):
		until, known = x.end, true
	case sent.under.priced == 0:
		return
	}
	if latest := sent.last.Add(r.MaxWait); latest.Before(until) {
		until = latest
	}
	if now.Before(until) {
		v.later(until, known)
	}
}

// need returns how much must be left for a request: what it takes, but at most what a
// full limit holds.
func (x *meter) need(prices []Price, r *Settings) float64 {
	units := Takes(prices, x.unit, x.policy)
	if x.quota > 0 {
		units = min(units, x.quota*r.Share)
	}
	return units
}

// now returns what is left at a time.
func (x *meter) now(now time.Time, r *Settings) float64 {
	left := x.left + x.flow.rate()*r.Share*max(now.Sub(x.at), 0).Seconds()
	if x.quota > 0 {
		left = min(left, max(x.quota*r.Share, x.left))
	}
	return left
}

// send subtracts what a request takes.
func (l meters) send(t *Trip, now time.Time, r *Settings) {
	for i := range l {
		x := &l[i]
		need := x.need(t.Prices, r)
		x.left, x.at = x.now(now, r)-need, now
		x.sent += need
	}
}

// learn updates the meters from an answer. It updates only meters from which the request
// has taken something.
func (l *meters) learn(t *Trip, a *Answer, received time.Time, r *Settings, sent *traffic) {
	for i := range a.Stocks {
		s := &a.Stocks[i]
		own := Takes(t.Prices, s.Unit, s.Policy)
		if s.Unit == RequestUnit || own == 0 {
			continue
		}
		if x := l.of(s, own, sent); x != nil {
			x.fill(t, s, a.Refused, received, r, sent)
		}
	}
}

// fill sets a meter to what an answer announces. If the request was sent before the meter was
// learnt, fill gives back its price, and otherwise only lowers the meter: the server may have
// counted other requests under way, or not.
func (x *meter) fill(t *Trip, s *Stock, refused bool, received time.Time, r *Settings, sent *traffic) {
	own := x.need(t.Prices, r)
	if refused {
		x.sent -= own
	}
	var under, newer float64
	for u := sent.under.first; u != nil; u = u.next {
		if u.Prices == nil {
			continue
		}
		need := x.need(u.Prices, r)
		under += need
		if u.number > t.number {
			newer += need
		}
	}
	left, grain := s.lowerBound()
	x.flow.note(s)
	if !t.unordered {
		x.flow.learn(t.at, left, x.sent-newer, grain, x.quota > 0 && left+own >= x.quota)
	}
	if t.number <= x.learnt {
		since := max(x.asked.Sub(t.at), 0).Seconds()
		x.left, x.at = x.now(received, r)+own*r.Share, received
		x.left = min(x.left, (left+x.flow.rate()*since-under)*r.Share)
		if end := received.Add(s.Reset); s.Ends && !x.end.IsZero() && x.end.Before(end) {
			x.end = end
		}
		return
	}
	x.quota, x.asked, x.learnt = float64(s.Quota), t.at, sent.number
	x.left, x.at, x.end = (left-under)*r.Share, received, time.Time{}
	if s.Ends {
		x.end = received.Add(s.Reset)
	}
}

// A flow is how fast units flow back into a limit.
type flow struct {
	policy float64       // units a second, by the policy's window; 0 if that is not known
	reset  float64       // by the reset, if that is when all are back; 0 if that is not known
	until  time.Duration // the reset
	agreed int           // answers in succession with the same flow by their resets
	shown  float64       // units a second, as answers have shown
	times  int           // how many answers have shown it
	// The answer with which the next answer is compared: when its request was sent, what
	// was left, and what all requests until then had taken. The time is zero if there is
	// no such answer.
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

// note stores the flow that a limit announces.
func (f *flow) note(s *Stock) {
	was := f.reset
	f.policy, f.reset, f.until = 0, 0, s.Reset
	if s.Window > 0 {
		f.policy = float64(s.Quota) / s.Window.Seconds()
	}
	if s.Quota > s.Left && s.Ends && s.Reset > 0 {
		f.reset = float64(s.Quota-s.Left) / s.Reset.Seconds()
	}
	if f.agreed++; math.Abs(f.reset-was) > was/20 {
		f.agreed = 0
	}
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

// keptText returns a text that holds no memory of the response: the remembered one, if
// it is the same, else a copy.
func keptText(text, remembered string) string {
	if text == remembered {
		return remembered
	}
	return strings.Clone(text)
}
