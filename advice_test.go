package ratelimit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var _ fmt.Stringer = SourceNone

// adviseCase is a response and what it asks for. Name says the rule of
// CONFORMANCE.md.
type adviseCase struct {
	name   string
	wire   string
	want   Advice // without Limit and Fields; Asked is Wait where it is 0
	limit  string // its name
	fields Fields // not compared if it is the zero Fields and said is true
	said   bool   // whether the response said anything
}

const minute = time.Minute

var adviseCases = []adviseCase{
	{name: "C2, no fields", wire: "Content-Type: text/plain"},
	{name: "C2, a policy without a limit", wire: `RateLimit-Policy: "a";q=10;w=60`, said: true},
	{name: "C3, malformed RateLimit, the policy is kept",
		wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=`,
		said: true, fields: Fields{Policies: []Policy{{Name: "a", Quota: 10, Window: SecondsOf(60)}}, Dialect: "ratelimit"}},
	{name: "C3, malformed RateLimit, Retry-After is kept",
		wire: "Retry-After: 5\n" + `RateLimit: "a";r=`,
		want: Advice{Wait: 5 * time.Second, Source: SourceRetryAfter}},
	{name: "C3, malformed RateLimit-Policy, the limit is kept",
		wire: `RateLimit-Policy: "a";q=` + "\n" + `RateLimit: "a";r=0;t=7`,
		want: Advice{Wait: 7 * time.Second, Source: SourceLimit}, limit: "a",
		said: true, fields: Fields{Limits: []Limit{{Name: "a", Reset: SecondsOf(7)}}, Dialect: "ratelimit"}},
	{name: "C3, malformed Retry-After, the limit is kept",
		wire: "Retry-After: soon\n" + `RateLimit: "a";r=0;t=7`,
		want: Advice{Wait: 7 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C3, a Decimal, which is read with lenience", wire: `RateLimit: "burst";r=0.5;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "burst",
		said: true, fields: Fields{Limits: []Limit{{Name: "burst", Reset: SecondsOf(30)}}, Dialect: "draft-08"}},
	{name: "C3, a Token for the name, which is read with lenience", wire: `RateLimit: burst;r=2;t=12.5`,
		want: Advice{Pace: 6500 * time.Millisecond},
		said: true, fields: Fields{Limits: []Limit{{Name: "burst", Remaining: 2, Reset: SecondsOf(13)}}, Dialect: "draft-08"}},
	{name: "C3, one of two members that cannot be read even so", wire: `RateLimit: burst;r=0;t=12.5, b;r=x`},
	{name: "D1, the next draft, nothing remains", wire: `RateLimit: "d";a=0;w=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "d",
		said: true, fields: Fields{Limits: []Limit{{Name: "d", Reset: SecondsOf(30)}}, Dialect: "draft-next"}},
	{name: "D1, the next draft, something remains", wire: `RateLimit: d;a=50;w=30`, want: Advice{Pace: 600 * time.Millisecond}, said: true},
	{name: "D5, the next draft, a window by a name in another case", wire: "RateLimit-Policy: D;q=50;w=60, e;q=x\nRateLimit: d;a=0",
		want: Advice{Wait: minute, Source: SourceWindow}, limit: "d", said: true},
	{name: "D1, the next draft, Retry-After takes precedence", wire: "Retry-After: 5\nRateLimit: d;a=0;w=30",
		want: Advice{Wait: 5 * time.Second, Source: SourceRetryAfter}, limit: "d", said: true},
	{name: "D1, the next draft, and what stands in place of Retry-After", wire: "Retry-After-Ms: 5000\nRateLimit: d;a=0;w=30",
		want: Advice{Wait: 5 * time.Second, Source: SourceRetryAfter}, limit: "d", said: true},
	{name: "D1, the next draft, from a cache", wire: "Age: 1\nRateLimit: d;a=0;w=30"},
	{name: "C4, something remains", wire: `RateLimit: "a";r=10;t=30`, want: Advice{Pace: 3 * time.Second}, said: true},
	{name: "C4, nothing remains", wire: `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, several limits, the longest wait", wire: `RateLimit: "a";r=0;t=30, "b";r=0;t=90, "c";r=0;t=60`,
		want: Advice{Wait: 90 * time.Second, Source: SourceLimit}, limit: "b", said: true},
	{name: "C4, several limits, the first of the longest", wire: `RateLimit: "a";r=0;t=30, "b";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, several limits, only one is exhausted", wire: `RateLimit: "a";r=100;t=10, "b";r=0;t=30, "c";r=5;t=600`,
		want: Advice{Wait: 30 * time.Second, Pace: 2 * minute, Source: SourceLimit}, limit: "b", said: true},
	{name: "C4, several limits, the slowest pace", wire: `RateLimit: "a";r=10;t=10, "b";r=10;t=100`,
		want: Advice{Pace: 10 * time.Second}, said: true},
	{name: "C4, a reset and a window, the longest wait",
		wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "b";r=0;t=30, "a";r=0`,
		want: Advice{Wait: minute, Source: SourceWindow}, limit: "a", said: true},
	{name: "C4, no reset, the window of the policy",
		wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=0`,
		want: Advice{Wait: minute, Source: SourceWindow}, limit: "a", said: true},
	{name: "C4, no reset, the window by partition key",
		wire: `RateLimit-Policy: "a";q=10;w=60;pk=:YQ==:, "a";q=10;w=30;pk=:Yg==:` + "\n" + `RateLimit: "a";r=0;pk=:Yg==:`,
		want: Advice{Wait: 30 * time.Second, Source: SourceWindow}, limit: "a", said: true},
	{name: "C4, no reset and no window", wire: `RateLimit-Policy: "a";q=10` + "\n" + `RateLimit: "a";r=0`, said: true},
	{name: "C4, t is 0", wire: `RateLimit: "a";r=0;t=0`, want: Advice{Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, t is 0 and something remains", wire: `RateLimit: "a";r=5;t=0`, said: true},
	{name: "C4, no reset, no pace", wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=5`, said: true},
	{name: "C4, units in bytes do not pace",
		wire: `RateLimit-Policy: "a";q=9;qu="content-bytes"` + "\n" + `RateLimit: "a";r=5;t=30`, said: true},
	{name: "C4, units in bytes wait",
		wire: `RateLimit-Policy: "a";q=9;qu="content-bytes"` + "\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, concurrent-requests do not pace",
		wire: `RateLimit-Policy: "a";q=9;qu="concurrent-requests"` + "\n" + `RateLimit: "a";r=5;t=30`, said: true},
	{name: "C4, concurrent-requests wait",
		wire: `RateLimit-Policy: "a";q=9;qu="concurrent-requests"` + "\n" + `RateLimit: "a";r=0;t=3`,
		want: Advice{Wait: 3 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, unknown units do not pace",
		wire: `RateLimit-Policy: "a";q=9;qu="acme-points"` + "\n" + `RateLimit: "a";r=5;t=30`, said: true},
	{name: "C4, unknown units wait",
		wire: `RateLimit-Policy: "a";q=9;qu="acme-points"` + "\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C4, the alias request paces",
		wire: `RateLimit-Policy: "a";q=9;qu="request"` + "\n" + `RateLimit: "a";r=5;t=30`,
		want: Advice{Pace: 6 * time.Second}, said: true},
	{name: "C5, an absolute reset counts from Date",
		wire: "Date: Sat, 21 Nov 2026 02:00:00 GMT\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795226430",
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "default", said: true},
	{name: "C5, an absolute reset counts from the arrival",
		wire: "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230045",
		want: Advice{Wait: 45 * time.Second, Source: SourceLimit}, limit: "default", said: true},
	{name: "C6, a limit without its policy", wire: `RateLimit-Policy: "b";q=1;w=1` + "\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "C7, Retry-After is shorter",
		wire: "Retry-After: 10\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 10 * time.Second, Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, Retry-After is longer",
		wire: "Retry-After: 100\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 100 * time.Second, Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, Retry-After is 0",
		wire: "Retry-After: 0\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, Retry-After is past",
		wire: "Retry-After: Sat, 21 Nov 2026 02:00:00 GMT\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, Retry-After beside units left",
		wire: "Retry-After: 20\n" + `RateLimit: "a";r=15;t=45`,
		want: Advice{Wait: 20 * time.Second, Pace: 3 * time.Second, Source: SourceRetryAfter}, said: true},
	{name: "C7, Retry-After beside two limits with nothing remaining, the longer reset",
		wire: "Retry-After: 20\n" + `RateLimit: "a";r=0;t=30, "b";r=0;t=90, "c";r=0, "d";r=1;t=600`,
		want: Advice{Wait: 20 * time.Second, Pace: 10 * minute, Source: SourceRetryAfter}, limit: "b", said: true},
	{name: "C7, Retry-After beside limits of two units with nothing remaining",
		wire: "Retry-After: 20\n" + `RateLimit-Policy: "a";q=9, "b";q=9;qu="tokens"` + "\n" + `RateLimit: "a";r=0;t=30, "b";r=0;t=90`,
		want: Advice{Wait: 20 * time.Second, Source: SourceRetryAfter}, limit: "b", said: true},
	{name: "C7, Retry-After beside a quota of 0",
		wire: "Retry-After: 20\n" + `RateLimit-Policy: "a";q=0` + "\n" + `RateLimit: "b";r=3, "a";r=5`,
		want: Advice{Wait: 20 * time.Second, Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, a field in its place beside a limit with nothing remaining", wire: "X-Retry-After: 10\n" + `RateLimit: "a";r=0;t=45`,
		want: Advice{Wait: 10 * time.Second, Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "C7, Retry-After alone", wire: "HTTP/1.1 429 Too Many Requests\nRetry-After: 10",
		want: Advice{Wait: 10 * time.Second, Source: SourceRetryAfter, Refused: true}},
	{name: "C7, a field in its place beside the current ones", wire: "X-Retry-After: 10\n" + `RateLimit: "a";r=15;t=45`,
		want: Advice{Wait: 10 * time.Second, Pace: 3 * time.Second, Source: SourceRetryAfter}, said: true},
	{name: "C7, a field in its place beside older ones", wire: "X-Retry-After: 10\nX-RateLimit-Remaining: 15\nX-RateLimit-Reset: 45",
		want: Advice{Wait: 10 * time.Second, Pace: 3 * time.Second, Source: SourceRetryAfter}, said: true},
	{name: "C8, the window is ignored",
		wire: "Retry-After: 1\n" + `RateLimit-Policy: "a";q=1;w=600` + "\n" + `RateLimit: "a";r=0`,
		want: Advice{Wait: time.Second, Source: SourceRetryAfter}, limit: "a", said: true},
	{name: "K1, from a cache", wire: "Age: 5\n" + `RateLimit: "a";r=0;t=30`},
	{name: "K1, a legacy limit from a cache", wire: "Age: 5\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30"},
	{name: "K1, from a cache, Retry-After counts", wire: "Age: 5\nRetry-After: 10\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 10 * time.Second, Source: SourceRetryAfter}},
	{name: "K1, from a cache, a field in the place of Retry-After counts", wire: "Age: 5\nX-Retry-After: 10\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 10 * time.Second, Source: SourceRetryAfter}},
	{name: "K1, Age is 0", wire: "Age: 0\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "K1, Age is the least fraction", wire: "Age: 0.000000001\n" + `RateLimit: "a";r=0;t=30`},
	{name: "K1, the first member of Age is positive", wire: "Age: 5, 0\n" + `RateLimit: "a";r=0;t=30`},
	{name: "K1, the first member of Age is 0", wire: "Age: 0, 5\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "K1, Age cannot be read", wire: "Age: old\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "L6, what remains is refused all the same", wire: "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=10;t=30`,
		want: Advice{Pace: 3 * time.Second, Refused: true}, said: true},
	{name: "L8, the end of the window is not the quota",
		wire: `RateLimit-Policy: "a";q=1000;w=60` + "\n" + `RateLimit: "a";r=1;t=10`,
		want: Advice{Pace: 10 * time.Second}, said: true},
	{name: "N1, the unit is written out", wire: `RateLimit-Policy: "a";q=10;qu="requests";w=60` + "\n" + `RateLimit: "a";r=10;t=60`,
		want: Advice{Pace: 6 * time.Second}, said: true},
	{name: "N1, the unit as the registry has it", wire: `RateLimit-Policy: "a";q=10;qu="request";w=60` + "\n" + `RateLimit: "a";r=10;t=60`,
		want: Advice{Pace: 6 * time.Second}, said: true},
	{name: "L9, more remains than the quota", wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=100;t=60`,
		want: Advice{Pace: 6 * time.Second}, said: true},
	{name: "L9, the quota is 0 and something remains", wire: `RateLimit-Policy: "a";q=0;w=60` + "\n" + `RateLimit: "a";r=10;t=60`,
		want: Advice{Wait: 60 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "L9, the quota is 0 and there is no reset", wire: `RateLimit-Policy: "a";q=0;w=40` + "\n" + `RateLimit: "a";r=3`,
		want: Advice{Wait: 40 * time.Second, Source: SourceWindow}, limit: "a", said: true},
	{name: "L9, a small quota", wire: `RateLimit-Policy: "a";q=1;w=60` + "\n" + `RateLimit: "a";r=3;t=60`,
		want: Advice{Pace: 60 * time.Second}, said: true},
	{name: "C4, the pace is rounded up", wire: `RateLimit: "a";r=3;t=10`,
		want: Advice{Pace: 3333333334 * time.Nanosecond}, said: true},
	{name: "L9, the reset is beyond the window", wire: `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=0;t=90`,
		want: Advice{Wait: 90 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "S1, nothing remains after a success", wire: "HTTP/1.1 200 OK\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "S1, Retry-After wins on 200 too", wire: "HTTP/1.1 200 OK\nRetry-After: 10\n" + `RateLimit: "a";r=5;t=30`,
		want: Advice{Wait: 10 * time.Second, Pace: 6 * time.Second, Source: SourceRetryAfter}, said: true},
	{name: "S1, 503", wire: "HTTP/1.1 503 Service Unavailable\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit, Refused: true}, limit: "a", said: true},
	{name: "S1, an informational status", wire: "HTTP/1.1 103 Early Hints\n" + `RateLimit: "a";r=0;t=30`,
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "S2, a redirection is like any other", wire: "HTTP/1.1 302 Found\nLocation: /foo\n" + `RateLimit: "a";r=0;t=10`,
		want: Advice{Wait: 10 * time.Second, Source: SourceLimit}, limit: "a", said: true},
	{name: "X6, as long as obeyed", wire: `RateLimit: "a";r=0;t=600`,
		want: Advice{Wait: 10 * minute, Source: SourceLimit}, limit: "a", said: true},
	{name: "X6, longer than obeyed", wire: `RateLimit: "a";r=0;t=601`,
		want: Advice{Wait: 10 * minute, Source: SourceLimit, Asked: 601 * time.Second, Capped: true}, limit: "a", said: true},
	{name: "X6, the largest reset", wire: `RateLimit: "a";r=0;t=999999999999999`,
		want: Advice{Wait: 10 * minute, Source: SourceLimit, Asked: math.MaxInt64, Capped: true}, limit: "a", said: true},
	{name: "X6, the largest window", wire: `RateLimit-Policy: "a";q=1;w=999999999999999` + "\n" + `RateLimit: "a";r=0`,
		want: Advice{Wait: 10 * minute, Source: SourceWindow, Asked: math.MaxInt64, Capped: true}, limit: "a", said: true},
	{name: "X6, the largest Retry-After", wire: "Retry-After: 99999999999999999999",
		want: Advice{Wait: 10 * minute, Source: SourceRetryAfter, Asked: math.MaxInt64, Capped: true}},
	{name: "X6, the largest reset and something remains", wire: `RateLimit: "a";r=1;t=999999999999999`,
		want: Advice{Pace: math.MaxInt64}, said: true},
	{name: "draft-07", wire: "RateLimit: limit=10, remaining=0, reset=5",
		want: Advice{Wait: 5 * time.Second, Source: SourceLimit}, limit: "default", said: true},
	{name: "a legacy limit that does not say what remains", wire: "X-RateLimit-Limit: 10\nX-RateLimit-Reset: 30", said: true},
	{name: "refused, and it does not say what remains", wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 30",
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit, Refused: true}, limit: "default", said: true},
	{name: "refused in draft-07, and it does not say what remains", wire: "HTTP/1.1 429 Too Many Requests\nRateLimit: limit=10, reset=5",
		want: Advice{Wait: 5 * time.Second, Source: SourceLimit, Refused: true}, limit: "default", said: true},
	{name: "refused until a point in time", wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 1795230045",
		want: Advice{Wait: 45 * time.Second, Source: SourceLimit, Refused: true}, limit: "default", said: true},
	{name: "refused until a point in time that is past", wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 1795229999",
		want: Advice{Source: SourceLimit, Refused: true}, limit: "default", said: true},
	{name: "refused for longer than obeyed", wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 10\nX-RateLimit-Reset-After: 3600",
		want: Advice{Wait: 10 * minute, Source: SourceLimit, Asked: time.Hour, Capped: true, Refused: true}, limit: "default", said: true},
	{name: "refused by one of two that do not say what remains, the longest wait",
		wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Reset-Minute: 30\nX-RateLimit-Reset-Hour: 300",
		want: Advice{Wait: 5 * minute, Source: SourceLimit, Refused: true}, limit: "hour", said: true},
	{name: "refused, the limit with nothing remaining is the reason",
		wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset-Minute: 30\nX-RateLimit-Reset-Hour: 300",
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit, Refused: true}, limit: "minute", said: true},
	{name: "refused, the window of the limit with nothing remaining is the reason",
		wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Reset-Hour: 300s",
		want: Advice{Wait: minute, Source: SourceWindow, Refused: true}, limit: "minute", said: true},
	{name: "refused, and the limit with nothing remaining has no end",
		wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Remaining-A: 0\nX-RateLimit-Reset-B: 30s",
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit, Refused: true}, limit: "b", said: true},
	{name: "refused, beside a limit of which something remains",
		wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Remaining-A: 6\nX-RateLimit-Reset-A: 60s\nX-RateLimit-Reset-B: 30s",
		want: Advice{Wait: 30 * time.Second, Pace: 10 * time.Second, Source: SourceLimit, Refused: true}, limit: "b", said: true},
	{name: "refused, and Retry-After goes before what does not say what remains",
		wire: "HTTP/1.1 429 Too Many Requests\nRetry-After: 5\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 30",
		want: Advice{Wait: 5 * time.Second, Source: SourceRetryAfter, Refused: true}, said: true},
	{name: "refused by a response from a cache, which says nothing else",
		wire: "HTTP/1.1 429 Too Many Requests\nAge: 5\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 30", want: Advice{Refused: true}},
	{name: "503, and a reset alone refuses nothing", wire: "HTTP/1.1 503 Service Unavailable\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 30", said: true},
	{name: "403, and a reset alone refuses nothing", wire: "HTTP/1.1 403 Forbidden\nX-RateLimit-Limit: 10\nX-RateLimit-Reset: 30", said: true},
	{name: "403, because nothing remains of another, of which the end is not said",
		wire: "HTTP/1.1 403 Forbidden\nX-RateLimit-Remaining-A: 0\nX-RateLimit-Reset-B: 30s",
		want: Advice{Wait: 30 * time.Second, Source: SourceLimit, Refused: true}, limit: "b", said: true},
}

func TestAdvise(t *testing.T) {
	for _, tc := range adviseCases {
		t.Run(tc.name, func(t *testing.T) {
			got := Advisor{}.Advise(responseOf(tc.wire), arrival)
			require.Equal(t, tc.limit, got.Limit.Name)
			require.Equal(t, tc.said, got.Fields.Dialect != "")
			if !tc.said || tc.fields.Dialect != "" {
				require.Equal(t, tc.fields, got.Fields)
			}
			if tc.want.Asked == 0 {
				tc.want.Asked = tc.want.Wait
			}
			got.Limit, got.Fields = Limit{}, Fields{}
			require.Equal(t, tc.want, got)
		})
	}
}

// Which statuses say that a limit refused the request (draft-11 Section 6).
func TestAdviseRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire string
		want bool
	}{
		{"429", "HTTP/1.1 429 Too Many Requests", true},
		{"429, from a cache", "HTTP/1.1 429 Too Many Requests\nAge: 5", true},
		{"200 with nothing remaining", "HTTP/1.1 200 OK\n" + `RateLimit: "a";r=0;t=30`, false},
		{"200 with Retry-After", "HTTP/1.1 200 OK\nRetry-After: 5", false},
		{"503 alone is another trouble", "HTTP/1.1 503 Service Unavailable", false},
		{"503 with Retry-After", "HTTP/1.1 503 Service Unavailable\nRetry-After: 5", true},
		{"503 with Retry-After of 0", "HTTP/1.1 503 Service Unavailable\nRetry-After: 0", false},
		{"503 with something remaining", "HTTP/1.1 503 Service Unavailable\n" + `RateLimit: "a";r=5;t=30`, false},
		{"403 alone is forbidden", "HTTP/1.1 403 Forbidden", false},
		{"403 with something remaining", "HTTP/1.1 403 Forbidden\n" + `RateLimit: "a";r=5;t=30`, false},
		{"403 of GitHub", "HTTP/1.1 403 Forbidden\nX-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230045", true},
		{"403 with nothing remaining, and no end", "HTTP/1.1 403 Forbidden\nX-RateLimit-Remaining: 0", true},
		{"403 of GitHub's secondary limits", "HTTP/1.1 403 Forbidden\nRetry-After: 60\nX-RateLimit-Remaining: 50", true},
		{"403 with a quota of 0", "HTTP/1.1 403 Forbidden\n" + `RateLimit-Policy: "a";q=0` + "\n" + `RateLimit: "a";r=5`, true},
		{"404 with Retry-After", "HTTP/1.1 404 Not Found\nRetry-After: 60", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Advisor{}.Advise(responseOf(tc.wire), arrival).Refused)
		})
	}
}

// CheckResponse makes an error of a refusal, and leaves the response as it was.
func TestCheckResponse(t *testing.T) {
	const violated = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"T","violated-policies":["a"]}`
	for _, tc := range []struct {
		name    string
		wire    string
		body    string
		refused bool
		problem bool
		text    string
		until   time.Duration // from the arrival; 0 is not said
	}{
		{name: "served", wire: "HTTP/1.1 200 OK\n" + `RateLimit: "a";r=0;t=30`, body: "{}"},
		{name: "refused", wire: "HTTP/1.1 429 Too Many Requests", refused: true, text: "ratelimit: refused with status 429"},
		{name: "for a time", wire: "HTTP/1.1 429 Too Many Requests\nRetry-After: 90", body: "slow down", refused: true,
			text: "ratelimit: refused with status 429, wait 1m30s", until: 90 * time.Second},
		{name: "for longer than obeyed", wire: "HTTP/1.1 429 Too Many Requests\nRetry-After: 3600", body: "slow down", refused: true,
			text: "ratelimit: refused with status 429, wait 1h0m0s", until: time.Hour},
		{name: "by a limit", wire: "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a \"b\"";r=0;t=30;pk=:YWxpY2U=:`, refused: true,
			text: `ratelimit: refused with status 429, limit "a \"b\"", wait 30s`, until: 30 * time.Second},
		{name: "by a limit beside a Retry-After", wire: "HTTP/1.1 429 Too Many Requests\nRetry-After: 20\n" + `RateLimit: "a";r=0;t=30`, refused: true,
			text: `ratelimit: refused with status 429, limit "a", wait 20s`, until: 20 * time.Second},
		{name: "by a limit with a long name", wire: "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "` + strings.Repeat("x", 129) + `";r=0;t=30`, refused: true,
			text: `ratelimit: refused with status 429, limit "` + strings.Repeat("x", 128) + `", wait 30s`, until: 30 * time.Second},
		{name: "by one that does not say what remains", wire: "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 9\nX-RateLimit-Reset: 1795230045", refused: true,
			text: `ratelimit: refused with status 429, limit "default", wait 45s`, until: 45 * time.Second},
		{name: "with a problem", wire: "HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json\nRetry-After: 90",
			body: violated, refused: true, problem: true, text: "ratelimit: refused with status 429, wait 1m30s: ", until: 90 * time.Second},
		{name: "with a problem cut short", wire: "HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json",
			body: violated[:50], refused: true, text: "ratelimit: refused with status 429"},
		{name: "with a problem that is too long", wire: "HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json",
			body: violated + strings.Repeat(" ", 2<<20), refused: true, text: "ratelimit: refused with status 429"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := &closing{Reader: strings.NewReader(tc.body)}
			resp := responseOf(tc.wire)
			resp.Body = body
			before := resp.Header.Clone()
			err := Advisor{}.CheckResponse(resp, arrival)
			read, readErr := io.ReadAll(resp.Body)
			require.NoError(t, readErr)
			require.Equal(t, tc.body, string(read), "the body can be read from its beginning")
			require.Equal(t, before, resp.Header)
			require.Zero(t, body.closed)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 1, body.closed)
			if !tc.refused {
				require.NoError(t, err)
				return
			}
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, resp.StatusCode, refused.Status)
			if tc.until == 0 {
				require.Zero(t, refused.Until)
			} else {
				require.Equal(t, arrival.Add(tc.until), refused.Until)
			}
			require.Equal(t, Advisor{}.Advise(resp, arrival), refused.Advice)
			require.Equal(t, tc.problem, refused.Problem != nil)
			require.NotContains(t, err.Error()[len("ratelimit: "):], "ratelimit: ")
			var problem *Problem
			require.Equal(t, tc.problem, errors.As(err, &problem))
			if !tc.problem {
				require.Equal(t, tc.text, err.Error())
				require.NoError(t, errors.Unwrap(err))
				return
			}
			require.Equal(t, []string{"a"}, problem.ViolatedPolicies)
			require.True(t, strings.HasPrefix(err.Error(), tc.text) && len(err.Error()) > len(tc.text), err)
		})
	}
	require.NoError(t, Advisor{}.CheckResponse(nil, arrival))
	require.Error(t, Advisor{}.CheckResponse(&http.Response{StatusCode: 429}, arrival), "without a body")
}

// A body that fails in the middle fails in the same place when it is read again.
func TestCheckResponseBodyFails(t *testing.T) {
	broken := errors.New("connection reset")
	resp := responseOf("HTTP/1.1 429 Too Many Requests\nContent-Type: application/problem+json")
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"title"`), iotest.ErrReader(broken)))
	require.Error(t, Advisor{}.CheckResponse(resp, arrival))
	read, err := io.ReadAll(resp.Body)
	require.Equal(t, `{"title"`, string(read))
	require.Equal(t, broken, err)
}

func TestAdviseOptions(t *testing.T) {
	exhausted := responseOf(`RateLimit: "a";r=0;t=30`)
	for _, tc := range []struct {
		most   time.Duration
		want   time.Duration
		capped bool
	}{
		{time.Second, time.Second, true},
		{30 * time.Second, 30 * time.Second, false},
		{time.Hour, 30 * time.Second, false},
		{-1, 30 * time.Second, false},
		{math.MaxInt64, 30 * time.Second, false},
	} {
		got := Advisor{MaxWait: tc.most}.Advise(exhausted, arrival)
		require.Equal(t, tc.want, got.Wait, tc.most)
		require.Equal(t, tc.capped, got.Capped, tc.most)
	}
	own := Advisor{Legacy: LegacyOptions{
		Dialects: []*Dialect{{Name: "acme", Fields: []DialectField{
			{Name: "Acme-Left", Role: RoleRemaining}, {Name: "Acme-End", Role: RoleReset, Format: TimeUnix},
		}}},
		Name: "acme",
		Now:  arrival.Add(-time.Hour), // ignored
	}}
	got := own.Advise(responseOf("Acme-Left: 0\nAcme-End: 1795230010"), arrival)
	require.Equal(t, 10*time.Second, got.Wait)
	require.Equal(t, "acme", got.Limit.Name)
}

func TestAdviseHandMade(t *testing.T) {
	now := time.Now()
	var soon *RefusedError
	require.ErrorAs(t, Advisor{}.CheckResponse(responseOf("HTTP/1.1 429 Too Many Requests\nRetry-After: 60"), time.Time{}), &soon)
	require.WithinRange(t, soon.Until, now.Add(time.Minute), time.Now().Add(time.Minute))
	require.ErrorAs(t, Advisor{}.CheckResponse(responseOf("HTTP/1.1 429 Too Many Requests\nRetry-After: 0"), arrival), &soon)
	require.Equal(t, arrival, soon.Until, "at once is said")
	require.EqualError(t, soon, "ratelimit: refused with status 429")
	bodiless := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {ProblemMediaType}}}
	require.ErrorAs(t, Advisor{}.CheckResponse(bodiless, arrival), new(*RefusedError))
	require.Nil(t, bodiless.Body)
	require.Zero(t, Advisor{}.Advise(nil, arrival))
	require.Zero(t, Advisor{}.Advise(&http.Response{}, time.Time{}))
	require.Zero(t, Advisor{}.Advise(&http.Response{Header: http.Header{"Ratelimit": nil, "Retry-After": {}}}, arrival))
	got := Advisor{}.Advise(&http.Response{Header: http.Header{"Ratelimit": {`"a";r=0;t=3`}}}, time.Time{})
	require.Equal(t, 3*time.Second, got.Wait)
	trailer := &http.Response{Trailer: http.Header{"Ratelimit": {`"a";r=0;t=3`}, "Retry-After": {"5"}}}
	require.Zero(t, Advisor{}.Advise(trailer, arrival), "trailers are not read")
}

func TestAdviseKeepsTheHeader(t *testing.T) {
	for _, tc := range adviseCases {
		resp := responseOf(tc.wire)
		before := resp.Header.Clone()
		Advisor{}.Advise(resp, arrival)
		require.Equal(t, before, resp.Header, tc.name)
	}
}

func TestSourceString(t *testing.T) {
	for source, want := range map[Source]string{
		SourceNone: "none", SourceRetryAfter: "retry-after", SourceLimit: "limit", SourceWindow: "window", -1: "none", 9: "none",
	} {
		require.Equal(t, want, source.String())
	}
}

func TestAdviseAllocations(t *testing.T) {
	silent := responseOf(unrelated)
	require.Zero(t, testing.AllocsPerRun(100, func() { Advisor{}.Advise(silent, arrival) }))
	// The slice of limits.
	limit := responseOf(unrelated)
	limit.Header["Ratelimit"] = []string{`"default";r=50;t=30`}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { Advisor{}.Advise(limit, arrival) }), 1.0)
}

// An Advice is printed for people: what to do, why, and at which pace to go on.
func TestAdviceString(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire string
		want string
	}{
		{"nothing", "", "go on"},
		{"a pace", `RateLimit: "a";r=60;t=30`, "go on, pace 500ms"},
		{"longer than a Duration can hold", `RateLimit: "a";r=0;t=999999999999999`, `wait 10m0s of more than a century (limit "a";r=0;t=999999999999999)`},
		{"a pace of more than a minute, in whole seconds", `RateLimit: "a";r=37;t=3200`, "go on, pace 1m26s"},
		{"a pace of less than a minute, in milliseconds", `RateLimit: "a";r=3;t=10`, "go on, pace 3.333s"},
		{"the shortest pace", `RateLimit: "a";r=999999999999999;t=1`, "go on, pace 1ns"},
		{"a limit", `RateLimit: "burst";r=0;t=30`, `wait 30s (limit "burst";r=0;t=30)`},
		{"a limit that is over at once", `RateLimit: "burst";r=0;t=0`, `go on (limit "burst";r=0;t=0)`},
		{"a limit, and the pace of another", `RateLimit: "burst";r=0;t=30, "daily";r=5;t=600`, `wait 30s (limit "burst";r=0;t=30), pace 2m0s`},
		{"a limit of this user, with a parameter", `RateLimit: "burst";r=0;t=30;pk=:YWxpY2U=:;acme=1`, `wait 30s (limit "burst";r=0;t=30)`},
		{"a window", `RateLimit-Policy: "a";q=10;w=60` + "\n" + `RateLimit: "a";r=0`, `wait 1m0s (limit "a";r=0, its window)`},
		{"Retry-After", "Retry-After: 90", "wait 1m30s (Retry-After)"},
		{"Retry-After of 0", "Retry-After: 0", "go on (Retry-After)"},
		{"Retry-After beside a limit", "Retry-After: 20\n" + `RateLimit: "burst";r=0;t=30`, `wait 20s (Retry-After, limit "burst";r=0;t=30)`},
		{"a wait that is cut", `RateLimit: "a";r=0;t=2040`, `wait 10m0s of 34m0s (limit "a";r=0;t=2040)`},
		{"a limit without an end", `RateLimit: "a";r=0`, "nothing remains; it does not say for how long"},
		{"a limit without an end, and the pace of another", `RateLimit: "a";r=0, "b";r=5;t=600`, "nothing remains; it does not say for how long, pace 2m0s"},
		{"refused by a limit without an end", "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=0`, "refused; it does not say for how long"},
		{"refused, and nothing said", "HTTP/1.1 429 Too Many Requests", "refused; it does not say for how long"},
		{"refused with something remaining", "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=3;t=30`, "refused; it does not say for how long, pace 10s"},
		{"refused by a limit", "HTTP/1.1 429 Too Many Requests\n" + `RateLimit: "a";r=0;t=30`, `refused, wait 30s (limit "a";r=0;t=30)`},
		{"refused by one that does not say what remains", "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 9\nX-RateLimit-Reset-After: 30", `refused, wait 30s (limit "default";t=30)`},
		{"refused with a Retry-After of 0", "HTTP/1.1 429 Too Many Requests\nRetry-After: 0", "refused, wait 0s (Retry-After)"},
		{"a long name", `RateLimit: "` + strings.Repeat("x", 200) + `";r=0;t=30`, `wait 30s (limit "` + strings.Repeat("x", 128) + `";r=0;t=30)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, fmt.Sprint(Advisor{}.Advise(responseOf(tc.wire), arrival)))
		})
	}
}

func TestAdviceLogValue(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire string
		want string
	}{
		{"nothing", "", `{"level":"INFO","msg":"m"}`},
		{"a pace", `RateLimit: "a";r=3;t=30`, `{"level":"INFO","msg":"m","advice":{"pace":10000000000}}`},
		{"a wait", "Retry-After: 5", `{"level":"INFO","msg":"m","advice":{"wait":5000000000,"source":"retry-after"}}`},
		{"the shortest pace", `RateLimit: "a";r=999999999999999;t=1`, `{"level":"INFO","msg":"m","advice":{"pace":1}}`},
		{"the shortest wait", "Retry-After: 2026-11-21T03:00:00.000000001Z", `{"level":"INFO","msg":"m","advice":{"wait":1,"source":"retry-after"}}`},
		{"a refusal, and a wait that is cut", "HTTP/1.1 429 Too Many Requests\nRetry-After: 1000",
			`{"level":"INFO","msg":"m","advice":{"refused":true,"wait":600000000000,"asked":1000000000000,"source":"retry-after"}}`},
		{"a limit", `RateLimit: "a";r=0;t=30`, `{"level":"INFO","msg":"m","advice":{"wait":30000000000,"source":"limit","limit":"\"a\";r=0;t=30"}}`},
		{"a limit beside a Retry-After", "Retry-After: 5\n" + `RateLimit: "a";r=0;t=30`, `{"level":"INFO","msg":"m","advice":{"wait":5000000000,"source":"retry-after","limit":"\"a\";r=0;t=30"}}`},
		{"a limit without a name", `RateLimit: "";r=0;t=0`, `{"level":"INFO","msg":"m","advice":{"source":"limit","limit":"\"\";r=0;t=0"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			log := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			log.Info("m", "advice", Advisor{}.Advise(responseOf(tc.wire), arrival))
			require.Equal(t, tc.want+"\n", b.String())
		})
	}
}
