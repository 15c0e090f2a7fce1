package ratelimit

import (
	"math"
	"math/bits"
	"strings"
	"time"
)

const billion = int64(time.Second) // the nanoseconds of a second, and the billionths of 1

// A number is a decimal number as it stands in a field. A number that is too
// large for n becomes the largest that n can hold: the reader of a limit needs
// to know that it is huge, and no more.
type number struct {
	n    int64 // the whole part, at most math.MaxInt64
	frac int64 // the fraction in billionths, rounded up: 0 to billion
	neg  bool  // there is a minus sign, also before 0
}

// parseNumber reads digits, with an optional sign before them and an optional
// fraction behind them, such as -1.5. Digits are required on both sides of a
// point.
func parseNumber(s string) (v number, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		v.neg = s[0] == '-'
		s = s[1:]
	}
	end := skip(s, 0, digit)
	v.n = parseDigits(s[:end])
	if end == len(s) || end == 0 || s[end] != '.' {
		return v, end > 0 && end == len(s)
	}
	v.frac, ok = parseFraction(s[end+1:])
	return v, ok
}

// parseDigits returns the value of a text of digits, at most math.MaxInt64.
func parseDigits(s string) (n int64) {
	for i := range len(s) {
		d := int64(s[i] - '0')
		if n > (math.MaxInt64-d)/10 {
			return math.MaxInt64
		}
		n = n*10 + d
	}
	return n
}

// parseFraction reads the digits behind a decimal point, in billionths. Digits
// behind the ninth add one billionth, unless all of them are 0, so that no
// number above 0 is read as 0. There has to be a digit.
func parseFraction(s string) (billionths int64, ok bool) {
	unit := billion
	for i := range len(s) {
		if !is(s[i], digit) {
			return 0, false
		}
		switch unit /= 10; {
		case unit > 0:
			billionths += int64(s[i]-'0') * unit
		case s[i] > '0':
			return billionths + 1, skip(s, i, digit) == len(s)
		}
	}
	return billionths, s != ""
}

// floor returns the number rounded down. A negative number becomes 0, one above
// MaxInteger becomes MaxInteger.
func (v number) floor() int64 {
	if v.neg {
		return 0
	}
	return min(v.n, MaxInteger)
}

// ceil returns the number rounded up. A negative number becomes 0, one above
// MaxInteger becomes MaxInteger.
func (v number) ceil() int64 { return v.ceilDiv(1) }

// ceilDiv returns the number divided by a positive divisor, and then rounded
// up. A negative number becomes 0, a quotient above MaxInteger becomes
// MaxInteger.
func (v number) ceilDiv(by int64) int64 {
	if v.neg {
		return 0
	}
	n := v.n / by
	if v.n%by > 0 || v.frac > 0 {
		n = saturatingAdd(n, 1)
	}
	return min(n, MaxInteger)
}

// split takes the number as a count of units, perSecond of which make a second,
// and returns it in seconds and nanoseconds. A part of a nanosecond is rounded
// up, so that nsec may reach a whole second. A negative number becomes 0.
func (v number) split(perSecond int64) (sec, nsec int64) {
	if v.neg {
		return 0, 0
	}
	return v.n / perSecond, v.n%perSecond*(billion/perSecond) + (v.frac+perSecond-1)/perSecond
}

// saturatingAdd returns a + b, at most math.MaxInt64. Neither may be negative.
func saturatingAdd(a, b int64) int64 {
	return int64(min(uint64(a)+uint64(b), math.MaxInt64))
}

// saturatingMul returns a × b, at most math.MaxInt64. Neither may be negative.
func saturatingMul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi > 0 {
		return math.MaxInt64
	}
	return int64(min(lo, math.MaxInt64))
}

// readable returns a duration as people read it: as package time writes it, in whole
// seconds from a minute on, in whole milliseconds from a second on.
func readable(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

// nanoseconds returns the length of a unit of time in nanoseconds. It knows the
// unit by the names that servers use for it, and returns 0 for any other name.
func nanoseconds(unit string) int64 {
	switch unit {
	case "ns":
		return 1
	case "us", "µs", "μs": // the micro sign, and the Greek letter
		return 1e3
	case "ms", "msec", "msecs", "millisecond", "milliseconds":
		return 1e6
	case "s", "sec", "secs", "second", "seconds":
		return billion
	case "m", "min", "mins", "minute", "minutes":
		return 60 * billion
	case "h", "hr", "hrs", "hour", "hours":
		return 3600 * billion
	case "d", "day", "days":
		return 86400 * billion
	case "w", "week", "weeks":
		return 604800 * billion
	}
	return 0
}

// parseDuration reads a duration as Go writes it, such as 6m0s. In addition to
// what Go writes, it may have days, weeks, and spaces between its parts. The
// result is in seconds, rounded up, at most MaxInteger.
func parseDuration(s string) (n int64, ok bool) {
	var sec, nsec int64
	for s != "" {
		var v number
		var unit int64
		if v, unit, s, ok = cutDuration(s); !ok {
			return 0, false
		}
		whole, part := saturatingMul(v.n, unit/billion), v.frac*(unit/billion)
		if unit < billion {
			whole, part = v.split(billion / unit)
		}
		nsec += part
		sec, nsec = saturatingAdd(saturatingAdd(sec, whole), nsec/billion), nsec%billion
	}
	if nsec > 0 {
		sec = saturatingAdd(sec, 1)
	}
	return min(sec, MaxInteger), true
}

// cutDuration cuts the first number and its unit off a duration. It returns the
// unit in nanoseconds, and the rest of the duration.
func cutDuration(s string) (v number, unit int64, rest string, ok bool) {
	end := 0
	for end < len(s) && (is(s[end], digit) || s[end] == '.') {
		end++
	}
	v, ok = parseNumber(s[:end])
	s = strings.TrimLeft(s[end:], " ")
	end = 0
	for end < len(s) && !is(s[end], digit|sp) {
		end++
	}
	unit = nanoseconds(s[:end])
	return v, unit, strings.TrimLeft(s[end:], " "), ok && unit > 0
}

// parseClockTime reads a span of time written as hh:mm:ss. Days may stand
// before it (1.02:03:04), and a fraction of a second behind it. The result is
// in seconds, rounded up, at most MaxInteger.
func parseClockTime(s string) (n int64, ok bool) {
	hours, rest, _ := strings.Cut(s, ":")
	minutes, seconds, _ := strings.Cut(rest, ":")
	days := "0"
	if before, behind, ok := strings.Cut(hours, "."); ok {
		days, hours = before, behind
	}
	for i, part := range [...]struct {
		text string
		unit int64
	}{{days, 86400}, {hours, 3600}, {minutes, 60}, {seconds, 1}} {
		v, ok := parseNumber(part.text)
		if !ok || !is(part.text[0], digit) || i < 3 && v.frac > 0 {
			return 0, false
		}
		n = saturatingAdd(n, saturatingMul(v.ceil(), part.unit))
	}
	return min(n, MaxInteger), true
}

// parseSpan reads a span of time in any form that names its unit: a duration
// (6m0s), a clock (00:06:00), or a unit alone, which is one of that unit (the h
// of 600/h). The result is in seconds, rounded up, at most MaxInteger.
func parseSpan(s string) (n int64, ok bool) {
	if strings.Contains(s, ":") {
		return parseClockTime(s)
	}
	if s == "" || !is(s[0], digit) {
		s = "1" + s
	}
	return parseDuration(s)
}
