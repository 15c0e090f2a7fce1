// Package ratelimit reads and writes the HTTP fields RateLimit-Policy and RateLimit of the
// IETF draft draft-ietf-httpapi-ratelimit-headers, and the older fields that servers still
// send. It is not a rate limiter: it announces the decisions of yours.
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000
//
// The first line announces 100 quota units per 60 seconds, and 1000 per day. The unit is requests
// by default. The second line announces that 37 units are left for 12 seconds, and 990 for 80000
// seconds.
//
// # Where to start
//
//   - An HTTP client that waits as servers ask: package [github.com/httpfields/ratelimit/obey].
//   - A server or gateway that announces its limits: package
//     [github.com/httpfields/ratelimit/announce].
//   - Tests of a server, a client or a parser: package
//     [github.com/httpfields/ratelimit/ratelimittest].
//   - A loop of your own that waits: [Advise]. The numbers alone: [ParseAny], or [Parse] for the
//     current fields.
//   - A handler that writes fields: [Fields.Set], and [Dialect.Set] for older forms.
//   - A gateway without net/http: [RestrictHeader].
//
// The drafts 08 to 11 share one wire format. If their rules differ, this package follows draft-11.
// A section that is cited without a document belongs to draft-11. [ParseAny] and [Advise] also read
// the form of the next draft.
//
// # Reading and writing
//
// [Parse] and [ParseAny] read an [http.Header]. [ParsePolicies] and [ParseLimits] read the lines of
// one field, from any source. A malformed field is ignored as a whole. Even with an error, the
// result contains everything that could be read. A [FieldError] contains the fault and its place.
//
// Functions that write return an error if a value cannot be written, such as a name with an accent.
// They then write nothing. [RestrictHeader] is the exception: it writes all other values.
//
// Input may be hostile. Work and memory are linear in its length. A field has at most 1024 members,
// and a member at most 256 parameters. No error contains field content, except names of policies.
//
// [http.Header] stores the fields under its canonical keys, Ratelimit-Policy and Ratelimit. [Parse]
// does not find a value under another spelling, and [Fields.Set] does not replace it. [HeaderOf]
// converts maps with other spellings.
//
// # Waiting
//
// [Advise] returns how long to wait, the pace to go on with, and the reason. If a refusal names no
// time, Wait is 0: back off, as [Advice.Delay] does. An [Advisor] adds options, and
// [Advisor.CheckResponse] turns a refusal into an error.
//
// # Terms
//
// The terms are from the draft (Sections 1.2 and 2), structured fields (RFC 9651) and HTTP (RFC 9110).
// The types of structured fields have a capital letter, such as Integer.
//
//   - Quota: the quota units that a server allots to a client for a window: q.
//   - Quota unit: the unit in which activity is measured: qu, [Unit].
//   - Window: the period of time for which a quota is allotted: w.
//   - Partition: a part of a server's capacity with its own quota, such as the part for one user. A
//     partition key names the partition: pk.
//   - Policy: a named rule that limits the activity within a partition.
//   - Limit: what is left of the quota of one policy. The draft calls it a service limit. A
//     [Limit] belongs to a [Policy] by name and partition key ([Fields.PolicyOf]).
//   - Remaining: the quota units that are left: r.
//   - Reset: the seconds within which no more than Remaining may be used: t.
//   - Member: an element of a field: the name of a policy with parameters.
//   - Current fields: the two fields in the form of drafts 08 to 11. All others are older fields.
package ratelimit
