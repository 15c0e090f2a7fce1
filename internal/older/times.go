package older

import (
	"github.com/httpfields/ratelimit/internal/text"
)

// A Format defines which time a number means.
type Format uint8

// The formats. Dates, durations and clocks are recognized by their shape.
const (
	Guess     Format = iota // by its size
	Seconds                 // from now
	Milli                   // milliseconds from now
	Unix                    // seconds since the Unix epoch
	UnixMilli               // milliseconds since the Unix epoch
	HTTPDate                // RFC 9110 Section 5.6.7
	RFC3339
	Duration // as Go writes it
)

// Numbers from these sizes on are points in time. Seconds since the epoch have at most eleven digits
// until the year 5138. Milliseconds have at least twelve digits since 1973. Seconds from LeastNear on, a
// time in 1973, are a point in time if the format is Unix, or if the time lies near the response.
const (
	LeastNear  = 1e8
	LeastUnix  = 1e9
	leastMilli = 1e11
)

// A momentKind is the form of a time.
type momentKind uint8

// The kinds of moments. Better kinds come first: a point in time needs two clocks that agree, and a
// bare number has no unit.
const (
	noMoment    momentKind = iota
	laterMoment            // a span from now
	pointMoment            // a point in time
	bareMoment             // a small number without a known unit
)

// A moment is the time in a value.
type moment struct {
	kind     momentKind
	form     Format    // the form for writing another time
	fraction bool      // a bare number has a fraction
	drafts   bool      // a bare number in a field of the drafts, which defines seconds
	units    int64     // how many units make a second; 0 for a text, or if unknown
	until    text.Span // from now; a bare number is in seconds
}

// parseMoment reads a time: a text by its shape, and a number by its size and format. Points in time are
// measured from the clock. It returns false if the text is no time. The kind is noMoment if the text is
// -1, which means no reset.
func parseMoment(s string, f Format, c *text.Clock) (moment, bool) {
	if v, ok := text.ParseCount(s); ok {
		return momentOf(v, f, c), true
	}
	if len(s) > text.MaxTime {
		return moment{}, false
	}
	if t, ok := text.ParseTime(s); ok {
		m := moment{kind: pointMoment, form: HTTPDate, until: c.Until(t.In(c.Now()).Unix(), int64(t.Nanosecond()))}
		if text.Is(s[0], text.Digit) {
			m.form = RFC3339
		}
		return m, true
	}
	span, ok := text.ParseSpan(s)
	if !ok || !text.Is(s[0], text.Digit) && s[0] != 'P' { // a unit without a number is a window
		return moment{}, false
	}
	return moment{kind: laterMoment, form: Duration, until: span}, true
}

// momentOf reads a number as a time. The size overrules the format: 1.8e12 is never a number of
// seconds. Milliseconds below leastMilli, which is three years, are a span. Seconds from LeastNear on
// are a point in time if it lies within a month of the response. This makes bubbles of testing/synctest
// work, whose clock begins in 2000.
func momentOf(v text.Number, f Format, c *text.Clock) moment {
	switch {
	case v == text.Number{N: 1, Neg: true}: // -1 means no reset (Gravitee, Omnisend)
		return moment{}
	case v.N >= leastMilli || f != Milli && (v.N >= LeastUnix || v.N >= LeastNear && (f == Unix || c.Near(v.N))):
		units := int64(1)
		for size := v.N; size >= leastMilli && units < text.Billion; size /= 1000 {
			units *= 1000
		}
		since := v.Span(units)
		return moment{kind: pointMoment, form: Unix, units: units, until: c.Until(since.Sec, since.Nsec)}
	case f == Milli:
		return moment{kind: laterMoment, form: Seconds, units: 1000, until: v.Span(1000)}
	case f == Seconds, f == Duration:
		return moment{kind: laterMoment, form: Seconds, units: 1, until: v.Span(1)}
	}
	return moment{kind: bareMoment, form: Seconds, fraction: v.Frac > 0, until: v.Span(1)}
}

// in returns the span of a moment. units is how many units of a bare number make a second.
func (m *moment) in(units int64) text.Span {
	if m.kind != bareMoment || units == 1 { // usual
		return m.until
	}
	return text.Number{N: m.until.Sec, Frac: m.until.Nsec}.Span(units)
}

// settle makes a bare number a span. units is how many of its units make a second; 0 is unknown.
func (m *moment) settle(units int64) {
	if m.kind == bareMoment && units != 0 {
		m.kind, m.units, m.until = laterMoment, units, m.in(units)
	}
}

// fits reports whether a time is at most as long as a window. It allows a tenth more, because
// servers round both numbers. units is how many units of a bare number make a second.
func (m *moment) fits(window, units int64) bool { return m.in(units).Ceil() <= window+window/10+1 }
