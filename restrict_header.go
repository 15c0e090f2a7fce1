package ratelimit

import (
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// RestrictHeader makes the header of a response that passes an intermediary say what
// upstream says, in whatever form, joined with what own adds, as [Restrict] does. For a
// reverse proxy behind a [Middleware] use [Middleware.ModifyResponse]. It writes three
// things:
//
//   - The fields RateLimit-Policy and RateLimit, without members that lack a number. An
//     older form in these two fields themselves is replaced, unless there is nothing to
//     write.
//   - The older fields of h, lowered in place, each form by itself, since a client may
//     know one alone. A limit of own lowers the older one of its name; all others lower
//     the tightest older limit of requests, to the lowest Remaining and the longest
//     Reset. Resets stay if a field cannot say that one: 1614 seconds in
//     X-RateLimit-Reset-Minute would be read as milliseconds. Only what changes is
//     written, in the form in which it was read, and points in time count from the field
//     Date, so that they do not drift from hop to hop. A field that holds more than one
//     number, such as JSON, stays as it is.
//   - Retry-After, if it is there and too early for a limit with nothing remaining
//     ([Fields.SetRetryAfter]).
//
// If the response allows another origin, the fields are exposed, as by [Expose]. A
// policy without a name is called o.Name, or "default", as by [ParseAny], so that a
// limit belongs to the same policy for clients on both sides.
//
// On error h is as it was, and best forwarded so. The error is that of [ParseAny],
// [Restrict] or [Fields.Set], or a [*FieldError] that wraps ErrRange if older fields
// would be read as other numbers than written, alone or together.
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
// request, a client waits for a Reset even if nothing says what remains.
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
			l.Reset = l.wait(p)
		}
		if spent || p.Quota != Unknown || p.Unit.countsRequests() { // the unit goes too
			limits = append(limits, l)
		}
	}
	f.Limits = limits
	return f.Writable()
}

// An olderLimit is a limit that the fields of one older form report, and the fields that
// hold its numbers.
type olderLimit struct {
	name, unit       string
	form             string // the family of the fields, as it is spelled
	quota, remaining int64  // the lowest of several; Unknown if none says it
	used             int64  // the highest
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
		return lowered, nil // as for most responses, which need not be read once more
	}
	e := newOlderEdit(h, found, o)
	before := e.read("")
	err = e.restrict(own)
	if len(e.written) == 0 {
		return lowered, err
	}
	after := e.read("")
	if err == nil && !noneMoreThan(before, after) {
		err = e.unsaid()
	}
	if err != nil {
		e.undo(0)
		return lowered, err
	}
	return after[0].Fields, nil
}

// maxRounds is how many rounds restrict takes at most, the last of which finds nothing to
// do. No response is known that needs more.
const maxRounds = 3

// restrict lowers the fields to what own allows. A limit that has been lowered may say the
// same as another, and whoever reads the two as one gives it the reset of either. What is
// read so has to be lowered as well, by a further round.
func (e *olderEdit) restrict(own *Fields) error {
	policies := newMatcher(own.Policies)
	for range maxRounds {
		mark := len(e.written)
		for limits := range e.forms() {
			bind(limits, own, &policies)
			if err := e.lowerForm(limits); err != nil {
				return err
			}
		}
		if len(e.written) == mark {
			return nil
		}
		e.holdAgain()
	}
	return e.unsaid()
}

// unsaid is the error for the field that was written last.
func (e *olderEdit) unsaid() error {
	return refuse(fieldName(e.written[len(e.written)-1].key), ErrRange)
}

// advise returns what older fields ask for by themselves.
func advise(policies []older.Policy, limits []older.Limit) (a Advice) {
	a.Fields.addOlder(policies, limits, "")
	a.follow()
	return a
}

// noMoreThan reports whether after asks a client for no less than before: for no
// shorter wait and no shorter pace.
func noMoreThan(before, after *Advice) bool {
	return after.Wait >= before.Wait && max(after.Pace, after.Wait) >= before.Pace
}

// noneMoreThan reports whether none of the readers is asked for less than before.
func noneMoreThan(before, after []Advice) bool {
	for i := range before {
		if !noMoreThan(&before[i], &after[i]) {
			return false
		}
	}
	return true
}

// An olderEdit lowers older fields in place.
type olderEdit struct {
	h       http.Header
	clock   text.Clock
	now     time.Time       // of the clock, from which points in time are measured
	found   []older.Field   // but for those of the current keys
	readers []LegacyOptions // those of the caller, and those of a client who has none
	limits  []olderLimit    // by form
	written []writtenLines
	sole    string   // the form of all fields, "" if there are several
	said    []Advice // what all fields ask of the caller's reader alone; nil if it is not known
}

// writtenLines are the lines that a field had before it was written to.
type writtenLines struct {
	key    string
	before []string
}

// newOlderEdit finds the limits that the older fields report, and who reads them.
func newOlderEdit(h http.Header, found []older.Field, o *LegacyOptions) *olderEdit {
	e := &olderEdit{h: h, found: found, clock: readClock(h, o.Now), readers: []LegacyOptions{*o}}
	e.now = e.clock.Now()
	if o.Dialects != nil || o.Reset != TimeGuess {
		e.readers = append(e.readers, LegacyOptions{Now: o.Now})
	}
	if e.sole = found[0].Form(); slices.ContainsFunc(found, func(f older.Field) bool { return f.Form() != e.sole }) {
		e.sole = ""
	}
	e.hold(found)
	return e
}

// hold reads what all fields say, and which of them hold the numbers.
func (e *olderEdit) hold(found []older.Field) {
	options := e.readers[0].older(e.clock)
	policies, limits, holders := older.Hold(new(older.Room), found, &options)
	e.said, e.limits = []Advice{advise(policies, limits)}, collect(holders)
	slices.SortStableFunc(e.limits, func(l, m olderLimit) int { return strings.Compare(l.form, m.form) })
}

// forms returns the limits of one form after the other. Whoever reads one of them may
// know no other, so that each has to say what own allows.
func (e *olderEdit) forms() iter.Seq[[]olderLimit] {
	return func(yield func([]olderLimit) bool) {
		limits := e.limits
		for from, to := 0, 0; from < len(limits); from = to {
			for to < len(limits) && limits[to].form == limits[from].form {
				to++
			}
			if !yield(limits[from:to]) {
				return
			}
		}
	}
}

// lowerForm lowers the limits of one form to their bounds. Where a field cannot say a
// reset, because those who read it would take the number for another time, the resets
// stay as they are, and the rest is lowered.
func (e *olderEdit) lowerForm(limits []olderLimit) error {
	form, mark := limits[0].form, len(e.written)
	before := e.read(form)
	for _, resets := range []bool{true, false} {
		if !resets {
			e.undo(mark)
		}
		bounds, ok := e.lower(limits, resets)
		if len(e.written) == mark {
			return nil
		}
		after := e.read(form)
		short := func(a Advice) bool { return !noMoreThan(&bounds, &a) }
		if ok && noneMoreThan(before, after) && !slices.ContainsFunc(after, short) {
			return nil
		}
	}
	return e.unsaid()
}

// read returns what the fields of one form ask of each reader, or all older fields if it
// is "".
func (e *olderEdit) read(form string) []Advice {
	if (form == "" || form == e.sole) && len(e.readers) == 1 { // as of most responses
		e.holdAgain()
		return e.said
	}
	said := make([]Advice, len(e.readers))
	for i := range e.readers {
		options := e.readers[i].older(e.clock)
		policies, limits, _ := older.Read(new(older.Room), e.find(form, &e.readers[i]), &options)
		said[i] = advise(policies, limits)
	}
	return said
}

// holdAgain is hold, if a field has been written to since.
func (e *olderEdit) holdAgain() {
	if e.said == nil {
		e.hold(e.find("", &e.readers[0]))
	}
}

// find returns the fields of one form as they are now, or all older fields if it is "".
func (e *olderEdit) find(form string, o *LegacyOptions) []older.Field {
	h := make(http.Header, len(e.found))
	for i := range e.found {
		if f := &e.found[i]; form == "" || f.Form() == form {
			h[f.Key] = e.h[f.Key]
		}
	}
	found, _ := older.Find(make([]older.Field, 0, len(h)), h, o.tables(nil))
	return found
}

// undo writes back what was there, but for the first so many fields.
func (e *olderEdit) undo(but int) {
	for _, w := range slices.Backward(e.written[but:]) {
		e.h[w.key] = w.before
	}
	e.written, e.said = e.written[:but], nil
}

// collect sorts holders by form and limit. A reset that names no limit is also the reset
// of those limits of its form that have none of their own.
func collect(holders []older.Holder) (limits []olderLimit) {
	type place struct{ form, limit string }
	index := make(map[place]int, 4)
	var shared []*older.Holder
	for i := range holders {
		held := &holders[i]
		at, ok := index[place{held.Form, held.Limit}]
		if !ok {
			at = len(limits)
			index[place{held.Form, held.Limit}] = at
			limits = append(limits, olderLimit{name: held.Limit, unit: held.Unit, form: held.Form, quota: Unknown, remaining: Unknown, used: Unknown})
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
		for _, held := range shared {
			if held.Form == l.form && !l.timed {
				l.holders, l.timed = append(l.holders, held), true
			}
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

// bind sets the bounds of own upon the limits of one form: of each limit upon the older
// one of its name, and of those without one upon the tightest, as it then is.
func bind(limits []olderLimit, own *Fields, policies *matcher) {
	var others []bound
	for i := range own.Limits {
		l := &own.Limits[i]
		p := policies.policy(l)
		wait := l.wait(p)
		b := bound{p.Quota, lower(l.Remaining, p.Quota), longer(l.Reset, wait)}
		at := slices.IndexFunc(limits, func(of olderLimit) bool { return nameID(of.name) == nameID(l.Name) && of.remaining != Unknown })
		if at >= 0 {
			limits[at].bind(b)
		} else if b.quota = Unknown; b.remaining == 0 || p.Unit.countsRequests() {
			others = append(others, b)
		}
	}
	if tightest := tightestOf(limits); tightest != nil {
		for _, b := range others {
			tightest.bind(b)
		}
	}
}

// tightestOf returns the limit of requests with the lowest remaining, within its bound, or
// nil. One without a reset comes after all others, as it cannot say until when.
func tightestOf(limits []olderLimit) (best *olderLimit) {
	for i := range limits {
		l := &limits[i]
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

// lower writes the fields that say more than the bounds of their limits, those of resets
// if resets is true. It returns what the bounds say, as far as fields can say it; ok is
// false if a field cannot express its number.
func (e *olderEdit) lower(limits []olderLimit, resets bool) (bounds Advice, ok bool) {
	ok = true
	for i := range limits {
		l := &limits[i]
		if l.bound == nil {
			continue
		}
		for _, held := range l.holders {
			if held.Role == older.Reset && !resets {
				continue
			}
			if held.Role == older.Reset {
				bounds.Fields.Limits = append(bounds.Fields.Limits, Limit{Remaining: l.least(), Reset: l.bound.reset})
			}
			if n, lowers := l.lowered(held); lowers {
				ok = e.write(held, n) && ok
			}
		}
	}
	bounds.follow()
	return bounds, ok
}

// lowered returns the number that a field has to say within the bound of its limit, and
// whether it is another one.
func (l *olderLimit) lowered(held *older.Holder) (n int64, lowers bool) {
	b := l.bound
	switch held.Role {
	case older.Quota:
		return b.quota, held.Count > lower(held.Count, b.quota)
	case older.Remaining:
		return b.remaining, held.Count > b.remaining
	case older.Used:
		used := lower(l.quota, b.quota) - b.remaining
		return used, held.Count < used
	case older.Reset:
		return b.reset.n, held.Until < b.reset.n
	}
	return 0, false
}

// write writes a number in the form in which it is.
func (e *olderEdit) write(held *older.Holder, n int64) (ok bool) {
	line, ok := held.Write(n, e.now)
	e.written, e.said = append(e.written, writtenLines{held.Key, e.h[held.Key]}), nil
	e.h[held.Key] = []string{line}
	if held.Role == older.Reset {
		held.Until = n // which may be that of further limits
	}
	return ok
}
