package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var _ fmt.Stringer = SourceNone

// An adviseCase is a response and what it asks for. Its name has the rule of
// CONFORMANCE.md, and what it asks for is as adviceSummary has it, with the fields behind a
// colon where they matter.
type adviseCase struct{ name, wire, want string }

var adviseCases = lined([]adviseCase{
	{"C2, no fields", `Content-Type: text/plain`, "no fields"},
	{"C2, a policy without a limit", `RateLimit-Policy: "a";q=10;w=60`, "go on"},
	{"C3, malformed RateLimit, the policy is kept",
		`RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=`, `go on: policies "a";q=10;w=60; dialect ratelimit`},
	{"C3, malformed RateLimit, Retry-After is kept", `Retry-After: 5 | RateLimit: "a";r=`, "wait 5s by retry-after, no fields"},
	{"C3, malformed RateLimit-Policy, the limit is kept",
		`RateLimit-Policy: "a";q= | RateLimit: "a";r=0;t=7`, `wait 7s by limit a: limits "a";r=0;t=7; dialect ratelimit`},
	{"C3, malformed Retry-After, the limit is kept", `Retry-After: soon | RateLimit: "a";r=0;t=7`, "wait 7s by limit a"},
	{"C3, a Decimal, which is read with lenience",
		`RateLimit: "burst";r=0.5;t=30`, `wait 30s by limit burst: limits "burst";r=0;t=30; dialect draft-08`},
	{"C3, a Token for the name, which is read with lenience",
		`RateLimit: burst;r=2;t=12.5`, `pace 6.5s: limits "burst";r=2;t=13; dialect draft-08`},
	{"C3, one of two members that cannot be read even so", `RateLimit: burst;r=0;t=12.5, b;r=x`, "no fields"},
	{"D1, the next draft, nothing remains",
		`RateLimit: "d";a=0;w=30`, `wait 30s by limit d: limits "d";r=0;t=30; dialect draft-next`},
	{"D1, the next draft, something remains", `RateLimit: d;a=50;w=30`, "pace 600ms"},
	{"D5, the next draft, a window by a name in another case",
		`RateLimit-Policy: D;q=50;w=60, e;q=x | RateLimit: d;a=0`, "wait 1m0s by window d"},
	{"D1, the next draft, Retry-After takes precedence", `Retry-After: 5 | RateLimit: d;a=0;w=30`, "wait 5s by retry-after d"},
	{"D1, the next draft, and what stands in place of Retry-After",
		`Retry-After-Ms: 5000 | RateLimit: d;a=0;w=30`, "wait 5s by retry-after d"},
	{"D1, the next draft, from a cache", `Age: 1 | RateLimit: d;a=0;w=30`, "no fields"},
	{"C4, something remains", `RateLimit: "a";r=10;t=30`, "pace 3s"},
	{"C4, nothing remains", `RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"C4, several limits, the longest wait", `RateLimit: "a";r=0;t=30, "b";r=0;t=90, "c";r=0;t=60`, "wait 1m30s by limit b"},
	{"C4, several limits, the first of the longest", `RateLimit: "a";r=0;t=30, "b";r=0;t=30`, "wait 30s by limit a"},
	{"C4, several limits, only one is exhausted",
		`RateLimit: "a";r=100;t=10, "b";r=0;t=30, "c";r=5;t=600`, "wait 30s by limit b, pace 2m0s"},
	{"C4, several limits, the slowest pace", `RateLimit: "a";r=10;t=10, "b";r=10;t=100`, "pace 10s"},
	{"C4, a reset and a window, the longest wait",
		`RateLimit-Policy: "a";q=10;w=60 | RateLimit: "b";r=0;t=30, "a";r=0`, "wait 1m0s by window a"},
	{"C4, no reset, the window of the policy", `RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=0`, "wait 1m0s by window a"},
	{"C4, no reset, the window by partition key",
		`RateLimit-Policy: "a";q=10;w=60;pk=:YQ==:, "a";q=10;w=30;pk=:Yg==: | RateLimit: "a";r=0;pk=:Yg==:`, "wait 30s by window a"},
	{"C4, no reset and no window", `RateLimit-Policy: "a";q=10 | RateLimit: "a";r=0`, "go on"},
	{"C4, t is 0", `RateLimit: "a";r=0;t=0`, "wait 0s by limit a"},
	{"C4, t is 0 and something remains", `RateLimit: "a";r=5;t=0`, "go on"},
	{"C4, no reset, no pace", `RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=5`, "go on"},
	{"C4, units in bytes do not pace", `RateLimit-Policy: "a";q=9;qu="content-bytes" | RateLimit: "a";r=5;t=30`, "go on"},
	{"C4, units in bytes wait", `RateLimit-Policy: "a";q=9;qu="content-bytes" | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"C4, concurrent-requests do not pace", `RateLimit-Policy: "a";q=9;qu="concurrent-requests" | RateLimit: "a";r=5;t=30`, "go on"},
	{"C4, concurrent-requests wait",
		`RateLimit-Policy: "a";q=9;qu="concurrent-requests" | RateLimit: "a";r=0;t=3`, "wait 3s by limit a"},
	{"C4, unknown units do not pace", `RateLimit-Policy: "a";q=9;qu="acme-points" | RateLimit: "a";r=5;t=30`, "go on"},
	{"C4, unknown units wait", `RateLimit-Policy: "a";q=9;qu="acme-points" | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"C4, the alias request paces", `RateLimit-Policy: "a";q=9;qu="request" | RateLimit: "a";r=5;t=30`, "pace 6s"},
	{"C5, an absolute reset counts from Date",
		`Date: Sat, 21 Nov 2026 02:00:00 GMT | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1795226430`, "wait 30s by limit default"},
	{"C5, an absolute reset counts from the arrival",
		`X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1795230045`, "wait 45s by limit default"},
	{"C6, a limit without its policy", `RateLimit-Policy: "b";q=1;w=1 | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"C7, Retry-After is shorter", `Retry-After: 10 | RateLimit: "a";r=0;t=30`, "wait 10s by retry-after a"},
	{"C7, Retry-After is longer", `Retry-After: 100 | RateLimit: "a";r=0;t=30`, "wait 1m40s by retry-after a"},
	{"C7, Retry-After is 0", `Retry-After: 0 | RateLimit: "a";r=0;t=30`, "wait 0s by retry-after a"},
	{"C7, Retry-After is past", `Retry-After: Sat, 21 Nov 2026 02:00:00 GMT | RateLimit: "a";r=0;t=30`, "wait 0s by retry-after a"},
	{"C7, Retry-After beside units left", `Retry-After: 20 | RateLimit: "a";r=15;t=45`, "wait 20s by retry-after, pace 3s"},
	{"C7, Retry-After beside two limits with nothing remaining, the longer reset",
		`Retry-After: 20 | RateLimit: "a";r=0;t=30, "b";r=0;t=90, "c";r=0, "d";r=1;t=600`, "wait 20s by retry-after b, pace 10m0s"},
	{"C7, Retry-After beside limits of two units with nothing remaining",
		`Retry-After: 20 | RateLimit-Policy: "a";q=9, "b";q=9;qu="tokens" | RateLimit: "a";r=0;t=30, "b";r=0;t=90`, "wait 20s by retry-after b"},
	{"C7, Retry-After beside a quota of 0",
		`Retry-After: 20 | RateLimit-Policy: "a";q=0 | RateLimit: "b";r=3, "a";r=5`, "wait 20s by retry-after a"},
	{"C7, a field in its place beside a limit with nothing remaining",
		`X-Retry-After: 10 | RateLimit: "a";r=0;t=45`, "wait 10s by retry-after a"},
	{"C7, Retry-After alone", `429 | Retry-After: 10`, "refused, wait 10s by retry-after, no fields"},
	{"C7, a field in its place beside the current ones",
		`X-Retry-After: 10 | RateLimit: "a";r=15;t=45`, "wait 10s by retry-after, pace 3s"},
	{"C7, a field in its place beside older ones",
		`X-Retry-After: 10 | X-RateLimit-Remaining: 15 | X-RateLimit-Reset: 45`, "wait 10s by retry-after, pace 3s"},
	{"C8, the window is ignored", `Retry-After: 1 | RateLimit-Policy: "a";q=1;w=600 | RateLimit: "a";r=0`, "wait 1s by retry-after a"},
	{"K1, from a cache", `Age: 5 | RateLimit: "a";r=0;t=30`, "no fields"},
	{"K1, a legacy limit from a cache",
		`Age: 5 | X-RateLimit-Limit: 10 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 30`, "no fields"},
	{"K1, from a cache, Retry-After counts",
		`Age: 5 | Retry-After: 10 | RateLimit: "a";r=0;t=30`, "wait 10s by retry-after, no fields"},
	{"K1, from a cache, a field in the place of Retry-After counts",
		`Age: 5 | X-Retry-After: 10 | RateLimit: "a";r=0;t=30`, "wait 10s by retry-after, no fields"},
	{"K1, Age is 0", `Age: 0 | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"K1, Age is the least fraction", `Age: 0.000000001 | RateLimit: "a";r=0;t=30`, "no fields"},
	{"K1, the first member of Age is positive", `Age: 5, 0 | RateLimit: "a";r=0;t=30`, "no fields"},
	{"K1, the first member of Age is 0", `Age: 0, 5 | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"K1, Age cannot be read", `Age: old | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"L6, what remains is refused all the same", `429 | RateLimit: "a";r=10;t=30`, "refused, pace 3s"},
	{"L8, the end of the window is not the quota", `RateLimit-Policy: "a";q=1000;w=60 | RateLimit: "a";r=1;t=10`, "pace 10s"},
	{"N1, the unit is written out", `RateLimit-Policy: "a";q=10;qu="requests";w=60 | RateLimit: "a";r=10;t=60`, "pace 6s"},
	{"N1, the unit as the registry has it", `RateLimit-Policy: "a";q=10;qu="request";w=60 | RateLimit: "a";r=10;t=60`, "pace 6s"},
	{"L9, more remains than the quota", `RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=100;t=60`, "pace 6s"},
	{"L9, the quota is 0 and something remains", `RateLimit-Policy: "a";q=0;w=60 | RateLimit: "a";r=10;t=60`, "wait 1m0s by limit a"},
	{"L9, the quota is 0 and there is no reset", `RateLimit-Policy: "a";q=0;w=40 | RateLimit: "a";r=3`, "wait 40s by window a"},
	{"L9, a small quota", `RateLimit-Policy: "a";q=1;w=60 | RateLimit: "a";r=3;t=60`, "pace 1m0s"},
	{"C4, the pace is rounded up", `RateLimit: "a";r=3;t=10`, "pace 3.333333334s"},
	{"L9, the reset is beyond the window", `RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=0;t=90`, "wait 1m30s by limit a"},
	{"S1, nothing remains after a success", `200 | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"S1, Retry-After wins on 200 too", `200 | Retry-After: 10 | RateLimit: "a";r=5;t=30`, "wait 10s by retry-after, pace 6s"},
	{"S1, 503", `503 | RateLimit: "a";r=0;t=30`, "refused, wait 30s by limit a"},
	{"S1, an informational status", `103 | RateLimit: "a";r=0;t=30`, "wait 30s by limit a"},
	{"S2, a redirection is like any other", `302 | Location: /foo | RateLimit: "a";r=0;t=10`, "wait 10s by limit a"},
	{"X6, as long as obeyed", `RateLimit: "a";r=0;t=600`, "wait 10m0s by limit a"},
	{"X6, longer than obeyed", `RateLimit: "a";r=0;t=601`, "wait 10m0s of 10m1s by limit a"},
	{"X6, the largest reset", `RateLimit: "a";r=0;t=999999999999999`, "wait 10m0s of 2562047h47m16.854775807s by limit a"},
	{"X6, the largest window",
		`RateLimit-Policy: "a";q=1;w=999999999999999 | RateLimit: "a";r=0`, "wait 10m0s of 2562047h47m16.854775807s by window a"},
	{"X6, the largest Retry-After",
		`Retry-After: 99999999999999999999`, "wait 10m0s of 2562047h47m16.854775807s by retry-after, no fields"},
	{"X6, the largest reset and something remains", `RateLimit: "a";r=1;t=999999999999999`, "pace 2562047h47m16.854775807s"},
	{"draft-07", `RateLimit: limit=10, remaining=0, reset=5`, "wait 5s by limit default"},
	{"a legacy limit that does not say what remains", `X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "go on"},
	{"refused, and it does not say what remains",
		`429 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "refused, wait 30s by limit default"},
	{"refused in draft-07, and it does not say what remains",
		`429 | RateLimit: limit=10, reset=5`, "refused, wait 5s by limit default"},
	{"refused until a point in time",
		`429 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 1795230045`, "refused, wait 45s by limit default"},
	{"refused until a point in time that is past",
		`429 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 1795229999`, "refused, wait 0s by limit default"},
	{"refused for longer than obeyed",
		`429 | X-RateLimit-Limit: 10 | X-RateLimit-Reset-After: 3600`, "refused, wait 10m0s of 1h0m0s by limit default"},
	{"refused by one of two that do not say what remains, the longest wait",
		`429 | X-RateLimit-Reset-Minute: 30 | X-RateLimit-Reset-Hour: 300`, "refused, wait 5m0s by limit hour"},
	{"refused, the limit with nothing remaining is the reason",
		`429 | X-RateLimit-Remaining-Minute: 0 | X-RateLimit-Reset-Minute: 30 | X-RateLimit-Reset-Hour: 300`, "refused, wait 30s by limit minute"},
	{"refused, the window of the limit with nothing remaining is the reason",
		`429 | X-RateLimit-Remaining-Minute: 0 | X-RateLimit-Reset-Hour: 300s`, "refused, wait 1m0s by window minute"},
	{"refused, and the limit with nothing remaining has no end",
		`429 | X-RateLimit-Remaining-A: 0 | X-RateLimit-Reset-B: 30s`, "refused, wait 30s by limit b"},
	{"refused, beside a limit of which something remains",
		`429 | X-RateLimit-Remaining-A: 6 | X-RateLimit-Reset-A: 60s | X-RateLimit-Reset-B: 30s`, "refused, wait 30s by limit b, pace 10s"},
	{"refused, and Retry-After goes before what does not say what remains",
		`429 | Retry-After: 5 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "refused, wait 5s by retry-after"},
	{"refused by a response from a cache, which says nothing else",
		`429 | Age: 5 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "refused, no fields"},
	{"503, and a reset alone refuses nothing", `503 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "go on"},
	{"403, and a reset alone refuses nothing", `403 | X-RateLimit-Limit: 10 | X-RateLimit-Reset: 30`, "go on"},
	{"403, because nothing remains of another, of which the end is not said",
		`403 | X-RateLimit-Remaining-A: 0 | X-RateLimit-Reset-B: 30s`, "refused, wait 30s by limit b"},
}, func(c *adviseCase) *string { return &c.wire })

// lined writes the responses of a table out: "429 | Retry-After: 5" has a status and a line.
func lined[T any](table []T, wire func(*T) *string) []T {
	for i := range table {
		text := wire(&table[i])
		*text = writtenOut(*text)
	}
	return table
}

func writtenOut(text string) string {
	lines := strings.Split(text, " | ")
	if status, err := strconv.Atoi(lines[0]); err == nil {
		lines[0] = fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
	}
	return strings.Join(lines, "\n")
}

// adviceSummary is everything that an Advice says, but for its Fields.
func adviceSummary(a Advice) string {
	var parts []string
	if a.Refused {
		parts = append(parts, "refused")
	}
	if a.Source != SourceNone || a.Wait > 0 {
		wait := "wait " + a.Wait.String()
		if a.Capped || a.Asked != a.Wait {
			wait += " of " + a.Asked.String()
		}
		parts = append(parts, strings.TrimSpace(wait+" by "+a.Source.String()+" "+a.Limit.Name))
	}
	if a.Pace != 0 {
		parts = append(parts, "pace "+a.Pace.String())
	}
	if a.Fields.Dialect == "" {
		parts = append(parts, "no fields")
	}
	return cmp.Or(strings.Join(parts, ", "), "go on")
}

func TestAdvise(t *testing.T) {
	for _, tc := range adviseCases {
		t.Run(tc.name, func(t *testing.T) {
			resp := responseOf(tc.wire)
			before := resp.Header.Clone()
			got := Advisor{}.Advise(resp, arrival)
			want, fields, ok := strings.Cut(tc.want, ": ")
			require.Equal(t, want, adviceSummary(got))
			require.Equal(t, before, resp.Header)
			require.Equal(t, got.Asked != got.Wait, got.Capped)
			if ok {
				require.Equal(t, fields, got.Fields.String())
			}
			if got.Fields.Dialect == "" {
				require.Zero(t, got.Fields)
			}
		})
	}
}

// Which statuses say that a limit refused the request (draft-11 Section 6).
func TestAdviseRefused(t *testing.T) {
	for _, tc := range []struct {
		name, wire string
		want       bool
	}{
		{"503 alone is another trouble", `503`, false},
		{"503 with Retry-After", `503 | Retry-After: 5`, true},
		{"503 with Retry-After of 0", `503 | Retry-After: 0`, false},
		{"503 with something remaining", `503 | RateLimit: "a";r=5;t=30`, false},
		{"403 alone is forbidden", `403`, false},
		{"403 with something remaining", `403 | RateLimit: "a";r=5;t=30`, false},
		{"403 of GitHub", `403 | X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 1795230045`, true},
		{"403 with nothing remaining, and no end", `403 | X-RateLimit-Remaining: 0`, true},
		{"403 of GitHub's secondary limits", `403 | Retry-After: 60 | X-RateLimit-Remaining: 50`, true},
		{"403 with a quota of 0", `403 | RateLimit-Policy: "a";q=0 | RateLimit: "a";r=5`, true},
		{"404 with Retry-After", `404 | Retry-After: 60`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, Advisor{}.Advise(responseOf(writtenOut(tc.wire)), arrival).Refused)
		})
	}
}

// CheckResponse makes an error of a refusal, and leaves the response as it was.
func TestCheckResponse(t *testing.T) {
	const violated = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"T","violated-policies":["a"]}`
	const problem = "429 | Content-Type: application/problem+json"
	for _, tc := range []struct {
		name, wire, body string
		want             string        // behind "refused with status 429"
		until            time.Duration // from the arrival; 0 is not said
	}{
		{"nothing else", "429", "", "", 0},
		{"for a time", "429 | Retry-After: 90", "slow down", ", wait 1m30s", 90 * time.Second},
		{"for longer than obeyed", "429 | Retry-After: 3600", "slow down", ", wait 1h0m0s", time.Hour},
		{"by a limit", `429 | RateLimit: "a \"b\"";r=0;t=30;pk=:YWxpY2U=:`, "", `, limit "a \"b\"", wait 30s`, 30 * time.Second},
		{"by a limit beside a Retry-After", `429 | Retry-After: 20 | RateLimit: "a";r=0;t=30`, "", `, limit "a", wait 20s`, 20 * time.Second},
		{"by a limit with a long name", `429 | RateLimit: "` + strings.Repeat("x", 129) + `";r=0;t=30`, "",
			`, limit "` + strings.Repeat("x", 128) + `", wait 30s`, 30 * time.Second},
		{"by one that does not say what remains", "429 | X-RateLimit-Limit: 9 | X-RateLimit-Reset: 1795230045", "",
			`, limit "default", wait 45s`, 45 * time.Second},
		{"with a problem", problem + " | Retry-After: 90", violated, ", wait 1m30s: ", 90 * time.Second},
		{"with a problem cut short", problem, violated[:50], "", 0},
		{"with a problem that is too long", problem, violated + strings.Repeat(" ", 2<<20), "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := withBody(tc.wire, tc.body)
			before := resp.Header.Clone()
			err := Advisor{}.CheckResponse(resp, arrival)
			requireBody(t, resp, tc.body, body)
			require.Equal(t, before, resp.Header)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, resp.StatusCode, refused.Status)
			require.Equal(t, tc.until != 0, !refused.Until.IsZero())
			require.True(t, tc.until == 0 || refused.Until.Equal(arrival.Add(tc.until)))
			require.Equal(t, Advisor{}.Advise(resp, arrival), refused.Advice)
			text := err.Error()
			var problem *Problem
			if errors.As(err, &problem) {
				require.Equal(t, problem, refused.Problem)
				require.Equal(t, []string{"a"}, problem.ViolatedPolicies)
				text = strings.TrimSuffix(text, strings.TrimPrefix(problem.Error(), "ratelimit: "))
			} else {
				require.Nil(t, refused.Problem)
				require.NoError(t, errors.Unwrap(err))
			}
			require.Equal(t, "ratelimit: refused with status 429"+tc.want, text)
		})
	}
	served, body := withBody(`200 | RateLimit: "a";r=0;t=30`, "{}")
	require.NoError(t, Advisor{}.CheckResponse(served, arrival))
	requireBody(t, served, "{}", body)
	require.NoError(t, Advisor{}.CheckResponse(nil, arrival))
	require.Error(t, Advisor{}.CheckResponse(&http.Response{StatusCode: 429}, arrival), "without a body")
}

func withBody(wire, text string) (*http.Response, *closing) {
	resp, body := responseOf(writtenOut(wire)), &closing{Reader: strings.NewReader(text)}
	resp.Body = body
	return resp, body
}

// requireBody: the body can be read from its beginning, and is closed by the caller.
func requireBody(t *testing.T, resp *http.Response, want string, body *closing) {
	t.Helper()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, string(read))
	require.Zero(t, body.closed)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, body.closed)
}

// A body that fails in the middle fails in the same place when it is read again.
func TestCheckResponseBodyFails(t *testing.T) {
	broken := errors.New("connection reset")
	resp := responseOf(writtenOut(`429 | Content-Type: application/problem+json`))
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"title"`), iotest.ErrReader(broken)))
	require.Error(t, Advisor{}.CheckResponse(resp, arrival))
	read, err := io.ReadAll(resp.Body)
	require.Equal(t, `{"title"`, string(read))
	require.Equal(t, broken, err)
}

func TestAdviseOptions(t *testing.T) {
	exhausted := responseOf(`RateLimit: "a";r=0;t=30`)
	for most, want := range map[time.Duration]string{
		time.Second: "wait 1s of 30s by limit a", 30 * time.Second: "wait 30s by limit a", time.Hour: "wait 30s by limit a",
		-1: "wait 30s by limit a", math.MaxInt64: "wait 30s by limit a",
	} {
		require.Equal(t, want, adviceSummary(Advisor{MaxWait: most}.Advise(exhausted, arrival)), most)
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
	require.ErrorAs(t, Advisor{}.CheckResponse(responseOf(writtenOut(`429 | Retry-After: 60`)), time.Time{}), &soon)
	require.WithinRange(t, soon.Until, now.Add(time.Minute), time.Now().Add(time.Minute))
	require.ErrorAs(t, Advisor{}.CheckResponse(responseOf(writtenOut(`429 | Retry-After: 0`)), arrival), &soon)
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
	require.Equal(t, 600*time.Millisecond, Advisor{}.Advise(limit, arrival).Pace)
}

// An Advice is printed for people: what to do, why, and at which pace to go on.
func TestAdviceString(t *testing.T) {
	for _, tc := range []struct{ name, wire, want string }{
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
		{"a window", `RateLimit-Policy: "a";q=10;w=60 | RateLimit: "a";r=0`, `wait 1m0s (limit "a";r=0, its window)`},
		{"Retry-After", "Retry-After: 90", "wait 1m30s (Retry-After)"},
		{"Retry-After of 0", "Retry-After: 0", "go on (Retry-After)"},
		{"Retry-After beside a limit", `Retry-After: 20 | RateLimit: "burst";r=0;t=30`, `wait 20s (Retry-After, limit "burst";r=0;t=30)`},
		{"a wait that is cut", `RateLimit: "a";r=0;t=2040`, `wait 10m0s of 34m0s (limit "a";r=0;t=2040)`},
		{"a limit without an end", `RateLimit: "a";r=0`, "nothing remains; it does not say for how long"},
		{"a limit without an end, and the pace of another", `RateLimit: "a";r=0, "b";r=5;t=600`, "nothing remains; it does not say for how long, pace 2m0s"},
		{"refused by a limit without an end", `429 | RateLimit: "a";r=0`, "refused; it does not say for how long"},
		{"refused, and nothing said", `429`, "refused; it does not say for how long"},
		{"refused with something remaining", `429 | RateLimit: "a";r=3;t=30`, "refused; it does not say for how long, pace 10s"},
		{"refused by a limit", `429 | RateLimit: "a";r=0;t=30`, `refused, wait 30s (limit "a";r=0;t=30)`},
		{"refused by one that does not say what remains", `429 | X-RateLimit-Limit: 9 | X-RateLimit-Reset-After: 30`, `refused, wait 30s (limit "default";t=30)`},
		{"refused with a Retry-After of 0", `429 | Retry-After: 0`, "refused, wait 0s (Retry-After)"},
		{"a long name", `RateLimit: "` + strings.Repeat("x", 200) + `";r=0;t=30`, `wait 30s (limit "` + strings.Repeat("x", 128) + `";r=0;t=30)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, fmt.Sprint(Advisor{}.Advise(responseOf(writtenOut(tc.wire)), arrival)))
		})
	}
}

func TestAdviceLogValue(t *testing.T) {
	for _, tc := range []struct{ name, wire, want string }{
		{"nothing", "", `{"level":"INFO","msg":"m"}`},
		{"a pace", `RateLimit: "a";r=3;t=30`, `{"level":"INFO","msg":"m","advice":{"pace":10000000000}}`},
		{"a wait", "Retry-After: 5", `{"level":"INFO","msg":"m","advice":{"wait":5000000000,"source":"retry-after"}}`},
		{"the shortest pace", `RateLimit: "a";r=999999999999999;t=1`, `{"level":"INFO","msg":"m","advice":{"pace":1}}`},
		{"the shortest wait", "Retry-After: 2026-11-21T03:00:00.000000001Z", `{"level":"INFO","msg":"m","advice":{"wait":1,"source":"retry-after"}}`},
		{"a refusal, and a wait that is cut", `429 | Retry-After: 1000`,
			`{"level":"INFO","msg":"m","advice":{"refused":true,"wait":600000000000,"asked":1000000000000,"source":"retry-after"}}`},
		{"a limit", `RateLimit: "a";r=0;t=30`, `{"level":"INFO","msg":"m","advice":{"wait":30000000000,"source":"limit","limit":"\"a\";r=0;t=30"}}`},
		{"a limit beside a Retry-After", `Retry-After: 5 | RateLimit: "a";r=0;t=30`, `{"level":"INFO","msg":"m","advice":{"wait":5000000000,"source":"retry-after","limit":"\"a\";r=0;t=30"}}`},
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
			log.Info("m", "advice", Advisor{}.Advise(responseOf(writtenOut(tc.wire)), arrival))
			require.Equal(t, tc.want+"\n", b.String())
		})
	}
}
