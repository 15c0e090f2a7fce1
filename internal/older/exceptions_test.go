package older

import (
	"encoding/json"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// TestExceptions: each field stands there once, and a case of testdata/vendors shows it.
func TestExceptions(t *testing.T) {
	b, err := os.ReadFile("../../testdata/vendors/cases.json")
	require.NoError(t, err)
	var cases []struct{ Headers []string }
	require.NoError(t, json.Unmarshal(b, &cases))
	var keys []string
	for _, c := range cases {
		for _, line := range c.Headers {
			key, _, _ := strings.Cut(line, ":")
			keys = append(keys, textproto.CanonicalMIMEHeaderKey(key))
		}
	}
	seen := map[string]bool{}
	for _, e := range exceptions {
		key := textproto.CanonicalMIMEHeaderKey(e.row.Name)
		require.True(t, text.IsToken(key) && !seen[key], "%s twice", key)
		seen[key] = true
		prefix, suffix, starred := strings.Cut(key, "*")
		require.True(t, slices.ContainsFunc(keys, func(sent string) bool {
			return sent == key || starred && strings.HasPrefix(sent, prefix) && strings.HasSuffix(sent, suffix)
		}), "no case shows %s", key)
	}
}
