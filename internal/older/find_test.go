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

// Each row of the vendors' table is found.
func TestVendorRowsFound(t *testing.T) {
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

// The word is found at any place, in any case.
func TestHasWait(t *testing.T) {
	const letters = "retywaiRETYWAI-"
	for range 10_000 {
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
