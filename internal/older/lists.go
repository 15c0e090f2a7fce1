package older

import (
	"cmp"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

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
		if len(list) > 1 && slices.ContainsFunc(list, func(i int) bool { return !text.IsThousands(text.Trim(fields[i].Lines[0])) }) {
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
	line, _ := firstLine(f.Lines)
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
