package trial

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// PickOf returns a random element of a list.
func PickOf[T any](rnd *rand.Rand, list ...T) T { return list[rnd.IntN(len(list))] }

// RandomPair returns values of RateLimit-Policy and RateLimit with few names, keys, units and
// numbers, so that members of two fields often match. If own is true, they are valid fields of one
// party: no two members have one name and key, and no remaining is unknown.
func RandomPair(rnd *rand.Rand, own bool) (policies, limits string) {
	number := func(least int) string {
		return PickOf(rnd, fmt.Sprint(least), fmt.Sprint(least), "1", "2", "5", "60", "999999999999999")
	}
	list := func(parameters func() string) string {
		var members []string
		seen := map[string]bool{}
		for range rnd.IntN(4) {
			name, key := PickOf(rnd, "a", "b", "c"), PickOf(rnd, "", "", ";pk=::", ";pk=:aw==:")
			member := fmt.Sprintf("%q", name) + parameters() + key
			if !own || !seen[name+key] {
				members = append(members, member)
			}
			seen[name+key] = true
		}
		return strings.Join(members, ", ")
	}
	policies = list(func() string {
		return ";q=" + number(0) + PickOf(rnd, "", "", `;qu="requests"`, `;qu="content-bytes"`) + PickOf(rnd, "", ";w=60", ";w=60", ";w=1")
	})
	limits = list(func() string {
		remaining := number(0)
		if !own && rnd.IntN(8) == 0 {
			remaining = "unknown"
		}
		if rnd.IntN(3) == 0 {
			return ";r=" + remaining
		}
		return ";r=" + remaining + ";t=" + number(0)
	})
	return policies, limits
}
