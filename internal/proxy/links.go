package proxy

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// A mapping replaces the address of the server by the address of the proxy, so that a client
// that follows a link stays with the proxy.
type mapping struct {
	server *url.URL
	proxy  string // scheme and host
}

// header rewrites the references in a response's header, and returns how many it has rewritten.
func (m *mapping) header(h http.Header) (n int) {
	rewrite := func(key string, one func(string) (string, int)) {
		for i, line := range h[key] {
			rewritten, found := one(line)
			h[key][i], n = rewritten, n+found
		}
	}
	rewrite("Location", m.reference)
	rewrite("Content-Location", m.reference)
	rewrite("Link", m.link)
	rewrite("Refresh", m.refresh)
	return n
}

// reference rewrites a reference (RFC 9110 Section 10.2.2) to a path of the server that clients of the
// proxy can reach, and returns 1. It returns any other text as it is, and 0.
func (m *mapping) reference(text string) (string, int) {
	trimmed := strings.TrimSpace(text)
	u, err := url.Parse(trimmed)
	if err != nil {
		return text, 0
	}
	prefix := strings.TrimSuffix(m.server.EscapedPath(), "/")
	origin := ""
	switch {
	case u.Host != "" && (u.Scheme == "" || strings.EqualFold(u.Scheme, m.server.Scheme)) && hostOf(m.server.Scheme, u.Host) == hostOf(m.server.Scheme, m.server.Host):
		origin = m.proxy
	case u.Host == "" && u.Scheme == "" && prefix != "" && strings.HasPrefix(trimmed, "/"): // relative to the host
	default:
		return text, 0
	}
	path, ok := strings.CutPrefix(u.EscapedPath(), prefix)
	if !ok || path != "" && path[0] != '/' { // no path of the proxy leads to this address
		return text, 0
	}
	if path == "" {
		path = "/"
	}
	rest := ""
	if i := strings.IndexAny(trimmed, "?#"); i >= 0 {
		rest = trimmed[i:]
	}
	return origin + path + rest, 1
}

// hostOf returns a host with its port, without the default port.
func hostOf(scheme, host string) string {
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return strings.TrimSuffix(strings.ToLower(host), port)
}

// target matches a target of a Link field. It also matches a quoted parameter, so that no target is
// found within the quotes (RFC 8288 Section 3).
var target = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?|<[^>]*>`)

// link rewrites the targets of a Link field.
func (m *mapping) link(line string) (rewritten string, n int) {
	rewritten = target.ReplaceAllStringFunc(line, func(s string) string {
		if s[0] == '"' {
			return s
		}
		reference, found := m.reference(s[1 : len(s)-1])
		n += found
		return "<" + reference + ">"
	})
	return rewritten, n
}

// refresh rewrites the address of a Refresh field, such as 5; url=https://api.example/.
func (m *mapping) refresh(line string) (string, int) {
	i := strings.Index(strings.ToLower(line), "url=")
	if i < 0 {
		return line, 0
	}
	i += len("url=")
	target := strings.Trim(line[i:], " \t\"'")
	if rewritten, n := m.reference(target); n > 0 {
		return line[:i] + rewritten, n
	}
	return line, 0
}
