package machine

import (
	"cmp"
	"math"
)

const (
	// slowRounds is how many rounds of answers pass before one more request may be under way.
	slowRounds = 6
	// mostPerServed bounds the requests that count as under way at a refusal: at most this many for
	// each request that was served since the refusal before.
	mostPerServed = 8
	// calmRounds is how many times more slowly a pool grows close to the number that was
	// refused, since each refusal costs a wait.
	calmRounds = 10
)

// A pool bounds how many requests may be under way.
type pool struct {
	bound   int   // 0 if there is no such bound
	ceiling int   // requests that were under way when bound was set
	refused int   // how many of these requests were refused; 0 if a request was served since
	round   int   // answers since bound has grown
	atOnce  int64 // the number in a policy, 0 if no policy has one
}

// room returns how many may be under way, 0 for any number.
func (p *pool) room(share float64) int {
	if p.atOnce == 0 {
		return p.bound
	}
	announced := max(1, int(min(float64(p.atOnce)*share, math.MaxInt32)))
	return min(announced, cmp.Or(p.bound, announced))
}

// shrink halves the number of requests that may be under way, after a refusal that no limit explains,
// which suggests a limit on concurrency. If the same number is refused again, the number just below it
// is known to work. If nothing is served between refusals, only the first of these refusals sets
// ceiling. The pool grows slowly close to ceiling.
func (p *pool) shrink(together int) {
	bound := p.bound / 2
	if p.refused == 0 {
		bound = together / 2
		if p.bound == together && p.ceiling == together {
			bound = together - 1
		}
		p.ceiling = together
	}
	p.bound, p.refused, p.round = max(1, bound), 1, 0
}

// regrow lets one more request be under way after some rounds. A round has as many answers as requests
// may be under way.
func (p *pool) regrow() {
	p.refused = 0
	if p.bound == 0 {
		return
	}
	round := slowRounds * p.bound
	if p.bound == p.ceiling-1 || p.bound == p.ceiling {
		round *= calmRounds
	}
	if p.round++; p.round >= round {
		p.bound, p.round = p.bound+1, 0
	}
}

// UnderWay returns how many requests are in flight, bodies included.
func (m *Machine) UnderWay() int { return len(m.underWay) + m.bodies }

// OpenBody keeps a request under way until the body of its answer ends, if a pool is in force or the
// key is new. It reports whether it does. If so, the caller must call CloseBody when the body ends.
func (m *Machine) OpenBody() bool {
	if m.pool.room(1) == 0 && m.number > firstRequests {
		return false
	}
	m.bodies++
	return true
}

// CloseBody ends what OpenBody has begun.
func (m *Machine) CloseBody() { m.bodies-- }
