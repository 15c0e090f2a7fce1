package fake

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// FiveWorkers has five workers send requests to a server that refuses all for a minute. Only
// the bodies contain how long that lasts. It fails if more than five requests are refused, or
// if a body does not reach its reader.
func FiveWorkers(t *testing.T, a ratelimit.Advisor, status int, body func(left time.Duration) string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Minute)
		var mu sync.Mutex
		refused := 0
		client := &http.Client{Transport: &obey.Transport{Advisor: a, Base: Memory(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(50 * time.Millisecond)
			left := time.Until(end)
			if left <= 0 {
				fmt.Fprint(w, "served")
				return
			}
			mu.Lock()
			refused++
			mu.Unlock()
			w.WriteHeader(status)
			fmt.Fprint(w, body(left))
		}))}}
		var workers sync.WaitGroup
		for range 5 {
			workers.Go(func() {
				for served := 0; served < 10; {
					resp, err := client.Get("http://api.example")
					if err != nil {
						t.Error(err)
						return
					}
					text, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || len(text) == 0 {
						t.Error("no body", err)
					}
					if resp.StatusCode == http.StatusOK {
						served++
					}
				}
			})
		}
		workers.Wait()
		require.LessOrEqual(t, refused, 5)
		require.Less(t, time.Since(end), 10*time.Second)
	})
}
