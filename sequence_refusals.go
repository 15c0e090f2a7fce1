package ratelimit

import (
	"math"
	"net/http"
	"time"
)

// refusal checks a refusal, and what it promises.
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
		x.judge(ruleBare, retryAfterKey, -1)
	}
	if x.advice.Refused {
		x.early()
	}
	x.promised()
	x.retryEarly()
	x.latest = x.tightest()
}

// tightest returns what remains of the tightest limit of the response, or -1 if it has none
// or one in a unit of which a request may cost any number.
func (x *exchange) tightest() int64 {
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	least := int64(math.MaxInt64)
	for i := range f.Limits {
		l := &f.Limits[i]
		if u := policies.policy(l).Unit.canonical(); l.Remaining == Unknown || u != Requests && u != ConcurrentRequests {
			return -1
		}
		least = min(least, l.Remaining)
	}
	if len(f.Limits) == 0 {
		return -1
	}
	return least
}

// early checks that a request is refused only when nothing remains of the limits that the
// refusal announces.
func (x *exchange) early() {
	const lost = 5 // answers in a row that may have been lost
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	if len(f.Limits) == 0 {
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
		} else if left >= lost {
			x.silent.early++
			x.refusedEarly(x.silent.early >= 3 && x.silent.early > x.silent.inTime)
		}
		return
	}
	now, before, known, exhausted := int64(math.MaxInt64), int64(math.MaxInt64), true, false
	var tightest *run
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		unit := p.Unit.canonical()
		if l.exhausted(p) {
			exhausted = true
		}
		if l.Remaining == Unknown || unit != Requests && unit != ConcurrentRequests {
			if !l.exhausted(p) {
				return
			}
			continue
		}
		r := x.run(p)
		if r == nil || unit != Requests {
			now, known = min(now, l.Remaining), false
			continue
		}
		cost := int64(r.Cost())
		known = known && r.Known()
		if n := l.Remaining / cost; n < now {
			now, tightest = n, r
		}
		if l.Remaining == 0 && r.added > 0 {
			least, ok := r.Least()
			if !ok {
				least = 0
			}
			before = min(before, int64(least)/cost-int64(x.others(r))-int64(x.pending))
			tightest = r
		}
	}
	switch {
	case exhausted && before != math.MaxInt64 && before > 0 && tightest != nil:
		if before >= 2 {
			tightest.early++
		}
		x.refusedEarly(known && !tightest.hidden && x.overlaps == 0 && (before > lost || before >= 2 && tightest.early >= 3))
	case exhausted || now == 0 || now == math.MaxInt64:
	case tightest == nil:
		x.refusedEarly(false)
	default:
		tightest.early++
		if x.isCurrent() {
			x.refusedEarly(known && (now >= 2 || tightest.early >= 2))
		} else {
			x.refusedEarly(known && now >= lost)
		}
	}
}

func (x *exchange) refusedEarly(certain bool) {
	field := LimitField
	if len(x.advice.Fields.Limits) > 0 {
		field, _ = x.field(LimitField, x.advice.Fields.Limits[0].Name, RoleRemaining, 0)
	}
	x.add(ruleEarly, certain, field, -1)
}

// refused is what is remembered of the refusals by a limit.
type refused struct {
	early, inTime int // with something remaining before, and with nothing
	owed          promise
	row           int // refusals after the end of a promise, since a request was served
	broken, kept  int
}

// A promise is when a refusal asks to come back.
type promise struct {
	ok     bool
	end    time.Time
	source Source
}

// refusing returns what is remembered of the limit that refuses.
func (x *exchange) refusing() *refused {
	f := &x.advice.Fields
	policies := newMatcher(f.Policies)
	for i := range f.Limits {
		if p := policies.policy(&f.Limits[i]); f.Limits[i].exhausted(p) {
			if r := x.run(p); r != nil {
				return &r.refused
			}
		}
	}
	return &x.silent
}

// promised checks that something comes back when a refusal promises it.
func (x *exchange) promised() {
	if !x.advice.Refused {
		for _, r := range x.order {
			r.served(x)
		}
		x.silent.served(x)
		return
	}
	r := x.refusing()
	if x.advice.Source == SourceNone || x.counts(ConcurrentRequests) {
		r.owed = promise{}
		return
	}
	// A refusal before the end renews the promise: the limiter may count refused requests.
	switch after := x.sent.Sub(r.owed.end).Seconds(); {
	case !r.owed.ok || after < 0:
	case after < x.slack():
		return // rounding may have moved the end
	default:
		r.row++
		r.broken++
		rule, field := ruleNoMore, LimitField
		if r.owed.source == SourceRetryAfter {
			rule, field = ruleTooSoon, retryAfterKey
		}
		// A bucket gives back one at a time, which a request may have taken whose
		// answer was lost; three times in a row it is not that.
		x.add(rule, r.row >= 3 && r.broken > r.kept && x.pending == 0, field, -1)
	}
	r.owed = promise{true, x.received.Add(x.advice.Asked), x.advice.Source}
}

// served notes that a request was served.
func (r *refused) served(x *exchange) {
	if r.owed.ok && x.sent.After(r.owed.end) {
		r.kept++
	}
	r.owed, r.row = promise{}, 0
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
	if x.advice.Refused && ok && !x.isCurrent() && x.advice.Source == SourceRetryAfter && x.advice.Asked.Seconds()+x.slack() < least.Seconds() {
		x.add(ruleBefore, false, retryAfterKey, -1)
	}
}
