package ratelimit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkSection fails when the part of a document between <!-- name --> and
// <!-- /name --> is not what it should be: go test -update writes it anew.
func checkSection(t testing.TB, file, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no %q", file, begin)
	got, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %q", file, end)
	if *update {
		got = want
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644))
	}
	require.True(t, want == got, "%s: %q is out of date", file, name)
}
