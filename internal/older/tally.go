package older

import (
	"cmp"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// Unknown is a number that no field contains.
const Unknown = -1

// A tallyID identifies the policy of a tally. Numbers without a policy's name are tallied by
// family, because unrelated families never complete each other.
type tallyID struct {
	policy string
	family string // "" if there is a policy
	column int64  // the index in parallel lists, from 0; or the negative window of a list member
}

// A tally collects the numbers of one policy from all fields. An absent number is Unknown.
type tally struct {
	tallyID
	into  int // 1 + the index of the tally that absorbed this one, or 0
	limit int // the index of its limit in the result

	quota, remaining, used int64
	share                  int8              // the used part of the quota, in percent, rounded up
	status                 int8              // the word of a field for the status, as in statuses
	plain                  int64             // a number without a role, which may be the quota
	part, usedPart         int32             // the fractions of the quota and of the used units, in billionths
	rate                   int64             // the units that are restored each second
	by                     [Window + 1]int16 // by role, the number of the field that decided
	droppedQuotaIn         int16             // the number of the field whose larger quota did not count; its window does not count either
	several                bool              // a field has several numbers
	unlimited              bool              // a quota is negative, or the word unlimited
	quotaOf                order             // of the field with the quota
	closed                 bool              // a family of lower rank has another quota, and describes another limiter: its facts do not count

	window int64 // in seconds
	usual  int64 // the window if no field has one
	bare   bool  // the window has no unit until the reset decides
	reset  moment
	shared bool // the reset is from a field without a policy's name

	title, tail string // from fields that contain the name
	columnName  string // added to the policy's name
	params      string // all parameters
	form        string // the spelling of the family
	order       order
	unit        string
	hint        hint // from the policy's name
}

// tallies has the tallies of a response, and the listed policies. Its lists begin in a Room.
// A list grows by a copy, because append would make the Room escape to the heap, which costs
// a third of the time.
type tallies struct {
	list   []tally
	index  map[tallyID]int // of list, from manyTallies on
	listed []Policy
	full   bool // a tally did not fit
}

const manyTallies = 16 // a map finds the tallies from this number on

// at returns the index of the tally with an ID. If there is none, at begins one. If there is no
// room for it, at returns -1.
func (ts *tallies) at(id tallyID, n *name) int {
	i := len(ts.list)
	for at := range min(i, manyTallies) {
		if ts.list[at].tallyID == id {
			return at
		}
	}
	if at, isTallied := ts.index[id]; isTallied {
		return at
	}
	if i == MaxMembers {
		ts.full = true
		return -1
	}
	if i >= manyTallies {
		if ts.index == nil {
			ts.index = map[tallyID]int{}
		}
		ts.index[id] = i
	}
	t := grow(&ts.list)
	*t = noTally
	t.tallyID, t.form, t.order, t.hint = id, n.Form, n.order, n.hint
	if id.policy != n.Policy {
		t.hint = hintOf(id.policy, n.digits)
	}
	return i
}

// grow makes a list one element longer, and returns a pointer to that element.
func grow[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = append(make([]T, 0, 2*n+1), *list...)
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}

// noTally has no numbers, and belongs to no policy.
var noTally = tally{tallyID: tallyID{column: -1}, quota: Unknown, remaining: Unknown, used: Unknown, share: Unknown, plain: Unknown}

// add adds the facts of a field, and returns how many of them it could read. number counts the
// fields from 1.
func (ts *tallies) add(f *Field, number int16, facts []Fact, c *text.Clock) (taken int) {
	for i := range facts {
		fact := &facts[i]
		if fact.Role == Policies {
			if len(ts.listed) == MaxMembers {
				break
			}
			ts.listPolicy(f, fact)
			taken++
			continue
		}
		if !text.IsName(fact.Policy) || fact.Role.isText() && !text.IsName(fact.Value) {
			continue
		}
		at := ts.at(f.tallyID(fact, i), f.name)
		if at < 0 { // there is no room
			break
		}
		f.tally = at
		t := &ts.list[at]
		t.usual, t.unit = cmp.Or(t.usual, f.Window), cmp.Or(t.unit, f.Unit)
		if f.name.columns != "" && f.columns == 2 { // the row names two policies
			t.columnName = strings.Split(f.name.columns, "|")[t.column]
			t.usual = hintOf(t.columnName, false).window
		}
		if t.take(f.name, number, fact, c) {
			taken++
		}
	}
	return taken
}

// listPolicy adds a listed policy, unless it is known.
func (ts *tallies) listPolicy(f *Field, fact *Fact) {
	p := Policy{Name: fact.name, Quota: fact.quota, Window: fact.window, Unit: f.Unit, Params: fact.params}
	same := func(q Policy) bool { return p.Quota == q.Quota && p.Window == q.Window && p.Name == q.Name }
	known := slices.ContainsFunc(ts.listed, same)          // descriptors of Envoy have names
	if !known && (p.Quota != 0 || f.order <= draftOrder) { // X-RateLimit-Policy: 50;w=1, 0;w=2592000 (Brave)
		*grow(&ts.listed) = p
	}
}

// tallyID returns the tally of a fact, which is the i-th fact of its line.
func (f *Field) tallyID(fact *Fact, i int) tallyID {
	id := tallyID{policy: below(f.Policy, fact.Policy)}
	switch {
	case f.columns != 0:
		id.column = int64(i)
	case fact.Role != Quota:
		id.column = -fact.window
	}
	if id.policy == "" {
		id.family = f.family
	}
	return id
}

// take adds one fact. It returns false if the value is malformed.
func (t *tally) take(n *name, number int16, fact *Fact, c *text.Clock) bool {
	if t.closed {
		return true
	}
	switch fact.Role {
	case Reset:
		return t.takeReset(n, number, fact, c)
	case Window:
		t.takeWindow(number, fact.Value, cmp.Or(fact.Format, n.Format))
		return true
	case Name: // the first one counts
		t.title = cmp.Or(t.title, fact.Value)
		return true
	case Subname:
		t.tail = cmp.Or(t.tail, fact.Value)
		return true
	case Status:
		t.status = cmp.Or(t.status, statuses[strings.ToLower(fact.Value)])
		return true
	}
	part, value := fact.isPart(n), fact.Value
	if part {
		value = text.Trim(strings.TrimSuffix(value, "%"))
	}
	v, ok := text.ParseCount(value)
	t.unlimited = t.unlimited || fact.Role == Quota && (ok && v.Neg || isNothing(fact.Value))
	if !ok {
		return isNothing(fact.Value)
	}
	if part {
		t.takePart(n, number, v, fact)
	} else {
		t.takeCount(n.order, number, v, fact)
	}
	return true
}

// statuses has the words of a field for the status. A number below 0 means that the limit refuses.
var statuses = map[string]int8{"rejected": -1, "exceeded": -1, "blocked": -1, "limited": -1, "throttled": -1, "allowed": 1}

// takePart adds a part of the quota: a percentage, or a fraction, which may slightly exceed 1. A
// fraction of 2 or more is read as a percentage, unless a caller's dialect defines the field.
func (t *tally) takePart(n *name, number int16, v text.Number, fact *Fact) {
	fraction := cmp.Or(fact.Format, n.Format) == Fraction && !strings.HasSuffix(fact.Value, "%")
	if fraction && (v.N < 2 || n.order == ownOrder) {
		v.N, v.Frac = min(v.N, 1)*100+v.Frac/1e7, v.Frac%1e7
	}
	share := min(v.Ceil(), 100)
	if fact.Role == Remaining {
		share = 100 - min(v.Floor(), 100)
	}
	if !v.Neg && (t.share == Unknown || t.by[Used] == number) {
		t.share, t.by[Used] = max(t.share, int8(share)), number
	}
}

// takeCount adds a number of units.
func (t *tally) takeCount(o order, number int16, v text.Number, fact *Fact) {
	switch fact.Role {
	case Quota:
		if t.quota != Unknown && t.quotaOf < o && t.quota != v.Floor() {
			t.closed = true
			return
		}
		t.quotaOf = o
		t.takeQuota(number, v, &fact.item)
	case Remaining:
		if !v.Neg || !t.unlimited && t.rate == 0 { // otherwise it is unlimited, or Spring Cloud Gateway cannot count
			t.keep(number, Remaining, &t.remaining, v.Floor())
		}
	case Rate:
		t.rate = v.Ceil()
	case Used:
		if !v.Neg && t.keep(number, Used, &t.used, v.Ceil()) {
			t.usedPart = int32(v.Frac)
		}
	default:
		t.keep(number, None, &t.plain, v.Floor())
	}
}

// stricter reports whether n allows less than other, for two numbers of one field.
func stricter(role Role, n, other int64) bool {
	if role == Used {
		return n > other
	}
	return n < other
}

// keep sets number to n if n counts instead of the known number, and reports whether it does. The first
// field with a number decides. If this field has several numbers, the strictest one counts, because it
// is unknown which limiter wrote which number.
func (t *tally) keep(field int16, role Role, number *int64, n int64) bool {
	again := t.by[role] == field
	t.several = t.several || again && n != *number
	if *number != Unknown && !(again && stricter(role, n, *number)) {
		return false
	}
	*number, t.by[role] = n, field
	return true
}

// takeQuota adds a quota, unless it is negative, which means unlimited. If a field has several
// quotas, each window belongs to the quota before it.
func (t *tally) takeQuota(field int16, v text.Number, m *item) {
	before := t.quota
	switch {
	case v.Neg:
	case t.keep(field, Quota, &t.quota, v.Floor()):
		if before != Unknown && t.by[Window] == field {
			t.window = 0
		}
		t.part, t.droppedQuotaIn = int32(v.Frac), 0
		t.params = cmp.Or(t.params, m.params)
	case v.Floor() > t.quota:
		t.droppedQuotaIn = field
	}
}

// takeWindow adds a window. An unreadable window, and one without a fixed length, is absent.
func (t *tally) takeWindow(field int16, value string, format Format) {
	if t.window != 0 || t.droppedQuotaIn == field {
		return
	}
	value, t.by[Window] = text.Trim(text.Unquote(value)), field
	t.window = parseWindow(value)
	v, ok := text.ParseCount(value)
	if t.bare = ok && format == Guess; ok && format == Milli {
		t.window = v.Span(1000).Ceil()
	}
}

// takeReset adds a reset. The best kind of moment counts. If one field has several resets, the latest
// reset counts, whatever its kind. takeReset returns false if the value is no time.
func (t *tally) takeReset(n *name, field int16, fact *Fact, c *text.Clock) bool {
	m, ok := parseMoment(text.Trim(text.Unquote(fact.Value)), cmp.Or(fact.Format, n.Format), c)
	if m.kind == noMoment {
		return ok
	}
	if m.kind == pointMoment && m.units == 0 { // a date
		fact.draft = draft00
	}
	m.drafts = m.kind == bareMoment && (n.order == draftOrder || n.kind == anchorKind) // a Dictionary of draft-07 under another name
	again := t.by[Reset] == field
	t.several = t.several || again && m.until != t.reset.until
	if t.reset.kind == noMoment || again && m.until.Duration() > t.reset.until.Duration() || !t.reset.drafts && m.kind < t.reset.kind {
		t.reset, t.by[Reset] = m, field
	}
	return true
}

// spend computes the remaining from the quota and the used units, or the quota from the other two.
// Without an anchor, it does not compute the quota, because one request may have used the units. If
// only the used part is known, the quota is 100 percent.
func (t *tally) spend() {
	if t.remaining != Unknown && t.quota == Unknown {
		t.quota = t.plain
	}
	switch {
	case t.used == Unknown && t.share != Unknown && !t.numbers():
		t.quota, t.remaining, t.unit = 100, 100-int64(t.share), "percent"
	case t.used == Unknown:
	case t.quota == Unknown && t.remaining != Unknown && t.order != looseOrder:
		t.quota = min(t.remaining+t.used, text.MaxInteger)
	case t.quota != Unknown && t.remaining == Unknown:
		t.remaining = max(t.quota-t.used, 0)
		if 0 < t.usedPart && t.usedPart <= t.part && t.used <= t.quota { // used was rounded up, as for 1.1 of 2.5
			t.remaining++
		}
	}
}

// hasLimit reports whether there is a remaining or a reset.
func (t *tally) hasLimit() bool { return t.remaining != Unknown || t.reset.kind != noMoment }

// hasPolicy reports whether a tally becomes a policy: if it has a quota, or only used units, or a limit
// with a window or a unit.
func (t *tally) hasPolicy() bool {
	return t.quota != Unknown || t.used != Unknown && t.remaining == Unknown || t.hasLimit() && (t.window != 0 || t.unit != "")
}

// numbers reports whether there is a quota or a remaining.
func (t *tally) numbers() bool { return t.quota != Unknown || t.remaining != Unknown }

// agrees reports whether no number of one tally contradicts one of the other.
func (t *tally) agrees(u *tally) bool {
	same := func(n, m int64) bool { return n == m || n == Unknown || m == Unknown }
	return same(t.quota, u.quota) && same(t.remaining, u.remaining)
}

// absorb moves numbers from the tally other to the tally into, if into lacks them. other is empty
// afterwards.
func (ts *tallies) absorb(into, other int) {
	t, from := &ts.list[into], &ts.list[other]
	fill := func(n *int64, other int64) {
		if *n == Unknown {
			*n = other
		}
	}
	fill(&t.quota, from.quota)
	fill(&t.remaining, from.remaining)
	fill(&t.used, from.used)
	t.window = cmp.Or(t.window, from.window)
	if t.reset.kind == noMoment {
		t.reset, t.shared = from.reset, from.policy == ""
	}
	t.unit, t.status = cmp.Or(t.unit, from.unit), cmp.Or(t.status, from.status)
	t.params = cmp.Or(t.params, from.params)
	*from = noTally
	from.into = into + 1
	t.spend()
}

// align finds parallel lists, such as X-RateLimit-Limit: 1, 15000 and X-RateLimit-Remaining: 0, 14999
// (Brave). Parallel lists are two or more fields of one family and policy with the same number of
// members. In at least one of them the commas cannot separate thousands.
func align(fields []Field) {
	var lists map[tallyID][]int // indices of fields; column is the number of members
	for i := range fields {
		f := &fields[i]
		f.columns = 0 // a previous reading may have set it
		id := tallyID{f.Policy, f.family, int64(f.list())}
		if id.column == 0 { // a fast path for nearly all fields
			continue
		}
		if id.policy != "" {
			id.family = ""
		}
		if lists == nil {
			lists = map[tallyID][]int{}
		}
		lists[id] = append(lists[id], i)
	}
	for id, list := range lists {
		if len(list) > 1 && slices.ContainsFunc(list, func(i int) bool { return !text.IsThousands(text.Trim(fields[i].Lines[0])) }) {
			for _, i := range list {
				fields[i].columns = int(id.column)
			}
		}
	}
}

// list returns how many numbers or times a field lists. It returns 0 for any other value.
func (f *Field) list() (n int) {
	if strings.IndexByte(f.Lines[0], ',') < 0 && strings.IndexByte(f.Lines[0], '|') < 0 || !f.Role.number() && f.Role != Window {
		return 0 // a fast path for nearly all values
	}
	line := text.FirstLine(f.Lines)
	for part := range strings.SplitSeq(line, separatorOf(line)) {
		part = text.Trim(part)
		_, isNumber := text.ParseNumber(part)
		_, isSpan := text.ParseSpan(part)
		if n++; !isNumber && !isSpan && !isDate(part) || n > MaxMembers {
			return 0
		}
	}
	return n
}

// isDate reports whether a text is a point in time.
func isDate(s string) bool {
	_, ok := text.ParseTime(s)
	return ok
}

// separatorOf returns the separator of parallel lists: a comma, or a bar (Keap).
func separatorOf(line string) string {
	if strings.IndexByte(line, ',') >= 0 {
		return ","
	}
	return "|"
}
