package ratelimit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

const exposeField = "Access-Control-Expose-Headers" // Fetch Standard, CORS protocol

// Expose adds the names of the fields that h has to Access-Control-Expose-Headers, so
// that scripts of another origin may read them: RateLimit-Policy, RateLimit,
// Retry-After, and every older field that [ParseAny] reads. All that is listed stays,
// and is not added again; "*" covers no name, because for a request with credentials it
// is a name like any other. Call it after the fields have been set. [Refuse] and a
// [Middleware] call it if the response allows another origin.
func Expose(h http.Header) {
	lines := h[exposeField]
	seen := make(map[string]bool, 8) // by canonical key
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			seen[http.CanonicalHeaderKey(text.Trim(name))] = true
		}
	}
	var names []string
	for key, values := range h {
		if len(values) > 0 && exposable(key) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	added := make([]byte, 0, 128)
	if n := len(lines); n > 0 {
		added = append(added, text.Trim(lines[n-1])...)
	}
	before := len(added)
	for _, name := range names {
		if canonical := http.CanonicalHeaderKey(name); !seen[canonical] {
			seen[canonical] = true
			if len(added) > 0 {
				added = append(added, ", "...)
			}
			added = append(added, fieldName(name)...)
		}
	}
	if len(added) > before {
		h[exposeField] = append(slices.Clone(lines[:max(len(lines)-1, 0)]), string(added))
	}
}

// exposable reports whether a key of http.Header is that of a field to expose.
// It refuses keys that are not tokens, which a header made by hand may have.
func exposable(key string) bool {
	return (strings.EqualFold(key, retryAfterKey) || older.Knows(key)) && text.IsToken(key)
}

// exposeAbroad exposes the fields of a response that scripts of another origin
// may read.
func exposeAbroad(h http.Header) {
	if h.Get("Access-Control-Allow-Origin") != "" {
		Expose(h)
	}
}
