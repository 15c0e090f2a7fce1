package ratelimit

import (
	"math"
	"strconv"
	"time"
)

// Seconds is a whole number of seconds that may be absent. The zero value is absent, and
// differs from SecondsOf(0). Values can be compared with ==.
type Seconds struct {
	n  int64 // 0 if not ok
	ok bool  // there is a number
}

// SecondsOf returns n seconds. It does not check n: Validate of the policy or limit that
// has it refuses a number below 0 or above MaxInteger.
func SecondsOf(n int64) Seconds { return Seconds{n, true} }

// CeilSeconds returns d rounded up to whole seconds, so that a client never comes back
// too early. A negative d becomes 0.
func CeilSeconds(d time.Duration) Seconds {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return SecondsOf(max(n, 0))
}

// Value returns the number of seconds, 0 if it is absent, and whether there is one.
func (s Seconds) Value() (n int64, ok bool) { return s.n, s.ok }

// Duration returns s as a duration, 0 if it is absent, and whether there is one; it
// saturates at some 292 years.
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

// After returns the time s after t, or the zero time, and whether s has a number. It
// rounds up to a whole second, so that responses which announce the same end lead to the
// same time, and saturates as Duration.
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

// String returns the number with its unit, such as "30s", or "absent".
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

// longer returns the longer of two waits. An absent wait is the shortest.
func longer(s, t Seconds) Seconds {
	if !s.ok || t.n > s.n {
		return t
	}
	return s
}
