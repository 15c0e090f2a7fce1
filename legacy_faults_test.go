package ratelimit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// TestFaultPlaces: where a field is at fault, and why.
func TestFaultPlaces(t *testing.T) {
	for _, tt := range []struct{ name, wire, want string }{
		{"a number that is missing in the Dictionary", "RateLimit: limit=10, reset=",
			"ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a JSON text of a vendor that is cut off", `X-App-Usage: {"call_count":`, "ratelimit: X-App-Usage, line 1, byte 1: not well-formed"},
		{"a Dictionary without a reset", "RateLimit: limit=10", "ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a Dictionary without a limit (draft-07 Section 3)", "RateLimit: remaining=5, reset=1", "ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a policy in no form", "RateLimit-Policy: 5x", "ratelimit: RateLimit-Policy, line 1, byte 1: not well-formed"},
		{"a policy in no form behind one", "RateLimit-Policy: 100;w=60, 5x", "ratelimit: RateLimit-Policy, line 1, byte 10: not well-formed"},
		{"a name in the second line", "X-RateLimit-Name: \nX-RateLimit-Name: caf\u00e9", "ratelimit: X-Ratelimit-Name, line 2, byte 1: not well-formed"},
		{"a current field that cannot be read with lenience either, where the strict parser says, and an older one",
			"RateLimit: \"a\";r=1, \"b\";r=\nX-RateLimit-Limit: x",
			"ratelimit: member 2 of RateLimit, line 1, byte 16: parameter r: not well-formed, it has to be an Integer from 0\n" +
				"ratelimit: X-Ratelimit-Limit, line 1, byte 1: not well-formed"},
		{"a word behind a tab, below a blank line", "X-RateLimit-Reset:\nX-RateLimit-Reset: \tx", "ratelimit: X-Ratelimit-Reset, line 2, byte 2: not well-formed"},
		{"a policy too many", "X-RateLimit-Remaining: " + membersOf(16<<10, "n%d=1;"), "ratelimit: X-Ratelimit-Remaining, line 1, byte 1: too many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseAny(wire(tt.wire), LegacyOptions{})
			require.EqualError(t, err, tt.want)
		})
	}
}

// TestManyPoliciesTwice: of many listed policies each counts once, and that of the
// limit is found among them.
func TestManyPoliciesTwice(t *testing.T) {
	var list []string
	for i := range 3 * manyPolicies {
		list = append(list, fmt.Sprintf("%d;w=60", 100+i))
	}
	all := strings.Join(list, ", ") + ", 110;w=3600, 111;w=60;name=other"
	h := http.Header{"Ratelimit-Policy": {all, all}, "Ratelimit-Limit": {"110"}, "Ratelimit-Remaining": {"9"}}
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, len(list)+3, "one of another window; and twice one of another name")
	p, ok := got.PolicyOf(got.Limits[0])
	require.True(t, ok)
	require.Equal(t, Policy{Name: "default", Quota: 110, Window: SecondsOf(60)}, p)
}

// TestHostileJSON: deep objects, long keys and texts that end early cost nothing
// and are no limits.
func TestHostileJSON(t *testing.T) {
	deep := func(n int, end string) string { return strings.Repeat(`{"a":`, n) + end + strings.Repeat("}", n) }
	for _, h := range []http.Header{
		{"X-App-Usage": {deep(8, `{"call_count":1}`)}},
		{"X-Ratelimit": {deep(100, `{"remaining":1}`)}},
		{"X-Ratelimit": {`{"` + strings.Repeat("limit", text.MaxTime) + `":{}}`}},
		{"X-Ratelimit": {`{"limit":`}},
	} {
		got, _ := ParseAny(h, LegacyOptions{})
		require.Empty(t, got)
	}
	got, _ := ParseAny(http.Header{"X-App-Usage": {deep(7, `{"call_count":1}`)}}, LegacyOptions{})
	require.NotEmpty(t, got, "not as deep")
}
