package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// legacyNow is when the responses of the tables arrived, half a second past the
// minute.
var legacyNow = time.Date(1994, 11, 15, 8, 12, 0, 5e8, time.UTC)

// lawFields: what was read is valid but for what a legacy response does not say.
func lawFields(t testing.TB, f Fields) {
	t.Helper()
	require.LessOrEqual(t, len(f.Policies), maxMembers)
	require.LessOrEqual(t, len(f.Limits), maxMembers)
	for _, p := range f.Policies {
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

// A legacyCase is a response, and what it says: the limits in the form of
// vendorLimit, and the names of the fields that are at fault.
type legacyCase struct {
	wire    string
	dialect string
	want    string
	wantErr string
}

func runLegacy(t *testing.T, cases []legacyCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.wire, func(t *testing.T) {
			got, err := ParseAny(wire(tt.wire), LegacyOptions{Now: legacyNow})
			lawFields(t, got)
			require.Equal(t, tt.want, strings.Join(vendorLimits(got), " | "))
			require.Equal(t, tt.dialect, got.Dialect)
			require.Equal(t, tt.wantErr, faultsOf(t, err))
		})
	}
}

func TestParseLegacyGenerations(t *testing.T) {
	runLegacy(t, []legacyCase{
		// draft-polli-00
		{"RateLimit-Limit: 100", "draft-06", "default : -/100 w=- t=-", ""},
		{"RateLimit-Limit: 100, 100;window=10", "draft-00", "default : -/100 w=10 t=-", ""},
		{"RateLimit-Limit: 10, 10;window=1, 50;window=60, 1000;window=3600, 5000;window=86400", "draft-00",
			"1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=- | default : -/10 w=1 t=-", ""},
		{"RateLimit-Limit: 10, 10;window=1;burst=1000, 1000;window=3600", "draft-00", "1000/3600 : -/1000 w=3600 t=- | default : -/10 w=1 t=-", ""},
		{`RateLimit-Limit: 100, 100;window=60;burst=1000;comment="sliding window", 5000;window=3600;burst=0;comment="fixed window"`, "draft-00",
			"5000/3600 : -/5000 w=3600 t=- | default : -/100 w=60 t=-", ""},
		{`RateLimit-Limit: 12;window=1; burst=1000;policy="leaky bucket"`, "draft-00", "default : -/12 w=1 t=-", ""},
		{"RateLimit-Remaining: 50", "draft-06", "default : 50/- w=- t=-", ""},
		{"Ratelimit-Remaining: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"RATELIMIT-REMAINING: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"ratelimit-remaining: 0", "draft-06", "default : 0/- w=- t=-", ""},
		{"RateLimit-Reset: 50", "draft-06", "default : -/- w=- t=50", ""},
		{"RateLimit-Reset: Tue, 15 Nov 1994 08:12:31 GMT", "draft-00", "default : -/- w=- t=31", ""},
		// draft-polli-01 to draft-ietf-03
		{"RateLimit-Limit: 100, 100;w=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400", "draft-03",
			"1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=- | default : -/10 w=1 t=-", ""},
		{"RateLimit-Limit: 10, 10;w=1;burst=1000, 1000;w=3600", "draft-03", "1000/3600 : -/1000 w=3600 t=- | default : -/10 w=1 t=-", ""},
		{"RateLimit-Limit: 10, 100;w=60", "draft-03", "100/60 : -/100 w=60 t=- | default : -/10 w=- t=-", ""},
		{"RateLimit-Limit: 0, 15;w=20", "draft-03", "15/20 : -/15 w=20 t=- | default : -/0 w=- t=-", ""},
		{"RateLimit-Limit: 15, 100;w=60", "draft-03", "100/60 : -/100 w=60 t=- | default : -/15 w=- t=-", ""},
		{"RateLimit-Limit: 5000, 1000;w=3600, 5000;w=86400", "draft-03", "1000/3600 : -/1000 w=3600 t=- | default : -/5000 w=86400 t=-", ""},
		{"RateLimit-Limit: 10\nRateLimit-Limit: 10;w=1, 50;w=60", "draft-03", "50/60 : -/50 w=60 t=- | default : -/10 w=1 t=-", ""},
		// draft-ietf-04 to 06
		{"RateLimit-Policy: 100;w=10\nRateLimit-Limit: 100\nRateLimit-Remaining: 50\nRateLimit-Reset: 50", "draft-06", "default : 50/100 w=10 t=50", ""},
		{"RateLimit-Policy: 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400", "draft-06",
			"10/1 : -/10 w=1 t=- | 1000/3600 : -/1000 w=3600 t=- | 50/60 : -/50 w=60 t=- | 5000/86400 : -/5000 w=86400 t=-", ""},
		{"RateLimit-Policy: 10;w=1;burst=1000, 1000;w=3600", "draft-06", "10/1 : -/10 w=1 t=- | 1000/3600 : -/1000 w=3600 t=-", ""},
		{`RateLimit-Policy: 100;w=60;burst=1000;comment="sliding window", 5000;w=3600;burst=0;comment="fixed window"`, "draft-06",
			"100/60 : -/100 w=60 t=- | 5000/3600 : -/5000 w=3600 t=-", ""},
		{"RateLimit-Policy: 10;w=1, 10;w=60\nRateLimit-Limit: 10", "draft-06", "10/60 : -/10 w=60 t=- | default : -/10 w=1 t=-", ""},
		{"RateLimit-Policy: 100", "draft-06", "100 : -/100 w=- t=-", ""},
		// draft-ietf-07
		{"RateLimit-Policy: 100;w=10\nRateLimit: limit=100, remaining=50, reset=5", "draft-07", "default : 50/100 w=10 t=5", ""},
		{"RateLimit: limit=10, reset=1", "draft-07", "default : -/10 w=- t=1", ""},
		{"RateLimit: limit=0, remaining=0, reset=20", "draft-07", "default : 0/0 w=- t=20", ""},
		{"RateLimit: limit=10;x=1,remaining=5\nRateLimit: reset=1, other=?1", "draft-07", "default : 5/10 w=- t=1", ""},
		// the current form, and what comes close to it
		{"RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400", "ratelimit", "burst : -/100 w=60 t=- | daily : -/1000 w=86400 t=-", ""},
		{"RateLimit: \"default\";r=50;t=30", "ratelimit", "default : 50/- w=- t=30", ""},
		{"RateLimit-Policy: quota;q=100;w=1\nRateLimit: quota;t=1", "draft-08", "quota : -/100 w=1 t=1", ""},
		{"RateLimit: \"a\";r=1;pk=:AA==:, \"b\";r=2.5;t=1.5;pk=\"k\";x=y", "draft-08", "a : 1/- w=- t=- | b : 2/- w=- t=2", ""},
		{"RateLimit-Policy: \"p\";q=5;w=0;qu=\"points\";pk=\"x\";y=1", "draft-08", "p points: -/5 w=- t=-", ""},
		{"RateLimit-Policy: \"api\";q=5;w=60\nRateLimit: api;r=1;t=2", "draft-08", "api : 1/5 w=60 t=2", ""},
		{"RateLimit-Policy: \"fixed window\";\"api\";q=500;w=300\nRateLimit: \"api\";r=0;t=55", "ratelimit", "api : 0/500 w=300 t=55", ""},
		// two in one response
		{"RateLimit: \"a\";r=1\nRateLimit-Limit: 10\nRateLimit-Remaining: 9", "ratelimit", "a : 1/- w=- t=-", ""},
		{"RateLimit: limit=10, remaining=9, reset=8\nRateLimit-Limit: 7\nRateLimit-Reset: 6", "draft-07", "default : 9/10 w=- t=8", ""},
		{"RateLimit-Policy: \"default\";q=100;w=60\nRateLimit-Limit: 100\nRateLimit-Remaining: 9", "draft-06", "default : 9/100 w=60 t=-", ""},
		{"RateLimit-Policy: \"p\";q=100;w=60\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/100 w=- t=- | p : -/100 w=60 t=-", ""},
		{"RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 1\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 784887121", "draft-06", "default : 9/10 w=- t=1", ""},
	})
}

// TestParseLegacyEdges: what the grammar of drafts 00 and 01 allows and that of
// structured fields does not, and what no grammar allows.
func TestParseLegacyEdges(t *testing.T) {
	runLegacy(t, []legacyCase{
		{"RateLimit-Limit: 100 ,100 ;\tw=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"RateLimit-Limit: 100, 100;W=10;Burst=1", "draft-03", "default : -/100 w=10 t=-", ""},
		{"RateLimit-Limit: 100,", "draft-06", "default : -/100 w=- t=-", ""},
		{"RateLimit-Limit: , 100,, 100;w=10", "draft-03", "default : -/100 w=10 t=-", ""},
		{"RateLimit-Limit: 100, 200", "draft-03", "default : -/100 w=- t=-", ""},
		{"RateLimit-Limit: 100, 200;w=0", "draft-03", "200 : -/200 w=- t=- | default : -/100 w=- t=-", ""},
		{"RateLimit-Limit: 1000000000000000\nRateLimit-Remaining: 99999999999999999999999999", "draft-06", "default : 999999999999999/999999999999999 w=- t=-", ""},
		{"RateLimit-Reset: 99999999999999999999999999", "draft-06", "default : -/- w=- t=8438484917", ""}, // nanoseconds
		{"RateLimit-Limit: 100;x=1\nRateLimit-Remaining: 50;x=y\nRateLimit-Reset: 50 ; x", "draft-06", "default : 50/100 w=- t=50", ""},
		{"RateLimit-Remaining: 12.9\nRateLimit-Reset: 12.1", "draft-06", "default : 12/- w=- t=13", ""},
		{"RateLimit-Remaining: -3\nRateLimit-Reset: -3", "draft-06", "default : 0/- w=- t=0", ""},
		{"RateLimit-Remaining:\nRateLimit-Reset: \t", "", "", ""},
		{"RateLimit-Remaining:  \nRateLimit-Remaining: 7", "draft-06", "default : 7/- w=- t=-", ""},
		{`RateLimit-Limit: 10, 10;w=1;comment="a, b;w=5;\"q\""`, "draft-03", "default : -/10 w=1 t=-", ""},
		{`RateLimit-Limit: 10, 20;w=1;comment="never closed, 30;w=5`, "draft-06", "default : -/10 w=- t=-", "RateLimit-Limit"},
		{"RateLimit-Limit: ten, 20;w=1", "draft-03", "20/1 : -/20 w=1 t=-", "RateLimit-Limit"},
		{"RateLimit-Limit: 10, ten;w=1", "draft-03", "default : -/10 w=- t=-", "RateLimit-Limit"},
		{"RateLimit-Limit: ten\nRateLimit-Remaining: 5\nRateLimit-Reset: soon", "draft-06", "default : 5/- w=- t=-", "RateLimit-Limit, RateLimit-Reset"},
		{"RateLimit-Limit: ten", "", "", "RateLimit-Limit"},
		{"RateLimit-Remaining: ?\nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", "RateLimit-Remaining"},
		{"RateLimit-Remaining: \"5\n", "", "", "RateLimit-Remaining"},
		{"RateLimit-Observed: x\nRateLimit-Remaining: 5", "gitlab", "default : 5/- w=- t=-", "RateLimit-Observed"},
		{"RateLimit-Policy: (1 2)\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit-Policy"},
		{"RateLimit-Policy: \"a\";q=x\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit-Policy"},
		{"RateLimit-Policy: \"a\";q=x", "", "", "RateLimit-Policy"},
		{"RateLimit-Policy: \"a\";q=x\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"RateLimit-Policy: 100;w=60\nRateLimit: \"a\";r=1", "ratelimit", "a : 1/- w=- t=-", "RateLimit-Policy"},
		{"RateLimit: \"a\";r=x\nRateLimit-Limit: 5", "draft-06", "default : -/5 w=- t=-", "RateLimit"},
		{"RateLimit: \"a\";q=1", "", "", "RateLimit"},
		{"RateLimit: limit=10, remaining=5", "", "", "RateLimit"},
		{"RateLimit: remaining=5, reset=1", "", "", "RateLimit"},
		{"RateLimit: limit=ten, remaining=5, reset=1", "", "", "RateLimit"},
		{"RateLimit: limit=-1, reset=1\nX-RateLimit-Limit: 5", "x-ratelimit", "default : -/5 w=- t=-", "RateLimit"},
		{"RateLimit: 299", "", "", "RateLimit"},
		{"RateLimit: \"caf\u00e9\";r=1", "", "", "RateLimit"},
		{"RateLimit: a;\"caf\u00e9\";r=1", "", "", "RateLimit"},
		{"RateLimit: a;r=1;pk=5", "", "", "RateLimit"},
		{"RateLimit: a;r=1;pk=\"5\"6", "", "", "RateLimit"},
		{"RateLimit: a;r=1;;t=1", "", "", "RateLimit"},
		{"RateLimit-Policy: a;q=1;qu=\"caf\u00e9\"", "", "", "RateLimit-Policy"},
	})
}

// A current field that no dialect can read is at fault where the strict parser
// says.
func TestParseAnyStrictFault(t *testing.T) {
	got, err := ParseAny(wire("RateLimit: \"a\";r=1, \"b\";r=\nX-RateLimit-Limit: x"), LegacyOptions{})
	require.Empty(t, got)
	require.Equal(t, errors.Join(
		&FieldError{Field: "X-RateLimit-Limit", Item: -1, Err: ErrSyntax},
		&FieldError{Field: LimitField, Offset: 15, Item: 1, Param: "r", Err: ErrSyntax},
	), err)
}

func TestParseLegacyFamilies(t *testing.T) {
	runLegacy(t, []legacyCase{
		{`X-RateLimit-Limit: 10, 10;w=1;name="per-ip", 1000;w=3600` + "\nX-RateLimit-Remaining: 9", "x-ratelimit", "1000/3600 : -/1000 w=3600 t=- | per-ip : 9/10 w=1 t=-", ""},
		{`X-RateLimit-Limit: 10;name="caf` + "\u00e9\"", "x-ratelimit", "default : -/10 w=- t=-", ""},
		{`X-RateLimit-Limit: 10;w=5;name="a"`, "x-ratelimit", "a : -/10 w=5 t=-", ""},
		{"X-RateLimit-Limit: 10;w=5, 10;x=1", "x-ratelimit", "default : -/10 w=5 t=-", ""},
		{`X-RateLimit-Limit: 10;w=5;name="a"` + "\nX-RateLimit-Bucket: b", "x-ratelimit", "b : -/10 w=5 t=-", ""},
		{"X-RateLimit-Bucket: \u00e9\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", "X-RateLimit-Bucket"},
		{"X-RateLimit-Bucket: \nX-RateLimit-Name: \"a \\\"b\\\"\"\nX-RateLimit-Limit: 1", "x-ratelimit", `a "b" : -/1 w=- t=-`, ""},
		{"X-RateLimit-Limit: unlimited\nX-RateLimit-Remaining: unlimited", "", "", ""},
		{"X-RateLimit-Limit: -1\nX-RateLimit-Remaining: 5", "x-ratelimit", "default : 5/- w=- t=-", ""},
		{"X-RateLimit-Limit: \u221e", "", "", ""},
		{"X-RateLimit-Limit: 600/h", "x-ratelimit", "default : -/600 w=3600 t=-", ""},
		{"X-RateLimit-Limit: 600/fortnight", "", "", "X-RateLimit-Limit"},
		{"X-RateLimit-Limit: 600/", "", "", "X-RateLimit-Limit"},
		{"X-RateLimit-Used: 3\nX-RateLimit-Remaining: 7", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"X-RateLimit-Used: 3\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"X-RateLimit-Used: 2.5\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"X-RateLimit-Used: 13\nX-RateLimit-Limit: 10", "x-ratelimit", "default : 0/10 w=- t=-", ""},
		{"X-RateLimit-Used: 13\nX-RateLimit-Observed: 1", "x-ratelimit", "default : -/- w=- t=-", ""},
		{"X-RateLimit-Used: -1", "", "", ""},
		{"X-RateLimit-Window: 1m\nX-RateLimit-Period: 5s\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=5 t=-", ""},
		{"X-RateLimit-Period: hour\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=3600 t=-", ""},
		{"X-RateLimit-Period: 0\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", ""},
		{"X-RateLimit-Period: forever\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=- t=-", "X-RateLimit-Period"},
		{"X-RateLimit-Interval: 999\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=999 t=-", ""},
		{"X-RateLimit-Interval: 1000\nX-RateLimit-Limit: 1", "x-ratelimit", "default : -/1 w=1 t=-", ""},
		{"X-RateLimit-Policy: 60;w=60, (\nX-RateLimit-Limit: 60", "x-ratelimit", "default : -/60 w=60 t=-", "X-RateLimit-Policy"},
		{"X-RateLimit-Limit: 5\nX-RateLimit-Reset-At: 1994-11-15T08:13:00Z", "x-ratelimit", "default : -/5 w=- t=60", ""},
		{"X-RateLimit-Limit: 5\nX-RateLimit-Reset: 1784887180\nX-RateLimit-Reset-In: 61", "x-ratelimit", "default : -/5 w=- t=61", ""},
		{"X-RateLimit-Limit-Day: 5\nX-RateLimit-Reset-In: 61", "x-ratelimit-suffix", "day : -/5 w=86400 t=-", ""},
		{"X-RateLimit-Limit-Month: 5\nX-RateLimit-Remaining-Month: 4", "x-ratelimit-suffix", "month : 4/5 w=- t=-", ""},
		{"X-RateLimit-Limit-Daily: 5", "x-ratelimit-suffix", "daily : -/5 w=86400 t=-", ""},
		{"X-RateLimit-Limit-15min: 5", "x-ratelimit-suffix", "15min : -/5 w=900 t=-", ""},
		{"X-Rate-Limit-Limit-Hour: 5\nX-Rate-Limit-Reset: 9", "x-rate-limit-suffix", "hour : -/5 w=3600 t=9", ""},
		{"X-Rate-Limit-User-Limit: 5\nX-Rate-Limit-User-Remaining: 4", "x-rate-limit-infix", "user : 4/5 w=- t=-", ""},
		{"X-RateLimit-Limit-Minute: x\nX-RateLimit-Limit-Hour: 5", "x-ratelimit-suffix", "hour : -/5 w=3600 t=-", "X-RateLimit-Limit-minute"},
		{"X-RateLimit-Limit-Minute: 5\nX-RateLimit-Limit-Hour: 50\nX-RateLimit-Remaining-Hour: 7\nRateLimit-Reset: 3\nRateLimit-Limit: 8", "x-ratelimit-suffix", "default : -/8 w=- t=3 | hour : 7/50 w=3600 t=- | minute : -/5 w=60 t=-", ""},
		{"X-RateLimit-Limit-Minute: unlimited\nX-RateLimit-Reset: 3", "x-ratelimit-suffix", "default : -/- w=- t=3", ""},
		{"X-Ms-RateLimit-Remaining-Resource: a;x, b", "", "", "X-Ms-RateLimit-Remaining-Resource"},
		{"X-Shopify-Shop-Api-Call-Limit: 32", "", "", "X-Shopify-Shop-Api-Call-Limit"},
		{"X-App-Rate-Limit: 100:0,x:1,-1:1,5:1", "riot", "app/1 : -/5 w=1 t=-", "X-App-Rate-Limit"},
		{"X-RateLimit-Limit: 1,2,3\nX-RateLimit-Usage: x", "strava", "15min : -/1 w=900 t=- | daily : -/2 w=86400 t=-", "X-RateLimit-Limit, X-RateLimit-Usage"},
		{"Req-Limit-Short: none", "", "", "Req-Limit-Short"},
		{"Req-Limit-Short: Remaining:394", "pingdom", "short : 394/- w=- t=-", ""},
		{"X-Sentry-Rate-Limits: soon:error:key", "", "", "X-Sentry-Rate-Limits"},
		{"X-App-Usage: {", "", "", "X-App-Usage"},
		{"X-App-Usage: []", "", "", ""},
		{`X-App-Usage: {"call_count":100.5,"other":3}`, "meta", "call_count percent: 0/100 w=- t=-", ""},
		{`X-App-Usage: {"call_count":99.5,"estimated_time_to_regain_access":1.01}`, "meta", "call_count percent: 0/100 w=- t=61", ""},
		{`X-App-Usage: [{"call_count":50},{"call_count":60},{"call_count":40}]`, "meta", "call_count percent: 40/100 w=- t=-", ""},
		{`X-Ad-Account-Usage: {"acc_id_util_pct":9.67,"reset_time_duration":1e30}`, "meta", "acc_id_util_pct percent: 90/100 w=- t=999999999999999", ""},
		{"X-Amzn-RateLimit-Limit: -1", "", "", "X-Amzn-RateLimit-Limit"},
		{"X-Amzn-RateLimit-Limit: 0", "amazon-sp-api", "default : -/0 w=1 t=-", ""},
		{"Zendesk-RateLimit-A: total=5; remaining=x; resets=y; used=z; w=q", "zendesk", "a : -/5 w=- t=-", "Zendesk-RateLimit-a"},
		{"Zendesk-RateLimit-A: total=5; used=2; w=60; n=1; remaining=", "zendesk", "a : 3/5 w=60 t=-", ""},
		{`Zendesk-RateLimit-A: "total=5`, "", "", "Zendesk-RateLimit-a"},
		{"X-Ms-User-Quota-Remaining: 1\nX-Ms-User-Quota-Resets-After: 1.00:00:01", "azure", "user-quota : 1/- w=- t=86401", ""},
	})
}

// TestParseLegacyReset reads resets by size and shape.
func TestParseLegacyReset(t *testing.T) {
	for _, tt := range []struct {
		value   string
		want    int64
		guessed bool
	}{
		{"0", 0, true},
		{"30", 30, true},
		{"0.001", 1, true},
		{"1.0000000001", 2, true},
		{"1.0000000000", 1, true},
		{"1.9999999999", 2, true},
		{"999999999", 999999999, true},
		{"1000000000", 215112880, true}, // Unix seconds
		{"784887151", 784887151, true},
		{"99999999999", 99215112879, true},
		{"1000000000000", 215112880, true}, // milliseconds
		{"100000000000", 0, true},
		{"1000000000000.5", 215112880, true},
		{"1000000000000000", 215112880, true},          // microseconds
		{"1000000000000000000", 215112880, true},       // nanoseconds
		{"9999999999999999999999", 8438484917, true},   // saturated
		{"-1", 0, true},                                //
		{"Tue, 15 Nov 1994 08:13:00 GMT", 60, false},   // half a second more than 59
		{"Tuesday, 15-Nov-94 08:13:00 GMT", 60, false}, // RFC 850
		{"Tue Nov 15 08:13:00 1994", 60, false},        // asctime
		{"Tue, 15 Nov 1994 08:13:00 UTC", 60, false},   // go-limiter
		{"Tue, 15 Nov 1994 09:13:00 +0100", 60, false}, // RFC 1123 with offset
		{"Tue, 15 Nov 1994 08:11:59 GMT", 0, false},    // past
		{"1994-11-15T08:13:00Z", 60, false},            // RFC 3339
		{"1994-11-15t08:13:00z", 60, false},            //
		{"1994-11-15T09:13:00+01:00", 60, false},       //
		{"1994-11-15T07:13:00-01:00", 60, false},       //
		{"1994-11-15T09:13:00+0100", 60, false},        // no colon
		{"1994-11-15T09:13:00+01", 60, false},          //
		{"1994-11-15T08:13:00", 60, false},             // no zone
		{"1994-11-15T08:13Z", 60, false},               // no seconds
		{"1994-11-15T08:13", 60, false},                // neither
		{"1994-11-15T08:13:00.4999999Z", 60, false},    // 7 digits
		{"1994-11-15T08:13:00.500000001Z", 61, false},  //
		{"1994-11-15T08:13:00,5Z", 60, false},          //
		{"1994-11-15T23:59:60Z", 56880, false},         //
		{"1994-11-15 08:13:00", 60, false},             // a space for the T
		{"1994-11-15 09:13:00 +0100", 60, false},       // Ruby
		{"1994-11-15 08:13:00 UTC", 60, false},         // Ruby
		{"1994-11-15 09:13:00.5 +0100 CET", 60, false}, // Go
		{"1994-11-15 09:13:00.5 +0100 CET m=+0.1", 60, false},
		{"Tue Nov 15 1994 09:13:00 GMT+0100 (Central European Standard Time)", 60, false},
		{`"1994-11-15T08:13:00Z"`, 60, false},
		{`" 5 "`, 5, true},
		{"5 ;x=1", 5, true},
		{"5\t, 6", 5, true},
		{"1s", 1, false},
		{"6m0s", 360, false},
		{"120ms", 1, false},
		{"2m52.8s", 173, false},
		{"1h2m", 3720, false},
		{"1.5h", 5400, false},
		{"0.1m", 6, false},
		{"1d2h", 93600, false},
		{"1w", 604800, false},
		{"1\u00b5s", 1, false},
		{"0s", 0, false},
		{"30 seconds", 30, false},
		{"1 minute 5 seconds", 65, false},
		{"999999999999999999999h", MaxInteger, false},
		{"00:00:03", 3, false},
		{"01:02:03.5", 3724, false},
		{"2.00:00:00", 172800, false},
		{"99999999999999999999:00:00", MaxInteger, false},
	} {
		t.Run(tt.value, func(t *testing.T) {
			h := http.Header{"X-Ratelimit-Reset": {tt.value}}
			got, err := ParseLegacy(h, LegacyOptions{Now: legacyNow})
			require.NoError(t, err)
			require.Equal(t, Fields{
				Limits:  []Limit{{Name: "default", Remaining: Unknown, Reset: SecondsOf(tt.want)}},
				Dialect: "x-ratelimit",
				Guessed: tt.guessed,
			}, got)
		})
	}
}

func TestParseLegacyResetFaults(t *testing.T) {
	for _, value := range []string{
		"soon", "s", "-", "+", ".", "1.", ".5", "1.5.5", "1.0000000000x", "1.00000000001x", "1e5", "0x10", "1 2", "5q",
		`""`, `" "`, "''", "1s2", "1m-5s", "s5", "1:2", "1:2:3:4", "1:x:3", "1:2.5:3", "-1:2:3",
		"1994-11-15", "1994-11-15T", "1994-11-15T08:1", "1994-13-15T08:13:00Z", "1994-02-30T08:13:00Z", "1994-00-15T08:13:00Z",
		"1994-11-15T24:00:00Z", "1994-11-15T08:61:00Z", "1994-11-15T08:13:61Z", "1994-11-15T08:13:0", "1994-11-15T08:13:00.Z",
		"1994-11-15T08:13:00X", "1994-11-15T08:13:00+1", "1994-11-15T08:13:00+0a", "1994-11-15T08:13:00+01:000", "1994/11/15T08:13:00Z",
		"Tue, 15 Nov 1994 08:13:00 CET", "Tue, 31 Nov 1994 08:13:00 GMT", "Tue, 15 Foo 1994 08:13:00 GMT", "Tue, 15 anF 1994 08:13:00 GMT",
		"Tue, 15 Nov 1994 25:13:00 GMT", "Tue, 1x Nov 1994 08:13:00 GMT", "Tue, 15/Nov 1994 08:13:00 GMT", "Tue, 31 Nov 1994 08:13:00 UTC",
		strings.Repeat("a", maxTime+1), strings.Repeat("1s", maxTime), "1" + strings.Repeat(" ", 5) + "x",
	} {
		t.Run(value, func(t *testing.T) {
			h := http.Header{"X-Ratelimit-Reset": {value}, "X-Ratelimit-Remaining": {"1"}}
			got, err := ParseLegacy(h, LegacyOptions{Now: legacyNow})
			require.Equal(t, "X-RateLimit-Reset", faultsOf(t, err))
			require.NotContains(t, err.Error(), "Nov")
			require.Equal(t, Fields{Limits: []Limit{{Name: "default", Remaining: 1}}, Dialect: "x-ratelimit"}, got)
		})
	}
}

// TestParseLegacyFormats: the format says what a number is.
func TestParseLegacyFormats(t *testing.T) {
	now := time.Unix(1000, 5e8)
	for _, tt := range []struct {
		format ResetFormat
		value  string
		want   int64
	}{
		{ResetDelta, "10.1", 11},
		{ResetDelta, "1372699636", 1372699636},
		{ResetDelta, "99999999999999999999", MaxInteger},
		{ResetDeltaMillis, "1", 1},
		{ResetDeltaMillis, "22273", 23},
		{ResetDeltaMillis, "1000.1", 2},
		{ResetDeltaMillis, "999999999999999999", MaxInteger},
		{ResetUnix, "1010", 10}, // 1010 - 1000.5, rounded up
		{ResetUnix, "1010.5", 10},
		{ResetUnix, "1010.6", 11},
		{ResetUnix, "10", 0},
		{ResetUnix, "-10", 0},
		{ResetUnix, "99999999999999999999", MaxInteger},
		{ResetUnixMillis, "1010500", 10},
		{ResetUnixMillis, "1010500.1", 11},
		{ResetUnixMillis, "99999999999999999999", MaxInteger},
		{ResetDate, "Thu, 01 Jan 1970 00:17:00 GMT", 20},
		{ResetDate, "10", 10},
		{ResetDuration, "10.1", 11},
		{ResetDuration, "1m10s", 70},
		{ResetFormat(99), "10", 10},
	} {
		d := Dialect{Name: "mine", Remaining: "Mine-Left", Reset: "Mine-Reset", Format: tt.format}
		h := http.Header{"Mine-Left": {"1"}, "Mine-Reset": {tt.value}}
		got, err := ParseLegacy(h, LegacyOptions{Dialects: []Dialect{d}, Now: now})
		require.NoError(t, err)
		require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset, "format %d, %s", tt.format, tt.value)
		require.Equal(t, "mine", got.Dialect)
	}
}

// TestParseLegacyReference: what absolute times count from.
func TestParseLegacyReference(t *testing.T) {
	const base = "X-RateLimit-Reset: 1994-11-15T09:00:00Z\n"
	for _, tt := range []struct {
		wire string
		want int64
	}{
		{"", 2880},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT", 60},
		{"Date: Tue, 15 Nov 1994 08:59:00 UTC", 60},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\t ", 60},
		{"Date: Tuesday, 15-Nov-94 08:59:00 GMT", 60},
		{"Date: yesterday", 2880},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: 0", 60},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: x", 60},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: -5", 60},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: 1", 2880},
		{"Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: 0.5", 2880},
	} {
		got, err := ParseLegacy(wire(base+tt.wire), LegacyOptions{Now: legacyNow})
		require.NoError(t, err)
		require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset, tt.wire)
	}
	soon := http.Header{"X-Ratelimit-Reset": {time.Now().Add(time.Hour).Format(time.RFC3339)}}
	got, err := ParseLegacy(soon, LegacyOptions{})
	require.NoError(t, err)
	n, ok := got.Limits[0].Reset.Value()
	require.True(t, ok && 3590 < n && n <= 3600, "%d", n)
}

func TestParseLegacyPolicies(t *testing.T) {
	h := wire(`RateLimit-Limit: 100, 100;window=60;burst=1000;Comment="sliding window";x=1.5;y=tok;z;bad="` + "\u00e9" + `";w2=(;Q=1, 5000;window=3600;burst=0;burst=7`)
	got, err := ParseLegacy(h, LegacyOptions{Name: "mine"})
	require.NoError(t, err)
	require.Equal(t, []Policy{
		{Name: "mine", Quota: 100, Window: SecondsOf(60), Params: Params{
			{"burst", int64(1000)}, {"comment", "sliding window"}, {"x", 1.5}, {"y", httpsfv.Token("tok")}, {"z", true},
		}},
		{Name: "5000/3600", Quota: 5000, Window: SecondsOf(3600), Params: Params{{"burst", int64(7)}}},
	}, got.Policies)

	got, err = ParseLegacy(wire(`RateLimit-Limit: 5;w=2;c='single'`), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []Policy{{Name: "default", Quota: 5, Window: SecondsOf(2), Params: Params{{"c", "single"}}}}, got.Policies)

	got, err = ParseLegacy(wire("RateLimit-Policy: 5000;w=3600, 100;w=60\nRateLimit-Limit: 100\nRateLimit-Remaining: 1"), LegacyOptions{Name: "mine"})
	require.NoError(t, err)
	p, ok := got.PolicyOf(got.Limits[0])
	require.True(t, ok)
	require.Equal(t, Policy{Name: "mine", Quota: 100, Window: SecondsOf(60)}, p)
	require.Equal(t, "5000/3600", got.Policies[0].Name, "in the order of the field")
}

func TestParseLegacyUsed(t *testing.T) {
	got, err := ParseLegacy(wire("X-MBX-USED-WEIGHT-1M: 6500"), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []Limit{{Name: "weight-1m", Remaining: Unknown, Params: Params{{"used", int64(6500)}}}}, got.Limits)
}

// TestParseLegacyUser reads a dialect that is not built in.
func TestParseLegacyUser(t *testing.T) {
	d := Dialect{
		Name:  "acme",
		Limit: "acme-*-max", Remaining: "Acme-*-Left", Reset: "Acme-*-Reset", Used: "Acme-*-Used", Window: "Acme-*-Ms",
		Format:  ResetUnix,
		Windows: map[string]int64{"hour": 3600, "*": 7},
		Units:   map[string]Unit{"bytes": ContentBytes, "*": "things"},
	}
	h := wire("Acme-Hour-Max: 10\nAcme-Hour-Left: 9\nAcme-Hour-Reset: 784887130\nAcme-Bytes-Out-Max: 10\nAcme-Bytes-Out-Used: 4\nAcme-X-Max: 1\nAcme-X-Ms: 2500\nX-RateLimit-Limit: 5")
	o := LegacyOptions{Dialects: []Dialect{d}, Now: legacyNow}
	got, err := ParseAny(h, o)
	require.NoError(t, err)
	require.Equal(t, "bytes-out content-bytes: 6/10 w=7 t=- | hour things: 9/10 w=3600 t=10 | x things: -/1 w=3 t=-", strings.Join(vendorLimits(got), " | "))

	got, err = ParseAny(wire("X-RateLimit-Limit: 5"), o)
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = ParseAny(wire("X-RateLimit-Limit: 5"), LegacyOptions{Dialects: []Dialect{}})
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = ParseAny(wire("RateLimit: \"a\";r=1\nRateLimit-Policy: \"a\";\"b\";q=1"), o)
	require.Equal(t, "RateLimit-Policy", faultsOf(t, errors.Join(err)))
	require.Equal(t, []Limit{{Name: "a", Remaining: 1}}, got.Limits)

	d.Units["*"] = "caf\u00e9"
	got, err = ParseAny(wire("Acme-X-Max: 1"), o)
	require.NoError(t, err)
	require.Empty(t, got.Policies[0].Unit, "no unit that cannot be written")
}

// TestParseLegacyMany: bounds, at N and N+1.
func TestParseLegacyMany(t *testing.T) {
	suffixes := func(n int) http.Header {
		h := http.Header{}
		for i := range n {
			h.Set(fmt.Sprintf("X-RateLimit-Limit-N%04d", i), "5")
			h.Set(fmt.Sprintf("X-RateLimit-Remaining-N%04d", i), "4")
		}
		return h
	}
	for _, n := range []int{manyBuckets, manyBuckets + 1, maxMembers} {
		got, err := ParseLegacy(suffixes(n), LegacyOptions{})
		require.NoError(t, err)
		require.Len(t, got.Policies, n)
		require.Len(t, got.Limits, n)
	}
	got, err := ParseLegacy(suffixes(maxMembers+1), LegacyOptions{})
	require.ErrorIs(t, err, ErrTooMany)
	require.Len(t, got.Policies, maxMembers)
	require.Len(t, got.Limits, maxMembers)

	list := func(n int) http.Header {
		var b strings.Builder
		b.WriteString("1")
		for i := range n - 1 {
			fmt.Fprintf(&b, ",%d;w=1", i+1)
		}
		return http.Header{"Ratelimit-Limit": {b.String()}}
	}
	got, err = ParseLegacy(list(maxMembers), LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, maxMembers-1)
	got, err = ParseLegacy(list(maxMembers+1), LegacyOptions{})
	require.ErrorIs(t, err, ErrTooMany)
	require.Len(t, got.Policies, maxMembers-1)

	policies := http.Header{"Ratelimit-Policy": {list(maxMembers)["Ratelimit-Limit"][0]}, "Ratelimit-Limit": {"77777"}}
	got, err = ParseLegacy(policies, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, maxMembers, "together")
	require.Equal(t, "default", got.Policies[0].Name)

	policies["Ratelimit-Policy"] = []string{strings.Repeat(`"a";q=1,`, maxMembers-1) + `"b";q=1`}
	got, err = ParseAny(policies, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, maxMembers, "together")

	ratios := http.Header{"X-Shopify-Shop-Api-Call-Limit": {strings.Repeat("1/2;", maxMembers)}}
	_, err = ParseLegacy(ratios, LegacyOptions{})
	require.NoError(t, err)
	ratios["X-Shopify-Shop-Api-Call-Limit"][0] += "1/2;3/4"
	_, err = ParseLegacy(ratios, LegacyOptions{})
	require.Error(t, err)

	params := func(n int) http.Header {
		return http.Header{"Ratelimit": {"a;r=1" + strings.Repeat(";x", n-1)}}
	}
	got, err = ParseLegacy(params(maxParams), LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits, 1)
	_, err = ParseLegacy(params(maxParams+1), LegacyOptions{})
	require.Error(t, err)

	json := http.Header{"X-App-Usage": {`{"call_count":1}` + strings.Repeat(" ", maxJSON-len(`{"call_count":1}`))}}
	got, err = ParseLegacy(json, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits, 1)
	json["X-App-Usage"][0] += " "
	_, err = ParseLegacy(json, LegacyOptions{})
	require.Error(t, err)
}

// TestParseLegacyTooMany: every syntax keeps to the bound of policies.
func TestParseLegacyTooMany(t *testing.T) {
	full := func(h http.Header, key, value string) http.Header {
		for i := range maxMembers {
			h.Set(fmt.Sprintf(key, i), value)
		}
		return h
	}
	for name, line := range map[string]string{
		"Plain": "5", "Ratio": "1/2", "Record": "total=5", "Pairs": "5:1", "Columns": "5",
		"Used": "1", "Heads": "a;5", "Seconds": "5:a", "Prose": "Remaining: 5", "Json": `{"call_count":1}`,
	} {
		d := Dialect{Name: "acme", Limit: "Acme-N-*", traits: traits{more: []cell{
			{role: limitRole, name: "Acme-Z-Plain*", group: "plain"},
			{role: usedRole, name: "Acme-Z-Used*", group: "plain"},
			{role: ratioRole, name: "Acme-Z-Ratio*", group: "plain"},
			{role: recordRole, name: "Acme-Z-Record*", group: "plain"},
			{role: pairsRole, name: "Acme-Z-Pairs*", group: "plain"},
			{role: columnsRole, name: "Acme-Z-Columns*", group: "plain"},
			{role: headRole, name: "Acme-Z-Heads*"},
			{role: secondsRole, name: "Acme-Z-Seconds*"},
			{role: proseRole, name: "Acme-Z-Prose*", group: "plain"},
			{role: percentRole, name: "Acme-Z-Json*"},
		}}}
		h := full(http.Header{}, "Acme-N-%d", "1")
		h.Set("Acme-Z-"+name+"1", line) // the last in the order of keys
		got, err := ParseLegacy(h, LegacyOptions{Dialects: []Dialect{d}})
		require.ErrorIs(t, err, ErrTooMany, name)
		require.Equal(t, "Acme-Z-"+name+"1", faultsOf(t, err))
		require.Len(t, got.Policies, maxMembers)
	}
}

// TestParseLegacyHostile would not end if any reader took more than linear time.
func TestParseLegacyHostile(t *testing.T) {
	for _, shape := range hostileShapes {
		for _, key := range []string{"Ratelimit-Limit", "Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Reset", "X-Ratelimit-Remaining",
			"X-App-Rate-Limit", "Sforce-Limit-Info", "Zendesk-Ratelimit-A", "X-App-Usage", "X-Sentry-Rate-Limits", "Req-Limit-Short"} {
			f, err := ParseAny(http.Header{key: {shape.value(128 << 10)}}, LegacyOptions{})
			lawFields(t, f)
			if err != nil {
				require.Less(t, len(err.Error()), 1<<20)
			}
		}
	}
}

func TestParseLegacyErrorSaysNoContent(t *testing.T) {
	_, err := ParseAny(wire("X-RateLimit-Limit: secret\nX-RateLimit-Remaining: 1, \"secret\nX-RateLimit-Remaining: secret\nRateLimit-Policy: \"secret\nX-RateLimit-Reset:  secret"), LegacyOptions{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	var e *FieldError
	require.ErrorAs(t, err, &e)
	_, err = ParseLegacy(http.Header{"X-Ratelimit-Reset": {"", " \tx"}}, LegacyOptions{})
	require.ErrorAs(t, err, &e)
	require.Equal(t, &FieldError{Field: "X-RateLimit-Reset", Line: 1, Offset: 2, Item: -1, Err: ErrSyntax}, e)
}

func TestParseAnyAllocations(t *testing.T) {
	o := LegacyOptions{Now: legacyNow}
	for _, tt := range benchmarkHeaders {
		if tt.allocs > 2 {
			continue // measured, and not promised
		}
		got := testing.AllocsPerRun(100, func() { _, _ = ParseAny(tt.h, o) })
		require.Equal(t, tt.allocs, got, tt.name)
	}
}

// lawSet is the law of SetLegacy: what it wrote, the same dialect reads back.
func lawSet(t testing.TB, d Dialect, f Fields, now time.Time) {
	t.Helper()
	old := http.Header{"Other": {"stays"}}
	h := old.Clone()
	if err := SetLegacy(h, d, f, now); err != nil {
		requireFieldError(t, err)
		require.Equal(t, old, h, "nothing is written beside an error")
		return
	}
	require.Equal(t, []string{"stays"}, h["Other"])
	for key, lines := range h {
		require.Equal(t, http.CanonicalHeaderKey(key), key)
		require.Len(t, lines, 1)
		require.True(t, isName(lines[0]))
	}
	want := f.Limits
	name := ""
	if !strings.Contains(d.Limit+d.Remaining+d.Reset, "*") {
		l, ok := f.Tightest()
		if !ok {
			return
		}
		want, name = []Limit{l}, l.Name
	}
	got, err := ParseLegacy(h, LegacyOptions{Dialects: []Dialect{d}, Name: name, Now: now})
	require.NoError(t, err)
	lawFields(t, got)
	for _, l := range want {
		lawSetLimit(t, d, f, got, l)
	}
}

func lawSetLimit(t testing.TB, d Dialect, f, got Fields, l Limit) {
	t.Helper()
	if p, ok := f.PolicyOf(l); ok && d.Limit != "" {
		q, ok := got.PolicyOf(Limit{Name: l.Name})
		if l.Name == "" {
			q, ok = got.PolicyOf(Limit{Name: "default"})
		}
		require.True(t, ok, "%v of %v", l, got)
		require.Equal(t, p.Quota, q.Quota)
		if p.Window.ok && (d.Window != "" || d.Policy != "" || d.window != "") {
			require.Equal(t, p.Window, q.Window)
		}
	}
	if l.Remaining == Unknown && !l.Reset.ok {
		return
	}
	i := slices.IndexFunc(got.Limits, func(m Limit) bool { return m.Name == l.Name || l.Name == "" && m.Name == "default" })
	if i < 0 {
		require.True(t, l.Remaining == Unknown && d.Reset == "" || d.Remaining == "" && (d.Reset == "" || !l.Reset.ok), "%v of %v", l, got)
		return
	}
	m := got.Limits[i]
	if d.Remaining != "" || d.syntax == dictionaryRole {
		require.Equal(t, l.Remaining, m.Remaining)
	}
	if d.Reset != "" {
		require.Equal(t, l.Reset.ok, m.Reset.ok)
		require.True(t, l.Reset.n <= m.Reset.n && m.Reset.n <= l.Reset.n+1, "%v, %v", l, m)
	}
}

func TestSetLegacy(t *testing.T) {
	one := Fields{
		Policies: []Policy{{Name: "day", Quota: 5000, Window: SecondsOf(86400)}, {Name: "hour", Quota: 1000, Window: SecondsOf(3600), Params: Params{{"burst", int64(5)}}}},
		Limits:   []Limit{{Name: "day", Remaining: 4000, Reset: SecondsOf(80000)}, {Name: "hour", Remaining: 37, Reset: SecondsOf(90)}},
	}
	github, _ := LookupDialect("github")
	github.Window = "X-RateLimit-Interval"
	for _, tt := range []struct {
		dialect any // its name, or a Dialect
		f       Fields
		want    string
	}{
		{"draft-00", one, "RateLimit-Limit: 1000, 1000;window=3600;burst=5, 5000;window=86400\nRateLimit-Remaining: 37\nRateLimit-Reset: 90"},
		{"draft-03", one, "RateLimit-Limit: 1000, 1000;w=3600;burst=5, 5000;w=86400\nRateLimit-Remaining: 37\nRateLimit-Reset: 90"},
		{"draft-06", one, "RateLimit-Limit: 1000\nRateLimit-Policy: 5000;w=86400, 1000;w=3600;burst=5\nRateLimit-Remaining: 37\nRateLimit-Reset: 90"},
		{"draft-07", one, "RateLimit: limit=1000, remaining=37, reset=90\nRateLimit-Policy: 5000;w=86400, 1000;w=3600;burst=5"},
		{"x-ratelimit", one, "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: 90"},
		{"x-rate-limit", one, "X-Rate-Limit-Limit: 1000\nX-Rate-Limit-Remaining: 37\nX-Rate-Limit-Reset: 90"},
		{"github", one, "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: 784887211\nX-RateLimit-Resource: hour\nX-RateLimit-Used: 963"},
		{github, one, "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: 784887211\nX-RateLimit-Resource: hour\nX-RateLimit-Used: 963\nX-RateLimit-Interval: 3600s"},
		{"x-ratelimit-unix-ms", one, "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: 784887210500"},
		{"x-ratelimit-date", one, "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: Tue, 15 Nov 1994 08:13:31 GMT"},
		{"bigcommerce", one, "X-Rate-Limit-Requests-Quota: 1000\nX-Rate-Limit-Requests-Left: 37\nX-Rate-Limit-Time-Reset-Ms: 90000\nX-Rate-Limit-Time-Window-Ms: 3600000"},
		{"openai", one, "X-RateLimit-Limit-Day: 5000\nX-RateLimit-Limit-Hour: 1000\nX-RateLimit-Remaining-Day: 4000\nX-RateLimit-Remaining-Hour: 37\nX-RateLimit-Reset-Day: 22h13m20s\nX-RateLimit-Reset-Hour: 1m30s"},
		{"x-ratelimit-suffix", one, "X-RateLimit-Limit-Day: 5000\nX-RateLimit-Limit-Hour: 1000\nX-RateLimit-Remaining-Day: 4000\nX-RateLimit-Remaining-Hour: 37\nX-RateLimit-Reset-Day: 80000\nX-RateLimit-Reset-Hour: 90"},
		{"rapidapi", one, "X-RateLimit-Day-Limit: 5000\nX-RateLimit-Day-Remaining: 4000\nX-RateLimit-Day-Reset: 80000\nX-RateLimit-Hour-Limit: 1000\nX-RateLimit-Hour-Remaining: 37\nX-RateLimit-Hour-Reset: 90"},
		{"anthropic", Fields{Limits: one.Limits[1:]}, "Anthropic-RateLimit-Hour-Remaining: 37\nAnthropic-RateLimit-Hour-Reset: Tue, 15 Nov 1994 08:13:31 GMT"},
		{"draft-06", Fields{Limits: one.Limits}, "RateLimit-Remaining: 37\nRateLimit-Reset: 90"},
		{"draft-06", Fields{Policies: one.Policies}, "RateLimit-Limit: 5000\nRateLimit-Policy: 5000;w=86400, 1000;w=3600;burst=5"},
		{"draft-03", Fields{Policies: one.Policies, Limits: []Limit{{Name: "x", Remaining: 1}}}, "RateLimit-Remaining: 1"},
		{"draft-06", Fields{Limits: []Limit{{Name: "x", Remaining: Unknown, Reset: SecondsOf(5)}}}, "RateLimit-Reset: 5"},
		{"draft-07", Fields{Policies: one.Policies, Limits: []Limit{{Name: "day", Remaining: Unknown, Reset: SecondsOf(5)}}}, "RateLimit: limit=5000, reset=5\nRateLimit-Policy: 5000;w=86400, 1000;w=3600;burst=5"},
		{"github", Fields{Limits: []Limit{{Name: `"q"`, Remaining: 1}}}, "X-RateLimit-Remaining: 1"},
		{"openai", Fields{Limits: []Limit{{Name: "a", Remaining: 1, Reset: SecondsOf(MaxInteger)}}}, "X-RateLimit-Remaining-A: 1\nX-RateLimit-Reset-A: 999999999999999s"},
		{"x-ratelimit", Fields{}, ""},
		{"openai", Fields{Policies: one.Policies}, ""},
	} {
		d, ok := tt.dialect.(Dialect)
		if !ok {
			d, ok = LookupDialect(tt.dialect.(string))
			require.True(t, ok)
		}
		h := http.Header{}
		require.NoError(t, SetLegacy(h, d, tt.f, legacyNow), tt.want)
		require.Equal(t, wire(tt.want), h)
		lawSet(t, d, tt.f, legacyNow)
	}
}

// TestSetLegacyReplaces: the fields of the dialect, and no others.
func TestSetLegacyReplaces(t *testing.T) {
	f := Fields{Policies: []Policy{{Name: "minute", Quota: 5, Window: SecondsOf(60)}}, Limits: []Limit{{Name: "minute", Remaining: 4}}}
	h := wire("X-RateLimit-Limit-Hour: 9\nX-RateLimit-Remaining-Minute: 9\nX-RateLimit-Limit: 9\nRateLimit-Limit: 9")
	d, _ := LookupDialect("x-ratelimit-suffix")
	require.NoError(t, SetLegacy(h, d, f, legacyNow))
	require.Equal(t, wire("X-RateLimit-Limit-Minute: 5\nX-RateLimit-Remaining-Minute: 4\nX-RateLimit-Limit: 9\nRateLimit-Limit: 9"), h)

	d, _ = LookupDialect("draft-06")
	h = wire("RateLimit-Reset: 9\nRateLimit-Policy: 9;w=9\nRateLimit-Policy: 8;w=8")
	require.NoError(t, SetLegacy(h, d, f, legacyNow))
	require.Equal(t, wire("RateLimit-Limit: 5\nRateLimit-Remaining: 4\nRateLimit-Policy: 5;w=60"), h)
	require.NoError(t, SetLegacy(h, d, Fields{}, legacyNow))
	require.Empty(t, h)

	h = wire("RateLimit-Policy: \"minute\";q=5;w=60\nRateLimit-Limit: 9")
	require.NoError(t, SetLegacy(h, d, f, legacyNow))
	require.Equal(t, wire("RateLimit-Limit: 5\nRateLimit-Remaining: 4\nRateLimit-Policy: \"minute\";q=5;w=60"), h, "the current form stays")

	soon := http.Header{}
	d, _ = LookupDialect("x-ratelimit-unix")
	f.Limits[0].Reset = SecondsOf(10)
	require.NoError(t, SetLegacy(soon, d, f, time.Time{}))
	got, err := ParseLegacy(soon, LegacyOptions{Dialects: []Dialect{d}})
	require.NoError(t, err)
	require.InDelta(t, 10, got.Limits[0].Reset.n, 1)
}

func TestSetLegacyRefuses(t *testing.T) {
	policy := func(q, w int64) Policy { return Policy{Name: "a", Quota: q, Window: SecondsOf(w)} }
	limit := func(name string, r, s int64) []Limit { return []Limit{{Name: name, Remaining: r, Reset: SecondsOf(s)}} }
	twin := Dialect{Name: "twin", Limit: "Twin", Remaining: "Twin"}
	mixed := Dialect{Name: "mixed", Limit: "Mixed-*", Remaining: "Mixed-*-Left"}
	for _, tt := range []struct {
		why     string
		dialect any
		f       Fields
		field   string
		err     error
	}{
		{"remaining below 0", "x-ratelimit", Fields{Limits: limit("a", -2, 1)}, "X-RateLimit-Remaining", ErrRange},
		{"remaining above the largest", "x-ratelimit", Fields{Limits: limit("a", MaxInteger+1, 1)}, "X-RateLimit-Remaining", ErrRange},
		{"reset below 0", "x-ratelimit", Fields{Limits: limit("a", 1, -1)}, "X-RateLimit-Reset", ErrRange},
		{"reset that reads as a date", "x-ratelimit", Fields{Limits: limit("a", 1, 1e9)}, "X-RateLimit-Reset", ErrRange},
		{"reset beyond the last date", "ratelimit-date", Fields{Limits: limit("a", 1, 1e12)}, "RateLimit-Reset", ErrRange},
		{"quota below 0", "x-ratelimit", Fields{Policies: []Policy{policy(-2, 1)}, Limits: limit("a", 1, 1)}, "X-RateLimit-Limit", ErrRange},
		{"quota that is Unknown", "x-ratelimit", Fields{Policies: []Policy{policy(Unknown, 1)}, Limits: limit("a", 1, 1)}, "X-RateLimit-Limit", ErrRange},
		{"window below 1", "draft-06", Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrRange},
		{"window below 1 in a field", "bigcommerce", Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "X-Rate-Limit-Time-Window-Ms", ErrRange},
		{"window below 1 in a list", "draft-03", Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "RateLimit-Limit", ErrRange},
		{"name with a space", "openai", Fields{Limits: limit("a b", 1, 1)}, "X-RateLimit-Remaining-*", ErrSyntax},
		{"name with a colon", "openai", Fields{Limits: limit("a:b", 1, 1)}, "X-RateLimit-Remaining-*", ErrSyntax},
		{"name with capitals", "openai", Fields{Limits: limit("A", 1, 1)}, "X-RateLimit-Remaining-*", ErrSyntax},
		{"no name", "openai", Fields{Limits: limit("", 1, 1)}, "X-RateLimit-Remaining-*", ErrSyntax},
		{"one name twice", "openai", Fields{Limits: append(limit("a", 1, 1), limit("a", 2, 2)...)}, "X-RateLimit-Remaining-a", ErrDuplicate},
		{"name that no field value holds", "github", Fields{Limits: limit("a\nb", 1, 1)}, "X-RateLimit-Limit", ErrSyntax},
		{"one quota twice", "draft-06", Fields{Policies: []Policy{policy(1, 1), policy(1, 2)}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrDuplicate},
		{"comment of a wrong type", "draft-06", Fields{Policies: []Policy{{Name: "a", Window: SecondsOf(1), Params: Params{{"a", 1}}}}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrType},
		{"no quota", "draft-07", Fields{Limits: limit("a", 1, 1)}, "RateLimit", ErrMissing},
		{"no reset", "draft-07", Fields{Policies: []Policy{policy(1, 1)}, Limits: []Limit{{Name: "a"}}}, "RateLimit", ErrMissing},
		{"nothing to say", "openai", Fields{Limits: []Limit{{Name: "a", Remaining: Unknown}}}, "X-RateLimit-Limit-*", ErrMissing},
		{"no field for it", Dialect{Name: "none"}, Fields{Limits: limit("a", 1, 1)}, "none", ErrMissing},
		{"a syntax of its own", "shopify", Fields{Limits: limit("a", 1, 1)}, "X-Shopify-Shop-Api-Call-Limit", ErrType},
		{"drafts 08 to 11", "draft-08", Fields{Limits: limit("a", 1, 1)}, "RateLimit", ErrType},
		{"two numbers in one field", twin, Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", 1, 1)}, "Twin", ErrDuplicate},
		{"a field that is no token", Dialect{Limit: "X Y", Remaining: "X"}, Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", 1, 1)}, "X Y", ErrSyntax},
		{"a name that reads as another field", mixed, Fields{Policies: []Policy{{Name: "a-left", Quota: 1}}, Limits: limit("a-left", 1, 1)}, "Mixed-*", ErrSyntax},
		{"a comment that reads as a name", "draft-03", Fields{Policies: []Policy{{Name: "a", Quota: 5, Window: SecondsOf(1), Params: Params{{"name", "b"}}}}, Limits: limit("a", 1, 1)}, "RateLimit-Limit", ErrSyntax},
		{"another unit of time", Dialect{Name: "x", Reset: "X-R", Format: 99}, Fields{Limits: limit("a", 1, 1)}, "X-R", ErrRange},
	} {
		t.Run(tt.why, func(t *testing.T) {
			d, ok := tt.dialect.(Dialect)
			if !ok {
				d, ok = LookupDialect(tt.dialect.(string))
				require.True(t, ok)
			}
			h := http.Header{"Other": {"stays"}}
			err := SetLegacy(h, d, tt.f, legacyNow)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, &FieldError{Field: tt.field, Offset: -1, Item: -1, Err: tt.err}, err)
			require.Equal(t, http.Header{"Other": {"stays"}}, h)
		})
	}
	many := make([]Limit, maxMembers+1)
	for i := range many {
		many[i].Name = fmt.Sprint("n", i)
	}
	d, _ := LookupDialect("openai")
	require.NoError(t, SetLegacy(http.Header{}, d, Fields{Limits: many[:maxMembers]}, legacyNow))
	require.ErrorIs(t, SetLegacy(http.Header{}, d, Fields{Limits: many}, legacyNow), ErrTooMany)
	d, _ = LookupDialect("draft-07")
	f := Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", 1, 1)}
	h := wire("RateLimit: \"a\";r=1")
	require.ErrorIs(t, SetLegacy(h, d, f, legacyNow), ErrDuplicate, "beside the current form")
	require.Equal(t, wire("RateLimit: \"a\";r=1"), h)
	require.Equal(t, errNilHeader, SetLegacy(nil, d, f, legacyNow))
	for _, format := range []ResetFormat{ResetUnix, ResetUnixMillis, ResetDate} {
		for _, now := range []time.Time{time.Unix(-5, 0), time.Unix(math.MaxInt64/2, 0)} {
			d := Dialect{Name: "x", Reset: "X-R", Format: format}
			require.ErrorIs(t, SetLegacy(http.Header{}, d, f, now), ErrRange)
		}
	}
}

// TestSetLegacyLaw writes every dialect.
func TestSetLegacyLaw(t *testing.T) {
	for _, d := range Dialects() {
		for _, name := range []string{"default", "minute", "a b", "", "requests"} {
			for _, f := range []Fields{
				{Policies: []Policy{{Name: name, Quota: 100, Window: SecondsOf(60)}}, Limits: []Limit{{Name: name, Remaining: 37, Reset: SecondsOf(30)}}},
				{Policies: []Policy{{Name: name, Quota: 0}}, Limits: []Limit{{Name: name, Remaining: 0, Reset: SecondsOf(0)}}},
				{Limits: []Limit{{Name: name, Remaining: 5}, {Name: "hour", Remaining: Unknown, Reset: SecondsOf(1e8)}}},
			} {
				lawSet(t, d, f, legacyNow)
			}
		}
	}
}
