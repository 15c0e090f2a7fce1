package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/report"
)

// newFlags returns the flags of a verb, which say nothing by themselves.
func newFlags(verbName string) *flag.FlagSet {
	flags := flag.NewFlagSet(verbName, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse reads the flags of a verb. Where the verb has no more to do it returns true,
// and the exit status: the help was asked for, or a flag is wrong.
func parse(flags *flag.FlagSet, about string, args []string, stdout, stderr io.Writer) (status int, done bool) {
	switch err := flags.Parse(flagsFirst(flags, args)); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s\nFlags:\n\n", about)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return exitFine, true
	case err != nil:
		return wrong(stderr, flags.Name(), err), true
	}
	return exitFine, false
}

// flagsFirst returns the arguments with the flags before the others, so that they may stand
// anywhere. What follows "--" stays as it is.
func flagsFirst(flags *flag.FlagSet, args []string) []string {
	var first, rest []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(append(append(first, "--"), rest...), args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			rest = append(rest, a)
		default:
			first = append(first, a)
			name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
			f := flags.Lookup(name)
			if f == nil || hasValue || i+1 == len(args) {
				continue
			}
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
				i++
				first = append(first, args[i])
			}
		}
	}
	return append(first, rest...)
}

// failed says why a verb has failed.
func failed(stderr io.Writer, verbName string, err error) int {
	fmt.Fprintf(stderr, "ratelimit %s: %s\n", verbName, report.Printable(err.Error()))
	return exitFailed
}

// wrong says what is wrong with a command line, and where to read more.
func wrong(stderr io.Writer, verbName string, err error) int {
	name := strings.TrimSpace("ratelimit " + verbName)
	fmt.Fprintf(stderr, "%s: %s\nFor help: %s -h\n", name, report.Printable(err.Error()), name)
	return exitFailed
}

// A headerFlag takes header fields, one each time that it is there: -H 'Name: value'.
// It remembers that one was wrong, because package flag would repeat in its error what
// was given, which may be a password.
type headerFlag struct {
	fields http.Header
	wrong  bool
}

// String returns "", the default.
func (h *headerFlag) String() string { return "" }

// Set takes one field.
func (h *headerFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok || !report.IsToken(name) || strings.ContainsAny(value, "\r\n\x00") {
		h.wrong = true
		return nil
	}
	if h.fields == nil {
		h.fields = make(http.Header)
	}
	h.fields.Add(name, strings.Trim(value, " \t"))
	return nil
}

// err returns what is wrong with the fields.
func (h *headerFlag) err() error {
	if h.wrong {
		return errors.New("-H is not a header field: write 'Name: value'")
	}
	return nil
}

// addTo adds the fields to a request.
func (h *headerFlag) addTo(r *http.Request) {
	for name, values := range h.fields {
		if name == "Host" { // which net/http takes from elsewhere
			r.Host = values[len(values)-1]
			continue
		}
		r.Header[name] = values
	}
}

// newRequest returns a request with these fields. Its errors have no value of them, and
// no password of the address.
func (h *headerFlag) newRequest(ctx context.Context, method, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	switch {
	case err != nil:
		return nil, errors.New("the address or -method is malformed: check both")
	case r.URL.Host == "":
		return nil, errors.New("the address has no host: write http://HOST/")
	}
	h.addTo(r)
	return r, nil
}

// isAddress reports whether an argument is the address of a server.
func isAddress(argument string) bool {
	return strings.HasPrefix(argument, "http://") || strings.HasPrefix(argument, "https://")
}

// shown returns an address without what may be a credential, to be printed: a password, a
// query.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	return u.Redacted()
}

// withPort matches an address without its scheme, and no drive of Windows.
var withPort = regexp.MustCompile(`^(localhost|[^/\\]+:[0-9]+)(/|$)`)

// hint suggests how an argument may have been meant that is no file, or returns "".
func hint(argument string) string {
	host, _, _ := strings.Cut(argument, "/")
	switch {
	case strings.Contains(argument, "://"):
		return "an address begins with http:// or https://"
	case withPort.MatchString(argument):
		return "for an address write http://" + argument
	case strings.Contains(strings.Trim(host, "."), ".") && !slices.Contains(extensions, path.Ext(argument)):
		return "for an address write https://" + argument
	}
	return ""
}

// extensions are those of files that are read.
var extensions = []string{".http", ".har", ".json", ".txt", ".log"}
