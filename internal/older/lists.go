package older

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// A Policy is a policy that a response announces.
type Policy struct {
	Name   string
	Quota  int64 // Unknown if it is not said
	Window int64 // in seconds; 0 if it is not said
	Unit   string
	Used   int64  // the units spent, if nothing else is known of them; else Unknown
	Params string // what stands behind the quota in a list, w and name included

	taken bool // it belongs to a tally
}

// An item is what a member of a list says of a policy.
type item struct {
	quota, window int64
	name          string
	params        string     // all parameters
	shows         generation // by what the parameter for the window is called
}

// readParams reads what the parameters of a member say.
func (m *item) readParams(params string) {
	m.params = params
	for n := 0; params != "" && n < MaxParams; n++ {
		var param string
		param, params, _ = text.Cut(params, ';')
		key, value, _ := strings.Cut(text.Trim(param), "=")
		value = text.Unquote(text.Trim(value))
		switch strings.ToLower(text.Trim(key)) {
		case "window":
			m.window, m.shows = parseWindow(value), draft00
		case "w":
			m.window, m.shows = parseWindow(value), draft03
		case "name": // Envoy
			if text.IsName(value) {
				m.name = value
			}
		}
	}
}

// readPolicy reads the value of a policy, which may have a window: 100/1h. It is false if
// the value is not a number.
func (m *item) readPolicy(value string) bool {
	count, window, over := strings.Cut(value, "/")
	n, ok := text.ParseCount(text.Trim(count))
	if !ok || n.Neg {
		return false
	}
	if m.quota = n.Floor(); !over {
		return true
	}
	own := parseWindow(text.Trim(window))
	m.window = cmp.Or(m.window, own)
	return own > 0
}

// readItems reads a list of Integer policies (draft-06 Section 3.2), in which a word is the
// name of an algorithm and no policy; or a quota, and the policies that may follow it
// (drafts 00 to 03 Section 3.1). In the first line of a quota the first number is the
// quota; in another line it belongs to another limiter. Behind more policies than are kept
// nothing is read.
func readItems(facts []Fact, role Role, line string, first bool) (_ []Fact, bad int) {
	bad = noFault
	for off, leads := 0, true; off <= len(line) && len(facts) <= MaxMembers; leads = false {
		member, _, ok := text.Cut(line[off:], ',')
		value, params, _ := text.Cut(member, ';')
		value = text.Trim(value)
		var m item
		m.readParams(params)
		behind := m.window
		isPolicy := m.readPolicy(value)
		listed := role == Policies || !(first && leads) && (params != "" || m.window > 0 && !leads)
		switch {
		case text.Trim(member) == "":
		case isPolicy && listed:
			facts = append(facts, Fact{Role: Policies, item: m})
		case role == Policies:
			ok = text.Skip(value, 0, text.Alpha) > 0
		case leads || isPolicy:
			from := len(facts)
			if facts, ok = readCount(facts, Quota, value); len(facts) > from {
				facts[from].item = m
			}
			facts = appendWindow(facts, behind, ok)
		default:
			ok = false
		}
		if !ok && bad == noFault {
			bad = off
		}
		off += len(member) + 1
	}
	return facts, bad
}

// appendWindow appends the window among the parameters of a number, if it could be read.
func appendWindow(facts []Fact, window int64, ok bool) []Fact {
	if ok && window > 0 {
		facts = append(facts, Fact{Role: Window, Format: Seconds, Value: strconv.FormatInt(window, 10)})
	}
	return facts
}

// Parallel lists: X-RateLimit-Limit: 1, 15000 and X-RateLimit-Remaining: 0, 14999 (Brave).

// A listID is the same for all parallel lists of one policy.
type listID struct {
	family, policy string
	n              int
}

// align finds parallel lists: at least two fields of one family and policy with as
// many members, at least one of which is not a number with thousands.
func align(fields []Field) {
	var lists map[listID][]int // indices of fields
	for i := range fields {
		f := &fields[i]
		f.columns = 0 // it may have been read before
		id := listID{f.name.family, f.name.policy, f.list()}
		if id.n == 0 { // as nearly all fields
			continue
		}
		if id.policy != "" {
			id.family = ""
		}
		if lists == nil {
			lists = map[listID][]int{}
		}
		lists[id] = append(lists[id], i)
	}
	for id, list := range lists {
		if len(list) > 1 && slices.ContainsFunc(list, func(i int) bool { return !text.IsThousands(fields[i].line()) }) {
			for _, i := range list {
				fields[i].columns = id.n
			}
		}
	}
}

// list returns how many numbers or times a field lists, 0 if it has any other
// value.
func (f *Field) list() (n int) {
	if strings.IndexByte(f.Lines[0], ',') < 0 && strings.IndexByte(f.Lines[0], '|') < 0 || !f.name.role.number() && f.name.role != Window {
		return 0 // as nearly all values
	}
	line := f.line()
	for rest, more := line, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, separatorOf(line))
		part = text.Trim(part)
		_, ok := text.ParseNumber(part)
		if !ok && f.name.role.time() {
			_, isTime := parseMoment(part, Guess)
			ok = isTime || parseWindow(part) > 0
		}
		if n++; !ok || n > MaxMembers {
			return 0
		}
	}
	return n
}

// separatorOf returns what separates the members of parallel lists: a comma, or a bar
// (Keap).
func separatorOf(line string) string {
	if strings.IndexByte(line, ',') >= 0 {
		return ","
	}
	return "|"
}

// line returns the line of a field of one number: of several plain numbers the one that
// counts (see tally.heeds), else the first line that is not blank.
func (f *Field) line() string {
	line, first := firstLine(f.Lines)
	if first+1 == len(f.Lines) || !f.name.role.number() {
		return line
	}
	least, found := int64(0), false
	for _, next := range f.several() {
		next = text.Trim(next)
		if v, ok := text.ParseCount(next); ok && (!found || stricter(f.name.role, v.Floor(), least)) {
			line, least, found = next, v.Floor(), true
		}
	}
	return line
}

// maxLines is how many lines are read of a field that is not a list of policies. Each
// limiter on the way may add one.
const maxLines = 16

// several returns the lines of a field that are read.
func (f *Field) several() []string { return f.Lines[:min(len(f.Lines), maxLines)] }

// compare orders fields by family, role and how sure it is, by policy, and then by length.
func (f *Field) compare(g *Field) int {
	if f.name.place != g.name.place {
		return f.name.place - g.name.place
	}
	if f.name.policy != g.name.policy {
		return strings.Compare(f.name.policy, g.name.policy)
	}
	return cmp.Or(cmp.Compare(len(f.Key), len(g.Key)), strings.Compare(f.Key, g.Key))
}

// sortFields puts fields into the order in which they count, because a header has
// none: by family, by role, by policy, then the shorter name first.
func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int { return a.compare(&b) })
}
