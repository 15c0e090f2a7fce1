package ratelimit

import (
	"cmp"
	"slices"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/text"
)

// Restrict joins the limits of upstream with the own limits of an intermediary (draft-11 Section
// 7.2). The result is never more permissive than upstream. For an http.Header, use
// [RestrictHeader].
//
// Two members with the same name and partition key become one. A policy gets the lower Quota, and the
// Window that is not absent. A limit gets the lower Remaining and the longer Reset. A known value
// replaces a value that is Unknown or absent. If exactly one of two limits has nothing remaining, its
// Reset counts, so that clients wait no longer than either side asks. If this Reset is 0, it becomes
// the pace of the other limit. Everything else comes from upstream. The members of own that are not
// joined follow the members of upstream.
//
// On error the result is upstream unchanged. The error comes from [Fields.Validate] for own, or is
// a [*FieldError]:
//
//   - ErrConflict with Param "qu" or "w", if two policies with the same name and partition
//     key differ in unit or window. Item is the index in own.Policies.
//   - ErrConflict with Field LimitField, if a limit would belong to no policy, or to one with
//     another unit or window or a higher quota. A client might then go faster.
//   - ErrTooMany, if a field would have more than 1024 members.
func Restrict(upstream, own Fields) (Fields, error) {
	if err := own.Validate(); err != nil {
		return upstream, err
	}
	return restrict(upstream, own)
}

// restrict is Restrict for a valid own.
func restrict(upstream, own Fields) (Fields, error) {
	var err error
	out := upstream
	out.Dialect, out.Guessed = cmp.Or(upstream.Dialect, own.Dialect), upstream.Guessed || own.Guessed
	out.Policies, err = joinLists(upstream.Policies, own.Policies, func(p *Policy, j int) error {
		if param := difference(p, &own.Policies[j]); param != "" {
			return &FieldError{Field: PolicyField, Offset: -1, Item: j, Param: param, Err: ErrConflict}
		}
		p.Quota, p.Window = lower(p.Quota, own.Policies[j].Quota), longer(p.Window, own.Policies[j].Window)
		return nil
	})
	if err != nil {
		return upstream, err
	}
	theirs, ours := newMatcher(upstream.Policies), newMatcher(own.Policies)
	out.Limits, _ = joinLists(upstream.Limits, own.Limits, func(l *Limit, j int) error {
		m := &own.Limits[j]
		l.restrict(theirs.policy(l), m, ours.policy(m))
		return nil
	})
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

// joinLists returns the members of upstream, each joined with the member of own that has the same
// identity. The other members of own follow. join gets a copy of the member of upstream, and the index
// of the member of own.
func joinLists[T any, M identified[T]](upstream, own []T, join func(m *T, j int) error) ([]T, error) {
	out := withRoom(upstream, len(own))
	var index map[identity]int // nil if own has few members
	if len(own) >= manyPolicies {
		index = make(map[identity]int, len(own))
		for j := range own {
			index[identify(M(&own[j]).nameAndKey())] = j
		}
	}
	joined := make([]bool, len(own))
	for i := range out {
		j := find(own, index, M(&out[i]))
		if j < 0 {
			continue
		}
		if err := join(&out[i], j); err != nil {
			return nil, err
		}
		joined[j] = true
	}
	for j := range own {
		if !joined[j] {
			out = append(out, own[j])
		}
	}
	return out, nil
}

// find returns the index of the member of list that has the identity of m, or -1. If index is not
// nil, it has the indices of all members.
func find[T any, M identified[T]](list []T, index map[identity]int, m M) int {
	if index != nil {
		if i, ok := index[identify(m.nameAndKey())]; ok {
			return i
		}
		return -1
	}
	name, key := m.nameAndKey() // an identity would copy the key
	for i := range list {
		if n, k := M(&list[i]).nameAndKey(); n == name && equalKey(k, key) {
			return i
		}
	}
	return -1
}

// difference returns the key of the parameter in which two policies with the same name conflict, or
// "".
func difference(p, q *Policy) string {
	switch {
	case p.Unit.Canonical() != q.Unit.Canonical():
		return draft.Unit
	case p.Window != q.Window && p.Window.ok && q.Window.ok:
		return draft.Window
	}
	return ""
}

// restrict lowers l, whose policy is p, to m, whose policy is q. If both are exhausted and only one has
// a Reset, the window of the other still counts, because a client of the other limit would wait for it.
func (l *Limit) restrict(p *Policy, m *Limit, q *Policy) {
	reset := longer(l.Reset, m.Reset)
	switch spent, alike := l.exhausted(p), l.exhausted(p) == m.exhausted(q); {
	case !alike && spent:
		reset = l.resetBeside(m, q)
	case !alike:
		reset = m.resetBeside(l, p)
	case reset.ok:
		wait, other := l.wait(p), m.wait(q)
		reset = longer(reset, longer(wait, other))
	}
	l.Remaining, l.Reset = lower(l.Remaining, m.Remaining), reset
}

// resetBeside returns the Reset of l joined with m. Nothing remains of l, and something of m. If l
// asks for no wait, the Reset is the pace of m, so that the client goes no faster.
func (l *Limit) resetBeside(m *Limit, q *Policy) Seconds {
	left := lower(m.Remaining, q.Quota)
	if l.Reset != SecondsOf(0) || left <= 0 || m.Reset.n <= 0 || !q.Unit.countsRequests() {
		return l.Reset
	}
	return SecondsOf(text.MulDivUp(uint64(m.Reset.n), 1, uint64(left)))
}

// changed reports whether a client might go faster with out than with f. In out, a limit of f then
// belongs to no policy, or to a policy with another unit or window or a higher quota.
func changed(f, out Fields) bool {
	before, after := newMatcher(f.Policies), newMatcher(out.Policies)
	return slices.ContainsFunc(f.Limits, func(l Limit) bool {
		p, q := before.policy(&l), after.policy(&l)
		return p.Unit.Canonical() != q.Unit.Canonical() ||
			p.Window.ok && p.Window != q.Window || lower(p.Quota, q.Quota) != q.Quota
	})
}

// sideBySide returns the members of both sides if a name has different meanings on them. A limit of
// requests on one side may have the name of a policy in another unit on the other side. If the limit
// has no policy of its own, it would be read in that unit, so the policy is dropped.
func sideBySide(upstream, own Fields) Fields {
	upstream, own = upstream.explicit(), own.explicit()
	f, g := upstream.without(&own), own.without(&upstream)
	f.Policies = f.Policies[:min(maxMembers-len(g.Policies), len(f.Policies))]
	f.Limits = f.Limits[:min(maxMembers-len(g.Limits), len(f.Limits))]
	f = f.Join(g)
	rank := func(p Policy) int {
		if p.Unit.countsRequests() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(f.Policies, func(p, q Policy) int { return rank(p) - rank(q) }) // the first policy with a name counts
	return f
}

// shareNames reports whether two members of a list have one name, whatever their partition keys.
func shareNames[T any, M identified[T]](list []T) bool {
	if len(list) < 2 {
		return false
	}
	seen := make(map[string]bool, len(list))
	for i := range list {
		name, _ := M(&list[i]).nameAndKey()
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// has reports whether f contains the members that sideBySide adds for own already. Because of has, a
// second gateway with the limits of the first gateway changes nothing.
func (f Fields) has(own Fields) bool {
	there := make(map[string]bool, len(f.Policies)+len(f.Limits))
	for _, p := range f.Policies {
		there[p.String()] = true
	}
	requests := map[string]bool{} // the names of limits of requests
	for l, p := range f.Pairs() {
		there[l.String()] = true
		requests[l.Name] = requests[l.Name] || p.Unit.countsRequests()
	}
	for _, p := range own.Policies {
		if dropped := !p.Unit.countsRequests() && requests[p.Name]; !dropped && !there[p.String()] {
			return false
		}
	}
	for _, l := range own.explicit().Limits {
		if !there[l.String()] {
			return false
		}
	}
	return true
}

// without returns f without the policies in other units that share a name with a limit of
// requests in g. A limit in g with a policy of its own identity does not count.
func (f Fields) without(g *Fields) Fields {
	policies := newMatcher(g.Policies)
	taken := make(map[string]bool, len(g.Limits))
	for i := range g.Limits {
		l := &g.Limits[i]
		if p := policies.policy(l); p.Unit.countsRequests() && identify(p.nameAndKey()) != identify(l.nameAndKey()) {
			taken[l.Name] = true
		}
	}
	f.Policies = slices.DeleteFunc(slices.Clone(f.Policies), func(p Policy) bool {
		return !p.Unit.countsRequests() && taken[p.Name]
	})
	return f
}
