// Ablate shows which conditions and words of the reader of older forms have a witness. It
// disables each of them in turn, and counts the witnesses. These are responses that are then read
// differently, and documented examples that fail. Damaged responses with an invalid result, and
// look-alikes that are read as limits, are witnesses too. It runs on a copy, and is not part of
// the gate:
//
//	go run -C tools ./ablate            a summary, and everything without a witness
//	go run -C tools ./ablate -all       every condition and word with its figures
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed run.go.txt
var runner []byte

//go:embed hook.go.txt
var hook []byte

// notJudged are files that only make reading fast, or that write.
var notJudged = []string{"cache.go", "holders.go"}

// quick matches conditions that only save time, and others whose comment gives the bound or
// the law that needs them.
var quick = regexp.MustCompile(`// (nearly all|usual$|bound: |law: )`)

// bounds matches conditions that bound hostile input.
var bounds = regexp.MustCompile(`\b([mM]ax|longest|many|few)[A-Z]|\blongest\b|ts\.(index|full|byID)|len\(lines\)|\bTooMany\b|\*dead`)

// A condition is an operand that can be disabled: it becomes false, or true in an "and".
type condition struct {
	from, to int // in bytes of the file
	inert    bool
	place    string
}

func main() {
	log.SetFlags(0)
	all := flag.Bool("all", false, "print every condition and word, not only those without a witness")
	root := flag.String("root", "..", "the directory of the module")
	flag.Parse()
	if err := run(*root, *all); err != nil {
		log.Fatal(err)
	}
}

func run(root string, all bool) error {
	dir, err := os.MkdirTemp("", "ablate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
		return err
	}
	older := filepath.Join(dir, "internal", "older")
	files, err := filepath.Glob(filepath.Join(older, "*.go"))
	if err != nil {
		return err
	}
	var places, apart []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains(notJudged, filepath.Base(file)) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "\t{\"") && strings.Contains(line, "(no vendor case)") {
				apart = append(apart, strings.Fields(strings.Split(line, "\"")[1])...)
			}
		}
		if places, err = rewrite(file, places); err != nil {
			return err
		}
	}
	main := filepath.Join(dir, "internal", "ablated")
	if err := os.Mkdir(main, 0o755); err != nil {
		return err
	}
	for file, text := range map[string][]byte{
		filepath.Join(older, "ablate.go"): hook,
		filepath.Join(main, "main.go"):    runner,
		filepath.Join(main, "places.txt"): []byte(strings.Join(places, "\n")),
		filepath.Join(main, "apart.txt"):  []byte(strings.Join(apart, " ")),
		filepath.Join(main, "all.txt"):    fmt.Append(nil, all),
	} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "run", "./internal/ablated")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	return cmd.Run()
}

// rewrite puts a call around each condition of a file, and appends the places.
func rewrite(file string, places []string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	var list []condition
	add := func(e ast.Expr, inert bool) {
		p := set.Position(e.Pos())
		from, to := p.Offset, set.Position(e.End()).Offset
		if bounds.Match(text[from:to]) || quick.MatchString(lines[p.Line-1]) {
			return
		}
		remark := ""
		if strings.Contains(lines[p.Line-1], "(no vendor case)") {
			remark = " (no vendor case)"
		}
		list = append(list, condition{from, to, inert, fmt.Sprintf("%s:%d%s\t%s", filepath.Base(file), p.Line, remark, strings.Join(strings.Fields(string(text[from:to])), " "))})
	}
	seen := map[ast.Expr]bool{}
	var operands func(e ast.Expr, inert bool)
	operands = func(e ast.Expr, inert bool) {
		if seen[e] {
			return
		}
		seen[e] = true
		switch x := e.(type) {
		case *ast.ParenExpr:
			operands(x.X, inert)
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				operands(x.X, x.Op == token.LAND)
				operands(x.Y, x.Op == token.LAND)
				return
			}
			add(e, inert)
		default:
			add(e, inert)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.ForStmt: // without its condition it might not end
			if x.Cond != nil {
				seen[x.Cond] = true
			}
		case *ast.IfStmt:
			operands(x.Cond, false)
		case *ast.SwitchStmt:
			if x.Tag == nil {
				for _, clause := range x.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						operands(e, false)
					}
				}
			}
		case *ast.BinaryExpr:
			if !seen[x] && (x.Op == token.LAND || x.Op == token.LOR) {
				operands(x, false)
			}
		}
		return true
	})
	slices.SortFunc(list, func(a, b condition) int { return a.from - b.from })
	var b bytes.Buffer
	at := 0
	for i, c := range list {
		if c.from < at {
			continue // within another
		}
		b.Write(text[at:c.from])
		fmt.Fprintf(&b, "ablate(%d, %t, %s)", len(places), c.inert, text[c.from:c.to])
		at = c.to
		places = append(places, list[i].place)
	}
	b.Write(text[at:])
	return places, os.WriteFile(file, b.Bytes(), 0o644)
}
