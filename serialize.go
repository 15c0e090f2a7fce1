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
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"
)

// AppendPolicies appends the field value of RateLimit-Policy (draft-11 Section
// 3) to b: the parameters in the order q, qu, w, pk and then as in Params, the
// members joined by ", ". Without policies it appends nothing.
//
// On error, a [*FieldError] about the first policy that [Policy.Validate]
// refuses, it returns b as it was.
func AppendPolicies(b []byte, policies ...Policy) ([]byte, error) {
	return appendList(b, PolicyField, policies)
}

// AppendLimits appends the field value of RateLimit (draft-11 Section 4) to b:
// the parameters in the order r, t, pk and then as in Params. For the rest it
// is as [AppendPolicies].
func AppendLimits(b []byte, limits ...Limit) ([]byte, error) {
	return appendList(b, LimitField, limits)
}

// A writer is a member that can be written.
type writer[T any] interface {
	*T
	// append appends the member, or says which parameter is at fault and why.
	// With partial set it leaves out a required number that is Unknown, which
	// is no member then.
	append(b []byte, partial bool) (out []byte, param string, err error)
}

// appendList is RFC 9651 Section 4.1.1.
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

// FormatPolicies returns what [AppendPolicies] appends, "" on error.
func FormatPolicies(policies ...Policy) (string, error) {
	b, err := AppendPolicies(nil, policies...)
	return string(b), err
}

// FormatLimits returns what [AppendLimits] appends, "" on error.
func FormatLimits(limits ...Limit) (string, error) {
	b, err := AppendLimits(nil, limits...)
	return string(b), err
}

var errNilHeader = errors.New("ratelimit: nil http.Header")

// SetPolicies replaces the field RateLimit-Policy of h by one line, or deletes
// it if there are no policies. On error, that of [AppendPolicies], h is as it
// was. Writing to a nil h is an error too.
func SetPolicies(h http.Header, policies ...Policy) error {
	s, err := FormatPolicies(policies...)
	if err != nil {
		return err
	}
	return setLine(h, policyKey, s)
}

// SetLimits replaces the field RateLimit of h by one line, or deletes it if
// there are no limits. For the rest it is as [SetPolicies].
func SetLimits(h http.Header, limits ...Limit) error {
	s, err := FormatLimits(limits...)
	if err != nil {
		return err
	}
	return setLine(h, limitKey, s)
}

// AddPolicies adds one more line to the field RateLimit-Policy of h, as a
// second middleware does; the lines together are one List (draft-11 Section
// 3). Without policies it adds nothing. What is there already is not looked at:
// a malformed line spoils the new one. On error, that of [AppendPolicies], h is
// as it was. Writing to a nil h is an error too.
func AddPolicies(h http.Header, policies ...Policy) error {
	s, err := FormatPolicies(policies...)
	if err != nil {
		return err
	}
	return addLine(h, policyKey, s)
}

// AddLimits adds one more line to the field RateLimit of h. For the rest it is
// as [AddPolicies].
func AddLimits(h http.Header, limits ...Limit) error {
	s, err := FormatLimits(limits...)
	if err != nil {
		return err
	}
	return addLine(h, limitKey, s)
}

func setLine(h http.Header, key, line string) error {
	switch {
	case line == "":
		delete(h, key)
	case h == nil:
		return errNilHeader
	default:
		h[key] = []string{line}
	}
	return nil
}

func addLine(h http.Header, key, line string) error {
	if line == "" {
		return nil
	}
	old := h[key]
	if len(old) == 0 || len(old) == 1 && all(old[0], sp) {
		return setLine(h, key, line) // a blank line before another would spoil the List
	}
	h[key] = append(old, line)
	return nil
}

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
	if len(p.Params) == 0 {
		return b, "", nil
	}
	return p.Params.append(b, policyField, written)
}

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
	if len(l.Params) == 0 {
		return b, "", nil
	}
	return l.Params.append(b, limitField, written)
}

// append appends the parameters that the field does not define to a member
// where some have been written: RFC 9651 Section 4.1.1.2.
func (ps Params) append(b []byte, field *fieldDef, written int) ([]byte, string, error) {
	if written+len(ps) > maxParams {
		return nil, "", ErrTooMany
	}
	for i := range ps {
		p := &ps[i]
		switch {
		case !isKey(p.Key):
			return nil, p.Key, ErrSyntax
		case field.find(p.Key) != nil || ps[:i].index(p.Key) >= 0:
			return nil, p.Key, ErrDuplicate
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

// appendValue is RFC 9651 Section 4.1.3.1.
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

// appendString is RFC 9651 Section 4.1.6. It reports whether s can be a String.
func appendString(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		i := skip(s, 0, plain)
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

// appendInteger is RFC 9651 Section 4.1.4 without a sign. Integers are most of
// what is written, and this takes half the time of package strconv.
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

// appendBytes is RFC 9651 Section 4.1.8.
func appendBytes(b, v []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, ':')
}

// formatOther has httpsfv write a bare item, and refuses what it would write
// wrongly or panic upon.
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

// formatDecimal rounds v itself, half to even (RFC 9651 Section 4.1.5), because
// httpsfv first multiplies by a thousand, which is not exact, and writes what
// rounds to zero from below as -0.0.
func formatDecimal(v float64) (string, error) {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64)
	if v == 0 {
		v = 0 // not -0
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrRange
	}
	return s, nil
}

// A memberJSON is a Policy or a Limit in JSON. A number that is missing is
// Unknown, not 0.
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

// known returns a pointer to n, nil if n is Unknown.
func known(n int64) *int64 {
	if n == Unknown {
		return nil
	}
	return &n
}

// orUnknown returns *n, or Unknown if there is none.
func orUnknown(n *int64) int64 {
	if n == nil {
		return Unknown
	}
	return *n
}

// MarshalJSON returns p as an object with the members "name", "quota", "unit",
// "window", "partition_key" (in base64) and "params". Those that are absent are
// left out, and so is a Quota that is [Unknown]. It refuses what
// [Policy.Validate] refuses for another reason.
func (p Policy) MarshalJSON() ([]byte, error) {
	if _, param, err := p.append(nil, true); err != nil {
		return nil, &FieldError{Field: PolicyField, Offset: -1, Param: param, Err: err}
	}
	return json.Marshal(memberJSON{
		Name: p.Name, Quota: known(p.Quota), Unit: p.Unit, Window: p.Window, PartitionKey: p.PartitionKey, Params: p.Params,
	})
}

// UnmarshalJSON reads what [Policy.MarshalJSON] writes. A quota that is missing
// is [Unknown]; members that it does not know are ignored. On error p is as it
// was: the error wraps ErrSyntax if b is not such an object, else it is the
// [*FieldError] of [Policy.Validate].
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

// MarshalJSON returns l as an object with the members "name", "remaining",
// "reset", "partition_key" (in base64) and "params". Those that are absent are
// left out, and so is a Remaining that is [Unknown]. It refuses what
// [Limit.Validate] refuses for another reason.
func (l Limit) MarshalJSON() ([]byte, error) {
	if _, param, err := l.append(nil, true); err != nil {
		return nil, &FieldError{Field: LimitField, Offset: -1, Param: param, Err: err}
	}
	return json.Marshal(memberJSON{
		Name: l.Name, Remaining: known(l.Remaining), Reset: l.Reset, PartitionKey: l.PartitionKey, Params: l.Params,
	})
}

// UnmarshalJSON reads what [Limit.MarshalJSON] writes. A remaining that is
// missing is [Unknown]; members that it does not know are ignored. On error l is
// as it was: the error wraps ErrSyntax if b is not such an object, else it is the
// [*FieldError] of [Limit.Validate].
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

// unmarshalMember reads b into m. It is done if b is null, which by convention
// changes nothing, or if there is an error.
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

// MarshalJSON returns the number, or null if it is absent.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if !s.ok {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, s.n, 10), nil
}

// UnmarshalJSON reads a whole number, or null, which is absent. On error s is as
// it was.
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

// A typedJSON is a value that has no type of its own in JSON, in the manner of
// the test files of the Structured Fields working group.
type typedJSON struct {
	Type  string `json:"__type"`
	Value any    `json:"value"`
}

// The types of such values.
const (
	tokenType   = "token"
	binaryType  = "binary" // in base32
	dateType    = "date"   // in seconds since the Unix epoch
	displayType = "displaystring"
)

// MarshalJSON returns p as an array of key and value. Integers, Decimals (with a
// point, such as 1.0), Strings and Booleans are what they are in JSON. Other
// types are objects as in {"__type":"token","value":"x"}: "token"; "binary", a
// Byte Sequence in base32; "date", in seconds since the Unix epoch;
// "displaystring". It refuses a key or a value that cannot be written to a field.
func (p Param) MarshalJSON() ([]byte, error) {
	if !isKey(p.Key) {
		return nil, fmt.Errorf("ratelimit: key of a parameter: %w", ErrSyntax)
	}
	text, err := appendValue(nil, p.Value)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: value of a parameter: %w", err)
	}
	value := p.Value
	switch v := p.Value.(type) {
	case float64:
		value = json.RawMessage(text)
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

// UnmarshalJSON reads what [Param.MarshalJSON] writes. On error, which wraps
// ErrSyntax, p is as it was.
func (p *Param) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	var q Param
	if json.Unmarshal(b, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &q.Key) != nil || !isKey(q.Key) {
		return fmt.Errorf("ratelimit: parameter in JSON is not an array of key and value: %w", ErrSyntax)
	}
	q.Value = unmarshalValue(pair[1])
	if _, err := appendValue(nil, q.Value); err != nil {
		return fmt.Errorf("ratelimit: value of a parameter in JSON: %w", ErrSyntax)
	}
	*p = q
	return nil
}

// unmarshalValue returns nil if it knows no value of that form.
func unmarshalValue(b []byte) any {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n
	}
	var v any
	if json.Unmarshal(b, &v) != nil {
		return nil
	}
	typed, ok := v.(map[string]any)
	if !ok {
		return v // float64, string, bool, or of no use
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

func typedValue(of any, text string) any {
	switch of {
	case tokenType:
		return httpsfv.Token(text)
	case displayType:
		return httpsfv.DisplayString(text)
	case binaryType:
		if b, err := base32.StdEncoding.DecodeString(text); err == nil {
			return b
		}
	}
	return nil
}
