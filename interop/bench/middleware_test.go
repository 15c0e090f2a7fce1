package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/stretchr/testify/require"
)

// A counter is the limiter of the benchmarks: it counts under a lock.
type counter struct {
	mu   sync.Mutex
	used int64
}

func (c *counter) take() (used int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = (c.used + 1) % 100
	return c.used
}

// A sink is a ResponseWriter that stores only the header.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// byHand is the code of a careful author without this package, for one policy whose name needs
// no escapes.
type byHand struct {
	counter
	refuses, hands bool // hands: it hands its decision on by a context
	next           http.Handler
}

type handDecision struct {
	name      string
	remaining int64
}

type handKey struct{}

var quotaByHand, windowByHand, leftByHand = 100, 60, 30 // of the policy, out of a configuration

func (m *byHand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	remaining := int64(quotaByHand) - m.take()
	h := w.Header()
	h.Set("RateLimit-Policy", `"minute";q=`+strconv.Itoa(quotaByHand)+";w="+strconv.Itoa(windowByHand))
	h.Set("RateLimit", `"minute";r=`+strconv.FormatInt(remaining, 10)+";t="+strconv.Itoa(leftByHand))
	if m.refuses {
		h.Set("Retry-After", strconv.Itoa(leftByHand))
		h.Set("Content-Type", "application/problem+json")
		h.Set("Cache-Control", "no-store")
		body, err := json.Marshal(map[string]any{
			"type": ratelimit.QuotaExceeded, "title": "Quota Exceeded", "status": 429, "violated-policies": []string{"minute"},
		})
		if err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(body)
		return
	}
	if m.hands {
		r = r.WithContext(context.WithValue(r.Context(), handKey{}, &handDecision{"minute", remaining}))
	}
	m.next.ServeHTTP(w, r)
}

// BenchmarkMiddlewareRatios compares a Middleware to code by hand.
func BenchmarkMiddlewareRatios(b *testing.B) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	middleware := func(refuses bool) http.Handler {
		var c counter
		return (&announce.Middleware{Take: func(*http.Request) (d announce.Decision, err error) {
			used := c.take()
			d.Fields = ratelimit.Fields{
				Policies: []ratelimit.Policy{{Name: "minute", Quota: 100, Window: ratelimit.SecondsOf(60)}},
				Limits:   []ratelimit.Limit{{Name: "minute", Remaining: 100 - used, Reset: ratelimit.SecondsOf(30)}},
			}
			if refuses {
				d.Fields.Limits[0].Remaining = 0
				d.Violated = []string{"minute"}
			}
			return d, nil
		}}).Handler(next)
	}
	for _, bc := range []struct {
		name string
		of   http.Handler
		base http.Handler
	}{
		{"passes, against code with a context", middleware(false), &byHand{hands: true, next: next}},
		{"passes, against code without a context", middleware(false), &byHand{next: next}},
		{"refuses, against json.Marshal", middleware(true), &byHand{refuses: true, next: next}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, "http://example/", nil)
			serve := func(handler http.Handler) *contender {
				w := &sink{header: http.Header{}}
				return inGo(func() (int, error) {
					clear(w.header)
					handler.ServeHTTP(w, req)
					if w.status == 0 || len(w.header["Ratelimit"]) != 1 {
						return 0, errAnswer
					}
					return w.status, nil
				})
			}
			benchRatio(b, serve(bc.of), serve(bc.base))
		})
	}
}

// benchRatio reports the ratio of two contenders' times. They take turns, and the fastest round
// of each counts.
func benchRatio(b *testing.B, of, base *contender) {
	sides := [...]*contender{of, base}
	for b.Loop() {
		for _, c := range sides {
			ns, err := c.time(time.Millisecond)
			require.NoError(b, err)
			if c.best == 0 || ns < c.best {
				c.best = ns
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(of.best, "ours-ns")
	b.ReportMetric(base.best, "baseline-ns")
	b.ReportMetric(of.best/base.best, "ratio")
}
