package ratelimit

import (
	"strings"
	"time"
)

// exactly returns a moment as a time from now with all the precision that it has, as
// what it is in Seconds is rounded up. value is the text that was read. It is 0 where
// the moment has whole seconds, and where nothing more precise can be said.
func (m *moment) exactly(value string, c *clock) time.Duration {
	var d time.Duration
	switch {
	case m.kind == dateMoment && m.nsec > 0 && !m.short:
		d = time.Unix(m.sec, m.nsec).Sub(c.now())
	case m.kind == dateMoment:
	case m.units == 1000:
		d = numberOf(m.number, time.Millisecond)
	case m.written:
		d, _ = time.ParseDuration(strings.TrimSpace(unquote(trim(value))))
	default:
		d = numberOf(m.number, time.Second)
	}
	if d <= 0 || d%time.Second == 0 {
		return 0
	}
	return d
}

// numberOf returns so many units of time, rounded up; 0 where it is more than a year,
// of which no part of a second matters.
func numberOf(v number, unit time.Duration) time.Duration {
	const year = 365 * 24 * time.Hour
	if v.neg || v.n > int64(year/unit) {
		return 0
	}
	parts := int64(time.Second / unit) // of a billionth, which are a nanosecond
	return time.Duration(v.n)*unit + time.Duration((v.frac+parts-1)/parts)
}

// exactly returns the precise time where it is what the reset has been rounded up from.
func (s Seconds) exactly(precise time.Duration) time.Duration {
	if precise > 0 && CeilSeconds(precise) == s {
		return precise
	}
	return 0
}

// note remembers the precise reset of a limit by its index.
func (f *Fields) note(i int, precise time.Duration) {
	if precise == 0 {
		return
	}
	for len(f.exact) <= i {
		f.exact = append(f.exact, 0)
	}
	f.exact[i] = precise
}

// reset returns the time until the reset of a limit, as precise as the response had it.
func (f *Fields) reset(i int) (d time.Duration, ok bool) {
	s := f.Limits[i].Reset
	if i < len(f.exact) {
		if precise := s.exactly(f.exact[i]); precise > 0 {
			return precise, true
		}
	}
	return s.Duration()
}
