package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// TestFuzz runs ratelimit fuzz against parsers in several languages, and compares its findings with
// docs/vectors.md.
func TestFuzz(t *testing.T) {
	needNode(t)
	program := buildCommand(t)
	var rows strings.Builder
	rows.WriteString("| parser | cases that differ | section | the program | smallest case |\n|---|---|---|---|---|\n")
	for _, p := range []struct {
		name    string
		command []string
		right   bool
	}{
		{"structured-headers " + version(t, "structured-headers"), []string{"node", "node/fuzz.mjs"}, false},
		{"Python, in eighty lines", []string{"python3", "python/careful.py"}, true},
		{"Python, in twenty lines", []string{"python3", "python/fuzz.py"}, false},
	} {
		t.Run(p.name, func(t *testing.T) {
			needProgram(t, p.command[0])
			cmd := exec.CommandContext(t.Context(), program, append([]string{"fuzz", "-n", "20000", "--"}, p.command...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var failed *exec.ExitError
			require.True(t, err == nil || errors.As(err, &failed) && failed.ExitCode() == 1, "%v: %s", err, &stderr)
			require.Equal(t, p.right, err == nil, "%s", out)
			rows.WriteString(fuzzRows(t, p.name, string(out)))
		})
	}
	if t.Failed() {
		return
	}
	trial.CheckSection(t, "../docs/vectors.md", "fuzzed", rows.String())
}

var (
	finding = regexp.MustCompile(`(?m)^(.+): the program (.+)\n  case     (.+)$`)
	differ  = regexp.MustCompile(`; (\d+) differ\n$`)
)

// fuzzRows returns the rows of a table for a report.
func fuzzRows(t *testing.T, name, text string) string {
	n := differ.FindStringSubmatch(text)
	require.NotNil(t, n, text)
	var b strings.Builder
	for _, m := range finding.FindAllStringSubmatch(text, -1) {
		var c struct {
			Field string
			Lines []string
		}
		require.NoError(t, json.Unmarshal([]byte(m[3]), &c))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s: %s` |\n", name, n[1], m[1], m[2], c.Field, strings.ReplaceAll(strings.Join(c.Lines, "⏎"), "\t", "⇥"))
		name, n[1] = "", ""
	}
	if b.Len() == 0 {
		return fmt.Sprintf("| %s | %s | | | |\n", name, n[1])
	}
	return b.String()
}
