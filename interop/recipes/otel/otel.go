// Package otel reports limits and waits to OpenTelemetry.
package otel

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// NewTransport returns a Transport that adds the tightest limit and the wait to the span of
// each request.
func NewTransport(meter metric.Meter) (*ratelimit.Transport, error) {
	remaining, err1 := meter.Int64Gauge("http.ratelimit.remaining")
	waits, err2 := meter.Float64Histogram("http.ratelimit.wait.duration", metric.WithUnit("s"))
	return &ratelimit.Transport{
		Observe: func(r *http.Request, a ratelimit.Advice) {
			limit, ok := a.Fields.Tightest()
			if !ok || limit.Remaining == ratelimit.Unknown {
				return
			}
			name := attribute.String("http.ratelimit.policy.name", limit.Name)
			remaining.Record(r.Context(), limit.Remaining, metric.WithAttributes(name))
			span := trace.SpanFromContext(r.Context())
			span.SetAttributes(name, attribute.Int64("http.ratelimit.remaining", limit.Remaining))
			if reset, ok := limit.Reset.Value(); ok {
				span.SetAttributes(attribute.Int64("http.ratelimit.reset", reset))
			}
			if policy, ok := a.Fields.PolicyOf(limit); ok {
				unit := string(cmp.Or(policy.Unit, ratelimit.Requests))
				span.SetAttributes(attribute.Int64("http.ratelimit.policy.quota", policy.Quota), attribute.String("http.ratelimit.policy.unit", unit))
			}
		},
		Waiting: func(r *http.Request, w ratelimit.Wait) (done func()) {
			start, name := time.Now(), attribute.String("http.ratelimit.wait.reason", w.Reason)
			return func() {
				waited := time.Since(start).Seconds()
				waits.Record(r.Context(), waited, metric.WithAttributes(name))
				trace.SpanFromContext(r.Context()).AddEvent("http.ratelimit.wait", trace.WithAttributes(name, attribute.Float64("seconds", waited)))
			}
		},
	}, errors.Join(err1, err2)
}
