package ratelimit

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A writtenVector is the part of a vector about writing members or a value.
type writtenVector struct {
	Text  *string
	Error *vectorError
}

// TestFormat writes the members of ratelimittest/vectors/texts.json, or gets the error there.
func TestFormat(t *testing.T) {
	type text struct {
		textVector
		writtenVector
	}
	for _, v := range trial.ReadVectors[text](t, "texts") {
		t.Run(v.Name, func(t *testing.T) {
			if v.Limits != nil {
				limits := vectorMembers(t, v.Limits, (*vectorMember).limit)
				runFormat(t, limitCodec, limits, v.writtenVector, Limit{Name: "good"})
			} else {
				policies := vectorMembers(t, v.Policies, (*vectorMember).policy)
				runFormat(t, policyCodec, policies, v.writtenVector, Policy{Name: "good"})
			}
		})
	}
}

func runFormat[T memberType[T]](t *testing.T, c codec[T], members []T, v writtenVector, good T) {
	got, err := c.format(members...)
	c.lawWrite(t, members...)
	if v.Error == nil {
		require.NoError(t, err)
		require.Equal(t, *v.Text, got)
		return
	}
	want := &FieldError{Field: c.field, Offset: -1, Param: v.Error.Param, Err: causeOf(v.Error.Cause)}
	want.Line = requireFieldError(t, err).Line // of an extension parameter, its index
	require.Equal(t, want, err)
	require.Equal(t, want, members[0].Validate())
	c.lawWrite(t, good, members[0])
	_, err = c.format(good, members[0])
	want.Item = 1
	require.Equal(t, want, err)
}

// A valueCase is a Go value of an extension parameter, with the text after its key, or the cause of
// the error.
type valueCase struct {
	name  string
	value any
	want  string // what follows the key
	err   error
}

// goValues are values that JSON lacks. ratelimittest/vectors/values.json has the others.
var goValues = []valueCase{
	{"a little more than half a thousandth", 2.0005, `=2.001`, nil}, // the float64 is a little more than half
	{"a little less than half a thousandth", 1.0005, `=1.0`, nil},   // a little less
	{"the largest float64", math.MaxFloat64, ``, ErrRange},
	{"no number", math.NaN(), ``, ErrRange},
	{"infinity", math.Inf(1), ``, ErrRange},
	{"negative infinity", math.Inf(-1), ``, ErrRange},
	{"an empty Byte Sequence", []byte(nil), `=::`, nil},
	{"a Date is whole seconds", time.Unix(1659578233, 999999999), `=@1659578233`, nil},
	{"a Display String that is not UTF-8", httpsfv.DisplayString("\xff"), ``, ErrSyntax},
	{"nil", nil, ``, ErrType},
	{"an int", 1, ``, ErrType},
	{"an int32", int32(1), ``, ErrType},
	{"a uint8", uint8(1), ``, ErrType},
	{"a uint64", uint64(1), ``, ErrType},
	{"a float32", float32(1), ``, ErrType},
	{"a Unit", Requests, ``, ErrType},
	{"a slice of another type", []int{1}, ``, ErrType},
	{"a map", map[string]int{}, ``, ErrType},
	{"a function", func() {}, ``, ErrType},
	{"a struct", struct{}{}, ``, ErrType},
	{"a pointer", new(int64), ``, ErrType},
	{"an Item of httpsfv", httpsfv.NewItem(true), ``, ErrType},
}

// Values of every type that Param lists, and values that cannot be written.
func TestFormatValues(t *testing.T) {
	cases := goValues
	type value struct {
		valueVector
		writtenVector
	}
	for _, v := range trial.ReadVectors[value](t, "values") {
		tc := valueCase{name: v.Name, value: readVectorValue(v.Value)}
		if v.Error != nil {
			tc.err = causeOf(v.Error.Cause)
		} else {
			tc.want = *v.Text
		}
		cases = append(cases, tc)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
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

func TestFormatBounds(t *testing.T) {
	require.NoError(t, Policy{Params: extensions(255)}.Validate())
	require.NoError(t, Limit{Reset: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(253)}.Validate())
	require.NoError(t, Fields{Policies: []Policy{{Unit: "u", Window: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(252)}}}.Validate())

	full := Policy{Unit: "u", Window: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(253)}
	for _, p := range []Policy{{Params: extensions(256)}, full} {
		require.Equal(t, &FieldError{Field: PolicyField, Offset: -1, Err: ErrTooMany}, p.Validate())
		policyCodec.lawWrite(t, p)
	}
	l := Limit{Reset: SecondsOf(1), PartitionKey: []byte{}, Params: extensions(254)}
	require.Equal(t, &FieldError{Field: LimitField, Offset: -1, Err: ErrTooMany}, l.Validate())
	limitCodec.lawWrite(t, l)

	_, err := FormatLimits(make([]Limit, 1024)...)
	require.NoError(t, err)
	_, err = FormatLimits(make([]Limit, 1025)...)
	require.Equal(t, &FieldError{Field: LimitField, Offset: -1, Item: 1024, Err: ErrTooMany}, err)
	_, err = FormatPolicies(make([]Policy, 1025)...)
	require.Equal(t, &FieldError{Field: PolicyField, Offset: -1, Item: 1024, Err: ErrTooMany}, err)
}

// Add appends a line, or replaces a blank one.
func TestFieldsAdd(t *testing.T) {
	good, bad := Limit{Name: "a", Remaining: 1}, Limit{Remaining: -1}
	for _, tc := range []struct {
		name     string
		before   []string
		limits   []Limit
		want     []string
		wantFail bool
	}{
		{"no line", nil, []Limit{good}, []string{`"a";r=1`}, false},
		{"a line", []string{`"b";r=2`}, []Limit{good}, []string{`"b";r=2`, `"a";r=1`}, false},
		{"a blank line", []string{" "}, []Limit{good}, []string{`"a";r=1`}, false},
		{"a blank line and another", []string{"", "x"}, []Limit{good}, []string{"", "x", `"a";r=1`}, false},
		{"nothing to a line", []string{"x"}, nil, []string{"x"}, false},
		{"nothing to a blank line", []string{" "}, nil, []string{" "}, false},
		{"a limit that is refused", []string{"x"}, []Limit{good, bad}, []string{"x"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{draft.LimitKey: tc.before}
			require.Equal(t, tc.wantFail, Fields{Limits: tc.limits}.Add(h) != nil)
			require.Equal(t, tc.want, h[draft.LimitKey])
		})
	}
}

// A slice that was taken from the header is not modified.
func TestSetKeepsOldLines(t *testing.T) {
	h := http.Header{draft.LimitKey: {"old"}}
	old := h[draft.LimitKey]
	require.NoError(t, Fields{Limits: []Limit{{Name: "a"}}}.Set(h))
	require.Equal(t, []string{"old"}, old)
}

func TestNilHeader(t *testing.T) {
	for _, f := range []Fields{{Policies: []Policy{{Name: "a"}}}, {Limits: []Limit{{Name: "a"}}}} {
		require.Equal(t, errNilHeader, f.Set(nil))
		require.Equal(t, errNilHeader, f.Add(nil))
	}
	require.NoError(t, Fields{}.Set(nil))
	require.NoError(t, Fields{}.Add(nil))
}

func TestAllocations(t *testing.T) {
	policies, err := ParsePolicies(benchPolicies)
	require.NoError(t, err)
	limits, err := ParseLimits(benchLimit)
	require.NoError(t, err)
	full, err := ParsePolicies(benchFull)
	require.NoError(t, err)
	buf, h := make([]byte, 0, 256), trial.Wire(trial.Unrelated)
	trial.RequireAllocs(t, 0, func() { _, _ = AppendPolicies(buf, policies...) })
	trial.RequireAllocs(t, 0, func() { _, _ = AppendPolicies(buf, full...) })
	trial.RequireAllocs(t, 0, func() { _, _ = AppendLimits(buf, limits...) })
	trial.RequireAllocs(t, 1, func() { _, _ = ParseLimits(benchLimit) })
	trial.RequireAllocs(t, 1, func() { _, _ = ParsePolicies(benchPolicies) })
	trial.RequireAllocs(t, 4, func() { _, _ = ParsePolicies(benchFull) })
	trial.RequireAllocs(t, 2, func() { _, _ = ParseLimits(`"a";r=1`, `"b";r=1, "c";r=1`, `"d";r=1`) }) // one joins the lines
	trial.RequireAllocs(t, 0, func() { _, _ = Parse(h) })

	f := fieldsOf(t, `"a";q=10000;w=1000`, `"a";r=10000;t=10`)
	trial.RequireAllocs(t, 0, func() { _ = f.Limits[0].Cap(f.Policies[0], 2) }) // a burst that is a whole number
	for _, line := range []string{"limit=100, remaining=50, reset=5", `burst;r=0.5;t=30`, `"burst";t=30`} {
		lines := []string{line} // not in the form of the next draft
		trial.RequireAllocs(t, 0, func() { _ = parseNextLimits(lines) })
	}
}

// TestJSON writes members as in testdata/fields/json.txt, and reads them again.
func TestJSON(t *testing.T) {
	for _, tc := range trial.PlainCases("testdata/fields/json.txt") {
		if tc.Refused {
			continue // see TestJSONErrors
		}
		t.Run(tc.Name, func(t *testing.T) {
			var read interface {
				json.Unmarshaler
				fmt.Stringer
			} = new(Policy)
			if strings.HasPrefix(tc.Name, "a limit") {
				read = new(Limit)
			}
			require.NoError(t, json.Unmarshal([]byte(tc.In), read))
			require.Equal(t, tc.Want, read.String())
			again, err := json.Marshal(read)
			require.NoError(t, err)
			require.Equal(t, tc.In, string(again))
		})
	}
	rounded, err := json.Marshal(Param{"c", -0.0625})
	require.NoError(t, err)
	require.Equal(t, `["c",-0.062]`, string(rounded))
	f := Fields{
		Policies: []Policy{{Name: "a", Quota: 5}}, Limits: []Limit{{Name: "a", Remaining: Unknown, Reset: SecondsOf(5)}},
		Dialect: "x-ratelimit", Guessed: true,
	}
	text, err := json.Marshal(f)
	require.NoError(t, err, "an unknown number does not spoil what is around it")
	require.Equal(t, `{"policies":[{"name":"a","quota":5}],"limits":[{"name":"a","reset":5}],"dialect":"x-ratelimit","guessed":true}`, string(text))
	var got Fields
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, f, got)
	text, err = json.Marshal(Fields{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(text))
	require.NoError(t, json.Unmarshal([]byte(`null`), &got))
	require.Equal(t, f, got, "null changes nothing")
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, Fields{}, got, "a missing field is absent")
}

// On error nothing changes: fields are read as a whole or not at all.
func TestJSONErrors(t *testing.T) {
	policy := Policy{Name: "before", Quota: 7}
	fields := Fields{Policies: []Policy{policy}, Limits: []Limit{{Name: "before"}}, Dialect: "before", Guessed: true}
	for _, tc := range trial.PlainCases("testdata/fields/json.txt") {
		if !tc.Refused {
			continue // see TestJSON
		}
		t.Run(tc.Name, func(t *testing.T) {
			p, f := policy, fields
			if strings.HasPrefix(tc.Name, "fields: ") {
				require.ErrorIs(t, f.UnmarshalJSON([]byte(tc.In)), causeOf(tc.Want))
				require.Error(t, json.Unmarshal([]byte(tc.In), &f))
			} else {
				require.ErrorIs(t, json.Unmarshal([]byte(tc.In), &p), causeOf(tc.Want))
			}
			require.Equal(t, policy, p)
			require.Equal(t, fields, f)
		})
	}
	var fault *FieldError
	require.ErrorAs(t, new(Fields).UnmarshalJSON([]byte(`{"limits":[{"remaining":-2}]}`)), &fault)
	require.Equal(t, Limit{Remaining: -2}.Validate(), fault)
	_, err := json.Marshal(Param{"A", int64(1)})
	require.ErrorIs(t, err, ErrSyntax)
	require.NotErrorIs(t, new(Fields).UnmarshalJSON([]byte(`{"limits":[{"remaining":-2}]}`)), ErrSyntax)
	got := Policy{Name: "before"}
	require.NoError(t, json.Unmarshal([]byte(`null`), &got))
	require.Equal(t, Policy{Name: "before"}, got)
	require.NoError(t, json.Unmarshal([]byte(`{"future":1}`), &got))
	require.Equal(t, Policy{Quota: Unknown}, got, "a missing quota is not 0")
	limit := Limit{Name: "before"}
	require.ErrorAs(t, json.Unmarshal([]byte(`{"quota":-2}`), &got), &fault)
	require.Equal(t, Policy{Quota: -2}.Validate(), fault)
	require.ErrorAs(t, json.Unmarshal([]byte(`{"remaining":-2}`), &limit), &fault)
	require.Equal(t, Limit{Remaining: -2}.Validate(), fault)
	require.NoError(t, json.Unmarshal([]byte(`null`), &limit))
	require.Equal(t, Limit{Name: "before"}, limit)
	require.NoError(t, json.Unmarshal([]byte(`{"reset":null}`), &limit))
	require.Equal(t, Limit{Remaining: Unknown}, limit, "a missing remaining is not 0")

	for _, text := range []string{`5`, `[]`, `["a"]`, `["a",1,2]`, `[1,1]`, `["A",1]`, `["a",null]`} {
		param := Param{Key: "before"}
		require.ErrorIs(t, json.Unmarshal([]byte(text), &param), ErrSyntax, text)
		require.Equal(t, Param{Key: "before"}, param, text)
	}

	_, err = Policy{Quota: -2}.MarshalJSON()
	require.Equal(t, &FieldError{Field: PolicyField, Offset: -1, Param: "q", Err: ErrRange}, err)
	_, err = Limit{Remaining: -2}.MarshalJSON()
	require.Equal(t, &FieldError{Field: LimitField, Offset: -1, Param: "r", Err: ErrRange}, err)
	for _, invalid := range []any{
		Policy{Quota: -2}, Limit{Remaining: -2}, Policy{Name: "é"}, Param{Key: "A", Value: true}, Param{Key: "a"}, Params{{"a", struct{}{}}},
	} {
		_, err := json.Marshal(invalid)
		require.Error(t, err, "%v", invalid)
	}
}

// The text of an error names the fault, and never contains what was read.
func TestJSONErrorTexts(t *testing.T) {
	for _, tc := range []struct {
		name string
		read json.Unmarshaler
		in   string
		want string
	}{
		{"a number of no int64", new(Policy), `{"name":"a","quota":31415926535897932384}`, "JSON of member of RateLimit-Policy: quota: not well-formed"},
		{"a fraction", new(Limit), `{"remaining":31415.9}`, "JSON of member of RateLimit: remaining: not well-formed"},
		{"a key that is not base64", new(Limit), `{"partition_key":"31415 "}`, "JSON of member of RateLimit: not well-formed"},
		{"a name that is a number", new(Limit), `{"name":31415}`, "JSON of member of RateLimit: name: not well-formed"},
		{"no object", new(Policy), `31415`, "JSON of member of RateLimit-Policy: not well-formed"},
		{"no JSON", new(Policy), `{"name":"31415"`, "JSON of member of RateLimit-Policy: not well-formed"},
		{"a window in words", new(Policy), `{"window":"31415"}`, "JSON of seconds: not well-formed"},
		{"a parameter that is a number", new(Policy), `{"params":[31415]}`, "JSON of a parameter: not an array of key and value: not well-formed"},
		{"a value that is an object", new(Policy), `{"params":[["a",{"31415":1}]]}`, "JSON of the value of a parameter: not well-formed"},
		{"a number out of range", new(Policy), `{"quota":-31415}`, "member 1 of RateLimit-Policy: parameter q: out of range, it must be an Integer from 0 to 999999999999999"},
		{"of a limit of fields", new(Fields), `{"limits":[{"remaining":31415.9}]}`, "JSON of member of RateLimit: remaining: not well-formed"},
		{"of fields", new(Fields), `{"dialect":31415}`, "JSON of fields: dialect: not well-formed"},
		{"null in a list", new(Fields), `{"limits":[null]}`, "JSON of fields: null in a list: not well-formed"},
		{"a problem that is a number", new(Problem), `31415`, "problem document is not a JSON object: not well-formed"},
		{"a problem that is null", new(Problem), `null`, "problem document is not a JSON object: not well-formed"},
		{"a problem that is cut", new(Problem), `{"title":"31415`, "problem document is not a JSON object: not well-formed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.EqualError(t, tc.read.UnmarshalJSON([]byte(tc.in)), "ratelimit: "+tc.want)
		})
	}
}

func TestSecondsJSON(t *testing.T) {
	for text, want := range map[string]Seconds{"null": {}, "0": SecondsOf(0), "60": SecondsOf(60), "-5": SecondsOf(-5)} {
		got := SecondsOf(1)
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, want, got)
		again, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
	for _, text := range []string{`"60"`, `1.5`, `true`, `9223372036854775808`} {
		got := SecondsOf(1)
		require.ErrorIs(t, json.Unmarshal([]byte(text), &got), ErrSyntax)
		require.Equal(t, SecondsOf(1), got)
	}
}
