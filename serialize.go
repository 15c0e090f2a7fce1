package ratelimit

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"github.com/httpfields/ratelimit/internal/text"
)

// AppendPolicies appends the value of the field RateLimit-Policy (draft-11
// Section 3) to b, and returns the result. The members are joined by ", "; the
// parameters of each stand in the order q, qu, w, pk, and then as in Params.
// Without policies it appends nothing.
//
// On error it returns b as it was. The error is a [*FieldError] with Offset -1,
// about the first policy that [Policy.Validate] refuses, or about the first
// that is too many: a field may have 1024 members (ErrTooMany).
func AppendPolicies(b []byte, policies ...Policy) ([]byte, error) {
	return appendList(b, PolicyField, policies)
}

// AppendLimits appends the value of the field RateLimit (draft-11 Section 4) to
// b, and returns the result. The members are joined by ", "; the parameters of
// each stand in the order r, t, pk, and then as in Params. Without limits it
// appends nothing.
//
// On error it returns b as it was. The error is a [*FieldError] with Offset -1,
// about the first limit that [Limit.Validate] refuses, or about the first that
// is too many: a field may have 1024 members (ErrTooMany).
func AppendLimits(b []byte, limits ...Limit) ([]byte, error) {
	return appendList(b, LimitField, limits)
}

// A writer is a pointer to a member that can be written.
type writer[T any] interface {
	*T
	// append appends the member to b, or returns the key of the parameter that
	// cannot be written, and the cause. With partial set, it leaves out a
	// required number that is Unknown, for texts that nobody parses as a
	// member.
	append(b []byte, partial bool) (out []byte, param string, err error)
}

// appendList appends the members of a field as a List (RFC 9651 Section 4.1.1).
func appendList[T any, W writer[T]](b []byte, field string, list []T) ([]byte, error) {
	if len(list) > maxMembers {
		return b, &FieldError{Field: field, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	}
	out := b
	for i := range list {
		if i > 0 {
			out = append(out, ", "...)
		}
		var param string
		var err error
		out, param, err = W(&list[i]).append(out, false)
		if err != nil {
			return b, &FieldError{Field: field, Offset: -1, Item: i, Param: param, Err: err}
		}
	}
	return out, nil
}

// usualLine is room for most fields.
const usualLine = 64

// FormatPolicies returns the value of the field RateLimit-Policy (draft-11
// Section 3), or "" if there are no policies. The members are joined by ", ";
// the parameters of each stand in the order q, qu, w, pk, and then as in
// Params.
//
// On error it returns "". The error is a [*FieldError] with Offset -1, about
// the first policy that [Policy.Validate] refuses, or about the first that is
// too many: a field may have 1024 members (ErrTooMany).
func FormatPolicies(policies ...Policy) (string, error) {
	b, err := AppendPolicies(make([]byte, 0, usualLine), policies...)
	return string(b), err
}

// FormatLimits returns the value of the field RateLimit (draft-11 Section 4),
// or "" if there are no limits. The members are joined by ", "; the parameters
// of each stand in the order r, t, pk, and then as in Params.
//
// On error it returns "". The error is a [*FieldError] with Offset -1, about
// the first limit that [Limit.Validate] refuses, or about the first that is too
// many: a field may have 1024 members (ErrTooMany).
func FormatLimits(limits ...Limit) (string, error) {
	b, err := AppendLimits(make([]byte, 0, usualLine), limits...)
	return string(b), err
}

var errNilHeader = errors.New("ratelimit: nil http.Header")

// setLine sets a field to one line, or deletes it if the line is empty, because
// both fields are Lists and an empty List is not written (RFC 9651
// Section 4.1).
func setLine(h http.Header, key, line string) {
	if line == "" {
		delete(h, key)
		return
	}
	h[key] = []string{line}
}

// addLine adds a line to a field, unless the line is empty.
func addLine(h http.Header, key, line string) {
	old := h[key]
	switch {
	case line == "":
	case len(old) == 0 || len(old) == 1 && text.All(old[0], text.Space):
		setLine(h, key, line) // a blank line and another are not a List, only a blank line alone is
	default:
		h[key] = append(old, line)
	}
}

// append appends p as an Item (RFC 9651 Section 4.1.3); see writer.
func (p *Policy) append(b []byte, partial bool) ([]byte, string, error) {
	b, ok := appendString(b, p.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	switch {
	case isInteger(p.Quota, 0):
		b = append(b, ";"+quotaKey+"="...)
		b = appendInteger(b, uint64(p.Quota))
	case !partial || p.Quota != Unknown:
		return nil, quotaKey, ErrRange
	}
	written := 1
	if p.Unit != "" {
		b = append(b, ";"+unitKey+"="...)
		if b, ok = appendString(b, string(p.Unit)); !ok {
			return nil, unitKey, ErrSyntax
		}
		written++
	}
	if p.Window.ok {
		if !isInteger(p.Window.n, minWindow) {
			return nil, windowKey, ErrRange
		}
		b = append(b, ";"+windowKey+"="...)
		b = appendInteger(b, uint64(p.Window.n))
		written++
	}
	if p.PartitionKey != nil {
		b = append(b, ";"+partitionKey+"="...)
		b = appendBytes(b, p.PartitionKey)
		written++
	}
	return p.Params.append(b, policyField, written)
}

// append appends l as an Item (RFC 9651 Section 4.1.3); see writer.
func (l *Limit) append(b []byte, partial bool) ([]byte, string, error) {
	b, ok := appendString(b, l.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	switch {
	case isInteger(l.Remaining, 0):
		b = append(b, ";"+remainingKey+"="...)
		b = appendInteger(b, uint64(l.Remaining))
	case !partial || l.Remaining != Unknown:
		return nil, remainingKey, ErrRange
	}
	written := 1
	if l.Reset.ok {
		if !isInteger(l.Reset.n, 0) {
			return nil, resetKey, ErrRange
		}
		b = append(b, ";"+resetKey+"="...)
		b = appendInteger(b, uint64(l.Reset.n))
		written++
	}
	if l.PartitionKey != nil {
		b = append(b, ";"+partitionKey+"="...)
		b = appendBytes(b, l.PartitionKey)
		written++
	}
	return l.Params.append(b, limitField, written)
}

// append appends the parameters that the field does not define (RFC 9651
// Section 4.1.1.2) to a member that has that many defined ones already.
func (ps Params) append(b []byte, field *fieldDef, written int) ([]byte, string, error) {
	if written+len(ps) > maxParams {
		return nil, "", ErrTooMany
	}
	var seen map[string]bool // keys, if there are many: a search for each would take quadratic time
	if len(ps) > manyParams {
		seen = make(map[string]bool, len(ps))
	}
	for i := range ps {
		p := &ps[i]
		switch {
		case !text.IsKey(p.Key):
			return nil, p.Key, ErrSyntax
		case field.find(p.Key) != nil || seen[p.Key] || seen == nil && ps[:i].index(p.Key) >= 0:
			return nil, p.Key, ErrDuplicate
		}
		if seen != nil {
			seen[p.Key] = true
		}
		b = append(b, ';')
		b = append(b, p.Key...)
		if p.Value == true {
			continue
		}
		var err error
		if b, err = appendValue(append(b, '='), p.Value); err != nil {
			return nil, p.Key, err
		}
	}
	return b, "", nil
}

// appendValue appends the value of an extension parameter as a bare item
// (RFC 9651 Section 4.1.3.1).
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		if !isInteger(v, -MaxInteger) {
			return nil, ErrRange
		}
		return strconv.AppendInt(b, v, 10), nil
	case string:
		b, ok := appendString(b, v)
		if !ok {
			return nil, ErrSyntax
		}
		return b, nil
	case []byte:
		return appendBytes(b, v), nil
	default:
		s, err := formatOther(v)
		return append(b, s...), err
	}
}

// appendString appends s as a String (RFC 9651 Section 4.1.6), and reports
// whether it can be one.
func appendString(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		i := text.Skip(s, 0, text.Plain)
		b = append(b, s[:i]...)
		switch {
		case i == len(s):
			return append(b, '"'), true
		case s[i] != '"' && s[i] != '\\':
			return nil, false
		}
		b = append(b, '\\', s[i])
		s = s[i+1:]
	}
}

// appendInteger appends n as an Integer (RFC 9651 Section 4.1.4). Most of the
// values that are written are small Integers, and this takes half the time of
// package strconv.
func appendInteger(b []byte, n uint64) []byte {
	if n < 10 {
		return append(b, '0'+byte(n))
	}
	if n >= 100 {
		b = appendInteger(b, n/100)
		n %= 100
	}
	return append(b, '0'+byte(n/10), '0'+byte(n%10))
}

// appendBytes appends v as a Byte Sequence (RFC 9651 Section 4.1.8).
func appendBytes(b, v []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, ':')
}

// formatOther lets httpsfv write a bare item. It refuses the values that
// httpsfv would write wrongly, or on which it would panic.
func formatOther(v any) (string, error) {
	switch v := v.(type) {
	case bool, httpsfv.Token:
	case float64:
		if math.IsNaN(v) {
			return "", ErrRange
		}
		return formatDecimal(v)
	case time.Time:
		if !isInteger(v.Unix(), -MaxInteger) {
			return "", ErrRange
		}
	case httpsfv.DisplayString:
		if !utf8.ValidString(string(v)) {
			return "", ErrSyntax
		}
	default:
		return "", ErrType
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrSyntax
	}
	return s, nil
}

// formatDecimal writes v as a Decimal, rounded to thousandths, half to even
// (RFC 9651 Section 4.1.5). It rounds v itself: httpsfv multiplies by a
// thousand before it rounds, which is not exact, and writes a negative number
// that rounds to 0 as -0.0.
func formatDecimal(v float64) (string, error) {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64)
	if v == 0 {
		v = 0 // in place of -0, which is equal to it
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrRange
	}
	return s, nil
}

// A memberJSON is a Policy or a Limit in JSON. A quota or a remaining that is
// missing is Unknown, not 0.
type memberJSON struct {
	Name         string  `json:"name"`
	Quota        *int64  `json:"quota,omitempty"`
	Unit         Unit    `json:"unit,omitempty"`
	Window       Seconds `json:"window,omitzero"`
	Remaining    *int64  `json:"remaining,omitempty"`
	Reset        Seconds `json:"reset,omitzero"`
	PartitionKey []byte  `json:"partition_key,omitzero"`
	Params       Params  `json:"params,omitempty"`
}

// known returns a pointer to n, or nil if n is Unknown.
func known(n int64) *int64 {
	if n == Unknown {
		return nil
	}
	return &n
}

// orUnknown returns *n, or Unknown if n is nil.
func orUnknown(n *int64) int64 {
	if n == nil {
		return Unknown
	}
	return *n
}

// MarshalJSON returns p as a JSON object. Its members are "name", "quota",
// "unit", "window" (a number of seconds), "partition_key" (in base64) and
// "params" (an array of [Param]). A member whose value is absent is left out,
// and so is a Quota that is [Unknown].
//
// The error is the [*FieldError] of [Policy.Validate], if p breaks a rule other
// than that its Quota is known.
func (p Policy) MarshalJSON() ([]byte, error) {
	if _, param, err := p.append(nil, true); err != nil {
		return nil, &FieldError{Field: PolicyField, Offset: -1, Param: param, Err: err}
	}
	return json.Marshal(memberJSON{
		Name: p.Name, Quota: known(p.Quota), Unit: p.Unit, Window: p.Window, PartitionKey: p.PartitionKey, Params: p.Params,
	})
}

// UnmarshalJSON reads the JSON object that [Policy.MarshalJSON] writes. A quota
// that is missing is [Unknown]. Members with other names are ignored; null
// leaves p as it is.
//
// On error p is as it was. The error wraps ErrSyntax if b is not such an
// object; otherwise it is the [*FieldError] of [Policy.Validate].
func (p *Policy) UnmarshalJSON(b []byte) error {
	var m memberJSON
	if done, err := unmarshalMember(b, &m); done {
		return err
	}
	q := Policy{Name: m.Name, Quota: orUnknown(m.Quota), Unit: m.Unit, Window: m.Window, PartitionKey: m.PartitionKey, Params: m.Params}
	if _, param, err := q.append(nil, true); err != nil {
		return &FieldError{Field: PolicyField, Offset: -1, Param: param, Err: err}
	}
	*p = q
	return nil
}

// MarshalJSON returns l as a JSON object. Its members are "name", "remaining",
// "reset" (a number of seconds), "partition_key" (in base64) and "params" (an
// array of [Param]). A member whose value is absent is left out, and so is a
// Remaining that is [Unknown].
//
// The error is the [*FieldError] of [Limit.Validate], if l breaks a rule other
// than that its Remaining is known.
func (l Limit) MarshalJSON() ([]byte, error) {
	if _, param, err := l.append(nil, true); err != nil {
		return nil, &FieldError{Field: LimitField, Offset: -1, Param: param, Err: err}
	}
	return json.Marshal(memberJSON{
		Name: l.Name, Remaining: known(l.Remaining), Reset: l.Reset, PartitionKey: l.PartitionKey, Params: l.Params,
	})
}

// UnmarshalJSON reads the JSON object that [Limit.MarshalJSON] writes. A
// remaining that is missing is [Unknown]. Members with other names are ignored;
// null leaves l as it is.
//
// On error l is as it was. The error wraps ErrSyntax if b is not such an
// object; otherwise it is the [*FieldError] of [Limit.Validate].
func (l *Limit) UnmarshalJSON(b []byte) error {
	var m memberJSON
	if done, err := unmarshalMember(b, &m); done {
		return err
	}
	k := Limit{Name: m.Name, Remaining: orUnknown(m.Remaining), Reset: m.Reset, PartitionKey: m.PartitionKey, Params: m.Params}
	if _, param, err := k.append(nil, true); err != nil {
		return &FieldError{Field: LimitField, Offset: -1, Param: param, Err: err}
	}
	*l = k
	return nil
}

// UnmarshalJSON reads the JSON object that package json writes for Fields. What is
// missing is absent afterwards. Members with other names are ignored; null leaves f
// as it is.
//
// On error f is as it was, whatever could be read. The error wraps ErrSyntax if b
// is not such an object; otherwise it is that of [Policy.UnmarshalJSON] or
// [Limit.UnmarshalJSON].
func (f *Fields) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	type plain Fields // without this method
	var read struct {
		plain
		Policies []*Policy `json:"policies"`
		Limits   []*Limit  `json:"limits"`
	}
	if err := json.Unmarshal(b, &read); err != nil {
		var e *FieldError
		if errors.As(err, &e) || errors.Is(err, ErrSyntax) {
			return err // of a member
		}
		return fmt.Errorf("ratelimit: fields in JSON: %w: %w", ErrSyntax, err)
	}
	g := Fields(read.plain)
	var policies, limits bool
	g.Policies, policies = values(read.Policies)
	g.Limits, limits = values(read.Limits)
	if !policies || !limits {
		return fmt.Errorf("ratelimit: fields in JSON: null in a list: %w", ErrSyntax)
	}
	*f = g
	return nil
}

// values returns what the elements of a list point to, and false if one is nil.
// Lists are read from JSON so, because package json would take a null for a zero
// value, of which nothing remains.
func values[T any](list []*T) ([]T, bool) {
	if list == nil || slices.Contains(list, nil) {
		return nil, list == nil
	}
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = *v
	}
	return out, true
}

// unmarshalMember reads b into m. done is true if nothing is left to do: b is
// null, which by the convention of package json changes nothing, or err is set.
func unmarshalMember(b []byte, m *memberJSON) (done bool, err error) {
	if isNull(b) {
		return true, nil
	}
	if err := json.Unmarshal(b, m); err != nil {
		return true, fmt.Errorf("ratelimit: member in JSON: %w: %w", ErrSyntax, err)
	}
	return false, nil
}

func isNull(b []byte) bool { return string(bytes.TrimSpace(b)) == "null" }

// MarshalJSON returns the number of seconds, or null if it is absent.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if !s.ok {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, s.n, 10), nil
}

// UnmarshalJSON reads a whole number of seconds, or null, which makes s absent.
// Any other b is an error that wraps ErrSyntax; then s is as it was.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		*s = Seconds{}
		return nil
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return fmt.Errorf("ratelimit: seconds in JSON: %w", ErrSyntax)
	}
	*s = SecondsOf(n)
	return nil
}

// A typedJSON is a value whose type JSON does not have. The test files of
// RFC 9651 (github.com/httpwg/structured-field-tests) write such values so.
type typedJSON struct {
	Type  string `json:"__type"`
	Value any    `json:"value"`
}

// The types of such values.
const (
	tokenType   = "token"
	binaryType  = "binary"        // a Byte Sequence, in base32
	dateType    = "date"          // a Date, in seconds since the Unix epoch
	displayType = "displaystring" // a Display String
)

// MarshalJSON returns p as a JSON array of key and value. An Integer, a Decimal
// (always with a point, such as 1.0), a String and a Boolean are the JSON
// values of these names. Values of other types are objects such as
// {"__type":"token","value":"x"}, as in the test files of RFC 9651. The types
// are "token", "binary" (a Byte Sequence, in base32), "date" (in seconds since
// the Unix epoch) and "displaystring".
//
// A key or a value that cannot be written to a field is an error, which wraps
// ErrSyntax, ErrRange or ErrType.
func (p Param) MarshalJSON() ([]byte, error) {
	if !text.IsKey(p.Key) {
		return nil, fmt.Errorf("ratelimit: key of a parameter: %w", ErrSyntax)
	}
	encoded, err := appendValue(nil, p.Value)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: value of a parameter: %w", err)
	}
	value := p.Value
	switch v := p.Value.(type) {
	case float64:
		value = json.RawMessage(encoded)
	case httpsfv.Token:
		value = typedJSON{tokenType, string(v)}
	case []byte:
		value = typedJSON{binaryType, base32.StdEncoding.EncodeToString(v)}
	case time.Time:
		value = typedJSON{dateType, v.Unix()}
	case httpsfv.DisplayString:
		value = typedJSON{displayType, string(v)}
	}
	return json.Marshal([...]any{p.Key, value})
}

// UnmarshalJSON reads the JSON array that [Param.MarshalJSON] writes. Any other
// b is an error that wraps ErrSyntax; then p is as it was.
func (p *Param) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	var q Param
	if json.Unmarshal(b, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &q.Key) != nil || !text.IsKey(q.Key) {
		return fmt.Errorf("ratelimit: parameter in JSON is not an array of key and value: %w", ErrSyntax)
	}
	q.Value = unmarshalValue(pair[1])
	if _, err := appendValue(nil, q.Value); err != nil {
		return fmt.Errorf("ratelimit: value of a parameter in JSON: %w", ErrSyntax)
	}
	*p = q
	return nil
}

// unmarshalValue returns the value of a parameter that b stands for. It is nil,
// or of a type that cannot be written, if b stands for none.
func unmarshalValue(b []byte) any {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n
	}
	var v any
	_ = json.Unmarshal(b, &v) // fails for a number that no float64 holds
	typed, ok := v.(map[string]any)
	if !ok {
		return v // a float64, string or bool; anything else cannot be written
	}
	switch value := typed["value"].(type) {
	case string:
		return typedValue(typed["__type"], value)
	case float64:
		if typed["__type"] == dateType && value == math.Trunc(value) && math.Abs(value) <= MaxInteger {
			return time.Unix(int64(value), 0).UTC()
		}
	}
	return nil
}

// typedValue returns the value of one of the types above that text stands for,
// or nil.
func typedValue(of any, value string) any {
	switch of {
	case tokenType:
		return httpsfv.Token(value)
	case displayType:
		return httpsfv.DisplayString(value)
	case binaryType:
		if b, err := base32.StdEncoding.DecodeString(value); err == nil {
			return b
		}
	}
	return nil
}
