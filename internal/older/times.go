package older

import (
	"time"

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

// Numbers from these sizes on are points in time. Seconds since the epoch have at most eleven
// digits until the year 5138. Milliseconds had fewer than twelve digits before 1973. Seconds
// from LeastNear on, in 1973, can be a point in time if the rest of the response requires it.
const (
	LeastNear  = 1e8
	LeastUnix  = 1e9
	leastMilli = 1e11
)

// A momentKind is the form of a time.
type momentKind uint8

// The kinds of moments.
const (
	noMoment    momentKind = iota
	laterMoment            // a span from now
	bareMoment             // a small number without a known unit
	pointMoment            // a point in time
)

// A moment is a time in the form of a value.
type moment struct {
	kind   momentKind
	units  int64       // how many units make a second; 0 for a text, or if unknown
	number text.Number // 0 for a text
	span   text.Span   // from now, or since the Unix epoch for a point in time
	short  bool        // the year of the date has two digits
}

// parseMoment reads a time: a text by its shape, and a number by its size and format.
func parseMoment(s string, f Format) (moment, bool) {
	if v, ok := text.ParseCount(s); ok {
		return momentOf(v, f), true
	}
	if len(s) > text.MaxTime {
		return moment{}, false
	}
	if t, ok := text.ParseTime(s); ok {
		return moment{kind: pointMoment, span: text.Span{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}, short: t.Short}, true
	}
	span, ok := text.ParseSpan(s)
	if !ok || !text.Is(s[0], text.Digit) && s[0] != 'P' { // a unit without a number is a window
		return moment{}, false
	}
	return moment{kind: laterMoment, span: span}, true
}

// momentOf reads a number as a time. The size overrules the format: 1.8e12 is never a number
// of seconds. A number of milliseconds from now can be three years. A point in time in
// milliseconds is larger.
func momentOf(v text.Number, f Format) moment {
	switch {
	case v == text.Number{N: 1, Neg: true}: // -1 means no reset (Gravitee, Omnisend)
		return moment{}
	case v.N >= leastMilli || v.N >= LeastUnix && f != Milli || v.N >= LeastNear && f == Unix:
		units := int64(1)
		for size := v.N; size >= leastMilli && units < text.Billion; size /= 1000 {
			units *= 1000
		}
		return moment{kind: pointMoment, units: units, number: v, span: v.Span(units)}
	case f == Milli:
		return moment{kind: laterMoment, units: 1000, number: v, span: v.Span(1000)}
	case f == Seconds, f == Duration:
		return moment{kind: laterMoment, units: 1, number: v, span: v.Span(1)}
	}
	return moment{kind: bareMoment, number: v}
}

// settle converts a number of seconds to a point in time if it is near the clock of the
// response. Such numbers can be small: a bubble of testing/synctest begins in 2000, when Unix
// seconds look like thirty years. Numbers below LeastNear stay seconds, even next to a clock
// in 1970.
func (m moment) settle(c *text.Clock) moment {
	if m.units != 1000 && m.number.N >= LeastNear && c.Near(m.number.N) {
		return moment{kind: pointMoment, units: 1, number: m.number, span: m.number.Span(1)}
	}
	return m
}

// in converts a bare number to a span, with units in a second.
func (m moment) in(units int64) moment {
	return moment{kind: laterMoment, units: units, number: m.number, span: m.number.Span(units)}
}

// until returns the time from now until a moment. A bare number is in seconds.
func (m moment) until(c *text.Clock) text.Span {
	switch {
	case m.kind == bareMoment:
		return m.number.Span(1)
	case m.short:
		t := text.Date{Time: time.Unix(m.span.Sec, 0).UTC(), Short: true}.In(c.Now())
		return c.Until(t.Unix(), 0)
	case m.kind == pointMoment:
		return c.Until(m.span.Sec, m.span.Nsec)
	}
	return m.span
}
