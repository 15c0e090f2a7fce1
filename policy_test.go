package ratelimit

import (
	"math"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

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

func TestEqualValue(t *testing.T) {
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
		{"Decimals that are not", 0.301, 0.302, false},
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
			require.Equal(t, tc.want, equalValue(tc.a, tc.b))
			require.Equal(t, tc.want, equalValue(tc.b, tc.a))
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
	require.Equal(t, `<invalid: ratelimit: member 1 of RateLimit-Policy: parameter q: out of range, it must be an Integer from 0>`, Policy{Quota: -2}.String())
	require.Equal(t, `<invalid: ratelimit: member 1 of RateLimit: parameter r: out of range, it must be an Integer from 0>`, Limit{Remaining: -2}.String())
	require.Equal(t, `"a";w=60`, Policy{Name: "a", Quota: Unknown, Window: SecondsOf(60)}.String(), "not a member: q is missing")
	require.Equal(t, `"a";t=60`, Limit{Name: "a", Remaining: Unknown, Reset: SecondsOf(60)}.String(), "not a member: r is missing")
}
