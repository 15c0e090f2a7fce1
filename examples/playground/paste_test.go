//go:build !js

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	limitLine = `RateLimit: "a";r=1;t=5`
	xLines    = "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 3\n"
)

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		status string
		want   string // RateLimit
	}{
		"HTTP/1.1":            {"HTTP/1.1 200 OK\r\n" + limitLine + "\r\n\r\nbody: x", "200 OK", `"a";r=1;t=5`},
		"LF alone":            {"HTTP/1.1 200 OK\n" + limitLine, "200 OK", `"a";r=1;t=5`},
		"curl -i of HTTP/2":   {"HTTP/2 429 \r\nratelimit: \"a\";r=1;t=5\r\n", "429", `"a";r=1;t=5`},
		"header lines alone":  {"Date: x\n" + limitLine, "", `"a";r=1;t=5`},
		"blank lines before":  {"\n \n" + limitLine, "", `"a";r=1;t=5`},
		"indented":            {"  HTTP/1.1 200 OK\n  Date: x\n  " + limitLine, "200 OK", `"a";r=1;t=5`},
		"byte order mark":     {"\ufeff" + limitLine, "", `"a";r=1;t=5`},
		"two lines":           {limitLine + "\nRateLimit: \"b\";r=2", "", `"a";r=1;t=5|"b";r=2`},
		"in the body":         {"HTTP/1.1 200 OK\nDate: x\n\n" + limitLine, "200 OK", ""},
		"last of redirects":   {"HTTP/2 301\nRateLimit: \"old\";r=1\n\nHTTP/2 200\n" + limitLine + "\n\n", "200", `"a";r=1;t=5`},
		"last that says":      {"HTTP/2 200\n" + limitLine + "\n\nHTTP/2 204\nDate: x", "200", `"a";r=1;t=5`},
		"interim":             {"HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nDate: x", "200 OK", ""},
		"curl -v":             {"* Host: x\n> GET / HTTP/2\n> RateLimit: no\n< HTTP/2 200 \n< ratelimit: \"a\";r=1;t=5\n< \n{ [5 bytes data]", "200", `"a";r=1;t=5`},
		"curl -v, a body":     {"< HTTP/2 200\n< ratelimit: \"a\";r=1;t=5\n<\nratelimit: x", "200", `"a";r=1;t=5`},
		"pseudo field":        {":status: 429\n" + limitLine, "429", `"a";r=1;t=5`},
		"value on a new line": {"date:\nSat, 21 Nov 2026 02:45:42 GMT\nratelimit:\n\"a\";r=1;t=5\nserver:\nx", "", `"a";r=1;t=5`},
		"empty value":         {"Server:\n" + limitLine, "", `"a";r=1;t=5`},
		"control characters":  {"RateLimit: \"a\x00\x1b\";r=1", "", "\"a\x00\x1b\";r=1"},
		"HAR file":            {`{"log":{"entries":[{"response":{"status":200,"headers":[]}},{"request":{"headers":[{"name":"RateLimit","value":"no"}]},"response":{"status":429,"statusText":"Too Many Requests","headers":[{"name":"ratelimit","value":"\"a\";r=1;t=5"}]}},{"response":{"status":204,"headers":[{"name":"Date","value":"x"}]}}]}}`, "429 Too Many Requests", `"a";r=1;t=5`},
		"HAR entry":           {` {"response":{"status":200,"headers":[{"name":"RateLimit","value":"\"a\";r=1;t=5"}]}}`, "200", `"a";r=1;t=5`},
		"HAR response":        {`{"status":200,"statusText":"","headers":[{"name":"RateLimit","value":"\"a\";r=1;t=5"}]}`, "200", `"a";r=1;t=5`},
		"HAR headers":         {`[{"name":"RateLimit","value":"\"a\";r=1;t=5"},{"name":"no token","value":"x"}]`, "", `"a";r=1;t=5`},
	} {
		t.Run(name, func(t *testing.T) {
			p, r, err := read(test.text)
			require.NoError(t, err)
			require.Equal(t, test.status, r.Status)
			require.Equal(t, test.want, strings.Join(p.Header.Values("RateLimit"), "|"))
			require.Empty(t, p.Header.Values("no token"))
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":         {"", errNoFields.Error()},
		"a status alone":  {"HTTP/1.1 200 OK\r\n\r\n", errNoFields.Error()},
		"prose":           {"Some words.\nMore words.", errNoFields.Error()},
		"a request":       {"> GET / HTTP/1.1", errNoFields.Error()},
		"too long":        {limitLine + strings.Repeat("\n", maxPaste), errTooLong.Error()},
		"no HAR":          {"{\n\"log\": oh no}", "this begins like a HAR file, and is none: invalid character 'o' looking for beginning of value"},
		"a HAR of others": {`{"log":{"entries":[]}}`, errNoFields.Error()},
		"deep":            {strings.Repeat(`{"response":`, 20_000), "this begins like a HAR file, and is none: invalid character '{' exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(test.text)
			require.EqualError(t, err, test.want)
		})
	}
	_, _, err := read(limitLine + strings.Repeat("\n", maxPaste-len(limitLine)))
	require.NoError(t, err)
}

func TestUnread(t *testing.T) {
	p, _, err := read("HTTP/1.1 200 OK\nwhat is this\n" + limitLine + "\n\"more\": 1\n")
	require.NoError(t, err)
	require.Equal(t, []int{2, 4}, p.unread)
}

// Of very many responses the last ones are looked at.
func TestManyResponses(t *testing.T) {
	const response = "HTTP/1.1 200 OK\nServer: x\n"
	says := "HTTP/1.1 429 Too Many Requests\n" + limitLine + "\n"
	for n, want := range map[int]string{maxResponses - 1: "429 Too Many Requests", maxResponses: "200 OK"} {
		_, r, err := read(says + strings.Repeat(response, n))
		require.NoError(t, err)
		require.Equal(t, want, r.Status)
	}
}
