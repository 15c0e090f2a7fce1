package ratelimit

import (
	"net/http"
	"strings"
	"time"
)

// The fields that a clock reads. Nothing else in this package reads them.
const (
	dateKey = "Date" // RFC 9110 Section 6.6.1
	ageKey  = "Age"  // RFC 9111 Section 5.1
)

// mostSkew is how far the Date of a response may be from its arrival. A Date
// that is further away comes from a clock that is wrong, so nothing is measured
// from it.
const mostSkew = 24 * time.Hour

// A clock says when a response was made and when it arrived. From one of the
// two the absolute times in its fields are measured.
type clock struct {
	made    time.Time // from the field Date; zero if there is none
	arrived time.Time // zero stands for time.Now(), until it is needed
	stored  bool      // the response comes from a cache
}

// readClock returns the clock of a response with header h. The zero arrived
// stands for time.Now().
func readClock(h http.Header, arrived time.Time) clock {
	c := clock{arrived: arrived, stored: stored(h)}
	if lines := h[dateKey]; len(lines) > 0 {
		d, _ := parseDate(trim(lines[0]))
		if c.made = d.Time; d.short {
			c.made = d.in(c.arrival())
		}
	}
	return c
}

// stored reports whether a response comes from a cache: whether it has a
// positive Age. If Age is a list, its first member decides (RFC 9111
// Section 5.1).
func stored(h http.Header) bool {
	lines := h[ageKey]
	if len(lines) == 0 {
		return false
	}
	first, _, _ := strings.Cut(lines[0], ",")
	age, ok := parseNumber(trim(first))
	return ok && age.ceil() > 0
}

// now returns the time from which absolute times in the response are measured.
// That is its Date, because the same clock wrote it and them. It is the time of
// arrival if there is no Date, if the Date is more than mostSkew away, or if
// the response comes from a cache, which was made some time ago.
func (c *clock) now() time.Time {
	if c.made.IsZero() || c.stored || c.made.Sub(c.arrival()).Abs() > mostSkew {
		return c.arrival()
	}
	return c.made
}

// arrival returns when the response arrived.
func (c *clock) arrival() time.Time {
	if c.arrived.IsZero() {
		c.arrived = time.Now()
	}
	return c.arrived
}

// month is how far a number may lie from the clock of a response that is a point in time
// however small it is (see moment.settle).
const month = 31 * 24 * time.Hour

// near reports whether a point in time, in seconds since the Unix epoch, lies within a
// month of when the response was made, or of when it arrived.
func (c *clock) near(sec int64) bool {
	t := time.Unix(sec, 0)
	return t.Sub(c.arrival()).Abs() <= month || !c.made.IsZero() && t.Sub(c.made).Abs() <= month
}

// until returns the seconds from now until a point in time, which is given in
// seconds and nanoseconds since the Unix epoch. They are rounded up; a point in
// the past gives 0, and the result is at most MaxInteger.
func (c *clock) until(sec, nsec int64) int64 {
	now := c.now()
	n := sec - now.Unix()
	if nsec > int64(now.Nanosecond()) {
		n++
	}
	return min(max(n, 0), MaxInteger)
}

// maxTime is the length in bytes of the longest text that is read as a date or
// a duration. No server writes one that is nearly as long; the bound keeps the
// work small.
const maxTime = 128

// A textDate is a point in time as a text says it.
type textDate struct {
	time.Time
	short bool // its year has two digits, and is one of 1969 to 2068, as in package time
}

// in returns the point in time for a reader whose time is now. A year of two digits is
// the latest one with these digits that is no more than 50 years ahead (RFC 9110
// Section 5.6.7). The zero now is that of a reader without a clock.
func (d textDate) in(now time.Time) time.Time {
	if !d.short || now.IsZero() {
		return d.Time
	}
	latest := now.AddDate(50, 0, 0)
	years := latest.Year()/100*100 + d.Year()%100 - d.Year()
	if t := d.AddDate(years, 0, 0); !t.After(latest) {
		return t
	}
	return d.AddDate(years-100, 0, 0)
}

// parseTime reads a date in any form that servers write: a timestamp, or an
// HTTP-date and its variants.
func parseTime(s string) (textDate, bool) {
	if s != "" && is(s[0], digit) { // no form of an HTTP-date begins with a digit
		return parseTimestamp(s)
	}
	return parseDate(s)
}

// parseTimestamp reads a timestamp of RFC 3339, and variants that servers
// write: a space in place of the T, no seconds, a fraction of any length, also
// behind a comma, an offset without a colon or with a space before it, no zone
// at all (which is taken for UTC), and the name of the zone that Go adds.
func parseTimestamp(s string) (textDate, bool) {
	const form = "0000-00-00T00:00"
	if len(s) < len(form) || s[10] != 'T' && s[10] != 't' && s[10] != ' ' || !shaped(s, form) {
		return textDate{}, false
	}
	sec, nsec, rest, ok := parseSecond(s[len(form):])
	if !ok {
		return textDate{}, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return textDate{}, false
	}
	year, month, day, hour, minute := atoi(s[:4]), atoi(s[5:7]), atoi(s[8:10]), atoi(s[11:13]), atoi(s[14:16])
	if !isDay(year, month, day) || !isTime(hour, minute, sec) {
		return textDate{}, false
	}
	return textDate{Time: time.Date(year, time.Month(month), day, hour, minute-offset, sec, nsec, time.UTC)}, true
}

// shaped reports whether s, which is at least as long as form, has a digit wherever
// form has one, and the punctuation of form. Where form has a letter, s may have
// anything but a digit.
func shaped(s, form string) bool {
	for i := range len(form) {
		if c := form[i]; is(c, digit) != is(s[i], digit) || !is(c, digit|alpha) && c != s[i] {
			return false
		}
	}
	return true
}

// isDay reports whether the calendar has such a day.
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

// isTime reports whether a day may have such a time. The second 60 is a leap
// second, which dates may have (RFC 3339 Section 5.6, RFC 9110 Section 5.6.7).
func isTime(hour, minute, sec int) bool { return hour <= 23 && minute <= 59 && sec <= 60 }

// parseSecond reads the seconds of a timestamp, such as :05.123, and returns
// the rest of it. Without seconds, they are 0.
func parseSecond(s string) (sec, nsec int, rest string, ok bool) {
	if len(s) < len(":00") || s[0] != ':' || !all(s[1:3], digit) {
		return 0, 0, s, true // no zone begins with a colon
	}
	sec, rest = atoi(s[1:3]), s[3:]
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return sec, 0, rest, true
	}
	end := skip(rest, 1, digit)
	frac, ok := parseFraction(rest[1:end])
	return sec, int(frac), rest[end:], ok
}

// parseZone reads the zone of a timestamp, and returns its offset from UTC in
// minutes.
func parseZone(s string) (minutes int, ok bool) {
	s = strings.TrimLeft(s, " ")
	switch s {
	case "", "Z", "z", "UTC", "GMT":
		return 0, true
	}
	offset, _, _ := strings.Cut(s, " ") // behind the space comes the zone's name
	var sign int
	switch offset[0] {
	case '+':
		sign = 1
	case '-':
		sign = -1
	}
	digits := offset[1:]
	switch {
	case len(digits) == len("00"):
		digits += "00"
	case len(digits) == len("00:00") && digits[2] == ':':
		digits = digits[:2] + digits[3:]
	}
	if sign == 0 || len(digits) != len("0000") || !all(digits, digit) {
		return 0, false
	}
	return sign * (60*atoi(digits[:2]) + atoi(digits[2:])), true
}

// atoi returns the value of a text that is known to be a few digits.
func atoi(s string) int { return int(parseDigits(s)) }

// parseDate reads an HTTP-date, and variants that servers write: one with UTC
// or an offset in place of GMT, and the form of Date.toString in JavaScript.
func parseDate(s string) (textDate, bool) {
	if t, ok := parseHTTPDate(s); ok {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		return parseHTTPDate(zoneless + " GMT")
	}
	s, _, _ = strings.Cut(s, " (") // JavaScript adds the zone's name in parentheses
	return parseLayouts(s, time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700")
}

// parseHTTPDate reads an HTTP-date in any of its three forms (RFC 9110
// Section 5.6.7).
func parseHTTPDate(s string) (textDate, bool) {
	if t, ok := parseIMF(s); ok {
		return t, true
	}
	if strings.HasSuffix(s, " GMT") { // any other zone package time would take for UTC
		return parseLayouts(s, time.RFC850)
	}
	return parseLayouts(s, time.ANSIC)
}

// parseLayouts reads s by the first layout of package time that fits. Unlike
// package time it accepts a leap second, whose second is 60.
func parseLayouts(s string, layouts ...string) (textDate, bool) {
	if len(s) > maxTime {
		return textDate{}, false
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
			return textDate{t, layout == time.RFC850}, true
		}
	}
	return textDate{}, false
}

// parseIMF reads an IMF-fixdate (RFC 9110 Section 5.6.7). Nearly every response
// has a Date in this form, and package time takes three times as long. The
// day of the week is not looked at.
func parseIMF(s string) (textDate, bool) {
	const form = "Sun, 06 Nov 1994 08:49:37 GMT"
	const months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if len(s) != len(form) || !strings.HasSuffix(s, "GMT") || !shaped(s, form) {
		return textDate{}, false
	}
	month := strings.Index(months, s[8:11])
	year, day := atoi(s[12:16]), atoi(s[5:7])
	hour, minute, sec := atoi(s[17:19]), atoi(s[20:22]), atoi(s[23:25])
	if month < 0 || month%3 > 0 || !isDay(year, month/3+1, day) || !isTime(hour, minute, sec) {
		return textDate{}, false
	}
	return textDate{Time: time.Date(year, time.Month(month/3+1), day, hour, minute, sec, 0, time.UTC)}, true
}
