package text

import (
	"strconv"
	"strings"
	"time"
)

// A Format is what a number means that stands for a time.
type Format uint8

// The formats. Dates, durations and clocks show by their shape what they are.
const (
	Guess     Format = iota // by its size
	Seconds                 // from now
	Milli                   // milliseconds from now
	Unix                    // seconds since the Unix epoch
	UnixMilli               // milliseconds since the Unix epoch
	HTTPDate                // RFC 9110 Section 5.6.7
	RFC3339
	Duration // as Go writes it

	Formats // their number
)

// The sizes by which a number is a point in time. Seconds since the epoch have at
// most eleven digits until the year 5138; milliseconds had fewer than twelve
// before 1973. From LeastNear on, in 1973, seconds may be a point in time if
// something else says so.
const (
	LeastNear  = 1e8
	LeastUnix  = 1e9
	leastMilli = 1e11
)

// A Kind is which form of a time a value has.
type Kind uint8

// The kinds of moments.
const (
	NoMoment Kind = iota
	Later         // a span from now
	Bare          // a small number whose unit the value does not tell
	Point         // a point in time
)

// A Moment is a time as a value says it.
type Moment struct {
	Kind   Kind
	Units  int64  // how many make a second; 0 if it is a text, or not known
	Number Number // unless it is a text
	span   Span   // from now, or of a point in time since the Unix epoch
	short  bool   // a date whose year has two digits
}

// ParseMoment reads a time: a text by its shape, a number by its size and its format.
func ParseMoment(s string, f Format) (Moment, bool) {
	if v, ok := ParseCount(s); ok {
		return momentOf(v, f), true
	}
	if len(s) > MaxTime {
		return Moment{}, false
	}
	if t, ok := ParseTime(s); ok {
		return Moment{Kind: Point, span: Span{t.Unix(), int64(t.Nanosecond())}, short: t.short}, true
	}
	span, ok := ParseSpan(s)
	if !ok || !Is(s[0], Digit) && s[0] != 'P' { // a unit alone is a window, and no time
		return Moment{}, false
	}
	return Moment{Kind: Later, span: span}, true
}

// momentOf takes a number for a time. Its size goes before the format: 1.8e12 is never a
// number of seconds. Milliseconds from now are told from a point in time by the size of
// one in milliseconds, so that they can count three years.
func momentOf(v Number, f Format) Moment {
	switch {
	case v == Number{N: 1, Neg: true}: // -1 is a word for nothing (Gravitee, Omnisend)
		return Moment{}
	case v.N >= leastMilli || v.N >= LeastUnix && f != Milli || v.N >= LeastNear && f == Unix:
		units := int64(1)
		for size := v.N; size >= leastMilli && units < billion; size /= 1000 {
			units *= 1000
		}
		return Moment{Kind: Point, Units: units, Number: v, span: v.Span(units)}
	case f == Milli:
		return Moment{Kind: Later, Units: 1000, Number: v, span: v.Span(1000)}
	case f == Seconds, f == Duration:
		return Moment{Kind: Later, Units: 1, Number: v, span: v.Span(1)}
	}
	return Moment{Kind: Bare, Number: v}
}

// Settle makes a number of seconds a point in time that lies near the clock of the
// response, however small it is: a bubble of testing/synctest begins in 2000, where
// Unix seconds look like a span of thirty years. It leaves numbers below LeastNear, so
// that small seconds stay what they are beside a clock that stands in 1970.
func (m Moment) Settle(c *Clock) Moment {
	seconds := m.Kind == Bare || m.Kind == Later && m.Units == 1
	if seconds && m.Number.N >= LeastNear && c.near(m.Number.N) {
		return Moment{Kind: Point, Units: 1, Number: m.Number, span: m.Number.Span(1)}
	}
	return m
}

// In takes a bare number for so many units a second.
func (m Moment) In(units int64) Moment {
	return Moment{Kind: Later, Units: units, Number: m.Number, span: m.Number.Span(units)}
}

// Until returns how long it is from now until a moment. A bare number is in seconds.
func (m Moment) Until(c *Clock) Span {
	switch {
	case m.Kind == Bare:
		return m.Number.Span(1)
	case m.Kind == Point && m.short:
		t := Date{time.Unix(m.span.Sec, 0).UTC(), true}.In(c.Now())
		return c.until(t.Unix(), 0)
	case m.Kind == Point:
		return c.until(m.span.Sec, m.span.Nsec)
	}
	return m.span
}

// imfFixdate is the layout of an HTTP-date that is written (RFC 9110 Section 5.6.7).
const imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT"

// Write writes a time, in seconds from now, if the format can express it.
func (f Format) Write(n int64, now time.Time) (s string, ok bool) {
	const lastYear = 253402300799 // 9999-12-31T23:59:59Z
	unix := now.Unix()
	if n < 0 || n > MaxInteger || f >= Unix && f <= RFC3339 && (unix < LeastNear || unix+n > lastYear) {
		return "", false
	}
	switch f {
	case Milli:
		n *= 1000
	case Unix:
		n += unix
	case UnixMilli:
		n = (unix + n) * 1000
	case HTTPDate:
		return time.Unix(unix+n, 0).UTC().Format(imfFixdate), true
	case RFC3339:
		return time.Unix(unix+n, 0).UTC().Format(time.RFC3339), true
	case Duration:
		return Span{Sec: n}.text(), true
	}
	return strconv.FormatInt(n, 10), true
}

// text writes a span of whole seconds as a duration.
func (s Span) text() string {
	if d := s.Duration(); s.Sec <= int64(d/time.Second) {
		return d.String()
	}
	return strconv.FormatInt(s.Sec, 10) + "s"
}

// mostSkew is how far the date of a response may be from its arrival. A date
// that is further away comes from a clock that is wrong, so nothing is measured
// from it.
const mostSkew = 24 * time.Hour

// A Clock says when a response was made and when it arrived. From one of the
// two the absolute times in its fields are measured.
type Clock struct {
	Date    string    // as the response says, "" if it does not
	Arrived time.Time // zero stands for time.Now(), until it is needed
	Stored  bool      // the response comes from a cache

	made time.Time // what Date says, when it has been read
	read bool
}

// Made returns when the response was made, as it says; zero if it does not. Most of them
// say nothing that depends on it, so that it is read when it is needed.
func (c *Clock) Made() time.Time {
	if !c.read && c.Date != "" {
		d, _ := ParseDate(Trim(c.Date))
		if c.made = d.Time; d.short {
			c.made = d.In(c.arrival())
		}
	}
	c.read = true
	return c.made
}

// Now returns the time from which absolute times in the response are measured.
// That is its date, because the clock that wrote it wrote them too. It is the time of
// arrival if there is no date, if the date is more than mostSkew away, or if
// the response comes from a cache, which was made some time ago.
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

// Month is how far a number may lie from the clock of a response that is a point in time
// however small it is (see Moment.Settle).
const Month = 31 * 24 * time.Hour

// near reports whether a point in time, in seconds since the Unix epoch, lies within a
// month of when the response was made, or of when it arrived.
func (c *Clock) near(sec int64) bool {
	t, made := time.Unix(sec, 0), c.Made()
	return t.Sub(c.arrival()).Abs() <= Month || !made.IsZero() && t.Sub(made).Abs() <= Month
}

// until returns the time from now until a point in time since the Unix epoch; none if
// that is in the past. A point in time in whole seconds is no more precise than that, so
// the span is rounded up to whole seconds.
func (c *Clock) until(sec, nsec int64) Span {
	now := c.Now()
	d := Span{sec - now.Unix(), nsec - int64(now.Nanosecond())}
	if d.Nsec < 0 {
		d = Span{d.Sec - 1, d.Nsec + billion}
	}
	switch {
	case d.Sec < 0:
		return Span{}
	case nsec == 0 && d.Nsec > 0:
		return Span{Sec: d.Sec + 1}
	}
	return d
}

// MaxTime is the length in bytes of the longest text that is read as a date or
// a span. No server writes one that is nearly as long; the bound keeps the
// work small.
const MaxTime = 128

// A Date is a point in time as a text says it.
type Date struct {
	time.Time
	short bool // its year has two digits, and is one of 1969 to 2068, as in package time
}

// In returns the point in time for a reader whose time is now. A year of two digits is
// the latest one with these digits that is no more than 50 years ahead (RFC 9110
// Section 5.6.7). The zero now is that of a reader without a clock.
func (d Date) In(now time.Time) time.Time {
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

// ParseTime reads a date in any form that servers write: a timestamp, or an
// HTTP-date and its variants.
func ParseTime(s string) (Date, bool) {
	if s != "" && Is(s[0], Digit) { // no form of an HTTP-date begins with a digit
		return parseTimestamp(s)
	}
	return ParseDate(s)
}

// parseTimestamp reads a timestamp of RFC 3339, and variants that servers
// write: a space in place of the T, no seconds, a fraction of any length, also
// behind a comma, an offset without a colon or with a space before it, no zone
// at all (which is taken for UTC), and the name of the zone that Go adds.
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
	hour, minute := twoDigits(s[11:]), twoDigits(s[14:])
	if !isDay(year, month, day) || !isTime(hour, minute, sec) {
		return Date{}, false
	}
	return Date{Time: time.Date(year, time.Month(month), day, hour, minute-offset, sec, nsec, time.UTC)}, true
}

// shaped reports whether s, which is at least as long as form, has a digit wherever
// form has one, and the punctuation of form. Where form has a letter, s may have
// anything but a digit.
func shaped(s, form string) bool {
	for i := range len(form) {
		if c := form[i]; Is(c, Digit) != Is(s[i], Digit) || !Is(c, Digit|Alpha) && c != s[i] {
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
	if len(s) < len(":00") || s[0] != ':' || !All(s[1:3], Digit) {
		return 0, 0, s, true // no zone begins with a colon
	}
	sec, rest = twoDigits(s[1:]), s[3:]
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return sec, 0, rest, true
	}
	end := Skip(rest, 1, Digit)
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
	if sign == 0 || len(digits) != len("0000") || !All(digits, Digit) {
		return 0, false
	}
	return sign * (60*twoDigits(digits) + twoDigits(digits[2:])), true
}

// ParseDate reads an HTTP-date, and variants that servers write: one with UTC
// or an offset in place of GMT, the form of Date.toString in JavaScript, and the one
// that Americans write, with a clock of twelve hours (Mashery).
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

// ParseHTTPDate reads an HTTP-date in any of its three forms (RFC 9110
// Section 5.6.7).
func ParseHTTPDate(s string) (Date, bool) {
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

// parseIMF reads an IMF-fixdate (RFC 9110 Section 5.6.7). Nearly every response
// has a Date in this form, and package time takes ten times as long. The
// day of the week is not looked at.
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
	hour, minute, sec := twoDigits(s[17:]), twoDigits(s[20:]), twoDigits(s[23:])
	if min(year, day, hour, minute, sec) < 0 || !isDay(year, month/3+1, day) || !isTime(hour, minute, sec) {
		return Date{}, false
	}
	return Date{Time: time.Date(year, time.Month(month/3+1), day, hour, minute, sec, 0, time.UTC)}, true
}

// twoDigits returns the value of the two digits that a text begins with, or a number
// far below 0.
func twoDigits(s string) int {
	tens, ones := s[0]-'0', s[1]-'0'
	if tens > 9 || ones > 9 {
		return -1e6
	}
	return 10*int(tens) + int(ones)
}
