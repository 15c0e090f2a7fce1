package ratelimit

import (
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
	slices.SortFunc(found, func(f, g older.Field) int { return strings.Compare(f.Form(), g.Form()) })
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].Form() == found[0].Form() {
			n++
		}
		lowered, err := e.lower(found[:n]) // alone, since a client may know no other
		errs = append(errs, err)
		for i := range lowered {
			h[lowered[i].Key] = lowered[i].Lines
		}
		found = found[n:]
	}
	return joinErrors(errs...)
}

// A lowering lowers older forms of a response to what own allows.
type lowering struct {
	own      Fields
	policies matcher       // of own
	least    uint64        // requests that remain in own
	wait     time.Duration // that own asks for
	endless  bool          // a limit of own has nothing remaining, and no time
	status   int           // of the response
	now      time.Time     // from which points in time are measured
	options  older.Options
	room     older.Room
}

func newLowering(h http.Header, own *Fields, o *LegacyOptions, status int) *lowering {
	clock := readClock(h, o.Now)
	e := &lowering{own: own.explicit(), status: status, now: clock.Now(), options: o.older(clock)}
	e.policies, e.least = newMatcher(e.own.Policies), leastOf(&e.own)
	e.wait, _ = e.own.RetryAfter().Duration()
	for i := range e.own.Limits {
		if l := &e.own.Limits[i]; l.Remaining == 0 {
			e.least, e.endless = 0, e.endless || !l.Reset.ok
		}
	}
	return e
}

// An olderForm is the fields of one form, and what a client reads in them.
type olderForm struct {
	fields  []older.Field
	said    Fields
	holders []older.Holder // the fields that hold one number
}

func (e *lowering) read(fields []older.Field) *olderForm {
	f := &olderForm{fields: fields}
	policies, limits, r, holders := older.Hold(&e.room, fields, &e.options)
	f.said.addFound(policies, limits, &r)
	f.holders = holders
	return f
}

// lower returns the fields of one form, lowered. A reset that would be read as another time
// stays as it is, and the rest is lowered.
func (e *lowering) lower(fields []older.Field) (_ []older.Field, err error) {
	form := e.read(fields)
	for range maxRounds {
		target := e.target(form)
		lowered, fault := e.write(form, &target, true)
		if err = fault; err != nil {
			lowered, _ = e.write(form, &target, false)
		}
		if lowered == nil {
			break
		}
		if form = lowered; len(target.Limits) == 1 {
			break
		}
	}
	if err == nil && e.exceeds(&form.said) { // a list, JSON, or no reset
		err = tooLow(fields[0].Key)
	}
	return form.fields, err
}

// maxRounds is how often a form with several limits is lowered: afterwards a reset without a
// policy's name may be that of another limit, or two limits may be read as one. No response is
// known that needs more than two.
const maxRounds = 3

// tooLow returns an error for a field that cannot hold its number.
func tooLow(key string) error { return refuse(fieldName(key), ErrRange) }

// target returns what a form should announce. A limit of own lowers the limit of its name. Of
// all others the tightest lowers the tightest limit of requests, if it is tighter.
func (e *lowering) target(form *olderForm) Fields {
	f := Fields{Policies: slices.Clone(form.said.Policies), Limits: slices.Clone(form.said.Limits)}
	policies, index := newMatcher(f.Policies), map[string]int{}
	for i := range f.Limits {
		index[nameID(f.Limits[i].Name)] = i
	}
	rest, tightest, bound := tightness{index: -1}, tightness{index: -1}, false
	for i := range e.own.Limits {
		m := &e.own.Limits[i]
		q := e.policies.policy(m)
		j, named := index[nameID(m.Name)]
		if named && f.Limits[j].Remaining != Unknown {
			l := &f.Limits[j]
			if p := policies.policy(l); p.Unit.canonical() == q.Unit.canonical() {
				l.restrict(p, m, q)
				p.lower(q.Quota)
				bound = true
				continue
			}
		}
		if m.Remaining == 0 || q.Unit.countsRequests() { // else it says nothing of other limits
			rest = rest.tighter(leftOf(m, q, i))
		}
	}
	for i := range f.Limits {
		if l := &f.Limits[i]; l.Remaining != Unknown {
			if p := policies.policy(l); p.Unit.countsRequests() {
				tightest = tightest.tighter(leftOf(l, p, i))
			}
		}
	}
	if rest.index < 0 || tightest.index < 0 || rest.compare(tightest) >= 0 {
		return f
	}
	l, m := &f.Limits[tightest.index], &e.own.Limits[rest.index]
	p, q := policies.policy(l), e.policies.policy(m)
	if len(f.Limits) == 1 {
		if rest.remaining > 0 && l.Reset.ok && m.Reset.ok && !bound { // no faster than upstream
			l.Reset = SecondsOf(text.MulDivUp(rest.remaining, uint64(l.Reset.n), tightest.remaining))
		}
		if l.Name == e.options.Name && !form.has(older.Used) { // the form names no policy
			defer p.lower(q.Quota)
		}
	}
	l.restrict(p, m, q)
	return f
}

// tighter returns the tighter of two limits. An index of -1 is none.
func (l tightness) tighter(m tightness) tightness {
	if l.index < 0 || m.compare(l) < 0 {
		return m
	}
	return l
}

// lower lowers the quota of a policy.
func (p *Policy) lower(quota int64) {
	if p != &noPolicy {
		p.Quota = lower(p.Quota, quota)
	}
}

// has reports whether a field of the form holds a number with that role.
func (f *olderForm) has(role older.Role) bool {
	return slices.ContainsFunc(f.holders, func(h older.Holder) bool { return h.Role == role })
}

// write writes the numbers of target into the fields that hold others, with the resets or
// without. It returns the form as a client then reads it, or nil if nothing changes.
func (e *lowering) write(form *olderForm, target *Fields, resets bool) (*olderForm, error) {
	policies := newMatcher(target.Policies)
	fields, changed := slices.Clone(form.fields), -1
	numbers := make([]int64, len(form.holders))
	for i := range form.holders {
		held := &form.holders[i]
		l := &target.Limits[held.Limit]
		numbers[i] = number(held, &form.said.Limits[held.Limit], l, policies.policy(l))
		if numbers[i] == held.Number || held.Role == older.Reset && !resets {
			numbers[i] = Unknown
			continue
		}
		line, ok := held.Write(numbers[i], e.now)
		if !ok {
			return nil, tooLow(fields[held.Field].Key)
		}
		fields[held.Field].Lines, changed = []string{line}, held.Field
	}
	if changed < 0 {
		return nil, nil
	}
	written := e.read(fields)
	for i, n := range numbers {
		if n != Unknown && (i >= len(written.holders) || written.holders[i].Number != n) {
			return nil, tooLow(fields[form.holders[i].Field].Key)
		}
	}
	if !e.bounds(&form.said, &written.said) {
		return nil, tooLow(fields[changed].Key)
	}
	return written, nil
}

// number returns the number that a field should hold for limit l with policy p, which was
// another limit before.
func number(held *older.Holder, before, l *Limit, p *Policy) int64 {
	switch {
	case held.Role == older.Quota:
		return lower(held.Number, p.Quota)
	case held.Role == older.Remaining:
		return lower(held.Number, l.Remaining)
	case held.Role == older.Used && p.Quota != Unknown && l.Remaining != before.Remaining:
		return max(held.Number, p.Quota-l.Remaining)
	case held.Role == older.Reset && l.Reset.ok && l.Reset != before.Reset:
		return l.Reset.n
	}
	return held.Number
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
