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
// fields, and [Dialect.Set] writes older ones for clients that know nothing else:
// Draft06.Set, say, or XRateLimit.Set. A [Dialect] of one's own can be read as well
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
	"log/slog"
	"math"
	"strconv"
	"time"
)

// The names of the two fields.
const (
	PolicyField = "RateLimit-Policy" // draft-11 Section 3
	LimitField  = "RateLimit"        // draft-11 Section 4
)

// The keys under which http.Header holds the two fields.
const (
	policyKey = "Ratelimit-Policy"
	limitKey  = "Ratelimit"
)

// MaxInteger is the largest Integer of a structured field, fifteen nines
// (RFC 9651 Section 3.3.1). Every count and every number of seconds in a field
// is at most this.
const MaxInteger = 999_999_999_999_999

const maxDigits = 15 // RFC 9651 Section 4.2.4

func isInteger(n, least int64) bool { return least <= n && n <= MaxInteger }

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

// Unknown is the Remaining of a limit, or the Quota of a policy, that an older
// response does not say. The current fields always do, and cannot carry it; see
// [Fields.Writable].
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

// String returns the member as it is written, without a Remaining that is
// [Unknown]. For a limit that [Limit.Validate] refuses the text is not a member.
func (l Limit) String() string {
	b, param, err := l.append(nil, true)
	return memberString(b, LimitField, param, err)
}

// LogValue returns l as its String.
func (l Limit) LogValue() slog.Value { return slog.StringValue(l.String()) }

// AppendText appends the member as it is written, as [AppendLimits] does with
// one limit.
func (l Limit) AppendText(b []byte) ([]byte, error) { return AppendLimits(b, l) }

// MarshalText returns the member as it is written, nil on error.
func (l Limit) MarshalText() ([]byte, error) { return l.AppendText(nil) }

// UnmarshalText reads a text that is exactly one member, as [ParseLimits] does;
// without one the error is ErrMissing, with several ErrTooMany. On error, l is
// as it was.
func (l *Limit) UnmarshalText(text []byte) error {
	list, err := parseList[Limit](limitField, 1, []string{string(text)})
	return setOnly(l, list, err, LimitField, len(text))
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

// After returns t plus s, rounded up to a whole second so that equal answers give
// equal times, and whether there is a number. It saturates, as Duration does.
func (s Seconds) After(t time.Time) (time.Time, bool) {
	d, ok := s.Duration()
	if !ok {
		return time.Time{}, false
	}
	end := t.Add(d)
	if whole := end.Truncate(time.Second); whole.Before(end) {
		return whole.Add(time.Second), true
	}
	return end.Round(0), true
}

// String returns the number with its unit, such as "30s", or "absent".
func (s Seconds) String() string {
	if !s.ok {
		return "absent"
	}
	return strconv.FormatInt(s.n, 10) + "s"
}
