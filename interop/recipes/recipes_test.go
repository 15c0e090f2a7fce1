package recipes

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

const document = "../../docs/recipes.md"

// block matches a link to a program, and its code.
var block = regexp.MustCompile("(?s)(\\]\\(\\.\\./interop/([\\w/]+\\.go)\\).?\n\n```go\n)(.*?)(```\n)")

// code returns the part of a program below its imports.
func code(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, parser.ImportsOnly)
	require.NoError(t, err)
	require.NotEmpty(t, f.Decls, file)
	return strings.TrimLeft(string(text[files.Position(f.Decls[len(f.Decls)-1].End()).Offset:]), "\n")
}

// programs returns the files of the programs. Caddy's program is in its own module, because
// it needs many libraries.
func programs(t *testing.T) []string {
	t.Helper()
	programs := []string{"../caddy/limiter.go"}
	files, err := filepath.Glob("../recipes/*/*.go")
	require.NoError(t, err)
	for _, file := range files {
		file = filepath.ToSlash(file)
		if !strings.HasSuffix(file, "_test.go") {
			programs = append(programs, file)
		}
	}
	return programs
}

// docs/recipes.md contains the code of all programs. Each program has a test next to it.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var found []string
	want := block.ReplaceAllStringFunc(string(text), func(b string) string {
		m := block.FindStringSubmatch(b)
		found = append(found, "../"+m[2])
		return m[1] + code(t, "../"+m[2]) + m[4]
	})
	require.ElementsMatch(t, programs(t), found)
	require.Equal(t, len(found), strings.Count(want, "```go\n"), "code without a link to its program")
	for _, file := range found {
		tests, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, tests, file)
	}
	if *trial.Update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	trial.RequireText(t, want, string(text), "the code is out of date: go test -C interop/recipes . -update")
}
