package ratelimit

import (
	"math"
	"time"
)

// sequenceRules are the rules that a Sequence checks. Each is a note unless a
// Sequence raises it. CONFORMANCE.md has a row for each.
var sequenceRules = [...]rule{
	ruleSpent:    {"L5", LevelShould, "let " + remainingKey + " fall by what each request costs, because it stays higher than what was spent allows"},
	ruleUneven:   {"L5", LevelNote, "let " + remainingKey + " fall by the same for each request, because clients cannot tell what a request costs"},
	ruleClock:    {"L7", LevelShould, "let " + resetKey + " go down with the clock, because it stays the same, and more comes back before it is over"},
	ruleStays:    {"L7", LevelNote, "let " + resetKey + " go down with the clock, unless every request begins the time anew"},
	ruleFast:     {"L7", LevelShould, "write " + resetKey + " in seconds, because it goes down faster than the clock"},
	ruleUnixTime: {"L7", LevelShould, "write " + resetKey + " as seconds from now, because this is the present time since 1970"},
	ruleNoMore:   {"L7", LevelShould, "let something come back at the end of " + resetKey + ", because requests after it are refused again and again"},
	ruleTooSoon:  {"S3", LevelShould, "let Retry-After be no earlier than when a request is served, because requests after it are refused again and again"},
	ruleBefore:   {"6-8", LevelNote, "let Retry-After be no earlier than the reset, because they should be the same point in time"},
	ruleEarly:    {"L5", LevelShould, "let " + remainingKey + " be 0 before a request is refused, because something remained"},
	ruleServed:   {"L5", LevelShould, "refuse requests when " + remainingKey + " is 0, or say what remains, because more were served than can have come back"},
	ruleExceeded: {"P6", LevelShould, "let " + quotaKey + " be the quota that is applied, because more than twice of it was served within a window"},
	ruleShort:    {"P6", LevelShould, "let " + quotaKey + " be the quota that is applied, because much less remains after a window in which nothing was asked"},
	ruleChanged:  {"P3", LevelShould, "let a policy stay the same over a sequence of responses, or give the other one another name"},
	ruleBare:     {"6585-4", LevelShould, "say on a refusal when to come back, by Retry-After or by the fields"},
	ruleNegative: {"6-9", LevelShould, "write a number that is 0 or more, because clients may ignore the field or take it for a large one"},
	ruleFraction: {"6-9", LevelShould, "write a whole number, because many clients read nothing else"},
}

// A sequenceRule is the index of a rule in sequenceRules.
type sequenceRule int

const (
	ruleSpent sequenceRule = iota
	ruleUneven
	ruleClock
	ruleStays
	ruleFast
	ruleUnixTime
	ruleNoMore
	ruleTooSoon
	ruleBefore
	ruleEarly
	ruleServed
	ruleExceeded
	ruleShort
	ruleChanged
	ruleBare
	ruleNegative
	ruleFraction
)

// in returns the finding that the rule is broken by a member of a field, or by the field if
// item is -1.
func (r sequenceRule) in(field string, item int) Finding {
	of := &sequenceRules[r]
	return Finding{Rule: of.id, Level: of.level, Field: field, Line: -1, Offset: -1, Item: item, Message: of.message}
}

// terms are what has to stay the same of a policy.
type terms struct {
	quota  int64
	unit   Unit
	window Seconds
}

// A run is what a Sequence remembers of a policy and its limit. It is told numbers, not
// responses, and returns what no honest limiter explains.
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

// told is what one response says of a limit. The zero told has no reset, so that no
// epoch begins with it.
type told struct {
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

// A visit is a response that a run is told of.
type visit struct {
	*run
	policy   *Policy
	now      *told
	idle     time.Duration // since the latest response before it
	pending  int           // responses that arrived after its request was sent
	slack    float64       // by how many seconds its reset may be off
	overlaps bool          // it is not certain which of some requests was counted first
	alone    bool          // no other client uses the quota
	doubts   []doubt
}

// A doubt is about the number of a role.
type doubt struct {
	rule    sequenceRule
	certain bool // it has no explanation but a fault, given that the client is alone
	role    Role
}

func (v *visit) doubt(rule sequenceRule, certain bool, role Role) {
	v.doubts = append(v.doubts, doubt{rule, certain, role})
}

// horizon returns for how many seconds after t no window ends.
func (v *visit) horizon(t *told) float64 {
	h := t.reset
	if v.policy.Window.ok {
		h = min(h, float64(v.policy.Window.n))
	}
	return h - v.slack
}

// check checks the response against what is remembered, and remembers it.
func (v *visit) check(hasReset bool) []doubt {
	v.cost()
	v.exceeded()
	v.short()
	if hasReset {
		v.remaining()
		v.exhausted()
		v.refusals()
		v.speed()
	}
	v.last, v.quota = *v.now, v.policy.Quota
	return v.doubts
}

// cost notes by how much a request lowers what remains. Answers that were lost look
// like requests that cost more.
func (v *visit) cost() {
	fall := v.last.remaining - v.now.remaining
	if !v.now.served || fall <= 0 || v.overlaps {
		return
	}
	if v.least == 0 || fall < v.least {
		v.least = fall
	}
	v.most = max(v.most, fall)
	if v.least < v.most && v.alone {
		v.doubt(ruleUneven, false, RoleRemaining)
	}
}

// remaining checks that what remains falls by what is spent. Without a fault no more
// than this can have come back in an epoch:
//
//   - of a window, or of a log that tells when the next entry leaves it: nothing;
//   - of a bucket, or of a weighted window: as much as would fill it by the reset,
//     and one for what is rounded;
//   - of a log that tells when all is back: all that was used before the epoch.
func (v *visit) remaining() {
	r, a, now := v.run, &v.anchor, v.now
	most, least := now.passedSince(a)
	h := v.horizon(a)
	if most >= h {
		r.anchor, r.spent, r.jumps = *now, 0, 0
		return
	}
	if now.served && !now.sent.Before(a.received) {
		r.spent++
	}
	n, quota := r.spent-v.pending, float64(v.policy.Quota)
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
		v.doubt(ruleStays, false, RoleReset)
	case remains <= flown || spent < 3 && !jumped:
	case !jumped:
		v.doubt(ruleSpent, remains > cleared || now.served && now.fell(a), RoleRemaining)
	case remains > cleared && r.last.stays(a):
		v.doubt(ruleClock, true, RoleReset)
		r.anchor, r.spent = *now, 0
	default:
		r.jumps++ // a reset that is too long, as one that is jittered, explains a few
		v.doubt(ruleSpent, remains > cleared && r.jumps >= 3, RoleRemaining)
		r.anchor, r.spent = *now, 0
	}
}

// exhausted checks that requests are refused while nothing remains.
func (v *visit) exhausted() {
	r, z, now := v.run, &v.zero, v.now
	most, _ := now.passedSince(z)
	h := v.horizon(z)
	switch {
	case now.remaining > 0:
		r.zero = told{}
		return
	case most >= h:
		r.zero, r.free = *now, 0
		return
	case !now.served || now.sent.Before(z.received):
		return
	}
	r.free++
	quota := float64(v.policy.Quota)
	if free := float64(r.free); free >= 2 && free > quota*most/h+1 {
		v.doubt(ruleServed, free > quota || now.fell(z), RoleRemaining)
	}
}

// refusals checks that the reset goes down while requests are refused, which begin no
// time anew: a limiter that counts refused ones as well does not serve before the end
// it tells. One answer that was lost may have raised it, so that it is enough that it
// goes down at all.
func (v *visit) refusals() {
	const often, long = 4, 4
	r, now := v.run, v.now
	most, least := now.passedSince(&r.stall)
	switch {
	case !now.refused:
		if r.stuck >= often && r.last.refused && r.last.reset-now.received.Sub(r.last.sent).Seconds() > 2*v.slack {
			v.doubt(ruleClock, true, RoleReset)
		}
		r.stall, r.stuck = told{}, 0
	case now.remaining > 0 || now.reset < r.last.reset || most >= v.horizon(&r.stall):
		r.stall, r.stuck = *now, 0
	case least >= long:
		if r.stuck++; r.stuck >= often {
			v.doubt(ruleStays, false, RoleReset)
		}
	}
}

// speed checks that the reset does not go down faster than the clock, as one in
// milliseconds does.
func (v *visit) speed() {
	const often, tenfold = 8, 10
	r, now := v.run, v.now
	most, _ := now.passedSince(&r.last)
	if now.remaining > r.last.remaining || r.last.reset-now.reset <= tenfold*most+2*v.slack {
		r.fast = 0
		return
	}
	if r.fast++; r.fast >= often {
		v.doubt(ruleFast, true, RoleReset)
	}
}

// exceeded checks that no more is served in less than a window than two windows
// allow, or a full bucket and what flows in. Without a window each request begins anew.
func (v *visit) exceeded() {
	r, now := v.run, v.now
	if v.policy.Quota > math.MaxInt/4 {
		return
	}
	if r.began.IsZero() || now.received.Sub(r.began).Seconds() >= float64(v.policy.Window.n)-v.slack {
		r.began, r.served = now.sent, 0
	}
	if now.served {
		r.served++
	}
	if r.served > int(2*v.policy.Quota+1) {
		v.doubt(ruleExceeded, true, RoleQuota)
	}
}

// short checks that all is there after two windows in which nothing was asked: a
// weighted window needs two.
func (v *visit) short() {
	const lost = 5 // answers that may have been lost meanwhile
	w, ok := v.policy.Window.Duration()
	if !ok || v.last.received.IsZero() || w > math.MaxInt64/4 || v.idle < 2*w+2*time.Second {
		return
	}
	if remains, spent := float64(v.now.remaining), lost*float64(max(v.most, 1)); remains+spent < float64(v.policy.Quota) {
		v.doubt(ruleShort, remains < float64(v.policy.Quota)/2, RoleQuota)
	}
}

// complete reports whether a whole quota was served in an epoch that said at its end
// that something remains, so that no lost answer explains a refusal.
func (r *run) complete() bool {
	n, a := r.spent, &r.anchor
	if a.served {
		n++
	}
	most, _ := r.last.passedSince(a)
	return r.quota > 0 && int64(n) >= r.quota && float64(n)*most < a.reset/2
}
