package ratelimit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

const exposeField = "Access-Control-Expose-Headers" // Fetch Standard, CORS protocol

// Expose lets scripts of another origin read the limits in h. It adds names to
// Access-Control-Expose-Headers: Retry-After, and all fields in h that [ParseAny] reads. Call it after
// the fields are set. Package announce calls it if the response allows another origin. Expose adds
// names next to a "*" too, because a request with credentials takes "*" as an ordinary name.
func Expose(h http.Header) { expose(h, nil) }

// expose is [Expose], and also exposes the fields of dialects.
func expose(h http.Header, dialects []*older.Table) {
	lines := h[exposeField]
	seen := make(map[string]bool, 8) // by canonical key
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			seen[http.CanonicalHeaderKey(text.Trim(name))] = true
		}
	}
	var names []string
	add := func(key string) {
		if name := http.CanonicalHeaderKey(key); !seen[name] {
			seen[name] = true
			names = append(names, fieldName(name))
		}
	}
	found, _ := older.Find(nil, h, dialects)
	for _, f := range older.Readable(found) {
		add(f.Key)
	}
	for key, lines := range h {
		if len(lines) > 0 && strings.EqualFold(key, text.RetryAfterKey) {
			add(key)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	added, kept := strings.Join(names, ", "), slices.Clone(lines)
	if n := len(kept); n > 0 {
		if last := text.Trim(kept[n-1]); last != "" {
			added = last + ", " + added
		}
		kept = kept[:n-1]
	}
	h[exposeField] = append(kept, added)
}

// exposeAbroad calls expose if scripts of another origin may read the response.
func exposeAbroad(h http.Header, dialects []*older.Table) {
	if lines := h["Access-Control-Allow-Origin"]; len(lines) > 0 && lines[0] != "" {
		expose(h, dialects)
	}
}
