// Client downloads the addresses in a list, no faster than the servers allow, because it
// sends its requests through a obey.Transport.
//
//	client -dir downloads list.txt
//	client -H 'X-API-Key: demo' -dir downloads list.txt
//
// The list has one http:// or https:// address in each line. Blank lines and lines that
// begin with "#" are skipped. "-" is standard input. Each answer is stored in a file that is
// named by its line number and the last part of its path. A request that is refused because
// of a limit is tried again. A line on standard error shows how many are done, until when
// the others wait, and why.
//
// The exit status is 0 if every answer was stored, and 1 if not. It is 2 if the list cannot be
// read, the folder cannot be written to, or the command line is wrong.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

const usage = `usage: client [-H field]... [-dir folder] [-jobs n] [-max-wait d] [-pace] [-timeout d] list

Downloads what a list of addresses names, one a line, no faster than the servers
allow. "-" is standard input.

Exit status: 0 if everything was stored, 1 if something was not, 2 on usage, a
list that cannot be read or a folder that takes no files.

`

const (
	exitStored = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	header := http.Header{}
	flags.Func("H", "send this header `field` with each request, to whatever server", func(line string) error {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return errors.New("not a name, a colon and a value")
		}
		header.Add(name, strings.TrimSpace(value))
		return nil
	})
	dir := flags.String("dir", ".", "store answers in this `folder`")
	jobs := flags.Int("jobs", 4, "send up to `n` requests at a time")
	maxWait := flags.Duration("max-wait", ratelimit.DefaultMaxWait, "find out after this time whether a longer wait still stands")
	pace := flags.Bool("pace", false, "spread requests over the time left")
	timeout := flags.Duration("timeout", time.Hour, "give up on an address after this time, waiting and trying again included")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitStored
	} else if err != nil {
		return exitUsage
	}
	if flags.NArg() != 1 || *jobs < 1 {
		flags.Usage()
		return exitUsage
	}
	list, err := readList(flags.Arg(0), stdin)
	if err != nil {
		fmt.Fprintf(stderr, "client: %v\n", err)
		return exitUsage
	}
	if err := takesFiles(*dir); err != nil {
		fmt.Fprintf(stderr, "client: -dir: %v\n", err)
		return exitUsage
	}

	p := &progress{w: stderr, total: len(list)}
	d := downloader{dir: *dir, header: header, timeout: *timeout, progress: p, client: &http.Client{
		Transport: &obey.Transport{
			Advisor: ratelimit.Advisor{MaxWait: *maxWait},
			Gate:    &obey.Gate{MaxWait: *maxWait, Pace: *pace},
			Observe: p.observe,
		},
	}}
	d.fetchAll(ctx, list, *jobs)
	return p.end()
}

// An entry is an address of the list.
type entry struct {
	line    int // from 1
	address string
}

func readList(name string, stdin io.Reader) ([]entry, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	var list []entry
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		address := strings.TrimSpace(lines.Text())
		if address == "" || address[0] == '#' {
			continue
		}
		list = append(list, entry{n, address})
	}
	return list, lines.Err()
}

// A downloader fetches addresses and stores the answers.
type downloader struct {
	dir      string
	header   http.Header
	timeout  time.Duration // of one entry
	client   *http.Client
	progress *progress
}

// fetchAll fetches a list, with a number of workers.
func (d *downloader) fetchAll(ctx context.Context, list []entry, jobs int) {
	entries := make(chan entry)
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for e := range entries {
				d.progress.finish(e, d.fetch(ctx, e))
			}
		})
	}
	for _, e := range list {
		entries <- e
	}
	close(entries)
	wg.Wait()
}

var errNotStored = errors.New("not stored")

// fetch downloads an entry. It retries as long as a limit refuses the request. The Transport
// delays the next try as the server asks.
func (d *downloader) fetch(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for {
		err := d.try(ctx, e)
		var refused *ratelimit.RefusedError
		if !errors.As(err, &refused) {
			return err
		}
	}
}

func (d *downloader) try(ctx context.Context, e entry) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.address, nil)
	if err != nil {
		return err
	}
	req.Header = d.header.Clone()
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := (ratelimit.Advisor{}).CheckResponse(resp, time.Now()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", errNotStored, resp.StatusCode)
	}
	return store(filepath.Join(d.dir, fileName(e.line, req.URL)), resp.Body)
}

const part = ".part-*" // the pattern of the names of incomplete files

// takesFiles checks that a folder can be written to, so that no request is sent for a
// response that cannot be stored.
func takesFiles(dir string) error {
	f, err := os.CreateTemp(dir, part)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// store writes a file completely or not at all.
func store(name string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(name), part)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the renaming
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// fileName returns the line number and the last part of the path, in letters that are safe for
// file systems and terminals.
func fileName(line int, u *url.URL) string {
	const longest = 100
	base := path.Base(u.Path)
	if base == "/" || base == "." {
		base = "index"
	}
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, base)
	return fmt.Sprintf("%04d-%s", line, base[:min(len(base), longest)])
}
