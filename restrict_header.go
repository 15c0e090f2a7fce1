package ratelimit

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// upstreamName is the name of a policy that comes without one.
const upstreamName = "upstream"

// RestrictHeader makes the header of a response that passes an intermediary say
// what upstream says, in whatever form, and what own adds, as [Restrict] puts them
// together. It is for the ModifyResponse of a reverse proxy:
//
//	proxy.ModifyResponse = func(resp *http.Response) error {
//		if err := ratelimit.RestrictHeader(resp.Header, own, ratelimit.LegacyOptions{}); err != nil {
//			log.Print("forwarded as it is: ", err) // returned, it would become 502 Bad Gateway
//		}
//		return nil
//	}
//
// It writes three things:
//
//   - The fields RateLimit-Policy and RateLimit, without the members of which an
//     older form leaves a number out. Older forms of these two fields themselves
//     make room for them.
//   - The older fields of h, lowered in place, so that those who know no others are
//     told no more than before. A limit of own lowers the older one of its name.
//     All others lower the tightest older limit of requests, to the lowest Remaining
//     and the longest Reset. Only what changes is written, in the form in which it
//     was read, and points in time are measured from the field Date, so that they
//     do not drift from hop to hop. An older field that holds more than one number,
//     such as JSON, stays as it is.
//   - Retry-After, as by [Fields.SetRetryAfter], where it is there and too early for
//     a limit with nothing remaining. Where there is none, none is added.
//
// The fields are exposed as by [Expose] if the response allows another origin.
//
// A policy without a name is called o.Name, or "upstream" if that is empty.
//
// On error h is as it was, and best forwarded so. The error is that of [ParseAny]
// where a field is malformed, that of Restrict, that of [Fields.Set] where own
// cannot be written, or a [*FieldError] that wraps ErrRange where an older field
// would be read as another number than is written, such as a reset that is longer
// than its window, and would be taken for that of another policy.
func RestrictHeader(h http.Header, own Fields, o LegacyOptions) error {
	if h == nil {
		return errNilHeader
	}
	if o.Name == "" {
		o.Name = upstreamName
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	upstream, err := ParseAny(h, o)
	if err != nil {
		return err
	}
	f, err := Restrict(upstream.known(), own)
	if err != nil {
		return err
	}
	out := maps.Clone(h)
	if err := f.Set(out); err != nil {
		return err
	}
	if err := restrictOlder(out, &own, &o); err != nil {
		return err
	}
	if _, asked := ParseRetryAfter(h, o.Now); asked {
		f.setRetryAfter(out, o.Now)
	}
	exposeAbroad(out)
	clear(h)
	maps.Copy(h, out)
	return nil
}

// known returns what the current fields can carry of f, so that a client does the
// same: it waits as long, and paces itself no faster.
func (f Fields) known() Fields {
	policies := newMatcher(f.Policies)
	limits := make([]Limit, 0, len(f.Limits))
	for _, l := range f.Limits {
		p := policies.policy(&l)
		spent := l.exhausted(p)
		if spent && l.Remaining == Unknown {
			l.Remaining = 0
		}
		if spent && p.Quota == Unknown { // the window goes with the policy
			l.Reset, _ = waitOf(&l, p)
		}
		if spent || p.Quota != Unknown || p.Unit.countsRequests() { // the unit goes too
			limits = append(limits, l)
		}
	}
	f.Limits = limits
	return f.Writable()
}

// An olderLimit is the older fields about one policy that hold one number each.
type olderLimit struct {
	policy    string
	fields    [roles][]*foundField
	quota     int64 // Unknown if it is not said, as is what remains
	remaining int64
	bound     *bound // nil if there is none
}

// A bound is what a limit may say at most.
type bound struct {
	quota     int64 // Unknown where it stays
	remaining int64
	reset     Seconds
}

// restrictOlder lowers the older fields of h to what own allows.
func restrictOlder(h http.Header, own *Fields, o *LegacyOptions) error {
	found := findFields(nil, h, o)
	if len(found) > maxFields {
		return refuse("", ErrTooMany)
	}
	sortFields(found)
	align(found)
	e := olderEdit{h: h}
	e.collect(found)
	if len(e.limits) == 0 {
		return nil // as for most responses, which need not be read twice more
	}
	e.clock, e.before = readClock(h, o.Now), readOlder(h, o)
	e.bind(own)
	for _, l := range e.limits {
		if err := e.lower(l); err != nil {
			return err
		}
	}
	if e.field == "" {
		return nil
	}
	e.bound.follow()
	after := readOlder(h, o)
	if !(noMoreThan(&e.before, &after) && noMoreThan(&e.bound, &after)) {
		return refuse(e.field, ErrRange)
	}
	return nil
}

// readOlder returns what the older fields of h say alone.
func readOlder(h http.Header, o *LegacyOptions) Advice {
	older := maps.Clone(h)
	delete(older, policyKey)
	delete(older, limitKey)
	var a Advice
	a.Fields, _, _ = parseLegacy(older, o)
	a.follow()
	return a
}

// noMoreThan reports whether after asks a client for no less than before: for no
// shorter wait and no shorter pace.
func noMoreThan(before, after *Advice) bool {
	return after.Wait >= before.Wait && max(after.Pace, after.Wait) >= before.Pace
}

// An olderEdit lowers older fields in place.
type olderEdit struct {
	h      http.Header
	clock  clock
	before Advice // what they have said
	bound  Advice // what own says, as far as they can say it
	limits []*olderLimit
	common *olderLimit // without the name of a policy; nil if there is none
	field  string      // the last that was changed, "" if none was
}

// collect sorts fields by policy.
func (e *olderEdit) collect(found []foundField) {
	index := make(map[string]*olderLimit, 4)
	for i := range found {
		f := &found[i]
		m := f.meaning
		if m.kind != roleName || m.read != nil || f.columns > 0 || !m.role.counted() {
			continue
		}
		l := index[m.policy]
		if l == nil {
			l = &olderLimit{policy: m.policy}
			index[m.policy] = l
			e.limits = append(e.limits, l)
		}
		l.fields[m.role] = append(l.fields[m.role], f)
	}
	e.common = index[""]
	for _, l := range e.limits {
		l.count()
	}
}

// count finds out what the fields of a limit say of its numbers: of several, what
// is lowest.
func (l *olderLimit) count() {
	least := func(role Role) int64 {
		n := int64(Unknown)
		for _, f := range l.fields[role] {
			if v, ok := f.count(); ok {
				n = lower(n, v)
			}
		}
		return n
	}
	l.quota, l.remaining = least(RoleQuota), least(RoleRemaining)
	if used := least(RoleUsed); l.remaining == Unknown && l.quota != Unknown && used != Unknown {
		l.remaining = max(l.quota-used, 0)
	}
}

// count returns the number of units that a field says, if it says nothing else.
func (f *foundField) count() (int64, bool) {
	v, ok := parseCount(f.line())
	return v.floor(), ok
}

// requests reports whether it is a limit of requests.
func (l *olderLimit) requests() bool {
	return unitOfName(l.policy).countsRequests() &&
		!slices.ContainsFunc(l.fields[RoleRemaining], func(f *foundField) bool { return !f.meaning.unit.countsRequests() })
}

// bind sets the bounds of own: of each limit upon the older one of its name, and of
// those without one upon the tightest, as it then is.
func (e *olderEdit) bind(own *Fields) {
	named := e.byName()
	policies := newMatcher(own.Policies)
	var others []bound
	for i := range own.Limits {
		l := &own.Limits[i]
		p := policies.policy(l)
		wait, _ := waitOf(l, p)
		b := bound{p.Quota, lower(l.Remaining, p.Quota), longer(l.Reset, wait)}
		if older := named[l.Name]; older != nil {
			older.bind(b)
		} else if b.quota = Unknown; b.remaining == 0 || p.Unit.countsRequests() {
			others = append(others, b)
		}
	}
	if tightest := e.tightest(); tightest != nil {
		for _, b := range others {
			tightest.bind(b)
		}
	}
}

// byName returns the limits that say what remains, by their names as they have
// been read.
func (e *olderEdit) byName() map[string]*olderLimit {
	named := make(map[string]*olderLimit, len(e.limits))
	for _, l := range e.limits {
		if l.remaining != Unknown {
			named[l.policy] = l
		}
	}
	common := named[""]
	delete(named, "")
	for i := range e.before.Fields.Limits {
		if l := &e.before.Fields.Limits[i]; common != nil && named[l.Name] == nil {
			named[l.Name] = common
			break
		}
	}
	return named
}

// tightest returns the tightest limit of requests, or nil.
func (e *olderEdit) tightest() *olderLimit {
	var tightest *olderLimit
	for _, l := range e.limits {
		if l.remaining != Unknown && l.requests() && (tightest == nil || e.tighter(l, tightest)) {
			tightest = l
		}
	}
	return tightest
}

// tighter reports whether less remains of l than of m, within their bounds. One
// without a reset comes after all others, as it cannot say until when.
func (e *olderEdit) tighter(l, m *olderLimit) bool {
	if timed := len(e.resets(l)) > 0; timed != (len(e.resets(m)) > 0) {
		return timed
	}
	return l.least() < m.least()
}

// resets returns the fields that say the reset of a limit: its own, or without any
// one that stands alone.
func (e *olderEdit) resets(l *olderLimit) []*foundField {
	if own := l.fields[RoleReset]; len(own) > 0 || e.common == nil || e.common.remaining != Unknown {
		return own
	}
	return e.common.fields[RoleReset]
}

// least returns what remains, within the bound.
func (l *olderLimit) least() int64 {
	if l.bound == nil {
		return l.remaining
	}
	return min(l.remaining, l.bound.remaining)
}

// bind adds a bound to those of a limit.
func (l *olderLimit) bind(b bound) {
	if l.bound == nil {
		l.bound = &b
		return
	}
	l.bound.quota = lower(l.bound.quota, b.quota)
	l.bound.remaining = lower(l.bound.remaining, b.remaining)
	l.bound.reset = longer(l.bound.reset, b.reset)
}

// lower writes the fields of a limit that say more than its bound.
func (e *olderEdit) lower(l *olderLimit) error {
	b := l.bound
	if b == nil {
		return nil
	}
	e.count(l.fields[RoleQuota], b.quota, func(n int64) bool { return n > lower(n, b.quota) })
	e.count(l.fields[RoleRemaining], b.remaining, func(n int64) bool { return n > b.remaining })
	used := max(lower(l.quota, b.quota)-b.remaining, 0)
	e.count(l.fields[RoleUsed], used, func(n int64) bool { return n < used })
	for _, f := range e.resets(l) {
		said, err := e.reset(f, b.reset)
		if err != nil {
			return refuse(fieldName(f.key), err)
		}
		if said && l.remaining != Unknown {
			e.bound.Fields.Limits = append(e.bound.Fields.Limits, Limit{Remaining: b.remaining, Reset: b.reset})
		}
	}
	return nil
}

// count writes a number to the fields that say a wrong one.
func (e *olderEdit) count(fields []*foundField, n int64, wrong func(int64) bool) {
	for _, f := range fields {
		if old, ok := f.count(); ok && wrong(old) {
			e.write(f, strconv.FormatInt(n, 10))
		}
	}
}

func (e *olderEdit) write(f *foundField, value string) {
	f.lines = []string{value}
	e.h[f.key] = f.lines
	e.field = fieldName(f.key)
}

// reset writes a reset to a field that says an earlier one, in the form in which
// it is. It reports whether the field says one as late in the end.
func (e *olderEdit) reset(f *foundField, reset Seconds) (said bool, err error) {
	at, _ := parseMoment(f.line(), f.meaning.format, f.meaning.per)
	if at.kind == bareMoment {
		at.kind, at.units = spanMoment, e.unitsOf(at.number)
		at.span = at.number.ceilDiv(at.units)
	}
	said = at.kind != noMoment
	if now := at.seconds(&e.clock); !said || now.n >= reset.n {
		return said, nil
	}
	n, format := reset.n, at.format(f.line())
	if per := max(f.meaning.per, 1); format == TimeSeconds {
		n = (n + per - 1) / per
	}
	value, err := formatTime(n, format, e.clock.now())
	if at.units > 0 { // such as 1000
		value += strconv.FormatInt(at.units, 10)[1:]
	}
	e.write(f, value) // if there is an error, nobody sees it
	return said, err
}

// format returns the format of a time that is known in seconds.
func (m *moment) format(line string) TimeFormat {
	switch {
	case m.kind == dateMoment && !m.written:
		return TimeUnix
	case m.kind == dateMoment && is(trim(unquote(line))[0], digit):
		return TimeRFC3339
	case m.kind == dateMoment:
		return TimeHTTPDate
	case m.written:
		return TimeDuration
	}
	return TimeSeconds
}

// unitsOf returns how many units of a small number make a second, as they have been
// read.
func (e *olderEdit) unitsOf(bare number) int64 {
	says := func(units int64) bool {
		return slices.ContainsFunc(e.before.Fields.Limits, func(l Limit) bool { return l.Reset == SecondsOf(bare.ceilDiv(units)) })
	}
	if !says(1) && says(1000) {
		return 1000
	}
	return 1
}
