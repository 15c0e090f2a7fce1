// Package trial is the notation of the tables that the tests of several packages share. It uses no
// types of package ratelimit, so that the tests inside of that package can use it too.
//
// The tables are in wire text:
//
//   - A header is lines of `Name: value`. Spaces before a name have no meaning. See [Wire].
//   - A response is a header, with a status line before it if the status matters. See [ResponseOf].
//   - A case of a table begins with two number signs and its name. See [BlocksOf], [Rows] and
//     [PlainCases].
//   - A point in time in an older response is @unix+60, @ms+60, @http+60 or @rfc+60: a minute after the
//     test reads the table. See [Spell].
package trial

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
	"github.com/stretchr/testify/require"
)

// WrittenOut expands the short form of a response: a status and lines, with bars between them.
func WrittenOut(text string) string {
	lines := strings.Split(text, " | ")
	if status, err := strconv.Atoi(lines[0]); err == nil {
		lines[0] = fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
	}
	return strings.Join(lines, "\n")
}

// Arrival is the time when the responses of the tables arrive.
var Arrival = time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)

// Wire makes a header from lines. Any other line is a mistake in the table.
func Wire(lines string) http.Header {
	h, others := ReadLines(lines)
	allLines(others)
	return h
}

// allLines fails a test if a table has lines that are not fields.
func allLines(others []string) {
	for _, line := range others {
		if line != "" {
			panic("no header line: " + line)
		}
	}
}

// ReadLines makes a header from lines, and returns the lines that are not fields.
func ReadLines(lines string) (h http.Header, others []string) {
	h = http.Header{}
	for line := range strings.Lines(lines) {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t")
		name, value, ok := strings.Cut(line, ":")
		if ok {
			h.Add(name, strings.TrimLeft(value, " "))
		} else {
			others = append(others, line)
		}
	}
	return h, others
}

// ResponseOf makes a response from lines. Any other line is a mistake in the table.
func ResponseOf(text string) *http.Response {
	resp, others := AnyResponse(text)
	allLines(others)
	return resp
}

// AnyResponse makes a response from lines, and returns the lines that are not fields.
func AnyResponse(text string) (resp *http.Response, others []string) {
	resp = &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	if rest, ok := strings.CutPrefix(text, "HTTP/1.1 "); ok {
		var status string
		status, text, _ = strings.Cut(rest, "\n")
		code, _, _ := strings.Cut(status, " ")
		resp.StatusCode, _ = strconv.Atoi(code)
	}
	resp.Header, others = ReadLines(text)
	return resp, others
}

// ReadCapture reads a captured response.
func ReadCapture(t testing.TB, file string) *http.Response {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	resp, err := http.ReadResponse(bufio.NewReader(f), nil)
	require.NoError(t, err)
	return resp
}

// Unrelated has twenty fields of a response that are not about limits.
const Unrelated = `
	Accept-Ranges: bytes
	Access-Control-Allow-Origin: *
	Age: 0
	Alt-Svc: h3=":443"
	Cache-Control: no-store
	Connection: keep-alive
	Content-Encoding: gzip
	Content-Security-Policy: default-src 'none'
	Content-Type: application/json
	Date: Sat, 21 Nov 2026 03:00:00 GMT
	Etag: W/"0123456789abcdef"
	Last-Modified: Mon, 01 Jul 2013 17:27:06 GMT
	Referrer-Policy: no-referrer
	Server: example
	Strict-Transport-Security: max-age=31536000
	Vary: Accept, Accept-Encoding
	X-Content-Type-Options: nosniff
	X-Frame-Options: deny
	X-Request-Id: 0123456789abcdef
	X-Xss-Protection: 0
`

var pointInTime = regexp.MustCompile(`@[a-z]+\+[0-9]+`)

// Spell replaces the points in time in a header. @unix+60, @ms+60, @us+60, @ns+60, @http+60,
// @utc+60, @long+60 (RFC 850) and @rfc+60 are a minute after the second of now.
func Spell(wire string, now time.Time) string {
	forms := map[string]func(t time.Time) string{
		"unix": func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
		"ms":   func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) },
		"us":   func(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) },
		"ns":   func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) },
		"http": func(t time.Time) string { return t.Format(http.TimeFormat) },
		"utc":  func(t time.Time) string { return t.Format(time.RFC1123) },
		"long": func(t time.Time) string { return t.Format("Monday, 02-Jan-06 15:04:05 GMT") },
		"rfc":  func(t time.Time) string { return t.Format(time.RFC3339) },
	}
	return pointInTime.ReplaceAllStringFunc(wire, func(point string) string {
		form, seconds, _ := strings.Cut(point[1:], "+")
		return forms[form](now.Truncate(time.Second).Add(time.Duration(text.ParseDigits(seconds)) * time.Second))
	})
}
