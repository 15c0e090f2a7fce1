package ratelimit

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var _ fmt.Stringer = LevelMust

const (
	cleanPolicy = `RateLimit-Policy: "default";q=100;w=60`
	cleanLimit  = `RateLimit: "default";r=50;t=30`
	clean       = cleanPolicy + "\n" + cleanLimit
	date        = "Date: Sat, 21 Nov 2026 03:00:00 GMT\n"
)

// lintCase is a response and what is found in it, as "rule level field item".
type lintCase struct {
	name string
	wire string
	want []string
}

var lintCases = []lintCase{
	{"no fields", "Content-Type: text/plain", nil},
	{"older fields alone", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 5\nX-RateLimit-Reset: 30", nil},
	{"clean", clean, nil},
	{"clean, everything", "HTTP/1.1 429 Too Many Requests\nRetry-After: 30\nCache-Control: no-store, max-age=60\n" +
		`RateLimit-Policy: "burst";q=100;qu="requests";w=60;pk=:3q2+7w==:;acme-burst=10, "bytes";q=5;qu="content-bytes", "slots";q=5;qu="concurrent-requests";w=60` + "\n" +
		`RateLimit: "burst";r=0;t=30, "bytes";r=5, "slots";r=5;t=0;acme_x`, nil},
	{"clean, the keys of one policy", `RateLimit-Policy: "a";q=1;pk=:YQ==:, "a";q=1;pk=:Yg==:, "a";q=1, "a";q=1;pk=::` + "\n" +
		`RateLimit: "a";r=1;pk=:YQ==:, "a";r=1;pk=:Yg==:, "a";r=1, "a";r=1;pk=::`, nil},

	{"D8, the next draft", "RateLimit-Policy: d;q=100;w=0\nRateLimit: d;a=50;w=30", []string{"D8 note RateLimit -1"}},
	{"D8, members of both kinds", `RateLimit: "d";a=50, "e";r=1`, []string{"D8 note RateLimit -1"}},
	{"D8, and the form of Retry-After is no matter of the draft", "Retry-After: soon\nRateLimit: d;a=0;w=30", []string{"D8 note RateLimit -1", "9110-10.2.3 must Retry-After -1"}},
	{"P11, a beside r, which is not the next draft", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;a=50`, []string{"P11 should RateLimit 0"}},
	{"L2, a that is malformed, which is not the next draft", `RateLimit: "d";a=x`, []string{"L2 must RateLimit 0"}},
	{"P1, no member", "RateLimit-Policy:\n" + `RateLimit: "a";r=1`, []string{"P1 must RateLimit-Policy -1"}},
	{"P1, not a List", `RateLimit-Policy: "a";q=1,`, []string{"P1 must RateLimit-Policy 1"}},
	{"P1, too many members", "RateLimit-Policy: " + strings.Repeat(`"a";q=1, `, maxMembers) + `"a";q=1`, []string{"P1 must RateLimit-Policy 1024"}},
	{"P2, a Token", "RateLimit-Policy: default;q=100;w=60\n" + cleanLimit, []string{"P2 must RateLimit-Policy 0"}},
	{"P2, an Integer, as in draft-06", "RateLimit-Policy: 100;w=60", []string{"P2 must RateLimit-Policy 0"}},
	{"P2, an empty name", `RateLimit-Policy: "";q=1` + "\n" + `RateLimit: "";r=1`, []string{"P2 should RateLimit-Policy 0", "L1 should RateLimit 0"}},
	{"P6, no q", `RateLimit-Policy: "a";w=60`, []string{"P6 must RateLimit-Policy 0"}},
	{"P11, an extension without prefix", `RateLimit-Policy: "default";q=100;w=60;acme=10;other="x"` + "\n" + cleanLimit, []string{"P11 should RateLimit-Policy 0"}},
	{"P11, and nothing of comments of the drafts", `RateLimit-Policy: "default";q=100;w=60;burst=10;comment="x"` + "\n" + cleanLimit, nil},
	{"P11, and nothing of a prefix of one letter", `RateLimit-Policy: "default";q=100;w=60;a-burst=10` + "\n" + cleanLimit, nil},
	{"P11, w in place of t", cleanPolicy + "\n" + `RateLimit: "default";r=50;w=30`, []string{"P11 note RateLimit 0"}},
	{"P11, q on a limit", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;q=100`, []string{"P11 note RateLimit 0"}},
	{"P11, qu on a limit", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;qu="requests"`, []string{"P11 note RateLimit 0"}},
	{"P11, t in place of w", `RateLimit-Policy: "default";q=100;t=60` + "\n" + cleanLimit, []string{"P11 note RateLimit-Policy 0"}},
	{"P11, r on a policy", `RateLimit-Policy: "default";q=100;w=60;r=50` + "\n" + cleanLimit, []string{"P11 note RateLimit-Policy 0"}},
	{"P11, both parameters of the other field and one without prefix", `RateLimit-Policy: "a";q=1, "default";q=100;w=60;acme=1;r=50;t=30` + "\n" + cleanLimit,
		[]string{"P11 should RateLimit-Policy 1", "P11 note RateLimit-Policy 1"}},
	{"P7, an empty unit", `RateLimit-Policy: "default";q=100;w=60, "b";q=1;qu=""` + "\n" + cleanLimit, []string{"P7 should RateLimit-Policy 1"}},
	{"P7, a unit that looks empty in a name", `RateLimit-Policy: "default";q=100;w=60;acme-x="qu=\"\""` + "\n" + cleanLimit, nil},
	{"P7, an empty unit that a later one replaces", `RateLimit-Policy: "default";q=100;w=60;qu="";qu="requests"` + "\n" + cleanLimit, nil},
	{"P13, q is a Decimal", `RateLimit-Policy: "a";q=1.5`, []string{"P13 must RateLimit-Policy 0"}},
	{"P13, q is negative", `RateLimit-Policy: "a";q=-1`, []string{"P13 must RateLimit-Policy 0"}},
	{"P14, qu is a Token", `RateLimit-Policy: "a";q=1;qu=requests`, []string{"P14 must RateLimit-Policy 0"}},
	{"P15, an unregistered unit", `RateLimit-Policy: "default";q=100;w=60;qu="points"` + "\n" + cleanLimit, []string{"P15 should RateLimit-Policy 0"}},
	{"P15, tokens, a unit in use", `RateLimit-Policy: "default";q=100;w=60;qu="tokens"` + "\n" + cleanLimit, []string{"P15 note RateLimit-Policy 0"}},
	{"P15, cost, a unit in use", `RateLimit-Policy: "default";q=100;w=60;qu="cost"` + "\n" + cleanLimit, []string{"P15 note RateLimit-Policy 0"}},
	{"P15, percent, a unit in use", `RateLimit-Policy: "default";q=100;w=60;qu="percent"` + "\n" + cleanLimit, []string{"P15 note RateLimit-Policy 0"}},
	{"P15, the alias request", `RateLimit-Policy: "default";q=100;w=60;qu="request"` + "\n" + cleanLimit, []string{"P15 should RateLimit-Policy 0"}},
	{"P16, w is 0", `RateLimit-Policy: "a";q=1;w=0`, []string{"P16 must RateLimit-Policy 0"}},
	{"P16, w is a Decimal", `RateLimit-Policy: "a";q=1, "b";q=1;w=0.5`, []string{"P16 must RateLimit-Policy 1"}},
	{"P17, pk is a String", `RateLimit-Policy: "a";q=1;pk="x"`, []string{"P17 must RateLimit-Policy 0"}},
	{"P18, the same policy twice", `RateLimit-Policy: "default";q=100;w=60, "default";q=200;w=60` + "\n" + cleanLimit,
		[]string{"P18 should RateLimit-Policy 1"}},
	{"P18, the same limit twice", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30, "default";r=40;t=30`, []string{"P18 should RateLimit 1"}},
	{"P18, one key of both", `RateLimit-Policy: "a";q=1;pk=:YQ==:` + "\n" + `RateLimit: "a";r=1;pk=:YQ==:, "a";r=1;pk=:YQ==:`, []string{"P18 should RateLimit 1"}},

	{"L1, no member", cleanPolicy + "\nRateLimit: ", []string{"L1 must RateLimit -1"}},
	{"L1, a number", cleanPolicy + "\nRateLimit: 100", []string{"L1 must RateLimit 0"}},
	{"L1, a Dictionary, as in draft-07", cleanPolicy + "\nRateLimit: limit=2, remaining=1, reset=60", []string{"L1 must RateLimit 0"}},
	{"L1, not a List", cleanPolicy + "\n" + `RateLimit: "a";r=1;;`, []string{"L1 must RateLimit 0"}},
	{"L1, sixteen digits", cleanPolicy + "\n" + `RateLimit: "a";r=1234567890123456`, []string{"L1 must RateLimit 0"}},
	{"L1, too many parameters", `RateLimit: "a";r=1` + strings.Repeat(";r=1", maxWritten), []string{"L1 must RateLimit 0"}},
	{"L1, and nothing of a limit alone, which is legal", `RateLimit: "a";r=1;t=1`, nil},
	{"L1, another policy", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30, "b";r=1;t=1`, []string{"L1 note RateLimit 1"}},
	{"9110-10.2.3, a fraction", "Retry-After: 1.5", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, a timestamp", "Retry-After: 2026-11-21T03:00:30Z", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, the zone UTC", "Retry-After: Sat, 21 Nov 2026 03:00:30 UTC", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, a word", "Retry-After: soon", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, nothing", "Retry-After:", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, two lines", "Retry-After: 1\nRetry-After: 1", []string{"9110-10.2.3 must Retry-After -1"}},
	{"9110-10.2.3, seconds", "Retry-After: 1", nil},
	{"9110-10.2.3, an HTTP-date", "Retry-After: Sat, 21 Nov 2026 03:00:30 GMT", nil},
	{"9110-10.2.3, a leap second", "Retry-After: Sat, 21 Nov 2026 23:59:60 GMT", nil},
	{"9110-10.2.3, an HTTP-date of RFC 850", "Retry-After: Saturday, 21-Nov-26 03:00:30 GMT", nil},
	{"P2, and nothing of L1, as the policies are not known", "RateLimit-Policy: x\n" + cleanLimit, []string{"P2 must RateLimit-Policy 0"}},
	{"L2, no r", `RateLimit: "a";t=5`, []string{"L2 must RateLimit 0"}},
	{"L5, r is a Decimal", `RateLimit: "a";r=1.0`, []string{"L5 must RateLimit 0"}},
	{"L5, r is negative", `RateLimit: "a";r=-1`, []string{"L5 must RateLimit 0"}},
	{"L5, more than the quota", `RateLimit-Policy: "a";q=10` + "\n" + `RateLimit: "a";r=11;t=30`, []string{"L5 note RateLimit 0"}},
	{"L7, t is a String", `RateLimit: "a";r=1;t="1"`, []string{"L7 must RateLimit 0"}},
	{"L7, t is negative", `RateLimit: "a";r=1;t=-1`, []string{"L7 must RateLimit 0"}},
	{"L7, and nothing of a jitter", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=660`, nil},
	{"L7, ten windows", `RateLimit-Policy: "default";q=100;w=100` + "\n" + `RateLimit: "default";r=50;t=1000`, []string{"L7 note RateLimit 0"}},
	{"L7, less than ten windows", `RateLimit-Policy: "default";q=100;w=100` + "\n" + `RateLimit: "default";r=50;t=999`, nil},
	{"L7, ten windows and ten minutes", `RateLimit-Policy: "default";q=100;w=1` + "\n" + `RateLimit: "default";r=50;t=601`, nil},
	{"L7, ten windows and more than ten minutes", `RateLimit-Policy: "default";q=100;w=1` + "\n" + `RateLimit: "default";r=50;t=602`, []string{"L7 note RateLimit 0"}},
	{"L7, a Unix time", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=1795230000`, []string{"L7 note RateLimit 0"}},
	{"L7, a Unix time without a policy", `RateLimit: "a";r=1;t=1795230030`, []string{"L7 note RateLimit 0"}},
	{"L7, a Unix time of another policy", cleanPolicy + "\n" + `RateLimit: "a";r=1;t=1795230030`, []string{"L1 note RateLimit 0", "L7 note RateLimit 0"}},
	{"L7, a Unix time without a window", `RateLimit-Policy: "a";q=10` + "\n" + `RateLimit: "a";r=1;t=1000000000`, []string{"L7 note RateLimit 0"}},
	{"L7, the longest reset that is none without a window", `RateLimit-Policy: "a";q=10` + "\n" + `RateLimit: "a";r=1;t=999999999`, nil},
	{"L7, more than a Unix time in a window as long", `RateLimit-Policy: "a";q=10;w=1000000000` + "\n" + `RateLimit: "a";r=1;t=1000000000`, nil},
	{"L10, pk is a String", `RateLimit: "a";r=1;pk="x"`, []string{"L10 must RateLimit 0"}},

	{"S2, and nothing of 304", "HTTP/1.1 304 Not Modified\n" + clean, nil},
	{"S2, a redirection", "HTTP/1.1 302 Found\n" + clean, []string{"S2 should RateLimit-Policy -1", "S2 should RateLimit -1"}},
	{"S3, Retry-After is earlier", "Retry-After: 29\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, []string{"S3 should Retry-After -1"}},
	{"S3, Retry-After is the same", "Retry-After: 30\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, nil},
	{"9110-10.2.3, two lines, of which the first is late enough", "Retry-After: 30\nRetry-After: 5\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, []string{"9110-10.2.3 must Retry-After -1"}},
	{"S3, behind a malformed line", "Retry-After: soon\nRetry-After: 5\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, []string{"9110-10.2.3 must Retry-After -1", "S3 should Retry-After -1"}},
	{"9110-10.2.3, a malformed line before one that is late enough", "Retry-After: soon\nRetry-After: 30\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, []string{"9110-10.2.3 must Retry-After -1"}},
	{"S3, the window without a reset", "Retry-After: 59\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0`, []string{"S3 should Retry-After -1"}},
	{"S3, something remains", "Retry-After: 20\n" + clean, nil},
	{"S3, a date is earlier", date + "Retry-After: Sat, 21 Nov 2026 03:00:29 GMT\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`,
		[]string{"S3 should Retry-After -1"}},
	{"S3, a date is the same", date + "Retry-After: Sat, 21 Nov 2026 03:00:30 GMT\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, nil},
	{"S3, a date without Date", "Retry-After: Sat, 21 Nov 2026 03:00:29 GMT\n" + cleanPolicy + "\n" + `RateLimit: "default";r=0;t=30`, nil},
	{"S5, the bad example of Section 8.5", `RateLimit-Policy: "somepolicy";q=10000;w=1000` + "\n" + `RateLimit: "somepolicy";r=10000;t=10`, []string{"S5 note RateLimit 0"}},
	{"S5, ten times the rate", `RateLimit-Policy: "default";q=100;w=100` + "\n" + `RateLimit: "default";r=50;t=5`, nil},
	{"S5, more than ten times the rate", `RateLimit-Policy: "default";q=100;w=100` + "\n" + `RateLimit: "default";r=51;t=5`, []string{"S5 note RateLimit 0"}},
	{"S5, within no time", cleanPolicy + "\n" + `RateLimit: "default";r=1;t=0`, []string{"S5 note RateLimit 0"}},
	{"S5, a shorter window forbids it", `RateLimit-Policy: "daily";q=1000;w=86400, "burst";q=10;w=1` + "\n" + `RateLimit: "daily";r=1000;t=60`, nil},
	{"S5, a shorter window allows it", `RateLimit-Policy: "daily";q=1000;w=86400, "burst";q=20;w=1` + "\n" + `RateLimit: "daily";r=1000;t=60`, []string{"S5 note RateLimit 0"}},
	{"S5, a shorter window that comes first forbids it", `RateLimit-Policy: "burst";q=10;w=1, "daily";q=1000;w=86400` + "\n" + `RateLimit: "daily";r=1000;t=60`, nil},
	{"S5, six shorter windows forbid it", `RateLimit-Policy: "daily";q=1000;w=86400, "burst";q=100;w=10` + "\n" + `RateLimit: "daily";r=601;t=60`, nil},
	{"S5, the first of two shortest windows counts", `RateLimit-Policy: "burst";q=10;w=1, "other";q=20;w=1, "daily";q=1000;w=86400` + "\n" + `RateLimit: "daily";r=1000;t=60`, nil},
	{"S5, a policy without a window is not shorter", `RateLimit-Policy: "burst";q=10, "daily";q=1000;w=86400` + "\n" + `RateLimit: "daily";r=1000;t=60`, []string{"S5 note RateLimit 0"}},
	{"S5, a sixth window that has begun allows it", `RateLimit-Policy: "daily";q=1000;w=86400, "burst";q=100;w=10` + "\n" + `RateLimit: "daily";r=600;t=51`, []string{"S5 note RateLimit 0"}},
	{"S5, a shorter window of another unit", `RateLimit-Policy: "daily";q=1000;w=86400, "burst";q=10;w=1;qu="content-bytes"` + "\n" + `RateLimit: "daily";r=1000;t=60`,
		[]string{"S5 note RateLimit 0"}},
	{"S5, a longer window", `RateLimit-Policy: "daily";q=10;w=86400, "burst";q=1000;w=100` + "\n" + `RateLimit: "burst";r=1000;t=1`, []string{"S5 note RateLimit 0"}},
	{"S5, large numbers", `RateLimit-Policy: "a";q=999999999999999;w=999999999999999` + "\n" + `RateLimit: "a";r=999999999999999;t=99999999999999`,
		[]string{"S5 note RateLimit 0"}},
	{"S5, large numbers that are equal", `RateLimit-Policy: "a";q=999999999999999;w=999999999999999` + "\n" + `RateLimit: "a";r=999999999999999;t=999999999999999`, nil},
	{"S9, an IPv4 address", `RateLimit-Policy: "default";q=100;w=60;pk=:MTkyLjAuMi4x:` + "\n" + cleanLimit, []string{"S9 should RateLimit-Policy 0"}},
	{"S9, an IPv6 address", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;pk=:MjAwMTpkYjg6OjE=:`, []string{"S9 should RateLimit 0"}},
	{"S9, an address with port", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;pk=:MTkyLjAuMi4xOjgw:`, []string{"S9 should RateLimit 0"}},
	{"S9, a network", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;pk=:MTkyLjAuMi4wLzI0:`, []string{"S9 should RateLimit 0"}},
	{"S9, an e-mail address", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;pk=:bWVAbWFpbC5leGFtcGxl:`, []string{"S9 should RateLimit 0"}},
	{"S9, an @ that is no address", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=30;pk=:QGE=:`, nil},
	{"S11, and nothing is said of a policy, as in the drafts", `RateLimit-Policy: "default";q=100;w=60, "b";q=1` + "\n" + cleanLimit, nil},
	{"S11, and a policy alone", cleanPolicy, nil},

	{"K1, may be stored", "Cache-Control: Public, max-age=\"60\"\n" + clean, []string{"K1 note RateLimit-Policy -1", "K1 note RateLimit -1"}},
	{"K1, may be stored by shared caches", "Cache-Control: s-maxage=5\n" + cleanLimit, []string{"K1 note RateLimit -1"}},
	{"K1, public", "Cache-Control: public\n" + cleanPolicy, []string{"K1 note RateLimit-Policy -1"}},
	{"K1, expires", date + "Expires: Sat, 21 Nov 2026 03:01:00 GMT\n" + clean, []string{"K1 note RateLimit-Policy -1", "K1 note RateLimit -1"}},
	{"K1, has expired", date + "Expires: Sat, 21 Nov 2026 03:00:00 GMT\n" + clean, nil},
	{"K1, expires never", "Expires: 0\n" + clean, nil},
	{"K1, max-age before Expires", date + "Cache-Control: max-age=0\nExpires: Sat, 21 Nov 2026 03:01:00 GMT\n" + clean, nil},
	{"K1, a max-age that is negative", "Cache-Control: max-age=-60\n" + clean, nil},
	{"K1, a max-age that is no number", "Cache-Control: max-age=x\n" + clean, nil},
	{"K1, a max-age with a unit", "Cache-Control: max-age=60s\n" + clean, nil},
	{"K1, a max-age that is a lone quote", "Cache-Control: max-age=\"\n" + clean, nil},
	{"K1, a max-age of 0 before Expires", date + "Cache-Control: max-age=x\nExpires: Sat, 21 Nov 2026 03:01:00 GMT\n" + clean, nil},
	{"K1, Expires without Date", "Expires: Sat, 21 Nov 2026 03:01:00 GMT\n" + clean, nil},
	{"K1, no-cache", "Cache-Control: max-age=60\nCache-Control: no-cache\n" + clean, nil},
	{"K1, may be stored without fields", "Cache-Control: max-age=60", nil},
	{"K1, from a cache", "Age: 5\n" + clean, []string{"K1 note RateLimit-Policy -1", "K1 note RateLimit -1"}},

	{"6-5, the same", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 31", nil},
	{"6-5, a second less", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 29", nil},
	{"6-5, two seconds less", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 28", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, two seconds more", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 32", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, minutes, rounded up", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=61` + "\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset-Minutes: 2", nil},
	{"6-5, minutes, rounded down", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=119` + "\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset-Minutes: 1", nil},
	{"6-5, a minute and a second more", cleanPolicy + "\n" + `RateLimit: "default";r=50;t=59` + "\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 2m", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, no t to compare", cleanPolicy + "\n" + `RateLimit: "default";r=50` + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 5", nil},
	{"6-5, an older date that is past", date + clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1795229990", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, the same as the second", cleanPolicy + ", \"b\";q=7;w=60\n" + cleanLimit + ", \"b\";r=3;t=30\nX-RateLimit-Limit: 7\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 30", nil},
	{"6-5, the reset of another limit, later", cleanPolicy + ", \"b\";q=7;w=60\n" + cleanLimit + ", \"b\";r=3;t=10\nX-RateLimit-Limit: 7\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 30", nil},
	{"6-5, the reset of no limit, later", cleanPolicy + ", \"b\";q=7;w=60\n" + cleanLimit + ", \"b\";r=3;t=10\nX-RateLimit-Limit: 7\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 50", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, the reset of another limit, earlier", cleanPolicy + ", \"b\";q=7;w=60\n" + cleanLimit + ", \"b\";r=3;t=50\nX-RateLimit-Limit: 7\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 30", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, what remains", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 49\nX-RateLimit-Reset: 30", []string{"6-5 should X-Ratelimit-Remaining -1"}},
	{"6-5, the reset", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 60", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, the quota", clean + "\nX-RateLimit-Limit: 99\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", []string{"6-5 should X-Ratelimit-Limit -1"}},
	{"6-5, the quota alone", clean + "\nX-RateLimit-Limit: 99", []string{"6-5 should X-Ratelimit-Limit -1"}},
	{"6-5, the quota alone beside a policy alone", cleanPolicy + "\nX-RateLimit-Limit: 99", []string{"6-5 should X-Ratelimit-Limit -1"}},
	{"6-5, the quota alone is that of a policy", cleanPolicy + ", \"b\";q=7\nX-RateLimit-Limit: 7", nil},
	{"6-5, nothing of what remains beside a policy alone", cleanPolicy + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 9", nil},
	{"6-5, a second quota in a field of policies", clean + "\nX-RateLimit-Limit: 100, 100;w=60, 99;w=1", []string{"6-5 should X-Ratelimit-Limit -1"}},
	{"6-5, two quotas in one field are one finding", clean + "\nX-RateLimit-Limit: 100, 98;w=60, 99;w=1", []string{"6-5 should X-Ratelimit-Limit -1"}},
	{"6-5, what remains by the units that are used", clean + "\nX-RateLimit-Used: 60/100", []string{"6-5 should X-Ratelimit-Used -1"}},
	{"6-5, and nothing of the quota where none is known", cleanLimit + "\nX-RateLimit-Limit: 99\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", nil},
	{"6-5, an absolute reset that is the same", date + clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1795230030", nil},
	{"6-5, an absolute reset", date + clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1795230060", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"K1, and nothing of 6-5, an absolute reset that is the same", date + "Age: 5\n" + clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1795230030",
		[]string{"K1 note RateLimit-Policy -1", "K1 note RateLimit -1"}},
	{"6-5, a reset of 0 without Date", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 0", []string{"6-5 should X-Ratelimit-Reset -1"}},
	{"6-5, a date without Date", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 2026-11-21T03:01:00Z", nil},
	{"6-5, an absolute reset without Date", clean + "\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1795230060", nil},
	{"6-5, the policy is in the name", clean + "\nX-RateLimit-Remaining-Default: 49\nX-RateLimit-Reset-Default: 30s", []string{"6-5 should X-Ratelimit-Remaining-Default -1"}},
	{"6-5, another policy is in the name of a field before it", clean + "\nX-RateLimit-Remaining-Abc: 50\nX-RateLimit-Remaining-Default: 49", []string{"6-5 should X-Ratelimit-Remaining-Default -1"}},
	{"6-5, two families, of which the first is named", clean + "\nRateLimit-Limit: 100\nRateLimit-Remaining: 49\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 49", []string{"6-5 should Ratelimit-Remaining -1"}},
	{"6-5, the policy is in the name, and the same", clean + "\nX-RateLimit-Remaining-Default: 50\nX-RateLimit-Reset-Default: 30s", nil},
	{"6-5, the triple of draft-06", clean + "\nRateLimit-Limit: 100\nRateLimit-Remaining: 1\nRateLimit-Reset: 30", []string{"6-5 should Ratelimit-Remaining -1"}},
}

// summary returns a finding without its message.
func (f Finding) summary() string {
	return fmt.Sprintf("%s %v %s %d", f.Rule, f.Level, f.Field, f.Item)
}

func summaries(findings []Finding) (list []string) {
	for _, f := range findings {
		list = append(list, f.summary())
	}
	return list
}

// lawFinding checks the form that all findings have.
func lawFinding(t testing.TB, f Finding) {
	t.Helper()
	require.Regexp(t, `^([PLSKD][0-9]+|6-5|6-8|6-9|9110-10.2.3|6585-4)$`, f.Rule)
	require.Contains(t, []Level{LevelMust, LevelShould, LevelNote}, f.Level)
	require.NotEmpty(t, f.Field, f.Rule)
	require.GreaterOrEqual(t, f.Item, -1)
	require.LessOrEqual(t, f.Item, maxMembers)
	require.Regexp(t, regexp.MustCompile(`^(line \d+, byte \d+: )?[a-z][^\n]{20,}$`), f.Message)
	require.NotContains(t, f.Message, "  ")
}

func TestCheck(t *testing.T) {
	for _, tc := range lintCases {
		t.Run(tc.name, func(t *testing.T) {
			findings := Check(responseOf(tc.wire))
			require.Equal(t, tc.want, summaries(findings))
			for _, f := range findings {
				lawFinding(t, f)
			}
			if tc.want != nil {
				rule, _, _ := strings.Cut(tc.name, ",")
				require.Contains(t, strings.Join(tc.want, "\n")+"\n", rule+" ")
			}
		})
	}
}

// Whatever the older fields of a vendor are called, a finding about them names one.
func TestCheckOlderFields(t *testing.T) {
	named := 0
	for _, tt := range readCases(t) {
		h := wire(strings.Join(tt.Headers, "\n"))
		keys := slices.Collect(maps.Keys(h))
		h[policyKey], h[limitKey] = []string{`"of no vendor";q=123456789;w=60`}, []string{`"of no vendor";r=123456789`}
		for _, f := range Check(&http.Response{Header: h}) {
			if f.Rule == "6-5" {
				require.Contains(t, keys, f.Field, "%s, %s", tt.Vendor, tt.Case)
				named++
			}
		}
	}
	require.Greater(t, named, 200)
}

func TestCheckTrailers(t *testing.T) {
	resp := responseOf(clean)
	resp.Trailer = http.Header{"Ratelimit": nil, "ratelimit-policy": {"x"}, "Expires": nil}
	require.Equal(t, []string{"P12 must RateLimit-Policy -1", "L4 must RateLimit -1"}, summaries(Check(resp)))
	require.Nil(t, resp.Trailer["Ratelimit"])
}

func TestCheckHandMade(t *testing.T) {
	require.Nil(t, Check(nil))
	require.Nil(t, Check(&http.Response{}))
	require.Nil(t, Check(&http.Response{Header: http.Header{"Ratelimit": nil}}))
	require.Nil(t, Check(&http.Response{Header: http.Header{"RateLimit": {"malformed"}}}), "a key that is not canonical")
	posted := responseOf("Cache-Control: max-age=60\n" + clean)
	posted.Request = &http.Request{Method: http.MethodPost}
	require.Nil(t, Check(posted), "the answer to a POST is seldom stored")
	for _, method := range []string{"", http.MethodGet, http.MethodHead} {
		posted.Request.Method = method
		require.Len(t, Check(posted), 2, method)
	}
}

func TestPersonal(t *testing.T) {
	long := strings.Repeat("a", 250) + "@b.c"
	for key, want := range map[string]bool{
		"": false, "user 1": false, "192.0.2.1": true, "192.0.2.1:80": true, "192.0.2.0/24": true, "2001:db8::1": true, "[2001:db8::1]:80": true,
		"192.0.2": false, "me@mail.example": true, "@mail.example": false, "me@mail": false, "me@.example": false, "me": false, "m e@mail.example": false, " me@mail.example": false,
		"me@mail.example\n": false, "m\x7f@mail.example": false, "mé@mail.example": false, long: true, "a" + long: false, "~@mail.example": true,
	} {
		require.Equal(t, want, personal([]byte(key)), "%q", key)
	}
	require.False(t, personal(nil))
	for key, want := range map[string]bool{"a-b": true, "a_b": true, "a.b": true, "ab": false, "-a": false} {
		require.Equal(t, want, prefixed(key), key)
	}
}

// Messages say where, and never what the field said.
func TestCheckMessages(t *testing.T) {
	for wire, want := range map[string]string{
		`RateLimit-Policy: "secret";q=1` + "\n" + `RateLimit-Policy: secret;q=1`: "line 2, byte 1: write the name in double quotes, or strict clients ignore the whole field",
		`RateLimit-Policy: "secret";w=1`:                                         "line 1, byte 1: add the parameter q, without which strict clients ignore the whole field",
		`RateLimit: "secret";r="secret"`:                                         "line 1, byte 12: write the parameter r as an Integer from 0, or strict clients ignore the whole field",
		`RateLimit: limit=2, remaining=1, reset=60`:                              "line 1, byte 6: this is the form of draft-07: write an item for each policy, its name in double quotes, and what remains as r",
		`RateLimit-Policy: limit=2, w=60`:                                        "line 1, byte 6: write what RFC 9651 allows here, or strict clients ignore the whole field",
		`RateLimit: secret secret`:                                               "line 1, byte 8: write what RFC 9651 allows here, or strict clients ignore the whole field",
		`RateLimit: 100`:                                                         "line 1, byte 1: write the name in double quotes, or strict clients ignore the whole field",
		`RateLimit-Policy: 2;w=60`:                                               "line 1, byte 1: this is the form of drafts 04 to 07: write a name in double quotes, and the quota as q",
		`RateLimit-Policy: "a";q=1, 2;w=60`:                                      "line 1, byte 10: this is the form of drafts 04 to 07: write a name in double quotes, and the quota as q",
		`RateLimit: "secret";r=1;w=2`:                                            "w belongs to RateLimit-Policy, and clients ignore it here",
		`RateLimit-Policy: "secret";q=1;t=2`:                                     "t belongs to RateLimit, and clients ignore it here",
		`RateLimit: "secret";r=1;secret=secret=`:                                 "line 1, byte 27: write what RFC 9651 allows here, or strict clients ignore the whole field",
	} {
		findings := Check(responseOf(wire))
		require.NotEmpty(t, findings)
		require.Equal(t, want, findings[0].Message, wire)
	}
	for _, tc := range lintCases {
		for _, f := range Check(responseOf(strings.ReplaceAll(tc.wire, "default", "secret"))) {
			require.NotContains(t, f.Message, "secret")
		}
	}
}

// Every rule of the table has a response that breaks it, and CONFORMANCE.md has a
// row for each, and for no other.
func TestCheckRules(t *testing.T) {
	shown := map[rule]bool{}
	note := func(findings []Finding) {
		for _, f := range findings {
			_, message, placed := strings.Cut(f.Message, ": ")
			if !placed || !strings.HasPrefix(f.Message, "line ") {
				message = f.Message
			}
			shown[rule{f.Rule, f.Level, message}] = true
		}
	}
	for _, tc := range lintCases {
		note(Check(responseOf(tc.wire)))
	}
	resp := responseOf(clean)
	resp.Trailer = http.Header{policyKey: nil, limitKey: nil}
	note(Check(resp))

	var want []string
	for _, r := range rules {
		ids := map[string]bool{}
		form := strings.Replace(regexp.QuoteMeta(r.message), "%s", ".*", 1)
		for s := range shown {
			if s.level == r.level && regexp.MustCompile("^"+form+"$").MatchString(s.message) {
				ids[s.id] = true
			}
		}
		require.NotEmpty(t, ids, "nothing breaks %q", r.message)
		if r.id != "" {
			require.Equal(t, map[string]bool{r.id: true}, ids)
		}
		list := slices.SortedFunc(maps.Keys(ids), func(a, b string) int {
			return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		want = append(want, fmt.Sprintf("| %s | %v | %s |", strings.Join(list, ", "), r.level, strings.Replace(r.message, "%s", "…", 1)))
	}
	checkSection(t, "CONFORMANCE.md", "rules", "| Rules | Level | What to do |\n|---|---|---|\n"+strings.Join(want, "\n")+"\n")
}

// Captured responses have no finding above LevelNote, except for the faults that
// are named here.
func TestCheckWire(t *testing.T) {
	faults := map[string]string{ // the reasons, by the beginning of the file's name
		"express-draft-8-unescaped": "it does not escape the name of a policy",
		"hono-draft-6":              "Integer policies of draft-06",
		"hono-draft-7":              "Integer policies of draft-06, and the Dictionary of draft-07",
		"hono-draft-8":              "asked for draft-08, it sends draft-06",
	}
	files, err := filepath.Glob("testdata/wire/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		t.Run(name, func(t *testing.T) {
			findings := Check(readCapture(t, file))
			for _, f := range findings {
				lawFinding(t, f)
			}
			serious := slices.ContainsFunc(findings, func(f Finding) bool { return f.Level > LevelNote })
			require.Equal(t, faults[name[:strings.LastIndex(name, "-")]] != "", serious, "%v", findings)
		})
	}
}

func TestLevelString(t *testing.T) {
	require.True(t, LevelNote < LevelShould && LevelShould < LevelMust, "levels rise")
	for level, want := range map[Level]string{LevelMust: "must", LevelShould: "should", LevelNote: "note", 9: "note"} {
		require.Equal(t, want, level.String())
	}
}

// draftExamples are the examples of the drafts in force, with the findings that
// are meant: the last three are shown there as mistakes, or were mended since.
var draftExamples = []lintCase{
	{"Section 3", `RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400`, nil},
	{"Section 3.2", `RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600`, nil},
	{"Section 3.2, a partition key", `RateLimit-Policy: "peruser";q=100;w=60;pk=:cHsdsRa894==:`, nil},
	{"Section 3.2, a unit", `RateLimit-Policy: "peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:`, nil},
	{"Section 4", `RateLimit: "default";r=50;t=30`, nil},
	{"Section 4.2, no window", `RateLimit: "default";r=999;pk=:dHJpYWwxMjEzMjM=:`, nil},
	{"Section 4.2, bytes", `RateLimit: "default";r=300000000;t=60;pk=:QXBwLTk5OQ==:`, nil},
	{"Section 6", "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "problemPolicy";r=0;t=10`, nil},
	{"Section 7", `RateLimit: "default";r=1;t=7`, nil},
	{"Appendix B.1", "HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json\nDate: Mon, 05 Aug 2019 09:27:00 GMT\n" +
		"Retry-After: Mon, 05 Aug 2019 09:27:05 GMT\n" + `RateLimit: "default";r=0;t=5`, nil},
	{"Appendix B.2.1", `RateLimit-Policy: "default";q=100;w=60` + "\n" + `RateLimit: "default";r=99;t=50`, nil},
	{"Appendix B.2.2", `RateLimit-Policy: "hour";q=1000;w=3600, "day";q=5000;w=86400` + "\n" + `RateLimit: "day";r=100;t=36000`, nil},
	{"Appendix B.3", "Retry-After: 20\n" + `RateLimit-Policy: "default";q=100;w=60` + "\n" + `RateLimit: "default";r=15;t=40`, nil},
	{"Appendix C, question 8", `RateLimit:"default";r=50;t=60`, nil},
	{"Appendix C, question 8, comments", `RateLimit-Policy: "sliding";q=100;w=60;burst=1000` + "\n" + `RateLimit-Policy: "fixed";q=5000;w=3600;burst=0` + "\n" +
		`RateLimit: "sliding";r=50;t=44`, nil},
	{"Section 8.5, values that expose a server", `RateLimit-Policy: "somepolicy";q=10000;w=1000` + "\n" + `RateLimit: "somepolicy";r=10000;t=10`, []string{"S5 note RateLimit 0"}},
	{"draft-08, a survey", `RateLimit: "sliding";q=12;r=6;t=1`, []string{"P11 note RateLimit 0"}},
	{"draft-08, a unit by another name", `RateLimit-Policy: "peruser";q=65535;qu="bytes";w=10;pk=:sdfjLJUOUH==:`, []string{"P15 should RateLimit-Policy 0"}},
}

func TestCheckDrafts(t *testing.T) {
	for _, tc := range draftExamples {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, summaries(Check(responseOf(tc.wire)))) })
	}
}

// shownFields matches a line of a document, of a comment, or of an http.Header in
// Go, that shows a field. Its groups are the name and the value.
var shownFields = regexp.MustCompile(`^\s*(?://\s*)?"?(Rate[Ll]imit-Policy|Rate[Ll]imit|Retry-After)"?: *(.*)$`)

// shownResponses returns the responses that a document shows: the fields on lines
// that follow each other.
func shownResponses(t testing.TB, file string) (responses []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var block []string
	for l := range strings.Lines(string(text) + "\n\n") {
		m := shownFields.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m == nil {
			if len(block) > 0 {
				responses = append(responses, strings.Join(block, "\n"))
			}
			block = nil
			continue
		}
		value := []string{m[2]}
		if strings.HasPrefix(m[2], "{") { // Go
			value = nil
			for _, quoted := range regexp.MustCompile("`[^`]*`|\"[^\"]*\"").FindAllString(m[2], -1) {
				value = append(value, quoted[1:len(quoted)-1])
			}
		}
		for _, v := range value {
			block = append(block, m[1]+": "+v)
		}
	}
	return responses
}

// The fields that the documents and the examples of this package show break no
// rule, but for those that are shown because they do.
func TestCheckDocuments(t *testing.T) {
	meant := map[string]string{
		"example_test.go: P2 must RateLimit-Policy 0":      "the form of draft-06, which Parse refuses",
		"example_client_test.go: S3 should Retry-After -1": "a Retry-After that is too early, which Check finds",
	}
	least := map[string]int{"README.md": 1, "doc.go": 1, "examples/server/README.md": 1, "examples/gateway/README.md": 1}
	files := []string{"README.md", "doc.go"}
	for _, pattern := range []string{"example*_test.go", "examples/*/README.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, more...)
	}
	shown, seen := 0, map[string]bool{}
	for _, file := range files {
		responses := shownResponses(t, file)
		require.GreaterOrEqual(t, len(responses), least[file], file)
		for _, r := range responses {
			shown++
			for _, found := range summaries(Check(responseOf(r))) {
				found = file + ": " + found
				require.NotEmpty(t, meant[found], "%s\n%s", found, r)
				seen[found] = true
			}
		}
	}
	require.Len(t, seen, len(meant), "no longer shown: %v", seen)
	require.Greater(t, shown, 15)
}
