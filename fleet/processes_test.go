package fleet

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
)

// A job is the work of a process of the fleet. For each process the tests start their own
// program again.
type job struct {
	Name       string // in the field X-Process of its requests
	Redis, URL string
	Workers    int
	Requests   int
	Credential []string      // each gets its part of the workers and of the requests
	Tokens     int64         // of each request, 0 if there is no Cost
	First      int64         // tokens of the first request, whose X-Process ends in " first"; 0 is Tokens
	Ahead      time.Duration // how far its clock is ahead
	Alone      bool          // without Turns
	Skewed     bool          // the clock of Redis is that of a skewed
	Timeout    time.Duration // of each question to Redis; 0 is so long that a busy machine does not count as a silent Redis
}

// A tally is what a process prints when it ends.
type tally struct {
	Served, Refused, Failed int
	Unanswered              int // questions to Redis
}

// jobVariable contains the job of a process.
const jobVariable = "RATELIMIT_FLEET_JOB"

func TestMain(m *testing.M) {
	logging.Disable() // the client logs each failed connection
	if text := os.Getenv(jobVariable); text != "" {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			panic(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(j.run())
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil { // the tests wait most of the time
		panic(err)
	}
	os.Exit(m.Run())
}

// run does a job in this process.
func (j *job) run() (t tally) {
	var unanswered atomic.Int64
	turns := &Turns{
		Redis:   redis.NewClient(&redis.Options{Addr: j.Redis, ContextTimeoutEnabled: true}),
		Key:     obey.KeyBy("Authorization"),
		Timeout: cmp.Or(j.Timeout, 20*time.Second),
		OnError: func(error) { unanswered.Add(1) },
		clock:   func() time.Time { return time.Now().Add(j.Ahead) },
	}
	if j.Skewed {
		turns.Redis = skewed{turns.Redis}
	}
	var base http.RoundTripper = turns
	if j.Alone {
		base = nil
	}
	rt := &obey.Transport{Base: base, Key: turns.Key}
	if j.Tokens > 0 {
		turns.Cost = func(r *http.Request) []obey.Cost {
			tokens, _ := strconv.ParseInt(r.Header.Get("X-Tokens"), 10, 64)
			return []obey.Cost{{Unit: "tokens", Units: tokens}}
		}
		rt.Cost = turns.Cost
	}
	client := &http.Client{Transport: rt}
	var mu sync.Mutex
	var all sync.WaitGroup
	left := make([]int, max(len(j.Credential), 1))
	for i := range left {
		left[i] = j.Requests / len(left)
	}
	for i := range j.Workers {
		mine := i % len(left)
		all.Go(func() {
			for {
				mu.Lock()
				if left[mine] == 0 {
					mu.Unlock()
					return
				}
				left[mine]--
				name, tokens := j.Name, j.Tokens
				if j.First > 0 {
					name, tokens, j.First = j.Name+" first", j.First, 0
				}
				mu.Unlock()
				status := http.StatusTooManyRequests
				for status == http.StatusTooManyRequests {
					r, err := http.NewRequest("GET", j.URL, nil)
					if err != nil {
						panic(err)
					}
					if len(j.Credential) > 0 {
						r.Header.Set("Authorization", j.Credential[mine])
					}
					r.Header.Set("X-Process", name)
					r.Header.Set("X-Tokens", fmt.Sprint(tokens))
					status = 0
					if resp, err := client.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						status = resp.StatusCode
					}
					mu.Lock()
					switch status {
					case http.StatusOK:
						t.Served++
					case http.StatusTooManyRequests:
						t.Refused++
					default:
						t.Failed++
					}
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	t.Unanswered = int(unanswered.Load())
	return t
}

// A skewed is a Redis whose clock is ahead by the seconds in the key offset.
type skewed struct{ redis.Scripter }

const offset = "offset"

func (s skewed) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	const clock = "local clock = redis.call('TIME')"
	script := recordLua + enterLua
	if sha == learnScript.Hash() {
		script = recordLua + learnLua
	}
	script = strings.Replace(script, clock, clock+" clock[1] = clock[1] + (redis.call('GET', '"+offset+"') or 0)", 1)
	return s.Eval(ctx, script, keys, args...)
}

// A process is one process of the fleet.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start starts a process. The end of the test kills it.
func (j job) start(t *testing.T) *process {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
	return &process{cmd, bufio.NewReader(out)}
}

// tally waits until a process ends, and returns its counts.
func (p *process) tally(t *testing.T) (got tally) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, "the process has ended too early")
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	return got
}

// tallies adds up the tallies of processes.
func tallies(t *testing.T, processes ...*process) (sum tally) {
	t.Helper()
	for _, p := range processes {
		got := p.tally(t)
		sum.Served += got.Served
		sum.Refused += got.Refused
		sum.Failed += got.Failed
		sum.Unanswered += got.Unanswered
	}
	return sum
}

// A store is a Redis or Valkey that writes nothing to disk.
type store struct {
	addr string
	cmd  *exec.Cmd
	rdb  *redis.Client
}

// startStore starts a store until the test ends. It needs redis-server or valkey-server.
func startStore(t testing.TB, options ...string) *store {
	t.Helper()
	s := &store{addr: freeAddress(t)}
	s.start(t, options...)
	s.rdb = redis.NewClient(&redis.Options{Addr: s.addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { s.rdb.Close() })
	return s
}

func (s *store) start(t testing.TB, options ...string) {
	t.Helper()
	program := ""
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
		}
	}
	require.NotEmpty(t, program, "neither redis-server nor valkey-server is installed: apt-get install redis-server")
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	options = append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, options...)
	s.cmd = exec.CommandContext(t.Context(), program, options...)
	require.NoError(t, s.cmd.Start())
	cmd := s.cmd
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has killed it
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
}

// keys returns all keys in a store.
func (s *store) keys(t testing.TB) []string {
	t.Helper()
	keys, err := s.rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	return keys
}

// underWay returns the number of leases.
func (s *store) underWay(t testing.TB) (n int64) {
	t.Helper()
	for _, key := range s.keys(t) {
		if strings.HasSuffix(key, ":leases") {
			got, err := s.rdb.ZCount(t.Context(), key, fmt.Sprint(time.Now().UnixMilli()), "+inf").Result()
			require.NoError(t, err)
			n += got
		}
	}
	return n
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
