package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// lowerOlder lowers each older form of h to the tightest limit of all. A form never announces more
// than before. The error joins an error for each form that cannot express its numbers.
func lowerOlder(h http.Header, found []older.Field, own *Fields, o *LegacyOptions, status int) error {
	found = slices.DeleteFunc(found, func(f older.Field) bool { return f.Key == draft.PolicyKey || f.Key == draft.LimitKey })
	if len(found) == 0 || len(own.Limits) == 0 {
		return nil
	}
	e, errs := newLowering(h, *own, o, status), []error(nil)
	slices.SortFunc(found, func(f, g older.Field) int { return strings.Compare(f.Form, g.Form) })
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].Form == found[0].Form {
			n++
		}
		makeFinite(found[:n])
		lowered, err := e.lower(found[:n]) // without the other forms, because a client may know only this one
		errs = append(errs, err)
		for i := range lowered {
			if lines := lowered[i].Lines; len(lines) == 0 || &lines[0] != &most[0] {
				h[lowered[i].Key] = lines
			}
		}
		found = found[n:]
	}
	return text.JoinErrors(errs...)
}

// most is the line in place of an unlimited number. If it is not lowered, it is not written.
var most = []string{strconv.FormatInt(MaxInteger, 10)}

// makeFinite replaces an unlimited quota, and what remains of it, by the largest number. This
// number can be lowered, unlike -1 or the word unlimited.
func makeFinite(fields []older.Field) {
	unlimited := map[string]bool{} // by policy
	for _, f := range fields {
		if f.Role == older.Quota && f.Unlimited() {
			unlimited[f.Policy] = true
		}
	}
	for i := range fields {
		f := &fields[i]
		if (f.Role == older.Quota || f.Role == older.Remaining) && unlimited[f.Policy] && f.Unlimited() {
			f.Lines = most
		}
	}
}

// A lowering lowers older forms of a response to what own allows.
type lowering struct {
	own     []share
	least   uint64        // requests that remain in own
	wait    time.Duration // the wait that own asks for
	endless bool          // a limit of own has nothing remaining, and no time
	status  int           // of the response
	now     time.Time     // from which points in time are measured
	options older.Options
	room    older.Room
}

func newLowering(h http.Header, own Fields, o *LegacyOptions, status int) *lowering {
	clock := text.Clock{Header: h, Arrived: o.Now}
	own = own.explicit()
	e := &lowering{own: sharesOf(&own), least: leastOf(&own), status: status, now: clock.Now(), options: o.older(clock)}
	e.wait, _ = own.RetryAfter().Duration()
	for _, l := range e.own {
		if l.Remaining == 0 {
			e.least, e.endless = 0, e.endless || !l.Reset.ok
		}
	}
	return e
}

// An olderForm is the fields of one form, and what a client reads in them.
type olderForm struct {
	fields    []older.Field
	announced Fields
	holders   []older.Holder // the fields with one number
}

func (e *lowering) read(fields []older.Field) olderForm {
	numbers, r := older.Read(&e.room, fields, &e.options)
	f := olderForm{fields: fields, holders: numbers.Holders(fields, &e.options.Clock)}
	f.announced.addFound(&numbers, &r)
	return f
}

// lower returns the fields of one form, lowered. If a new reset cannot be written, or would be read as
// another time, all resets stay, and only the other numbers are lowered.
func (e *lowering) lower(fields []older.Field) (_ []older.Field, err error) {
	form := e.read(fields)
	for range maxRounds {
		target := e.target(&form)
		lowered, fault := e.write(&form, target, true)
		if err = fault; err != nil {
			lowered, _ = e.write(&form, target, false)
		}
		if lowered.fields == nil {
			break
		}
		if form = lowered; len(target) == 1 {
			break
		}
	}
	if err == nil && e.exceeds(&form.announced) { // a list, JSON, or no reset
		err = refuse(fields[0].Key, ErrRange)
	}
	return form.fields, err
}

// maxRounds is how often a form with several limits is lowered. After a round, a reset without a
// policy's name may belong to another limit, or two limits may be read as one. No known response
// needs more than two rounds.
const maxRounds = 3

// target returns the limits that a form should announce. A limit of own lowers the limit with its name.
// The tightest of the other own limits lowers the form's tightest limit of requests, if that limit is
// less tight.
func (e *lowering) target(form *olderForm) []share {
	limits := sharesOf(&Fields{Policies: slices.Clone(form.announced.Policies), Limits: slices.Clone(form.announced.Limits)})
	rest, named := e.lowerNamed(limits)
	tightest := tightestRequests(limits)
	if rest.Limit == nil || tightest.Limit == nil || !rest.tighter(tightest) {
		return limits
	}
	alone := len(limits) == 1
	if alone && !named && rest.Remaining > 0 && rest.Reset.ok && tightest.Reset.ok { // no faster than upstream
		tightest.Reset = SecondsOf(text.MulDivUp(uint64(rest.Remaining), uint64(tightest.Reset.n), uint64(tightest.Remaining)))
	}
	used := slices.ContainsFunc(form.holders, func(h older.Holder) bool { return h.Role == older.Used })
	tightest.lower(rest, alone && !used && tightest.Name == e.options.Name) // the form names no policy
	return limits
}

// lowerNamed lowers each limit to the limit of own with the same name and unit. named reports
// whether there is one. rest is the tightest of the other limits of own that concern all requests.
func (e *lowering) lowerNamed(limits []share) (rest share, named bool) {
	index := make(map[string]int, len(limits))
	for i, l := range limits {
		index[l.Name] = i
	}
	for _, own := range e.own {
		i, ok := index[own.Name]
		switch {
		case ok && limits[i].Remaining != Unknown && limits[i].policy.Unit.Canonical() == own.policy.Unit.Canonical():
			limits[i].lower(own, true)
			named = true
		case own.Remaining > 0 && !own.policy.Unit.countsRequests(): // it shows nothing about other limits
		case own.tighter(rest):
			rest = own
		}
	}
	return rest, named
}

// tightestRequests returns the tightest limit of requests, or a share without a limit.
func tightestRequests(limits []share) (tightest share) {
	for _, l := range limits {
		if l.Remaining != Unknown && l.policy.Unit.countsRequests() && l.tighter(tightest) {
			tightest = l
		}
	}
	return tightest
}

// A share is a limit and its policy.
type share struct {
	*Limit
	policy *Policy
}

func sharesOf(f *Fields) []share {
	policies, shares := newMatcher(f.Policies), make([]share, len(f.Limits))
	for i := range f.Limits {
		shares[i] = share{&f.Limits[i], policies.policy(&f.Limits[i])}
	}
	return shares
}

// tighter reports whether less remains of l than of m, or the same number until a later reset. A
// share without a limit is the least tight.
func (l share) tighter(m share) bool {
	return m.Limit == nil || leftOf(l.Limit, l.policy, 0).compare(leftOf(m.Limit, m.policy, 0)) < 0
}

// lower lowers l to own, and its quota too if quota is true.
func (l share) lower(own share, quota bool) {
	spent, reset := l.exhausted(l.policy), l.Reset
	l.restrict(l.policy, own.Limit, own.policy)
	if spent && reset == SecondsOf(0) && !own.exhausted(own.policy) {
		l.Reset = reset // a second gateway cannot distinguish this 0 from a 0 of the first gateway
	}
	if quota && l.policy != &noPolicy {
		l.policy.Quota = lower(l.policy.Quota, own.policy.Quota)
	}
}

// write writes the numbers of target into the fields that have other numbers. If resets is false,
// it leaves the resets. It returns the form as a client then reads it. If nothing changes, the form
// has no fields.
func (e *lowering) write(form *olderForm, target []share, resets bool) (written olderForm, err error) {
	fields, changed := slices.Clone(form.fields), -1
	numbers := make([]int64, len(form.holders))
	for i := range form.holders {
		holder := &form.holders[i]
		numbers[i] = number(holder, &form.announced.Limits[holder.Limit], target[holder.Limit])
		if numbers[i] == holder.Number || holder.Role == older.Reset && !resets {
			numbers[i] = Unknown
			continue
		}
		line, ok := holder.Write(numbers[i], e.now)
		if !ok {
			return olderForm{}, refuse(fields[holder.Field].Key, ErrRange)
		}
		fields[holder.Field].Lines, changed = []string{line}, holder.Field
	}
	if changed < 0 {
		return written, nil
	}
	written = e.read(fields)
	for i, n := range numbers {
		if n != Unknown && (i >= len(written.holders) || written.holders[i].Number != n) {
			return olderForm{}, refuse(fields[form.holders[i].Field].Key, ErrRange)
		}
	}
	if !e.bounds(&form.announced, &written.announced) {
		return olderForm{}, refuse(fields[changed].Key, ErrRange)
	}
	return written, nil
}

// number returns the number that a field should contain if its limit changes from before to l.
func number(holder *older.Holder, before *Limit, l share) int64 {
	switch quota := l.policy.Quota; {
	case holder.Role == older.Quota:
		return lower(holder.Number, quota)
	case holder.Role == older.Remaining:
		return lower(holder.Number, l.Remaining)
	case holder.Role == older.Used && quota != Unknown && l.Remaining != before.Remaining:
		return max(holder.Number, quota-l.Remaining)
	case holder.Role == older.Reset && l.Reset.ok && l.Reset != before.Reset:
		return l.Reset.n
	}
	return holder.Number
}

// bounds reports whether a form is at least as strict as before. It may ask for a longer wait only
// if own asks for that wait.
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

// exceeds reports whether a form allows more than own: more requests, or an earlier return.
func (e *lowering) exceeds(announced *Fields) bool {
	left, untimed := leastOf(announced), func(l Limit) bool { return !l.Reset.ok }
	early := announced.asked(e.status).Wait < e.wait && !slices.ContainsFunc(announced.Limits, untimed)
	return left != math.MaxUint64 && (left > e.least || early)
}
