package ratelimit

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

func TestFormatPolicies(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policies []Policy
		want     string
	}{
		{"none", nil, ``},
		{"zero", []Policy{{}}, `"";q=0`},
		{"all parameters, in order", []Policy{{
			Name: "a", Quota: 1, Unit: ContentBytes, Window: SecondsOf(60), PartitionKey: []byte("k"),
			Params: Params{{"r", int64(1)}, {"acme-burst", int64(1000)}},
		}}, `"a";q=1;qu="content-bytes";w=60;pk=:aw==:;r=1;acme-burst=1000`},
		{"two", []Policy{{Name: "a", Quota: 1}, {Name: "b", Quota: MaxInteger, Window: SecondsOf(MaxInteger)}},
			`"a";q=1, "b";q=999999999999999;w=999999999999999`},
		{"escapes", []Policy{{Name: `a"b\c, ;=`, Unit: `"`}}, `"a\"b\\c, ;=";q=0;qu="\""`},
		{"an empty key", []Policy{{PartitionKey: []byte{}}}, `"";q=0;pk=::`},
		{"pad bits are zero", []Policy{{PartitionKey: unbase64("cHsdsRa894==")}}, `"";q=0;pk=:cHsdsRa89w==:`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FormatPolicies(tc.policies...)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			policyCodec.lawWrite(t, tc.policies...)
		})
	}
}

func TestFormatLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits []Limit
		want   string
	}{
		{"none", nil, ``},
		{"zero", []Limit{{}}, `"";r=0`},
		{"all parameters, in order", []Limit{{
			Name: "a", Remaining: 1, Reset: SecondsOf(0), PartitionKey: []byte("k"),
			Params: Params{{"q", int64(12)}, {"w", int64(0)}},
		}}, `"a";r=1;t=0;pk=:aw==:;q=12;w=0`},
		{"two", []Limit{{Name: "a", Remaining: MaxInteger}, {Name: "b", Reset: SecondsOf(MaxInteger)}},
			`"a";r=999999999999999, "b";r=0;t=999999999999999`},
		{"numbers of every length", []Limit{{Remaining: 9}, {Remaining: 10}, {Remaining: 99}, {Remaining: 100}, {Remaining: 1000}, {Remaining: 10203}},
			`"";r=9, "";r=10, "";r=99, "";r=100, "";r=1000, "";r=10203`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FormatLimits(tc.limits...)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			limitCodec.lawWrite(t, tc.limits...)
		})
	}
}

// Values of every type that Param lists, and what is refused.
func TestFormatValues(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  string // what follows the key
		err   error
	}{
		{int64(0), `=0`, nil},
		{int64(-MaxInteger), `=-999999999999999`, nil},
		{int64(MaxInteger), `=999999999999999`, nil},
		{int64(MaxInteger + 1), ``, ErrRange},
		{int64(-MaxInteger - 1), ``, ErrRange},
		{int64(math.MinInt64), ``, ErrRange},
		{1.0, `=1.0`, nil},
		{-0.5, `=-0.5`, nil},
		{0.0625, `=0.062`, nil}, // half to even, RFC 9651 Section 4.1.5
		{0.1 + 0.2, `=0.3`, nil},
		{2.0005, `=2.001`, nil}, // as a float64 a little more than half
		{1.0005, `=1.0`, nil},   // a little less
		{0.0, `=0.0`, nil},
		{math.Copysign(0, -1), `=0.0`, nil},
		{-0.0004, `=0.0`, nil},
		{-0.0006, `=-0.001`, nil},
		{999999999999.999, `=999999999999.999`, nil},
		{999999999999.9996, ``, ErrRange},
		{1e12, ``, ErrRange},
		{-1e12, ``, ErrRange},
		{math.MaxFloat64, ``, ErrRange},
		{math.NaN(), ``, ErrRange},
		{math.Inf(1), ``, ErrRange},
		{math.Inf(-1), ``, ErrRange},
		{"", `=""`, nil},
		{`a"\`, `="a\"\\"`, nil},
		{"\r", ``, ErrSyntax},
		{"\n", ``, ErrSyntax},
		{"\x00", ``, ErrSyntax},
		{"\x7f", ``, ErrSyntax},
		{"é", ``, ErrSyntax},
		{httpsfv.Token("*a:/"), `=*a:/`, nil},
		{httpsfv.Token(""), ``, ErrSyntax},
		{httpsfv.Token("1a"), ``, ErrSyntax},
		{httpsfv.Token("a b"), ``, ErrSyntax},
		{httpsfv.Token("a\r\n"), ``, ErrSyntax},
		{[]byte("a"), `=:YQ==:`, nil},
		{[]byte(nil), `=::`, nil},
		{true, ``, nil},
		{false, `=?0`, nil},
		{time.Unix(1659578233, 999999999), `=@1659578233`, nil},
		{time.Unix(-1, 0).UTC(), `=@-1`, nil},
		{time.Unix(MaxInteger, 0), `=@999999999999999`, nil},
		{time.Unix(MaxInteger+1, 0), ``, ErrRange},
		{time.Unix(-MaxInteger-1, 0), ``, ErrRange},
		{time.Unix(math.MaxInt64, 0), ``, ErrRange},
		{httpsfv.DisplayString("fü\n"), `=%"f%c3%bc%0a"`, nil},
		{httpsfv.DisplayString("\xff"), ``, ErrSyntax},
		{nil, ``, ErrType},
		{1, ``, ErrType},
		{int32(1), ``, ErrType},
		{uint8(1), ``, ErrType},
		{uint64(1), ``, ErrType},
		{float32(1), ``, ErrType},
		{Requests, ``, ErrType},
		{[]int{1}, ``, ErrType},
		{map[string]int{}, ``, ErrType},
		{func() {}, ``, ErrType},
		{struct{}{}, ``, ErrType},
		{new(int64), ``, ErrType},
		{httpsfv.NewItem(true), ``, ErrType},
	} {
		t.Run(fmt.Sprintf("%T %.20v", tc.value, tc.value), func(t *testing.T) {
			p := Policy{Name: "a", Params: Params{{"x", tc.value}}}
			got, err := FormatPolicies(p)
			if tc.err != nil {
				require.Equal(t, &FieldError{Field: PolicyField, Offset: -1, Param: "x", Err: tc.err}, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, `"a";q=0;x`+tc.want, got)
			}
			policyCodec.lawWrite(t, p)
		})
	}
}

func extensions(n int) Params {
	ps := make(Params, n)
	for i := range ps {
		ps[i] = Param{fmt.Sprintf("x%d", i), true}
	}
	return ps
}

func TestFormatPolicyErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy Policy
		param  string
		want   error
	}{
		{"a name with CR", Policy{Name: "a\r"}, "", ErrSyntax},
		{"a name with LF", Policy{Name: "\na"}, "", ErrSyntax},
		{"a name with NUL", Policy{Name: "\x00"}, "", ErrSyntax},
		{"a name with HTAB", Policy{Name: "a\tb"}, "", ErrSyntax},
		{"a name with DEL", Policy{Name: "\x7f"}, "", ErrSyntax},
		{"a name that is not ASCII", Policy{Name: `"café"`}, "", ErrSyntax},
		{"a quota below 0", Policy{Quota: -1}, "q", ErrRange},
		{"a quota too large", Policy{Quota: MaxInteger + 1}, "q", ErrRange},
		{"the least quota", Policy{Quota: math.MinInt64}, "q", ErrRange},
		{"a unit with LF", Policy{Unit: "a\n"}, "qu", ErrSyntax},
		{"a window of 0", Policy{Window: SecondsOf(0)}, "w", ErrRange},
		{"a window below 0", Policy{Window: SecondsOf(-1)}, "w", ErrRange},
		{"a window too long", Policy{Window: SecondsOf(MaxInteger + 1)}, "w", ErrRange},
		{"no key", Policy{Params: Params{{"", true}}}, "", ErrSyntax},
		{"a key in upper case", Policy{Params: Params{{"A", true}}}, "A", ErrSyntax},
		{"a key with a semicolon", Policy{Params: Params{{"a;q=1", true}}}, "a;q=1", ErrSyntax},
		{"a key that begins with a digit", Policy{Params: Params{{"1", true}}}, "1", ErrSyntax},
		{"a key that is q", Policy{Params: Params{{"q", int64(1)}}}, "q", ErrDuplicate},
		{"a key that is qu", Policy{Params: Params{{"qu", "a"}}}, "qu", ErrDuplicate},
		{"a key that is w", Policy{Params: Params{{"w", int64(1)}}}, "w", ErrDuplicate},
		{"a key that is pk", Policy{Params: Params{{"pk", []byte{}}}}, "pk", ErrDuplicate},
		{"a key twice", Policy{Params: Params{{"a", true}, {"b", true}, {"a", true}}}, "a", ErrDuplicate},
		{"257 parameters", Policy{Params: extensions(256)}, "", ErrTooMany},
		{"257 parameters, all defined", Policy{Unit: "u", Window: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(253)}, "", ErrTooMany},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := &FieldError{Field: PolicyField, Offset: -1, Item: 1, Param: tc.param, Err: tc.want}
			_, err := FormatPolicies(Policy{Name: "good"}, tc.policy)
			require.Equal(t, want, err)
			want.Item = 0
			require.Equal(t, want, tc.policy.Validate())
			policyCodec.lawWrite(t, tc.policy)
			policyCodec.lawWrite(t, Policy{Name: "good"}, tc.policy)
		})
	}
}

func TestFormatLimitErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit Limit
		param string
		want  error
	}{
		{"a name with CRLF", Limit{Name: "a\r\nSet-Cookie: b"}, "", ErrSyntax},
		{"remaining below 0", Limit{Remaining: -2}, "r", ErrRange},
		{"remaining unknown", Limit{Remaining: Unknown}, "r", ErrRange},
		{"remaining too large", Limit{Remaining: MaxInteger + 1}, "r", ErrRange},
		{"a reset below 0", Limit{Reset: SecondsOf(-1)}, "t", ErrRange},
		{"a reset too long", Limit{Reset: SecondsOf(math.MaxInt64)}, "t", ErrRange},
		{"a key that is r", Limit{Params: Params{{"r", int64(1)}}}, "r", ErrDuplicate},
		{"a key that is t", Limit{Params: Params{{"t", int64(1)}}}, "t", ErrDuplicate},
		{"a key that is pk", Limit{Params: Params{{"pk", []byte{}}}}, "pk", ErrDuplicate},
		{"257 parameters", Limit{Reset: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(254)}, "", ErrTooMany},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := &FieldError{Field: LimitField, Offset: -1, Param: tc.param, Err: tc.want}
			require.Equal(t, want, tc.limit.Validate())
			limitCodec.lawWrite(t, tc.limit)
			limitCodec.lawWrite(t, Limit{Name: "good"}, tc.limit)
		})
	}
}

func TestFormatBounds(t *testing.T) {
	require.NoError(t, Policy{Params: extensions(255)}.Validate())
	require.NoError(t, Limit{Reset: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(253)}.Validate())
	require.NoError(t, Fields{Policies: []Policy{{Unit: "u", Window: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(252)}}}.Validate())

	_, err := FormatLimits(make([]Limit, 1024)...)
	require.NoError(t, err)
	_, err = FormatLimits(make([]Limit, 1025)...)
	require.Equal(t, &FieldError{Field: LimitField, Offset: -1, Item: 1024, Err: ErrTooMany}, err)
	_, err = FormatPolicies(make([]Policy, 1025)...)
	require.Equal(t, &FieldError{Field: PolicyField, Offset: -1, Item: 1024, Err: ErrTooMany}, err)
}

// A header field is replaced, deleted, added to, and left alone on error.
func TestSetAndAdd(t *testing.T) {
	good, bad := Limit{Name: "a", Remaining: 1}, Limit{Remaining: -1}
	for _, tc := range []struct {
		name     string
		before   []string
		write    func(http.Header, ...Limit) error
		limits   []Limit
		want     []string
		wantFail bool
	}{
		{"set", nil, SetLimits, []Limit{good}, []string{`"a";r=1`}, false},
		{"set replaces all lines", []string{"x", "y"}, SetLimits, []Limit{good, good}, []string{`"a";r=1, "a";r=1`}, false},
		{"set nothing deletes", []string{"x"}, SetLimits, nil, nil, false},
		{"set refuses", []string{"x"}, SetLimits, []Limit{good, bad}, []string{"x"}, true},
		{"add", nil, AddLimits, []Limit{good}, []string{`"a";r=1`}, false},
		{"add a line", []string{`"b";r=2`}, AddLimits, []Limit{good}, []string{`"b";r=2`, `"a";r=1`}, false},
		{"add to a blank line", []string{" "}, AddLimits, []Limit{good}, []string{`"a";r=1`}, false},
		{"add to a blank line and another", []string{"", "x"}, AddLimits, []Limit{good}, []string{"", "x", `"a";r=1`}, false},
		{"add nothing", []string{"x"}, AddLimits, nil, []string{"x"}, false},
		{"add nothing to a blank line", []string{" "}, AddLimits, nil, []string{" "}, false},
		{"add refuses", []string{"x"}, AddLimits, []Limit{good, bad}, []string{"x"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{"Date": {"now"}}
			if tc.before != nil {
				h[limitKey] = slices.Clone(tc.before)
			}
			err := tc.write(h, tc.limits...)
			require.Equal(t, tc.wantFail, err != nil)
			require.Equal(t, tc.want, h[limitKey])
			require.Equal(t, []string{"now"}, h["Date"])
		})
	}
}

// A slice that somebody took out of the header is not written to.
func TestSetKeepsOldLines(t *testing.T) {
	h := http.Header{limitKey: {"old"}}
	old := h[limitKey]
	require.NoError(t, SetLimits(h, Limit{Name: "a"}))
	require.Equal(t, []string{"old"}, old)
}

func TestNilHeader(t *testing.T) {
	policy, limit := Policy{Name: "a"}, Limit{Name: "a"}
	require.Equal(t, errNilHeader, SetPolicies(nil, policy))
	require.Equal(t, errNilHeader, SetLimits(nil, limit))
	require.Equal(t, errNilHeader, AddPolicies(nil, policy))
	require.Equal(t, errNilHeader, AddLimits(nil, limit))
	require.Equal(t, errNilHeader, Fields{Policies: []Policy{policy}}.Set(nil))
	require.Equal(t, errNilHeader, Fields{Limits: []Limit{limit}}.Set(nil))
	require.NoError(t, SetPolicies(nil))
	require.NoError(t, AddPolicies(nil))
	require.NoError(t, AddLimits(nil))
	require.NoError(t, Fields{}.Set(nil))
}

// http.Header stores the fields under these keys.
func TestHeaderKeys(t *testing.T) {
	require.Equal(t, http.CanonicalHeaderKey(PolicyField), policyKey)
	require.Equal(t, http.CanonicalHeaderKey(LimitField), limitKey)
}

// The parameters of both fields are found by their keys, and only those.
func TestParamTable(t *testing.T) {
	for i, d := range params {
		require.Equal(t, param(i), paramOf(d.key))
	}
	require.Equal(t, definedParams, paramOf(""))
	require.Equal(t, definedParams, paramOf("a"))
	for _, key := range []string{"q", "qu", "w", "pk"} {
		require.True(t, policyField.defines(paramOf(key)), key)
	}
	for _, key := range []string{"r", "t", "pk"} {
		require.True(t, limitField.defines(paramOf(key)), key)
	}
	require.False(t, policyField.defines(paramOf("r")))
	require.False(t, limitField.defines(paramOf("w")))
}

func TestAppendAllocations(t *testing.T) {
	policies, err := ParsePolicies(benchPolicies)
	require.NoError(t, err)
	limits, err := ParseLimits(benchLimit)
	require.NoError(t, err)
	buf := make([]byte, 0, 256)
	requireAllocs(t, 0, func() { _, _ = AppendPolicies(buf, policies...) })
	requireAllocs(t, 0, func() { _, _ = AppendLimits(buf, limits...) })
}

func TestParseAllocations(t *testing.T) {
	requireAllocs(t, 1, func() { _, _ = ParseLimits(benchLimit) })
	requireAllocs(t, 1, func() { _, _ = ParsePolicies(benchPolicies) })
	requireAllocs(t, 4, func() { _, _ = ParsePolicies(benchFull) })
	requireAllocs(t, 1, func() { _, _ = ParseLimits(`"a";r=1`, `"b";r=1, "c";r=1`, `"d";r=1`) })
	h := unrelatedHeader()
	requireAllocs(t, 0, func() { _, _ = Parse(h) })
}

func requireAllocs(t *testing.T, want int, f func()) {
	t.Helper()
	require.Equal(t, float64(want), testing.AllocsPerRun(100, f))
}

// The names of a field line with escapes come out as they went in.
func TestEscapesRoundTrip(t *testing.T) {
	var all strings.Builder
	for c := byte(0x20); c < 0x7f; c++ {
		all.WriteByte(c)
	}
	limitCodec.lawWrite(t, Limit{Name: all.String()}, Limit{Name: strings.Repeat(`\"`, 100)})
}
