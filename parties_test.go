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

// Responses in which several parties speak: two limiters, two families, the clock of
// a Retry-After beside that of a reset (law 11).

// TestTwoClocks: a Retry-After never decides the unit of a reset. It says when a
// bucket has its next unit, or when another limiter lets the client come back, and
// the reset says when all is back; two such numbers agree by chance.
func TestTwoClocks(t *testing.T) { runLegacy(t, clockCases()) }

func clockCases() []legacyCase {
	return []legacyCase{
		{"draft-06, and a Retry-After of another limiter", "Retry-After: 2\nRateLimit-Limit: 1000\nRateLimit-Remaining: 600\nRateLimit-Reset: 1900\nRateLimit-Policy: 1000;w=3600", "draft-06", "default : 600/1000 w=3600 t=1900", ""},
		{"draft-06 without a window", "Retry-After: 2\nRateLimit-Limit: 1000\nRateLimit-Remaining: 600\nRateLimit-Reset: 1900", "draft-06", "default : 600/1000 w=- t=1900", ""},
		{"draft-07", "Retry-After: 2\nRateLimit: limit=1000, remaining=600, reset=1900", "draft-07", "default : 600/1000 w=- t=1900", ""},
		{"draft-07 with a window", "Retry-After: 2\nRateLimit-Policy: 1000;w=3600\nRateLimit: limit=1000, remaining=600, reset=1900", "draft-07", "default : 600/1000 w=3600 t=1900", ""},
		{"a family that does not define the unit, which is a guess", "Retry-After: 2\nX-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 600\nX-RateLimit-Reset: 1900", "x-ratelimit?", "default : 600/1000 w=- t=1900", ""},
		{"the window in the name", "Retry-After: 30\nX-RateLimit-Remaining-Day: 5\nX-RateLimit-Reset-Day: 30000", "x-ratelimit", "day : 5/- w=86400 t=30000", ""},
		{"two policies, of which the first refuses", "Retry-After: 1\nX-RateLimit-Remaining-Second: 0\nX-RateLimit-Reset-Second: 1\nX-RateLimit-Remaining-Hour: 900\nX-RateLimit-Reset-Hour: 1500", "x-ratelimit", "hour : 900/- w=3600 t=1500 | second : 0/- w=1 t=1", ""},
		{"the window, which alone shows milliseconds", "Retry-After: 2\nX-RateLimit-Remaining-Minute: 5\nX-RateLimit-Reset-Minute: 30000", "x-ratelimit", "minute : 5/- w=60 t=30", ""},
		{"a bucket refuses: the next unit in 4 s, all in an hour", "Retry-After: 4\nX-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 3600", "x-ratelimit?", "default : 0/1000 w=- t=3600", ""},
		{"a bucket refuses in the names of the drafts", "Retry-After: 4\nRateLimit-Limit: 1000\nRateLimit-Remaining: 0\nRateLimit-Reset: 3600", "draft-06", "default : 0/1000 w=- t=3600", ""},
		{"a bucket refuses in about as many seconds as the reset has thousands", "Retry-After: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 6000", "x-ratelimit?", "default : 0/- w=- t=6000", ""},
		{"the same number in both is no proof", "Retry-After: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", "x-ratelimit?", "default : 0/- w=- t=60", ""},
		{"a date for Retry-After", "Retry-After: @http+60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60000", "x-ratelimit?", "default : 0/- w=- t=60000", ""},
		{"what stands in for Retry-After", "Retry-After-Ms: 60000\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60000", "x-ratelimit?", "default : 0/- w=- t=60000", ""},
		{"two lines of Retry-After", "Retry-After: soon\nRetry-After: 2\nRateLimit-Remaining: 600\nRateLimit-Reset: 1900", "draft-06", "default : 600/- w=- t=1900", ""},
		{"Unix seconds beside a Retry-After", "Retry-After: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: @unix+3600", "x-ratelimit", "default : 0/- w=- t=3600", ""},
		{"two families and a Retry-After", "Retry-After: 2\nRateLimit-Limit: 1000\nRateLimit-Remaining: 600\nRateLimit-Reset: 1900\nAcme-RateLimit-Remaining: 3\nAcme-RateLimit-Reset: 2000s", "draft-06", "acme : 3/- w=- t=2000 | default : 600/1000 w=- t=1900", ""},
	}
}

// TestTwoClocksOnTheWay: nor does it for a client, for a gateway or for Check.
func TestTwoClocksOnTheWay(t *testing.T) {
	const text = "Retry-After: 2\nRateLimit-Limit: 1000\nRateLimit-Remaining: 600\nRateLimit-Reset: 1900\nRateLimit-Policy: 1000;w=3600"
	a := Advisor{}.Advise(responseOf("HTTP/1.1 503 Service Unavailable\n"+text), late)
	require.Equal(t, 2*time.Second, a.Wait, "Retry-After takes precedence (draft-11 Section 7)")
	require.Equal(t, 3166666667*time.Nanosecond, a.Pace, "1900 s for 600 requests")

	h := wire(text)
	require.NoError(t, RestrictHeader(h, Fields{}, LegacyOptions{Name: "default", Now: late}))
	got, err := Parse(h)
	require.NoError(t, err)
	require.Equal(t, []Limit{{Name: "default", Remaining: 600, Reset: SecondsOf(1900)}}, got.Limits)

	// What a Middleware writes whose first policy refuses: the quota of a second, in
	// the middle of that of an hour.
	f := Fields{
		Policies: []Policy{{Name: "second", Quota: 5, Window: SecondsOf(1)}, {Name: "hour", Quota: 1000, Window: SecondsOf(3600)}},
		Limits:   []Limit{{Name: "second", Reset: SecondsOf(1)}, {Name: "hour", Remaining: 600, Reset: SecondsOf(1500)}},
	}
	resp := responseOf("HTTP/1.1 429 Too Many Requests")
	require.NoError(t, f.Set(resp.Header))
	f.SetRetryAfter(resp.Header)
	require.NoError(t, XRateLimitByName.Set(resp.Header, f, late))
	require.Empty(t, Check(resp))
	delete(resp.Header, http.CanonicalHeaderKey(LimitField))
	got, err = ParseAny(resp.Header, LegacyOptions{Now: late})
	require.NoError(t, err)
	requireEqual(t, f.Limits, []Limit{got.Limits[1], got.Limits[0]})
}

// TestSetBesideRetryAfter: what Set writes reads back as it was, also beside a
// Retry-After that is in the header already (law 9).
func TestSetBesideRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format TimeFormat
		reset  int64
	}{
		{"without a format, about a thousand times as long", TimeGuess, 1500},
		{"without a format, as long", TimeGuess, 2},
		{"seconds", TimeSeconds, 1500},
		{"milliseconds", TimeMilli, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &Dialect{Name: "acme", Fields: []DialectField{
				{Name: "Acme-Left", Role: RoleRemaining}, {Name: "Acme-Reset", Role: RoleReset, Format: tt.format},
			}}
			f := Fields{Limits: []Limit{{Name: "default", Remaining: 5, Reset: SecondsOf(tt.reset)}}}
			h := wire("Retry-After: 2")
			require.NoError(t, d.Set(h, f, late))
			got, err := ParseAny(h, LegacyOptions{Dialects: []*Dialect{d}, Now: late})
			require.NoError(t, err)
			requireEqual(t, f.Limits, got.Limits)
		})
	}
}

// TestSeveralLines: nobody can tell which of several numbers of one field is meant, as
// a proxy adds them that has a limiter of its own. The one that allows least counts.
func TestSeveralLines(t *testing.T) { runLegacy(t, lineCases()) }

func lineCases() []legacyCase {
	return []legacyCase{
		{"two lines of each", "X-RateLimit-Limit: 100\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: 60s", "x-ratelimit", "default : 0/5 w=- t=60", ""},
		{"two lines of each, in the other order", "X-RateLimit-Limit: 5\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 0\nX-RateLimit-Remaining: 99\nX-RateLimit-Reset: 60s\nX-RateLimit-Reset: 30s", "x-ratelimit", "default : 0/5 w=- t=60", ""},
		{"two lines in the names of the drafts", "RateLimit-Remaining: 99\nRateLimit-Remaining: 0\nRateLimit-Reset: 30\nRateLimit-Reset: 60", "draft-06", "default : 0/- w=- t=60", ""},
		{"two lines of a policy by name", "X-RateLimit-Remaining-Minute: 5\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Remaining-Hour: 9", "x-ratelimit", "hour : 9/- w=3600 t=- | minute : 0/- w=60 t=-", ""},
		{"two lines without a role", "X-RateLimit-Minute: 60\nX-RateLimit-Minute: 5\nX-RateLimit-Remaining-Minute: 3", "x-ratelimit", "minute : 3/5 w=60 t=-", ""},
		{"a list without a role", "X-RateLimit-Minute: 60, 5\nX-RateLimit-Remaining-Minute: 3", "x-ratelimit", "minute : 3/5 w=60 t=-", ""},
		{"two lines of a family without an anchor", "X-Acme-Limit: 100\nX-Acme-Remaining: 99\nX-Acme-Remaining: 0", "x-acme", "acme : 0/100 w=- t=-", ""},
		{"a list of what remains", "X-RateLimit-Remaining: 99, 0", "x-ratelimit", "default : 0/- w=- t=-", ""},
		{"a list of what remains, and one reset", "X-RateLimit-Remaining: 99, 0\nX-RateLimit-Reset: 30s", "x-ratelimit", "default : 0/- w=- t=30", ""},
		{"a list in the second line", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 7 , 8", "x-ratelimit", "default : 7/- w=- t=-", ""},
		{"parallel lists are two policies", "X-RateLimit-Limit: 100, 5\nX-RateLimit-Remaining: 99, 0", "x-ratelimit", "5 : 0/5 w=- t=- | default : 99/100 w=- t=-", ""},
		{"what is used", "X-RateLimit-Used: 3, 90\nX-RateLimit-Limit: 100", "x-ratelimit", "default : 10/100 w=- t=-", ""},
		{"what is used, in two lines", "X-RateLimit-Used: 90\nX-RateLimit-Used: 3\nX-RateLimit-Limit: 100", "x-ratelimit", "default : 10/100 w=- t=-", ""},
		{"a list of quotas", "X-RateLimit-Limit: 200, 100\nX-RateLimit-Remaining: 7", "x-ratelimit", "default : 7/100 w=- t=-", ""},
		{"a list of resets", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 60, 30", "x-ratelimit", "default : 0/- w=- t=60", ""},
		{"a list of resets in Unix time", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: @ms+60, @ms+90", "x-ratelimit", "default : 0/- w=- t=90", ""},
		{"resets on two clocks", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\nX-RateLimit-Reset: @ms+90", "x-ratelimit", "default : 0/- w=- t=90", ""},
		{"resets on two clocks, the later one first", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: @http+90\nX-RateLimit-Reset: 30", "x-ratelimit", "default : 0/- w=- t=90", ""},
		{"resets on two clocks, the later one without a unit", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: @rfc+90\nX-RateLimit-Reset: 120", "x-ratelimit?", "default : 0/- w=- t=120", ""},
		{"resets on three clocks", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\nX-RateLimit-Reset: 2m\nX-RateLimit-Reset: @ms+90", "x-ratelimit", "default : 0/- w=- t=120", ""},
		{"a date of another field does not replace the later of two", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: @ms+90\nX-RateLimit-Next: @ms+60", "x-ratelimit", "default : 0/- w=- t=90", ""},
		{"thousands in two lines", "X-RateLimit-Limit: 1,000\nX-RateLimit-Limit: 500\nX-RateLimit-Remaining: 400\nX-RateLimit-Remaining: 1,000", "x-ratelimit", "default : 400/500 w=- t=-", ""},
		{"thousands in a list", "X-RateLimit-Remaining: 1,000, 500", "x-ratelimit", "default : 500/- w=- t=-", ""},
		{"thousands in a list of quotas", "X-RateLimit-Limit: 500, 1,000\nX-RateLimit-Remaining: 400", "x-ratelimit", "default : 400/500 w=- t=-", ""},
		{"a line that says nothing", "X-RateLimit-Limit: unlimited\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining:\nX-RateLimit-Remaining: 3", "x-ratelimit", "default : 3/5 w=- t=-", ""},
		{"a malformed line behind a good one", "X-RateLimit-Remaining: 5\nX-RateLimit-Remaining: x", "x-ratelimit", "default : 5/- w=- t=-", "X-Ratelimit-Remaining"},
		{"a malformed line before a good one", "X-RateLimit-Remaining: x\nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", "X-Ratelimit-Remaining"},
		{"a malformed quota before a good one", "X-RateLimit-Limit: x\nX-RateLimit-Limit: 5", "x-ratelimit", "default : -/5 w=- t=-", "X-Ratelimit-Limit"},
		{"a list of which one is no number is cut at its first member", "X-RateLimit-Remaining: 5, x", "x-ratelimit", "default : 5/- w=- t=-", ""},
		{"pairs of used and quota", "X-Shopify-Shop-Api-Call-Limit: 3/40\nX-Shopify-Shop-Api-Call-Limit: 39/40", "shopify", "default : 1/40 w=- t=-", ""},
		{"pairs of remaining and quota", "X-RateLimit-Remaining: 95/100\nX-RateLimit-Remaining: 4/5", "x-ratelimit", "default : 4/5 w=- t=-", ""},
		{"quotas with windows", "X-RateLimit-Limit: 100/1h\nX-RateLimit-Limit: 5/1m", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"quotas with windows, the lower one first", "X-RateLimit-Limit: 5/1m\nX-RateLimit-Limit: 100/1h", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"the window of a higher quota goes with it", "X-RateLimit-Limit: 100/1h\nX-RateLimit-Limit: 5", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"the window of a higher quota does not come", "X-RateLimit-Limit: 5\nX-RateLimit-Limit: 100/1h\nX-RateLimit-Window: 60s", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"a window of a field before them stays", "RateLimit-Window: 60s\nX-RateLimit-Limit: 100\nX-RateLimit-Limit: 5", "draft-06", "default : -/5 w=60 t=-", ""},
		{"three quotas, of which the lowest has a window", "X-RateLimit-Limit: 10\nX-RateLimit-Limit: 100/1h\nX-RateLimit-Limit: 5/1m", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"one quota twice, once with its window", "X-RateLimit-Limit: 5\nX-RateLimit-Limit: 5/1m", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"lists of policies take all", "RateLimit-Policy: 100;w=60\nRateLimit-Policy: 5;w=1\nRateLimit-Remaining: 3", "draft-06", "100/60 : -/100 w=60 t=- | 5/1 : -/5 w=1 t=- | default : 3/- w=- t=-", ""},
		{"quotas and their policies in two lines", "RateLimit-Limit: 100, 100;w=60\nRateLimit-Limit: 5, 5;w=1\nRateLimit-Remaining: 99\nRateLimit-Remaining: 0", "draft-03", "100/60 : -/100 w=60 t=- | default : 0/5 w=1 t=-", ""},
		{"quotas and their policies in one line", "RateLimit-Limit: 100, 100;w=60, 5, 5;w=1\nRateLimit-Remaining: 99, 0", "draft-03", "100/60 : -/100 w=60 t=- | default : 0/5 w=1 t=-", ""},
		{"the Dictionary of draft-07", "RateLimit: limit=100, remaining=99, reset=30\nRateLimit: limit=5, remaining=0, reset=60", "draft-07", "default : 0/5 w=- t=60", ""},
		{"the window of one limiter is not that of the other's reset", "RateLimit-Limit: 5\nRateLimit-Limit: 1000\nRateLimit-Policy: 5;w=1\nRateLimit-Policy: 1000;w=3600\nRateLimit-Remaining: 3\nRateLimit-Reset: 1\nRateLimit-Reset: 2000", "draft-06", "1000/3600 : -/1000 w=3600 t=- | default : 3/5 w=1 t=2000", ""},
		{"the same where one limiter alone writes a reset", "RateLimit-Limit: 5\nRateLimit-Limit: 1000\nRateLimit-Policy: 5;w=1, 1000;w=3600\nRateLimit-Remaining: 3\nRateLimit-Reset: 2000", "draft-06", "1000/3600 : -/1000 w=3600 t=- | default : 3/5 w=1 t=2000", ""},
		{"a window in the names is that of both", "X-RateLimit-Remaining-Minute: 5\nX-RateLimit-Reset-Minute: 30000\nX-RateLimit-Reset-Minute: 20000", "x-ratelimit", "minute : 5/- w=60 t=30", ""},
		{"two equal lines are as one", "X-RateLimit-Limit: 9;w=60\nX-RateLimit-Remaining: 1\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60000\nX-RateLimit-Reset: 60000", "x-ratelimit", "default : 1/9 w=60 t=60", ""},
		{"records", "X-RateLimit: limit=100; remaining=99; reset=30s\nX-RateLimit: limit=5; remaining=0; reset=60s", "x-ratelimit", "default : 0/5 w=- t=60", ""},
		{"records with names", "X-RateLimit: name=a; limit=100; remaining=99\nX-RateLimit: name=b; limit=5; remaining=0", "x-ratelimit", "a : 99/100 w=- t=- | b : 0/5 w=- t=-", ""},
		{"objects", "X-RateLimit: {\"limit\":100,\"remaining\":99,\"window\":60}\nX-RateLimit: {\"limit\":5,\"remaining\":0,\"window\":1}", "x-ratelimit", "default : 0/5 w=1 t=-", ""},
		{"an object whose window comes first", "X-RateLimit: {\"interval\":60,\"limit\":100,\"remaining\":99}", "x-ratelimit", "default : 99/100 w=60 t=-", ""},
		{"objects whose windows come first, of which none is kept", "X-RateLimit: {\"interval\":60,\"limit\":100}\nX-RateLimit: {\"interval\":1,\"limit\":5}", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a state, of which one line is no record", "X-RateLimit: limit=5\nX-RateLimit: 3", "x-ratelimit", "default : -/3 w=- t=-", ""},
		{"two lines of one family go before one of the next", "RateLimit-Remaining: 9\nRateLimit-Remaining: 7\nX-RateLimit-Remaining: 3", "draft-06", "default : 7/- w=- t=-", ""},
		{"a second quota does not refute its own family", "RateLimit-Remaining: 3\nX-RateLimit-Limit: 100\nX-RateLimit-Limit: 5\nX-RateLimit-Reset: 9s", "draft-06", "default : 3/5 w=- t=9", ""},
		{"a second line beside a Retry-After", "Retry-After: 2\nRateLimit-Remaining: 9\nRateLimit-Remaining: 0\nRateLimit-Reset: 1900\nRateLimit-Reset: 5", "draft-06", "default : 0/- w=- t=1900", ""},
	}
}

// TestSeveralLinesOnTheWay: a client and a gateway understand them alike.
func TestSeveralLinesOnTheWay(t *testing.T) {
	own := fieldsOf(t, `"gateway";q=50;w=10`, `"gateway";r=40;t=10`)
	for _, tt := range []struct {
		name, wire string
		wait       time.Duration
	}{
		{"nothing remains of the second limiter", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: 60s", time.Minute},
		{"nothing remains of the first", "X-RateLimit-Remaining: 0\nX-RateLimit-Remaining: 99\nX-RateLimit-Reset: 30s\nX-RateLimit-Reset: 60s", time.Minute},
		{"nothing remains, and nobody says until when", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0", 0},
		{"nothing remains in a list", "X-RateLimit-Remaining: 99, 0\nX-RateLimit-Reset: @http+60", time.Minute},
		{"all of it is used", "X-RateLimit-Limit: 100\nX-RateLimit-Used: 1\nX-RateLimit-Used: 100\nX-RateLimit-Reset-After: 60", time.Minute},
	} {
		eachClock(t, tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			now = now.Truncate(time.Second)
			a := Advisor{}.Advise(responseOf(text), now)
			require.Equal(t, tt.wait, a.Wait)
			require.True(t, a.Fields.exhausted())

			h := wire(text)
			require.NoError(t, RestrictHeader(h, own, LegacyOptions{Name: "default", Now: now}))
			require.Equal(t, tt.wait, Advisor{}.Advise(&http.Response{Header: h}, now).Wait)
			delete(h, policyKey)
			delete(h, limitKey)
			older := Advisor{}.Advise(&http.Response{Header: h}, now)
			require.True(t, older.Fields.exhausted(), "the older fields are not raised: %v", h)
			require.Equal(t, tt.wait, older.Wait)
		})
	}
}

// TestSeveralLimitersRandom: of what two limiters write in one form, into lines of the
// same fields or into lists, a client reads no more than either permits (law 11).
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
	for _, d := range []*Dialect{Draft00, Draft03, Draft06, XRateLimit, XRateLimitUnix, XRateLimitDate, Twitter, GitHub, XRateLimitByName, OpenAI} {
		for _, now := range []time.Time{then, late} {
			t.Run(d.Name+"/"+now.Format("2006"), func(t *testing.T) {
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
						return Advisor{}.Advise(&http.Response{StatusCode: status, Header: h}, now)
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

// TestManyLines: as many lines of a field are read, and one more is not.
func TestManyLines(t *testing.T) {
	calls := 0
	acme := &Dialect{Name: "acme", Fields: []DialectField{{Name: "Acme-Left", Role: RoleRemaining, Read: func(facts []Fact, value string) ([]Fact, bool) {
		calls++
		return append(facts, Fact{Role: RoleRemaining, Value: value}), true
	}}}}
	for _, tt := range []struct{ name, key, value, last string }{
		{"a number", "X-Ratelimit-Remaining", "5", "3"},
		{"a quota", "X-Ratelimit-Limit", "5", "3"},
		{"a quota, the last in a list", "X-Ratelimit-Limit", "5, 6", "3, 4"},
		{"the Dictionary", "Ratelimit", "limit=5, reset=1", "limit=3, reset=1"},
		{"a function of a vendor", "X-Ms-Ratelimit-Remaining-Resource", "a;5", "a;3"},
		{"a function of a caller's", "Acme-Left", "5", "3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := func(lines int) int64 {
				h := http.Header{tt.key: append(slices.Repeat([]string{tt.value}, lines-1), tt.last)}
				got, err := ParseAny(h, LegacyOptions{Dialects: []*Dialect{acme}})
				require.NoError(t, err)
				if len(got.Policies) > 0 {
					return got.Policies[0].Quota
				}
				return got.Limits[0].Remaining
			}
			require.EqualValues(t, 3, read(16))
			if tt.name != "a quota" { // of whose lines each may be a list of policies
				require.EqualValues(t, 5, read(16+1))
			}
		})
	}
	require.Equal(t, 2*16, calls)

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

// TestLineThatCounts: the line that a gateway lowers, where a field has several.
func TestLineThatCounts(t *testing.T) {
	h := wire("X-RateLimit-Remaining: 5\nX-RateLimit-Reset-After: 30\nX-RateLimit-Reset-After: 60")
	require.NoError(t, RestrictHeader(h, fieldsOf(t, "", `"gateway";r=0;t=45`), LegacyOptions{Now: late}))
	require.Equal(t, []string{"30", "60"}, h["X-Ratelimit-Reset-After"], "it says a later one already")
	require.Equal(t, []string{"0"}, h["X-Ratelimit-Remaining"])
}

// TestFamiliesApart: two families that have nothing to do with each other, and name no
// policy, are two limits, which never fill each other's gaps. Each row has what is read,
// without the names.
func TestFamiliesApart(t *testing.T) {
	for _, tt := range []struct{ name, wire, want string }{
		{"what remains of one, and the quota and the reset of a vendor", "X-Sib-RateLimit-Limit: 1000\nX-Sib-RateLimit-Reset: 60\nRateLimit-Remaining: 2400", "-/1000 w=- t=60 | 2400/- w=- t=-"},
		{"a vendor's limit beside what remains of another", "X-Sib-RateLimit-Limit: 1000\nX-Sib-RateLimit-Remaining: 900\nX-Sib-RateLimit-Reset: 60\nRateLimit-Remaining: 2400", "2400/- w=- t=- | 900/1000 w=- t=60"},
		{"a vendor's limit that is exhausted, beside one that is not, on two clocks", "X-Sib-RateLimit-Limit: 1000\nX-Sib-RateLimit-Remaining: 0\nX-Sib-RateLimit-Reset: 60\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 2400\nX-RateLimit-Reset: @http+3600", "0/1000 w=- t=60 | 2400/5000 w=- t=3600"},
		{"a vendor's quota behind a gateway", "GitHub-RateLimit-Limit: 5000\nRateLimit-Remaining: 10", "-/5000 w=- t=- | 10/- w=- t=-"},
		{"what remains of a vendor's, behind a gateway", "X-GitHub-RateLimit-Remaining: 4\nRateLimit-Limit: 10\nRateLimit-Reset: 5", "-/10 w=- t=5 | 4/- w=- t=-"},
		{"a pair of used and quota behind a gateway", "X-Shopify-Shop-Api-Call-Limit: 39/40\nRateLimit-Remaining: 2400\nRateLimit-Reset: 30", "1/40 w=- t=- | 2400/- w=- t=30"},
		{"the same in two lines of the gateway", "X-Shopify-Shop-Api-Call-Limit: 39/40\nRateLimit-Remaining: 2400\nRateLimit-Remaining: 2400\nRateLimit-Reset: 30", "1/40 w=- t=- | 2400/- w=- t=30"},
		{"an exhausted pair behind a gateway of which much remains", "X-Shopify-Shop-Api-Call-Limit: 40/40\nRateLimit-Limit: 5000\nRateLimit-Remaining: 2400\nRateLimit-Reset: 30", "0/40 w=- t=- | 2400/5000 w=- t=30"},
		{"an exception beside a quota of another family", "X-Bapi-Limit: 100\nX-Bapi-Limit-Status: 40\nX-RateLimit-Limit: 50", "-/50 w=- t=- | 40/100 w=- t=-"},
		{"an exception that is exhausted, behind a gateway, on two clocks", "X-Bapi-Limit: 100\nX-Bapi-Limit-Status: 0\nX-Bapi-Limit-Reset-Timestamp: @ms+1\nX-RateLimit-Limit: 50\nX-RateLimit-Remaining: 49\nX-RateLimit-Reset: @http+60", "0/100 w=- t=1 | 49/50 w=- t=60"},
		{"a window that a vendor's field implies", "X-Discogs-RateLimit: 60\nX-Discogs-RateLimit-Remaining: 59\nX-Discogs-RateLimit-Used: 1\nX-RateLimit-Remaining: 4999", "4999/- w=- t=- | 59/60 w=60 t=-"},
		{"the tokens of a bucket, and the quota of requests", "X-Current-Token-Count: 5\nX-Next-Replenish-Time: @ms+60\nX-RateLimit-Limit: 100\nX-RateLimit-Reset: 30s", "-/100 w=- t=30 | 5/- w=- t=60"},
		{"a rate, and what remains of another quota", "X-Amzn-RateLimit-Limit: 10.0\nRateLimit-Remaining: 2400", "-/10 w=1 t=- | 2400/- w=- t=-"},
	} {
		eachClock(t, tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			got, err := ParseAny(wire(text), LegacyOptions{Now: now})
			require.NoError(t, err)
			lawFields(t, got)
			var numbers []string
			for _, limit := range vendorLimits(got) {
				_, limit, _ = strings.Cut(limit, ": ")
				numbers = append(numbers, limit)
			}
			slices.Sort(numbers)
			require.Equal(t, tt.want, strings.Join(numbers, " | "))
		})
	}
}

// TestReadRoles: of what a caller's function reads, facts with a role or a format that
// does not exist are a fault, and the others stay.
func TestReadRoles(t *testing.T) {
	for _, bad := range []Fact{
		{Role: -1, Value: "1"}, {Role: RoleNone, Value: "1"}, {Role: RolePolicies, Value: "1"}, {Role: RolePolicies + 1, Value: "1"},
		{Role: RoleReset, Format: -1, Value: "1"}, {Role: RoleReset, Format: timeFormats, Value: "1"},
	} {
		d := &Dialect{Name: "acme", Fields: []DialectField{{Name: "Acme", Role: RoleRemaining, Read: func(facts []Fact, _ string) ([]Fact, bool) {
			return append(facts, Fact{Role: RoleQuota, Value: "9"}, bad, Fact{Role: RoleRemaining, Value: "4"}), true
		}}}}
		got, err := ParseAny(http.Header{"Acme": {"x"}}, LegacyOptions{Dialects: []*Dialect{d}})
		require.Equal(t, "Acme", faultsOf(t, err), bad)
		require.Equal(t, `policies "default";q=9; limits "default";r=4; dialect acme`, got.String(), bad)
	}
}
