package machine

import (
	"math/rand/v2"
	"time"
)

// The upper bounds of waits after refusals that ask for none.
const (
	firstBackoff = 300 * time.Millisecond // until a request is served after one
	leastBackoff = 100 * time.Millisecond
	// mostBackoff is also how long a request waits for the requests under way if all of them hang.
	mostBackoff = 32 * time.Second
)

// slowerWaits slows the growth of backoff.enough. If other clients take most of a quota, a few refusals
// in a row are bad luck, and a shorter wait would have been enough too.
const slowerWaits = 4

// A backoff is how long the key waits after refusals that ask for none, or for more than MaxWait.
type backoff struct {
	latest    time.Duration // the upper bound of the latest wait that no server asked for; 0 if a request was served since
	enough    time.Duration // after which a request is served: see recovered
	shortened time.Duration // the latest wait that was cut; 0 if a request was served since
	asked     time.Duration // what the server had asked for when that wait was cut
}

// wait returns how long the key waits after a refusal that asks for a wait, or for none if asked
// is 0. Half of a wait that the server did not ask for is random, so that clients that were refused
// together do not come back together. A wait that the server asked for is at most maxWait at first,
// and half as much again after each refusal, up to what the server asks for. Otherwise a client with
// a short MaxWait would be refused again and again.
func (b *backoff) wait(asked, maxWait time.Duration) time.Duration {
	if asked <= 0 {
		bound := b.next()
		return min(bound/2+rand.N(bound/2+1), maxWait)
	}
	if asked <= maxWait {
		return asked
	}
	b.shortened, b.asked = min(asked, max(maxWait, b.shortened+b.shortened/2)), asked
	return b.shortened
}

// Late returns a random time below most, so that clients that a server asked to wait for the same
// instant do not come back together. If most is 0 or less, it is 0.
func Late(most time.Duration) time.Duration { return rand.N(max(most, 1)) }

// next returns the upper bound of the next wait. The first bound is half of the wait that was enough
// the last time. Each further bound is half as long again, but none skips the wait that was enough. The
// bounds go on growing if the server asks for a wait in between: some servers round resets down to 0, and
// count refused requests.
func (b *backoff) next() time.Duration {
	d := b.latest + b.latest/2
	switch {
	case b.latest == 0 && b.enough == 0:
		d = firstBackoff
	case b.latest == 0:
		d = max(b.enough/2, leastBackoff)
	case b.latest < b.enough:
		d = min(d, b.enough)
	}
	b.latest = min(d, mostBackoff)
	return b.latest
}

// recovered ends the backoff, after an answer that is no refusal.
func (b *backoff) recovered() {
	if b.latest > 0 {
		wait := b.latest / 8 * 7 // an eighth less than the bound
		if b.enough > 0 && wait > b.enough {
			wait = b.enough + (wait-b.enough)/slowerWaits
		}
		b.enough, b.latest = wait, 0
	}
	b.shortened, b.asked = 0, 0
}

// A rate spaces requests. It is for limiters that announce nothing and refuse requests
// although one is under way at a time. Some of them count refused requests too, so that a
// client that only backs off stays at their limit, and is refused most of the time.
type rate struct {
	perSecond float64   // requests a second; 0 means that requests are not spaced
	gap       float64   // seconds between two requests, averaged over the latest of them
	best      float64   // requests a second that were served at best
	served    int       // requests since the latest refusal that no limit explains
	since     time.Time // when that refusal came; zero before
}

const (
	// slower is the part of the rate that remains after a refusal.
	slower = 0.7
	// faster is how much the rate grows with each request that is served.
	faster = 1.007
	// regainTime is the time constant in seconds with which the rate also grows from request to
	// request. Without this growth, the rate would fall for ever if a server refused a part of the
	// requests at any rate: few requests are served between two refusals then.
	regainTime = 120
	// Spacing begins with at most mostStart times the rate of what was served, because the backoff has
	// used some of the time. It begins with at least leastStart times the rate of the latest requests,
	// because the caller may have paused.
	mostStart  = 1.25
	leastStart = 0.25
	// bestPart is the part of the best rate below which refusals do not lower the rate. If other
	// clients use up the quota, a slower client is refused as often as a faster one.
	bestPart = 0.9
	// bestFades is the part of the difference by which the best rate falls towards a lower one.
	bestFades = 1.0 / 64
	// A rate is dropped if it is rateUnused times as fast as requests come.
	rateUnused = 4
	// gapWeight is the weight of the latest gap in the average.
	gapWeight = 1.0 / 8
	// A gap counts as at most longestGap times the average. A pause of the caller, or a backoff, shows
	// little of how fast requests come.
	longestGap = 2
	// mostGap is the longest gap that counts, in seconds. Otherwise a client that sends a request
	// every ten minutes would wait as long after a single refusal.
	mostGap = 10
	// firstGap is the average before there are two requests, in seconds.
	firstGap = 0.02
	// leastGap is the shortest gap that counts, in seconds: requests that go together.
	leastGap = 0.001
)

// interval returns the time between two requests, 0 if they are not spaced.
func (r *rate) interval() time.Duration {
	if r.perSecond == 0 {
		return 0
	}
	return scale(time.Second, 1/r.perSecond)
}

// sent counts a request, and the gap between it and the last one.
func (r *rate) sent(last, now time.Time) {
	if last.IsZero() {
		r.gap = firstGap
		return
	}
	gap := max(now.Sub(last).Seconds(), leastGap)
	r.perSecond += r.perSecond * gap / regainTime
	gap = min(gap, r.gap*longestGap, mostGap)
	r.gap += (gap - r.gap) * gapWeight
}

// recovered counts a request that was served.
func (r *rate) recovered() {
	r.served++
	if r.perSecond *= faster; r.perSecond*r.gap > rateUnused {
		r.perSecond = 0
	}
}

// slow lowers the rate after a refusal, once for all refusals with nothing served in between. It begins
// to space requests if the refused request was the only one in flight, and its refusal asked for no
// wait. It begins with the rate of what was served since the refusal before, if that is slower than the
// rate of the latest requests. A few quick requests show little of what the limiter allows.
func (r *rate) slow(now time.Time, alone bool) {
	if r.served == 0 {
		return
	}
	served := float64(r.served) / max(now.Sub(r.since).Seconds(), leastGap) // a second
	switch {
	case r.perSecond == 0 && alone:
		r.perSecond, r.best = slower/r.gap, 0
		if !r.since.IsZero() {
			r.perSecond = min(r.perSecond, max(served*mostStart, r.perSecond*leastStart))
		}
	case r.perSecond > 0:
		r.best = max(served, r.best+(served-r.best)*bestFades)
		r.perSecond = min(r.perSecond, max(min(r.perSecond, 1/r.gap)*slower, r.best*bestPart))
	}
	r.since, r.served = now, 0
}
