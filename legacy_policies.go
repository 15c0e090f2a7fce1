package ratelimit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A tally sums up what the fields say of one policy.
type tally struct {
	name   string // "" is the policy that no name tells
	column int    // of parallel lists, from 0
	// The numbers of counts are Unknown if no field says them. plain is a number
	// without a role, which may be the quota.
	counts
	part    int64 // the fraction of the quota, in billionths
	window  Seconds
	usual   Seconds       // its window if nothing says another
	bare    int64         // a window without unit, 0 if there is none
	resets  resets        // what its fields say of the reset
	reset   Seconds       // that of these which counts
	precise time.Duration // the same, where it is no number of whole seconds
	unit    Unit
	title   string // from a parameter
	half    string // of its name, from its column
	params  Params
	by      [roles]int16 // the number of the field that says this; that without a role for plain
	lost    int16        // the number of a field of which a higher quota has been left out
	several bool         // a field says several numbers
	common  bool         // the reset is that of no policy by name
	numeric bool         // the name begins with the length of the window
	order   order        // of the first field
	refuted order        // fields of this order contradict those before
}

type counts struct{ quota, remaining, used, plain int64 }

var noCounts = counts{Unknown, Unknown, Unknown, Unknown}

// firstKnown returns a number, or another if it is Unknown.
func firstKnown(n, other int64) int64 {
	if n == Unknown {
		return other
	}
	return n
}

// resets are the times that fields give for the reset, the first of each kind.
type resets struct {
	at      [moments]Seconds       // by kind, each as seconds from now
	precise [moments]time.Duration // the same, where they are no whole seconds
	small   number                 // that of bareMoment, without unit
	seconds bool                   // which are seconds by definition, if nothing refutes it
	last    momentKind             // the kind of the one that was added last
}

func (t *tally) none() bool { return t.resets.at == [moments]Seconds{} }

// take adds one fact to its policy. It is false if the value is malformed.
func (r *reading) take(f *foundField, fact *Fact, column int) bool {
	m := f.meaning
	t := r.tally(f, below(m.policy, fact.Policy), column)
	if t.refuted == m.order {
		return true
	}
	format := cmp.Or(fact.Format, m.format)
	switch fact.Role {
	case RoleReset:
		return r.takeReset(t, m, fact.Value, format)
	case RoleWindow:
		return r.takeWindow(t, m, fact.Value, format)
	case RoleName:
		if !isName(fact.Value) {
			return false
		}
		t.title = fact.Value
		return true
	}
	v, ok := parseCount(fact.Value)
	if !ok {
		return isNothing(fact.Value)
	}
	n := v.floor()
	switch fact.Role {
	case RoleQuota:
		r.takeQuota(t, m, v)
	case RoleRemaining:
		if t.heeds(r.field, RoleRemaining, t.remaining, n) {
			t.remaining = n
		}
	case RoleUsed:
		if n = v.ceil(); !v.neg && t.heeds(r.field, RoleUsed, t.used, n) {
			t.used = n
		}
	default:
		if t.heeds(r.field, RoleNone, t.plain, n) {
			t.plain = n
		}
	}
	return true
}

// stricter reports whether of two numbers that one field says the first allows less.
func stricter(role Role, n, other int64) bool {
	if role == RoleUsed || role == RoleReset {
		return n > other
	}
	return n < other
}

// heeds reports whether a number of a field counts, next to what is known. The first
// field that says a number decides; of several in it the one that allows least, as
// nobody can tell which of two limiters on the way is meant.
func (t *tally) heeds(field int16, role Role, known, n int64) bool {
	if known == Unknown {
		t.by[role] = field
		return true
	}
	again := t.by[role] == field
	t.several = t.several || again && n != known
	return again && stricter(role, n, known)
}

// takeQuota adds a quota. If a later family of fields has another quota for the
// same policy, that family describes something else, and its numbers are dropped.
// A negative quota is another word for unlimited. Where a field has several quotas, the
// window behind one goes with it.
func (r *reading) takeQuota(t *tally, m *meaning, v number) {
	n := v.floor()
	switch {
	case v.neg:
	case t.heeds(r.field, RoleQuota, t.quota, n):
		if t.quota != Unknown && t.by[RoleWindow] == r.field {
			t.window, t.bare = Seconds{}, 0
		}
		t.quota, t.part, t.lost = n, v.frac, 0
	case t.by[RoleQuota] == r.field && n > t.quota:
		t.lost = r.field
	case t.quota != n && m.order.main() && m.order != t.order:
		t.refuted = m.order
	}
}

// takeWindow adds the length of a window.
func (r *reading) takeWindow(t *tally, m *meaning, value string, format TimeFormat) bool {
	if t.window.ok || t.bare != 0 || t.lost == r.field {
		return true
	}
	t.by[RoleWindow] = r.field
	value = trim(unquote(value))
	if v, ok := parseCount(value); ok {
		switch {
		case format == TimeMilli:
			t.window = windowOf(v.ceilDiv(1000))
		case format != TimeGuess:
			t.window = windowOf(saturatingMul(v.ceil(), max(m.per, 1)))
		default:
			t.bare = v.ceil()
		}
		return true
	}
	n, ok := parseSpanOrWord(value)
	t.window = windowOf(n)
	return ok || isNothing(value)
}

// windowOf returns a window of so many seconds; one of 0 is absent.
func windowOf(n int64) Seconds {
	if n < minWindow {
		return Seconds{}
	}
	return SecondsOf(min(n, MaxInteger))
}

// takeReset adds a reset. The drafts define a bare number as seconds.
func (r *reading) takeReset(t *tally, m *meaning, value string, format TimeFormat) bool {
	at, ok := parseMoment(value, format, m.per)
	if at.kind == noMoment {
		return ok
	}
	var c *clock
	if at.needsClock() {
		c = r.now()
		at.settle(c)
	}
	if at.kind == dateMoment && at.written && m.order == draftOrder {
		r.generation = max(r.generation, draft00)
	}
	s, seconds := &t.resets, at.seconds(c)
	if t.by[RoleReset] == r.field { // of several that a field says the latest counts, on whatever clock
		t.several = t.several || seconds != s.at[s.last]
		if seconds.n <= s.at[s.last].n {
			return ok
		}
		s.at[s.last], s.precise[s.last] = Seconds{}, 0
	}
	if s.at[at.kind].ok {
		return ok
	}
	s.at[at.kind], s.last, t.by[RoleReset] = seconds, at.kind, r.field
	s.precise[at.kind] = at.exactly(value, c)
	if at.kind == bareMoment {
		s.small, s.seconds = at.number, m.order == draftOrder || m.kind == anchorName
	}
	return ok
}

// A tallyID is the policy of a tally.
type tallyID struct {
	name   string
	column int
}

// at returns a tally.
func (r *reading) at(i int) *tally {
	if i < len(r.fewTallies) {
		return &r.fewTallies[i]
	}
	return &r.more[i-len(r.fewTallies)]
}

// lookup returns the tally of a policy, nil if there is none.
func (r *reading) lookup(name string, column int) *tally {
	for i := range min(r.policies, len(r.fewTallies)) {
		if t := &r.fewTallies[i]; t.name == name && t.column == column {
			return t
		}
	}
	if i, ok := r.index[tallyID{name, column}]; ok {
		return r.at(i)
	}
	return nil
}

// tally returns the tally of a policy, a new one if there is none yet. If there are
// too many, it is one that nobody reads.
func (r *reading) tally(f *foundField, name string, column int) *tally {
	m := f.meaning
	t := r.lookup(name, column)
	if t == nil {
		if r.policies == maxMembers {
			r.fault(f, 0, 0, ErrTooMany)
			return new(tally)
		}
		if r.policies >= len(r.fewTallies) {
			if r.index == nil {
				r.index = map[tallyID]int{}
			}
			r.index[tallyID{name, column}] = r.policies
			r.more = append(r.more, tally{})
		}
		t = r.at(r.policies)
		r.policies++
		*t = tally{name: name, column: column, counts: noCounts, order: m.order, refuted: noOrder}
	}
	if !t.usual.ok {
		t.usual = m.window
	}
	if t.unit == "" {
		t.unit = m.unit
	}
	t.numeric = t.numeric || m.seconds
	return t
}

// fields makes the result of what has been read. Each step needs those before it.
func (r *reading) fields() Fields {
	r.indexListed()   // which the others look into
	r.joinNames()     // facts of one policy under two names
	r.settleWindows() // before resets, which have to fit into them
	r.settleResets()
	r.spend()      // what remains, of what is used
	r.shareReset() // the reset of no policy is that of the tightest
	return r.result()
}

// joinNames merges tallies that have two names and describe one policy.
func (r *reading) joinNames() {
	// X-RateLimit-Daily-Limit-Remaining belongs to X-RateLimit-Daily.
	for i := range r.policies {
		t := r.at(i)
		dash := strings.LastIndexByte(t.name, '-')
		if last := t.name[dash+1:]; t.quota == Unknown && (last == "limit" || last == "quota") {
			if base := r.lookup(t.name[:max(dash, 0)], t.column); base != nil && base.quota != Unknown {
				r.merge(base, t)
			}
		}
	}
	plain, requests := r.lookup("", 0), r.lookup("requests", 0)
	if plain == nil {
		return
	}
	// X-Rate-Limit-Requests-Left belongs to X-Rate-Limit-Reset: where nothing else
	// is counted, requests need no name.
	if requests != nil && r.policies == 2 && plain.complements(requests) {
		r.merge(plain, requests)
	}
	// X-RateLimit-Remaining belongs to X-RateLimit-Limit-Burst if that is the only
	// quota without a remaining, and the remaining has no quota.
	if plain.remaining == Unknown || plain.quota != Unknown || plain.used != Unknown {
		return
	}
	var open *tally
	for i := range r.policies {
		if t := r.at(i); t.quota != Unknown && t.remaining == Unknown && t.used == Unknown {
			if open != nil {
				return
			}
			open = t
		}
	}
	if open != nil && open.order == plain.order {
		r.merge(open, plain)
	}
}

// complements reports whether no number is in both tallies.
func (t *tally) complements(u *tally) bool {
	return (t.quota == Unknown || u.quota == Unknown) && (t.remaining == Unknown || u.remaining == Unknown) && (t.used == Unknown || u.used == Unknown)
}

// drop removes a tally. What stands in its place says nothing.
func (r *reading) drop(t *tally) {
	delete(r.index, tallyID{t.name, t.column})
	*t = tally{column: -1, counts: noCounts}
}

// merge moves to one tally what it lacks and another has.
func (r *reading) merge(t, from *tally) {
	t.quota, t.part = firstKnown(t.quota, from.quota), cmp.Or(t.part, from.part)
	t.remaining, t.used = firstKnown(t.remaining, from.remaining), firstKnown(t.used, from.used)
	t.window, t.bare = cmp.Or(t.window, from.window), cmp.Or(t.bare, from.bare)
	if t.none() {
		t.resets, t.common = from.resets, from.name == ""
	}
	t.usual, t.unit = cmp.Or(t.usual, from.usual), cmp.Or(t.unit, from.unit)
	r.drop(from)
}

// settleWindows finds the window of each policy: that of a field, whose unit may
// be open; else that of the listed policy with its quota; else that of its name;
// else the usual one of its field.
func (r *reading) settleWindows() {
	for i := range r.policies {
		t := r.at(i)
		named := windowOfName(cmp.Or(t.name, r.tail), t.numeric)
		if !t.window.ok {
			r.settleWindow(t, named)
		}
		if !t.window.ok {
			if j, ok := r.listedWith(t); ok {
				t.window = r.listed[j].Window
			}
			t.window = cmp.Or(t.window, named, t.usual)
		}
		if t.unit == "" {
			t.unit = unitOfName(t.name)
		}
	}
}

// settleWindow decides between seconds and milliseconds for a window without unit.
// It is what the policy's name says if that is one of the two. Else it is
// milliseconds if seconds would make a length that nobody uses, milliseconds make a
// usual one, and the reset fits into that.
func (r *reading) settleWindow(t *tally, named Seconds) {
	sec, millis := t.bare, (t.bare+999)/1000
	t.window = windowOf(sec)
	switch {
	case named.n == sec, named.n == millis:
		t.window = named
	case usual(sec), t.bare%1000 != 0, !usual(millis):
	case !fits(t.resets.at[spanMoment].n, windowOf(millis)):
	default:
		t.window, r.guessed = windowOf(millis), true
	}
}

// usual reports whether a window of so many seconds is a usual one: up to a
// minute, whole minutes up to two hours, whole hours up to two days, whole days up
// to a year.
func usual(n int64) bool {
	return n <= 60 || n%60 == 0 && n/60 <= 120 || n%3600 == 0 && n/3600 <= 48 || n%86400 == 0 && n/86400 <= 366
}

// fits reports whether a reset may lie in a window. Servers round both, so a tenth
// more is allowed.
func fits(reset int64, window Seconds) bool { return reset <= window.n+window.n/10+1 }

// settleResets finds the reset of each policy. Seconds from now are better than a
// point in time, which needs two clocks to agree.
func (r *reading) settleResets() {
	for i := range r.policies {
		switch t := r.at(i); {
		case t.resets.at[spanMoment].ok:
			t.reset, t.precise = t.resets.at[spanMoment], t.resets.precise[spanMoment]
		case t.resets.at[bareMoment].ok:
			t.reset = r.settleSmall(t)
			if t.reset.n < t.resets.small.ceil() {
				t.precise = numberOf(t.resets.small, time.Millisecond)
			}
		default:
			t.reset, t.precise = t.resets.at[dateMoment], t.resets.precise[dateMoment]
		}
	}
}

// settleSmall decides between seconds and milliseconds for a small number without
// unit. The first of these decides: the window that it has to fit into, a date that
// agrees, the definition in the drafts, the caller's option. A Retry-After does not:
// it says when a bucket has its next unit, or when another limiter lets the client
// come back, so that it agrees with a reset by chance alone.
func (r *reading) settleSmall(t *tally) Seconds {
	sec, millis := t.resets.small.ceil(), t.resets.small.ceilDiv(1000)
	whole := sec >= 1000 // milliseconds below a second nobody says
	date, window := t.resets.at[dateMoment], r.windowOver(t)
	agree := func(n int64) bool { return date.ok && n-1 <= date.n && date.n <= n+1 }
	switch {
	case fits(sec, window):
	case whole && window.ok && fits(millis, window):
		return SecondsOf(millis)
	case agree(sec):
	case whole && agree(millis):
		return SecondsOf(millis)
	case t.resets.seconds || window.ok:
	default:
		switch r.options.Reset {
		case TimeGuess:
			r.guessed = true
		case TimeMilli:
			return SecondsOf(millis)
		}
	}
	return SecondsOf(sec)
}

// windowOver returns the window that the reset of a tally has to fit into: its
// own, or the longest of all if the tally has nothing but a reset. Where several
// limiters have written the fields, the window may be that of one and the reset that of
// another, unless it is in their names.
func (r *reading) windowOver(t *tally) Seconds {
	window := t.window
	if t.several {
		window = windowOfName(t.name, t.numeric)
	}
	if t.name == "" && t.quota == Unknown && t.remaining == Unknown {
		for i := range r.policies {
			window = longer(window, r.at(i).window)
		}
	}
	return window
}

// spend computes what remains from the quota and what is used, or the quota from
// the other two. A quota below one, 0.5 in a second, becomes 1 in a longer window.
func (r *reading) spend() {
	for i := range r.policies {
		t := r.at(i)
		if t.remaining != Unknown {
			t.quota = firstKnown(t.quota, t.plain)
		}
		switch {
		case t.used == Unknown:
		case t.quota == Unknown && t.remaining != Unknown:
			t.quota = min(t.remaining+t.used, MaxInteger)
		case t.quota != Unknown && t.remaining == Unknown:
			t.remaining = max(t.quota-t.used, 0)
		}
		if t.quota == 0 && t.part != 0 && t.window.ok {
			t.quota = 1
			t.window = windowOf(saturatingAdd(saturatingMul(t.window.n, billion), t.part-1) / t.part)
		}
	}
}

// shareReset moves the tally without a name to the named one that it describes:
// the one with the same numbers; or, if it holds a reset alone, the tightest one
// whose window the reset fits into, and every other with the same window.
func (r *reading) shareReset() {
	if plain := r.lookup("", 0); plain != nil && r.title == "" && plain.title == "" {
		if t := r.about(plain); t != nil {
			if !t.reset.ok {
				t.reset, t.precise, t.common = plain.reset, plain.precise, true
			}
			r.drop(plain)
		}
	}
	for i := range r.policies {
		from := r.at(i)
		if !from.common {
			continue
		}
		for j := range r.policies {
			if t := r.at(j); !t.reset.ok && t.window.ok && t.window == from.window && t.hasPolicy() {
				t.reset, t.precise = from.reset, from.precise
			}
		}
	}
}

// about returns the tally of the policy that the one without a name describes, nil
// if there is none.
func (r *reading) about(plain *tally) (best *tally) {
	alone := plain.quota == Unknown && plain.remaining == Unknown
	for i := range r.policies {
		t := r.at(i)
		switch {
		case t == plain || t.quota == Unknown && t.remaining == Unknown:
		case !alone && (t.quota != plain.quota || t.remaining != plain.remaining):
		case t.window.ok && !fits(plain.reset.n, t.window):
		case best == nil || t.tighter(best):
			best = t
		}
	}
	return best
}

// tighter reports whether less remains of a policy than of another, or as much for
// a longer time. Unknown is the most.
func (t *tally) tighter(u *tally) bool {
	return cmp.Or(cmp.Compare(t.left(), u.left()), cmp.Compare(u.reset.n, t.reset.n)) < 0
}

// left returns what remains of a policy: nothing of a quota of 0, whatever is said.
func (t *tally) left() uint64 {
	if t.quota == 0 {
		return 0
	}
	return uint64(t.remaining)
}

// listedWith returns the index of the listed policy that has the quota of a tally,
// and its window if it has one.
func (r *reading) listedWith(t *tally) (i int, ok bool) {
	if !t.window.ok {
		return r.findListed(listedID{t.quota, anyWindow, anyName})
	}
	if i, ok = r.findListed(listedID{t.quota, t.window.n, anyName}); ok {
		return i, true
	}
	return r.findListed(listedID{t.quota, 0, anyName})
}

// result makes fields of the tallies.
func (r *reading) result() Fields {
	f := Fields{Dialect: r.dialect, Guessed: r.guessed}
	if f.Dialect == generationNames[draft06] {
		f.Dialect = generationNames[r.generation]
	}
	main := false
	for i := range r.policies {
		t := r.at(i)
		main = main || t.order.main() && (t.hasLimit() || t.quota != Unknown)
	}
	for i := range r.policies {
		if t := r.at(i); main && t.order == vendorOrder && !t.hasLimit() {
			r.drop(t) // a comment on the limits of the usual fields
		}
	}
	f.Policies, f.Limits = r.allPolicies(), r.limits
	for i := range r.policies {
		t := r.at(i)
		if !t.hasLimit() {
			continue
		}
		if f.Limits == nil {
			f.Limits = make([]Limit, 0, r.policies)
		}
		f.note(len(f.Limits), t.precise)
		f.Limits = append(f.Limits, Limit{Name: r.nameOf(t), Remaining: t.remaining, Reset: t.reset})
	}
	f.Limits = f.Limits[:min(len(f.Limits), maxMembers)]
	if f.Policies == nil && f.Limits == nil {
		return Fields{}
	}
	return f
}

// hasLimit reports whether a field says what remains, or when the reset is.
func (t *tally) hasLimit() bool { return t.remaining != Unknown || t.reset.ok }

// hasPolicy reports whether a tally makes a policy: it has a quota, or used units, or
// its limit has a window or a unit.
func (t *tally) hasPolicy() bool {
	return t.quota != Unknown || t.used != Unknown || t.hasLimit() && (t.window.ok || t.unit != "")
}

// nameOf returns the name of a policy. It comes from the names of the fields, else
// from a field for the name, a parameter, or a list, else from the caller.
func (r *reading) nameOf(t *tally) string {
	switch {
	case t.half != "":
		return below(t.name, t.half)
	case t.column > 0:
		return below(t.name, numbersName(t.quota, t.window))
	case t.name != "":
		return t.name
	case r.title != "":
		return below(r.title, r.tail)
	case t.title != "":
		return t.title
	}
	if i, ok := r.listedWith(t); ok && r.listed[i].Name != "" {
		return r.listed[i].Name
	}
	if r.options.Name != "" && isName(r.options.Name) {
		return r.options.Name
	}
	return defaultName
}

// numbersName names a policy by its quota and window.
func numbersName(quota int64, window Seconds) string {
	var b []byte
	if quota != Unknown {
		b = strconv.AppendInt(b, quota, 10)
	}
	if window.ok {
		b = append(b, '/')
		b = strconv.AppendInt(b, window.n, 10)
	}
	return string(b)
}

// allPolicies returns one policy for each of the tallies that make one, and the
// listed ones. A listed policy with the quota of a tally is merged with it.
func (r *reading) allPolicies() (list []Policy) {
	taken := make([]bool, len(r.listed))
	for i := range r.policies {
		t := r.at(i)
		if !t.hasPolicy() {
			continue
		}
		name := r.nameOf(t)
		if at, ok := r.listedWith(t); ok && !taken[at] {
			taken[at] = true
			r.listed[at].complete(name, t)
			continue
		}
		p := Policy{Name: name, Quota: t.quota, Unit: t.unit, Window: t.window, Params: t.params}
		if t.used != Unknown && t.remaining == Unknown { // nor is the quota known, of which spend makes what remains
			p.Params = append(slices.Clip(p.Params), Param{usedName, t.used})
		}
		if list == nil {
			list = make([]Policy, 0, r.policies+len(r.listed))
		}
		list = append(list, p)
	}
	for i := range r.listed {
		if p := &r.listed[i]; p.Name == "" {
			p.Name = numbersName(p.Quota, p.Window)
		}
	}
	if list == nil {
		list = r.listed
	} else {
		list = append(list, r.listed...)
	}
	return list[:min(len(list), maxMembers)]
}

// complete adds to a listed policy what the other fields say about it.
func (p *Policy) complete(name string, t *tally) {
	p.Name, p.Window, p.Unit = name, cmp.Or(p.Window, t.window), cmp.Or(p.Unit, t.unit)
}

const usedName = "used"
