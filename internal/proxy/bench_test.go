package proxy

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// BenchmarkProxy measures how much longer a request takes through the proxy than directly, in
// the median. The server runs in this process, and announces enough quota. To measure:
//
//	go test -run '^$' -bench Proxy -benchtime 10000x ./internal/proxy
func BenchmarkProxy(b *testing.B) {
	server := trial.Serve(b, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Policy", `"minute";q=1000000;w=60`)
		w.Header().Set("RateLimit", `"minute";r=999999;t=60`)
		_, _ = io.WriteString(w, "hello")
	})
	p := startProxy(b, server)
	client := &http.Client{Transport: &http.Transport{}}
	get := func(url string) time.Duration {
		began := time.Now()
		resp, err := client.Get(url)
		require.NoError(b, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(b, err)
		require.Equal(b, "hello", string(body))
		return time.Since(began)
	}
	var direct, through []time.Duration
	for b.Loop() {
		direct = append(direct, get(server))
		through = append(through, get(p.url))
	}
	slices.Sort(direct)
	slices.Sort(through)
	half := len(direct) / 2
	b.ReportMetric(float64(direct[half].Microseconds()), "µs-direct")
	b.ReportMetric(float64(through[half].Microseconds()), "µs-through")
	b.ReportMetric(float64((through[half] - direct[half]).Microseconds()), "µs-more")
}
