package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/text"
)

// A promise is what a refusal announces: requests are served after end. If end is zero, there is
// no promise.
type promise struct {
	end    time.Time
	source Source
	broken int // promises before it that were broken, since a request was served
}

// refusal checks whether a refusal was announced, and whether a request was refused after the
// time that an earlier refusal announced. A response from a cache announces nothing. A request
// that failed may have taken what came back.
func (x *exchange) refusal() {
	f := &x.advice.Fields
	if text.Stored(x.resp.Header) || !x.advice.Refused {
		x.release()
		return
	}
	if f.Limits == nil && f.Policies == nil && x.resp.StatusCode == http.StatusTooManyRequests && x.advice.Source == SourceNone {
		x.report(ruleBare.in(text.RetryAfterKey, -1))
	}
	x.early()
	x.promised()
	x.retryEarly()
}

func (s *Sequence) release() {
	s.silent = promise{}
	for _, r := range s.order {
		r.promise = promise{}
	}
}

// early checks that a request is refused only when nothing remains of a limit in the refusal. This
// limit must have had nothing left when the request was sent. A refusal without limits may be by
// any limit of the server.
func (x *exchange) early() {
	left, tightest := int64(math.MaxInt64), (*run)(nil)
	note := func(n int64, r *run) {
		if n < left {
			left, tightest = n, r
		}
	}
	exhausted := func(m joined) bool { return m.exhausted(m.policy) }
	silent, shown, field := len(x.joined) == 0, !slices.ContainsFunc(x.joined, exhausted), LimitField
	for _, m := range x.joined {
		switch {
		case !shown && !exhausted(m): // it has not refused
		case m.run == nil:
			return // it may have refused
		case shown:
			note(m.Remaining/int64(m.run.Cost()), m.run)
		default:
			note(x.before(m.run), m.run)
		}
		field, _ = x.field(LimitField, m.Name, RoleRemaining, 0)
	}
	for _, r := range x.order {
		if silent {
			note(x.before(r), r)
		}
	}
	if left <= 0 || tightest == nil || silent && !tightest.Known() {
		return
	}
	tightest.early++
	certain := false
	switch {
	case silent || !shown:
		certain = left >= 2 && tightest.early >= 3 && x.overlaps == 0 && !tightest.hidden
	case x.isCurrent():
		certain = left >= 2 || tightest.early >= 2
	default:
		certain = left >= limiters.MaxLost
	}
	x.doubt(certain, ruleEarly.in(field, -1))
}

// before returns how many requests a limit allowed when this request was sent, by the responses
// before it.
func (x *exchange) before(r *run) int64 {
	least, _ := r.Least()
	return int64(least/r.Cost()) - int64(x.others(r)) - int64(x.pending)
}

// refusing returns the latest promise of the limit that refuses.
func (x *exchange) refusing() *promise {
	for i := range x.joined {
		if m := &x.joined[i]; m.run != nil && m.exhausted(m.policy) {
			return &m.run.promise
		}
	}
	return &x.silent
}

// promised checks that a request is not refused after the end of a promise, and remembers the
// promise of this refusal. A limit of concurrent requests cannot know when a request ends.
func (x *exchange) promised() {
	r, concurrent := x.refusing(), func(p Policy) bool { return p.Unit == ConcurrentRequests }
	owed := *r
	*r = promise{}
	if x.advice.Source == SourceNone || slices.ContainsFunc(x.advice.Fields.Policies, concurrent) {
		return
	}
	rule, field := ruleNoMore, LimitField
	if owed.source == SourceRetryAfter {
		rule, field = ruleTooSoon, text.RetryAfterKey
	}
	// A refusal before the end renews the promise, because the limiter may count refused
	// requests. Rounding may have moved the end.
	if !owed.end.IsZero() && x.sent.Sub(owed.end) >= time.Second {
		owed.broken++
		// A bucket gives back one unit at a time, and a request whose response was lost may
		// have taken it. Three times in a row that is unlikely.
		x.doubt(owed.broken >= 3 && x.pending == 0, rule.in(field, -1))
	}
	*r = promise{x.received.Add(x.advice.Asked), x.advice.Source, owed.broken}
}

// retryEarly notes a Retry-After before the reset of an older limit with nothing remaining. The
// reset may be when the whole quota is back, and Retry-After when the next unit is. Check has
// the rule for current limits.
func (x *exchange) retryEarly() {
	least, _ := x.advice.Fields.RetryAfter().Duration()
	if !x.isCurrent() && x.advice.Asked < least-time.Second { // the sum could overflow
		x.doubt(false, ruleBefore.in(text.RetryAfterKey, -1))
	}
}
