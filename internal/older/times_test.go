package older

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// ParseMoment reads dates in all forms that servers write. Each date is a minute past 08:12
// on 15 November 1994, or a little later.
func TestParseMoment(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value string
		want  time.Duration
	}{
		{"IMF-fixdate", "Tue, 15 Nov 1994 08:13:00 GMT", 0},
		{"RFC 850", "Tuesday, 15-Nov-94 08:13:00 GMT", 0},
		{"asctime", "Tue Nov 15 08:13:00 1994", 0},
		{"zone UTC, as sethvargo/go-limiter writes it", "Tue, 15 Nov 1994 08:13:00 UTC", 0},
		{"RFC 1123 with an offset", "Tue, 15 Nov 1994 09:13:00 +0100", 0},
		{"RFC 3339", "1994-11-15T08:13:00Z", 0},
		{"RFC 3339 in lower case", "1994-11-15t08:13:00z", 0},
		{"an offset to the east", "1994-11-15T09:13:00+01:00", 0},
		{"an offset to the west", "1994-11-15T07:13:00-01:00", 0},
		{"an offset without a colon", "1994-11-15T09:13:00+0100", 0},
		{"an offset of half an hour to the east", "1994-11-15T13:43:00+05:30", 0},
		{"an offset of half an hour to the west", "1994-11-15T02:43:00-05:30", 0},
		{"an offset of half an hour, without a colon", "1994-11-15T13:43:00+0530", 0},
		{"an offset of hours alone", "1994-11-15T09:13:00+01", 0},
		{"no zone", "1994-11-15T08:13:00", 0},
		{"no seconds", "1994-11-15T08:13Z", 0},
		{"neither", "1994-11-15T08:13", 0},
		{"seven digits", "1994-11-15T08:13:00.4999999Z", 499999900},
		{"nine digits", "1994-11-15T08:13:00.500000001Z", 500000001},
		{"the ninth digit", "1994-11-15T08:13:00.000000009Z", 9},
		{"a comma", "1994-11-15T08:13:00,5Z", 5e8},
		{"a leap second", "1994-11-15T08:12:60Z", 0},
		{"a space for the T", "1994-11-15 08:13:00", 0},
		{"Ruby with an offset", "1994-11-15 09:13:00 +0100", 0},
		{"Ruby in UTC", "1994-11-15 08:13:00 UTC", 0},
		{"Go", "1994-11-15 09:13:00.5 +0100 CET", 5e8},
		{"Go with its other clock", "1994-11-15 09:13:00.5 +0100 CET m=+0.1", 5e8},
		{"JavaScript", "Tue Nov 15 1994 09:13:00 GMT+0100 (Central European Standard Time)", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Date(1994, 11, 15, 8, 12, 0, 0, time.UTC)
			got, ok := parseMoment(tt.value, Guess, &text.Clock{Arrived: now})
			require.True(t, ok)
			require.Equal(t, time.Minute+tt.want, got.until.Duration())
			require.True(t, got.kind == pointMoment && got.units == 0)
		})
	}
}

// For each unit, the largest number with this unit is read, and the smallest number with the
// next unit.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		format Format
		value  string
		want   momentKind
		sec    int64 // from now, or since the epoch
	}{
		{Guess, "999999999", bareMoment, 999999999},
		{Guess, "1000000000", pointMoment, 1e9},
		{Guess, "99999999999", pointMoment, 99999999999},
		{Guess, "100000000000", pointMoment, 1e8},
		{Guess, "99999999999999", pointMoment, 99999999999},
		{Guess, "100000000000000", pointMoment, 1e8},
		{Guess, "99999999999999999", pointMoment, 99999999999},
		{Guess, "100000000000000000", pointMoment, 1e8},
		{Guess, strings.Repeat("9", 40), pointMoment, math.MaxInt64 / text.Billion}, // far in the future
		{Milli, "99999999999", laterMoment, 1e8},
		{Milli, "100000000000", pointMoment, 1e8},
		{Unix, "99999999", bareMoment, 99999999},
		{Unix, "100000000", pointMoment, 1e8},
	} {
		got, ok := parseMoment(tt.value, tt.format, &text.Clock{Arrived: time.Unix(5, 0)})
		require.True(t, ok)
		require.Equal(t, tt.want, got.kind, tt.value)
		sec := got.until.Ceil()
		if got.kind == pointMoment {
			sec = got.until.Sec + 5
		}
		require.Equal(t, tt.sec, sec, tt.value)
	}
}
