package ratelimit

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The tables of the tests are in wire text. These are their languages:
//
//   - A header is lines of `Name: value`. Spaces before a name have no meaning. See wire.
//   - A response is a header, with a status line before it if the status matters.
//     See responseOf.
//   - A pair of fields is the values of RateLimit-Policy and RateLimit; r=unknown
//     and q=unknown are numbers that only an older response leaves out. See
//     fieldsOf.
//   - A malformed field has a caret before the byte at fault. The fault is `member 2, r: type`.
//     See fieldCase and readFault.
//   - Policies and limits in one line have a bar between them. See pairOf.
//   - A request that passes Middlewares is a scene. See readScene.
//   - A finding is `rule level field item`. See Finding.summary.
//   - A limit of an older response is `name unit: remaining/quota w=window t=reset`, with a dash
//     for an absent number. See vendorLimit.
//   - A point in time in an older response is @unix+60, @ms+60, @http+60 or
//     @rfc+60: a minute after the test reads it. See spell.
//   - A question mark after a dialect means that a unit was guessed. See legacyCase.
//   - Faults of a response are the names of the fields, joined by a comma. See
//     faultsOf.

// arrival is the time when the responses of the tables arrive.
var arrival = time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)

// wire makes a header from lines. Any other line is a mistake in the table.
func wire(lines string) http.Header {
	h, others := readLines(lines)
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

// readLines makes a header from lines, and returns the lines that are not fields.
func readLines(lines string) (h http.Header, others []string) {
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

// responseOf makes a response from lines. Any other line is a mistake in the table.
func responseOf(text string) *http.Response {
	resp, others := anyResponse(text)
	allLines(others)
	return resp
}

// anyResponse makes a response from lines, and returns the lines that are not fields.
func anyResponse(text string) (resp *http.Response, others []string) {
	resp = &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	if rest, ok := strings.CutPrefix(text, "HTTP/1.1 "); ok {
		var status string
		status, text, _ = strings.Cut(rest, "\n")
		code, _, _ := strings.Cut(status, " ")
		resp.StatusCode, _ = strconv.Atoi(code)
	}
	resp.Header, others = readLines(text)
	return resp, others
}

// A plainCase is a case of a table in testdata/fields. The last line has the result after an
// equals sign, or the fault after an exclamation mark.
type plainCase struct {
	name, in, want string
	refused        bool
}

var isVerdict = regexp.MustCompile(`(?m)^[=!]( |$)`)

func plainCases(table string) (cases []plainCase) {
	for _, b := range blocksOf("testdata/fields/" + table + ".txt") {
		text := "\n" + strings.TrimSuffix(b.text, "\n")
		last := strings.LastIndexByte(text, '\n')
		in, verdict := strings.TrimPrefix(text[:last], "\n"), text[last+1:]
		if !isVerdict.MatchString(verdict) || isVerdict.MatchString(in) {
			panic(table + ": " + b.name + ": the expected result is missing or repeated")
		}
		cases = append(cases, plainCase{b.name, in, strings.TrimPrefix(verdict[1:], " "), verdict[0] == '!'})
	}
	return cases
}

// readCapture reads a captured response.
func readCapture(t testing.TB, file string) *http.Response {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	resp, err := http.ReadResponse(bufio.NewReader(f), nil)
	require.NoError(t, err)
	return resp
}

// fieldsOf makes fields from the values of two fields.
func fieldsOf(t testing.TB, policies, limits string) Fields {
	t.Helper()
	const unknown int64 = 123456789012345
	mark := strconv.FormatInt(unknown, 10)
	f, err := Parse(http.Header{
		policyKey: {strings.ReplaceAll(policies, "q=unknown", "q="+mark)},
		limitKey:  {strings.ReplaceAll(limits, "r=unknown", "r="+mark)},
	})
	require.NoError(t, err)
	for i := range f.Policies {
		if f.Policies[i].Quota == unknown {
			f.Policies[i].Quota = Unknown
		}
	}
	for i := range f.Limits {
		if f.Limits[i].Remaining == unknown {
			f.Limits[i].Remaining = Unknown
		}
	}
	return f
}

// faultsOf returns the names of the fields in an error.
func faultsOf(t testing.TB, err error) string {
	t.Helper()
	var names []string
	for _, e := range requireFieldErrors(t, err) {
		names = append(names, e.Field)
	}
	return strings.Join(names, ", ")
}

// requireFieldErrors returns the errors that an error joins, or nil.
func requireFieldErrors(t testing.TB, err error) (list []*FieldError) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%T", err)
	for _, err := range joined.Unwrap() {
		list = append(list, requireFieldError(t, err))
	}
	return list
}

func requireFieldError(t testing.TB, err error) *FieldError {
	t.Helper()
	var e *FieldError
	require.True(t, errors.As(err, &e), "%T", err)
	return e
}

// mustDialect returns a dialect with valid fields.
func mustDialect(name string, fields ...DialectField) *Dialect {
	d, err := NewDialect(name, fields...)
	if err != nil {
		panic(err)
	}
	return d
}

// inBubble is t.Run in virtual time.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// requireAllocs fails if a call of f makes another number of allocations than wanted.
func requireAllocs(t *testing.T, want int, f func()) {
	t.Helper()
	require.Equal(t, float64(want), testing.AllocsPerRun(100, f))
}

// allocated returns how many bytes f allocates, garbage included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// unrelated has twenty fields of a response that are not about limits.
const unrelated = `
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

// released reports whether this is the released module, which has no nested modules such as
// examples/server.
func released(t testing.TB) bool {
	t.Helper()
	_, err := os.Stat(".git")
	if err != nil {
		t.Log("nested modules are not part of a release, and not looked at")
	}
	return err != nil
}

// requireText compares long texts, and shows the first lines that differ.
func requireText(t testing.TB, want, got, hint string) {
	t.Helper()
	if want == got {
		return
	}
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(wants), len(gots)) && wants[first] == gots[first] {
		first++
	}
	few := func(lines []string) string {
		return strings.Join(lines[first:min(first+3, len(lines))], "\n")
	}
	require.Fail(t, "line "+strconv.Itoa(first+1)+" differs", "want:\n%s\ngot:\n%s\n%s", few(wants), few(gots), hint)
}
