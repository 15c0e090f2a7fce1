package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

const readmeFile = "README.md"

// TestInterop talks to every server and every reader, and compares the results with the tables
// of README.md. With -update it writes them.
func TestInterop(t *testing.T) {
	_, old := trial.ReadSection(t, readmeFile, "servers")
	was, rows := rowsOf(old), make([][]string, len(servers))
	// Servers in this process come first, one after the other, because some windows are as short
	// as a second.
	for _, language := range []string{"Go", "Node"} {
		t.Run("read by us, "+language, func(t *testing.T) {
			for i, s := range servers {
				if isGo(s.module) != (language == "Go") {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					if !isGo(s.module) {
						t.Parallel()
					}
					rows[i] = readServer(t, s, was[s.name])
				})
			}
		})
	}
	t.Run("read by others", func(t *testing.T) {
		for _, r := range readers {
			t.Run(r.name, r.read)
		}
	})
	if !t.Failed() {
		for i := range rows {
			if rows[i] == nil { // skipped
				rows[i] = was[servers[i].name]
			}
		}
		checkRows(t, readmeFile, "servers", old, rows)
		checkReaders(t)
	}
}

// checkReaders compares the names and the versions of the readers with README.md.
func checkReaders(t *testing.T) {
	_, old := trial.ReadSection(t, readmeFile, "readers")
	was, rows := rowsOf(old), make([][]string, len(readers))
	for i, r := range readers {
		require.Contains(t, was, r.name, "README.md has no row for it: write one")
		rows[i] = append([]string{r.name, version(t, r.module)}, was[r.name][2:]...)
	}
	checkRows(t, readmeFile, "readers", old, rows)
}

// rowsOf returns the rows of a table by their first cells.
func rowsOf(table string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells
	}
	return rows
}

// checkRows compares the rows of a table, below its head.
func checkRows(t *testing.T, file, name, old string, rows [][]string) {
	t.Helper()
	lines := strings.SplitAfterN(old, "\n", 3)
	text := lines[0] + lines[1]
	for _, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
	}
	trial.CheckSection(t, file, name, text)
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
