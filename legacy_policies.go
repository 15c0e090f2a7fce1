package ratelimit

import (
	"slices"
	"strconv"
	"strings"
)

// A tally sums up what the fields say of one policy.
type tally struct {
	name   string // "" is the policy that no name tells
	column int    // of parallel lists, from 0
	// The numbers of counts are Unknown if no field says them. plain is a number
	// without a role, which may be the quota.
	counts
	part    number // a quota below one
	window  Seconds
	usual   Seconds // its window if nothing says another
	bare    int64   // a window without unit, 0 if there is none
	resets  resets  // what its fields say of the reset
	reset   Seconds // that of these which counts
	unit    Unit
	title   string // from a parameter
	half    string // of its name, from its column
	params  Params
	common  bool  // the reset is that of no policy by name
	numeric bool  // the name begins with the length of the window
	order   order // of the first field
	refuted order // fields of this order contradict those before
}

type counts struct{ quota, remaining, used, plain int64 }

var noCounts = counts{Unknown, Unknown, Unknown, Unknown}

// resets are the times that fields give for the reset, the first of each kind.
type resets struct {
	span    Seconds
	small   number  // without unit
	seconds bool    // which are seconds by definition, if nothing refutes it
	bare    bool    // there is such a number
	date    Seconds // until a point in time
}

func (t *resets) none() bool { return !t.span.ok && !t.bare && !t.date.ok }

// take adds one fact to its policy. It is false if the value is malformed.
func (r *reading) take(f *foundField, fact *Fact, column int) bool {
	m := f.meaning
	t := r.tally(f, below(m.policy, fact.Policy), column)
	if t == nil || t.refuted == m.order && m.order != ownOrder {
		return true
	}
	switch fact.Role {
	case RoleReset:
		return r.takeReset(t, m, fact)
	case RoleWindow:
		return t.takeWindow(m, fact)
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
	switch fact.Role {
	case RoleQuota:
		t.takeQuota(m, v)
	case RoleRemaining:
		if t.remaining == Unknown {
			t.remaining = v.floor()
		}
	case RoleUsed:
		if t.used == Unknown && !v.neg {
			t.used = v.ceil()
		}
	default:
		t.plain = max(t.plain, v.floor())
	}
	return true
}

// takeQuota adds a quota. If a later family of fields has another quota for the
// same policy, that family describes something else, and its numbers are dropped.
// A negative quota is another word for unlimited.
func (t *tally) takeQuota(m *meaning, v number) {
	switch {
	case v.neg:
	case t.quota == Unknown:
		t.quota = v.floor()
		if v.n == 0 {
			t.part = v
		}
	case t.quota != v.floor() && m.order.main() && t.order.main() && m.order != t.order:
		t.refuted = m.order
	}
}

// takeWindow adds the length of a window.
func (t *tally) takeWindow(m *meaning, fact *Fact) bool {
	if t.window.ok || t.bare > 0 {
		return true
	}
	format := fact.Format
	if format == TimeGuess {
		format = m.format
	}
	value, per := trim(unquote(fact.Value)), m.per
	if v, ok := parseCount(value); ok {
		switch {
		case v.neg:
		case format == TimeMillis:
			t.window = windowOf(v.ceilDiv(1000))
		case format != TimeGuess:
			t.window = windowOf(saturatingMul(v.ceil(), max(per, 1)))
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
func (r *reading) takeReset(t *tally, m *meaning, fact *Fact) bool {
	format := fact.Format
	if format == TimeGuess {
		format = m.format
	}
	at, ok := parseMoment(fact.Value, format, m.per)
	switch at.kind {
	case spanMoment:
		if !t.resets.span.ok {
			t.resets.span = SecondsOf(at.span)
		}
	case bareMoment:
		if !t.resets.bare {
			t.resets.small, t.resets.bare, t.resets.seconds = at.bare, true, m.order == draftOrder || m.kind == anchorName
		}
	case dateMoment:
		if !t.resets.date.ok {
			t.resets.date = at.seconds(r.now())
		}
		if at.written && m.order == draftOrder && m.role == RoleReset {
			r.generation = max(r.generation, draft00)
		}
	}
	return ok
}

const manyTallies = 16

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

// lookup returns the index of a tally, or -1.
func (r *reading) lookup(name string, column int) int {
	if r.index != nil {
		if i, ok := r.index[tallyID{name, column}]; ok {
			return i
		}
		return -1
	}
	for i := range r.policies {
		if t := r.at(i); t.name == name && t.column == column {
			return i
		}
	}
	return -1
}

// tally returns the tally of a policy, a new one if there is none yet. It is nil
// if there are too many.
func (r *reading) tally(f *foundField, name string, column int) *tally {
	m := f.meaning
	i := r.lookup(name, column)
	if i < 0 {
		if i = r.policies; i == maxMembers {
			r.fault(f, 0, 0, ErrTooMany)
			return nil
		}
		if i >= len(r.fewTallies) {
			r.more = append(r.more, tally{})
		}
		r.policies++
		*r.at(i) = tally{name: name, column: column, counts: noCounts, order: m.order, refuted: ownOrder}
		if r.index != nil {
			r.index[tallyID{name, column}] = i
		} else if r.policies > manyTallies {
			r.index = make(map[tallyID]int, 2*r.policies)
			for i := range r.policies {
				r.index[tallyID{r.at(i).name, r.at(i).column}] = i
			}
		}
	}
	t := r.at(i)
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
		for _, suffix := range [...]string{"limit", "quota"} {
			base, ok := strings.CutSuffix(t.name, suffix)
			if j := r.lookup(strings.TrimSuffix(base, "-"), t.column); ok && j >= 0 && t.quota == Unknown && r.at(j).quota != Unknown && (base == "" || base[len(base)-1] == '-') {
				r.merge(j, i)
			}
		}
	}
	// X-Rate-Limit-Requests-Left belongs to X-Rate-Limit-Reset: where nothing else
	// is counted, requests need no name.
	plain, requests := r.lookup("", 0), r.lookup("requests", 0)
	if plain >= 0 && requests >= 0 && r.policies == 2 && r.at(plain).complements(r.at(requests)) {
		r.merge(plain, requests)
	}
	// X-RateLimit-Remaining belongs to X-RateLimit-Limit-Burst if that is the only
	// quota without a remaining, and the remaining has no quota.
	if plain < 0 || r.at(plain).gone() || r.at(plain).remaining == Unknown || r.at(plain).quota != Unknown || r.at(plain).used != Unknown {
		return
	}
	open := -1
	for i := range r.policies {
		if t := r.at(i); t.name != "" && t.quota != Unknown && t.remaining == Unknown && t.used == Unknown {
			if open >= 0 {
				return
			}
			open = i
		}
	}
	if open >= 0 && r.at(open).order == r.at(plain).order {
		r.merge(open, plain)
	}
}

// complements reports whether no number is in both tallies.
func (t *tally) complements(u *tally) bool {
	return (t.quota == Unknown || u.quota == Unknown) && (t.remaining == Unknown || u.remaining == Unknown) && (t.used == Unknown || u.used == Unknown)
}

// goneTally stands where a tally was that has been merged into another.
var goneTally = tally{column: -1, counts: noCounts}

func (t *tally) gone() bool { return t.column < 0 }

// merge moves to one tally what it lacks and another has. The other is gone then.
func (r *reading) merge(into, from int) {
	t, u := r.at(into), r.at(from)
	if t.gone() || u.gone() { // an index may still have it
		return
	}
	if t.quota == Unknown {
		t.quota, t.part = u.quota, u.part
	}
	if t.remaining == Unknown {
		t.remaining = u.remaining
	}
	if t.used == Unknown {
		t.used = u.used
	}
	if !t.window.ok && t.bare == 0 {
		t.window, t.bare = u.window, u.bare
	}
	if !t.usual.ok {
		t.usual = u.usual
	}
	if t.resets.none() {
		t.resets, t.common = u.resets, u.name == ""
	}
	if t.unit == "" {
		t.unit = u.unit
	}
	t.order = min(t.order, u.order)
	*u = goneTally
}

// settleWindows finds the window of each policy: that of a field, whose unit may
// be open; else that of the listed policy with its quota; else that of its name;
// else the usual one of its field.
func (r *reading) settleWindows() {
	for i := range r.policies {
		t := r.at(i)
		named := windowOfName(t.name, t.numeric)
		if t.name == "" {
			named = windowOfName(r.tail, false)
		}
		if t.bare > 0 && !t.window.ok {
			r.settleWindow(t, named)
		}
		if j := r.listedWith(t); j >= 0 && !t.window.ok {
			t.window = r.listed[j].Window
		}
		if !t.window.ok {
			t.window = named
		}
		if !t.window.ok {
			t.window = t.usual
		}
		if t.unit == "" {
			t.unit = unitOfName(t.name)
		}
	}
}

// settleWindow decides between seconds and milliseconds for a window without unit.
// It is milliseconds if the policy's name says so, or if seconds would make a
// length that nobody uses, milliseconds make a usual one, and the reset fits into
// that.
func (r *reading) settleWindow(t *tally, named Seconds) {
	sec, millis := t.bare, (t.bare+999)/1000
	t.window = windowOf(sec)
	switch {
	case named.ok && named.n == millis && named.n != sec:
		t.window = named
	case named.ok && named.n == sec, usual(sec), t.bare%1000 != 0, !usual(millis):
	case t.resets.span.ok && !fits(t.resets.span.n, windowOf(millis)):
	default:
		t.window, r.guessed = windowOf(millis), true
	}
}

// usual reports whether a window of so many seconds is a usual one: up to a
// minute, whole minutes up to two hours, whole hours up to two days, whole days up
// to a year.
func usual(n int64) bool {
	return n <= 60 || n <= 7200 && n%60 == 0 || n <= 172800 && n%3600 == 0 || n <= 366*86400 && n%86400 == 0
}

// fits reports whether a reset may lie in a window. Servers round both, so a tenth
// more is allowed.
func fits(reset int64, window Seconds) bool { return reset <= window.n+window.n/10+1 }

// settleResets finds the reset of each policy. Seconds from now are better than a
// point in time, which needs two clocks to agree.
func (r *reading) settleResets() {
	for i := range r.policies {
		switch t := r.at(i); {
		case t.resets.span.ok:
			t.reset = t.resets.span
		case t.resets.bare:
			t.reset = r.settleSmall(t)
		default:
			t.reset = t.resets.date
		}
	}
}

// settleSmall decides between seconds and milliseconds for a small number without
// unit. The first of these decides: a Retry-After that agrees, the window that it
// has to fit into, a date that agrees, the definition in the drafts, the caller's
// option.
func (r *reading) settleSmall(t *tally) Seconds {
	sec, millis := t.resets.small.ceil(), t.resets.small.ceilDiv(1000)
	whole := sec >= 1000 // milliseconds below a second nobody says
	agree := func(n int64, s Seconds) bool { return s.ok && n-1 <= s.n && s.n <= n+1 }
	wait, window := r.waited(), r.windowOver(t)
	switch {
	case wait.n > 0 && agree(sec, wait):
	case wait.n > 0 && whole && agree(millis, wait):
		return SecondsOf(millis)
	case window.ok && fits(sec, window):
	case whole && window.ok && fits(millis, window):
		return SecondsOf(millis)
	case agree(sec, t.resets.date):
	case whole && agree(millis, t.resets.date):
		return SecondsOf(millis)
	case t.resets.seconds || window.ok:
	default:
		switch r.options.Reset {
		case TimeGuess:
			r.guessed = true
		case TimeMillis:
			return SecondsOf(millis)
		}
	}
	return SecondsOf(sec)
}

// waited returns how long the response asks to wait, 0 if it does not.
func (r *reading) waited() Seconds {
	wait, ok := readRetryAfter(r.header, r.options.Now)
	if !ok {
		wait = r.asked
	}
	return CeilSeconds(wait)
}

// windowOver returns the window that the reset of a tally has to fit into: its
// own, or the longest of all if the tally has nothing but a reset.
func (r *reading) windowOver(t *tally) Seconds {
	window := t.window
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
		if t.quota == Unknown && t.plain != Unknown && t.remaining != Unknown {
			t.quota = t.plain
		}
		switch {
		case t.used == Unknown:
		case t.quota == Unknown && t.remaining != Unknown:
			t.quota = min(t.remaining+t.used, MaxInteger)
		case t.quota != Unknown && t.remaining == Unknown:
			t.remaining = max(t.quota-t.used, 0)
		}
		if t.quota == 0 && t.part.frac > 0 && t.window.ok {
			t.quota = 1
			t.window = windowOf((saturatingMul(t.window.n, billion) + t.part.frac - 1) / t.part.frac)
		}
	}
}

// shareReset moves the tally without a name to the named one that it describes:
// the one with the same numbers; or, if it holds a reset alone, the tightest one
// whose window the reset fits into, and every other with the same window.
func (r *reading) shareReset() {
	if i := r.lookup("", 0); i >= 0 && !r.at(i).gone() && r.title == "" && r.at(i).title == "" {
		if best := r.about(i); best >= 0 {
			plain, t := r.at(i), r.at(best)
			if !t.reset.ok {
				t.reset, t.common = plain.reset, plain.quota == Unknown && plain.remaining == Unknown
			}
			*plain = goneTally
		}
	}
	for i := range r.policies {
		for j := 0; r.at(i).common && j < r.policies; j++ {
			if t := r.at(j); !t.reset.ok && t.window.ok && t.window == r.at(i).window && t.hasPolicy() {
				t.reset = r.at(i).reset
			}
		}
	}
}

// about returns the index of the policy that the tally at i describes, or -1.
func (r *reading) about(i int) int {
	plain, best := r.at(i), -1
	alone := plain.quota == Unknown && plain.remaining == Unknown
	for j := range r.policies {
		t := r.at(j)
		switch {
		case j == i || t.gone() || t.quota == Unknown && t.remaining == Unknown:
		case !alone && (t.quota != plain.quota || t.remaining != plain.remaining):
		case plain.reset.ok && t.window.ok && !fits(plain.reset.n, t.window):
		case best < 0 || t.tighter(r.at(best)):
			best = j
		}
	}
	return best
}

func (t *tally) tighter(u *tally) bool {
	return leftOf(&Limit{Remaining: t.remaining, Reset: t.reset}, &noPolicy, 0).less(leftOf(&Limit{Remaining: u.remaining, Reset: u.reset}, &noPolicy, 1))
}

// listedWith returns the index of the listed policy that has the quota of a tally,
// and its window if it has one, or -1.
func (r *reading) listedWith(t *tally) int {
	if t.quota == Unknown || len(r.listed) == 0 {
		return -1
	}
	if t.window.ok {
		if i := r.indexOf(listedID{t.quota, t.window.n, anyName}); i >= 0 {
			return i
		}
		return r.indexOf(listedID{t.quota, 0, anyName})
	}
	return r.indexOf(listedID{t.quota, anyWindow, anyName})
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
	policies, limits := 0, len(r.limits)
	for i := range r.policies {
		t := r.at(i)
		if main && t.order == vendorOrder && !t.hasLimit() {
			*t = goneTally // a comment on the limits of the usual fields
		}
		if t.hasPolicy() {
			policies++
		}
		if t.hasLimit() {
			limits++
		}
	}
	f.Policies = r.allPolicies(policies)
	if limits > 0 {
		f.Limits = append(make([]Limit, 0, limits), r.limits...)
		for i := range r.policies {
			if t := r.at(i); t.hasLimit() {
				f.Limits = append(f.Limits, Limit{Name: r.nameOf(t), Remaining: t.remaining, Reset: t.reset})
			}
		}
		f.Limits = f.Limits[:min(limits, maxMembers)]
	}
	if f.Policies == nil && f.Limits == nil {
		return Fields{}
	}
	return f
}

// hasLimit reports whether a field says what remains, or when the reset is.
func (t *tally) hasLimit() bool { return t.remaining != Unknown || t.reset.ok }

// hasPolicy reports whether a tally makes a policy: it has a quota, or it has used
// units and no remaining, or its limit has a window or a unit.
func (t *tally) hasPolicy() bool {
	return t.quota != Unknown || t.used != Unknown && t.remaining == Unknown || t.hasLimit() && (t.window.ok || t.unit != "")
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
	if i := r.listedWith(t); i >= 0 && r.listed[i].Name != "" {
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

// allPolicies returns one policy for each of the n tallies that make one, and the
// listed ones. A listed policy with the quota of a tally is merged with it.
func (r *reading) allPolicies(n int) (list []Policy) {
	var few [manyTallies]bool
	taken := few[:]
	if len(r.listed) > len(few) {
		taken = make([]bool, len(r.listed))
	}
	for i := range r.policies {
		t := r.at(i)
		if !t.hasPolicy() {
			continue
		}
		name := r.nameOf(t)
		if at := r.listedWith(t); at >= 0 && !taken[at] {
			taken[at] = true
			r.listed[at].complete(name, t)
			continue
		}
		p := Policy{Name: name, Quota: t.quota, Unit: t.unit, Window: t.window, Params: t.params}
		if t.quota == Unknown && t.used != Unknown && t.remaining == Unknown {
			p.Params = append(slices.Clip(p.Params), Param{usedName, t.used})
		}
		if list == nil {
			list = make([]Policy, 0, n+len(r.listed))
		}
		list = append(list, p)
	}
	for i := range r.listed {
		if p := &r.listed[i]; p.Name == "" {
			p.Name = numbersName(p.Quota, p.Window)
		}
	}
	if list == nil {
		return r.listed
	}
	list = append(list, r.listed...)
	return list[:min(len(list), maxMembers)]
}

// complete adds to a listed policy what the other fields say about it.
func (p *Policy) complete(name string, t *tally) {
	p.Name = name
	if !p.Window.ok {
		p.Window = t.window
	}
	if p.Unit == "" {
		p.Unit = t.unit
	}
}

const usedName = "used"
