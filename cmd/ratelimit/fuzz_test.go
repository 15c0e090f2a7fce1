package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/cmd/ratelimit/internal/fuzz"
	"github.com/httpfields/ratelimit/internal/trial"
)

// If this variable is set, the test program acts as the program under test.
const programVariable = "RATELIMIT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "":
		os.Exit(m.Run())
	case "dead":
		os.Exit(3)
	case "garbage":
		fmt.Println("ready")
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var c fuzz.Case
		_ = json.Unmarshal(in.Bytes(), &c)
		c.NoParams = os.Getenv(programVariable) == "dropping"
		v, _ := fuzz.Judge(c)
		if os.Getenv(programVariable) == "mortal" && c.ID == 300 {
			os.Exit(4)
		}
		if !slices.Contains([]string{"right", "dropping"}, os.Getenv(programVariable)) && strings.Contains(c.Lines[0], ";pk=") {
			v = fuzz.Verdict{}
		}
		answer, _ := json.Marshal(struct {
			ID int `json:"id"`
			fuzz.Verdict
		}{c.ID, v})
		fmt.Println(string(answer))
	}
}

// fuzzing runs the verb against the test program.
func fuzzing(t *testing.T, program string, args ...string) (status int, stdout, stderr string) {
	t.Setenv(programVariable, program)
	return running("", append(append([]string{"fuzz"}, args...), "--", os.Args[0])...)
}

// The exit status is the result of the comparison. The report has the smallest case, both
// answers and the section.
func TestFuzz(t *testing.T) {
	status, stdout, stderr := fuzzing(t, "right", "-n", "500")
	require.Equal(t, exitFine, status, stderr)
	require.Regexp(t, `^\S+: 500 cases \(\d+ well-formed, \d+ not\) with seed 1; 0 differ\n$`, stdout)

	status, stdout, _ = fuzzing(t, "wrong", "-n", "2000", "-seed", "3")
	require.Equal(t, exitDoubtful, status)
	trial.RequireGolden(t, "testdata/fuzz.txt", strings.ReplaceAll(stdout, os.Args[0], "program"))
	_, again, _ := fuzzing(t, "wrong", "-n", "2000", "-seed", "3")
	require.Equal(t, stdout, again)

	status, stdout, stderr = fuzzing(t, "right", "-n", "50", "-time", "1h", "-field", "limit")
	require.Equal(t, exitFine, status, stderr)
	require.Contains(t, stdout, ": 50 cases (")
	require.Contains(t, stdout, "0 differ")

	status, stdout, _ = fuzzing(t, "dropping", "-n", "500")
	require.Equal(t, exitDoubtful, status)
	require.Contains(t, stdout, "RFC 9651 Section 4.2.3.2 (Parameters): the program reads other values\n")
	status, stdout, stderr = fuzzing(t, "dropping", "-n", "500", "-no-params")
	require.Equal(t, exitFine, status, stdout+stderr)
}

// If a program cannot be compared, the run ends with status 2.
func TestFuzzFails(t *testing.T) {
	for program, want := range map[string]string{
		"dead":    "ratelimit fuzz: the program ended without an answer (exit status 3): it must answer until its input ends; the case was {",
		"garbage": `ratelimit fuzz: the answer cannot be read, because it is not an object with "id" and "ok": it was "ready"; the case was {`,
	} {
		status, stdout, stderr := fuzzing(t, program)
		require.Equal(t, exitFailed, status)
		require.Empty(t, stdout)
		require.True(t, strings.HasPrefix(stderr, want), stderr)
	}
	// Time ends before the first answer.
	for _, n := range []string{"0", "9"} {
		status, stdout, stderr := fuzzing(t, "silent", "-n", n, "-time", "100ms")
		require.Equal(t, exitFailed, status)
		require.Empty(t, stdout)
		require.Equal(t, "ratelimit fuzz: nothing was tested: the program answered no case within 100ms: let it flush each line, or give a longer -time\n", stderr)
	}
	// The differences until then are printed.
	status, stdout, stderr := fuzzing(t, "mortal")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stdout, "the program rejects well-formed lines\n")
	require.Contains(t, stdout, ": 299 cases (")
	require.Contains(t, stderr, "(exit status 4): it must answer until its input ends; the case was {\"id\":300,")
	for want, args := range map[string][]string{
		"ratelimit fuzz: the program is missing: give it after --\nFor help: ratelimit fuzz -h\n":                             {"fuzz"},
		"ratelimit fuzz: -field both is unknown: use policy or limit\nFor help: ratelimit fuzz -h\n":                          {"fuzz", "-field", "both", "x"},
		"ratelimit fuzz: -n is not a number of cases: give one above 0, or 0 with -time\nFor help: ratelimit fuzz -h\n":       {"fuzz", "-n", "0", "x"},
		"ratelimit fuzz: -print starts no program: leave the program out\nFor help: ratelimit fuzz -h\n":                      {"fuzz", "-print", "x"},
		"ratelimit fuzz: exec: \"no-such-program\": executable file not found in $PATH: give a program that can be started\n": {"fuzz", "no-such-program"},
		"ratelimit fuzz: fork/exec /no/program: no such file or directory: give a program that can be started\n":              {"fuzz", "/no/program"},
	} {
		status, _, stderr := running("", args...)
		require.Equal(t, exitFailed, status)
		require.True(t, strings.HasPrefix(stderr, want), stderr)
	}
}

// After an interrupt the run ends with the findings so far.
func TestFuzzInterrupt(t *testing.T) {
	t.Setenv(programVariable, "right")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, problems strings.Builder
	require.Equal(t, exitInterrupted, run(ctx, []string{"fuzz", os.Args[0]}, nil, &out, &problems))
	require.Contains(t, out.String(), ": 0 cases")
	require.Empty(t, problems.String())
}

// The printed cases have the expected answers.
func TestFuzzPrint(t *testing.T) {
	status, stdout, stderr := running("", "fuzz", "-print", "-n", "200", "-field", "policy")
	require.Equal(t, exitFine, status, stderr)
	ok, n := 0, 0
	for line := range strings.Lines(stdout) {
		n++
		var c struct {
			fuzz.Case
			fuzz.Verdict
			Section string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		v, section := fuzz.Judge(c.Case)
		require.Equal(t, []any{n, "RateLimit-Policy", v, section}, []any{c.ID, c.Field, c.Verdict, c.Section})
		if c.OK {
			ok++
		}
	}
	require.Equal(t, 200, n)
	require.InDelta(t, 100, ok, 60)
	require.Contains(t, stdout, `"params":`)
	_, stdout, _ = running("", "fuzz", "-print", "-n", "200", "-field", "policy", "-no-params")
	require.Equal(t, 200, strings.Count(stdout, "\n"))
	require.NotContains(t, stdout, `"params":`)
}
