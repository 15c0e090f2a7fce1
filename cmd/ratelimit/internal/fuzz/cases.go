// Package fuzz compares other parsers of RateLimit-Policy and RateLimit with this module.
package fuzz

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Case is the lines of one field, in the form of ratelimittest/vectors: each byte of a line is one
// character, because JSON cannot hold bytes.
type Case struct {
	ID    int      `json:"id"`
	Field string   `json:"field"` // ratelimit.PolicyField or ratelimit.LimitField
	Lines []string `json:"lines"`

	NoParams bool `json:"-"` // members are compared without extension parameters
}

// with returns the case with the lines of a text, which end with newLine.
func (c Case) with(text string) Case {
	b := make([]byte, 0, 2*len(text))
	for i := range len(text) {
		b = utf8.AppendRune(b, rune(text[i]))
	}
	c.Lines = strings.Split(string(b), newLine)
	return c
}

// text undoes with.
func (c Case) text() string {
	var b []byte
	for _, r := range strings.Join(c.Lines, newLine) {
		b = append(b, byte(r))
	}
	return string(b)
}

const newLine = "\n"

// Line returns a line with a case and the expected answer.
func Line(c Case) []byte {
	v, section := Judge(c)
	return append(encode(struct {
		Case
		Verdict
		Section string `json:"section,omitempty"`
	}{c, v, section}), '\n')
}

// encode returns v in JSON of printable ASCII.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // fails for no value of this package
	var out []byte
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if r < '\x7f' {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

//go:embed grammar.txt
var grammarText string

// grammar has the texts that each rule may stand for. A text occurs as often as its weight says.
var grammar = readGrammar(grammarText)

func readGrammar(text string) map[string][]string {
	rules := map[string][]string{}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		name, rest, _ := strings.Cut(paragraph, "\n")
		for line := range strings.Lines(rest) {
			weight, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			n, _ := strconv.Atoi(weight)
			rules[name] = append(rules[name], slices.Repeat([]string{text}, n)...)
		}
	}
	return rules
}

// A Generator makes cases. The same seed makes the same cases.
type Generator struct {
	Seed   uint64
	Fields []string // the cases are of these fields in turn

	NoParams bool // of the cases
}

// Case returns the case with a number, from 1. Its result does not depend on other cases.
func (g *Generator) Case(id int) Case {
	random := rand.New(rand.NewPCG(g.Seed, uint64(id)))
	for field := g.Fields[id%len(g.Fields)]; ; {
		text := expand(random, field)
		if random.IntN(5) == 0 {
			text = spoil(random, text)
		}
		if decided(text) {
			return Case{ID: id, Field: field, NoParams: g.NoParams}.with(text)
		}
	}
}

// rule matches the name of a rule in a text of the grammar.
var rule = regexp.MustCompile("<[A-Za-z0-9-]+>")

// expand returns a random text of a rule.
func expand(random *rand.Rand, name string) string {
	switch name {
	case "sp":
		return " "
	case "tab":
		return "\t"
	case "line":
		return newLine
	case "byte":
		return string([]byte{byte(random.IntN(256))})
	}
	list := grammar[name]
	return rule.ReplaceAllStringFunc(list[random.IntN(len(list))], func(s string) string { return expand(random, s[1:len(s)-1]) })
}

// spoil changes some bytes of a text: it removes, repeats, inserts or replaces them.
func spoil(random *rand.Rand, text string) string {
	const inserted = "\x00\t\n\r !\"%(),-.0:;=?@A\\a~\x7f\x80\xc3\xff"
	for range 1 + random.IntN(3) {
		begin := random.IntN(len(text) + 1)
		end := min(begin+random.IntN(4), len(text))
		one := string(inserted[random.IntN(len(inserted))])
		middle := [...]string{"", text[begin:end] + text[begin:end], one + text[begin:end], one}[random.IntN(4)]
		text = text[:begin] + middle + text[end:]
	}
	return text
}

var (
	date     = regexp.MustCompile(`@(-?[0-9]+)`)
	sequence = regexp.MustCompile(`^[A-Za-z0-9+/]*={0,2}$`)
)

// decided reports whether RFC 9651 defines how to read a text. A parser may reject a Byte
// Sequence without padding (Section 4.2.7), and a Date outside of the years 1 to 9999 (Section
// 3.3.7).
func decided(text string) bool {
	const first, last = -62_135_596_800, 253_402_214_400
	for _, m := range date.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && (n < first || n > last) {
			return false
		}
	}
	parts := strings.Split(text, ":")
	return !slices.ContainsFunc(parts[1:], func(part string) bool {
		_, err := base64.StdEncoding.Strict().DecodeString(part)
		return err != nil && sequence.MatchString(part)
	})
}
