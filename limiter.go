package ratelimit

import (
	"math"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
)

// A FixedWindow is what a limiter that counts in windows of time knows. For a sliding
// log, Used is the number of its entries, and Left the time until the oldest leaves it.
//
// It is wrong for limiters that weigh the previous window, such as go-chi/httprate, which
// have [SlidingWindow]: half of the time clients would wait for nothing. It is also wrong for
// limiters that refill all the time, such as x/time/rate, redis_rate and throttled, which
// have [TokenBucket].
type FixedWindow struct {
	Name   string        // of the policy
	Quota  int64         // quota units that a window has, such as 100
	Used   int64         // quota units of the current window that are spent, such as 40
	Window time.Duration // how long a window lasts, such as a minute; 0 or less is absent
	Left   time.Duration // how long the current window still lasts, such as 12 s
}

// Fields returns one policy and its limit: "minute";q=100;w=60 and "minute";r=60;t=12
// for the numbers above. [Fields.Join] joins several. Remaining is Quota − Used, at
// least 0, and Reset is Left. If both Used and Left are 0 or less, the next request
// begins a window, so Reset is a whole window. Numbers are cut to what the fields can
// carry, and times rounded up to whole seconds, at least one, so that no client comes
// back too early.
//
// A whole quota shortly before the end of a window invites twice the quota within a
// moment: see [Limit.Cap], and [Limit.Jitter] for those that wait for the same end
// (draft-11 Section 8.5).
func (w FixedWindow) Fields() Fields {
	p := Policy{Name: w.Name, Quota: min(max(w.Quota, 0), MaxInteger)}
	if w.Window > 0 {
		p.Window = CeilSeconds(w.Window)
	}
	left := w.Left
	if w.Used <= 0 && left <= 0 {
		left = w.Window
	}
	remaining := p.Quota - min(max(w.Used, 0), p.Quota)
	return oneLimit(p, Limit{Name: w.Name, Remaining: remaining, Reset: SecondsOf(max(CeilSeconds(left).n, 1))})
}

// A SlidingWindow is what a limiter knows that adds a part of the previous window to the
// current one, as go-chi/httprate, Cloudflare, Symfony and limits for Python do.
type SlidingWindow struct {
	Name     string        // of the policy
	Quota    int64         // quota units that a window has, such as 100
	Previous int64         // quota units that were spent in the previous window, such as 80
	Current  int64         // quota units that are spent in the current window, such as 40
	Window   time.Duration // how long a window lasts, such as a minute; 0 or less is absent, and Previous does not count
	Left     time.Duration // how long the current window still lasts, such as 30 s; at most Window
}

// Fields returns one policy and its limit: "minute";q=100;w=60 and "minute";r=20;t=30 for
// the numbers above. [Fields.Join] joins several. Remaining is Quota − Current −
// Previous × Left ÷ Window, rounded down, at least 0. Reset is Left, or, if nothing remains,
// the time until Remaining is 1, provided that no request is served before. If that never
// happens, because Quota is 0, Reset is Left. Numbers and times are cut and rounded as by
// [FixedWindow.Fields].
func (w SlidingWindow) Fields() Fields {
	p := Policy{Name: w.Name, Quota: min(max(w.Quota, 0), MaxInteger)}
	window, left := max(w.Window, 0), min(max(w.Left, 0), max(w.Window, 0))
	previous, current := max(w.Previous, 0), max(w.Current, 0)
	l := Limit{Name: w.Name, Remaining: max(p.Quota-current, 0)}
	if window > 0 {
		p.Window = CeilSeconds(window)
		l.Remaining = max(l.Remaining-text.MulDivUp(uint64(left), uint64(previous), uint64(window)), 0)
	}
	wait := left
	switch fit := func(quota, spent int64) time.Duration { // how much of a window may count, for a request to fit in
		return time.Duration(text.MulDiv(uint64(quota-1), uint64(window), 1, uint64(spent)))
	}; {
	case l.Remaining > 0 || p.Quota == 0:
	case current < p.Quota:
		wait = left - fit(p.Quota-current, previous)
	default: // the current window is the previous one then
		wait = time.Duration(text.SaturatingAdd(int64(left), int64(window-fit(p.Quota, current))))
	}
	l.Reset = SecondsOf(max(CeilSeconds(wait).n, 1))
	return oneLimit(p, l)
}

// oneLimit returns the Fields of one policy and its limit.
func oneLimit(p Policy, l Limit) Fields {
	return Fields{Policies: []Policy{p}, Limits: []Limit{l}}
}

// A TokenBucket is what the limiter of that name knows, or one by GCRA, which is the
// same.
type TokenBucket struct {
	Name      string  // of the policy
	Burst     int64   // tokens that the bucket can hold, such as 20
	PerSecond float64 // tokens that flow into it each second, such as 0.1
	Tokens    float64 // tokens in it now, such as 7.5; below 0 if some are promised already; NaN is 0
}

// Fields returns one policy and its limit: "bucket";q=20;w=200 and "bucket";r=7;t=5 for
// the numbers above. [Fields.Join] joins several.
//
// Quota is Burst, and Window the time in which an empty bucket fills. Remaining is the
// whole tokens in the bucket, and Reset the time until there is one more, at which a
// refused request of one token could pass; of several see [Refuse]. Numbers and times
// are cut and rounded as by [FixedWindow.Fields]. A bucket into which nothing flows has
// neither Window nor Reset.
//
// If a limiter tells the time until its bucket is full, as redis_rate does in
// ResetAfter, Tokens is Burst − PerSecond × that time in seconds. Let Burst be at least
// one more than what flows in within a second: a Reset is whole seconds, so with a burst
// of 2 into which 2 flow each second clients get one a second, with a burst of 3 two.
func (b TokenBucket) Fields() Fields {
	p := Policy{Name: b.Name, Quota: min(max(b.Burst, 0), MaxInteger)}
	l := Limit{Name: b.Name}
	tokens := min(b.Tokens, float64(p.Quota))
	if math.IsNaN(tokens) {
		tokens = 0
	}
	next := 1.0 // the number of tokens that is awaited
	if tokens >= 1 {
		l.Remaining = int64(tokens)
		next += math.Floor(tokens)
	}
	if b.PerSecond > 0 {
		p.Window = flowTime(float64(max(p.Quota, 1)), b.PerSecond)
		l.Reset = flowTime(next-tokens, b.PerSecond)
	}
	return oneLimit(p, l)
}

// flowTime returns how long it takes for tokens to flow into a bucket, at least a
// second.
func flowTime(tokens, perSecond float64) Seconds {
	const noise = 4e-16 // of a rate that is a quotient: 17 in 7 seconds is 7 seconds, not 8
	s := min(math.Ceil(tokens/perSecond*(1-noise)), MaxInteger)
	return SecondsOf(max(int64(s), 1))
}
