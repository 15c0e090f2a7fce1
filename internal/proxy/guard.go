package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// isUnix reports whether a listener is a Unix socket, which a page in a browser cannot reach.
func isUnix(l net.Listener) bool { return l.Addr().Network() == "unix" }

// guard returns a handler that answers requests for other hosts with 421, unless they come through a
// Unix socket. Otherwise a web site could give its own name the address of this machine, and its page
// in a browser could read what h serves. The handler serves requests for IP addresses, localhost, the
// host of the server, and the Hosts of the Config.
func (p *Proxy) guard(l net.Listener, h http.Handler) http.Handler {
	if isUnix(l) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.serves(r.Host) {
			http.Error(w, "this proxy does not serve that host: name it with -host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// serves reports whether requests to a host are for this proxy.
func (p *Proxy) serves(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || strings.HasSuffix(host, ".localhost") {
		return true // HTTP/1.0 has no host, and browsers do not speak it
	}
	names := append([]string{"localhost", p.config.To.Hostname()}, p.config.Hosts...)
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// loopField has the names of the proxies that a request has passed (RFC 8586). The proxy does not send
// Via, which has these names too: some servers do not compress the responses to requests with Via.
const loopField = "Cdn-Loop"

// loops reports whether the proxy has forwarded a request before.
func (p *Proxy) loops(r *http.Request) bool {
	return slices.ContainsFunc(r.Header[loopField], func(line string) bool { return strings.Contains(line, p.name) })
}
