package ratelimit

import (
	"slices"
	"strings"
	"time"
)

const (
	// maxBudgets is the number of limits of a key that are counted apart.
	maxBudgets = 16
	// maxKeptName is how many bytes of a limit's name are remembered.
	maxKeptName = 128
)

// A budget is a limit of requests in force.
type budget struct {
	policy string
	left   float64   // requests that may still be sent; a part of one waits for the end
	end    time.Time // of the window; zero if that is not said, or over
	from   time.Time // requests under way that were sent before it were not taken off; zero if all were
	number int64     // the last request when this was learnt
}

// budgets are the limits of requests in force of a key.
type budgets []budget

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

// ask makes a verdict wait if less is left of some budget than a request takes.
func (l *budgets) ask(v *verdict, now time.Time, r *settings, prices []price, sent *traffic) {
	for i := range *l {
		b := &(*l)[i]
		need := takes(prices, requestUnit, b.policy)
		if need == 0 || b.left >= need {
			continue
		}
		end, known := sent.last.Add(r.maxWait), true
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

// expire ends the windows whose time has come, and reports whether one of them
// ended with nothing left. One that ended with something left goes on with that:
// nothing says that there is less (draft-11 Section 8.4).
func (l *budgets) expire(now time.Time) (spent bool) {
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

// stuck drops budgets with nothing left whose end is not known, or is further away than
// MaxWait. It reports whether there were any.
func (l *budgets) stuck(now time.Time, r *settings, sent *traffic) bool {
	before := len(*l)
	*l = slices.DeleteFunc(*l, func(b budget) bool {
		switch {
		case b.left >= 1:
			return false
		case b.end.IsZero():
			return sent.under.n == 0 || !now.Before(sent.last.Add(waveTime))
		}
		return !now.Before(sent.last.Add(r.maxWait))
	})
	return len(*l) < before
}

// budgetOf returns what may be sent of a limit, until its window ends if that is
// known. The server may not have counted requests sent within one window of this
// answer, nor those answered without a count; they are taken off. It has counted
// older ones: taking them off twice would halve the rate of a server whose answers
// take longer than its windows.
func budgetOf(t *trip, s *stock, received time.Time, r *settings, sent *traffic) (b budget) {
	d := s.reset
	if s.ends && d == 0 && s.left > 0 {
		d = time.Second // a reset of 0 is one that was rounded down, or comes from a slow clock
	}
	b.number, b.policy = sent.number, s.policy
	if s.ends {
		b.end, b.from = received.Add(d), received.Add(-d)
	}
	left := float64(s.left) - sent.under.requests(s.policy, b.from) - float64(sent.silent-t.silent)
	b.left = left * r.share
	return b
}

// add adds a budget, and reports whether it allows less than the others.
func (l *budgets) add(b budget) bool {
	b.policy = b.policy[:min(len(b.policy), maxKeptName)]
	if slices.ContainsFunc(*l, func(c budget) bool { return c.covers(&b) }) {
		return false
	}
	*l = slices.DeleteFunc(*l, func(c budget) bool { return b.covers(&c) })
	if n := len(*l); n < maxBudgets {
		b.policy = keepName((*l)[:cap(*l)], n, b.policy)
		*l = append(*l, b)
		return true
	}
	last := &(*l)[maxBudgets-1]
	if b.left < last.left {
		last.left, last.from, last.number = b.left, b.from, b.number
	}
	if last.end.IsZero() || b.end.After(last.end) { // a budget without an end does not erase the end of the last
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

// giveBack returns what a request took of each budget, because its answer says what
// remains: either it was served before the answer from which the budget was learnt,
// and is counted in that, or its own answer is the stricter one.
func (l *budgets) giveBack(t *trip, r *settings) {
	for i := range *l {
		switch b := &(*l)[i]; {
		case t.number > b.number:
			b.left += takes(t.prices, requestUnit, b.policy)
		case t.at.After(b.from):
			b.left += takes(t.prices, requestUnit, b.policy) * r.share
		}
	}
}
