// Package interop tests package ratelimit against real programs: it reads what real rate
// limiters write, and other libraries read what it writes. README.md has the results.
package interop
