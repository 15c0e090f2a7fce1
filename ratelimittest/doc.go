// Package ratelimittest is for tests of servers, clients and parsers of rate limits.
//
// # Servers
//
//	for _, f := range ratelimittest.Check(resp) {
//		if f.Level > ratelimittest.LevelNote {
//			t.Error(f)
//		}
//	}
//
// [Check] validates one response by the rules of draft-11. A [Sequence] finds faults that only
// several responses show, such as a number that does not fall. CONFORMANCE.md lists the rules. The
// command ratelimit has both: ratelimit inspect -lint, and ratelimit probe.
//
// # Clients
//
// An [API] is a server with limits. It announces them as real servers do, refuses what is above
// them, and counts what a client does. [Like] returns one that answers as GitHub, OpenAI or another
// vendor does. The command is ratelimit serve.
//
// # Parsers
//
// [Vectors] has test cases in JSON, and [AddLines] adds their field lines to a fuzz target. The
// command is ratelimit fuzz.
package ratelimittest
