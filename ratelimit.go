// Package ratelimit reads and writes what HTTP servers say about rate limits:
// the fields RateLimit-Policy and RateLimit of the IETF draft
// draft-ietf-httpapi-ratelimit-headers, and the older fields that servers still
// send in their place.
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000
//
// The first line says that a client may use 100 quota units per 60 seconds and
// 1000 per day. The unit is requests if nothing else is said. The second line
// says that 37 units are left for the next 12 seconds, and 990 for the next
// 80000.
//
// Where to start depends on what you write:
//
//   - A server that announces limits: a [Middleware], or [Fields.Set], and
//     [Refuse] for requests that exceed one. See Serving.
//   - A client: put a [Transport] into your [http.Client], and it waits when
//     servers ask for it. To wait in your own way, ask [Advisor.Advise]. To see
//     the numbers, call [ParseAny], or [Parse] for the current fields alone.
//     See Clients, Reading and Older forms.
//   - A gateway with limits of its own: [RestrictHeader]. See Gateways.
//   - A test of a server: [Check] lists the rules that a response breaks.
//   - A parser in another language: testdata/vectors holds field lines and
//     their meaning in JSON, and the fuzz targets compare this parser with
//     another.
//
// This package is not a rate limiter: it counts no requests for a server. Bring
// a limiter, and let this package announce what it decides.
//
// The versions 08 to 11 of the draft share one wire format. Where their rules
// differ, this package follows draft-11; a section cited here without another
// document is one of draft-11. The version that follows is not published. [ParseAny],
// and with it every client here, reads what is known of it.
//
// # Terms
//
// These are the terms of the draft (draft-11 Sections 1.2 and 2), of structured
// fields (RFC 9651) and of HTTP (RFC 9110), with the names that this package
// gives them.
//
//   - Quota: the capacity that a server allots to a client, in quota units. It
//     may be allotted again at the end of a window. It is the parameter q,
//     [Policy.Quota].
//   - Quota unit: the unit in which activity is measured, requests unless the
//     policy names another. It is the parameter qu, [Unit].
//   - Window: the period of time to which a quota belongs, in seconds. It is
//     the parameter w, [Policy.Window].
//   - Partition: a part of the capacity of a server, such as that of one user.
//     A partition key, the parameter pk, names it. Each partition key has a
//     quota of its own.
//   - Policy, in the draft also quota policy: a named rule by which a server
//     limits the activity within a partition. Several may apply to one request.
//     It is a [Policy].
//   - Service limit, here simply limit: what is left of the quota of one policy
//     at the moment. It is a [Limit].
//   - Remaining: the quota units that are left. It is the parameter r,
//     [Limit.Remaining].
//   - Reset: the number of seconds within which no more than these may be used.
//     It is the parameter t, [Limit.Reset].
//   - Field line: one line of a header section, with a name and a value. The
//     lines of one name, in order, are the field; both fields here may be split
//     over several lines (RFC 9110 Section 5.2).
//   - Member: an element of the List that a field is (RFC 9651 Section 3.1).
//     Here each is an Item: a String, which is the name of a policy, and its
//     parameters.
//   - Parameter: a key and a value behind a member, such as q=100 (RFC 9651
//     Section 3.1.2).
//
// Types of structured fields are written with a capital letter: List, String,
// Integer, Byte Sequence (RFC 9651 Section 3). The fields RateLimit-Policy and
// RateLimit in the form of versions 08 to 11 are called the current fields, all
// others the older ones.
//
// # Model
//
// A [Policy] is a member of RateLimit-Policy, a [Limit] is a member of
// RateLimit, and [Fields] holds both lists. Limits and policies belong together
// by name and partition key, see [Fields.PolicyOf]. A number of seconds that
// may be absent is a [Seconds], whose zero value is absent. Parameters that the
// specification does not define are kept in order, as [Params].
//
// # Reading
//
// [Parse] reads both fields of an [http.Header]. [ParsePolicies] and
// [ParseLimits] read the lines of one field from anywhere else, such as gRPC
// metadata. [ParseAny] also reads older fields, see below.
//
// A field that breaks the grammar of RFC 9651 or a rule of the draft is ignored
// as a whole, and the other field is kept. The result that [Parse] returns next
// to an error is what a client may use. A [FieldError] says what is wrong, and
// where.
//
// Input is taken to be hostile. Work and memory are linear in its length, a
// field has at most 1024 members, a member at most 256 parameters, and no error
// repeats the content of a field.
//
// # Writing
//
// [Fields.Set] replaces both fields of an [http.Header], and [Fields.Add] adds a
// line to each. [Fields.Join] puts what several limiters know into one
// announcement. [FormatPolicies], [FormatLimits], [AppendPolicies] and [AppendLimits] give
// the text of a field alone. All of them refuse what cannot be written, such as
// a name with an accent, a negative number or a window of 0, and then they
// write nothing.
//
// # Older forms
//
// [ParseAny] reads the limits of a response in whatever form they have: the
// current fields, those of older drafts, the X-RateLimit-* families and the
// fields of many vendors. [Fields.Dialect] names the form.
//
// [Dialect.Set] writes older fields, for clients that know nothing else:
// Draft06.Set or XRateLimit.Set, for example. You can describe a server's own
// fields in a [Dialect], to read them ([LegacyOptions]) and to write them.
//
// # Serving
//
// A [Middleware] stands between a limiter and a handler: it asks the limiter, says
// in the response what the limiter says, and refuses what exceeds a limit. What the
// parameters are depends on the limiter:
//
//	limiter             q      w             r                t
//	fixed window        limit  window        limit − used     end of the window − now
//	sliding log         limit  window        limit − entries  oldest entry + window − now
//	token bucket, GCRA  burst  burst ÷ rate  whole tokens     until there is one more; refused: until it could pass
//	concurrency         slots  absent        free slots       absent; and qu="concurrent-requests"
//
// [FixedWindow] makes the first two, [TokenBucket] the third, and the examples have
// the last. A client that keeps to the fields waits for t if r is 0. Otherwise its
// pace is t ÷ r, a request every half second where 60 remain for 30 seconds, so
// that it does not run into the limit at all. With a token bucket it becomes as
// fast as tokens flow in: where 10 flow in each second, it settles at r=10;t=1. As
// t is whole seconds, at least one, the burst of a bucket should be at least one
// more than what flows in within a second: from a bucket of 2 tokens, into which 2
// flow each second, clients take one a second.
//
// [Refuse] answers a request that exceeds a limit, with a [Problem] that says
// why, and [Expose] lets scripts of other origins read the fields; a Middleware
// calls both.
//
// A server MUST NOT announce numbers that invite more requests than it can
// serve (Section 6). How many that is, only the server knows. [Limit.Cap]
// lowers what remains so that a client which spreads it over the time left
// stays near the rate of the policy, and [Limit.Jitter] spreads the moments at
// which clients come back (Section 8.5). Both belong to the limit that goes into
// a [Decision]: Cap where a client could use a whole quota in the last second of a
// window, or a large bucket at once, Jitter for a refusal whose end many clients
// share, as at midnight.
//
// Make partition keys from nothing but the request, and hash them if they would
// tell who the client is. Document how they are made, so that clients can
// predict them (Section 6.1). Fields need not be on every response
// (Section 6.2). Announced limits bind nobody: a server still has to protect
// itself (Section 8.1), and it should not tell strangers what would help them
// to saturate it (Section 8.2).
//
// Middlewares stack: with one for all routes and another for one route behind it,
// every response tells the limits of both. A handler behind them finds what its
// limiter has said by [DecisionOf].
//
// # Gateways
//
// An intermediary that enforces limits of its own may lower what upstream allows,
// and never raise it (Section 7.2). A reverse proxy is a [Middleware] in front of an
// [httputil.ReverseProxy] whose ModifyResponse is [Middleware.ModifyResponse].
// [RestrictHeader] lowers what the header of any response says, whatever form its
// limits have, and [Restrict] lowers it in [Fields].
//
// # Keys of http.Header
//
// [http.Header] holds the fields under its canonical keys, Ratelimit-Policy and
// Ratelimit. Its methods make such a key of any spelling, and this package writes
// under these keys. A value that is stored under the key "RateLimit" without the
// methods is neither found nor replaced, and net/http sends it all the same.
// [HeaderOf] makes canonical keys where others are, as in the metadata of gRPC.
//
// # Clients
//
// [Advisor.Advise] says what a response asks of a client: how long to wait, at
// which pace to go on, and why. [Advisor.CheckResponse] makes an error of a
// response with which a server refused a request because of a limit.
// [ParseRetryAfter] reads nothing but the field Retry-After, which takes precedence
// over RateLimit (Section 7), and the fields that servers send in its place.
//
// A [Transport] follows that advice for an [http.Client]: each request waits until
// the limits of its origin, or of whatever [Transport.Key] returns, allow it. It is
// a [Gate] in front of another [http.RoundTripper]; use the Gate itself for other
// protocols and for queues of work. A wait that the deadline of a request does not
// allow for is a [WaitError], at once. Nothing is ever sent twice: put a library
// that sends again above the Transport.
//
// If N processes share a quota, set the Share of the Transport or Gate of each to
// 1/N. Otherwise each of them takes all that remains for its own.
//
// # Checking
//
// [Check] checks a response against each rule of the draft that a single
// response can show, for the tests of servers. CONFORMANCE.md lists the rules,
// each with the code that keeps it and the test that would fail otherwise.
package ratelimit

import (
	"log/slog"
	"math"
	"strconv"
	"time"
)

// isInteger reports whether n is from least to MaxInteger.
func isInteger(n, least int64) bool { return least <= n && n <= MaxInteger }

// A Limit is a member of the field RateLimit (draft-11 Section 4.1): what is
// left of the quota of a policy. It may change with every response. It is not a
// promise that requests will be served (draft-11 Section 4.1.1).
//
// The zero Limit is valid: its name is empty, and nothing remains of it.
type Limit struct {
	// Name is the name of the [Policy] that the limit reports on, see
	// [Fields.PolicyOf]. It is printable ASCII, and may be empty.
	Name string
	// Remaining is the parameter "r", in quota units, from 0 to MaxInteger
	// (draft-11 Section 4.1.1). In a limit of an older response it may also be
	// [Unknown].
	Remaining int64
	// Reset is the parameter "t", from 0 to MaxInteger seconds, or absent
	// (draft-11 Section 4.1.2). It counts from the response, and within it the
	// client may use no more than Remaining. It does not say that the whole
	// quota is back afterwards (draft-11 Section 8.4).
	Reset Seconds
	// PartitionKey is the parameter "pk", which may be any bytes (draft-11
	// Section 4.1.3). nil is absent; an empty slice that is not nil is an empty
	// key.
	PartitionKey []byte
	// Params are the parameters that the specification does not define, in the
	// order of the field.
	Params Params
}

// Unknown stands for the Remaining of a [Limit] or the Quota of a [Policy] that
// an older response does not say. The current fields require both, so they
// cannot carry a member without one; see [Fields.Writable].
const Unknown = -1

// Validate returns nil if l can be written as a member of RateLimit, else the
// first rule that it breaks, as a [*FieldError] with Offset -1:
//
//   - Name is printable ASCII (ErrSyntax).
//   - Remaining is from 0 to MaxInteger, Reset is absent or from 0 to
//     MaxInteger (ErrRange). An [Unknown] remaining cannot be written.
//   - There are at most 256 parameters, those with a struct field included
//     (ErrTooMany).
//   - Keys in Params are legal (ErrSyntax), each occurs once, and none is r, t
//     or pk (ErrDuplicate).
//   - Values in Params have a type that is listed at [Param] (ErrType), and can
//     be written (ErrSyntax, ErrRange).
func (l Limit) Validate() error {
	_, err := l.AppendText(nil)
	return err
}

// Equal reports whether l and m are the same on the wire. A value that is
// absent in one of them is not equal to any in the other: an absent Reset is
// not equal to one of 0, nor an absent PartitionKey to an empty one. The order
// of Params counts.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// String returns l as a member of RateLimit, as [Limit.AppendText] writes it. A
// Remaining that is [Unknown] is left out. For a limit that [Limit.Validate]
// refuses, the text is not a valid member.
func (l Limit) String() string {
	b, param, err := l.append(nil, true)
	return memberString(b, LimitField, param, err)
}

// LogValue returns the text of [Limit.String], partition key included. It
// implements [slog.LogValuer].
func (l Limit) LogValue() slog.Value { return slog.StringValue(l.String()) }

// AppendText appends l to b as a member of RateLimit, as [AppendLimits] does
// with one limit. On error, that of [Limit.Validate], it returns b as it was.
// It implements [encoding.TextAppender].
func (l Limit) AppendText(b []byte) ([]byte, error) { return AppendLimits(b, l) }

// MarshalText returns l as a member of RateLimit, as [Limit.AppendText] writes
// it. On error, that of [Limit.Validate], it returns nil. It implements
// [encoding.TextMarshaler].
func (l Limit) MarshalText() ([]byte, error) { return l.AppendText(nil) }

// UnmarshalText reads a text that is exactly one member of RateLimit, as
// [ParseLimits] reads it. A text without a member is an error that wraps
// ErrMissing, one with several members ErrTooMany. On error l is as it was. It
// implements [encoding.TextUnmarshaler].
func (l *Limit) UnmarshalText(text []byte) error {
	list, err := parseList[Limit](limitField, 1, []string{string(text)})
	return setOnly(l, list, err, LimitField, len(text))
}

// Seconds is a whole number of seconds that may be absent. Its zero value is
// absent, which is not the same as SecondsOf(0). Values can be compared with
// ==.
type Seconds struct {
	n  int64 // 0 if not ok
	ok bool  // there is a number
}

// SecondsOf returns n seconds. n is not checked: a number that no field can
// carry, below 0 or above MaxInteger, is refused by Validate of the policy or
// limit that has it.
func SecondsOf(n int64) Seconds { return Seconds{n, true} }

// CeilSeconds returns d in seconds. A part of a second is rounded up, so that a
// client never comes back too early. A negative d becomes 0.
func CeilSeconds(d time.Duration) Seconds {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return SecondsOf(max(n, 0))
}

// Value returns the number of seconds, and whether there is one. An absent
// number is returned as 0.
func (s Seconds) Value() (n int64, ok bool) { return s.n, s.ok }

// Duration returns the number of seconds as a duration, and whether there is
// one. An absent number is returned as 0. A Duration holds up to about 292
// years; a number beyond that becomes the longest Duration, or the most
// negative one.
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

// After returns the time s after t, and whether s has a number. The time is
// rounded up to a whole second, so that a server which announces the same end
// in several responses leads to the same time. A number of more than about 292
// years is cut to that. If s is absent, After returns the zero time.
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

// String returns the number with its unit, such as "30s", or "absent" if there
// is none.
func (s Seconds) String() string {
	if !s.ok {
		return "absent"
	}
	return strconv.FormatInt(s.n, 10) + "s"
}

// readable returns a duration as people read it: as package time writes it, in whole
// seconds from a minute on, in whole milliseconds from a second on.
func readable(d time.Duration) string {
	switch {
	case d > 100*365*24*time.Hour: // it may have been cut to what a Duration can hold
		return "more than a century"
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}
