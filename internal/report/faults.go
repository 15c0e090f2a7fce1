package report

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Malformed is a field that is ignored. If the response as a whole is at fault, Offset is -1, and
// Field and Value are "".
type Malformed struct {
	Field  string `json:"field"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"` // in bytes; each byte is one character of Value
	Item   *int   `json:"item,omitzero"`
	Param  string `json:"param,omitzero"`
	Error  string `json:"error"`
	Value  string `json:"value"`

	key   string // of the field in http.Header
	cause string // Error without the place
}

func malformedOf(p *response, err error) []Malformed {
	list := []Malformed{} // in JSON null would not be an array
	for _, e := range fieldErrors(err) {
		spelled := *e
		spelled.Field = p.names.of(e.Field)
		m := Malformed{Field: spelled.Field, Line: e.Line, Offset: e.Offset, Param: e.Param, Error: spelled.Error(), key: e.Field}
		spelled.Offset, spelled.Item = -1, -1
		m.cause = strings.TrimPrefix(strings.TrimPrefix(spelled.Error(), "ratelimit: "), spelled.Field+": ")
		if lines := p.Header.Values(e.Field); e.Line < len(lines) {
			m.Value = Printable(lines[e.Line])
		}
		if e.Item >= 0 {
			m.Item = &e.Item
		}
		list = append(list, m)
	}
	return list
}

// fieldErrors returns the errors that err joins.
func fieldErrors(err error) (list []*ratelimit.FieldError) {
	var e *ratelimit.FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			list = append(list, fieldErrors(err)...)
		}
	} else if errors.As(err, &e) {
		list = append(list, e)
	}
	return list
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

	level ratelimit.Level
	key   string // of the field in http.Header
}

// Check sets Findings, to an empty list if there are none.
func (r *Report) Check() {
	r.Findings = []Finding{}
	for _, f := range ratelimit.Check(r.response.Response) {
		out := FindingOf(f)
		out.Field = r.response.names.of(f.Field)
		r.Findings = append(r.Findings, out)
	}
}

// FindingOf converts a finding of [ratelimit.Check] or of a [ratelimit.Sequence].
func FindingOf(f ratelimit.Finding) Finding {
	out := Finding{Rule: f.Rule, Level: f.Level.String(), Field: f.Field, Message: f.Message, level: f.Level, key: f.Field}
	if f.Item >= 0 {
		out.Item = &f.Item
	}
	if f.Offset >= 0 {
		out.Line, out.Offset = &f.Line, &f.Offset
	}
	return out
}

// Doubtful reports whether a field is malformed, or a finding is above a note.
func (r *Report) Doubtful() bool {
	return len(r.Malformed) > 0 || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.level > ratelimit.LevelNote })
}

// LevelMalformed is the level of a malformed older field, for which the specification has no rule.
const LevelMalformed = "malformed"

// A Fault is a malformed field, a broken rule, or both if they have the same place.
type Fault struct {
	Level  string // "must", "should", "note" or LevelMalformed
	Rule   string // "" if none is broken
	Place  string // the field, with the number of the member
	Error  string // why the field is malformed, with the place, or ""
	Cause  string // the same without the place
	Remedy string // how to keep the rule, or ""
	Value  string // a line of the field
	Offset int    // of the byte at fault in Value, or of the member; -1 without Value
	Line   int    // in the text, from 1; 0 if it is unknown

	rank int
}

// Faults returns all faults, the worst first.
func (r *Report) Faults() []Fault {
	var list []Fault
	told := make([]bool, len(r.Findings)) // findings that are part of a malformed field
	for _, m := range r.Malformed {
		f := Fault{Level: LevelMalformed, Error: strings.TrimPrefix(m.Error, "ratelimit: "), Cause: m.cause, Value: m.Value, Offset: m.Offset}
		f.Place = place(m.Field, m.Item)
		f.Line = r.response.lineOf(m.key, m.Line)
		f.rank = int(ratelimit.LevelMust) + 1
		for i, finding := range r.Findings {
			if !told[i] && finding.about(m) {
				told[i] = true
				f.Level, f.Rule, f.Remedy = finding.Level, finding.Rule, finding.Message
				break
			}
		}
		list = append(list, f)
	}
	for i, finding := range r.Findings {
		if !told[i] {
			list = append(list, r.fault(finding))
		}
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(b.rank, a.rank) })
	return list
}

// about reports whether a finding has the place of a malformed field.
func (f Finding) about(m Malformed) bool {
	return f.Offset != nil && f.key == m.key && *f.Line == m.Line && *f.Offset == m.Offset
}

// fault converts a finding, and adds its line.
func (r *Report) fault(f Finding) Fault {
	out := Fault{Level: f.Level, Rule: f.Rule, Place: place(f.Field, f.Item), Remedy: f.Message, Offset: -1, rank: int(f.level)}
	lines := r.response.Header.Values(f.key)
	line, offset := 0, 0
	switch {
	case f.Offset != nil:
		line, offset = *f.Line, *f.Offset
	case f.Item != nil:
		line, offset = memberAt(lines, *f.Item)
	}
	if line < len(lines) && offset <= len(lines[line]) {
		out.Value, out.Offset, out.Line = Printable(lines[line]), offset, r.response.lineOf(f.key, line)
	}
	return out
}

// place returns a field with the number of the member.
func place(field string, item *int) string {
	if item == nil {
		return field
	}
	return fmt.Sprintf("member %d of %s", *item+1, field)
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

// lineOf returns the number of the line with a value of a field, or 0 if it is unknown.
func (p *response) lineOf(key string, i int) int {
	if numbers := p.lines[http.CanonicalHeaderKey(key)]; i < len(numbers) {
		return numbers[i]
	}
	return 0
}
