// Package older reads the older header fields for limits: draft-00 to draft-07 of the
// specification, X-RateLimit-*, and the fields of vendors. It returns numbers and texts.
//
// [Find] returns the fields of a header. words.go splits a name into role, policy and unit. [Read] then
// reads the values: values.go reads facts from each value, tally.go collects the facts of each policy,
// and settle.go turns them into policies and limits.
package older

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
)

// Options define how fields are read.
type Options struct {
	Reset Format     // of a bare number in a reset, if nothing in the response decides
	Name  string     // the name of a policy without a name
	Clock text.Clock // of the response
}

// A Policy is a policy that a response announces.
type Policy struct {
	Name   string
	Quota  int64 // Unknown if it is absent
	Window int64 // in seconds; 0 if it is absent
	Unit   string
	Params string // the text after the quota in a list, with w and name; used=5 if only used units are known

	taken bool // a tally has taken it
}

// A Limit is a limit that a response announces.
type Limit struct {
	Name      string
	Remaining int64     // Unknown if it is absent
	Reset     text.Span // from now, with the precision of the response
	Resets    bool      // a reset is present
}

// A Cause is the reason why a line of a field cannot be read.
type Cause uint8

// The causes of faults.
const (
	Syntax Cause = iota
	Missing
	TooMany
)

// A Fault is a line that cannot be read completely.
type Fault struct {
	Key          string
	Line, Offset int
	Cause        Cause
}

// Numbers are the policies and limits that fields contain. Their lists begin in a Room.
type Numbers struct {
	Policies []Policy
	Limits   []Limit
	tallies  []tally
}

// A Result has everything else that fields contain.
type Result struct {
	Current []Field       // fields in the current form, which this package does not read
	Form    string        // the first form that was read: the spelling of a family, a draft, or a vendor
	Guessed bool          // nothing decides the unit of a reset
	Asked   time.Duration // the longest wait of the fields in place of Retry-After
	Faults  []Fault

	draft string // the oldest draft that the syntax shows
}

// A Room has space for most responses, so that reading allocates memory only for the result.
type Room struct {
	tallies  [3]tally
	listed   [2]Policy
	facts    [3]Fact
	policies [3]Policy
	limits   [3]Limit
}

// Read reads the fields that Find found in a header. It reorders them.
func Read(room *Room, fields []Field, o *Options) (numbers Numbers, r Result) {
	sortFields(fields)
	align(fields)
	ts := tallies{list: room.tallies[:0], listed: room.listed[:0]}
	r.draft = "draft-06"
	for i := range fields {
		f := &fields[i]
		f.tally = -1
		switch n := f.name; {
		case n.kind == waitKind && n.Policy == "": // with a policy, the wait belongs to a limit (NestJS)
			r.Asked = max(r.Asked, n.asked(f.Lines, &o.Clock))
		case f.isCurrent():
			r.Current = append(r.Current, *f)
		default:
			ts.addField(f, int16(i+1), room.facts[:0], &o.Clock, &r)
		}
	}
	r.Guessed = ts.settle(o.Reset)
	if r.Form == draftForm {
		r.Form = r.draft
	}
	policies, limits := ts.result(room, o.Name)
	return Numbers{policies, limits, ts.list}, r
}

// Forms that other fields can make more precise.
const (
	draftForm = "ratelimit"
	waitForm  = "retry-after"
)

// The drafts that the syntax of a fact can show. All other fields are in the form of draft-06.
const (
	draft00 = "draft-00" // the parameter window, or a date for a reset
	draft03 = "draft-03" // policies in the field of the quota
	draft07 = "draft-07" // the Dictionary RateLimit
)

// addField adds the facts of a field to the tallies, and its faults.
func (ts *tallies) addField(f *Field, number int16, room []Fact, c *text.Clock, r *Result) {
	first := true
	for i, all := range f.lines() {
		line := text.Trim(all)
		if line == "" || f.columns != 0 && !first { // parallel lists have one line
			continue
		}
		facts, bad := f.read(room, line, first)
		first = false
		taken := ts.add(f, number, facts, c)
		r.noteDraft(f, facts)
		if taken > 0 && (r.Form == "" || r.Form == waitForm) {
			if r.Form = f.Form; r.Form == draftForm && f.dictionary {
				r.Form = draft07
			}
		}
		cause := ts.cause(f, facts)
		if (bad != noFault || taken < len(facts)) && (taken > 0 || f.clear(line)) { // nothing is cut silently
			off := max(bad, 0) + strings.Index(all, line)
			r.Faults = append(r.Faults, Fault{Key: f.Key, Line: i, Offset: off, Cause: cause})
		}
		if cause == TooMany {
			break
		}
	}
}

// noteDraft records the oldest draft that the facts of a field show.
func (r *Result) noteDraft(f *Field, facts []Fact) {
	for i := range facts {
		if draft := facts[i].draft; draft != "" && f.order == draftOrder && f.Role != Policies {
			r.draft = min(r.draft, draft)
		}
	}
}

// clear reports whether an unreadable value is an error. If the name of the field has a policy and no
// role, the value is no error. In any other field a value with a digit is an error. A value without a
// digit is an error only if the name leaves no doubt: it has a role and no policy, or a policy with a
// unit or a window.
func (f *Field) clear(line string) bool {
	return f.kind != plainKind && (f.Policy == "" && f.kind != anchorKind || strings.ContainsAny(line, "0123456789") || f.hint != (hint{}))
}

// cause returns why tallies.add has not taken some facts of a field.
func (ts *tallies) cause(f *Field, facts []Fact) Cause {
	switch {
	case ts.full || len(facts) >= MaxMembers || len(ts.listed) >= MaxMembers:
		return TooMany
	case f.dictionary && len(facts) == 0:
		return Missing
	}
	return Syntax
}

// isCurrent reports whether a field is in the current form. RateLimit and RateLimit-Policy are in it,
// unless they contain a Dictionary or Integer policies.
func (f *Field) isCurrent() bool {
	if f.Role != Policies && f.kind != anchorKind { // a fast path for nearly all fields
		return false
	}
	line := text.FirstLine(f.Lines)
	switch {
	case line == "":
		return false
	case f.dictionary:
		key, _, _ := strings.Cut(line, "=")
		return !isRecord(line) || strings.IndexByte(key, ';') >= 0 // a;r=1 is a member, not a Dictionary
	}
	return line[0] == '"' || !text.Is(line[0], text.Digit) && strings.EqualFold(f.Key, "RateLimit-Policy")
}

// Waits returns the longest wait that fields of h other than Retry-After ask for. It returns 0 if
// there is none, or if more than MaxFields fields may ask for one. It reads only the words of
// names. Programs that need only the wait therefore do not link the table of vendors or the JSON
// parser.
func Waits(h map[string][]string, c *text.Clock) (longest time.Duration) {
	looked := 0
	for key, lines := range h {
		if !hasWait(key) || !isName(key) || len(lines) == 0 { // a fast path for nearly all keys
			continue
		}
		if looked++; looked > MaxFields {
			return 0
		}
		var room [maxWords]token
		said, _ := sentence(room[:0], key)
		if n, _ := (name{Row: Row{Key: key}}).wait(said); n.kind == waitKind && n.Policy == "" {
			longest = max(longest, n.asked(lines, c))
		}
	}
	return longest
}

// asked returns the wait that lines ask for. A 0 counts as no wait, because some servers send it in
// every response.
func (n *name) asked(lines []string, c *text.Clock) time.Duration {
	m, _ := parseMoment(text.Unquote(text.FirstLine(lines)), n.Format, c)
	return m.until.Duration()
}

// maxLines is the number of lines that are read of a field, unless it is a list of policies. Each
// limiter on the way of the response may add a line.
const maxLines = 16

// lines returns the lines of the field that are read. A Dictionary is one line (RFC 9651 Section
// 4.2).
func (f *Field) lines() []string {
	if f.Role == Policies && !f.dictionary {
		return f.Lines
	}
	lines := f.Lines[:min(len(f.Lines), maxLines)]
	if f.dictionary && len(lines) > 1 {
		lines = []string{strings.Join(lines, ",")}
	}
	return lines
}

// sortFields puts fields into the order in which they count, because a header has no order. The
// order is by family, role, certainty and policy. If all are equal, the shorter name comes first.
func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int {
		return cmp.Or(a.place-b.place, strings.Compare(a.Policy, b.Policy), len(a.Key)-len(b.Key), strings.Compare(a.Key, b.Key))
	})
}
