package ratelimittest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
)

//go:embed vectors
var vectors embed.FS

// Vectors returns the test cases of this package in JSON, for tests of parsers and writers. They
// show what field lines mean, what is malformed, and how to write, join and obey limits. The file
// README.md describes the other files and their form. The file schema.json is their JSON Schema.
func Vectors() fs.FS {
	files, _ := fs.Sub(vectors, "vectors") // no error: the name of the folder is valid
	return files
}

// AddLines adds each field line of [Vectors] to the seeds of a fuzz target whose only argument is a
// string. f is a *testing.F; the interface keeps package testing out of programs that import this
// package.
func AddLines(f interface{ Add(args ...any) }) {
	files, _ := fs.Glob(vectors, "vectors/*.json") // no error: the pattern is valid
	seen := map[string]bool{}
	for _, name := range files {
		var file linesCase
		text, _ := vectors.ReadFile(name)
		if err := json.Unmarshal(text, &file); err != nil {
			panic(err) // an embedded file exists, and is JSON
		}
		file.each(func(line string) {
			if !seen[line] {
				seen[line] = true
				f.Add(line)
			}
		})
	}
}

// A linesCase has the members of a file, a case or an exchange that contain field lines. Each character
// of a line stands for one byte.
type linesCase struct {
	Lines     []string    // of one field
	Header    []string    // lines that begin with the name of the field
	Cases     []linesCase // of a file
	Exchanges []linesCase // of a sequence
}

// each calls add for each field line.
func (c *linesCase) each(add func(line string)) {
	for _, line := range c.Lines {
		add(bytesOf(line))
	}
	for _, line := range c.Header {
		_, value, _ := strings.Cut(line, ":")
		add(bytesOf(strings.TrimPrefix(value, " ")))
	}
	for _, inner := range slices.Concat(c.Cases, c.Exchanges) {
		inner.each(add)
	}
}

// bytesOf returns the bytes that the characters of a line stand for.
func bytesOf(line string) string {
	b := make([]byte, 0, len(line))
	for _, char := range line {
		b = append(b, byte(char))
	}
	return string(b)
}
