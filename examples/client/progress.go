package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A progress prints the state of the downloads: a line when a wait begins, and one at the end.
// Several workers update it.
type progress struct {
	w     io.Writer
	total int

	mu     sync.Mutex
	done   int
	failed int
	until  time.Time // end of the last wait that a server asked for
	why    string
	said   string // the last line, to write it only once
}

// observe stores the wait of a response. It is used as obey.Transport.Observe.
func (p *progress) observe(req *http.Request, a ratelimit.Advice) {
	if a.Wait == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(a.Wait)
	p.why = printable(req.URL.Host) + ": " + why(a)
	if line := p.line(); line != p.said {
		p.said = line
		fmt.Fprintln(p.w, line)
	}
}

// printable escapes all bytes except printable ASCII, so that a server cannot control the
// terminal.
func printable(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// why returns the reason for a wait, in printable ASCII.
func why(a ratelimit.Advice) string {
	if a.Source == ratelimit.SourceRetryAfter {
		return "Retry-After"
	}
	text := "RateLimit " + strconv.QuoteToASCII(a.Limit.Name) + " is exhausted"
	if a.Limit.Remaining == ratelimit.Unknown {
		text = "RateLimit " + strconv.QuoteToASCII(a.Limit.Name) + " may have refused"
	}
	if a.Capped {
		text += ", for longer"
	}
	return text
}

// finish counts a download. If it failed, it writes a line.
func (p *progress) finish(e entry, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if err != nil {
		p.failed++
		fmt.Fprintf(p.w, "client: line %d: %s\n", e.line, printable(err.Error()))
	}
}

// end prints the last line, and returns the exit status.
func (p *progress) end() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, p.line())
	if p.failed > 0 {
		return exitFailed
	}
	return exitStored
}

// line returns the current line.
func (p *progress) line() string {
	line := fmt.Sprintf("%d of %d done", p.done, p.total)
	if p.failed > 0 {
		line += fmt.Sprintf(", %d failed", p.failed)
	}
	if p.done < p.total && time.Now().Before(p.until) {
		line += ", waiting until " + p.until.Format(time.TimeOnly) + " (" + p.why + ")"
	}
	return line
}
