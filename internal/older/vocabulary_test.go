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
// and the filter lets its fields through.
func TestWordsWithoutAnchor(t *testing.T) {
	eachWord(t, func(t *testing.T, spelling string, w word) {
		prefix := "X-Acme-"
		if w.weak {
			require.Less(t, found(prefix+spelling, prefix+"Remaining"), 2, "it has other uses")
			prefix = "X-Acme-Requests-"
		}
		switch key := prefix + spelling; {
		case w.kind == roleWord && w.role == Remaining:
			require.Equal(t, 1, found("X-Acme-Requests-"+spelling), "it is enough of what is counted")
			require.Zero(t, found("X-Acme-"+spelling))
			require.Equal(t, 2, found(key, prefix+"Limit"))
		case w.kind == roleWord && w.role == Used:
			require.Equal(t, 2, found("X-Acme-Requests-"+spelling, "X-Acme-Requests-Limit"))
			require.Zero(t, found("X-Acme-"+spelling, "X-Acme-Limit"), "without what remains")
		case w.kind == roleWord && (w.role.number() || w.role == Window):
			require.Equal(t, 2, found(key, prefix+"Remaining"))
			require.Zero(t, found(key))
		case w.shows == excluded:
			require.Zero(t, found(key+"-Remaining", key+"-Limit"))
		case w.shows == counted || w.shows == isRequests:
			require.Equal(t, 2, found(key+"-Used", key+"-Limit"), "without what remains")
			require.Equal(t, 1, found(key+"-Remaining"))
		case w.window > 0: // what remains in a window counts next to its quota
			require.Zero(t, found(key+"-Remaining"))
		case w.kind != retryWord:
			require.Zero(t, found(key))
		}
	})
}

// TestVendorsNames: a row whose name any server may use counts next to another field of its
// vendor, and one that contains the vendor's name counts alone.
func TestVendorsNames(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want []string // vendors, by field; the rest is read by its words
	}{
		{"X-Rl", nil},
		{"X-Rl X-Ttl", []string{"ip-api", "ip-api"}},
		{"X-Limit-Per-Day", nil},
		{"X-Limit-Per-Day X-Remaining-Today", []string{"etsy", "etsy"}},
		{"X-Dayproduct-Remaining X-Quota-Reset", nil},
		{"X-Quota-Reset X-Quota-Remaining", []string{"", ""}},
		{"X-Quota-Reset X-Accesstoken-Quota-Current X-Accesstoken-Quota-Allotted", []string{"egnyte", "egnyte", "egnyte"}},
		{"Ratelimit-Observed", []string{""}},
		{"Ratelimit-Observed Ratelimit-Name", []string{"gitlab", "gitlab"}},
		{"X-Recharge-Limit", []string{"recharge"}},
		{"X-Mbx-Used-Weight-1m", []string{"binance"}},
	} {
		h := map[string][]string{}
		for key := range strings.FieldsSeq(tt.keys) {
			h[key] = []string{"5"}
		}
		fields, _ := Find(nil, h, nil)
		var got []string
		for i := range fields {
			got = append(got, fields[i].Vendor())
		}
		require.Equal(t, tt.want, got, tt.keys)
	}
}

// TestUnderscores: a name with underscores is read as the name with dashes.
func TestUnderscores(t *testing.T) {
	for _, key := range []string{"Acme-Retry-Ms", "Limit-Retry-Ms", "X-Acme-Retry-After-Ms", "Http-X-Retry-After-Ms", "X-Acme-Requests-Left", "X-Acme-Qps-Reset-In"} {
		dashed, n := *nameOf(key), *nameOf(strings.ReplaceAll(key, "-", "_"))
		require.Contains(t, []nameKind{waitKind, looseKind}, dashed.kind, key)
		n.key, n.form = dashed.key, dashed.form
		require.Equal(t, dashed, n)
	}
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
