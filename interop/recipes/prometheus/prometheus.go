// Package prometheus counts limits and waits.
package prometheus

import (
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// NewTransport returns a Transport for one API with its metrics.
func NewTransport(api string, reg prometheus.Registerer) *ratelimit.Transport {
	factory := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"api": api}, reg))
	remaining := factory.NewGaugeVec(prometheus.GaugeOpts{Name: "ratelimit_remaining", Help: "Quota units that remain, as the server said last."}, []string{"policy"})
	reset := factory.NewGaugeVec(prometheus.GaugeOpts{Name: "ratelimit_reset_timestamp_seconds", Help: "When they are reset."}, []string{"policy"})
	waiting := factory.NewGaugeVec(prometheus.GaugeOpts{Name: "ratelimit_waiting", Help: "Requests that wait now."}, []string{"reason"})
	waited := factory.NewHistogram(prometheus.HistogramOpts{
		Name: "ratelimit_wait_seconds", Help: "How long requests have waited.", Buckets: prometheus.ExponentialBuckets(0.1, 3, 8),
	})
	return &ratelimit.Transport{
		Observe: func(_ *http.Request, a ratelimit.Advice) {
			for _, l := range a.Fields.Limits {
				if l.Remaining != ratelimit.Unknown {
					remaining.WithLabelValues(l.Name).Set(float64(l.Remaining))
				}
				if at, ok := l.Reset.After(time.Now()); ok {
					reset.WithLabelValues(l.Name).Set(float64(at.Unix()))
				}
			}
		},
		Waiting: func(_ *http.Request, w ratelimit.Wait) (done func()) {
			start := time.Now()
			waiting.WithLabelValues(w.Reason).Inc()
			return func() { waiting.WithLabelValues(w.Reason).Dec(); waited.Observe(time.Since(start).Seconds()) }
		},
	}
}
