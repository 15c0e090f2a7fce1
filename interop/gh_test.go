package interop

import (
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

// A fakeGitHub allows 20 requests in 5 s, as GitHub announces it.
type fakeGitHub struct {
	mu              sync.Mutex
	ends            time.Time
	used            int
	served, refused int
}

func (s *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const quota, window = 20, 5 * time.Second
	s.mu.Lock()
	now := time.Now()
	if !now.Before(s.ends) {
		s.ends, s.used = now.Add(window).Truncate(time.Second), 0
	}
	status := http.StatusOK
	if s.used == quota {
		s.refused++
		status = http.StatusForbidden
	} else {
		s.used++
		s.served++
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(quota))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(quota-s.used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(s.ends.Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
	s.mu.Unlock()
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"full_name": r.URL.Path, "token": r.Header.Get("Authorization")})
}

// The gh of the system sends all of its requests through a Unix socket. Sixty processes,
// twelve at a time, share one token.
func TestGitHubCommand(t *testing.T) {
	if _, err := exec.LookPath("gh"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Parallel()
	program := build(t, "..", "./cmd/ratelimit")
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held back %t", held), func(t *testing.T) {
			t.Parallel()
			s := &fakeGitHub{}
			server := httptest.NewServer(s)
			defer server.Close()
			path := filepath.Join(t.TempDir(), "gh.sock")
			if held {
				cmd := exec.CommandContext(t.Context(), program, "proxy", "-quiet", "-to", server.URL, "-listen", "unix:"+path)
				cmd.Stderr = os.Stderr
				require.NoError(t, cmd.Start())
				t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
			} else {
				to, err := url.Parse(server.URL)
				require.NoError(t, err)
				listener, err := net.Listen("unix", path)
				require.NoError(t, err)
				plain := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}}
				go plain.Serve(listener)
				t.Cleanup(func() { plain.Close() })
			}
			require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 20*time.Second, 10*time.Millisecond)

			config := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(config, "config.yml"), []byte("http_unix_socket: "+path+"\n"), 0o600))
			var all sync.WaitGroup
			var mu sync.Mutex
			failed := 0
			places := make(chan bool, 12)
			for i := range 60 {
				all.Go(func() {
					places <- true
					defer func() { <-places }()
					gh := exec.CommandContext(t.Context(), "gh", "api", fmt.Sprintf("repos/o/r%d", i), "--jq", ".full_name")
					gh.Env = append(os.Environ(), "GH_CONFIG_DIR="+config, "GH_TOKEN=s3cret", "GH_NO_UPDATE_NOTIFIER=1")
					out, err := gh.CombinedOutput()
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
			t.Logf("%d served, %d refused, %d failed", s.served, s.refused, failed)
			if held {
				require.Equal(t, []int{60, 0, 0}, []int{s.served, s.refused, failed})
			} else {
				require.GreaterOrEqual(t, s.refused, 20)
			}
		})
	}
}
