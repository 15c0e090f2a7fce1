package ratelimit

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// A readCase is a field that is well-formed.
type readCase[T any] struct {
	name  string
	lines []string
	want  []T
}

func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

var policyCases = []readCase[Policy]{
	// The examples of drafts 08 to 11, verbatim.
	{"example, section 3", []string{`"burst";q=100;w=60,"daily";q=1000;w=86400`}, []Policy{
		{Name: "burst", Quota: 100, Window: SecondsOf(60)},
		{Name: "daily", Quota: 1000, Window: SecondsOf(86400)}}},
	{"example, appendix B", []string{`"default";q=100;w=10`}, []Policy{{Name: "default", Quota: 100, Window: SecondsOf(10)}}},
	{"example, several windows", []string{`"permin";q=50;w=60,"perhr";q=1000;w=3600`}, []Policy{
		{Name: "permin", Quota: 50, Window: SecondsOf(60)},
		{Name: "perhr", Quota: 1000, Window: SecondsOf(3600)}}},
	{"example, partition key with pad bits", []string{`"peruser";q=100;w=60;pk=:cHsdsRa894==:`}, []Policy{
		{Name: "peruser", Quota: 100, Window: SecondsOf(60), PartitionKey: unbase64("cHsdsRa89w==")}}},
	{"example, quota unit", []string{`"peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:`}, []Policy{
		{Name: "peruser", Quota: 65535, Unit: ContentBytes, Window: SecondsOf(10), PartitionKey: unbase64("sdfjLJUOUA==")}}},
	{"example, quota unit of draft 08", []string{`"peruser";q=65535;qu="bytes";w=10;pk=:sdfjLJUOUH==:`}, []Policy{
		{Name: "peruser", Quota: 65535, Unit: "bytes", Window: SecondsOf(10), PartitionKey: unbase64("sdfjLJUOUA==")}}},
	{"example, space after the comma", []string{`"hour";q=1000;w=3600, "day";q=5000;w=86400`}, []Policy{
		{Name: "hour", Quota: 1000, Window: SecondsOf(3600)},
		{Name: "day", Quota: 5000, Window: SecondsOf(86400)}}},
	{"example, two lines and comments", []string{`"sliding";q=100;w=60;burst=1000`, `"fixed";q=5000;w=3600;burst=0`}, []Policy{
		{Name: "sliding", Quota: 100, Window: SecondsOf(60), Params: Params{{"burst", int64(1000)}}},
		{Name: "fixed", Quota: 5000, Window: SecondsOf(3600), Params: Params{{"burst", int64(0)}}}}},
	{"example, section 8.5", []string{`"somepolicy";q=10000;w=1000`}, []Policy{{Name: "somepolicy", Quota: 10000, Window: SecondsOf(1000)}}},

	// Absent fields.
	{"no line", nil, nil},
	{"a blank line", []string{""}, nil},
	{"a line of spaces", []string{"   "}, nil},

	// Parameters.
	{"q alone", []string{`"a";q=1`}, []Policy{{Name: "a", Quota: 1}}},
	{"q is 0", []string{`"a";q=0`}, []Policy{{Name: "a"}}},
	{"q is minus 0", []string{`"a";q=-0`}, []Policy{{Name: "a"}}},
	{"q has leading zeros", []string{`"a";q=000000000000007`}, []Policy{{Name: "a", Quota: 7}}},
	{"q is the largest", []string{`"a";q=999999999999999`}, []Policy{{Name: "a", Quota: MaxInteger}}},
	{"w is the least", []string{`"a";q=1;w=1`}, []Policy{{Name: "a", Quota: 1, Window: SecondsOf(1)}}},
	{"w is the largest", []string{`"a";q=1;w=999999999999999`}, []Policy{{Name: "a", Quota: 1, Window: SecondsOf(MaxInteger)}}},
	{"any order", []string{`"a";pk=:YQ==:;w=60;qu="requests";q=1`}, []Policy{
		{Name: "a", Quota: 1, Unit: Requests, Window: SecondsOf(60), PartitionKey: []byte("a")}}},
	{"an unknown unit", []string{`"a";q=1;qu="tokens"`}, []Policy{{Name: "a", Quota: 1, Unit: "tokens"}}},
	{"an empty unit", []string{`"a";q=1;qu=""`}, []Policy{{Name: "a", Quota: 1}}},
	{"the parameters of a limit are extensions", []string{`"a";q=1;r=2;t=-3`}, []Policy{
		{Name: "a", Quota: 1, Params: Params{{"r", int64(2)}, {"t", int64(-3)}}}}},
	{"duplicates of other types", []string{`"a";q="x";q=:YQ==:;q=1;w="y";w=2`}, []Policy{{Name: "a", Quota: 1, Window: SecondsOf(2)}}},
	{"a unit after a negative extension", []string{`"a";q=1;x=-5;qu="x"`}, []Policy{
		{Name: "a", Quota: 1, Unit: "x", Params: Params{{"x", int64(-5)}}}}},

	// Partition keys.
	{"a key with padding", []string{`"a";q=1;pk=:YQ==:`}, []Policy{{Name: "a", Quota: 1, PartitionKey: []byte("a")}}},
	{"a key without padding", []string{`"a";q=1;pk=:YQ:`}, []Policy{{Name: "a", Quota: 1, PartitionKey: []byte("a")}}},
	{"a key with pad bits and no padding", []string{`"a";q=1;pk=:YR:`}, []Policy{{Name: "a", Quota: 1, PartitionKey: []byte("a")}}},
	{"a key of full quanta", []string{`"a";q=1;pk=:AP/+:`}, []Policy{{Name: "a", Quota: 1, PartitionKey: []byte{0, 0xff, 0xfe}}}},
	{"an empty key", []string{`"a";q=1;pk=::`}, []Policy{{Name: "a", Quota: 1, PartitionKey: []byte{}}}},
}

var limitCases = []readCase[Limit]{
	// The examples of drafts 08 to 11, verbatim.
	{"example, section 4", []string{`"default";r=50;t=30`}, []Limit{{Name: "default", Remaining: 50, Reset: SecondsOf(30)}}},
	{"example, no window", []string{`"default";r=999;pk=:dHJpYWwxMjEzMjM=:`}, []Limit{
		{Name: "default", Remaining: 999, PartitionKey: []byte("trial121323")}}},
	{"example, content bytes", []string{`"default";r=300000000;t=60;pk=:QXBwLTk5OQ==:`}, []Limit{
		{Name: "default", Remaining: 300000000, Reset: SecondsOf(60), PartitionKey: []byte("App-999")}}},
	{"example, redirection", []string{`"problemPolicy";r=0;t=10`}, []Limit{{Name: "problemPolicy", Reset: SecondsOf(10)}}},
	{"example, FAQ 8", []string{`"default";r=50;t=60`}, []Limit{{Name: "default", Remaining: 50, Reset: SecondsOf(60)}}},
	{"example, section 7", []string{`"default";r=1;t=7`}, []Limit{{Name: "default", Remaining: 1, Reset: SecondsOf(7)}}},
	{"example, section 8.5", []string{`"somepolicy";r=10000;t=10`}, []Limit{{Name: "somepolicy", Remaining: 10000, Reset: SecondsOf(10)}}},
	{"example, a survey with q", []string{`"sliding";q=12;r=6;t=1`}, []Limit{
		{Name: "sliding", Remaining: 6, Reset: SecondsOf(1), Params: Params{{"q", int64(12)}}}}},

	// Captured.
	{"spaces after semicolons", []string{`"2-in-1min"; r=1; t=60`}, []Limit{{Name: "2-in-1min", Remaining: 1, Reset: SecondsOf(60)}}},

	// The List, RFC 9651 Section 4.2.1.
	{"two members", []string{`"a";r=1,"b";r=2`}, []Limit{{Name: "a", Remaining: 1}, {Name: "b", Remaining: 2}}},
	{"white space around a comma", []string{"\"a\";r=1 \t , \t \"b\";r=2"}, []Limit{{Name: "a", Remaining: 1}, {Name: "b", Remaining: 2}}},
	{"two lines", []string{`"a";r=1`, `"b";r=2`}, []Limit{{Name: "a", Remaining: 1}, {Name: "b", Remaining: 2}}},
	{"two lines with white space", []string{"\"a\";r=1 \t", "\t \"b\";r=2"}, []Limit{{Name: "a", Remaining: 1}, {Name: "b", Remaining: 2}}},
	{"three lines, five members", []string{`"a";r=1, "b";r=2`, `"c";r=3`, `"d";r=4, "e";r=5`}, []Limit{
		{Name: "a", Remaining: 1}, {Name: "b", Remaining: 2}, {Name: "c", Remaining: 3}, {Name: "d", Remaining: 4}, {Name: "e", Remaining: 5}}},
	{"spaces before and after", []string{`  "a";r=1  `}, []Limit{{Name: "a", Remaining: 1}}},
	{"a tab after", []string{"\"a\";r=1\t"}, []Limit{{Name: "a", Remaining: 1}}},
	{"a name twice", []string{`"a";r=1, "a";r=2`}, []Limit{{Name: "a", Remaining: 1}, {Name: "a", Remaining: 2}}},

	// Strings, Section 4.2.5.
	{"an empty name", []string{`"";r=1`}, []Limit{{Remaining: 1}}},
	{"a name with delimiters", []string{`"a,b;c=d";r=1`}, []Limit{{Name: "a,b;c=d", Remaining: 1}}},
	{"a name with escapes", []string{`"a\"b\\c";r=1`}, []Limit{{Name: `a"b\c`, Remaining: 1}}},
	{"the least and the largest character", []string{`" ~";r=1`}, []Limit{{Name: " ~", Remaining: 1}}},
	{"a name split at its comma", []string{`"a`, `b";r=1`}, []Limit{{Name: "a, b", Remaining: 1}}},
	{"an escaped name split at its comma", []string{`"\"a`, `b`, `c";r=1`, `"d";r=2`}, []Limit{{Name: `"a, b, c`, Remaining: 1}, {Name: "d", Remaining: 2}}},

	// Parameters, Section 4.2.3.2.
	{"t is 0", []string{`"a";r=1;t=0`}, []Limit{{Name: "a", Remaining: 1, Reset: SecondsOf(0)}}},
	{"t is the largest", []string{`"a";r=1;t=999999999999999`}, []Limit{{Name: "a", Remaining: 1, Reset: SecondsOf(MaxInteger)}}},
	{"many spaces after a semicolon", []string{`"a";   r=1`}, []Limit{{Name: "a", Remaining: 1}}},
	{"the last duplicate wins, at the first place", []string{`"a";x=1;r=5;y=2;r=7;x=3`}, []Limit{
		{Name: "a", Remaining: 7, Params: Params{{"x", int64(3)}, {"y", int64(2)}}}}},
	{"a duplicate repairs the type", []string{`"a";r="x";r=2`}, []Limit{{Name: "a", Remaining: 2}}},
	{"a duplicate repairs the range", []string{`"a";r=-1;t=-1;t=3;r=2`}, []Limit{{Name: "a", Remaining: 2, Reset: SecondsOf(3)}}},
	{"a duplicate repairs the key", []string{`"a";r=1;pk;pk=:YQ==:`}, []Limit{{Name: "a", Remaining: 1, PartitionKey: []byte("a")}}},
	{"every character of a key", []string{`"a";r=1;*az09_-.*=1`}, []Limit{{Name: "a", Remaining: 1, Params: Params{{"*az09_-.*", int64(1)}}}}},

	// Extension parameters of every type, Section 4.2.3.1.
	{"Integers", []string{`"a";r=1;x=0;y=-7;z=-999999999999999`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", int64(0)}, {"y", int64(-7)}, {"z", int64(-MaxInteger)}}}}},
	{"Decimals", []string{`"a";r=1;x=1.0;y=-0.125;z=999999999999.999`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", 1.0}, {"y", -0.125}, {"z", 999999999999.999}}}}},
	{"Strings", []string{`"a";r=1;x="";y="\\,;"`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", ""}, {"y", `\,;`}}}}},
	{"Tokens", []string{`"a";r=1;x=A;y=*a:/b!#$%&'*+-.^_|~` + "`"}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", httpsfv.Token("A")}, {"y", httpsfv.Token("*a:/b!#$%&'*+-.^_|~`")}}}}},
	{"Byte Sequences", []string{`"a";r=1;x=:YQ:;y=::`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", []byte("a")}, {"y", []byte{}}}}}},
	{"Booleans", []string{`"a";r=1;x;y=?1;z=?0`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", true}, {"y", true}, {"z", false}}}}},
	{"Dates", []string{`"a";r=1;x=@1659578233;y=@-1`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", time.Unix(1659578233, 0)}, {"y", time.Unix(-1, 0)}}}}},
	{"Display Strings", []string{`"a";r=1;x=%"f%c3%bc, %22";y=%""`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", httpsfv.DisplayString(`fü, "`)}, {"y", httpsfv.DisplayString("")}}}}},
	{"a Display String split at its comma", []string{`"a";r=1;x=%"b`, `c";t=3`}, []Limit{
		{Name: "a", Remaining: 1, Reset: SecondsOf(3), Params: Params{{"x", httpsfv.DisplayString("b, c")}}}}},
	{"a backslash in a Display String", []string{`"a";r=1;x=%"\";y=:YQ:`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"x", httpsfv.DisplayString(`\`)}, {"y", []byte("a")}}}}},
	{"more parameters than a few, and duplicates", []string{`"a";r=1;k0;k1;k2;k3;k4;k5;k6;k7;k8;k9;l0;l1;l2;l3;l4;l5;l6;l5=1;l6=2;k0=3, "b";r=2;k9=4`}, []Limit{
		{Name: "a", Remaining: 1, Params: Params{{"k0", int64(3)}, {"k1", true}, {"k2", true}, {"k3", true}, {"k4", true}, {"k5", true},
			{"k6", true}, {"k7", true}, {"k8", true}, {"k9", true}, {"l0", true}, {"l1", true}, {"l2", true}, {"l3", true}, {"l4", true},
			{"l5", int64(1)}, {"l6", int64(2)}}},
		{Name: "b", Remaining: 2, Params: Params{{"k9", int64(4)}}}}},
	{"a String split at its comma", []string{`"z";r=1`, `"a";r=1;x="b`, `c";t=3`}, []Limit{{Name: "z", Remaining: 1},
		{Name: "a", Remaining: 1, Reset: SecondsOf(3), Params: Params{{"x", "b, c"}}}}},
}

func runReadCases[T memberType[T]](t *testing.T, c codec[T], cases []readCase[T]) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := c.parse(tc.lines...)
			require.NoError(t, err)
			requireEqual(t, tc.want, got)
			c.lawRead(t, tc.lines...)
		})
	}
}

func TestParsePolicies(t *testing.T) { runReadCases(t, policyCodec, policyCases) }

func TestParseLimits(t *testing.T) { runReadCases(t, limitCodec, limitCases) }

// The result has room for as many members as there may be, and no more: a text of
// commas reserves no memory.
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
		{"as many members as may be", []string{strings.Repeat(`"a";r=1,`, maxMembers-1) + `"a,b,c,d,e";r=1`}, maxMembers},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := ParseLimits(tc.lines...)
			require.NoError(t, err)
			require.Equal(t, tc.want, cap(list))
		})
	}
}

// An errorCase is a RateLimit field that is malformed, with the place and the
// cause. In the text a "|" stands between two lines, and a caret before the
// offending token.
type errorCase struct {
	name  string
	text  string
	item  int
	param string
	want  error
}

// lines returns the lines of the field, and the place at which the caret stands.
func (tc errorCase) lines() (lines []string, line, offset int) {
	before, after, _ := strings.Cut(tc.text, "^")
	line = strings.Count(before, "|")
	offset = len(before) - strings.LastIndex(before, "|") - 1
	return strings.Split(before+after, "|"), line, offset
}

var errorCases = []errorCase{
	// The List.
	{"a trailing comma", `"a";r=1,^`, 1, "", ErrSyntax},
	{"a trailing comma and spaces", `"a";r=1,  ^`, 1, "", ErrSyntax},
	{"an empty member", `"a";r=1,^,"b";r=2`, 1, "", ErrSyntax},
	{"a leading comma", `^,"a";r=1`, 0, "", ErrSyntax},
	{"an empty line after", `"a";r=1|^`, 1, "", ErrSyntax},
	{"an empty line before", `^|"a";r=1`, 0, "", ErrSyntax},
	{"an empty line between", `"a";r=1|^|"b";r=2`, 1, "", ErrSyntax},
	{"a comma at the end of a line", `"a";r=1,^|"b";r=2`, 1, "", ErrSyntax},
	{"empty lines", `^|`, 0, "", ErrSyntax},
	{"a tab before", "^\t\"a\";r=1", 0, "", ErrSyntax},
	{"no comma", `"a";r=1 ^"b";r=2`, 0, "", ErrSyntax},
	{"a semicolon for a comma", `"fixed window";^"api";r=500`, 0, "", ErrSyntax},
	{"an Inner List", `^("a" "b");r=1`, 0, "", ErrType},
	{"on the third line", `"a";r=1|"b";r=2|"c";r=^x`, 2, "r", ErrType},

	// Names.
	{"a Token for a name", `^default;r=50;t=30`, 0, "", ErrType},
	{"the example of draft 08 without r", `^quota;t=1`, 0, "", ErrType},
	{"a Dictionary of draft 07", `limit^=100, remaining=50, reset=5`, 0, "", ErrSyntax},
	{"an Integer for a name", `"a";r=1, ^100;w=60`, 1, "", ErrType},
	{"a Byte Sequence for a name", `^:YQ==:;r=1`, 0, "", ErrType},
	{"a Display String for a name", `^%"a";r=1`, 0, "", ErrType},
	{"a name without quotes around all of it", `"a"^b\c"; r=1; t=60`, 0, "", ErrSyntax},
	{"a name never closed", `"a";r=1, ^"b;r=2`, 1, "", ErrSyntax},
	{"a name never closed over lines", `"a";r=1|"b;r=2|"^c;r=3`, 1, "", ErrSyntax},
	{"an escape of another character", `^"a\b";r=1`, 0, "", ErrSyntax},
	{"an escape at the end", `^"a\`, 0, "", ErrSyntax},
	{"an escape at the end of a line", `^"a\|b";r=1`, 0, "", ErrSyntax},
	{"a newline", "^\"a\n\";r=1", 0, "", ErrSyntax},
	{"a tab in a name", "^\"a\t\";r=1", 0, "", ErrSyntax},
	{"DEL", "^\"a\x7f\";r=1", 0, "", ErrSyntax},
	{"DEL after an escape", "^\"\\\"\x7f\";r=1", 0, "", ErrSyntax},
	{"DEL before an escaped quote", "^\"a\x7f\\\"\";r=1", 0, "", ErrSyntax},
	{"DEL before a quote, after an escape", "^\"\\\"a\x7f\";r=1", 0, "", ErrSyntax},
	{"not ASCII", "^\"caf\xc3\xa9\";r=1", 0, "", ErrSyntax},
	{"a single quote", `^'a';r=1`, 0, "", ErrSyntax},

	// Parameters.
	{"a space before a semicolon", `"a" ^;r=1`, 0, "", ErrSyntax},
	{"a tab after a semicolon", "\"a\";^\tr=1", 0, "", ErrSyntax},
	{"a key in upper case", `"a";^R=1`, 0, "", ErrSyntax},
	{"a key that begins with a digit", `"a";r=1;^1=1`, 0, "", ErrSyntax},
	{"no key", `"a";r=1;^`, 0, "", ErrSyntax},
	{"no key at the end of a line", `"a";^|r=1`, 0, "", ErrSyntax},
	{"an upper-case letter within a key", `"a";r=1;a^B=1`, 0, "", ErrSyntax},
	{"no value", `"a";r=^`, 0, "r", ErrSyntax},
	{"no value at the end of a line", `"a";r=^|1`, 0, "r", ErrSyntax},
	{"a space before the value", `"a";r=^ 1`, 0, "r", ErrSyntax},
	{"a space before the equals sign", `"a";r ^=1`, 0, "", ErrSyntax},
	{"no r", `"a";r=1, ^"b";t=30`, 1, "r", ErrMissing},
	{"no parameter", `^"a"`, 0, "r", ErrMissing},
	{"r without value", `"a";t=1;^r`, 0, "r", ErrType},
	{"r is a Decimal", `"a";r=^5.0`, 0, "r", ErrType},
	{"r is a String", `"a";r=^"5"`, 0, "r", ErrType},
	{"r is a Date", `"a";r=^@5`, 0, "r", ErrType},
	{"r is a Token", `"a";r=^five`, 0, "r", ErrType},
	{"t is a Boolean", `"a";r=1;t=^?0`, 0, "t", ErrType},
	{"the last duplicate breaks the type", `"a";r=1;r=^"x"`, 0, "r", ErrType},
	{"r is negative", `"a";r=^-1`, 0, "r", ErrRange},
	{"t is negative", `"a";r=1;t=^-999999999999999`, 0, "t", ErrRange},
	{"pk is a String", `"a";r=1;pk=^"a"`, 0, "pk", ErrType},
	{"pk without value", `"a";r=1;^pk`, 0, "pk", ErrType},
	{"two faults, the first in the line is reported", `"a";r=^-1;pk="x"`, 0, "r", ErrRange},
	{"two faults in another order", `"a";pk=^"x";t="y";r=1`, 0, "pk", ErrType},
	{"a missing parameter comes first", `^"a";t=-1`, 0, "r", ErrMissing},
	{"a fault behind a name that is split", `"a|b";r=^|1`, 0, "r", ErrSyntax},
	{"a fault on the line after a name that is split", `"a|b";r=1|"c";r=^`, 1, "r", ErrSyntax},
	{"syntax goes before type", `"a";r="x";t=^`, 0, "t", ErrSyntax},

	// Integers and Decimals.
	{"sixteen digits", `"a";r=^1000000000000000`, 0, "r", ErrSyntax},
	{"sixteen digits, zeros first", `"a";r=^0000000000000001`, 0, "r", ErrSyntax},
	{"a sign alone", `"a";r=^-`, 0, "r", ErrSyntax},
	{"two signs", `"a";r=^--1`, 0, "r", ErrSyntax},
	{"a plus sign", `"a";r=^+1`, 0, "r", ErrSyntax},
	{"a letter behind the digits", `"a";r=5^x`, 0, "", ErrSyntax},
	{"a point alone behind the digits", `"a";r=1;x=^1.`, 0, "x", ErrSyntax},
	{"four digits of fraction", `"a";r=1;x=^1.0001`, 0, "x", ErrSyntax},
	{"thirteen digits before the point", `"a";r=1;x=^1000000000000.0`, 0, "x", ErrSyntax},
	{"two points", `"a";r=1;x=1.2^.3`, 0, "", ErrSyntax},
	{"a Decimal without digits before the point", `"a";r=1;x=^.5`, 0, "x", ErrSyntax},

	// Byte Sequences.
	{"a Byte Sequence never closed", `"a";r=1;pk=^:YQ==`, 0, "pk", ErrSyntax},
	{"a Byte Sequence closed on the next line", `"a";r=1;pk=^:YQ|YQ:`, 0, "pk", ErrSyntax},
	{"a newline in a Byte Sequence", "\"a\";r=1;pk=^:Y\nQ==:", 0, "pk", ErrSyntax},
	{"a carriage return in a Byte Sequence", "\"a\";r=1;pk=^:YQ==\r:", 0, "pk", ErrSyntax},
	{"a carriage return between digits of a Byte Sequence", "\"a\";r=1;pk=^:Y\rQ==:", 0, "pk", ErrSyntax},
	{"a space in a Byte Sequence", `"a";r=1;pk=^:Y Q==:`, 0, "pk", ErrSyntax},
	{"the alphabet of URLs", `"a";r=1;pk=^:-_-_:`, 0, "pk", ErrSyntax},
	{"half of the padding", `"a";r=1;pk=^:YQ=:`, 0, "pk", ErrSyntax},
	{"padding in the middle", `"a";r=1;pk=^:YQ==YQ==:`, 0, "pk", ErrSyntax},
	{"a single base64 digit", `"a";r=1;pk=^:Y:`, 0, "pk", ErrSyntax},

	// Other types.
	{"a Boolean that is neither", `"a";r=1;x=^?2`, 0, "x", ErrSyntax},
	{"a Boolean cut short", `"a";r=1;x=^?`, 0, "x", ErrSyntax},
	{"a Date cut short", `"a";r=1;x=^@`, 0, "x", ErrSyntax},
	{"a Date with a fraction", `"a";r=1;x=@1^.5`, 0, "", ErrSyntax},
	{"a Date with two signs", `"a";r=1;x=@1^-2`, 0, "", ErrSyntax},
	{"a Token with an at sign", `"a";r=1;x=a^@b`, 0, "", ErrSyntax},
	{"a Display String without quote", `"a";r=1;x=^%a`, 0, "x", ErrSyntax},
	{"a Display String cut short", `"a";r=1;x=^%`, 0, "x", ErrSyntax},
	{"a Display String never closed", `"a";r=1;x=^%"a`, 0, "x", ErrSyntax},
	{"a Display String in upper case", `"a";r=1;x=^%"%C3%BC"`, 0, "x", ErrSyntax},
	{"a Display String that is not UTF-8", `"a";r=1;x=^%"%ff"`, 0, "x", ErrSyntax},
	{"a character that begins nothing", `"a";r=1;x=^{}`, 0, "x", ErrSyntax},
}

// Where RateLimit-Policy differs.
var policyErrorCases = []errorCase{
	{"no q", `^"a";w=60`, 0, "q", ErrMissing},
	{"q is negative", `"a";q=^-1`, 0, "q", ErrRange},
	{"q is a Decimal", `"a";q=^2.5;w=60`, 0, "q", ErrType},
	{"qu is a Token", `"a";q=1;qu=^requests`, 0, "qu", ErrType},
	{"w is 0", `"a";q=1;w=^0`, 0, "w", ErrRange},
	{"w is negative", `"a";q=1;w=^-60`, 0, "w", ErrRange},
	{"w is a Decimal", `"a";q=1;w=^60.0`, 0, "w", ErrType},
	{"w on the second line", `"a";q=1;w=1|"b";q=1;w=^0`, 1, "w", ErrRange},
	{"w behind a String that is split", `"a";q=1;qu="x|y";w=^0`, 0, "w", ErrRange},
	{"the example of draft 08 with Tokens", `^quota;q=100;w=1`, 0, "", ErrType},
	{"an Integer of drafts 04 to 07", `^100;w=60`, 0, "", ErrType},
	{"a colon behind a negative Integer", `"a";q=1;x=-1^:`, 0, "", ErrSyntax},
	{"a String that begins with another mark", `^!a";q=1`, 0, "", ErrSyntax},
	{"a policy in use that is no List", `"fixed window";^"api";q=500;w=300`, 0, "", ErrSyntax},
}

func runErrorCases[T memberType[T]](t *testing.T, c codec[T], cases []errorCase) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			lines, line, offset := tc.lines()
			want := &FieldError{Field: c.field, Line: line, Offset: offset, Item: tc.item, Param: tc.param, Err: tc.want}
			_, err := c.parse(lines...)
			require.Equal(t, want, err)
			require.ErrorIs(t, err, tc.want)
			c.lawRead(t, lines...)
		})
	}
}

func TestParseErrors(t *testing.T) { runErrorCases(t, limitCodec, errorCases) }

func TestParsePolicyErrors(t *testing.T) { runErrorCases(t, policyCodec, policyErrorCases) }

// The bounds hold at N and not at N+1, over any number of lines.
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

// Every byte, at every place of a member.
func TestParseEveryByte(t *testing.T) {
	t.Parallel()
	const line = `"a\"b";r=1;*k-.=1.5;t=:YQ==:;x=%"%c3";y=@1;z=a`
	for i := range len(line) + 1 {
		for c := range 256 {
			limitCodec.lawRead(t, line[:i]+string([]byte{byte(c)})+line[i:])
		}
	}
}

// A hostile value is refused, or read, without more memory than a small
// multiple of its length, garbage included: two bytes of a parameter become a
// Param of 32, in a slice that grows. That the time is linear is shown by BenchmarkHostile.
func TestParseHostile(t *testing.T) {
	const size = 1 << 20
	for _, shape := range hostileShapes {
		t.Run(shape.name, func(t *testing.T) {
			value := shape.value(size)
			require.Less(t, allocated(func() { _, _ = ParseLimits(value) }), uint64(32*size))
			_, err := ParseLimits(value)
			require.ErrorIs(t, err, shape.err)
		})
	}
}

func TestFieldErrorText(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  FieldError
		want string
	}{
		{"a position", FieldError{Field: LimitField, Line: 1, Offset: 12, Item: 2, Param: "r", Err: ErrType},
			"ratelimit: member 3 of RateLimit, line 2, byte 13: parameter r: wrong type, it has to be an Integer from 0"},
		{"no position", FieldError{Field: PolicyField, Offset: -1, Item: 3, Param: "pk", Err: ErrRange},
			"ratelimit: member 4 of RateLimit-Policy: parameter pk: out of range, it has to be a Byte Sequence, base64 between colons"},
		{"a name that cannot be written", FieldError{Field: PolicyField, Offset: -1, Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Policy: name: not well-formed, it has to be a String of printable ASCII"},
		{"a name that is not a String", FieldError{Field: PolicyField, Err: ErrType},
			"ratelimit: member 1 of RateLimit-Policy, line 1, byte 1: name: wrong type, it has to be a String of printable ASCII"},
		{"a fault of the List", FieldError{Field: PolicyField, Offset: 7, Err: ErrSyntax}, "ratelimit: member 1 of RateLimit-Policy, line 1, byte 8: not well-formed"},
		{"a fault of the List at its beginning", FieldError{Field: PolicyField, Err: ErrSyntax}, "ratelimit: member 1 of RateLimit-Policy, line 1, byte 1: not well-formed"},
		{"a conflict", FieldError{Field: PolicyField, Offset: -1, Param: "w", Err: ErrConflict}, "ratelimit: member 1 of RateLimit-Policy: parameter w: conflict"},
		{"a parameter of the other field", FieldError{Field: LimitField, Offset: -1, Param: "w", Err: ErrDuplicate},
			"ratelimit: member 1 of RateLimit: an extension parameter: duplicate"},
		{"an older field", FieldError{Field: "X-RateLimit-Reset", Offset: 0, Item: -1, Err: ErrSyntax}, "ratelimit: X-RateLimit-Reset, line 1, byte 1: not well-formed"},
		{"a field of a dialect", FieldError{Field: "Acme Left", Offset: -1, Item: -1, Err: ErrSyntax}, "ratelimit: Acme Left: not well-formed"},
		{"an extension parameter", FieldError{Field: PolicyField, Offset: -1, Param: "secret", Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Policy: an extension parameter: not well-formed"},
		{"a parameter in an older field", FieldError{Field: "RateLimit-Limit", Offset: -1, Param: "q", Err: ErrSyntax},
			"ratelimit: member 1 of RateLimit-Limit: an extension parameter: not well-formed"},
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

// No error repeats what the field said.
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

// Partition keys are the caller's own.
func TestParseFreshKeys(t *testing.T) {
	const line = `"a";r=1;pk=:YQ==:`
	first, err := ParseLimits(line)
	require.NoError(t, err)
	first[0].PartitionKey[0] = '!'
	second, err := ParseLimits(line)
	require.NoError(t, err)
	require.Equal(t, []byte("a"), second[0].PartitionKey)
}

// The text that a member is unmarshalled from may be used again.
func TestUnmarshalTextCopies(t *testing.T) {
	text := []byte(`"a";r=1;pk=:YQ==:;x="y"`)
	var got Limit
	require.NoError(t, got.UnmarshalText(text))
	clear(text)
	want := Limit{Name: "a", Remaining: 1, PartitionKey: []byte("a"), Params: Params{{"x", "y"}}}
	require.True(t, got.Equal(want), "got %v", got)
}
