// Package otel reports to OpenTelemetry why requests wait.
package otel

import (
	"context"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// NewTransport returns a Transport that reports how many requests wait, by key and reason, and
// adds each wait to the span of its request.
func NewTransport(meter metric.Meter) (*obey.Transport, error) {
	gate := &obey.Gate{}
	_, err := meter.Int64ObservableGauge("http.ratelimit.queued", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		for key := range gate.Keys() {
			w, _ := gate.State(key)
			o.Observe(int64(w.Queued), metric.WithAttributes(attribute.String("key", key), attribute.String("reason", string(w.Reason))))
		}
		return nil
	}))
	waiting := func(r *http.Request, w obey.Wait) (done func()) {
		span, start := trace.SpanFromContext(r.Context()), time.Now()
		return func() {
			span.AddEvent("http.ratelimit.wait", trace.WithAttributes(attribute.String("reason", string(w.Reason)),
				attribute.String("limit", w.Advice.Limit.Name), attribute.Float64("seconds", time.Since(start).Seconds())))
		}
	}
	return &obey.Transport{Gate: gate, Waiting: waiting}, err
}
