// Gateway is a reverse proxy that announces the limits of its upstream in the current fields,
// and adds a policy of its own.
//
//	gateway [-addr localhost:8081] [-policy '"gateway";q=5;w=10'] upstream
//
// It enforces its policy for all clients together, and refuses requests beyond it. See
// README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/httpfields/ratelimit"
)

func main() {
	addr, handler, err := configure(os.Args[1:], time.Now, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	log.Printf("listening on http://%s", addr)
	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// configure reads the command line.
func configure(args []string, now func() time.Time, stderr io.Writer) (addr string, handler http.Handler, err error) {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: gateway [-addr host:port] [-policy policy] upstream")
		flags.PrintDefaults()
	}
	flags.StringVar(&addr, "addr", "localhost:8081", "address to listen on")
	policy := ratelimit.Policy{Name: "gateway", Quota: 5, Window: ratelimit.SecondsOf(10)}
	flags.Func("policy", "the gateway's policy, a `member` of RateLimit-Policy in requests, with a window (default "+policy.String()+")", func(line string) error {
		list, err := ratelimit.ParsePolicies(line)
		if err == nil && len(list) != 1 {
			err = errors.New("one policy is needed")
		}
		if err == nil {
			policy = list[0]
		}
		return err
	})
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	upstream, err := url.Parse(flags.Arg(0))
	if err == nil && (flags.NArg() != 1 || upstream.Host == "") {
		err = errors.New("one upstream is needed, such as http://localhost:8080")
	}
	if _, ok := policy.Window.Value(); err == nil && (!ok || policy.Unit != "" && policy.Unit != ratelimit.Requests) {
		err = errors.New("the policy needs a window, and counts requests")
	}
	if err != nil {
		fmt.Fprintln(stderr, "gateway:", err)
		return "", nil, err
	}
	return addr, newGateway(upstream, policy, now), nil
}
