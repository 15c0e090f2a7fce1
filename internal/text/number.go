package text

import (
	"math"
	"math/bits"
	"strings"
	"time"
)

// MaxInteger is the largest Integer of a structured field (RFC 9651 Section 3.3.1).
const MaxInteger = 999_999_999_999_999

const Billion = int64(time.Second) // the nanoseconds of a second, and the billionths of 1

// A Number is a decimal number in a field. If it is too large for N, N is the largest value.
type Number struct {
	N    int64 // the whole part, at most math.MaxInt64
	Frac int64 // the fraction in billionths, rounded up: 0 to billion
	Neg  bool  // there is a minus sign, also before 0
}

// ParseNumber reads digits with an optional sign and an optional fraction, such as -1.5. A
// point needs digits on both sides.
func ParseNumber(s string) (v Number, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		v.Neg = s[0] == '-'
		s = s[1:]
	}
	var end int
	v.N, end = cutDigits(s)
	if end == len(s) || end == 0 || s[end] != '.' {
		return v, end > 0 && end == len(s)
	}
	v.Frac, ok = parseFraction(s[end+1:])
	return v, ok
}

// ParseDigits returns the value of the digits at the start of a text, at most math.MaxInt64.
func ParseDigits(s string) int64 {
	n, _ := cutDigits(s)
	return n
}

// cutDigits is ParseDigits, and also returns the index after the digits.
func cutDigits(s string) (n int64, end int) {
	for ; end < len(s) && Is(s[end], Digit); end++ {
		if d := int64(s[end] - '0'); n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
		} else {
			n = n*10 + d
		}
	}
	return n, end
}

// parseFraction reads the digits after a decimal point, at least one, in billionths. Digits
// after the ninth add one billionth, unless all of them are 0.
func parseFraction(s string) (billionths int64, ok bool) {
	unit := Billion
	for i := range len(s) {
		if !Is(s[i], Digit) {
			return 0, false
		}
		switch unit /= 10; {
		case unit > 0:
			billionths += int64(s[i]-'0') * unit
		case s[i] > '0':
			return billionths + 1, Past(s, i, Digit) == len(s)
		}
	}
	return billionths, s != ""
}

// ParseCount reads a number, in which commas may separate thousands.
func ParseCount(s string) (Number, bool) {
	v, ok := ParseNumber(s)
	if !ok && IsThousands(s) {
		return ParseNumber(strings.ReplaceAll(s, ",", ""))
	}
	return v, ok
}

// IsThousands reports whether commas in a number separate thousands: 1,000 or
// 12,345,678.90, but not 12,34, nor 0,100.
func IsThousands(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	for i := range len(whole) {
		comma := (len(whole)-i)%4 == 0
		if comma != (whole[i] == ',') || !comma && !Is(whole[i], Digit) {
			return false
		}
	}
	return whole != "" && whole[0] > '0' && All(fraction, Digit)
}

// Floor returns the number rounded down, cut to the range from 0 to MaxInteger.
func (v Number) Floor() int64 {
	if v.Neg {
		return 0
	}
	return min(v.N, MaxInteger)
}

// Ceil returns the number rounded up, cut to the range from 0 to MaxInteger.
func (v Number) Ceil() int64 {
	if v.Neg {
		return 0
	}
	return min(SaturatingAdd(v.N, min(v.Frac, 1)), MaxInteger)
}

// Span converts a number of units to a span, given the number of units in a second. A negative
// number becomes 0.
func (v Number) Span(perSecond int64) Span {
	if v.Neg {
		return Span{}
	}
	nsec := v.N%perSecond*(Billion/perSecond) + (v.Frac+perSecond-1)/perSecond
	return spanOf(v.N/perSecond, nsec)
}

// SaturatingAdd returns a + b, at most math.MaxInt64. Neither may be negative.
func SaturatingAdd(a, b int64) int64 {
	return int64(min(uint64(a)+uint64(b), math.MaxInt64))
}

// SaturatingMul returns a × b, at most math.MaxInt64. Neither may be negative.
func SaturatingMul(a, b int64) int64 {
	n, _ := MulDiv(uint64(a), uint64(b), 1)
	return n
}

// MulDiv returns a × b ÷ by, rounded down, and the remainder. The quotient is at most
// math.MaxInt64. by may not be 0.
func MulDiv(a, b, by uint64) (n int64, rest uint64) {
	hi, lo := bits.Mul64(a, b)
	if hi >= by {
		return math.MaxInt64, 0
	}
	quotient, rest := bits.Div64(hi, lo, by)
	return int64(min(quotient, math.MaxInt64)), rest
}

// MulDivUp is MulDiv, rounded up.
func MulDivUp(a, b, by uint64) int64 {
	n, rest := MulDiv(a, b, by)
	if rest > 0 {
		n = SaturatingAdd(n, 1)
	}
	return n
}

// A Span is a length of time. It can be much longer than a time.Duration.
type Span struct {
	Sec  int64 // whole seconds, from 0 to math.MaxInt64
	Nsec int64 // and nanoseconds, below a second
}

// spanOf returns a span; nsec may be a second or more.
func spanOf(sec, nsec int64) Span {
	return Span{SaturatingAdd(sec, nsec/Billion), nsec % Billion}
}

// Ceil returns the span in seconds, rounded up, at most MaxInteger.
func (s Span) Ceil() int64 { return Number{N: s.Sec, Frac: s.Nsec}.Ceil() }

// Duration returns the span as a duration, or the longest that there is.
func (s Span) Duration() time.Duration {
	return time.Duration(SaturatingAdd(SaturatingMul(s.Sec, Billion), s.Nsec))
}

// units has the lengths of units of time in nanoseconds.
var units = map[string]int64{
	"ns": 1,
	"us": 1e3, "µs": 1e3, "μs": 1e3, // the micro sign, and the Greek letter
	"ms": 1e6,
	"s":  Billion, "sec": Billion, "second": Billion, "seconds": Billion,
	"m": 60 * Billion, "min": 60 * Billion, "minute": 60 * Billion, "minutes": 60 * Billion,
	"h": 3600 * Billion, "hour": 3600 * Billion, "hours": 3600 * Billion,
	"d": 86400 * Billion, "day": 86400 * Billion, "days": 86400 * Billion,
	"w": 604800 * Billion, "week": 604800 * Billion, "weeks": 604800 * Billion,
}

// ParseSpan reads a span of time in a form that names its unit. It may be a clock (00:06:00), or
// a duration of ISO 8601 (PT6M). It may be a duration in the form of Go (6m0s), also with days,
// weeks, and spaces between its parts. A unit alone means one such unit (the h of 600/h).
func ParseSpan(s string) (Span, bool) {
	switch {
	case s == "" || len(s) > MaxTime:
		return Span{}, false
	case strings.IndexByte(s, ':') >= 0:
		return parseClockTime(s)
	case s[0] == 'P':
		return parseISO(s[1:])
	case !Is(s[0], Digit):
		s = "1" + s
	}
	return parseDuration(s)
}

func parseDuration(s string) (d Span, ok bool) {
	for s != "" {
		var v Number
		var unit int64
		if v, unit, s, ok = cutDuration(s); !ok {
			return Span{}, false
		}
		d = d.add(v, unit)
	}
	return d, ok
}

// add adds a number of units, each of unit nanoseconds.
func (s Span) add(v Number, unit int64) Span {
	part := Span{SaturatingMul(v.N, unit/Billion), v.Frac * (unit / Billion)}
	if unit < Billion {
		part = v.Span(Billion / unit)
	}
	return spanOf(SaturatingAdd(s.Sec, part.Sec), s.Nsec+part.Nsec)
}

// cutDuration cuts the first number and its unit, in nanoseconds, off a duration.
func cutDuration(s string) (v Number, unit int64, rest string, ok bool) {
	end := 0
	for end < len(s) && (Is(s[end], Digit) || s[end] == '.') {
		end++
	}
	v, ok = ParseNumber(s[:end])
	s = strings.TrimLeft(s[end:], " ")
	end = 0
	for end < len(s) && !Is(s[end], Digit|Space) {
		end++
	}
	name := s[:end]
	if end > 2 { // Seconds; but 1M is a month, and 1m a minute
		name = strings.ToLower(name)
	}
	unit = units[name]
	return v, unit, strings.TrimLeft(s[end:], " "), ok && unit > 0
}

// parseISO reads what follows the P of a duration of ISO 8601. Years and months have no fixed
// length, and are not read.
func parseISO(s string) (Span, bool) {
	days, clock, _ := strings.Cut(s, "T")
	if strings.Contains(days, "M") {
		return Span{}, false
	}
	return parseDuration(strings.ToLower(days + strings.ReplaceAll(clock, "M", "min")))
}

// parseClockTime reads a span in the form hh:mm:ss, perhaps with days (1.02:03:04) and a fraction.
func parseClockTime(s string) (Span, bool) {
	hours, rest, _ := strings.Cut(s, ":")
	minutes, seconds, _ := strings.Cut(rest, ":")
	days := "0"
	if before, behind, ok := strings.Cut(hours, "."); ok {
		days, hours = before, behind
	}
	if strings.Trim(s, "0123456789:.") != "" || strings.Contains(hours+minutes, ".") {
		return Span{}, false
	}
	return parseDuration(seconds + "s" + minutes + "m" + hours + "h" + days + "d") // an absent part leaves an unknown unit
}
