package ratelimit

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/older"
)

// readSection returns the part of a document between <!-- name --> and
// <!-- /name -->, and a function that makes the document with another part.
func readSection(t testing.TB, file, name string) (with func(string) string, part string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no %q", file, begin)
	part, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %q", file, end)
	return func(part string) string { return before + begin + part + end + after }, part
}

// checkSection fails if a part of a document is not what it should be; with
// -update it writes it anew.
func checkSection(t testing.TB, file, name, want string) {
	t.Helper()
	with, got := readSection(t, file, name)
	if *update {
		got = want
		require.NoError(t, os.WriteFile(file, []byte(with(want)), 0o644))
	}
	require.True(t, want == got, "%s: %q is out of date: go test -update .", file, name)
}

// The code of README.md and of docs is that of the examples, word for word, so that it
// compiles and runs. The program of README.md is run in interop.
func TestReadmeCode(t *testing.T) {
	examples, err := os.ReadFile("example_readme_test.go")
	require.NoError(t, err)
	for file, least := range map[string]int{"README.md": 6, "docs/client.md": 2, "docs/older.md": 2, "docs/gateway.md": 1} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.GreaterOrEqual(t, len(blocks), least, file)
		for _, b := range blocks {
			code := "\t" + strings.ReplaceAll(strings.TrimSuffix(b[1], "\n"), "\n", "\n\t") + "\n"
			code = strings.ReplaceAll(code, "\n\t\n", "\n\n")
			program := strings.HasPrefix(b[1], "package main\n")
			require.True(t, program || strings.Contains(string(examples), code), "%s: no example has\n%s", file, b[1])
		}
	}
}

// README.md is short, and begins with a program.
func TestReadmeLength(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.LessOrEqual(t, len(lines), 250)
	require.LessOrEqual(t, len(strings.Fields(string(text))), 1500)
	first := slices.Index(lines, "```go")
	require.True(t, 0 <= first && first < 40, first)
}

// The words of docs/older.md have the roles that it says.
func TestReadmeWords(t *testing.T) {
	_, rows := readSection(t, "docs/older.md", "words")
	roles := map[string]Role{
		"quota": RoleQuota, "remaining": RoleRemaining, "used": RoleUsed, "reset": RoleReset, "window": RoleWindow, "name of the policy": RoleName,
		"list of policies": RolePolicies,
	}
	for line := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		role, ok := roles[cells[0]]
		if !ok {
			continue
		}
		delete(roles, cells[0])
		for word := range strings.FieldsSeq(cells[1]) {
			found, _ := older.Find(nil, http.Header{http.CanonicalHeaderKey("X-RateLimit-" + strings.Trim(word, "`")): {"1"}}, nil)
			require.Len(t, found, 1, word)
			require.Equal(t, older.Role(role), found[0].Role(), word)
		}
	}
	require.Empty(t, roles, "no row has words for them")
}

// The dialects of docs/older.md are those that can be written, and the one that is what
// Parse refuses of the current form.
func TestReadmeDialects(t *testing.T) {
	variables := map[*Dialect]string{
		Draft06: "Draft06", Draft07: "Draft07", XRateLimit: "XRateLimit", XRateLimitUnix: "XRateLimitUnix", GitHub: "GitHub", OpenAI: "OpenAI",
		Anthropic: "Anthropic",
	}
	resets := map[TimeFormat]string{
		TimeGuess: "", TimeSeconds: "seconds from now", TimeUnix: "Unix seconds", TimeRFC3339: "timestamp", TimeDuration: "duration",
	}
	var b strings.Builder
	b.WriteString("| name | variable | fields | reset |\n|---|---|---|---|\n")
	for _, d := range writtenDialects {
		var fields []string
		reset := ""
		for _, f := range d.Fields() {
			fields = append(fields, "`"+f.Name+"`")
			if f.Role == RoleReset {
				reset = resets[f.Format]
			}
		}
		variable := "–"
		if name, ok := variables[d]; ok {
			variable = "`" + name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name(), variable, strings.Join(fields, " "), reset)
	}
	lenient, err := ParseAny(http.Header{limitKey: {`"a";r=0.5;t=30`}}, LegacyOptions{})
	require.NoError(t, err)
	fmt.Fprintf(&b, "| `%s` | – | `%s` `%s` with values that `Parse` refuses, such as `r=0.5`: read leniently by `ParseAny`, never written | seconds from now |\n",
		lenient.Dialect, LimitField, PolicyField)
	next, err := ParseAny(http.Header{limitKey: {`a;a=5;w=30`}}, LegacyOptions{})
	require.NoError(t, err)
	fmt.Fprintf(&b, "| `%s` | – | `%s` `%s` as the version after draft-11 may have them, `a;a=5;w=30`: read by `ParseAny`, never written | seconds from now |\n",
		next.Dialect, LimitField, PolicyField)
	checkSection(t, "docs/older.md", "dialects", b.String())
}
