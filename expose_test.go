package ratelimit

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/trial"
)

func TestExpose(t *testing.T) {
	const expose = "Access-Control-Expose-Headers"
	for _, tc := range []struct {
		name   string
		header http.Header
		want   []string
	}{
		{"nothing", http.Header{}, nil},
		{"other fields", http.Header{"Content-Type": {"a"}, "X-Limit": {"1"}, "Rate": {"1"}}, nil},
		{"the current fields", http.Header{"Ratelimit": {""}, "Ratelimit-Policy": {"", ""}}, []string{"RateLimit, RateLimit-Policy"}},
		{"Retry-After", http.Header{"Retry-After": {"1"}}, []string{"Retry-After"}},
		{"legacy fields", http.Header{"X-Ratelimit-Limit": {"1"}, "Ratelimit-Remaining": {"1"}, "X-Rate-Limit-Reset": {"1"}, "X-Acme-Ratelimited": {"1"}},
			[]string{"Ratelimit-Remaining, X-Rate-Limit-Reset, X-Ratelimit-Limit"}},
		{"a policy without a role", http.Header{"X-Ratelimit-Minute": {"10"}, "X-Ratelimit-Remaining-Minute": {"1"}, "X-Ratelimit-Hour": {"10"}, "X-Ratelimit-Plan": {"gold"}, "X-Ratelimit-Remaining-Plan": {"5"}},
			[]string{"X-Ratelimit-Minute, X-Ratelimit-Remaining-Minute, X-Ratelimit-Remaining-Plan"}},
		{"look-alikes that are not read", trial.Wire("X-RateLimit-Key: 12345\nX-RateLimit-User: alice@example.com\nX-RateLimit-Ip: 192.0.2.1\nX-RateLimit-Token: s\nX-RateLimit-Client-Id: 5\n" +
			"X-RateLimit-Identity: a\nX-RateLimit-Session-Id: 7\nX-RateLimit-Debug: x\nX-RateLimit-Error: e\nX-RateLimit-Enabled: true\nX-RateLimit-Remaining: 5"),
			[]string{"X-Ratelimit-Remaining"}},
		{"fields without the words rate limit", http.Header{"X-Acme-Requests-Remaining": {"1"}, "Retry-After-Ms": {"1"}, "X-Disk-Remaining": {"1"}},
			[]string{"Retry-After-Ms, X-Acme-Requests-Remaining"}},
		{"keys in other spellings", http.Header{"RateLimit": {"1"}, "Ratelimit": {"1"}, "retry-after": {"1"}}, []string{"RateLimit, Retry-After"}},
		{"a key without lines", http.Header{"Ratelimit": {}, "Retry-After": nil}, nil},
		{"keys that are no names", http.Header{"X-Rate\u212aLimit-Ratelimit": {"1"}, "Ratelimit, Set-Cookie": {"1"}, "Trailer:Ratelimit": {"1"}, "Ratelimit\r\n": {"1"}, "Ratelimité": {"1"}}, nil},
		{"existing names are kept", http.Header{"Ratelimit": {"1"}, expose: {"X-Request-Id"}}, []string{"X-Request-Id, RateLimit"}},
		{"a line that is there stays", http.Header{"Ratelimit": {"1"}, expose: {"A ,b", "C"}}, []string{"A ,b", "C, RateLimit"}},
		{"a blank line", http.Header{"Ratelimit": {"1"}, expose: {" "}}, []string{"RateLimit"}},
		{"no line", http.Header{"Ratelimit": {"1"}, expose: {}}, []string{"RateLimit"}},
		{"once each", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"X, ratelimit", "RETRY-AFTER"}}, []string{"X, ratelimit", "RETRY-AFTER"}},
		{"one of them is there", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"ratelimit"}}, []string{"ratelimit, Retry-After"}},
		{"a part of a name", http.Header{"Ratelimit": {"1"}, expose: {"X-RateLimit"}}, []string{"X-RateLimit, RateLimit"}},
		{"a star stays", http.Header{"Ratelimit": {"1"}, expose: {"*"}}, []string{"*, RateLimit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.header.Clone()
			Expose(tc.header)
			got := tc.header[expose]
			if len(tc.want) == 0 {
				require.Equal(t, before, tc.header)
			} else {
				require.Equal(t, tc.want, got)
			}
			Expose(tc.header)
			require.Equal(t, got, tc.header[expose], "twice is as once")
			delete(tc.header, expose)
			delete(before, expose)
			require.Equal(t, before, tc.header)
		})
	}
	for _, d := range writtenDialects { // all written fields are exposed
		f := Fields{
			Policies: []Policy{{Name: "minute", Quota: 10, Window: SecondsOf(60)}},
			Limits:   []Limit{{Name: "minute", Remaining: 5, Reset: SecondsOf(30)}},
		}
		h := http.Header{}
		require.NoError(t, d.Set(h, f, time.Now()))
		n := len(h)
		Expose(h)
		require.Len(t, strings.Split(h.Get(expose), ","), n, d.Name)
	}
	Expose(nil)
	shared := []string{"A"}
	Expose(http.Header{"Ratelimit": {"1"}, expose: shared})
	require.Equal(t, []string{"A"}, shared, "lines may be shared")
}
