package older

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// The meanings of names are cached, because a client gets the same names in every response. A key
// has two places. It takes the first place if that is free, else one at random. So the names of a
// response find places next to older names. The size is fixed, so no server can fill the memory.
var names [512]atomic.Pointer[name]

const longestKept = 64 // the length of the longest key that is cached

var seed = maphash.MakeSeed()

// nameOf returns the meaning of a key, from the cache if possible.
func nameOf(key string) *name {
	sum := maphash.String(seed, key)
	first, second := &names[sum%uint64(len(names))], &names[sum>>32%uint64(len(names))]
	if n := first.Load(); n != nil && n.Key == key {
		return n
	}
	if n := second.Load(); n != nil && n.Key == key {
		return n
	}
	n := newName(key)
	if n.kind == otherKind && rand.Uint32()%16 != 0 { // a flood of names must not displace the rest
		return &unrelated
	}
	kept := new(name)
	if *kept = n; len(key) > longestKept {
		return kept
	}
	kept.Key = strings.Clone(key)
	if !first.CompareAndSwap(nil, kept) {
		if rand.Uint32()%2 == 0 {
			first = second
		}
		first.Store(kept)
	}
	return kept
}

var unrelated name // a name without a word for limits
