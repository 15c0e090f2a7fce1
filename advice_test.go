package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

var _ fmt.Stringer = SourceNone

// adviseCases are responses with their advice, in the form of adviceSummary.
var adviseCases = trial.Rows("testdata/client/advice.txt")

// adviceSummary has everything in an Advice except its Fields.
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
		t.Run(tc.Name, func(t *testing.T) {
			resp := trial.ResponseOf(tc.Wire)
			before := resp.Header.Clone()
			got := Advise(resp, trial.Arrival)
			want, fields, ok := strings.Cut(tc.Want, ": ")
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

// CheckResponse returns an error for a refusal, and leaves the response unchanged.
func TestCheckResponse(t *testing.T) {
	const violated = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"T","violated-policies":["a"]}`
	const problem = "429 | Content-Type: application/problem+json"
	for _, tc := range []struct {
		name, wire, body string
		want             string        // the text after "refused with status 429"
		until            time.Duration // from the arrival; 0 is unknown
	}{
		{"nothing else", "429", "", "", 0},
		{"for a time", "429 | Retry-After: 90", "slow down", ", wait 1m30s", 90 * time.Second},
		{"for the least time", "429 | Retry-After: 2026-11-21T03:00:00.000000001Z", "", ", wait 1ns", 1},
		{"for longer than obeyed", "429 | Retry-After: 3600", "slow down", ", wait 1h0m0s", time.Hour},
		{"by a limit", `429 | RateLimit: "a \"b\"";r=0;t=30;pk=:YWxpY2U=:`, "", `, limit "a \"b\"", wait 30s`, 30 * time.Second},
		{"by a limit, next to a Retry-After", `429 | Retry-After: 20 | RateLimit: "a";r=0;t=30`, "", `, limit "a", wait 20s`, 20 * time.Second},
		{"by a limit with a long name", `429 | RateLimit: "` + strings.Repeat("x", 129) + `";r=0;t=30`, "",
			`, limit "` + strings.Repeat("x", 128) + `", wait 30s`, 30 * time.Second},
		{"by a limit without a remaining", "429 | X-RateLimit-Limit: 9 | X-RateLimit-Reset: 1795230045", "",
			`, limit "default", wait 45s`, 45 * time.Second},
		{"with a problem", problem + " | Retry-After: 90", violated, ", wait 1m30s: ", 90 * time.Second},
		{"with a problem cut short", problem, violated[:50], "", 0},
		{"with a problem that is too long", problem, violated + strings.Repeat(" ", 2<<20), "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := withBody(tc.wire, tc.body)
			before := resp.Header.Clone()
			err := Advisor{}.CheckResponse(resp, trial.Arrival)
			requireBody(t, resp, tc.body, body)
			require.Equal(t, before, resp.Header)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, resp.StatusCode, refused.Status)
			require.Equal(t, tc.until != 0, !refused.Until.IsZero())
			require.True(t, tc.until == 0 || refused.Until.Equal(trial.Arrival.Add(tc.until)))
			require.Equal(t, Advise(resp, trial.Arrival), refused.Advice)
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
	require.NoError(t, Advisor{}.CheckResponse(served, trial.Arrival))
	requireBody(t, served, "{}", body)
	require.NoError(t, Advisor{}.CheckResponse(nil, trial.Arrival))
	require.Error(t, Advisor{}.CheckResponse(&http.Response{StatusCode: 429}, trial.Arrival), "without a body")
}

func withBody(wire, text string) (*http.Response, *trial.Closing) {
	resp, body := trial.ResponseOf(trial.WrittenOut(wire)), &trial.Closing{Reader: strings.NewReader(text)}
	resp.Body = body
	return resp, body
}

// requireBody checks that the body can be read from its beginning, and that only the caller
// closes it.
func requireBody(t *testing.T, resp *http.Response, want string, body *trial.Closing) {
	t.Helper()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, string(read))
	require.Zero(t, body.Closed)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, body.Closed)
}

// If a body fails in the middle, it fails in the same place when it is read again.
func TestCheckResponseBodyFails(t *testing.T) {
	broken := errors.New("connection reset")
	resp := trial.ResponseOf(trial.WrittenOut(`429 | Content-Type: application/problem+json`))
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"title"`), iotest.ErrReader(broken)))
	require.Error(t, Advisor{}.CheckResponse(resp, trial.Arrival))
	read, err := io.ReadAll(resp.Body)
	require.Equal(t, `{"title"`, string(read))
	require.Equal(t, broken, err)
}

func TestAdviseOptions(t *testing.T) {
	exhausted := trial.ResponseOf(`RateLimit: "a";r=0;t=30`)
	for most, want := range map[time.Duration]string{
		time.Second: "wait 1s of 30s by limit a", 30 * time.Second: "wait 30s by limit a", time.Hour: "wait 30s by limit a",
		-1: "wait 30s by limit a", math.MaxInt64: "wait 30s by limit a",
	} {
		require.Equal(t, want, adviceSummary(Advisor{MaxWait: most}.Advise(exhausted, trial.Arrival)), most)
	}
	own := Advisor{Legacy: LegacyOptions{
		Dialects: []*Dialect{mustDialect("acme",
			DialectField{Name: "Acme-Left", Role: RoleRemaining}, DialectField{Name: "Acme-End", Role: RoleReset, Format: TimeUnix})},
		Name: "acme",
		Now:  trial.Arrival.Add(-time.Hour), // ignored
	}}
	got := own.Advise(trial.ResponseOf("Acme-Left: 0\nAcme-End: 1795230010"), trial.Arrival)
	require.Equal(t, 10*time.Second, got.Wait)
	require.Equal(t, "acme", got.Limit.Name)
}

// A refusal that only the body shows is one: its Retry-After of 0 overrules no longer wait.
func TestAdviseRefusedForZero(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "refused, wait 30s by limit a", time.Minute: "refused, wait 1m0s by refused a",
	} {
		c := Advisor{Refused: func(*http.Response) (time.Duration, bool) { return wait, true }}
		got := c.Advise(trial.ResponseOf("Retry-After: 0\nRateLimit: \"a\";r=0;t=30"), trial.Arrival)
		require.Equal(t, want, adviceSummary(got))
	}
}

func TestAdviseHandMade(t *testing.T) {
	now := time.Now()
	var soon *RefusedError
	require.ErrorAs(t, Advisor{}.CheckResponse(trial.ResponseOf(trial.WrittenOut(`429 | Retry-After: 60`)), time.Time{}), &soon)
	require.WithinRange(t, soon.Until, now.Add(time.Minute), time.Now().Add(time.Minute))
	require.ErrorAs(t, Advisor{}.CheckResponse(trial.ResponseOf(trial.WrittenOut(`429 | Retry-After: 0`)), trial.Arrival), &soon)
	require.Equal(t, trial.Arrival, soon.Until, "Until is the arrival")
	require.EqualError(t, soon, "ratelimit: refused with status 429")
	bodiless := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {ProblemMediaType}}}
	require.ErrorAs(t, Advisor{}.CheckResponse(bodiless, trial.Arrival), new(*RefusedError))
	require.Nil(t, bodiless.Body)
	require.Zero(t, Advise(nil, trial.Arrival))
	require.Zero(t, Advise(&http.Response{}, time.Time{}))
	require.Zero(t, Advise(&http.Response{Header: http.Header{"Ratelimit": nil, "Retry-After": {}}}, trial.Arrival))
	got := Advise(&http.Response{Header: http.Header{"Ratelimit": {`"a";r=0;t=3`}}}, time.Time{})
	require.Equal(t, 3*time.Second, got.Wait)
	trailer := &http.Response{Trailer: http.Header{"Ratelimit": {`"a";r=0;t=3`}, "Retry-After": {"5"}}}
	require.Zero(t, Advise(trailer, trial.Arrival), "trailers are not read")
}

func TestSourceString(t *testing.T) {
	for source, want := range map[Source]string{
		SourceNone: "none", SourceRetryAfter: "retry-after", SourceLimit: "limit", SourceWindow: "window", -1: "none", 9: "none",
	} {
		require.Equal(t, want, source.String())
	}
}

func TestAdviseAllocations(t *testing.T) {
	silent := trial.ResponseOf(trial.Unrelated)
	require.Zero(t, testing.AllocsPerRun(100, func() { Advise(silent, trial.Arrival) }))
	// This allocation is the slice of limits.
	limit := trial.ResponseOf(trial.Unrelated)
	limit.Header["Ratelimit"] = []string{`"default";r=50;t=30`}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { Advise(limit, trial.Arrival) }), 1.0)
	require.Equal(t, 600*time.Millisecond, Advise(limit, trial.Arrival).Pace)
}

// The text of an Advice is for people: what to do, why, and the pace. In a log an Advice is a
// group.
func TestAdviceString(t *testing.T) {
	logged := 0
	for _, tc := range trial.Rows("testdata/client/advice-text.txt") {
		t.Run(tc.Name, func(t *testing.T) {
			a := Advise(trial.ResponseOf(tc.Wire), trial.Arrival)
			said, inLog, ok := strings.Cut(tc.Want, "\n")
			require.Equal(t, said, fmt.Sprint(a))
			if !ok {
				return
			}
			logged++
			var b strings.Builder
			log := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
			log.Info("m", "advice", a)
			require.Equal(t, inLog+"\n", b.String())
		})
	}
	require.Equal(t, 10, logged)
}

// retryAfterCases are headers of responses, and the waits that they ask for.
var retryAfterCases = trial.Rows("testdata/client/retry-after.txt")

func TestParseRetryAfter(t *testing.T) {
	for _, tc := range retryAfterCases {
		t.Run(tc.Name, func(t *testing.T) {
			wait, ok := ParseRetryAfter(trial.Wire(tc.Wire), trial.Arrival)
			got := wait.String()
			if !ok {
				require.Zero(t, wait)
				got = "none"
			}
			require.Equal(t, tc.Want, got)
		})
	}
	_, ok := ParseRetryAfter(nil, time.Time{})
	require.False(t, ok)
}

// In virtual time it is midnight UTC on 1 January 2000.
func TestSetRetryAfter(t *testing.T) {
	for _, tc := range trial.Rows("testdata/client/set-retry-after.txt") {
		trial.InBubble(t, tc.Name, func(t *testing.T) {
			h, want := trial.Wire(tc.Wire), []string{tc.Want}
			f := fieldsOf(t, h.Get(PolicyField), h.Get(LimitField))
			if text, err := strconv.Unquote(tc.Want); err == nil {
				want[0] = text
			} else if tc.Want == "none" {
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
	h = http.Header{text.RetryAfterMsKey: {"1"}}
	Fields{Limits: []Limit{{Reset: SecondsOf(MaxInteger)}}}.SetRetryAfter(h)
	require.Equal(t, []string{"999999999999999000"}, h[text.RetryAfterMsKey], "longer than a time.Duration")
	Fields{Limits: []Limit{{Reset: SecondsOf(1)}}}.SetRetryAfter(nil)
}

// A shorter Retry-After-Ms is raised too, because clients that read it ignore Retry-After.
func TestSetRetryAfterMs(t *testing.T) {
	for _, tc := range []struct{ name, wire, wantMs, want string }{
		{"shorter", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 5000", "60000", "60"},
		{"shorter by a part of a millisecond", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 59999.5", "60000", "60"},
		{"equal", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 60000", "60000", "60"},
		{"longer", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 90000.5", "90000.5", "91"},
		{"0", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 0", "60000", "60"},
		{"negative", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: -1", "-1", "60"},
		{"the second of two lines is shorter", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: soon\nRetry-After-Ms: 1", "60000", "60"},
		{"beside a longer Retry-After", "RateLimit: \"a\";r=0;t=60\nRetry-After-Ms: 1\nRetry-After: 70", "60000", "70"},
		{"the longest reset", "RateLimit: \"a\";r=0;t=999999999999999\nRetry-After-Ms: 5000", "999999999999999000", "999999999999999"},
		{"something remains", "RateLimit: \"a\";r=1;t=60\nRetry-After-Ms: 5000", "5000", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := trial.Wire(tc.wire)
			f, err := Parse(h)
			require.NoError(t, err)
			for range 2 { // twice is as once
				f.SetRetryAfter(h)
				require.Equal(t, tc.wantMs, h.Get("Retry-After-Ms"))
				require.Equal(t, tc.want, h.Get("Retry-After"))
			}
		})
	}
}

// A limit only raises the wait, whatever a response asks for and whatever the clocks are. That
// holds for clients that read only the first line of Retry-After, too.
func TestRaiseRetryAfter(t *testing.T) {
	waits := []string{"", "0", "5", "60.5", "-1", "soon", "0.0001", "99999999999999999999", "Sat, 21 Nov 2026 03:01:30 GMT",
		"Saturday, 21-Nov-26 03:02:30 GMT", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "Sun, 06 Nov 1994 08:49:37 GMT"}
	fields := map[string][]string{
		"Retry-After":    waits,
		"Retry-After-Ms": {"0", "59999.5", "90000", "soon", "-7", "99999999999999999999"},
		"X-Retry-After":  waits,
		"Date":           {"Sat, 21 Nov 2026 02:59:30 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "now"},
		"Age":            {"0", "5", "99999999999999999999", "-1", "old"},
	}
	clocks := []time.Time{trial.Arrival, trial.Arrival.Add(700 * time.Millisecond), time.Date(1994, time.November, 6, 8, 49, 0, 0, time.UTC),
		time.Unix(1<<40, 0), time.Unix(-1<<40, 0)}
	resets := []Seconds{{}, SecondsOf(-5), SecondsOf(0), SecondsOf(60), SecondsOf(MaxInteger), SecondsOf(math.MaxInt64)}
	standard := func(h http.Header, at time.Time) time.Duration {
		d, _ := ParseRetryAfter(http.Header{"Retry-After": h["Retry-After"], "Date": h["Date"], "Age": h["Age"]}, at)
		return d
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		h := http.Header{}
		for key, values := range fields {
			for range rnd.IntN(3) {
				h.Add(key, values[rnd.IntN(len(values))])
			}
		}
		at, reset, adds := clocks[rnd.IntN(len(clocks))], resets[rnd.IntN(len(resets))], rnd.IntN(2) == 0
		got := h.Clone()
		raiseRetryAfter(got, reset, at, adds)
		before, asked := ParseRetryAfter(h, at)
		after, asks := ParseRetryAfter(got, at)
		least := before
		if wait, ok := reset.Duration(); ok && wait >= 0 && (adds || asked) {
			least = max(least, wait)
			require.Len(t, got["Retry-After"], 1)
			require.GreaterOrEqual(t, standard(got, at), wait, "%v, %v", h, got)
		}
		require.GreaterOrEqual(t, after, least, "%v, %v", h, got)
		require.GreaterOrEqual(t, standard(got, at), standard(h, at), "%v, %v", h, got)
		require.Equal(t, asked || adds && reset.ok && reset.n >= 0, asks)
		again := got.Clone()
		raiseRetryAfter(again, reset, at, adds)
		require.Equal(t, got, again)
	}
}

// lawSetRetryAfter reads the header before and after SetRetryAfter. The wait of h is never
// shortened, and afterwards no limit has a longer wait.
func lawSetRetryAfter(t testing.TB, h http.Header, f Fields) {
	t.Helper()
	now := time.Now()
	before, asked := ParseRetryAfter(h, now)
	f.SetRetryAfter(h)
	after, ok := ParseRetryAfter(h, now.Add(-time.Second)) // a date may be up to a second nearer
	require.True(t, ok || !asked)
	require.GreaterOrEqual(t, after, before)
	if wait, ok := f.RetryAfter().Duration(); ok && wait >= 0 {
		most, _ := SecondsOf(MaxInteger).Duration()
		require.GreaterOrEqual(t, after, min(wait, most))
		a := Advice{Fields: f}
		a.follow(0)
		require.Equal(t, wait, a.Wait, "Advise understands the fields alike")
	}
}

// Advisor.Refused can return a wait. Retry-After takes precedence over it, and it takes
// precedence over limits.
func TestAdvisorRefusedWait(t *testing.T) {
	const minute = time.Minute
	for _, tc := range []struct {
		name, wire string
		wait       time.Duration
		refused    bool
		want       string
	}{
		{"GitHub's secondary limit", "403 | X-RateLimit-Limit: 5000 | X-RateLimit-Remaining: 17 | X-RateLimit-Reset: 1800", minute, true,
			"refused, wait 1m0s by refused, pace 1m45.882352942s"},
		{"in a success", "200", minute, true, "refused, wait 1m0s by refused, no fields"},
		{"no refusal", "200", minute, false, "no fields"},
		{"no refusal, and a limit", `200 | RateLimit: "a";r=0;t=30`, minute, false, "wait 30s by limit a"},
		{"next to Retry-After", "429 | Retry-After: 5", minute, true, "refused, wait 5s by retry-after, no fields"},
		{"next to Retry-After of a success", "200 | Retry-After: 5", minute, true, "refused, wait 5s by retry-after, no fields"},
		{"next to a limit", `429 | RateLimit: "a";r=0;t=300`, minute, true, "refused, wait 1m0s by refused a"},
		{"no time, next to a limit", `429 | RateLimit: "a";r=0;t=300`, 0, true, "refused, wait 5m0s by limit a"},
		{"no time", "429", -1, true, "refused, no fields"},
		{"a status that is a refusal", "429 | X-RateLimit-Limit: 9 | X-RateLimit-Reset: 45", minute, false, "refused, wait 45s by limit default"},
		{"for longer than obeyed", "200", time.Hour, true, "refused, wait 10m0s of 1h0m0s by refused, no fields"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Advisor{Refused: func(*http.Response) (time.Duration, bool) { return tc.wait, tc.refused }}
			require.Equal(t, tc.want, adviceSummary(c.Advise(trial.ResponseOf(trial.WrittenOut(tc.wire)), trial.Arrival)))
		})
	}
	a := Advice{Refused: true, Wait: minute, Source: SourceRefused, Limit: Limit{Name: "a", Remaining: 0}}
	require.Equal(t, `refused, wait 1m0s (Advisor.Refused, limit "a";r=0)`, a.String())
}

// Delay is what a loop waits for before it sends a request again.
func TestAdviceDelay(t *testing.T) {
	for _, tc := range []struct {
		name, wire string
		attempt    int
		least      time.Duration // half of the most, unless it is the wait
		most       time.Duration
	}{
		{"nothing refused", "200", 3, 0, 0},
		{"nothing refused, and something remains", `200 | RateLimit: "a";r=5;t=3`, 0, 0, 0},
		{"a success after which nothing remains", `200 | RateLimit: "a";r=0;t=30`, 9, 30 * time.Second, 30 * time.Second},
		{"a refusal with a time", "429 | Retry-After: 7", 9, 7 * time.Second, 7 * time.Second},
		{"longer than MaxWait", "429 | Retry-After: 86400", 0, DefaultMaxWait, DefaultMaxWait},
		{"a bare refusal", "429", 0, time.Second / 2, time.Second},
		{"a bare refusal again", "429", 1, time.Second, 2 * time.Second},
		{"the longest", "503", 5, 16 * time.Second, 32 * time.Second},
		{"longer would be too long", "429", 6, 16 * time.Second, 32 * time.Second},
		{"for ever", "429", math.MaxInt, 16 * time.Second, 32 * time.Second},
		{"before the first", "429", -1, time.Second / 2, time.Second},
		{"long before the first", "429", math.MinInt, time.Second / 2, time.Second},
		{"a refusal that asks for no wait", "429 | Retry-After: 0", 1, time.Second, 2 * time.Second},
		{"something remains", `429 | RateLimit: "a";r=5;t=3`, 0, time.Second / 2, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Advise(trial.ResponseOf(trial.WrittenOut(tc.wire)), trial.Arrival)
			low, high := time.Duration(math.MaxInt64), time.Duration(0)
			for range 200 {
				d := a.Delay(tc.attempt)
				low, high = min(low, d), max(high, d)
			}
			require.GreaterOrEqual(t, low, tc.least)
			require.LessOrEqual(t, high, tc.most)
			require.Equal(t, tc.least < tc.most, high-low > (tc.most-tc.least)/2, "it is random if the server asked for no wait")
		})
	}
	require.Zero(t, Advice{Refused: true, Final: true}.Delay(3))
	require.Zero(t, Advice{}.Delay(3))
}

// A loop around a server that refuses, and names no time, sends few requests.
func TestAdviceDelayLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, sent := time.Now(), 0
		for attempt := 0; time.Since(began) < time.Minute; attempt++ {
			sent++
			time.Sleep(Advise(trial.ResponseOf("HTTP/1.1 429 Too Many Requests"), time.Now()).Delay(attempt))
		}
		require.LessOrEqual(t, sent, 8)
	})
}

// A final refusal asks for no wait, whatever the fields ask for.
func TestAdviseFinal(t *testing.T) {
	c := Advisor{Refused: func(*http.Response) (time.Duration, bool) { return Final, true }}
	for _, wire := range []string{"429", "429 | Retry-After: 60", `200 | RateLimit: "a";r=0;t=30`, "403 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 30"} {
		resp := trial.ResponseOf(trial.WrittenOut(wire))
		a := c.Advise(resp, trial.Arrival)
		require.True(t, a.Refused && a.Final, wire)
		require.Zero(t, max(a.Wait, a.Asked, a.Delay(2)), wire)
		require.Equal(t, SourceRefused, a.Source)
		require.True(t, strings.HasPrefix(a.String(), "refused for good (Advisor.Refused"), a.String())
		err := c.CheckResponse(resp, trial.Arrival)
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.Zero(t, refused.Until)
	}
	c.Refused = func(*http.Response) (time.Duration, bool) { return Final, false }
	require.False(t, c.Advise(trial.ResponseOf("HTTP/1.1 429 Too Many Requests"), trial.Arrival).Final, "only a refusal can be final")
	c.Refused = func(*http.Response) (time.Duration, bool) { return Final + 1, true }
	a := c.Advise(trial.ResponseOf("HTTP/1.1 429 Too Many Requests\nRetry-After: 5"), trial.Arrival)
	require.Equal(t, []any{false, 5 * time.Second}, []any{a.Final, a.Wait}, "other waits of 0 or less are unknown")
}

// Malformed has the faults of fields, and the rest of the advice is as without them.
func TestAdviseMalformed(t *testing.T) {
	a := Advise(trial.ResponseOf("RateLimit: \"burst\";r=-37;t=20\nX-RateLimit-Limit: many"), trial.Arrival)
	require.Equal(t, "RateLimit, X-Ratelimit-Limit", faultsOf(t, a.Malformed))
	var e *FieldError
	require.ErrorAs(t, a.Malformed, &e)
	require.Equal(t, "go on", a.String())
	require.NoError(t, Advise(trial.ResponseOf(`RateLimit: "burst";r=37;t=20`), trial.Arrival).Malformed)
	require.NoError(t, Advise(nil, trial.Arrival).Malformed)
	require.NoError(t, Advise(trial.ResponseOf("Age: 5\nRateLimit: x y"), trial.Arrival).Malformed, "fields from a cache are not read")
}
