package ratelimit

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// lowerOlder lowers each older form of h, so that it announces the tightest limit of all and
// never more than before. It returns an error for each form that cannot hold its numbers.
func lowerOlder(h http.Header, found []older.Field, own *Fields, o *LegacyOptions, status int) error {
	found = slices.DeleteFunc(found, func(f older.Field) bool { return f.Key == policyKey || f.Key == limitKey })
	if len(found) == 0 || len(own.Limits) == 0 {
		return nil
	}
	e, errs := newLowering(h, own, o, status), []error(nil)
	slices.SortFunc(found, func(f, g older.Field) int {
		return cmp.Or(strings.Compare(f.Form(), g.Form()), strings.Compare(f.Key, g.Key))
	})
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].Form() == found[0].Form() {
			n++
		}
		lowered, fault := e.lowerForm(found[:n]) // alone, since a client may know no other
		if fault != "" {
			errs = append(errs, refuse(fieldName(fault), ErrRange))
		}
		for i := range lowered {
			h[lowered[i].Key] = lowered[i].Lines
		}
		found = found[n:]
	}
	return joinErrors(errs...)
}

// A lowering lowers older forms of a response to what own allows.
type lowering struct {
	shares  []share
	least   uint64        // requests that remain in own
	wait    time.Duration // that own asks for
	endless bool          // a limit of own has nothing remaining, and no time
	status  int           // of the response
	now     time.Time     // from which points in time are measured
	options older.Options
	room    older.Room
}

func newLowering(h http.Header, own *Fields, o *LegacyOptions, status int) *lowering {
	clock := readClock(h, o.Now)
	e := &lowering{least: leastOf(own), wait: own.asked(0).Wait, status: status, now: clock.Now(), options: o.older(clock)}
	policies := newMatcher(own.Policies)
	for _, l := range own.Limits {
		s := share{l, policies.policy(&l)}
		s.Remaining = lower(s.left(), s.policy.Quota)
		if s.Remaining == 0 {
			s.Reset, e.least = s.wait(s.policy), 0
			e.endless = e.endless || !s.Reset.ok
		}
		e.shares = append(e.shares, s)
	}
	return e
}

// A share is a limit with its policy.
type share struct {
	Limit
	policy *Policy
}

// left returns what remains; nothing remains of a quota of 0.
func (s *share) left() int64 {
	if s.exhausted(s.policy) {
		return 0
	}
	return s.Remaining
}

// tighter reports whether less remains of s than of other, or as much until later.
func (s *share) tighter(other *share) bool {
	left, of := s.left(), other.left()
	return left < of || left == of && longer(s.Reset, other.Reset) != other.Reset
}

// An olderForm is the fields of one form, and what a client reads in them.
type olderForm struct {
	found   []older.Field
	said    Fields
	holders []older.Holder // the fields that hold one number
}

func (e *lowering) read(found []older.Field) (f olderForm) {
	f.found = found
	policies, limits, r, holders := older.Hold(&e.room, slices.Clone(found), &e.options)
	f.holders = holders
	f.said.addFound(policies, limits, &r)
	return f
}

// lowerForm returns the fields of one form, lowered, and the key of a field that cannot
// hold its number. A reset that would be read as another time stays as it is, and the rest
// is lowered.
func (e *lowering) lowerForm(found []older.Field) (lowered []older.Field, fault string) {
	form := e.read(found)
	before := form.said
	for range maxRounds {
		limits := limitsOf(&form)
		e.bind(limits)
		next, key := e.write(&form, limits, &before, true)
		if fault = key; fault != "" {
			next, _ = e.write(&form, limits, &before, false)
		}
		if next == nil {
			break
		}
		form = *next
	}
	if fault == "" && e.exceeds(&form.said) { // a list, JSON, or no reset
		fault = found[0].Key
	}
	return form.found, fault
}

// maxRounds is how often a form is lowered: two limits may be read as one after the first
// round, with the reset of either. No response is known that needs more than two.
const maxRounds = 3

// write writes the fields that allow too much, with their resets or without. It returns
// the form as a client then reads it, nil if nothing changes, or the key of a field that
// cannot hold its number.
func (e *lowering) write(form *olderForm, limits []olderLimit, before *Fields, resets bool) (next *olderForm, fault string) {
	found := slices.Clone(form.found)
	want := make(map[string]int64, 4)
	for i := range limits {
		for _, held := range limits[i].holders {
			n, changes := limits[i].number(held, resets)
			if !changes {
				continue
			}
			line, ok := held.Write(n, e.now)
			if !ok {
				return nil, held.Key
			}
			at, _ := slices.BinarySearchFunc(found, held.Key, func(f older.Field, key string) int { return strings.Compare(f.Key, key) })
			found[at].Lines = []string{line}
			want[held.Key] = n
		}
	}
	if len(want) == 0 {
		return nil, ""
	}
	written := e.read(found)
	fault = slices.Min(slices.Collect(maps.Keys(want)))
	for i := range written.holders {
		if held := &written.holders[i]; want[held.Key] == held.Number() {
			delete(want, held.Key)
		}
	}
	if len(want) > 0 || !e.bounds(before, &written.said) {
		return nil, fault
	}
	return &written, ""
}

// bounds reports whether a form asks a client for no less than before, and for no longer
// wait than before or than own.
func (e *lowering) bounds(before, after *Fields) bool {
	for _, status := range []int{0, e.status} { // with and without a Retry-After
		a, b := before.asked(status), after.asked(status)
		longer := b.Wait > max(e.wait, a.Wait) && b.Source != SourceWindow && !e.endless
		if longer || !atLeastAsStrict(&b, &a) {
			return false
		}
	}
	return true
}

// exceeds reports whether a form allows more than own: that more remains, or that it
// comes back earlier.
func (e *lowering) exceeds(said *Fields) bool {
	left, untimed := leastOf(said), func(l Limit) bool { return !l.Reset.ok }
	early := said.asked(e.status).Wait < e.wait && !slices.ContainsFunc(said.Limits, untimed)
	return left != math.MaxUint64 && (left > e.least || early)
}

// An olderLimit is a limit that the fields of one form announce.
type olderLimit struct {
	share         // as the fields may have it at most
	said    Limit // as they have it
	quota   int64 // that they may have at most; Unknown if they have none
	used    int64 // that they have; Unknown if they do not
	holders []*older.Holder
	timed   bool // they contain the reset
	shared  bool // the reset is also that of others
}

// limitsOf returns the limits of a form. A reset that names no limit is also the reset of
// limits that have none of their own.
func limitsOf(f *olderForm) []olderLimit {
	policies := newMatcher(f.said.Policies)
	limits, index := make([]olderLimit, 0, len(f.said.Limits)), make(map[string]int, len(f.said.Limits))
	var shared []*older.Holder
	for i := range f.holders {
		held := &f.holders[i]
		at, ok := index[held.Limit]
		if !ok {
			at = len(limits)
			index[held.Limit] = at
			l := Limit{Name: held.Limit, Remaining: Unknown}
			limits = append(limits, olderLimit{
				said: l, share: share{l, policies.policy(&l)}, quota: Unknown, used: Unknown, holders: make([]*older.Holder, 0, 4),
			})
		}
		limits[at].add(held)
		if held.Shared {
			shared = append(shared, held)
		}
	}
	for i := range limits {
		l := &limits[i]
		for _, held := range shared {
			if !l.timed {
				l.add(held)
			}
		}
		if l.said.Remaining == Unknown && l.quota != Unknown && l.used != Unknown {
			l.said.Remaining = max(l.quota-l.used, 0)
		}
		l.Limit = l.said
	}
	return limits
}

// add adds a field that holds a number of the limit.
func (l *olderLimit) add(held *older.Holder) {
	l.holders = append(l.holders, held)
	switch held.Role {
	case older.Quota:
		l.quota = lower(l.quota, held.Count)
	case older.Remaining:
		l.said.Remaining = lower(l.said.Remaining, held.Count)
	case older.Used:
		l.used = max(l.used, held.Count)
	case older.Reset:
		l.said.Reset, l.timed = longer(l.said.Reset, SecondsOf(held.Until)), true
		l.shared = l.shared || held.Shared
	}
}

// bind lowers the limits of a form. A limit of own lowers the one of its name; of all others
// the tightest lowers the tightest of the form.
func (e *lowering) bind(limits []olderLimit) {
	index := make(map[string]*olderLimit, len(limits))
	for i := range limits {
		index[nameID(limits[i].said.Name)] = &limits[i]
	}
	var tightest *share
	for i := range e.shares {
		s := &e.shares[i]
		l := index[nameID(s.Name)]
		switch {
		case l != nil && l.said.Remaining != Unknown && l.policy.Unit.canonical() == s.policy.Unit.canonical():
			l.restrict(l.policy, &s.Limit, s.policy)
			l.quota = lower(l.quota, s.policy.Quota)
		case s.Remaining > 0 && !s.policy.Unit.countsRequests(): // it says nothing of others
		case tightest == nil || s.tighter(tightest):
			tightest = s
		}
	}
	if tightest != nil {
		e.bindTightest(limits, tightest)
	}
	bindShared(limits)
}

// bindTightest lowers the tightest limit of requests, if s is tighter.
func (e *lowering) bindTightest(limits []olderLimit, s *share) {
	var l *olderLimit
	for i := range limits {
		m := &limits[i]
		if m.said.Remaining != Unknown && m.policy.Unit.countsRequests() && (l == nil || m.tighter(&l.share)) {
			l = m
		}
	}
	if l == nil || !s.tighter(&l.share) {
		return
	}
	left, alone := l.left(), len(limits) == 1
	switch {
	case !s.Reset.ok:
	case s.Remaining == 0 && left > 0:
		l.Reset = s.Reset
	case alone && left > 0 && l.Reset.ok: // no faster than upstream
		l.Reset = longer(s.Reset, SecondsOf(text.MulDivUp(uint64(s.Remaining), uint64(l.Reset.n), uint64(left))))
	default:
		l.Reset = longer(s.Reset, l.Reset)
	}
	l.Remaining = min(l.Remaining, s.Remaining)
	if alone && l.used == Unknown && l.said.Name == e.options.Name { // the form names no policy
		l.quota = lower(l.quota, s.policy.Quota)
	}
}

// bindShared settles a reset that limits share: the latest of the limits with nothing
// remaining, else the latest. Nothing remains until then of a limit with a later one.
func bindShared(limits []olderLimit) {
	var spent, latest Seconds
	for i := range limits {
		if l := &limits[i]; l.shared {
			latest = longer(latest, l.Reset)
			if l.left() == 0 {
				spent = longer(spent, l.Reset)
			}
		}
	}
	if !spent.ok {
		spent = latest
	}
	for i := range limits {
		if l := &limits[i]; l.shared {
			if longer(l.Reset, spent) != spent && l.Remaining > 0 {
				l.Remaining = 0
			}
			l.Reset = spent
		}
	}
}

// number returns the number that a field should hold, and whether it holds another.
func (l *olderLimit) number(held *older.Holder, resets bool) (n int64, changes bool) {
	switch held.Role {
	case older.Quota:
		return l.quota, held.Count > lower(held.Count, l.quota)
	case older.Remaining:
		return l.Remaining, held.Count > lower(held.Count, l.Remaining)
	case older.Used:
		n = l.quota - l.Remaining
		return n, l.quota != Unknown && l.Remaining != l.said.Remaining && held.Count < n
	case older.Reset:
		return l.Reset.n, resets && l.Reset.ok && l.Reset != l.said.Reset && held.Until != l.Reset.n
	}
	return 0, false
}
