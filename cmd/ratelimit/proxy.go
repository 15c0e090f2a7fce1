package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/proxy"
	"github.com/httpfields/ratelimit/internal/report"
)

const proxyHelp = `usage: ratelimit proxy -to URL [flags]

Forwards requests to one server, and holds each back until the limits that the
server announces let it pass. Programs in any language, and any number of
processes, share a quota through it: they send their requests to the proxy in
place of the server, and change nothing else.

A request waits for its turn for as long as -max-wait. One that would have to
wait longer is answered at once with 429, Retry-After and a problem document.
What the server answers is passed on as it is, refusals too, and nothing is sent
a second time. Requests with the same values of the fields of -key share their
limits, and those with none of them share theirs.

It listens on the loopback alone unless -listen says otherwise. Whoever can
connect can send requests to the server through it, from this machine's address:
it adds no credentials, and asks for none. What -admin serves tells how much is
used and names the keys by a hash, never by a credential.

An interrupt ends it: it stops listening, answers what waits with 503 and
Retry-After, and gives what is under way 30 seconds. A second one ends it at once.

The exit status is 0 when it was told to end, and 2 if the command line is wrong or
it cannot listen.

Examples:

  ratelimit proxy -to https://api.github.com
  GITHUB_API_URL=http://127.0.0.1:8700 gh-script

  ratelimit proxy -to https://api.openai.com -cost-header X-Request-Tokens -admin 127.0.0.1:8701
  OPENAI_BASE_URL=http://127.0.0.1:8700/v1 python batch.py
  curl http://127.0.0.1:8701/metrics
`

// patience is how long what is under way has to end after an interrupt.
const patience = 30 * time.Second

// A proxyConfig is the command line.
type proxyConfig struct {
	proxy.Config
	listen, admin string // addresses; admin may be ""
}

func runProxy(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := newFlags("proxy")
	config, finish := proxyFlags(flags)
	if status, done := parse(flags, proxyHelp, args, stdout, stderr); done {
		return status
	}
	if err := finish(); err != nil {
		return wrong(stderr, "proxy", err)
	}
	if err := serveProxy(ctx, config, stdout, stderr); err != nil {
		return failed(stderr, "proxy", err)
	}
	return exitFine
}

// proxyFlags defines the flags, and returns what they fill once they are parsed, and
// what then completes it.
func proxyFlags(flags *flag.FlagSet) (*proxyConfig, func() error) {
	c := &proxyConfig{}
	to := flags.String("to", "", "the `URL` of the server; a path in it is put before those of requests")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8700", "the `address` to listen at; with port 0 the system chooses one")
	flags.StringVar(&c.admin, "admin", "", "the `address` that serves /metrics and /state, such as 127.0.0.1:8701")
	fields := flags.String("key", "Authorization,X-API-Key", "the `fields` by which the server tells its users apart; an empty list is one user")
	flags.StringVar(&c.CostHeader, "cost-header", "", "the `field` of a request that says how many tokens it takes; it is not forwarded")
	flags.BoolVar(&c.Pace, "pace", false, "spread the requests over the window")
	flags.DurationVar(&c.MaxWait, "max-wait", ratelimit.DefaultMaxWait, "how long a request is held at most")
	return c, func() (err error) {
		if flags.NArg() > 0 {
			return errors.New("it takes flags alone; the server is that of -to")
		}
		if c.MaxWait <= 0 {
			return errors.New("-max-wait has to be more than 0")
		}
		if c.CostHeader != "" && !report.IsToken(c.CostHeader) {
			return errors.New("-cost-header has to be the name of a field")
		}
		if c.Fields, err = splitFields(*fields); err != nil {
			return err
		}
		c.To, err = parseServer(*to)
		return err
	}
}

// splitFields returns the names of fields in a list with commas.
func splitFields(list string) (fields []string, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for field := range strings.SplitSeq(list, ",") {
		if field = strings.TrimSpace(field); !report.IsToken(field) {
			return nil, errors.New("-key has to be names of fields, as in Authorization,X-API-Key")
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// parseServer returns the address of the server to which requests go.
func parseServer(to string) (*url.URL, error) {
	u, err := url.Parse(to)
	switch {
	case to == "":
		return nil, errors.New("-to is missing")
	case err != nil || !isAddress(to) || u.Host == "":
		return nil, errors.New("-to has to be an address that begins with http:// or https://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("-to has a scheme, a host and perhaps a path, and nothing else")
	}
	return u, nil
}

// serveProxy listens until ctx ends.
func serveProxy(ctx context.Context, c *proxyConfig, stdout, stderr io.Writer) error {
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	logger := log.New(stderr, "ratelimit proxy: ", 0)
	c.Log = logger
	p := proxy.New(c.Config)
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	if c.admin != "" {
		admin, err := net.Listen("tcp", c.admin)
		if err != nil {
			return err
		}
		defer admin.Close()
		go newServer(p.Admin(), logger).Serve(admin)
		fmt.Fprintf(stdout, "metrics on http://%s/metrics\n", admin.Addr())
	}
	server := newServer(p, logger)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		shutdown(p, server)
		return nil
	}
}

// newServer returns a server for clients that stay as long as they like, but have to
// say what they want.
func newServer(h http.Handler, logger *log.Logger) *http.Server {
	return &http.Server{Handler: h, ErrorLog: logger, ReadHeaderTimeout: 30 * time.Second}
}

// shutdown ends a proxy and its server after what is under way.
func shutdown(p *proxy.Proxy, server *http.Server) {
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the program
	p.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = server.Shutdown(ctx) // an error says that something has not ended in time
	select {
	case <-p.Ended():
	case <-ctx.Done():
	}
}
