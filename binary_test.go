package ratelimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildPrograms compiles programs that use a copy of the package, each by its name, and
// returns their folder. Some files of the copy may have other contents. The package
// itself may lie where nothing can be written.
func buildPrograms(t *testing.T, programs, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, pattern := range []string{"go.mod", "go.sum", "*.go", "internal/*/*.go"} {
		paths, err := filepath.Glob(filepath.FromSlash(pattern))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			write(path, string(content))
		}
	}
	for path, content := range files {
		write(path, content)
	}
	args := []string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s", "-o", dir + string(filepath.Separator)}
	for name, source := range programs {
		write(filepath.Join("cmd", name, "main.go"), source)
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// TestBinary: a program that calls ParseLimits alone has no data of dialects in it, and
// one that calls ParseAny has; and what importing the package costs before main begins.
func TestBinary(t *testing.T) {
	t.Parallel()
	const program = `package main

import "github.com/httpfields/ratelimit"

func main() { _, _ = ratelimit.CALL }
`
	dir := buildPrograms(t, map[string]string{
		"strict":  strings.Replace(program, "CALL", `ParseLimits("a")`, 1),
		"lenient": strings.Replace(program, "CALL", `ParseAny(nil, ratelimit.LegacyOptions{})`, 1),
	}, nil)
	for name, want := range map[string]bool{"strict": false, "lenient": true} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(b), "X-Shopify-Shop-Api-Call-Limit"), name)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "lenient"))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^init github\.com/httpfields/ratelimit @.* (\d+) allocs$`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	allocs, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, 50)
}

// Packages below internal import nothing that stands above them.
func TestFloors(t *testing.T) {
	t.Parallel()
	const module = "github.com/httpfields/ratelimit"
	for name, want := range map[string][]string{
		"text": {}, "machine": {}, "limiters": {}, "sf": {"text"}, "older": {"text"}, "report": {"", "text"}, "proxy": {"", "text"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{join .Imports \"\\n\"}}", "./internal/"+name)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		got := []string{}
		for path := range strings.Lines(string(out)) {
			if rest, ours := strings.CutPrefix(strings.TrimSpace(path), module); ours {
				got = append(got, strings.TrimPrefix(strings.TrimPrefix(rest, "/internal"), "/"))
			}
		}
		require.Subset(t, want, got, name)
	}
}
