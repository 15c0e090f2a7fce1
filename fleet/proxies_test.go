package fleet

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fleetProxy is a running ratelimit-fleet.
type fleetProxy struct {
	url string
	cmd *exec.Cmd
}

func startProxy(t *testing.T, program, redis, to string) *fleetProxy {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-redis", "redis://"+redis, "-to", to, "-listen", "127.0.0.1:0", "-quiet")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return &fleetProxy{strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), cmd}
}

// Two proxies with one Redis share a quota. One proxy is killed, and the other one keeps
// serving.
func TestProxies(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "ratelimit-fleet")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/ratelimit-fleet").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, kill := range []bool{false, true} {
		t.Run(map[bool]string{false: "both", true: "one is killed"}[kill], func(t *testing.T) {
			t.Parallel()
			redis, s := startStore(t), fiftyIn5s()
			url := serve(t, s)
			proxies := []*fleetProxy{startProxy(t, program, redis.addr, url), startProxy(t, program, redis.addr, url)}
			var all sync.WaitGroup
			var left, lost atomic.Int64
			left.Store(300)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 24}}
			began := time.Now()
			for i := range 24 {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						resp, err := client.Get(proxies[i%2].url)
						if err != nil {
							lost.Add(1)
							left.Add(1) // the other proxy serves it
							return
						}
						resp.Body.Close()
					}
				})
			}
			if kill {
				require.Eventually(t, func() bool { served, _ := countsOf(s); return served >= 60 }, time.Minute, time.Millisecond)
				require.NoError(t, proxies[0].cmd.Process.Kill())
			}
			all.Wait()
			served, refused := countsOf(s)
			t.Logf("%.1f s, %d served, %d refused, %d lost", time.Since(began).Seconds(), served, refused, lost.Load())
			require.LessOrEqual(t, refused, 2)
			if !kill {
				require.Equal(t, 300, served+refused)
			} else {
				require.LessOrEqual(t, lost.Load(), int64(12))
				require.GreaterOrEqual(t, served, 288)
			}
			require.LessOrEqual(t, time.Since(began), 36*time.Second)
			requireExpiry(t, redis)
		})
	}
}
