package otel

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestOTel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
		rt, err := NewTransport(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"))
		require.NoError(t, err)
		rt.Base = fake.Spent().RoundTripper()
		done := fake.Waiting(t, func() (*http.Response, error) {
			ctx, span := tracer.Start(t.Context(), "GET")
			defer span.End()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)
			require.NoError(t, err)
			return rt.RoundTrip(req)
		})
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		require.Len(t, all.ScopeMetrics[0].Metrics, 1)
		queued := all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints
		require.Len(t, queued, 1)
		require.EqualValues(t, 1, queued[0].Value)
		require.Equal(t, attribute.NewSet(attribute.String("key", "http://api.example"), attribute.String("reason", "limit")), queued[0].Attributes)

		done()
		require.Empty(t, spans.Ended()[0].Events())
		require.Len(t, spans.Ended()[1].Events(), 1)
		require.Equal(t, []attribute.KeyValue{
			attribute.String("reason", "limit"), attribute.String("limit", "window"), attribute.Float64("seconds", 60),
		}, spans.Ended()[1].Events()[0].Attributes)
	})
}
