package ratelimit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// TestMistakes: readings that an adapter of these fields gets wrong easily, by
// what goes wrong.
func TestMistakes(t *testing.T) {
	runLegacy(t, []legacyCase{
		{"a refusal by the limiter whose fields are not there", "Retry-After-long: 60\nX-RateLimit-Limit-short: 10\nX-RateLimit-Remaining-short: 9\nX-RateLimit-Reset-short: @http+1", "x-ratelimit", "long : 0/- w=- t=60 | short : 9/10 w=- t=1", ""},
		{"a date in nanoseconds saturates", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: @ns+90", "x-ratelimit", "default : 1/- w=- t=90", ""},
		{"a number is cut at its first comma", "X-RateLimit-Limit: 1,000\nX-RateLimit-Remaining: 12,345,678", "x-ratelimit", "default : 12345678/1000 w=- t=-", ""},
		{"commas that separate no thousands are cut", "X-RateLimit-Remaining: 10,00", "", "", "X-Ratelimit-Remaining"},
		{"a unit becomes a policy", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset-Ms: 60000", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"a kind becomes an error", "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 1\nX-RateLimit-Limit-Type: user", "x-ratelimit", "default : 1/9 w=- t=-", ""},
		{"a window without a unit is taken for milliseconds by its length", "X-RateLimit-Limit: 9\nX-RateLimit-Window: 60000", "x-ratelimit", "default : -/9 w=60000 t=-", ""},
		{"a reset in milliseconds beside a window", "RateLimit-Limit: 100\nRateLimit-Remaining: 1\nRateLimit-Reset: 60000\nRateLimit-Policy: 100;w=60", "draft-06", "default : 1/100 w=60 t=60", ""},
		{"a point in time in the Dictionary", "RateLimit: limit=9, remaining=1, reset=@unix+60", "draft-07", "default : 1/9 w=- t=60", ""},
		{"a quota below one is 0", "X-Rate-Limit-Limit: 0.50\nX-Rate-Limit-Duration: 1", "x-rate-limit", "default : -/1 w=2 t=-", ""},
		{"a number in quotes is a window", `X-RateLimit-Limit: "100"`, "x-ratelimit", "default : -/100 w=- t=-", ""},
		{"a window is lost for want of a quota", "X-RateLimit-Remaining: 1\nX-RateLimit-Window: 60s", "x-ratelimit", "default : 1/- w=60 t=-", ""},
		{"units spent become a limit", "X-RateLimit-Used-Minute: 1", "x-ratelimit", "minute : -/- w=60 t=-", ""},
		{"a shared reset is given to a shorter window", "X-RateLimit-Remaining-Second: 0\nX-RateLimit-Remaining-Hour: 5\nX-RateLimit-Reset: 1800", "x-ratelimit", "hour : 5/- w=3600 t=1800 | second : 0/- w=1 t=-", ""},
		{"a declared unit goes before the size", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset-After: @ms+60", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"a policy whose name is a number is read twice", `X-RateLimit-Policy: "100";q=100;w=60`, "x-ratelimit", "100 : -/100 w=60 t=-", ""},
		{"a policy of the other form makes a second name the first", `RateLimit-Policy: "a";q=9;w=60, "fixed window";"api";q=500;w=300` + "\n" + `RateLimit: "api";r=0;t=55`, "ratelimit", "a : -/9 w=60 t=- | api : 0/500 w=300 t=55", ""},
		{"a switch in words is a number", "X-RateLimit: enabled=true; limit=5; remaining=4", "x-ratelimit", "default : 4/5 w=- t=-", ""},
		{"names before the numbers become those of the numbers before", "X-RateLimit: name=a; limit=10; name=b; limit=20", "x-ratelimit", "a : -/10 w=- t=- | b : -/20 w=- t=-", ""},
		{"four policies and the reset of one", "X-RateLimit-Limit-Second: 10\nX-RateLimit-Limit-Minute: 50\nX-RateLimit-Limit-Hour: 100\nX-RateLimit-Remaining-Hour: 50\nRateLimit-Reset: 1800", "draft-06", "hour : 50/100 w=3600 t=1800 | minute : -/50 w=60 t=- | second : -/10 w=1 t=-", ""},
		{"a quota and a use of anything are a limit, beside a number that is none", "X-Daily-Limit: 30\nX-Daily-Used: 1\nX-Daily-Remaining: -", "", "", ""},
		{"an ordinary field becomes a limit", "X-Limit-Per-Page: 20\nX-Limit-Per-Customer: 2\nX-Quota-Limit: 1073741824\nX-Rl: 5\nX-RateLimit-OverLimit: 1", "", "", ""},
		{"an error names a field that nobody sent", "x-ratelimit-REMAINING: many", "", "", "X-Ratelimit-Remaining"},
	})
}

// TestNamesAndShapes: names and values that were once read as something else.
func TestNamesAndShapes(t *testing.T) {
	runLegacy(t, []legacyCase{
		{"the window of each unit (GitHub Models)", "X-RateLimit-Limit-Requests: 20000\nX-RateLimit-Renewalperiod-Requests: 60\nX-RateLimit-Remaining-Tokens: 9\nX-RateLimit-Renewalperiod-Tokens: 60", "x-ratelimit", "requests : -/20000 w=60 t=- | tokens tokens: 9/- w=60 t=-", ""},
		{"the size of a window", "X-RateLimit-Limit: 9\nX-RateLimit-Window-Size: 600s", "x-ratelimit", "default : -/9 w=600 t=-", ""},
		{"a record of a quota with its window, and of a reset (Microsoft Dev Tunnels)", "RateLimit-Limit: HttpRequestRatePerPort:3000/m\nRateLimit-Remaining: HttpRequestRatePerPort:2999\nRateLimit-Reset: HttpRequestRatePerPort:36s", "draft-06", "HttpRequestRatePerPort : 2999/3000 w=60 t=36", ""},
		{"the seconds that remain", "X-RateLimit-Limit-Search: 9\nX-RateLimit-Remaining-Search-Seconds: 30", "x-ratelimit", "search : -/9 w=- t=30", ""},
		{"the milliseconds that remain", "X-RateLimit-Limit-Search: 9\nX-RateLimit-Search-Remaining-Ms: 30000", "x-ratelimit", "search : -/9 w=- t=30", ""},
		{"a time to live", "X-RateLimit-Limit-Search: 9\nX-RateLimit-Remaining-Search-TTL: 30", "x-ratelimit", "search : -/9 w=- t=30", ""},
		{"the limit of a quota, and what remains of it", "X-RateLimit-Limit-Quota: 9\nX-RateLimit-Remaining-Quota: 3", "x-ratelimit", "default : 3/9 w=- t=-", ""},
		{"a window without a fixed length", "X-RateLimit-Limit: 9\nX-RateLimit-Window: month", "x-ratelimit", "default : -/9 w=- t=-", ""},
		{"a window in a form that nobody knows", "X-RateLimit-Limit: 9\nX-RateLimit-Window: sliding", "x-ratelimit", "default : -/9 w=- t=-", ""},
		{"a duration of ISO 8601", "X-RateLimit-Limit: 9\nX-RateLimit-Window: PT1H", "x-ratelimit", "default : -/9 w=3600 t=-", ""},
		{"what remains on two lines, of which the lower counts", "X-RateLimit-Remaining: 99\nX-RateLimit-Remaining: 0", "x-ratelimit", "default : 0/- w=- t=-", ""},
	})
}

// TestSettled: where the response itself settles a unit, nothing is a guess.
func TestSettled(t *testing.T) {
	for _, tt := range []struct{ name, wire string }{
		{"a window that it fits", "X-RateLimit-Remaining-Hour: 0\nX-RateLimit-Reset-Hour: 60"},
		{"a window that it fits in milliseconds", "X-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset-Minute: 60000"},
		{"a date beside it", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60\nX-RateLimit-Reset-At: 2026-11-21T03:01:00Z"},
		{"a date beside it, in milliseconds", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60000\nX-RateLimit-Reset-At: 2026-11-21T03:01:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseAny(wire(tt.wire), LegacyOptions{Now: late.Truncate(time.Second)})
			require.NoError(t, err)
			require.False(t, got.Guessed)
			require.Equal(t, SecondsOf(60), got.Limits[0].Reset)
		})
	}
}

// TestMalformed: values that are no more than nearly right, one for each condition
// that refuses them. What is right in them is kept.
func TestMalformed(t *testing.T) {
	runLegacy(t, []legacyCase{
		{"a pair whose first number is none", "X-Shopify-Shop-Api-Call-Limit: x/40", "", "", "X-Shopify-Shop-Api-Call-Limit"},
		{"a pair whose second number is none", "X-Shopify-Shop-Api-Call-Limit: 3/4y", "", "", "X-Shopify-Shop-Api-Call-Limit"},
		{"a record of which one number is none", "Auth0-Client-Quota-Limit: total=x; remaining=5", "auth0", "client tokens: 5/- w=- t=-", "Auth0-Client-Quota-Limit"},
		{"a pair of a window that is none", "X-App-Rate-Limit: 100:1y", "", "", "X-App-Rate-Limit"},
		{"a pair without a window", "X-App-Rate-Limit: 100", "", "", "X-App-Rate-Limit"},
		{"a head without a number", "X-Ms-RateLimit-Remaining-Resource: a;x", "", "", "X-Ms-Ratelimit-Remaining-Resource"},
		{"a head that is not ASCII", "X-Ms-RateLimit-Remaining-Resource: caf\u00e9;1", "", "", "X-Ms-Ratelimit-Remaining-Resource"},
		{"prose that ends early", "Req-Limit-Short: Remaining: 5 Time until reset:", "pingdom", "short : 5/- w=- t=-", ""},
		{"a policy without a quota", "RateLimit-Policy: ;w=1", "", "", "RateLimit-Policy"},
		{"a name that is not ASCII in a record", "X-RateLimit: limit=10, name=caf\u00e9", "x-ratelimit", "default : -/10 w=- t=-", "X-Ratelimit"},
		{"a name that is not ASCII before the numbers of a record", "X-RateLimit: name=caf\u00e9, limit=10", "x-ratelimit", "default : -/10 w=- t=-", "X-Ratelimit"},
		{"a record after a field that can be read", "RateLimit-Limit: 10\nX-RateLimit: limit=10, remaining=five", "draft-06", "default : -/10 w=- t=-", "X-Ratelimit"},
		{"an inner list among policies", "RateLimit-Policy: a;q=10, (b)", "", "", "RateLimit-Policy"},
		{"a backslash before the last quote of a name", `RateLimit-Name: "a\"` + "\nRateLimit-Remaining: 1", "draft-06", `a\ : 1/- w=- t=-`, ""},
		{"a dash at the end of a name", "X-RateLimit-Limit-Minute-: 5", "x-ratelimit", "minute : -/5 w=60 t=-", ""},
		{"two dashes within a name", "X-RateLimit--Limit--Minute: 5", "x-ratelimit", "minute : -/5 w=60 t=-", ""},
		{"a minute 60", "X-RateLimit-Reset: Tue, 15 Nov 1994 08:60:00 GMT", "", "", "X-Ratelimit-Reset"},
		{"a clock with a word for seconds", "X-RateLimit-Reset: 1:2:x", "", "", "X-Ratelimit-Reset"},
		{"a sign before a number, and a parameter", "X-RateLimit-Remaining: +5;w=1", "x-ratelimit", "default : 5/- w=1 t=-", ""},
		{"a zone that is none", "X-RateLimit-Reset: 2026-11-21T03:00:00+00x00", "", "", "X-Ratelimit-Reset"},
		{"milliseconds that carry", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1.5s 700ms", "x-ratelimit", "default : 1/- w=- t=3", ""},
		{"a second and a half", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1500ms", "x-ratelimit", "default : 1/- w=- t=2", ""},
		{"a negative number in the current form", "RateLimit: a;r=-5", "", "", "RateLimit"},
		{"of two remaining the first counts", "X-RateLimit-Remaining: 5\nX-RateLimit-Left: 4", "x-ratelimit", "default : 4/- w=- t=-", ""},
		{"a week", "X-RateLimit-Limit-Weekly: 5", "x-ratelimit", "weekly : -/5 w=604800 t=-", ""},
		{"a switch in a record", "X-RateLimit: enabled=1; mode=2; limit=5", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a switch in JSON", `X-RateLimit: {"enabled":1,"limit":5}`, "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a window that is a clock with a part too many", "X-RateLimit-Limit: 5\nX-RateLimit-Window: 1:2:3:4", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a window with a unit that is none", "X-RateLimit-Limit: 5\nX-RateLimit-Window: 1h5x", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a window of a policy with a unit that is none", "RateLimit-Policy: 5;w=1h5x", "draft-06", "5 : -/5 w=- t=-", ""},
		{"a window without a sign", "X-RateLimit-Limit: 5\nX-RateLimit-Window: -60", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"parallel lists of which one member is none", "X-RateLimit-Limit: 1, 2\nX-RateLimit-Reset: soon, 5", "x-ratelimit", "default : -/1 w=- t=-", "X-Ratelimit-Reset"},
	})
}

// TestDictionaryMissing: a Dictionary without reset, or without limit, lacks what
// draft-07 Section 3 asks for.
func TestDictionaryMissing(t *testing.T) {
	for _, line := range []string{"limit=10, remaining=5", "remaining=5, reset=1"} {
		_, err := ParseAny(http.Header{"Ratelimit": {line}}, LegacyOptions{})
		require.ErrorIs(t, err, ErrMissing)
	}
}

// TestFaultPlaces: where a field is at fault, and why.
func TestFaultPlaces(t *testing.T) {
	for _, tt := range []struct{ name, wire, want string }{
		{"a number that is missing in the Dictionary", "RateLimit: limit=10, reset=",
			"ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a JSON text of a vendor that is cut off", `X-App-Usage: {"call_count":`, "ratelimit: X-App-Usage, line 1, byte 1: not well-formed"},
		{"a Dictionary without a reset", "RateLimit: limit=10", "ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a policy in no form", "RateLimit-Policy: 5x", "ratelimit: RateLimit-Policy, line 1, byte 1: not well-formed"},
		{"a policy in no form behind one", "RateLimit-Policy: 100;w=60, 5x", "ratelimit: RateLimit-Policy, line 1, byte 10: not well-formed"},
		{"a name in the second line", "X-RateLimit-Name: \nX-RateLimit-Name: caf\u00e9", "ratelimit: X-Ratelimit-Name, line 2, byte 1: not well-formed"},
		{"a policy too many", "X-RateLimit-Remaining: " + manyRecords(), "ratelimit: X-Ratelimit-Remaining, line 1, byte 1: too many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseAny(wire(tt.wire), LegacyOptions{})
			require.EqualError(t, err, tt.want)
		})
	}
}

// manyRecords returns the remaining of one policy more than are read.
func manyRecords() string {
	var b strings.Builder
	for i := range maxMembers + 1 {
		fmt.Fprintf(&b, "n%d=1;", i)
	}
	return b.String()
}

// TestRefusedElsewhere: a Retry-After decides over limits that are not exhausted.
func TestRefusedElsewhere(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: wire("Retry-After: 60\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset-After: 1")}
	got := Advisor{}.Advise(resp, late)
	require.Equal(t, SourceRetryAfter, got.Source)
	require.Equal(t, time.Minute, got.Wait)
}

// TestManyPoliciesTwice: of many listed policies each counts once, and that of the
// limit is found among them.
func TestManyPoliciesTwice(t *testing.T) {
	var list []string
	for i := range 3 * manyPolicies {
		list = append(list, fmt.Sprintf("%d;w=60", 100+i))
	}
	all := strings.Join(list, ", ") + ", 110;w=3600"
	h := http.Header{"Ratelimit-Policy": {all, all}, "Ratelimit-Limit": {"110"}, "Ratelimit-Remaining": {"9"}}
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, len(list)+1)
	p, ok := got.PolicyOf(got.Limits[0])
	require.True(t, ok)
	require.Equal(t, Policy{Name: "default", Quota: 110, Window: SecondsOf(60)}, p)
}

// TestHostileJSON: deep objects, long keys and texts that end early cost nothing
// and are no limits.
func TestHostileJSON(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100) + `{"call_count":1}` + strings.Repeat("}", 100)
	for _, h := range []http.Header{
		{"X-App-Usage": {deep}},
		{"X-Ratelimit": {`{"` + strings.Repeat("limit", text.MaxTime) + `":{}}`}},
		{"X-Ratelimit": {`{"limit":`}},
	} {
		got, _ := ParseAny(h, LegacyOptions{})
		require.Empty(t, got)
	}
}

// TestSetUnknownQuotas: policies without a quota are not written as Integer
// policies, and are not of the same quota.
func TestSetUnknownQuotas(t *testing.T) {
	h := http.Header{}
	f := Fields{
		Policies: []Policy{{Name: "a", Quota: 5, Window: SecondsOf(60)}, {Name: "b", Quota: Unknown, Window: SecondsOf(1)}, {Name: "c", Quota: Unknown}},
		Limits:   []Limit{{Name: "a", Remaining: 4}},
	}
	require.NoError(t, Draft06.Set(h, f, late))
	require.Equal(t, http.Header{"Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Policy": {"5;w=60"}}, h)
	h = http.Header{}
	require.NoError(t, Draft03.Set(h, f, late))
	require.Equal(t, http.Header{"Ratelimit-Limit": {"5, 5;w=60"}, "Ratelimit-Remaining": {"4"}}, h)
}
