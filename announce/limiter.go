package announce

import (
	"math"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
)

// A FixedWindow is the state of a limiter that counts in windows of time. For a sliding log, Used
// is the number of entries, and Left is the time until the oldest entry expires. For a limiter that
// also counts a part of the previous window, use [SlidingWindow]: otherwise clients wait too long.
type FixedWindow struct {
	Name   string        // of the policy
	Quota  int64         // quota units that a window has, such as 100
	Used   int64         // quota units of the current window that are spent, such as 40
	Window time.Duration // how long a window lasts, such as a minute; 0 or less is absent
	Left   time.Duration // how long the current window still lasts, such as 12 s
}

// Fields returns one policy and its limit: "minute";q=100;w=60 and "minute";r=60;t=12 for the examples
// in [FixedWindow]. [ratelimit.Fields.Join] adds the Fields of other limiters. Remaining is Quota −
// Used, at least 0, and Reset is Left. If both Used and Left are 0 or less, the next request begins a
// window, so Reset is Window. Numbers are cut to the range of the fields. Times are rounded up to whole
// seconds, at least one, so that no client comes back too early.
//
// A client may save its quota for the end of a window, and then send the quotas of two windows at once:
// see [ratelimit.Limit.Cap]. If many clients wait for one end, see [ratelimit.Limit.Jitter].
func (w FixedWindow) Fields() ratelimit.Fields {
	p := ratelimit.Policy{Name: w.Name, Quota: min(max(w.Quota, 0), ratelimit.MaxInteger)}
	if w.Window > 0 {
		p.Window = ratelimit.CeilSeconds(w.Window)
	}
	left := w.Left
	if w.Used <= 0 && left <= 0 {
		left = w.Window
	}
	remaining := p.Quota - min(max(w.Used, 0), p.Quota)
	return oneLimit(p, ratelimit.Limit{Name: w.Name, Remaining: remaining, Reset: atLeastSecond(left)})
}

// A SlidingWindow is the state of a limiter that counts the current window and a part of the
// previous one. Examples are go-chi/httprate, Cloudflare, Symfony and limits for Python.
type SlidingWindow struct {
	Name     string        // of the policy
	Quota    int64         // quota units that a window has, such as 100
	Previous int64         // quota units that were spent in the previous window, such as 80
	Current  int64         // quota units that are spent in the current window, such as 40
	Window   time.Duration // how long a window lasts, such as a minute; if it is 0 or less, Previous does not count
	Left     time.Duration // how long the current window still lasts, such as 30 s; at most Window
}

// Fields returns one policy and its limit: "minute";q=100;w=60 and "minute";r=20;t=30 for the examples
// in [SlidingWindow], cut and rounded as by [FixedWindow.Fields]. Remaining is Quota − Current −
// Previous × Left ÷ Window, rounded down, at least 0. If something remains, or Quota is 0, Reset is
// Left. Otherwise Reset is the time until Remaining is 1, if no further request is served.
func (w SlidingWindow) Fields() ratelimit.Fields {
	p := ratelimit.Policy{Name: w.Name, Quota: min(max(w.Quota, 0), ratelimit.MaxInteger)}
	window, left := max(w.Window, 0), min(max(w.Left, 0), max(w.Window, 0))
	previous, current := max(w.Previous, 0), max(w.Current, 0)
	l := ratelimit.Limit{Name: w.Name, Remaining: max(p.Quota-current, 0)}
	if window > 0 {
		p.Window = ratelimit.CeilSeconds(window)
		l.Remaining = max(l.Remaining-text.MulDivUp(uint64(left), uint64(previous), uint64(window)), 0)
	}
	// slide returns the time until fewer than quota of the spent units are in the window.
	slide := func(spent, quota int64) time.Duration {
		return time.Duration(text.MulDivUp(uint64(spent-quota+1), uint64(window), uint64(spent)))
	}
	wait := left
	switch {
	case l.Remaining > 0 || p.Quota == 0:
	case current < p.Quota:
		wait = left - window + slide(previous, p.Quota-current)
	default: // the current window has become the previous window by then
		wait = time.Duration(text.SaturatingAdd(int64(left), int64(slide(current, p.Quota))))
	}
	l.Reset = atLeastSecond(wait)
	return oneLimit(p, l)
}

func atLeastSecond(d time.Duration) ratelimit.Seconds {
	return ratelimit.CeilSeconds(max(d, time.Second))
}

func oneLimit(p ratelimit.Policy, l ratelimit.Limit) ratelimit.Fields {
	return ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{l}}
}

// A TokenBucket is the state of a token bucket or of GCRA, as in x/time/rate, redis_rate and
// throttled.
type TokenBucket struct {
	Name      string  // of the policy
	Burst     int64   // tokens that the bucket can hold, such as 20
	PerSecond float64 // tokens that flow into the bucket each second, such as 0.1
	Tokens    float64 // tokens in the bucket now, such as 7.5; below 0 if some are reserved in advance; NaN is 0
}

// Fields returns one policy and its limit: "bucket";q=20;w=200 and "bucket";r=7;t=5 for the examples in
// [TokenBucket], cut and rounded as by [FixedWindow.Fields]. Quota is Burst, and Window is the time in
// which an empty bucket fills. Remaining is the number of whole tokens. Reset is the time until there
// is one more token. Then a refused request of one token could pass. For requests of several tokens see
// [Refuse]. If PerSecond is 0, both Window and Reset are absent.
//
// Some limiters return only the time until the bucket is full, such as ResetAfter of redis_rate.
// Tokens is then Burst − PerSecond × this time in seconds. Burst should exceed PerSecond by at
// least 1, because Reset is in whole seconds. With 2 tokens a second, clients send one request a
// second if Burst is 2, and two if Burst is 3.
func (b TokenBucket) Fields() ratelimit.Fields {
	p := ratelimit.Policy{Name: b.Name, Quota: min(max(b.Burst, 0), ratelimit.MaxInteger)}
	tokens := min(b.Tokens, float64(p.Quota))
	if math.IsNaN(tokens) {
		tokens = 0
	}
	whole := math.Floor(max(tokens, 0))
	l := ratelimit.Limit{Name: b.Name, Remaining: int64(whole)}
	if b.PerSecond > 0 {
		p.Window = flowTime(float64(max(p.Quota, 1)), b.PerSecond)
		l.Reset = flowTime(whole+1-tokens, b.PerSecond)
	}
	return oneLimit(p, l)
}

// flowTime returns the time in which tokens flow into a bucket, at least a second.
func flowTime(tokens, perSecond float64) ratelimit.Seconds {
	const noise = 4e-16 // of a rate that is a quotient: 17 tokens in 7 seconds take 7 seconds, not 8
	s := min(math.Ceil(tokens/perSecond*(1-noise)), ratelimit.MaxInteger)
	return ratelimit.SecondsOf(max(int64(s), 1))
}
