package ratelimit

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A restrictCase is a case of testdata/fields/restrict.txt: the fields of upstream and those of a
// gateway, with the result of Restrict or its error. Each has policies and limits, with a bar
// between them.
type restrictCase struct {
	name, upstream, own, want string
	fault                     *FieldError
}

var restrictCases = readRestrictCases()

func readRestrictCases() (cases []restrictCase) {
	for _, c := range plainCases("restrict") {
		tc := restrictCase{name: c.name, want: c.want}
		tc.upstream, tc.own, _ = strings.Cut(c.in, "\n+ ")
		if c.refused {
			tc.fault = readFault(c.want)
		}
		cases = append(cases, tc)
	}
	return cases
}

// halves returns the policies and the limits of a pair.
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
			if tc.fault != nil {
				require.Equal(t, tc.fault, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, pairOf(t, tc.want), got)
			}
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
	lawAdviseBetween(t, got, upstream, own)

	alone, err := Restrict(upstream, Fields{})
	require.NoError(t, err)
	require.Equal(t, upstream, alone)
	again, err := Restrict(got, own)
	require.NoError(t, err)
	require.Equal(t, got, again, "twice is as once")
}

// lawAdviseBetween is law 7 for a client. The joined fields ask for no shorter wait than either
// party, for no longer wait than both, and for no shorter pace, unless nothing remains.
func lawAdviseBetween(t testing.TB, got Fields, parties ...Fields) {
	after := got.asked(0)
	var longest time.Duration
	for _, f := range parties {
		before := f.asked(0)
		if !atLeastAsStrict(&after, &before) { // assertions would double the time of a random test
			require.Fail(t, "law 7", "%v, got %v: wait %v, pace %v, got %v, %v", f, got, before.Wait, before.Pace, after.Wait, after.Pace)
		}
		if longest = max(longest, before.Wait); f.endless() {
			return
		}
	}
	if after.Wait > longest {
		require.Fail(t, "law 7", "%v, got %v: wait %v, got %v", parties, got, longest, after.Wait)
	}
}

// endless reports whether the wait for an exhausted limit is unknown, because it has no reset, or
// because a limit reports on a quota of 0.
func (f Fields) endless() bool {
	policies := newMatcher(f.Policies)
	return slices.ContainsFunc(f.Policies, func(p Policy) bool { return p.Quota == 0 }) || slices.ContainsFunc(f.Limits, func(l Limit) bool {
		p := policies.policy(&l)
		return l.exhausted(p) && !l.wait(p).ok
	})
}

func lawPolicyNoMore(t testing.TB, p, q Policy) {
	require.Equal(t, q.Quota, lower(p.Quota, q.Quota), "law 7")
	q.Quota = p.Quota
	if !p.Window.ok {
		q.Window = p.Window
	}
	require.Equal(t, p, q)
}

// lawOwn checks that the result contains the members of own.
func lawOwn(t testing.TB, own, got Fields) {
	for _, p := range own.Policies {
		require.True(t, slices.ContainsFunc(got.Policies, func(q Policy) bool {
			return q.Name == p.Name && equalKey(q.PartitionKey, p.PartitionKey) && difference(&p, &q) == "" && lower(p.Quota, q.Quota) == q.Quota
		}), "law 7: %v, got %v", p, got.Policies)
	}
	for _, l := range own.Limits {
		require.True(t, slices.ContainsFunc(got.Limits, func(m Limit) bool { return noMore(own, l, got, m) }), "law 7: %v, got %v", l, got.Limits)
	}
}

// noMore reports whether m, a limit of g, allows no more than l, a limit of f.
func noMore(f Fields, l Limit, g Fields, m Limit) bool {
	before, after := newMatcher(f.Policies), newMatcher(g.Policies)
	p, q := before.policy(&l), after.policy(&m)
	had := p != &noPolicy
	wait := l.wait(p)
	least := m.wait(q)
	return m.Name == l.Name && equalKey(m.PartitionKey, l.PartitionKey) && q.Unit.canonical() == p.Unit.canonical() &&
		(!had || q != &noPolicy && (q.Window == p.Window || !p.Window.ok) && lower(p.Quota, q.Quota) == q.Quota) &&
		lower(l.Remaining, m.Remaining) == m.Remaining &&
		(!l.Reset.ok || m.Reset.ok && m.Reset.n >= l.Reset.n || m.exhausted(q) && !l.exhausted(p)) &&
		(!wait.ok || least.ok && least.n >= wait.n)
}

// TestRestrictRandom is law 7 for random pairs, with duplicates, keys, units, and quotas of 0, as
// in FuzzRestrict.
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
		lawAdviseBetween(t, got, upstream, own)
	}
	require.Less(t, refused, pairs*3/4, "most pairs agree")
	require.Greater(t, refused, pairs/100, "some do not")
}
