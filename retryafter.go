package ratelimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// ParseRetryAfter returns the wait that h asks for, at least 0, and false if h asks for
// none. received is when the response arrived. The zero time means time.Now().
//
// The first of these that can be read counts:
//
//   - Retry-After-Ms, a number of milliseconds, which is more precise than Retry-After;
//   - Retry-After (RFC 9110 Section 10.2.3);
//   - the longest wait of the fields that servers send in its place: X-Retry-After,
//     X-RateLimit-Wait, and names with a vendor's prefix or a unit of time, such as
//     X-Throttle-Wait-Seconds. Their values may also be Unix seconds, or a duration such as 1m30s.
//     A 0 is ignored, because some servers always send it. If there are more than 1024 such fields,
//     none is read.
//
// If a field has several lines, the first readable line counts, among the first 16. A number is in
// seconds, unless the name contains another unit, and may have a fraction. A date is an HTTP-date
// in any of its three forms, or a timestamp of RFC 3339. The wait until a date is counted from the
// field Date. It is counted from received if Date is absent or more than a day off, or if the
// response comes from a cache. A year of two digits is at most 50 years ahead (RFC 9110 Section
// 5.6.7). The wait saturates.
func ParseRetryAfter(h http.Header, received time.Time) (d time.Duration, ok bool) {
	c := text.Clock{Header: h, Arrived: received}
	if d, ok := readRetryAfter(&c); ok {
		return d, true
	}
	d = older.Waits(h, &c)
	return d, d > 0
}

// readRetryAfter is ParseRetryAfter for the fields Retry-After-Ms and Retry-After alone.
func readRetryAfter(c *text.Clock) (d time.Duration, ok bool) {
	if d, ok = retryAfterMs(c.Header); ok {
		return d, true
	}
	for _, line := range firstLines(c.Header[text.RetryAfterKey]) {
		if r, ok := text.ParseRetryAfter(line); ok {
			return r.Wait(c.Now), true
		}
	}
	return 0, false
}

// retryAfterMs returns the wait of the field Retry-After-Ms.
func retryAfterMs(h http.Header) (d time.Duration, ok bool) {
	for _, line := range firstLines(h[text.RetryAfterMsKey]) {
		if n, ok := text.ParseNumber(text.Trim(line)); ok && !n.Neg {
			return n.Span(1000).Duration(), true
		}
	}
	return 0, false
}

// firstLines returns the lines of a field that are read. Reading more would take long, because a
// line may be long.
func firstLines(lines []string) []string { return lines[:min(len(lines), 16)] }

// RetryAfter returns the longest wait of the limits with nothing remaining. It is absent if there is no
// such wait. The wait of a limit is its Reset or, if that is absent, the Window of its policy.
func (f Fields) RetryAfter() Seconds {
	policies := newMatcher(f.Policies)
	var longest Seconds
	for i := range f.Limits {
		l := &f.Limits[i]
		longest = longer(longest, l.wait(policies.policy(l)))
	}
	return longest
}

// SetRetryAfter sets the field Retry-After of h to [Fields.RetryAfter], because Retry-After SHOULD NOT
// end before the effective window (draft-11 Section 6). If f has no such wait, h is unchanged.
// SetRetryAfter also raises a shorter Retry-After-Ms, and never shortens the wait that
// [ParseRetryAfter] finds in h. It leaves one line of Retry-After, because some clients read only the
// first line.
func (f Fields) SetRetryAfter(h http.Header) { raiseRetryAfter(h, f.RetryAfter(), time.Time{}, true) }

// raiseRetryAfter is [Fields.SetRetryAfter] for a response that arrived at received. A zero
// received means time.Now(). If adds is false, it only raises an existing wait.
func raiseRetryAfter(h http.Header, longest Seconds, received time.Time, adds bool) {
	wait, ok := longest.Duration()
	if h == nil || !ok || wait < 0 {
		return
	}
	longest.n = min(longest.n, MaxInteger)
	if d, ok := retryAfterMs(h); ok && d < wait { // clients that read Retry-After-Ms ignore Retry-After
		h[text.RetryAfterMsKey] = []string{strconv.FormatInt(longest.n*1000, 10)}
	}
	asked, ok := ParseRetryAfter(h, received) // also from the fields that servers send in its place
	if !ok && !adds {
		return
	}
	value := strconv.FormatInt(longer(longest, CeilSeconds(asked)).n, 10)
	c := text.Clock{Header: h, Arrived: received}
	for _, line := range h[text.RetryAfterKey] {
		if r, ok := text.ParseRetryAfter(line); ok && r.Wait(c.Now) >= wait {
			wait, value = r.Wait(c.Now), line
		}
	}
	h[text.RetryAfterKey] = []string{value}
}

// obeysRetryAfter reports whether a Retry-After counts in a response with a status.
func (a *Advice) obeysRetryAfter(status int) bool {
	return a.Refused || status/100 != 2 || a.Fields.isCurrent() || a.Fields.exhausted()
}
