package trial

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A Row is a response of a table, and what is expected of it.
type Row struct{ Name, Wire, Want string }

// Rows reads a table of rows. An equals sign precedes what is expected.
func Rows(file string) (rows []Row) {
	for _, b := range BlocksOf(file) {
		wire, want := b.Cut("\n"+b.Text, "\n= ")
		rows = append(rows, Row{b.Name, strings.TrimPrefix(wire, "\n"), strings.TrimSuffix(want, "\n")})
	}
	return rows
}

// A PlainCase is a case whose last line has the result after an equals sign, or the fault after an
// exclamation mark.
type PlainCase struct {
	Name, In, Want string
	Refused        bool
}

var isVerdict = regexp.MustCompile(`(?m)^[=!]( |$)`)

// PlainCases reads a table of plain cases.
func PlainCases(file string) (cases []PlainCase) {
	for _, b := range BlocksOf(file) {
		text := "\n" + strings.TrimSuffix(b.Text, "\n")
		last := strings.LastIndexByte(text, '\n')
		in, verdict := strings.TrimPrefix(text[:last], "\n"), text[last+1:]
		if !isVerdict.MatchString(verdict) || isVerdict.MatchString(in) {
			panic(file + ": " + b.Name + ": the expected result is missing or repeated")
		}
		cases = append(cases, PlainCase{b.Name, in, strings.TrimPrefix(verdict[1:], " "), verdict[0] == '!'})
	}
	return cases
}

// A Block is one case of a table in testdata. Two number signs precede its name, which is
// unique in the table. If blanks or single bytes of a line matter, the line is in quotes.
type Block struct{ Name, Text string }

// Cut splits the text of a case at a separator, which precedes the expected result. A case
// without the separator is a mistake in the table.
func (b *Block) Cut(text, separator string) (before, after string) {
	before, after, ok := strings.Cut(text, separator)
	if !ok {
		panic(fmt.Sprintf("%s: there is no %q", b.Name, separator))
	}
	return before, after
}

// BlocksOf reads the cases of a table.
func BlocksOf(file string) (blocks []Block) {
	b, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(b)) {
		name, begins := strings.CutPrefix(line, "## ")
		switch {
		case begins:
			blocks = append(blocks, Block{Name: strings.TrimSpace(name)})
		case line == "\n", line[0] == '#':
		default:
			if s, err := strconv.Unquote(strings.TrimSpace(line)); err == nil {
				line = s + "\n"
			}
			blocks[len(blocks)-1].Text += line
		}
	}
	names := map[string]bool{}
	for _, b := range blocks {
		if b.Text == "" || names[b.Name] {
			panic(file + ": " + b.Name + ": it is empty, or there twice")
		}
		names[b.Name] = true
	}
	if len(blocks) == 0 {
		panic(file + ": it is empty")
	}
	return blocks
}

// Told cuts off the caller's option: a first line that begins with a question mark.
func (b *Block) Told() (option, rest string) {
	if after, ok := strings.CutPrefix(b.Text, "? "); ok {
		option, rest, _ = strings.Cut(after, "\n")
		return option, rest
	}
	return "", b.Text
}
