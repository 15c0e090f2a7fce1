package text

import (
	"time"
)

// The fields that contain a wait.
const (
	RetryAfterKey   = "Retry-After"    // RFC 9110 Section 10.2.3
	RetryAfterMsKey = "Retry-After-Ms" // OpenAI and Azure
)

// A RetryAfter is the value of one line of the field Retry-After.
type RetryAfter struct {
	Seconds  Number // the wait, from the arrival of the response
	Date     Date   // the end of the wait; zero if the value is a number
	Standard bool   // the value has a form that RFC 9110 allows
}

// ParseRetryAfter reads a number of seconds or a date (RFC 9110 Section 10.2.3). It accepts
// more than the RFC: Shopify sends 2.0, and other servers send dates in other forms.
//
//	Retry-After = HTTP-date / delay-seconds
func ParseRetryAfter(line string) (r RetryAfter, ok bool) {
	s := Trim(line)
	if r.Seconds, ok = ParseNumber(s); ok && Is(s[0], Digit) {
		r.Standard = All(s, Digit)
		return r, true
	}
	_, r.Standard = ParseHTTPDate(s)
	r.Date, ok = ParseTime(s)
	return r, ok
}

// Wait returns the wait that the line asks for, at least 0. The wait until a date is counted
// from now(). The wait saturates.
func (r *RetryAfter) Wait(now func() time.Time) time.Duration {
	if r.Date.IsZero() {
		return r.Seconds.Span(1).Duration()
	}
	from := now()
	return max(r.Date.In(from).Sub(from), 0)
}
