package ratelimit

import (
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
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

// An olderLimit is a limit that older fields report, and the fields that hold its numbers.
type olderLimit struct {
	name, unit       string
	quota, remaining int64 // the lowest of several; Unknown if none says it
	used             int64 // the highest
	holders          []*older.Holder
	timed            bool   // one of them holds the reset
	bound            *bound // nil if there is none
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
	found, ok := older.Find(nil, h, o.tables(nil))
	if !ok {
		return lowered, refuse("", ErrTooMany)
	}
	found = slices.DeleteFunc(found, func(f older.Field) bool { return f.Key == policyKey || f.Key == limitKey })
	if len(found) == 0 {
		return lowered, nil // as for most responses, which need not be read twice more
	}
	options := o.older(h)
	e := olderEdit{h: h, now: options.Clock.Now()}
	policies, limits, holders := older.Hold(found, &options)
	e.limits = collect(holders)
	if len(e.limits) == 0 {
		return lowered, nil
	}
	before := advise(policies, limits)
	e.bind(own)
	for i := range e.limits {
		if err := e.lower(&e.limits[i]); err != nil {
			e.undo()
			return lowered, err
		}
	}
	if e.field == "" {
		return lowered, nil
	}
	e.bound.follow()
	policies, limits, _ = older.Hold(found, &options)
	after := advise(policies, limits)
	if !(noMoreThan(&before, &after) && noMoreThan(&e.bound, &after)) {
		e.undo()
		return lowered, refuse(e.field, ErrRange)
	}
	return after.Fields, nil
}

// advise returns what older fields ask for by themselves.
func advise(policies []older.Policy, limits []older.Limit) (a Advice) {
	a.Fields.addOlder(policies, limits, "")
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
	now     time.Time // from which points in time are measured
	limits  []olderLimit
	bound   Advice // what own says, as far as the fields can say it
	written []writtenLines
	field   string // the last that was changed, "" if none was
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

// collect sorts holders by limit. A reset that no limit is named for is also that of the
// limits that have none.
func collect(holders []older.Holder) (limits []olderLimit) {
	index := make(map[string]int, 4)
	var shared []*older.Holder
	for i := range holders {
		held := &holders[i]
		at, ok := index[held.Limit]
		if !ok {
			at = len(limits)
			index[held.Limit] = at
			limits = append(limits, olderLimit{name: held.Limit, unit: held.Unit, quota: Unknown, remaining: Unknown, used: Unknown})
		}
		limits[at].add(held)
		if held.Shared {
			shared = append(shared, held)
		}
	}
	for i := range limits {
		l := &limits[i]
		if l.remaining == Unknown && l.quota != Unknown && l.used != Unknown {
			l.remaining = max(l.quota-l.used, 0)
		}
		if !l.timed && len(shared) > 0 {
			l.holders, l.timed = append(l.holders, shared...), true
		}
	}
	return limits
}

func (l *olderLimit) add(held *older.Holder) {
	l.holders = append(l.holders, held)
	switch held.Role {
	case older.Quota:
		l.quota = lower(l.quota, held.Count)
	case older.Remaining:
		l.remaining = lower(l.remaining, held.Count)
	case older.Used:
		l.used = max(l.used, held.Count)
	case older.Reset:
		l.timed = true
	}
}

// bind sets the bounds of own: of each limit upon the older one of its name, and of
// those without one upon the tightest, as it then is.
func (e *olderEdit) bind(own *Fields) {
	policies := newMatcher(own.Policies)
	var others []bound
	for i := range own.Limits {
		l := &own.Limits[i]
		p := policies.policy(l)
		wait, _ := waitOf(l, p)
		b := bound{p.Quota, lower(l.Remaining, p.Quota), longer(l.Reset, wait)}
		at := slices.IndexFunc(e.limits, func(of olderLimit) bool { return of.name == l.Name && of.remaining != Unknown })
		if at >= 0 {
			e.limits[at].bind(b)
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

// tightest returns the limit of requests of which least remains, within its bound, or
// nil. One without a reset comes after all others, as it cannot say until when.
func (e *olderEdit) tightest() (best *olderLimit) {
	for i := range e.limits {
		l := &e.limits[i]
		switch {
		case l.remaining == Unknown || !Unit(l.unit).countsRequests():
		case best == nil, l.timed && !best.timed, l.timed == best.timed && l.least() < best.least():
			best = l
		}
	}
	return best
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
func (e *olderEdit) lower(l *olderLimit) (err error) {
	b := l.bound
	if b == nil {
		return nil
	}
	used := max(lower(l.quota, b.quota)-b.remaining, 0)
	for _, held := range l.holders {
		switch {
		case err != nil:
			return err
		case held.Role == older.Quota && held.Count > lower(held.Count, b.quota):
			err = e.write(held, b.quota)
		case held.Role == older.Remaining && held.Count > b.remaining:
			err = e.write(held, b.remaining)
		case held.Role == older.Used && held.Count < used:
			err = e.write(held, used)
		case held.Role == older.Reset:
			if held.Until < b.reset.n {
				err = e.write(held, b.reset.n)
			}
			if l.remaining != Unknown {
				e.bound.Fields.Limits = append(e.bound.Fields.Limits, Limit{Remaining: l.least(), Reset: b.reset})
			}
		}
	}
	return err
}

// write writes a number in the form in which it is.
func (e *olderEdit) write(held *older.Holder, n int64) error {
	e.written = append(e.written, writtenLines{held.Key, e.h[held.Key]})
	lines, ok := held.Write(n, e.now)
	e.h[held.Key], e.field = lines, fieldName(held.Key)
	if !ok {
		return refuse(e.field, ErrRange)
	}
	return nil
}
