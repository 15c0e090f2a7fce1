package ratelimit

import (
	"net/http"
	"time"
)

// ParseRetryAfter returns how long the field Retry-After of h asks to wait, at
// least 0, and whether there is one that can be read (RFC 9110 Section 10.2.3).
// Of several lines the first that can be read counts.
//
// A number is seconds; a fraction is rounded up. A date, in any of the three
// forms of an HTTP-date or in that of RFC 3339, counts from the field Date,
// unless the field Age says that the response is an old one, and else from
// received, when the response arrived (the zero time is time.Now()). What a
// Duration cannot hold becomes the longest that it can.
func ParseRetryAfter(h http.Header, received time.Time) (d time.Duration, ok bool) {
	for _, line := range h[retryAfterField] {
		s := trim(line)
		if wait, ok := delaySeconds(s); ok {
			return wait, true
		}
		if t, ok := readDate(s); ok {
			r := reading{h: h, now: received}
			return max(t.Sub(r.reference()), 0), true
		}
	}
	return 0, false
}

// delaySeconds reads a number of seconds without a sign.
func delaySeconds(s string) (d time.Duration, ok bool) {
	if s == "" || !is(s[0], digit) {
		return 0, false
	}
	n, ok := parseNumber(s)
	if !ok {
		return 0, false
	}
	d, _ = SecondsOf(n.ceil()).Duration()
	return d, true
}

// readDate reads a point in time in any form that a reset may have.
func readDate(s string) (time.Time, bool) {
	if len(s) > maxTime {
		return time.Time{}, false
	}
	if t, ok := parseTimestamp(s); ok {
		return t, true
	}
	return parseDate(s)
}

// DefaultMaxWait is the longest wait that a [Client] obeys if it does not say
// otherwise: draft-11 Section 8.5.1 names resets of more than ten minutes as a
// threshold.
const DefaultMaxWait = 10 * time.Minute

// A Client says what a response asks of whoever sent the request. The zero
// Client is ready to use.
type Client struct {
	// MaxWait is the longest wait that is obeyed; afterwards one request may
	// find out whether the limit still stands. 0, or less, is DefaultMaxWait.
	MaxWait time.Duration
	// Legacy says how limits are read that are not in the fields
	// RateLimit-Policy and RateLimit, as by [ParseAny]. Its Now is ignored.
	Legacy LegacyOptions
}

func (c *Client) maxWait() time.Duration {
	if c.MaxWait <= 0 {
		return DefaultMaxWait
	}
	return c.MaxWait
}

// A Source is what decided the wait of an [Advice].
type Source int

const (
	// SourceNone says that the response asks for no wait.
	SourceNone Source = iota
	// SourceRetryAfter is the field Retry-After, which takes precedence over
	// all others (draft-11 Section 7).
	SourceRetryAfter
	// SourceLimit is the Reset of a limit of which nothing remains.
	SourceLimit
	// SourceWindow is the Window of the policy of such a limit, which has no
	// Reset.
	SourceWindow
)

// String returns "none", "retry-after", "limit" or "window".
func (s Source) String() string {
	switch s {
	case SourceRetryAfter:
		return "retry-after"
	case SourceLimit:
		return "limit"
	case SourceWindow:
		return "window"
	}
	return "none"
}

// An Advice is what a response asks of a client. The zero Advice is to go on.
//
// It promises nothing: a server may refuse a request although something
// remains (draft-11 Section 4.1.1), and the end of a wait does not restore the
// quota for certain (Sections 4.1.2 and 8.4).
type Advice struct {
	// Wait is how long to wait before the next request, counted from the
	// arrival of the response: 0, to go on, to Client.MaxWait.
	Wait time.Duration
	// Pace is the time between requests that spreads what remains over the
	// time left; 0 where the response does not tell. It is not cut to
	// Client.MaxWait.
	Pace time.Duration
	// Source is what decided Wait. It may have decided on a Wait of 0.
	Source Source
	// Limit is the limit that decided, where Source is SourceLimit or
	// SourceWindow.
	Limit Limit
	// Capped says that Wait was cut to Client.MaxWait: the next request is a
	// probe, to find out whether the limit still stands.
	Capped bool
	// Fields is all that the response said in fields of rate limits, nothing
	// if it came from a cache.
	Fields Fields
}

// Advise returns what resp, which arrived at received, asks of the client.
// The body is not looked at, nor are trailers, and the status makes no
// difference (draft-11 Section 6). A nil resp asks for nothing.
//
// Retry-After decides the wait if it is there (Section 7). Everything else is
// ignored on a response from a cache, one with a positive Age (Section 7.3), and
// so is each field that is malformed (Section 7). A limit with nothing
// remaining waits its Reset, or, if that is absent, the Window of its policy;
// of several the longest wait counts. A limit of requests with something
// remaining sets the Pace; of several the slowest counts. Whatever else a
// response does not say is not assumed.
func (c Client) Advise(resp *http.Response, received time.Time) Advice {
	var a Advice
	if resp == nil {
		return a
	}
	c.advise(&a, resp.Header, received)
	if most := c.maxWait(); a.Wait > most {
		a.Wait, a.Capped = most, true
	}
	return a
}

func (c *Client) advise(a *Advice, h http.Header, received time.Time) {
	if wait, ok := ParseRetryAfter(h, received); ok {
		a.Wait, a.Source = wait, SourceRetryAfter
	}
	if aged(h) {
		return
	}
	c.Legacy.Now = received
	a.Fields, _ = ParseAny(h, c.Legacy) // malformed fields MUST be ignored (draft-11 Section 7)
	policies := newMatcher(&a.Fields)
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		policy := policies.policy(l)
		switch {
		case l.Remaining == 0 && a.Source != SourceRetryAfter:
			a.exhausted(l, policy)
		case l.Remaining > 0 && policy.Unit.countsRequests():
			a.Pace = max(a.Pace, pace(l, policy))
		}
	}
}

// exhausted takes the wait of a limit with nothing remaining if it is the
// longest so far. One that says neither when nor for how long decides nothing.
func (a *Advice) exhausted(l *Limit, p *Policy) {
	source := SourceLimit
	wait, ok := l.Reset.Duration()
	if !ok {
		source = SourceWindow
		wait, ok = p.Window.Duration()
	}
	if ok && (a.Source == SourceNone || wait > a.Wait) {
		a.Wait, a.Source, a.Limit = wait, source, *l
	}
}

// pace spreads what remains over the time left. More than the quota would be
// more than the policy ever allows (draft-11 Section 8.5.1).
func pace(l *Limit, p *Policy) time.Duration {
	remaining := l.Remaining
	if p.Quota > 0 {
		remaining = min(remaining, p.Quota)
	}
	left, _ := l.Reset.Duration()
	return left / time.Duration(remaining)
}

// requestAlias is what the table of draft-11 Section 10.3 calls requests, by an
// oversight.
const requestAlias Unit = "request"

// countsRequests reports whether each request takes one quota unit. A limit
// without a policy is taken to do so (draft-11 Section 3.1.2).
func (u Unit) countsRequests() bool {
	return u == "" || u == Requests || u == requestAlias
}
