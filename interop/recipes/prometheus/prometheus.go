// Package prometheus exports why requests wait.
package prometheus

import (
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	labels = []string{"key", "reason"}
	queued = prometheus.NewDesc("ratelimit_queued", "Requests that wait.", labels, nil)
	wait   = prometheus.NewDesc("ratelimit_wait_seconds", "Until the next request may go, if that is known.", labels, nil)
)

// A Collector exports the state of each key of a Gate when Prometheus asks for it.
type Collector struct{ Gate *obey.Gate }

func (c Collector) Describe(ch chan<- *prometheus.Desc) { ch <- queued; ch <- wait }

func (c Collector) Collect(ch chan<- prometheus.Metric) {
	for key := range c.Gate.Keys() {
		w, _ := c.Gate.State(key)
		send := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, key, string(w.Reason))
		}
		send(queued, float64(w.Queued))
		send(wait, max(time.Until(w.Until), 0).Seconds())
	}
}
