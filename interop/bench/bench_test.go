package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTable runs the program as briefly as possible. Every contender must return this
// package's answer, and docs/speed.md must have the same rows.
func TestTable(t *testing.T) {
	got, err := run(options{rounds: 1, round: time.Nanosecond})
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/speed.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- speed -->")
	old, _, _ := strings.Cut(rest, "<!-- /speed -->")
	require.Equal(t, rowNames(got), rowNames(old), "docs/speed.md is out of date: go run -C interop/bench .")
	require.Len(t, rowNames(got), len(worksAt(time.Now()))+1)
}

// rowNames returns the first cells of the rows of a table.
func rowNames(text string) (names []string) {
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 1 && !strings.HasPrefix(cells[1], "-") {
			names = append(names, cells[1])
		}
	}
	return names
}
