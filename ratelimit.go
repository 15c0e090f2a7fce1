// Package ratelimit reads and writes what HTTP servers say about rate limits:
// the fields RateLimit-Policy and RateLimit of the IETF draft
// draft-ietf-httpapi-ratelimit-headers, versions 08 to 11, which share one
// wire format.
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000
//
// The first says that a client may use 100 quota units (requests, if nothing
// else is said) per 60 seconds and 1000 per day; the second that 37 are
// available within the next 12 seconds, and 990 within the next 80000. The
// package holds no limiter: it says and understands limits, and others keep
// them.
//
// # Model
//
// A [Policy] is a member of RateLimit-Policy, a [Limit] one of RateLimit. They
// belong together by name and partition key, see [Fields.PolicyOf]. Numbers
// that may be absent are [Seconds], whose zero value is absent. Parameters
// that the specification does not define are kept, in order, as [Params].
//
// # Reading
//
// [Parse] takes both fields from an [http.Header]; [ParsePolicies] and
// [ParseLimits] take field lines from anywhere else, such as gRPC metadata.
// [ParseAny] also reads what came before these fields, see below. A
// field that breaks the grammar of RFC 9651, or a rule of the specification, is
// ignored as a whole, and the other one is kept: what [Parse] returns beside an
// error is what a client may use. A [FieldError] says what was wrong, and where.
//
// Input is taken to be hostile: work and memory are linear in its length, a
// field holds at most 1024 members and a member at most 256 parameters, and no
// error repeats what a field said.
//
// # Writing
//
// [Fields.Set] and [SetPolicies], [SetLimits] replace a field, [AddPolicies]
// and [AddLimits] add a line to it, [AppendPolicies], [FormatPolicies] and
// their like give the text alone. All of them refuse what the grammar refuses,
// and then write nothing.
//
// # Older forms
//
// [ParseAny] reads a response whatever form its limits have: the current fields,
// those of older drafts, the X-RateLimit-* families and what vendors made of
// them. [Fields.Dialect] names the form. [ParseLegacy] reads all but the current
// fields, and [SetLegacy] writes older ones for clients that know nothing else.
// Each form is a [Dialect], a row of a table ([Dialects]) that others can join
// ([LegacyOptions]).
//
// # Serving
//
// [Refuse] answers a request that exceeds a limit, with a [Problem] that says
// why. [Limit.Cap] and [Limit.Jitter] keep what a server says from inviting more
// requests at a time than it can stand (draft-11 Section 8.5): which volume that
// is, only the server knows. [Expose] lets scripts of other origins read the
// fields. [Restrict] is for intermediaries.
//
// Partition keys are best made from nothing but the request, and hashed if they
// would tell who the client is; clients can predict them if it is documented how
// they are made (Section 6.1). Fields need not be on every response (Section
// 6.2). They bind nobody: a server still has to protect itself (Section 8.1), and
// should not tell strangers what helps to saturate it (Section 8.2).
//
// # Keys of http.Header
//
// [http.Header] knows the fields under its canonical keys, Ratelimit-Policy and
// Ratelimit. Use its methods, or this package: a value stored under the key
// "RateLimit" by hand is not found by either.
//
// # Clients
//
// [Client.Advise] says what a response asks of a client: how long to wait, at
// which pace to go on, and why. A [Transport] follows that advice for an
// [http.Client].
//
// # Checking
//
// [Check] holds a response against the rules of the specification, for the
// tests of servers.
package ratelimit

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// The names of the two fields.
const (
	PolicyField = "RateLimit-Policy" // draft-11 Section 3
	LimitField  = "RateLimit"        // draft-11 Section 4
)

// A Limit is a member of the field RateLimit: what a client has left of a
// policy (draft-11 Section 4.1). It may change with every response, and is no
// promise that requests will be served (Section 4.1.1).
//
// The zero Limit is valid: an empty name, and nothing remaining.
type Limit struct {
	// Name is the name of the [Policy] that the limit reports on. Printable
	// ASCII.
	Name string
	// Remaining is the parameter "r", in quota units: 0 to MaxInteger.
	Remaining int64
	// Reset is the parameter "t": the seconds within which the client can use
	// no more than Remaining, 0 to MaxInteger, or absent. It does not say that
	// the whole quota is back afterwards (draft-11 Sections 4.1.2 and 8.4).
	Reset Seconds
	// PartitionKey is the parameter "pk", any bytes. nil is absent, an empty
	// non-nil slice is an empty key.
	PartitionKey []byte
	// Params are the other parameters, in the order of the field.
	Params Params
}

// Unknown is the Remaining of a limit whose response does not say how much
// remains. The field RateLimit always does, and cannot carry it.
const Unknown = -1

// Validate returns the first rule that l breaks, as a [*FieldError] with Offset
// -1, or nil if it can be written: printable ASCII in Name, numbers in their
// range, at most 256 parameters, and Params with legal, distinct keys that are
// none of r, t and pk, and with values of the types listed at [Param].
func (l Limit) Validate() error {
	_, err := l.AppendText(nil)
	return err
}

// Equal reports whether l and m say the same on the wire: presence, and the
// order of Params, included.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// String returns the member as it is written. For a limit that
// [Limit.Validate] refuses it returns a text that is no member.
func (l Limit) String() string {
	b, err := l.AppendText(nil)
	return memberString(b, err)
}

// AppendText appends the member as it is written, as [AppendLimits] does with
// one limit.
func (l Limit) AppendText(b []byte) ([]byte, error) { return AppendLimits(b, l) }

// MarshalText returns the member as it is written, nil on error.
func (l Limit) MarshalText() ([]byte, error) { return l.AppendText(nil) }

// UnmarshalText reads a text that is exactly one member, as [ParseLimits] does;
// without one the error is ErrMissing, with several ErrTooMany. On error, l is
// as it was.
func (l *Limit) UnmarshalText(text []byte) error {
	list, err := parseLimits(1, []string{string(text)})
	return only(l, list, err, LimitField, len(text))
}

// Seconds is an optional number of whole seconds. Its zero value is absent,
// which is not the same as SecondsOf(0). Values can be compared with ==.
type Seconds struct {
	n  int64 // 0 if not ok
	ok bool
}

// SecondsOf returns n seconds. A number that no field can carry, below 0 or
// above MaxInteger, is kept and refused by Validate.
func SecondsOf(n int64) Seconds { return Seconds{n, true} }

// CeilSeconds returns d in seconds, rounded up so that a client never comes
// back early. A negative d is 0.
func CeilSeconds(d time.Duration) Seconds {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return SecondsOf(max(n, 0))
}

// Value returns the number, and whether there is one.
func (s Seconds) Value() (n int64, ok bool) { return s.n, s.ok }

// Duration returns the number as a duration, and whether there is one. What a
// Duration cannot hold, about 292 years, becomes the largest, or the smallest,
// that it can.
func (s Seconds) Duration() (d time.Duration, ok bool) {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case s.n > most:
		return math.MaxInt64, true
	case s.n < -most:
		return math.MinInt64, true
	default:
		return time.Duration(s.n) * time.Second, s.ok
	}
}

// String returns the number with its unit, such as "30s", or "absent".
func (s Seconds) String() string {
	if !s.ok {
		return "absent"
	}
	return strconv.FormatInt(s.n, 10) + "s"
}

// Fields is what a response says about rate limits. The zero Fields says
// nothing.
type Fields struct {
	Policies []Policy
	Limits   []Limit
	// Dialect names how the response spelled them: "ratelimit" for the fields
	// RateLimit-Policy and RateLimit, else the name of a [Dialect], "" if
	// nothing was found.
	Dialect string
	// Guessed says that a value of another dialect had to be guessed: the unit
	// of a reset, by the size of its number.
	Guessed bool
}

// currentDialect is the Dialect of the current fields.
const currentDialect = "ratelimit"

// Parse reads the fields RateLimit-Policy and RateLimit of h.
//
// The two are judged apart. A malformed one is nil in the result; the error
// joins a [*FieldError] for each. So a client may ignore the error and use the
// Fields: "Malformed RateLimit header fields MUST be ignored" (draft-11 Section
// 7). A field that is absent, or blank, is nil and no error. The trailers of a
// response are not to be read (Sections 3.1 and 4.1).
func Parse(h http.Header) (Fields, error) {
	policyLines, limitLines := h[policyKey], h[limitKey]
	if len(policyLines) == 0 && len(limitLines) == 0 {
		return Fields{}, nil
	}
	var f Fields
	var policyErr, limitErr error
	f.Policies, policyErr = ParsePolicies(policyLines...)
	f.Limits, limitErr = ParseLimits(limitLines...)
	if f.Policies != nil || f.Limits != nil {
		f.Dialect = currentDialect
	}
	return f, errors.Join(policyErr, limitErr)
}

// Set writes f to h as the fields RateLimit-Policy and RateLimit, each in one
// line. It replaces both, and deletes one that has no members. On error, a
// [*FieldError] about the first member that cannot be written, h is as it was.
// Writing to a nil h is an error too. The fields are never to be written to
// trailers (draft-11 Sections 3.1 and 4.1).
//
// Set writes whatever the status of the response is; on a redirection, fields
// may keep a client from following it (draft-11 Section 6).
func (f Fields) Set(h http.Header) error {
	policies, err := FormatPolicies(f.Policies...)
	if err != nil {
		return err
	}
	limits, err := FormatLimits(f.Limits...)
	if err != nil {
		return err
	}
	if err := setLine(h, policyKey, policies); err != nil {
		return err
	}
	return setLine(h, limitKey, limits)
}

// PolicyOf returns the policy that l reports on: the first with its name and
// partition key, else the policy with its name if there is exactly one, because
// servers put the key on the policy alone.
func (f Fields) PolicyOf(l Limit) (Policy, bool) {
	i := f.policyOf(&l)
	if i < 0 {
		return Policy{}, false
	}
	return f.Policies[i], true
}

// policyOf returns the index of the policy that l reports on, or -1.
func (f *Fields) policyOf(l *Limit) int {
	found, same := -1, 0
	for i := range f.Policies {
		p := &f.Policies[i]
		if p.Name != l.Name {
			continue
		}
		if equalKey(p.PartitionKey, l.PartitionKey) {
			return i
		}
		found = i
		same++
	}
	if same != 1 {
		return -1
	}
	return found
}

// Tightest returns the limit that a client runs into first: the one with the
// lowest Remaining, among these the one with the longest Reset (an absent one
// is the shortest), among these the first. A Remaining that is [Unknown] comes
// last.
func (f Fields) Tightest() (Limit, bool) {
	if len(f.Limits) == 0 {
		return Limit{}, false
	}
	best := 0
	for i := range f.Limits {
		if f.Limits[i].tighter(&f.Limits[best]) {
			best = i
		}
	}
	return f.Limits[best], true
}

func (l *Limit) tighter(m *Limit) bool {
	switch {
	case l.Remaining != m.Remaining:
		return uint64(l.Remaining) < uint64(m.Remaining) // Unknown, below 0, is the largest
	case l.Reset.ok != m.Reset.ok:
		return l.Reset.ok
	default:
		return l.Reset.n > m.Reset.n
	}
}

// Validate returns the first rule that f breaks, as a [*FieldError]: those of
// [Policy.Validate] and [Limit.Validate], at most 1024 members in a field, and
// no name and partition key twice in one field (ErrDuplicate). The last is a
// rule for who writes; [Parse] accepts such fields and [Fields.Set] writes
// them.
func (f Fields) Validate() error {
	if _, err := FormatPolicies(f.Policies...); err != nil {
		return err
	}
	if _, err := FormatLimits(f.Limits...); err != nil {
		return err
	}
	if i := repeated(f.Policies, policyIdentity); i >= 0 {
		return &FieldError{Field: PolicyField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	if i := repeated(f.Limits, limitIdentity); i >= 0 {
		return &FieldError{Field: LimitField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	return nil
}

func policyIdentity(p *Policy) (name string, key []byte) { return p.Name, p.PartitionKey }
func limitIdentity(l *Limit) (name string, key []byte)   { return l.Name, l.PartitionKey }

// An identity tells the members of a field apart.
type identity struct {
	name, key string
	keyed     bool
}

func identify(name string, key []byte) identity { return identity{name, string(key), key != nil} }

// repeated returns the index of the first member whose name and partition key
// have come before, or -1.
func repeated[T any](list []T, id func(*T) (string, []byte)) int {
	seen := make(map[identity]bool, len(list))
	for i := range list {
		it := identify(id(&list[i]))
		if seen[it] {
			return i
		}
		seen[it] = true
	}
	return -1
}

// A matcher finds the policies of many limits, as policyOf does for one, in
// linear time.
type matcher struct {
	fields *Fields
	exact  map[identity]int // index of the first policy, by name and partition key
	named  map[string]int   // index of the policy by name, -1 if there are several
}

const manyPolicies = 16 // from here on, a map finds them

func newMatcher(f *Fields) matcher {
	m := matcher{fields: f}
	if len(f.Policies) < manyPolicies {
		return m
	}
	m.exact = make(map[identity]int, len(f.Policies))
	m.named = make(map[string]int, len(f.Policies))
	for i := range f.Policies {
		p := &f.Policies[i]
		it := identify(policyIdentity(p))
		if _, again := m.exact[it]; !again {
			m.exact[it] = i
		}
		if _, again := m.named[p.Name]; again {
			i = -1
		}
		m.named[p.Name] = i
	}
	return m
}

// policyOf returns the index of the policy that l reports on, or -1.
func (m *matcher) policyOf(l *Limit) int {
	if m.exact == nil {
		return m.fields.policyOf(l)
	}
	if i, ok := m.exact[identify(limitIdentity(l))]; ok {
		return i
	}
	if i, ok := m.named[l.Name]; ok {
		return i
	}
	return -1
}

// policy returns the policy that l reports on, or the zero Policy.
func (m *matcher) policy(l *Limit) *Policy {
	if i := m.policyOf(l); i >= 0 {
		return &m.fields.Policies[i]
	}
	return &noPolicy
}

var noPolicy Policy // never written to
