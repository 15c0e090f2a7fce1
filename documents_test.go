package ratelimit

import (
	"fmt"
	"go/ast"

	"github.com/httpfields/ratelimit/internal/trial"

	goparser "go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/stretchr/testify/require"
)

// A code has the declarations and texts of the Go files of folders.
type code struct {
	names map[string]bool // functions, types, constants and variables, Type.Method, Type.Field
	rows  map[string]bool // string literals of tests, and cases of the tables and vectors in testdata: the names of subtests
}

// moduleCode is the code of the module. Names outside of the root have the name of their package
// before them, such as draft.Limits, except in tests.
var moduleCode = sync.OnceValue(func() code {
	c := code{names: map[string]bool{}, rows: map[string]bool{}}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." || path == "examples" {
			return fs.SkipDir // a nested module
		}
		c.read(path, path != ".")
		return nil
	})
	if err != nil {
		panic(err)
	}
	return c
})

// read adds the code and the tables of a folder. If qualified is true, names outside of tests have
// the name of the package before them.
func (c *code) read(dir string, qualified bool) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range files {
		f, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		test, prefix := strings.HasSuffix(file, "_test.go"), ""
		if qualified && !test {
			prefix = f.Name.Name + "."
		}
		for _, d := range f.Decls {
			c.declare(prefix, d)
		}
		if test {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					c.rows[strings.ReplaceAll(s, " ", "_")] = true
				}
				return true
			})
		}
	}
	tables, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
	for _, file := range tables {
		if strings.Contains(file, "testdata") {
			c.readNames(file, `(?m)^## (.*)$`)
		}
	}
	vectors, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, file := range vectors {
		c.readNames(file, `(?m)^\{"name":"([^"]*)"`)
	}
}

// readNames adds the names of the cases in a file.
func (c *code) readNames(file, pattern string) {
	b, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(b, -1) {
		c.rows[strings.ReplaceAll(string(m[1]), " ", "_")] = true
	}
}

// declare adds the names of a declaration.
func (c *code) declare(prefix string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"), "[")
			name = of + "." + name
		}
		c.names[prefix+name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					c.names[prefix+n.Name] = true
				}
			case *ast.TypeSpec:
				c.names[prefix+s.Name.Name] = true
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, f := range st.Fields.List {
						for _, n := range f.Names {
							c.names[prefix+s.Name.Name+"."+n.Name] = true
						}
					}
				}
			}
		}
	}
}

// hasRow reports whether tests have a row with this name. "…" at its end matches any text.
func (c *code) hasRow(name string) bool {
	begin, open := strings.CutSuffix(name, "…")
	if !open {
		return c.rows[name]
	}
	for row := range c.rows {
		if strings.HasPrefix(row, begin) {
			return true
		}
	}
	return false
}

// CONFORMANCE.md names only existing code and tests.
func TestConformance(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	module := moduleCode()
	quoted := regexp.MustCompile("`([^`]+)`( in (examples/\\w+))?")
	checked, missing := 0, trial.Released(t)
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 {
			continue
		}
		test := ""
		for _, cell := range cells[len(cells)-2:] { // code and test
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				name, in := m[1], &module
				if m[3] != "" {
					if m[3] == "examples/server" && missing {
						continue
					}
					if _, err := fs.Stat(os.DirFS("."), m[3]); err != nil {
						t.Errorf("line %d: no folder %s", i+1, m[3])
						continue
					}
					in = &code{names: map[string]bool{}, rows: map[string]bool{}}
					in.read(m[3], false)
				}
				checked++
				first, row, isRow := strings.Cut(name, "/")
				switch {
				case isRow && first == "":
					if test == "" || !in.hasRow(row) {
						t.Errorf("line %d: no row %q of %s", i+1, row, test)
					}
				case isRow:
					if test = first; !in.names[first] || !in.hasRow(row) {
						t.Errorf("line %d: no test %s with a row %q", i+1, first, row)
					}
				case !in.names[name]:
					t.Errorf("line %d: no %s", i+1, name)
				default:
					test = name
				}
			}
		}
	}
	require.Greater(t, checked, 100, "the tables are read")
}

// The code of README.md and of docs is in the examples, word for word, so that it compiles and
// runs. A test in interop runs the program of README.md.
func TestReadmeCode(t *testing.T) {
	var examples []byte
	for _, dir := range []string{".", "obey", "announce", "ratelimittest"} {
		for _, name := range []string{"example_test.go", "readme_test.go"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			examples = append(examples, b...)
		}
	}
	for file, least := range map[string]int{"README.md": 6, "docs/client.md": 2, "docs/older.md": 2, "docs/gateway.md": 1} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.GreaterOrEqual(t, len(blocks), least, file)
		for _, b := range blocks {
			code := "\t" + strings.ReplaceAll(strings.TrimSuffix(b[1], "\n"), "\n", "\n\t") + "\n"
			code = strings.ReplaceAll(code, "\n\t\n", "\n\n")
			program := strings.HasPrefix(b[1], "package main\n")
			require.True(t, program || strings.Contains(string(examples), code), "%s: no example has\n%s", file, b[1])
		}
	}
}

// The words of docs/older.md have the roles in its table.
func TestReadmeWords(t *testing.T) {
	_, rows := trial.ReadSection(t, "docs/older.md", "words")
	roles := map[string]Role{
		"quota": RoleQuota, "remaining": RoleRemaining, "used": RoleUsed, "reset": RoleReset, "window": RoleWindow, "name of the policy": RoleName,
		"list of policies": RolePolicies,
	}
	for line := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		role, ok := roles[cells[0]]
		if !ok {
			continue
		}
		delete(roles, cells[0])
		for word := range strings.FieldsSeq(cells[1]) {
			found, _ := older.Find(nil, http.Header{http.CanonicalHeaderKey("X-RateLimit-" + strings.Trim(word, "`")): {"1"}}, nil)
			require.Len(t, found, 1, word)
			require.Equal(t, older.Role(role), found[0].Role, word)
		}
	}
	require.Empty(t, roles, "no row has words for them")
}

// docs/older.md lists exactly the dialects that can be written.
func TestReadmeDialects(t *testing.T) {
	variables := map[*Dialect]string{
		Draft06: "Draft06", Draft07: "Draft07", XRateLimit: "XRateLimit", XRateLimitUnix: "XRateLimitUnix", GitHub: "GitHub", OpenAI: "OpenAI",
		Anthropic: "Anthropic",
	}
	resets := map[TimeFormat]string{
		TimeGuess: "", TimeSeconds: "seconds from now", TimeUnix: "Unix seconds", TimeRFC3339: "timestamp", TimeDuration: "duration",
	}
	var b strings.Builder
	b.WriteString("| name | variable | fields | reset |\n|---|---|---|---|\n")
	for _, d := range writtenDialects {
		var fields []string
		reset := ""
		for _, f := range d.Fields() {
			fields = append(fields, "`"+f.Name+"`")
			if f.Role == RoleReset {
				reset = resets[f.Format]
			}
		}
		variable := "–"
		if name, ok := variables[d]; ok {
			variable = "`" + name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name(), variable, strings.Join(fields, " "), reset)
	}
	trial.CheckSection(t, "docs/older.md", "dialects", b.String())
}
