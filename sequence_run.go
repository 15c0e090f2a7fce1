package ratelimit

import (
	"math"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
)

// A run is what a Sequence remembers of a policy and its limit.
type run struct {
	announced bool  // as a current policy
	terms     terms // as it was announced

	quota       int64 // of the latest response
	last        told  // the latest response
	least, most int64 // by which the remaining units fell from one request to the next; 0 if they never did

	// anchor begins an epoch: the time until a second before its reset. Within an
	// epoch no window ends, whatever the limiter.
	anchor told
	spent  int // requests served in the epoch, after the anchor
	jumps  int // how often more came back in the epoch than any limiter gives back

	zero  told // the first response of those that say that nothing remains
	free  int  // requests served after it
	stall told // the first refusal since which the reset has not gone down
	stuck int  // refusals long after it
	fast  int  // how often in a row the reset went down too fast

	began  time.Time // of a span shorter than the window
	served int       // in this span
}

// told is what one response says of a limit.
type told struct {
	ok              bool
	remaining       int64
	reset           float64 // in seconds
	sent, received  time.Time
	served, refused bool
}

// passedSince returns the seconds between the requests of two responses, as many and
// as few as they can be.
func (t *told) passedSince(u *told) (most, least float64) {
	return t.received.Sub(u.sent).Seconds(), t.sent.Sub(u.received).Seconds()
}

// fell reports whether the reset has gone down with the clock since u, so that it is
// not that of a sliding log which tells when all is back: there every request begins
// the time anew.
func (t *told) fell(u *told) bool { return t.reset <= u.reset-2 }

// stays reports whether the reset has not gone down although time has passed since u.
func (t *told) stays(u *told) bool {
	const enough = 2
	_, passed := t.passedSince(u)
	return passed >= enough && t.reset > u.reset-passed+enough
}

// horizon returns for how many seconds after t no window ends.
func (x *exchange) horizon(t *told, p *Policy) float64 {
	h := t.reset
	if p.Window.ok {
		h = min(h, float64(p.Window.n))
	}
	return h - x.slack()
}

// limit checks l, whose policy is p, against what is remembered of it.
func (x *exchange) limit(r *run, l *Limit, p *Policy, item int) {
	now := told{true, l.Remaining, float64(l.Reset.n), x.sent, x.received, x.served && !x.refused, x.refused}
	at := &place{exchange: x, run: r, policy: p, now: &now, name: l.Name, item: item}
	at.cost()
	at.exceeded()
	at.short()
	if l.Reset.ok {
		at.remaining()
		at.exhausted()
		at.refusals()
		at.speed()
	}
	r.last, r.quota = now, p.Quota
}

// A place is a limit of a response, while it is checked.
type place struct {
	*exchange
	*run
	policy *Policy
	now    *told
	name   string
	item   int
}

// fault adds a finding about the number of a role. It is certain only if the
// requests concern the limit: one of several that never falls may be that of others.
func (at *place) fault(index int, certain bool, role Role) {
	concerned := at.most > 0 || len(at.advice.Fields.Limits) == 1
	field, whose := LimitField, at.item
	if role == RoleQuota {
		field, whose = PolicyField, -1
	}
	name, item := at.field(field, at.name, role, whose)
	at.add(index, certain && concerned, name, item)
}

// unixTime checks that a current reset is no point in time. ParseAny takes an older
// one for what it is.
func (x *exchange) unixTime(l *Limit, item int) {
	if !x.isCurrent() || !l.Reset.ok {
		return
	}
	now := x.received.UnixMilli()
	near := func(ms int64) bool { return max(ms-now, now-ms) <= text.Month.Milliseconds() }
	if near(l.Reset.n) || l.Reset.n <= math.MaxInt64/1000 && near(l.Reset.n*1000) {
		x.judge(ruleUnixTime, LimitField, item)
	}
}

// cost notes by how much a request lowers what remains. Answers that were lost look
// like requests that cost more.
func (at *place) cost() {
	fall := at.last.remaining - at.now.remaining
	if !at.last.ok || !at.now.served || fall <= 0 || at.overlaps > 0 {
		return
	}
	if at.least == 0 || fall < at.least {
		at.least = fall
	}
	at.most = max(at.most, fall)
	if at.least < at.most && at.Alone {
		at.fault(ruleUneven, false, RoleRemaining)
	}
}

// remaining checks that what remains falls by what is spent. Without a fault no more
// than this can have come back in an epoch:
//
//   - of a window, or of a log that tells when the next entry leaves it: nothing;
//   - of a bucket, or of a weighted window: as much as would fill it by the reset,
//     and one for what is rounded;
//   - of a log that tells when all is back: all that was used before the epoch.
func (at *place) remaining() {
	r, a, now := at.run, &at.anchor, at.now
	most, least := now.passedSince(a)
	h := at.horizon(a, at.policy)
	if !a.ok || most >= h {
		r.anchor, r.spent, r.jumps = *now, 0, 0
		return
	}
	if now.served && !now.sent.Before(a.received) {
		r.spent++
	}
	n, quota := r.spent-at.pending, float64(at.policy.Quota)
	if n < 1 {
		return
	}
	part, spent := most/h, float64(n)
	flown := float64(a.remaining) - spent + 1 + max(quota-float64(a.remaining)+1, 1)*part
	if a.served {
		n++
	}
	cleared := math.Ceil(quota - float64(n)*(1-part))
	remains := float64(now.remaining)
	stays := n > 3 && least >= 3 && now.reset >= a.reset
	switch jumped := remains > float64(r.last.remaining)+1; {
	case remains <= flown && stays:
		at.fault(ruleStays, false, RoleReset)
	case remains <= flown || spent < 3 && !jumped:
	case !jumped:
		at.fault(ruleSpent, remains > cleared || now.served && now.fell(a), RoleRemaining)
	case remains > cleared && r.last.stays(a):
		at.fault(ruleClock, true, RoleReset)
		r.anchor, r.spent = *now, 0
	default:
		r.jumps++ // a reset that is too long, as one that is jittered, explains a few
		at.fault(ruleSpent, remains > cleared && r.jumps >= 3, RoleRemaining)
		r.anchor, r.spent = *now, 0
	}
}

// exhausted checks that requests are refused while nothing remains.
func (at *place) exhausted() {
	r, z, now := at.run, &at.zero, at.now
	most, _ := now.passedSince(z)
	h := at.horizon(z, at.policy)
	switch {
	case now.remaining > 0:
		r.zero = told{}
		return
	case !z.ok || most >= h:
		r.zero, r.free = *now, 0
		return
	case !now.served || now.sent.Before(z.received):
		return
	}
	r.free++
	quota := float64(at.policy.Quota)
	if free := float64(r.free); free >= 2 && free > quota*most/h+1 {
		at.fault(ruleServed, free > quota || now.fell(z), RoleRemaining)
	}
}

// refusals checks that the reset goes down while requests are refused, which begin no
// time anew: a limiter that counts refused ones as well does not serve before the end
// it tells. One answer that was lost may have raised it, so that it is enough that it
// goes down at all.
func (at *place) refusals() {
	const often, long = 4, 4
	r, now := at.run, at.now
	most, least := now.passedSince(&r.stall)
	switch {
	case !now.refused:
		if r.stuck >= often && r.last.refused && r.last.reset-now.received.Sub(r.last.sent).Seconds() > 2*at.slack() {
			at.fault(ruleClock, true, RoleReset)
		}
		r.stall, r.stuck = told{}, 0
	case now.remaining > 0 || !r.stall.ok || now.reset < r.last.reset || most >= at.horizon(&r.stall, at.policy):
		r.stall, r.stuck = *now, 0
	case least >= long:
		if r.stuck++; r.stuck >= often {
			at.fault(ruleStays, false, RoleReset)
		}
	}
}

// speed checks that the reset does not go down faster than the clock, as one in
// milliseconds does.
func (at *place) speed() {
	const often, tenfold = 8, 10
	r, now := at.run, at.now
	most, _ := now.passedSince(&r.last)
	if !r.last.ok || now.remaining > r.last.remaining || r.last.reset-now.reset <= tenfold*most+2*at.slack() {
		r.fast = 0
		return
	}
	if r.fast++; r.fast >= often {
		at.fault(ruleFast, true, RoleReset)
	}
}

// exceeded checks that no more is served in less than a window than two windows
// allow, or a full bucket and what flows in.
func (at *place) exceeded() {
	r, now := at.run, at.now
	if !at.policy.Window.ok || at.policy.Quota > math.MaxInt/4 {
		return
	}
	if r.began.IsZero() || now.received.Sub(r.began).Seconds() >= float64(at.policy.Window.n)-at.slack() {
		r.began, r.served = now.sent, 0
	}
	if now.served {
		r.served++
	}
	if r.served > int(2*at.policy.Quota+1) {
		at.fault(ruleExceeded, true, RoleQuota)
	}
}

// short checks that all is there after two windows in which nothing was asked: a
// weighted window needs two.
func (at *place) short() {
	const lost = 5 // answers that may have been lost meanwhile
	w, ok := at.policy.Window.Duration()
	if !ok || !at.last.ok || w > math.MaxInt64/4 || at.idle < 2*w+2*time.Second {
		return
	}
	if remains, spent := float64(at.now.remaining), lost*float64(max(at.most, 1)); remains+spent < float64(at.policy.Quota) {
		at.fault(ruleShort, remains < float64(at.policy.Quota)/2, RoleQuota)
	}
}

// calm is the latest response that was served, as long as nothing has happened
// since that could explain a refusal.
type calm struct {
	ok       bool
	spare    spare
	received time.Time
	early    int // refusals with something remaining before
	inTime   int // and with nothing
}

// spare is how many more requests a response leaves.
type spare struct {
	requests int64
	priced   bool // what a request costs is known of each limit
	all      bool // every limit is told, not the tightest alone
}

// early checks that a request is refused only when nothing remains.
func (x *exchange) early() {
	const few, lost = 3, 5 // lost is how many answers in a row may have been lost
	now, says := x.spare()
	if !x.refused {
		if says {
			x.calm.ok, x.calm.spare, x.calm.received = true, now, x.received
		}
		return
	}
	before := x.calm
	x.calm.ok = false
	if says && now.requests > 0 { // the refusal itself says so
		x.refusedEarly(now.priced && (now.all || now.requests >= lost))
		return
	}
	if !before.ok || x.overlaps > 0 || x.added < few || x.sent.Before(before.received) {
		return
	}
	then := before.spare
	if then.requests == 0 {
		x.calm.inTime++
		return
	}
	x.calm.early++
	often := x.calm.early >= few && x.calm.early > x.calm.inTime
	x.refusedEarly(then.priced && (then.requests >= lost || then.all && often) || x.complete())
}

func (x *exchange) refusedEarly(certain bool) {
	field := LimitField
	if len(x.advice.Fields.Limits) > 0 {
		field, _ = x.field(LimitField, x.advice.Fields.Limits[0].Name, RoleRemaining, 0)
	}
	x.add(ruleEarly, certain, field, -1)
}

// spare returns how many more requests the response leaves. ok is false if it does not
// say, or has a limit in a unit that may refuse requests while some of it is left.
func (x *exchange) spare() (s spare, ok bool) {
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	s = spare{math.MaxInt64, true, x.isCurrent()}
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		cost, unit := int64(0), p.Unit.canonical()
		if r := x.run(p); r != nil {
			cost = r.most
		}
		switch {
		case l.exhausted(p):
			s.requests = 0
		case unit == ConcurrentRequests:
			s.requests = min(s.requests, l.Remaining)
		case l.Remaining == Unknown || unit != Requests:
			return spare{}, false
		default:
			s.requests = min(s.requests, l.Remaining/max(cost, 1))
			s.priced = s.priced && cost > 0
		}
	}
	return s, len(f.Limits) > 0
}

// complete reports whether a whole quota was served in an epoch that said at its end
// that something remains, so that no lost answer explains a refusal.
func (x *exchange) complete() bool {
	for _, r := range x.runs {
		n, a := r.spent, &r.anchor
		if a.served {
			n++
		}
		most, _ := r.last.passedSince(a)
		if a.ok && r.quota > 0 && int64(n) >= r.quota && float64(n)*most < a.reset/2 {
			return true
		}
	}
	return false
}

// A promise is what the latest refusal says: when to come back.
type promise struct {
	ok           bool
	end          time.Time
	source       Source
	row          int // refusals after the end of such a promise, since a request was served
	broken, kept int
}

// promised checks that something comes back when a refusal says so.
func (x *exchange) promised() {
	o := &x.owed
	switch {
	case !x.refused:
		if o.ok && x.sent.After(o.end) {
			o.kept++
		}
		o.ok, o.row = false, 0
		return
	case x.advice.Source == SourceNone || x.counts(ConcurrentRequests):
		o.ok = false
		return
	}
	switch after := x.sent.Sub(o.end).Seconds(); {
	case !o.ok || after < -x.slack(): // what was said last counts
	case after < x.slack():
		return // this may be the end, or not yet
	default:
		o.row++
		o.broken++
		index, field := ruleNoMore, LimitField
		if o.source == SourceRetryAfter {
			index, field = ruleTooSoon, retryAfterKey
		}
		// A bucket gives back one at a time, which a request may have taken whose
		// answer was lost; three times in a row it is not that.
		x.add(index, o.row >= 3 && o.broken > o.kept && x.overlaps == 0, field, -1)
	}
	o.ok, o.end, o.source = true, x.received.Add(x.advice.Asked), x.advice.Source
}

// counts reports whether the response has a policy of a unit.
func (x *exchange) counts(unit Unit) bool {
	for i := range x.advice.Fields.Policies {
		if x.advice.Fields.Policies[i].Unit == unit {
			return true
		}
	}
	return false
}

// retryEarly notes a Retry-After before the reset of an older limit with nothing
// remaining. It may be that the reset tells when all is back, and Retry-After when
// the next unit is. For current limits Check has the rule.
func (x *exchange) retryEarly() {
	least, ok := x.advice.Fields.RetryAfter().Duration()
	if x.refused && ok && !x.isCurrent() && x.advice.Source == SourceRetryAfter && x.advice.Asked.Seconds()+x.slack() < least.Seconds() {
		x.add(ruleBefore, false, retryAfterKey, -1)
	}
}
