package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// The responses of the tables arrive at two moments, both half a second past the
// minute: in 1994, when Unix seconds had a digit less than today, and in 2026.
var (
	then = time.Date(1994, 11, 15, 8, 12, 0, 5e8, time.UTC)
	late = time.Date(2026, 11, 21, 3, 0, 0, 5e8, time.UTC)
)

// spell replaces the points in time in a header: @unix+60, @ms+60, @us+60, @ns+60,
// @http+60 and @rfc+60 lie a minute behind the second of now.
func spell(wire string, now time.Time) string {
	for {
		at := strings.IndexByte(wire, '@')
		if at < 0 {
			return wire
		}
		form, rest, _ := strings.Cut(wire[at+1:], "+")
		end := text.Skip(rest, 0, text.Digit)
		t := now.Truncate(time.Second).Add(time.Duration(text.ParseDigits(rest[:end])) * time.Second)
		var s string
		switch form {
		case "unix":
			s = strconv.FormatInt(t.Unix(), 10)
		case "ms":
			s = strconv.FormatInt(t.UnixMilli(), 10)
		case "us":
			s = strconv.FormatInt(t.UnixMicro(), 10)
		case "ns":
			s = strconv.FormatInt(t.UnixNano(), 10)
		case "http":
			s = t.Format(http.TimeFormat)
		case "rfc":
			s = t.Format(time.RFC3339)
		default:
			panic("spell: " + form)
		}
		wire = wire[:at] + s + rest[end:]
	}
}

// eachClock runs a test with both clocks.
func eachClock(t *testing.T, name, text string, test func(t *testing.T, text string, now time.Time)) {
	t.Helper()
	for _, now := range []time.Time{then, late} {
		t.Run(name+"/"+strconv.Itoa(now.Year()), func(t *testing.T) { test(t, spell(text, now), now) })
	}
}

// lawFields: what was read is valid but for what a legacy response does not say.
func lawFields(t testing.TB, f Fields) {
	t.Helper()
	require.LessOrEqual(t, len(f.Policies), maxMembers)
	require.LessOrEqual(t, len(f.Limits), maxMembers)
	for _, p := range f.Policies {
		if p.Quota == Unknown {
			p.Quota = 0
		}
		require.NoError(t, p.Validate())
	}
	for _, l := range f.Limits {
		n, ok := l.Reset.Value()
		require.True(t, !ok || n >= 0)
		if l.Remaining == Unknown {
			l.Remaining = 0
		}
		require.NoError(t, l.Validate())
	}
	require.Equal(t, len(f.Policies)+len(f.Limits) == 0, f.Dialect == "")
}

// lawSpelling is law 10: neither the order of the keys nor space around the values
// makes a difference, and reading changes nothing.
func lawSpelling(t testing.TB, h http.Header, o LegacyOptions, want Fields) {
	t.Helper()
	spaced := make(http.Header, len(h))
	for key, lines := range h {
		for _, line := range lines {
			spaced[key] = append(spaced[key], "  "+line+" ")
		}
	}
	for range 3 { // a map is in another order each time
		got, _ := ParseAny(spaced, o)
		require.Equal(t, want, got)
	}
	got, _ := ParseAny(h, o)
	require.Equal(t, want, got)
}

// A legacyCase is a response, and what it says: the limits in the form of
// vendorLimit, and the names of the fields that are at fault. A dialect that ends
// in a question mark is one with a guess.
type legacyCase struct {
	name    string
	wire    string
	dialect string
	want    string
	wantErr string
}

func runLegacy(t *testing.T, cases []legacyCase) {
	t.Helper()
	for _, tt := range cases {
		eachClock(t, tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			o := LegacyOptions{Now: now}
			got, err := ParseAny(wire(text), o)
			lawFields(t, got)
			lawSpelling(t, wire(text), o, got)
			require.Equal(t, tt.want, strings.Join(vendorLimits(got), " | "))
			require.Equal(t, tt.wantErr, faultsOf(t, err))
			dialect := got.Dialect
			if got.Guessed {
				dialect += "?"
			}
			require.Equal(t, tt.dialect, dialect)
		})
	}
}

// TestOlderGenerations reads what the drafts of the specification show.
func TestOlderGenerations(t *testing.T) { runLegacy(t, generationCases()) }

func generationCases() []legacyCase {
	return []legacyCase{
		// draft-polli-00
		{"the quota alone", "RateLimit-Limit: 100", "draft-06", "default : -/100 w=- t=-", ""},
		{"a policy behind the quota", "RateLimit-Limit: 100, 100;window=10", "draft-00", "default : -/100 w=10 t=-", ""},
		{"four policies, the one of the quota first", "RateLimit-Limit: 10, 10;window=1, 50;window=60, 1000;window=3600, 5000;window=86400", "draft-00", "1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=- | default : -/10 w=1 t=-", ""},
		{"a comment in a policy", "RateLimit-Limit: 10, 10;window=1;burst=1000, 1000;window=3600", "draft-00", "1000/3600 : -/1000 w=3600 t=- | default : -/10 w=1 t=-", ""},
		{"strings as comments", `RateLimit-Limit: 100, 100;window=60;burst=1000;comment="sliding window", 5000;window=3600;burst=0;comment="fixed window"`, "draft-00", "5000/3600 : -/5000 w=3600 t=- | default : -/100 w=60 t=-", ""},
		{"one policy without a quota before it", `RateLimit-Limit: 12;window=1; burst=1000;policy="leaky bucket"`, "draft-00", "default : -/12 w=1 t=-", ""},
		{"what remains alone", "RateLimit-Remaining: 50", "draft-06", "default : 50/- w=- t=-", ""},
		{"nothing remains", "Ratelimit-Remaining: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"the name in capitals", "RATELIMIT-REMAINING: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"the name in lower case", "ratelimit-remaining: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"seconds until the reset", "RateLimit-Reset: 50", "draft-06", "default : -/- w=- t=50", ""},
		{"a date for the reset", "RateLimit-Reset: @http+31", "draft-00", "default : -/- w=- t=31", ""},
		// draft-polli-01 to draft-ietf-03
		{"a policy with w behind the quota", "RateLimit-Limit: 100, 100;w=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"four policies with w", "RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400", "draft-03", "1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=- | default : -/10 w=1 t=-", ""},
		{"a comment next to w", "RateLimit-Limit: 10, 10;w=1;burst=1000, 1000;w=3600", "draft-03", "1000/3600 : -/1000 w=3600 t=- | default : -/10 w=1 t=-", ""},
		{"a policy of another quota", "RateLimit-Limit: 10, 100;w=60", "draft-03", "100/60 : -/100 w=60 t=- | default : -/10 w=- t=-", ""},
		{"a quota of 0 and a policy", "RateLimit-Limit: 0, 15;w=20", "draft-03", "15/20 : -/15 w=20 t=- | default : -/0 w=- t=-", ""},
		{"the policy of another limit", "RateLimit-Limit: 15, 100;w=60", "draft-03", "100/60 : -/100 w=60 t=- | default : -/15 w=- t=-", ""},
		{"the policy of the quota comes last", "RateLimit-Limit: 5000, 1000;w=3600, 5000;w=86400", "draft-03", "1000/3600 : -/1000 w=3600 t=- | default : -/5000 w=86400 t=-", ""},
		{"the quota and its policies in two lines", "RateLimit-Limit: 10\nRateLimit-Limit: 10;w=1, 50;w=60", "draft-03", "50/60 : -/50 w=60 t=- | default : -/10 w=1 t=-", ""},
		// draft-ietf-04 to 06
		{"all four fields", "RateLimit-Policy: 100;w=10\nRateLimit-Limit: 100\nRateLimit-Remaining: 50\nRateLimit-Reset: 50", "draft-06", "default : 50/100 w=10 t=50", ""},
		{"policies alone", "RateLimit-Policy: 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400", "draft-06", "10/1 : -/10 w=1 t=- | 1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=-", ""},
		{"policies with comments alone", "RateLimit-Policy: 10;w=1;burst=1000, 1000;w=3600", "draft-06", "10/1 : -/10 w=1 t=- | 1000/3600 : -/1000 w=3600 t=-", ""},
		{"policies with strings as comments alone", `RateLimit-Policy: 100;w=60;burst=1000;comment="sliding window", 5000;w=3600;burst=0;comment="fixed window"`, "draft-06", "100/60 : -/100 w=60 t=- | 5000/3600 : -/5000 w=3600 t=-", ""},
		{"two policies of one quota: the first is that of the limit", "RateLimit-Policy: 10;w=1, 10;w=60\nRateLimit-Limit: 10", "draft-06", "10/60 : -/10 w=60 t=- | default : -/10 w=1 t=-", ""},
		{"a policy without a window", "RateLimit-Policy: 100", "draft-06", "100 : -/100 w=- t=-", ""},
		// draft-ietf-07
		{"the Dictionary and a policy", "RateLimit-Policy: 100;w=10\nRateLimit: limit=100, remaining=50, reset=5", "draft-07", "default : 50/100 w=10 t=5", ""},
		{"the Dictionary without remaining", "RateLimit: limit=10, reset=1", "draft-07", "default : -/10 w=- t=1", ""},
		{"the Dictionary with a key twice, of which the lower quota counts", "RateLimit: limit=10, limit=9, reset=1", "draft-07", "default : -/9 w=- t=1", ""},
		{"the Dictionary with zeros", "RateLimit: limit=0, remaining=0, reset=20", "draft-07", "default : 0/0 w=- t=20", ""},
		{"the Dictionary in two lines, with members and parameters that are not defined", "RateLimit: limit=10;x=1,remaining=5\nRateLimit: reset=1, other=?1", "draft-07", "default : 5/10 w=- t=1", ""},
		// what the grammars say of separators (ABNF up to draft-01), parameters (draft-06), and required and negative numbers (draft-07)
		{"spaces around commas and semicolons", "RateLimit-Limit: 100 ,100 ;\tw=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"the key in capitals", "RateLimit-Limit: 100, 100;W=10;Burst=1", "draft-03", "default : -/100 w=10 t=-", ""},
		{"a comma at the end", "RateLimit-Limit: 100,", "draft-06", "default : -/100 w=- t=-", ""},
		{"commas too many", "RateLimit-Limit: , 100,, 100;w=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"parameters that are not defined", "RateLimit-Limit: 100;x=1\nRateLimit-Remaining: 50;x=y\nRateLimit-Reset: 50 ; x", "draft-06", "default : 50/100 w=- t=50", ""},
		{"a negative policy", "RateLimit-Policy: 5;w=60, -5;w=60", "draft-06", "5/60 : -/5 w=60 t=-", "RateLimit-Policy"},
		{"the Dictionary without a reset", "RateLimit: limit=10, remaining=5", "", "", "RateLimit"},
		{"the Dictionary without a limit", "RateLimit: remaining=5, reset=1", "", "", "RateLimit"},
		{"the Dictionary with a word for the limit", "RateLimit: limit=ten, remaining=5, reset=1", "", "", "RateLimit"},
		{"the Dictionary with a negative limit", "RateLimit: limit=-1, reset=1\nX-RateLimit-Limit: 5", "x-ratelimit", "default : -/5 w=- t=-", "RateLimit"},
		// the current form, and what comes close to it
		{"current policies alone", "RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400", "ratelimit", "burst : -/100 w=60 t=- | daily : -/1000 w=86400 t=-", ""},
		{"a current limit alone", "RateLimit: \"default\";r=50;t=30", "ratelimit", "default : 50/- w=- t=30", ""},
		{"names that are Tokens, and no r", "RateLimit-Policy: quota;q=100;w=1\nRateLimit: quota;t=1", "draft-08", "quota : -/100 w=1 t=1", ""},
		{"a Decimal, a String for the partition key, and a parameter that is not defined", "RateLimit: \"a\";r=1;pk=:AA==:, \"b\";r=2.5;t=1.5;pk=\"k\";x=y", "draft-08", "a : 1/- w=- t=- | b : 2/- w=- t=2", ""},
		{"a window of 0, and a String for the partition key", "RateLimit-Policy: \"p\";q=5;w=0;qu=\"points\";pk=\"x\";y=1", "draft-08", "p points: -/5 w=- t=-", ""},
		{"a current policy, and a limit with a Token for its name", "RateLimit-Policy: \"api\";q=5;w=60\nRateLimit: api;r=1;t=2", "draft-08", "api : 1/5 w=60 t=2", ""},
		{"two names before the parameters", "RateLimit-Policy: \"fixed window\";\"api\";q=500;w=300\nRateLimit: \"api\";r=0;t=55", "ratelimit", "api : 0/500 w=300 t=55", ""},
		// two in one response
		{"the current limit goes before older fields", "RateLimit: \"a\";r=1\nRateLimit-Limit: 10\nRateLimit-Remaining: 9", "ratelimit", "a : 1/- w=- t=-", ""},
		{"the Dictionary goes before three fields", "RateLimit: limit=10, remaining=9, reset=8\nRateLimit-Limit: 7\nRateLimit-Reset: 6", "draft-07", "default : 9/10 w=- t=8", ""},
		{"a current policy for older fields", "RateLimit-Policy: \"default\";q=100;w=60\nRateLimit-Limit: 100\nRateLimit-Remaining: 9", "draft-06", "default : 9/100 w=60 t=-", ""},
		{"a current policy of another name", "RateLimit-Policy: \"p\";q=100;w=60\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/100 w=- t=- | p : -/100 w=60 t=-", ""},
		{"seconds go before a date", "RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 1\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: @http+1", "draft-06", "default : 9/10 w=- t=1", ""},
	}
}

// TestOlderEdges: what the grammar of drafts 00 and 01 allows and that of
// structured fields does not, and what no grammar allows.
func TestOlderEdges(t *testing.T) { runLegacy(t, edgeCases()) }

func edgeCases() []legacyCase {
	return []legacyCase{
		{"a second number is no policy", "RateLimit-Limit: 100, 200", "draft-06", "default : -/100 w=- t=-", ""},
		{"a window of 0", "RateLimit-Limit: 100, 200;w=0", "draft-03", "200 : -/200 w=- t=- | default : -/100 w=- t=-", ""},
		{"numbers above the largest", "RateLimit-Limit: 1000000000000000\nRateLimit-Remaining: 99999999999999999999999999", "draft-06", "default : 999999999999999/999999999999999 w=- t=-", ""},
		{"fractions", "RateLimit-Remaining: 12.9\nRateLimit-Reset: 12.1", "draft-06", "default : 12/- w=- t=13", ""},
		{"negative numbers", "RateLimit-Remaining: -3\nRateLimit-Reset: -3", "draft-06", "default : 0/- w=- t=0", ""},
		{"blank", "RateLimit-Remaining:\nRateLimit-Reset: \t", "", "", ""},
		{"a blank line before the value", "RateLimit-Remaining:  \nRateLimit-Remaining: 7", "draft-06", "default : 7/- w=- t=-", ""},
		{"commas in a comment", `RateLimit-Limit: 10, 10;w=1;comment="a, b;w=5;\"q\""`, "draft-03", "default : -/10 w=1 t=-", ""},
		{"a quote that is never closed", `RateLimit-Limit: 10, 20;w=1;comment="never closed, 30;w=5`, "draft-03", "20/1 : -/20 w=1 t=- | default : -/10 w=- t=-", "Ratelimit-Limit"},
		{"a word for the quota", "RateLimit-Limit: ten, 20;w=1", "draft-03", "20/1 : -/20 w=1 t=-", "Ratelimit-Limit"},
		{"a word for a policy", "RateLimit-Limit: 10, ten;w=1", "draft-06", "default : -/10 w=- t=-", "Ratelimit-Limit"},
		{"words for two of three", "RateLimit-Limit: ten\nRateLimit-Remaining: 5\nRateLimit-Reset: soon", "draft-06", "default : 5/- w=- t=-", "Ratelimit-Limit, Ratelimit-Reset"},
		{"a word alone", "RateLimit-Limit: ten", "", "", "Ratelimit-Limit"},
		{"the next family stands in", "RateLimit-Remaining: ?\nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", "Ratelimit-Remaining"},
		{"a quote alone", "RateLimit-Remaining: \"5\n", "", "", "Ratelimit-Remaining"},
		{"a word in GitLab's field", "RateLimit-Observed: x\nRateLimit-Remaining: 5", "draft-06", "default : 5/- w=- t=-", "Ratelimit-Observed"},
		{"an inner list for a policy", "RateLimit-Policy: (1 2)\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit-Policy"},
		{"a current policy whose quota is none, next to a number", "RateLimit-Policy: \"a\";q=x\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit-Policy"},
		{"a current policy whose quota is none", "RateLimit-Policy: \"a\";q=x", "", "", "RateLimit-Policy"},
		{"the same next to a current limit", "RateLimit-Policy: \"a\";q=x\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"an Integer policy next to a current limit", "RateLimit-Policy: 100;w=60\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"a current limit whose number is none, next to another field", "RateLimit: \"a\";r=x\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit"},
		{"a Token for the name of a policy next to a current limit", "RateLimit-Policy: a;q=10\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"a quote that is never closed behind a policy, next to a current limit", "RateLimit-Policy: \"a\";q=9;w=60, \"b\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"the same behind a policy with two names", "RateLimit-Policy: \"x\";\"a\";q=9;w=60, \"b\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"a comma behind a policy, next to a current limit", "RateLimit-Policy: \"a\";q=9;w=60,\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"a negative number behind a name that is a Token", "RateLimit: a;r=-5", "", "", "RateLimit"},
		{"one of two members that cannot be read even with lenience", "RateLimit: a;r=1, b;r=x", "", "", "RateLimit"},
		{"one of two policies that cannot be read even with lenience", "RateLimit-Policy: a;q=1, b;q=x\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit-Policy"},
		{"a limit without r or t", "RateLimit: \"a\";q=1", "", "", "RateLimit"},
		{"the Dictionary with a quote that is never closed", "RateLimit: reset=1, limit=10;x=\"", "draft-07", "default : -/10 w=- t=1", ""},
		{"a number alone", "RateLimit: 299", "", "", "RateLimit"},
		{"a name that is not ASCII", "RateLimit: \"caf\u00e9\";r=1", "", "", "RateLimit"},
		{"a second name that is not ASCII", "RateLimit: a;\"caf\u00e9\";r=1", "", "", "RateLimit"},
		{"a number for the partition key", "RateLimit: a;r=1;pk=5", "", "", "RateLimit"},
		{"two values for the partition key", "RateLimit: a;r=1;pk=\"5\"6", "", "", "RateLimit"},
		{"an empty parameter", "RateLimit: a;r=1;;t=1", "", "", "RateLimit"},
		{"a unit that is not ASCII", "RateLimit-Policy: a;q=1;qu=\"caf\u00e9\"", "", "", "RateLimit-Policy"},
		{"a comma behind a policy with two names, next to a current limit", "RateLimit-Policy: \"x\";\"a\";q=9,\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/9 w=- t=-", ""},
		{"a policy with a slash behind the quota", "X-RateLimit-Limit: 10, 100/1h", "x-ratelimit", "100/3600 : -/100 w=3600 t=- | default : -/10 w=- t=-", ""},
		{"a quota with a slash in a second line is that of a second limiter", "X-RateLimit-Limit: 10\nX-RateLimit-Limit: 100/1h", "x-ratelimit", "default : -/10 w=- t=-", ""},
		{"policies with slashes", "X-RateLimit-Policy: 100/1h, 5/x", "x-ratelimit", "100/3600 : -/100 w=3600 t=-", "X-Ratelimit-Policy"},
		{"a word among Integer policies", "RateLimit-Policy: 100;w=60, sliding", "draft-06", "100/60 : -/100 w=60 t=-", ""},
		{"the name of an algorithm among policies", "X-RateLimit-Policy: 100;w=60, sliding", "x-ratelimit", "100/60 : -/100 w=60 t=-", ""},
		{"a window with a unit in a policy", "RateLimit-Policy: 100;w=1h", "draft-06", "100/3600 : -/100 w=3600 t=-", ""},
		{"both names of the window", "RateLimit-Limit: 10;window=1;w=1", "draft-03", "default : -/10 w=1 t=-", ""},
		{"comments whose keys cannot be written", "RateLimit-Limit: 10;1x=5;=6;w=60", "draft-03", "default : -/10 w=60 t=-", ""},
		{"policies of one quota and window with two names", `RateLimit-Limit: 10, 5;w=1;name="a", 5;w=1;name="b"`, "draft-03", "a : -/5 w=1 t=- | b : -/5 w=1 t=- | default : -/10 w=- t=-", ""},
		{"a Token for the name of a policy without a quota", "RateLimit-Policy: a;w=60", "", "", "RateLimit-Policy"},
		{"the Dictionary with a word for what remains", "RateLimit: limit=10, remaining=five, reset=1", "draft-07", "default : -/10 w=- t=1", "RateLimit"},
		{"a quote that is never closed behind a number", `RateLimit-Remaining: 5;x="`, "", "", "Ratelimit-Remaining"},
		{"the window of a later family with another quota", "RateLimit-Limit: 10\nX-RateLimit-Limit: 99;w=60;name=\"x\"", "draft-06", "default : -/10 w=- t=-", ""},
		{"the syntax of a later family does not name the draft", "RateLimit-Limit: 10\nX-RateLimit-Limit: 10, 10;w=1", "draft-06", "default : -/10 w=1 t=-", ""},
		{"a blank anchor", "X-RateLimit: \t", "", "", ""},
		{"a blank wait for a policy", "Retry-After-long: \t", "", "", ""},
		{"of two lines the lower counts", "X-RateLimit-Remaining: 5\nX-RateLimit-Remaining: 4", "x-ratelimit", "default : 4/- w=- t=-", ""},
		{"a blank field does not name the dialect", "RateLimit-Limit: \nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", ""},
	}
}

// A current field that cannot be read with lenience either is at fault where the
// strict parser says.
func TestParseAnyStrictFault(t *testing.T) {
	got, err := ParseAny(wire("RateLimit: \"a\";r=1, \"b\";r=\nX-RateLimit-Limit: x"), LegacyOptions{})
	require.Empty(t, got)
	require.Equal(t, errors.Join(
		&FieldError{Field: LimitField, Offset: 15, Item: 1, Param: "r", Err: ErrSyntax},
		&FieldError{Field: "X-Ratelimit-Limit", Item: -1, Err: ErrSyntax},
	), err)
}

// TestOlderFamilies reads what servers made of the drafts.
func TestOlderFamilies(t *testing.T) { runLegacy(t, familyCases()) }

func familyCases() []legacyCase {
	return []legacyCase{
		{"Envoy's name for a policy", `X-RateLimit-Limit: 10, 10;w=1;name="per-ip", 1000;w=3600` + "\nX-RateLimit-Remaining: 9", "x-ratelimit", "1000/3600 : -/1000 w=3600 t=- | per-ip : 9/10 w=1 t=-", ""},
		{"a name that is not ASCII is none", `X-RateLimit-Limit: 10;name="caf` + "\u00e9\"", "x-ratelimit", "default : -/10 w=- t=-", ""},
		{"a name in the first policy", `X-RateLimit-Limit: 10;w=5;name="a"`, "x-ratelimit", "a : -/10 w=5 t=-", ""},
		{"the window is that of the first", "X-RateLimit-Limit: 10;w=5, 10;x=1", "x-ratelimit", "default : -/10 w=5 t=-", ""},
		{"a field for the name goes before a parameter", `X-RateLimit-Limit: 10;w=5;name="a"` + "\nX-RateLimit-Bucket: b", "x-ratelimit", "b : -/10 w=5 t=-", ""},
		{"a name that is not ASCII in a field for it", "X-RateLimit-Bucket: \u00e9\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", "X-Ratelimit-Bucket"},
		{"a quoted name that is empty", "X-RateLimit-Name: \"\"\nX-RateLimit-Limit: 1", "x-ratelimit", `default : -/1 w=- t=-`, ""},
		{"a name in single quotes, between which nothing is escaped", "X-RateLimit-Name: 'a\\b'\nX-RateLimit-Limit: 1", "x-ratelimit", `a\b : -/1 w=- t=-`, ""},
		{"a quoted name that ends with a backslash", "X-RateLimit-Name: \"a\\\"\nX-RateLimit-Limit: 1", "x-ratelimit", `a\ : -/1 w=- t=-`, ""},
		{"a quoted name, and a blank one before it", "X-RateLimit-Bucket: \nX-RateLimit-Name: \"a \\\"b\\\"\"\nX-RateLimit-Limit: 1", "x-ratelimit", `a "b" : -/1 w=- t=-`, ""},
		{"unlimited says nothing", "X-RateLimit-Limit: unlimited\nX-RateLimit-Remaining: unlimited", "", "", ""},
		{"a negative quota says nothing", "X-RateLimit-Limit: -1\nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", ""},
		{"a quota with the unit of its window", "X-RateLimit-Limit: 600/h", "x-ratelimit", "default : -/600 w=3600 t=-", ""},
		{"a unit that does not exist", "X-RateLimit-Limit: 600/fortnight", "", "", "X-Ratelimit-Limit"},
		{"a slash without a window", "X-RateLimit-Limit: 600/", "", "", "X-Ratelimit-Limit"},
		{"used and remaining are the quota", "X-RateLimit-Used: 3\nX-RateLimit-Remaining: 7", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"used and quota are what remains", "X-RateLimit-Used: 3\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"a fraction that is used", "X-RateLimit-Used: 2.5\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"more used than the quota", "X-RateLimit-Used: 13\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 0/10 w=- t=-", ""},
		{"used alone is no limit", "X-RateLimit-Used: 13\nX-RateLimit-Observed: 1", "x-ratelimit", "default : -/- w=- t=-", ""},
		{"a negative use says nothing", "X-RateLimit-Used: -1", "", "", ""},
		{"two fields for the window", "X-RateLimit-Window: 1m\nX-RateLimit-Period: 5s\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=5 t=-", ""},
		{"a word for the window", "X-RateLimit-Period: hour\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=3600 t=-", ""},
		{"a window of 0 is none", "X-RateLimit-Period: 0\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", ""},
		{"a word that is no window", "X-RateLimit-Period: forever\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", ""},
		{"a window that is no usual one, in seconds", "X-RateLimit-Interval: 999\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=999 t=-", ""},
		{"a window in milliseconds", "X-RateLimit-Interval: 1000\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=1000 t=-", ""},
		{"a bad policy next to a good one", "X-RateLimit-Policy: 60;w=60, (\nX-RateLimit-Limit: 60", "x-ratelimit", "default : -/60 w=60 t=-", "X-Ratelimit-Policy"},
		{"a timestamp under Reset-At", "X-RateLimit-Limit: 5\nX-RateLimit-Reset-At: @rfc+60", "x-ratelimit", "default : -/5 w=- t=60", ""},
		{"seconds under Reset-In go before a point in time", "X-RateLimit-Limit: 5\nX-RateLimit-Reset: @http+60\nX-RateLimit-Reset-In: 61", "x-ratelimit", "default : -/5 w=- t=61", ""},
		{"a reset for a named policy", "X-RateLimit-Limit-Day: 5\nX-RateLimit-Reset-In: 61", "x-ratelimit", "day : -/5 w=86400 t=61", ""},
		{"months have no window", "X-RateLimit-Limit-Month: 5\nX-RateLimit-Remaining-Month: 4", "x-ratelimit", "month : 4/5 w=- t=-", ""},
		{"a window by its adverb", "X-RateLimit-Limit-Daily: 5", "x-ratelimit", "daily : -/5 w=86400 t=-", ""},
		{"a window by a number", "X-RateLimit-Limit-15min: 5", "x-ratelimit", "15min : -/5 w=900 t=-", ""},
		{"a reset without a name", "X-Rate-Limit-Limit-Hour: 5\nX-Rate-Limit-Reset: 9", "x-rate-limit", "hour : -/5 w=3600 t=9", ""},
		{"a name before the role", "X-Rate-Limit-User-Limit: 5\nX-Rate-Limit-User-Remaining: 4", "x-rate-limit", "user : 4/5 w=- t=-", ""},
		{"a bad value for one of two names", "X-RateLimit-Limit-Minute: x\nX-RateLimit-Limit-Hour: 5", "x-ratelimit", "hour : -/5 w=3600 t=-", "X-Ratelimit-Limit-Minute"},
		{"plain fields next to named ones", "X-RateLimit-Limit-Minute: 5\nX-RateLimit-Limit-Hour: 50\nX-RateLimit-Remaining-Hour: 7\nRateLimit-Reset: 3\nRateLimit-Limit: 8", "draft-06", "default : -/8 w=- t=3 | hour : 7/50 w=3600 t=- | minute : -/5 w=60 t=-", ""},
		{"unlimited next to a reset", "X-RateLimit-Limit-Minute: unlimited\nX-RateLimit-Reset: 3", "x-ratelimit?", "default : -/- w=- t=3", ""},
		{"a name with no number behind it", "X-Ms-RateLimit-Remaining-Resource: a;x, b", "", "", "X-Ms-Ratelimit-Remaining-Resource"},
		{"a use without its quota", "X-Shopify-Shop-Api-Call-Limit: 32", "shopify", "default : -/- w=- t=-", ""},
		{"a pair with a word for the window", "X-App-Rate-Limit: 100:1,5:x", "riot", "app-1 : -/100 w=1 t=-", "X-App-Rate-Limit"},
		{"a pair with a negative number", "X-App-Rate-Limit: 100:1,-1:10", "riot", "app-1 : -/100 w=1 t=-", ""},
		{"a list next to a word", "X-RateLimit-Limit: 1, 2, 3\nX-RateLimit-Usage: x", "x-ratelimit", "default : -/1 w=- t=-", "X-Ratelimit-Usage"},
		{"prose without numbers", "Req-Limit-Short: none", "", "", ""},
		{"prose without a reset", "Req-Limit-Short: Remaining:394", "pingdom", "short : 394/- w=- t=-", ""},
		{"a ban that never ends", "X-Sentry-Rate-Limits: soon:error:key", "", "", "X-Sentry-Rate-Limits"},
		{"JSON that ends early", "X-App-Usage: {", "", "", "X-App-Usage"},
		{"JSON without members", "X-App-Usage: []", "", "", ""},
		{"a percentage above 100", `X-App-Usage: {"call_count":100.5,"other":3}`, "meta", "call_count percent: 0/100 w=- t=-", ""},
		{"of several the worst", `X-App-Usage: [{"call_count":50},{"call_count":60},{"call_count":40}]`, "meta", "call_count percent: 40/100 w=- t=-", ""},
		{"a rate below 0", "X-Amzn-RateLimit-Limit: -1", "", "", ""},
		{"a rate of 0", "X-Amzn-RateLimit-Limit: 0", "amazon", "default : -/0 w=1 t=-", ""},
		{"a record of which one value fits", "Zendesk-RateLimit-A: total=5; remaining=x; resets=y; used=z; w=q", "zendesk-ratelimit", "a : -/5 w=- t=-", "Zendesk-Ratelimit-A"},
		{"a record with a blank value", "Zendesk-RateLimit-A: total=5; used=2; w=60; n=1; remaining=", "zendesk-ratelimit", "a : 3/5 w=60 t=-", "Zendesk-Ratelimit-A"},
		{"a record that ends in an open quote", `Zendesk-RateLimit-A: total=5; "a`, "zendesk-ratelimit", "a : -/5 w=- t=-", ""},
		{"a record with an open quote", `Zendesk-RateLimit-A: "total=5`, "", "", ""},
		{"a clock with days", "X-Ms-User-Quota-Remaining: 1\nX-Ms-User-Quota-Resets-After: 1.00:00:01", "azure", "user-quota : 1/- w=- t=86401", ""},
		{"a window in a name without limits", "X-RateLimit-Window-Limit: 60\nX-RateLimit-Limit: 5", "x-ratelimit", "default : -/5 w=- t=- | window : -/60 w=- t=-", ""},
		{"a name that ends in a word for the quota, with nothing else under it", "X-RateLimit-Limit-Daily: 10\nX-RateLimit-Remaining-Daily-Limit: 5", "x-ratelimit", "daily : 5/10 w=86400 t=-", ""},
		{"two that are used are two", "X-RateLimit-Used: 5\nX-RateLimit-Requests-Used: 6", "x-ratelimit", "default : -/- w=- t=- | requests : -/- w=- t=-", ""},
		{"used, and what is left of requests", "X-RateLimit-Used: 5\nX-RateLimit-Requests-Left: 6", "x-ratelimit", "default : 6/11 w=- t=-", ""},
		{"a window that is as its name says", "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Window-Minute: 60", "x-ratelimit", "minute : -/10 w=60 t=-", ""},
		{"a list whose second member is no number", "X-RateLimit-Limit: 600,x", "x-ratelimit", "default : -/600 w=- t=-", "X-Ratelimit-Limit"},
		{"a word for what remains of a unit", "X-RateLimit-Remaining-Tokens: lots", "", "", "X-Ratelimit-Remaining-Tokens"},
		{"a word for what remains of something", "X-RateLimit-Remaining-Colour: lots", "", "", ""},
		{"a word for the quota of something", "RateLimit-X-Limit: ten", "", "", ""},
		{"an object that does not end", `X-RateLimit-Limit: {"limit":5,`, "", "", "X-Ratelimit-Limit"},
		{"one minute in words", "X-RateLimit-Limit-One-Minute: 5", "x-ratelimit", "one-minute : -/5 w=60 t=-", ""},
		{"durations that no number holds together", "X-RateLimit-Limit: 5\nX-RateLimit-Reset: 9223372036854775807s 1s", "x-ratelimit", "default : -/5 w=- t=999999999999999", ""},
		{"a family without an anchor, of which one field is empty", "X-Api-Calls-Used: \nX-Api-Calls-Limit: 10", "", "", ""},
		{"a family without an anchor, of which one is a fraction of zeros", "X-Api-Calls-Used: 3\nX-Api-Calls-Limit: 1.0", "x-api-calls", "api-calls : 0/1 w=- t=-", ""},
		{"what is left where nobody looks for it, beside a field that makes one look", "Acme-Left-Day: 4\nAcme-Limit-Day: 9\nX-Other-Remaining: 5", "acme-limit", "acme-day : 4/9 w=86400 t=-", ""},
		{"a family without an anchor, whose last word is a role", "Limit-Acme-Calls-Day: 9\nAcme-Left-Day: 4\nAcme-Per: 100/60", "limit-acme-calls", "acme-day : 4/9 w=86400 t=-", ""},
		{"an exception without a value", "X-App-Usage: ", "", "", ""},
		{"a policy field of another family with names", `Rate-RateLimit-Policy: "a";w=0`, "", "", "Rate-Ratelimit-Policy"},
		{"a name that is a String behind another byte", `RateLimit: %"a";r=1;t="1"`, "", "", "RateLimit"},
		{"an anchor behind a word", "Rate-RateLimit: 100", "rate-ratelimit", "rate : -/100 w=- t=-", ""},
		{"a family to whose anchor something is glued", "X-RateLimitx-Limit: 10\nX-RateLimitx-Remaining: 5", "", "", ""},
		{"the word retry before the anchor", "X-Retry-RateLimit: problem b", "", "", ""},
		{"words between the roles of a family without an anchor", "X-Daily-Limit: 30\nX-Daily-Used: 1\nX-Daily-X-Remaining: 29", "", "", ""},
		{"a remaining with its use, beside another policy's quota", "X-RateLimit-X-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Used: 963", "x-ratelimit", "x : 37/1000 w=- t=-", ""},
		{"a remaining, beside another policy's reset", "RateLimit-Remaining: 1\nRateLimit-Reset-X: 600", "draft-06", "default : 1/- w=- t=- | x : -/- w=- t=600", ""},
		{"the window of requests is that of all", "X-Requests-Limit: 60\nX-Requests-Left: 59\nX-Requests-Window: 60s\nX-RateLimit-Used: 9", "x-ratelimit", "default : -/- w=- t=- | requests : 59/60 w=60 t=-", ""},
		{"a name alone beside its quota", "X-RateLimit-Limit-Day: 1000\nX-RateLimit-Remaining-Day: 500\nX-RateLimit-Day: 7200", "x-ratelimit", "day : 500/1000 w=86400 t=-", ""},
		{"a reset that fits into the last of the windows", "X-RateLimit-Remaining-Second: 0\nX-RateLimit-Limit-Hour: 100\nX-RateLimit-Remaining-Hour: 50\nX-RateLimit-Reset: 1800", "x-ratelimit", "hour : 50/100 w=3600 t=1800 | second : 0/- w=1 t=-", ""},
		{"what is used of two policies", "X-RateLimit-Used: 60\nX-Current-RateLimit-Observed: 1", "x-ratelimit", "current : -/- w=- t=- | default : -/- w=- t=-", ""},
		{"a policy that is of the first with its quota", "RateLimit-Limit: 100\nRateLimit-Reset: 50\nGateway-RateLimit-Limit: 100\nGateway-RateLimit-Remaining: 5\nGateway-RateLimit-Policy: 100;w=60", "draft-06", "default : -/100 w=60 t=50 | gateway : 5/100 w=60 t=-", ""},
		{"a quota in a window of a name", "RateLimit-Acme-Per: 100/60", "draft-06", "acme : -/100 w=60 t=-", ""},
		{"a quota behind a comma", "X-RateLimit-Used: 13\nX-RateLimit-Limit: ,10", "x-ratelimit", "default : 0/10 w=- t=-", ""},
		{"a record whose first key has a capital letter", "X-RateLimit: Remaining:394", "x-ratelimit", "default : 394/- w=- t=-", ""},
		{"a family without an anchor, of which one is a duration", "X-Api-Calls-Used: 3\nX-Api-Calls-Limit: 10m", "", "", ""},
		{"a wait for the policy X", "Retry-After-X: 7", "retry-after", "x : 0/- w=- t=7", ""},
		{"a Dictionary without a value", "RateLimit: limit=10, reset=", "", "", "RateLimit"},
		{"thousands in a policy", "RateLimit-Policy: \"daily\";q=1000;w=86,400\nRateLimit: \"daily\";r=990;t=80000", "ratelimit", "daily : 990/- w=- t=80000", "RateLimit-Policy"},
		{"a policy without a value of q behind a good one", "RateLimit-Policy: \"default\";q=100;w=60, \"b\";q=;qu=\"\"\nRateLimit: \"default\";r=50;t=30", "ratelimit", "default : 50/- w=- t=30", "RateLimit-Policy"},
		{"a field whose name is that of a family", "X-Rl: 0\nX: 5", "", "", ""},
		{"a record with keys that say no limit", "X-RateLimit: enabled=1; mode=2; limit=5", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a date in a field with the name of a family", "Acme-Left: 37\nAcme: Sat, 21 Nov 2026 03:01:30 GMT", "", "", ""},
		{"a name of one word, which is the policy", "Callsremaining: 5\nCallsreset: 60", "calls?", "calls : 5/- w=- t=60", ""},
		{"a reset of errors, of which nobody says how many remain", "X-Esi-Error-Limit-Reset: 31", "eve-online", "error-limit errors: -/- w=60 t=31", ""},
		{"a reset for all, and a quota of nothing", "X-RateLimit-Limit-A: 10\nX-RateLimit-Limit-B: 0\nX-RateLimit-Reset: 30", "x-ratelimit?", "a : -/10 w=- t=- | b : -/0 w=- t=30", ""},
		{"a reset of minutes that fits in no unit", "X-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset-Minute: 600000", "x-ratelimit", "minute : 0/- w=60 t=600000", ""},
		{"used, and another policy's reset", "X-RateLimit-Used: 3\nX-RateLimit-Reset-Hour: 7", "x-ratelimit", "default : -/- w=- t=- | hour : -/- w=3600 t=7", ""},
		{"two policies of one quota", "RateLimit-Limit: 10;w=1, 10;w=60\nRateLimit-Limit: 10", "draft-03", "10/60 : -/10 w=60 t=- | default : -/10 w=1 t=-", ""},
		{"a unit, and a policy with its quota", "X-RateLimit-Limit-Llm-Project-Tokens: 10\nX-RateLimit-Remaining-Llm-Project-Tokens: 9\nX-RateLimit-Limit: 10, 10;w=1;name=\"per-ip\", 1000;w=3600\nX-RateLimit-Remaining: 9", "x-ratelimit", "1000/3600 : -/1000 w=3600 t=- | llm-project-tokens tokens: 9/10 w=1 t=-", ""},
		{"a named remaining without a value does not settle the reset", "X-RateLimit-Remaining-Minute: \nX-RateLimit-Reset: 3000", "x-ratelimit?", "default : -/- w=- t=3000", ""},
		{"two numbers with thousands are no lists", "X-RateLimit-Limit: 12,000\nX-RateLimit-Remaining: 11,999", "x-ratelimit", "default : 11999/12000 w=- t=-", ""},
		{"a list of policies is not parallel to one of numbers", "X-RateLimit-Policy: 10, 20\nX-RateLimit-Remaining: 5, 6", "x-ratelimit", "10 : -/10 w=- t=- | 20 : -/20 w=- t=- | default : 5/- w=- t=-", ""},
		{"parallel lists of three that are used", "X-RateLimit-Used: 1, 2, 3\nX-RateLimit-Limit: 4, 5, 6", "x-ratelimit", "5 : 3/5 w=- t=- | 6 : 3/6 w=- t=- | default : 3/4 w=- t=-", ""},
		{"parallel lists without a quota", "X-RateLimit-Remaining: 5, 6\nX-RateLimit-Window: 1, 60", "x-ratelimit", "/60 : 6/- w=60 t=- | default : 5/- w=1 t=-", ""},
		{"a state that is a number", "X-RateLimit-Status: 5\nX-RateLimit-Remaining: 3", "x-ratelimit", "default : 3/- w=- t=-", ""},
		{"a blank state", "X-RateLimit-Status: \t\nX-RateLimit-Remaining: 3", "x-ratelimit", "default : 3/- w=- t=-", ""},
		{"a sentence for what remains of something", "X-RateLimit-Remaining-Colour: 5 of 10", "", "", "X-Ratelimit-Remaining-Colour"},
		{"a word for what remains of 60 seconds", "X-RateLimit-Remaining-60: lots", "", "", "X-Ratelimit-Remaining-60"},
		{"a quota and a duration without a role", "X-RateLimit-Api: 1/2h", "x-ratelimit", "api : -/1 w=7200 t=-", ""},
		{"all of a quota used, without a role", "X-RateLimit-Daily: 5/5", "x-ratelimit", "daily : 0/5 w=86400 t=-", ""},
		{"a window in quotes", "X-RateLimit-Limit: 5\nX-RateLimit-Window: \"60\"", "x-ratelimit", "default : -/5 w=60 t=-", ""},
		{"a word for no window", "X-RateLimit-Limit: 5\nX-RateLimit-Window: none", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"of two windows without a unit the first counts", "X-RateLimit-Limit: 5\nX-RateLimit-Period: 1\nX-RateLimit-Window: 60", "x-ratelimit", "default : -/5 w=1 t=-", ""},
		{"a rate of which the window is a little longer than three seconds", "X-Rate-Limit-Limit: 0.333333333\nX-Rate-Limit-Duration: 1", "x-rate-limit", "default : -/1 w=4 t=-", ""},
		{"a rate in a window that no number holds", "X-Rate-Limit-Limit: 0.999999999\nX-Rate-Limit-Duration-Seconds: 999999999999999", "x-rate-limit", "default : -/1 w=9223372046 t=-", ""},
		{"used and remaining that no number holds together", "X-RateLimit-Used: 999999999999999\nX-RateLimit-Remaining: 7", "x-ratelimit", "default : 7/999999999999999 w=- t=-", ""},
		{"a window of no usual length that the name confirms", "X-RateLimit-Limit-9000s: 5\nX-RateLimit-Window-9000s: 9000", "x-ratelimit", "9000s : -/5 w=9000 t=-", ""},
		{"a number of seconds for a name, in a field and in a record", "X-RateLimit-Limit-60: 10\nX-RateLimit-Remaining: day=1;60=5", "x-ratelimit", "60 : 5/10 w=60 t=- | day : 1/- w=86400 t=-", ""},
	}
}

// TestUnits: what settles the unit of a time, and what is a guess.
func TestUnits(t *testing.T) { runLegacy(t, unitCases()) }

func unitCases() []legacyCase {
	return []legacyCase{
		{"seconds in the names of the drafts", "RateLimit-Remaining: 1\nRateLimit-Reset: 60", "draft-06", "default : 1/- w=- t=60", ""},
		{"a small number is a guess", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60", "x-ratelimit?", "default : 1/- w=- t=60", ""},
		{"a large number is a guess", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60000", "x-ratelimit?", "default : 1/- w=- t=60000", ""},
		{"Unix seconds are no guess", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: @unix+60", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"Unix milliseconds are no guess", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: @ms+60", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"nanoseconds", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: @ns+60", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"a unit word", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset-Ms: 60000", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"the window, in seconds", "X-RateLimit-Limit: 9;w=60\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60", "x-ratelimit", "default : 1/9 w=60 t=60", ""},
		{"the window, in milliseconds", "X-RateLimit-Limit: 9;w=60\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 60000", "x-ratelimit", "default : 1/9 w=60 t=60", ""},
		{"the window by the policy's name", "X-RateLimit-Remaining-Minute: 1\nX-RateLimit-Reset-Minute: 30000", "x-ratelimit", "minute : 1/- w=60 t=30", ""},
		{"the window of another policy, for a reset without a name", "X-RateLimit-Remaining-Minute: 1\nX-RateLimit-Reset: 30000", "x-ratelimit", "minute : 1/- w=60 t=30", ""},
		{"drafts, beyond the window", "RateLimit-Limit: 9\nRateLimit-Remaining: 1\nRateLimit-Reset: 60000\nRateLimit-Policy: 9;w=60", "draft-06", "default : 1/9 w=60 t=60", ""},
		{"draft-07, in Unix seconds", "RateLimit: limit=9, remaining=1, reset=@unix+60", "draft-07", "default : 1/9 w=- t=60", ""},
		{"a date next to a number of milliseconds", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: @http+60\nX-RateLimit-Next: 60000", "x-ratelimit", "default : 1/- w=- t=60", ""},
		{"a usual length is seconds", "X-RateLimit-Limit: 9\nX-RateLimit-Window: 3600", "x-ratelimit", "default : -/9 w=3600 t=-", ""},
		{"neither is usual", "X-RateLimit-Limit: 9\nX-RateLimit-Window: 61000", "x-ratelimit", "default : -/9 w=61000 t=-", ""},
		{"a reset that does not fit into milliseconds", "X-RateLimit-Limit: 9\nX-RateLimit-Window: 300000\nX-RateLimit-Reset-After: 280000", "x-ratelimit", "default : -/9 w=300000 t=280000", ""},
		{"a suffix by requests", "X-RateLimit-Remaining-Requests: 1\nX-RateLimit-Reset-Requests: 60000", "x-ratelimit?", "requests : 1/- w=- t=60000", ""},
		{"seconds go before a date", "X-RateLimit-Reset: @http+90\nX-RateLimit-Reset-After: 60", "x-ratelimit", "default : -/- w=- t=60", ""},
		{"milliseconds below a second nobody says beside a date", "X-RateLimit-Reset: @http+1\nX-RateLimit-Next: 999", "x-ratelimit", "default : -/- w=- t=1", ""},
		{"the whole window by the policy's name, in milliseconds", "X-RateLimit-Remaining-Hour: 1\nX-RateLimit-Reset-Hour: 3600000", "x-ratelimit", "hour : 1/- w=3600 t=3600", ""},
		{"the window of another policy, for a reset with a name", "X-RateLimit-Remaining-Minute: 1\nX-RateLimit-Reset-Search: 30000", "x-ratelimit?", "minute : 1/- w=60 t=- | search : -/- w=- t=30000", ""},
		{"the window of another policy, for the reset of a quota", "X-RateLimit-Limit: 5\nX-RateLimit-Used-Minute: 1\nX-RateLimit-Reset: 30000", "x-ratelimit?", "default : -/5 w=- t=30000 | minute : -/- w=60 t=-", ""},
		{"the window of another policy, for the reset of a remaining", "X-RateLimit-Remaining: 5\nX-RateLimit-Used-Minute: 1\nX-RateLimit-Reset: 30000", "x-ratelimit?", "default : 5/- w=- t=30000 | minute : -/- w=60 t=-", ""},
		{"seconds of a window by its name", "X-RateLimit-Limit: 9\nX-RateLimit-Window-Seconds: 60000", "x-ratelimit", "default : -/9 w=60000 t=-", ""},
	}
}

// TestResetOption: what nothing settles is as the caller says, and no guess.
func TestResetOption(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format TimeFormat
		wire   string
		want   int64
	}{
		{"milliseconds", TimeMilli, "X-RateLimit-Reset: 60000", 60},
		{"seconds", TimeSeconds, "X-RateLimit-Reset: 60000", 60000},
		{"the name settles it", TimeMilli, "X-RateLimit-Reset-After: 60", 60},
		{"the size settles it", TimeSeconds, "X-RateLimit-Reset: @unix+60", 60},
		{"the drafts settle it", TimeMilli, "RateLimit-Reset: 60000", 60000},
	} {
		eachClock(t, tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			got, err := ParseAny(wire(text), LegacyOptions{Reset: tt.format, Now: now})
			require.NoError(t, err)
			require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset)
			require.False(t, got.Guessed)
		})
	}
}

// TestPolicies: how facts are joined to policies.
func TestPolicies(t *testing.T) { runLegacy(t, policyFactCases()) }

func policyFactCases() []legacyCase {
	return []legacyCase{
		{"a window needs no quota", "X-RateLimit-Remaining: 1\nX-RateLimit-Period: 60s", "x-ratelimit", "default : 1/- w=60 t=-", ""},
		{"a unit needs no quota", "X-RateLimit-Remaining-Tokens: 1", "x-ratelimit", "tokens tokens: 1/- w=- t=-", ""},
		{"a window alone says nothing", "X-RateLimit-Period: 60s", "", "", ""},
		{"used alone is a policy and no limit", "X-RateLimit-Used-Minute: 1", "x-ratelimit", "minute : -/- w=60 t=-", ""},
		{"a rate below one", "X-Rate-Limit-Limit: 0.50\nX-Rate-Limit-Duration: 1", "x-rate-limit", "default : -/1 w=2 t=-", ""},
		{"a rate below one, of which the window is rounded up", "X-Rate-Limit-Limit: 0.3\nX-Rate-Limit-Duration: 1", "x-rate-limit", "default : -/1 w=4 t=-", ""},
		{"a fraction of a quota without a window", "X-Rate-Limit-Limit: 0.5", "x-rate-limit", "default : -/0 w=- t=-", ""},
		{"quotes are not part of a number", "X-RateLimit-Limit: \"100\"\nX-RateLimit-Remaining: '9'", "x-ratelimit", "default : 9/100 w=- t=-", ""},
		{"a shared reset is not that of a shorter window", "X-RateLimit-Limit-Second: 10\nX-RateLimit-Remaining-Second: 0\nX-RateLimit-Limit-Hour: 100\nX-RateLimit-Remaining-Hour: 50\nX-RateLimit-Reset: 1800", "x-ratelimit", "hour : 50/100 w=3600 t=1800 | second : 0/10 w=1 t=-", ""},
		{"a shared reset is that of the tightest", "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Limit-Hour: 100\nX-RateLimit-Remaining-Hour: 50\nX-RateLimit-Reset: 18", "x-ratelimit", "hour : 50/100 w=3600 t=- | minute : 0/10 w=60 t=18", ""},
		{"the families are read together", "RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-Rate-Limit-Reset: @http+5", "draft-06", "default : 9/10 w=- t=5", ""},
		{"a later family with another quota is about something else", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-Rate-Limit-Limit: 99\nX-Rate-Limit-Remaining: 98\nX-Rate-Limit-Reset: @http+5", "x-ratelimit", "default : 9/10 w=- t=-", ""},
		{"a later family with the same quota says more", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-Rate-Limit-Limit: 10\nX-Rate-Limit-Reset: @http+5", "x-ratelimit", "default : 9/10 w=- t=5", ""},
		{"a refusal by one of two limiters", "Retry-After-long: 60\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 5\nX-RateLimit-Reset-After: 30", "x-ratelimit", "default : 5/10 w=- t=30 | long : 0/- w=- t=60", ""},
		{"a refusal by a limiter whose fields are healthy", "Retry-After-long: 60\nX-RateLimit-Limit-long: 10\nX-RateLimit-Remaining-long: 5\nX-RateLimit-Reset-long: 30", "x-ratelimit", "long : 0/10 w=- t=60", ""},
		{"a refusal by name alone", "Retry-After-long: 60", "retry-after", "long : 0/- w=- t=60", ""},
		{"a refusal by name that cannot be read", "Retry-After-long: soon", "", "", ""},
		{"a unit is no name", "Retry-After-Ms: 60", "", "", ""},
		{"what stands in for Retry-After is no limit", "X-Retry-After: 60", "", "", ""},
		{"a state behind the name of a limiter", "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Limit-Type: user", "x-ratelimit", "default : 4/5 w=- t=-", ""},
		{"over the limit", "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-OverLimit: 1", "x-ratelimit", "default : 0/5 w=- t=-", ""},
		{"over the limit alone", "X-RateLimit-OverLimit: 1", "", "", ""},
		{"a reset of one policy is not given to another", "X-RateLimit-Remaining-A: 5\nX-RateLimit-Remaining-B: 0\nX-RateLimit-Reset-B: @http+9", "x-ratelimit", "a : 5/- w=- t=- | b : 0/- w=- t=9", ""},
		{"names joined by a dash", "X-Acme-RateLimit-Search-Minute-Remaining: 5", "x-acme-ratelimit", "acme-search-minute : 5/- w=60 t=-", ""},
		{"of two that say what remains the first counts", "RateLimit-Remaining: 5\nX-RateLimit-Remaining: 4", "draft-06", "default : 5/- w=- t=-", ""},
		{"of two dates for the reset the first counts", "RateLimit-Reset: @http+60\nX-RateLimit-Reset: @http+90", "draft-00", "default : -/- w=- t=60", ""},
		{"a shared reset does not replace that of the policy", "X-RateLimit-Limit-Hour: 9\nX-RateLimit-Remaining-Hour: 5\nX-RateLimit-Reset-Hour: 60s\nX-RateLimit-Reset: 90s", "x-ratelimit", "hour : 5/9 w=3600 t=60", ""},
		{"unlimited", "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: unlimited", "x-ratelimit", "default : -/5 w=- t=-", ""},
		{"a policy that the current field has", "RateLimit-Policy: \"minute\";q=9;w=60\nX-RateLimit-Limit-Minute: 10\nX-RateLimit-Remaining-Minute: 9", "x-ratelimit", "minute : 9/9 w=60 t=-", ""},
		{"more policies than most responses have", "X-RateLimit-Limit-A: 11\nX-RateLimit-Remaining-A: 1\nX-RateLimit-Limit-B: 12\nX-RateLimit-Remaining-B: 2\nX-RateLimit-Limit-C: 13\nX-RateLimit-Remaining-C: 3\nX-RateLimit-Limit-D: 14\nX-RateLimit-Remaining-D: 4\nX-RateLimit-Limit-E: 15\nX-RateLimit-Used-E: 10\nX-RateLimit-Limit-F: 16\nX-RateLimit-Remaining-F: 6", "x-ratelimit", "a : 1/11 w=- t=- | b : 2/12 w=- t=- | c : 3/13 w=- t=- | d : 4/14 w=- t=- | e : 5/15 w=- t=- | f : 6/16 w=- t=-", ""},
		{"requests need a name beside tokens", "X-RateLimit-Requests-Left: 6\nX-RateLimit-Tokens-Left: 900\nX-RateLimit-Reset: 30s", "x-ratelimit", "requests : 6/- w=- t=30 | tokens tokens: 900/- w=- t=-", ""},
		{"two quotas, one of requests", "X-RateLimit-Limit: 10\nX-RateLimit-Requests-Limit: 100", "x-ratelimit", "default : -/10 w=- t=- | requests : -/100 w=- t=-", ""},
		{"two that remain, one of requests", "X-RateLimit-Remaining: 1\nX-RateLimit-Requests-Left: 2", "x-ratelimit", "default : 1/- w=- t=- | requests : 2/- w=- t=-", ""},
		{"a quota of requests, and what remains", "X-RateLimit-Requests-Limit: 10\nX-RateLimit-Remaining: 6", "x-ratelimit", "default : 6/10 w=- t=-", ""},
		{"a quota without a remaining, beside a limit that has both", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Limit-Burst: 5", "x-ratelimit", "burst : -/5 w=- t=- | default : 9/10 w=- t=-", ""},
		{"a remaining beside a quota of which some is used", "X-RateLimit-Limit-Burst: 5\nX-RateLimit-Used-Burst: 2\nX-RateLimit-Remaining: 9", "x-ratelimit", "burst : 3/5 w=- t=- | default : 9/- w=- t=-", ""},
		{"a remaining beside the quota of another family", "RateLimit-Remaining: 3\nX-RateLimit-Limit-Burst: 5", "draft-06", "burst : -/5 w=- t=- | default : 3/- w=- t=-", ""},
		{"a reset that fits into no window", "X-RateLimit-Limit-Minute: 5\nX-RateLimit-Reset: 1800s", "x-ratelimit", "default : -/- w=- t=1800 | minute : -/5 w=60 t=-", ""},
		{"a shared reset, beside a name that ends in a word for the quota", "X-RateLimit-Limit-Daily: 10\nX-RateLimit-Remaining-Daily-Limit: 5\nX-RateLimit-Reset: 1800s", "x-ratelimit", "daily : 5/10 w=86400 t=1800", ""},
		{"the reset of one policy by two names is not shared", "X-RateLimit-Limit-Daily: 10\nX-RateLimit-Reset-Daily-Limit: 60s\nX-RateLimit-Limit-Tokens-Day: 100", "x-ratelimit", "daily : -/10 w=86400 t=60 | tokens-day tokens: -/100 w=86400 t=-", ""},
		{"what remains of two policies that have a name and none", "X-RateLimit-Remaining-Daily: 5\nX-RateLimit-Remaining-Daily-Limit: 4", "x-ratelimit", "daily : 5/- w=86400 t=- | daily-limit : 4/- w=86400 t=-", ""},
		{"a shared reset is that of all with the same window", "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Limit-Tokens-Minute: 1000\nX-RateLimit-Reset: 30s", "x-ratelimit", "minute : -/10 w=60 t=30 | tokens-minute tokens: -/1000 w=60 t=30", ""},
		{"a shared reset, beside one of the same window", "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Limit-Tokens-Minute: 1000\nX-RateLimit-Reset-Tokens-Minute: 20s\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset: 30s", "x-ratelimit", "minute : 0/10 w=60 t=30 | tokens-minute tokens: -/1000 w=60 t=20", ""},
		{"a shared reset of policies without windows is that of one", "X-RateLimit-Limit-A: 10\nX-RateLimit-Limit-B: 20\nX-RateLimit-Reset: 30s", "x-ratelimit", "a : -/10 w=- t=30 | b : -/20 w=- t=-", ""},
		{"a shared reset is that of the first, if less of it remains", "X-RateLimit-Remaining-A: 1\nX-RateLimit-Remaining-B: 5\nX-RateLimit-Reset: 30s", "x-ratelimit", "a : 1/- w=- t=30 | b : 5/- w=- t=-", ""},
		{"the reset of a policy that a field names", "X-RateLimit-Bucket: b\nX-RateLimit-Limit-Minute: 10\nX-RateLimit-Reset: 30s", "x-ratelimit", "b : -/- w=- t=30 | minute : -/10 w=60 t=-", ""},
		{"a vendor's comment on the usual fields", "X-RateLimit-Limit: 10\nAcme-RateLimit-Limit: 5", "x-ratelimit", "default : -/10 w=- t=-", ""},
		{"a vendor's comment on what remains", "X-RateLimit-Remaining: 10\nAcme-RateLimit-Limit: 5", "x-ratelimit", "default : 10/- w=- t=-", ""},
	}
}

// TestUsedAlone: units spent alone are a policy with the parameter "used".
func TestUsedAlone(t *testing.T) {
	got, err := ParseAny(wire("X-MBX-USED-WEIGHT-1M: 6500"), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, Fields{
		Policies: []Policy{{Name: "weight-1m", Quota: Unknown, Unit: "weight", Window: SecondsOf(60), Params: Params{{"used", int64(6500)}}}},
		Dialect:  "binance",
	}, got)
	got, err = ParseAny(wire("X-RateLimit-Reset-Hour: 1"), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []Policy{{Name: "hour", Quota: Unknown, Window: SecondsOf(3600)}}, got.Policies, "it does not say that anything is used")
}

// TestLenientParams: the parameters that are not defined are kept also where a
// current field can be read with lenience alone.
func TestLenientParams(t *testing.T) {
	got, err := ParseAny(wire("RateLimit: a;r=1;x=5;y"), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []Limit{{Name: "a", Remaining: 1, Params: Params{{"x", int64(5)}, {"y", true}}}}, got.Limits)
	got, err = ParseAny(wire(`RateLimit-Policy: a;q=5;pk=key, b;q=5;pk=:a2V5:`), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []Policy{{Name: "a", Quota: 5, PartitionKey: []byte("key")}, {Name: "b", Quota: 5, PartitionKey: []byte("key")}}, got.Policies)
}

// TestLenient: the malformed current fields that the documentation of ParseAny shows.
// Parse refuses each of them.
func TestLenient(t *testing.T) {
	for _, tt := range []struct{ name, wire, want string }{
		{"a Decimal", `RateLimit: "burst";r=0.5;t=30`, `limits "burst";r=0;t=30; dialect draft-08`},
		{"a Token for the name", `RateLimit: burst;r=37;t=12.5`, `limits "burst";r=37;t=13; dialect draft-08`},
		{"no r", `RateLimit: "burst";t=30`, `limits "burst";t=30; dialect draft-08`},
		{"a window of 0", `RateLimit-Policy: "burst";q=100;w=0`, `policies "burst";q=100; dialect draft-08`},
		{"a String for the partition key", `RateLimit-Policy: "burst";q=100;pk="x"`, `policies "burst";q=100;pk=:eA==:; dialect draft-08`},
		{"both fields", "RateLimit-Policy: burst;q=100;w=60\nRateLimit: burst;r=37;t=12", `policies "burst";q=100;w=60; limits "burst";r=37;t=12; dialect draft-08`},
		{"two lines", "RateLimit: burst;r=37;t=12\nRateLimit: daily;r=0;t=600", `limits "burst";r=37;t=12, "daily";r=0;t=600; dialect draft-08`},
		{"two lines, of which one is well-formed", "RateLimit: burst;r=37;t=12\n" + `RateLimit: "daily";r=0;t=600`, `limits "burst";r=37;t=12, "daily";r=0;t=600; dialect draft-08`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			strict, err := Parse(wire(tt.wire))
			require.Error(t, err)
			require.Empty(t, strict)
			got, err := ParseAny(wire(tt.wire), LegacyOptions{})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.String())
		})
	}
}

// TestDialectAsSpelled: a response has the name of the family as it is spelled, and that
// of a vendor's dialect only where a caller asks for it.
func TestDialectAsSpelled(t *testing.T) {
	h := wire("X-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 4997\nX-RateLimit-Used: 3\nX-RateLimit-Resource: core")
	for want, dialects := range map[string][]*Dialect{"x-ratelimit": nil, "github": {GitHub}} {
		got, err := ParseAny(h, LegacyOptions{Dialects: dialects})
		require.NoError(t, err)
		require.Equal(t, want, got.Dialect)
		require.Equal(t, []Limit{{Name: "core", Remaining: 4997}}, got.Limits)
	}
}

// TestOptionName: the name of the policy that has none, unless it is not printable.
func TestOptionName(t *testing.T) {
	h := wire("X-RateLimit-Remaining: 1")
	for name, want := range map[string]string{"": "default", "mine": "mine", "caf\u00e9": "default"} {
		got, err := ParseAny(h, LegacyOptions{Name: name})
		require.NoError(t, err)
		require.Equal(t, want, got.Limits[0].Name)
	}
}

func TestErrorSaysNoContent(t *testing.T) {
	_, err := ParseAny(wire("X-RateLimit-Limit: secret\nX-RateLimit-Remaining: 1, \"secret\nX-RateLimit-Remaining: secret\nRateLimit-Policy: \"secret\nX-RateLimit-Reset:  secret"), LegacyOptions{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	var e *FieldError
	require.ErrorAs(t, err, &e)
	_, err = ParseAny(http.Header{"X-Ratelimit-Reset": {"", " \tx"}}, LegacyOptions{})
	require.ErrorAs(t, err, &e)
	require.Equal(t, &FieldError{Field: "X-Ratelimit-Reset", Line: 1, Offset: 2, Item: -1, Err: ErrSyntax}, e)
	_, err = ParseAny(http.Header{"x-RateLimit-overLimit-Remaining": {"x"}, "x-RateLimit-Remaining": {"x"}}, LegacyOptions{})
	require.Equal(t, "x-RateLimit-Remaining", faultsOf(t, err), "as it was sent")
}

// TestManyParameters: as many parameters of a member are read, and one more is not.
func TestManyParameters(t *testing.T) {
	older := func(n int) http.Header {
		return http.Header{"Ratelimit-Policy": {"5" + strings.Repeat(";x", n-1) + ";w=60"}}
	}
	got, err := ParseAny(older(maxParams), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(60), got.Policies[0].Window)
	got, err = ParseAny(older(maxParams+1), LegacyOptions{})
	require.NoError(t, err)
	require.False(t, got.Policies[0].Window.ok, "it is not read")

	lenient := func(n int) http.Header {
		var b strings.Builder
		b.WriteString("a;r=1")
		for i := range n - 1 {
			fmt.Fprintf(&b, ";x%d", i)
		}
		return http.Header{limitKey: {b.String()}}
	}
	got, err = ParseAny(lenient(maxParams), LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits[0].Params, maxParams-1)
	_, err = ParseAny(lenient(maxParams+1), LegacyOptions{})
	require.Error(t, err)
}

// TestManyFields: as many as are read, and one more.
func TestManyFields(t *testing.T) {
	h := http.Header{}
	for i := range older.MaxFields {
		h.Set(fmt.Sprintf("X-RateLimit-Remaining-N%d", i), "1")
	}
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits, older.MaxFields)
	lawFields(t, got)
	h.Set("X-RateLimit-Remaining-A", "1")
	got, err = ParseAny(h, LegacyOptions{})
	require.Equal(t, errors.Join(&FieldError{Offset: -1, Item: -1, Err: ErrTooMany}), err, "the header as a whole")
	require.EqualError(t, err, "ratelimit: fields of limits: too many")
	require.Empty(t, got)
	for i := range older.MaxFields {
		h.Set(fmt.Sprintf("X-RateLimit-Limit-N%d", i), "1")
	}
}

// TestManyNames: a field whose words have to be read counts with those that are found,
// whatever they say. As many are looked at, and one more is not (law 12).
func TestManyNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, format, value string
		with                string // a header of two fields that are looked at
		want                string
	}{
		{"limits", "X-RateLimit-Remaining-N%d", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", ""},
		{"an anchor, and a word that says no limit", "X-RateLimit-N%d-Url", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"},
		{"an anchor to which something is glued", "X-RateLimitx%d", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"},
		{"what remains, and nothing else of that name", "X-P%d-Remaining", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"},
		{"words glued to each other", "Limits#Bucketkeyin%d-Limused", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"},
		{"waits", "X-N%d-Retry-After", "1", "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"},
		{"names that may join a family", "X-Acme-N%d", "1", "X-Acme-Remaining: 5\nX-Acme-Limit: 9", "acme : 5/9 w=- t=-"},
		{"roles that may join a family", "X-Acme-N%d-Limit", "1", "X-Acme-Remaining: 5\nX-Acme-Limit: 9", "acme : 5/9 w=- t=-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, ok := range map[int]bool{older.MaxFields - 2: true, older.MaxFields - 1: false, 4 * older.MaxFields: false} {
				h := manyKeys(n, tt.format, tt.value)
				maps.Copy(h, wire(tt.with))
				got, err := ParseAny(h, LegacyOptions{})
				require.Equal(t, ok, err == nil, n)
				lawFaults(t, h, err)
				if !ok {
					require.Equal(t, errors.Join(&FieldError{Offset: -1, Item: -1, Err: ErrTooMany}), err)
					require.Empty(t, got)
					before := h.Clone()
					require.ErrorIs(t, RestrictHeader(h, Fields{}, LegacyOptions{}), ErrTooMany)
					require.Equal(t, before, h)
				} else if tt.want != "" {
					require.Equal(t, []string{tt.want}, vendorLimits(got))
				}
			}
		})
	}
}

// TestManyOthers: names that the filters refuse are not looked at, however many they
// are, also beside a family without an anchor.
func TestManyOthers(t *testing.T) {
	h := manyKeys(16*older.MaxFields, "X-N%d-Reset", "1")
	maps.Copy(h, wire("X-Ratelimit-Remaining: 5\nX-Acme-Remaining: 7\nX-Acme-Limit: 10"))
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"acme : 7/10 w=- t=-", "default : 5/- w=- t=-"}, vendorLimits(got))
}

// TestManyWaits: as many fields in the place of Retry-After are looked at.
func TestManyWaits(t *testing.T) {
	for n, want := range map[int]time.Duration{older.MaxFields: 5 * time.Second, older.MaxFields + 1: 0} {
		got, ok := ParseRetryAfter(manyKeys(n, "X-N%d-Retry-After", "5"), late)
		require.Equal(t, want, got)
		require.Equal(t, want > 0, ok)
	}
}

// TestHostileMemory: a header of 1 MiB, of which most is not looked at, takes little
// memory (law 12). The time is that of BenchmarkSizedHeaders.
func TestHostileMemory(t *testing.T) {
	const room = 8 << 20 // for what is read of 1024 fields, or of 16 lines
	took := func(h http.Header) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = Advisor{}.Advise(&http.Response{Header: h}, late)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	took(http.Header{"X-Remaining": {"5"}}) // makes the tables
	for _, tt := range sizedHeaders {
		t.Run(tt.name, func(t *testing.T) {
			require.Less(t, took(tt.make(hostileSize)), uint64(room))
		})
	}
}

// TestLongGroups: what is named once, and stands before the names of many.
func TestLongGroups(t *testing.T) {
	const size = 60_000
	long, each := strings.Repeat("x", size/2), size/2/len(`,"k0000":1`)
	var members strings.Builder
	for i := range each {
		fmt.Fprintf(&members, `,"k%04d":1`, i)
	}
	for name, h := range map[string]http.Header{
		"a record":           {"X-Ratelimit-Limit": {"name=" + long + strings.Repeat(";k=1", 2*each)}},
		"a record of states": {"X-Ratelimit": {"name=" + long + strings.Repeat(";k=a", 2*each)}},
		"an object":          {"X-Ratelimit-Limit": {`{"name":"` + long + `"` + members.String() + "}"}},
		"objects":            {"X-Ratelimit-Limit": {`{"` + long + `":{"k":1` + members.String() + "}}"}},
		"a key":              {"X-Ratelimit-Limit-" + long: {strings.Repeat("k=1;", 2*each)}},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = ParseAny(h, LegacyOptions{})
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128*size))
		})
	}
}

// TestManyMembers: as many as are read, and one more, in each syntax that lists.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	lines := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i+1, i+1)
		}
		return strings.Trim(b.String(), ",;")
	}
	for _, tt := range []struct {
		name, key, format string
		most              int // policies and limits
		fault             bool
	}{
		{"Integer policies", "Ratelimit-Policy", "%d;w=%d,", maxMembers, true},
		{"policies behind the quota", "Ratelimit-Limit", "%d;w=%d,", maxMembers, false},
		{"heads", "X-Ms-Ratelimit-Remaining-Resource", "n%d;%d,", maxMembers, true},
		{"pairs", "X-App-Rate-Limit", "%d:%d,", maxMembers, true},
		{"bans", "X-Sentry-Rate-Limits", "%d:c%d:,", maxMembers, true},
		{"a record", "X-Ratelimit-Remaining", "n%d=%d;", maxMembers, true},
		{"the current form with names that are Tokens", "Ratelimit", "n%d;r=%d,", maxMembers, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseAny(http.Header{tt.key: {lines(tt.format, tt.most)}}, LegacyOptions{})
			require.NoError(t, err)
			require.Equal(t, tt.most, max(len(got.Policies), len(got.Limits)))
			lawFields(t, got)
			got, err = ParseAny(http.Header{tt.key: {lines(tt.format, tt.most+1)}}, LegacyOptions{})
			require.Equal(t, tt.fault, errors.Is(err, ErrTooMany))
			require.True(t, tt.fault || len(got.Limits) == 0, "what the strict parser refuses is read as a whole or not at all")
			got, _ = ParseAny(http.Header{tt.key: {lines(tt.format, 3*tt.most)}}, LegacyOptions{})
			lawFields(t, got)
		})
	}
	for _, h := range []http.Header{
		{"X-Edge-Ratelimit": {strings.TrimSuffix(lines(`"n%d";r=%d,`, maxMembers), ",")}, "X-Ratelimit-Remaining": {"5"}},
		{"Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}, "X-Ratelimit-Policy": {lines("%d;w=9%d,", maxMembers)}},
		{"Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}, "X-Ratelimit-Limit": {"5000"}},
		{"X-Ratelimit-Remaining": {lines("n%d=%d;", maxMembers)}, "X-Ratelimit-Used": {"1, 2"}, "X-Ratelimit-Reset": {"1, 2"}},
		{"X-Ratelimit-Remaining": {lines("n%d=%d;", maxMembers)}, "Retry-After-Long": {"1"}},
	} {
		got, _ := ParseAny(h, LegacyOptions{})
		lawFields(t, got)
		require.Equal(t, maxMembers, max(len(got.Limits), len(got.Policies)), "two fields together")
	}
	got, err := ParseAny(http.Header{"Ratelimit-Policy": {`"a";q=1;w=1`}, "X-Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}}, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, maxMembers, "the current one and all others but one")
	for n, ok := range map[int]bool{4 * maxMembers: true, 4*maxMembers + 1: false} {
		_, err := ParseAny(http.Header{"X-Sentry-Rate-Limits": {strings.TrimSuffix(strings.Repeat("1:c,", n), ",")}}, LegacyOptions{})
		require.Equal(t, ok, err == nil, "%d parts of one policy", n)
	}
	json := `{` + strings.TrimSuffix(lines(`"n%d-remaining":%d,`, maxMembers), ",") + `}`
	got, err = ParseAny(http.Header{"X-Ratelimit": {json}}, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits, maxMembers)
	for n, ok := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		app := fmt.Sprintf("%-*s}", n-1, `{"call_count":1`)
		_, err := ParseAny(http.Header{"X-App-Usage": {app}}, LegacyOptions{})
		require.Equal(t, ok, err == nil)
	}
	deep := strings.Repeat(`{"a":`, 100) + `{"remaining":1}` + strings.Repeat("}", 100)
	got, _ = ParseAny(http.Header{"X-Ratelimit": {deep}}, LegacyOptions{})
	require.Empty(t, got, "no recursion without bound")
}

// TestMergedUnit: what remains brings its unit and its usual window along where it
// belongs to the quota of a policy by name.
func TestMergedUnit(t *testing.T) {
	d := &Dialect{Name: "acme", Fields: []DialectField{
		{Name: "Acme-Burst", Role: RoleQuota, Policy: "burst"},
		{Name: "Acme-Left", Role: RoleRemaining, Unit: "points", Window: SecondsOf(5)},
	}}
	got, err := ParseAny(wire("Acme-Burst: 10\nAcme-Left: 4"), LegacyOptions{Dialects: []*Dialect{d}})
	require.NoError(t, err)
	require.Equal(t, []string{"burst points: 4/10 w=5 t=-"}, vendorLimits(got))
}

// TestReadJoins: what a function reads belongs to the policy of which the words of
// other fields tell.
func TestReadJoins(t *testing.T) {
	d := &Dialect{Name: "acme", Fields: []DialectField{{Name: "Acme", Read: func(facts []Fact, value string) ([]Fact, bool) {
		return append(facts, Fact{Role: RoleRemaining, Value: value}), true
	}}}}
	got, err := ParseAny(wire("Acme: 5\nX-RateLimit-Reset-After: 30"), LegacyOptions{Dialects: []*Dialect{d}})
	require.NoError(t, err)
	require.Equal(t, []Limit{{Name: "default", Remaining: 5, Reset: SecondsOf(30)}}, got.Limits)
}
