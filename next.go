package ratelimit

import (
	"cmp"
	"slices"
	"strings"
)

// The form of the draft that follows draft-11 is read here, for ParseAny and Advise. A
// response has it if a member of its RateLimit has a and no r, which no other form has.

// parseNextLimits reads RateLimit in the form of the next draft. A member with r is one
// of draft-11, whatever else it has. The result is nil if no member has the new form,
// or if the field is malformed.
func parseNextLimits(lines []string) []Limit {
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, nextRemainingKey+"=") }) {
		return nil // nearly all that are not in the current form either
	}
	limits, faults, err := parseEach[Limit](limitField, lines)
	if err != nil {
		return nil
	}
	moved, movedFaults, err := parseEach[Limit](nextLimitField, lines)
	if err != nil {
		return nil
	}
	found := false
	for i, fault := range faults {
		switch {
		case fault == nil:
		case fault.Err == ErrMissing && movedFaults[i] == nil:
			found = true
			limits[i] = moved[i]
			limits[i].Params = slices.DeleteFunc(limits[i].Params, reserved) // which no Limit can carry
		default:
			return nil
		}
	}
	if !found {
		return nil
	}
	return limits
}

// reserved reports whether a parameter has a key that draft-11 defines for RateLimit.
func reserved(p Param) bool { return limitField.find(p.Key) != nil }

// parseNext returns the limits and the policies of a response in the form of the next
// draft, in which a policy that breaks a rule is ignored alone.
func parseNext(limits []Limit, policyLines []string) (f Fields, faults []*FieldError) {
	f = Fields{Limits: limits, Dialect: nextDialect}
	policies, each, err := parseEach[Policy](policyField, policyLines)
	if err != nil {
		faults = []*FieldError{err}
	}
	for i, fault := range each {
		if fault != nil {
			faults = append(faults, fault)
		} else {
			f.Policies = append(f.Policies, policies[i])
		}
	}
	f.unify()
	return f, faults
}

// unify gives one spelling to names that differ by case alone, which the next draft
// takes for one name: that of the first limit, since a client is told that one. Of
// members that are then the same the tightest counts.
func (f *Fields) unify() {
	spellings := make(map[string]string, len(f.Limits))
	spell := func(name *string) {
		id := nextNameID(*name)
		if _, again := spellings[id]; !again {
			spellings[id] = *name
		}
		*name = spellings[id]
	}
	for i := range f.Limits {
		spell(&f.Limits[i].Name)
	}
	for i := range f.Policies {
		spell(&f.Policies[i].Name)
	}
	f.Limits = tightestOfEach(f.Limits, func(l, m *Limit) int {
		return cmp.Or(cmp.Compare(l.Remaining, m.Remaining), cmp.Compare(m.Reset.n, l.Reset.n))
	})
	f.Policies = tightestOfEach(f.Policies, func(p, q *Policy) int {
		return cmp.Or(cmp.Compare(p.Quota, q.Quota), cmp.Compare(q.Window.n, p.Window.n))
	})
}

// tightestOfEach returns the list with one member for each identity, at the place of the
// first: the least of them by a comparison.
func tightestOfEach[T any, M interface {
	*T
	identity() identity
}](list []T, compare func(a, b M) int) []T {
	index := make(map[identity]int, len(list))
	firsts := list[:0]
	for i := range list {
		id := M(&list[i]).identity()
		at, again := index[id]
		switch {
		case !again:
			index[id] = len(firsts)
			firsts = append(firsts, list[i])
		case compare(&list[i], &firsts[at]) < 0:
			firsts[at] = list[i]
		}
	}
	return firsts
}

// parseEach reads the lines of a field as the next draft does: names may be Tokens, and
// members are judged one by one. Where one breaks a rule of the field, there is a zero
// member in the list, and the fault at the same index. The error is that of lines that
// are no List of Items, or have more than 1024; then there is nothing else.
func parseEach[T Policy | Limit](field *fieldDef, lines []string) (list []T, faults []*FieldError, err *FieldError) {
	p := parser{field: field, most: maxMembers, item: -1, tokens: true}
	for joined := join(lines); ; {
		ok := p.next(joined)
		if !ok && p.err == nil {
			return list, faults, nil
		}
		list, faults = append(list, *new(T)), append(faults, nil)
		if !ok {
			fault := unjoin(p.fieldError(), lines).(*FieldError)
			if !p.complete() {
				return nil, nil, fault
			}
			faults[p.item], p.err = fault, nil
			continue
		}
		switch m := any(&list[p.item]).(type) {
		case *Policy:
			p.member.policy(m)
		case *Limit:
			p.member.limit(m)
		}
	}
}

// complete reports whether the member with a fault is well-formed nevertheless, so that
// the parser stands behind it and can go on.
func (p *parser) complete() bool {
	return p.err != ErrSyntax && (p.i == len(p.Text) || p.Text[p.i] == ',')
}
