package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A fieldCase is a case of testdata/fields: the lines of a field, and the one line that is
// written for the same members. If the field is malformed, a caret precedes the token at
// fault, and the last line has the fault. A newline within a field line is written ␊.
type fieldCase struct {
	name  string
	lines []string
	want  string
	fault *FieldError
}

var (
	policyCases = fieldCases(PolicyField, "policies")
	limitCases  = fieldCases(LimitField, "limits")
)

func fieldCases(field, table string) (cases []fieldCase) {
	for _, c := range trial.PlainCases("testdata/fields/" + table + ".txt") {
		tc := fieldCase{name: c.Name, want: c.Want}
		if c.Name != "no line" {
			tc.lines = strings.Split(c.In, "\n")
		}
		for i, line := range tc.lines {
			if at := strings.Index(line, "^"); c.Refused && at >= 0 {
				tc.fault = readFault(field + ", " + c.Want)
				tc.fault.Line, tc.fault.Offset = i, at
				line = line[:at] + line[at+1:]
			}
			tc.lines[i] = strings.ReplaceAll(line, "␊", "\n")
		}
		cases = append(cases, tc)
	}
	return cases
}

// readFault reads a fault without a place, such as `RateLimit-Policy, member 2, qu: conflict`.
func readFault(text string) *FieldError {
	where, cause, _ := strings.Cut(text, ": ")
	e := &FieldError{Offset: -1, Item: -1, Err: causeOf(cause)}
	for part := range strings.SplitSeq(where, ", ") {
		if member, ok := strings.CutPrefix(part, "member "); ok {
			n, err := strconv.Atoi(member)
			if err != nil {
				panic(err)
			}
			e.Item = n - 1
		} else if strings.HasPrefix(part, LimitField) {
			e.Field = part
		} else {
			e.Param = part
		}
	}
	return e
}

// causeOf returns the error for a name in causeNames.
func causeOf(name string) error {
	for err, cause := range causeNames {
		if cause == name {
			return err
		}
	}
	panic("no cause " + name)
}

func runFieldCases[T memberType[T]](t *testing.T, c codec[T], cases []fieldCase) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			list, err := c.parse(tc.lines...)
			c.lawRead(t, tc.lines...)
			if tc.fault != nil {
				require.Equal(t, tc.fault, err)
				require.ErrorIs(t, err, tc.fault.Err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want == "", list == nil, "presence")
			got, err := c.format(list...)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParsePolicies(t *testing.T) { runFieldCases(t, policyCodec, policyCases) }

func TestParseLimits(t *testing.T) { runFieldCases(t, limitCodec, limitCases) }

// The result has room only for the members, so a text of commas reserves no memory.
func TestParseRoom(t *testing.T) {
	commas := strings.Repeat(",", 70)
	for _, tc := range []struct {
		name  string
		lines []string
		want  int
	}{
		{"one member", []string{`"a";r=1`}, 1},
		{"two members", []string{`"a";r=1, "b";r=2`}, 2},
		{"three lines", []string{`"a";r=1`, `"b";r=1, "c";r=1`, `"d";r=1`}, 4},
		{"a comma in the first name", []string{`"a,b";r=1`}, 1},
		{"a comma in a long name", []string{`"a";r=1, "and, so on";r=2`}, 3},
		{"many commas in a name, each seventh counts", []string{`"a";r=1, "` + commas + `";r=2`}, 1 + 78/7},
		{"many commas in a name behind a long one", []string{`"` + commas + `";r=1, "` + commas + `";r=2`}, 1 + 78/7},
		{"many commas in a name on another line", []string{`"a";r=1`, `"` + commas + `";r=2`}, 2 + 76/7},
		{"the allowed number of members", []string{strings.Repeat(`"a";r=1,`, maxMembers-1) + `"a,b,c,d,e";r=1`}, maxMembers},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := ParseLimits(tc.lines...)
			require.NoError(t, err)
			require.Equal(t, tc.want, cap(list))
		})
	}
}

// N members are accepted, and N+1 are rejected, over any number of lines.
func TestParseBounds(t *testing.T) {
	members := func(n int) string { return strings.Repeat(`"a";r=1, `, n-1) + `"a";r=1` }
	written := func(n int) string { return `"a";r=1` + strings.Repeat(";x", n-1) }
	params := func(n int) string { return `"a";r=1` + extensionText(n-1) }
	for _, tc := range []struct {
		name  string
		lines []string
		want  *FieldError
	}{
		{"1024 members", []string{members(1024)}, nil},
		{"1025 members", []string{members(1025)}, &FieldError{Field: LimitField, Offset: 1024 * 9, Item: 1024, Err: ErrTooMany}},
		{"1024 members on two lines", []string{members(1000), members(24)}, nil},
		{"1025 members on two lines", []string{members(1000), members(25)},
			&FieldError{Field: LimitField, Line: 1, Offset: 24 * 9, Item: 1024, Err: ErrTooMany}},
		{"1024 lines", slices.Repeat([]string{`"a";r=1`}, 1024), nil},
		{"1025 lines", slices.Repeat([]string{`"a";r=1`}, 1025), &FieldError{Field: LimitField, Line: 1024, Item: 1024, Err: ErrTooMany}},
		{"256 parameters", []string{`"b";r=1`, params(256)}, nil},
		{"257 parameters", []string{`"b";r=1`, params(257)},
			&FieldError{Field: LimitField, Line: 1, Offset: 7 + 255*5 + 1, Item: 1, Err: ErrTooMany}},
		{"256 parameters, each twice", []string{params(256) + params(256)[len(`"a"`):]}, nil},
		{"256 parameters, and r again", []string{params(256) + ";r=5"}, nil},
		{"256 parameters, and t", []string{params(256) + ";t=5"}, &FieldError{Field: LimitField, Offset: 7 + 255*5 + 1, Err: ErrTooMany}},
		{"1024 times two parameters", []string{written(1024)}, nil},
		{"1025 times two parameters", []string{written(1025)}, &FieldError{Field: LimitField, Offset: 7 + 1023*2 + 1, Err: ErrTooMany}},
		{"1024 members and a comma", []string{members(1024) + ","},
			&FieldError{Field: LimitField, Offset: 1024*9 - 1, Item: 1024, Err: ErrSyntax}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseLimits(tc.lines...)
			if tc.want == nil {
				require.NoError(t, err)
			} else {
				require.Equal(t, tc.want, err)
			}
			limitCodec.lawRead(t, tc.lines...)
		})
	}
}

// Every byte is tried at every place of a member.
func TestParseEveryByte(t *testing.T) {
	t.Parallel()
	const line = `"a\"b";r=1;*k-.=1.5;t=:YQ==:;x=%"%c3";y=@1;z=a`
	for i := range len(line) + 1 {
		for c := range 256 {
			limitCodec.lawRead(t, line[:i]+string([]byte{byte(c)})+line[i:])
		}
	}
}

// A hostile value takes at most a small multiple of its length in memory, garbage included.
// Two bytes of a parameter become a Param of 32, in a growing slice. BenchmarkHostile measures
// the time.
func TestParseHostile(t *testing.T) {
	const size = 1 << 20
	for _, shape := range hostileShapes {
		t.Run(shape.name, func(t *testing.T) {
			value := shape.value(size)
			var err error
			require.Less(t, trial.Allocated(func() { _, err = ParseLimits(value) }), uint64(32*size))
			require.ErrorIs(t, err, shape.err)
		})
	}
}

// The fault of an extension parameter that cannot be written names its place, and the Go types.
func TestExtensionErrors(t *testing.T) {
	for _, tc := range []struct {
		params Params
		want   string
	}{
		{Params{{"x", "y"}, {"z", 3}}, "extension parameter 2: wrong type, it must be an int64, float64, string, []byte, bool or time.Time, or a Token or DisplayString of httpsfv"},
		{Params{{"secret key", "y"}}, "extension parameter 1: not well-formed"},
		{Params{{"x", true}, {"y", "\x00"}}, "extension parameter 2: not well-formed"},
		{Params{{"x", int64(MaxInteger + 1)}}, "extension parameter 1: out of range"},
		{Params{{"x", true}, {"y", true}, {"x", true}}, "extension parameter 1: duplicate"},
	} {
		err := Limit{Name: "a", Params: tc.params}.Validate()
		require.EqualError(t, err, "ratelimit: member 1 of RateLimit: "+tc.want)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestFieldErrorText(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  FieldError
		want string
	}{
		{"a position", FieldError{Field: LimitField, Line: 1, Offset: 12, Item: 2, Param: "r", Err: ErrType},
			"ratelimit: member 3 of RateLimit, line 2, byte 13: parameter r: wrong type, it must be an Integer from 0 to 999999999999999"},
		{"no position", FieldError{Field: PolicyField, Offset: -1, Item: 3, Param: "pk", Err: ErrRange},
			"ratelimit: member 4 of RateLimit-Policy: parameter pk: out of range, it must be a Byte Sequence, base64 between colons"},
		{"a name that cannot be written", FieldError{Field: PolicyField, Offset: -1, Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Policy: name: not well-formed, it must be a String of printable ASCII"},
		{"a name that is not a String", FieldError{Field: PolicyField, Err: ErrType},
			"ratelimit: member 1 of RateLimit-Policy, line 1, byte 1: name: wrong type, it must be a String of printable ASCII"},
		{"a fault of the List", FieldError{Field: PolicyField, Offset: 7, Err: ErrSyntax}, "ratelimit: member 1 of RateLimit-Policy, line 1, byte 8: not well-formed"},
		{"a fault of the List at its beginning", FieldError{Field: PolicyField, Err: ErrSyntax}, "ratelimit: member 1 of RateLimit-Policy, line 1, byte 1: not well-formed"},
		{"a conflict", FieldError{Field: PolicyField, Offset: -1, Param: "w", Err: ErrConflict}, "ratelimit: member 1 of RateLimit-Policy: parameter w: conflict, upstream has a policy of this name with another w: give one of them another name"},
		{"a parameter of the other field", FieldError{Field: LimitField, Offset: -1, Param: "w", Err: ErrDuplicate},
			"ratelimit: member 1 of RateLimit: extension parameter 1: duplicate"},
		{"an older field", FieldError{Field: "X-RateLimit-Reset", Offset: 0, Item: -1, Err: ErrSyntax}, "ratelimit: X-RateLimit-Reset, line 1, byte 1: not well-formed"},
		{"a field of a dialect", FieldError{Field: "Acme Left", Offset: -1, Item: -1, Err: ErrSyntax}, "ratelimit: Acme Left: not well-formed, it must be the name of a field, with at most one *"},
		{"an extension parameter", FieldError{Field: PolicyField, Offset: -1, Param: "secret", Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Policy: extension parameter 1: not well-formed"},
		{"a parameter in an older field", FieldError{Field: "RateLimit-Limit", Offset: -1, Param: "q", Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Limit: extension parameter 1: not well-formed"},
		{"no member", FieldError{Field: LimitField, Offset: 3, Item: -1, Err: ErrMissing},
			"ratelimit: RateLimit, line 1, byte 4: missing"},
		{"nothing", FieldError{}, "ratelimit: fields of limits, line 1, byte 1: "},
		{"all older fields", FieldError{Offset: -1, Item: -1, Err: ErrTooMany}, "ratelimit: fields of limits: too many"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.err.Error())
			require.Equal(t, tc.err.Err, errors.Unwrap(&tc.err))
		})
	}
}

// No error contains the content of the field.
func TestFieldErrorHidesContent(t *testing.T) {
	const secret = "s3cr3t"
	for _, text := range []string{
		`"s3cr3t`, `"s3cr3t"`, `s3cr3t`, `"a";s3cr3t`, `"a";r=s3cr3t`, `"a";r=1;s3cr3t=`, `"a";r=1;s3cr3t=(`,
		`"a";r=1;pk="s3cr3t"`, `"a";r=1;pk=:s3cr3t-:`, `"a";r=1 s3cr3t`,
	} {
		_, err := ParseLimits(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), secret)
	}
	for _, l := range []Limit{
		{Name: secret + "\n"}, {Name: secret, Remaining: -2}, {Params: Params{{secret + "=", true}}},
		{Params: Params{{secret, secret + "\x00"}}}, {Params: Params{{secret, true}, {secret, true}}},
	} {
		err := l.Validate()
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, l.String(), secret)
	}
}

// Partition keys are copies.
func TestParseCopies(t *testing.T) {
	const line = `"a";r=1;pk=:YQ==:;x="y"`
	first, err := ParseLimits(line)
	require.NoError(t, err)
	first[0].PartitionKey[0] = '!'
	second, err := ParseLimits(line)
	require.NoError(t, err)
	require.Equal(t, line, second[0].String())
}

// A responseCase is a case of a table in testdata/fields: a response, its Fields.String, and
// its errors, each as `member field line byte`.
type responseCase struct {
	name, wire, want string
	faults           []string
}

func readResponses(table string) (cases []responseCase) {
	for _, b := range trial.BlocksOf("testdata/fields/" + table + ".txt") {
		wire, said := b.Cut(strings.TrimSuffix(b.Text, "\n"), "\n= ")
		said, faults, faulty := strings.Cut(said, "\n! ")
		tc := responseCase{name: b.Name, wire: wire, want: said}
		if faulty {
			tc.faults = strings.Split(faults, "\n! ")
		}
		cases = append(cases, tc)
	}
	return cases
}

// nextCases are in the form of the draft that follows draft-11, which is not published, or
// nearly in that form. They are vectors, too.
var nextCases = readResponses("next")

// faultPlaces returns the places of errors, in the form of a responseCase.
func faultPlaces(t testing.TB, err error) (places []string) {
	t.Helper()
	for _, e := range requireFieldErrors(t, err) {
		places = append(places, fmt.Sprintf("%d %s %d %d", e.Item+1, e.Field, e.Line+1, e.Offset+1))
	}
	return places
}

// nextText writes limits in the form of the next draft.
func nextText(t testing.TB, limits []Limit) string {
	t.Helper()
	var members []string
	for _, l := range limits {
		name, err := FormatPolicies(Policy{Name: l.Name})
		require.NoError(t, err)
		member, reset := strings.TrimSuffix(name, "q=0")+fmt.Sprintf("a=%d", l.Remaining), l.Reset
		if reset.ok {
			member += fmt.Sprintf(";w=%d", reset.n)
		}
		l.Name, l.Remaining, l.Reset = "", 0, Seconds{}
		members = append(members, member+strings.TrimPrefix(l.String(), `"";r=0`))
	}
	return strings.Join(members, ", ")
}

// lawNext checks fields in the form of the next draft. Parse refuses them. They can be
// written as draft-11 and read back. Each name has one spelling. They are read unchanged
// after they are written in that form again.
func lawNext(t testing.TB, h http.Header) {
	got, _ := ParseAny(h, LegacyOptions{Now: late})
	if got.Dialect != draft.Next {
		return
	}
	strict, err := Parse(h)
	require.Error(t, err)
	require.Nil(t, strict.Limits, "Parse stays draft-11")

	require.NoError(t, got.Validate())
	written := http.Header{}
	require.NoError(t, got.Set(written))
	again, err := Parse(written)
	require.NoError(t, err)
	requireEqual(t, got.Policies, again.Policies)
	requireEqual(t, got.Limits, again.Limits)

	spelling := map[string]string{}
	spelled := func(name string) {
		if first, ok := spelling[strings.ToLower(name)]; ok {
			require.Equal(t, first, name)
		}
		spelling[strings.ToLower(name)] = name
	}
	for _, l := range got.Limits {
		spelled(l.Name)
		if slices.ContainsFunc(l.Params, func(p Param) bool { return draft.NextLimits.Find(p.Key) != nil }) {
			return // the new spelling would contain the parameter twice
		}
	}
	for _, p := range got.Policies {
		spelled(p.Name)
	}
	written[draft.LimitKey] = []string{nextText(t, got.Limits)}
	again, err = ParseAny(written, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Equal(t, draft.Next, again.Dialect)
	requireEqual(t, got.Policies, again.Policies)
	requireEqual(t, got.Limits, again.Limits)
}

// FuzzNext checks that fields of draft-11 have the same meaning in the spelling of the next draft.
func FuzzNext(f *testing.F) {
	all := seeds()
	for i, s := range all {
		f.Add(s, all[len(all)-1-i])
	}
	f.Add(`"Day";q=100;w=60, "hour";q=10`, `"day";r=50;t=30;c=5, "HOUR";r=1;pk=:YQ==:`)
	f.Fuzz(func(t *testing.T, policies, limits string) {
		h := http.Header{draft.PolicyKey: fuzzLines(policies), draft.LimitKey: fuzzLines(limits)}
		want, err := Parse(h)
		if err != nil || want.Limits == nil {
			return
		}
		for _, l := range want.Limits {
			if l.Params.index("a") >= 0 || l.Params.index("w") >= 0 {
				return // extensions of draft-11 can have keys of the next draft
			}
		}
		want.unify()
		h[draft.LimitKey] = []string{nextText(t, want.Limits)}
		got, err := ParseAny(h, LegacyOptions{Now: late})
		require.NoError(t, err)
		require.Equal(t, draft.Next, got.Dialect)
		requireEqual(t, want.Policies, got.Policies)
		requireEqual(t, want.Limits, got.Limits)
		lawNext(t, h)
	})
}

func TestNext(t *testing.T) {
	for _, tc := range nextCases {
		t.Run(tc.name, func(t *testing.T) {
			h := trial.Wire(tc.wire)
			got, err := ParseAny(h, LegacyOptions{Now: late})
			require.Equal(t, tc.want, got.String())
			require.Equal(t, tc.faults, faultPlaces(t, err))
			lawNext(t, h)
			lawAny(t, h)
			lawLegacy(t, h)

			a := Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, late)
			require.Equal(t, tc.want, a.Fields.String())
		})
	}
}

// The bounds are the same as for the current fields. Errors do not contain text of a field.
func TestNextBounds(t *testing.T) {
	t.Parallel()
	members := func(n int, member string) string { return strings.TrimSuffix(strings.Repeat(member+", ", n), ", ") }
	names := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("d%d;a=1", i))
		}
		return strings.Join(all, ", ")
	}
	for _, tc := range []struct {
		name             string
		policies, limits string
		want             [3]int // policies, limits, errors
	}{
		{"1024 limits", "", names(maxMembers), [3]int{0, maxMembers, 0}},
		{"1025 limits", "", names(maxMembers + 1), [3]int{0, 0, 1}},
		{"1024 limits of one name", "", members(maxMembers, "d;a=1"), [3]int{0, 1, 0}},
		{"1024 policies, each bad", members(maxMembers, "secret;q=secret"), "d;a=1", [3]int{0, 1, maxMembers}},
		{"1025 policies", members(maxMembers+1, "d;q=1"), "d;a=1", [3]int{0, 1, 1}},
		{"256 parameters", "", "d;a=1" + extensionText(maxParams-1), [3]int{0, 1, 0}},
		{"257 parameters", "", "d;a=1" + extensionText(maxParams), [3]int{0, 0, 1}},
		{"a bad policy of secrets", "secret;q=1;w=0;pk=:c2VjcmV0:", "d;a=1", [3]int{0, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{draft.PolicyKey: {tc.policies}, draft.LimitKey: {tc.limits}}
			got, err := ParseAny(h, LegacyOptions{Now: late})
			require.Equal(t, tc.want, [3]int{len(got.Policies), len(got.Limits), len(faultPlaces(t, err))})
			require.NotContains(t, fmt.Sprint(err), "secret")
			lawNext(t, h)
		})
	}
	for _, shape := range hostileShapes {
		text := strings.ReplaceAll(shape.value(1<<16), "r=", "a=")
		for _, h := range []http.Header{{draft.LimitKey: {text}}, {draft.PolicyKey: {strings.ReplaceAll(text, "a=", "q=")}, draft.LimitKey: {"d;a=1"}}} {
			lawAny(t, h)
		}
	}
}

// extensionText returns n extension parameters of five bytes each.
func extensionText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ";x%03d", i)
	}
	return b.String()
}
