package ratelimittest

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/text"
)

// A promise is what a refusal announces: a request that is sent at end or later is served. If end is
// zero, there is no promise.
type promise struct {
	end    time.Time
	source ratelimit.Source
	broken int       // how many earlier promises were broken since a request was served
	late   time.Time // the end of the latest broken promise, or else of the first promise
}

// refusal checks whether a refusal was announced, and whether a request was refused after the time that
// an earlier refusal announced. A response from a cache announces nothing. A response that is no
// refusal ends all promises: its request may have taken what came back.
func (x *exchange) refusal() {
	f := &x.advice.Fields
	if text.Stored(x.resp.Header) || !x.advice.Refused {
		x.release()
		return
	}
	if f.Limits == nil && f.Policies == nil && x.resp.StatusCode == http.StatusTooManyRequests && x.advice.Source == ratelimit.SourceNone {
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

// early reports a refusal if each limit that may have refused still allowed a request when the request
// was sent. A refusal without limits may come from any limit of the server. The suspect is the limit
// that allowed the fewest requests.
func (x *exchange) early() {
	var suspect *run
	left, field := int64(math.MaxInt64), ratelimit.LimitField
	suspected := func(r *run, allowed int64) {
		if allowed < left {
			suspect, left = r, allowed
		}
	}
	exhausted := slices.ContainsFunc(x.joined, joined.exhausted)
	for _, m := range x.joined {
		switch {
		case exhausted && !m.exhausted(): // it has not refused
			continue
		case m.run == nil: // it may have refused
			return
		case exhausted:
			suspected(m.run, x.before(m.run))
		default:
			suspected(m.run, m.Remaining/int64(m.run.Cost()))
		}
		field, _ = x.field(ratelimit.LimitField, m.Name, ratelimit.RoleRemaining, 0)
	}
	silent := len(x.joined) == 0
	if silent {
		for _, r := range x.order {
			suspected(r, x.before(r))
		}
	}
	if left <= 0 || suspect == nil || silent && !suspect.Known() {
		return
	}
	suspect.early++
	x.doubt(x.isCertain(suspect, left, silent || exhausted), ruleEarly.in(field, -1))
}

// isCertain reports whether only a fault explains a refusal by r. earlier is true if earlier responses
// show what the limit allowed, and not the refusal itself.
func (x *exchange) isCertain(r *run, left int64, earlier bool) bool {
	switch {
	case earlier:
		return left >= 2 && r.early >= 3 && x.overlaps == 0 && !r.hidden
	case x.isCurrent():
		return left >= 2 || r.early >= 2
	}
	return left >= limiters.MaxLost
}

// before returns how many requests a limit allowed when this request was sent. It uses only the
// responses before this one.
func (x *exchange) before(r *run) int64 {
	least, _ := r.Least()
	return int64(least/r.Cost()) - int64(x.others(r)) - int64(x.pending)
}

// refusing returns the latest promise of the exhausted limit. If no limit is exhausted, it returns the
// promise of refusals without limits.
func (x *exchange) refusing() *promise {
	for i := range x.joined {
		if m := &x.joined[i]; m.run != nil && m.exhausted() {
			return &m.run.promise
		}
	}
	return &x.silent
}

// promised reports a refusal of a request that was sent after the end of the last promise, and remembers
// the promise of the new refusal. It does neither if the new refusal promises nothing, or if the
// response has a policy of concurrent requests, because such a limit cannot know when a request ends.
func (x *exchange) promised() {
	r, concurrent := x.refusing(), func(p ratelimit.Policy) bool { return p.Unit == ratelimit.ConcurrentRequests }
	owed := *r
	*r = promise{}
	if x.advice.Source == ratelimit.SourceNone || slices.ContainsFunc(x.advice.Fields.Policies, concurrent) {
		return
	}
	rule, field := ruleNoMore, ratelimit.LimitField
	if owed.source == ratelimit.SourceRetryAfter {
		rule, field = ruleTooSoon, text.RetryAfterKey
	}
	// A refusal before the end renews the promise, because the limiter may count refused requests.
	// Rounding may have moved the end by a second.
	end := x.received.Add(x.advice.Asked)
	*r = promise{end, x.advice.Source, owed.broken, owed.late}
	switch {
	case owed.end.IsZero():
		r.late = end
	case !x.sent.Before(owed.end) && x.sent.Sub(owed.late) >= time.Second:
		r.late = owed.end
		r.broken++
		// A bucket gives back one unit at a time, and a request whose response was lost may
		// have taken it. Three times in a row that is unlikely.
		x.doubt(r.broken >= 3 && x.pending == 0, rule.in(field, -1))
	}
}

// retryEarly notes a Retry-After before the reset of an older limit with nothing remaining. This may be
// right: the reset may tell when the whole quota is back, and Retry-After when the next unit is back.
// Check has the rule for current limits.
func (x *exchange) retryEarly() {
	least, _ := x.advice.Fields.RetryAfter().Duration()
	if !x.isCurrent() && x.advice.Asked < least-time.Second { // the sum could overflow
		x.doubt(false, ruleBefore.in(text.RetryAfterKey, -1))
	}
}
