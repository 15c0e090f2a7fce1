//go:build unix

package readme

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longest is the most time for a command, and for the start of a server.
const longest = 10 * time.Minute

// root is the root of the repository.
const root = "../.."

// TestReadmes runs the commands of every README that is not ignored.
func TestReadmes(t *testing.T) {
	files, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "README.md", "*/README.md").Output()
	require.NoError(t, err)
	names := strings.Fields(string(files))
	require.Contains(t, names, "README.md")
	commands := map[string][]Command{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		commands[name], err = Commands(string(text))
		require.NoError(t, err, name)
	}
	done := map[string]bool{} // commands of Go that run only once
	for command := range strings.SplitSeq(os.Getenv("README_DONE"), "\n") {
		done[command] = true // the gate runs it
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, c := range commands[name] {
				place := fmt.Sprintf("%s:%d", name, c.Line)
				began := time.Now()
				switch {
				case done[c.Text]:
					continue
				case c.Kind == Elsewhere:
					require.NoError(t, exec.CommandContext(t.Context(), "bash", "-n", "-c", c.Text).Run(), place)
					t.Logf("%s is for elsewhere: %s", place, c.Text)
					continue
				case c.Kind == Server:
					serve(t, place, c.Text)
				default:
					out, err := shell(t, c.Text).CombinedOutput()
					require.NoError(t, err, "%s: %s\n%s", place, c.Text, out)
					require.NotContains(t, string(out), "no tests to run", place)
					done[c.Text] = strings.HasPrefix(c.Text, "go ")
				}
				t.Logf("%s took %.1fs: %s", place, time.Since(began).Seconds(), c.Text)
			}
		})
	}
}

// shell returns a shell command with its own process group. The group ends with the test.
func shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// ready matches the output of a server that accepts requests.
var ready = regexp.MustCompile(`http://|Ready to accept connections`)

// serve starts a server, and returns when it is ready. The server ends with the test.
func serve(t *testing.T, place, text string) {
	t.Helper()
	cmd := shell(t, text)
	out := &output{ready: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start(), place)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { <-ended })
	select {
	case <-out.ready:
	case <-ended:
		require.FailNow(t, "the server has ended", "%s: %s\n%s", place, text, out)
	}
}

// output collects the output of a server.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	once  sync.Once
	ready chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if ready.Match(o.text.Bytes()) {
		o.once.Do(func() { close(o.ready) })
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
