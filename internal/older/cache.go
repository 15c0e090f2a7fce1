package older

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// The meanings of names are cached, because a client gets the same names in every response. A
// key has two places. It takes the first place if that is free, else one at random, so that the
// names of a response find places next to older names. The size is fixed, so no server can fill
// the memory.
var names [512]atomic.Pointer[name]

// longestKept is the length of the longest key that is cached.
const longestKept = 64

// placesOf hashes the length, the ends and the middle of a key to two places.
func placesOf(key string) (first, second *atomic.Pointer[name]) {
	sum := uint64(len(key))
	if len(key) >= 4 {
		sum ^= uint64(load(key))<<32 | uint64(load(key[len(key)-4:])) ^ uint64(load(key[len(key)/2-2:]))<<16
	}
	sum *= 0x9e3779b97f4a7c15 // Fibonacci hashing
	return &names[sum>>55], &names[sum>>46%uint64(len(names))]
}

// load returns the first four bytes of a text.
func load(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// nameOf returns the meaning of a key, from the cache if possible.
func nameOf(key string) *name {
	first, second := placesOf(key)
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
