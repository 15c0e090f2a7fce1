package proxy

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
)

// patience is how long requests under way may take after an interrupt.
const patience = 30 * time.Second

// A Command is the command line of a proxy.
type Command struct {
	Config
	name          string
	flags         *flag.FlagSet
	to            string
	fields, hosts string // lists with commas
	quiet         bool
	listen, admin string // addresses; admin may be ""
}

// NewCommand defines the flags of a program with that name.
func NewCommand(name string, flags *flag.FlagSet) *Command {
	c := &Command{name: name, flags: flags}
	flags.StringVar(&c.to, "to", "", "the `URL` of the server; a path in it is put before those of requests")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8700", "the `address` to listen at, or unix:PATH; port 0 is any free port")
	flags.StringVar(&c.admin, "admin", "", "the `address` that serves a page, /metrics and /state, such as 127.0.0.1:8701")
	flags.StringVar(&c.hosts, "host", "", "the `names` by which clients reach the proxy, with commas, next to localhost and IP addresses")
	flags.StringVar(&c.fields, "key", "Authorization,X-API-Key", "the `fields`, path:N, json:NAME of a user; none is one user")
	flags.StringVar(&c.CostHeader, "cost-header", "", "the `field` of a request with the number of tokens that it takes; it is not forwarded")
	flags.BoolVar(&c.Pace, "pace", false, "spread the requests over the window")
	flags.DurationVar(&c.MaxWait, "max-wait", ratelimit.DefaultMaxWait, "how long a request is held at most")
	flags.IntVar(&c.Queue, "queue", 1000, "how many requests wait at most")
	flags.Int64Var(&c.BodyMemory, "body-memory", 64<<20, "how many bytes of bodies are read at most while their requests wait")
	flags.BoolVar(&c.Rewrite, "rewrite", true, "rewrite references to the server in Location, Content-Location, Link and Refresh")
	flags.BoolVar(&c.quiet, "quiet", false, "do not print when requests begin to wait")
	return c
}

// Complete reads the parsed flags. Its error is about the command line.
func (c *Command) Complete() (err error) {
	c.Fields, c.Hosts = list(c.fields), list(c.hosts)
	switch {
	case c.flags.NArg() > 0:
		return errors.New("there are arguments: give the server with -to")
	case !isListenable(c.listen):
		return errors.New("-listen is not an address: write 127.0.0.1:8700 or unix:PATH")
	case c.admin != "" && !isListenable(c.admin):
		return errors.New("-admin is not an address: write 127.0.0.1:8701 or unix:PATH")
	case c.MaxWait <= 0:
		return errors.New("-max-wait is out of range: give a time above 0")
	case c.Queue < 0:
		return errors.New("-queue is negative: 0 lets no request wait")
	case c.BodyMemory < 0:
		return errors.New("-body-memory is negative: 0 reads no body before its turn")
	case c.CostHeader != "" && !text.IsToken(c.CostHeader):
		return errors.New("-cost-header is not the name of a field: write it without a colon and spaces")
	case slices.ContainsFunc(c.Hosts, func(name string) bool { return name == "" || strings.ContainsAny(name, ":/ ") }):
		return errors.New("-host is not a list of names without ports: write proxy.example")
	}
	if _, err = newKeyer(c.Fields); err != nil {
		return err
	}
	c.To, err = parseServer(c.to)
	return err
}

// list returns the elements of a list with commas. An empty list has none.
func list(names string) (elements []string) {
	if strings.TrimSpace(names) == "" {
		return nil
	}
	for element := range strings.SplitSeq(names, ",") {
		elements = append(elements, strings.TrimSpace(element))
	}
	return elements
}

// parseServer returns the address of the server to which requests go.
func parseServer(to string) (*url.URL, error) {
	u, err := url.Parse(to)
	isHTTP := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	switch {
	case to == "":
		return nil, errors.New("-to is missing: give the address of the server")
	case !isHTTP:
		return nil, errors.New("-to is not an address: begin it with http:// or https://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("-to has more than a scheme, a host and a path: leave the rest out")
	}
	return u, nil
}

// Run listens until ctx ends.
func (c *Command) Run(ctx context.Context, stdout, stderr io.Writer) error {
	listener, shown, err := listen("listen", c.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if name, _, err := net.SplitHostPort(c.listen); err == nil && name != "" {
		c.Hosts = append(c.Hosts, name)
	}
	c.Log = log.New(stderr, c.name+": ", 0)
	if !c.quiet {
		c.Talk = c.Log
	}
	p := New(c.Config)
	fmt.Fprintf(stdout, "listening on %s\n", shown)
	if c.admin != "" {
		admin, shown, err := listen("admin", c.admin)
		if err != nil {
			return err
		}
		defer admin.Close()
		go newServer(p.guard(admin, p.Admin()), c.Log).Serve(admin)
		if !isUnix(admin) {
			shown += "/metrics"
		}
		fmt.Fprintf(stdout, "metrics on %s\n", shown)
	}
	server := newServer(p.guard(listener, p), c.Log)
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

// newServer returns a server that closes idle connections.
func newServer(h http.Handler, logger *log.Logger) *http.Server {
	return &http.Server{
		Handler: h, ErrorLog: logger, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		DisableGeneralOptionsHandler: true, ConnContext: withConn,
	}
}

// withConn puts the connection into the context of its requests.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// shutdown ends a proxy and its server when no request is under way, or after patience.
func shutdown(p *Proxy, server *http.Server) {
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a second interrupt ends the program
	p.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = server.Shutdown(ctx) // the error means that something has not ended in time
	go func() {
		p.underWay.Wait()
		cancel()
	}()
	<-ctx.Done()
}
