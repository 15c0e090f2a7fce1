package ratelimit

import (
	"maps"
	"net/http"
	"slices"
)

// HeaderOf returns a header with the fields of m under their canonical keys, as
// the functions of this package and the methods of http.Header look for them. It
// is for what has the shape of a header and other keys: the metadata of gRPC, which
// are in lower case, or the headers of an event of AWS Lambda. A conversion alone
// compiles as well, and finds nothing.
//
//	f, err := ratelimit.Parse(ratelimit.HeaderOf(metadata))
//
// Lines under several spellings of a name are joined, in the order of their
// spellings. The result shares no memory with m.
func HeaderOf(m map[string][]string) http.Header {
	h := make(http.Header, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		key := http.CanonicalHeaderKey(name)
		h[key] = append(h[key], m[name]...)
	}
	return h
}
