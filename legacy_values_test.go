package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// A resetCase is a value of a reset, what its format is said to be, and the seconds that it
// is read as.
type resetCase struct {
	name    string
	format  TimeFormat
	value   string
	want    int64
	guessed bool
}

// resetCases are values of all shapes and sizes, of which nothing else is said.
var resetCases = readResets("resets")

// formatWords are the words for formats in tables.
var formatWords = map[string]TimeFormat{
	"": TimeGuess, "seconds": TimeSeconds, "milliseconds": TimeMilli, "unix": TimeUnix, "unix-milliseconds": TimeUnixMilli,
	"http-date": TimeHTTPDate, "rfc3339": TimeRFC3339, "duration": TimeDuration,
}

// formatOf returns the format for which a table has a word.
func formatOf(word string) TimeFormat {
	format, ok := formatWords[word]
	if !ok {
		panic("no format: " + word)
	}
	return format
}

// readResets reads a table: the format behind a question mark, the value, and the seconds
// behind an equals sign. A number that is guessed ends in a question mark.
func readResets(table string) (cases []resetCase) {
	for _, b := range readBlocks(table) {
		format, rest := b.told()
		value, want := b.cut(rest, "\n= ")
		digits, guessed := strings.CutSuffix(strings.TrimSpace(want), "?")
		seconds, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			panic(b.name + ": " + err.Error())
		}
		cases = append(cases, resetCase{b.name, formatOf(format), value, seconds, guessed})
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

// TestOlderResetSaturates: a number that no count of nanoseconds holds is the latest time.
func TestOlderResetSaturates(t *testing.T) {
	got, err := ParseAny(http.Header{"X-Ratelimit-Reset": {strings.Repeat("9", 40)}}, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(math.MaxInt64/1_000_000_000-late.Unix()+1), got.Limits[0].Reset)
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
