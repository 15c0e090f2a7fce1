package ratelimit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A nextCase is a response, and what ParseAny reads of it: Fields.String, and the
// errors, each `member field line byte`.
type nextCase struct {
	name   string
	wire   string
	want   string
	faults []string
}

// nextCases are responses in the form of the draft that follows draft-11, which is not
// published, and their neighbours. They are vectors, too.
var nextCases = []nextCase{
	{"a and w", `RateLimit: "d";a=50;w=30`, `limits "d";r=50;t=30; dialect draft-next`, nil},
	{"a alone", `RateLimit: "d";a=50`, `limits "d";r=50; dialect draft-next`, nil},
	{"a Token for the name", `RateLimit: d;a=50;w=30`, `limits "d";r=50;t=30; dialect draft-next`, nil},
	{"a Token with all that it may have", `RateLimit: *a/b:c.d%;a=1`, `limits "*a/b:c.d%";r=1; dialect draft-next`, nil},
	{"nothing remains, and the window has ended", `RateLimit: "d";a=0;w=0`, `limits "d";r=0;t=0; dialect draft-next`, nil},
	{"the largest numbers", `RateLimit: "d";a=999999999999999;w=999999999999999`,
		`limits "d";r=999999999999999;t=999999999999999; dialect draft-next`, nil},
	{"a partition key", `RateLimit: d;a=1;pk=:YQ==:`, `limits "d";r=1;pk=:YQ==:; dialect draft-next`, nil},
	{"c, which is kept", `RateLimit: d;a=50;w=30;c=5`, `limits "d";r=50;t=30;c=5; dialect draft-next`, nil},
	{"c before a", `RateLimit: d;c=5;a=50`, `limits "d";r=50;c=5; dialect draft-next`, nil},
	{"parameters that nobody defines", `RateLimit: d;x;a=50;acme="y"`, `limits "d";r=50;x;acme="y"; dialect draft-next`, nil},
	{"the last duplicate counts", `RateLimit: d;a=x;a=5;w=1;w=30`, `limits "d";r=5;t=30; dialect draft-next`, nil},
	{"t beside a, which is not defined there", `RateLimit: d;a=50;t=1700000000;w=30`, `limits "d";r=50;t=30; dialect draft-next`, nil},
	{"t beside a, and no w", `RateLimit: d;a=50;t=1700000000`, `limits "d";r=50; dialect draft-next`, nil},
	{"spaces as RFC 9651 has them", `RateLimit:  d; a=50; w=30 ,  e;  a=1`, `limits "d";r=50;t=30, "e";r=1; dialect draft-next`, nil},
	{"two lines", "RateLimit: d;a=50\nRateLimit: e;a=1;w=2", `limits "d";r=50, "e";r=1;t=2; dialect draft-next`, nil},
	{"a name over two lines", "RateLimit: \"d\nRateLimit: e\";a=50", `limits "d, e";r=50; dialect draft-next`, nil},

	{"members of both kinds", `RateLimit: "d";a=50;w=30, "e";r=7;t=9`, `limits "d";r=50;t=30, "e";r=7;t=9; dialect draft-next`, nil},
	{"members of both kinds, Tokens", `RateLimit: e;r=7;t=9, d;a=50;w=30`, `limits "e";r=7;t=9, "d";r=50;t=30; dialect draft-next`, nil},
	{"in a mixed list r counts, and a is an extension", `RateLimit: "e";r=7;a=8;w=9, d;a=50`, `limits "e";r=7;a=8;w=9, "d";r=50; dialect draft-next`, nil},
	{"r and a in every member are draft-11", `RateLimit: "d";r=7;t=9;a=50;w=30`, `limits "d";r=7;t=9;a=50;w=30; dialect ratelimit`, nil},

	{"policies", "RateLimit-Policy: \"d\";q=100;w=60, e;q=1000\nRateLimit: d;a=50;w=30",
		`policies "d";q=100;w=60, "e";q=1000; limits "d";r=50;t=30; dialect draft-next`, nil},
	{"a policy with a window of 0", "RateLimit-Policy: d;q=100;w=60, e;q=5;w=0\nRateLimit: d;a=50",
		`policies "d";q=100;w=60; limits "d";r=50; dialect draft-next`, []string{"2 RateLimit-Policy 1 23"}},
	{"a policy without q, and one whose unit is a Token", "RateLimit-Policy: d;w=60, e;q=5;w=60\nRateLimit-Policy: f;q=1;qu=tokens\nRateLimit: e;a=5",
		`policies "e";q=5;w=60; limits "e";r=5; dialect draft-next`, []string{"1 RateLimit-Policy 1 1", "3 RateLimit-Policy 2 10"}},
	{"a policy with a negative q", "RateLimit-Policy: d;q=-1, e;q=5\nRateLimit: e;a=5",
		`policies "e";q=5; limits "e";r=5; dialect draft-next`, []string{"1 RateLimit-Policy 1 5"}},
	{"a policy whose name is an Integer", "RateLimit-Policy: 100;w=60, e;q=5\nRateLimit: e;a=5",
		`policies "e";q=5; limits "e";r=5; dialect draft-next`, []string{"1 RateLimit-Policy 1 1"}},
	{"every policy is bad", "RateLimit-Policy: d;q=x, e;q=y\nRateLimit: e;a=5",
		`limits "e";r=5; dialect draft-next`, []string{"1 RateLimit-Policy 1 5", "2 RateLimit-Policy 1 12"}},
	{"policies that are no List", "RateLimit-Policy: d;q=1, e;q=\nRateLimit: e;a=5",
		`limits "e";r=5; dialect draft-next`, []string{"2 RateLimit-Policy 1 12"}},
	{"policies with an empty member", "RateLimit-Policy: d;q=1,, e;q=2\nRateLimit: e;a=5",
		`limits "e";r=5; dialect draft-next`, []string{"2 RateLimit-Policy 1 7"}},
	{"policies with an Inner List", "RateLimit-Policy: (d);q=1, e;q=2\nRateLimit: e;a=5",
		`limits "e";r=5; dialect draft-next`, []string{"1 RateLimit-Policy 1 1"}},
	{"a bad policy beside draft-11 takes all with it", "RateLimit-Policy: \"d\";q=1, \"e\";q=5;w=0\nRateLimit: \"d\";r=5",
		`limits "d";r=5; dialect ratelimit`, []string{"2 RateLimit-Policy 1 20"}},

	{"names that differ by case have the spelling of the limit", "RateLimit-Policy: DAY;q=100;w=60\nRateLimit: \"Day\";a=50;w=30",
		`policies "Day";q=100;w=60; limits "Day";r=50;t=30; dialect draft-next`, nil},
	{"of two limits with one name the lower counts", `RateLimit: d;a=50;w=30, e;a=1, D;a=7;w=3`, `limits "d";r=7;t=3, "e";r=1; dialect draft-next`, nil},
	{"of two limits with the same number the longer window counts", `RateLimit: d;a=0;w=3, D;a=0;w=30`, `limits "d";r=0;t=30; dialect draft-next`, nil},
	{"of two policies with one name the lower counts", "RateLimit-Policy: D;q=100;w=60, d;q=10;w=60\nRateLimit: d;a=5",
		`policies "d";q=10;w=60; limits "d";r=5; dialect draft-next`, nil},
	{"of two policies with the same quota the longer window counts", "RateLimit-Policy: D;q=10;w=60, d;q=10;w=600\nRateLimit: d;a=5",
		`policies "d";q=10;w=600; limits "d";r=5; dialect draft-next`, nil},
	{"two partition keys of one name", "RateLimit: d;a=50;pk=:YQ==:, D;a=7;pk=:Yg==:", `limits "d";r=50;pk=:YQ==:, "d";r=7;pk=:Yg==:; dialect draft-next`, nil},
	{"names that differ by case in draft-11 are two", `RateLimit: "d";r=50, "D";r=7`, `limits "d";r=50, "D";r=7; dialect ratelimit`, nil},

	{"older fields beside it are not looked at", "RateLimit: d;a=50\nX-RateLimit-Remaining: 7", `limits "d";r=50; dialect draft-next`, nil},
	{"a is a Decimal", `RateLimit: "d";a=5.5;w=30`, "no limits", []string{"1 RateLimit 1 1"}},
	{"a is negative", `RateLimit: "d";a=-5;w=30`, "no limits", []string{"1 RateLimit 1 1"}},
	{"w is negative", `RateLimit: "d";a=5;w=-1`, "no limits", []string{"1 RateLimit 1 1"}},
	{"a without value", `RateLimit: "d";a`, "no limits", []string{"1 RateLimit 1 1"}},
	{"r is malformed, and a beside it is no help", `RateLimit: "d";r=x;a=5`, "no limits", []string{"1 RateLimit 1 7"}},
	{"one of two members has neither r nor a", `RateLimit: "d";a=5, "e";w=5`, "no limits", []string{"1 RateLimit 1 1"}},
	{"it is no List", `RateLimit: "d";a=5,`, "no limits", []string{"1 RateLimit 1 1"}},
	{"malformed, where older fields say it", "RateLimit: d;a=x\nX-RateLimit-Remaining: 7", `limits "default";r=7; dialect x-ratelimit`, []string{"1 RateLimit 1 1"}},
	{"a Token with r is read with lenience, as before", `RateLimit: d;r=50;t=30`, `limits "d";r=50;t=30; dialect draft-08`, nil},
}

// faultPlaces says where errors are, each as in a nextCase.
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

// lawNext: what is read in the form of the next draft is malformed for Parse; it can be
// written as draft-11 and read back, has one spelling of each name, and reads the same
// when it is spelled anew in that form.
func lawNext(t testing.TB, h http.Header) {
	t.Helper()
	got, _ := ParseAny(h, LegacyOptions{Now: late})
	if got.Dialect != nextDialect {
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
		if l.Params.index("a") >= 0 {
			return // r and a: spelled anew, a would be there twice
		}
	}
	for _, p := range got.Policies {
		spelled(p.Name)
	}
	written[limitKey] = []string{nextText(t, got.Limits)}
	again, err = ParseAny(written, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Equal(t, nextDialect, again.Dialect)
	requireEqual(t, got.Policies, again.Policies)
	requireEqual(t, got.Limits, again.Limits)
}

// FuzzNext: fields of draft-11 are read alike when they are spelled as the next draft
// spells them.
func FuzzNext(f *testing.F) {
	all := seeds()
	for i, s := range all {
		f.Add(s, all[len(all)-1-i])
	}
	f.Add(`"Day";q=100;w=60, "hour";q=10`, `"day";r=50;t=30;c=5, "HOUR";r=1;pk=:YQ==:`)
	f.Fuzz(func(t *testing.T, policies, limits string) {
		h := http.Header{policyKey: fuzzLines(policies), limitKey: fuzzLines(limits)}
		want, err := Parse(h)
		if err != nil || want.Limits == nil {
			return
		}
		for _, l := range want.Limits {
			if l.Params.index("a") >= 0 || l.Params.index("w") >= 0 {
				return // extensions of draft-11 with keys of the next
			}
		}
		want.unify()
		h[limitKey] = []string{nextText(t, want.Limits)}
		got, err := ParseAny(h, LegacyOptions{Now: late})
		require.NoError(t, err)
		require.Equal(t, nextDialect, got.Dialect)
		requireEqual(t, want.Policies, got.Policies)
		requireEqual(t, want.Limits, got.Limits)
		lawNext(t, h)
	})
}

func TestNext(t *testing.T) {
	for _, tc := range nextCases {
		t.Run(tc.name, func(t *testing.T) {
			h := wire(tc.wire)
			got, err := ParseAny(h, LegacyOptions{Now: late})
			require.Equal(t, tc.want, got.String())
			require.Equal(t, tc.faults, faultPlaces(t, err))
			lawNext(t, h)
			lawAny(t, h)
			lawLegacy(t, h)

			a := Advisor{}.Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, late)
			require.Equal(t, tc.want, a.Fields.String())
		})
	}
}

// The bounds are those of the current fields, and errors hold nothing of a field.
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
			h := http.Header{policyKey: {tc.policies}, limitKey: {tc.limits}}
			got, err := ParseAny(h, LegacyOptions{Now: late})
			require.Equal(t, tc.want, [3]int{len(got.Policies), len(got.Limits), len(faultPlaces(t, err))})
			require.NotContains(t, fmt.Sprint(err), "secret")
			lawNext(t, h)
		})
	}
	for _, shape := range hostileShapes {
		text := strings.ReplaceAll(shape.value(1<<16), "r=", "a=")
		for _, h := range []http.Header{{limitKey: {text}}, {policyKey: {strings.ReplaceAll(text, "a=", "q=")}, limitKey: {"d;a=1"}}} {
			lawAny(t, h)
		}
	}
}

// What is not in the form of the next draft costs no memory to see.
func TestNextAllocations(t *testing.T) {
	for _, line := range []string{"limit=100, remaining=50, reset=5", `burst;r=0.5;t=30`, `"burst";t=30`} {
		lines := []string{line}
		requireAllocs(t, 0, func() { _ = parseNextLimits(lines) })
	}
}

// extensionText returns so many extension parameters, each of five bytes.
func extensionText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ";x%03d", i)
	}
	return b.String()
}
