package interop

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// TestGitHubCommand lets the installed gh send its requests through a Unix socket. Sixty processes,
// twelve at a time, share one token of 20 requests in 5 s.
func TestGitHubCommand(t *testing.T) {
	needProgram(t, "gh")
	t.Parallel()
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("held back %t", held), func(t *testing.T) {
			t.Parallel()
			api, err := ratelimittest.Like("github")
			require.NoError(t, err)
			api.Limits[0].Policy.Quota = 20
			if held { // without the proxy, the window is longer than the test on any machine
				api.Limits[0].Policy.Window = ratelimit.SecondsOf(5)
			}
			api.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				fmt.Fprintf(w, `{"full_name": %q}`, r.URL.Path)
			})
			server := httptest.NewServer(api)
			defer server.Close()
			socket := filepath.Join(t.TempDir(), "gh.sock")
			if held {
				startSocket(t, server.URL, socket)
			} else {
				forward(t, server.URL, socket)
			}
			failed := sixtyProcesses(t, socket)
			counts := api.Counts()
			t.Logf("%+v, %d failed", counts, failed)
			if held {
				require.Equal(t, []int64{60, 0, 0}, []int64{counts.Served, counts.Refused, failed})
			} else {
				require.Equal(t, []int64{20, 40}, []int64{counts.Served, counts.Refused})
			}
		})
	}
}

// startSocket runs ratelimit proxy at a Unix socket until the test ends.
func startSocket(t *testing.T, to, socket string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), buildCommand(t), "proxy", "-quiet", "-to", to, "-listen", "unix:"+socket)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
	require.Eventually(t, func() bool { _, err := os.Stat(socket); return err == nil }, 20*time.Second, 10*time.Millisecond)
}

// forward forwards requests from a Unix socket, and holds none back.
func forward(t *testing.T, address, socket string) {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	plain := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}}
	go plain.Serve(listener)
	t.Cleanup(func() { plain.Close() })
}

// sixtyProcesses runs gh sixty times, and returns how many processes got no answer.
func sixtyProcesses(t *testing.T, socket string) (failed int64) {
	config := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(config, "config.yml"), []byte("http_unix_socket: "+socket+"\n"), 0o600))
	var all sync.WaitGroup
	var failures atomic.Int64
	places := make(chan bool, 12)
	for i := range 60 {
		all.Go(func() {
			places <- true
			defer func() { <-places }()
			gh := exec.CommandContext(t.Context(), "gh", "api", fmt.Sprintf("repos/o/r%d", i), "--jq", ".full_name")
			gh.Env = append(os.Environ(), "GH_CONFIG_DIR="+config, "GH_TOKEN=s3cret", "GH_NO_UPDATE_NOTIFIER=1")
			out, err := gh.CombinedOutput()
			if err != nil || string(out) != fmt.Sprintf("/repos/o/r%d\n", i) {
				t.Logf("%v: %s", err, out)
				failures.Add(1)
			}
		})
	}
	all.Wait()
	return failures.Load()
}
