package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Times keep the precision that the response has, though Limit.Reset is whole seconds,
// rounded up.
func TestExact(t *testing.T) {
	for _, tc := range readRows("exact") {
		t.Run(tc.name, func(t *testing.T) {
			a := Advisor{MaxWait: 1e6 * time.Hour}.Advise(responseOf(tc.wire), arrival)
			require.Len(t, a.Fields.Limits, 1)
			reset := &a.Fields.Limits[0].Reset
			require.Equal(t, tc.want, fmt.Sprintf("%s; %d", adviceSummary(a), reset.n))
			require.True(t, reset.ok)

			*reset = SecondsOf(reset.n + 9) // as the caller says now
			got, _ := a.Fields.reset(0)
			require.Equal(t, time.Duration(reset.n)*time.Second, got)
			require.Nil(t, a.Fields.Writable().exact)
		})
	}
	between := arrival.Add(500 * time.Millisecond)
	unix := wire("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230001250")
	f, err := ParseAny(unix, LegacyOptions{Now: between})
	require.NoError(t, err)
	got, ok := f.reset(0)
	require.True(t, ok)
	require.Equal(t, 750*time.Millisecond, got, "from a clock between two seconds")

	f = Fields{Limits: []Limit{{Reset: SecondsOf(1)}, {Reset: SecondsOf(9)}}, exact: []time.Duration{120 * time.Millisecond}}
	got, _ = f.reset(1)
	require.Equal(t, 9*time.Second, got, "the limits behind the last that is exact are whole seconds")
}
