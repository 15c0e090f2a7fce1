package older

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/httpfields/ratelimit/internal/text"
)

// This file turns the tallies into policies and limits. Each step needs the steps before it:
//
//  1. If two of quota, remaining and used units are known, they give the third.
//  2. A policy gets its window: from a field, a listed policy, or its name.
//  3. Numbers without a policy's name join the policy that they belong to.
//  4. The windows decide whether a bare reset is in seconds or milliseconds.
//  5. A reset without a policy's name goes to all limits with its window.
//  6. A vendor's policies next to the usual limits are dropped, because they are comments.
//  7. Each tally gets a name, and becomes a policy, a limit or both.

// settle does all steps but the last. It reports whether the unit of a reset is a guess.
func (ts *tallies) settle(option Format) (guessed bool) {
	for i := range ts.list {
		ts.list[i].spend()
		ts.settleWindow(&ts.list[i]) // resets must fit into windows, so windows come first
	}
	ts.joinUnnamed()
	guessed = ts.settleResets(option)
	ts.shareReset()
	ts.dropComments()
	return guessed
}

// settleWindow finds the window of a policy. It takes the window from a field, else from
// the listed policy with the same quota. Without these it takes the window in the policy's
// name, else the usual window of the field. A window without a unit is in milliseconds if
// the reset is (HTX), else in seconds.
func (ts *tallies) settleWindow(t *tally) {
	if t.column < 0 {
		t.window = -t.column
		for i := range ts.listed {
			if p := &ts.listed[i]; p.Window == t.window {
				t.quota = p.Quota
			}
		}
	}
	if t.bare && t.reset.units == 1000 {
		t.window = (t.window + 999) / 1000
	}
	if i := ts.listedWith(t); i >= 0 {
		t.window = cmp.Or(t.window, ts.listed[i].Window)
	}
	t.window = cmp.Or(t.window, t.hint.window, hintOf(t.tail, false).window, t.usual)
	t.unit = cmp.Or(t.unit, t.hint.unit)
	if t.quota == 0 && t.part != 0 && t.window != 0 { // 0.5 in a second becomes 1 in two seconds
		t.quota = 1
		t.window = text.SaturatingAdd(text.SaturatingMul(t.window, 1e9), int64(t.part)-1) / int64(t.part)
	}
	if t.rate > 0 { // the window is the time in which an empty bucket fills
		t.window = (t.quota + t.rate - 1) / t.rate
	}
}

// joinUnnamed joins each tally without a policy's name to a tally with a name. A tally with a quota or a
// remaining joins the only tally to which it may belong (see mayBelongTo). A tally with only a reset
// joins, of these tallies, the one with the least remaining.
func (ts *tallies) joinUnnamed() {
	for i := range ts.list {
		u := &ts.list[i]
		if u.policy != "" || u.title != "" || u.column != 0 {
			continue
		}
		j := ts.about(u, 1)
		if j < 0 {
			j = ts.about(u, 1000)
		}
		switch {
		case j < 0:
		case ts.list[j].policy == "requests" && len(ts.list) == 2: // if nothing else is counted, requests need no name
			ts.absorb(i, j)
		default:
			ts.absorb(j, i)
		}
	}
}

// about returns the index of the tally to which an unnamed tally belongs, or -1. The parameter
// units is how many units of a bare reset make a second.
func (ts *tallies) about(u *tally, units int64) (best int) {
	counted, several := u.numbers(), false
	best = -1
	for i := range ts.list {
		switch t := &ts.list[i]; {
		case !u.mayBelongTo(t, units):
		case best < 0:
			best = i
		case counted:
			several = true
		case uint64(t.remaining) < uint64(ts.list[best].remaining): // Unknown is the largest
			best = i
		}
	}
	if several || !counted && u.reset.kind == noMoment {
		return -1
	}
	return best
}

// mayBelongTo reports whether an unnamed tally can belong to the policy of t. No number of one may
// contradict a number of the other. If the families differ, what remains must be equal (Kong). If the
// window of t is known, the reset must fit into it. A tally with only a reset may be of any family.
func (u *tally) mayBelongTo(t *tally, units int64) bool {
	return t.policy != "" && t.numbers() && u.agrees(t) && (u.share == t.share || !u.numbers()) &&
		(t.form == u.form || !u.numbers() || t.remaining == u.remaining) &&
		(t.window == 0 || u.reset.fits(t.window, units))
}

// dropComments drops a vendor's policies without a limit if the usual fields are present, because they
// are comments on these fields (draft-03 Section 3.1, acme-RateLimit-DayLimit). In parallel lists, it
// drops a quota of 0 after the first quota: 50, 0 has no second limit (Brave).
func (ts *tallies) dropComments() {
	usual := slices.ContainsFunc(ts.list, func(t tally) bool {
		return t.order < vendorOrder && t.numbers() // a tally that was absorbed has none
	})
	for i := range ts.list {
		t := &ts.list[i]
		if usual && t.order == vendorOrder && t.policy != "" && !t.hasLimit() || t.column > 0 && t.quota == 0 {
			*t = noTally
		}
	}
}

// listedWith returns the index of the first listed policy with the quota of a tally, and with
// its window if both have one. It returns -1 if there is none.
func (ts *tallies) listedWith(t *tally) int {
	return slices.IndexFunc(ts.listed, func(p Policy) bool {
		return p.Quota == t.quota && (t.window == 0 || p.Window == 0 || p.Window == t.window)
	})
}

// nameOf returns the name of a tally's policy. It comes from the names of the fields, else from a field
// for the name, else from a list, else from the caller. If two families have a limit without a name, a
// vendor's limit gets the name of its family (sib).
func (ts *tallies) nameOf(t *tally, option string) string {
	switch {
	case t.columnName != "":
		return below(t.policy, t.columnName)
	case t.column != 0:
		return below(t.policy, numbersName(t.quota, t.window))
	case t.policy != "":
		return t.policy
	case t.title != "":
		return below(t.title, t.tail)
	}
	if i := ts.listedWith(t); i >= 0 && ts.listed[i].Name != "" {
		return ts.listed[i].Name
	}
	for i := range ts.list {
		if u := &ts.list[i]; u.policy == "" && u.family != t.family && t.family != "" && u.column == 0 {
			return t.family
		}
	}
	return option
}

// numbersName names a policy by its quota and window.
func numbersName(quota, window int64) (name string) {
	if quota != Unknown {
		name = strconv.FormatInt(quota, 10)
	}
	if window != 0 {
		name += "/" + strconv.FormatInt(window, 10)
	}
	return name
}

// obeyStatus makes an unknown or a rounded remaining agree with the word in the field for the status.
func (t *tally) obeyStatus() {
	rounded := t.share != Unknown && t.unit == "percent"
	switch {
	case t.status < 0 && t.reset.kind != noMoment && (rounded || t.remaining == Unknown):
		t.remaining = 0
	case t.status > 0 && rounded:
		t.remaining = max(t.remaining, 1)
	}
}

// result makes policies and limits. A listed policy belongs to the tally with the same quota.
func (ts *tallies) result(room *Room, option string) (policies []Policy, limits []Limit) {
	policies, limits = room.policies[:0], room.limits[:0]
	for i := range ts.list {
		t := &ts.list[i]
		if !t.hasPolicy() && !t.hasLimit() {
			continue
		}
		t.obeyStatus()
		name := ts.nameOf(t, option)
		if t.limit = len(limits); t.hasLimit() {
			limits = append(limits, Limit{Name: name, Remaining: t.remaining, Reset: t.reset.until, Resets: t.reset.kind != noMoment})
		}
		if !t.hasPolicy() {
			continue
		}
		if at := ts.listedWith(t); at >= 0 && !ts.listed[at].taken { // else it would lose its name
			p := &ts.listed[at]
			p.taken = true
			p.Name, p.Window, p.Unit = name, cmp.Or(p.Window, t.window), cmp.Or(p.Unit, t.unit)
			continue
		}
		p := Policy{Name: name, Quota: t.quota, Window: t.window, Unit: t.unit, Params: t.params}
		if t.used != Unknown && t.remaining == Unknown { // otherwise spend has subtracted it
			p.Params += ";used=" + strconv.FormatInt(t.used, 10)
		}
		policies = append(policies, p)
	}
	for i := range ts.listed {
		p := &ts.listed[i]
		if p.Name == "" {
			p.Name = numbersName(p.Quota, p.Window)
		}
		policies = append(policies, *p)
	}
	return policies, limits
}

// settleResets finds the units of bare numbers in resets. The window of a reset decides, else the last
// reset of its family with a window, else the caller's option. The default is seconds. It reports
// whether the unit is a guess that matters. A Retry-After never decides, because it agrees with a reset
// only by chance: it announces when a bucket gets its next unit, or when another limiter permits a
// request.
func (ts *tallies) settleResets(option Format) (guessed bool) {
	for i := range ts.list {
		t := &ts.list[i]
		t.reset.settle(t.unitsTold())
	}
	for i := range ts.list {
		t := &ts.list[i]
		units, told := int64(1), option != Guess
		if option == Milli {
			units = 1000
		}
		for j := range ts.list {
			if u := &ts.list[j]; u.form == t.form && u.window != 0 && u.reset.units > 0 {
				units, told = u.reset.units, true
			}
		}
		guessed = guessed || !told && t.reset.in(1).Ceil() != t.reset.in(1000).Ceil()
		t.reset.settle(units)
	}
	return guessed
}

// unitsTold returns how many units of a bare reset make a second. It takes seconds if the reset then
// fits into the window, else milliseconds if the reset then fits. If neither fits, or if the drafts or
// a fraction suggest it, it takes seconds. It returns 0 if nothing decides.
func (t *tally) unitsTold() int64 {
	window := t.window
	if t.several { // the window and the reset may come from different limiters
		window = t.hint.window
	}
	switch {
	case window != 0 && t.reset.fits(window, 1):
		return 1
	case window != 0 && t.reset.until.Sec >= 1000 && t.reset.fits(window, 1000): // no server that counts milliseconds sends less than a second
		return 1000
	case t.reset.drafts, window != 0, t.reset.fraction: // longer than the window in both units, or a fraction, which milliseconds lack
		return 1
	}
	return 0
}

// shareReset copies a reset without a policy to all limits with the same window.
func (ts *tallies) shareReset() {
	for i := range ts.list {
		from := &ts.list[i]
		for j := 0; from.shared && j < len(ts.list); j++ {
			t := &ts.list[j]
			if t.reset.kind == noMoment && t.window != 0 && t.window == from.window {
				t.reset = from.reset
			}
		}
	}
}
