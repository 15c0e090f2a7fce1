package ratelimit

import (
	"log/slog"
	"net/http"
	"time"
)

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

// LogValue returns the wait, the pace and the source as a group, and the limit
// where one decided. What is 0 is left out.
func (a Advice) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 4)
	if a.Wait > 0 {
		attrs = append(attrs, slog.Duration("wait", a.Wait))
	}
	if a.Pace > 0 {
		attrs = append(attrs, slog.Duration("pace", a.Pace))
	}
	if a.Source != SourceNone {
		attrs = append(attrs, slog.String("source", a.Source.String()))
	}
	if a.Source == SourceLimit || a.Source == SourceWindow {
		attrs = append(attrs, slog.Any("limit", a.Limit))
	}
	return slog.GroupValue(attrs...)
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
	wait, asked := readRetryAfter(h, received)
	old := stored(h)
	if !old {
		var elsewhere time.Duration
		c.Legacy.Now = received
		a.Fields, elsewhere, _ = parseAny(h, &c.Legacy) // malformed fields MUST be ignored (draft-11 Section 7)
		if !asked {
			wait, asked = elsewhere, elsewhere > 0
		}
	}
	if !asked && (old || a.Fields.Dialect == currentDialect) { // then nobody has looked for other fields yet
		wait, asked = ParseRetryAfter(h, received)
	}
	if asked {
		a.Wait, a.Source = wait, SourceRetryAfter
	}
	a.follow()
}

// follow adds what the fields of a ask for.
func (a *Advice) follow() {
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		p := policies.policy(l)
		if l.exhausted(p) {
			wait, source := waitOf(l, p)
			if d, ok := wait.Duration(); ok && a.Source != SourceRetryAfter && (a.Source == SourceNone || d > a.Wait) {
				a.Wait, a.Source, a.Limit = d, source, *l
			}
		} else if l.Remaining > 0 && p.Unit.countsRequests() {
			a.Pace = max(a.Pace, pace(l, p))
		}
	}
}

// waitOf returns for how long nothing remains of l, of which p is the policy:
// its Reset, or without one the window of the policy. It is absent where
// something remains, or where nothing says for how long.
func waitOf(l *Limit, p *Policy) (wait Seconds, source Source) {
	switch {
	case !l.exhausted(p):
		return Seconds{}, SourceNone
	case l.Reset.ok:
		return l.Reset, SourceLimit
	case p.Window.ok:
		return p.Window, SourceWindow
	}
	return Seconds{}, SourceNone
}

// pace spreads what remains over the time left, rounded up. More than the quota
// would be more than the policy ever allows (draft-11 Section 8.5.1).
func pace(l *Limit, p *Policy) time.Duration {
	remaining := l.Remaining
	if p.Quota > 0 {
		remaining = min(remaining, p.Quota)
	}
	left, _ := l.Reset.Duration()
	pace := left / time.Duration(remaining)
	if left%time.Duration(remaining) > 0 {
		pace++
	}
	return pace
}
