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

// found returns the number of fields that Find returns for these keys.
func found(keys ...string) int {
	h := map[string][]string{}
	for _, key := range keys {
		h[textproto.CanonicalMIMEHeaderKey(key)] = []string{"5"}
	}
	fields, _ := Find(nil, h, nil)
	return len(fields)
}

// Each word after the anchor has the meaning in its row.
func TestWords(t *testing.T) {
	eachWord(t, func(t *testing.T, spelling string, w word) {
		n := parse("X-RateLimit-" + spelling)
		switch {
		case w.kind == roleWord:
			require.Equal(t, roleKind, n.kind)
			require.Equal(t, w.role, n.Role)
			require.Empty(t, n.Policy)
		case w.format == Percent:
			require.Equal(t, roleKind, n.kind)
			require.Equal(t, Used, n.Role)
			require.Equal(t, w.format, n.Format)
		case w.kind == unitWord && w.format != Guess:
			require.Equal(t, Reset, n.Role)
			require.Equal(t, w.format, n.Format)
		case w.kind == stopWord:
			require.Equal(t, noKind, n.kind)
		case w.kind == retryWord:
			require.Equal(t, waitKind, n.kind)
		case w.kind == fillWord:
			require.Equal(t, plainKind, n.kind)
			require.Empty(t, n.Policy)
		default:
			require.Equal(t, plainKind, n.kind)
			require.Equal(t, spelling, n.Policy)
		}
		require.Equal(t, w.window != 0, hintOf(spelling, false).window != 0)
		if w.kind != vendorWord {
			require.Equal(t, w.unit, hintOf(spelling, false).unit)
		}
	})
}

// Without an anchor, each word is read or refused as its row defines, and the filter accepts
// its fields.
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
		case w.window > 0: // the remaining of a window counts next to its quota
			require.Zero(t, found(key+"-Remaining"))
		case w.kind != retryWord:
			require.Zero(t, found(key))
		}
	})
}

// If any server may use the name of a row, the row counts only next to another field of its
// vendor. If the name contains the vendor's name, the row counts alone.
func TestVendorsNames(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want []string // vendors by field; other fields are read by their words
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
			got = append(got, fields[i].Vendor)
		}
		require.Equal(t, tt.want, got, tt.keys)
	}
}

// Underscores in a name have the same meaning as dashes.
func TestUnderscores(t *testing.T) {
	for _, key := range []string{"Acme-Retry-Ms", "Limit-Retry-Ms", "X-Acme-Retry-After-Ms", "Http-X-Retry-After-Ms", "X-Acme-Requests-Left", "X-Acme-Qps-Reset-In"} {
		dashed, n := *nameOf(key), *nameOf(strings.ReplaceAll(key, "-", "_"))
		require.Contains(t, []nameKind{waitKind, looseKind}, dashed.kind, key)
		n.Key, n.Form = dashed.Key, dashed.Form
		require.Equal(t, dashed, n)
	}
}

// A word is in one row, and longestWord is the length of the longest word.
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
}
