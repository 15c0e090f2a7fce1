package ratelimit

import (
	"bytes"
	"log/slog"
	"reflect"
	"time"
)

// A Policy is a member of the field RateLimit-Policy: a quota that a server
// allots to a partition of its clients, over a window of time (draft-11 Section
// 3.1). It is expected to stay the same over a sequence of responses.
//
// The zero Policy is valid: an empty name and a quota of 0.
type Policy struct {
	// Name identifies the policy; a [Limit] of the same name reports on it.
	// Printable ASCII. An empty one is legal, and of little use.
	Name string
	// Quota is the parameter "q", in quota units: 0 to MaxInteger. Only out of
	// an older response it may be [Unknown]; a quota of 0 permits nothing.
	Quota int64
	// Unit is the parameter "qu", the quota unit; "" is absent and means
	// Requests. So does an empty parameter, qu="", which is not written again.
	Unit Unit
	// Window is the parameter "w", the window of time: 1 to MaxInteger
	// seconds, or absent.
	Window Seconds
	// PartitionKey is the parameter "pk", any bytes. nil is absent, an empty
	// non-nil slice is an empty key.
	PartitionKey []byte
	// Params are the other parameters, in the order of the field.
	Params Params
}

// A Unit is a quota unit. The set is open: draft-11 Section 10.3 makes it an
// IANA registry, and units that are not known here are kept as they are.
type Unit string

// The quota units that draft-11 Section 3.1.2 defines.
const (
	Requests           Unit = "requests"            // requests processed by the server
	ContentBytes       Unit = "content-bytes"       // bytes of content processed by the server
	ConcurrentRequests Unit = "concurrent-requests" // requests processed at the same time
)

// requestAlias is what the table of draft-11 Section 10.3 calls requests, by an
// oversight.
const requestAlias Unit = "request"

// countsRequests reports whether each request takes one quota unit. A limit
// without a policy is taken to do so (draft-11 Section 3.1.2).
func (u Unit) countsRequests() bool {
	return u == "" || u == Requests || u == requestAlias
}

// canonical returns one spelling of the units that mean the same.
func (u Unit) canonical() Unit {
	if u.countsRequests() {
		return Requests
	}
	return u
}

// A Param is a parameter that the specification does not define; recipients
// may regard it as a comment (draft-11 Sections 3.1 and 4.1).
type Param struct {
	// Key begins with a lower-case letter or "*", followed by those, digits,
	// "_", "-" and "."; it should be prefixed with a vendor's identifier, as
	// in "acme-burst".
	Key string
	// Value is an int64 (at most MaxInteger, either side of 0), a float64
	// (written rounded to thousandths, twelve digits before the point), a
	// string (printable ASCII), an httpsfv.Token, a []byte, a bool, a time.Time
	// (written in whole seconds) or an httpsfv.DisplayString (UTF-8), for
	// package github.com/dunglas/httpsfv. Nothing else can be written.
	Value any
}

// Params are parameters in the order of the field, each key once.
type Params []Param

// Get returns the value of the parameter with that key.
func (ps Params) Get(key string) (value any, ok bool) {
	if i := ps.index(key); i >= 0 {
		return ps[i].Value, true
	}
	return nil, false
}

func (ps Params) index(key string) int {
	for i := range ps {
		if ps[i].Key == key {
			return i
		}
	}
	return -1
}

func (ps Params) equal(qs Params) bool {
	if len(ps) != len(qs) {
		return false
	}
	for i := range ps {
		if ps[i].Key != qs[i].Key || !equalValue(ps[i].Value, qs[i].Value) {
			return false
		}
	}
	return true
}

// equalValue reports whether a and b are the same on the wire, which knows no
// more than thousandths and whole seconds.
func equalValue(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || sameDecimal(a, b))
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Unix() == b.Unix()
	default:
		return reflect.DeepEqual(a, b)
	}
}

func sameDecimal(a, b float64) bool {
	s, err := formatOther(a)
	t, err2 := formatOther(b)
	return err == nil && err2 == nil && s == t
}

// equalKey tells an absent partition key from an empty one.
func equalKey(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

// Validate returns the first rule that p breaks, as a [*FieldError] with Offset
// -1, or nil if it can be written: printable ASCII in Name and Unit, numbers in
// their range, at most 256 parameters, and Params with legal, distinct keys
// that are none of q, qu, w and pk, and with values of the types listed at
// [Param].
func (p Policy) Validate() error {
	_, err := p.AppendText(nil)
	return err
}

// Equal reports whether p and q say the same on the wire: presence, and the
// order of Params, included. An absent Unit is not [Requests] here.
func (p Policy) Equal(q Policy) bool {
	return p.Name == q.Name && p.Quota == q.Quota && p.Unit == q.Unit && p.Window == q.Window &&
		equalKey(p.PartitionKey, q.PartitionKey) && p.Params.equal(q.Params)
}

// String returns the member as it is written, without a Quota that is [Unknown].
// For a policy that [Policy.Validate] refuses the text is not a member.
func (p Policy) String() string {
	b, param, err := p.append(nil, true)
	return memberString(b, PolicyField, param, err)
}

// AppendText appends the member as it is written, as [AppendPolicies] does with
// one policy.
func (p Policy) AppendText(b []byte) ([]byte, error) { return AppendPolicies(b, p) }

// MarshalText returns the member as it is written, nil on error.
func (p Policy) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText reads a text that is exactly one member, as [ParsePolicies]
// does; without one the error is ErrMissing, with several ErrTooMany. On error,
// p is as it was.
func (p *Policy) UnmarshalText(text []byte) error {
	list, err := parseList[Policy](policyField, 1, []string{string(text)})
	return setOnly(p, list, err, PolicyField, len(text))
}

// LogValue returns p as its String.
func (p Policy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// memberString is the String of a member that has been appended, or could not
// be.
func memberString(b []byte, field, param string, err error) string {
	if err != nil {
		e := FieldError{Field: field, Offset: -1, Item: 0, Param: param, Err: err}
		return "<invalid: " + e.Error() + ">" // no member begins with "<"
	}
	return string(b)
}

// setOnly sets *v to the one member of list, parsed from a text of the given
// length.
func setOnly[T any](v *T, list []T, err error, field string, length int) error {
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return &FieldError{Field: field, Offset: length, Item: -1, Err: ErrMissing}
	}
	*v = list[0]
	return nil
}
