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
	for _, pattern := range []string{"go.mod", "go.sum", "*.go", "announce/*.go", "internal/*/*.go", "internal/*/*.txt"} {
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
	const ours, announce = `"github.com/httpfields/ratelimit"`, `"github.com/httpfields/ratelimit/announce"`
	dir := buildPrograms(t, map[string]string{
		"without":    write("", ""),
		"retryafter": write("println(ratelimit.ParseRetryAfter(resp.Header, time.Now()))", ours+`; "time"`),
		"parse":      write("f, err := ratelimit.Parse(resp.Header); println(len(f.Limits), err)", ours),
		"add":        write("println(announce.FixedWindow{Quota: 10}.Fields().Add(resp.Header))", announce),
	}, nil, "GOOS=linux", "GOARCH=amd64")
	size := func(name string) float64 {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return float64(info.Size())
	}
	for name, most := range map[string]float64{
		"retryafter": 1.0175, // 103 KB of 5.9 MB
		"parse":      1.0272, // 156 KB; 5.7 MB with the oldest Go
		"add":        1.0175, // 103 KB
	} {
		got := size(name) / size("without")
		t.Logf("%s: %.4f of a program without the package, %.0f KB more", name, got, (size(name)-size("without"))/1000)
		require.LessOrEqual(t, got, most, name)
	}
}

// floorOf returns the floor of a package of the module. A package below internal is on the lowest
// floor, unless it needs the root. Any other folder is a room, which needs the root.
func floorOf(path string, needsRoot bool) int {
	first, rest, _ := strings.Cut(path, "/")
	switch {
	case first == "cmd" || first == "examples":
		return 5
	case first == "internal" && needsRoot:
		return 4
	case first == "internal" || strings.HasPrefix(rest, "internal/"):
		return 0
	case first == "ratelimittest": // it may use announce
		return 3
	case first == "":
		return 1
	}
	return 2
}

// Imports lead down: from the programs to the rooms, from the rooms to the root, and from there to
// the packages in internal. Rooms do not import each other. A new package needs no row here.
func TestFloors(t *testing.T) {
	t.Parallel()
	const module = "github.com/httpfields/ratelimit"
	list := func(what string) map[string][]string { // the packages of the module, by the package that needs them
		cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}{{range ."+what+"}} {{.}}{{end}}", "./...")
		out, err := cmd.Output()
		require.NoError(t, err)
		all := map[string][]string{}
		for line := range strings.Lines(string(out)) {
			var ours []string
			for _, path := range strings.Fields(line) {
				if rest, ok := strings.CutPrefix(path, module); ok {
					ours = append(ours, strings.TrimPrefix(rest, "/"))
				}
			}
			all[ours[0]] = ours[1:]
		}
		return all
	}
	imports, deps := list("Imports"), list("Deps")
	floor := func(path string) int { return floorOf(path, slices.Contains(deps[path], "")) }
	for path, needed := range imports {
		for _, other := range needed {
			from, to := floor(path), floor(other)
			among := from == to && from != 2 && from != 1 // packages on one floor, but not two rooms
			require.True(t, to < from || among, "%q imports %q", path, other)
			require.False(t, strings.HasPrefix(path, "obey/internal"), "%q imports %q: the machine is told numbers", path, other)
		}
	}
	require.Greater(t, len(imports), 15)
}
