package text

import (
	"strings"
	"time"
)

// MaxTime is the length in bytes of the longest text that is read as a date or a span, so that
// the work stays small.
const MaxTime = 128

// A Date is a point in time in a text.
type Date struct {
	time.Time
	Short bool // the year was written with two digits; it is from 1969 to 2068, as in package time
}

// In returns the point in time for a reader whose time is now. A year of two digits is the
// latest such year at most 50 years ahead (RFC 9110 Section 5.6.7), unless now is zero.
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

// ParseTime reads a date in any form that servers write.
func ParseTime(s string) (Date, bool) {
	if s != "" && Is(s[0], Digit) { // no form of an HTTP-date begins with a digit
		return parseTimestamp(s)
	}
	return ParseDate(s)
}

// parseTimestamp reads a timestamp of RFC 3339, and variants that servers write. The T may be a
// space. Seconds may be absent, or have a fraction of any length after a point or a comma. An
// offset may lack the colon, or follow a space. No zone means UTC. Go adds the zone's name.
func parseTimestamp(s string) (Date, bool) {
	const day = "2006-01-02"
	if len(s) <= len(day) || len(s) > MaxTime || !strings.Contains("Tt ", s[len(day):len(day)+1]) {
		return Date{}, false
	}
	if d, ok := parseLayouts(s, time.RFC3339); ok {
		return d, true
	}
	clock, zone := s[len(day)+1:], ""
	if i := strings.IndexAny(clock, "+- ZzUG"); i >= 0 {
		clock, zone = clock[:i], strings.TrimLeft(clock[i:], " ")
	}
	zone, _, _ = strings.Cut(zone, " ") // the zone's name follows the space
	switch zone {
	case "", "z", "UTC", "GMT":
		zone = "Z"
	}
	layout := day + " 15:04:05 "
	if len(clock) == len("15:04") {
		layout = day + " 15:04 "
	}
	return parseLayouts(s[:len(day)]+" "+clock+" "+zone, layout+"Z07:00", layout+"Z0700", layout+"Z07")
}

// ParseDate reads an HTTP-date, and variants that servers write: UTC or an offset in place of
// GMT, the form of Date.toString in JavaScript, and the American form with a clock of twelve
// hours (Mashery).
func ParseDate(s string) (Date, bool) {
	if t, ok := ParseHTTPDate(s); ok {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		return ParseDate(zoneless + " GMT")
	}
	s, _, _ = strings.Cut(s, " (") // JavaScript adds the zone's name in parentheses
	return parseLayouts(s, time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700", "Monday, January _2, 2006 3:04:05 PM GMT")
}

// ParseHTTPDate reads an HTTP-date in any of its three forms (RFC 9110 Section 5.6.7).
func ParseHTTPDate(s string) (Date, bool) {
	if strings.HasSuffix(s, " GMT") { // package time reads any other zone as UTC
		return parseLayouts(s, "Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850)
	}
	return parseLayouts(s, time.ANSIC)
}

// parseLayouts reads s by the first layout of package time that fits. Unlike package time it
// accepts the second 60, a leap second (RFC 3339 Section 5.6, RFC 9110 Section 5.6.7).
func parseLayouts(s string, layouts ...string) (Date, bool) {
	if s == "" || len(s) > MaxTime {
		return Date{}, false
	}
	before, after, leap := strings.Cut(s, ":60")
	leap = leap && len(before) > len(":00") && before[len(before)-len(":00")] == ':' // no minute 60
	if leap {
		s = before + ":59" + after
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
