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

// buildProgram compiles a program that uses the package, and returns its path.
func buildProgram(t *testing.T, source string) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	return buildProgramWith(t, root, source)
}

// buildProgramWith is buildProgram with the package in a folder. The program is a module
// of its own, because this one may lie where nothing can be written.
func buildProgramWith(t *testing.T, root, source string) string {
	t.Helper()
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	const path = "github.com/httpfields/ratelimit"
	program := strings.Replace(string(mod), "module "+path, "module program", 1) +
		"\nrequire " + path + " v0.0.0\nreplace " + path + " => " + strconv.Quote(root) + "\n"
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": program, "go.sum": string(sum), "main.go": source} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "program")
}

// TestBinary: a program that calls ParseLimits alone has no data of dialects in
// it, and one that calls ParseAny has.
func TestBinary(t *testing.T) {
	const program = `package main

import "github.com/httpfields/ratelimit"

func main() { CALL }
`
	for call, want := range map[string]bool{
		`_, _ = ratelimit.ParseLimits("a")`:                         false,
		`_, _ = ratelimit.ParseAny(nil, ratelimit.LegacyOptions{})`: true,
	} {
		b, err := os.ReadFile(buildProgram(t, strings.Replace(program, "CALL", call, 1)))
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(b), "X-Shopify-Shop-Api-Call-Limit"), call)
	}
}

// TestInit: what importing the package costs before main begins.
func TestInit(t *testing.T) {
	const program = `package main

import "github.com/httpfields/ratelimit"

func main() { _, _ = ratelimit.ParseAny(nil, ratelimit.LegacyOptions{}) }
`
	cmd := exec.Command(buildProgram(t, program))
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^init github\.com/httpfields/ratelimit @.* (\d+) allocs$`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	allocs, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, 50)
}
