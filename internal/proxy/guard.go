package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// isUnix reports whether a listener is a Unix socket, which a page in a browser cannot reach.
func isUnix(l net.Listener) bool { return l.Addr().Network() == "unix" }

// guard returns a handler that answers requests for other hosts with 421, unless they come through
// a Unix socket. Otherwise a page in a browser could give its own name the address of this machine,
// and read what h serves. It serves IP addresses, localhost, the host of the server, and the Hosts
// of the Config.
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
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	switch {
	case host == "", host == "localhost", strings.HasSuffix(host, ".localhost"):
		return true // HTTP/1.0 has no host, and browsers do not speak it
	case host == strings.ToLower(p.config.To.Hostname()):
		return true
	}
	return slices.ContainsFunc(p.config.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// calls are the connections of the proxy to its server, by the addresses of both sides. The
// proxy itself has sent a request that arrives on such a connection. One address is not enough:
// a client on the same machine may have the same port as a connection to the server.
type calls struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	own  sync.Map // of link
}

func (c *calls) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	of := link{conn.LocalAddr().String(), conn.RemoteAddr().String()}
	c.own.Store(of, true)
	return &call{Conn: conn, over: sync.OnceFunc(func() { c.own.Delete(of) })}, nil
}

// made reports whether a request comes from the proxy itself.
func (c *calls) made(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	_, own := c.own.Load(link{r.RemoteAddr, local.String()})
	return own
}

// A link is the addresses of a connection.
type link struct{ client, server string }

type call struct {
	net.Conn
	over func()
}

func (c *call) Close() error {
	c.over()
	return c.Conn.Close()
}
