package text

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Absolute times count from the field Date, unless it is far from the arrival, or the response
// comes from a cache.
func TestClock(t *testing.T) {
	arrived := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	before := arrived.Add(-time.Minute)
	for _, tt := range []struct {
		name   string
		header map[string][]string
		made   time.Time
		stored bool
		now    time.Time
	}{
		{"no Date", nil, time.Time{}, false, arrived},
		{"a Date", map[string][]string{"Date": {"Sat, 21 Nov 2026 02:59:00 GMT"}}, before, false, before},
		{"of two digits", map[string][]string{"Date": {"Saturday, 21-Nov-26 02:59:00 GMT"}}, before, false, before},
		{"of two digits, 44 years ahead", map[string][]string{"Date": {"Friday, 21-Nov-70 03:00:00 GMT"}}, arrived.AddDate(44, 0, 0), false, arrived},
		{"of two digits, more than 50 years ahead", map[string][]string{"Date": {"Sunday, 22-Nov-76 03:00:00 GMT"}},
			time.Date(1976, 11, 22, 3, 0, 0, 0, time.UTC), false, arrived},
		{"behind an empty line", map[string][]string{"Date": {" ", "Sat, 21 Nov 2026 02:59:00 GMT"}}, before, false, before},
		{"a day off", map[string][]string{"Date": {"Fri, 20 Nov 2026 03:00:00 GMT"}}, arrived.AddDate(0, 0, -1), false, arrived.AddDate(0, 0, -1)},
		{"more than a day off", map[string][]string{"Date": {"Sun, 22 Nov 2026 03:00:01 GMT"}}, arrived.AddDate(0, 0, 1).Add(time.Second), false, arrived},
		{"no date", map[string][]string{"Date": {"yesterday"}}, time.Time{}, false, arrived},
		{"from a cache", map[string][]string{"Date": {"Sat, 21 Nov 2026 02:59:00 GMT"}, "Age": {"60, x"}}, before, true, arrived},
		{"from a cache in the client", map[string][]string{"Date": {"Sat, 21 Nov 2026 02:59:00 GMT"}, "X-From-Cache": {"1"}}, before, true, arrived},
		{"of age 0", map[string][]string{"Date": {"Sat, 21 Nov 2026 02:59:00 GMT"}, "Age": {"0"}}, before, false, before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Clock{Header: tt.header, Arrived: arrived}
			require.True(t, c.Now().Equal(tt.now), "%v", c.Now())
			require.True(t, c.Made().Equal(tt.made), "%v", c.Made())
			require.Equal(t, tt.stored, Stored(tt.header))
			c.Header = map[string][]string{"Date": {"Sat, 21 Nov 2026 02:58:00 GMT"}}
			require.True(t, c.Now().Equal(tt.now), "the header is read once")
			require.True(t, c.Made().Equal(tt.made), "the header is read once")
		})
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { (&Clock{Arrived: arrived}).Now() }), "without a Date")
}
