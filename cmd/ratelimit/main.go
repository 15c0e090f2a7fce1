// Ratelimit shows and tests the rate limits of HTTP servers, and keeps requests within them.
//
//	ratelimit inspect response.http
//	curl -si https://api.example/ | ratelimit inspect
//	ratelimit inspect -lint https://api.example/
//	ratelimit probe http://localhost:8080/
//	ratelimit serve -like github
//	ratelimit proxy -to https://api.example/
//	ratelimit fuzz -- python3 parser.py
//	ratelimit version
//
// Each verb explains itself: ratelimit inspect -h.
//
// The exit status is 2 if the command line is wrong or an input cannot be read. The help of each
// verb explains the status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/httpfields/ratelimit/internal/proxy"
	"github.com/httpfields/ratelimit/internal/report"
)

// A verb is a command of the program. run returns the exit status, or an error to print.
type verb struct {
	name string
	run  func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)
	// If ends is true, an interrupt ends ctx and not the program, so that the verb can finish its work.
	ends bool
}

var verbs = []verb{
	{name: "inspect", run: inspect},
	{name: "probe", run: probe, ends: true},
	{name: "serve", run: runServe, ends: true},
	{name: "proxy", run: runProxy, ends: true},
	{name: "fuzz", run: runFuzz, ends: true},
	{name: "version", run: version},
}

// The exit statuses of every verb.
const (
	exitFine = iota
	exitDoubtful
	exitFailed
	exitInterrupted = 130 // as in a shell
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	log.SetOutput(io.Discard) // net/http logs responses that no request asked for, with their content
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return exitFailed
	}
	switch args[0] {
	case "help":
		if len(args) > 1 {
			return run(ctx, []string{args[1], "-h"}, stdin, stdout, stderr)
		}
		fallthrough
	case "-h", "-help", "--help":
		fmt.Fprint(stdout, help)
		return exitFine
	case "-v", "-version", "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	var names []string
	for _, v := range verbs {
		if v.name != args[0] {
			names = append(names, v.name)
			continue
		}
		if v.ends {
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
		}
		status, err := v.run(ctx, args[1:], stdin, stdout, stderr)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return exitFine
		case err != nil:
			return failed(stderr, v.name, err)
		}
		return status
	}
	return failed(stderr, "", usageError{fmt.Errorf("unknown verb %q: use one of %s", args[0], strings.Join(names, ", "))})
}

// A usageError is the fault of a command line.
type usageError struct{ error }

// failed prints why a verb failed, and after a usageError how to get help.
func failed(stderr io.Writer, verbName string, err error) int {
	name := strings.TrimSpace("ratelimit " + verbName)
	fmt.Fprintf(stderr, "%s: %s\n", name, report.Printable(proxy.ErrorText(err)))
	if _, ok := err.(usageError); ok {
		fmt.Fprintf(stderr, "For help: %s -h\n", name)
	}
	return exitFailed
}

func version(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	flags := newFlags("version")
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	if flags.NArg() > 0 {
		return 0, usageError{errors.New("there are arguments: leave them out")}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		_, err := fmt.Fprintf(stdout, "ratelimit %s\n%s", info.Main.Version, info)
		return exitFine, err
	}
	return exitFine, nil
}
