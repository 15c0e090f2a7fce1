package interop

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// A fleetWindow allows 50 requests in each window of 10 s, announces this, and takes 100 ms.
type fleetWindow struct {
	mu      sync.Mutex
	began   time.Time
	used    int
	refused int
}

func (s *fleetWindow) RoundTrip(r *http.Request) (*http.Response, error) {
	const quota, window = 50, 10 * time.Second
	s.mu.Lock()
	if now := time.Now(); s.began.IsZero() || now.Sub(s.began) >= window {
		s.began, s.used = now, 0
	}
	s.used++
	f := announce.FixedWindow{Quota: quota, Used: min(int64(s.used), quota), Window: window, Left: window - time.Since(s.began)}.Fields()
	status := http.StatusOK
	if s.used > quota {
		s.refused++
		status = http.StatusTooManyRequests
	}
	s.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	header := http.Header{}
	if err := f.Set(header); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}, nil
}

// fleet lets processes with five workers each do 300 jobs. It returns the virtual time for
// all jobs, and the number of refused requests. process returns the Transport of one process.
func fleet(t *testing.T, jobs [4]int, process func(i int, base http.RoundTripper) http.RoundTripper) (took time.Duration, refused int) {
	synctest.Test(t, func(t *testing.T) {
		s := &fleetWindow{}
		began := time.Now()
		var all sync.WaitGroup
		for i, n := range jobs {
			rt := process(i, s)
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
		took, refused = time.Since(began), s.refused
	})
	return took, refused
}

// TestFleet compares a Transport for each process with one Transport for all, as in a proxy.
// docs/proxy.md has the figures.
func TestFleet(t *testing.T) {
	each := func(pace bool, share float64) func(int, http.RoundTripper) http.RoundTripper {
		return func(_ int, base http.RoundTripper) http.RoundTripper {
			return &obey.Transport{Base: base, Gate: &obey.Gate{Pace: pace, Share: share}}
		}
	}
	one := func() func(int, http.RoundTripper) http.RoundTripper {
		var rt http.RoundTripper
		return func(_ int, base http.RoundTripper) http.RoundTripper {
			if rt == nil {
				rt = &obey.Transport{Base: base}
			}
			return rt
		}
	}
	for _, load := range []struct {
		name string
		jobs [4]int
	}{{"even", [4]int{75, 75, 75, 75}}, {"skewed", [4]int{240, 20, 20, 20}}} {
		for _, tc := range []struct {
			name    string
			process func(int, http.RoundTripper) http.RoundTripper
			took    map[string]float64 // at most, in seconds
			refused map[string]int     // at most
		}{
			{"a Transport each", each(false, 0), map[string]float64{"even": 54, "skewed": 54}, map[string]int{"even": 90, "skewed": 20}},
			{"Share", each(false, 0.25), map[string]float64{"even": 65, "skewed": 65}, map[string]int{"even": 45, "skewed": 15}},
			{"Pace and Share", each(true, 0.25), map[string]float64{"even": 68, "skewed": 112}, map[string]int{}},
			{"one proxy", one(), map[string]float64{"even": 53, "skewed": 53}, map[string]int{}},
		} {
			t.Run(load.name+"/"+tc.name, func(t *testing.T) {
				took, refused := fleet(t, load.jobs, tc.process)
				t.Logf("%.1f s, %d refused", took.Seconds(), refused)
				require.LessOrEqual(t, took.Seconds(), tc.took[load.name])
				require.LessOrEqual(t, refused, tc.refused[load.name])
			})
		}
	}
}
