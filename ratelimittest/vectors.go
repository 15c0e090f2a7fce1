package ratelimittest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"strings"
)

//go:embed vectors
var vectors embed.FS

// Vectors returns the test cases of this package in JSON, for tests of parsers and writers. They show
// what field lines mean, what is malformed, and how to write, join and obey limits. Its README.md
// describes the files and their form, and its schema.json is the JSON Schema of the files.
func Vectors() fs.FS {
	files, err := fs.Sub(vectors, "vectors")
	if err != nil {
		panic(err) // the name of the folder is valid
	}
	return files
}

// AddLines adds each field line of [Vectors] to the seeds of a fuzz target whose only argument is a
// string. f is a *testing.F; the interface keeps package testing out of programs that import this
// package.
func AddLines(f interface{ Add(args ...any) }) {
	files, err := fs.Glob(vectors, "vectors/*.json")
	if err != nil {
		panic(err) // the pattern is valid
	}
	seen := map[string]bool{}
	for _, name := range files {
		for _, line := range fieldLines(name) {
			if !seen[line] {
				seen[line] = true
				f.Add(line)
			}
		}
	}
}

// A linesCase has the members of a case that contain field lines. Each character of a line stands for
// one byte.
type linesCase struct {
	Lines     []string    // of one field
	Header    []string    // lines that begin with the name of the field
	Exchanges []linesCase // of a sequence
}

// fieldLines returns the field lines in an embedded file.
func fieldLines(name string) (lines []string) {
	text, err := vectors.ReadFile(name)
	var file struct{ Cases []linesCase }
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		panic(err) // an embedded file exists, and is JSON
	}
	for i := range file.Cases {
		lines = file.Cases[i].appendTo(lines)
	}
	return lines
}

// appendTo appends the field lines of a case.
func (c *linesCase) appendTo(lines []string) []string {
	for _, line := range c.Lines {
		lines = append(lines, bytesOf(line))
	}
	for _, line := range c.Header {
		_, value, _ := strings.Cut(line, ":")
		lines = append(lines, bytesOf(strings.TrimPrefix(value, " ")))
	}
	for i := range c.Exchanges {
		lines = c.Exchanges[i].appendTo(lines)
	}
	return lines
}

// bytesOf returns the bytes that the characters of a line stand for.
func bytesOf(line string) string {
	b := make([]byte, 0, len(line))
	for _, char := range line {
		b = append(b, byte(char))
	}
	return string(b)
}
