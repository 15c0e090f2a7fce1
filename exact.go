package ratelimit

import "time"

// exactly returns the precise time where it is what the reset has been rounded up from.
func (s Seconds) exactly(precise time.Duration) time.Duration {
	if precise > 0 && CeilSeconds(precise) == s {
		return precise
	}
	return 0
}

// note remembers the precise reset of a limit by its index, unless it is a number of whole
// seconds.
func (f *Fields) note(i int, precise time.Duration) {
	if precise <= 0 || precise%time.Second == 0 {
		return
	}
	for len(f.exact) <= i {
		f.exact = append(f.exact, 0)
	}
	f.exact[i] = precise
}

// reset returns the time until the reset of a limit, as precise as the response had it.
func (f *Fields) reset(i int) (d time.Duration, ok bool) {
	s := f.Limits[i].Reset
	if i < len(f.exact) {
		if precise := s.exactly(f.exact[i]); precise > 0 {
			return precise, true
		}
	}
	return s.Duration()
}
