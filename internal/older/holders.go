package older

import (
	"strconv"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
)

// A Holder is a field with one number of a limit. The number can be replaced, in the form of the
// field.
type Holder struct {
	Field  int   // the index of the field
	Limit  int   // the index of its limit
	Role   Role  // Quota, Remaining, Used or Reset
	Number int64 // of units, or of seconds until the reset

	reset moment
}

// Holders returns the fields with one number of a limit. It leaves out lines with several numbers.
func (numbers *Numbers) Holders(fields []Field, c *text.Clock) []Holder {
	holders := make([]Holder, 0, len(fields))
	for i := range fields {
		f := &fields[i]
		if f.tally < 0 || f.columns != 0 || !f.Role.number() || f.Format >= bans || f.kind != roleKind && f.kind != looseKind {
			continue
		}
		at := f.tally
		for numbers.tallies[at].into > 0 {
			at = numbers.tallies[at].into - 1
		}
		t := &numbers.tallies[at]
		h := Holder{Field: i, Limit: t.limit, Role: f.Role}
		if t.hasLimit() && h.read(f, t, c) {
			holders = append(holders, h)
		}
	}
	return holders
}

// read reads the number of a field. If lines contain different numbers, it takes the number that
// tally.take takes. found is false if no line has a number. t is the tally of the field's policy.
func (h *Holder) read(f *Field, t *tally, c *text.Clock) (found bool) {
	for _, line := range f.lines() {
		if h.Role == Reset {
			line, _, _ = text.Cut(line, ';')
		}
		line = text.Trim(text.Unquote(text.Trim(line)))
		if h.Role != Reset {
			if v, ok := text.ParseCount(line); ok && (!found || stricter(h.Role, v.Floor(), h.Number)) {
				h.Number, found = v.Floor(), true
			}
			continue
		}
		m, _ := parseMoment(line, f.Format, c)
		if t.reset.kind == laterMoment {
			m.settle(t.reset.units) // settle has found the unit
		}
		if m.kind != noMoment && (!found || m.until.Ceil() > h.Number) {
			h.Number, h.reset, found = m.until.Ceil(), m, true
		}
	}
	return found
}

// Write formats another number in the form of the field. n is a number of units, or of seconds from
// now. The result ok is false if the form cannot express the number.
func (h *Holder) Write(n int64, now time.Time) (line string, ok bool) {
	if h.Role != Reset {
		return strconv.FormatInt(n, 10), true
	}
	line, ok = h.reset.form.Write(n, now)
	return line + strconv.FormatInt(max(h.reset.units, 1), 10)[1:], ok // 1000 adds three zeros, for milliseconds
}

const imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT" // of an HTTP-date (RFC 9110 Section 5.6.7)

// Write formats a time, in seconds from now. ok is false if the format cannot express it.
func (f Format) Write(n int64, now time.Time) (s string, ok bool) {
	const lastYear = 253402300799 // 9999-12-31T23:59:59Z
	unix := now.Unix()
	if n < 0 || n > text.MaxInteger || f >= Unix && f <= RFC3339 && (unix < LeastNear || unix+n > lastYear) {
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
		d := (text.Span{Sec: n}).Duration()
		if n <= int64(d/time.Second) {
			return d.String(), true
		}
		return strconv.FormatInt(n, 10) + "s", true
	}
	return strconv.FormatInt(n, 10), true
}
