package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkFirstView measures the time until the page is visible, and until it has read its
// first response, from localhost.
func BenchmarkFirstView(b *testing.B) {
	p := open(b)
	var seen, read float64
	n := 0.0
	for b.Loop() {
		p.load()
		times := eval[[]float64](p, `["first-contentful-paint", "ready"].map(name => performance.getEntriesByName(name)[0]?.startTime ?? 0)`)
		require.Greater(b, times[1], 0.0)
		seen, read = seen+times[0], read+times[1]
		n++
	}
	b.ReportMetric(seen/n, "ms-to-paint")
	b.ReportMetric(read/n, "ms-to-first-reading")
}
