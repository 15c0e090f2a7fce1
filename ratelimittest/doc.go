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
// [Check] validates one response by the rules of draft-11. A [Sequence] finds faults that only several
// responses show, such as a number that does not fall. CONFORMANCE.md lists the rules. At a terminal,
// ratelimit inspect -lint and ratelimit probe do the same.
//
// # Clients
//
// An [API] is a server with limits. It announces its limits as real servers do, refuses requests over a
// limit, and counts what a client does. [Like] returns an API that answers as GitHub, OpenAI or another
// vendor does. At a terminal, ratelimit serve does the same.
//
// # Parsers
//
// [Vectors] has test cases in JSON, and [AddLines] adds their field lines to a fuzz target. The command
// ratelimit fuzz tests parsers in any language.
package ratelimittest
