package interop

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// buildCommand builds cmd/ratelimit.
func buildCommand(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ratelimit.exe")
	command(t, "..", nil, "go", "build", "-o", program, "./cmd/ratelimit")
	return program
}

// startCommand starts the command, which prints its address in the first line.
func startCommand(t *testing.T, args ...string) (cmd *exec.Cmd, address string, rest *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(buildCommand(t), args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	rest = bufio.NewReader(stdout)
	line, err := rest.ReadString('\n')
	require.NoError(t, err)
	return cmd, strings.TrimSpace(line[strings.Index(line, "http://"):]), rest
}

// An egress is a running ratelimit proxy.
type egress struct {
	address string
	process *os.Process
	ended   chan int // its exit status
}

// startEgress starts the proxy in front of a server, and returns when it listens.
func startEgress(t *testing.T, to string) *egress {
	t.Helper()
	cmd, address, _ := startCommand(t, "proxy", "-to", to, "-listen", "127.0.0.1:0")
	e := &egress{address: address, process: cmd.Process, ended: make(chan int, 1)}
	go func() {
		_ = cmd.Wait()
		e.ended <- cmd.ProcessState.ExitCode()
	}()
	return e
}

// windowOf returns a limit of requests in windows that begin with a request.
func windowOf(name string, quota, seconds int64) ratelimittest.Limit {
	p := ratelimit.Policy{Name: name, Quota: quota, Window: ratelimit.SecondsOf(seconds)}
	return ratelimittest.Limit{Policy: p, Kind: ratelimittest.WindowFromFirst}
}

// Programs in three languages share ten requests a second. At the end SIGTERM ends the proxy.
func TestEgressPrograms(t *testing.T) {
	t.Parallel() // it takes 15 s
	programs := [][]string{
		{"node", "egress/client.mjs"},
		{"python3", "egress/client.py"},
		{"curl", "-sS", "--no-progress-meter", "-Z", "--parallel-max", "10", "-o", "/dev/null", "-w", "%{http_code}\\n"},
	}
	for _, p := range programs {
		needProgram(t, p[0])
	}
	api := &ratelimittest.API{Limits: []ratelimittest.Limit{windowOf("second", 10, 1)}, Latency: 50 * time.Millisecond}
	server := httptest.NewServer(api)
	defer server.Close()
	e := startEgress(t, server.URL)

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
		t.Logf("%s: %s", p[0], strings.Join(strings.Fields(outputs[i].String()), " "))
	}
	counts := api.Counts()
	require.EqualValues(t, 150, counts.Served+counts.Refused, "each request was sent once")
	require.LessOrEqual(t, counts.Refused, int64(10), "more than the requests before the first answer")
	require.NoError(t, e.process.Signal(syscall.SIGTERM))
	require.Zero(t, <-e.ended)
}

// After an interrupt the proxy waits for requests under way. A second interrupt ends it at once.
func TestEgressInterrupts(t *testing.T) {
	arrived, proceed := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-proceed
	}))
	defer server.Close()
	defer close(proceed)
	e := startEgress(t, server.URL)
	go http.Get(e.address)
	<-arrived
	require.NoError(t, e.process.Signal(os.Interrupt))
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.address, "http://"))
		if err == nil {
			conn.Close() // before the proxy sends anything on
		}
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
