//go:build unix

package main

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	var r syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkOneKeyRatio compares the CPU time of a request by sixteen goroutines with one key to
// that by one goroutine. They take turns, and the best of each counts.
func BenchmarkOneKeyRatio(b *testing.B) {
	const requests, many = 16 * 2000, 16
	rt := &obey.Transport{Base: &shelf{&http.Response{Header: response(currentLimit)}}}
	req, err := http.NewRequest(http.MethodGet, "http://api.example/", nil)
	require.NoError(b, err)
	each := func(goroutines int) float64 {
		begin := cpuTime(b)
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range requests / goroutines {
					if _, err := rt.RoundTrip(req); err != nil {
						panic(err)
					}
				}
			})
		}
		all.Wait()
		return float64(cpuTime(b)-begin) / requests
	}
	one, several := each(1), each(many)
	for b.Loop() {
		one, several = min(one, each(1)), min(several, each(many))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(one, "one-ns")
	b.ReportMetric(several, "sixteen-ns")
	b.ReportMetric(several/one, "ratio")
}
