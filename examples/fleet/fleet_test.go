package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startRedis starts a Redis or Valkey that keeps nothing on disk, and returns its address. If
// neither is installed, it skips the test, except in CI.
func startRedis(t *testing.T) string {
	t.Helper()
	program := ""
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
		}
	}
	if program == "" {
		const missing = "neither redis-server nor valkey-server is installed: apt-get install redis-server"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	addr := freeAddress(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test kills it
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return addr
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// A window is a server that allows a number of requests in each second.
type window struct {
	quota int

	mu              sync.Mutex
	end             time.Time
	used            int
	served, refused int
}

func (s *window) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.end) {
		s.end, s.used = now.Add(time.Second), 0
	}
	s.used++
	w.Header().Set("RateLimit", fmt.Sprintf(`"second";r=%d;t=1`, max(s.quota-s.used, 0)))
	if s.used > s.quota {
		s.refused++
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.served++
}

// Four processes share the limit of the server. A rate of r with a burst of r allows up to 2r
// requests within a second, so the server allows twice the rate.
func TestFleetShares(t *testing.T) {
	addr := startRedis(t)
	s := &window{quota: 20}
	server := httptest.NewServer(s)
	defer server.Close()
	var all sync.WaitGroup
	outputs := make([]bytes.Buffer, 4)
	for i := range outputs {
		all.Go(func() {
			if err := run([]string{"-redis", addr, "-rate", "10", "-n", "10", server.URL}, &outputs[i], &outputs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range outputs {
		require.Equal(t, "10 OK\n", outputs[i].String())
	}
	require.Equal(t, []int{40, 0}, []int{s.served, s.refused})
}

// The server's announcements count, whatever Redis allows.
func TestFleetObeysTheServer(t *testing.T) {
	addr := startRedis(t)
	s := &window{quota: 2}
	server := httptest.NewServer(s)
	defer server.Close()
	store := newStore(addr, time.Second)
	defer store.Close()
	counts, err := send(newClient(store, "k", 1000, time.Second), server.URL, 6)
	require.NoError(t, err)
	require.Equal(t, map[int]int{200: 6}, counts)
	require.Zero(t, s.refused)
}

// Without Redis the requests are sent.
func TestFleetWithoutRedis(t *testing.T) {
	s := &window{quota: 100}
	server := httptest.NewServer(s)
	defer server.Close()
	store := newStore(freeAddress(t), 250*time.Millisecond)
	defer store.Close()
	counts, err := send(newClient(store, "k", 1, 250*time.Millisecond), server.URL, 3)
	require.NoError(t, err)
	require.Equal(t, map[int]int{200: 3}, counts)
}

// A request that waits for its turn fails when its context ends.
func TestFleetWaitEnds(t *testing.T) {
	addr := startRedis(t)
	s := &window{quota: 100}
	server := httptest.NewServer(s)
	defer server.Close()
	store := newStore(addr, time.Second)
	defer store.Close()
	client := newClient(store, "k", 1, time.Second)
	_, err := send(client, server.URL, 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	require.NoError(t, err)
	_, err = client.Do(r)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, s.served)
}

func TestFleetFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-x"}, {"-rate", "many", "a"}} {
		require.Error(t, run(args, &bytes.Buffer{}, &bytes.Buffer{}), args)
	}
}
