// Ratelimit tells what HTTP responses say about rate limits, and keeps to it.
//
//	ratelimit inspect response.http
//	curl -si https://api.example/ | ratelimit inspect
//	ratelimit inspect -lint https://api.example/
//	ratelimit probe http://localhost:8080/
//	ratelimit proxy -to https://api.example/
//	ratelimit version
//
// Each verb explains itself: ratelimit inspect -h.
//
// The exit status is 2 if the command line is wrong or something cannot be read;
// what 1 means is for the verb to say.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// A verb is what the program can do. It does it in run, whose result is the exit
// status.
type verb struct {
	name, about string
	run         func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
	// ends means that an interrupt ends ctx and not the program, because the verb
	// has something to finish.
	ends bool
}

// verbs are listed in the help in this order.
var verbs = []verb{
	{name: "inspect", about: "say what responses tell about rate limits, and what is wrong with them", run: inspect},
	{name: "probe", about: "ask a server until it refuses, and say whether it keeps to what it tells", run: probe, ends: true},
	{name: "proxy", about: "forward requests to a server, and hold them back as its limits ask", run: runProxy, ends: true},
	{name: "version", about: "print the version of this program", run: version},
}

// The exit statuses of every verb.
const (
	exitFine = iota
	exitDoubtful
	exitFailed
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, help())
		return exitFailed
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		fmt.Fprint(stdout, help())
		return exitFine
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		if v.ends {
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
		}
		return v.run(ctx, args[1:], stdin, stdout, stderr)
	}
	return wrong(stderr, "", fmt.Errorf("unknown verb %q", args[0]))
}

func help() string {
	var b strings.Builder
	b.WriteString("usage: ratelimit verb [flags] [arguments]\n\nThe verbs are\n\n")
	for _, v := range verbs {
		fmt.Fprintf(&b, "  %-9s %s\n", v.name, v.about)
	}
	b.WriteString(`
Each explains its flags, and what its exit status means: ratelimit inspect -h

Examples:

  curl -si https://api.example/ | ratelimit inspect
  ratelimit inspect -lint response.http
  ratelimit probe http://localhost:8080/
  ratelimit proxy -to https://api.example/
`)
	return b.String()
}
