// Package ratelimit reads and writes what HTTP servers say about rate limits: the fields
// RateLimit-Policy and RateLimit of the IETF draft draft-ietf-httpapi-ratelimit-headers,
// and the older fields that servers still send.
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000
//
// The first line says that a client may use 100 quota units per 60 seconds and 1000 per
// day. The unit is requests if nothing else is said. The second line says that 37 units
// are left for the next 12 seconds, and 990 for the next 80000.
//
// For most clients, use [Transport]; for most servers, [Middleware]. Where to start depends
// on what you write:
//
//   - A server that announces limits: a [Middleware], or [Fields.Set], and [Refuse] for
//     requests that exceed one. See Serving.
//   - A client: put a [Transport] into your [http.Client], and it waits when servers ask
//     for it. To wait in your own way, call [Advise]. To see the numbers, call
//     [ParseAny], or [Parse] for the current fields alone. See Clients.
//   - A gateway with limits of its own: a [Middleware] in front of a reverse proxy, or
//     [RestrictHeader] if the gateway does not use net/http.
//   - A test of a server: [Check] lists the rules that a response breaks, and a
//     [Sequence] those that several break. CONFORMANCE.md has all rules, with the code
//     that keeps them.
//   - A parser in another language: testdata/vectors holds field lines and their meaning
//     in JSON.
//
// This package is no rate limiter: bring one, and let this package announce what it
// decides.
//
// The versions 08 to 11 of the draft share one wire format. Where their rules differ,
// this package follows draft-11; a section cited without another document is one of
// draft-11. Of the version that follows, which is not published, [ParseAny] and every
// client here read what is known.
//
// # Terms
//
// These are terms of the draft (draft-11 Sections 1.2 and 2), of structured fields (RFC
// 9651), whose types have a capital letter, and of HTTP (RFC 9110).
//
//   - Quota: the capacity that a server allots to a client, in quota units, possibly
//     again at the end of a window: the parameter q, [Policy.Quota].
//   - Quota unit: what activity is measured in: the parameter qu, [Unit].
//   - Window: the period of time to which a quota belongs: the parameter w,
//     [Policy.Window].
//   - Partition: a part of the capacity of a server, such as that of one user, named by
//     a partition key, the parameter pk. Each has a quota of its own.
//   - Policy: a named rule by which a server limits the activity within a partition.
//     Several may apply to one request.
//   - Service limit, here limit: what is left of the quota of one policy. A [Limit]
//     belongs to a [Policy] by name and partition key ([Fields.PolicyOf]).
//   - Remaining: the quota units that are left: the parameter r, [Limit.Remaining].
//   - Reset: the seconds within which no more than these may be used: the parameter t,
//     [Limit.Reset].
//   - Field line: one line of a header section. The lines of one name, in order, are the
//     field (RFC 9110 Section 5.2).
//   - Member: an element of the List that a field is, here a String, which is the name
//     of a policy, and its parameters (RFC 9651 Section 3.1).
//   - Parameter: a key and a value of a member, such as q=100 (RFC 9651 Section 3.1.2).
//
// The two fields in the form of versions 08 to 11 are the current fields, all others the
// older ones.
//
// # Reading and writing
//
// [Parse] and [ParseAny] read an [http.Header]; [ParsePolicies] and [ParseLimits] read
// lines from anywhere else. A field that breaks the grammar of RFC 9651 or a rule of the
// draft is ignored as a whole, and the other field is kept. The result next to an error
// is what a client may use, and a [FieldError] says what is wrong, and where.
//
// [Fields.Set], [Fields.Add], [FormatPolicies] and the like refuse what cannot be
// written, such as a name with an accent or a window of 0, and then write nothing.
// [Dialect.Set] writes older fields, for clients that know nothing else.
//
// Input is taken to be hostile: work and memory are linear in its length, a field has at
// most 1024 members, a member at most 256 parameters, and no error repeats the content
// of a field.
//
// [http.Header] holds the fields under its canonical keys, Ratelimit-Policy and
// Ratelimit, which its methods make of any spelling. A value that is stored under the
// key "RateLimit" without them is neither found nor replaced. [HeaderOf] makes canonical
// keys.
//
// # Serving
//
// A [Middleware] stands between a limiter and a handler. What the parameters are depends
// on the limiter:
//
//	limiter             q      w             r                t
//	fixed window        limit  window        limit − used     end of the window − now
//	sliding log         limit  window        limit − entries  oldest entry + window − now
//	sliding counter     limit  window        see SlidingWindow
//	token bucket, GCRA  burst  burst ÷ rate  whole tokens     until there is one more; refused: until it could pass
//	concurrency         slots  absent        free slots       absent; and qu="concurrent-requests"
//
// [FixedWindow] makes the first two, [SlidingWindow] the third, [TokenBucket] the fourth,
// and the examples have the last. A client that keeps to the fields waits for t if r is 0.
// Otherwise its pace is t ÷ r, a request every half second where 60 remain for 30 seconds,
// so that it does not run into the limit at all. With a token bucket into which 10 flow each
// second it settles at r=10;t=1.
//
// A server MUST NOT announce numbers that invite more requests than it can serve
// (Section 6). [Limit.Cap] lowers what remains to near the rate of the policy: use it
// where a client could use a whole quota in the last second of a window, or a large
// bucket at once. [Limit.Jitter] spreads the moments at which clients come back, as at
// midnight (Section 8.5). Both belong to the limit that goes into a [Decision].
//
// Make partition keys from nothing but the request, hash them if they would tell who the
// client is, and document how they are made (Section 6.1). Fields need not be on every
// response (Section 6.2). Announced limits bind no client: a server still has to protect
// itself (Section 8.1), and should not tell strangers what would help them to saturate
// it (Section 8.2).
//
// An intermediary with limits of its own may lower what upstream allows, and never raise
// it (Section 7.2). Put a [Middleware] in front of an [net/http/httputil.ReverseProxy].
//
// # Clients
//
// A [Transport] follows what servers ask for: each request waits until the limits of its
// origin, or of whatever [Transport.Key] returns, allow it. It is a [Gate] in front of
// another [http.RoundTripper]. A wait that the deadline of a request does not allow for
// is a [WaitError], at once. Nothing is ever sent twice: put a library that sends again
// above the Transport. If N processes share a quota, set [Gate.Share] to 1/N; otherwise
// each of them takes all that remains for its own.
//
// [Advise] returns how long to wait, at which pace to go on, and why. An [Advisor] does so
// with options, and [Advisor.CheckResponse] makes an error of a refusal.
package ratelimit
