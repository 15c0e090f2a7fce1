package ratelimit

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			a := Advise(responseOf(text), now)
			require.Equal(t, tt.wait, a.Wait)
			require.True(t, a.Fields.exhausted())

			h := wire(text)
			require.NoError(t, RestrictHeader(h, 200, own, LegacyOptions{Name: "default", Now: now}))
			require.Equal(t, tt.wait, Advise(&http.Response{Header: h}, now).Wait)
			delete(h, policyKey)
			delete(h, limitKey)
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
