package ratelimit

import (
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// The fuzzers check the laws for arbitrary input. A newline stands between two
// field lines, because a field line cannot hold one.

func fuzzLines(s string) []string { return strings.Split(s, "\n") }

// seeds returns the lines of every table.
func seeds() []string {
	var all []string
	for _, tc := range slices.Concat(policyCases, limitCases) {
		all = append(all, strings.Join(tc.lines, "\n"))
	}
	for _, shape := range hostileShapes {
		all = append(all, shape.value(64))
	}
	return append(all, wideMembers(2000), benchLimit, benchPolicies, benchFull)
}

func FuzzParsePolicies(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { policyCodec.lawRead(t, fuzzLines(s)...) })
}

func FuzzParseLimits(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { limitCodec.lawRead(t, fuzzLines(s)...) })
}

func FuzzParse(f *testing.F) {
	all := seeds()
	for i, s := range all {
		f.Add(s, all[len(all)-1-i], true, true)
	}
	f.Add(`"a";q=1;pk=:YQ==:, "a";q=2;pk=:Yg==:`, `"a";r=1, "a";r=2;pk=:Yg==:`, true, true)
	f.Add("", "", false, true)
	f.Fuzz(func(t *testing.T, policies, limits string, hasPolicies, hasLimits bool) {
		h := http.Header{}
		if hasPolicies {
			h[policyKey] = fuzzLines(policies)
		}
		if hasLimits {
			h[limitKey] = fuzzLines(limits)
		}
		lawParse(t, h)
	})
}

// fuzzValue makes a value for a parameter, of a type that can be written or not.
func fuzzValue(kind uint8, n int64, x float64, s string) any {
	values := []any{
		n, x, s, httpsfv.Token(s), []byte(s), n > 0, time.Unix(n, 0), httpsfv.DisplayString(s),
		nil, int(n), float32(x), []string{s}, map[string]any{s: x}, struct{ n int64 }{n}, &s, Unit(s), func() {},
	}
	return values[int(kind)%len(values)]
}

func fuzzSeconds(present bool, n int64) Seconds {
	if !present {
		return Seconds{}
	}
	return SecondsOf(n)
}

func fuzzKey(present bool, key []byte) []byte {
	if !present {
		return nil
	}
	return append([]byte{}, key...)
}

// lawDecimal: a float64 is written as the nearest Decimal, and between two as the
// one whose last digit is even (RFC 9651 Section 4.1.5).
func lawDecimal(t testing.TB, x float64) {
	s, err := FormatPolicies(Policy{Name: "a", Params: Params{{"x", x}}})
	if err != nil {
		require.False(t, math.Abs(x) < 1e12-0.0006, "%v", x)
		return
	}
	got, ok := new(big.Rat).SetString(s[strings.LastIndexByte(s, '=')+1:])
	require.True(t, ok, s)
	thousandths := got.Mul(got, big.NewRat(1000, 1))
	require.True(t, thousandths.IsInt(), s)
	off := new(big.Rat).Mul(new(big.Rat).SetFloat64(x), big.NewRat(1000, 1))
	off.Sub(off, thousandths)
	half := off.Abs(off).Cmp(big.NewRat(1, 2))
	require.True(t, half < 0 || half == 0 && thousandths.Num().Bit(0) == 0, "%v is written as %s", x, s)
}

func FuzzFormat(f *testing.F) {
	for kind := range uint8(17) {
		f.Add("a", int64(100), "requests", true, int64(60), true, []byte("key"), "acme-burst", kind, 1.5, "value", uint16(1))
	}
	f.Add(`a"\`, int64(-1), "\n", true, int64(0), true, []byte{}, "q", uint8(0), 1e300, "\xff", uint16(2))
	f.Add("", int64(MaxInteger), "", false, int64(0), false, []byte{}, "*", uint8(6), -0.0005, "", uint16(300))
	f.Add("b", int64(MaxInteger+1), "", true, int64(MaxInteger+1), false, []byte{}, "a", uint8(6), 1.0625, "", uint16(0))
	f.Fuzz(func(t *testing.T, name string, n int64, unit string, hasSeconds bool, seconds int64,
		hasKey bool, key []byte, param string, kind uint8, x float64, s string, count uint16) {
		ps := Params{{param, fuzzValue(kind, n, x, s)}, {s, true}}
		ps = append(ps, extensions(int(count)%300)...)
		p := Policy{name, n, Unit(unit), fuzzSeconds(hasSeconds, seconds), fuzzKey(hasKey, key), ps}
		l := Limit{name, seconds, fuzzSeconds(hasKey, n), fuzzKey(hasSeconds, key), ps[:min(int(count), len(ps))]}
		policyCodec.lawWrite(t, p)
		policyCodec.lawWrite(t, Policy{Name: unit, Quota: seconds, Window: SecondsOf(n)}, p)
		limitCodec.lawWrite(t, l)
		limitCodec.lawWrite(t, Limit{Name: s, Remaining: n, PartitionKey: key}, l)
		lawDecimal(t, x)
		lawJoin(t, Fields{Policies: []Policy{p, {Name: unit}, p}, Limits: []Limit{l, {Name: unit, Remaining: n}, {Name: s}}})
	})
}
