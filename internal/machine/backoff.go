package machine

import (
	"math/rand/v2"
	"time"
)

// The upper bounds of waits after refusals that ask for none.
const (
	leastBackoff = 100 * time.Millisecond
	// mostBackoff is also how long a request waits for those under way if all of them hang.
	mostBackoff = 32 * time.Second
)

// A backoff is how long the key waits after refusals that ask for no wait, or for a
// longer one than MaxWait.
type backoff struct {
	latest  time.Duration // the upper bound of the latest wait; 0 if nothing was refused since an answer
	proven  time.Duration // the bound after which a request was served
	longest time.Duration // the latest wait that was cut; 0 if none was since an answer
}

// wait returns how long the key waits after a refusal that asks for a wait, or for none
// if that is 0. Half of a wait that nobody asked for is random, so that clients that were
// refused together do not come back together.
func (b *backoff) wait(asked, longest time.Duration) time.Duration {
	if wait := b.cut(asked, longest); wait > 0 {
		b.latest = 0
		return wait
	}
	bound := b.next()
	return min(bound/2+rand.N(bound/2), longest)
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
