package older

import (
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachWord runs a test with every word of the table.
func eachWord(t *testing.T, test func(t *testing.T, spelling string, w word)) {
	t.Helper()
	tokenOf("")
	for spelling, w := range dictionary.words {
		t.Run(spelling, func(t *testing.T) { test(t, spelling, w) })
	}
}

// found returns how many fields of a header are found.
func found(keys ...string) int {
	h := map[string][]string{}
	for _, key := range keys {
		h[textproto.CanonicalMIMEHeaderKey(key)] = []string{"5"}
	}
	fields, _ := Find(nil, h, nil)
	return len(fields)
}

// TestWords: each word behind the anchor is what its row says.
func TestWords(t *testing.T) {
	eachWord(t, func(t *testing.T, spelling string, w word) {
		n := parse("X-RateLimit-" + spelling)
		switch {
		case w.kind == roleWord:
			require.Equal(t, roleKind, n.kind)
			require.Equal(t, w.role, n.role)
			require.Empty(t, n.policy)
		case w.kind == unitWord && w.format != Guess:
			require.Equal(t, Reset, n.role)
			require.Equal(t, w.format, n.format)
		case w.kind == stopWord:
			require.Equal(t, noKind, n.kind)
		case w.kind == retryWord:
			require.Equal(t, waitKind, n.kind)
		case w.kind == fillWord:
			require.Equal(t, plainKind, n.kind)
			require.Empty(t, n.policy)
		default:
			require.Equal(t, plainKind, n.kind)
			require.Equal(t, spelling, n.policy)
		}
		require.Equal(t, w.window != 0, windowOfName(spelling, false) != 0)
		require.Equal(t, w.unit, unitOfName(spelling))
	})
}

// TestWordsWithoutAnchor: each word is read, or refused, without an anchor as its row says,
// and the filter lets the fields through that begin a family.
func TestWordsWithoutAnchor(t *testing.T) {
	eachWord(t, func(t *testing.T, spelling string, w word) {
		prefix := "X-Acme-"
		if w.weak {
			require.Less(t, found(prefix+spelling, prefix+"Remaining"), 2, "it has other uses")
			prefix = "X-Acme-Requests-"
		}
		switch key := prefix + spelling; {
		case w.kind == roleWord && w.loose == proves:
			require.Equal(t, 2, found(key, prefix+"Current"))
		case w.kind == roleWord && w.role == Remaining:
			require.Equal(t, 2, found(key, prefix+"Limit"))
		case w.kind == roleWord && w.role == Used:
			require.Equal(t, 2, found("X-Acme-Requests-"+spelling, "X-Acme-Requests-Limit"))
			require.Zero(t, found("X-Acme-"+spelling, "X-Acme-Limit"), "without what remains")
		case w.kind == roleWord && (w.role.number() || w.role == Window):
			require.Equal(t, 2, found(key, prefix+"Remaining"))
			require.Zero(t, found(key))
		case w.loose == refuses:
			require.Zero(t, found(key+"-Remaining", key+"-Limit"))
		case w.loose == doubts:
			require.Zero(t, found(key+"-Remaining", key+"-Limit"))
			require.Equal(t, 2, found(key+"-Requests-Remaining", key+"-Requests-Limit"))
		case w.loose == asks:
			require.Equal(t, 2, found(key+"-Used", key+"-Limit"), "requests need no word for what remains")
		case w.loose == limited && w.kind == nameWord:
			require.Equal(t, 2, found(key+"-User-Remaining", key+"-User-Limit"), "it is counted, whoever the user is")
		case w.kind != retryWord:
			require.Zero(t, found(key))
		}
	})
}

// TestWordsOnce: a word stands in one row, and the longest of them is as long as is said.
func TestWordsOnce(t *testing.T) {
	seen, longest := map[string]bool{}, 0
	for _, row := range vocabulary {
		for spelling := range strings.FieldsSeq(row.spellings) {
			require.False(t, seen[spelling], spelling)
			require.Equal(t, strings.ToLower(spelling), spelling)
			seen[spelling], longest = true, max(longest, len(spelling))
		}
	}
	require.Equal(t, longestWord, longest)
	for _, row := range vendors {
		for spelling := range strings.FieldsSeq(row.spellings) {
			require.False(t, seen["/"+spelling], spelling)
			seen["/"+spelling] = true
		}
	}
}
