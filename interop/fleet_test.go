package interop

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// fleet lets processes with five workers each do 300 jobs. It returns the virtual time for
// all jobs, and the number of refused requests. process returns the Transport of one process.
func fleet(t *testing.T, jobs [4]int, process func(base http.RoundTripper) http.RoundTripper) (took time.Duration, refused int64) {
	synctest.Test(t, func(t *testing.T) {
		api := &ratelimittest.API{
			Limits: []ratelimittest.Limit{windowOf("", 50, 10)}, Latency: 100 * time.Millisecond, Bare: true,
		}
		began := time.Now()
		var all sync.WaitGroup
		for i, n := range jobs {
			rt := process(api.RoundTripper())
			for worker := range 5 {
				all.Go(func() {
					for range n / 5 {
						time.Sleep(time.Duration(5*i+worker) * time.Microsecond) // makes the order the same each time
						for {
							r, _ := http.NewRequest(http.MethodGet, "http://api.example/", nil)
							resp, err := rt.RoundTrip(r)
							if err == nil && resp.StatusCode == http.StatusOK {
								break
							}
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
		}
		all.Wait()
		took, refused = time.Since(began), api.Counts().Refused
	})
	return took, refused
}

// TestFleet compares a Transport for each process with one Transport for all, as in a proxy.
// docs/proxy.md has the figures.
func TestFleet(t *testing.T) {
	each := func(pace bool, share float64) func(http.RoundTripper) http.RoundTripper {
		return func(base http.RoundTripper) http.RoundTripper {
			return &obey.Transport{Base: base, Gate: &obey.Gate{Pace: pace, Share: share}}
		}
	}
	var one http.RoundTripper
	proxy := func(base http.RoundTripper) http.RoundTripper {
		if one == nil {
			one = &obey.Transport{Base: base}
		}
		return one
	}
	for _, load := range []struct {
		name string
		jobs [4]int
	}{{"even", [4]int{75, 75, 75, 75}}, {"skewed", [4]int{240, 20, 20, 20}}} {
		for _, tc := range []struct {
			name    string
			process func(http.RoundTripper) http.RoundTripper
			took    map[string]float64 // at most, in seconds
			refused map[string]int64   // at most
		}{
			{"a Transport each", each(false, 0), map[string]float64{"even": 54, "skewed": 54}, map[string]int64{"even": 90, "skewed": 20}},
			{"Share", each(false, 0.25), map[string]float64{"even": 65, "skewed": 65}, map[string]int64{"even": 45, "skewed": 15}},
			{"Pace and Share", each(true, 0.25), map[string]float64{"even": 68, "skewed": 112}, map[string]int64{}},
			{"one proxy", proxy, map[string]float64{"even": 53, "skewed": 53}, map[string]int64{}},
		} {
			t.Run(load.name+"/"+tc.name, func(t *testing.T) {
				one = nil
				took, refused := fleet(t, load.jobs, tc.process)
				t.Logf("%.1f s, %d refused", took.Seconds(), refused)
				require.LessOrEqual(t, took.Seconds(), tc.took[load.name])
				require.LessOrEqual(t, refused, tc.refused[load.name])
			})
		}
	}
}
