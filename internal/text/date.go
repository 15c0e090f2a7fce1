package text

import (
	"strings"
	"time"
)

// mostSkew is the longest time between the date of a response and its arrival. A date that
// is further away comes from a wrong clock, and is not used.
const mostSkew = 24 * time.Hour

// A Clock has the times at which a response was made and arrived. The absolute times in its
// fields are measured from one of them.
type Clock struct {
	Date    string    // the field Date, "" if there is none
	Arrived time.Time // zero means time.Now(), which is called when it is needed
	Stored  bool      // the response comes from a cache

	made time.Time // Date as a time, if read is set
	read bool
}

// Made returns the time in the field Date, zero if there is none. Date is read only when it
// is needed, because most responses contain no absolute times.
func (c *Clock) Made() time.Time {
	if !c.read && c.Date != "" {
		d, _ := ParseDate(Trim(c.Date))
		if c.made = d.Time; d.Short {
			c.made = d.In(c.arrival())
		}
	}
	c.read = true
	return c.made
}

// Now returns the time from which absolute times in the response are measured. It is the
// date, because the same clock wrote it. It is the time of arrival if there is no date, if
// the date is more than mostSkew away, or if the response comes from a cache.
func (c *Clock) Now() time.Time {
	made := c.Made()
	if made.IsZero() || c.Stored || made.Sub(c.arrival()).Abs() > mostSkew {
		return c.arrival()
	}
	return made
}

// arrival returns when the response arrived.
func (c *Clock) arrival() time.Time {
	if c.Arrived.IsZero() {
		c.Arrived = time.Now()
	}
	return c.Arrived
}

// Month is the distance from the clock of a response within which a small number can be a
// point in time (see Near).
const Month = 31 * 24 * time.Hour

// Near reports whether a time, in seconds since the Unix epoch, is within a month of the
// time at which the response was made or arrived.
func (c *Clock) Near(sec int64) bool {
	t, made := time.Unix(sec, 0), c.Made()
	return t.Sub(c.arrival()).Abs() <= Month || !made.IsZero() && t.Sub(made).Abs() <= Month
}

// Until returns the span from now until a time since the Unix epoch, 0 if it is in the past.
// If the time is in whole seconds, the span is rounded up to whole seconds, because it is no
// more precise.
func (c *Clock) Until(sec, nsec int64) Span {
	now := c.Now()
	d := Span{sec - now.Unix(), nsec - int64(now.Nanosecond())}
	if d.Nsec < 0 {
		d = Span{d.Sec - 1, d.Nsec + Billion}
	}
	switch {
	case d.Sec < 0:
		return Span{}
	case nsec == 0 && d.Nsec > 0:
		return Span{Sec: d.Sec + 1}
	}
	return d
}

// MaxTime is the length in bytes of the longest text that is read as a date or a span. No
// server writes one that is nearly as long. The bound keeps the work small.
const MaxTime = 128

// A Date is a point in time in a text.
type Date struct {
	time.Time
	Short bool // the year was written with two digits; it is from 1969 to 2068, as in package time
}

// In returns the point in time for a reader whose time is now. A year of two digits is the
// latest year with these digits that is at most 50 years ahead (RFC 9110 Section 5.6.7). If
// now is zero, the date is not changed.
func (d Date) In(now time.Time) time.Time {
	if !d.Short || now.IsZero() {
		return d.Time
	}
	latest := now.AddDate(50, 0, 0)
	years := latest.Year()/100*100 + d.Year()%100 - d.Year()
	if t := d.AddDate(years, 0, 0); !t.After(latest) {
		return t
	}
	return d.AddDate(years-100, 0, 0)
}

// ParseTime reads a date in any form that servers write: a timestamp, or an HTTP-date and
// its variants.
func ParseTime(s string) (Date, bool) {
	if s != "" && Is(s[0], Digit) { // no form of an HTTP-date begins with a digit
		return parseTimestamp(s)
	}
	return ParseDate(s)
}

// parseTimestamp reads a timestamp of RFC 3339, and variants that servers write: a space in
// place of the T, no seconds, a fraction of any length, a comma before the fraction, an
// offset without a colon or with a space before it, no zone (which means UTC), and the name
// of the zone that Go adds.
func parseTimestamp(s string) (Date, bool) {
	const form = "0000-00-00T00:00"
	if len(s) < len(form) || s[10] != 'T' && s[10] != 't' && s[10] != ' ' || !shaped(s, form) {
		return Date{}, false
	}
	sec, nsec, rest, ok := parseSecond(s[len(form):])
	if !ok {
		return Date{}, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return Date{}, false
	}
	year, month, day := 100*twoDigits(s)+twoDigits(s[2:]), twoDigits(s[5:]), twoDigits(s[8:])
	t, ok := timeOf(year, month, day, twoDigits(s[11:]), twoDigits(s[14:]), sec)
	if !ok {
		return Date{}, false
	}
	return Date{Time: t.Add(time.Duration(nsec) - time.Duration(offset)*time.Minute)}, true
}

// shaped reports whether s, which is at least as long as form, has digits and punctuation at
// the same places as form. In place of a letter, s may have any byte but a digit.
func shaped(s, form string) bool {
	for i := range len(form) {
		if c := form[i]; Is(c, Digit) != Is(s[i], Digit) || !Is(c, Digit|Alpha) && c != s[i] {
			return false
		}
	}
	return true
}

// timeOf returns a point in time in UTC, and false if the calendar lacks the day, or the day
// lacks the time. The second 60 is a leap second, which is allowed in dates (RFC 3339 Section
// 5.6, RFC 9110 Section 5.6.7).
func timeOf(year, month, day, hour, minute, sec int) (time.Time, bool) {
	t := time.Date(year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
	exists := year >= 0 && int(t.Month()) == month && t.Day() == day && t.Hour() == hour && t.Minute() == minute
	if !exists || sec < 0 || sec > 60 {
		return time.Time{}, false
	}
	return t.Add(time.Duration(sec) * time.Second), true
}

// parseSecond reads the seconds of a timestamp, such as :05.123, and returns the rest of s.
// Missing seconds are 0.
func parseSecond(s string) (sec, nsec int, rest string, ok bool) {
	if len(s) < len(":00") || s[0] != ':' || !All(s[1:3], Digit) {
		return 0, 0, s, true // no zone begins with a colon
	}
	sec, rest = twoDigits(s[1:]), s[3:]
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return sec, 0, rest, true
	}
	end := Past(rest, 1, Digit)
	frac, ok := parseFraction(rest[1:end])
	return sec, int(frac), rest[end:], ok
}

// parseZone reads the zone of a timestamp, and returns its offset from UTC in minutes.
func parseZone(s string) (minutes int, ok bool) {
	s = strings.TrimLeft(s, " ")
	switch s {
	case "", "Z", "z", "UTC", "GMT":
		return 0, true
	}
	offset, _, _ := strings.Cut(s, " ") // the zone's name follows the space
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
	if sign == 0 || len(digits) != len("0000") || !All(digits, Digit) {
		return 0, false
	}
	return sign * (60*twoDigits(digits) + twoDigits(digits[2:])), true
}

// ParseDate reads an HTTP-date, and variants that servers write: UTC or an offset in place of
// GMT, the form of Date.toString in JavaScript, and the American form with a clock of twelve
// hours (Mashery).
func ParseDate(s string) (Date, bool) {
	if t, ok := ParseHTTPDate(s); ok {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		return ParseHTTPDate(zoneless + " GMT")
	}
	s, _, _ = strings.Cut(s, " (") // JavaScript adds the zone's name in parentheses
	return parseLayouts(s, time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700", "Monday, January _2, 2006 3:04:05 PM GMT")
}

// ParseHTTPDate reads an HTTP-date in any of its three forms (RFC 9110 Section 5.6.7).
func ParseHTTPDate(s string) (Date, bool) {
	if t, ok := parseIMF(s); ok {
		return t, true
	}
	if strings.HasSuffix(s, " GMT") { // package time reads any other zone as UTC
		return parseLayouts(s, time.RFC850)
	}
	return parseLayouts(s, time.ANSIC)
}

// parseLayouts reads s by the first layout of package time that fits. Unlike package time it
// accepts the leap second 60.
func parseLayouts(s string, layouts ...string) (Date, bool) {
	if len(s) > MaxTime {
		return Date{}, false
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
			return Date{t, layout == time.RFC850}, true
		}
	}
	return Date{}, false
}

// parseIMF reads an IMF-fixdate (RFC 9110 Section 5.6.7). It is ten times as fast as package
// time, and nearly every response has a Date in this form. It ignores the day of the week.
func parseIMF(s string) (Date, bool) {
	const form = "Sun, 06 Nov 1994 08:49:37 GMT"
	const months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	if len(s) != len(form) || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || s[19] != ':' || s[22] != ':' || s[25:] != " GMT" {
		return Date{}, false
	}
	month := 0
	for month < len(months) && months[month:month+3] != s[8:11] {
		month += 3
	}
	year, day := 100*twoDigits(s[12:])+twoDigits(s[14:]), twoDigits(s[5:])
	t, ok := timeOf(year, month/3+1, day, twoDigits(s[17:]), twoDigits(s[20:]), twoDigits(s[23:]))
	return Date{Time: t}, ok
}

// twoDigits returns the value of the first two digits of a text, or a number far below 0.
func twoDigits(s string) int {
	tens, ones := s[0]-'0', s[1]-'0'
	if tens > 9 || ones > 9 {
		return -1e6
	}
	return 10*int(tens) + int(ones)
}
