package ratelimit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A responseCase is a case of a table in testdata/fields: a response, its Fields.String, and
// its errors, each as `member field line byte`.
type responseCase struct {
	name, wire, want string
	faults           []string
}

func readResponses(table string) (cases []responseCase) {
	for _, b := range blocksOf("testdata/fields/" + table + ".txt") {
		wire, said := b.cut(strings.TrimSuffix(b.text, "\n"), "\n= ")
		said, faults, faulty := strings.Cut(said, "\n! ")
		tc := responseCase{name: b.name, wire: wire, want: said}
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
			return // with r and a, the new spelling would contain a twice
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

// FuzzNext checks that fields of draft-11 have the same meaning in the spelling of the next
// draft.
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
				return // extensions of draft-11 can have keys of the next draft
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

			a := Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, late)
			require.Equal(t, tc.want, a.Fields.String())
		})
	}
}

// The bounds are those of the current fields. Errors do not contain text of a field.
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

// extensionText returns n extension parameters of five bytes each.
func extensionText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ";x%03d", i)
	}
	return b.String()
}
