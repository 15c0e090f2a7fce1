package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const nodeDir = "node"

// install installs the packages of the lock file, unless they are there already. It runs at most
// once, even if it fails.
var install = sync.OnceValue(func() error {
	want, err := os.ReadFile(filepath.Join(nodeDir, "package-lock.json"))
	if err != nil {
		return err
	}
	note := filepath.Join(nodeDir, "node_modules", ".interop-installed") // the lock file of what is there
	if got, err := os.ReadFile(note); err == nil && bytes.Equal(got, want) {
		return nil
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = nodeDir, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	return os.WriteFile(note, want, 0o644)
})

// needNode installs the packages of the lock file. If there is no Node, it skips the test, except
// in CI.
func needNode(t *testing.T) {
	t.Helper()
	needProgram(t, "node")
	needProgram(t, "npm")
	require.NoError(t, install())
	_, err := os.ReadDir(nodeDir) // makes the cache of go test depend on the scripts
	require.NoError(t, err)
}

// node returns a function that starts a serving script. The script prints its address in one
// line, and exits when its standard input ends.
func node(script string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		needNode(t)
		cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
		cmd.Dir = nodeDir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		// Nothing is written to the pipe. It ends with this process, however that ends, and
		// the script ends with it.
		_, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		stop := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // returns an error, because the process was killed
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
