package text

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A two-digit year is the latest year with these digits that is at most 50 years ahead (RFC
// 9110 Section 5.6.7).
func TestTwoDigits(t *testing.T) {
	at := func(text string) time.Time {
		got, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return got
	}
	for _, tt := range []struct{ name, now, text, want string }{
		{"this year", "2026-11-21T03:00:00Z", "Saturday, 21-Nov-26 03:00:30 GMT", "2026-11-21T03:00:30Z"},
		{"last year", "2026-11-21T03:00:00Z", "Friday, 21-Nov-25 03:00:00 GMT", "2025-11-21T03:00:00Z"},
		{"44 years ahead, where package time reads 1970", "2026-11-21T03:00:00Z", "Friday, 21-Nov-70 03:00:00 GMT", "2070-11-21T03:00:00Z"},
		{"50 years ahead", "2026-11-21T03:00:00Z", "Saturday, 21-Nov-76 03:00:00 GMT", "2076-11-21T03:00:00Z"},
		{"a second more than 50 years ahead", "2026-11-21T03:00:00Z", "Sunday, 21-Nov-76 03:00:01 GMT", "1976-11-21T03:00:01Z"},
		{"68 years ahead, the example of RFC 9110", "2026-11-21T03:00:00Z", "Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"in 1994", "1994-11-15T08:12:00Z", "Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"the next century from 1994", "1994-11-15T08:12:00Z", "Wednesday, 01-Jan-20 00:00:00 GMT", "2020-01-01T00:00:00Z"},
		{"in a bubble of testing/synctest", "2000-01-01T00:00:00Z", "Saturday, 01-Jan-00 00:00:30 GMT", "2000-01-01T00:00:30Z"},
		{"the next century, from the end of this one", "2099-12-31T23:59:50Z", "Friday, 01-Jan-00 00:00:10 GMT", "2100-01-01T00:00:10Z"},
		{"a leap second at the end of a century", "2099-12-31T23:59:50Z", "Thursday, 31-Dec-99 23:59:60 GMT", "2100-01-01T00:00:00Z"},
		{"29 February", "2026-11-21T03:00:00Z", "Tuesday, 29-Feb-00 00:00:00 GMT", "2000-02-29T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := at(tt.now)
			d, ok := ParseDate(tt.text)
			require.True(t, ok)
			require.Equal(t, at(tt.want), d.In(now).UTC())
		})
	}
	d, ok := ParseDate("Friday, 21-Nov-70 03:00:00 GMT")
	require.True(t, ok)
	require.Equal(t, 1970, d.In(time.Time{}).Year(), "without a clock as package time has it")
	d, ok = ParseDate("Fri, 21 Nov 1975 03:00:00 GMT")
	require.True(t, ok)
	require.Equal(t, 1975, d.In(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)).Year(), "four digits are what they are")
}

// The three forms of an HTTP-date are read (RFC 9110 Section 5.6.7), and nothing else is.
func TestParseHTTPDate(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", true},
		{"RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", true},
		{"asctime", "Sun Nov  6 08:49:37 1994", true},
		{"a leap second", "Sun, 06 Nov 1994 08:49:60 GMT", true},
		{"another zone", "Sun, 06 Nov 1994 08:49:37 CET", false},
		{"another zone in RFC 850", "Sunday, 06-Nov-94 08:49:37 EST", false},
		{"no zone", "Sun, 06 Nov 1994 08:49:37", false},
		{"a day of the week that does not exist", "Xxx, 06 Nov 1994 08:49:37 GMT", false},
		{"a day that does not exist", "Sun, 31 Nov 1994 08:49:37 GMT", false},
		{"minute 60", "Sun, 06 Nov 1994 08:60:37 GMT", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, ok := ParseHTTPDate(tt.text)
			require.Equal(t, tt.want, ok)
			require.Equal(t, ok, d.Year() == 1994)
		})
	}
}

// Texts of the longest permitted length are read, and texts with one more byte are not.
func TestLongTimes(t *testing.T) {
	for n, want := range map[int]bool{MaxTime: true, MaxTime + 1: false} {
		spaced := "6m" + strings.Repeat(" ", n-len("6m1s")) + "1s"
		_, ok := ParseSpan(spaced)
		require.Equal(t, want, ok)
	}
}
