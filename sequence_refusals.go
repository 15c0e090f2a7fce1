package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/limiters"
)

// refused is what is remembered of the refusals by a limit.
type refused struct {
	early, inTime int // refusals while something remained, and while nothing remained
	owed          promise
	row           int // refusals after the end of a promise, since a request was served
	broken, kept  int // promises
}

// A promise is what a refusal announces: requests are served after end. If end is zero, there is
// no promise.
type promise struct {
	end    time.Time
	source Source
}

// refusal checks whether a refusal was announced, and whether a request was refused after the
// time that an earlier refusal announced.
func (x *exchange) refusal() {
	f := &x.advice.Fields
	if isStored(x.resp.Header) || !x.advice.Refused && !x.served {
		x.silent.owed, x.latest = promise{}, -1
		for _, r := range x.order {
			r.owed = promise{}
		}
		return
	}
	if f.Limits == nil && f.Policies == nil && x.resp.StatusCode == http.StatusTooManyRequests && x.advice.Source == SourceNone {
		x.report(ruleBare.in(retryAfterKey, -1))
	}
	switch {
	case !x.advice.Refused:
		x.silent.serve(x.sent)
		for _, r := range x.order {
			r.serve(x.sent)
		}
	default:
		if len(f.Limits) == 0 {
			x.earlySilent()
		} else {
			x.early()
		}
		x.promised()
		x.retryEarly()
	}
	x.latest = x.tightest()
}

// tightest returns the least that remains of the limits in the response. It returns -1 if the
// response has no limit, or has a limit whose unit does not count requests.
func (x *exchange) tightest() int64 {
	least := int64(-1)
	for i := range x.joined {
		m := &x.joined[i]
		if !m.countable() {
			return -1
		}
		if i == 0 || m.Remaining < least {
			least = m.Remaining
		}
	}
	return least
}

// earlySilent checks that a refusal without limits comes when nothing remained in the response
// before it.
func (x *exchange) earlySilent() {
	if x.latest < 0 || x.pending > 0 || x.added < 3 {
		return
	}
	left := x.latest
	for _, r := range x.order {
		if least, ok := r.Least(); ok {
			left = min(left, int64(least/r.Cost()))
		}
	}
	if left == 0 {
		x.silent.inTime++
	} else if left >= limiters.MaxLost {
		x.silent.early++
		x.doubt(x.silent.early >= 3 && x.silent.early > x.silent.inTime, ruleEarly.in(LimitField, -1))
	}
}

// early checks that a request is refused only when nothing remains of a limit in the refusal, and
// that this limit had nothing left when the request was sent.
func (x *exchange) early() {
	exhausted := false
	for i := range x.joined {
		m := &x.joined[i]
		gone := m.exhausted(m.policy)
		if !gone && !m.countable() {
			return // it may have refused
		}
		exhausted = exhausted || gone
	}
	left, tightest := x.leftNow()
	if exhausted {
		left, tightest = x.leftBefore()
	}
	if left <= 0 {
		return
	}
	certain := false
	switch {
	case tightest == nil:
	case exhausted:
		if left >= 2 {
			tightest.early++
		}
		certain = !tightest.hidden && x.overlaps == 0 && (left > limiters.MaxLost || left >= 2 && tightest.early >= 3)
	case x.isCurrent():
		tightest.early++
		certain = left >= 2 || tightest.early >= 2
	default:
		tightest.early++
		certain = left >= limiters.MaxLost
	}
	field, _ := x.field(LimitField, x.joined[0].Name, RoleRemaining, 0)
	x.doubt(certain && x.usesAll(), ruleEarly.in(field, -1))
}

// usesAll reports whether requests are known to use each limit of the response.
func (x *exchange) usesAll() bool {
	return !slices.ContainsFunc(x.joined, func(m joined) bool {
		return m.countable() && (m.run == nil || m.unit != Requests || !m.run.Known())
	})
}

// leftNow returns how many requests the limits in a refusal allow, and the run of the tightest
// limit, or nil if the Sequence does not compare that limit.
func (x *exchange) leftNow() (left int64, tightest *run) {
	left = math.MaxInt64
	for i := range x.joined {
		m := &x.joined[i]
		n, r := m.Remaining, (*run)(nil)
		if m.run != nil && m.unit == Requests {
			n, r = n/int64(m.run.Cost()), m.run
		}
		if n < left {
			left, tightest = n, r
		}
	}
	return left, tightest
}

// leftBefore returns how many requests the exhausted limits in a refusal allowed when this
// request was sent, by the responses before it, and the run of the tightest of them. It returns
// 0 and nil if no earlier response had one of these limits.
func (x *exchange) leftBefore() (left int64, tightest *run) {
	for i := range x.joined {
		m, r := &x.joined[i], x.joined[i].run
		if !m.countable() || m.Remaining > 0 || r == nil || m.unit != Requests || r.added == 0 {
			continue
		}
		least, _ := r.Least()
		n := int64(least)/int64(r.Cost()) - int64(x.others(r)) - int64(x.pending)
		if tightest == nil || n < left {
			left, tightest = n, r
		}
	}
	return left, tightest
}

// refusing returns what is remembered of the limit that refuses.
func (x *exchange) refusing() *refused {
	for i := range x.joined {
		if m := &x.joined[i]; m.run != nil && m.exhausted(m.policy) {
			return &m.run.refused
		}
	}
	return &x.silent
}

// promised checks that a request is not refused after the end of a promise, and remembers the
// promise of this refusal. A limit of concurrent requests cannot know when a request ends.
func (x *exchange) promised() {
	r := x.refusing()
	concurrent := func(p Policy) bool { return p.Unit == ConcurrentRequests }
	if x.advice.Source == SourceNone || slices.ContainsFunc(x.advice.Fields.Policies, concurrent) {
		r.owed = promise{}
		return
	}
	slack := x.slack()
	if r.owed.source == SourceRetryAfter {
		slack = 1
	}
	// A refusal before the end renews the promise, because the limiter may count refused
	// requests. Rounding may have moved the end.
	if !r.owed.end.IsZero() && x.sent.Sub(r.owed.end).Seconds() >= slack {
		r.row++
		r.broken++
		rule, field := ruleNoMore, LimitField
		if r.owed.source == SourceRetryAfter {
			rule, field = ruleTooSoon, retryAfterKey
		}
		// A bucket gives back one unit at a time, and a request whose response was lost may
		// have taken it. Three times in a row that is unlikely.
		x.doubt(r.row >= 3 && r.broken > r.kept && x.pending == 0, rule.in(field, -1))
	}
	r.owed = promise{x.received.Add(x.advice.Asked), x.advice.Source}
}

// serve notes that a request was served.
func (r *refused) serve(sent time.Time) {
	if !r.owed.end.IsZero() && sent.After(r.owed.end) {
		r.kept++
	}
	r.owed, r.row = promise{}, 0
}

// retryEarly notes a Retry-After before the reset of an older limit with nothing remaining. The
// reset may be when the whole quota is back, and Retry-After when the next unit is. Check has
// the rule for current limits.
func (x *exchange) retryEarly() {
	least, ok := x.advice.Fields.RetryAfter().Duration()
	if ok && !x.isCurrent() && x.advice.Source == SourceRetryAfter && x.advice.Asked.Seconds()+x.slack() < least.Seconds() {
		x.doubt(false, ruleBefore.in(retryAfterKey, -1))
	}
}
