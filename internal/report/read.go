package report

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
)

const maxHeader = 1 << 20 // bytes of names and values

var (
	errHeaderTooLong = errors.New("a header is longer than 1 MiB: remove its response")
	errNoResponse    = errors.New("the text contains no response: give its header lines, the output of curl -i or curl -v, a HAR file, or JSON such as " + exampleJSON)

	errUTF16 = errors.New("the text is UTF-16, as Windows PowerShell writes it: save it as UTF-8")

	// ErrEmpty is the error for a text of no bytes.
	ErrEmpty = errors.New("the text is empty: save the output of curl -i, for example")
)

// Read reports on a response in a text. The text is a response, its header lines alone, the output
// of curl -i, curl -v, wget -S or httpie, a HAR file, or JSON objects with headers. Read chooses the
// last response that announces limits, refuses or asks to wait. If there is none, it chooses the
// last response.
func Read(source string, from io.Reader) (*Report, error) {
	var last *Report
	total, err := reports(source, from, func(number int, r *Report) {
		r.number = number
		if r.Speaks() || last == nil || !last.Speaks() {
			last = r
		}
	})
	if err != nil {
		return nil, err
	}
	last.of = total
	return last, nil
}

// Each calls a function with a report on each response of a text in a form that [Read] accepts. It
// keeps two reports in memory.
func Each(source string, from io.Reader, emit func(*Report)) error {
	var first *Report
	total, err := reports(source, from, func(number int, r *Report) {
		switch number {
		case 1:
			first = r // it has a number if others follow
			return
		case 2:
			first.Number = 1
			emit(first)
		}
		r.Number = number
		emit(r)
	})
	if total == 1 {
		emit(first)
	}
	return err
}

// reports calls a function with the number of each response, from 1, and a report on it. It returns the
// number of responses, and an error if there is none.
func reports(source string, from io.Reader, emit func(number int, r *Report)) (total int, err error) {
	tooLong := false
	err = each(from, func(p *response) {
		if p.size > maxHeader {
			tooLong = true
			return
		}
		r := newReport(source, p)
		if !r.Speaks() && !p.isHeader() {
			return // prose, or a request without an answer
		}
		total++
		emit(total, r)
	})
	switch {
	case err != nil:
		return total, err
	case tooLong:
		return total, errHeaderTooLong
	case total == 0:
		return 0, errNoResponse
	}
	return total, nil
}

// each calls a function for each response of a text, but not for interim ones. It keeps one
// response in memory.
func each(from io.Reader, emit func(*response)) error {
	final := func(p *response) {
		if p != nil && (p.StatusCode/100 != 1 || p.StatusCode == http.StatusSwitchingProtocols) { // RFC 9110 Section 15.2
			emit(p)
		}
	}
	r := bufio.NewReaderSize(from, 1<<16)
	if mark, _ := r.Peek(2); string(mark) == "\xff\xfe" || string(mark) == "\xfe\xff" {
		return errUTF16
	}
	if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark))
	}
	_, err := r.Peek(1)
	start, _ := r.Peek(r.Buffered())
	switch {
	case err == io.EOF:
		return ErrEmpty
	case err != nil:
		return err
	case bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")):
		return readJSON(r, final)
	}
	return readLines(r, final)
}

const byteOrderMark = "\ufeff"

// A response is an http.Response with its place in a text.
type response struct {
	*http.Response
	names  map[string]string // as the text spells them, by key
	lines  map[string][]int  // the numbers of the lines with the values, by key, from 1
	host   string            // "" if it is unknown
	unread int               // the number of lines that are not header fields
	first  int               // the number of the first of these lines
	empty  *string           // the value of the last field, if it has none yet
	size   int               // bytes of names and values
}

// spelled returns the name of a field as the text spells it. The current fields have the names of
// the specification, which errors and findings use too.
func (p *response) spelled(field string) string {
	if name, ok := p.names[field]; ok && !strings.EqualFold(name, ratelimit.LimitField) && !strings.EqualFold(name, ratelimit.PolicyField) {
		return Printable(name)
	}
	return field
}

func newResponse(status string) *response {
	p := &response{Response: &http.Response{Header: http.Header{}}, names: map[string]string{}, lines: map[string][]int{}}
	p.setStatus(status)
	return p
}

// setStatus sets the status of a response, such as "200 OK".
func (p *response) setStatus(status string) {
	p.Status, p.StatusCode = strings.TrimSpace(status), 0
	first, _, _ := strings.Cut(p.Status, " ")
	if code, err := strconv.Atoi(first); err == nil {
		p.StatusCode = code
	}
}

// isHeader reports whether a text without limits is likely to be a header. Other texts may have words
// before a colon too.
func (p *response) isHeader() bool { return p.Status != "" || len(p.Header) > p.unread }

// statusLine matches the status line of RFC 9112 Section 4, and the one that curl prints for HTTP/2
// and HTTP/3.
var statusLine = regexp.MustCompile(`^HTTP/[0-9](?:\.[0-9])? ([0-9]{3}(?: .*)?)$`)

// requestLine matches the request line of RFC 9112 Section 3, and the line that wget prints in its
// place, with the address.
var requestLine = regexp.MustCompile(`^(?:[A-Z]+ [^ ]+ HTTP/[0-9](?:\.[0-9])?|--[0-9][0-9: -]+--  (?:.* )?([^ ]+))$`)

// readLines reads HTTP/1.1 text: responses, or the lines of one header alone. In the output of curl -v,
// the first status line and all lines of responses begin with "<". If no response has begun yet, it
// calls emit with nil.
func readLines(r *bufio.Reader, emit func(*response)) error {
	t := textReader{emit: emit}
	for number := 1; ; number++ {
		line, err := readLine(r)
		switch {
		case err == io.EOF:
			emit(t.response)
			return nil
		case err != nil:
			return err
		}
		if line, received := t.received(line); received {
			t.add(line, number)
		}
	}
}

// A textReader reads the lines of a text with responses.
type textReader struct {
	emit     func(*response)
	response *response // nil if no header has begun
	host     string    // to which curl -v sends the request
	found    bool      // there was a status line
	verbose  bool      // the text is the output of curl -v
	body     bool      // the lines are those of a body, or of a request
}

// received returns the part of a line that was received, and reports whether there is one. It also
// reads what curl -v prints about the request.
func (t *textReader) received(line string) (part string, ok bool) {
	if !t.found && strings.HasPrefix(line, "< HTTP/") {
		t.response, t.verbose = nil, true // the earlier lines describe the connection
	}
	if request, ok := strings.CutPrefix(line, "> "); ok && (t.verbose || !t.found) {
		if host, ok := cutHost(request); ok {
			t.host = host
		}
	}
	if !t.verbose {
		return line, true
	}
	part, ok = strings.CutPrefix(line, "<")
	return strings.TrimLeft(part, " \t"), ok
}

// add adds a line that was received.
func (t *textReader) add(line string, number int) {
	if at := strings.LastIndex(line, "HTTP/"); t.body && !t.verbose && at > 0 && statusLine.MatchString(line[at:]) {
		line = line[at:] // the body ends without a newline
	}
	status := statusLine.FindStringSubmatch(line)
	switch {
	case status != nil:
		t.emit(t.response)
		t.response, t.found, t.body = newResponse(status[1]), true, false
		t.response.host = t.host
	case !t.verbose && t.requested(line):
	case t.body:
	case line == "":
		t.body = t.response != nil
	default:
		t.response = cmp.Or(t.response, newResponse(""))
		t.response.addLine(line, number)
	}
}

// requested reports whether a line belongs to a request. curl -v marks such lines.
func (t *textReader) requested(line string) bool {
	if request := requestLine.FindStringSubmatch(line); request != nil {
		t.emit(t.response)
		t.response, t.host, t.body = nil, hostOf(request[1]), true
		return true
	}
	if t.response != nil || !t.body {
		return false
	}
	if host, ok := cutHost(line); ok {
		t.host = cmp.Or(t.host, host)
	}
	return true
}

// cutHost returns the value of the field Host, and false if the line is another field.
func cutHost(line string) (string, bool) {
	name, host, _ := strings.Cut(line, ":")
	return strings.Trim(host, " \t"), strings.EqualFold(name, "Host")
}

// hostOf returns the host of an address, without its password, or "".
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// readLine returns the next line without the white space around it. It leaves out the middle of a
// line that is longer than a header may be.
func readLine(r *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, more, err := r.ReadLine()
		if len(long) > 2*maxHeader {
			long = long[:maxHeader+1]
		}
		if long = append(long, part...); !more {
			return strings.Trim(string(long), " \t\r"), err
		}
	}
}

// addLine adds a line of a header, or counts it if it is not one.
func (p *response) addLine(line string, number int) {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case ok && name == "": // RFC 9113 Section 8.3
		if status, ok := strings.CutPrefix(value, "status:"); ok {
			p.setStatus(status)
		}
	case ok && text.IsToken(name):
		p.add(name, value, number)
	case p.empty != nil: // some browser tools begin a new line for the value
		p.size += len(line)
		*p.empty, p.empty = line, nil
	default:
		p.first = cmp.Or(p.first, number)
		p.unread++
	}
}

// add adds a field. number is the number of its line, or 0.
func (p *response) add(name, value string, number int) {
	value = strings.Trim(value, " \t")
	p.size += len(name) + len(value)
	if p.size > maxHeader {
		return // the response is refused
	}
	key := http.CanonicalHeaderKey(name)
	p.names[key] = name
	p.Header[key] = append(p.Header[key], value)
	p.lines[key] = append(p.lines[key], number)
	p.empty = nil
	if value == "" {
		p.empty = &p.Header[key][len(p.Header[key])-1]
	}
}
