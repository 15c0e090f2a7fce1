package older

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A field is known by its words, or by the row of its vendor.
func TestKnows(t *testing.T) {
	for key, want := range map[string]bool{
		"X-Acme-RateLimit-Info": true,
		"Sforce-Limit-Info":     true,
		"X-Acme-Remaining":      false,
		"Server":                false,
	} {
		require.Equal(t, want, Knows(key), key)
	}
}

// The usual keys mean what their words mean. Each row of the vendors' table is found.
func TestIsUsual(t *testing.T) {
	for _, key := range []string{
		"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Age", "Alt-Svc", "Cache-Control", "Cf-Ray", "Connection",
		"Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Etag", "Expires", "Last-Modified",
		"Link", "Referrer-Policy", "Server", "Set-Cookie", "Strict-Transport-Security", "Vary", "Via", "X-Content-Type-Options",
		"X-Frame-Options", "X-Powered-By", "X-Request-Id",
	} {
		require.True(t, isUsual(key), key)
		require.LessOrEqual(t, newName(key).kind, noKind, key)
	}
	for _, row := range vendorRows() {
		require.NotEqual(t, otherKind, nameIn(nil, row.Key).kind, row.Key)
	}
}

// Keys that differ only by case have one order, independent of the order of the header.
func TestSortFields(t *testing.T) {
	table := NewTable("acme", []Row{{Key: "Acme-Left", Role: Remaining}})
	for _, keys := range [][]string{{"Acme-Left", "Acme-left"}, {"Acme-left", "Acme-Left"}} {
		fields := []Field{table.Field(keys[0], nil), table.Field(keys[1], nil)}
		sortFields(fields)
		require.Equal(t, "Acme-Left", fields[0].Key)
	}
}

// The jumps of the search skip no place where the word can be.
func TestHasWait(t *testing.T) {
	const letters = "retywaiRETYWAI-"
	for range 100_000 {
		b := make([]byte, rand.IntN(12))
		for i := range b {
			b[i] = letters[rand.IntN(len(letters))]
		}
		key := string(b)
		if rand.IntN(2) == 0 {
			at := rand.IntN(len(key) + 1)
			key = key[:at] + []string{"Retry", "Wait"}[rand.IntN(2)] + key[at:]
		}
		lower := strings.ToLower(key)
		require.Equal(t, strings.Contains(lower, "etry") || strings.Contains(lower, "wait"), hasWait(key), key)
	}
}
