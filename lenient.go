package ratelimit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// ParseAny and Advise also read fields that the strict parser refuses. These are malformed fields
// that servers in use write, and the form of the draft that follows draft-11.

// parseBeside reads RateLimit-Policy if RateLimit is well-formed.
func parseBeside(lines []string) ([]Policy, []*FieldError) {
	policies, err := ParsePolicies(lines...)
	if err == nil {
		return policies, nil
	}
	if line, found := secondNames(lines); found {
		if policies, err := ParsePolicies(line); err == nil {
			return policies, nil
		}
	}
	return nil, []*FieldError{err.(*FieldError)}
}

// secondNames drops the first of two names: "fixed window";"api";q=500 is the policy api
// (Hugging Face). found reports whether it has dropped any.
func secondNames(lines []string) (line string, found bool) {
	var members []string
	for rest := strings.Join(lines, separator); text.Trim(rest) != ""; {
		var one string
		one, rest, _ = text.Cut(rest, ',')
		_, params, _ := text.Cut(one, ';')
		if second := text.Trim(params); second != "" && second[0] == '"' {
			one, found = second, true
		}
		members = append(members, one)
	}
	return strings.Join(members, separator), found
}

// readCurrent reads a field in the current form. If the strict parser refuses the field, it is read
// leniently. Names may be Tokens, and a partition key a String. Numbers may be Decimals. r may be
// missing, w may be 0, and list elements may be empty. If that fails too, the error comes from the
// strict parser.
func readCurrent[T Policy | Limit](lines []string, field *draft.Field) (list []T, lenient bool, err error) {
	if list, err = parseList[T](field, lines); err == nil {
		return list, false, nil
	}
	for rest := strings.Join(lines, separator); rest != ""; {
		var item string
		var ok bool
		item, rest, ok = text.Cut(rest, ',')
		if text.Trim(item) == "" {
			continue // an empty element of a list is ignored (RFC 9110 Section 5.6.1.2)
		}
		m := member{num: [draft.IntegerSlots]int64{draft.AmountSlot: Unknown}}
		if !ok || len(list) == maxMembers || !m.read(item, field) {
			return nil, false, err
		}
		list = append(list, *new(T))
		m.store(&list[len(list)-1])
	}
	if list == nil {
		return nil, false, err
	}
	return list, true, nil
}

// addCurrent adds a field in the current form.
func (f *Fields) addCurrent(c *older.Field) []*FieldError {
	var own, lenient bool
	var err error
	if c.Role == older.Policies {
		var policies []Policy
		policies, lenient, err = readCurrent[Policy](c.Lines, draft.Policies)
		for i := range policies {
			policies[i].Unit = cmp.Or(policies[i].Unit, Unit(c.Unit))
		}
		f.Policies, own = append(f.Policies, policies...), strings.EqualFold(c.Key, draft.PolicyKey)
	} else {
		var limits []Limit
		limits, lenient, err = readCurrent[Limit](c.Lines, draft.Limits)
		f.Limits, own = append(f.Limits, limits...), strings.EqualFold(c.Key, draft.LimitKey)
	}
	form := c.Form
	switch {
	case err != nil:
		e := err.(*FieldError)
		e.Field = fieldName(c.Key)
		return []*FieldError{e}
	case own && lenient:
		form = draft.Lenient
	case own:
		form = draft.Current
	}
	if f.Dialect == "" || f.Dialect == draft.Current {
		f.Dialect = form
	}
	return nil
}

// read reads a member leniently.
func (m *member) read(item string, field *draft.Field) (ok bool) {
	name, params, _ := text.Cut(item, ';')
	if m.name, ok = nameItem(text.Trim(name)); !ok {
		return false
	}
	for n := 0; params != ""; n++ {
		var one string
		one, params, ok = text.Cut(params, ';')
		key, value, valued := strings.Cut(text.Trim(one), "=")
		if !ok || n == maxParams || !text.IsKey(key) || !m.readParam(field.Find(key), key, value, valued) {
			return false
		}
	}
	return m.num[draft.AmountSlot] != Unknown || field == draft.Limits && m.seen != 0
}

// readParam reads a parameter leniently. def is nil if the parameter is not defined. A number
// below the least allowed value counts as absent.
func (m *member) readParam(def *draft.Param, key, value string, valued bool) (ok bool) {
	if def == nil || !valued {
		var v any = true
		if valued {
			item, form := sf.Scan(value)
			if form == sf.None {
				return false
			}
			v = item.Value(form)
		}
		m.setParam(key, v)
		return def == nil
	}
	switch def.Slot {
	case draft.UnitSlot:
		m.unit, ok = nameItem(value)
	case draft.KeySlot:
		if item, form := sf.Scan(value); form == sf.Bytes {
			m.key, ok = item.Bytes, true
		} else {
			var s string
			s, ok = nameItem(value)
			m.key = []byte(s)
		}
	default:
		v, isNumber := text.ParseNumber(text.Unquote(value))
		n := v.Ceil()
		if def.Slot == draft.AmountSlot {
			n = v.Floor()
		}
		if ok = isNumber && !v.Neg; ok && n >= def.Least {
			m.num[def.Slot] = n
			m.seen |= 1 << def.Slot
		}
	}
	return ok
}

// nameItem returns the content of a String or a Token.
func nameItem(s string) (string, bool) {
	item, form := sf.Scan(s)
	if form == sf.String {
		return item.String, true
	}
	token, ok := item.Other.(httpsfv.Token)
	return string(token), ok && form == sf.Other
}

// parseNextLimits reads RateLimit in the form of the next draft. Only that form has members with a
// and without r. The result is nil if there is no such member, or if the field is malformed.
func parseNextLimits(lines []string) (next []Limit) {
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, draft.NextRemaining+"=") }) {
		return nil // a fast path for nearly all fields
	}
	limits, faults, err := parseEach[Limit](draft.Limits, lines)
	moved, movedFaults, movedErr := parseEach[Limit](draft.NextLimits, lines)
	if err != nil || movedErr != nil {
		return nil
	}
	for i, fault := range faults {
		switch {
		case fault == nil:
		case fault.Err == ErrMissing && movedFaults[i] == nil:
			next = limits
			limits[i] = moved[i]
			limits[i].Params = slices.DeleteFunc(limits[i].Params, func(p Param) bool { // a Limit cannot contain these
				return draft.Limits.Find(p.Key) != nil
			})
		default:
			return nil
		}
	}
	return next
}

// parseNext joins limits in the form of the next draft with the policies that break no rule.
func parseNext(limits []Limit, policyLines []string) (f Fields, faults []*FieldError) {
	f = Fields{Limits: limits, Dialect: draft.Next}
	policies, each, err := parseEach[Policy](draft.Policies, policyLines)
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

// unify gives names that differ only by case the spelling of the first limit, because the next draft
// compares names without case. If several members have one name, the tightest member counts.
func (f *Fields) unify() {
	spellings := make(map[string]string, len(f.Limits))
	spell := func(name *string) {
		id := strings.ToLower(*name)
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

// tightestOfEach keeps one of the members with the same identity: the least one by compare. It takes
// the place of the first one.
func tightestOfEach[T any, M identified[T]](list []T, compare func(a, b M) int) []T {
	index := make(map[identity]int, len(list))
	firsts := list[:0]
	for i := range list {
		id := identify(M(&list[i]).nameAndKey())
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

// parseEach reads the lines of a field by the rules of the next draft: names may be Tokens, and
// each member is checked separately. A member that breaks a rule is zero, and faults has its fault
// at the same index. If the lines are not a List of at most 1024 Items, only err is set.
func parseEach[T Policy | Limit](field *draft.Field, lines []string) (list []T, faults []*FieldError, err *FieldError) {
	p := parser{Scanner: sf.Scanner{Text: strings.Join(lines, separator)}, field: field, item: -1, tokens: true}
	for p.next() || p.err != nil {
		list, faults = append(list, *new(T)), append(faults, nil)
		if p.err == nil {
			p.member.store(&list[p.item])
			continue
		}
		faults[p.item] = p.fieldError(lines)
		if p.err == ErrSyntax || p.i < len(p.Text) && p.Text[p.i] != ',' {
			return nil, nil, faults[p.item] // the parser has not reached the end of the member
		}
		p.err = nil
	}
	return list, faults, nil
}
