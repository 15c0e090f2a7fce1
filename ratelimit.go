package ratelimit

import (
	"log/slog"
	"math"
	"strconv"
	"time"
)

// isInteger reports whether n is from least to MaxInteger.
func isInteger(n, least int64) bool { return least <= n && n <= MaxInteger }

// A Limit is a member of the field RateLimit (draft-11 Section 4.1): what is
// left of the quota of a policy. It may change with every response. It is not a
// promise that requests will be served (draft-11 Section 4.1.1).
//
// The zero Limit is valid: its name is empty, and nothing remains of it.
type Limit struct {
	// Name is the name of the [Policy] that the limit reports on, see
	// [Fields.PolicyOf]. It is printable ASCII, and may be empty.
	Name string
	// Remaining is the parameter "r", in quota units, from 0 to MaxInteger
	// (draft-11 Section 4.1.1). In a limit of an older response it may also be
	// [Unknown].
	Remaining int64
	// Reset is the parameter "t", from 0 to MaxInteger seconds, or absent
	// (draft-11 Section 4.1.2). It counts from the response, and within it the
	// client may use no more than Remaining. It does not say that the whole
	// quota is back afterwards (draft-11 Section 8.4).
	Reset Seconds
	// PartitionKey is the parameter "pk", which may be any bytes (draft-11
	// Section 4.1.3). nil is absent; an empty slice that is not nil is an empty
	// key.
	PartitionKey []byte
	// Params are the parameters that the specification does not define, in the
	// order of the field.
	Params Params
}

// Unknown stands for the Remaining of a [Limit] or the Quota of a [Policy] that
// an older response does not say. The current fields require both, so they
// cannot carry a member without one; see [Fields.Writable].
const Unknown = -1

// Validate returns nil if l can be written as a member of RateLimit, else the
// first rule that it breaks, as a [*FieldError] with Offset -1:
//
//   - Name is printable ASCII (ErrSyntax).
//   - Remaining is from 0 to MaxInteger, Reset is absent or from 0 to
//     MaxInteger (ErrRange). An [Unknown] remaining cannot be written.
//   - There are at most 256 parameters, those with a struct field included
//     (ErrTooMany).
//   - Keys in Params are legal (ErrSyntax), each occurs once, and none is r, t
//     or pk (ErrDuplicate).
//   - Values in Params have a type that is listed at [Param] (ErrType), and can
//     be written (ErrSyntax, ErrRange).
func (l Limit) Validate() error {
	_, err := l.AppendText(nil)
	return err
}

// Equal reports whether l and m are the same on the wire. A value that is
// absent in one of them is not equal to any in the other: an absent Reset is
// not equal to one of 0, nor an absent PartitionKey to an empty one. The order
// of Params counts.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// String returns l as a member of RateLimit, as [Limit.AppendText] writes it. A
// Remaining that is [Unknown] is left out. For a limit that [Limit.Validate]
// refuses, the text is not a valid member.
func (l Limit) String() string {
	b, param, err := l.append(nil, true)
	return memberString(b, LimitField, param, err)
}

// LogValue returns the text of [Limit.String], partition key included. It
// implements [slog.LogValuer].
func (l Limit) LogValue() slog.Value { return slog.StringValue(l.String()) }

// AppendText appends l to b as a member of RateLimit, as [AppendLimits] does
// with one limit. On error, that of [Limit.Validate], it returns b as it was.
// It implements [encoding.TextAppender].
func (l Limit) AppendText(b []byte) ([]byte, error) { return AppendLimits(b, l) }

// MarshalText returns l as a member of RateLimit, as [Limit.AppendText] writes
// it. On error, that of [Limit.Validate], it returns nil. It implements
// [encoding.TextMarshaler].
func (l Limit) MarshalText() ([]byte, error) { return l.AppendText(nil) }

// UnmarshalText reads a text that is exactly one member of RateLimit, as
// [ParseLimits] reads it. A text without a member is an error that wraps
// ErrMissing, one with several members ErrTooMany. On error l is as it was. It
// implements [encoding.TextUnmarshaler].
func (l *Limit) UnmarshalText(text []byte) error {
	list, err := parseList[Limit](limitField, 1, []string{string(text)})
	return setOnly(l, list, err, LimitField, len(text))
}

// Seconds is a whole number of seconds that may be absent. Its zero value is
// absent, which is not the same as SecondsOf(0). Values can be compared with
// ==.
type Seconds struct {
	n  int64 // 0 if not ok
	ok bool  // there is a number
}

// SecondsOf returns n seconds. n is not checked: a number that no field can
// carry, below 0 or above MaxInteger, is refused by Validate of the policy or
// limit that has it.
func SecondsOf(n int64) Seconds { return Seconds{n, true} }

// CeilSeconds returns d in seconds. A part of a second is rounded up, so that a
// client never comes back too early. A negative d becomes 0.
func CeilSeconds(d time.Duration) Seconds {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return SecondsOf(max(n, 0))
}

// Value returns the number of seconds, and whether there is one. An absent
// number is returned as 0.
func (s Seconds) Value() (n int64, ok bool) { return s.n, s.ok }

// Duration returns the number of seconds as a duration, and whether there is
// one. An absent number is returned as 0. A Duration holds up to about 292
// years; a number beyond that becomes the longest Duration, or the most
// negative one.
func (s Seconds) Duration() (d time.Duration, ok bool) {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case s.n > most:
		return math.MaxInt64, true
	case s.n < -most:
		return math.MinInt64, true
	default:
		return time.Duration(s.n) * time.Second, s.ok
	}
}

// After returns the time s after t, and whether s has a number. The time is
// rounded up to a whole second, so that a server which announces the same end
// in several responses leads to the same time. A number of more than about 292
// years is cut to that. If s is absent, After returns the zero time.
func (s Seconds) After(t time.Time) (time.Time, bool) {
	d, ok := s.Duration()
	if !ok {
		return time.Time{}, false
	}
	end := t.Add(d)
	if whole := end.Truncate(time.Second); whole.Before(end) {
		return whole.Add(time.Second), true
	}
	return end.Round(0), true
}

// String returns the number with its unit, such as "30s", or "absent" if there
// is none.
func (s Seconds) String() string {
	if !s.ok {
		return "absent"
	}
	return strconv.FormatInt(s.n, 10) + "s"
}

// readable returns a duration as people read it: as package time writes it, in whole
// seconds from a minute on, in whole milliseconds from a second on.
func readable(d time.Duration) string {
	switch {
	case d > 100*365*24*time.Hour: // it may have been cut to what a Duration can hold
		return "more than a century"
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

// lower returns the lower of two numbers, of which Unknown is the highest.
func lower(a, b int64) int64 {
	if uint64(a) < uint64(b) {
		return a
	}
	return b
}

// longer returns the longer of two waits. An absent wait is the shortest.
func longer(s, t Seconds) Seconds {
	if !s.ok || t.n > s.n {
		return t
	}
	return s
}
