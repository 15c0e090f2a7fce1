package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startRedis starts a Redis or Valkey that writes nothing to disk, and returns its address.
// If no program is installed, it skips the test, or fails it in CI.
func startRedis(t *testing.T) string {
	t.Helper()
	program := ""
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
		}
	}
	require.NotEmpty(t, program, "neither redis-server nor valkey-server is installed: apt-get install redis-server")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	listener.Close()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	return addr
}

// Three clients share 20 requests in 2 s. The number of clients is not configured.
func TestFleet(t *testing.T) {
	addr := startRedis(t)
	const quota, window = 20, 2 * time.Second
	var mu sync.Mutex
	var began time.Time
	used, served, refused := 0, 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(began) >= window {
			began, used = time.Now(), 0
		}
		left := (window - time.Since(began) + time.Second - 1) / time.Second
		if used == quota {
			refused++
			w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=0;t=%d`, left))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		used++
		served++
		w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, quota-used, left))
	}))
	defer server.Close()
	var all sync.WaitGroup
	for range 3 {
		client := newClient(addr)
		for range 2 {
			all.Go(func() {
				for range 10 {
					resp, err := client.Get(server.URL)
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, 60, served+refused)
	require.LessOrEqual(t, refused, 2)
}
