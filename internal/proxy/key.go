package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/obey"
)

// maxJSON is the length in bytes of the longest body in which the proxy looks for a member.
const maxJSON = 1 << 20

// A keyer makes the keys of requests. It treats the beginning of the path, and members of a body in
// JSON, like fields with the names path:N and json:NAME. No field can have such a name, because the name
// of a field has no colon.
type keyer struct {
	by       func(*http.Request) string
	segments map[string]int    // how many segments of the path, by the name of such a field
	members  map[string]string // the name of a member, by the name of such a field
}

// newKeyer reads the list of -key.
func newKeyer(list []string) (*keyer, error) {
	k := &keyer{by: obey.KeyBy(list...), segments: map[string]int{}, members: map[string]string{}}
	for _, name := range list {
		kind, of, colon := strings.Cut(name, ":")
		n, err := strconv.Atoi(of)
		switch {
		case !colon && text.IsToken(name):
		case kind == "path" && err == nil && n > 0:
			k.segments[name] = n
		case kind == "json" && of != "":
			k.members[name] = of
		default:
			return nil, errors.New("-key is not a list of fields, path:N and json:NAME: write Authorization,json:model")
		}
	}
	return k, nil
}

// partsOf returns the beginning of the path and the members of the body, as fields. If members are
// needed, it reads the body ahead.
func (k *keyer) partsOf(r *http.Request, body *requestBody) http.Header {
	parts := http.Header{}
	for name, n := range k.segments {
		parts[name] = []string{firstSegments(r.URL.Path, n)}
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); len(k.members) == 0 || body == nil || !strings.HasSuffix(media, "json") {
		return parts
	}
	if whole, ok := body.peek(maxJSON); ok {
		var object map[string]json.RawMessage
		_ = json.NewDecoder(whole).Decode(&object) // a text that is no object has no members
		for name, member := range k.members {
			if value, ok := object[member]; ok {
				parts[name] = []string{string(value)}
			}
		}
	}
	return parts
}

// keyOf returns the key of a request with these parts.
func (k *keyer) keyOf(r *http.Request, parts http.Header) string {
	if len(parts) > 0 {
		with := *r
		with.Header = maps.Clone(r.Header)
		maps.Copy(with.Header, parts)
		r = &with
	}
	return k.by(r)
}

// firstSegments returns the first segments of a path.
func firstSegments(path string, n int) string {
	for i := range len(path) {
		if path[i] == '/' {
			if n--; n < 0 {
				return path[:i]
			}
		}
	}
	return path
}

// peek reads ahead to the end of the body, and returns a reader of what was read. ok is false if the
// body has more than most bytes, or if there is too little memory. The body is still sent whole.
func (b *requestBody) peek(most int) (whole io.Reader, ok bool) {
	size := 0
	if b.start() {
		size = b.readAhead(most)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	ahead := append(b.ahead[:0:0], b.ahead...) // reading takes nothing from the body
	return &ahead, b.whole.Load() && size <= most
}
