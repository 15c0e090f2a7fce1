//go:build !js

// Playground makes a page that reads the header of an HTTP response. The page shows the rate
// limits and what is wrong.
//
//	go run ./examples/playground
//	go run ./examples/playground -o folder
//
// The first command builds the page and serves it on localhost. The second writes it to a
// folder, for a static host. Both run only within the module, because they compile the package
// to WebAssembly.
//
// The exit status is 1 if the page cannot be built or served, and 2 if the
// command line is wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const usage = `usage: playground [-addr address | -o folder]

Builds a page that reads the header of an HTTP response, and serves it.

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("playground", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	addr := flags.String("addr", "localhost:8088", "serve the page on this `address`")
	dir := flags.String("o", "", "write the page to this `folder`, and do not serve it")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	var err error
	if *dir != "" {
		err = write(*dir, stdout)
	} else {
		err = listen(*addr, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "playground: %v\n", err)
		return 1
	}
	return 0
}

func write(dir string, stdout io.Writer) error {
	s, err := build(stdout)
	if err != nil {
		return err
	}
	return s.write(dir)
}

func listen(addr string, stdout io.Writer) error {
	l, err := net.Listen("tcp", addr) // first, because the build takes long and the address may be taken
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := build(stdout)
	if err != nil {
		return err
	}
	return s.serve(l, stdout)
}

// serve prints the address of the page, and serves it until l is closed.
func (s site) serve(l net.Listener, stdout io.Writer) error {
	if err := s.compress(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s/\n", l.Addr())
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}
