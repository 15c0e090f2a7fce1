package ratelimit

import (
	"encoding/json"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fieldsOf reads fields in wire text. "unknown" stands for a Remaining that is
// Unknown, which no field can hold.
func fieldsOf(t testing.TB, policies, limits string) Fields {
	t.Helper()
	const unknown = "123456789012345"
	f, err := Parse(http.Header{
		policyKey: {policies},
		limitKey:  {strings.ReplaceAll(limits, "r=unknown", "r="+unknown)},
	})
	require.NoError(t, err)
	for i := range f.Limits {
		if strconv.FormatInt(f.Limits[i].Remaining, 10) == unknown {
			f.Limits[i].Remaining = Unknown
		}
	}
	return f
}

func TestCap(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy string
		limit  string
		burst  float64
		want   int64
	}{
		{"example of Section 8.5", `"somepolicy";q=10000;w=1000`, `"somepolicy";r=10000;t=10`, 1, 100},
		{"twice the rate", `"a";q=10000;w=1000`, `"a";r=10000;t=10`, 2, 200},
		{"half the rate", `"a";q=10000;w=1000`, `"a";r=10000;t=10`, 0.5, 50},
		{"never raises", `"a";q=10000;w=1000`, `"a";r=7;t=10`, 1, 7},
		{"exactly at the cap", `"a";q=10000;w=1000`, `"a";r=100;t=10`, 1, 100},
		{"rounded down", `"a";q=10;w=60`, `"a";r=10;t=59`, 1, 9},
		{"a decimal that no float64 holds", `"a";q=10;w=10`, `"a";r=10;t=10`, 0.3, 3},
		{"the largest Integers", `"a";q=999999999999999;w=999999999999999`, `"a";r=999999999999999;t=999999999999998`, 1, 999999999999998},
		{"a product beyond 128 bits", `"a";q=999999999999999;w=999999999999999`, `"a";r=999999999999999;t=999999999999999`, 1e30, 999999999999999},
		{"the largest product", `"a";q=999999999999999;w=1`, `"a";r=999999999999999;t=999999999999999`, math.MaxFloat64, 999999999999999},
		{"the least burst", `"a";q=999999999999999;w=1`, `"a";r=999999999999999;t=999999999999999`, math.SmallestNonzeroFloat64, 0},
		{"a burst of 0", `"a";q=10;w=10`, `"a";r=10;t=10`, 0, 0},
		{"a negative burst", `"a";q=10;w=10`, `"a";r=10;t=10`, -1, 0},
		{"no number", `"a";q=10;w=10`, `"a";r=10;t=10`, math.NaN(), 0},
		{"infinity", `"a";q=10;w=10`, `"a";r=1000;t=10`, math.Inf(1), 1000},
		{"negative infinity", `"a";q=10;w=10`, `"a";r=10;t=10`, math.Inf(-1), 0},
		{"at the reset", `"a";q=10;w=10`, `"a";r=10;t=0`, 1, 0},
		{"no quota", `"a";q=0;w=10`, `"a";r=10;t=5`, 1, 10},
		{"no window", `"a";q=10`, `"a";r=1000;t=5`, 1, 1000},
		{"no reset", `"a";q=10;w=10`, `"a";r=1000`, 1, 1000},
		{"unknown", `"a";q=10;w=10`, `"a";r=unknown;t=5`, 1, Unknown},
		{"nothing remaining", `"a";q=10;w=10`, `"a";r=0;t=5`, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := fieldsOf(t, tc.policy, tc.limit)
			p, l := f.Policies[0], f.Limits[0]
			got := l.Cap(p, tc.burst)
			require.Equal(t, tc.want, got.Remaining)
			lawCap(t, l, p, tc.burst)
		})
	}
	l := Limit{Remaining: 5, Reset: SecondsOf(-1)}
	require.Equal(t, l, l.Cap(Policy{Quota: 1, Window: SecondsOf(1)}, 1), "an invalid reset")
	valid := Limit{Remaining: 5, Reset: SecondsOf(1)}
	for _, window := range []int64{0, -1, math.MinInt64} {
		require.Equal(t, valid, valid.Cap(Policy{Quota: 1, Window: SecondsOf(window)}, 1), "an invalid window")
	}
}

// lawCap is law 7 for Cap, against the slow definition.
func lawCap(t testing.TB, l Limit, p Policy, burst float64) {
	t.Helper()
	got := l.Cap(p, burst)
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
	// got ≤ burst × q × t ÷ w, but for the digits that burst does not print, and
	// one more would be too many.
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
		require.Negative(t, low.Cmp(new(big.Float).SetInt64(got.Remaining+1)), "no lower than it has to be")
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

func TestSetRetryAfter(t *testing.T) {
	const date = "Tue, 15 Nov 1994 08:00:00 GMT"
	for _, tc := range []struct {
		name   string
		header http.Header
		limits string
		want   []string
	}{
		{"nothing remaining", http.Header{}, `"a";r=0;t=30`, []string{"30"}},
		{"the longest of those", http.Header{}, `"a";r=0;t=30, "b";r=0;t=40, "c";r=0;t=35, "d";r=1;t=90`, []string{"40"}},
		{"a reset of 0", http.Header{}, `"a";r=0;t=0`, []string{"0"}},
		{"the largest Integer", http.Header{}, `"a";r=0;t=999999999999999`, []string{"999999999999999"}},
		{"something remaining", http.Header{}, `"a";r=1;t=30`, nil},
		{"unknown", http.Header{}, `"a";r=unknown;t=30`, nil},
		{"no reset", http.Header{}, `"a";r=0`, nil},
		{"one with a reset", http.Header{}, `"a";r=0, "b";r=0;t=5`, []string{"5"}},
		{"no limits", http.Header{}, ``, nil},
		{"nothing to say", http.Header{"Retry-After": {"soon"}}, `"a";r=1;t=30`, []string{"soon"}},
		{"an earlier one", http.Header{"Retry-After": {"29"}}, `"a";r=0;t=30`, []string{"30"}},
		{"the same", http.Header{"Retry-After": {"030"}}, `"a";r=0;t=30`, []string{"030"}},
		{"a later one", http.Header{"Retry-After": {" 31 "}}, `"a";r=0;t=30`, []string{" 31 "}},
		{"a later one above", http.Header{"Retry-After": {"31", "1"}}, `"a";r=0;t=30`, []string{"31"}},
		{"a later one below", http.Header{"Retry-After": {"1", "31"}}, `"a";r=0;t=30`, []string{"31"}},
		{"all earlier", http.Header{"Retry-After": {"29", "1", "x"}}, `"a";r=0;t=30`, []string{"30"}},
		{"beyond int64", http.Header{"Retry-After": {"99999999999999999999"}}, `"a";r=0;t=30`, []string{"99999999999999999999"}},
		{"malformed", http.Header{"Retry-After": {"-40"}}, `"a";r=0;t=30`, []string{"30"}},
		{"malformed, too large", http.Header{"Retry-After": {"99999999999999999999s"}}, `"a";r=0;t=30`, []string{"30"}},
		{"blank", http.Header{"Retry-After": {""}}, `"a";r=0;t=30`, []string{"30"}},
		{"an earlier date", http.Header{"Date": {date}, "Retry-After": {"Tue, 15 Nov 1994 08:00:29 GMT"}}, `"a";r=0;t=30`, []string{"30"}},
		{"a later date", http.Header{"Date": {date}, "Retry-After": {"Tue, 15 Nov 1994 08:00:31 GMT"}}, `"a";r=0;t=30`, []string{"Tue, 15 Nov 1994 08:00:31 GMT"}},
		{"a later date of RFC 850", http.Header{"Date": {date}, "Retry-After": {"Tuesday, 15-Nov-94 08:00:31 GMT"}}, `"a";r=0;t=30`, []string{"Tuesday, 15-Nov-94 08:00:31 GMT"}},
		{"a past date", http.Header{"Date": {date}, "Retry-After": {"Tue, 15 Nov 1994 07:00:00 GMT"}}, `"a";r=0;t=0`, []string{"Tue, 15 Nov 1994 07:00:00 GMT"}},
		{"a date without Date", http.Header{"Retry-After": {date}}, `"a";r=0;t=30`, []string{date}},
		{"a date with a malformed Date", http.Header{"Date": {"today"}, "Retry-After": {date}}, `"a";r=0;t=30`, []string{date}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limits := fieldsOf(t, "", tc.limits).Limits
			SetRetryAfter(tc.header, limits...)
			require.Equal(t, tc.want, tc.header["Retry-After"])
			SetRetryAfter(tc.header, limits...)
			require.Equal(t, tc.want, tc.header["Retry-After"], "twice is as once")
		})
	}
	h := http.Header{}
	SetRetryAfter(h, Limit{Reset: SecondsOf(-1)})
	require.Empty(t, h, "an invalid reset, negative")
	SetRetryAfter(h, Limit{Reset: SecondsOf(math.MaxInt64)})
	require.Equal(t, "999999999999999", h.Get("Retry-After"), "an invalid reset, too large")
	SetRetryAfter(nil, Limit{Reset: SecondsOf(1)})
}

// restrictCases are pairs of fields with what Restrict makes of them; each half
// is policies and limits.
var restrictCases = []struct {
	name     string
	upstream [2]string
	own      [2]string
	want     [2]string
}{
	{"nothing", [2]string{}, [2]string{}, [2]string{}},
	{"upstream alone", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{}, [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}},
	{"own alone", [2]string{}, [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}},
	{"another policy joins", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{`"b";q=5;w=1`, `"b";r=2;t=1`},
		[2]string{`"a";q=10;w=60, "b";q=5;w=1`, `"a";r=5;t=30, "b";r=2;t=1`}},
	{"own is stricter", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{`"a";q=8;w=60`, `"a";r=4;t=40`},
		[2]string{`"a";q=8;w=60`, `"a";r=4;t=40`}},
	{"own is laxer", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{`"a";q=20;w=60`, `"a";r=9;t=20`},
		[2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}},
	{"each is stricter in one", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{`"a";q=8;w=60`, `"a";r=9;t=40`},
		[2]string{`"a";q=8;w=60`, `"a";r=5;t=40`}},
	{"no windows agree", [2]string{`"a";q=10`, ``}, [2]string{`"a";q=8`, ``}, [2]string{`"a";q=8`, ``}},
	{"the default unit", [2]string{`"a";q=10;qu="requests";w=60`, ``}, [2]string{`"a";q=8;w=60`, ``}, [2]string{`"a";q=8;qu="requests";w=60`, ``}},
	{"the unit of the registry", [2]string{`"a";q=10;qu="request"`, ``}, [2]string{`"a";q=8`, ``}, [2]string{`"a";q=8;qu="request"`, ``}},
	{"another unit, the same", [2]string{`"a";q=10;qu="content-bytes"`, `"a";r=5`}, [2]string{`"a";q=8;qu="content-bytes"`, `"a";r=4`},
		[2]string{`"a";q=8;qu="content-bytes"`, `"a";r=4`}},
	{"parameters are those of upstream", [2]string{`"a";q=10;x=1`, `"a";r=5;y=1`}, [2]string{`"a";q=8;x=2`, `"a";r=4;y=2`},
		[2]string{`"a";q=8;x=1`, `"a";r=4;y=1`}},
	{"another partition", [2]string{`"a";q=10;w=60;pk=:YQ==:`, `"a";r=5;pk=:YQ==:`}, [2]string{`"a";q=8;w=60;pk=:Yg==:`, `"a";r=4;pk=:Yg==:`},
		[2]string{`"a";q=10;w=60;pk=:YQ==:, "a";q=8;w=60;pk=:Yg==:`, `"a";r=5;pk=:YQ==:, "a";r=4;pk=:Yg==:`}},
	{"an empty key is not an absent one", [2]string{``, `"a";r=5`}, [2]string{``, `"a";r=4;pk=::`}, [2]string{``, `"a";r=5, "a";r=4;pk=::`}},
	{"a limit without policies", [2]string{``, `"a";r=5;t=30`}, [2]string{``, `"a";r=4;t=40`}, [2]string{``, `"a";r=4;t=40`}},
	{"a limit of upstream without policy", [2]string{``, `"a";r=5;t=30`}, [2]string{`"a";q=10;w=60`, `"a";r=4;t=40`}, [2]string{`"a";q=10;w=60`, `"a";r=4;t=40`}},
	{"a limit of own without policy", [2]string{`"a";q=10;w=60`, `"a";r=5;t=30`}, [2]string{``, `"a";r=4;t=40`}, [2]string{`"a";q=10;w=60`, `"a";r=4;t=40`}},
	{"the key on the policy of upstream alone", [2]string{`"a";q=10;w=60;pk=:YQ==:`, `"a";r=5`}, [2]string{`"a";q=8;w=60;pk=:YQ==:`, `"a";r=4`},
		[2]string{`"a";q=8;w=60;pk=:YQ==:`, `"a";r=4`}},
	{"upstream repeats itself", [2]string{`"a";q=10, "a";q=5`, `"a";r=5;t=10, "a";r=3;t=60`}, [2]string{`"a";q=8`, `"a";r=4;t=30`},
		[2]string{`"a";q=8, "a";q=5`, `"a";r=4;t=30, "a";r=3;t=60`}},
	{"own repeats itself", [2]string{`"a";q=10`, `"a";r=5;t=10`}, [2]string{`"a";q=8, "a";q=9`, `"a";r=4;t=30, "a";r=3;t=20`},
		[2]string{`"a";q=8`, `"a";r=3;t=30`}},
	{"own repeats a limit that upstream has not", [2]string{``, ``}, [2]string{``, `"a";r=4, "a";r=3`}, [2]string{``, `"a";r=4, "a";r=3`}},
	{"own repeats what upstream has not", [2]string{``, ``}, [2]string{`"a";q=8;w=1, "a";q=9;w=2`, ``}, [2]string{`"a";q=8;w=1, "a";q=9;w=2`, ``}},

	{"upstream has no reset", [2]string{``, `"a";r=5`}, [2]string{``, `"a";r=4;t=30`}, [2]string{``, `"a";r=4;t=30`}},
	{"own has no reset", [2]string{``, `"a";r=5;t=30`}, [2]string{``, `"a";r=4`}, [2]string{``, `"a";r=4;t=30`}},
	{"upstream does not say what remains", [2]string{``, `"a";r=unknown;t=30`}, [2]string{``, `"a";r=4;t=10`}, [2]string{``, `"a";r=4;t=30`}},
	{"own does not say what remains", [2]string{``, `"a";r=5;t=30`}, [2]string{``, `"a";r=unknown;t=40`}, [2]string{``, `"a";r=5;t=40`}},
	{"nobody says what remains", [2]string{``, `"a";r=unknown`}, [2]string{``, `"a";r=unknown`}, [2]string{``, `"a";r=unknown`}},
	{"nothing remains upstream, for the window", [2]string{`"a";q=10;w=60`, `"a";r=0`}, [2]string{`"a";q=10;w=60`, `"a";r=4;t=10`},
		[2]string{`"a";q=10;w=60`, `"a";r=0;t=60`}},
	{"nothing remains here, for the window", [2]string{`"a";q=10;w=60`, `"a";r=5;t=10`}, [2]string{`"a";q=10;w=60`, `"a";r=0`},
		[2]string{`"a";q=10;w=60`, `"a";r=0;t=60`}},
	{"nothing remains anywhere, for the window", [2]string{`"a";q=10;w=60`, `"a";r=0`}, [2]string{`"a";q=10;w=60`, `"a";r=0`},
		[2]string{`"a";q=10;w=60`, `"a";r=0`}},
	{"nothing remains upstream, nobody knows for how long", [2]string{``, `"a";r=0`}, [2]string{``, `"a";r=4;t=10`}, [2]string{``, `"a";r=0;t=10`}},
	{"a reset longer than the window", [2]string{`"a";q=10;w=60`, `"a";r=0`}, [2]string{`"a";q=10;w=60`, `"a";r=4;t=90`},
		[2]string{`"a";q=10;w=60`, `"a";r=0;t=90`}},
}

// restrictErrorCases are pairs of fields that mean different things by a name.
var restrictErrorCases = []struct {
	name     string
	upstream [2]string
	own      [2]string
	field    string
	item     int
	param    string
}{
	{"units", [2]string{`"a";q=10`}, [2]string{`"b";q=1, "a";q=1;qu="content-bytes"`}, PolicyField, 1, "qu"},
	{"unit and window", [2]string{`"a";q=10;qu="x";w=1`}, [2]string{`"a";q=1;qu="y";w=2`}, PolicyField, 0, "qu"},
	{"windows", [2]string{`"a";q=10;w=60`}, [2]string{`"a";q=1;w=30`}, PolicyField, 0, "w"},
	{"no window here", [2]string{`"a";q=10;w=60`}, [2]string{`"a";q=1`}, PolicyField, 0, "w"},
	{"no window upstream", [2]string{`"a";q=10`}, [2]string{`"a";q=1;w=60`}, PolicyField, 0, "w"},
	{"windows of two partitions", [2]string{`"a";q=10;w=60;pk=:YQ==:`}, [2]string{`"a";q=1;w=30;pk=:Yg==:`}, PolicyField, 0, "w"},
	{"a limit of upstream without policy, in requests", [2]string{``, `"a";r=5`}, [2]string{`"a";q=10;qu="content-bytes"`, `"a";r=4`}, LimitField, -1, ""},
	{"a limit of own without policy, in requests", [2]string{`"a";q=10;qu="content-bytes"`, `"a";r=5`}, [2]string{``, `"a";r=4`}, LimitField, -1, ""},
	{"a limit of upstream that two policies would claim", [2]string{`"a";q=10;w=60;pk=:YQ==:`, `"a";r=5`}, [2]string{`"a";q=10;w=60;pk=:Yg==:`},
		LimitField, -1, ""},
	{"a limit of own that two policies would claim", [2]string{`"a";q=10;w=60;pk=:YQ==:`}, [2]string{`"a";q=10;w=60;pk=:Yg==:`, `"a";r=5`},
		LimitField, -1, ""},
	{"a limit of upstream that would get a higher quota", [2]string{`"a";q=10;w=60;pk=:YQ==:`, `"a";r=5`}, [2]string{`"a";q=20;w=60`}, LimitField, -1, ""},
}

func TestRestrict(t *testing.T) {
	for _, tc := range restrictCases {
		t.Run(tc.name, func(t *testing.T) {
			upstream, own := fieldsOf(t, tc.upstream[0], tc.upstream[1]), fieldsOf(t, tc.own[0], tc.own[1])
			want := fieldsOf(t, tc.want[0], tc.want[1])
			got, err := Restrict(upstream, own)
			require.NoError(t, err)
			require.Equal(t, want, got)
			lawRestrict(t, upstream, own)
		})
	}
	for _, tc := range restrictErrorCases {
		t.Run(tc.name, func(t *testing.T) {
			upstream, own := fieldsOf(t, tc.upstream[0], tc.upstream[1]), fieldsOf(t, tc.own[0], tc.own[1])
			_, err := Restrict(upstream, own)
			require.Equal(t, &FieldError{Field: tc.field, Offset: -1, Item: tc.item, Param: tc.param, Err: ErrDuplicate}, err)
			lawRestrict(t, upstream, own)
		})
	}
}

func TestRestrictBounds(t *testing.T) {
	one := fieldsOf(t, `"own";q=1`, `"own";r=1`)
	var upstream Fields
	for i := range maxMembers {
		name := strconv.Itoa(i)
		upstream.Policies = append(upstream.Policies, Policy{Name: name})
		upstream.Limits = append(upstream.Limits, Limit{Name: name})
	}
	for _, tc := range []struct {
		field string
		own   Fields
	}{
		{PolicyField, one},
		{LimitField, Fields{Limits: one.Limits}},
	} {
		_, err := Restrict(upstream, tc.own)
		require.Equal(t, &FieldError{Field: tc.field, Offset: -1, Item: maxMembers, Err: ErrTooMany}, err)
		lawRestrict(t, upstream, tc.own)
	}
	upstream.Policies, upstream.Limits = upstream.Policies[1:], upstream.Limits[1:]
	_, err := Restrict(upstream, one)
	require.NoError(t, err)
}

func TestRestrictDialect(t *testing.T) {
	for _, tc := range []struct{ upstream, own, want Fields }{
		{Fields{Dialect: "github", Guessed: true}, Fields{Dialect: "ratelimit"}, Fields{Dialect: "github", Guessed: true}},
		{Fields{Dialect: "github"}, Fields{Dialect: "ratelimit", Guessed: true}, Fields{Dialect: "github", Guessed: true}},
		{Fields{}, Fields{Dialect: "ratelimit"}, Fields{Dialect: "ratelimit"}},
	} {
		got, err := Restrict(tc.upstream, tc.own)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
}

func cloneFields(f Fields) Fields {
	f.Policies, f.Limits = slices.Clone(f.Policies), slices.Clone(f.Limits)
	return f
}

// lawRestrict is law 7 for Restrict.
func lawRestrict(t testing.TB, upstream, own Fields) {
	t.Helper()
	upstreamBefore, ownBefore := cloneFields(upstream), cloneFields(own)
	got, err := Restrict(upstream, own)
	require.Equal(t, upstreamBefore, upstream, "the arguments stay as they are")
	require.Equal(t, ownBefore, own, "the arguments stay as they are")
	if err != nil {
		e := requireFieldError(t, err)
		require.True(t, e.Err == ErrDuplicate || e.Err == ErrTooMany)
		require.Equal(t, upstream, got)
		return
	}
	for i, p := range upstream.Policies {
		lawPolicyNoMore(t, p, got.Policies[i])
		require.Equal(t, p.Params, got.Policies[i].Params)
	}
	for i, l := range upstream.Limits {
		require.True(t, noMore(upstream, l, got, got.Limits[i]), "law 7: %v, got %v", l, got.Limits[i])
		require.Equal(t, l.Params, got.Limits[i].Params)
	}
	lawOwn(t, own, got)

	alone, err := Restrict(upstream, Fields{})
	require.NoError(t, err)
	require.Equal(t, upstream, alone)
	if uniqueNames(own) {
		again, err := Restrict(got, own)
		require.NoError(t, err)
		require.Equal(t, got, again, "twice is as once")
	}
}

func lawPolicyNoMore(t testing.TB, p, q Policy) {
	t.Helper()
	require.LessOrEqual(t, q.Quota, p.Quota, "law 7")
	q.Quota = p.Quota
	require.Equal(t, p, q)
}

// lawOwn: what own says is in the result as well.
func lawOwn(t testing.TB, own, got Fields) {
	t.Helper()
	for _, p := range own.Policies {
		require.True(t, slices.ContainsFunc(got.Policies, func(q Policy) bool {
			return q.Name == p.Name && equalKey(q.PartitionKey, p.PartitionKey) && quotaUnit(q) == quotaUnit(p) &&
				q.Window == p.Window && q.Quota <= p.Quota
		}), "law 7: %v, got %v", p, got.Policies)
	}
	for _, l := range own.Limits {
		require.True(t, slices.ContainsFunc(got.Limits, func(m Limit) bool { return noMore(own, l, got, m) }), "law 7: %v, got %v", l, got.Limits)
	}
}

// noMore reports whether m, a limit of g, allows no more than l, one of f.
func noMore(f Fields, l Limit, g Fields, m Limit) bool {
	p, had := f.PolicyOf(l)
	q, has := g.PolicyOf(m)
	return m.Name == l.Name && equalKey(m.PartitionKey, l.PartitionKey) && quotaUnit(q) == quotaUnit(p) &&
		(!had || !has || q.Window == p.Window && q.Quota <= p.Quota) &&
		(l.Remaining < 0 || 0 <= m.Remaining && m.Remaining <= l.Remaining) &&
		(!l.Reset.ok || m.Reset.ok && m.Reset.n >= l.Reset.n) &&
		(l.Remaining != 0 || g.waitOf(m).n >= f.waitOf(l).n)
}

func uniqueNames(f Fields) bool {
	return repeated(f.Policies, func(p *Policy) (string, []byte) { return p.Name, nil }) < 0 &&
		repeated(f.Limits, func(l *Limit) (string, []byte) { return l.Name, nil }) < 0
}

func TestRefuse(t *testing.T) {
	const policies, limits = `"burst";q=10;w=1, "daily";q=100;w=86400`, `"burst";r=4;t=1, "daily";r=0;t=3600`
	for _, tc := range []struct {
		name    string
		method  string
		fields  [2]string
		problem *Problem
		status  int
		retry   []string
		body    string
	}{
		{"quota exceeded", "GET", [2]string{policies, limits}, NewProblem(QuotaExceeded, "daily"), 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["daily"]}`},
		{"reduced capacity", "POST", [2]string{policies, ``}, NewProblem(TemporaryReducedCapacity, "burst", "daily"), 503, nil,
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"violated-policies":["burst","daily"]}`},
		{"a policy among the limits alone", "GET", [2]string{``, limits}, &Problem{Status: 403, ViolatedPolicies: []string{"daily"}}, 403, []string{"3600"},
			`{"status":403,"violated-policies":["daily"]}`},
		{"no status", "GET", [2]string{policies, limits}, &Problem{Title: "a"}, 429, []string{"3600"}, `{"title":"a"}`},
		{"nil", "GET", [2]string{policies, limits}, nil, 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429}`},
		{"HEAD", "HEAD", [2]string{policies, limits}, nil, 429, []string{"3600"}, ``},
		{"nothing to say", "GET", [2]string{}, &Problem{}, 429, nil, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := fieldsOf(t, tc.fields[0], tc.fields[1])
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(LimitField, `"old";r=1`)
				w.Header().Set(PolicyField, `"old";q=1`)
				require.NoError(t, Refuse(w, r, f, tc.problem))
			}))
			defer server.Close()
			req, err := http.NewRequest(tc.method, server.URL, nil)
			require.NoError(t, err)
			resp, err := server.Client().Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)

			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, tc.body, string(body))
			require.Equal(t, tc.retry, resp.Header["Retry-After"])
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			require.Equal(t, ProblemMediaType, resp.Header.Get("Content-Type"))
			got, err := Parse(resp.Header)
			require.NoError(t, err)
			require.Equal(t, f, got)
		})
	}
	w := httptest.NewRecorder()
	require.NoError(t, Refuse(w, nil, Fields{}, nil), "a nil request")
}

func TestRefuseWithRetryAfter(t *testing.T) {
	f := fieldsOf(t, ``, `"a";r=0;t=3600`)
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	soon, late, dated := date(time.Hour/2), date(2*time.Hour), date(-24*time.Hour)
	for _, tc := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"a date that is earlier", http.Header{"Retry-After": {soon}}, "3600"},
		{"a date that is later", http.Header{"Retry-After": {late}}, late},
		{"a date that is past", http.Header{"Retry-After": {"Tue, 15 Nov 1994 08:00:00 GMT"}}, "3600"},
		{"a date that is later than Date", http.Header{"Retry-After": {soon}, "Date": {dated}}, soon},
		{"a date without Date", http.Header{"Retry-After": {soon}, "Date": nil}, soon},
		{"seconds", http.Header{"Retry-After": {"5"}}, "3600"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			for key, values := range tc.header {
				w.Header()[key] = values
			}
			require.NoError(t, Refuse(w, nil, f, nil))
			require.Equal(t, []string{tc.want}, w.Header()["Retry-After"])
		})
	}
}

func TestRefuseErrors(t *testing.T) {
	good := fieldsOf(t, `"a";q=1`, `"a";r=0;t=1`)
	for _, tc := range []struct {
		name    string
		fields  Fields
		problem *Problem
		want    error
	}{
		{"a policy that is not among the fields", good, NewProblem(QuotaExceeded, "a", "b"), ErrMissing},
		{"no fields", Fields{}, NewProblem(QuotaExceeded, "a"), ErrMissing},
		{"an extension that names a member", good, &Problem{Extensions: map[string]json.RawMessage{"type": raw(`""`)}}, ErrDuplicate},
		{"a policy that cannot be written", Fields{Policies: []Policy{{Name: "\n"}}}, nil, ErrSyntax},
		{"a limit that cannot be written", Fields{Policies: good.Policies, Limits: []Limit{{Remaining: Unknown}}}, nil, ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set(LimitField, "old")
			err := Refuse(w, httptest.NewRequest("GET", "/", nil), tc.fields, tc.problem)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, http.Header{limitKey: {"old"}}, w.Header(), "nothing has been written")
			require.Empty(t, w.Body.String())
			require.False(t, wroteHeader(w))
		})
	}
}

// wroteHeader finds out by writing another one.
func wroteHeader(w *httptest.ResponseRecorder) bool {
	w.WriteHeader(http.StatusTeapot)
	return w.Code != http.StatusTeapot
}

func TestExpose(t *testing.T) {
	const expose = "Access-Control-Expose-Headers"
	for _, tc := range []struct {
		name   string
		header http.Header
		want   []string
	}{
		{"nothing", http.Header{}, nil},
		{"other fields", http.Header{"Content-Type": {"a"}, "X-Limit": {"1"}, "Rate": {"1"}}, nil},
		{"the current fields", http.Header{"Ratelimit": {""}, "Ratelimit-Policy": {"", ""}}, []string{"RateLimit, RateLimit-Policy"}},
		{"Retry-After", http.Header{"Retry-After": {"1"}}, []string{"Retry-After"}},
		{"legacy fields", http.Header{"X-Ratelimit-Limit": {"1"}, "Ratelimit-Remaining": {"1"}, "X-Rate-Limit-Reset": {"1"}, "X-Acme-Ratelimited": {"1"}},
			[]string{"Ratelimit-Remaining, X-Acme-Ratelimited, X-Rate-Limit-Reset, X-Ratelimit-Limit"}},
		{"keys in other spellings", http.Header{"RateLimit": {"1"}, "Ratelimit": {"1"}, "retry-after": {"1"}}, []string{"RateLimit, retry-after"}},
		{"a key without lines", http.Header{"Ratelimit": {}, "Retry-After": nil}, nil},
		{"keys that are no names", http.Header{"Ratelimit, Set-Cookie": {"1"}, "Trailer:Ratelimit": {"1"}, "Ratelimit\r\n": {"1"}, "Ratelimité": {"1"}}, nil},
		{"what is there stays", http.Header{"Ratelimit": {"1"}, expose: {"X-Request-Id"}}, []string{"X-Request-Id, RateLimit"}},
		{"a line that is there stays", http.Header{"Ratelimit": {"1"}, expose: {"A ,b", "C"}}, []string{"A ,b", "C, RateLimit"}},
		{"a blank line", http.Header{"Ratelimit": {"1"}, expose: {" "}}, []string{"RateLimit"}},
		{"no line", http.Header{"Ratelimit": {"1"}, expose: {}}, []string{"RateLimit"}},
		{"once each", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"X, ratelimit", "RETRY-AFTER"}}, []string{"X, ratelimit", "RETRY-AFTER"}},
		{"one of them is there", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"ratelimit"}}, []string{"ratelimit, Retry-After"}},
		{"a part of a name", http.Header{"Ratelimit": {"1"}, expose: {"X-RateLimit"}}, []string{"X-RateLimit, RateLimit"}},
		{"a star stays", http.Header{"Ratelimit": {"1"}, expose: {"*"}}, []string{"*, RateLimit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.header.Clone()
			Expose(tc.header)
			got := tc.header[expose]
			if len(tc.want) == 0 {
				require.Equal(t, before, tc.header)
			} else {
				require.Equal(t, tc.want, got)
			}
			Expose(tc.header)
			require.Equal(t, got, tc.header[expose], "twice is as once")
			delete(tc.header, expose)
			delete(before, expose)
			require.Equal(t, before, tc.header)
		})
	}
	for _, d := range Dialects() { // whatever is written is exposed
		f := Fields{
			Policies: []Policy{{Name: "minute", Quota: 10, Window: SecondsOf(60)}},
			Limits:   []Limit{{Name: "minute", Remaining: 5, Reset: SecondsOf(30)}},
		}
		h := http.Header{}
		if SetLegacy(h, d, f, time.Now()) != nil {
			continue // a dialect that is read alone
		}
		n := len(h)
		Expose(h)
		require.Len(t, strings.Split(h.Get(expose), ","), n, d.Name)
	}
	Expose(nil)
	shared := []string{"A"}
	Expose(http.Header{"Ratelimit": {"1"}, expose: shared})
	require.Equal(t, []string{"A"}, shared, "lines may be shared")
}

// The fields of a refusal are exposed where another origin is allowed.
func TestRefuseExposes(t *testing.T) {
	for origin, want := range map[string]string{"": "", "*": "RateLimit, Retry-After"} {
		w := httptest.NewRecorder()
		if origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
		}
		require.NoError(t, Refuse(w, nil, Fields{Limits: []Limit{{Name: "a", Reset: SecondsOf(1)}}}, nil))
		require.Equal(t, want, w.Header().Get("Access-Control-Expose-Headers"))
	}
}
