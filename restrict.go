package ratelimit

import "slices"

// Restrict returns what an intermediary may say that enforces limits of its own
// (draft-11 Section 7.2): all that upstream says, never more permissive, and
// what own adds.
//
// Where both have a policy of the same name and partition key, the lower Quota
// is taken. Where both have such a limit, the lower Remaining and the longer Reset
// are taken; one that is Unknown or absent yields to one that is not. A client
// waits for the window of the policy where nothing remains and there is no Reset:
// that window then counts as a Reset. All else stays as upstream has it. Members
// that only one side has are kept, those of upstream first.
//
// A name that both use has to mean the same, or the numbers could not be
// compared. The error is a [*FieldError], and the result is upstream as it was:
//
//   - ErrConflict with Param "qu" or "w", where the policies of a name and
//     partition key differ in unit or window. Item is the index in own.Policies.
//   - ErrConflict with Field LimitField, where a limit would report on a policy
//     of another unit or window, or of a higher quota, or on none any more (see
//     [Fields.PolicyOf]), so that a client might go faster than before.
//   - ErrTooMany, where a field would have more than 1024 members.
//
// Nothing is to be added to an upstream field that is malformed: it would stay
// malformed. Such a field is best forwarded as it is. Work is linear in the
// number of members.
func Restrict(upstream, own Fields) (Fields, error) {
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
	}
	for _, side := range [...]Fields{upstream, own} {
		if i := changed(side, out); i >= 0 {
			return upstream, &FieldError{Field: LimitField, Offset: -1, Item: -1, Err: ErrConflict}
		}
	}
	return out, nil
}

// restrictPolicies returns the policies of upstream with the lower quotas, and
// those that own adds.
func restrictPolicies(upstream, own []Policy) ([]Policy, error) {
	first := make(map[identity]int, len(own)) // index in own
	least := make(map[identity]int64, len(own))
	for i := range own {
		p := &own[i]
		id := p.identity()
		if _, again := first[id]; !again {
			first[id], least[id] = i, p.Quota
		}
		least[id] = lower(least[id], p.Quota)
	}
	out := slices.Clone(upstream)
	known := make(map[identity]*Policy, len(out))
	for i := range out {
		p := &out[i]
		id := p.identity()
		if j, both := first[id]; both {
			if param := conflict(p, &own[j]); param != "" {
				return nil, conflictAt(j, param)
			}
			p.Quota = lower(p.Quota, least[id])
		}
		known[id] = p
	}
	joined := out
	for i := range own {
		p, both := known[own[i].identity()]
		if !both {
			joined = append(joined, own[i])
		} else if param := conflict(p, &own[i]); param != "" {
			return nil, conflictAt(i, param)
		}
	}
	return joined, nil
}

func conflictAt(i int, param string) *FieldError {
	return &FieldError{Field: PolicyField, Offset: -1, Item: i, Param: param, Err: ErrConflict}
}

// conflict returns the key of the parameter by which two policies of one name
// mean different things, "" if they mean the same.
func conflict(p, q *Policy) string {
	switch {
	case p.Unit.canonical() != q.Unit.canonical():
		return unitKey
	case p.Window != q.Window:
		return windowKey
	}
	return ""
}

// lower returns the lower of two numbers, of which Unknown is the highest.
func lower(a, b int64) int64 {
	if uint64(a) < uint64(b) {
		return a
	}
	return b
}

// restrictLimits returns the limits of upstream, lowered to those of own, and
// those that own adds.
func restrictLimits(upstream, own Fields) []Limit {
	ours := summarize(own)
	policies := newMatcher(upstream.Policies)
	known := make(map[identity]bool, len(upstream.Limits))
	out := slices.Clone(upstream.Limits)
	for i := range out {
		l := &out[i]
		id := l.identity()
		known[id] = true
		if s, both := ours[id]; both {
			s.add(l, policies.policy(l))
			l.Remaining, l.Reset = s.remaining, s.longest()
		}
	}
	for i := range own.Limits {
		if !known[own.Limits[i].identity()] {
			out = append(out, own.Limits[i])
		}
	}
	return out
}

// A summary is the strictest that limits of one identity say.
type summary struct {
	remaining int64   // the least
	reset     Seconds // the longest that is written
	wait      Seconds // the longest for which nothing remains
}

// summarize sums up the limits of each identity.
func summarize(f Fields) map[identity]summary {
	all := make(map[identity]summary, len(f.Limits))
	policies := newMatcher(f.Policies)
	for i := range f.Limits {
		l := &f.Limits[i]
		id := l.identity()
		s, again := all[id]
		if !again {
			s.remaining = Unknown
		}
		s.add(l, policies.policy(l))
		all[id] = s
	}
	return all
}

func (s *summary) add(l *Limit, p *Policy) {
	wait, _ := waitOf(l, p)
	s.remaining = lower(s.remaining, l.Remaining)
	s.reset = longer(s.reset, l.Reset)
	s.wait = longer(s.wait, wait)
}

// longest returns the longest reset. A wait for a window counts where a reset is
// written, which would take its place, and shorten it.
func (s *summary) longest() Seconds {
	if !s.reset.ok {
		return Seconds{}
	}
	return longer(s.reset, s.wait)
}

// changed returns the index of the first limit of f that reports on another
// policy in out, so that a client might go faster: on one of another unit or
// window, on one of a higher quota, or on none. It returns -1 if there is none.
func changed(f, out Fields) int {
	before, after := newMatcher(f.Policies), newMatcher(out.Policies)
	for i := range f.Limits {
		l := &f.Limits[i]
		p, q := before.policy(l), after.policy(l)
		had := p != &noPolicy
		if p.Unit.canonical() != q.Unit.canonical() || had && (q == &noPolicy || p.Window != q.Window || lower(p.Quota, q.Quota) != q.Quota) {
			return i
		}
	}
	return -1
}
