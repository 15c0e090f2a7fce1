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
	json   bool
	byHost bool
}

func inspect(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	base := newTransport()
	defer base.CloseIdleConnections()
	in := &inspection{stdin: stdin, stderr: stderr, base: base}
	flags := newFlags("inspect")
	flags.BoolVar(&in.json, "json", false, "print JSON: one object for each input, or one with all hosts")
	flags.BoolVar(&in.lint, "lint", false, "print the rules of the specification that a response breaks")
	flags.BoolVar(&in.byHost, "by-host", false, "print a table of all responses by host")
	flags.Func("H", "send this header `field` to addresses", in.header.add)
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	switch {
	case in.header.err != nil:
		return 0, usageError{in.header.err}
	case in.lint && in.byHost:
		return 0, usageError{errors.New("-lint and -by-host exclude each other: leave one out")}
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
	} else {
		in.reports(ctx, inputs, stdout)
	}
	return in.status, nil
}

// fails reports whether there is an error, and prints it.
func (in *inspection) fails(err error) bool {
	if err != nil {
		in.status = failed(in.stderr, "inspect", err)
	}
	return err != nil
}

// reports shows a response of each input.
func (in *inspection) reports(ctx context.Context, inputs []string, w io.Writer) {
	var reports []*report.Report
	for _, input := range inputs {
		var r *report.Report
		err := in.read(ctx, input,
			func(name string, text io.Reader) (err error) { r, err = report.Read(name, text); return err },
			func(resp *http.Response) { r = report.New(shown(input), resp) })
		if in.fails(err) {
			continue
		}
		if in.lint {
			r.Check()
		}
		if len(r.Limits) == 0 || r.Doubtful() {
			in.status = max(in.status, exitDoubtful)
		}
		reports = append(reports, r)
	}
	if !in.json {
		in.fails(writeText(w, reports, paletteOf(w, os.Getenv)))
		return
	}
	for _, r := range reports {
		if in.fails(report.WriteJSON(w, r)) {
			return
		}
	}
}

// hosts shows the hosts of all inputs.
func (in *inspection) hosts(ctx context.Context, inputs []string, w io.Writer) {
	hosts := report.Hosts{}
	for _, input := range inputs {
		in.fails(in.read(ctx, input,
			func(_ string, text io.Reader) error { return hosts.Read(text) },
			func(resp *http.Response) { hosts.Add(resp.Request.URL.Host, resp) }))
	}
	if !hosts.Announced() {
		in.status = max(in.status, exitDoubtful)
	}
	if in.json {
		in.fails(hosts.WriteJSON(w))
	} else {
		in.fails(hosts.WriteText(w))
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
		file, err := os.Open(input)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w (an address begins with http:// or https://)", err)
		} else if err != nil {
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
		return nil, fmt.Errorf("%s: %w", shown(address), err)
	}
	resp.Body.Close()
	return resp, nil
}
