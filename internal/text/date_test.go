package text

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTwoDigits: a year of two digits is the latest one with these digits that is no
// more than 50 years ahead (RFC 9110 Section 5.6.7).
func TestTwoDigits(t *testing.T) {
	at := func(text string) time.Time {
		got, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return got
	}
	for _, tt := range []struct{ name, now, text, want string }{
		{"this year", "2026-11-21T03:00:00Z", "Saturday, 21-Nov-26 03:00:30 GMT", "2026-11-21T03:00:30Z"},
		{"last year", "2026-11-21T03:00:00Z", "Friday, 21-Nov-25 03:00:00 GMT", "2025-11-21T03:00:00Z"},
		{"44 years ahead, where package time says 1970", "2026-11-21T03:00:00Z", "Friday, 21-Nov-70 03:00:00 GMT", "2070-11-21T03:00:00Z"},
		{"50 years ahead", "2026-11-21T03:00:00Z", "Saturday, 21-Nov-76 03:00:00 GMT", "2076-11-21T03:00:00Z"},
		{"a second more than 50 years ahead", "2026-11-21T03:00:00Z", "Sunday, 21-Nov-76 03:00:01 GMT", "1976-11-21T03:00:01Z"},
		{"68 years ahead, which is the example of RFC 9110", "2026-11-21T03:00:00Z", "Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"in 1994", "1994-11-15T08:12:00Z", "Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"the next century from 1994", "1994-11-15T08:12:00Z", "Wednesday, 01-Jan-20 00:00:00 GMT", "2020-01-01T00:00:00Z"},
		{"in a bubble of testing/synctest", "2000-01-01T00:00:00Z", "Saturday, 01-Jan-00 00:00:30 GMT", "2000-01-01T00:00:30Z"},
		{"the next century from the end of this", "2099-12-31T23:59:50Z", "Friday, 01-Jan-00 00:00:10 GMT", "2100-01-01T00:00:10Z"},
		{"a leap second at the end of a century", "2099-12-31T23:59:50Z", "Thursday, 31-Dec-99 23:59:60 GMT", "2100-01-01T00:00:00Z"},
		{"the day that not each year has", "2026-11-21T03:00:00Z", "Tuesday, 29-Feb-00 00:00:00 GMT", "2000-02-29T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := at(tt.now)
			d, ok := ParseDate(tt.text)
			require.True(t, ok)
			require.Equal(t, at(tt.want), d.In(now).UTC())

			c := Clock{Date: tt.text, Arrived: now} // as the Date of a response
			require.Equal(t, at(tt.want), c.Made().UTC())
			m, ok := ParseMoment(tt.text, Guess) // and as the end of a window
			require.True(t, ok)
			c = Clock{Arrived: now}
			require.Equal(t, max(at(tt.want).Sub(now), 0), m.Until(&c).Duration())
		})
	}
	d, ok := ParseDate("Friday, 21-Nov-70 03:00:00 GMT")
	require.True(t, ok)
	require.Equal(t, 1970, d.In(time.Time{}).Year(), "without a clock as package time has it")
	d, ok = ParseDate("Fri, 21 Nov 1975 03:00:00 GMT")
	require.True(t, ok)
	require.Equal(t, 1975, d.In(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)).Year(), "four digits are what they are")
}

// TestIsDay compares the calendar with that of package time, in years of all kinds.
func TestIsDay(t *testing.T) {
	for _, year := range []int{1900, 2000, 2023, 2024} {
		for month := range 14 {
			for day := range 33 {
				date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
				want := date.Month() == time.Month(month) && date.Day() == day
				require.Equal(t, want, isDay(year, month, day), "%d-%d-%d", year, month, day)
			}
		}
	}
}

// TestParseMoment reads dates in all the forms in which servers write them, each a
// minute past 08:12 on the 15th of November 1994, or a little more.
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
			got, ok := ParseMoment(tt.value, Guess)
			require.True(t, ok)
			want := time.Date(1994, 11, 15, 8, 13, 0, 0, time.UTC).Add(tt.want)
			require.Equal(t, want, time.Unix(got.span.Sec, got.span.Nsec).UTC())
			require.True(t, got.Kind == Point && got.Units == 0)
		})
	}
}

// TestSizes: the last number of each unit, and the first of the next.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		format Format
		value  string
		want   Kind
		sec    int64 // from now, or since the epoch
	}{
		{Guess, "999999999", Bare, 999999999},
		{Guess, "1000000000", Point, 1e9},
		{Guess, "99999999999", Point, 99999999999},
		{Guess, "100000000000", Point, 1e8},
		{Guess, "99999999999999", Point, 99999999999},
		{Guess, "100000000000000", Point, 1e8},
		{Guess, "99999999999999999", Point, 99999999999},
		{Guess, "100000000000000000", Point, 1e8},
		{Guess, strings.Repeat("9", 40), Point, math.MaxInt64 / billion}, // far away, and neither now nor in the past
		{Milli, "99999999999", Later, 1e8},
		{Milli, "100000000000", Point, 1e8},
		{Unix, "99999999", Bare, 99999999},
		{Unix, "100000000", Point, 1e8},
	} {
		got, ok := ParseMoment(tt.value, tt.format)
		require.True(t, ok)
		require.Equal(t, tt.want, got.Kind, tt.value)
		if got.Kind == Bare {
			got = got.In(1)
		}
		sec := got.span.Sec
		if got.Kind == Later {
			sec = got.span.Ceil()
		}
		require.Equal(t, tt.sec, sec, tt.value)
	}
}

// TestLongTimes: texts as long as are looked at, and one byte longer.
func TestLongTimes(t *testing.T) {
	for n, want := range map[int]bool{MaxTime: true, MaxTime + 1: false} {
		spaced := "6m" + strings.Repeat(" ", n-len("6m1s")) + "1s"
		_, ok := ParseMoment(spaced, Guess)
		require.Equal(t, want, ok)
		_, ok = ParseSpan(spaced)
		require.Equal(t, want, ok)
	}
}
