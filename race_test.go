//go:build race

package ratelimit

// raceEnabled is true under the race detector, which makes work many times
// slower.
const raceEnabled = true
