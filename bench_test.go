package ratelimit

import (
	"fmt"
	"maps"
	"net/http"
	"testing"

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
