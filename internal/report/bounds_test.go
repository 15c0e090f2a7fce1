package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIsToken: every byte that RFC 9110 Section 5.6.2 allows in a token, and no other.
func TestIsToken(t *testing.T) {
	const tchars = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for c := range 256 {
		b := string([]byte{byte(c)})
		require.Equal(t, strings.Contains(tchars, b), IsToken(b), "%q", b)
	}
	require.False(t, IsToken(""))
}

// TestMemberAt: a comma within a String ends no member.
func TestMemberAt(t *testing.T) {
	lines := []string{`"a, b";q=1, "c\", d";q=2,`, `  "e\\", \f, "g"`}
	for item, want := range []string{`0 0 "a, b"`, `0 12 "c\", d"`, `1 2 "e\\"`, `1 9 \f`, `1 13 "g"`, `2 0 `} {
		line, offset := memberAt(lines, item)
		begins := ""
		if line < len(lines) {
			begins = lines[line][offset:]
		}
		require.True(t, strings.HasPrefix(fmt.Sprintf("%d %d %s", line, offset, begins), want), "%d: %d %d", item, line, offset)
	}
}

// TestLinesBounds: no lines are named for a response that is too large to look at them
// one by one, and all are for one that is just not.
func TestLinesBounds(t *testing.T) {
	for n, named := range map[int]bool{maxLimits: true, maxLimits + 1: false} {
		var text strings.Builder
		text.WriteString("RateLimit: ")
		for i := range n {
			fmt.Fprintf(&text, `"n%d";r=%d,`, i, i)
		}
		r, err := Read("paste", strings.TrimSuffix(text.String(), ",")+"\nDate: x")
		require.NoError(t, err)
		require.Len(t, r.Limits, n)
		for _, numbers := range r.Lines() {
			require.Equal(t, named, len(numbers) == 1, "%d limits: %v", n, numbers)
		}
	}
}
