package ratelimit

import (
	"bytes"
	"reflect"
	"slices"
)

// A Policy is a member of the field RateLimit-Policy, such as "burst";q=100;w=60 (draft-11 Section
// 3.1). It is the quota that a server allots to a partition of its clients for each window of time.
// A server SHOULD announce the same policies over a sequence of responses (draft-11 Section 3). The
// zero Policy permits nothing.
type Policy struct {
	// Name is printable ASCII, such as "burst", and may be empty. A [Limit] with that name belongs
	// to the policy: see [Fields.PolicyOf].
	Name         string
	Quota        int64   // q, such as 100 quota units, 0 to MaxInteger, or [Unknown]; 0 permits nothing
	Unit         Unit    // qu, such as "content-bytes"; "" is absent and means Requests; qu="" is read as ""
	Window       Seconds // w, such as SecondsOf(60), 1 to MaxInteger, or absent
	PartitionKey []byte  // pk, any bytes; nil is absent, []byte{} is an empty key
	Params       Params  // all other parameters, in the order of the field
}

// A Unit is a quota unit (draft-11 Section 3.1.2). Units are registered with IANA (draft-11 Section
// 10.3). Unregistered units are kept as they are. "" means Requests.
type Unit string

// The quota units that draft-11 Section 3.1.2 defines.
const (
	Requests           Unit = "requests"            // requests that the server processes
	ContentBytes       Unit = "content-bytes"       // bytes of content that the server processes
	ConcurrentRequests Unit = "concurrent-requests" // requests that the server processes at the same time
)

const requestAlias Unit = "request" // how the table of draft-11 Section 10.3 spells Requests

// countsRequests reports whether each request takes one quota unit (draft-11 Section 3.1.2).
func (u Unit) countsRequests() bool {
	return u == "" || u == Requests || u == requestAlias
}

// Canonical returns one spelling for units with the same meaning: [Requests] for "", "requests" and
// "request", and u for all others. Compare units in this spelling.
func (u Unit) Canonical() Unit {
	if u.countsRequests() {
		return Requests
	}
	return u
}

// A Param is a parameter that the specification does not define, such as acme-burst=10.
// Recipients may regard it as a comment (draft-11 Sections 3.1 and 4.1).
type Param struct {
	// Key begins with a lower-case letter or "*"; lower-case letters, digits and "_",
	// "-", "." and "*" may follow (RFC 9651 Section 3.1.2). It SHOULD have a vendor's
	// prefix, as "acme-burst" has (draft-11 Sections 3.1 and 4.1).
	Key string
	// Value is an int64, a float64, a string, a []byte, a bool, a time.Time, or a Token or
	// DisplayString of github.com/dunglas/httpsfv. Any other type is not written (ErrType). An
	// int64 is an Integer, from -MaxInteger to MaxInteger. A float64 is a Decimal with at most
	// twelve digits before the point, rounded to thousandths, half to even. A string is printable
	// ASCII. A true is written as the key alone. A time.Time is a Date, in whole seconds.
	Value any
}

// Params are extension parameters in the order of the field. Each key occurs once.
type Params []Param

// Get returns the value of the parameter with a key, and false if there is none.
func (ps Params) Get(key string) (value any, ok bool) {
	if i := ps.index(key); i >= 0 {
		return ps[i].Value, true
	}
	return nil, false
}

// index returns the index of the parameter with a key, or -1.
func (ps Params) index(key string) int {
	return slices.IndexFunc(ps, func(p Param) bool { return p.Key == key })
}

// equal reports whether ps and qs are the same on the wire.
func (ps Params) equal(qs Params) bool {
	a, _, err := ps.append(nil, nil, 0)
	b, _, other := qs.append(nil, nil, 0)
	if err != nil || other != nil {
		return reflect.DeepEqual(ps, qs)
	}
	return bytes.Equal(a, b)
}

// equalKey reports whether two partition keys are the same. An absent and an empty key differ.
func equalKey(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

// Equal reports whether p and q are the same on the wire, including the order of Params. An absent
// value is not equal to a default or an empty value.
func (p Policy) Equal(q Policy) bool {
	return p.Name == q.Name && p.Quota == q.Quota && p.Unit == q.Unit && p.Window == q.Window &&
		equalKey(p.PartitionKey, q.PartitionKey) && p.Params.equal(q.Params)
}
