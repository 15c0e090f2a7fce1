package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A restrictCase is a case of testdata/fields/restrict.txt: the fields of upstream and the fields of a
// gateway, with the result of Restrict or its error. Each has policies and limits, with a bar between
// them.
type restrictCase struct {
	name, upstream, own, want string
	fault                     *FieldError
}

var restrictCases = readRestrictCases()

func readRestrictCases() (cases []restrictCase) {
	for _, c := range trial.PlainCases("testdata/fields/restrict.txt") {
		tc := restrictCase{name: c.Name, want: c.Want}
		tc.upstream, tc.own, _ = strings.Cut(c.In, "\n+ ")
		if c.Refused {
			tc.fault = readFault(c.Want)
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

// A change of the result does not change the limits of upstream, which may come from a configuration.
func TestRestrictCopies(t *testing.T) {
	upstream := fieldsOf(t, `"a";q=9`, `"a";r=9`)
	for _, own := range []Fields{{}, fieldsOf(t, `"b";q=1`, ``), fieldsOf(t, ``, `"b";r=1`)} {
		got, err := Restrict(upstream, own)
		require.NoError(t, err)
		got.Policies[0].Quota, got.Limits[0].Remaining = 1, 1
		require.Equal(t, fieldsOf(t, `"a";q=9`, `"a";r=9`), upstream)
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
// party, for no longer wait than both, and for no shorter pace, unless nothing remains for a while.
func lawAdviseBetween(t testing.TB, got Fields, parties ...Fields) {
	after := got.asked(0)
	var longest, pace time.Duration
	atOnce := false
	for _, f := range parties {
		before := f.asked(0)
		pace = max(pace, before.Pace)
		atOnce = atOnce || slices.ContainsFunc(f.Limits, func(l Limit) bool { return l.Remaining == 0 && l.Reset == SecondsOf(0) })
		if !atLeastAsStrict(&after, &before) || after.Wait == 0 && after.Pace < before.Pace && !got.endless() { // assertions would double the time of a random test
			require.Fail(t, "law 7", "%v, got %v: wait %v, pace %v, got %v, %v", f, got, before.Wait, before.Pace, after.Wait, after.Pace)
		}
		if longest = max(longest, before.Wait); f.endless() {
			return
		}
	}
	rounding := time.Duration(0)
	if atOnce { // the pace of the other party takes the place of no wait
		longest, rounding = max(longest, pace), time.Second
	}
	if after.Wait-longest > rounding {
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
	return m.Name == l.Name && equalKey(m.PartitionKey, l.PartitionKey) && q.Unit.Canonical() == p.Unit.Canonical() &&
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

// Responses with numbers of several parties: two limiters, two families, or two clocks, of a
// Retry-After and a reset (law 11).

// A client and a gateway read several lines of a field in the same way.
func TestSeveralLinesOnTheWay(t *testing.T) {
	own := fieldsOf(t, `"gateway";q=50;w=10`, `"gateway";r=40;t=10`)
	for _, tt := range []struct {
		name, wire string
		wait       time.Duration
	}{
		{"nothing remains of the second limiter", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: 60s", time.Minute},
		{"nothing remains of the first", "X-RateLimit-Remaining: 0\nX-RateLimit-Remaining: 99\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: 60s", time.Minute},
		{"nothing remains, for an unknown time", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0", 0},
		{"nothing remains in a list", "X-RateLimit-Remaining: 99, 0\nX-RateLimit-Reset: @http+60", time.Minute},
		{"all of it is used", "X-RateLimit-Limit: 100\nX-RateLimit-Used: 1\nX-RateLimit-Used: 100\nX-RateLimit-Reset-After: 60", time.Minute},
	} {
		eachClock(t, tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			now = now.Truncate(time.Second)
			a := Advise(trial.ResponseOf(text), now)
			require.Equal(t, tt.wait, a.Wait)
			require.True(t, a.Fields.exhausted())

			h := trial.Wire(text)
			require.NoError(t, RestrictHeader(h, 200, own, RestrictOptions{Legacy: LegacyOptions{Name: "default", Now: now}}))
			require.Equal(t, tt.wait, Advise(&http.Response{Header: h}, now).Wait)
			delete(h, draft.PolicyKey)
			delete(h, draft.LimitKey)
			older := Advise(&http.Response{Header: h}, now)
			require.True(t, older.Fields.exhausted(), "the older fields are not raised: %v", h)
			require.Equal(t, tt.wait, older.Wait)
		})
	}
}

// Two limiters write the same form, into lines of the same fields or into lists. A client
// reads no more than either permits (law 11).
func TestSeveralLimitersRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(17, 1))
	windows := []int64{1, 10, 60, 3600, 86400}
	limiter := func(name string) Fields {
		quota, window := 1+rnd.Int64N(2000), windows[rnd.IntN(len(windows))]
		return Fields{
			Policies: []Policy{{Name: name, Quota: quota, Window: SecondsOf(window)}},
			Limits:   []Limit{{Name: name, Remaining: max(rnd.Int64N(quota+1)-quota/4, 0), Reset: SecondsOf(rnd.Int64N(window + 1))}},
		}
	}
	for _, d := range []*Dialect{&draft00, &draft03, Draft06, XRateLimit, XRateLimitUnix, &xRateLimitDate, &twitter, GitHub, &xRateLimitByName, OpenAI} {
		for _, now := range []time.Time{then, late} {
			t.Run(d.Name()+"/"+now.Format("2006"), func(t *testing.T) {
				for range 100 {
					first, second := limiter("search"), limiter("search")
					one, two := http.Header{}, http.Header{}
					require.NoError(t, d.Set(one, first, now))
					require.NoError(t, d.Set(two, second, now))
					both, other := one.Clone(), two.Clone()
					for key := range one {
						both[key] = append(both[key], two[key]...)
						other[key] = append(other[key], one[key]...)
					}
					status := http.StatusOK
					if rnd.IntN(2) == 0 {
						status = http.StatusTooManyRequests
					}
					advise := func(h http.Header) Advice {
						return Advise(&http.Response{StatusCode: status, Header: h}, now)
					}
					got := advise(both)
					require.Equal(t, got.Fields.Limits, advise(other).Fields.Limits, "the order makes no difference: %v", both)
					a, b := advise(one), advise(two)
					require.GreaterOrEqual(t, got.Asked, max(a.Asked, b.Asked), "%v", both)
					require.GreaterOrEqual(t, max(got.Pace, got.Asked), max(a.Pace, b.Pace), "%v", both)
					l := got.Fields.Limits[0]
					require.Equal(t, min(first.Limits[0].Remaining, second.Limits[0].Remaining), l.Remaining)
					require.Equal(t, longer(first.Limits[0].Reset, second.Limits[0].Reset), l.Reset, "%v", both)
					p, ok := got.Fields.PolicyOf(l)
					require.True(t, ok)
					require.Equal(t, min(first.Policies[0].Quota, second.Policies[0].Quota), p.Quota)

					lists := http.Header{}
					for key, lines := range both {
						lists.Set(key, strings.Join(lines, ", "))
					}
					got = advise(lists)
					require.GreaterOrEqual(t, got.Asked, max(a.Asked, b.Asked), "%v", lists)
					require.GreaterOrEqual(t, max(got.Pace, got.Asked), max(a.Pace, b.Pace), "%v", lists)
				}
			})
		}
	}
}

// A bounded number of lines is read of a field.
func TestManyLines(t *testing.T) {
	for _, tt := range []struct{ name, key, value, last string }{
		{"a number", "X-Ratelimit-Remaining", "5", "3"},
		{"a quota", "X-Ratelimit-Limit", "5", "3"},
		{"a quota, the last in a list", "X-Ratelimit-Limit", "5, 6", "3, 4"},
		{"the Dictionary", "Ratelimit", "limit=5, reset=1", "limit=3, reset=1"},
		{"a function of a vendor", "X-Ms-Ratelimit-Remaining-Resource", "a;5", "a;3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := func(lines int) int64 {
				h := http.Header{tt.key: append(slices.Repeat([]string{tt.value}, lines-1), tt.last)}
				got, err := ParseAny(h, LegacyOptions{})
				require.NoError(t, err)
				if len(got.Policies) > 0 {
					return got.Policies[0].Quota
				}
				return got.Limits[0].Remaining
			}
			require.EqualValues(t, 3, read(16))
			if tt.name != "a quota" { // each line may be a list of policies
				require.EqualValues(t, 5, read(16+1))
			}
		})
	}

	h := http.Header{}
	for i := range 20 { // each line of a list of policies counts
		h.Add("RateLimit-Policy", fmt.Sprintf("%d;w=1", i+1))
	}
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, 20)

	for n, want := range map[int]error{maxMembers: nil, maxMembers + 1: ErrTooMany, 100 * maxMembers: ErrTooMany} {
		for _, key := range []string{"X-Ratelimit-Remaining", "X-Ratelimit-Limit", "X-Ratelimit-Reset-After"} {
			got, err := ParseAny(http.Header{key: {"7" + strings.Repeat(", 5", n-1)}}, LegacyOptions{})
			require.ErrorIs(t, err, want)
			require.NotEmpty(t, got.Dialect, "the first of them are read")
		}
	}
	for n, want := range map[int]error{maxMembers - 1: nil, maxMembers: ErrTooMany} {
		got, err := ParseAny(http.Header{"Ratelimit": {"reset=1" + strings.Repeat(", limit=5", n) + ", x=1"}}, LegacyOptions{})
		require.ErrorIs(t, err, want)
		require.EqualValues(t, 5, got.Policies[0].Quota)
	}
}

// Members with partition keys are compared without copies of the keys.
func TestRestrictAllocs(t *testing.T) {
	upstream, err := ParseLimits(`"a";r=5;t=3;pk=:YWJj:, "b";r=5;t=3;pk=:YWJkZWZnaGlqa2xtbm9wcXJzdHV2d3h5egAA:, "c";r=1;t=2`)
	require.NoError(t, err)
	own, err := ParseLimits(`"c";r=3;t=3, "a";r=4;t=3;pk=:YWJj:, "b";r=2;t=3;pk=:YWJkZWZnaGlqa2xtbm9wcXJzdHV2d3h5egAA:`)
	require.NoError(t, err)
	trial.RequireAllocs(t, 3, func() { _, err = Restrict(Fields{Limits: upstream}, Fields{Limits: own}) })
	require.NoError(t, err)
}
