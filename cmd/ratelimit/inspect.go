package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/httpfields/ratelimit/internal/proxy"
	"github.com/httpfields/ratelimit/internal/report"
)

// An inspection is one run of the verb.
type inspection struct {
	stdin  io.Reader
	stderr io.Writer
	status int // of the exit
	base   http.RoundTripper
	header headerFlag
	lint   bool
	last   bool
	byHost bool
	out    printer
}

func inspect(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	base := newTransport()
	defer base.CloseIdleConnections()
	in := &inspection{stdin: stdin, stderr: stderr, base: base, header: headerFlag{}, out: printer{w: stdout, palette: paletteOf(stdout, os.Getenv)}}
	flags := newFlags("inspect")
	flags.BoolVar(&in.out.json, "json", false, "print JSON: one object for each response, or one with all hosts")
	flags.BoolVar(&in.lint, "lint", false, "check all responses, and print the rules of the specification that they break")
	flags.BoolVar(&in.last, "last", false, "with -lint, check the last response of each input alone")
	flags.BoolVar(&in.byHost, "by-host", false, "print a table of all responses by host")
	flags.Func("H", "send this header `field` to addresses", in.header.addField)
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	switch {
	case in.last && in.byHost:
		return 0, usageError{errors.New("-last and -by-host exclude each other: leave one out")}
	case in.last && !in.lint:
		return 0, usageError{errors.New("-last is without -lint: add -lint, or leave -last out")}
	}
	inputs := flags.Args()
	if len(inputs) == 0 {
		inputs = []string{stdinInput}
		if f, ok := stdin.(*os.File); ok && isTerminal(f) {
			fmt.Fprintln(stderr, "ratelimit inspect: paste a response, and end it with Ctrl-D")
		}
	}
	if in.byHost {
		in.hosts(ctx, inputs, stdout)
		return in.status, nil
	}
	for _, input := range inputs {
		in.note(in.read(ctx, input, in.text, func(resp *http.Response) { in.one(report.New(shown(input), resp)) }))
	}
	in.note(in.out.err)
	return in.status, nil
}

// note prints an error, if there is one, and sets the exit status.
func (in *inspection) note(err error) {
	if err != nil {
		in.status = failed(in.stderr, "inspect", err)
	}
}

// text shows a response of a text. With -lint it shows all responses that have findings.
func (in *inspection) text(name string, from io.Reader) error {
	if in.lint && !in.last {
		return in.all(name, from)
	}
	r, err := report.Read(name, from)
	if err == nil {
		in.one(r)
	}
	return err
}

func (in *inspection) one(r *report.Report) {
	if in.lint {
		r.Check()
	}
	if len(r.Limits) == 0 || r.Doubtful() {
		in.status = max(in.status, exitDoubtful)
	}
	in.out.report(r)
}

// all checks the responses of a text. It shows the responses that have findings. If the text has only
// one response, all shows it in any case.
func (in *inspection) all(name string, from io.Reader) error {
	var sum summary
	err := report.Each(name, from, func(r *report.Report) {
		r.Check()
		sum.add(r)
		if in.out.json || r.Number == 0 || hasFindings(r) {
			in.out.report(r)
		}
	})
	if sum.doubtful || sum.limited == 0 {
		in.status = max(in.status, exitDoubtful)
	}
	if sum.responses > 1 {
		in.out.summary(name, sum)
	}
	return err
}

// hosts shows the hosts of all inputs.
func (in *inspection) hosts(ctx context.Context, inputs []string, w io.Writer) {
	hosts := report.Hosts{}
	for _, input := range inputs {
		in.note(in.read(ctx, input,
			func(_ string, text io.Reader) error { return hosts.Read(text) },
			func(resp *http.Response) { hosts.Add(resp.Request.URL.Host, resp) }))
	}
	if !hosts.Announced() || in.lint && hosts.Doubtful() {
		in.status = max(in.status, exitDoubtful)
	}
	if in.out.json {
		in.note(hosts.WriteJSON(w))
	} else {
		in.note(hosts.WriteText(w))
	}
}

const stdinInput = "-"

// read calls one of two functions: with the text of a file or of standard input, or with the
// response of an address.
func (in *inspection) read(ctx context.Context, input string, text func(name string, from io.Reader) error, response func(*http.Response)) error {
	if isAddress(input) {
		resp, err := in.get(ctx, input)
		if err == nil {
			response(resp)
		}
		return err
	}
	name, from := "<stdin>", in.stdin
	if input != stdinInput {
		file, err := openFile(input)
		if err != nil {
			return err
		}
		defer file.Close()
		name, from = input, file
	}
	switch err := text(name, from); {
	case input == stdinInput && errors.Is(err, report.ErrEmpty):
		return errors.New("standard input is empty: did curl fail? -s hides its errors, -sS shows them")
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func openFile(name string) (*os.File, error) {
	file, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: give a file, or an address that begins with http:// or https://", err)
	case err != nil:
		return nil, fmt.Errorf("%w: give a file that can be read", err)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, fmt.Errorf("%s is a folder: give the files in it", name)
	}
	return file, nil
}

// get returns the response of an address, without its body.
func (in *inspection) get(ctx context.Context, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("the server did not answer within 10s"))
	defer cancel()
	req, err := in.header.newRequest(ctx, http.MethodGet, address)
	if err != nil {
		return nil, err
	}
	resp, err := in.base.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: check the address and the server", shown(address), proxy.ErrorText(err))
	}
	resp.Body.Close()
	return resp, nil
}
