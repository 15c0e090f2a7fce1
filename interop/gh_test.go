package interop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fakeGitHub has two resources, as GitHub does: 20 requests in 5 s for core, and 5 in an
// hour for graphql.
type fakeGitHub struct {
	window time.Duration // of core; 0 is 5 s

	mu            sync.Mutex
	core, graphql resource
}

type resource struct {
	ends            time.Time
	used            int
	served, refused int
}

func (s *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	res, name, quota, window := &s.core, "core", 20, cmp.Or(s.window, 5*time.Second)
	if r.URL.Path == "/graphql" {
		res, name, quota, window = &s.graphql, "graphql", 5, time.Hour
	}
	now := time.Now()
	if !now.Before(res.ends) {
		res.ends, res.used = now.Add(window).Truncate(time.Second), 0
	}
	status := http.StatusOK
	if res.used == quota {
		res.refused++
		status = http.StatusForbidden
	} else {
		res.used++
		res.served++
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(quota))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(quota-res.used))
	h.Set("X-RateLimit-Used", strconv.Itoa(res.used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(res.ends.Unix(), 10))
	h.Set("X-RateLimit-Resource", name)
	s.mu.Unlock()
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"full_name": r.URL.Path, "data": map[string]string{"a": "b"}})
}

// counts returns the served and refused requests of both resources.
func (s *fakeGitHub) counts() (core, graphql [2]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]int{s.core.served, s.core.refused}, [2]int{s.graphql.served, s.graphql.refused}
}

// ghBehind returns a function that runs gh with a Unix socket.
func ghBehind(t *testing.T, path string) func(ctx context.Context, arguments ...string) ([]byte, error) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 20*time.Second, 10*time.Millisecond)
	config := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(config, "config.yml"), []byte("http_unix_socket: "+path+"\n"), 0o600))
	return func(ctx context.Context, arguments ...string) ([]byte, error) {
		gh := exec.CommandContext(ctx, "gh", append([]string{"api"}, arguments...)...)
		gh.Env = append(os.Environ(), "GH_CONFIG_DIR="+config, "GH_TOKEN=s3cret", "GH_NO_UPDATE_NOTIFIER=1")
		return gh.CombinedOutput()
	}
}

// startSocket runs ratelimit proxy at a Unix socket until the test ends.
func startSocket(t *testing.T, program, to, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "proxy", "-quiet", "-to", to, "-listen", "unix:"+path)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
}

// The installed gh sends all its requests through a Unix socket. Sixty processes, twelve at a
// time, share one token.
func TestGitHubCommand(t *testing.T) {
	needProgram(t, "gh")
	t.Parallel()
	program := build(t, "..", "./cmd/ratelimit")
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held back %t", held), func(t *testing.T) {
			t.Parallel()
			s := &fakeGitHub{}
			if !held {
				s.window = time.Hour // longer than the test on any machine
			}
			server := httptest.NewServer(s)
			defer server.Close()
			path := filepath.Join(t.TempDir(), "gh.sock")
			if held {
				startSocket(t, program, server.URL, path)
			} else {
				to, err := url.Parse(server.URL)
				require.NoError(t, err)
				listener, err := net.Listen("unix", path)
				require.NoError(t, err)
				plain := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}}
				go plain.Serve(listener)
				t.Cleanup(func() { plain.Close() })
			}
			gh := ghBehind(t, path)
			var all sync.WaitGroup
			var mu sync.Mutex
			failed := 0
			places := make(chan bool, 12)
			for i := range 60 {
				all.Go(func() {
					places <- true
					defer func() { <-places }()
					out, err := gh(t.Context(), fmt.Sprintf("repos/o/r%d", i), "--jq", ".full_name")
					mu.Lock()
					defer mu.Unlock()
					if err != nil || string(out) != fmt.Sprintf("/repos/o/r%d\n", i) {
						failed++
						if held {
							t.Errorf("%v: %s", err, out)
						}
					}
				})
			}
			all.Wait()
			core, _ := s.counts()
			t.Logf("%d served, %d refused, %d failed", core[0], core[1], failed)
			if held {
				require.Equal(t, []int{60, 0, 0}, []int{core[0], core[1], failed})
			} else {
				require.Equal(t, [2]int{20, 40}, core)
			}
		})
	}
}

// While graphql is exhausted for an hour, its requests wait, and requests for core are
// served.
func TestGitHubCommandResources(t *testing.T) {
	needProgram(t, "gh")
	t.Parallel()
	s := &fakeGitHub{}
	server := httptest.NewServer(s)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "gh.sock")
	startSocket(t, build(t, "..", "./cmd/ratelimit"), server.URL, path)
	gh := ghBehind(t, path)
	query := []string{"graphql", "-f", "query={a}", "--jq", ".data.a"}
	for range 5 {
		out, err := gh(t.Context(), query...)
		require.NoError(t, err, string(out))
		require.Equal(t, "b\n", string(out))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	waits, hangUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := gh(waits, query...)
		done <- err
	}()
	for i := range 25 { // more than core allows in a window
		out, err := gh(ctx, fmt.Sprintf("repos/o/r%d", i), "--jq", ".full_name")
		require.NoError(t, err, string(out))
		require.Equal(t, fmt.Sprintf("/repos/o/r%d\n", i), string(out))
	}
	core, graphql := s.counts()
	require.Equal(t, [][2]int{{25, 0}, {5, 0}}, [][2]int{core, graphql})
	hangUp()
	require.Error(t, <-done, "it was held back")
}
