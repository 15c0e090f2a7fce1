package otel

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
		rt.Base = fake.Memory(fake.Spent().Handler(fake.JSON("hello")))
		for range 2 {
			ctx, span := tracer.Start(t.Context(), "GET")
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)
			require.NoError(t, err)
			_, err = rt.RoundTrip(req)
			require.NoError(t, err)
			span.End()
		}
		first, second := spans.Ended()[0], spans.Ended()[1]
		require.Equal(t, []attribute.KeyValue{
			attribute.String("http.ratelimit.policy.name", "window"),
			attribute.Int64("http.ratelimit.remaining", 0),
			attribute.Int64("http.ratelimit.reset", 60),
			attribute.Int64("http.ratelimit.policy.quota", 1),
			attribute.String("http.ratelimit.policy.unit", "requests"),
		}, first.Attributes())
		require.Empty(t, first.Events())
		require.Len(t, second.Events(), 1)
		require.Contains(t, second.Events()[0].Attributes, attribute.Float64("seconds", 60))

		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		metrics := all.ScopeMetrics[0].Metrics
		require.Len(t, metrics, 2)
		remaining := metrics[0].Data.(metricdata.Gauge[int64]).DataPoints
		require.Len(t, remaining, 1)
		require.Zero(t, remaining[0].Value)
		require.Equal(t, attribute.NewSet(attribute.String("http.ratelimit.policy.name", "window")), remaining[0].Attributes)
		waits := metrics[1].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, waits, 1)
		require.EqualValues(t, 1, waits[0].Count)
		require.Equal(t, time.Minute.Seconds(), waits[0].Sum)
	})
}
