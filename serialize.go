package ratelimit

import (
	"net/http"
	"strconv"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// AppendPolicies appends the value of the field RateLimit-Policy (draft-11 Section 3) to b, with
// the parameters in the order q, qu, w, pk, Params. On error it returns b unchanged. The error is a
// [*FieldError] with Offset -1, for the first policy that [Policy.Validate] rejects, or for the
// 1025th (ErrTooMany).
func AppendPolicies(b []byte, policies ...Policy) ([]byte, error) {
	return appendList(b, PolicyField, policies, false)
}

// AppendLimits appends the value of the field RateLimit (draft-11 Section 4) to b, as
// [AppendPolicies] does. The order of parameters is r, t, pk, Params.
func AppendLimits(b []byte, limits ...Limit) ([]byte, error) {
	return appendList(b, LimitField, limits, false)
}

// appendList appends the members of a field as a List (RFC 9651 Section 4.1.1). If partial is set,
// it leaves out numbers that are Unknown.
func appendList[T Policy | Limit](b []byte, field string, list []T, partial bool) ([]byte, error) {
	if len(list) > maxMembers {
		return b, &FieldError{Field: field, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	}
	out := b
	for i := range list {
		if i > 0 {
			out = append(out, separator...)
		}
		var param string
		var params Params
		var err error
		switch m := any(&list[i]).(type) { // through an interface method, out would escape
		case *Policy:
			out, param, err = m.append(out, partial)
			params = m.Params
		case *Limit:
			out, param, err = m.append(out, partial)
			params = m.Params
		}
		if err != nil {
			return b, &FieldError{Field: field, Line: max(params.index(param), 0), Offset: -1, Item: i, Param: param, Err: err}
		}
	}
	return out, nil
}

const usualLine = 128 // bytes, room for most fields

// FormatPolicies returns the text that [AppendPolicies] appends, "" on error.
func FormatPolicies(policies ...Policy) (string, error) {
	var room [usualLine]byte
	b, err := appendList(room[:0], PolicyField, policies, false)
	return string(b), err
}

// FormatLimits returns the text that [AppendLimits] appends, "" on error.
func FormatLimits(limits ...Limit) (string, error) {
	var room [usualLine]byte
	b, err := appendList(room[:0], LimitField, limits, false)
	return string(b), err
}

// Set writes f to h as the fields RateLimit-Policy and RateLimit, each in one line. It replaces
// both fields, and deletes a field without members in f. Never write the fields to trailers
// (draft-11 Sections 3.1 and 4.1). On a redirection the fields may keep a client from following it
// (draft-11 Section 6).
//
// On error h is unchanged. The error comes from [AppendPolicies] or [AppendLimits]. A nil h is an
// error too, unless f has no members. Call [Fields.Writable] first if f was read from older fields.
func (f Fields) Set(h http.Header) error { return f.write(h, setLine) }

// Add adds a line to each of the two fields, for a second limiter. It returns the errors of
// [Fields.Set]. If a line of h is malformed, clients ignore the new line too. If both limiters may
// announce the same policy, use [Restrict], [RestrictHeader] or nested Handlers of package
// announce.
func (f Fields) Add(h http.Header) error { return f.write(h, addLine) }

// write calls line for each field, or writes nothing on error.
func (f *Fields) write(h http.Header, line func(h http.Header, key string, line []string)) error {
	var room [2 * usualLine]byte
	b, n, err := f.append(room[:0])
	if err != nil {
		return err
	}
	if h == nil && len(b) > 0 {
		return errNilHeader
	}
	both := string(b)
	lines := []string{both[:n], both[n:]}
	line(h, draft.PolicyKey, lines[:1:1])
	line(h, draft.LimitKey, lines[1:])
	return nil
}

// append appends the values of both fields to b. The value of RateLimit begins at n.
func (f *Fields) append(b []byte) (out []byte, n int, err error) {
	if b, err = appendList(b, PolicyField, f.Policies, false); err != nil {
		return nil, 0, err
	}
	out, err = appendList(b, LimitField, f.Limits, false)
	return out, len(b), err
}

// append appends p to b as an Item (RFC 9651 Section 4.1.3). On error it returns the key of the
// parameter that cannot be written, and the cause. partial is as in appendList.
func (p *Policy) append(b []byte, partial bool) ([]byte, string, error) {
	b, ok := sf.AppendString(b, p.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	switch {
	case sf.IsInteger(p.Quota, 0):
		b = append(b, ";"+draft.Quota+"="...)
		b = strconv.AppendUint(b, uint64(p.Quota), 10)
	case !partial || p.Quota != Unknown:
		return nil, draft.Quota, ErrRange
	}
	written := 1
	if p.Unit != "" {
		b = append(b, ";"+draft.Unit+"="...)
		if b, ok = sf.AppendString(b, string(p.Unit)); !ok {
			return nil, draft.Unit, ErrSyntax
		}
		written++
	}
	if p.Window.ok {
		if !sf.IsInteger(p.Window.n, draft.MinWindow) {
			return nil, draft.Window, ErrRange
		}
		b = append(b, ";"+draft.Window+"="...)
		b = strconv.AppendUint(b, uint64(p.Window.n), 10)
		written++
	}
	if p.PartitionKey != nil {
		b = append(b, ";"+draft.PartitionKey+"="...)
		b = sf.AppendBytes(b, p.PartitionKey)
		written++
	}
	return p.Params.append(b, draft.Policies, written)
}

// append appends l to b, as [Policy.append] does.
func (l *Limit) append(b []byte, partial bool) ([]byte, string, error) {
	b, ok := sf.AppendString(b, l.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	switch {
	case sf.IsInteger(l.Remaining, 0):
		b = append(b, ";"+draft.Remaining+"="...)
		b = strconv.AppendUint(b, uint64(l.Remaining), 10)
	case !partial || l.Remaining != Unknown:
		return nil, draft.Remaining, ErrRange
	}
	written := 1
	if l.Reset.ok {
		if !sf.IsInteger(l.Reset.n, 0) {
			return nil, draft.Reset, ErrRange
		}
		b = append(b, ";"+draft.Reset+"="...)
		b = strconv.AppendUint(b, uint64(l.Reset.n), 10)
		written++
	}
	if l.PartitionKey != nil {
		b = append(b, ";"+draft.PartitionKey+"="...)
		b = sf.AppendBytes(b, l.PartitionKey)
		written++
	}
	return l.Params.append(b, draft.Limits, written)
}

// append appends extension parameters (RFC 9651 Section 4.1.1.2). written is the number of
// parameters before them.
func (ps Params) append(b []byte, field *draft.Field, written int) ([]byte, string, error) {
	if written+len(ps) > maxParams {
		return nil, "", ErrTooMany
	}
	var known map[string]int // the indices of ps by key
	for i := range ps {
		p := &ps[i]
		switch {
		case !text.IsKey(p.Key):
			return nil, p.Key, ErrSyntax
		case field.Find(p.Key) != nil || ps[:i].find(p.Key, &known) >= 0:
			return nil, p.Key, ErrDuplicate
		}
		b = append(b, ';')
		b = append(b, p.Key...)
		if p.Value == true {
			continue
		}
		var err error
		if b, err = sf.AppendValue(append(b, '='), p.Value); err != nil {
			return nil, p.Key, err
		}
	}
	return b, "", nil
}

// memberText returns a member of a field as text, without numbers that are Unknown.
func memberText[T Policy | Limit](m *T, field string) (string, error) {
	b, err := appendList(nil, field, []T{*m}, true)
	return string(b), err
}

// memberString returns the String of a member.
func memberString[T Policy | Limit](m *T, field string) string {
	s, err := memberText(m, field)
	if err != nil {
		return "<invalid: " + err.Error() + ">" // no member begins with "<"
	}
	return s
}

// Validate returns nil if p can be written as a member of RateLimit-Policy. Otherwise it
// returns a [*FieldError] with Offset -1 for the first rule that p breaks:
//
//   - Name and Unit are printable ASCII (ErrSyntax).
//   - Quota is from 0 to MaxInteger, and Window is absent or from 1 (ErrRange).
//   - There are at most 256 parameters, including parameters with a struct field (ErrTooMany).
//   - Keys in Params are legal (ErrSyntax), distinct, and not q, qu, w or pk (ErrDuplicate).
//   - Values in Params are as [Param] describes (ErrType, ErrSyntax, ErrRange).
func (p Policy) Validate() error {
	_, err := AppendPolicies(nil, p)
	return err
}

// String returns p as a member of RateLimit-Policy, without an [Unknown] Quota. If
// [Policy.Validate] rejects p, the text is not a valid member.
func (p Policy) String() string { return memberString(&p, PolicyField) }

// Validate returns nil if l can be written as a member of RateLimit, by the rules of
// [Policy.Validate]: Remaining and Reset are from 0, and no key in Params is r, t or pk.
func (l Limit) Validate() error {
	_, err := AppendLimits(nil, l)
	return err
}

// String returns l as a member of RateLimit, as [Policy.String] does.
func (l Limit) String() string { return memberString(&l, LimitField) }
