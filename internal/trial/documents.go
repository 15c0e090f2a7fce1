package trial

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ReadSection returns the part of a document between <!-- name --> and <!-- /name -->. It
// also returns a function that replaces this part.
func ReadSection(t testing.TB, file, name string) (with func(string) string, part string) {
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

// CheckSection fails if a part of a document is out of date. With -update it rewrites the part.
func CheckSection(t testing.TB, file, name, want string) {
	t.Helper()
	with, got := ReadSection(t, file, name)
	if *Update {
		got = want
		require.NoError(t, os.WriteFile(file, []byte(with(want)), 0o644))
	}
	RequireText(t, want, got, file+" is out of date: run this test with -update")
}

// Released reports whether this is the released module, which has no nested modules such as
// examples/server.
func Released(t testing.TB) bool {
	t.Helper()
	_, err := os.Stat(".git")
	if err != nil {
		t.Log("nested modules are not part of a release, and not looked at")
	}
	return err != nil
}

// RequireText compares long texts, and shows the first lines that differ.
func RequireText(t testing.TB, want, got, hint string) {
	t.Helper()
	if want == got {
		return
	}
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(wants), len(gots)) && wants[first] == gots[first] {
		first++
	}
	few := func(lines []string) string {
		return strings.Join(lines[first:min(first+3, len(lines))], "\n")
	}
	require.Fail(t, "line "+strconv.Itoa(first+1)+" differs", "want:\n%s\ngot:\n%s\n%s", few(wants), few(gots), hint)
}

// Update is the flag with which tests rewrite the files that they generate.
var Update = flag.Bool("update", false, "rewrite the files that tests generate")

// RequireGolden compares a text with a file. With -update it writes the file.
func RequireGolden(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	RequireText(t, strings.ReplaceAll(string(want), "\r", ""), got, file+" is made by: go test -update")
}
