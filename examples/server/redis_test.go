package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// A redisServer is a Redis or Valkey on its own port. It writes nothing to disk.
type redisServer struct {
	t       *testing.T
	program string
	port    string
	cmd     *exec.Cmd
}

// newRedis finds the program and a free port. If there is no program, it skips the test, except
// in CI.
func newRedis(t *testing.T) *redisServer {
	t.Helper()
	s := &redisServer{t: t}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if program, err := exec.LookPath(name); err == nil {
			s.program = program
		}
	}
	require.NotEmpty(t, s.program, "neither redis-server nor valkey-server is installed: apt-get install redis-server")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, s.port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	t.Cleanup(s.stop)
	return s
}

func (s *redisServer) addr() string { return "127.0.0.1:" + s.port }

// start starts the server, and returns when it answers.
func (s *redisServer) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, "--bind", "127.0.0.1", "--port", s.port, "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		conn, err := net.Dial("tcp", s.addr())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 10*time.Second, 10*time.Millisecond)
}

func (s *redisServer) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// A lockedBuilder stores the logs of several servers.
type lockedBuilder struct {
	mu sync.Mutex
	strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *lockedBuilder) count(line string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.String(), line)
}

func captureLog(t *testing.T) *lockedBuilder {
	t.Helper()
	b := &lockedBuilder{}
	log.SetOutput(b)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	return b
}

// A load is clients that send requests to all servers in turn until they are stopped. Each
// client has one of the keys.
type load struct {
	t       *testing.T
	servers []string
	keys    []string

	mu     sync.Mutex
	counts map[string]*count // by key
	open   []int             // by client: responses without a quota
	wg     sync.WaitGroup
	ended  atomic.Bool
}

// A count has the responses with a quota to one key.
type count struct{ served, refused int }

func (l *load) start(clients int) {
	l.reset()
	l.open = make([]int, clients)
	for i := range clients {
		l.wg.Go(func() {
			for n := i; !l.ended.Load(); n++ {
				l.send(i, l.servers[n%len(l.servers)], l.keys[i%len(l.keys)])
			}
		})
	}
}

func (l *load) end() {
	l.ended.Store(true)
	l.wg.Wait()
}

// reset counts from 0 again.
func (l *load) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = map[string]*count{}
	for _, key := range l.keys {
		l.counts[key] = &count{}
	}
	clear(l.open)
}

func (l *load) send(client int, server, key string) {
	req, err := http.NewRequest("GET", server+"/hello", nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	req.Header.Set(keyField, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Error(err)
		l.ended.Store(true)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if findings := ratelimittest.Check(resp); findings != nil {
		l.t.Error(resp.Header, findings)
		l.ended.Store(true)
	}
	f, err := ratelimit.Parse(resp.Header)
	if err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch c := l.counts[key]; {
	case resp.StatusCode == http.StatusOK && len(f.Limits) == 0:
		l.open[client]++
	case resp.StatusCode == http.StatusOK:
		c.served++
	case resp.StatusCode == http.StatusTooManyRequests && f.Limits[0].Remaining == 0:
		c.refused++
	default:
		l.t.Error(resp.Status, resp.Header)
	}
}

// await waits until the counts satisfy a condition.
func (l *load) await(what string, condition func() bool) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return condition() || l.ended.Load()
	}, time.Minute, 5*time.Millisecond, what)
	require.False(l.t, l.ended.Load())
}

// within checks that each key got its burst, and no more than flowed in since a time before
// the first request.
func (l *load) within(since time.Time) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	most := 10 + int(time.Since(since).Seconds())
	for key, c := range l.counts {
		require.GreaterOrEqual(l.t, c.served, 10, key)
		require.LessOrEqual(l.t, c.served, most, key)
		l.t.Logf("%s: %d served of %d, %d refused", key, c.served, most, c.refused)
	}
}

// Two servers share the quotas in one Redis under load. Redis is stopped and started in the
// middle. It then has no data, so all buckets are full.
func TestRedis(t *testing.T) {
	logged := captureLog(t)
	t.Setenv("RATELIMIT_SECRET", "secret of the tests")
	redis := newRedis(t)
	redis.start()
	l := &load{t: t, keys: []string{"a", "b", "c", "d"}}
	for range 2 {
		_, api, err := configure([]string{"-redis", redis.addr(), "-redis-timeout", "10s", "-keys", strings.Join(l.keys, ",")}, io.Discard)
		require.NoError(t, err)
		server := httptest.NewServer(api.handler(hello()))
		t.Cleanup(server.Close)
		l.servers = append(l.servers, server.URL)
	}
	exhausted := func() bool {
		for _, c := range l.counts {
			if c.refused < 50 {
				return false
			}
		}
		return true
	}

	started := time.Now()
	l.start(16)
	defer l.end()
	l.await("all keys are refused", exhausted)
	l.within(started)
	require.Zero(t, logged.count("without a quota"))

	redis.stop()
	l.await("all clients are served without a quota, by both servers", func() bool {
		if logged.count("requests pass without a quota: ") < len(l.servers) {
			return false
		}
		for _, n := range l.open {
			if n < 5 {
				return false
			}
		}
		return true
	})
	const few = 10 // lines, one for each server unless an answer crosses with an error
	require.Less(t, logged.count("requests pass without a quota: "), few)

	l.reset()
	started = time.Now()
	redis.start()
	l.await("all keys are refused again, by both servers", func() bool {
		return exhausted() && logged.count("quotas are kept again") >= len(l.servers)
	})
	l.within(started)
	require.Less(t, logged.count("quotas are kept again"), few)
}
