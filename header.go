package ratelimit

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/text"
)

// The names of the two fields.
const (
	PolicyField = "RateLimit-Policy" // draft-11 Section 3
	LimitField  = "RateLimit"        // draft-11 Section 4
)

// HeaderOf copies m, such as gRPC metadata or an event of AWS Lambda, into an http.Header with
// canonical keys. If m has several spellings of a name, their lines follow each other, in the
// sorted order of the spellings.
func HeaderOf(m map[string][]string) http.Header {
	h := make(http.Header, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		key := http.CanonicalHeaderKey(name)
		h[key] = append(h[key], m[name]...)
	}
	return h
}

var errNilHeader = errors.New("ratelimit: nil http.Header")

// setLine sets a field to one line. If the line is empty, it deletes the field: an empty List is
// not written (RFC 9651 Section 4.1).
func setLine(h http.Header, key string, line []string) {
	if line[0] == "" {
		delete(h, key)
	}
	replaceLine(h, key, line)
}

// replaceLine sets a field to one line, unless the line is empty.
func replaceLine(h http.Header, key string, line []string) {
	if line[0] != "" {
		h[key] = line
	}
}

// addLine adds a line to a field, unless the line is empty.
func addLine(h http.Header, key string, line []string) {
	old := h[key]
	if len(old) == 1 && text.All(old[0], text.Space) {
		old = nil // alone, a blank line is an empty List; next to another line it is a fault
	}
	if line[0] != "" {
		h[key] = append(old, line...)
	}
}

// fieldName returns the usual spelling of a key of http.Header.
func fieldName(key string) string {
	switch key {
	case draft.PolicyKey:
		return PolicyField
	case draft.LimitKey:
		return LimitField
	}
	return key
}
