package older

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cached name has the meaning of its words, even if many names share its places. The cache
// is bounded.
func TestNamesRemembered(t *testing.T) {
	said := func(key string) name {
		n := *nameOf(key)
		n.Key = key // many unrelated names share one value
		return n
	}
	keys := []string{"X-Ratelimit-Limit", "x-ratelimit-limit", "X-Acme-Remaining", "X-Amzn-Requestid", "Server", "X-Shopify-Shop-Api-Call-Limit", "X-Keap-Day-Limit"}
	for i := range 8 * len(names) { // fills all places, so most keys share theirs
		keys = append(keys, fmt.Sprintf("X-RateLimit-Limit-N%d", i))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, key := range keys {
				want := newName(key)
				if got := said(key); want != got {
					t.Errorf("%s: %+v, not %+v", key, got, want)
				}
			}
		})
	}
	group.Wait()
	_ = nameOf(strings.Repeat("X-RateLimit-", 400))
	for i := range names {
		if n := names[i].Load(); n != nil {
			require.LessOrEqual(t, len(n.Key), longestKept, "a long name is not kept")
		}
	}
}

// A cached name needs no allocation.
func TestNamesAllocations(t *testing.T) {
	for _, key := range []string{"X-Amzn-Requestid", "X-Amzn-Trace-Id", "X-Ms-Request-Id", "X-Acme-Remaining"} {
		for range 1000 { // few unrelated names are cached
			nameOf(key)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { nameOf(key) }), key)
	}
}
