package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
)

// help is the help of the program. helps has the help of each verb, without its flags.
var (
	//go:embed help/ratelimit.txt
	help string
	//go:embed help
	helps embed.FS
)

// newFlags returns the flags of a verb. They print nothing.
func newFlags(verbName string) *flag.FlagSet {
	flags := flag.NewFlagSet(verbName, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse reads the flags of a verb. It prints the help if it returns [flag.ErrHelp].
func parse(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	switch err := parseAnywhere(flags, args); {
	case errors.Is(err, flag.ErrHelp):
		var list strings.Builder
		flags.SetOutput(&list)
		about, _ := helps.ReadFile("help/" + flags.Name() + ".txt") // each verb has one
		fmt.Fprintf(stdout, "%s", about)
		if flags.PrintDefaults(); list.Len() > 0 {
			fmt.Fprint(stdout, "\nFlags:\n\n", list.String())
		}
		return err
	case err != nil:
		return usageError{flagError(flags, err)}
	}
	return nil
}

// flagError returns an error of package flag with the way out. It does not contain the value, which
// may be a password.
func flagError(flags *flag.FlagSet, err error) error {
	kind, rest, _ := strings.Cut(err.Error(), " value ")
	value, noValue := strconv.QuotedPrefix(rest)
	if !strings.HasPrefix(kind, "invalid") || noValue != nil {
		return err
	}
	_, rest, _ = strings.Cut(rest[len(value):], "-")
	name, fault, _ := strings.Cut(rest, ": ")
	f := flags.Lookup(name)
	typed, ok := f.Value.(flag.Getter)
	if !ok { // the error of a function such as addField
		return fmt.Errorf("-%s %s", name, fault)
	}
	remedy := "give a number such as " + f.DefValue
	switch typed.Get().(type) {
	case bool:
		remedy = "leave its value out"
	case time.Duration:
		remedy = "give a time such as 1m30s"
	}
	return fmt.Errorf("-%s is malformed: %s", name, remedy)
}

// parseAnywhere parses flags before, between and after the other arguments, because package flag
// stops at the first other argument. Arguments after "--" are never read as flags.
func parseAnywhere(flags *flag.FlagSet, args []string) error {
	others := []string{"--"}
	for {
		if err := flags.Parse(args); err != nil {
			return err
		}
		rest := flags.Args()
		parsed := args[:len(args)-len(rest)]
		if len(rest) == 0 || len(parsed) > 0 && parsed[len(parsed)-1] == "--" {
			return flags.Parse(append(others, rest...))
		}
		others, args = append(others, rest[0]), rest[1:]
	}
}

// A headerFlag is a flag for header fields that can be repeated: -H 'Name: value'.
type headerFlag http.Header

// addField adds a field, for [flag.FlagSet.Func].
func (h headerFlag) addField(field string) error {
	name, value, ok := strings.Cut(field, ":")
	if !ok || !text.IsToken(name) || strings.ContainsAny(value, "\r\n\x00") {
		return errors.New("is not a header field: write 'Name: value'")
	}
	http.Header(h).Add(name, strings.Trim(value, " \t"))
	return nil
}

// newRequest returns a request with these fields. Its errors contain no value of a field, and no
// password of the address.
func (h headerFlag) newRequest(ctx context.Context, method, address string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	switch {
	case err != nil && !text.IsToken(method):
		return nil, errors.New("-method is malformed: write GET or POST")
	case err != nil:
		return nil, errors.New("the address is malformed: write http://HOST/")
	case r.URL.Host == "":
		return nil, errors.New("the address has no host: write http://HOST/")
	}
	if u := r.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	maps.Copy(r.Header, h)
	if hosts := h["Host"]; len(hosts) > 0 { // net/http ignores it in the header
		r.Host = hosts[len(hosts)-1]
	}
	return r, nil
}

// newTransport returns a Transport for servers that are not trusted. The verbs use it without an
// http.Client, which would follow redirects, and repeat the query of an address in its errors.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 1 << 20
	return t
}

func isAddress(argument string) bool {
	return strings.HasPrefix(argument, "http://") || strings.HasPrefix(argument, "https://")
}

// shown returns an address to print. It has no password and no query, which may be a credential.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery, u.Fragment = "", false, ""
	return u.Redacted()
}
