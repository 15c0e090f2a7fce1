package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/examples/internal/report"
)

const (
	maxPaste     = 1 << 20 // bytes
	maxResponses = 100     // that are looked at, from the last
)

var (
	errTooLong  = errors.New("this is longer than 1 MiB: paste the header alone, or one entry of a HAR file")
	errNoFields = errors.New("there is no header field in this text")
)

// A pasted is a response as far as it was pasted.
type pasted struct {
	*http.Response
	names  report.Names
	unread []int   // numbers of the lines that are no header fields, from 1
	empty  *string // the value of the last field, if it has none yet
}

func newPasted(status string) *pasted {
	p := &pasted{Response: &http.Response{Header: http.Header{}}, names: report.Names{}}
	p.setStatus(status)
	return p
}

// setStatus takes the status of a response, such as "200 OK".
func (p *pasted) setStatus(status string) {
	p.Status = status
	code, _, _ := strings.Cut(status, " ")
	p.StatusCode, _ = strconv.Atoi(code) // 0 if there is none
}

// read finds the response in a text: the last one that says something about
// rate limits, or without such a one the last that has fields.
func read(text string) (*pasted, *report.Report, error) {
	if len(text) > maxPaste {
		return nil, nil, errTooLong
	}
	all, err := responses(text)
	if err != nil {
		return nil, nil, err
	}
	var found *pasted
	var says *report.Report
	for i := len(all) - 1; i >= max(0, len(all)-maxResponses); i-- {
		p := all[i]
		if len(p.Header) == 0 {
			continue
		}
		r := report.New("paste", p.Response, p.names)
		if len(r.Limits) > 0 || len(r.Malformed) > 0 {
			return p, r, nil
		}
		if found == nil {
			found, says = p, r
		}
	}
	if found == nil {
		return nil, nil, errNoFields
	}
	return found, says, nil
}

func responses(text string) ([]*pasted, error) {
	text = strings.TrimPrefix(text, "\ufeff") // a byte order mark
	switch start := strings.TrimSpace(text); {
	case strings.HasPrefix(start, "{"):
		return readHAR(start)
	case strings.HasPrefix(start, "["):
		return readHAR(`{"headers":` + start + `}`)
	}
	return readLines(text), nil
}

// statusLine is that of RFC 9112 Section 4, and curl's of HTTP/2 and HTTP/3.
var statusLine = regexp.MustCompile(`^HTTP/[0-9](?:\.[0-9])? ([0-9]{3}(?: .*)?)$`)

// readLines reads HTTP/1.1 text: responses, or the lines of one header alone.
// Lines that are no header fields do not hide the others.
func readLines(text string) []*pasted {
	verbose := strings.Contains("\n"+text, "\n< HTTP/") // the output of curl -v
	var all []*pasted
	var p *pasted
	body := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		if verbose {
			var received bool
			if line, received = strings.CutPrefix(line, "<"); !received {
				continue
			}
		}
		line = strings.TrimRight(line, "\r\n")
		line = strings.Trim(line, " \t")
		status := statusLine.FindStringSubmatch(line)
		switch {
		case status != nil:
			p, body = newPasted(status[1]), false
			all = append(all, p)
		case body:
		case line == "":
			body = p != nil
		default:
			if p == nil {
				p = newPasted("")
				all = append(all, p)
			}
			if !p.addLine(line) {
				p.unread = append(p.unread, number)
			}
		}
	}
	return all
}

// addLine adds a line of a header, and reports whether it can be one.
func (p *pasted) addLine(line string) bool {
	if pseudo, isPseudo := strings.CutPrefix(line, ":"); isPseudo { // RFC 9113 Section 8.3
		if status, ok := strings.CutPrefix(pseudo, "status:"); ok {
			p.setStatus(strings.TrimSpace(status))
		}
		return true
	}
	if name, value, ok := strings.Cut(line, ":"); ok && isToken(name) {
		p.add(name, value)
		return true
	}
	// Some browser tools begin a new line for the value.
	if p.empty != nil {
		*p.empty, p.empty = line, nil
		return true
	}
	return false
}

func (p *pasted) add(name, value string) {
	p.names.Add(name)
	key := http.CanonicalHeaderKey(name)
	value = strings.Trim(value, " \t")
	p.Header[key] = append(p.Header[key], value)
	p.empty = nil
	if value == "" {
		p.empty = &p.Header[key][len(p.Header[key])-1]
	}
}

// isToken reports whether s can be the name of a field (RFC 9110 Section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// A node is any part of a HAR file that holds a response: the file, one of its
// entries, the response, or its headers alone.
type node struct {
	Log        *struct{ Entries []node }
	Response   *node
	Status     int
	StatusText string
	Headers    []struct{ Name, Value string }
}

func readHAR(text string) ([]*pasted, error) {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return nil, errors.New("this begins like a HAR file, and is none: " + report.Printable(err.Error()))
	}
	return n.responses(nil), nil
}

func (n *node) responses(all []*pasted) []*pasted {
	switch {
	case n.Log != nil:
		for i := range n.Log.Entries {
			all = n.Log.Entries[i].responses(all)
		}
	case n.Response != nil:
		all = n.Response.responses(all)
	default:
		p := newPasted("")
		if n.Status > 0 {
			p.setStatus(strings.TrimSpace(fmt.Sprint(n.Status, " ", n.StatusText)))
		}
		for _, h := range n.Headers {
			if isToken(h.Name) {
				p.add(h.Name, h.Value)
			}
		}
		all = append(all, p)
	}
	return all
}
