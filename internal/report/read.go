package report

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

const (
	maxHeader    = 1 << 20 // bytes of names and values
	maxResponses = 100     // that are looked at, from the last
)

var (
	errHeaderTooLong = errors.New("header longer than 1 MiB")
	errNoResponse    = errors.New("there is no response in this text, and no header of one")
)

// Read reports on the response that a text holds: whole, its header lines alone, or
// as curl -i, curl -v or a HAR file has it. Of several it is the last one that says
// something about rate limits, or without such a one the last.
func Read(source, text string) (*Report, error) {
	all, err := responses(text)
	if err != nil {
		return nil, err
	}
	var last *Report
	for i := len(all.kept) - 1; i >= 0; i-- {
		p := all.kept[i]
		if p.size > maxHeader {
			return nil, errHeaderTooLong
		}
		r := newReport(source, p)
		r.number, r.of = all.dropped+i+1, all.dropped+len(all.kept)
		switch {
		case r.Speaks():
			return r, nil
		case last == nil && p.isHeader():
			last = r
		}
	}
	if last == nil {
		return nil, errNoResponse
	}
	return last, nil
}

// A response is one as far as it is known.
type response struct {
	*http.Response
	names  names
	lines  map[string][]int // the lines of the text that hold the values, by their key, from 1
	unread []int            // the lines that are no header fields
	empty  *string          // the value of the last field, if it has none yet
	size   int              // bytes of names and values
}

func newResponse(status string) *response {
	p := &response{Response: &http.Response{Header: http.Header{}}, names: names{}, lines: map[string][]int{}}
	p.setStatus(status)
	return p
}

// setStatus takes the status of a response, such as "200 OK".
func (p *response) setStatus(status string) {
	p.Status = strings.TrimSpace(status)
	code, _, _ := strings.Cut(p.Status, " ")
	p.StatusCode, _ = strconv.Atoi(code) // 0 if there is none
}

// isHeader reports whether a text is likely to be a header, even if it says nothing
// about limits: there are words before a colon in any text.
func (p *response) isHeader() bool { return p.Status != "" || len(p.Header) > len(p.unread) }

// isInterim reports whether another response follows, RFC 9110 Section 15.2.
func (p *response) isInterim() bool {
	return p.StatusCode/100 == 1 && p.StatusCode != http.StatusSwitchingProtocols
}

// A history holds the last responses of a text.
type history struct {
	kept    []*response
	dropped int
}

// add adds a response, after the last one is complete.
func (h *history) add(p *response) {
	h.trim()
	h.kept = append(h.kept, p)
}

// trim drops what is not looked at.
func (h *history) trim() {
	if n := len(h.kept); n > 0 && h.kept[n-1].isInterim() {
		h.kept = h.kept[:n-1]
	}
	if n := len(h.kept); n > maxResponses {
		h.kept = h.kept[1:]
		h.dropped++
	}
}

func responses(text string) (*history, error) {
	text = strings.TrimPrefix(text, "\ufeff") // a byte order mark
	h := &history{}
	switch start := strings.TrimSpace(text); {
	case strings.HasPrefix(start, "{"):
		if err := h.readHAR(start); err != nil {
			return nil, err
		}
	case strings.HasPrefix(start, "["):
		if err := h.readHAR(`{"headers":` + start + `}`); err != nil {
			return nil, err
		}
	default:
		h.readLines(text)
	}
	h.trim()
	return h, nil
}

// statusLine is that of RFC 9112 Section 4, and curl's of HTTP/2 and HTTP/3.
var statusLine = regexp.MustCompile(`^HTTP/[0-9](?:\.[0-9])? ([0-9]{3}(?: .*)?)$`)

// isVerbose reports whether a text is the output of curl -v: its first status line
// has a mark.
func isVerbose(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, " \t")
		if marked := strings.HasPrefix(line, "< HTTP/"); marked || strings.HasPrefix(line, "HTTP/") {
			return marked
		}
	}
	return false
}

// readLines reads HTTP/1.1 text: responses, or the lines of one header alone.
// Lines that are no header fields do not hide the others.
func (h *history) readLines(text string) {
	verbose := isVerbose(text)
	var p *response
	body := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		if verbose {
			var received bool
			if line, received = strings.CutPrefix(strings.TrimLeft(line, " \t"), "<"); !received {
				continue
			}
		}
		line = strings.Trim(strings.TrimRight(line, "\r\n"), " \t")
		if body && !verbose { // one that ends without a newline
			if at := strings.LastIndex(line, "HTTP/"); at > 0 {
				if _, ok := statusOf(line[at:]); ok {
					line = line[at:]
				}
			}
		}
		switch status, ok := statusOf(line); {
		case ok:
			p, body = newResponse(status), false
			h.add(p)
		case body:
		case line == "":
			body = p != nil
		default:
			if p == nil {
				p = newResponse("")
				h.add(p)
			}
			if !p.addLine(line, number) {
				p.unread = append(p.unread, number)
			}
		}
	}
}

// statusOf returns the status that a line begins a response with.
func statusOf(line string) (status string, ok bool) {
	if !strings.HasPrefix(line, "HTTP/") { // as nearly all lines, for which the expression is slow
		return "", false
	}
	found := statusLine.FindStringSubmatch(line)
	if found == nil {
		return "", false
	}
	return found[1], true
}

// addLine adds a line of a header, and reports whether it can be one.
func (p *response) addLine(line string, number int) bool {
	if pseudo, isPseudo := strings.CutPrefix(line, ":"); isPseudo { // RFC 9113 Section 8.3
		if status, ok := strings.CutPrefix(pseudo, "status:"); ok {
			p.setStatus(status)
		}
		return true
	}
	if name, value, ok := strings.Cut(line, ":"); ok && IsToken(name) {
		p.add(name, value, number)
		return true
	}
	// Some browser tools begin a new line for the value.
	if p.empty != nil {
		p.size += len(line)
		*p.empty, p.empty = line, nil
		return true
	}
	return false
}

// add adds a field. number is that of its line, or 0 if it has none.
func (p *response) add(name, value string, number int) {
	value = strings.Trim(value, " \t")
	p.size += len(name) + len(value)
	if p.size > maxHeader {
		return // it is refused as a whole
	}
	p.names.add(name)
	key := http.CanonicalHeaderKey(name)
	p.Header[key] = append(p.Header[key], value)
	p.lines[key] = append(p.lines[key], number)
	p.empty = nil
	if value == "" {
		p.empty = &p.Header[key][len(p.Header[key])-1]
	}
}
