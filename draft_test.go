package ratelimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// draftSwaps convert draft.go to the next draft. The keys of RateLimit change places. Names
// may be Tokens, and are compared without case.
var draftSwaps = map[string]string{
	`(?m)^\tremainingKey( *)= "r"$`:         "\tremainingKey$1= \"a\"",
	`(?m)^\tresetKey( *)= "t"$`:             "\tresetKey$1= \"w\"",
	`(?m)^\tnextRemainingKey( *)= "a"$`:     "\tnextRemainingKey$1= \"r\"",
	`(?m)^\tnextResetKey( *)= "w"( //.*)?$`: "\tnextResetKey$1= \"t\"",
	`(?m)^const tokenNames = false$`:        "const tokenNames = true",
	`(?m)^(func nameID.*) return name }$`:   "$1 return nextNameID(name) }",
}

// TestDraftMoves changes only draft.go, as CONTRIBUTING.md describes. The package then reads,
// writes and checks the next draft, and still reads the current draft. The older forms do not
// change, although some use w. A program in testdata/draft is compiled with the changed
// package, and shows this.
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
