package laws

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/httpfields/ratelimit"
)

// A Limiter is an honest limiter for tests: it enforces the numbers that it announces.
type Limiter interface {
	Left(now time.Time) (f ratelimit.Fields, ok bool) // the numbers, and whether one more request may pass
	Take(now time.Time)
	Done() // a request that was taken has ended
}

// Fixed counts in windows, which begin at multiples of the window, or else with the
// first request. A request costs one or more.
type Fixed struct {
	Name    string
	Quota   int64
	Cost    int64
	Unit    ratelimit.Unit // not requests if a request costs more than one
	Window  time.Duration
	Aligned bool
	used    int64
	end     time.Time
}

// Left returns the numbers, and whether one more request may pass.
func (l *Fixed) Left(now time.Time) (ratelimit.Fields, bool) {
	if !now.Before(l.end) {
		l.used, l.end = 0, time.Time{}
		if l.Aligned {
			l.end = now.Truncate(l.Window).Add(l.Window)
		}
	}
	left := l.end.Sub(now)
	if l.end.IsZero() {
		left = 0
	}
	f := window(l.Name, l.Quota, l.used, l.Window, left)
	f.Policies[0].Unit = l.Unit
	return f, l.used+max(l.Cost, 1) <= l.Quota
}

// Take counts a request.
func (l *Fixed) Take(now time.Time) {
	if l.used += max(l.Cost, 1); l.end.IsZero() {
		l.end = now.Add(l.Window)
	}
}

// Done ends a request.
func (*Fixed) Done() {}

// Pail is a token bucket. If Full is set, its reset is the time until all tokens are back, as GCRA
// limiters often announce. Otherwise its reset is the time until the next token is back.
type Pail struct {
	Name      string
	Burst     int64
	PerSecond float64
	Full      bool
	Inside    float64
	last      time.Time
}

// Left returns the numbers, and whether one more request may pass.
func (l *Pail) Left(now time.Time) (ratelimit.Fields, bool) {
	if l.last.IsZero() {
		l.Inside = float64(l.Burst)
	} else {
		l.Inside = min(l.Inside+now.Sub(l.last).Seconds()*l.PerSecond, float64(l.Burst))
	}
	l.last = now
	whole := math.Floor(max(l.Inside, 0))
	f := one(l.Name, l.Burst, seconds(float64(l.Burst)/l.PerSecond), int64(whole), seconds((whole+1-l.Inside)/l.PerSecond))
	if l.Full {
		f.Limits[0].Reset = ratelimit.SecondsOf(int64(math.Ceil((float64(l.Burst) - l.Inside) / l.PerSecond)))
	}
	return f, l.Inside >= 1
}

// Take counts a request.
func (l *Pail) Take(time.Time) { l.Inside-- }

// Done ends a request.
func (*Pail) Done() {}

// Sliding is a log of the requests of the last window. Its reset is when the oldest request
// leaves the window or, if All is set, when the last one does.
type Sliding struct {
	Name   string
	Quota  int64
	Window time.Duration
	All    bool
	log    []time.Time
}

// Left returns the numbers, and whether one more request may pass.
func (l *Sliding) Left(now time.Time) (ratelimit.Fields, bool) {
	l.log = slices.DeleteFunc(l.log, func(t time.Time) bool { return now.Sub(t) >= l.Window })
	var left time.Duration
	if n := len(l.log); n > 0 {
		at := l.log[0]
		if l.All {
			at = l.log[n-1]
		}
		left = at.Add(l.Window).Sub(now)
	}
	return window(l.Name, l.Quota, int64(len(l.log)), l.Window, left), int64(len(l.log)) < l.Quota
}

// Take counts a request.
func (l *Sliding) Take(now time.Time) { l.log = append(l.log, now) }

// Done ends a request.
func (*Sliding) Done() {}

// Weighted counts the previous window as if its requests were spread evenly.
type Weighted struct {
	Name         string
	Quota        int64
	Window       time.Duration
	start        time.Time
	before, used int64
}

// Left returns the numbers, and whether one more request may pass.
func (l *Weighted) Left(now time.Time) (ratelimit.Fields, bool) {
	start := now.Truncate(l.Window)
	switch start.Sub(l.start) {
	case 0:
	case l.Window:
		l.before, l.used = l.used, 0
	default:
		l.before, l.used = 0, 0
	}
	l.start = start
	left := l.Window - now.Sub(start)
	used := l.used + int64(math.Ceil(float64(l.before)*left.Seconds()/l.Window.Seconds()))
	return window(l.Name, l.Quota, used, l.Window, left), used < l.Quota
}

// Take counts a request.
func (l *Weighted) Take(time.Time) { l.used++ }

// Done ends a request.
func (*Weighted) Done() {}

// Slots is a limit of concurrent requests.
type Slots struct {
	Name       string
	Most, used int64
}

// Left returns the numbers, and whether one more request may pass.
func (l *Slots) Left(time.Time) (ratelimit.Fields, bool) {
	f := one(l.Name, l.Most, ratelimit.Seconds{}, l.Most-l.used, ratelimit.Seconds{})
	f.Policies[0].Unit = ratelimit.ConcurrentRequests
	return f, l.used < l.Most
}

// Take counts a request.
func (l *Slots) Take(time.Time) { l.used++ }

// Done ends a request.
func (l *Slots) Done() { l.used-- }

// window returns the fields of a window. If nothing is used and no window has begun, the next
// request begins one.
func window(name string, quota, used int64, length, left time.Duration) ratelimit.Fields {
	if used <= 0 && left <= 0 {
		left = length
	}
	return one(name, quota, ratelimit.CeilSeconds(length), max(quota-used, 0), seconds(left.Seconds()))
}

// one returns the fields of one limit.
func one(name string, quota int64, window ratelimit.Seconds, remaining int64, reset ratelimit.Seconds) ratelimit.Fields {
	return ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: name, Quota: quota, Window: window}},
		Limits:   []ratelimit.Limit{{Name: name, Remaining: remaining, Reset: reset}},
	}
}

// seconds rounds up, to at least a second. It allows for the rounding of a quotient: the time for 17
// tokens at 17 per 7 seconds is 7 seconds, not 8.
func seconds(s float64) ratelimit.Seconds {
	return ratelimit.SecondsOf(max(int64(math.Ceil(s*(1-4e-16))), 1))
}

// RandomLimiter returns an honest limiter of a random kind. i is the index of the limiter in its host.
// All limiters of a host but Slots have different quotas, because clients of draft-06 distinguish
// limiters by quota.
func RandomLimiter(rnd *rand.Rand, i int) Limiter {
	name, quota := string(rune('a'+i)), int64(1+i+3*rnd.IntN(13))
	window := time.Duration(500+rnd.IntN(30000)) * time.Millisecond
	flag := rnd.IntN(2) == 0
	switch rnd.IntN(9) {
	case 0, 1:
		cost := int64(1 + rnd.IntN(3))
		unit := ratelimit.Unit("")
		if cost > 1 {
			unit = "cost"
		}
		for quota < cost {
			quota += 3 // the step of quotas, so that no other limiter has this one
		}
		return &Fixed{Name: name, Quota: quota, Cost: cost, Unit: unit, Window: window, Aligned: flag}
	case 2, 3:
		return &Pail{Name: name, Burst: quota, PerSecond: float64(quota) / window.Seconds(), Full: flag}
	case 4, 5:
		return &Sliding{Name: name, Quota: quota, Window: window, All: flag}
	case 6, 7:
		return &Weighted{Name: name, Quota: quota, Window: window.Round(time.Second) + time.Second}
	}
	return &Slots{Name: name, Most: 1 + quota%5}
}
