package queue

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fake.Window(2, time.Minute)
		hosts := http.NewServeMux()
		hosts.Handle("slow.example/", slow)
		hosts.Handle("fast.example/", fake.Window(100, time.Minute))
		start := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		took := map[string]time.Duration{}
		backs := 0
		w := &Worker{Client: &http.Client{Transport: fake.Memory(hosts)}}
		w.Later = func(job *http.Request, at time.Time) {
			assert.True(t, at.After(time.Now()))
			mu.Lock()
			defer mu.Unlock()
			backs++
			time.AfterFunc(time.Until(at), func() { w.Work(job) })
		}
		w.Done = func(job *http.Request, resp *http.Response, err error) {
			defer all.Done()
			assert.NoError(t, err)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			mu.Lock()
			defer mu.Unlock()
			took[job.URL.Host] = time.Since(start)
		}
		for _, host := range []string{"slow.example", "fast.example"} {
			for range 6 {
				all.Add(1)
				job, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
				require.NoError(t, err)
				w.Work(job) // by one goroutine
			}
		}
		all.Wait()
		require.Zero(t, took["fast.example"])
		require.GreaterOrEqual(t, took["slow.example"], 2*time.Minute)
		require.Less(t, took["slow.example"], 3*time.Minute)
		require.Zero(t, slow.Counts().Refused)
		require.Less(t, backs, 20)
	})
}
