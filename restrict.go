package ratelimit

import "slices"

// Restrict returns what an intermediary may say that enforces limits of its own
// (draft-11 Section 7.2): all that upstream says, never more permissive, and what own
// adds.
//
// Of policies with one name and partition key the lower Quota is taken, and the Window
// of the one that has one. Of such limits the lower Remaining and the longer Reset are
// taken; one that is Unknown or absent yields to one that is not, and the window of a
// policy counts as the Reset of a limit with nothing remaining. All else stays as
// upstream has it. Members that only one side has are kept, those of upstream first.
// Forward a malformed field of upstream as it is.
//
// The error is a [*FieldError], and the result is then upstream as it was:
//
//   - That of [Fields.Validate], if own does not validate.
//   - ErrConflict with Param "qu" or "w", if policies of one name and partition key
//     differ in unit, or in a window that both have. Item is the index in own.Policies.
//   - ErrConflict with Field LimitField, if a limit would report on a policy of another
//     unit or window, of a higher quota, or on none any more, so that a client might go
//     faster.
//   - ErrTooMany, if a field would have more than 1024 members.
func Restrict(upstream, own Fields) (Fields, error) {
	if err := own.Validate(); err != nil {
		return upstream, err
	}
	out := upstream
	if out.Dialect == "" {
		out.Dialect = own.Dialect
	}
	out.Guessed = upstream.Guessed || own.Guessed
	var err error
	if out.Policies, err = restrictPolicies(upstream.Policies, own.Policies); err != nil {
		return upstream, err
	}
	out.Limits = restrictLimits(upstream, own)
	switch {
	case len(out.Policies) > maxMembers:
		return upstream, &FieldError{Field: PolicyField, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	case len(out.Limits) > maxMembers:
		return upstream, &FieldError{Field: LimitField, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	case changed(upstream, out) || changed(own, out):
		return upstream, &FieldError{Field: LimitField, Offset: -1, Item: -1, Err: ErrConflict}
	}
	return out, nil
}

// restrictPolicies returns the policies of upstream with the lower quotas, and
// those that own adds.
func restrictPolicies(upstream, own []Policy) ([]Policy, error) {
	index := make(map[identity]int, len(own))
	for i := range own {
		index[own[i].identity()] = i
	}
	out := slices.Clone(upstream)
	joined := make([]bool, len(own))
	for i := range out {
		p := &out[i]
		j, both := index[p.identity()]
		if !both {
			continue
		}
		if param := difference(p, &own[j]); param != "" {
			return nil, &FieldError{Field: PolicyField, Offset: -1, Item: j, Param: param, Err: ErrConflict}
		}
		p.Quota, p.Window = lower(p.Quota, own[j].Quota), longer(p.Window, own[j].Window)
		joined[j] = true
	}
	for j := range own {
		if !joined[j] {
			out = append(out, own[j])
		}
	}
	return out, nil
}

// difference returns the key of the parameter by which two policies of one name
// mean different things, "" if they mean the same.
func difference(p, q *Policy) string {
	switch {
	case p.Unit.canonical() != q.Unit.canonical():
		return unitKey
	case p.Window != q.Window && p.Window.ok && q.Window.ok:
		return windowKey
	}
	return ""
}

// restrictLimits returns the limits of upstream, lowered to those of own, and
// those that own adds.
func restrictLimits(upstream, own Fields) []Limit {
	theirs, ours := newMatcher(upstream.Policies), newMatcher(own.Policies)
	index := make(map[identity]int, len(own.Limits))
	for i := range own.Limits {
		index[own.Limits[i].identity()] = i
	}
	out := slices.Clone(upstream.Limits)
	joined := make([]bool, len(own.Limits))
	for i := range out {
		l := &out[i]
		if j, both := index[l.identity()]; both {
			l.restrict(theirs.policy(l), &own.Limits[j], ours.policy(&own.Limits[j]))
			joined[j] = true
		}
	}
	for j := range own.Limits {
		if !joined[j] {
			out = append(out, own.Limits[j])
		}
	}
	return out
}

// restrict lowers l, whose policy is p, to m, whose policy is q. A client that waits for
// a window, because nothing remains and there is no Reset, must not wait less when a
// Reset takes its place.
func (l *Limit) restrict(p *Policy, m *Limit, q *Policy) {
	reset := longer(l.Reset, m.Reset)
	if reset.ok {
		before := l.wait(p)
		after := m.wait(q)
		reset = longer(reset, longer(before, after))
	}
	l.Remaining, l.Reset = lower(l.Remaining, m.Remaining), reset
}

// changed reports whether a limit of f reports on another policy in out, so that a
// client might go faster: on one of another unit or window, on one of a higher
// quota, or on none.
func changed(f, out Fields) bool {
	before, after := newMatcher(f.Policies), newMatcher(out.Policies)
	return slices.ContainsFunc(f.Limits, func(l Limit) bool {
		p, q := before.policy(&l), after.policy(&l)
		return p.Unit.canonical() != q.Unit.canonical() ||
			p.Window.ok && p.Window != q.Window || lower(p.Quota, q.Quota) != q.Quota
	})
}
