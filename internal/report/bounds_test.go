package report

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A comma within a String does not end a member.
func TestMemberAt(t *testing.T) {
	lines := []string{`"a, b";q=1, "c\", d";q=2,`, `  "e\\", \f, "g"`, `\"h, i", j`}
	for item, want := range []string{`0 0 "a, b"`, `0 12 "c\", d"`, `1 2 "e\\"`, `1 9 \f`, `1 13 "g"`, `2 0 \"h, i"`, `2 9 j`, `3 0 `} {
		line, offset := memberAt(lines, item)
		begins := ""
		if line < len(lines) {
			begins = lines[line][offset:]
		}
		require.True(t, strings.HasPrefix(fmt.Sprintf("%d %d %s", line, offset, begins), want), "%d: %d %d", item, line, offset)
	}
}

// Limits and their times are described in words.
func TestTexts(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for name, test := range map[string]struct {
		limit     Limit
		left      string
		filled    string // of 10
		exhausted bool
	}{
		"nothing":        {Limit{}, "-", "0 false", false},
		"no quota":       {Limit{Remaining: number(7)}, "7 left", "0 false", false},
		"a quota alone":  {Limit{Quota: number(7)}, "quota 7", "0 false", false},
		"whole":          {Limit{Remaining: number(7), Quota: number(7)}, "7 of 7", "10 true", false},
		"more":           {Limit{Remaining: number(9), Quota: number(7)}, "9 of 7", "10 true", false},
		"nearly whole":   {Limit{Remaining: number(99), Quota: number(100)}, "99 of 100", "9 true", false},
		"a fifth":        {Limit{Remaining: number(1), Quota: number(5)}, "1 of 5", "2 true", false},
		"low":            {Limit{Remaining: number(1), Quota: number(6)}, "1 of 6", "1 true", false},
		"exhausted":      {Limit{Remaining: number(0), Quota: number(7)}, "0 of 7", "0 true", true},
		"nothing of any": {Limit{Remaining: number(0)}, "0 left", "0 false", true},
		"nothing at all": {Limit{Remaining: number(0), Quota: number(0)}, "0 of 0", "0 true", true},
	} {
		n, ok := test.limit.Filled(10)
		require.Equal(t, test.left, test.limit.Left(), name)
		require.Equal(t, test.filled, fmt.Sprint(n, ok), name)
		require.Equal(t, test.exhausted, test.limit.Exhausted(), name)
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 1234567 * time.Microsecond: "1.235s", 59_999 * time.Millisecond: "59.999s",
		time.Minute - time.Microsecond: "1m", 90*time.Second + time.Millisecond: "1m30s", 49 * time.Hour: "2d1h",
	} {
		require.Equal(t, want, duration(d))
	}
	require.Equal(t, []string{"-", "requests", "tokens"}, []string{Limit{}.UnitName(), Limit{Quota: number(1)}.UnitName(), Limit{Quota: number(1), Unit: "tokens"}.UnitName()})
	require.Equal(t, "-", Limit{}.Key())
	require.Equal(t, "0s", Readable(0))
	require.Equal(t, ":aw==:", Limit{PartitionKey: []byte("k")}.Key())
	require.Equal(t, "? ~?", Printable("\x1f ~\x7f"))
}

// An ellipsis replaces cut text. The offset never points at it.
func TestExcerpt(t *testing.T) {
	for offset, want := range map[int]string{0: "012345678... 0", 6: "012345678... 6", 7: "...456789... 6", 12: "...9abcdefgh 6", 17: "...9abcdefgh 11"} {
		text, column := Excerpt("0123456789abcdefgh", offset, 12)
		require.Equal(t, want, fmt.Sprint(text, " ", column))
	}
	text, column := Excerpt("0123456789ab", 11, 12)
	require.Equal(t, "0123456789ab 11", fmt.Sprint(text, " ", column))
}

// The advice is a sentence with its reason, below a heading.
func TestAdvice(t *testing.T) {
	const current = ", current form (draft-08 to draft-11)"
	for name, test := range map[string]struct{ text, heading, want string }{
		"nothing":      {"HTTP/1.1 200 OK\nServer: x", "200 OK", ""},
		"a reset":      {"HTTP/1.1 200 OK\nRateLimit: \"a\";r=0;t=5", "200 OK" + current, `Wait 5s (RateLimit "a" is exhausted).`},
		"no wait":      {"HTTP/1.1 200 OK\nRateLimit: \"a\";r=0;t=0", "200 OK" + current, ""},
		"refused":      {"HTTP/1.1 429 x\nRateLimit: \"a\";r=0;t=0", "429 x" + current, `Refused. The server asks for no wait (RateLimit "a" is exhausted).`},
		"refused only": {"HTTP/1.1 429 x", "429 x", "Refused. The server names no time: back off, and double the wait each time."},
		"no reset":     {"HTTP/1.1 200 OK\nRateLimit: \"b\";r=9;t=9, \"a\";r=0", "200 OK" + current, "Nothing remains, and the server names no time."},
		"a window":     {"RateLimit-Policy: \"a\";q=5;w=60\nRateLimit: \"a\";r=0", "no status line" + current, `Wait 1m (RateLimit "a" is exhausted, for its window).`},
		"a pace":       {"RateLimit: \"a\";r=50000;t=50", "no status line" + current, `Go on. To make the quota last, leave 0.001s between requests.`},
		"no pace":      {"RateLimit: \"a\";r=50001;t=50", "no status line" + current, ""},
		"the slowest":  {"RateLimit: \"a\";r=5;t=10, \"b\";r=5;t=60, \"c\";r=5;t=60", "no status line" + current, `Go on. To make the quota last, leave 12s between requests.`},
		"a century":    {"RateLimit: \"a\";r=0;t=3153600001", "no status line" + current, `Wait more than a century (RateLimit "a" is exhausted).`},
		"not quite":    {"RateLimit: \"a\";r=0;t=3153600000", "no status line" + current, `Wait 36500d (RateLimit "a" is exhausted).`},
		"Retry-After":  {"HTTP/1.1 503 x\nRetry-After: 5", "503 x", "Refused. Wait 5s (Retry-After)."},
		"a date":       {"HTTP/1.1 429 x\nDate: Sat, 21 Nov 2026 01:06:19 GMT\nRetry-After: 41", "429 x", "Refused. Wait 41s, until 2026-11-21 01:07 UTC (Retry-After)."},
		"longer":       {"HTTP/1.1 429 x\nRetry-After: 3600", "429 x", "Refused. Wait 1h (Retry-After)."},
		"unreadable":   {"HTTP/1.1 429 x\nRetry-After: soon\nRateLimit: \"a\";r=20;t=7", "429 x" + current, "Refused. The server names no time: back off, and double the wait each time."},
		"at once":      {"HTTP/1.1 429 x\nRetry-After: 0", "429 x", "Refused. The server asks for no wait (Retry-After)."},
		"perhaps":      {"HTTP/1.1 429 x\nX-RateLimit-Reset-After: 30", "429 x, older form: x-ratelimit", `Refused. Wait 30s (x-ratelimit "default" may have refused).`},
		"by bytes":     {"RateLimit-Policy: \"b\";q=9;qu=\"content-bytes\"\nRateLimit: \"b\";r=1;t=900, \"a\";r=20;t=30", "no status line" + current, "Go on. To make the quota last, leave 1.5s between requests."},
		"a long name":  {"RateLimit: \"\\\"" + strings.Repeat("n", 99) + "\";r=0;t=1", "no status line" + current, `Wait 1s (RateLimit "\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn... is exhausted).`},
		"from a cache": {"Age: 5\nRateLimit: \"a\";r=0;t=30", "no status line" + current, ""},
		"older":        {"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 7", "no status line, older form: x-ratelimit", `Wait 7s (x-ratelimit "default" is exhausted).`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readText("paste", test.text)
			require.NoError(t, err)
			require.Equal(t, test.heading, r.Heading())
			require.Equal(t, test.want, r.Advice.String())
		})
	}
	require.Equal(t, "-", Seconds(nil))
}

// If a vendor's row defines a field, the report names the vendor.
func TestVendors(t *testing.T) {
	for text, want := range map[string][]string{
		"RateLimit-Limit: 60\nRateLimit-Name: t\nRateLimit-Observed: 1": {"Fields of gitlab are known by their names."},
		"RateLimit-Limit: 60\nRateLimit-Observed: 1":                    nil,
		"X-Rl: 4\nX-Ttl: 9\nX-Recharge-Limit: 3/40":                     {"Fields of ip-api, recharge are known by their names."},
		"RateLimit: \"a\";r=5\nX-Recharge-Limit: 3/40":                  nil,
	} {
		r, err := readText("paste", text)
		require.NoError(t, err)
		require.Equal(t, want, r.Notes(), text)
	}
}

// If clients ignore Retry-After, the report contains the reason.
func TestRetryAfterIgnored(t *testing.T) {
	const note = ": after a success it counts only next to well-formed RateLimit fields, or if nothing remains."
	for text, want := range map[string]string{
		"HTTP/1.1 200 OK\nRetry-After: 9": "Retry-After is ignored (9s)" + note,
		"HTTP/1.1 202 Accepted\nDate: Sat, 28 Nov 2026 14:16:29 GMT\nRetry-After: Sat, 28 Nov 2026 14:26:29 GMT": "Retry-After is ignored (10m)" + note,
		"HTTP/1.1 200 OK\nRetry-After: 9\n" + xLines:                                                             "Retry-After is ignored (9s)" + note,
		"HTTP/1.1 200 OK\nRetry-After: 9\nX-RateLimit-Remaining: 0":                                              "",
		"HTTP/1.1 200 OK\nRetry-After: 9\n" + limitLine:                                                          "",
		"HTTP/1.1 200 OK\nRetry-After: 0":                                                                        "",
		"HTTP/1.1 200 OK\nRetry-After: soon":                                                                     "",
		"HTTP/1.1 302 Found\nRetry-After: 9":                                                                     "",
		"HTTP/1.1 429 x\nRetry-After: 9":                                                                         "",
		"Retry-After: 9":                                                                                         "",
	} {
		r, err := readText("paste", text)
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(r.Notes(), "|"), text)
		require.False(t, want != "" && r.Advice.Asked > 0, text)
	}
}

// A header of 400 KB has a thousand policies that differ only in their last parameter, and each
// limit breaks a rule. Its limits and its faults take only a few times its memory.
func TestManyMembers(t *testing.T) {
	const members = 1000
	var policies, limits []string
	keys := ""
	for i := range 50 {
		keys += fmt.Sprintf(";x-%d", i)
	}
	for i := range members {
		policies, limits = append(policies, fmt.Sprintf(`"a";q=9%s;x-n=%d`, keys, i)), append(limits, `"a";r=9;y`)
	}
	r, err := readText("paste", "RateLimit-Policy: "+strings.Join(policies, ",")+"\nRateLimit: "+strings.Join(limits, ","))
	require.NoError(t, err)
	r.Check()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	joined, faults := LimitsOf(r.Fields), r.Faults()
	runtime.ReadMemStats(&after)
	require.Len(t, joined, 2*members-1)
	require.Greater(t, len(faults), members)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}
