package older

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// The meanings of names are cached, because a client gets the same names in every response. A key has
// two places. It takes the first place if that place is free, else one of the two at random. The names
// of a response thus find room next to older names. The size is fixed, so no server can fill the
// memory.
var names [512]atomic.Pointer[name]

const longestKept = 64 // the length of the longest key that is cached

var seed = maphash.MakeSeed()

// isUsual reports whether a key is in most responses, and unrelated to limits. Such a key needs no
// place in the cache.
func isUsual(key string) bool {
	switch key {
	case "Age", "Connection", "Date", "Etag", "Expires", "Last-Modified", "Link", "Server", "Set-Cookie", "Vary", "Via",
		"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Alt-Svc", "Cache-Control", "Cf-Ray",
		"Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Referrer-Policy",
		"Strict-Transport-Security", "X-Content-Type-Options", "X-Frame-Options", "X-Powered-By", "X-Request-Id":
		return true
	}
	return false
}

// nameOf returns the meaning of a key, from the cache if possible.
func nameOf(key string) *name {
	if isUsual(key) {
		return &unrelated
	}
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
