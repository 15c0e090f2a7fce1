package ratelimit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// capCases are a policy, a limit and a burst, with the Remaining after Cap.
var capCases = trial.PlainCases("testdata/fields/caps.txt")

// readCap returns the arguments of Cap.
func readCap(t testing.TB, in string) (p Policy, l Limit, burst float64) {
	pair, text, _ := strings.Cut(in, "\n× ")
	f := pairOf(t, pair)
	p, l = f.Policies[0], f.Limits[0]
	burst, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return p, l, burst
}

func TestCap(t *testing.T) {
	for _, tc := range capCases {
		t.Run(tc.Name, func(t *testing.T) {
			p, l, burst := readCap(t, tc.In)
			got := fmt.Sprint(l.Cap(p, burst).Remaining)
			require.Equal(t, strings.Replace(tc.Want, "unknown", fmt.Sprint(Unknown), 1), got)
			lawCap(t, l, p, burst)
		})
	}
	l := Limit{Remaining: 5, Reset: SecondsOf(-1)}
	require.Equal(t, l, l.Cap(Policy{Quota: 1, Window: SecondsOf(1)}, 1), "an invalid reset")
	valid := Limit{Remaining: 5, Reset: SecondsOf(1)}
	for _, window := range []int64{0, -1, math.MinInt64} {
		require.Equal(t, valid, valid.Cap(Policy{Quota: 1, Window: SecondsOf(window)}, 1), "an invalid window")
	}
}

// lawCap is law 7 for Cap. It compares with the slow definition.
func lawCap(t testing.TB, l Limit, p Policy, burst float64) {
	t.Helper()
	got := l.Cap(p, burst)
	if p.Quota == 0 {
		l.Remaining = 0
		require.Equal(t, l, got, "a quota of 0 permits nothing")
		return
	}
	require.LessOrEqual(t, got.Remaining, l.Remaining, "law 7")
	require.Equal(t, l.Remaining < 0, got.Remaining < 0)
	same := got
	same.Remaining = l.Remaining
	require.Equal(t, l, same, "nothing else changes")

	window, hasWindow := p.Window.Value()
	reset, hasReset := l.Reset.Value()
	if p.Quota <= 0 || !hasWindow || window < 1 || !hasReset || reset < 0 || l.Remaining < 0 || math.IsInf(burst, 1) {
		require.Equal(t, l, got)
		return
	}
	if math.IsNaN(burst) || burst <= 0 {
		require.Zero(t, got.Remaining)
		return
	}
	// got ≤ burst × q × t ÷ w, except for the digits that are lost when burst is printed, and
	// got + 1 is larger.
	rate := new(big.Float).SetPrec(500).SetFloat64(burst)
	for _, n := range []int64{p.Quota, reset} {
		rate.Mul(rate, new(big.Float).SetInt64(n))
	}
	rate.Quo(rate, new(big.Float).SetInt64(window))
	slack := new(big.Float).Mul(rate, big.NewFloat(1e-15))
	high := new(big.Float).Add(rate, slack)
	low := new(big.Float).Sub(rate, slack)
	require.GreaterOrEqual(t, high.Cmp(new(big.Float).SetInt64(got.Remaining)), 0, "law 7")
	if got.Remaining < l.Remaining {
		require.Negative(t, low.Cmp(new(big.Float).SetInt64(got.Remaining+1)), "not lower than necessary")
	}
}

func TestJitter(t *testing.T) {
	source := func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
	for _, tc := range []struct {
		name string
		max  time.Duration
		from Seconds
		most Seconds
	}{
		{"five seconds", 5 * time.Second, SecondsOf(30), SecondsOf(35)},
		{"from 0", time.Second, SecondsOf(0), SecondsOf(1)},
		{"a fraction is cut off", 1999 * time.Millisecond, SecondsOf(30), SecondsOf(31)},
		{"less than a second", 999 * time.Millisecond, SecondsOf(30), SecondsOf(30)},
		{"nothing", 0, SecondsOf(30), SecondsOf(30)},
		{"negative", -time.Hour, SecondsOf(30), SecondsOf(30)},
		{"absent", time.Hour, Seconds{}, Seconds{}},
		{"up to the largest Integer", 3 * time.Second, SecondsOf(MaxInteger - 1), SecondsOf(MaxInteger)},
		{"at the largest Integer", time.Hour, SecondsOf(MaxInteger), SecondsOf(MaxInteger)},
		{"an invalid reset, too large", time.Hour, SecondsOf(MaxInteger + 1), SecondsOf(MaxInteger + 1)},
		{"an invalid reset, negative", time.Hour, SecondsOf(-1), SecondsOf(-1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Limit{Name: "a", Remaining: 1, Reset: tc.from, PartitionKey: []byte("k")}
			rnd, again := source(), source()
			seen := map[Seconds]bool{}
			for range 200 {
				got := l.Jitter(tc.max, rnd)
				require.Equal(t, got, l.Jitter(tc.max, again), "deterministic")
				seen[got.Reset] = true
				require.GreaterOrEqual(t, got.Reset.n, tc.from.n)
				require.LessOrEqual(t, got.Reset.n, tc.most.n)
				got.Reset = l.Reset
				require.Equal(t, l, got, "nothing else changes")
				global := l.Jitter(tc.max, nil).Reset
				require.True(t, tc.from.n <= global.n && global.n <= tc.most.n && global.ok == tc.from.ok)
			}
			require.True(t, seen[tc.from] && seen[tc.most], "both ends occur")
			require.Len(t, seen, int(tc.most.n-tc.from.n)+1)
		})
	}
	longest := Limit{Reset: SecondsOf(0)}.Jitter(math.MaxInt64, source())
	require.NoError(t, longest.Validate())
}
