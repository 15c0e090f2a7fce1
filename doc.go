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
