package ratelimit

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNearClock: a number in a reset that lies within a month of Date or arrival, as Unix
// seconds, is a point in time, from 1e8 on.
func TestNearClock(t *testing.T) {
	bubble := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // where testing/synctest begins
	const days31 = 31 * 86400
	for _, tt := range []struct {
		name string
		now  time.Time
		date time.Time // zero is none
		key  string
		from int64 // of now, in Unix seconds
		want int64
	}{
		{"in half a minute", bubble, time.Time{}, "X-Ratelimit-Reset", 30, 30},
		{"in the names of the drafts", bubble, time.Time{}, "Ratelimit-Reset", 30, 30},
		{"where the name says seconds", bubble, time.Time{}, "X-Ratelimit-Reset-After", 30, 30},
		{"where the name says a point in time", bubble, time.Time{}, "X-Ratelimit-Reset-At", 30, 30},
		{"past", bubble, time.Time{}, "X-Ratelimit-Reset", -30, 0},
		{"in a month", bubble, time.Time{}, "X-Ratelimit-Reset", days31, days31},
		{"in a month and a second", bubble, time.Time{}, "X-Ratelimit-Reset", days31 + 1, bubble.Unix() + days31 + 1},
		{"a month ago", bubble, time.Time{}, "X-Ratelimit-Reset", -days31, 0},
		{"a month and a second ago", bubble, time.Time{}, "X-Ratelimit-Reset", -days31 - 1, bubble.Unix() - days31 - 1},
		{"counted from Date", bubble, bubble.Add(-10 * time.Second), "X-Ratelimit-Reset", 30, 40},
		{"near Date alone, which is too far from the arrival to count from", late, bubble, "X-Ratelimit-Reset", bubble.Unix() - late.Unix() + 30, 0},
		{"the least number", time.Unix(1e8, 0), time.Time{}, "X-Ratelimit-Reset", 0, 0},
		{"a smaller number, whatever the clock", time.Unix(1e8, 0), time.Time{}, "X-Ratelimit-Reset", -1, 1e8 - 1},
		{"a small number beside a clock in 1970", time.Unix(0, 0), time.Time{}, "X-Ratelimit-Reset", 30, 30},
		{"a year in seconds beside a clock in 1970", time.Unix(0, 0), time.Time{}, "X-Ratelimit-Reset-After", 365 * 86400, 365 * 86400},
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
	got, err := ParseAny(wire("X-RateLimit-Reset: 946684001ms"), LegacyOptions{Now: bubble})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(946685), got.Limits[0].Reset, "a span with a unit")
}

// TestNearClockElsewhere: so it is in what stands in for Retry-After, in records, in
// lists, and beside a number of seconds in a second line.
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
			"Retry-After-Short: @unix+30",
			"X-Retry-After: @unix+30",
			"X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: @ms+30",
		} {
			a := Advisor{}.Advise(responseOf(spell(text, now)), now)
			require.Equal(t, 30*time.Second, a.Asked, text)
			require.False(t, a.Fields.Guessed, text)
		}
	})
}

// TestUnixInBubble: fake servers in a bubble, which begins in 2000, may write any point in
// time.
func TestUnixInBubble(t *testing.T) {
	f := Fields{
		Policies: []Policy{{Name: "core", Quota: 1, Window: SecondsOf(60)}},
		Limits:   []Limit{{Name: "core", Reset: SecondsOf(30)}},
	}
	for _, d := range []*Dialect{GitHub, XRateLimitUnix, &twitter, &gitLab, XRateLimit, &xRateLimitDate, OpenAI} {
		for _, dated := range []string{"", "Date"} {
			inBubble(t, d.Name()+" "+dated, func(t *testing.T) {
				now, resp := time.Now(), responseOf("")
				if dated != "" {
					resp.Header.Set(dated, now.UTC().Format(http.TimeFormat))
				}
				require.NoError(t, d.Set(resp.Header, f, now))
				a := Advisor{}.Advise(resp, now)
				require.Equal(t, 30*time.Second, a.Wait)
				require.Equal(t, SecondsOf(30), a.Fields.Limits[0].Reset)
			})
		}
	}
}
