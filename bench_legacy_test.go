package ratelimit

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchmarkHeaders are what ParseAny is measured upon, with the allocations
// that it may cost.
var benchmarkHeaders = []struct {
	name    string
	h       http.Header
	limits  int
	dialect string
	allocs  float64
}{
	{"unrelated", wire(unrelated), 0, "", 0},
	{"github", wire(`
		Date: Mon, 01 Jul 2013 17:27:06 GMT
		X-RateLimit-Limit: 5000
		X-RateLimit-Remaining: 4997
		X-RateLimit-Reset: 1372700873
		X-RateLimit-Used: 3
		X-RateLimit-Resource: core`), 1, "github", 2},
	{"x-ratelimit", wire(`
		X-RateLimit-Limit: 60
		X-RateLimit-Remaining: 56
		X-RateLimit-Reset: 30`), 1, "x-ratelimit", 2},
	{"openai", wire(`
		X-RateLimit-Limit-Requests: 60
		X-RateLimit-Limit-Tokens: 150000
		X-RateLimit-Remaining-Requests: 59
		X-RateLimit-Remaining-Tokens: 149984
		X-RateLimit-Reset-Requests: 1s
		X-RateLimit-Reset-Tokens: 6m0s`), 2, "openai", 6},
	{"draft-06", wire(`
		RateLimit-Limit: 100
		RateLimit-Policy: 100;w=60
		RateLimit-Remaining: 50
		RateLimit-Reset: 30`), 1, "draft-06", 4},
	{"draft-07", wire(`
		RateLimit: limit=100, remaining=50, reset=30
		RateLimit-Policy: 100;w=60`), 1, "draft-07", 6},
}

func BenchmarkParseAny(b *testing.B) {
	o := LegacyOptions{Now: time.Date(2013, 7, 1, 17, 27, 6, 0, time.UTC)}
	for _, bm := range benchmarkHeaders {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var f Fields
			for b.Loop() {
				f, _ = ParseAny(bm.h, o)
			}
			require.Len(b, f.Limits, bm.limits)
			require.Equal(b, bm.dialect, f.Dialect)
		})
	}
}

func BenchmarkSetLegacy(b *testing.B) {
	f := Fields{
		Policies: []Policy{{Name: "default", Quota: 100, Window: SecondsOf(60)}},
		Limits:   []Limit{{Name: "default", Remaining: 50, Reset: SecondsOf(30)}},
	}
	for _, name := range []string{"draft-06", "draft-07", "x-ratelimit", "openai"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			d, _ := LookupDialect(name)
			h := http.Header{}
			var err error
			for b.Loop() {
				err = SetLegacy(h, d, f, time.Time{})
			}
			require.NoError(b, err)
			require.NotEmpty(b, h)
		})
	}
}

func BenchmarkParseAnyHostile(b *testing.B) {
	for _, n := range []int{100, 1000} {
		h := http.Header{}
		for i := range n {
			h.Set(fmt.Sprintf("X-RateLimit-Limit-N%d", i), "10")
			h.Set(fmt.Sprintf("X-RateLimit-Remaining-N%d", i), "x")
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var f Fields
			for b.Loop() {
				f, _ = ParseAny(h, LegacyOptions{})
			}
			require.Len(b, f.Policies, n)
		})
	}
}
