package ratelimit

import (
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// A memberJSON is a Policy or a Limit in JSON.
type memberJSON struct {
	Name         string  `json:"name"`
	Quota        count   `json:"quota,omitzero"`
	Unit         Unit    `json:"unit,omitempty"`
	Window       Seconds `json:"window,omitzero"`
	Remaining    count   `json:"remaining,omitzero"`
	Reset        Seconds `json:"reset,omitzero"`
	PartitionKey []byte  `json:"partition_key,omitzero"`
	Params       Params  `json:"params,omitempty"`
}

// A count is a number of quota units, or Unknown, which is left out.
type count int64

// IsZero reports whether package json leaves n out.
func (n count) IsZero() bool { return n == Unknown }

// MarshalJSON returns p as an object in JSON. An example is
//
//	{"name":"burst","quota":100,"unit":"requests","window":60,"partition_key":"AQI=","params":[["acme-burst",10]]}
//
// with the partition key in base64, and Params in the form of [Param.MarshalJSON]. Absent and
// [Unknown] values are left out. The error comes from [Policy.Validate], but an Unknown Quota is
// allowed.
func (p Policy) MarshalJSON() ([]byte, error) {
	if _, err := memberText(&p, PolicyField); err != nil {
		return nil, err
	}
	return json.Marshal(memberJSON{
		Name: p.Name, Quota: count(p.Quota), Unit: p.Unit, Window: p.Window, Remaining: Unknown, PartitionKey: p.PartitionKey, Params: p.Params,
	})
}

// UnmarshalJSON reads the form of [Policy.MarshalJSON]. A missing quota is [Unknown]. null leaves p
// unchanged, and so does an error. The error wraps ErrSyntax if b is not such an object. Otherwise
// it comes from [Policy.Validate].
func (p *Policy) UnmarshalJSON(b []byte) error {
	return unmarshalMember(p, b, PolicyField, func(m *memberJSON) Policy {
		return Policy{Name: m.Name, Quota: int64(m.Quota), Unit: m.Unit, Window: m.Window, PartitionKey: m.PartitionKey, Params: m.Params}
	})
}

// MarshalJSON returns l as an object, as [Policy.MarshalJSON] does, with the members name,
// remaining, reset, partition_key and params.
func (l Limit) MarshalJSON() ([]byte, error) {
	if _, err := memberText(&l, LimitField); err != nil {
		return nil, err
	}
	return json.Marshal(memberJSON{
		Name: l.Name, Quota: Unknown, Remaining: count(l.Remaining), Reset: l.Reset, PartitionKey: l.PartitionKey, Params: l.Params,
	})
}

// UnmarshalJSON reads the form of [Limit.MarshalJSON], as [Policy.UnmarshalJSON] does.
func (l *Limit) UnmarshalJSON(b []byte) error {
	return unmarshalMember(l, b, LimitField, func(m *memberJSON) Limit {
		return Limit{Name: m.Name, Remaining: int64(m.Remaining), Reset: m.Reset, PartitionKey: m.PartitionKey, Params: m.Params}
	})
}

// unmarshalMember reads b into a member of a field, unless the result is invalid.
func unmarshalMember[T Policy | Limit](to *T, b []byte, field string, of func(*memberJSON) T) error {
	in := &memberJSON{Quota: Unknown, Remaining: Unknown}
	if err := json.Unmarshal(b, &in); err != nil {
		return jsonError("member of "+field, err)
	}
	if in == nil { // null changes nothing, by the convention of package json
		return nil
	}
	m := of(in)
	if _, err := memberText(&m, field); err != nil {
		return err
	}
	*to = m
	return nil
}

// UnmarshalJSON reads Fields in JSON, by the rules of [Policy.UnmarshalJSON].
func (f *Fields) UnmarshalJSON(b []byte) error {
	read := &struct {
		Policies []*Policy `json:"policies"`
		Limits   []*Limit  `json:"limits"`
		Dialect  string    `json:"dialect"`
		Guessed  bool      `json:"guessed"`
	}{}
	if err := json.Unmarshal(b, &read); err != nil {
		return jsonError("fields", err)
	}
	if read == nil {
		return nil
	}
	policies, ok := elements(read.Policies)
	limits, also := elements(read.Limits)
	if !ok || !also {
		return fmt.Errorf("ratelimit: JSON of fields: null in a list: %w", ErrSyntax)
	}
	*f = Fields{Policies: policies, Limits: limits, Dialect: read.Dialect, Guessed: read.Guessed}
	return nil
}

// jsonError replaces an error of package json, whose text can contain field content.
func jsonError(what string, err error) error {
	var own *FieldError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, ErrSyntax) || errors.As(err, &own):
		return err
	case errors.As(err, &wrong) && wrong.Field != "":
		what += ": " + wrong.Field
	}
	return fmt.Errorf("ratelimit: JSON of %s: %w", what, ErrSyntax)
}

// elements returns the values of a list, and false if one of them is nil. Package json would otherwise
// read null as a zero value, which permits nothing.
func elements[T any](list []*T) ([]T, bool) {
	if list == nil || slices.Contains(list, nil) {
		return nil, list == nil
	}
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = *v
	}
	return out, true
}

// MarshalJSON returns the number of seconds, or null.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if !s.ok {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, s.n, 10), nil
}

// UnmarshalJSON reads a whole number of seconds, or null, which is absent. For any other b
// the error wraps ErrSyntax.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var n *int64
	if json.Unmarshal(b, &n) != nil {
		return fmt.Errorf("ratelimit: JSON of seconds: %w", ErrSyntax)
	}
	*s = Seconds{}
	if n != nil {
		*s = SecondsOf(*n)
	}
	return nil
}

// A typedJSON is a value of a type that JSON lacks, in the form of the test files of RFC
// 9651 (github.com/httpwg/structured-field-tests).
type typedJSON struct {
	Type  string `json:"__type"`
	Value any    `json:"value"`
}

// MarshalJSON returns p as an array of key and value. An Integer, a Decimal (always with a
// point, such as 1.0), a String and a Boolean are JSON values. Other types are objects:
// {"__type":"token","value":"x"}, "binary" (in base32), "date" (seconds since the Unix epoch) and
// "displaystring". If p cannot be written to a field, the error wraps ErrSyntax, ErrRange or
// ErrType.
func (p Param) MarshalJSON() ([]byte, error) {
	if !text.IsKey(p.Key) {
		return nil, fmt.Errorf("ratelimit: key of a parameter: %w", ErrSyntax)
	}
	encoded, err := sf.AppendValue(nil, p.Value)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: value of a parameter: %w", err)
	}
	value := p.Value
	switch v := p.Value.(type) {
	case float64:
		value = json.RawMessage(encoded)
	case httpsfv.Token:
		value = typedJSON{"token", string(v)}
	case []byte:
		value = typedJSON{"binary", base32.StdEncoding.EncodeToString(v)}
	case time.Time:
		value = typedJSON{"date", v.Unix()}
	case httpsfv.DisplayString:
		value = typedJSON{"displaystring", string(v)}
	}
	return json.Marshal([...]any{p.Key, value})
}

// UnmarshalJSON reads the form of [Param.MarshalJSON]. For any other b the error wraps ErrSyntax.
func (p *Param) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	var q Param
	if json.Unmarshal(b, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &q.Key) != nil || !text.IsKey(q.Key) {
		return fmt.Errorf("ratelimit: JSON of a parameter: not an array of key and value: %w", ErrSyntax)
	}
	q.Value = unmarshalValue(pair[1])
	if _, err := sf.AppendValue(nil, q.Value); err != nil {
		return fmt.Errorf("ratelimit: JSON of the value of a parameter: %w", ErrSyntax)
	}
	*p = q
	return nil
}

// unmarshalValue returns the value of a parameter in JSON. If b is not such a value, the
// result is nil, or of a type that cannot be written.
func unmarshalValue(b []byte) (v any) {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n
	}
	var typed typedJSON
	if json.Unmarshal(b, &typed) != nil { // b is not an object
		_ = json.Unmarshal(b, &v) // fails for a number beyond float64
		return v
	}
	switch value := typed.Value.(type) {
	case string:
		switch typed.Type {
		case "token":
			return httpsfv.Token(value)
		case "displaystring":
			return httpsfv.DisplayString(value)
		case "binary":
			if b, err := base32.StdEncoding.DecodeString(value); err == nil {
				return b
			}
		}
	case float64:
		if typed.Type == "date" && value == math.Trunc(value) && math.Abs(value) <= MaxInteger {
			return time.Unix(int64(value), 0).UTC()
		}
	}
	return nil
}
