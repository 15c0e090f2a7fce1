package interop

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program at the beginning of README.md runs, and prints the output in README.md.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n\n[^\n]*\n\n```\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, program)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, program[1], 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", `"burst";q=100;w=60, "daily";q=1000;w=86400`)
		w.Header().Set("RateLimit", `"burst";r=37;t=12, "daily";r=990;t=80000`)
	}))
	defer server.Close()
	require.Equal(t, string(program[2]), command(t, ".", nil, "go", "run", file, server.URL))
}

// README.md shows the actual output of the command.
func TestReadmeInspect(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```sh\ngo run (./cmd/ratelimit) (inspect) ([^\n]*)\n```\n\n```\n(.*?)```").FindStringSubmatch(string(readme))
	require.NotNil(t, shown)
	require.Equal(t, shown[4], command(t, "..", nil, "go", append([]string{"run"}, shown[1:4]...)...))
}
