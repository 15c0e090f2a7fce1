package ratelimit

import (
	"strings"
	"time"
)

// farthest is beyond any number of seconds that is read as a time.
const farthest = 1e18

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
		return SecondsOf(r.clock.until(t.Unix(), int64(t.Nanosecond()))), absoluteHow, true
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
	return r.clock.until(t.Unix(), 0)
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
		return v.ceilDiv(milliUnits), 0
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
	sec, nsec := v.split(units)
	return r.clock.until(sec, nsec), how
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
		return v.floor()
	}
	for rest := name; rest != ""; {
		part := lastPart(rest)
		rest = rest[:max(len(rest)-len(part)-1, 0)]
		if n, ok := windows[lowerCase(part)]; ok {
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
