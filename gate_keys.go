package ratelimit

import (
	"hash/maphash"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is the number of keys. Beyond it the key with which the least is lost
	// is forgotten, of these the one used longest ago, but never one with a wait in
	// force.
	maxKeys = 1024
	// maxKey is the length of a key; longer ones are remembered by a hash.
	maxKey = 256
	// sweepTime is how often waits are looked at that may have ended.
	sweepTime = time.Second
)

// keySeed is the seed of the hashes of keys. It differs in each process, so that a hash
// does not tell a stranger what was hashed.
var keySeed = maphash.MakeSeed()

// A keyName is a key in two parts. To look up an origin, which consists of both, costs
// no memory.
type keyName struct{ scheme, rest string }

// nameOfKey returns a key in its parts.
func nameOfKey(key string) keyName {
	if scheme, rest, ok := strings.Cut(key, "://"); ok && scheme != "" {
		return keyName{scheme, rest}
	}
	return keyName{rest: key}
}

// String returns the key. An origin is written as RFC 6454 Section 6.2 has it.
func (k keyName) String() string {
	if k.scheme == "" {
		return k.rest
	}
	return k.scheme + "://" + k.rest
}

// short returns a hash in place of a long key.
func (k keyName) short() keyName {
	if len(k.scheme)+len(k.rest) > maxKey {
		return keyName{keyMark, hex(maphash.Comparable(keySeed, k))}
	}
	return k
}

// keyMark stands between the origin and the hash in a key of [KeyBy]. No origin has it.
const keyMark = "#"

func hex(hash uint64) string { return strconv.FormatUint(hash, 16) }

// originOf returns the origin of an address (RFC 6454 Section 4): its scheme, and its
// host with the port, unless that is the one by default.
func originOf(u *url.URL) keyName {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return keyName{scheme, strings.TrimSuffix(host, ":")}
}
