// Inspect prints what an HTTP response says about rate limits, what is wrong
// with the way it says so, and how long a client should wait.
//
//	inspect response.http
//	curl -si https://api.example/ | inspect
//	inspect -json https://api.example/
//	inspect -lint https://api.example/
//
// With -lint it also names the rules of the specification that a response does
// not keep, or says that there are no findings.
//
// Each input is a file that holds a raw HTTP response, "-" for standard input
// (also if there are no inputs), or an http:// or https:// address to GET.
// Redirections are not followed: they may carry fields of their own.
//
// The exit status is 0 if every input says something about rate limits and
// nothing in it is malformed, 1 if one says nothing, is malformed in part or,
// with -lint, breaks a rule that it must keep, and 2 if one cannot be read or
// the command line is wrong.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/examples/internal/report"
)

const usage = `usage: inspect [-json] [-lint] [file | address | -]...

Prints what HTTP responses say about rate limits, and how long they ask to wait. An input is a file that holds
a raw HTTP response, an http:// or https:// address to GET, or "-" for standard
input, which is also read if there are no inputs.

Exit status: 0 if rate limits were found and nothing is malformed, 1 if none
were found, something is malformed or, with -lint, a rule is broken that must be
kept, 2 on usage or input that cannot be read.

`

// The exit statuses, where the highest of all inputs wins.
const (
	exitFound = iota
	exitDoubtful
	exitUnreadable
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print JSON, one object per input")
	lint := flags.Bool("lint", false, "name the rules of the specification that are not kept")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitFound
	} else if err != nil {
		return exitUnreadable
	}
	inputs := flags.Args()
	if len(inputs) == 0 {
		inputs = []string{stdinInput}
	}

	status := exitFound
	fail := func(err error) {
		fmt.Fprintf(stderr, "inspect: %s\n", report.Printable(err.Error()))
		status = exitUnreadable
	}
	var reports []*report.Report
	for _, input := range inputs {
		source, resp, names, err := open(input, stdin)
		if err != nil {
			fail(err)
			continue
		}
		r := report.New(source, resp, names)
		if *lint {
			r.Check(resp)
		}
		reports = append(reports, r)
		status = max(status, exitStatus(r))
	}

	output := printText
	if *asJSON {
		output = printJSON
	}
	if err := output(stdout, reports); err != nil {
		fail(err)
	}
	return status
}

func exitStatus(r *report.Report) int {
	broken := slices.ContainsFunc(r.Findings, func(f report.Finding) bool { return f.Level == ratelimit.LevelMust.String() })
	if len(r.Limits) == 0 || len(r.Malformed) > 0 || broken {
		return exitDoubtful
	}
	return exitFound
}

const stdinInput = "-"

// open returns the header of a response, and how it spells names, where that is
// known; its body is closed or never read.
func open(input string, stdin io.Reader) (source string, resp *http.Response, names report.Names, err error) {
	switch {
	case input == stdinInput:
		source = "<stdin>"
		resp, names, err = read(source, stdin)
	case strings.HasPrefix(input, "http://"), strings.HasPrefix(input, "https://"):
		source = input
		resp, err = get(input)
	default:
		source = input
		resp, names, err = readFile(input)
	}
	return source, resp, names, err
}

func readFile(name string) (*http.Response, report.Names, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return read(name, f)
}

const maxHeader = 1 << 20

var errHeaderTooLong = errors.New("header longer than 1 MiB")

func read(source string, r io.Reader) (*http.Response, report.Names, error) {
	limited := &io.LimitedReader{R: r, N: maxHeader + 1}
	var raw strings.Builder
	b := bufio.NewReader(io.TeeReader(limited, &raw))
	for {
		b = withMinorVersion(b)
		resp, err := http.ReadResponse(b, nil)
		switch {
		case err == nil && isInterim(resp.StatusCode):
		case err == nil:
			return resp, namesIn(raw.String()), nil
		case limited.N == 0:
			return nil, nil, fmt.Errorf("%s: %w", source, errHeaderTooLong)
		default:
			return nil, nil, fmt.Errorf("%s: not an HTTP response: %w", source, err)
		}
	}
}

// namesIn returns what may be the names of fields in a text, of which net/http keeps
// keys alone.
func namesIn(text string) report.Names {
	names := report.Names{}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names.Add(name)
		}
	}
	return names
}

// isInterim reports whether another response follows, RFC 9110 Section 15.2.
func isInterim(status int) bool {
	return status/100 == 1 && status != http.StatusSwitchingProtocols
}

// withMinorVersion makes "HTTP/2 200" of a status line "HTTP/2.0 200", because
// curl writes the former and http.ReadResponse takes only the latter.
func withMinorVersion(b *bufio.Reader) *bufio.Reader {
	const version = "HTTP/2"
	// An error shows again when the rest is read.
	start, _ := b.Peek(len(version) + 1)
	switch string(start) {
	case "HTTP/2 ", "HTTP/3 ":
		b.Discard(len(version))
		return bufio.NewReader(io.MultiReader(strings.NewReader(string(start[:len(version)])+".0"), b))
	}
	return b
}

var client = &http.Client{
	Transport:     transport(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       10 * time.Second,
}

func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxHeader
	return t
}

func get(address string) (*http.Response, error) {
	resp, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return resp, nil
}
