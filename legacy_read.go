package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A reading is the state of reading one response. It sums up facts by policy; the
// first few tallies are part of it, so that most responses need no memory for
// them.
type reading struct {
	options LegacyOptions
	header  http.Header
	clock   clock // read when it is needed
	clocked bool

	field      int16 // the number of the field that is being read, from 1
	policies   int   // tallies
	fewTallies [4]tally
	more       []tally
	index      map[tallyID]int // of tallies, if they are many

	listed     []Policy         // out of lists of policies
	byQuota    map[listedID]int // of listed, if they are many
	limits     []Limit          // out of lists of limits
	asked      time.Duration    // the wait that fields in place of Retry-After ask for
	title      string           // of the policy without a name
	tail       string           // second half of the title
	dialect    string
	generation generation
	guessed    bool
	faults     []*FieldError
}

// now returns the clock of the response.
func (r *reading) now() *clock {
	if !r.clocked {
		r.clock, r.clocked = readClock(r.header, r.options.Now), true
	}
	return &r.clock
}

// sortFields puts fields into the order in which they count, because a header has
// none: by family, by role, by policy, then the shorter name first.
func sortFields(found []foundField) {
	slices.SortFunc(found, func(a, b foundField) int {
		if n := a.meaning.place() - b.meaning.place(); n != 0 {
			return n
		}
		return cmp.Or(
			strings.Compare(a.meaning.policy, b.meaning.policy),
			cmp.Compare(len(a.key), len(b.key)),
			strings.Compare(a.key, b.key),
		)
	})
}

// place orders fields by family, role and rank.
func (m *meaning) place() int { return int(m.order)<<16 | int(m.role)<<8 | int(m.rank) }

// A listID is the same for all parallel lists of one policy.
type listID struct {
	family, policy string
	n              int
}

// align finds parallel lists: at least two fields of one family and policy with as
// many members, at least one of which is not a number with thousands.
func align(found []foundField) {
	var lists map[listID][]int // indices of found
	for i := range found {
		f := &found[i]
		if n := f.list(); n != 0 {
			if lists == nil {
				lists = map[listID][]int{}
			}
			id := listID{strings.ToLower(f.meaning.family), f.meaning.policy, n}
			lists[id] = append(lists[id], i)
		}
	}
	for id, list := range lists {
		certain := slices.ContainsFunc(list, func(i int) bool { return !isThousands(found[i].line()) })
		for _, i := range list {
			if len(list) > 1 && certain {
				found[i].columns = id.n
			}
		}
	}
}

// list returns how many numbers or times a field lists, 0 if it has any other
// value.
func (f *foundField) list() int {
	m := f.meaning
	if m.role.counted() || m.role == RoleWindow {
		return columns(f.line(), m.role)
	}
	return 0
}

// counted reports whether a value of that role is a number of units, or a reset.
func (r Role) counted() bool { return RoleQuota <= r && r <= RoleReset }

// isPlain reports whether a value is a number of digits alone.
func isPlain(s string) bool { return s != "" && all(s, digit) }

// firstLine returns the first line that is not blank.
func firstLine(lines []string) (line string, i int) {
	for i, line = range lines {
		if line = trim(line); line != "" {
			break
		}
	}
	return line, i
}

// line returns the line of a field of one number: of several plain numbers the one that
// counts (see tally.heeds), else the first line that is not blank.
func (f *foundField) line() string {
	line, first := firstLine(f.lines)
	role := f.meaning.role
	if first+1 == len(f.lines) || !role.counted() {
		return line
	}
	least, known := int64(0), false
	for _, next := range f.several() {
		next = trim(next)
		if v, ok := parseCount(next); ok && (!known || stricter(role, v.floor(), least)) {
			line, least, known = next, v.floor(), true
		}
	}
	return line
}

// maxLines is how many lines are read of a field that is no list of policies. A second
// one is that of a second limiter, and there are not so many on any way.
const maxLines = 16

// several returns the lines of a field that are read.
func (f *foundField) several() []string { return f.lines[:min(len(f.lines), maxLines)] }

// read reads a field.
func (r *reading) read(f *foundField) {
	r.field++
	m := f.meaning
	switch {
	case m.kind == waitName:
		r.readWait(f)
	case m.kind == anchorName:
		r.readAnchor(f)
	case m.read != nil:
		r.readOwn(f)
	case f.columns != 0:
		r.readColumns(f)
	case m.role.counted() && len(f.lines) == 1 && isPlain(f.lines[0]):
		// Most fields have such a value. It needs no closer look.
		r.takeAll(f, []Fact{{Role: m.role, Format: m.format, Value: f.lines[0]}}, 0)
	case m.role == RoleName:
		r.readTitle(f)
	case m.role == RolePolicies:
		r.readPolicies(f)
	case m.role == RoleQuota:
		r.readQuota(f)
	case m.role != RoleNone || m.kind == plainName || m.kind == recordName:
		for i, line := range f.several() {
			r.readLine(f, m.role, i, trim(line))
		}
	}
}

// fault adds an error about a field. off counts from the start of the line.
func (r *reading) fault(f *foundField, line, off int, err error) {
	r.faults = append(r.faults, &FieldError{Field: fieldName(f.key), Line: line, Offset: off, Item: -1, Err: err})
}

// strictFault adds an error of the strict parser.
func (r *reading) strictFault(f *foundField, err error) {
	e := err.(*FieldError)
	e.Field = fieldName(f.key)
	r.faults = append(r.faults, e)
}

// readOwn reads a field by the function of its DialectField.
func (r *reading) readOwn(f *foundField) {
	for i, line := range f.several() {
		facts, ok := f.meaning.read(nil, line)
		if taken := r.takeAll(f, facts, 0); taken < len(facts) || !ok {
			r.fault(f, i, 0, ErrSyntax)
		}
	}
}

// readWait reads a field in place of Retry-After. Retry-After-NAME also says that
// nothing of the policy NAME remains until then.
func (r *reading) readWait(f *foundField) {
	m := f.meaning
	if m.policy == "" {
		r.asked = max(r.asked, m.wait(f.lines, r.now()))
		return
	}
	line, i := firstLine(f.lines)
	until, ok := parseMoment(line, m.format, m.per)
	until.settle(r.now())
	reset := until.seconds(r.now())
	if !ok && line != "" {
		r.fault(f, i, 0, ErrSyntax)
	}
	if reset.ok {
		t := r.tally(f, m.policy, 0)
		t.remaining, t.resets.at[spanMoment] = 0, reset
		r.credit(f, draft06)
	}
}

// readAnchor reads a field whose name is the anchor alone. It holds the current
// form, the Dictionary of draft-07, or what the field of a quota does.
func (r *reading) readAnchor(f *foundField) {
	own, line := strings.EqualFold(f.key, limitKey), f.line()
	switch {
	case line == "":
	case own && r.readDictionary(f):
	case own || line[0] == '"':
		r.readLimits(f, own)
	default:
		r.readQuota(f)
	}
}

// readLimits reads limits in the current form. Its own field is here only if the
// strict parser refuses it.
func (r *reading) readLimits(f *foundField, own bool) {
	limits, err := ParseLimits(f.lines...)
	if err != nil {
		list, ok := readItems(f.lines, limitField)
		if !ok {
			r.strictFault(f, err)
			return
		}
		limits = make([]Limit, len(list))
		for i := range list {
			list[i].limit(&limits[i])
		}
	} else if own {
		return
	}
	r.limits = append(r.limits, limits...)
	r.credit(f, draft08)
}

// readTitle reads the name of a policy, of which the first counts.
func (r *reading) readTitle(f *foundField) {
	line, i := firstLine(f.lines)
	name := unquote(line)
	switch {
	case !isName(name):
		r.fault(f, i, 0, ErrSyntax)
	case f.meaning.kind == tailName:
		r.tail = name
	case r.title == "":
		r.title = name
	}
}

// stravaColumns are the policies of two parallel lists, quota and used, without
// windows. Nobody but Strava writes that.
var stravaColumns = [...]struct {
	name   string
	window Seconds
}{{"15min", SecondsOf(900)}, {"daily", SecondsOf(86400)}}

// readColumns reads a parallel list. Each member belongs to another policy.
func (r *reading) readColumns(f *foundField) {
	m, line, n := f.meaning, f.line(), 0
	each(line, columnSeparator(line), func(_ byte, part string) bool {
		r.takeAll(f, []Fact{{Role: m.role, Format: m.format, Value: part}}, n) // align has looked at the values
		if m.role == RoleUsed && f.columns == len(stravaColumns) {
			if t := r.tally(f, m.policy, n); t.remaining == Unknown {
				t.half, t.usual = stravaColumns[n].name, stravaColumns[n].window
			}
		}
		n++
		return true
	})
}

// readLine reads a line with one value: a number, a time, a pair, a record, or JSON;
// or with a list of numbers, of which one counts (see tally.heeds).
func (r *reading) readLine(f *foundField, role Role, i int, line string) {
	m := f.meaning
	structured := isJSON(line) || isRecord(line)
	if line == "" || m.kind == recordName && !structured {
		return
	}
	if (role.counted() || m.kind == plainName) && isNumbers(line) {
		n := 0
		for number := range numbers(line) {
			if n++; n > maxMembers {
				r.fault(f, i, 0, ErrTooMany)
				return
			}
			r.takeAll(f, []Fact{{Role: role, Format: m.format, Value: number}}, 0)
		}
		return
	}
	var few [4]Fact
	facts, ok := few[:0], true
	switch {
	case role == RoleReset || role == RoleWindow:
		facts = append(facts, Fact{Role: role, Format: m.format, Value: line})
	case isJSON(line):
		facts, ok = readJSON(facts, role, line)
	case structured:
		facts, ok = readRecord(facts, role, line)
	default:
		facts, ok = readMember(facts, m.kind, role, line)
	}
	taken := r.takeAll(f, facts, 0)
	if !(ok && taken == len(facts)) && (taken > 0 || m.clear(line)) {
		r.fault(f, i, strings.Index(f.lines[i], line), ErrSyntax)
	}
}

// clear reports whether a value that cannot be read is an error. It is if the name
// of the field leaves no doubt about its meaning, or if the value holds a digit.
func (m *meaning) clear(line string) bool {
	return m.kind == roleName && (m.policy == "" || strings.ContainsAny(line, "0123456789") || windowOfName(m.policy, m.seconds).ok || unitOfName(m.policy) != "")
}

// readMember reads a value that is a number or a pair. Further members and
// parameters repeat what other fields say; only a window among them is read.
func readMember(facts []Fact, kind nameKind, role Role, line string) ([]Fact, bool) {
	member, ok := line, true
	if !isCommas(line) {
		member, _, ok = cut(line, ',')
	}
	value, params, _ := cut(member, ';')
	if kind == plainName {
		role = roleOfPlain(value)
	}
	if ok {
		facts, ok = readCount(facts, role, value)
	}
	if !ok {
		return nil, false
	}
	p, _, _ := readPolicy("", params)
	return p.appendWindow(facts), true
}

// roleOfPlain returns the role of a value in a field without one: 5/60 is used and
// quota, 60/1m is quota and window.
func roleOfPlain(value string) Role {
	first, second, pair := strings.Cut(value, "/")
	a, _ := parseCount(trim(first))
	b, isCount := parseCount(trim(second))
	switch {
	case !pair:
		return RoleNone
	case isCount && a.n <= b.n:
		return RoleUsed
	}
	return RoleQuota
}

// takeAll adds the facts of a field, and returns how many are well-formed.
func (r *reading) takeAll(f *foundField, facts []Fact, column int) (taken int) {
	for i := range facts {
		if isName(facts[i].Policy) && r.take(f, &facts[i], column) {
			taken++
		}
	}
	if taken > 0 {
		r.credit(f, draft06)
	}
	return taken
}

// credit records that a field was read. The first one names the dialect.
func (r *reading) credit(f *foundField, g generation) {
	m := f.meaning
	if m.order == draftOrder {
		r.generation = max(r.generation, g)
	}
	if r.dialect == "" {
		switch m.order {
		case draftOrder:
			r.dialect = generationNames[draft06] // replaced in the end
		case xOrder:
			r.dialect = "x-ratelimit"
		case ownOrder, exceptionOrder:
			r.dialect = m.family
		default:
			r.dialect = strings.ToLower(m.family)
		}
	}
}
