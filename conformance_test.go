package ratelimit

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A code is what the Go files of a folder declare and say.
type code struct {
	names map[string]bool // functions, types, constants and variables, Type.Method, Type.Field
	rows  map[string]bool // all string literals of tests, and all cases of the tables and vectors in testdata, as names of subtests
}

// rootCode is that of the package.
var rootCode = sync.OnceValue(func() code { return readCode(".") })

// readCode reads the Go files of a folder, and of internal in it.
func readCode(dir string) code {
	c := code{names: map[string]bool{}, rows: map[string]bool{}}
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	inner, _ := filepath.Glob(filepath.Join(dir, "internal", "*", "*.go"))
	for _, file := range append(files, inner...) {
		f, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		for _, d := range f.Decls {
			c.declare(d)
		}
		if strings.HasSuffix(file, "_test.go") {
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					c.rows[strings.ReplaceAll(s, " ", "_")] = true
				}
				return true
			})
		}
	}
	for _, tables := range []string{"older", "check", "fields", "middleware", "client"} {
		files, _ := filepath.Glob(filepath.Join(dir, "testdata", tables, "*.txt"))
		for _, file := range files {
			for _, b := range blocksOf(file) {
				c.rows[strings.ReplaceAll(b.name, " ", "_")] = true
			}
		}
	}
	vectors, _ := filepath.Glob(filepath.Join(dir, "testdata", "vectors", "*.json"))
	for _, file := range vectors {
		b, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\{"name":"([^"]*)"`).FindAllSubmatch(b, -1) {
			c.rows[strings.ReplaceAll(string(m[1]), " ", "_")] = true
		}
	}
	return c
}

func (c *code) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"), "[")
			name = of + "." + name
		}
		c.names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					c.names[n.Name] = true
				}
			case *ast.TypeSpec:
				c.names[s.Name.Name] = true
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, f := range st.Fields.List {
						for _, n := range f.Names {
							c.names[s.Name.Name+"."+n.Name] = true
						}
					}
				}
			}
		}
	}
}

// hasRow reports whether tests have a row of a name, of which "…" stands for any
// end.
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

// CONFORMANCE.md names nothing that does not exist.
func TestConformance(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	root := rootCode()
	quoted := regexp.MustCompile("`([^`]+)`( in (examples/\\w+))?")
	checked, missing := 0, released(t)
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 {
			continue
		}
		test := ""
		for _, cell := range cells[len(cells)-2:] { // code and test
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				name, in := m[1], &root
				if m[3] != "" {
					if m[3] == "examples/server" && missing {
						continue
					}
					if _, err := fs.Stat(os.DirFS("."), m[3]); err != nil {
						t.Errorf("line %d: no folder %s", i+1, m[3])
						continue
					}
					example := readCode(m[3])
					in = &example
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

// CONTRIBUTING.md names each file of the package, and no file and no code that
// does not exist.
func TestContributing(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	root := rootCode()
	declared := map[string]bool{}
	for name := range root.names {
		declared[name] = true
		if _, member, ok := strings.Cut(name, "."); ok {
			declared[member] = true
		}
	}
	checked := 0
	for _, m := range regexp.MustCompile("`([A-Za-z_./]{4,})`").FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		switch {
		case name == "case" || name == "reason" || strings.Contains(name, "http.") || strings.HasPrefix(name, "testing/"):
		case name == "interop": // a module of its own, which no release of this one has
		case strings.ContainsAny(name, "/_") || strings.HasSuffix(name, ".go"):
			_, err := os.Stat(name)
			require.True(t, err == nil || declared[name], "%s does not exist", name)
			checked++
		default:
			require.True(t, declared[name], "no %s", name)
			checked++
		}
	}
	require.Greater(t, checked, 60, "the file is read")
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	inner, err := filepath.Glob("internal/*/*.go")
	require.NoError(t, err)
	for _, file := range append(files, inner...) {
		require.True(t, strings.HasSuffix(file, "_test.go") || strings.Contains(string(text), "`"+file+"`"), "%s is in no table", file)
	}
}
