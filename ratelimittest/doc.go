// Package ratelimittest is for tests: it finds what is wrong with the rate limits that a server
// announces.
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
package ratelimittest
