package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const nodeDir = "node"

// needNode skips a test where there is no Node, unless it has to be there, and
// installs the packages of the lock file if they are not what is installed.
func needNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not there, and CI is set: %v", program, err)
			}
			t.Skipf("%s is not there: %v", program, err)
		}
	}
	require.NoError(t, install())
}

// install runs npm ci, which leaves exactly the packages of the lock file. What
// it has installed is noted next to them.
var install = sync.OnceValue(func() error {
	var want []byte
	for _, file := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(nodeDir, file))
		if err != nil {
			return err
		}
		want = append(want, text...)
	}
	note := filepath.Join(nodeDir, "node_modules", ".interop-installed")
	if got, err := os.ReadFile(note); err == nil && bytes.Equal(want, got) {
		return nil
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = nodeDir, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return err
	}
	return os.WriteFile(note, want, 0o644)
})

// node returns how to start a script that serves: it says where, in one line,
// and ends with its standard input.
func node(script string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		needNode(t)
		cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
		cmd.Dir = nodeDir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		// The pipe is never written to. It ends with this process, however that
		// ends, and the script with it.
		_, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		stop := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // says that it was killed
		})
		t.Cleanup(stop)

		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			stop()
			require.NoError(t, err, "%s: %s", script, &stderr)
		}
		return strings.TrimSpace(line)
	}
}

// batch runs a script once, with in as JSON on its standard input, and reads its
// standard output as JSON into out.
func batch(t *testing.T, script string, in, out any) {
	t.Helper()
	needNode(t)
	input, err := json.Marshal(in)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Dir, cmd.Stdin = nodeDir, bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, "%s: %s", script, &stderr)
	require.NoError(t, json.Unmarshal(output, out))
}
