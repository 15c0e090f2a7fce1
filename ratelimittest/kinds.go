package ratelimittest

import (
	"cmp"
	"math"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Limit is one limit of an [API].
type Limit struct {
	Policy ratelimit.Policy // the name, the quota, the window and the unit; Concurrency needs no window
	Kind   Kind
	// Burst is how many tokens a TokenBucket can hold; 0 is the quota of the Policy. The bucket fills
	// at quota ÷ window. The API announces Burst as the quota, and the time in which an empty bucket
	// fills as the window.
	Burst int64
}

// A Kind is a kind of limiter. It decides when units come back.
type Kind int

const (
	FixedWindow     Kind = iota // windows by the clock: all units come back at multiples of the window
	WindowFromFirst             // a window begins with the first request after the last window
	SlidingLog                  // each unit comes back a window after it was used
	SlidingCounter              // a window by the clock, and a part of the window before, which shrinks with time
	TokenBucket                 // units come back one by one, at quota ÷ window
	Concurrency                 // a unit comes back when the request is answered
)

// unit returns the unit of the policy. A limit of concurrent requests may leave it out.
func (l *Limit) unit() ratelimit.Unit {
	if l.Kind == Concurrency {
		return cmp.Or(l.Policy.Unit, ratelimit.ConcurrentRequests)
	}
	return l.Policy.Unit
}

// A counter is the state of a Limit for one key. The times that it gets never go back.
type counter struct {
	*Limit
	length   time.Duration // of a window
	now      time.Time     // of the last call of state
	begin    time.Time     // of the current window
	used     int64         // in the current window, in the log, or under way
	previous int64         // units that were used in the window before
	log      []entry       // the oldest first
	tokens   float64
}

// An entry is the units that came from first to last.
type entry struct {
	first, last time.Time
	units       int64
}

func newCounter(l *Limit) *counter {
	length, _ := l.Policy.Window.Duration()
	return &counter{Limit: l, length: length, tokens: float64(l.capacity())}
}

// capacity returns the announced quota.
func (l *Limit) capacity() int64 {
	if l.Kind == TokenBucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Policy.Quota
}

// unknown is the wait if no time is known. It is longer than all others.
const unknown time.Duration = math.MaxInt64

// A state is what a limit announces.
type state struct {
	policy ratelimit.Policy
	limit  ratelimit.Limit
	reset  time.Duration // of limit, without rounding; unknown if it is absent
	full   time.Duration // until the whole quota is back
}

// state returns what is announced at a time.
func (c *counter) state(now time.Time) state {
	before := c.now
	c.now = now
	var f ratelimit.Fields
	s := state{reset: unknown}
	switch c.Kind {
	case FixedWindow, WindowFromFirst:
		f, s.reset, s.full = c.window()
	case SlidingLog:
		f, s.reset, s.full = c.slidingLog()
	case SlidingCounter:
		f, s.reset, s.full = c.slidingCounter()
	case TokenBucket:
		f, s.reset, s.full = c.bucket(before)
	default:
		p := ratelimit.Policy{Quota: c.Policy.Quota}
		f = ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{{Remaining: p.Quota - c.used}}}
	}
	s.policy, s.limit = c.Policy, f.Limits[0]
	s.policy.Quota, s.policy.Window, s.policy.Unit = f.Policies[0].Quota, f.Policies[0].Window, c.unit()
	s.limit.Name, s.limit.PartitionKey = c.Policy.Name, c.Policy.PartitionKey
	return s
}

func (c *counter) window() (f ratelimit.Fields, reset, full time.Duration) {
	begin := c.begin
	switch {
	case c.Kind == FixedWindow:
		begin = c.now.Truncate(c.length)
	case c.used == 0 || c.now.Sub(begin) >= c.length:
		begin = c.now
	}
	if !begin.Equal(c.begin) {
		c.begin, c.used = begin, 0
	}
	left := c.left(c.begin)
	if c.used > 0 {
		full = left
	}
	return announce.FixedWindow{Quota: c.Policy.Quota, Used: c.used, Window: c.length, Left: left}.Fields(), left, full
}

// left returns how long a window that began at a time still lasts.
func (c *counter) left(begin time.Time) time.Duration { return c.length - c.now.Sub(begin) }

func (c *counter) slidingLog() (f ratelimit.Fields, reset, full time.Duration) {
	for len(c.log) > 0 && c.left(c.log[0].last) <= 0 {
		c.used -= c.log[0].units
		c.log = c.log[1:]
	}
	left := c.length
	if n := len(c.log); n > 0 {
		left, full = c.left(c.log[0].last), c.left(c.log[n-1].last)
	}
	return announce.FixedWindow{Quota: c.Policy.Quota, Used: c.used, Window: c.length, Left: left}.Fields(), left, full
}

func (c *counter) slidingCounter() (f ratelimit.Fields, reset, full time.Duration) {
	begin := c.now.Truncate(c.length)
	if passed := begin.Sub(c.begin); passed > 0 {
		c.previous, c.used, c.begin = c.used, 0, begin
		if passed > c.length {
			c.previous = 0
		}
	}
	left := c.left(c.begin)
	switch {
	case c.used > 0:
		full = left + c.length
	case c.previous > 0:
		full = left
	}
	f = announce.SlidingWindow{
		Quota: c.Policy.Quota, Previous: c.previous, Current: c.used, Window: c.length, Left: left,
	}.Fields()
	return f, cmp.Or(c.slide(1), left), full
}

// slide returns how long a sliding window has to move until n units remain.
func (c *counter) slide(n int64) time.Duration {
	// units were used in the window before. left returns how long the current window may still last if
	// no more than most of these units may count.
	left := func(most, units int64) time.Duration {
		if units <= most {
			return c.length
		}
		d, _ := text.MulDiv(uint64(most), uint64(c.length), uint64(units))
		return time.Duration(d)
	}
	if most := c.Policy.Quota - c.used - n; most >= 0 {
		return max(c.left(c.begin)-left(most, c.previous), 0)
	}
	return c.left(c.begin) + c.length - left(c.Policy.Quota-n, c.used) // the current window is the previous one then
}

func (c *counter) bucket(before time.Time) (f ratelimit.Fields, reset, full time.Duration) {
	const rounding = 1e-9 // of the product, so that a token is there when it is due
	if !before.IsZero() {
		c.tokens = min(c.tokens+c.now.Sub(before).Seconds()*c.perSecond()+rounding, float64(c.capacity()))
	}
	f = announce.TokenBucket{Burst: c.capacity(), PerSecond: c.perSecond(), Tokens: c.tokens}.Fields()
	return f, c.flow(math.Floor(c.tokens) + 1), c.flow(float64(c.capacity()))
}

func (c *counter) perSecond() float64 { return float64(c.Policy.Quota) / c.length.Seconds() }

// flow returns how long it takes until the bucket holds a number of tokens.
func (c *counter) flow(tokens float64) time.Duration {
	d := math.Ceil(max(tokens-c.tokens, 0) / c.perSecond() * float64(time.Second))
	return time.Duration(min(d, 1<<62))
}

// wait returns how long it takes until n units remain; 0 if they remain now. Call state first.
func (c *counter) wait(n int64) time.Duration {
	missing := n - c.Policy.Quota + c.used
	switch {
	case n > c.capacity():
		return unknown
	case c.Kind == TokenBucket:
		return c.flow(float64(n))
	case c.Kind == SlidingCounter:
		return c.slide(n)
	case missing <= 0:
		return 0
	case c.Kind == Concurrency:
		return unknown
	case c.Kind == SlidingLog:
		i := 0
		for ; missing > c.log[i].units; i++ {
			missing -= c.log[i].units
		}
		return c.left(c.log[i].last)
	}
	return c.left(c.begin)
}

// longLog bounds the memory of a log. If a log has more entries, units that are used shortly after one
// another share an entry. All units of an entry come back when its last unit does.
const longLog = 4096

// take uses n units. Call state first.
func (c *counter) take(n int64) {
	c.used = text.SaturatingAdd(c.used, n)
	c.tokens -= float64(n)
	last := len(c.log) - 1
	switch {
	case c.Kind != SlidingLog || n == 0:
	case last >= longLog && c.now.Sub(c.log[last].first) < c.length/longLog:
		c.log[last].last = c.now
		c.log[last].units += n
	default:
		c.log = append(c.log, entry{c.now, c.now, n})
	}
}

// end gives back the units of a request that was under way.
func (c *counter) end(n int64) {
	if c.Kind == Concurrency {
		c.used -= n
	}
}
