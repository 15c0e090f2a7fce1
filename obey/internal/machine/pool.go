package machine

import (
	"cmp"
	"math"
)

const (
	// slowRounds is how many rounds of answers pass before one more request is let under way.
	slowRounds = 6
	// mostPerServed is how many requests count as under way for each that was served, at most.
	mostPerServed = 8
	// calmRounds is how many times more slowly a pool grows close to the number that was
	// refused, since each refusal costs a wait.
	calmRounds = 10
)

// A pool bounds how many requests may be under way.
type pool struct {
	bound   int   // 0 if there is no such bound
	ceiling int   // requests that were under way when bound was set
	refused int   // of these; 0 if a request was served since
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

// shrink halves the number of requests that may be under way, after a refusal that no limit
// explains, which suggests a limit on concurrency. If the same number is refused again, the number
// just below it is known to work. Refusals with nothing served in between are one spell. Only
// the first of them sets the number close to which the pool grows slowly.
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

// regrow lets one more be under way after some rounds; a round is as many answers as may be
// under way.
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

// OpenBody counts a request as under way whose answer has begun, and reports whether its
// caller calls CloseBody when the body ends. It does so if a pool is in force, or may be
// soon, because the key is new.
func (m *Machine) OpenBody() bool {
	if m.pool.room(1) == 0 && m.number > firstRequests {
		return false
	}
	m.bodies++
	return true
}

// CloseBody ends what OpenBody has begun.
func (m *Machine) CloseBody() { m.bodies-- }
