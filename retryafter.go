package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

const retryAfterKey = "Retry-After" // RFC 9110 Section 10.2.3

// A retryAfter is what one line of the field Retry-After asks for.
type retryAfter struct {
	seconds  number    // from when the response arrived
	date     time.Time // or until then; zero if it is a number
	standard bool      // RFC 9110 allows the form
}

// parseRetryAfter reads a number of seconds, if need be with a fraction, or a
// date in any form.
func parseRetryAfter(line string) (r retryAfter, ok bool) {
	s := trim(line)
	if s == "" {
		return r, false
	}
	if is(s[0], digit) {
		if r.seconds, ok = parseNumber(s); ok {
			r.standard = all(s, digit)
			return r, true
		}
	}
	if r.date, r.standard = parseHTTPDate(s); r.standard {
		return r, true
	}
	r.date, ok = parseTime(s)
	return r, ok
}

// wait returns how long the line asks to wait, from when dates count: at least
// 0, a fraction of a second rounded up, saturating.
func (r *retryAfter) wait(now time.Time) time.Duration {
	if r.date.IsZero() {
		d, _ := SecondsOf(r.seconds.ceil()).Duration()
		return d
	}
	return max(r.date.Sub(now), 0)
}

// ParseRetryAfter returns how long h asks to wait, at least 0, and whether it asks
// at all (RFC 9110 Section 10.2.3). Of several lines of Retry-After the first that
// can be read counts. Where there is none, the longest wait counts of the fields
// that servers send in its place: Retry-After-Ms, X-Retry-After,
// X-RateLimit-Retry-After-Seconds and others whose names consist of a vendor's
// prefix, Retry-After, and a unit of time.
//
// One of 0 there asks for nothing, as some send it with every response.
//
// A number is seconds, unless the name has another unit; a fraction is rounded
// up. A date, in any of the three
// forms of an HTTP-date or in that of RFC 3339, counts from the field Date, and
// from received, when the response arrived, where there is no Date, where it is
// more than a day off, or where the field Age says that the response is an old
// one. The zero received is time.Now(). A wait that a Duration cannot hold
// becomes the longest that it can.
func ParseRetryAfter(h http.Header, received time.Time) (d time.Duration, ok bool) {
	if d, ok := readRetryAfter(h, received); ok {
		return d, true
	}
	c := readClock(h, received)
	d = askedElsewhere(h, &c)
	return d, d > 0
}

// readRetryAfter is ParseRetryAfter for the field Retry-After alone.
func readRetryAfter(h http.Header, received time.Time) (d time.Duration, ok bool) {
	for _, line := range h[retryAfterKey] {
		if r, ok := parseRetryAfter(line); ok {
			if r.date.IsZero() {
				return r.wait(received), true
			}
			c := readClock(h, received)
			return r.wait(c.now()), true
		}
	}
	return 0, false
}

// RetryAfter returns how long a client has to wait because nothing remains: the
// longest wait of the limits with nothing remaining, each its Reset, or without
// one the Window of its policy. It is absent where there is no such limit, or
// none that says for how long. It is what [Advisor.Advise] would read out of the
// fields.
func (f Fields) RetryAfter() Seconds {
	policies := newMatcher(f.Policies)
	var longest Seconds
	for i := range f.Limits {
		l := &f.Limits[i]
		wait, _ := waitOf(l, policies.policy(l))
		longest = longer(longest, wait)
	}
	return longest
}

// longer returns the longer of two waits, of which an absent one is the
// shortest.
func longer(s, t Seconds) Seconds {
	if !s.ok || t.ok && t.n > s.n {
		return t
	}
	return s
}

// SetRetryAfter sets the field Retry-After of h to [Fields.RetryAfter] in
// seconds: it SHOULD NOT be earlier than the end of the effective window
// (draft-11 Section 6). Where that is absent, h stays as it is.
//
// It never lowers what h asks for, as [ParseRetryAfter] reads it: a Retry-After
// that is later stays, of several lines the latest alone, because other
// recipients read the first line, or none of several. A longer wait in a field in
// its place is what it is set to.
func (f Fields) SetRetryAfter(h http.Header) {
	wait, ok := f.RetryAfter().Duration()
	if h == nil || !ok || wait < 0 {
		return
	}
	c := readClock(h, time.Time{})
	longest := f.RetryAfter()
	if len(h[retryAfterKey]) == 0 { // then readers go by the fields in its place
		longest = longer(longest, CeilSeconds(askedElsewhere(h, &c)))
		wait, _ = longest.Duration()
	}
	value := strconv.FormatInt(min(longest.n, MaxInteger), 10)
	for _, line := range h[retryAfterKey] {
		if r, ok := parseRetryAfter(line); ok && r.wait(c.now()) >= wait {
			wait, value = r.wait(c.now()), line
		}
	}
	if lines := h[retryAfterKey]; len(lines) != 1 || lines[0] != value {
		h.Set(retryAfterKey, value)
	}
}
