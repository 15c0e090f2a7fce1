package ratelimit

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

const (
	benchLimit    = `"default";r=50;t=30`
	benchPolicies = `"burst";q=100;w=60, "daily";q=1000;w=86400`
	benchFull     = `"burst";q=100;qu="requests";w=60;pk=:dHJpYWwxMjEzMjM=:;acme-burst=1000`
)

// amongOthers adds fields of limits to a response with twenty other fields.
func amongOthers(lines string) http.Header {
	h := trial.Wire(trial.Unrelated)
	maps.Copy(h, trial.Wire(lines))
	return h
}

// benchmarkHeaders are the inputs for ParseAny, with the allowed allocations.
var benchmarkHeaders = []struct {
	name    string
	h       http.Header
	limits  int
	dialect string
	allocs  int
}{
	{"none", trial.Wire(trial.Unrelated), 0, "", 0},
	{"ids of a cloud", amongOthers(`
		X-Amzn-Requestid: 5bbd2b3c-6f8a-4f0f-8d3f-0a7b6c5d4e3f
		X-Amzn-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793
		X-Ms-Request-Id: 6a5d4b3c-1f2e-4d3c-8b7a-9f8e7d6c5b4a`), 0, "", 0},
	{"a look-alike", amongOthers("X-Acme-Remaining: 5"), 0, "", 2},
	{"words", amongOthers(`
		Acme-Rate-Limit-Limit: 60
		Acme-Rate-Limit-Remaining: 56
		Acme-Rate-Limit-Reset: 30s`), 1, "acme-rate-limit", 4},
	{"github", amongOthers(`
		X-RateLimit-Limit: 5000
		X-RateLimit-Remaining: 4997
		X-RateLimit-Reset: 1795230060
		X-RateLimit-Used: 3
		X-RateLimit-Resource: core`), 1, "x-ratelimit", 2},
	{"x-ratelimit", amongOthers(`
		X-RateLimit-Limit: 60
		X-RateLimit-Remaining: 56
		X-RateLimit-Reset: 30`), 1, "x-ratelimit", 2},
	{"openai", amongOthers(`
		X-RateLimit-Limit-Requests: 60
		X-RateLimit-Limit-Tokens: 150000
		X-RateLimit-Remaining-Requests: 59
		X-RateLimit-Remaining-Tokens: 149984
		X-RateLimit-Reset-Requests: 1s
		X-RateLimit-Reset-Tokens: 6m0s`), 2, "x-ratelimit", 3},
	{"anthropic", amongOthers(`
		Anthropic-RateLimit-Requests-Limit: 50
		Anthropic-RateLimit-Requests-Remaining: 49
		Anthropic-RateLimit-Requests-Reset: 2026-11-21T03:00:30Z`), 1, "anthropic-ratelimit", 4},
	{"draft-06", amongOthers(`
		RateLimit-Limit: 100
		RateLimit-Policy: 100;w=60
		RateLimit-Remaining: 50
		RateLimit-Reset: 30`), 1, "draft-06", 2},
	{"draft-07", amongOthers(`
		RateLimit: limit=100, remaining=50, reset=30
		RateLimit-Policy: 100;w=60`), 1, "draft-07", 2},
}

func TestParseAnyAllocations(t *testing.T) {
	mine := mustDialect("mine", DialectField{Name: "Acme-Left", Role: RoleRemaining})
	for _, tt := range benchmarkHeaders {
		for _, o := range []LegacyOptions{{Now: late}, {Now: late, Dialects: []*Dialect{mine}}} {
			got, err := ParseAny(tt.h, o)
			require.NoError(t, err)
			require.Len(t, got.Limits, tt.limits)
			require.Equal(t, tt.dialect, got.Dialect)
			allocs := testing.AllocsPerRun(100, func() { _, _ = ParseAny(tt.h, o) })
			require.LessOrEqual(t, allocs, float64(tt.allocs), tt.name)
		}
	}
}

func TestSetAllocations(t *testing.T) {
	h, f := http.Header{}, fieldsOf(t, `"default";q=100;w=60`, `"default";r=50;t=30`)
	require.NoError(t, XRateLimit.Set(h, f, late))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = XRateLimit.Set(h, f, late) }), 6.0)
	require.Equal(t, trial.Wire("X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30"), h)
}

func TestRoundTripAllocations(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines string
		want  float64
	}{
		{"no fields", "", 1},
		{"current fields", LimitField + ": " + benchLimit, 4},
		{"older fields", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := trial.ResponseOf(trial.Unrelated + tc.lines)
			// If a request had to wait, it would fail, and the test with it.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			rt := &Transport{Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) { return answer, nil })}
			req := trial.NewRequest(t, trial.Example).WithContext(ctx)
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = rt.RoundTrip(req) }), tc.want)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.lines != "", Advise(resp, trial.Arrival).Pace > 0)
		})
	}
}

// TestSizedHeaders: a header of 1 MiB takes little memory (law 12), because most of it is not read.
// The test would not end if any reader took more than linear time.
func TestSizedHeaders(t *testing.T) {
	const room = 8 << 20 // for the results of 1024 fields, or of 16 lines
	took := func(h http.Header) uint64 {
		return trial.Allocated(func() { _ = Advise(&http.Response{Header: h}, late) })
	}
	took(http.Header{"X-Remaining": {"5"}}) // makes the tables
	for _, tt := range sizedHeaders {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.make(hostileSize)
			require.Less(t, took(h), uint64(room))
			lawHostile(t, h)
			_, _ = ParseRetryAfter(h, late)
			Expose(h)
			Check(&http.Response{StatusCode: http.StatusOK, Header: h})
		})
	}
}

// TestHostileShapes reads the shapes in older fields.
func TestHostileShapes(t *testing.T) {
	t.Parallel()
	for _, shape := range hostileShapes {
		value := shape.value(128 << 10)
		for _, key := range []string{"Ratelimit-Limit", "Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Reset", "X-Ratelimit-Remaining",
			"X-App-Rate-Limit", "Sforce-Limit-Info", "Zendesk-Ratelimit-A", "X-App-Usage", "X-Sentry-Rate-Limits", "Req-Limit-Short"} {
			lawHostile(t, http.Header{key: {value}})
		}
	}
}

// lawHostile checks that the result is valid, and the error is short.
func lawHostile(t *testing.T, h http.Header) {
	t.Helper()
	f, err := ParseAny(h, LegacyOptions{Now: late})
	lawFields(t, f)
	if err != nil {
		require.Less(t, len(err.Error()), 1<<20)
	}
}

// hostileSize is the length of the headers of sizedHeaders. It is the longest header that
// package http reads from a server by default.
const hostileSize = 1 << 20

// ordinaryHeader returns a header of a given length, with fields that are not about limits.
func ordinaryHeader(size int) http.Header { return keysOf(size, "X-Custom-Field-%d", "some value") }

// sizedHeaders are headers of a given length that cost a reader more than ordinary fields.
var sizedHeaders = []struct {
	name string
	make func(size int) http.Header
}{
	{"short names", func(n int) http.Header { return keysOf(n, "A%d", "b") }},
	{"ordinary names, and a remaining", func(n int) http.Header {
		h := ordinaryHeader(n)
		h["X-Foo-Remaining"] = []string{"5"}
		return h
	}},
	{"ordinary names of a family, and a remaining", func(n int) http.Header {
		h := ordinaryHeader(n)
		h["X-Custom-Remaining"] = []string{"5"}
		return h
	}},
	{"glued words", func(n int) http.Header { return keysOf(n, "Limits#Bucketkeyin%d-Limused", "1") }},
	{"glued words behind the anchor", func(n int) http.Header { return keysOf(n, "X-Ratelimit-Limitslimitslimitsx%d", "1") }},
	{"a stop word", func(n int) http.Header { return keysOf(n, "X-Ratelimit-N%d-Url", "1") }},
	{"remaining numbers", func(n int) http.Header { return keysOf(n, "X-P%d-Remaining", "1") }},
	{"limits", func(n int) http.Header { return keysOf(n, "X-Ratelimit-Remaining-N%d", "1") }},
	{"limits of families", func(n int) http.Header { return keysOf(n, "X-N%d-Ratelimit-Remaining", "1") }},
	{"an exception", func(n int) http.Header { return keysOf(n, "X-Mbx-Used-N%d", "1") }},
	{"waits", func(n int) http.Header { return keysOf(n, "X-N%d-Retry-After", "5") }},
	{"lines of a function", func(n int) http.Header { return linesOf(n, "X-App-Usage", "1") }},
	{"lines of JSON", func(n int) http.Header { return linesOf(n, "X-App-Usage", `{"call_count":1}`) }},
	{"lines of remaining numbers", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Remaining", "1") }},
	{"lines of quotas", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Limit", "1") }},
	{"lines of malformed quotas", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Limit", "x") }},
	{"lines of policies", func(n int) http.Header { return linesOf(n, "Ratelimit-Policy", "1;w=1") }},
	{"lines of the Dictionary", func(n int) http.Header { return linesOf(n, "Ratelimit", "limit=1, reset=1") }},
	{"a list of remaining numbers", func(n int) http.Header {
		return http.Header{"X-Ratelimit-Remaining": {strings.Repeat("1, ", n/3) + "1"}}
	}},
	{"a list of resets", func(n int) http.Header { return http.Header{"X-Ratelimit-Reset": {strings.Repeat("1, ", n/3) + "1"}} }},
	{"a list of quotas", func(n int) http.Header { return http.Header{"X-Ratelimit-Limit": {strings.Repeat("1, ", n/3) + "1"}} }},
	{"a long Dictionary", func(n int) http.Header {
		return http.Header{"Ratelimit": {strings.Repeat("limit=1,", n/8) + "reset=1"}}
	}},
	{"parallel lists", func(n int) http.Header {
		list := membersOf(n/2, "%d, ")
		return http.Header{"X-Ratelimit-Limit": {list}, "X-Ratelimit-Remaining": {list}}
	}},
	{"a record", func(n int) http.Header { return http.Header{"X-Ratelimit-Remaining": {membersOf(n, "n%[1]d=%[1]d;")}} }},
	{"bans", func(n int) http.Header { return http.Header{"X-Sentry-Rate-Limits": {membersOf(n, "%[1]d:n%[1]d,")}} }},
	{"comments", func(n int) http.Header { return http.Header{"Ratelimit-Limit": {membersOf(n, ";c%[1]d=%[1]d")}} }},
	{"Integer policies", func(n int) http.Header { return http.Header{"Ratelimit-Policy": {membersOf(n, "%[1]d;w=%[1]d,")}} }},
	{"one Integer policy", func(n int) http.Header { return http.Header{"Ratelimit-Policy": {strings.Repeat("9;w=9,", n/6)}} }},
	{"parameters", func(n int) http.Header { return http.Header{"Ratelimit": {parametersOf(n)}} }},
	{"policies behind the quota", func(n int) http.Header { return http.Header{"X-Ratelimit-Limit": {membersOf(n, "%[1]d;w=%[1]d,")}} }},
}

// keysOf returns a header of a given length, with one line in each field.
func keysOf(size int, format, value string) http.Header {
	before, behind, _ := strings.Cut(http.CanonicalHeaderKey(format), "%d")
	h := make(http.Header, size/(len(format)+len(": \r\n")+len(value)))
	for i := 0; size > 0; i++ {
		key := before + strconv.Itoa(i) + behind
		h[key] = []string{value}
		size -= len(key) + len(": \r\n") + len(value)
	}
	return h
}

// membersOf returns a list of a given length. Each member has its own number.
func membersOf(size int, format string) string {
	b := make([]byte, 0, size+len(format))
	for i := 1; len(b) < size; i++ {
		b = fmt.Appendf(b, format, i)
	}
	return string(b)
}

// parametersOf returns members of a given length in all, with as many parameters as are read.
func parametersOf(size int) string {
	one := `"";r=1`
	for i := range maxWritten - 1 {
		one += ";" + strconv.FormatInt(int64(36*36*10+i%(maxParams-1)), 36)
	}
	return strings.Repeat(one+",", size/len(one)-1) + one
}

// linesOf returns a header of a given length, with many lines of one field.
func linesOf(size int, key, value string) http.Header {
	n := size/(len(key)+len(": \r\n")+len(value)) + 1
	return http.Header{key: slices.Repeat([]string{value}, n)}
}

// BenchmarkHostile reads field values of a given size, in shapes that cost a careless parser
// more than linear time.
func BenchmarkHostile(b *testing.B) {
	for _, shape := range hostileShapes {
		for _, size := range []int{100 << 10, 1 << 20} {
			value := shape.value(size)
			b.Run(fmt.Sprintf("%s/%dKiB", shape.name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(value)))
				var err error
				for b.Loop() {
					_, err = ParseLimits(value)
				}
				require.ErrorIs(b, err, shape.err)
			})
		}
	}
}

// BenchmarkSizedHeaders reports the cost of sizedHeaders for a client, in multiples of ordinary
// fields of 1 MiB. Law 12 bounds it by ten.
func BenchmarkSizedHeaders(b *testing.B) {
	advise := func(h http.Header) time.Duration {
		start := time.Now()
		Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, late)
		return time.Since(start)
	}
	ordinary := ordinaryHeader(hostileSize)
	for _, tt := range sizedHeaders {
		h := tt.make(hostileSize)
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			ours, base := advise(h), advise(ordinary)
			for b.Loop() { // the fastest of each, alternately: both see the same machine
				ours, base = min(ours, advise(h)), min(base, advise(ordinary))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours)/float64(base), "ratio")
		})
	}
}

// BenchmarkGateState reads the state of 10,000 keys. In the fastest round, gap-ns is the longest
// time that Keys took between two keys. It includes the time for which the lock is held.
func BenchmarkGateState(b *testing.B) {
	const keys = 10_000
	var g Gate
	for i := range keys {
		p, _ := g.TryEnter("https://api.example/" + strconv.Itoa(i))
		p.Answered(Advice{Wait: time.Hour, Fields: Fields{Limits: []Limit{{Name: "a", Reset: SecondsOf(3600)}}}}, time.Now())
	}
	b.ReportAllocs()
	shortest, n := time.Hour, 0
	for b.Loop() {
		last, longest := time.Now(), time.Duration(0)
		n = 0
		for key := range g.Keys() {
			longest = max(longest, time.Since(last))
			if w, ok := g.State(key); ok && w.Reason == "limit" {
				n++
			}
			last = time.Now()
		}
		shortest = min(shortest, longest)
	}
	require.Equal(b, keys, n)
	b.ReportMetric(float64(shortest), "gap-ns")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/keys, "ns/key")
}
