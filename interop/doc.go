// Package interop holds the tests that package ratelimit reads what rate
// limiters in use write, and that other libraries read what it writes. README.md
// has the results.
package interop
