package ratelimit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lookalike is fields that say nothing about limits: each name with each value,
// or whole sets.
type lookalike struct {
	Why    string
	Names  []string
	Values []string
	Sets   [][]string
}

// sets returns the sets of fields.
func (l *lookalike) sets() [][]string {
	sets := slices.Clone(l.Sets)
	for _, name := range l.Names {
		for _, value := range l.Values {
			sets = append(sets, []string{name + ": " + value})
		}
	}
	return sets
}

func readLookalikes(t testing.TB) []lookalike {
	t.Helper()
	b, err := os.ReadFile("testdata/lookalikes.json")
	require.NoError(t, err)
	var list []lookalike
	require.NoError(t, json.Unmarshal(b, &list))
	return list
}

// TestLookalikes: nothing is read of ordinary fields, and nothing is their fault.
func TestLookalikes(t *testing.T) {
	n := 0
	for _, group := range readLookalikes(t) {
		t.Run(group.Why, func(t *testing.T) {
			for _, set := range group.sets() {
				n++
				h := wire(strings.Join(set, "\n"))
				got, err := ParseAny(h, LegacyOptions{Now: late})
				if len(got.Limits)+len(got.Policies) > 0 || err != nil {
					t.Errorf("%q %v %v", set, got, err)
					continue
				}
				d, asked := ParseRetryAfter(h, late)
				require.False(t, asked, "%q, %v", set, d)
			}
		})
	}
	require.GreaterOrEqual(t, n, 300)
	t.Logf("%d sets of fields", n)
}
