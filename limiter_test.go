package ratelimit

import (
	"math"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lawLimiter holds for whatever a limiter is said to know: it can be written, a
// Reset is at least a second, Check has nothing against it but that the whole
// quota comes at once, and nothing at all where it is capped.
func lawLimiter(t testing.TB, p Policy, l Limit) {
	f := Fields{Policies: []Policy{p}, Limits: []Limit{l}}
	require.NoError(t, f.Validate())
	require.LessOrEqual(t, l.Remaining, p.Quota)
	require.True(t, !l.Reset.ok || l.Reset.n >= 1, "t is never 0")
	require.Empty(t, checkRules(t, f, "S5"))
	if p.Window.ok {
		f.Limits[0] = l.Cap(p, tolerance)
		require.Empty(t, checkRules(t, f))
	}
}

// checkRules returns what Check finds, but for notes of some rules.
func checkRules(t testing.TB, f Fields, but ...string) (found []Finding) {
	t.Helper()
	resp := &http.Response{StatusCode: 200, Header: http.Header{}}
	require.NoError(t, f.Set(resp.Header))
	for _, finding := range Check(resp) {
		if len(but) == 0 || finding.Level > LevelNote || finding.Rule != but[0] {
			found = append(found, finding)
		}
	}
	return found
}

// theOnly returns the policy and the limit of Fields that have one of each.
func theOnly(f Fields) (Policy, Limit) { return f.Policies[0], f.Limits[0] }

// lawFixedWindow holds FixedWindow against its definition, in numbers that do not
// wrap around.
func lawFixedWindow(t testing.TB, quota, used int64, window, left time.Duration) {
	p, l := theOnly(FixedWindow{"a", quota, used, window, left}.Fields())
	unspent := new(big.Int).Sub(big.NewInt(quota), big.NewInt(max(used, 0)))
	require.LessOrEqual(t, big.NewInt(l.Remaining).Cmp(unspent), max(0, -unspent.Sign()), "no more than is left: %v of %v", l, unspent)
	if 0 <= used && used <= quota && quota <= MaxInteger {
		require.Equal(t, quota-used, l.Remaining)
		require.Equal(t, quota, p.Quota)
	}
	if window > 0 {
		d, ok := p.Window.Duration()
		require.True(t, ok && d >= window && d-window < time.Second || d == math.MaxInt64)
	} else {
		require.Equal(t, Seconds{}, p.Window)
	}
	d, ok := l.Reset.Duration()
	require.True(t, ok && d >= left, "nobody comes back before the end of the window")
	require.True(t, left <= 0 || d-left < time.Second || d == math.MaxInt64, "nor a second later")
	if used <= 0 && left <= 0 && window > 0 {
		require.Equal(t, p.Window, l.Reset)
	}
	if left <= window { // else it is no window
		lawLimiter(t, p, l)
	}
}

func TestFixedWindow(t *testing.T) {
	for _, tc := range []struct {
		name         string
		quota, used  int64
		window, left time.Duration
		policy       string
		limit        string
		pace         time.Duration
	}{
		{"in the middle", 100, 40, time.Minute, 30 * time.Second, `"a";q=100;w=60`, `"a";r=60;t=30`, 500 * time.Millisecond},
		{"one more than a second", 100, 40, time.Minute, time.Second + 1, `"a";q=100;w=60`, `"a";r=60;t=2`, 33333334},
		{"spent", 100, 100, time.Minute, 30 * time.Second, `"a";q=100;w=60`, `"a";r=0;t=30`, 0},
		{"more than spent", 100, 140, time.Minute, 30 * time.Second, `"a";q=100;w=60`, `"a";r=0;t=30`, 0},
		{"spent, a moment before the end", 100, 100, time.Minute, 1, `"a";q=100;w=60`, `"a";r=0;t=1`, 0},
		{"spent, at the end", 100, 100, time.Minute, 0, `"a";q=100;w=60`, `"a";r=0;t=1`, 0},
		{"spent, after the end", 100, 100, time.Minute, -time.Second, `"a";q=100;w=60`, `"a";r=0;t=1`, 0},
		{"no window has begun", 100, 0, time.Minute, 0, `"a";q=100;w=60`, `"a";r=100;t=60`, 600 * time.Millisecond},
		{"a window has begun, with nothing used", 100, 0, time.Minute, 5 * time.Second, `"a";q=100;w=60`, `"a";r=100;t=5`, 50 * time.Millisecond},
		{"a window ends, with one used", 10, 1, time.Minute, 0, `"a";q=10;w=60`, `"a";r=9;t=1`, 111111112},
		{"a window ends in a nanosecond, with nothing used", 10, 0, time.Minute, 1, `"a";q=10;w=60`, `"a";r=10;t=1`, 100 * time.Millisecond},
		{"less than a second", 10, 4, 100 * time.Millisecond, 50 * time.Millisecond, `"a";q=10;w=1`, `"a";r=6;t=1`, 166666667},
		{"a window of a nanosecond", 10, 4, 1, 5 * time.Second, `"a";q=10;w=1`, `"a";r=6;t=5`, 833333334},
		{"a window of no length", 10, 4, 0, 5 * time.Second, `"a";q=10`, `"a";r=6;t=5`, 833333334},
		{"a negative window", 10, 0, -1, -1, `"a";q=10`, `"a";r=10;t=1`, 100 * time.Millisecond},
		{"negative numbers", -1, -1, time.Second, time.Second, `"a";q=0;w=1`, `"a";r=0;t=1`, 0},
		{"less than nothing used", 10, -5, time.Second, time.Second, `"a";q=10;w=1`, `"a";r=10;t=1`, 100 * time.Millisecond},
		{"the largest numbers", math.MaxInt64, math.MinInt64, math.MaxInt64, math.MaxInt64, `"a";q=999999999999999;w=9223372037`, `"a";r=999999999999999;t=9223372037`, 9224},
		{"the lowest numbers", math.MinInt64, math.MaxInt64, math.MinInt64, math.MinInt64, `"a";q=0`, `"a";r=0;t=1`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requireLimiter(t, FixedWindow{"a", tc.quota, tc.used, tc.window, tc.left}.Fields(), tc.policy, tc.limit, tc.pace)
			lawFixedWindow(t, tc.quota, tc.used, tc.window, tc.left)
		})
	}
}

// requireLimiter holds what a limiter says, and the pace that a client goes at.
func requireLimiter(t testing.TB, f Fields, policy, limit string, pace time.Duration) {
	t.Helper()
	p, l := theOnly(f)
	require.Equal(t, policy, p.String())
	require.Equal(t, limit, l.String())
	a := Advice{Fields: f}
	a.follow()
	require.Equal(t, pace, a.Pace)
}

// lawTokenBucket holds TokenBucket against its definition, in numbers that lose no
// digits.
func lawTokenBucket(t testing.TB, burst int64, perSecond, tokens float64) {
	p, l := theOnly(TokenBucket{"a", burst, perSecond, tokens}.Fields())
	if !(tokens < -float64(p.Quota)) { // debts may be longer than any window
		lawLimiter(t, p, l)
	}
	require.Equal(t, perSecond > 0, l.Reset.ok)
	require.Equal(t, perSecond > 0, p.Window.ok)
	if math.IsNaN(tokens) || math.IsInf(tokens, 0) || perSecond <= 0 || math.IsNaN(perSecond) || math.IsInf(perSecond, 0) {
		return
	}
	if burst >= 0 {
		require.LessOrEqual(t, float64(l.Remaining), max(tokens, 0), "no more than there is")
		require.Less(t, min(tokens, float64(p.Quota)), float64(l.Remaining)+1, "nor a whole token less")
	}
	// (r + 1 − tokens) ÷ rate, rounded up, but for what a float64 rounds.
	in := exact(min(tokens, float64(p.Quota)))
	wait := exact(float64(l.Remaining) + 1)
	wait.Sub(wait, in).Quo(wait, exact(perSecond))
	requireAbout(t, wait, l.Reset)
	fill := exact(float64(max(p.Quota, 1)))
	fill.Quo(fill, exact(perSecond))
	requireAbout(t, fill, p.Window)
}

func exact(x float64) *big.Float { return new(big.Float).SetPrec(2400).SetFloat64(x) }

// requireAbout fails if got is not want rounded up, at least 1 and at most
// MaxInteger. A float64 rounds quotients to some 15 digits.
func requireAbout(t testing.TB, want *big.Float, got Seconds) {
	t.Helper()
	slack := new(big.Float).Mul(want, exact(2e-15))
	low := new(big.Float).Sub(want, slack)
	if got.n < MaxInteger {
		require.GreaterOrEqual(t, exact(float64(got.n)).Cmp(low), 0, "too early: want %v, got %v", want, got)
	}
	if got.n > 1 {
		high := new(big.Float).Add(want, slack)
		require.Negative(t, exact(float64(got.n)-1).Cmp(high), "too late: want %v, got %v", want, got)
	}
}

func TestTokenBucket(t *testing.T) {
	for _, tc := range []struct {
		name      string
		burst     int64
		perSecond float64
		tokens    float64
		policy    string
		limit     string
		pace      time.Duration
	}{
		{"full", 20, 10, 20, `"a";q=20;w=2`, `"a";r=20;t=1`, 50 * time.Millisecond},
		{"more than full", 20, 10, 21, `"a";q=20;w=2`, `"a";r=20;t=1`, 50 * time.Millisecond},
		{"at the rate, where pace and flow are the same", 20, 10, 10, `"a";q=20;w=2`, `"a";r=10;t=1`, 100 * time.Millisecond},
		{"a part of a token", 20, 10, 0.9, `"a";q=20;w=2`, `"a";r=0;t=1`, 0},
		{"nearly a token", 20, 10, math.Nextafter(1, 0), `"a";q=20;w=2`, `"a";r=0;t=1`, 0},
		{"empty", 20, 0.1, 0, `"a";q=20;w=200`, `"a";r=0;t=10`, 0},
		{"half a token missing", 20, 0.1, 7.5, `"a";q=20;w=200`, `"a";r=7;t=5`, 714285715},
		{"promised to others", 20, 0.1, -3, `"a";q=20;w=200`, `"a";r=0;t=40`, 0},
		{"a rate that no float64 holds", 17, 17.0 / 7, 0, `"a";q=17;w=7`, `"a";r=0;t=1`, 0},
		{"a burst of less than a second", 1, 20, 1, `"a";q=1;w=1`, `"a";r=1;t=1`, time.Second},
		{"a burst of one", 1, 0.1, 1, `"a";q=1;w=10`, `"a";r=1;t=10`, 10 * time.Second},
		{"no burst", 0, 10, 0, `"a";q=0;w=1`, `"a";r=0;t=1`, 0},
		{"a negative burst", -5, 10, 3, `"a";q=0;w=1`, `"a";r=0;t=1`, 0},
		{"nothing flows", 20, 0, 5, `"a";q=20`, `"a";r=5`, 0},
		{"a negative rate", 20, -1, 0, `"a";q=20`, `"a";r=0`, 0},
		{"a rate that is no number", 20, math.NaN(), 5, `"a";q=20`, `"a";r=5`, 0},
		{"all that may flow", 20, math.Inf(1), 5, `"a";q=20;w=1`, `"a";r=5;t=1`, 200 * time.Millisecond},
		{"hardly anything flows", 20, math.SmallestNonzeroFloat64, 5, `"a";q=20;w=999999999999999`, `"a";r=5;t=999999999999999`, math.MaxInt64/5 + 1},
		{"no number of tokens", 20, 0.1, math.NaN(), `"a";q=20;w=200`, `"a";r=0;t=10`, 0},
		{"tokens without end", 20, 10, math.Inf(1), `"a";q=20;w=2`, `"a";r=20;t=1`, 50 * time.Millisecond},
		{"a debt without end", 20, 10, math.Inf(-1), `"a";q=20;w=2`, `"a";r=0;t=999999999999999`, 0},
		{"a debt without end that is paid at once", 20, math.Inf(1), math.Inf(-1), `"a";q=20;w=1`, `"a";r=0;t=1`, 0},
		{"the largest numbers", math.MaxInt64, 1, math.MaxFloat64, `"a";q=999999999999999;w=999999999999999`, `"a";r=999999999999999;t=1`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requireLimiter(t, TokenBucket{"a", tc.burst, tc.perSecond, tc.tokens}.Fields(), tc.policy, tc.limit, tc.pace)
			lawTokenBucket(t, tc.burst, tc.perSecond, tc.tokens)
		})
	}
}

// TestTokenBucketPace: a client that keeps to the fields gets as much as flows in, if
// the burst is one more than what flows in within a second, and less if it is not.
func TestTokenBucketPace(t *testing.T) {
	for _, tc := range []struct {
		burst     int64
		perSecond float64
		want      float64 // requests a second
	}{
		{2, 2, 1}, {3, 2, 2}, {5, 5, 4}, {6, 5, 5}, {10, 10, 9}, {11, 10, 10}, {1, 20, 1}, {1, 0.5, 0.5}, {2, 0.5, 0.5},
	} {
		const served = 1000
		l, now := pail{name: "a", burst: tc.burst, perSecond: tc.perSecond}, epoch
		for range served {
			_, passes := l.left(now)
			require.True(t, passes, "%v", tc)
			l.take(now)
			var a Advice
			a.Fields, _ = l.left(now)
			a.follow()
			now = now.Add(max(a.Pace, a.Wait))
		}
		require.InDelta(t, tc.want, served/now.Sub(epoch).Seconds(), 0.05*tc.want, "%v", tc)
	}
}

// FuzzLimiter holds the laws of limiters for every number.
func FuzzLimiter(f *testing.F) {
	f.Add(int64(100), int64(40), int64(time.Minute), int64(time.Second), 10.0, 3.5)
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), math.Inf(1), math.NaN())
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), math.SmallestNonzeroFloat64, -math.MaxFloat64)
	f.Add(int64(MaxInteger), int64(1), int64(1), int64(1), 1/3.0, 2/3.0)
	f.Fuzz(func(t *testing.T, quota, used, window, left int64, perSecond, tokens float64) {
		lawFixedWindow(t, quota, used, time.Duration(window), time.Duration(left))
		lawTokenBucket(t, quota, perSecond, tokens)
	})
}
