package ratelimit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildPrograms compiles programs that use the package, each by its name, and returns
// their folder. Some files of the package may have other contents. Nothing is written
// beside the package, which may lie where nothing can be written.
func buildPrograms(t *testing.T, programs, files map[string]string) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	add := func(path, content string) {
		file := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		overlay.Replace[filepath.Join(root, path)] = file
	}
	for path, content := range files {
		add(path, content)
	}
	args := []string{"build", "-buildvcs=false", "-ldflags=-s", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir + string(filepath.Separator)}
	for name, source := range programs {
		add(filepath.Join("internal", name, "main.go"), source)
		args = append(args, "./internal/"+name)
	}
	b, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
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
