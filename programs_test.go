package ratelimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildPrograms compiles programs by name that use a copy of the package, and returns their folder.
// Some files of the copy may have other contents. The folder of the package may be read-only. env is
// added to the environment.
func buildPrograms(t *testing.T, programs, files map[string]string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, pattern := range []string{"go.mod", "go.sum", "*.go", "internal/*/*.go", "internal/*/*.txt"} {
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
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), []string{"GOFLAGS=", "GOWORK=off"}, env)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// TestBinary: a program that calls only ParseLimits contains no data of dialects, and one that calls
// ParseAny does. It also bounds the cost of importing the package before main begins.
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

// TestBinarySize bounds how much larger the package makes a program with net/http.
// Maintainers look at this size before they require a package for one function. The ratios
// hold for other versions of Go, but not for other platforms.
func TestBinarySize(t *testing.T) {
	t.Parallel()
	const program = `package main

import (
	"net/http"
	"os"
	IMPORTS
)

func main() {
	resp, err := http.Get(os.Args[1])
	if err != nil {
		panic(err)
	}
	println(resp.StatusCode)
	CALL
}
`
	write := func(call, imports string) string {
		return strings.NewReplacer("IMPORTS", imports, "CALL", call).Replace(program)
	}
	const ours = `"github.com/httpfields/ratelimit"`
	dir := buildPrograms(t, map[string]string{
		"without":    write("", ""),
		"retryafter": write("println(ratelimit.ParseRetryAfter(resp.Header, time.Now()))", ours+`; "time"`),
		"parse":      write("f, err := ratelimit.Parse(resp.Header); println(len(f.Limits), err)", ours),
		"add":        write("println(ratelimit.FixedWindow{Quota: 10}.Fields().Add(resp.Header))", ours),
	}, nil, "GOOS=linux", "GOARCH=amd64")
	size := func(name string) float64 {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return float64(info.Size())
	}
	for name, most := range map[string]float64{
		"retryafter": 1.0175, // 103 KB of 5.9 MB
		"parse":      1.0264, // 156 KB
		"add":        1.0175, // 103 KB
	} {
		got := size(name) / size("without")
		t.Logf("%s: %.4f of a program without the package, %.0f KB more", name, got, (size(name)-size("without"))/1000)
		require.LessOrEqual(t, got, most, name)
	}
}

// Packages in internal do not import packages above them.
func TestFloors(t *testing.T) {
	t.Parallel()
	const module = "github.com/httpfields/ratelimit"
	for name, want := range map[string][]string{
		"text": {}, "machine": {}, "limiters": {}, "sf": {"text"}, "older": {"text"}, "report": {"", "text", "older"}, "proxy": {"", "text"},
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

// draftSwaps convert draft.go to the next draft. The keys of RateLimit change places. Names
// may be Tokens, and are compared without case.
var draftSwaps = map[string]string{
	`(?m)^\tremainingKey( *)= "r"$`:         "\tremainingKey$1= \"a\"",
	`(?m)^\tresetKey( *)= "t"$`:             "\tresetKey$1= \"w\"",
	`(?m)^\tnextRemainingKey( *)= "a"$`:     "\tnextRemainingKey$1= \"r\"",
	`(?m)^\tnextResetKey( *)= "w"( //.*)?$`: "\tnextResetKey$1= \"t\"",
	`(?m)^const tokenNames = false$`:        "const tokenNames = true",
	`(?m)^(func nameID.*) return name }$`:   "$1 return nextNameID(name) }",
}

// TestDraftMoves changes only draft.go, as CONTRIBUTING.md describes. The package then reads,
// writes and checks the next draft, and still reads the current draft. The older forms do not
// change, although some use w. A program in testdata/draft is compiled with the changed
// package, and shows this.
func TestDraftMoves(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
	draft := read("draft.go")
	for pattern, swap := range draftSwaps {
		re := regexp.MustCompile(pattern)
		require.Len(t, re.FindAllString(draft, -1), 1, pattern)
		draft = re.ReplaceAllString(draft, swap)
	}
	files := map[string]string{"draft.go": draft, "messages.go": read("testdata/draft/messages.go")}
	dir := buildPrograms(t, map[string]string{"moved": read("testdata/draft/main.go")}, files)
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "moved")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, read("testdata/draft/output.txt"), string(out))
}
