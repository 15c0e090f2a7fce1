package ratelimit

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A resetCase is the value of a reset, its format, and the expected seconds.
type resetCase struct {
	name    string
	format  TimeFormat
	value   string
	want    int64
	guessed bool
}

// resetCases are values of all shapes and sizes, with no other field that decides their
// format.
var resetCases = readResets("resets")

// formatWords are the words for formats in tables.
var formatWords = map[string]TimeFormat{
	"": TimeGuess, "seconds": TimeSeconds, "milliseconds": TimeMilli, "unix": TimeUnix, "unix-milliseconds": TimeUnixMilli,
	"http-date": TimeHTTPDate, "rfc3339": TimeRFC3339, "duration": TimeDuration,
}

// formatOf returns the format for a word in a table.
func formatOf(word string) TimeFormat {
	format, ok := formatWords[word]
	if !ok {
		panic("no format: " + word)
	}
	return format
}

// readResets reads a table: the format after a question mark, the value, and the seconds
// after an equals sign. A question mark after the seconds marks a guess.
func readResets(table string) (cases []resetCase) {
	for _, b := range readBlocks(table) {
		format, rest := b.Told()
		value, want := b.Cut(rest, "\n= ")
		digits, guessed := strings.CutSuffix(strings.TrimSpace(want), "?")
		seconds, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			panic(b.Name + ": " + err.Error())
		}
		cases = append(cases, resetCase{b.Name, formatOf(format), value, seconds, guessed})
	}
	return cases
}

// TestOlderReset reads a reset by its shape and size.
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

// A number that exceeds every count of nanoseconds is read as the latest time.
func TestOlderResetSaturates(t *testing.T) {
	got, err := ParseAny(http.Header{"X-Ratelimit-Reset": {strings.Repeat("9", 40)}}, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(math.MaxInt64/1_000_000_000-late.Unix()+1), got.Limits[0].Reset)
}

func TestOlderResetFaults(t *testing.T) {
	for _, value := range []string{
		"soon", "s", "+", ".", "1.", ".5", "1.5.5", "1.5.5s", "1m.s", "1.0000000000x", "1.00000000001x", "1e5", "0x10", "1 2", "5q",
		`""`, `" "`, "''", "1s2", "1m-5s", "s5", "1:2", "1:2:3:4", "1:x:3", "1:2.5:3", "-1:2:3", "1::3", "1:2:", ":2:3", ".1:2:3", "1.2.3:4:5", "PT", "P1M", "P1Y", "PT6MS", "PT6", "1,00", "0,100", "1,0000", "1234,567", ",100", "1,000.5,000",
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

// If the size of a number fits its format, the format decides.
func TestOlderFormats(t *testing.T) {
	for _, tt := range readResets("formats") {
		require.NotEqual(t, TimeGuess, tt.format, tt.name)
		eachClock(t, tt.name, tt.value, func(t *testing.T, value string, now time.Time) {
			d := mustDialect("mine", DialectField{Name: "Mine-Reset", Role: RoleReset, Format: tt.format})
			got, err := ParseAny(http.Header{"Mine-Reset": {value}}, LegacyOptions{Dialects: []*Dialect{d}, Now: now})
			require.NoError(t, err)
			require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset)
			require.Equal(t, tt.guessed, got.Guessed)
			require.Equal(t, "mine", got.Dialect)
		})
	}
}

// A bounded number of comments is kept.
func TestComments(t *testing.T) {
	require.NotEmpty(t, comments(strings.Repeat("w=1;", maxParams-1)+"x=1"))
	require.Empty(t, comments(strings.Repeat("w=1;", maxParams)+"x=1"), "no more are looked at")
	for _, n := range []int{maxComments, maxComments + 1} {
		got, err := ParseAny(http.Header{"Ratelimit-Limit": {"5;w=1" + extensionText(n)}}, LegacyOptions{})
		require.NoError(t, err)
		require.Len(t, got.Policies[0].Params, maxComments)
	}
}

// A reset from 1e8 on is a point in time if it is within a month of Date or the arrival, as
// Unix seconds.
func TestNearClock(t *testing.T) {
	bubble := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which testing/synctest begins
	const days31 = 31 * 86400
	for _, tt := range []struct {
		name string
		now  time.Time
		date time.Time // zero means absent
		key  string
		from int64 // now, in Unix seconds
		want int64
	}{
		{"in half a minute", bubble, time.Time{}, "X-Ratelimit-Reset", 30, 30},
		{"in the names of the drafts", bubble, time.Time{}, "Ratelimit-Reset", 30, 30},
		{"the name contains seconds", bubble, time.Time{}, "X-Ratelimit-Reset-After", 30, 30},
		{"the name is that of a point in time", bubble, time.Time{}, "X-Ratelimit-Reset-At", 30, 30},
		{"past", bubble, time.Time{}, "X-Ratelimit-Reset", -30, 0},
		{"in a month", bubble, time.Time{}, "X-Ratelimit-Reset", days31, days31},
		{"in a month and a second", bubble, time.Time{}, "X-Ratelimit-Reset", days31 + 1, bubble.Unix() + days31 + 1},
		{"a month ago", bubble, time.Time{}, "X-Ratelimit-Reset", -days31, 0},
		{"a month and a second ago", bubble, time.Time{}, "X-Ratelimit-Reset", -days31 - 1, bubble.Unix() - days31 - 1},
		{"counted from Date", bubble, bubble.Add(-10 * time.Second), "X-Ratelimit-Reset", 30, 40},
		{"near Date alone, which is too far from the arrival to count from", late, bubble, "X-Ratelimit-Reset", bubble.Unix() - late.Unix() + 30, 0},
		{"the least number", time.Unix(1e8, 0), time.Time{}, "X-Ratelimit-Reset", 0, 0},
		{"a smaller number, for any clock", time.Unix(1e8, 0), time.Time{}, "X-Ratelimit-Reset", -1, 1e8 - 1},
		{"a small number and a clock in 1970", time.Unix(0, 0), time.Time{}, "X-Ratelimit-Reset", 30, 30},
		{"a year in seconds and a clock in 1970", time.Unix(0, 0), time.Time{}, "X-Ratelimit-Reset-After", 365 * 86400, 365 * 86400},
		{"today", late, time.Time{}, "X-Ratelimit-Reset", 30, 30},
		{"milliseconds from now, by the name", bubble, time.Time{}, "X-Ratelimit-Reset-Ms", -799, 946685},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := tt.now.Unix() + tt.from
			for _, value := range []string{strconv.FormatInt(n, 10), strconv.FormatInt(n, 10) + ".0"} {
				h := http.Header{tt.key: {value}}
				if !tt.date.IsZero() {
					h.Set("Date", tt.date.Format(http.TimeFormat))
				}
				got, err := ParseAny(h, LegacyOptions{Now: tt.now})
				require.NoError(t, err)
				require.Equal(t, SecondsOf(tt.want), got.Limits[0].Reset, value)
			}
		})
	}
	got, err := ParseAny(trial.Wire("X-RateLimit-Reset: 946684001ms"), LegacyOptions{Now: bubble})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(946685), got.Limits[0].Reset, "a span with a unit")
}

// Times near the clock are found in substitutes for Retry-After, in records and lists, and in
// a second line after a number of seconds.
func TestNearClockElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, text := range []string{
			"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: @unix+30",
			"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 20\nX-RateLimit-Reset: @unix+30",
			"X-RateLimit-Remaining: 0, 5\nX-RateLimit-Reset: @unix+20\nX-RateLimit-Reset: @unix+30, @unix+25",
			"X-RateLimit: limit=5; remaining=0; reset=@unix+30",
			`X-RateLimit: {"limit":5,"remaining":0,"resetAt":@unix+30}`,
			"RateLimit: limit=5, remaining=0, reset=@unix+30",
			"RateLimit-Limit: 5, 5;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: @unix+30",
			"X-RateLimit-Limit: 5, 6\nX-RateLimit-Remaining: 0, 6\nX-RateLimit-Reset: @unix+30, @unix+40",
			"HTTP/1.1 302 Found\nRetry-After-Short: @unix+30",
			"HTTP/1.1 302 Found\nX-Retry-After: @unix+30",
			"X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: @ms+30",
		} {
			a := Advise(trial.ResponseOf(trial.Spell(text, now)), now)
			require.Equal(t, 30*time.Second, a.Asked, text)
			require.False(t, a.Fields.Guessed, text)
		}
	})
}

// In a bubble, which begins in 2000, a fake server may write any point in time.
func TestUnixInBubble(t *testing.T) {
	f := Fields{
		Policies: []Policy{{Name: "core", Quota: 1, Window: SecondsOf(60)}},
		Limits:   []Limit{{Name: "core", Reset: SecondsOf(30)}},
	}
	for _, d := range []*Dialect{GitHub, XRateLimitUnix, &twitter, &gitLab, XRateLimit, &xRateLimitDate, OpenAI} {
		for _, dated := range []string{"", "Date"} {
			trial.InBubble(t, d.Name()+" "+dated, func(t *testing.T) {
				now, resp := time.Now(), trial.ResponseOf("")
				if dated != "" {
					resp.Header.Set(dated, now.UTC().Format(http.TimeFormat))
				}
				require.NoError(t, d.Set(resp.Header, f, now))
				a := Advise(resp, now)
				require.Equal(t, 30*time.Second, a.Wait)
				require.Equal(t, SecondsOf(30), a.Fields.Limits[0].Reset)
			})
		}
	}
}

// Times keep the precision of the response, although Limit.Reset is in whole seconds, rounded
// up.
func TestExact(t *testing.T) {
	for _, tc := range trial.Rows("testdata/client/exact.txt") {
		t.Run(tc.Name, func(t *testing.T) {
			a := Advisor{MaxWait: 1e6 * time.Hour}.Advise(trial.ResponseOf(tc.Wire), trial.Arrival)
			require.Len(t, a.Fields.Limits, 1)
			reset := &a.Fields.Limits[0].Reset
			require.Equal(t, tc.Want, fmt.Sprintf("%s; %d", adviceSummary(a), reset.n))
			require.True(t, reset.ok)

			*reset = SecondsOf(reset.n + 9) // as if the caller had changed it
			got, _ := a.Fields.UntilReset(0)
			require.Equal(t, time.Duration(reset.n)*time.Second, got)
			require.Nil(t, a.Fields.Writable().exact)
		})
	}
	between := trial.Arrival.Add(500 * time.Millisecond)
	unix := trial.Wire("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230001250")
	f, err := ParseAny(unix, LegacyOptions{Now: between})
	require.NoError(t, err)
	got, ok := f.UntilReset(0)
	require.True(t, ok)
	require.Equal(t, 750*time.Millisecond, got, "from a clock between two seconds")

	f = Fields{Limits: []Limit{{Reset: SecondsOf(1)}, {Reset: SecondsOf(9)}}, exact: []time.Duration{120 * time.Millisecond}}
	got, _ = f.UntilReset(1)
	require.Equal(t, 9*time.Second, got, "the limits behind the last that is exact are whole seconds")
}
