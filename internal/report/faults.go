package report

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A Malformed is a field that is ignored because it is malformed. If the response as a whole is at
// fault, Offset is -1, and Field and Value are "".
type Malformed struct {
	Field  string `json:"field"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"` // in bytes; each byte is one character of Value
	Item   *int   `json:"item,omitzero"`
	Param  string `json:"param,omitzero"`
	Error  string `json:"error"`
	Value  string `json:"value"`

	err *ratelimit.FieldError
}

// malformed describes an error of parsing the response.
func (p *response) malformed(e *ratelimit.FieldError) Malformed {
	spelled := *e
	spelled.Field = p.spelled(e.Field)
	m := Malformed{Field: spelled.Field, Line: e.Line, Offset: e.Offset, Item: known(e.Item), Param: e.Param, Error: spelled.Error(), err: &spelled}
	if lines := p.Header.Values(e.Field); e.Line < len(lines) {
		m.Value = Printable(lines[e.Line])
	}
	return m
}

// A Finding is a rule of the specification that the response breaks.
type Finding struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"`
	Field   string `json:"field"`
	Line    *int   `json:"line,omitzero"`   // from 0; nil if the fault is in no line
	Offset  *int   `json:"offset,omitzero"` // of the byte in the line, from 0
	Item    *int   `json:"item,omitzero"`
	Message string `json:"message"`

	Source ratelimittest.Finding `json:"-"`
}

// Check sets Findings, to an empty list if there are none.
func (r *Report) Check() {
	r.Findings = []Finding{}
	for _, f := range ratelimittest.Check(r.response.Response) {
		f.Field = r.response.spelled(f.Field)
		r.Findings = append(r.Findings, FindingOf(f))
	}
}

// FindingOf converts a finding of [ratelimittest.Check] or of a [ratelimittest.Sequence].
func FindingOf(f ratelimittest.Finding) Finding {
	out := Finding{Rule: f.Rule, Level: f.Level.String(), Field: f.Field, Offset: known(f.Offset), Item: known(f.Item), Message: f.Message, Source: f}
	if f.Offset >= 0 {
		out.Line = &f.Line
	}
	return out
}

// Doubtful reports whether a field is malformed, or a finding is above a note.
func (r *Report) Doubtful() bool {
	return len(r.Malformed) > 0 || slices.ContainsFunc(r.Findings, Finding.IsFault)
}

// IsFault reports whether a finding is more than a note.
func (f Finding) IsFault() bool { return f.Source.Level > ratelimittest.LevelNote }

// LevelMalformed is the level of a malformed older field, for which the specification has no rule.
const LevelMalformed = "malformed"

// A Fault is a malformed field, a broken rule, or both if they have the same place.
type Fault struct {
	Level  string // "must", "should", "note" or LevelMalformed
	Rule   string // "" if none is broken
	Place  string // the field, with the number of the member
	Cause  string // why the field is malformed, or ""
	Remedy string // what to do, or ""
	Value  string // a line of the field as it was sent: show an Excerpt of it
	Offset int    // of the byte at fault in Value, or of the member; -1 without Value
	Line   int    // in the text, from 1; 0 if it is unknown

	rank ratelimittest.Level
}

// Faults returns all faults, the worst first.
func (r *Report) Faults() []Fault {
	var list []Fault
	found := slices.Clone(r.Findings)
	for _, m := range r.Malformed {
		e := m.err
		f := r.faultAt(e.Field, e.Line, e.Offset, e.Item)
		f.Place, f.Cause, _ = strings.Cut(strings.TrimPrefix(m.Error, "ratelimit: "), ": ")
		f.Place, _, _ = strings.Cut(f.Place, ",") // the Fault has the line and the byte
		f.Level, f.rank = LevelMalformed, ratelimittest.LevelMust+1
		same := func(g Finding) bool { return g.Field == e.Field && g.Source.Line == e.Line }
		if at := slices.IndexFunc(found, same); at >= 0 {
			f.Level, f.Rule, f.Remedy = found[at].Level, found[at].Rule, found[at].Message
			found = slices.Delete(found, at, at+1)
		}
		list = append(list, f)
	}
	for _, g := range found {
		f := r.faultAt(g.Field, g.Source.Line, g.Source.Offset, g.Source.Item)
		f.Level, f.Rule, f.Remedy, f.rank = g.Level, g.Rule, g.Message, g.Source.Level
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(b.rank, a.rank) })
	return list
}

// faultAt returns a fault with its place. Without an offset the place is the member, or the first
// line of the field.
func (r *Report) faultAt(field string, line, offset, item int) Fault {
	f := Fault{Place: field, Offset: -1}
	if item >= 0 {
		f.Place = fmt.Sprintf("member %d of %s", item+1, field)
	}
	lines := r.response.Header.Values(field)
	if offset < 0 {
		line, offset = 0, 0
		if item >= 0 {
			line, offset = memberAt(lines, item)
		}
	}
	if line < len(lines) && offset <= len(lines[line]) {
		f.Value, f.Offset = lines[line], offset
		if numbers := r.response.lines[http.CanonicalHeaderKey(field)]; line < len(numbers) {
			f.Line = numbers[line]
		}
	}
	return f
}

// memberAt returns the index of the line that contains a member of a list, and the offset of the
// member. If there is no such member, the index is len(lines).
func memberAt(lines []string, item int) (line, offset int) {
	for line, value := range lines {
		for begin := 0; begin <= len(value); {
			one, _, _ := text.Cut(value[begin:], ',')
			if member := text.Trim(one); member != "" {
				if item == 0 {
					return line, begin + strings.Index(one, member)
				}
				item--
			}
			begin += len(one) + 1
		}
	}
	return len(lines), 0
}
