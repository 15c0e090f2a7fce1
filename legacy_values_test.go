package ratelimit

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// TestOlderReset reads a reset by its shape and size. A number that is
// guessed ends in a question mark.
func TestOlderReset(t *testing.T) {
	for _, tt := range resetCases {
		eachClock(t, tt.name, tt.value, func(t *testing.T, value string, now time.Time) {
			got, err := ParseAny(http.Header{"X-Ratelimit-Reset": {value}}, LegacyOptions{Now: now})
			require.NoError(t, err)
			got.exact = nil
			require.Equal(t, Fields{
				Limits:  []Limit{{Name: "default", Remaining: Unknown, Reset: SecondsOf(tt.want)}},
				Dialect: "x-ratelimit",
				Guessed: tt.guessed,
			}, got)
		})
	}
}

// resetCases are values of a reset, and the seconds that they are read as.
var resetCases = []struct {
	name    string
	value   string
	want    int64
	guessed bool
}{
	{"now", "0", 0, false},
	{"one, in whatever unit", "1", 1, false},
	{"a small number", "30", 30, true},
	{"a fraction of a second", "0.001", 1, false},
	{"more digits than a fraction keeps", "1.0000000001", 2, false},
	{"more digits than a fraction keeps, all 0", "1.0000000000", 1, false},
	{"more digits than a fraction keeps, rounded up", "1.9999999999", 2, false},
	{"the largest number of seconds from now", "999999999", 999999999, true},
	{"Unix seconds", "@unix+60", 60, false},
	{"Unix seconds with a fraction", "@unix+60.4", 60, false},
	{"Unix seconds with a fraction behind that of now", "@unix+60.6", 61, false},
	{"milliseconds", "@ms+60", 60, false},
	{"milliseconds that are past", "100000000000", 0, false},
	{"milliseconds with a fraction", "@ms+60.5", 60, false},
	{"microseconds", "@us+60", 60, false},
	{"nanoseconds", "@ns+60", 60, false},
	{"a negative number", "-2", 0, false},
	{"a negative number as large as a point in time", "-99999999999", 0, false},
	{"thousands", "1,500", 1500, true},
	{"thousands in Unix milliseconds that are past", "784,887,120,000", 0, false},
	{"an IMF-fixdate", "@http+60", 60, false},
	{"an IMF-fixdate that is past", "Tue, 15 Nov 1994 08:11:59 GMT", 0, false},
	{"RFC 3339", "@rfc+60", 60, false},
	{"RFC 3339 in quotes", `"@rfc+60"`, 60, false},
	{"a number in quotes with spaces", `" 5 "`, 5, true},
	{"a parameter behind a number", "5 ;x=1", 5, true},
	{"a parameter behind thousands", "1,500;x=1", 1500, true},
	{"a number behind a number, the later", "5\t, 6", 6, true},
	{"a word behind a number", "5\t, x", 5, true},
	{"a number behind one that says nothing", "-1, 5", 5, true},
	{"a unit", "1s", 1, false},
	{"minutes and seconds", "6m0s", 360, false},
	{"milliseconds by their unit", "120ms", 1, false},
	{"a fraction of a unit", "2m52.8s", 173, false},
	{"hours and minutes", "1h2m", 3720, false},
	{"a fraction of hours", "1.5h", 5400, false},
	{"a fraction of minutes", "0.1m", 6, false},
	{"days and hours", "1d2h", 93600, false},
	{"a week", "1w", 604800, false},
	{"microseconds by their unit", "1\u00b5s", 1, false},
	{"a nanosecond by its unit", "1ns", 1, false},
	{"no time at all", "0s", 0, false},
	{"a nanosecond less than a second", "999999999ns", 1, false},
	{"a word for the unit", "30 seconds", 30, false},
	{"two words for units", "1 minute 5 seconds", 65, false},
	{"fractions that make a whole second", "1.5s 500ms", 2, false},
	{"more hours than a number holds", "999999999999999999999h", MaxInteger, false},
	{"a clock", "00:00:03", 3, false},
	{"a clock with a fraction", "01:02:03.5", 3724, false},
	{"a clock with days", "2.00:00:00", 172800, false},
	{"a clock that no number holds", "99999999999999999999:00:00", MaxInteger, false},
}

func TestOlderResetFaults(t *testing.T) {
	for _, value := range []string{
		"soon", "s", "+", ".", "1.", ".5", "1.5.5", "1.5.5s", "1m.s", "1.0000000000x", "1.00000000001x", "1e5", "0x10", "1 2", "5q",
		`""`, `" "`, "''", "1s2", "1m-5s", "s5", "1:2", "1:2:3:4", "1:x:3", "1:2.5:3", "-1:2:3", "1,00", "0,100", "1,0000", "1234,567", ",100", "1,000.5,000",
		"1994-11-15", "1994-11-15T", "1994-11-15T08:1", "1994-13-15T08:13:00Z", "1994-02-30T08:13:00Z", "1994-00-15T08:13:00Z",
		"1994-11-15T24:00:00Z", "1994-11-15T08:61:00Z", "1994-11-15T08:13:61Z", "1994-11-15T08:13:0", "1994-11-15T08:13:0:Z", "1994-11-15T08:13:00.Z",
		"1994-11-15T08:13:00X", "1994-11-15T08:13:00+1", "1994-11-15T08:13:00+0a", "1994-11-15T08:13:00+01:000", "1994/11/15T08:13:00Z",
		"Tue, 15 Nov 1994 08:13:00 CET", "Tue, 31 Nov 1994 08:13:00 GMT", "Tue, 15 Foo 1994 08:13:00 GMT", "Tue, 15 anF 1994 08:13:00 GMT",
		"Tue, 15 Nov 1994 25:13:00 GMT", "Tue, 1x Nov 1994 08:13:00 GMT", "Tue, 15/Nov 1994 08:13:00 GMT", "Tue, 31 Nov 1994 08:13:00 UTC",
		strings.Repeat("a", text.MaxTime+1), strings.Repeat("1s", text.MaxTime), "1" + strings.Repeat(" ", 5) + "x",
	} {
		t.Run(value, func(t *testing.T) {
			h := http.Header{"X-Ratelimit-Reset": {value}, "X-Ratelimit-Remaining": {"1"}}
			got, err := ParseAny(h, LegacyOptions{Now: then})
			require.Equal(t, "X-Ratelimit-Reset", faultsOf(t, err))
			require.NotContains(t, err.Error(), "Nov")
			require.Equal(t, Fields{Limits: []Limit{{Name: "default", Remaining: 1}}, Dialect: "x-ratelimit"}, got)
		})
	}
}

// TestOlderFormats: the format says what a number is that its size does not
// refute.
func TestOlderFormats(t *testing.T) {
	for _, tt := range []struct {
		name   string
		format TimeFormat
		value  string
		want   int64
	}{
		{"seconds are rounded up", TimeSeconds, "10.1", 11},
		{"seconds that are a date", TimeSeconds, "@unix+60", 60},
		{"milliseconds are rounded up", TimeMilli, "1", 1},
		{"milliseconds", TimeMilli, "22273", 23},
		{"milliseconds with a fraction", TimeMilli, "1000.1", 2},
		{"the largest number of milliseconds from now", TimeMilli, "99999999999", 100000000},
		{"milliseconds that are a date", TimeMilli, "@ms+60", 60},
		{"Unix seconds", TimeUnix, "@unix+60", 60},
		{"Unix seconds that are milliseconds", TimeUnix, "@ms+60", 60},
		{"Unix seconds that are microseconds", TimeUnix, "@us+60", 60},
		{"Unix seconds that are past", TimeUnix, "784887120", 0},
		{"Unix seconds that are too few", TimeUnix, "10", 10},
		{"Unix milliseconds", TimeUnixMilli, "@ms+60", 60},
		{"Unix milliseconds that are seconds", TimeUnixMilli, "@unix+60", 60},
		{"a date", TimeHTTPDate, "@http+60", 60},
		{"a date that is a timestamp", TimeHTTPDate, "@rfc+60", 60},
		{"a date that is a number", TimeHTTPDate, "10", 10},
		{"a timestamp", TimeRFC3339, "@rfc+60", 60},
		{"a duration", TimeDuration, "1m10s", 70},
		{"a duration that is a number", TimeDuration, "10.1", 11},
	} {
		eachClock(t, tt.name, tt.value, func(t *testing.T, value string, now time.Time) {
			d := &Dialect{Name: "mine", Fields: []DialectField{
				{Name: "Mine-Left", Role: RoleRemaining},
				{Name: "Mine-Reset", Role: RoleReset, Format: tt.format},
			}}
			got, err := ParseAny(http.Header{"Mine-Left": {"1"}, "Mine-Reset": {value}}, LegacyOptions{Dialects: []*Dialect{d}, Now: now})
			require.NoError(t, err)
			require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset)
			require.Equal(t, "mine", got.Dialect)
		})
	}
}

// TestOlderReference: what absolute times count from. retryAfterCases have more of the
// same clock.
func TestOlderReference(t *testing.T) {
	const base = "X-RateLimit-Reset: 1994-11-15T09:00:00Z\n"
	for _, tt := range []struct {
		name string
		wire string
		want int64
	}{
		{"the arrival, without Date", "", 2880},
		{"Date", "Date: Tue, 15 Nov 1994 08:59:00 GMT", 60},
		{"a Date in the zone UTC", "Date: Tue, 15 Nov 1994 08:59:00 UTC", 60},
		{"a Date with space around it", "Date: Tue, 15 Nov 1994 08:59:00 GMT\t ", 60},
		{"a Date of RFC 850", "Date: Tuesday, 15-Nov-94 08:59:00 GMT", 60},
		{"an Age that is none", "Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: x", 60},
		{"a negative Age", "Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: -5", 60},
		{"a fraction for an Age", "Date: Tue, 15 Nov 1994 08:59:00 GMT\nAge: 0.5", 2880},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseAny(wire(base+tt.wire), LegacyOptions{Now: then})
			require.NoError(t, err)
			require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset)
		})
	}
	soon := http.Header{"X-Ratelimit-Reset": {time.Now().Add(time.Hour).Format(time.RFC3339)}}
	got, err := ParseAny(soon, LegacyOptions{})
	require.NoError(t, err)
	n, ok := got.Limits[0].Reset.Value()
	require.True(t, ok && 3590 < n && n <= 3600, "%d", n)
}

// TestOlderCounts reads numbers of units.
func TestOlderCounts(t *testing.T) {
	for value, want := range map[string]int64{
		"5": 5, "+5": 5, "-5": 0, "5.99": 5, "99999999999999999999": MaxInteger, "1,000": 1000, "12,345,678.9": 12345678, `"5"`: 5,
	} {
		got, err := ParseAny(http.Header{"X-Ratelimit-Remaining": {value}}, LegacyOptions{})
		require.NoError(t, err, value)
		require.Equal(t, []Limit{{Name: "default", Remaining: want}}, got.Limits, value)
	}
	for value, fault := range map[string]bool{
		"unlimited": false, "some": true, "5 of 10": true, "1.2.3": true, "1e3": true, "0x10": true, "\u0661": true, // a digit of Arabic
	} {
		got, err := ParseAny(http.Header{"X-Ratelimit-Remaining": {value}}, LegacyOptions{})
		require.Equal(t, map[bool]string{true: "X-Ratelimit-Remaining"}[fault], faultsOf(t, err), value)
		require.Empty(t, got, value)
	}
}

// TestComments: as many as are kept, and one more.
func TestComments(t *testing.T) {
	require.NotEmpty(t, comments(strings.Repeat("w=1;", maxParams-1)+"x=1"))
	require.Empty(t, comments(strings.Repeat("w=1;", maxParams)+"x=1"), "no more are looked at")
	for _, n := range []int{maxComments, maxComments + 1} {
		got, err := ParseAny(http.Header{"Ratelimit-Limit": {"5;w=1" + extensionText(n)}}, LegacyOptions{})
		require.NoError(t, err)
		require.Len(t, got.Policies[0].Params, maxComments)
	}
}

// TestNanosecondsSaturate: a number of nanoseconds that no int64 holds is far away,
// and neither now nor in the past.
func TestNanosecondsSaturate(t *testing.T) {
	got, err := ParseAny(http.Header{"X-Ratelimit-Reset": {strings.Repeat("9", 40)}}, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(math.MaxInt64/1_000_000_000-late.Unix()+1), got.Limits[0].Reset)
}
