package interop

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/interop/internal/block"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of README.md")

const readmeFile = "README.md"

// checkMatrix compares the tables of README.md with the results. With -update it writes them.
func checkMatrix(t *testing.T) {
	old, err := os.ReadFile(readmeFile)
	require.NoError(t, err)
	text, err := block.Replace(string(old), "servers", serverTable(t))
	require.NoError(t, err)
	text, err = block.Replace(text, "readers", readerTable(t))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(readmeFile, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(old), "README.md is out of date: go test -run TestInterop . -update")
}

func serverTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| limiter | version | form | first response | last before the refusal | refusal | remarks |\n|---|---|---|---|---|---|---|\n")
	for _, s := range servers {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | `%s` | `%s` | %s |\n",
			s.name, version(t, s.module), s.dialect, s.first, s.last, s.refused, s.note)
	}
	return b.String()
}

func readerTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| library | version | form | what is compared | remarks |\n|---|---|---|---|---|\n")
	for _, r := range readers {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name, version(t, r.module), r.form, r.reads, r.note)
	}
	return b.String()
}

// isGo reports whether a module is written in Go. Its name then begins with a host.
func isGo(module string) bool {
	host, _, _ := strings.Cut(module, "/")
	return strings.Contains(host, ".")
}

// version returns the version of a module in go.mod or package.json.
func version(t *testing.T, module string) string {
	t.Helper()
	if isGo(module) {
		text, err := os.ReadFile("go.mod")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == module {
				return words[1]
			}
		}
		require.Fail(t, "not in go.mod", module)
	}
	text, err := os.ReadFile(filepath.Join(nodeDir, "package.json"))
	require.NoError(t, err)
	var file struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(text, &file))
	require.Contains(t, file.Dependencies, module)
	return file.Dependencies[module]
}
