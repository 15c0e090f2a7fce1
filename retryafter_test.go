package ratelimit

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

const longest = time.Duration(math.MaxInt64)

// retryAfterCases are headers of responses, and how long they ask to wait.
var retryAfterCases = []struct {
	name string
	wire string
	want time.Duration
	ok   bool
}{
	{"absent", "", 0, false},
	{"blank", "Retry-After:", 0, false},
	{"seconds", "Retry-After: 120", 2 * time.Minute, true},
	{"zero", "Retry-After: 0", 0, true},
	{"white space", "Retry-After: \t 7 \t", 7 * time.Second, true},
	{"leading zeros", "Retry-After: 0030", 30 * time.Second, true},
	{"a decimal", "Retry-After: 1.25", 1250 * time.Millisecond, true},
	{"a decimal is rounded up to a nanosecond", "Retry-After: 0.0000000000001", 1, true},
	{"a decimal of zeros", "Retry-After: 3.000", 3 * time.Second, true},
	{"the longest that fits", "Retry-After: 9223372036", 9223372036 * time.Second, true},
	{"the first that does not", "Retry-After: 9223372037", longest, true},
	{"no int64 holds it", "Retry-After: " + strings.Repeat("9", 400), longest, true},
	{"the second 60 of a day", "Retry-After: Sat, 21 Nov 2026 23:59:60 GMT", 21 * time.Hour, true},
	{"the second 60, RFC 850", "Retry-After: Saturday, 21-Nov-26 23:59:60 GMT", 21 * time.Hour, true},
	{"the second 60, asctime", "Retry-After: Sat Nov 21 23:59:60 2026", 21 * time.Hour, true},
	{"the second 61", "Retry-After: Sat, 21 Nov 2026 23:59:61 GMT", 0, false},
	{"RFC 850 in another zone, whose offset nobody knows", "Retry-After: Saturday, 21-Nov-26 03:00:30 PST", 0, false},
	{"negative", "Retry-After: -1", 0, false},
	{"a sign", "Retry-After: +1", 0, false},
	{"a unit", "Retry-After: 30s", 0, false},
	{"two numbers", "Retry-After: 1, 2", 0, false},
	{"a word", "Retry-After: soon", 0, false},
	{"hexadecimal", "Retry-After: 0x10", 0, false},
	{"IMF-fixdate", "Retry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"RFC 850", "Retry-After: Saturday, 21-Nov-26 03:00:30 GMT", 30 * time.Second, true},
	{"RFC 850, two digits that are 44 years ahead", "Retry-After: Friday, 21-Nov-70 03:00:00 GMT", 1388534400 * time.Second, true},
	{"RFC 850, two digits that are 50 years ahead", "Retry-After: Saturday, 21-Nov-76 03:00:00 GMT", 1577923200 * time.Second, true},
	{"RFC 850, two digits that would be more than 50 years ahead", "Retry-After: Sunday, 21-Nov-76 03:00:01 GMT", 0, true},
	{"RFC 850, two digits that would be 51 years ahead", "Retry-After: Monday, 21-Nov-77 03:00:00 GMT", 0, true},
	{"RFC 850, the last year of a century", "Retry-After: Friday, 31-Dec-99 23:59:59 GMT", 0, true},
	{"asctime", "Retry-After: Sat Nov 21 03:00:30 2026", 30 * time.Second, true},
	{"zone UTC", "Retry-After: Sat, 21 Nov 2026 03:00:30 UTC", 30 * time.Second, true},
	{"RFC 3339", "Retry-After: 2026-11-21T03:00:30Z", 30 * time.Second, true},
	{"RFC 3339 with offset and fraction", "Retry-After: 2026-11-21T04:00:30.5+01:00", 30*time.Second + 500*time.Millisecond, true},
	{"past", "Retry-After: Sat, 21 Nov 2026 02:59:59 GMT", 0, true},
	{"the year 9999", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", longest, true},
	{"the year 1", "Retry-After: Mon, 01 Jan 0001 00:00:00 GMT", 0, true},
	{"no such day", "Retry-After: Sat, 31 Nov 2026 03:00:30 GMT", 0, false},
	{"too long for a date", "Retry-After: Sat, 21 Nov 2026 03:00:30 GMT" + strings.Repeat(" (", 60) + "x", 0, false},
	{"a fraction of more digits than a date may have", "Retry-After: Sat Nov 21 03:00:30." + strings.Repeat("0", text.MaxTime) + " 2026", 0, false},
	{"IMF-fixdate without its comma", "Retry-After: Sat; 21 Nov 2026 03:00:30 GMT", 0, false},
	{"milliseconds in another field", "Retry-After-Ms: 1500", 1500 * time.Millisecond, true},
	{"a part of a millisecond in another field", "Retry-After-Ms: 0.5", 500 * time.Microsecond, true},
	{"milliseconds since the epoch in another field", "X-Retry-After: 1795230030000", 30 * time.Second, true},
	{"relative to Date", "Date: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: Sat, 21 Nov 2026 02:00:30 GMT", 30 * time.Second, true},
	{"Date that cannot be read", "Date: today\nRetry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"Date of an old response", "Age: 3600\nDate: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"the first member of Age counts, and is positive", "Age: 5, 0\nDate: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"the first member of Age counts, and is 0", "Age: 0, 5\nDate: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: Sat, 21 Nov 2026 02:00:30 GMT", 30 * time.Second, true},
	{"Date is a day off", "Date: Fri, 20 Nov 2026 03:00:00 GMT\nRetry-After: Fri, 20 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"Date is more than a day off", "Date: Fri, 20 Nov 2026 02:59:59 GMT\nRetry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"Date is more than a day ahead", "Date: Sun, 22 Nov 2026 03:00:01 GMT\nRetry-After: Sat, 21 Nov 2026 03:00:30 GMT", 30 * time.Second, true},
	{"Age is 0", "Age: 0\nDate: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: Sat, 21 Nov 2026 02:00:30 GMT", 30 * time.Second, true},
	{"Date makes no difference to seconds", "Date: Sat, 21 Nov 2026 02:00:00 GMT\nRetry-After: 30", 30 * time.Second, true},
	{"the first of two lines", "Retry-After: 10\nRetry-After: 20", 10 * time.Second, true},
	{"the first that can be read", "Retry-After: soon\nRetry-After:\nRetry-After: 20\nRetry-After: 30", 20 * time.Second, true},
	{"in its place, in seconds", "X-Retry-After: 20", 20 * time.Second, true},
	{"in its place, in milliseconds", "Acme-Retry-After-Ms: 1500", 1500 * time.Millisecond, true},
	{"in its place, the longest", "Acme-Retry-After-Ms: 1500\nX-Retry-After: 3\nAcme-Retry-In: 2", 3 * time.Second, true},
}

func TestParseRetryAfter(t *testing.T) {
	for _, tc := range retryAfterCases {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := ParseRetryAfter(wire(tc.wire), arrival)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, got)
		})
	}
	_, ok := ParseRetryAfter(nil, time.Time{})
	require.False(t, ok)
}

// In virtual time it is midnight UTC on 1 January 2000.
func TestSetRetryAfter(t *testing.T) {
	const date = "Sat, 01 Jan 2000 00:00:00 GMT"
	for _, tc := range []struct {
		name     string
		header   http.Header
		policies string
		limits   string
		want     []string
	}{
		{"nothing remaining", http.Header{}, "", `"a";r=0;t=30`, []string{"30"}},
		{"the longest of those", http.Header{}, "", `"a";r=0;t=30, "b";r=0;t=40, "c";r=0;t=35, "d";r=1;t=90`, []string{"40"}},
		{"a reset of 0", http.Header{}, "", `"a";r=0;t=0`, []string{"0"}},
		{"the largest Integer", http.Header{}, "", `"a";r=0;t=999999999999999`, []string{"999999999999999"}},
		{"something remaining", http.Header{}, "", `"a";r=1;t=30`, nil},
		{"something remaining of a quota of 0", http.Header{}, `"a";q=0`, `"a";r=1;t=30`, []string{"30"}},
		{"unknown", http.Header{}, "", `"a";r=unknown;t=30`, nil},
		{"no reset, and no policy", http.Header{}, "", `"a";r=0`, nil},
		{"no reset, and no window", http.Header{}, `"a";q=1`, `"a";r=0`, nil},
		{"the window stands in for a reset", http.Header{}, `"burst";q=10;w=10, "daily";q=10;w=300`, `"burst";r=0;t=5, "daily";r=0`, []string{"300"}},
		{"the window of a limit with something remaining does not", http.Header{}, `"burst";q=10;w=10, "daily";q=10;w=300`, `"burst";r=0;t=5, "daily";r=1`, []string{"5"}},
		{"the window beside a reset does not", http.Header{}, `"a";q=10;w=300`, `"a";r=0;t=5`, []string{"5"}},
		{"one with a reset", http.Header{}, "", `"a";r=0, "b";r=0;t=5`, []string{"5"}},
		{"no limits", http.Header{}, `"a";q=10;w=300`, ``, nil},
		{"nothing to say", http.Header{"Retry-After": {"soon"}}, "", `"a";r=1;t=30`, []string{"soon"}},

		{"an earlier one", http.Header{"Retry-After": {"29"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"the same", http.Header{"Retry-After": {"030"}}, "", `"a";r=0;t=30`, []string{"030"}},
		{"a later one", http.Header{"Retry-After": {" 31 "}}, "", `"a";r=0;t=30`, []string{" 31 "}},
		{"a later one with a fraction", http.Header{"Retry-After": {"100.5"}}, "", `"a";r=0;t=30`, []string{"100.5"}},
		{"a later one above", http.Header{"Retry-After": {"31", "1"}}, "", `"a";r=0;t=30`, []string{"31"}},
		{"a later one below", http.Header{"Retry-After": {"1", "31"}}, "", `"a";r=0;t=30`, []string{"31"}},
		{"all earlier", http.Header{"Retry-After": {"29", "1", "x"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"beyond int64", http.Header{"Retry-After": {"99999999999999999999"}}, "", `"a";r=0;t=30`, []string{"99999999999999999999"}},
		{"malformed", http.Header{"Retry-After": {"-40"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"malformed, too large", http.Header{"Retry-After": {"99999999999999999999s"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"blank", http.Header{"Retry-After": {""}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"a later one in another field", http.Header{"X-Retry-After": {"40"}}, "", `"a";r=0;t=30`, []string{"40"}},
		{"an earlier one in another field", http.Header{"X-Retry-After": {"20"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"malformed, and a later one in another field", http.Header{"Retry-After": {"soon"}, "X-Retry-After": {"40"}}, "", `"a";r=0;t=30`, []string{"40"}},
		{"earlier, and a later one in another field, which nobody reads", http.Header{"Retry-After": {"5"}, "X-Retry-After": {"40"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"an earlier date", http.Header{"Date": {date}, "Retry-After": {"Sat, 01 Jan 2000 00:00:29 GMT"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"a later date", http.Header{"Date": {date}, "Retry-After": {"Sat, 01 Jan 2000 00:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"Sat, 01 Jan 2000 00:00:31 GMT"}},
		{"a later date of RFC 850", http.Header{"Date": {date}, "Retry-After": {"Saturday, 01-Jan-00 00:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"Saturday, 01-Jan-00 00:00:31 GMT"}},
		{"a past date", http.Header{"Date": {date}, "Retry-After": {"Fri, 31 Dec 1999 23:00:00 GMT"}}, "", `"a";r=0;t=0`, []string{"Fri, 31 Dec 1999 23:00:00 GMT"}},
		{"a date counts from Date", http.Header{"Date": {"Fri, 31 Dec 1999 23:00:00 GMT"}, "Retry-After": {"Fri, 31 Dec 1999 23:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"Fri, 31 Dec 1999 23:00:31 GMT"}},
		{"a date counts from now in a response from a cache", http.Header{"Age": {"5"}, "Date": {"Fri, 31 Dec 1999 23:00:00 GMT"}, "Retry-After": {"Fri, 31 Dec 1999 23:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"a later date without Date", http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"Sat, 01 Jan 2000 00:00:31 GMT"}},
		{"an earlier date without Date", http.Header{"Retry-After": {date}}, "", `"a";r=0;t=30`, []string{"30"}},
		{"a later date with a malformed Date", http.Header{"Date": {"today"}, "Retry-After": {"Sat, 01 Jan 2000 00:00:31 GMT"}}, "", `"a";r=0;t=30`, []string{"Sat, 01 Jan 2000 00:00:31 GMT"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fieldsOf(t, tc.policies, tc.limits)
				f.SetRetryAfter(tc.header)
				require.Equal(t, tc.want, tc.header["Retry-After"])
				lawSetRetryAfter(t, tc.header, f)
				require.Equal(t, tc.want, tc.header["Retry-After"], "twice is as once")
			})
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
