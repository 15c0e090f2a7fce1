package ratelimit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// restrictCases are pairs of fields with what Restrict makes of them; each is policies
// and limits, with a bar between them.
var restrictCases = []struct {
	name     string
	upstream string
	own      string
	want     string
}{
	{"nothing", ``, ``, ``},
	{"upstream alone", `"a";q=10;w=60 | "a";r=5;t=30`, ``, `"a";q=10;w=60 | "a";r=5;t=30`},
	{"own alone", ``, `"a";q=10;w=60 | "a";r=5;t=30`, `"a";q=10;w=60 | "a";r=5;t=30`},
	{"no window in own", `"a";q=10;w=60 | "a";r=0`, `"a";q=1 | "a";r=1;t=9`, `"a";q=1;w=60 | "a";r=0;t=60`},
	{"no window upstream, as in older forms", `"default";q=20 | "default";r=9;t=30`, `"default";q=100;w=60 | "default";r=0`,
		`"default";q=20;w=60 | "default";r=0;t=60`},
	{"another policy joins", `"a";q=10;w=60 | "a";r=5;t=30`, `"b";q=5;w=1 | "b";r=2;t=1`,
		`"a";q=10;w=60, "b";q=5;w=1 | "a";r=5;t=30, "b";r=2;t=1`},
	{"own is stricter", `"a";q=10;w=60 | "a";r=5;t=30`, `"a";q=8;w=60 | "a";r=4;t=40`, `"a";q=8;w=60 | "a";r=4;t=40`},
	{"own is laxer", `"a";q=10;w=60 | "a";r=5;t=30`, `"a";q=20;w=60 | "a";r=9;t=20`, `"a";q=10;w=60 | "a";r=5;t=30`},
	{"each is stricter in one", `"a";q=10;w=60 | "a";r=5;t=30`, `"a";q=8;w=60 | "a";r=9;t=40`, `"a";q=8;w=60 | "a";r=5;t=40`},
	{"no windows agree", `"a";q=10`, `"a";q=8`, `"a";q=8`},
	{"the default unit", `"a";q=10;qu="requests";w=60`, `"a";q=8;w=60`, `"a";q=8;qu="requests";w=60`},
	{"the unit of the registry", `"a";q=10;qu="request"`, `"a";q=8`, `"a";q=8;qu="request"`},
	{"another unit, the same", `"a";q=10;qu="content-bytes" | "a";r=5`, `"a";q=8;qu="content-bytes" | "a";r=4`,
		`"a";q=8;qu="content-bytes" | "a";r=4`},
	{"parameters are those of upstream", `"a";q=10;x=1 | "a";r=5;y=1`, `"a";q=8;x=2 | "a";r=4;y=2`, `"a";q=8;x=1 | "a";r=4;y=1`},
	{"another partition", `"a";q=10;w=60;pk=:YQ==: | "a";r=5;pk=:YQ==:`, `"a";q=8;w=60;pk=:Yg==: | "a";r=4;pk=:Yg==:`,
		`"a";q=10;w=60;pk=:YQ==:, "a";q=8;w=60;pk=:Yg==: | "a";r=5;pk=:YQ==:, "a";r=4;pk=:Yg==:`},
	{"windows of two partitions", `"a";q=10;w=60;pk=:YQ==: | "a";r=5;pk=:YQ==:`, `"a";q=1;w=30;pk=:Yg==: | "a";r=0;pk=:Yg==:`,
		`"a";q=10;w=60;pk=:YQ==:, "a";q=1;w=30;pk=:Yg==: | "a";r=5;pk=:YQ==:, "a";r=0;pk=:Yg==:`},
	{"an empty key is not an absent one", `| "a";r=5`, `| "a";r=4;pk=::`, `| "a";r=5, "a";r=4;pk=::`},
	{"a limit without policies", `| "a";r=5;t=30`, `| "a";r=4;t=40`, `| "a";r=4;t=40`},
	{"a limit of upstream without policy", `| "a";r=5;t=30`, `"a";q=10;w=60 | "a";r=4;t=40`, `"a";q=10;w=60 | "a";r=4;t=40`},
	{"a limit of own without policy", `"a";q=10;w=60 | "a";r=5;t=30`, `| "a";r=4;t=40`, `"a";q=10;w=60 | "a";r=4;t=40`},
	{"the key on the policy of upstream alone", `"a";q=10;w=60;pk=:YQ==: | "a";r=5`, `"a";q=8;w=60;pk=:YQ==: | "a";r=4`,
		`"a";q=8;w=60;pk=:YQ==: | "a";r=4`},
	{"upstream repeats itself", `"a";q=10, "a";q=5 | "a";r=5;t=10, "a";r=3;t=60`, `"a";q=8 | "a";r=4;t=30`,
		`"a";q=8, "a";q=5 | "a";r=4;t=30, "a";r=3;t=60`},
	{"a quota of 0 upstream", `"a";q=0;w=60 | "a";r=3`, `"a";q=5;w=60 | "a";r=2;t=1`, `"a";q=0;w=60 | "a";r=2;t=60`},
	{"a quota of 0 here", `"a";q=5;w=60 | "a";r=2;t=1`, `"a";q=0;w=60 | "a";r=3`, `"a";q=0;w=60 | "a";r=2;t=60`},
	{"an unknown quota yields", `"a";q=unknown;w=60 | "a";r=2`, `"a";q=9;w=60 | "a";r=3`, `"a";q=9;w=60 | "a";r=2`},
	{"upstream has no reset, and something remains", `"a";q=9;w=60 | "a";r=5`, `"a";q=9;w=60 | "a";r=3;t=10`,
		`"a";q=9;w=60 | "a";r=3;t=10`},
	{"upstream has no reset", `| "a";r=5`, `| "a";r=4;t=30`, `| "a";r=4;t=30`},
	{"own has no reset", `| "a";r=5;t=30`, `| "a";r=4`, `| "a";r=4;t=30`},
	{"upstream does not say what remains", `| "a";r=unknown;t=30`, `| "a";r=4;t=10`, `| "a";r=4;t=30`},
	{"nothing remains upstream, for the window", `"a";q=10;w=60 | "a";r=0`, `"a";q=10;w=60 | "a";r=4;t=10`,
		`"a";q=10;w=60 | "a";r=0;t=60`},
	{"nothing remains here, for the window", `"a";q=10;w=60 | "a";r=5;t=10`, `"a";q=10;w=60 | "a";r=0`,
		`"a";q=10;w=60 | "a";r=0;t=60`},
	{"nothing remains anywhere, for the window", `"a";q=10;w=60 | "a";r=0`, `"a";q=10;w=60 | "a";r=0`, `"a";q=10;w=60 | "a";r=0`},
	{"nothing remains upstream, nobody knows for how long", `| "a";r=0`, `| "a";r=4;t=10`, `| "a";r=0;t=10`},
	{"a reset longer than the window", `"a";q=10;w=60 | "a";r=0`, `"a";q=10;w=60 | "a";r=4;t=90`, `"a";q=10;w=60 | "a";r=0;t=90`},
}

// restrictErrorCases are pairs of fields that mean different things by a name.
var restrictErrorCases = []struct {
	name     string
	upstream string
	own      string
	field    string
	item     int
	param    string
	err      error // nil is ErrConflict
}{
	{"units", `"a";q=10`, `"b";q=1, "a";q=1;qu="content-bytes"`, PolicyField, 1, "qu", nil},
	{"unit and window", `"a";q=10;qu="x";w=1`, `"a";q=1;qu="y";w=2`, PolicyField, 0, "qu", nil},
	{"windows", `"a";q=10;w=60`, `"a";q=1;w=30`, PolicyField, 0, "w", nil},
	{"upstream repeats itself with another window", `"a";q=10;w=60, "a";q=10;w=30`, `"b";q=1, "a";q=1;w=60`, PolicyField, 1, "w", nil},
	{"own repeats a policy", `"a";q=10;w=60`, `"a";q=1;w=60, "a";q=1;w=30`, PolicyField, 1, "", ErrDuplicate},
	{"own repeats a limit that upstream has not", ``, `| "a";r=4, "a";r=3`, LimitField, 1, "", ErrDuplicate},
	{"own does not say what remains", `| "a";r=5;t=30`, `| "a";r=unknown;t=40`, LimitField, 0, "r", ErrRange},
	{"own does not say its quota", `"a";q=5`, `"a";q=unknown`, PolicyField, 0, "q", ErrRange},
	{"a limit of upstream that loses its policy", `"api";q=10;pk=:YQ==: | "api";r=90;t=60`, `"api";q=50;pk=:Yg==:`, LimitField, -1, "", nil},
	{"a limit of own that loses its policy", `"api";q=50;pk=:Yg==:`, `"api";q=10;pk=:YQ==: | "api";r=90;t=60`, LimitField, -1, "", nil},
	{"a limit of upstream without policy, in requests", `| "a";r=5`, `"a";q=10;qu="content-bytes" | "a";r=4`, LimitField, -1, "", nil},
	{"a limit of own without policy, in requests", `"a";q=10;qu="content-bytes" | "a";r=5`, `| "a";r=4`, LimitField, -1, "", nil},
	{"a limit of upstream that two policies would claim", `"a";q=10;w=60;pk=:YQ==: | "a";r=5`, `"a";q=10;w=60;pk=:Yg==:`,
		LimitField, -1, "", nil},
	{"a limit of own that two policies would claim", `"a";q=10;w=60;pk=:YQ==:`, `"a";q=10;w=60;pk=:Yg==: | "a";r=5`,
		LimitField, -1, "", nil},
	{"a limit of upstream that would get a higher quota", `"a";q=10;w=60;pk=:YQ==: | "a";r=5`, `"a";q=20;w=60`, LimitField, -1, "", nil},
}

// halves returns the policies and the limits of such a pair.
func halves(text string) (policies, limits string) {
	policies, limits, _ = strings.Cut(text, "|")
	return strings.TrimSpace(policies), strings.TrimSpace(limits)
}

func pairOf(t testing.TB, text string) Fields {
	policies, limits := halves(text)
	return fieldsOf(t, policies, limits)
}

func TestRestrict(t *testing.T) {
	for _, tc := range restrictCases {
		t.Run(tc.name, func(t *testing.T) {
			upstream, own := pairOf(t, tc.upstream), pairOf(t, tc.own)
			got, err := Restrict(upstream, own)
			require.NoError(t, err)
			require.Equal(t, pairOf(t, tc.want), got)
			lawRestrict(t, upstream, own)
		})
	}
	for _, tc := range restrictErrorCases {
		t.Run(tc.name, func(t *testing.T) {
			upstream, own := pairOf(t, tc.upstream), pairOf(t, tc.own)
			_, err := Restrict(upstream, own)
			require.Equal(t, &FieldError{Field: tc.field, Offset: -1, Item: tc.item, Param: tc.param, Err: cmp.Or(tc.err, ErrConflict)}, err)
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
		require.True(t, e.Err == ErrConflict || e.Err == ErrTooMany || own.Validate() != nil)
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
	lawAdviseNoMore(t, upstream, got)
	lawAdviseNoMore(t, own, got)

	alone, err := Restrict(upstream, Fields{})
	require.NoError(t, err)
	require.Equal(t, upstream, alone)
	again, err := Restrict(got, own)
	require.NoError(t, err)
	require.Equal(t, got, again, "twice is as once")
}

// lawAdviseNoMore is law 7 as a client understands it: no shorter wait, and no
// shorter pace, unless the wait takes its place.
func lawAdviseNoMore(t testing.TB, before, after Fields) {
	t.Helper()
	a, b := Advice{Fields: before}, Advice{Fields: after}
	a.follow()
	b.follow()
	require.GreaterOrEqual(t, b.Wait, a.Wait, "law 7: %v, got %v", before, after)
	require.GreaterOrEqual(t, max(b.Pace, b.Wait), a.Pace, "law 7: %v, got %v", before, after)
}

func lawPolicyNoMore(t testing.TB, p, q Policy) {
	t.Helper()
	require.Equal(t, q.Quota, lower(p.Quota, q.Quota), "law 7")
	q.Quota = p.Quota
	if !p.Window.ok {
		q.Window = p.Window
	}
	require.Equal(t, p, q)
}

// lawOwn: what own says is in the result as well.
func lawOwn(t testing.TB, own, got Fields) {
	t.Helper()
	for _, p := range own.Policies {
		require.True(t, slices.ContainsFunc(got.Policies, func(q Policy) bool {
			return q.Name == p.Name && equalKey(q.PartitionKey, p.PartitionKey) && difference(&p, &q) == "" && lower(p.Quota, q.Quota) == q.Quota
		}), "law 7: %v, got %v", p, got.Policies)
	}
	for _, l := range own.Limits {
		require.True(t, slices.ContainsFunc(got.Limits, func(m Limit) bool { return noMore(own, l, got, m) }), "law 7: %v, got %v", l, got.Limits)
	}
}

// noMore reports whether m, a limit of g, allows no more than l, one of f.
func noMore(f Fields, l Limit, g Fields, m Limit) bool {
	before, after := newMatcher(f.Policies), newMatcher(g.Policies)
	p, q := before.policy(&l), after.policy(&m)
	had := p != &noPolicy
	wait := l.wait(p)
	least := m.wait(q)
	return m.Name == l.Name && equalKey(m.PartitionKey, l.PartitionKey) && q.Unit.canonical() == p.Unit.canonical() &&
		(!had || q != &noPolicy && (q.Window == p.Window || !p.Window.ok) && lower(p.Quota, q.Quota) == q.Quota) &&
		lower(l.Remaining, m.Remaining) == m.Remaining &&
		(!l.Reset.ok || m.Reset.ok && m.Reset.n >= l.Reset.n) &&
		(!wait.ok || least.ok && least.n >= wait.n)
}

// TestRestrictRandom is law 7 for random pairs, with duplicates, keys, units, and quotas
// of 0. FuzzRestrict looks for more.
func TestRestrictRandom(t *testing.T) {
	t.Parallel()
	const pairs = 50_000
	rnd := rand.New(rand.NewPCG(7, 7))
	refused := 0
	for range pairs {
		upstream, own := fuzzFields(rnd), ownFields(rnd)
		got, err := Restrict(upstream, own)
		if err != nil {
			refused++
			continue
		}
		lawAdviseNoMore(t, upstream, got)
		lawAdviseNoMore(t, own, got)
	}
	require.Less(t, refused, pairs*3/4, "most pairs agree")
	require.Greater(t, refused, pairs/100, "some do not")
}

// Restrict is linear: ten times the members take about ten times as long.
func BenchmarkRestrict(b *testing.B) {
	for _, n := range []int{100, 1000} {
		var upstream, own Fields
		for i := range n {
			name := fmt.Sprint("policy", i)
			upstream.Policies = append(upstream.Policies, Policy{Name: name, Quota: 10, Window: SecondsOf(60)})
			upstream.Limits = append(upstream.Limits, Limit{Name: name, Remaining: 5, Reset: SecondsOf(30)})
		}
		own = cloneFields(upstream)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var got Fields
			for b.Loop() {
				got, _ = Restrict(upstream, own)
			}
			require.Len(b, got.Limits, n)
		})
	}
}
