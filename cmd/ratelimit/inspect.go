package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/report"
)

const inspectHelp = `usage: ratelimit inspect [-json] [-lint] [-H 'Name: value']... [FILE | URL | -]...

Shows the rate limits in HTTP responses, checks them, and prints how long the
responses ask to wait.

An input is a file, an http:// or https:// address to GET, or "-" for standard
input, which is also read if there are no inputs. A file holds a response, its
header lines alone, what curl -i or curl -v print, or a HAR file. Of several
responses in one file it is the last one that says something about rate limits.
Redirections of an address are not followed: they may carry fields of their own.

Exit status: 0 if every input says something about rate limits, 1 if one says
nothing, is malformed in part or, with -lint, breaks a rule that is more than a
note, and 2 if one cannot be read or the command line is wrong. The highest of all
inputs wins.

Examples:

  ratelimit inspect response.http
  curl -si https://api.example/ | ratelimit inspect
  curl -v https://api.example/ 2>&1 | ratelimit inspect -lint
  ratelimit inspect -json -H 'Authorization: Bearer ...' https://api.example/
`

// An inspection is one run of the verb.
type inspection struct {
	stdin  io.Reader
	header headerFlag
	lint   bool
}

func inspect(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	in := &inspection{stdin: stdin}
	flags := newFlags("inspect")
	asJSON := flags.Bool("json", false, "print JSON, one object per input")
	flags.BoolVar(&in.lint, "lint", false, "name the rules of the specification that are not kept")
	flags.Var(&in.header, "H", "send this header `field` to addresses")
	if status, done := parse(flags, inspectHelp, args, stdout, stderr); done {
		return status
	}
	if err := in.header.err(); err != nil {
		return wrong(stderr, "inspect", err)
	}
	inputs := flags.Args()
	if len(inputs) == 0 {
		inputs = []string{stdinInput}
		if f, ok := stdin.(*os.File); ok && isTerminal(f) {
			fmt.Fprintln(stderr, "ratelimit inspect: paste a response, and end it with Ctrl-D")
		}
	}

	status := exitFine
	fail := func(err error) {
		status = failed(stderr, "inspect", err)
	}
	var reports []*report.Report
	for _, input := range inputs {
		r, err := in.open(ctx, input)
		if err != nil {
			fail(err)
			continue
		}
		reports = append(reports, r)
		if len(r.Limits) == 0 || r.Doubtful() {
			status = max(status, exitDoubtful)
		}
	}
	if err := write(stdout, reports, *asJSON); err != nil {
		fail(err)
	}
	return status
}

func write(w io.Writer, reports []*report.Report, asJSON bool) error {
	if !asJSON {
		return writeText(w, reports, paletteOf(w, os.Getenv))
	}
	for _, r := range reports {
		if err := r.WriteJSON(w); err != nil {
			return err
		}
	}
	return nil
}

const stdinInput = "-"

// open reports on an input.
func (in *inspection) open(ctx context.Context, input string) (*report.Report, error) {
	var r *report.Report
	var err error
	switch {
	case input == stdinInput:
		r, err = read("<stdin>", in.stdin)
	case isAddress(input):
		r, err = in.get(ctx, input)
	default:
		r, err = readFile(input)
	}
	if err == nil && in.lint {
		r.Check()
	}
	return r, err
}

func readFile(name string) (*report.Report, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && hint(name) != "" {
		return nil, fmt.Errorf("%w (%s)", err, hint(name))
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(name, f)
}

const maxInput = 32 << 20

func read(source string, r io.Reader) (*report.Report, error) {
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, err
	}
	out, err := report.Read(source, text.String())
	switch {
	case n == 0 && source == "<stdin>":
		return nil, errors.New("standard input is empty: did curl fail? -s hides its errors, -sS shows them")
	case err != nil && n > maxInput: // what is longer may be the body, which does not matter
		return nil, fmt.Errorf("%s: longer than 32 MiB: the header of a response is enough, or one entry of a HAR file", source)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return out, nil
}

var client = &http.Client{
	Transport:     newTransport(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       10 * time.Second,
}

// newTransport returns a Transport for servers that are not trusted.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 1 << 20
	return t
}

func (in *inspection) get(ctx context.Context, address string) (*report.Report, error) {
	req, err := in.header.newRequest(ctx, http.MethodGet, address)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return report.New(shown(address), resp), nil
}
