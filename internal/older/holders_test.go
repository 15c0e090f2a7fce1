package older

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// Each holder belongs to a limit of the result. A vendor's policy without a limit, next to
// the usual fields, is a comment and has no holder.
func TestHoldNamed(t *testing.T) {
	fields, ok := Find(nil, map[string][]string{"X-Ratelimit-Remaining": {"5"}, "Acme-Ratelimit-Daylimit": {"100"}}, nil)
	require.True(t, ok)
	numbers, _ := Read(new(Room), fields, &Options{Name: "default"})
	holders := numbers.Holders(fields, &text.Clock{})
	require.Len(t, holders, 1)
	require.Equal(t, "default", numbers.Limits[holders[0].Limit].Name)
}

// Next to the field of draft-07, an empty field of policies contains nothing.
func TestEmptyPolicies(t *testing.T) {
	table := NewTable("draft-07", []Row{{Key: "RateLimit", Role: Quota, Format: Seconds}, {Key: "RateLimit-Policy", Role: Policies}})
	fields, ok := Find(nil, map[string][]string{"Ratelimit": {"limit=10, remaining=5, reset=5"}, "Ratelimit-Policy": {""}}, []*Table{table})
	require.True(t, ok)
	numbers, r := Read(new(Room), fields, &Options{Name: "default"})
	require.Empty(t, r.Faults)
	require.Equal(t, int64(5), numbers.Limits[0].Remaining)
}
