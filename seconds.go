package ratelimit

import (
	"math"
	"strconv"
	"time"
)

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

// longer returns the longer of two waits. An absent wait is the shortest.
func longer(s, t Seconds) Seconds {
	if !s.ok || t.n > s.n {
		return t
	}
	return s
}
