package ratelimit

import (
	"net/http"
	"strings"
	"time"
)

const second = int64(time.Second)

// A number is a decimal number, saturated, with its fraction in billionths,
// rounded up.
type number struct {
	n, frac int64
	neg     bool
}

const farthest = 1e18 // beyond any number of seconds; sums of a few fit

// parseNumber reads digits, a sign before them, and a fraction behind.
func parseNumber(s string) (v number, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		v.neg = s[0] == '-'
		s = s[1:]
	}
	end := skip(s, 0, digit)
	for i := range end {
		v.n = min(v.n, farthest/10)*10 + int64(s[i]-'0')
	}
	if end == len(s) || end == 0 || s[end] != '.' {
		return v, end > 0 && end == len(s)
	}
	v.frac, ok = billionths(s[end+1:])
	return v, ok
}

// billionths reads the digits behind a decimal point, rounded up.
func billionths(s string) (frac int64, ok bool) {
	unit := second
	for i := range s {
		if !is(s[i], digit) {
			return 0, false
		}
		switch unit /= 10; {
		case unit > 0:
			frac += int64(s[i]-'0') * unit
		case s[i] > '0':
			return frac + 1, skip(s, i, digit) == len(s)
		}
	}
	return frac, s != ""
}

// count is the number as quota units, rounded down.
func (v number) count() int64 { return min(v.n, MaxInteger) }

// ceil is the number rounded up.
func (v number) ceil() int64 { return v.scaled(1) }

// scaled is the number divided and rounded up, 0 if it is negative.
func (v number) scaled(by int64) int64 {
	if v.neg {
		return 0
	}
	n := v.n / by
	if v.n%by > 0 || v.frac > 0 {
		n++
	}
	return min(n, MaxInteger)
}

// instant is the number as a point in time, of which there are so many units a
// second.
func (v number) instant(units int64) (sec, nsec int64) {
	if v.neg {
		return 0, 0
	}
	return v.n / units, v.n%units*(second/units) + (v.frac+units-1)/units
}

// durationUnits are nanoseconds by unit.
var durationUnits = map[string]int64{
	"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6,
	"s": second, "sec": second, "secs": second, "second": second, "seconds": second,
	"m": 60 * second, "min": 60 * second, "mins": 60 * second, "minute": 60 * second, "minutes": 60 * second,
	"h": 3600 * second, "hr": 3600 * second, "hour": 3600 * second, "hours": 3600 * second,
	"d": 86400 * second, "day": 86400 * second, "days": 86400 * second,
	"w": 604800 * second, "week": 604800 * second, "weeks": 604800 * second,
}

// parseDuration reads a duration as Go writes it, with days and weeks, and
// returns seconds, rounded up.
func parseDuration(s string) (n int64, ok bool) {
	var sec, nsec int64
	for s != "" {
		end := skipNumber(s)
		v, ok := parseNumber(s[:end])
		s = strings.TrimLeft(s[end:], " ")
		end = skipUnit(s)
		unit, known := durationUnits[s[:end]]
		if !ok || !known || v.neg {
			return 0, false
		}
		s = strings.TrimLeft(s[end:], " ")
		if unit >= second {
			unit /= second
			sec += min(v.n, farthest/unit) * unit
			sec += v.frac * unit / second
			nsec += v.frac * unit % second
		} else {
			part, rest := v.instant(second / unit)
			sec += part
			nsec += rest
		}
		sec, nsec = min(sec+nsec/second, farthest), nsec%second
	}
	if nsec > 0 {
		sec++
	}
	return min(sec, MaxInteger), true
}

func skipNumber(s string) int {
	i := 0
	for i < len(s) && (is(s[i], digit) || s[i] == '.') {
		i++
	}
	return i
}

// skipUnit moves past letters, and what begins µ and μ.
func skipUnit(s string) int {
	i := 0
	for i < len(s) && (is(s[i], alpha) || s[i] >= 0x80) {
		i++
	}
	return i
}

// parseClock reads hh:mm:ss, with days before it (1.02:03:04) and a fraction
// behind.
func parseClock(s string) (n int64, ok bool) {
	parts := strings.SplitN(s, ":", 4)
	if len(parts) != 3 {
		return 0, false
	}
	days, hours, has := strings.Cut(parts[0], ".")
	if !has {
		days, hours = "0", days
	}
	d, ok1 := parseNumber(days)
	h, ok2 := parseNumber(hours)
	m, ok3 := parseNumber(parts[1])
	sec, ok4 := parseNumber(parts[2])
	if !(ok1 && ok2 && ok3 && ok4) || d.neg || h.neg || m.neg || sec.neg || m.frac > 0 {
		return 0, false
	}
	total := clampedSeconds(d.n, 86400) + clampedSeconds(h.n, 3600) + clampedSeconds(m.n, 60) + min(sec.ceil(), MaxInteger)
	return min(total, MaxInteger), true
}

// clampedSeconds returns n units of so many seconds, at most MaxInteger.
func clampedSeconds(n, unit int64) int64 {
	if n > MaxInteger/unit {
		return MaxInteger
	}
	return n * unit
}

// parseWindow reads the length of a window: seconds, a duration, or the word
// for one. One of 0 is absent.
func parseWindow(s string) (Seconds, bool) {
	n, ok := int64(0), false
	if v, isNumber := parseNumber(unquote(s)); isNumber {
		n, ok = v.ceil(), true
	} else if len(s) <= maxTime {
		if n, ok = commonWindows[strings.ToLower(s)]; !ok {
			n, ok = parseSpan(s)
		}
	}
	if n < minWindow {
		return Seconds{}, ok
	}
	return SecondsOf(n), ok
}

// parseSpan reads a duration in any of its forms.
func parseSpan(s string) (int64, bool) {
	switch {
	case s == "":
		return 0, false
	case strings.IndexByte(s, ':') >= 0:
		return parseClock(s)
	case is(s[0], digit):
		return parseDuration(s)
	}
	return parseDuration("1" + s) // 600/h
}

// maxTime is the length of the longest text that is read as a date or a
// duration.
const maxTime = 128

// How a reset was read.
const (
	absoluteHow = 1 << iota // a point in time
	guessedHow              // its unit was guessed
	dateHow                 // it was an HTTP-date
)

// reset reads a reset. It is absent if the dialect has a word for that.
func (r *reading) reset(s string, format ResetFormat) (n Seconds, how int, ok bool) {
	s = trim(unquote(s))
	if s == "" {
		return Seconds{}, 0, false
	}
	if v, ok := parseNumber(s[:numberEnd(s)]); ok {
		if (r.row.d.dash || r.row.d.resetDash) && v.isDash() {
			return Seconds{}, 0, true
		}
		n, how := r.number(v, format)
		return SecondsOf(n), how, true
	}
	if len(s) > maxTime {
		return Seconds{}, 0, false
	}
	if t, ok := parseTimestamp(s); ok {
		return SecondsOf(r.until(t.Unix(), int64(t.Nanosecond()))), absoluteHow, true
	}
	if !is(s[0], digit) {
		t, ok := parseDate(s)
		return Seconds{r.untilOK(t, ok), ok}, absoluteHow | dateHow, ok
	}
	span, ok := parseSpan(s)
	return Seconds{span, ok}, 0, ok
}

// numberEnd is where the parameters begin that a number may have, which drafts
// 04 to 06 ask to ignore.
func numberEnd(s string) int {
	i := strings.IndexAny(s, ";, \t")
	if i < 0 || !is(s[0], digit) && s[0] != '-' && s[0] != '+' {
		return len(s)
	}
	if c := s[i]; c == ' ' || c == '\t' {
		if rest := strings.TrimLeft(s[i:], " \t"); rest[0] != ';' && rest[0] != ',' {
			return len(s)
		}
	}
	return i
}

func (r *reading) untilOK(t time.Time, ok bool) int64 {
	if !ok {
		return 0
	}
	return r.until(t.Unix(), 0)
}

// Sizes that tell the unit of a reset: until the year 5138, seconds since the
// epoch have at most eleven digits, and before 1973 milliseconds had fewer than
// twelve.
const (
	leastUnix   = 1e9
	leastMilli  = 1e11
	leastMicro  = 1e14
	leastNano   = 1e17
	milliUnits  = 1e3
	microUnits  = 1e6
	nanoUnits   = 1e9
	secondUnits = 1
)

// number returns what a number says, in seconds from now.
func (r *reading) number(v number, format ResetFormat) (n int64, how int) {
	how = absoluteHow
	units := int64(secondUnits)
	switch format {
	case ResetDelta, ResetDuration:
		return v.ceil(), 0
	case ResetDeltaMillis:
		return v.scaled(milliUnits), 0
	case ResetUnix:
		if v.n > 0 && v.n < leastUnix && !v.neg {
			r.seen |= doubtSign
		}
	case ResetUnixMillis:
		units = milliUnits
	default:
		how |= guessedHow
		switch {
		case v.n < leastUnix || v.neg:
			if r.row.d.seconds {
				return v.ceil(), 0
			}
			return v.ceil(), guessedHow
		case v.n >= leastNano:
			units = nanoUnits
		case v.n >= leastMicro:
			units = microUnits
		case v.n >= leastMilli:
			units = milliUnits
		}
	}
	sec, nsec := v.instant(units)
	return r.until(sec, nsec), how
}

// until returns the seconds until a point in time, rounded up, or 0.
func (r *reading) until(sec, nsec int64) int64 {
	if r.ref.IsZero() {
		r.ref = r.reference()
	}
	n := sec - r.ref.Unix()
	if nsec > int64(r.ref.Nanosecond()) {
		n++
	}
	return min(max(n, 0), MaxInteger)
}

// reference returns when the response was made by the clock of the server, or,
// if it does not say or is an old one from a cache, when it arrived.
func (r *reading) reference() time.Time {
	if dates := r.h["Date"]; len(dates) > 0 && !aged(r.h) {
		if t, ok := parseDate(trim(dates[0])); ok {
			return t
		}
	}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	return r.now
}

// aged reports whether the response comes out of a cache (RFC 9111 Section
// 5.1).
func aged(h http.Header) bool {
	for _, line := range h["Age"] {
		if n, ok := parseNumber(trim(line)); ok && !n.neg && (n.n > 0 || n.frac > 0) {
			return true
		}
	}
	return false
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
	sec, nsec, rest, ok := parseSeconds(s[len(form):])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return time.Time{}, false
	}
	year, month, day, hour, minute := atoi(s[:4]), atoi(s[5:7]), atoi(s[8:10]), atoi(s[11:13]), atoi(s[14:16])
	const leap = 60 // a second that RFC 3339 Section 5.6 allows
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if month < 1 || month > 12 || t.Day() != day || hour > 23 || minute > 59 || sec > leap {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute-offset, sec, nsec, time.UTC), true
}

// parseSeconds reads :05.123, if it is there.
func parseSeconds(s string) (sec, nsec int, rest string, ok bool) {
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
	frac, ok := billionths(rest[1:end])
	return sec, int(frac), rest[end:], ok && end > 1
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
	if skip(digits, 0, digit) < len(digits) || len(digits) != len("00") && len(digits) != len("0000") {
		return 0, false
	}
	minutes = 60 * atoi(digits[:2])
	if len(digits) > 2 {
		minutes += atoi(digits[2:])
	}
	return sign * minutes, true
}

// atoi reads digits that have been checked.
func atoi(s string) (n int) {
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// parseDate reads an HTTP-date in its three forms (RFC 9110 Section 5.6.7),
// with other zones than GMT, and what Date.toString writes in JavaScript.
func parseDate(s string) (time.Time, bool) {
	if t, ok := parseIMF(s); ok {
		return t, true
	}
	if t, err := http.ParseTime(s); err == nil {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		t, err := http.ParseTime(zoneless + " GMT")
		return t, err == nil
	}
	s, _, _ = strings.Cut(s, " (")
	for _, layout := range []string{time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseIMF reads the form of an HTTP-date that every Date has, in a fraction of
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
	day, hour, minute, sec := atoi(s[5:7]), atoi(s[17:19]), atoi(s[20:22]), atoi(s[23:25])
	if month < 0 || month%3 > 0 || hour > 23 || minute > 59 || sec > 59 {
		return time.Time{}, false
	}
	t := time.Date(atoi(s[12:16]), time.Month(month/3+1), day, hour, minute, sec, 0, time.UTC)
	return t, t.Day() == day
}

// windowOf returns the seconds of a policy by its name: that of the whole, of a
// number of seconds before the first dash, of a part with a unit (24hour), of a
// part that is a word, from the last; 0 if there are none.
func windowOf(windows map[string]int64, name string) int64 {
	if len(windows) == 0 {
		return 0
	}
	if n, ok := windows[name]; ok {
		return n
	}
	if end := skip(name, 0, digit); end > 0 && (end == len(name) || name[end] == '-') {
		v, _ := parseNumber(name[:end])
		return v.count()
	}
	for rest := name; rest != ""; {
		part := lastPart(rest)
		rest = rest[:max(len(rest)-len(part)-1, 0)]
		if n, ok := windows[lower(part)]; ok {
			return n
		}
		if part != "" && is(part[0], digit) && is(part[len(part)-1], alpha) && len(part) <= maxTime {
			if n, ok := parseDuration(part); ok {
				return n
			}
		}
	}
	return windows["*"]
}

// lastPart returns what is behind the last separator of a name.
func lastPart(name string) string {
	return name[strings.LastIndexAny(name, "-_/")+1:]
}

// unitOf returns the unit of a policy by its name, as windowOf.
func unitOf(units map[string]Unit, name string) Unit {
	if len(units) == 0 {
		return ""
	}
	if u, ok := units[name]; ok {
		return u
	}
	for rest := name; rest != ""; {
		part := lastPart(rest)
		rest = rest[:max(len(rest)-len(part)-1, 0)]
		if u, ok := units[part]; ok {
			return u
		}
	}
	return units["*"]
}
