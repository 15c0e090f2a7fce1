package ratelimit

import (
	"math"
	"time"
)

// FixedWindow returns the policy and the limit of a limiter that counts requests in
// windows of time. quota is how many quota units a window has, and used how many of
// these are spent. window is how long a window lasts, and left how long the current
// one still lasts. For a sliding log, used is the number of its entries, and left
// the time until the oldest of these leaves it.
//
// Remaining is quota − used, at least 0, and Reset is left. If both used and left
// are 0 or less, the next request begins a window, so Reset is a whole window.
// Numbers are cut to what the fields can carry, and times are rounded up to whole
// seconds, at least one: then no client comes back too early, or takes a limit of
// which something is used for one that is whole again. A window of less than a
// second becomes a second, and clients go slower than they could. A window of 0 or
// less is absent.
//
// A whole quota shortly before the end of a window invites twice the quota within
// a moment: [Limit.Cap] lowers what remains to what the server can stand, and
// [Limit.Jitter] spreads those that wait for the same end (draft-11 Section 8.5).
func FixedWindow(name string, quota, used int64, window, left time.Duration) (Policy, Limit) {
	p := Policy{Name: name, Quota: min(max(quota, 0), MaxInteger)}
	if window > 0 {
		p.Window = CeilSeconds(window)
	}
	if used <= 0 && left <= 0 {
		left = window
	}
	remaining := p.Quota - min(max(used, 0), p.Quota)
	return p, Limit{Name: name, Remaining: remaining, Reset: SecondsOf(max(CeilSeconds(left).n, 1))}
}

// TokenBucket returns the policy and the limit of a token bucket, or of GCRA, which
// is the same by another name. The bucket can hold burst tokens, perSecond tokens
// flow into it each second, and it holds tokens now: below 0 if some are promised
// already. NaN is taken for 0.
//
// Quota is burst, and Window the time in which an empty bucket fills. Remaining is
// the whole tokens in the bucket. Reset is the time until there is one more, so at
// most so many requests can pass until then, and one that is refused could pass
// after it. Numbers are cut to what the fields can carry, and times are rounded up
// to whole seconds, at least one. A bucket into which nothing flows has neither
// Window nor Reset.
//
// If a limiter tells the time until its bucket is full, as redis_rate does in
// ResetAfter, tokens is burst − perSecond × that time in seconds.
//
// Let burst be at least what flows in within a second. A Reset is whole seconds,
// so clients that keep to the fields get no more than burst tokens a second, even
// if more flow in.
func TokenBucket(name string, burst int64, perSecond, tokens float64) (Policy, Limit) {
	p := Policy{Name: name, Quota: min(max(burst, 0), MaxInteger)}
	l := Limit{Name: name}
	if tokens = max(min(tokens, float64(p.Quota)), -math.MaxFloat64); math.IsNaN(tokens) {
		tokens = 0
	}
	next := 1.0 // the number of tokens that is awaited
	if tokens >= 1 {
		l.Remaining = int64(tokens)
		next += math.Floor(tokens)
	}
	if perSecond > 0 {
		p.Window = flowTime(float64(max(p.Quota, 1)), perSecond)
		l.Reset = flowTime(next-tokens, perSecond)
	}
	return p, l
}

// flowTime returns how long it takes for tokens to flow into a bucket, at least a
// second.
func flowTime(tokens, perSecond float64) Seconds {
	const noise = 4e-16 // of a rate that is a quotient: 17 in 7 seconds is 7 seconds, not 8
	s := min(math.Ceil(tokens/perSecond*(1-noise)), MaxInteger)
	return SecondsOf(max(int64(s), 1))
}
