package announce_test

import (
	"fmt"
	"math"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// lawLimiter checks the fields for any state of a limiter. They can be written. A Reset is at
// least a second. Check finds at most that the whole quota comes at once, and nothing if the
// limit is capped.
func lawLimiter(t testing.TB, p ratelimit.Policy, l ratelimit.Limit) {
	f := ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{l}}
	require.NoError(t, f.Validate())
	require.LessOrEqual(t, l.Remaining, p.Quota)
	require.NotEqual(t, ratelimit.SecondsOf(0), l.Reset, "t is never 0")
	require.Empty(t, requireNoFindings(t, f, "S5"))
	if p.Window != (ratelimit.Seconds{}) {
		f.Limits[0] = l.Cap(p, 10)
		require.Empty(t, requireNoFindings(t, f))
	}
}

// requireNoFindings returns the findings of Check. It allows only notes of some rules.
func requireNoFindings(t testing.TB, f ratelimit.Fields, but ...string) (found []ratelimittest.Finding) {
	t.Helper()
	resp := &http.Response{StatusCode: 200, Header: http.Header{}}
	require.NoError(t, f.Set(resp.Header))
	for _, finding := range ratelimittest.Check(resp) {
		if len(but) == 0 || finding.Level > ratelimittest.LevelNote || finding.Rule != but[0] {
			found = append(found, finding)
		}
	}
	return found
}

// theOnly returns the policy and the limit of Fields with one of each.
func theOnly(f ratelimit.Fields) (ratelimit.Policy, ratelimit.Limit) {
	return f.Policies[0], f.Limits[0]
}

// lawFixedWindow compares FixedWindow with its definition, in numbers that do not wrap
// around.
func lawFixedWindow(t testing.TB, quota, used int64, window, left time.Duration) {
	p, l := theOnly(announce.FixedWindow{"a", quota, used, window, left}.Fields())
	unspent := new(big.Int).Sub(big.NewInt(quota), big.NewInt(max(used, 0)))
	require.LessOrEqual(t, big.NewInt(l.Remaining).Cmp(unspent), max(0, -unspent.Sign()), "at most what is left: %v of %v", l, unspent)
	if 0 <= used && used <= quota && quota <= ratelimit.MaxInteger {
		require.Equal(t, quota-used, l.Remaining)
		require.Equal(t, quota, p.Quota)
	}
	if window > 0 {
		d, ok := p.Window.Duration()
		require.True(t, ok && d >= window && d-window < time.Second || d == math.MaxInt64)
	} else {
		require.Equal(t, ratelimit.Seconds{}, p.Window)
	}
	d, ok := l.Reset.Duration()
	require.True(t, ok && d >= left, "clients come back at the end of the window")
	require.True(t, left <= 0 || d-left < time.Second || d == math.MaxInt64, "nor a second later")
	if used <= 0 && left <= 0 && window > 0 {
		require.Equal(t, p.Window, l.Reset)
	}
	if left <= window { // otherwise it is not a window
		lawLimiter(t, p, l)
	}
}

// TestLimiters compares the fields of limiters with testdata/limiters.txt.
func TestLimiters(t *testing.T) {
	for _, tc := range trial.PlainCases("testdata/limiters.txt") {
		t.Run(tc.Name, func(t *testing.T) {
			f := readLimiter(t, tc.In)
			p, l := theOnly(f)
			a := laws.Asked(f)
			require.Equal(t, tc.Want, fmt.Sprintf("%v | %v | %v", p, l, a.Pace))
		})
	}
}

// readLimiter checks the law of a limiter in the table, and returns its fields.
func readLimiter(t *testing.T, in string) ratelimit.Fields {
	var quota, used int64
	var perSecond, tokens float64
	var window, left string
	if n, _ := fmt.Sscanf(in, "bucket %d %g %g", &quota, &perSecond, &tokens); n == 3 {
		lawTokenBucket(t, quota, perSecond, tokens)
		return announce.TokenBucket{"a", quota, perSecond, tokens}.Fields()
	}
	var previous int64
	if n, _ := fmt.Sscanf(in, "sliding %d %d %d %s %s", &quota, &previous, &used, &window, &left); n == 5 {
		long, err := time.ParseDuration(window)
		require.NoError(t, err)
		rest, err := time.ParseDuration(left)
		require.NoError(t, err)
		lawSlidingWindow(t, quota, previous, used, long, rest)
		return announce.SlidingWindow{"a", quota, previous, used, long, rest}.Fields()
	}
	_, err := fmt.Sscanf(in, "window %d %d %s %s", &quota, &used, &window, &left)
	require.NoError(t, err)
	long, err := time.ParseDuration(window)
	require.NoError(t, err)
	rest, err := time.ParseDuration(left)
	require.NoError(t, err)
	lawFixedWindow(t, quota, used, long, rest)
	return announce.FixedWindow{"a", quota, used, long, rest}.Fields()
}

// lawSlidingWindow compares SlidingWindow with its definition. Remaining is right now.
// Something remains after Reset, but not a second earlier.
func lawSlidingWindow(t testing.TB, quota, previous, current int64, window, left time.Duration) {
	p, l := theOnly(announce.SlidingWindow{"a", quota, previous, current, window, left}.Fields())
	require.NoError(t, ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{l}}.Validate())
	seconds, _ := l.Reset.Value()
	require.GreaterOrEqual(t, seconds, int64(1))
	require.Equal(t, window > 0, p.Window != ratelimit.Seconds{})
	previous, current = max(previous, 0), max(current, 0)
	if quota < 0 || quota > ratelimit.MaxInteger || window <= 0 || left < 0 || left > window {
		return
	}
	rest := func(after *big.Rat) *big.Rat { // the remaining quota, if nothing is served until then
		x := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(left)), after) // the rest of the current window
		spent, before := current, previous
		if x.Sign() < 0 {
			x.Add(x, new(big.Rat).SetInt64(int64(window)))
			spent, before = 0, current
			if x.Sign() < 0 {
				return new(big.Rat).SetInt64(quota)
			}
		}
		x.Mul(x, big.NewRat(before, int64(window)))
		r := new(big.Rat).SetInt64(quota)
		return r.Sub(r, new(big.Rat).SetInt64(spent)).Sub(r, x)
	}
	one, now := big.NewRat(1, 1), rest(new(big.Rat))
	remains := new(big.Rat).SetInt64(l.Remaining)
	require.True(t, remains.Cmp(now) <= 0 || l.Remaining == 0, "at most what remains: %v of %v", l, now)
	require.Negative(t, now.Cmp(remains.Add(remains, one)), "nor one less: %v of %v", l, now)
	d, _ := l.Reset.Duration()
	switch {
	case d == math.MaxInt64 || quota == 0:
	case l.Remaining > 0:
		require.True(t, d >= left && (d-left < time.Second || seconds == 1))
	default:
		reset := new(big.Rat).SetInt64(int64(d))
		require.True(t, rest(reset).Cmp(one) >= 0, "a request fits in after Reset: %v", rest(reset))
		if seconds > 1 {
			require.Negative(t, rest(reset.Sub(reset, new(big.Rat).SetInt64(int64(time.Second)))).Cmp(one), "but not a second earlier")
		}
	}
}

// lawTokenBucket compares TokenBucket with its definition, in numbers of arbitrary precision.
func lawTokenBucket(t testing.TB, burst int64, perSecond, tokens float64) {
	p, l := theOnly(announce.TokenBucket{"a", burst, perSecond, tokens}.Fields())
	if !(tokens < -float64(p.Quota)) { // a debt may be longer than any window
		lawLimiter(t, p, l)
	}
	require.Equal(t, perSecond > 0, l.Reset != ratelimit.Seconds{})
	require.Equal(t, perSecond > 0, p.Window != ratelimit.Seconds{})
	if math.IsNaN(tokens) || math.IsInf(tokens, 0) || perSecond <= 0 || math.IsNaN(perSecond) || math.IsInf(perSecond, 0) {
		return
	}
	if burst >= 0 {
		require.LessOrEqual(t, float64(l.Remaining), max(tokens, 0), "at most the tokens")
		require.Less(t, min(tokens, float64(p.Quota)), float64(l.Remaining)+1, "nor a whole token less")
	}
	// (r + 1 − tokens) ÷ rate, rounded up, apart from the rounding of a float64.
	in := exact(min(tokens, float64(p.Quota)))
	wait := exact(float64(l.Remaining) + 1)
	wait.Sub(wait, in).Quo(wait, exact(perSecond))
	requireAbout(t, wait, l.Reset)
	fill := exact(float64(max(p.Quota, 1)))
	fill.Quo(fill, exact(perSecond))
	requireAbout(t, fill, p.Window)
}

func exact(x float64) *big.Float { return new(big.Float).SetPrec(2400).SetFloat64(x) }

// requireAbout fails unless got is want, rounded up, from 1 to MaxInteger. A float64 rounds
// quotients to some 15 digits.
func requireAbout(t testing.TB, want *big.Float, got ratelimit.Seconds) {
	t.Helper()
	slack := new(big.Float).Mul(want, exact(2e-15))
	low := new(big.Float).Sub(want, slack)
	n, _ := got.Value()
	if n < ratelimit.MaxInteger {
		require.GreaterOrEqual(t, exact(float64(n)).Cmp(low), 0, "too early: want %v, got %v", want, got)
	}
	if n > 1 {
		high := new(big.Float).Add(want, slack)
		require.Negative(t, exact(float64(n)-1).Cmp(high), "too late: want %v, got %v", want, got)
	}
}

// A client that obeys the fields gets the full rate if the burst is at least one more than
// the tokens of a second. Otherwise it gets less.
func TestTokenBucketPace(t *testing.T) {
	for _, tc := range []struct {
		burst     int64
		perSecond float64
		want      float64 // requests a second
	}{
		{2, 2, 1}, {3, 2, 2}, {5, 5, 4}, {6, 5, 5}, {10, 10, 9}, {11, 10, 10}, {1, 20, 1}, {1, 0.5, 0.5}, {2, 0.5, 0.5},
	} {
		const served = 1000
		l, now := laws.Pail{Name: "a", Burst: tc.burst, PerSecond: tc.perSecond}, trial.Arrival
		for range served {
			_, passes := l.Left(now)
			require.True(t, passes, "%v", tc)
			l.Take(now)
			f, _ := l.Left(now)
			a := laws.Asked(f)
			now = now.Add(max(a.Pace, a.Wait))
		}
		require.InDelta(t, tc.want, served/now.Sub(trial.Arrival).Seconds(), 0.05*tc.want, "%v", tc)
	}
}

// FuzzLimiter checks the laws of limiters for arbitrary numbers.
func FuzzLimiter(f *testing.F) {
	f.Add(int64(100), int64(40), int64(time.Minute), int64(time.Second), 10.0, 3.5)
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), math.Inf(1), math.NaN())
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), math.SmallestNonzeroFloat64, -math.MaxFloat64)
	f.Add(int64(ratelimit.MaxInteger), int64(1), int64(1), int64(1), 1/3.0, 2/3.0)
	f.Fuzz(func(t *testing.T, quota, used, window, left int64, perSecond, tokens float64) {
		lawFixedWindow(t, quota, used, time.Duration(window), time.Duration(left))
		lawTokenBucket(t, quota, perSecond, tokens)
		lawSlidingWindow(t, quota, used, int64(perSecond), time.Duration(window), time.Duration(left))
		lawSlidingWindow(t, quota, int64(tokens), used, time.Duration(window), time.Duration(left))
	})
}
