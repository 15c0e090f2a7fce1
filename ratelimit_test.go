package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

func TestSeconds(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, tc := range []struct {
		name     string
		seconds  Seconds
		value    int64
		ok       bool
		duration time.Duration
		text     string
	}{
		{"absent", Seconds{}, 0, false, 0, "absent"},
		{"zero", SecondsOf(0), 0, true, 0, "0s"},
		{"thirty", SecondsOf(30), 30, true, 30 * time.Second, "30s"},
		{"negative", SecondsOf(-1), -1, true, -time.Second, "-1s"},
		{"the longest that fits", SecondsOf(9223372036), 9223372036, true, 9223372036 * time.Second, "9223372036s"},
		{"the first that does not", SecondsOf(9223372037), 9223372037, true, longest, "9223372037s"},
		{"the most negative that fits", SecondsOf(-9223372036), -9223372036, true, -9223372036 * time.Second, "-9223372036s"},
		{"the first negative that does not", SecondsOf(-9223372037), -9223372037, true, math.MinInt64, "-9223372037s"},
		{"the largest Integer", SecondsOf(MaxInteger), MaxInteger, true, longest, "999999999999999s"},
		{"the largest int64", SecondsOf(math.MaxInt64), math.MaxInt64, true, longest, "9223372036854775807s"},
		{"the least int64", SecondsOf(math.MinInt64), math.MinInt64, true, math.MinInt64, "-9223372036854775808s"},
		{"ceil of 0", CeilSeconds(0), 0, true, 0, "0s"},
		{"ceil of less", CeilSeconds(-time.Hour), 0, true, 0, "0s"},
		{"ceil of a little less", CeilSeconds(-1), 0, true, 0, "0s"},
		{"ceil of the least", CeilSeconds(math.MinInt64), 0, true, 0, "0s"},
		{"ceil of 1 ns", CeilSeconds(1), 1, true, time.Second, "1s"},
		{"ceil of 1 s", CeilSeconds(time.Second), 1, true, time.Second, "1s"},
		{"ceil of 1 s and 1 ns", CeilSeconds(time.Second + 1), 2, true, 2 * time.Second, "2s"},
		{"ceil of the longest", CeilSeconds(longest), 9223372037, true, longest, "9223372037s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			value, ok := tc.seconds.Value()
			require.Equal(t, tc.value, value)
			require.Equal(t, tc.ok, ok)
			duration, ok := tc.seconds.Duration()
			require.Equal(t, tc.duration, duration)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.text, tc.seconds.String())
		})
	}
	require.NotEqual(t, Seconds{}, SecondsOf(0))
	require.True(t, SecondsOf(7) == CeilSeconds(7*time.Second))
}

var parseCases = readResponses("headers")

func TestParse(t *testing.T) {
	for _, tc := range parseCases {
		t.Run(tc.name, func(t *testing.T) {
			h := trial.Wire(tc.wire)
			got, err := Parse(h)
			require.Equal(t, tc.want, got.String())
			require.Equal(t, tc.faults, faultPlaces(t, err))
			lawParse(t, h)
		})
	}
	_, err := Parse(nil)
	require.NoError(t, err)
}

func TestFieldsSet(t *testing.T) {
	policy, limit := Policy{Name: "a", Quota: 2}, Limit{Name: "a", Remaining: 1}
	old := func() http.Header {
		return http.Header{draft.PolicyKey: {"x", "y"}, draft.LimitKey: {"x", "y"}, "Date": {"now"}}
	}
	for _, tc := range []struct {
		name   string
		fields Fields
		want   http.Header
		err    error
	}{
		{"both", Fields{Policies: []Policy{policy}, Limits: []Limit{limit}},
			http.Header{draft.PolicyKey: {`"a";q=2`}, draft.LimitKey: {`"a";r=1`}, "Date": {"now"}}, nil},
		{"policies", Fields{Policies: []Policy{policy}}, http.Header{draft.PolicyKey: {`"a";q=2`}, "Date": {"now"}}, nil},
		{"limits", Fields{Limits: []Limit{limit, limit}}, http.Header{draft.LimitKey: {`"a";r=1, "a";r=1`}, "Date": {"now"}}, nil},
		{"neither", Fields{}, http.Header{"Date": {"now"}}, nil},
		{"a bad policy", Fields{Policies: []Policy{policy, {Quota: -1}}, Limits: []Limit{limit}}, old(), ErrRange},
		{"a bad limit", Fields{Policies: []Policy{policy}, Limits: []Limit{{Remaining: Unknown}}}, old(), ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := old()
			require.ErrorIs(t, tc.fields.Set(h), tc.err)
			require.Equal(t, tc.want, h)
		})
	}
}

var (
	policyOfCases = trial.PlainCases("testdata/fields/policyof.txt") // policies and a limit, with its policy
	tightestCases = trial.PlainCases("testdata/fields/tightest.txt") // policies and limits, with the name of the tightest
)

func TestPolicyOf(t *testing.T) {
	for _, tc := range policyOfCases {
		t.Run(tc.Name, func(t *testing.T) {
			f := pairOf(t, tc.In)
			got, ok := f.PolicyOf(f.Limits[0])
			require.Equal(t, tc.Want != "", ok)
			if ok {
				require.Equal(t, tc.Want, got.String())
			} else {
				require.Equal(t, Policy{}, got)
			}
			lawJoin(t, f)
		})
	}
}

// Numbers of different units cannot be compared, but fractions of their quotas can.
func TestTightest(t *testing.T) {
	for _, tc := range tightestCases {
		t.Run(tc.Name, func(t *testing.T) {
			f := pairOf(t, tc.In)
			got, ok := f.Tightest()
			require.True(t, ok)
			require.Equal(t, tc.Want, got.Name)
			lawJoin(t, f)
		})
	}
	_, ok := Fields{}.Tightest()
	require.False(t, ok)
}

func TestWritable(t *testing.T) {
	f := fieldsOf(t, `"a";q=unknown;w=1, "b";q=2`, `"a";r=unknown;t=1, "b";r=2, "c";r=unknown`)
	before := Fields{Policies: slices.Clone(f.Policies), Limits: slices.Clone(f.Limits)}
	require.Error(t, f.Set(http.Header{}))
	got := f.Writable()
	require.Equal(t, fieldsOf(t, `"b";q=2`, `"b";r=2`).Policies, got.Policies)
	require.Equal(t, fieldsOf(t, `"b";q=2`, `"b";r=2`).Limits, got.Limits)
	require.NoError(t, got.Set(http.Header{}))
	require.Equal(t, before.Policies, f.Policies, "f stays as it is")
	require.Equal(t, before.Limits, f.Limits, "f stays as it is")
	require.Equal(t, got, got.Writable())
	require.Equal(t, Fields{}, Fields{}.Writable())
}

func TestSecondsAfter(t *testing.T) {
	whole := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		seconds Seconds
		from    time.Time
		want    time.Time
		ok      bool
	}{
		{"absent", Seconds{}, whole, time.Time{}, false},
		{"zero", SecondsOf(0), whole, whole, true},
		{"zero, rounded up", SecondsOf(0), whole.Add(1), whole.Add(time.Second), true},
		{"thirty", SecondsOf(30), whole, whole.Add(30 * time.Second), true},
		{"thirty, rounded up", SecondsOf(30), whole.Add(999 * time.Millisecond), whole.Add(31 * time.Second), true},
		{"negative", SecondsOf(-30), whole, whole.Add(-30 * time.Second), true},
		{"too long", SecondsOf(MaxInteger), whole, whole.Add(math.MaxInt64).Truncate(time.Second).Add(time.Second), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := tc.seconds.After(tc.from)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, got)
		})
	}
	now := time.Now()
	got, _ := SecondsOf(1).After(now)
	require.Equal(t, got, got.Round(0), "equal answers give equal times: no monotonic reading")
}

func TestFieldsValidate(t *testing.T) {
	a, b := []byte("a"), []byte("b")
	for _, tc := range []struct {
		name   string
		fields Fields
		want   error
	}{
		{"nothing", Fields{}, nil},
		{"distinct names", Fields{Policies: []Policy{{Name: "a"}, {Name: "b"}}, Limits: []Limit{{Name: "a"}, {Name: "b"}}}, nil},
		{"distinct keys", Fields{Policies: []Policy{{PartitionKey: a}, {PartitionKey: b}, {PartitionKey: []byte{}}, {}}}, nil},
		{"an empty name", Fields{Policies: []Policy{{}}, Limits: []Limit{{}}}, nil},
		{"a name twice in policies", Fields{Policies: []Policy{{Name: "x"}, {Name: "a"}, {Name: "a"}}},
			&FieldError{Field: PolicyField, Offset: -1, Item: 2, Err: ErrDuplicate}},
		{"a name and key twice in limits", Fields{Limits: []Limit{{Name: "a", PartitionKey: b}, {Name: "a", PartitionKey: b}}},
			&FieldError{Field: LimitField, Offset: -1, Item: 1, Err: ErrDuplicate}},
		{"a bad policy", Fields{Policies: []Policy{{}, {Name: "a", Quota: -1}}},
			&FieldError{Field: PolicyField, Offset: -1, Item: 1, Param: "q", Err: ErrRange}},
		{"a bad limit", Fields{Limits: []Limit{{Name: "\n"}}},
			&FieldError{Field: LimitField, Offset: -1, Err: ErrSyntax}},
		{"too many", Fields{Limits: make([]Limit, 1025)},
			&FieldError{Field: LimitField, Offset: -1, Item: 1024, Err: ErrTooMany}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.fields.Validate()) })
	}
}

func TestHeaderOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   map[string][]string
		want http.Header
	}{
		{"nil", nil, http.Header{}},
		{"metadata of gRPC", map[string][]string{"ratelimit": {`"a";r=1`, `"b";r=2`}, "ratelimit-policy": {`"a";q=9`}, "content-type": {"application/grpc"}},
			http.Header{"Ratelimit": {`"a";r=1`, `"b";r=2`}, "Ratelimit-Policy": {`"a";q=9`}, "Content-Type": {"application/grpc"}}},
		{"as the draft spells them", map[string][]string{"RateLimit": {`"a";r=1`}, "X-RateLimit-Limit": {"9"}}, http.Header{"Ratelimit": {`"a";r=1`}, "X-Ratelimit-Limit": {"9"}}},
		{"several spellings", map[string][]string{"ratelimit": {"3", "4"}, "RATELIMIT": {"1"}, "RateLimit": {"2"}}, http.Header{"Ratelimit": {"1", "2", "3", "4"}}},
		{"canonical already", map[string][]string{"Retry-After": {"1"}}, http.Header{"Retry-After": {"1"}}},
		{"no name", map[string][]string{"a b": {"1"}, ":status": {"200"}}, http.Header{"a b": {"1"}, ":status": {"200"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, HeaderOf(tc.in))
		})
	}
	m := map[string][]string{"ratelimit": make([]string, 1, 2)}
	HeaderOf(m).Add("RateLimit", "2")
	require.Equal(t, []string{"", ""}, m["ratelimit"][:2], "no memory is shared")
}

// A member with any other value is not equal.
func TestEqual(t *testing.T) {
	requireOthers(t, policyCodec,
		`"a";q=1;qu="requests";w=60;pk=:aw==:;x=1`,
		`"b";q=1;qu="requests";w=60;pk=:aw==:;x=1`,
		`"a";q=2;qu="requests";w=60;pk=:aw==:;x=1`,
		`"a";q=1;w=60;pk=:aw==:;x=1`,
		`"a";q=1;qu="requests";w=61;pk=:aw==:;x=1`,
		`"a";q=1;qu="requests";pk=:aw==:;x=1`,
		`"a";q=1;qu="requests";w=60;pk=:bA==:;x=1`,
		`"a";q=1;qu="requests";w=60;pk=::;x=1`,
		`"a";q=1;qu="requests";w=60;x=1`,
		`"a";q=1;qu="requests";w=60;pk=:aw==:`,
		`"a";q=1;qu="requests";w=60;pk=:aw==:;y=1`,
		`"a";q=1;qu="requests";w=60;pk=:aw==:;x=2`,
		`"a";q=1;qu="requests";w=60;pk=:aw==:;x=1.0`,
	)
	requireOthers(t, limitCodec,
		`"a";r=1;t=60;pk=:aw==:;x="y"`,
		`"b";r=1;t=60;pk=:aw==:;x="y"`,
		`"a";r=2;t=60;pk=:aw==:;x="y"`,
		`"a";r=1;t=0;pk=:aw==:;x="y"`,
		`"a";r=1;pk=:aw==:;x="y"`,
		`"a";r=1;t=60;pk=::;x="y"`,
		`"a";r=1;t=60;x="y"`,
		`"a";r=1;t=60;pk=:aw==:;x="y";z`,
	)
	require.True(t, Policy{Params: Params{}}.Equal(Policy{}))
	invalid := Policy{Params: Params{{"", true}}}
	require.True(t, invalid.Equal(invalid))
	require.False(t, invalid.Equal(Policy{}))
	require.False(t, Policy{}.Equal(invalid))
}

// requireOthers fails if a member equals one of the other members, or does not equal itself.
func requireOthers[T memberType[T]](t *testing.T, c codec[T], member string, others ...string) {
	t.Helper()
	list, err := c.parse(append([]string{member, member}, others...)...)
	require.NoError(t, err)
	require.True(t, list[0].Equal(list[1]))
	for _, other := range list[2:] {
		require.False(t, list[0].Equal(other), "%v", other)
		require.False(t, other.Equal(list[0]), "%v", other)
	}
}

func TestParamsEqual(t *testing.T) {
	at := time.Unix(100, 0)
	for _, tc := range []struct {
		name string
		a, b any
		want bool
	}{
		{"Integers", int64(1), int64(1), true},
		{"other Integers", int64(1), int64(2), false},
		{"an Integer and a Decimal", int64(1), 1.0, false},
		{"Decimals", 0.5, 0.5, true},
		{"Decimals that are written alike", 0.1 + 0.2, 0.3, true},
		{"Decimals that are written differently", 0.301, 0.302, false},
		{"the zero Date and a String", time.Time{}, "x", false},
		{"a Decimal and a String", 0.5, "0.5", false},
		{"a Decimal that cannot be written", 1e300, 1e300, true},
		{"minus zero", math.Copysign(0, -1), 0.0, true},
		{"a number that rounds to zero", -0.0004, 0.0, true},
		{"NaN", math.NaN(), math.NaN(), false},
		{"Byte Sequences", []byte("a"), []byte("a"), true},
		{"nil and an empty Byte Sequence", []byte(nil), []byte{}, true},
		{"a Byte Sequence and a String", []byte("a"), "a", false},
		{"Dates in two zones", at, at.UTC(), true},
		{"Dates that are written alike", at, at.Add(time.Millisecond), true},
		{"other Dates", at, at.Add(time.Second), false},
		{"a Date and an Integer", at, int64(100), false},
		{"a Token and a String", httpsfv.Token("a"), "a", false},
		{"a Display String and a String", httpsfv.DisplayString("a"), "a", false},
		{"Booleans", true, true, true},
		{"nothing", nil, nil, true},
		{"values that cannot be written", []int{1}, []int{1}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := Params{{"k", tc.a}}, Params{{"k", tc.b}}
			require.Equal(t, tc.want, a.equal(b))
			require.Equal(t, tc.want, b.equal(a))
		})
	}
}

func TestParamsGet(t *testing.T) {
	ps := Params{{"a", int64(1)}, {"b", nil}}
	got, ok := ps.Get("a")
	require.True(t, ok)
	require.Equal(t, int64(1), got)
	got, ok = ps.Get("b")
	require.True(t, ok)
	require.Nil(t, got)
	_, ok = ps.Get("c")
	require.False(t, ok)
	_, ok = Params(nil).Get("a")
	require.False(t, ok)
}

func TestInvalidString(t *testing.T) {
	require.Equal(t, `<invalid: ratelimit: member 1 of RateLimit-Policy: parameter q: out of range, it must be an Integer from 0 to 999999999999999>`, Policy{Quota: -2}.String())
	require.Equal(t, `<invalid: ratelimit: member 1 of RateLimit: parameter r: out of range, it must be an Integer from 0 to 999999999999999>`, Limit{Remaining: -2}.String())
	require.Equal(t, `"a";w=60`, Policy{Name: "a", Quota: Unknown, Window: SecondsOf(60)}.String(), "not a member: q is missing")
	require.Equal(t, `"a";t=60`, Limit{Name: "a", Remaining: Unknown, Reset: SecondsOf(60)}.String(), "not a member: r is missing")
}

// Pairs agrees with PolicyOf, for few policies and for many.
func TestPairs(t *testing.T) {
	for _, n := range []int{2, 40} {
		f := Fields{Policies: []Policy{{Name: "keyed", Quota: 9, PartitionKey: []byte("k")}}}
		for i := range n {
			name := strconv.Itoa(i)
			f.Policies = append(f.Policies, Policy{Name: name, Quota: int64(i)})
			f.Limits = append(f.Limits, Limit{Name: name}, Limit{Name: "none of " + name}, Limit{Name: "keyed"})
		}
		i := 0
		for l, p := range f.Pairs() {
			require.Same(t, &f.Limits[i], l)
			want, ok := f.PolicyOf(*l)
			if !ok {
				want = Policy{Name: l.Name, Quota: Unknown}
			}
			require.Equal(t, want, *p)
			i++
		}
		require.Len(t, f.Limits, i)
		for l := range f.Pairs() {
			require.Same(t, &f.Limits[0], l, "a loop may end early")
			break
		}
	}
	f := fieldsOf(t, `"a";q=5`, `"a";r=1, "a";r=2`)
	trial.RequireAllocs(t, 0, func() {
		for l, p := range f.Pairs() {
			if p.Quota != 5 || l.Remaining == 0 {
				t.Error("a wrong pair")
			}
		}
	})
}

func TestUntilReset(t *testing.T) {
	f, err := ParseAny(trial.Wire("X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1.5"), LegacyOptions{})
	require.NoError(t, err)
	f.Limits = append(f.Limits, Limit{Name: "b", Reset: SecondsOf(3)}, Limit{Name: "c"}, Limit{Name: "d", Reset: SecondsOf(math.MaxInt64)})
	for i, want := range map[int]time.Duration{0: 1500 * time.Millisecond, 1: 3 * time.Second, 2: -1, 3: math.MaxInt64, 4: -1, -1: -1} {
		got, ok := f.UntilReset(i)
		require.Equal(t, want >= 0, ok, i)
		require.Equal(t, max(want, 0), got, i)
	}
	f.Limits[0].Reset = SecondsOf(5)
	got, _ := f.UntilReset(0)
	require.Equal(t, 5*time.Second, got, "a Reset that was changed counts")
}

func TestUnitCanonical(t *testing.T) {
	for unit, want := range map[Unit]Unit{
		"": Requests, "requests": Requests, "request": Requests, "Requests": "Requests", "tokens": "tokens", ContentBytes: ContentBytes,
	} {
		require.Equal(t, want, unit.Canonical(), string(unit))
	}
}
