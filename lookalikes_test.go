package ratelimit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGenerality reads spellings of which no vendor is known: what is told by the
// grammar, and not by a list.
func TestGenerality(t *testing.T) {
	runLegacy(t, []legacyCase{
		{"a prefix", "Acme-RateLimit-Limit: 10\nAcme-RateLimit-Remaining: 9\nAcme-RateLimit-Reset-In: 5", "acme-ratelimit", "acme : 9/10 w=- t=5", ""},
		{"a prefix behind X", "X-Acme-RateLimit-Limit: 10\nX-Acme-RateLimit-Remaining: 9", "x-acme-ratelimit", "acme : 9/10 w=- t=-", ""},
		{"a prefix that is glued", "X-AcmeRateLimit-Limit: 10\nX-AcmeRateLimit-Remaining: 9", "x-acmeratelimit", "acme : 9/10 w=- t=-", ""},
		{"two words for the anchor, without X", "Rate-Limit-Limit: 10\nRate-Limit-Remaining: 9\nRate-Limit-Reset: @unix+60", "rate-limit", "default : 9/10 w=- t=60", ""},
		{"no anchor", "X-Acme-Limit: 10\nX-Acme-Remaining: 9\nX-Acme-Reset: @http+60", "x-acme", "acme : 9/10 w=- t=60", ""},
		{"no anchor and no vendor", "X-Requests-Remaining: 9\nX-Requests-Used: 1", "x-requests", "requests : 9/10 w=- t=-", ""},
		{"no anchor, and words for the unit of the reset", "Acme-Quota-Remaining: 9\nAcme-Quota-Resets-In: 5", "acme-quota", "acme : 9/- w=- t=5", ""},
		{"other words", "X-RateLimit-Limit: 10\nX-RateLimit-Available: 9\nX-RateLimit-Expiry: @rfc+60", "x-ratelimit", "default : 9/10 w=- t=60", ""},
		{"capacity and current", "X-RateLimit-Capacity: 10\nX-RateLimit-Current: 4", "x-ratelimit", "default : 6/10 w=- t=-", ""},
		{"the unit in the middle", "X-Rate-Limit-Reset-Ms-Search: 5000\nX-Rate-Limit-Remaining-Search: 9", "x-rate-limit", "search : 9/- w=- t=5", ""},
		{"the anchor is the quota", "X-Acme-RateLimit: 10\nX-Acme-RateLimit-Remaining: 9", "x-acme-ratelimit", "acme : 9/10 w=- t=-", ""},
		{"glued windows", "X-RateLimit-Limit-PerHour: 10\nX-RateLimit-Remaining-PerHour: 9", "x-ratelimit", "perhour : 9/10 w=3600 t=-", ""},
		{"windows behind a word", "X-RateLimit-AppDay-Limit: 10\nX-RateLimit-AppDay-Remaining: 9", "x-ratelimit", "appday : 9/10 w=86400 t=-", ""},
		{"an adverb", "X-RateLimit-Daily-Limit: 10\nX-RateLimit-Daily-Remaining: 9", "x-ratelimit", "daily : 9/10 w=86400 t=-", ""},
		{"a number with a letter", "X-RateLimit-Limit-1m: 10\nX-RateLimit-Remaining-1m: 9", "x-ratelimit", "1m : 9/10 w=60 t=-", ""},
		{"a window next to what remains", "X-RateLimit-Remaining: 9\nX-RateLimit-Window: 60s", "x-ratelimit", "default : 9/- w=60 t=-", ""},
		{"a second limit next to the plain one", "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 90\nX-RateLimit-Burst-Limit: 10\nX-RateLimit-Burst-Remaining: 9", "x-ratelimit", "burst : 9/10 w=- t=- | default : 90/100 w=- t=-", ""},
		{"parallel lists", "X-RateLimit-Limit: 1, 15000\nX-RateLimit-Remaining: 0, 14999\nX-RateLimit-Reset: 1, 1800000", "x-ratelimit?", "15000 : 14999/15000 w=- t=1800000 | default : 0/1 w=- t=1", ""},
		{"used of a quota under a name", "X-RateLimit-Minute: 5/60", "x-ratelimit", "minute : 55/60 w=60 t=-", ""},
		{"a quota and its window under a name", "X-RateLimit-Search: 60/1m\nX-RateLimit-Search-Remaining: 5", "x-ratelimit", "search : 5/60 w=60 t=-", ""},
		{"a record", "X-RateLimit-Remaining: minute=5;hour=80", "x-ratelimit", "hour : 80/- w=3600 t=- | minute : 5/- w=60 t=-", ""},
		{"JSON", `X-RateLimit: {"limit": 10, "remaining": 9, "resetIn": 5}`, "x-ratelimit", "default : 9/10 w=- t=5", ""},
	})
}

// A lookalike is fields that say nothing about limits: each name with each value,
// or whole sets.
type lookalike struct {
	Why    string
	Names  []string
	Values []string
	Sets   [][]string
}

// sets returns the sets of fields.
func (l *lookalike) sets() [][]string {
	sets := slices.Clone(l.Sets)
	for _, name := range l.Names {
		for _, value := range l.Values {
			sets = append(sets, []string{name + ": " + value})
		}
	}
	return sets
}

func readLookalikes(t testing.TB) []lookalike {
	t.Helper()
	b, err := os.ReadFile("testdata/lookalikes.json")
	require.NoError(t, err)
	var list []lookalike
	require.NoError(t, json.Unmarshal(b, &list))
	return list
}

// TestLookalikes: nothing is read of ordinary fields, and nothing is their fault.
func TestLookalikes(t *testing.T) {
	n := 0
	for _, group := range readLookalikes(t) {
		t.Run(group.Why, func(t *testing.T) {
			for _, set := range group.sets() {
				n++
				h := wire(strings.Join(set, "\n"))
				got, err := ParseAny(h, LegacyOptions{Now: late})
				if len(got.Limits)+len(got.Policies) > 0 || err != nil {
					t.Errorf("%q %v %v", set, got, err)
					continue
				}
				require.NoError(t, err, "%q", set)
				d, asked := ParseRetryAfter(h, late)
				require.False(t, asked, "%q, %v", set, d)
			}
		})
	}
	require.GreaterOrEqual(t, n, 300)
	t.Logf("%d sets of fields", n)
}
