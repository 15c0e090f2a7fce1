package ratelimit

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// summary writes what a name says: role, policy, unit of a time, unit, family.
func (m *meaning) summary() string {
	kinds := map[nameKind]string{anchorName: "anchor", plainName: "plain", waitName: "wait", recordName: "record", tailName: "tail"}
	roles := [...]string{RoleQuota: "quota", RoleRemaining: "remaining", RoleUsed: "used", RoleReset: "reset", RoleWindow: "window", RoleName: "name", RolePolicies: "policies", roles: ""}
	formats := [...]string{TimeGuess: "", TimeSeconds: "s", TimeMilli: "ms", TimeUnix: "unix", timeFormats: ""}
	words := []string{kinds[m.kind] + roles[m.role]}
	if m.policy != "" {
		words = append(words, "of "+m.policy)
	}
	if m.format != TimeGuess {
		words = append(words, "in "+formats[m.format])
	}
	if m.per > 0 {
		words = append(words, fmt.Sprint("times ", m.per))
	}
	return strings.Join(words, " ")
}

// TestParseKey reads names. An empty meaning is none.
func TestParseKey(t *testing.T) {
	for _, tt := range []struct {
		why  string
		keys string // with spaces between them
		want string
	}{
		{"underscores", "X_RATELIMIT_LIMIT HTTP_X_RATELIMIT_LIMIT HTTP_X_RATE_LIMIT_LIMIT", "quota"},
		{"the usual names", "RateLimit-Limit X-RateLimit-Limit X-Rate-Limit-Limit Rate-Limit-Limit ratelimit-limit X-RATE-LIMIT-LIMIT", "quota"},
		{"synonyms of the quota", "X-RateLimit-Max X-RateLimit-Quota X-RateLimit-Total X-RateLimit-Capacity X-RateLimit-Allowed X-RateLimit-Allotted X-RateLimit-Allowance X-RateLimit-Limits", "quota"},
		{"synonyms of what remains", "RateLimit-Remaining X-RateLimit-Remain X-RateLimit-Left X-RateLimit-Available X-RateLimit-Rem", "remaining"},
		{"synonyms of what is used", "X-RateLimit-Used X-RateLimit-Usage X-RateLimit-Observed X-RateLimit-Count X-RateLimit-Current X-RateLimit-Consumed", "used"},
		{"synonyms of the reset", "RateLimit-Reset X-RateLimit-Resets X-RateLimit-Next X-RateLimit-Clear X-RateLimit-Expiry X-RateLimit-Expires X-RateLimit-Renew X-RateLimit-Refill", "reset"},
		{"synonyms of the window", "X-RateLimit-Window X-RateLimit-Interval X-RateLimit-Period X-RateLimit-Duration", "window"},
		{"synonyms of the name", "RateLimit-Name X-RateLimit-Resource X-RateLimit-Bucket X-RateLimit-Category X-RateLimit-Group X-RateLimit-Scope", "name"},
		{"policies", "RateLimit-Policy X-RateLimit-Policy X-RateLimit-Policies", "policies"},
		{"the anchor alone", "RateLimit X-RateLimit X-Rate-Limit X-RateLimits", "anchor"},
		{"a vendor before the anchor", "Anthropic-RateLimit-Limit X-HubSpot-RateLimit-Limit X-Sentry-Rate-Limit-Limit", "quota"},
		{"any other word before the anchor", "Acme-RateLimit-Limit X-Acme-RateLimit-Limit X-AcmeRateLimit-Limit X-Acme-Rate-Limit-Limit Acme-Rate-Limit-Limit", "quota of acme"},
		{"two words before the anchor", "X-Acme-Api-RateLimit-Limit", "quota of acme-api"},
		{"the role glued to the anchor", "X-RateLimitRemaining RateLimitRemaining", "remaining"},
		{"a policy behind the role", "X-RateLimit-Limit-Minute", "quota of minute"},
		{"a policy before the role", "X-RateLimit-Minute-Limit", "quota of minute"},
		{"a policy of two words", "X-RateLimit-Limit-Requests-Day", "quota of requests-day"},
		{"a policy glued to the role", "X-RateLimit-UserLimit X-RateLimit-userlimit", "quota of user"},
		{"a policy of two letters glued to the role", "X-RateLimit-MyLimit", "quota of my"},
		{"a policy of one letter is none", "X-RateLimit-PLimit", "plain of plimit"},
		{"as many letters of words that are glued", "X-RateLimit-RemainingRequestsPerHour", "remaining of requests-hour"},
		{"a letter more", "X-RateLimit-RemainingRequestsPerHours", "plain of remainingrequestsperhours"},
		{"as many words", "X-RateLimit-Limit-A-B-C-D-E-F-G-H-I-J-K-L-Reset", "reset of limit-a-b-c-d-e-f-g-h-i-j-k-l"},
		{"a word more", "X-RateLimit-Limit-A-B-C-D-E-F-G-H-I-J-K-L-M-Reset", "quota of a-b-c-d-e-f-g-h-i-j-k-l-m-reset"},
		{"a role between two words of the policy", "X-RateLimit-User-Remaining-Day X-RateLimit-Remaining-User-Day X-RateLimit-User-Day-Remaining", "remaining of user-day"},
		{"what remains of a quota, in both orders", "X-RateLimit-Remaining-Quota X-RateLimit-Quota-Remaining", "remaining of quota"},
		{"a label next to a role", "X-Rate-Limit-Api-Key-Max", "quota of api-key"},
		{"words that say nothing", "X-RateLimit-Limit-Per-Minute X-RateLimit-Limit-This-Minute", "quota of minute"},
		{"milliseconds", "X-RateLimit-Ms X-RateLimit-Reset-Ms X-RateLimit-Reset-Milliseconds X-RateLimit-ResetMs X-RateLimit-Ms-Reset", "reset in ms"},
		{"milliseconds, until what remains is restored", "X-RateLimit-Remaining-Ms", "reset in ms"},
		{"seconds", "X-RateLimit-Reset-After X-RateLimit-Reset-In X-RateLimit-Reset-Seconds X-RateLimit-Reset-Sec X-RateLimit-Reset-In-Seconds X-RateLimit-ResetIn X-RateLimit-After", "reset in s"},
		{"minutes", "X-RateLimit-Reset-Minutes X-RateLimit-Minutes", "reset in s times 60"},
		{"hours", "X-RateLimit-Window-Hours", "window in s times 3600"},
		{"a point in time", "X-RateLimit-Reset-At X-RateLimit-Reset-Time X-RateLimit-Reset-Date X-RateLimit-Reset-Timestamp X-RateLimit-ResetTime X-RateLimit-Reset-Unix X-Rate-Limit-Time-Reset", "reset"},
		{"a word for a point in time alone, of which nobody says what it is", "X-RateLimit-Time", "plain of time"},
		{"the window in milliseconds", "X-Rate-Limit-Time-Window-Ms X-RateLimit-Interval-Ms", "window in ms"},
		{"the unit in the middle", "X-RateLimit-Reset-Ms-Search", "reset of search in ms"},
		{"a name without a role", "X-RateLimit-Minute", "plain of minute"},
		{"two roles between other words", "X-RateLimit-Foo-Limit-Reset-Bar", "plain of foo-limit-reset-bar"},
		{"a wait", "X-RateLimit-Retry-After X-RateLimit-RetryAfter X-RateLimit-Retry-After-Seconds X-RateLimit-Retry X-RetryAfter", "wait in s"},
		{"a wait of a vendor", "X-Retry-After X-Retry-In Acme-Retry-After-Seconds", "wait in s"},
		{"a wait in minutes", "X-Retry-After-Minutes", "wait in s times 60"},
		{"a wait without a word for time", "X-Retry Retry Retry-Long", ""},
		{"a wait of a vendor that is of something", "X-Retry-After-Long Acme-Retry-After-Long", ""},
		{"the field for waits itself", "Retry-After retry-after", ""},
		{"windows of a second, glued", "X-RateLimit-RemainingRps X-RateLimitRemainingRps", "remaining of rps"},
		{"a wait in milliseconds", "X-RateLimit-Retry-After-Ms", "wait in ms"},
		{"tokens by size", "X-RateLimitBySize-Limit-Minute", "quota of minute"},
		{"texts", "X-RateLimit-Url X-RateLimit-Docs X-RateLimit-Reason X-RateLimit-Message X-RateLimit-Help-Url", ""},
		{"states", "X-RateLimit-Enabled X-RateLimit-Exceeded X-RateLimit-NearLimit X-RateLimit-OverLimit X-RateLimit-Reached X-RateLimit-Bypass", ""},
		{"states that may be told by a record", "X-RateLimit-Status X-RateLimit-Info X-RateLimit-State X-RateLimit-Details", "record"},
		{"kinds", "X-RateLimit-Type X-RateLimit-Limit-Type X-RateLimit-Plan X-RateLimit-Tier X-RateLimit-Version X-RateLimit-Region", ""},
		{"labels alone", "X-RateLimit-Key X-RateLimit-Ip X-RateLimit-Id X-RateLimit-Rule", ""},
		{"costs of one request", "X-RateLimit-Cost X-RateLimit-Request-Cost X-RateLimit-Increment X-RateLimit-FillRate X-RateLimit-Used-CurrentRequest X-RateLimit-Delay", ""},
		{"parts", "X-RateLimit-Used-Percent X-RateLimit-Utilization", ""},
		{"a quota of time", "X-RateLimit-Limit-Ms X-RateLimit-Used-Seconds", ""},
		{"rates of something else", "Bit-Rate-Limit X-Bit-Rate-Limit-Remaining Frame-RateLimit", ""},
		{"no anchor", "X-Limit-Rate X-Rate X-Limit X-Ratel-Imit X-Rates-Limit X-Corporate-Limits-2 Rateless-Limit", ""},
		{"the anchor within a word", "X-Ratelimited X-Ratelimiter-Limit X-Ratelimit2-Limit X-Unratelimitable X-Ratelimitationsoftheotherkindofwords", ""},
		{"no name of a field", "X-RateLimit-Limit\u00e9", ""},
	} {
		for _, key := range strings.Fields(tt.keys) {
			t.Run(key, func(t *testing.T) {
				got := ""
				if m, ok := parseKey(key); ok {
					got = m.summary()
					require.NotEmpty(t, got)
				}
				require.Equal(t, tt.want, got, tt.why)
			})
		}
	}
}

// TestParseLoose: names without an anchor that may be of a limit, and such as cannot.
func TestParseLoose(t *testing.T) {
	for _, tt := range []struct {
		why  string
		keys string
		want bool
	}{
		{"a role behind a vendor's word", "X-Acme-Limit Acme-Remaining X-Acme-Reset-Ms Acme_Used", true},
		{"a role behind X", "X-Remaining X-Limit", true},
		{"a role alone", "Remaining Limit", false},
		{"a word with other uses, behind what is counted", "X-Calls-Max X-Api-Total X-Daily-Count", true},
		{"a word with other uses, behind any other", "X-Acme-Max X-Acme-Count X-Acme-Window", false},
		{"a label, next to what is counted", "X-User-Calls-Limit", true},
		{"a label", "X-User-Limit X-Request-Id", false},
		{"things in the plural", "X-Boxes-Limit X-BOXES-LIMIT X-Cars-Limit X-Mins-Limit", false},
		{"what only looks like a plural", "X-Bus-Limit X-Sms-Limit X-Address-Limit X-Atlas-Limit X-Lotus-Limit X-Axis-Limit", true},
		{"the plural of what is counted, or a window", "X-Calls-Limit X-Tokens-Limit X-600s-Limit X-Acme-Limits-Remaining", true},
		{"things", "X-Pages-Limit X-Seat-Used", false},
		{"retries", "X-Retry-Limit X-Retry-Remaining", false},
		{"no role", "X-Acme X-Acme-Calls X-Name X-Acme-Policy", false},
		{"no name of a field", "X-Caf\u00e9-Limit", false},
	} {
		for _, key := range strings.Fields(tt.keys) {
			_, ok := parseLoose(key)
			require.Equal(t, tt.want, ok, "%s: %s", tt.why, key)
		}
	}
}

// TestHasAnchor: the quick look finds every anchor that parseKey finds, and
// nothing else but words that hold one.
func TestHasAnchor(t *testing.T) {
	for _, key := range []string{
		"Ratelimit", "ratelimit", "RATELIMIT", "Rate-Limit", "X-Ratelimit", "X-Rate-Limit", "X-Rate-Limits", "Xratelimit",
		"Aratelimit", "Abratelimit", "Abcratelimit", "Abcdratelimit", "Abcderatelimit", "Ratelimit-A", "Ratelimit-Abcde", "Limit-Rate-Limit", "Limitratelimit",
	} {
		require.True(t, hasAnchor(key), key)
		_, ok := parseKey(key + "-Limit")
		require.True(t, ok, key)
	}
	for _, key := range []string{"", "R", "Rate", "Limit", "Rate-Limi", "Rate--Limit", "Rate.Limit", "Rateslimit", "Limit-Rate", "X-Limit", "Corporate-Limit", "X-Bitrate-Limit", "Ate-Limit", "Ratelimi", "Ratelim-It", "Ratesplit"} {
		require.False(t, hasAnchor(key), key)
	}
}

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
		{"other words", "X-RateLimit-Allowed: 10\nX-RateLimit-Available: 9\nX-RateLimit-Expiry: @rfc+60", "x-ratelimit", "default : 9/10 w=- t=60", ""},
		{"capacity and current", "X-RateLimit-Capacity: 10\nX-RateLimit-Current: 4", "x-ratelimit", "default : 6/10 w=- t=-", ""},
		{"the unit in the middle", "X-Rate-Limit-Reset-Ms-Search: 5000\nX-Rate-Limit-Remaining-Search: 9", "x-rate-limit", "search : 9/- w=- t=5", ""},
		{"the anchor is the quota", "X-Acme-RateLimit: 10\nX-Acme-RateLimit-Remaining: 9", "x-acme-ratelimit", "acme : 9/10 w=- t=-", ""},
		{"glued windows", "X-RateLimit-Limit-PerHour: 10\nX-RateLimit-Remaining-PerHour: 9", "x-ratelimit", "perhour : 9/10 w=3600 t=-", ""},
		{"windows behind a word", "X-RateLimit-AppDay-Limit: 10\nX-RateLimit-AppDay-Remaining: 9", "x-ratelimit", "appday : 9/10 w=86400 t=-", ""},
		{"an adverb", "X-RateLimit-Daily-Limit: 10\nX-RateLimit-Daily-Remaining: 9", "x-ratelimit", "daily : 9/10 w=86400 t=-", ""},
		{"a number with a letter", "X-RateLimit-Limit-1m: 10\nX-RateLimit-Remaining-1m: 9", "x-ratelimit", "1m : 9/10 w=60 t=-", ""},
		{"queries per day", "X-RateLimit-Qpd-Limit: 10\nX-RateLimit-Qpd-Remaining: 9", "x-ratelimit", "qpd : 9/10 w=86400 t=-", ""},
		{"a window next to what remains", "X-RateLimit-Remaining: 9\nX-RateLimit-Window: 60s", "x-ratelimit", "default : 9/- w=60 t=-", ""},
		{"a second limit next to the plain one", "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 90\nX-RateLimit-Burst-Limit: 10\nX-RateLimit-Burst-Remaining: 9", "x-ratelimit", "burst : 9/10 w=- t=- | default : 90/100 w=- t=-", ""},
		{"parallel lists", "X-RateLimit-Limit: 1, 15000\nX-RateLimit-Remaining: 0, 14999\nX-RateLimit-Reset: 1, 1800000", "x-ratelimit?", "15000 : 14999/15000 w=- t=1800000 | default : 0/1 w=- t=1", ""},
		{"used of a quota under a name", "X-RateLimit-Minute: 5/60", "x-ratelimit", "minute : 55/60 w=60 t=-", ""},
		{"a quota and its window under a name", "X-RateLimit-Search: 60/1m\nX-RateLimit-Search-Remaining: 5", "x-ratelimit", "search : 5/60 w=60 t=-", ""},
		{"a record", "X-RateLimit-Remaining: minute=5,60;hour=80,1000", "x-ratelimit", "hour : 80/1000 w=3600 t=- | minute : 5/60 w=60 t=-", ""},
		{"JSON", `X-RateLimit: {"limit": 10, "remaining": 9, "resetIn": 5}`, "x-ratelimit", "default : 9/10 w=- t=5", ""},
		{"JSON by name", `X-RateLimit: {"minute": {"limit": 10, "remaining": 9}, "day": {"limit": 100, "remaining": 99}}`, "x-ratelimit", "day : 99/100 w=86400 t=- | minute : 9/10 w=60 t=-", ""},
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
