package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// retryAfterCases are headers of responses, and how long they ask to wait.
var retryAfterCases = readRows("retry-after")

func TestParseRetryAfter(t *testing.T) {
	for _, tc := range retryAfterCases {
		t.Run(tc.name, func(t *testing.T) {
			wait, ok := ParseRetryAfter(wire(tc.wire), arrival)
			got := wait.String()
			if !ok {
				require.Zero(t, wait)
				got = "none"
			}
			require.Equal(t, tc.want, got)
		})
	}
	_, ok := ParseRetryAfter(nil, time.Time{})
	require.False(t, ok)
}

// In virtual time it is midnight UTC on 1 January 2000.
func TestSetRetryAfter(t *testing.T) {
	for _, tc := range readRows("set-retry-after") {
		inBubble(t, tc.name, func(t *testing.T) {
			h, want := wire(tc.wire), []string{tc.want}
			f := fieldsOf(t, h.Get(PolicyField), h.Get(LimitField))
			if text, err := strconv.Unquote(tc.want); err == nil {
				want[0] = text
			} else if tc.want == "none" {
				want = nil
			}
			f.SetRetryAfter(h)
			require.Equal(t, want, h["Retry-After"])
			lawSetRetryAfter(t, h, f)
			require.Equal(t, want, h["Retry-After"], "twice is as once")
		})
	}
	h := http.Header{}
	Fields{Limits: []Limit{{Reset: SecondsOf(-1)}}}.SetRetryAfter(h)
	require.Empty(t, h, "an invalid reset, negative")
	Fields{Limits: []Limit{{Reset: SecondsOf(math.MaxInt64)}}}.SetRetryAfter(h)
	require.Equal(t, "999999999999999", h.Get("Retry-After"), "an invalid reset, too large")
	Fields{Limits: []Limit{{Reset: SecondsOf(1)}}}.SetRetryAfter(nil)
}

// lawSetRetryAfter: what h asked for is never lowered, and the fields ask for
// nothing more afterwards, both as the reader understands it.
func lawSetRetryAfter(t testing.TB, h http.Header, f Fields) {
	t.Helper()
	now := time.Now()
	before, asked := ParseRetryAfter(h, now)
	f.SetRetryAfter(h)
	after, ok := ParseRetryAfter(h, now.Add(-time.Second)) // a date may be a moment nearer
	require.True(t, ok || !asked)
	require.GreaterOrEqual(t, after, before)
	if wait, ok := f.RetryAfter().Duration(); ok && wait >= 0 {
		most, _ := SecondsOf(MaxInteger).Duration()
		require.GreaterOrEqual(t, after, min(wait, most))
		a := Advice{Fields: f}
		a.follow()
		require.Equal(t, wait, a.Wait, "Advise understands the fields alike")
	}
}
