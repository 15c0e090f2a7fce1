// Package otel tells OpenTelemetry of limits and of waits.
package otel

import (
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// NewTransport returns a Transport that describes the tightest limit of each response in
// the span of its request, and each wait as an event and in a histogram.
func NewTransport(meter metric.Meter) (*ratelimit.Transport, error) {
	waits, err := meter.Float64Histogram("http.ratelimit.wait.duration", metric.WithUnit("s"))
	observe := func(r *http.Request, a ratelimit.Advice) {
		span := trace.SpanFromContext(r.Context())
		limit, ok := a.Fields.Tightest()
		if !ok {
			return
		}
		span.SetAttributes(attribute.String("http.ratelimit.policy.name", limit.Name), attribute.Int64("http.ratelimit.remaining", limit.Remaining))
		if reset, ok := limit.Reset.Value(); ok {
			span.SetAttributes(attribute.Int64("http.ratelimit.reset", reset))
		}
		if policy, ok := a.Fields.PolicyOf(limit); ok {
			span.SetAttributes(attribute.Int64("http.ratelimit.policy.quota", policy.Quota), attribute.String("http.ratelimit.policy.unit", string(policy.Unit)))
		}
	}
	waiting := func(r *http.Request, until time.Time, a ratelimit.Advice) (done func()) {
		policy := metric.WithAttributes(attribute.String("http.ratelimit.policy.name", a.Limit.Name))
		trace.SpanFromContext(r.Context()).AddEvent("http.ratelimit.wait", trace.WithAttributes(attribute.String("until", until.Format(time.RFC3339))))
		start := time.Now()
		return func() { waits.Record(r.Context(), time.Since(start).Seconds(), policy) }
	}
	return &ratelimit.Transport{Observe: observe, Waiting: waiting}, err
}
