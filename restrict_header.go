package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// RestrictHeader makes the header of a response that passes an intermediary say
// what upstream says, in whatever form, and what own adds, as [Restrict] puts them
// together. For a reverse proxy behind a [Middleware], [Middleware.ModifyResponse]
// does that.
//
// It writes three things:
//
//   - The fields RateLimit-Policy and RateLimit, without the members of which an
//     older form leaves a number out. Older forms of these two fields themselves
//     make room for them, and stay where there is nothing to write.
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
// A policy without a name is called o.Name, or "default" if that is empty, as by
// [ParseAny]: then the limit belongs to the same policy for clients on both sides of
// the intermediary.
//
// On error h is as it was, and best forwarded so. The error is that of [ParseAny]
// where a field is malformed, that of Restrict, that of [Fields.Set] where the
// fields cannot be written, or a [*FieldError] that wraps ErrRange where an older
// field would be read as another number than is written, such as a reset that is
// longer than its window, and would be taken for that of another policy.
func RestrictHeader(h http.Header, own Fields, o LegacyOptions) error {
	if h == nil {
		return errNilHeader
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	upstream, err := ParseAny(h, o)
	if err != nil {
		return err
	}
	f, err := Restrict(upstream.known(false), own)
	if err != nil {
		return err
	}
	return f.pass(h, &own, &o)
}

// pass writes f, which upstream and own say together, to the header of a response in
// passing. On error h is as it was.
func (f *Fields) pass(h http.Header, own *Fields, o *LegacyOptions) error {
	policies, err := FormatPolicies(f.Policies...)
	if err != nil {
		return err
	}
	limits, err := FormatLimits(f.Limits...)
	if err != nil {
		return err
	}
	_, asked := ParseRetryAfter(h, o.Now)
	lowered, err := restrictOlder(h, own, o)
	if err != nil {
		return err
	}
	if policies != "" {
		setLine(h, policyKey, policies)
	}
	if limits != "" {
		setLine(h, limitKey, limits)
	}
	if asked { // it takes precedence over the fields, the older ones included
		raiseRetryAfter(h, longer(f.RetryAfter(), lowered.RetryAfter()), o.Now)
	}
	exposeAbroad(h)
	return nil
}

// known returns what the current fields can carry of f, so that a client does the
// same: it waits as long, and paces itself no faster. Where the response refused the
// request, a client waits for a Reset beside which nothing says what remains.
func (f Fields) known(refused bool) Fields {
	policies := newMatcher(f.Policies)
	limits := make([]Limit, 0, len(f.Limits))
	for _, l := range f.Limits {
		p := policies.policy(&l)
		spent := l.exhausted(p) || refused && l.Remaining == Unknown && l.Reset.ok
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

// restrictOlder lowers the older fields of h to what own allows, and returns what
// they say then; nothing if they stay as they are. On error h is as it was.
func restrictOlder(h http.Header, own *Fields, o *LegacyOptions) (lowered Fields, err error) {
	found := findFields(nil, h, o)
	if len(found) > maxFields {
		return lowered, refuse("", ErrTooMany)
	}
	found = slices.DeleteFunc(found, func(f foundField) bool { return f.key == policyKey || f.key == limitKey })
	sortFields(found)
	align(found)
	e := olderEdit{h: h, options: o}
	e.collect(found)
	if len(e.limits) == 0 {
		return lowered, nil // as for most responses, which need not be read twice more
	}
	e.clock, e.before = readClock(h, o.Now), olderAdvice(found, h, o)
	e.bind(own)
	for _, l := range e.limits {
		if err := e.lower(l); err != nil {
			e.undo()
			return lowered, err
		}
	}
	if e.field == "" {
		return lowered, nil
	}
	e.bound.follow()
	after := olderAdvice(found, h, o)
	if !(noMoreThan(&e.before, &after) && noMoreThan(&e.bound, &after)) {
		e.undo()
		return lowered, refuse(e.field, ErrRange)
	}
	return after.Fields, nil
}

// olderAdvice returns what older fields ask for by themselves.
func olderAdvice(found []foundField, h http.Header, o *LegacyOptions) Advice {
	var a Advice
	a.Fields, _, _ = readFields(found, h, o)
	a.Fields.exact = nil // what is written has whole seconds
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
	h       http.Header
	options *LegacyOptions
	written []writtenLines
	clock   clock
	before  Advice // what they have said
	bound   Advice // what own says, as far as they can say it
	limits  []*olderLimit
	common  *olderLimit // without the name of a policy; nil if there is none
	field   string      // the last that was changed, "" if none was
}

// writtenLines are the lines that a field had before it was written to.
type writtenLines struct {
	key    string
	before []string
}

// undo writes back what was there.
func (e *olderEdit) undo() {
	for _, w := range slices.Backward(e.written) {
		e.h[w.key] = w.before
	}
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
			e.bound.Fields.Limits = append(e.bound.Fields.Limits, Limit{Remaining: l.least(), Reset: b.reset})
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
	e.written = append(e.written, writtenLines{f.key, f.lines})
	f.lines = []string{value}
	e.h[f.key] = f.lines
	e.field = fieldName(f.key)
}

// reset writes a reset to a field that says an earlier one, in the form in which
// it is. It reports whether the field says one as late in the end.
func (e *olderEdit) reset(f *foundField, reset Seconds) (said bool, err error) {
	at, _ := parseMoment(f.line(), f.meaning.format, f.meaning.per)
	if at.needsClock() {
		at.settle(&e.clock)
	}
	if at.kind == bareMoment || at.units == 1 && at.kind == spanMoment && f.meaning.format == TimeGuess {
		at.units = e.unitsOf(at.number)
		at.kind, at.span = spanMoment, at.number.ceilDiv(at.units)
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
// read. One and nothing are as long in both; then the caller knows, or nobody.
func (e *olderEdit) unitsOf(bare number) int64 {
	says := func(units int64) bool {
		return slices.ContainsFunc(e.before.Fields.Limits, func(l Limit) bool { return l.Reset == SecondsOf(bare.ceilDiv(units)) })
	}
	sec, millis := says(1), says(1000)
	if millis && (!sec || e.options.Reset == TimeMilli) {
		return 1000
	}
	return 1
}
