// Package limiters has what each kind of limiter can announce: it gets the numbers of the
// responses of one limit, and returns what no honest limiter explains.
package limiters

import (
	"math"
	"time"
)

// A Run is what is remembered of a limit. It gets numbers, and returns what no honest
// limiter explains. The zero Run has seen nothing.
type Run struct {
	quota       int64       // of the latest response
	last        Observation // the latest response
	least, most int64       // by which the remaining units fell from one request to the next; 0 if they never did

	// anchor begins an epoch: the time until a second before its reset. Within an
	// epoch no window ends, whatever the limiter.
	anchor Observation
	spent  int // requests served in the epoch, after the anchor
	jumps  int // how often more came back in the epoch than any limiter gives back

	sinceZero    Observation // the first response of those in which nothing remains
	servedAtZero int         // requests served after it

	frozenSince        Observation // the first refusal since which the reset has not gone down
	refusedWhileFrozen int         // refusals long after it

	fast int // how often in a row the reset went down too fast

	began  time.Time // of a span shorter than the window
	served int       // in this span
}

// An Observation is what one response announces of a limit. The zero Observation has no
// reset, so that no epoch begins with it.
type Observation struct {
	Remaining       int64   // quota units
	Reset           float64 // in seconds
	Sent, Received  time.Time
	Served, Refused bool // neither is true of a request that failed
}

// A Response is an Observation, with what is known around it.
type Response struct {
	Observation
	HasReset bool          // there is a reset
	Quota    int64         // of the policy
	Window   time.Duration // of the policy; 0 if it has none
	Idle     time.Duration // since the latest response before it; negative if they overlap
	Pending  int           // responses that arrived after its request was sent
	Slack    float64       // by how many seconds the reset may be off
	Overlaps bool          // it is not certain which of some requests was counted first
	Alone    bool          // no other client uses the quota
}

// Most returns by how much the remaining units fell at most from one request to the next, 0
// if they never did.
func (r *Run) Most() int64 { return r.most }

// Add checks a response against what is remembered, and remembers it.
func (r *Run) Add(now *Response) []Doubt {
	v := visit{Run: r, now: now}
	v.cost()
	v.exceeded()
	v.short()
	if now.HasReset {
		v.remaining()
		v.exhausted()
		v.refusals()
		v.speed()
	}
	v.last, v.quota = now.Observation, now.Quota
	return v.doubts
}

// passedSince returns the seconds between the requests of two responses, as many and
// as few as they can be.
func (t *Observation) passedSince(u *Observation) (most, least float64) {
	return t.Received.Sub(u.Sent).Seconds(), t.Sent.Sub(u.Received).Seconds()
}

// fell reports whether the reset has gone down with the clock since u, so that it is
// not that of a sliding log which tells when all is back: there every request begins
// the time anew.
func (t *Observation) fell(u *Observation) bool { return t.Reset <= u.Reset-2 }

// stays reports whether the reset has not gone down although time has passed since u.
func (t *Observation) stays(u *Observation) bool {
	const enough = 2
	_, passed := t.passedSince(u)
	return passed >= enough && t.Reset > u.Reset-passed+enough
}

// A visit is a response while it is added to a Run.
type visit struct {
	*Run
	now    *Response
	doubts []Doubt
}

// A Rule is a rule that no honest limiter breaks.
type Rule int

// The rules.
const (
	Spent    Rule = iota // what remains falls by what is spent
	Uneven               // it falls by the same for each request
	Clock                // the reset goes down with the clock, or nothing comes back before its end
	Stays                // the reset goes down with the clock
	Fast                 // and not faster
	Served               // requests are refused while nothing remains
	Exceeded             // no more than the quota is served
	Short                // the whole quota is back after two windows

	Rules // their number
)

// A Number is one of the numbers that are announced.
type Number int

// The numbers.
const (
	Quota Number = iota
	Remaining
	Reset
)

// A Doubt is a rule that the limiter seems to break.
type Doubt struct {
	Rule    Rule
	Certain bool // there is no explanation but a fault, if the client is alone
	Number  Number
}

func (v *visit) doubt(rule Rule, certain bool, of Number) {
	v.doubts = append(v.doubts, Doubt{rule, certain, of})
}

// horizon returns for how many seconds after t no window ends.
func (v *visit) horizon(t *Observation) float64 {
	h := t.Reset
	if v.now.Window > 0 {
		h = min(h, v.now.Window.Seconds())
	}
	return h - v.now.Slack
}

// cost notes by how much a request lowers what remains. Answers that were lost look
// like requests that cost more.
func (v *visit) cost() {
	fall := v.last.Remaining - v.now.Remaining
	if !v.now.Served || fall <= 0 || v.now.Overlaps {
		return
	}
	if v.least == 0 || fall < v.least {
		v.least = fall
	}
	v.most = max(v.most, fall)
	if v.least < v.most && v.now.Alone {
		v.doubt(Uneven, false, Remaining)
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
	r, a, now := v.Run, &v.anchor, v.now
	most, least := now.passedSince(a)
	h := v.horizon(a)
	if most >= h {
		r.anchor, r.spent, r.jumps = now.Observation, 0, 0
		return
	}
	if now.Served && !now.Sent.Before(a.Received) {
		r.spent++
	}
	n, quota := r.spent-v.now.Pending, float64(v.now.Quota)
	if n < 1 {
		return
	}
	part, spent := most/h, float64(n)
	flown := float64(a.Remaining) - spent + 1 + max(quota-float64(a.Remaining)+1, 1)*part
	if a.Served {
		n++
	}
	cleared := math.Ceil(quota - float64(n)*(1-part))
	remains := float64(now.Remaining)
	stays := n > 3 && least >= 3 && now.Reset >= a.Reset
	switch jumped := remains > float64(r.last.Remaining)+1; {
	case remains <= flown && stays:
		v.doubt(Stays, false, Reset)
	case remains <= flown || spent < 3 && !jumped:
	case !jumped:
		v.doubt(Spent, remains > cleared || now.Served && now.fell(a), Remaining)
	case remains > cleared && r.last.stays(a):
		v.doubt(Clock, true, Reset)
		r.anchor, r.spent = now.Observation, 0
	default:
		r.jumps++ // a reset that is too long, as one that is jittered, explains a few
		v.doubt(Spent, remains > cleared && r.jumps >= 3, Remaining)
		r.anchor, r.spent = now.Observation, 0
	}
}

// exhausted checks that requests are refused while nothing remains.
func (v *visit) exhausted() {
	r, z, now := v.Run, &v.sinceZero, v.now
	most, _ := now.passedSince(z)
	h := v.horizon(z)
	switch {
	case now.Remaining > 0:
		r.sinceZero = Observation{}
		return
	case most >= h:
		r.sinceZero, r.servedAtZero = now.Observation, 0
		return
	case !now.Served || now.Sent.Before(z.Received):
		return
	}
	r.servedAtZero++
	quota := float64(v.now.Quota)
	if free := float64(r.servedAtZero); free >= 2 && free > quota*most/h+1 {
		v.doubt(Served, free > quota || now.fell(z), Remaining)
	}
}

// refusals checks that the reset goes down while requests are refused, which begin no
// time anew: a limiter that counts refused ones as well does not serve before the end
// it tells. One answer that was lost may have raised it, so that it is enough that it
// goes down at all.
func (v *visit) refusals() {
	const often, long = 4, 4
	r, now := v.Run, v.now
	most, least := now.passedSince(&r.frozenSince)
	switch {
	case !now.Refused:
		if r.refusedWhileFrozen >= often && r.last.Refused && r.last.Reset-now.Received.Sub(r.last.Sent).Seconds() > 2*v.now.Slack {
			v.doubt(Clock, true, Reset)
		}
		r.frozenSince, r.refusedWhileFrozen = Observation{}, 0
	case now.Remaining > 0 || now.Reset < r.last.Reset || most >= v.horizon(&r.frozenSince):
		r.frozenSince, r.refusedWhileFrozen = now.Observation, 0
	case least >= long:
		if r.refusedWhileFrozen++; r.refusedWhileFrozen >= often {
			v.doubt(Stays, false, Reset)
		}
	}
}

// speed checks that the reset does not go down faster than the clock, as one in
// milliseconds does.
func (v *visit) speed() {
	const often, tenfold = 8, 10
	r, now := v.Run, v.now
	most, _ := now.passedSince(&r.last)
	if now.Remaining > r.last.Remaining || r.last.Reset-now.Reset <= tenfold*most+2*v.now.Slack {
		r.fast = 0
		return
	}
	if r.fast++; r.fast >= often {
		v.doubt(Fast, true, Reset)
	}
}

// exceeded checks that no more is served in less than a window than two windows
// allow, or a full bucket and what flows in. Without a window each request begins anew.
func (v *visit) exceeded() {
	r, now := v.Run, v.now
	if v.now.Quota > math.MaxInt/4 {
		return
	}
	if r.began.IsZero() || now.Received.Sub(r.began).Seconds() >= v.now.Window.Seconds()-v.now.Slack {
		r.began, r.served = now.Sent, 0
	}
	if now.Served {
		r.served++
	}
	if r.served > int(2*v.now.Quota+1) {
		v.doubt(Exceeded, true, Quota)
	}
}

// short checks that all is there after two windows in which nothing was asked: a
// weighted window needs two.
func (v *visit) short() {
	const lost = 5 // answers that may have been lost meanwhile
	w := v.now.Window
	if w == 0 || v.last.Received.IsZero() || w > math.MaxInt64/4 || v.now.Idle < 2*w+2*time.Second {
		return
	}
	if remains, spent := float64(v.now.Remaining), lost*float64(max(v.most, 1)); remains+spent < float64(v.now.Quota) {
		v.doubt(Short, remains < float64(v.now.Quota)/2, Quota)
	}
}

// Complete reports whether a whole quota was served in an epoch that said at its end
// that something remains, so that no lost answer explains a refusal.
func (r *Run) Complete() bool {
	n, a := r.spent, &r.anchor
	if a.Served {
		n++
	}
	most, _ := r.last.passedSince(a)
	return r.quota > 0 && int64(n) >= r.quota && float64(n)*most < a.Reset/2
}
