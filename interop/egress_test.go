package interop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build builds a program of the root module, or of this one.
func build(t *testing.T, dir, pkg string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), filepath.Base(pkg))
	command(t, dir, nil, "go", "build", "-o", program, pkg)
	return program
}

// An egress is a running ratelimit proxy.
type egress struct {
	address string
	metrics string // the address of the metrics
	process *os.Process
	ended   chan int // its exit status
}

// startEgress starts the proxy, and returns when it listens.
func startEgress(t *testing.T, program string, args ...string) *egress {
	t.Helper()
	cmd := exec.Command(program, append([]string{"proxy", "-admin", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	e := &egress{process: cmd.Process, ended: make(chan int, 1)}
	t.Cleanup(func() { _ = e.process.Kill() })
	lines := bufio.NewReader(stdout)
	for _, to := range []*string{&e.address, &e.metrics} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		*to = line[strings.Index(line, "http://") : len(line)-1]
	}
	go func() {
		_ = cmd.Wait()
		e.ended <- cmd.ProcessState.ExitCode()
	}()
	return e
}

// port returns the flags for another proxy at the same address.
func (e *egress) port() []string {
	return []string{"-listen", strings.TrimPrefix(e.address, "http://")}
}

// tenPerSecond allows ten requests a second, and takes 50 ms for each.
type tenPerSecond struct {
	mu      sync.Mutex
	end     time.Time
	used    int
	served  int
	first   time.Time   // when the first response was sent
	refused []time.Time // when refused requests arrived
}

func (s *tenPerSecond) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	now := time.Now()
	if !now.Before(s.end) {
		s.end, s.used = now.Add(time.Second), 0
	}
	s.used++
	left, refused := max(10-s.used, 0), s.used > 10
	w.Header().Set("RateLimit-Policy", `"second";q=10;w=1`)
	w.Header().Set("RateLimit", fmt.Sprintf(`"second";r=%d;t=1`, left))
	if refused {
		s.refused = append(s.refused, now)
	} else {
		s.served++
	}
	s.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = time.Now()
	}
	if refused {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// Four programs in four languages share ten requests a second.
func TestEgressPrograms(t *testing.T) {
	t.Parallel() // it takes 20 s
	programs := [][]string{
		{build(t, ".", "./egress")},
		{"node", "egress/client.mjs"},
		{"python3", "egress/client.py"},
		{"curl", "-sS", "--no-progress-meter", "-Z", "--parallel-max", "10", "-o", "/dev/null", "-w", "%{http_code}\\n"},
	}
	for _, p := range programs {
		needProgram(t, p[0])
	}
	s := &tenPerSecond{}
	server := httptest.NewServer(s)
	defer server.Close()
	e := startEgress(t, build(t, "..", "./cmd/ratelimit"), "-to", server.URL, "-listen", "127.0.0.1:0")

	outputs := make([]bytes.Buffer, len(programs))
	var all sync.WaitGroup
	for i, p := range programs {
		args := append(p[1:len(p):len(p)], e.address+"/", "50")
		if p[0] == "curl" {
			args[len(args)-2], args = e.address+"/?[1-50]", args[:len(args)-1]
		}
		cmd := exec.CommandContext(t.Context(), p[0], args...)
		cmd.Stdout, cmd.Stderr = &outputs[i], os.Stderr
		all.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: %v", p[0], err)
			}
		})
	}
	all.Wait()
	for i, p := range programs {
		t.Logf("%s: %s", filepath.Base(p[0]), strings.Join(strings.Fields(outputs[i].String()), " "))
	}
	require.Equal(t, 200, s.served+len(s.refused), "each request was sent once")
	require.LessOrEqual(t, len(s.refused), 10)
	for _, arrived := range s.refused {
		require.True(t, arrived.Before(s.first), "refused although the limit was known")
	}
}

// A signal ends the proxy, and waiting requests get 503. After a second signal or a kill the
// port is free for the next proxy.
func TestEgressSignals(t *testing.T) {
	var n atomic.Int64
	arrived, proceed := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1); r.URL.Path {
		case "/exhaust":
			w.Header().Set("RateLimit", `"a";r=0;t=60`)
		case "/slow":
			arrived <- true
			<-proceed
		}
	}))
	defer server.Close()
	defer close(proceed)
	program := build(t, "..", "./cmd/ratelimit")
	get := func(e *egress, path string) (int, string) {
		resp, err := http.Get(e.address + path)
		if err != nil {
			return 0, ""
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}

	e := startEgress(t, program, "-to", server.URL, "-listen", "127.0.0.1:0")
	require.NoError(t, e.process.Kill())
	<-e.ended
	e = startEgress(t, program, append(e.port(), "-to", server.URL)...)
	status, _ := get(e, "/exhaust")
	require.Equal(t, http.StatusOK, status)

	waited := make(chan string)
	go func() {
		status, retryAfter := get(e, "/wait")
		waited <- fmt.Sprint(status, " ", retryAfter != "")
	}()
	require.Eventually(t, func() bool {
		resp, err := http.Get(e.metrics)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "ratelimit_waiting{key=\"anonymous\"} 1\n")
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, e.process.Signal(syscall.SIGTERM))
	require.Equal(t, "503 true", <-waited)
	require.Zero(t, <-e.ended)
	require.EqualValues(t, 1, n.Load())

	e = startEgress(t, program, append(e.port(), "-to", server.URL)...)
	go get(e, "/slow")
	<-arrived
	require.NoError(t, e.process.Signal(os.Interrupt))
	require.Eventually(t, func() bool {
		_, err := http.Get(e.address + "/")
		return errors.Is(err, syscall.ECONNREFUSED)
	}, 10*time.Second, 10*time.Millisecond)
	select {
	case <-e.ended:
		t.Fatal("it has not waited for what is under way")
	default:
	}
	require.NoError(t, e.process.Signal(os.Interrupt))
	require.NotZero(t, <-e.ended)
}
