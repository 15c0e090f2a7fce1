// Package ratelimit reads and writes the HTTP fields RateLimit-Policy and RateLimit of the
// IETF draft draft-ietf-httpapi-ratelimit-headers, and the older fields that servers still
// send. It is not a rate limiter: it announces the decisions of yours.
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000
//
// The first line announces 100 quota units per 60 seconds, and 1000 per day. The unit is
// requests by default. By the second line, 37 units are left for the next 12 seconds, and
// 990 for the next 80000.
//
// # Where to start
//
// For most clients, use [Transport]; for most servers, [Middleware].
//
//	client := &http.Client{Transport: &obey.Transport{}} // waits as servers ask
//
//	limiter := &announce.Middleware{Take: take} // take asks your rate limiter
//	http.ListenAndServe(addr, limiter.Handler(mux))
//
// To do one thing only:
//
//   - To wait in your own way, call [Advise]. To read the numbers, call [ParseAny], or
//     [Parse] for the current fields alone.
//   - To write the fields in a handler, call [Fields.Set]. To answer a request that exceeds
//     a limit, call [Refuse].
//   - To add the limits of a gateway, put a [Middleware] in front of a reverse proxy. Without
//     net/http, call [RestrictHeader].
//   - To test a server, call [Check] with a response, or use a [Sequence].
//   - To test a parser of yours, use the JSON files in testdata/vectors.
//
// The drafts 08 to 11 share one wire format. If their rules differ, this package follows
// draft-11, and a section cited without a document is one of draft-11. [ParseAny] and the
// clients also read the syntax of the next, unpublished draft.
//
// # Reading and writing
//
// [Parse] and [ParseAny] read an [http.Header]. [ParsePolicies] and [ParseLimits] read lines
// from anywhere else. A malformed field is ignored as a whole. The result that comes with an
// error can be used. A [FieldError] contains the fault and its place.
//
// Functions that write return an error if a value cannot be written, such as a name with an
// accent. They then write nothing, except [RestrictHeader] and [Middleware]. [Dialect.Set]
// writes older fields, for clients that know no others.
//
// Input may be hostile. Work and memory are linear in its length. A field has at most 1024 members,
// and a member at most 256 parameters. No error contains field content except a policy's name.
//
// [http.Header] stores the fields under its canonical keys, Ratelimit-Policy and Ratelimit. [Parse]
// does not find a value under another spelling, and [Fields.Set] does not replace it. [HeaderOf]
// converts maps with other spellings.
//
// # Serving
//
// How each kind of limiter fills in the parameters:
//
//	limiter             q      w             r                t
//	fixed window        limit  window        limit − used     end of the window − now
//	sliding log         limit  window        limit − entries  oldest entry + window − now
//	sliding counter     limit  window        see SlidingWindow
//	token bucket, GCRA  burst  burst ÷ rate  whole tokens     until the next token; refused: until it could pass
//	concurrency         slots  absent        free slots       absent; and qu="concurrent-requests"
//
// [FixedWindow] writes the first two, [SlidingWindow] the third, and [TokenBucket] the
// fourth. An example of [Middleware] writes the last. If r is 0, a client waits for t.
// Otherwise it can spread its requests, one every t ÷ r seconds.
//
// Announce no more than the server can serve (Section 6). [Limit.Cap] can keep a client from
// spending a whole quota in the last second of a window. [Limit.Jitter] spreads the moments at
// which clients come back (Section 8.5). Call them before you put a limit into a [Decision]. An
// intermediary may lower the values of upstream, but never raise them (Section 7.2).
//
// Make partition keys from the request alone, and document how (Section 6.1). Hash keys that could
// identify the client. Leave the fields out if a client could use them to saturate the server
// (Section 8.2). Limits do not bind clients: a server must still protect itself (Section 8.1).
//
// # Clients
//
// A [Transport] delays each request until the limits of its origin, or of the key that
// [Transport.Key] returns, allow it. A request that would wait beyond its deadline fails at
// once with a [WaitError]. If N processes share a quota, set [Gate.Share] to 1/N. Otherwise
// each process uses all that remains. A Transport handles about a million requests a second,
// on any number of cores: its keys share one lock.
//
// [Advise] returns how long to wait, the pace to go on with, and the reason. An [Advisor]
// does the same with options, and [Advisor.CheckResponse] turns a refusal into an error.
//
// # Terms
//
// The terms are those of the draft (Sections 1.2 and 2), structured fields (RFC 9651) and
// HTTP (RFC 9110). The types of structured fields have a capital letter, such as Integer.
//
//   - Quota: the quota units that a server allots to a client for a window: q.
//   - Quota unit: the unit in which activity is measured: qu, [Unit].
//   - Window: the period of time to which a quota belongs: w.
//   - Partition: a part of the capacity of a server with a quota of its own, such as that of
//     one user. A partition key names it: pk.
//   - Policy: a named rule that limits the activity within a partition.
//   - Limit: what is left of the quota of one policy. The draft calls it a service limit. A
//     [Limit] belongs to a [Policy] by name and partition key ([Fields.PolicyOf]).
//   - Remaining: the quota units that are left: r.
//   - Reset: the seconds within which no more than Remaining may be used: t.
//   - Member: an element of a field: the name of a policy with parameters.
//   - Current fields: the two fields in the form of drafts 08 to 11. All others are older.
package ratelimit
