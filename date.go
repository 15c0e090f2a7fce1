package ratelimit

import (
	"net/http"
	"strings"
	"time"
)

// The fields that a clock reads. No other place does.
const (
	dateKey = "Date" // RFC 9110 Section 6.6.1
	ageKey  = "Age"  // RFC 9111 Section 5.1
)

// mostSkew is how far the clock of a server may be from that of the client. A
// Date that is further away is wrong, and wrong by as much in all that counts
// from it.
const mostSkew = 24 * time.Hour

// A clock tells when a response was made and when it arrived, for times that it
// gives as a date.
type clock struct {
	made    time.Time // by its Date; zero if it has none
	arrived time.Time // zero until it is needed; then time.Now()
	stored  bool      // it comes from a cache
}

// readClock reads the clock of a response that arrived at a time, of which zero
// is time.Now().
func readClock(h http.Header, arrived time.Time) clock {
	c := clock{arrived: arrived, stored: stored(h)}
	if lines := h[dateKey]; len(lines) > 0 {
		c.made, _ = parseDate(trim(lines[0]))
	}
	return c
}

// stored reports whether a response comes from a cache, by a positive Age. Where
// Age is a list, its first member counts (RFC 9111 Section 5.1).
func stored(h http.Header) bool {
	lines := h[ageKey]
	if len(lines) == 0 {
		return false
	}
	first, _, _ := strings.Cut(lines[0], ",")
	age, ok := parseNumber(trim(first))
	return ok && !age.neg && (age.n > 0 || age.frac > 0)
}

// now returns the time from which dates in the response count: when it was made,
// by the clock of the server that wrote them, else when it arrived. What comes
// from a cache was made some time ago, and dates of a Date that is days off tell
// nothing.
func (c *clock) now() time.Time {
	if c.arrived.IsZero() {
		c.arrived = time.Now()
	}
	if c.made.IsZero() || c.stored || c.made.Sub(c.arrived).Abs() > mostSkew {
		return c.arrived
	}
	return c.made
}

// until returns the seconds until a point in time, given in seconds and
// nanoseconds since the Unix epoch. They are rounded up, from 0 to MaxInteger.
func (c *clock) until(sec, nsec int64) int64 {
	now := c.now()
	n := sec - now.Unix()
	if nsec > int64(now.Nanosecond()) {
		n++
	}
	return min(max(n, 0), MaxInteger)
}

// maxTime is the length of the longest text that is read as a date or a
// duration.
const maxTime = 128

// parseTime reads a date in any form that servers write.
func parseTime(s string) (time.Time, bool) {
	if s != "" && is(s[0], digit) { // as no form of an HTTP-date
		return parseTimestamp(s)
	}
	return parseDate(s)
}

// parseTimestamp reads a timestamp of RFC 3339 and its neighbours: a space for
// the T, no seconds, any number of digits of fraction, an offset without colon
// or with a space before it, no zone (which is UTC), and the zone name that Go
// adds.
func parseTimestamp(s string) (time.Time, bool) {
	const form = "0000-00-00T00:00"
	if len(s) < len(form) || s[10] != 'T' && s[10] != 't' && s[10] != ' ' {
		return time.Time{}, false
	}
	for i := range len(form) {
		if i != 10 && (form[i] == '0') != is(s[i], digit) || form[i] != '0' && i != 10 && form[i] != s[i] {
			return time.Time{}, false
		}
	}
	sec, nsec, rest, ok := parseSecond(s[len(form):])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return time.Time{}, false
	}
	year, month, day, hour, minute := atoi(s[:4]), atoi(s[5:7]), atoi(s[8:10]), atoi(s[11:13]), atoi(s[14:16])
	if !isDay(year, month, day) || !isTime(hour, minute, sec) {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute-offset, sec, nsec, time.UTC), true
}

// isDay reports whether a day exists.
func isDay(year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days++
	}
	return day <= days
}

// isTime reports whether a day has such a time. A minute may have a leap second
// (RFC 3339 Section 5.6, RFC 9110 Section 5.6.7).
func isTime(hour, minute, sec int) bool { return hour <= 23 && minute <= 59 && sec <= 60 }

// parseSecond reads the second of a timestamp, such as :05.123, if it is there.
func parseSecond(s string) (sec, nsec int, rest string, ok bool) {
	if s == "" || s[0] != ':' {
		return 0, 0, s, true
	}
	if len(s) < len(":00") || !is(s[1], digit) || !is(s[2], digit) {
		return 0, 0, s, false
	}
	sec, rest = atoi(s[1:3]), s[3:]
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return sec, 0, rest, true
	}
	end := skip(rest, 1, digit)
	frac, ok := parseFraction(rest[1:end])
	return sec, int(frac), rest[end:], ok
}

// parseZone reads the offset of a timestamp, in minutes.
func parseZone(s string) (minutes int, ok bool) {
	s = strings.TrimLeft(s, " ")
	switch s {
	case "", "Z", "z", "UTC", "GMT":
		return 0, true
	}
	const form = "+00:00"
	offset, _, _ := strings.Cut(s, " ") // then comes the name of the zone
	sign := 1
	switch offset[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, false
	}
	digits := offset[1:]
	if len(offset) == len(form) && offset[3] == ':' {
		digits = offset[1:3] + offset[4:]
	}
	if !all(digits, digit) || len(digits) != len("00") && len(digits) != len("0000") {
		return 0, false
	}
	minutes = 60 * atoi(digits[:2])
	if len(digits) > 2 {
		minutes += atoi(digits[2:])
	}
	return sign * minutes, true
}

// atoi reads a few digits that have been checked.
func atoi(s string) int { return int(parseDigits(s)) }

// parseDate reads an HTTP-date, one with another zone than GMT, and the form of
// Date.toString in JavaScript.
func parseDate(s string) (time.Time, bool) {
	if t, ok := parseHTTPDate(s); ok {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		return parseHTTPDate(zoneless + " GMT")
	}
	s, _, _ = strings.Cut(s, " (") // JavaScript adds the name of the zone
	return parseLayouts(s, time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700")
}

// parseHTTPDate reads an HTTP-date in its three forms (RFC 9110 Section 5.6.7).
func parseHTTPDate(s string) (time.Time, bool) {
	if t, ok := parseIMF(s); ok {
		return t, true
	}
	if strings.HasSuffix(s, " GMT") { // package time takes any zone for UTC
		return parseLayouts(s, time.RFC850)
	}
	return parseLayouts(s, time.ANSIC)
}

// parseLayouts is time.Parse with the second 60 of a leap second.
func parseLayouts(s string, layouts ...string) (time.Time, bool) {
	if len(s) > maxTime {
		return time.Time{}, false
	}
	leap := strings.Contains(s, ":60 ")
	if leap {
		s = strings.Replace(s, ":60 ", ":59 ", 1)
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			if leap {
				t = t.Add(time.Second)
			}
			return t, true
		}
	}
	return time.Time{}, false
}

// parseIMF reads an IMF-fixdate, the form that every Date has, in a fraction of
// the time of package time.
func parseIMF(s string) (time.Time, bool) {
	const form = "Sun, 06 Nov 1994 08:49:37 GMT"
	const months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if len(s) != len(form) || s[3:5] != ", " || s[25:] != " GMT" {
		return time.Time{}, false
	}
	for i := 5; i < 25; i++ {
		if c := form[i]; is(c, digit) != is(s[i], digit) || !is(c, digit|alpha) && c != s[i] {
			return time.Time{}, false
		}
	}
	month := strings.Index(months, s[8:11])
	year, day := atoi(s[12:16]), atoi(s[5:7])
	hour, minute, sec := atoi(s[17:19]), atoi(s[20:22]), atoi(s[23:25])
	if month < 0 || month%3 > 0 || !isDay(year, month/3+1, day) || !isTime(hour, minute, sec) {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month/3+1), day, hour, minute, sec, 0, time.UTC), true
}
