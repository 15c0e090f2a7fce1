package ratelimit

import "time"

// leastBackoff is the least upper bound of a wait after a refusal that asks for none.
const leastBackoff = 100 * time.Millisecond

// A backoff is how long the key waits after refusals that ask for no wait, or for a
// longer one than MaxWait.
type backoff struct {
	latest  time.Duration // the upper bound of the latest wait; 0 if nothing was refused since an answer
	proven  time.Duration // the bound after which a request was served
	longest time.Duration // the latest wait that was cut; 0 if none was since an answer
}

// next returns the upper bound of the next wait. It begins with a third of the wait that
// was enough the last time, grows by a quarter up to that wait, and then by half.
func (b *backoff) next() time.Duration {
	d := b.proven / 3
	switch {
	case b.latest == 0:
	case b.latest < b.proven:
		d = b.latest + b.latest/4
	default:
		d = b.latest + b.latest/2
	}
	b.latest = min(max(d, leastBackoff), mostBackoff)
	return b.latest
}

// cut returns the wait that is obeyed: at most longest at first, and half as much again
// after each refusal, up to what was asked for. Otherwise a client with a short MaxWait
// would be refused for ever.
func (b *backoff) cut(asked, longest time.Duration) time.Duration {
	if asked <= longest {
		b.longest = 0
		return asked
	}
	b.longest = min(asked, max(longest, b.longest+b.longest/2))
	return b.longest
}

// recovered ends the backoff, after an answer that is no refusal.
func (b *backoff) recovered() {
	if b.latest > 0 {
		b.proven, b.latest = b.latest, 0
	}
	b.longest = 0
}

const (
	// calmRounds is how many rounds of answers pass before as many requests are let
	// under way as were refused, and before there are more.
	calmRounds = 10
	// mostAgain is how often these rounds become four times as many.
	mostAgain = 3
)

// A pool bounds how many requests may be under way.
type pool struct {
	most    int // 0 if there is no such bound
	ceiling int // requests that were under way when most was set
	again   int // how often in succession ceiling was the same
	round   int // answers since most has grown
	atOnce  int // the number that a policy says, 0 if none does
}

// room returns how many may be under way, 0 for any number.
func (p *pool) room(r *settings) int {
	if p.atOnce == 0 {
		return p.most
	}
	most := max(1, int(float64(p.atOnce)*r.share))
	if p.most > 0 {
		most = min(most, p.most)
	}
	return most
}

// shrink halves the number of requests that may be under way, after a refusal that no
// limit explains, which suggests a limit on concurrency. Requests that were under way
// together count as one refusal.
func (p *pool) shrink(together int) {
	p.most, p.round = max(1, together-1), 0
	if p.again++; together != p.ceiling {
		p.ceiling, p.again, p.most = together, 0, max(1, together/2)
	}
}

// regrow lets one more be under way after a round: as many answers as may be under
// way. Close to the number that was refused it grows ten times more slowly, since each
// refusal costs a wait, and again four times as slowly where it is that number each time.
func (p *pool) regrow() {
	if p.most == 0 {
		return
	}
	round := p.most
	if p.most == p.ceiling-1 || p.most == p.ceiling {
		round *= calmRounds << (2 * min(p.again, mostAgain))
	}
	if p.round++; p.round >= round {
		p.most, p.round = p.most+1, 0
	}
}
