package ratelimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// draftSwaps turn draft.go into that of the next draft: the keys of RateLimit change places, and
// names may be Tokens and are compared without case.
var draftSwaps = map[string]string{
	`(?m)^\tremainingKey( *)= "r"$`:         "\tremainingKey$1= \"a\"",
	`(?m)^\tresetKey( *)= "t"$`:             "\tresetKey$1= \"w\"",
	`(?m)^\tnextRemainingKey( *)= "a"$`:     "\tnextRemainingKey$1= \"r\"",
	`(?m)^\tnextResetKey( *)= "w"( //.*)?$`: "\tnextResetKey$1= \"t\"",
	`(?m)^const tokenNames = false$`:        "const tokenNames = true",
	`(?m)^(func nameID.*) return name }$`:   "$1 return nextNameID(name) }",
}

// TestDraftMoves changes only draft.go, as in CONTRIBUTING.md. The package then reads, writes and
// checks the next draft, and still reads the current one. The older forms, which have w too, do
// not change. A program in testdata/draft is compiled with the changed package, and shows this.
func TestDraftMoves(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
	draft := read("draft.go")
	for pattern, swap := range draftSwaps {
		re := regexp.MustCompile(pattern)
		require.Len(t, re.FindAllString(draft, -1), 1, pattern)
		draft = re.ReplaceAllString(draft, swap)
	}
	files := map[string]string{"draft.go": draft, "messages.go": read("testdata/draft/messages.go")}
	dir := buildPrograms(t, map[string]string{"moved": read("testdata/draft/main.go")}, files)
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "moved")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, read("testdata/draft/output.txt"), string(out))
}
