package report

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	limitLine = `RateLimit: "a";r=1;t=5`
	xLines    = "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 3\n"
)

// readText reads a text.
func readText(source, text string) (*Report, error) { return Read(source, strings.NewReader(text)) }

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		status string
		want   string // RateLimit
	}{
		"HTTP/1.1":              {"HTTP/1.1 200 OK\r\n" + limitLine + "\r\n\r\nbody: x", "200 OK", `"a";r=1;t=5`},
		"LF alone":              {"HTTP/1.1 200 OK\n" + limitLine, "200 OK", `"a";r=1;t=5`},
		"curl -i of HTTP/2":     {"HTTP/2 429 \r\nratelimit: \"a\";r=1;t=5\r\n", "429", `"a";r=1;t=5`},
		"header lines alone":    {"Date: x\n" + limitLine, "", `"a";r=1;t=5`},
		"blank lines before":    {"\n \n" + limitLine, "", `"a";r=1;t=5`},
		"indented":              {"  HTTP/1.1 200 OK\n  Date: x\n  " + limitLine, "200 OK", `"a";r=1;t=5`},
		"byte order mark":       {"\ufeff" + limitLine, "", `"a";r=1;t=5`},
		"two lines":             {limitLine + "\nRateLimit: \"b\";r=2", "", `"a";r=1;t=5|"b";r=2`},
		"in the body":           {"HTTP/1.1 200 OK\nDate: x\n\n" + limitLine, "200 OK", ""},
		"curl -i of HTTP/3":     {"HTTP/3 200\n" + limitLine, "200", `"a";r=1;t=5`},
		"last of redirects":     {"HTTP/2 301\nRateLimit: \"old\";r=1\n\nHTTP/2 200\n" + limitLine + "\n\n", "200", `"a";r=1;t=5`},
		"the last with limits":  {"HTTP/2 200\n" + limitLine + "\n\nHTTP/2 204\nDate: x", "200", `"a";r=1;t=5`},
		"interim":               {"HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nDate: x", "200 OK", ""},
		"curl -v":               {"* Host: x\n> GET / HTTP/2\n> RateLimit: no\n< HTTP/2 200 \n< ratelimit: \"a\";r=1;t=5\n< \n{ [5 bytes data]", "200", `"a";r=1;t=5`},
		"curl -v, indented":     {"  > GET / HTTP/2\n  < HTTP/2 200\n  < ratelimit: \"a\";r=1;t=5\n  <\n  ratelimit: x", "200", `"a";r=1;t=5`},
		"curl -v, a body":       {"< HTTP/2 200\n< ratelimit: \"a\";r=1;t=5\n<\nratelimit: x", "200", `"a";r=1;t=5`},
		"curl -v, tabs":         {"\t> GET / HTTP/2\n\t< HTTP/2 200\n\t< ratelimit: \"a\";r=1;t=5\n", "200", `"a";r=1;t=5`},
		"the last that asks":    {"HTTP/1.1 302 Found\nRetry-After: 5\n\nHTTP/1.1 204 x\nDate: x", "302 Found", ""},
		"the last that refuses": {"HTTP/1.1 429 Too Many Requests\r\n\r\nHTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "429 Too Many Requests", ""},
		"the last, malformed":   {"HTTP/1.1 200 OK\nRateLimit: \"a\";r=x\n\nHTTP/1.1 204 x\nDate: x", "200 OK", `"a";r=x`},
		"pseudo field":          {":status: 429\n" + limitLine, "429", `"a";r=1;t=5`},
		"value on a new line":   {"date:\nSat, 21 Nov 2026 02:45:42 GMT\nratelimit:\n\"a\";r=1;t=5\nserver:\nx", "", `"a";r=1;t=5`},
		"empty value":           {"Server:\n" + limitLine, "", `"a";r=1;t=5`},
		"control characters":    {"RateLimit: \"a\x00\x1b\";r=1", "", "\"a\x00\x1b\";r=1"},
		"HAR file":              {`{"log":{"entries":[{"response":{"status":200,"headers":[]}},{"request":{"headers":[{"name":"RateLimit","value":"no"}]},"response":{"status":429,"statusText":"Too Many Requests","headers":[{"name":"ratelimit","value":"\"a\";r=1;t=5"}]}},{"response":{"status":204,"headers":[{"name":"Date","value":"x"}]}}]}}`, "429 Too Many Requests", `"a";r=1;t=5`},
		"HAR entry":             {` {"response":{"status":200,"headers":[{"name":"RateLimit","value":"\"a\";r=1;t=5"}]}}`, "200", `"a";r=1;t=5`},
		"JSON":                  {`{"status":429,"headers":{"Date":"x","ratelimit":"\"a\";r=1;t=5"}}`, "429", `"a";r=1;t=5`},
		"JSON, no answer":       {`{"status":0,"headers":{"Date":"x"}}`, "", ""},
		"JSON, a status text":   {`{"status":429,"statusText":"Too Many","headers":{"RateLimit":"\"a\";r=1;t=5"}}`, "429 Too Many", `"a";r=1;t=5`},
		"JSON, lists":           {`{"Status":"429 Too Many","Headers":{"Date":["x"],"Ratelimit":["\"a\";r=1;t=5","\"b\";r=2"],"X":null}}`, "429 Too Many", `"a";r=1;t=5|"b";r=2`},
		"JSON, spelled twice":   {`{"headers":{"RateLimit":"\"a\";r=1;t=5","ratelimit":"\"b\";r=2"}}`, "", `"a";r=1;t=5|"b";r=2`},
		"JSON, a response":      {`{"time":"x","request":"GET /","response":{"status":"503","headers":{"RateLimit":"\"a\";r=1;t=5"}}}`, "503", `"a";r=1;t=5`},
		"JSON, a body":          {`{"log":{"level":"info"},"status":200,"headers":{"RateLimit":"\"a\";r=1;t=5"},"response":"{}","statusText":5}`, "200", `"a";r=1;t=5`},
		"JSON lines":            {"{\"status\":200,\"headers\":{\"RateLimit\":\"x\"}}\n\n{\"level\":\"info\",\"message\":\"started\"}\n{\"status\":429,\"headers\":{\"RateLimit\":\"\\\"a\\\";r=1;t=5\"}}\n{\"status\":204,\"headers\":{}}\n", "429", `"a";r=1;t=5`},
		"curl's header_json":    {"{\"server\":[\"x\"],\n\"date\":[\"Sat, 28 Nov 2026 14:16:29 GMT\"],\n\"status\":[\"200 OK\"],\n\"ratelimit\":[\"\\\"a\\\";r=1;t=5\"]\n}", "", `"a";r=1;t=5`},
		"JSON, no Date":         {`{"ratelimit":"\"a\";r=1;t=5","server":"x"}`, "", `"a";r=1;t=5`},
		"JSON, a Date alone":    {`{"date":"Sat, 28 Nov 2026 14:16:29 GMT"}`, "", ""},
		"HAR response":          {`{"status":200,"statusText":"","headers":[{"name":"RateLimit","value":"\"a\";r=1;t=5"}]}`, "200", `"a";r=1;t=5`},
		"switched protocols":    {"HTTP/1.1 101 Switching Protocols\n" + limitLine + "\n\nHTTP/1.1 200 OK\nDate: x", "101 Switching Protocols", `"a";r=1;t=5`},
		"a status alone":        {"HTTP/1.1 200 OK\n\n", "200 OK", ""},
		"no limits":             {"Date: x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readText("paste", test.text)
			require.NoError(t, err)
			require.Equal(t, test.status, r.Status)
			require.Equal(t, test.want, strings.Join(r.response.Header.Values("RateLimit"), "|"))
			require.Empty(t, r.response.Header.Values("no token"))
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no text":         {"", ErrEmpty.Error()},
		"prose":           {"Some words.\nMore words.", errNoResponse.Error()},
		"prose, a colon":  {"Some words.\nNote: more words.\nAnd more.", errNoResponse.Error()},
		"a program":       {"package main\n\nfunc main() {\n\tdefault:\n}\n", errNoResponse.Error()},
		"as many others":  {"Some words.\nNote: more words.", errNoResponse.Error()},
		"a request":       {"> GET / HTTP/1.1", errNoResponse.Error()},
		"UTF-16":          {"\xff\xfeH\x00T\x00T\x00P\x00", errUTF16.Error()},
		"UTF-16, swapped": {"\xfe\xff\x00H\x00T\x00T\x00P", errUTF16.Error()},
		"interim alone":   {"HTTP/1.1 103 Early Hints\r\n\r\n", errNoResponse.Error()},
		"no JSON":         {"{\n\"log\": oh no}", "JSON object 1 is malformed (invalid character 'o' looking for beginning of value): write one whole object a line"},
		"after an object": {`{"headers":{"Date":"x"}} }`, "JSON object 2 is malformed (invalid character '}' looking for beginning of value): write one whole object a line"},
		"an array":        {`{"headers":{"Date":"x"}} []`, "JSON object 2 is not an object: write one such as " + exampleJSON},
		"after a HAR":     {`{"log":{"entries":[{}]}} []`, "JSON object 2 is not an object: write one such as " + exampleJSON},
		"cut off":         {`{"headers":{"Date":"x"}}{"headers":`, "JSON object 2 ends too early: save the whole text"},
		"an entry cut":    {`{"log":{"entries":[{},{"response":{}`, "entry 2 of log.entries ends too early: save the whole text"},
		"no entries":      {`{"log":{"version":"1.2"}}`, `JSON object 1 has no "log.entries": save a HAR file with entries`},
		"entries, {}":     {`{"log":{"entries":{}}}`, `JSON object 1 has no "log.entries": save a HAR file with entries`},
		"a log, []":       {`{"log":[]}`, `JSON object 1 has no "log.entries": save a HAR file with entries`},
		"a log, text":     {`{"log":"HTTP/1.1 200 OK","stream":"stdout"}`, `JSON object 1 has no "log.entries": save a HAR file with entries`},
		"a HAR of others": {`{"log":{"entries":[]}}`, `JSON object 1 has an empty "log.entries": record a request, and save the HAR file again`},
		"entries, null":   {`{"log":{"entries":null}}`, `JSON object 1 has an empty "log.entries": record a request, and save the HAR file again`},
		"no answer":       {`{"log":{"entries":[{"request":{}}]}}`, errNoResponse.Error()},
		"no entry":        {`{"log":{"entries":[{},5]}}`, "entry 2 of log.entries is not an object: write one such as " + exampleJSON},
		"no response":     {`{"log":{"entries":[{"response":"x"}]}}`, `entry 1 of log.entries has a "response" of the wrong type: write an object such as ` + exampleJSON},
		"no status":       {`{"status":"soon","headers":{}}`, `JSON object 1 has a "status" that is not a number: write one such as 200`},
		"a long status":   {`{"status":99999999999999999999,"headers":{"Retry-After":"5"}}`, `JSON object 1 has a "status" that is not a number: write one such as 200`},
		"an entry's":      {`{"log":{"entries":[{"response":{"status":[]}}]}}`, `entry 1 of log.entries has a "status" that is not a number: write one such as 200`},
		"no headers":      {`{"status":200,"message":"ok"}`, `JSON object 1 has no "headers": write an object such as ` + exampleJSON},
		"headers, null":   {`{"status":200,"headers":null}`, `JSON object 1 has no "headers": write an object such as ` + exampleJSON},
		"no response's":   {`{"response":{"status":200}}`, `JSON object 1 has no "headers": write an object such as ` + exampleJSON},
		"nothing":         {`{}`, `JSON object 1 has no "headers": write an object such as ` + exampleJSON},
		"a log line":      {`{"level":"info","message":"started"}`, `JSON object 1 has no "headers": write an object such as ` + exampleJSON},
		"headers, a text": {`{"headers":"RateLimit: x"}`, `JSON object 1 has "headers" that are neither an object nor a list of names and values: write {"RateLimit":"..."}`},
		"headers, a list": {`{"headers":["x"]}`, `JSON object 1 has "headers" that are neither an object nor a list of names and values: write {"RateLimit":"..."}`},
		"a number":        {`{"headers":{"X-RateLimit-Limit":5}}`, `JSON object 1 has "X-RateLimit-Limit" in "headers", which is neither a string nor a list of strings: write its value in quotes`},
		"in a list":       {`{"headers":{"X":["a",{}]}}`, `JSON object 1 has "X" in "headers", which is neither a string nor a list of strings: write its value in quotes`},
		"true":            {`{"headers":{"\u001b[2J":true}}`, `JSON object 1 has "\x1b[2J" in "headers", which is neither a string nor a list of strings: write its value in quotes`},
		"deep":            {strings.Repeat(`{"response":`, 20_000), "JSON object 1 is malformed (invalid character '{' exceeded max depth): write one whole object a line"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readText("paste", test.text)
			require.EqualError(t, err, test.want)
			require.Nil(t, r)
		})
	}
}

// A header may have up to 1 MiB of names and values, at any place.
func TestHeaderTooLong(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n-len("RateLimit")-len(`"a";r=1;t=5`)-1) }
	for name, write := range map[string]func(value string) string{
		"a line":   func(v string) string { return limitLine + "\nX: " + v },
		"response": func(v string) string { return "HTTP/1.1 200 OK\n" + limitLine + "\nX: " + v + "\n\n" },
		"new line": func(v string) string { return limitLine + "\nX:\n" + v },
		"JSON": func(v string) string {
			return `{"headers":{"RateLimit":"\"a\";r=1;t=5","X":["` + v + `"]}}`
		},
		"HAR": func(v string) string {
			return `{"headers":[{"name":"RateLimit","value":"\"a\";r=1;t=5"},{"name":"X","value":"` + v + `"}]}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readText("paste", write(long(maxHeader)))
			require.NoError(t, err)
			require.Len(t, r.Limits, 1)
			require.Equal(t, long(maxHeader), r.response.Header.Get("X"))
			_, err = readText("paste", write(long(maxHeader+1)))
			require.ErrorIs(t, err, errHeaderTooLong)
		})
	}
	_, err := readText("paste", `{"headers":[{"name":"X","value":"`+strings.Repeat("x", maxHeader-1)+`"},{"name":"Y","value":""}]}`)
	require.ErrorIs(t, err, errHeaderTooLong)
	// A body may have any length.
	r, err := readText("paste", "HTTP/1.1 200 OK\n"+limitLine+"\n\n"+strings.Repeat("x\n", maxHeader))
	require.NoError(t, err)
	require.Len(t, r.Limits, 1)
}

// A status line is found at the end of a long body without a newline, at any offset of the
// read buffer.
func TestLongBody(t *testing.T) {
	const buffer = 1 << 16
	for n := range 16 {
		r, err := readText("paste", "HTTP/1.1 200 OK\n\n"+strings.Repeat("x", 2*maxHeader+2*buffer-n)+"HTTP/1.1 429 x\n"+limitLine)
		require.NoError(t, err)
		require.Equal(t, "429 x", r.Status, n)
		require.Equal(t, 2, r.of)
	}
}

// An endless line takes little memory.
func TestLongLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Read("paste", io.MultiReader(strings.NewReader(limitLine+"\n\n"), io.LimitReader(letters{}, 64<<20)))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, r.Limits, 1)
	require.Less(t, after.TotalAlloc, before.TotalAlloc+24<<20)
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestUnread(t *testing.T) {
	for text, want := range map[string]string{
		"HTTP/1.1 200 OK\n" + limitLine:                                   "",
		"HTTP/1.1 200 OK\nServer:\n" + limitLine + "\nwhat is this":       "Lines of the text that are not header fields: 1, the first is line 4.",
		"HTTP/1.1 200 OK\nwhat is this\n" + limitLine:                     "Lines of the text that are not header fields: 1, the first is line 2.",
		"HTTP/1.1 200 OK\nwhat is this\n" + limitLine + "\n\"more\": 1\n": "Lines of the text that are not header fields: 2, the first is line 2.",
	} {
		r, err := readText("paste", text)
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(r.Notes(), "|"))
	}
}

// Requests, what wget prints around responses, and prose are no responses. They contain the host.
func TestOnlyResponses(t *testing.T) {
	const wget = `--2026-11-28 14:16:28--  http://127.0.0.1:8080/r
Connecting to 127.0.0.1:8080... connected.
HTTP request sent, awaiting response... 
  HTTP/1.1 302 Found
  Server: x
  Location: /x
Location: /x [following]
--2026-11-28 14:16:28--  http://b.example/x
Reusing existing connection to b.example.
HTTP request sent, awaiting response... 
  HTTP/1.1 200 OK
  RateLimit: "a";r=1;t=5
Length: 8
Saving to: 'STDOUT'

     0K                                                       100% 45.7 =0.2s

2026-11-28 14:16:29 (45.7 B/s) - 'STDOUT' saved [8/8]
`
	const request = "POST /v1/items?page=2 HTTP/1.1\nHost: a.example\nRateLimit: \"no\";r=0;t=9\nX-Key: y\n"
	for name, test := range map[string]struct {
		text  string
		of    int
		hosts string
	}{
		"a request before":     {request + "\nHTTP/1.1 200 OK\n" + limitLine, 1, "a.example 1"},
		"with a body":          {request + "\n{\"x\":1}\nHost: b.example\n\nHTTP/1.1 200 OK\n" + limitLine, 1, "a.example 1"},
		"a body without end":   {request + "\n{\"x\":1}HTTP/1.1 200 OK\n" + limitLine, 1, "a.example 1"},
		"HTTP/2":               {"GET / HTTP/2\nHost: a.example\n\nHTTP/2 200\n" + limitLine, 1, "a.example 1"},
		"without a blank line": {"HTTP/1.1 200 OK\n" + limitLine + "\nGET / HTTP/1.1\nX-Key: y\nHost: a.example\n", 1, " 1"},
		"among responses":      {request + "\nHTTP/1.1 200 OK\nAge: 0\n\n{}\n" + strings.Replace(request, "a.", "b.", 1) + "\nHTTP/1.1 429 x\n" + limitLine, 2, "b.example 1, a.example 1"},
		"at the end":           {"HTTP/1.1 200 OK\n" + limitLine + "\n\nbody\n" + request, 1, " 1"},
		"wget":                 {wget, 2, "127.0.0.1:8080 1, b.example 1"},
		"wget, tried again":    {"--2026-11-28 14:16:28--  (try: 2)  https://a.example/\nConnecting: x\n  HTTP/1.1 200 OK\n  " + limitLine, 1, "a.example 1"},
		"wget, a secret":       {"--2026-11-28 14:16:28--  https://user:hunter2@a.example/?key=s3cret\n  HTTP/1.1 200 OK\n  " + limitLine, 1, "a.example 1"},
		"prose before":         {"My server sends this.\nWhy?\n\nHTTP/1.1 200 OK\n" + limitLine, 1, " 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readText("paste", test.text)
			require.NoError(t, err)
			require.Equal(t, []any{test.of, test.of}, []any{r.number, r.of})
			require.Equal(t, "a", r.Limits[0].Name)
			hosts := Hosts{}
			require.NoError(t, hosts.Read(strings.NewReader(test.text)))
			var got []string
			for _, host := range hosts.list() {
				got = append(got, fmt.Sprint(host.Name, " ", host.Requests))
			}
			require.Equal(t, test.hosts, strings.Join(got, ", "))
		})
	}
	_, err := readText("paste", request+"\n")
	require.ErrorIs(t, err, errNoResponse)
}

// The last response with rate limits is found, however many others follow.
func TestManyResponses(t *testing.T) {
	const response = "HTTP/1.1 200 OK\nServer: x\n"
	says := "HTTP/1.1 429 Too Many Requests\n" + limitLine + "\n"
	for _, n := range []int{1, 1000} {
		r, err := readText("paste", says+strings.Repeat(response, n))
		require.NoError(t, err)
		require.Equal(t, "429 Too Many Requests", r.Status)
	}
	const entry = `{"response":{"status":200,"headers":[{"name":"Server","value":"x"}]}},`
	r, err := readText("paste", `{"log":{"entries":[`+strings.Repeat(entry, 350)+`{"response":{"status":429,"headers":[]}},`+strings.Repeat(entry, 98)+`{}]}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"Of 449 responses this is number 351, the last one with rate limits."}, r.Notes())
	r, err = readText("paste", strings.Repeat(response, 150)+says+response)
	require.NoError(t, err)
	require.Equal(t, []string{"Of 152 responses this is number 151, the last one with rate limits."}, r.Notes())
	r, err = readText("paste", response+response)
	require.NoError(t, err)
	require.Equal(t, []string{"Of 2 responses this is number 2, the last one."}, r.Notes())
}

// A malformed field and the rule that it breaks are one fault. The most severe faults come
// first.
func TestFaults(t *testing.T) {
	for text, want := range map[string][]string{
		"HTTP/1.1 200 OK\nX-RateLimit-Remaining: 2 of 5\nRateLimit-Policy: \"a\";q=5;w=60, \"a, b\";q=1;w=0\nRateLimit: \"a\";r=1;t=5, \"c\";r=x\nRetry-After: soon": {
			"must L5 member 2 of RateLimit 4:19 parameter r: wrong type, it must be an Integer from 0 to 999999999999999", "malformed  X-RateLimit-Remaining 2:0 not well-formed",
			"must P16 member 2 of RateLimit-Policy 3:27 ", "must 9110-10.2.3 Retry-After 5:0 ",
		},
		`{"status":429,"headers":[{"name":"RateLimit","value":"\"a\";r=x"}]}`: {
			"must L5 member 1 of RateLimit 0:6 parameter r: wrong type, it must be an Integer from 0 to 999999999999999",
		},
		"HTTP/1.1 200 OK\nAge: 5\nRateLimit-Policy: \"a\";q=5;w=60;acme\nRateLimit: \"a\";r=0;t=5\nRetry-After: soon": {
			"must 9110-10.2.3 Retry-After 5:0 ", "should P11 member 1 of RateLimit-Policy 3:0 ", "note K1 RateLimit-Policy 3:0 ", "note K1 RateLimit 4:0 ",
		},
		`RateLimit-Policy: "a";q=5;w=60, "b";q=1;qu="points"`:                                    {"should P15 member 2 of RateLimit-Policy 1:14 "},
		"RateLimit-Policy: \"a\";q=5\nServer: x\nRateLimit-Policy: \"b\";q=5;w=60;qu=\"points\"": {"should P15 member 2 of RateLimit-Policy 3:0 "},
	} {
		r, err := readText("paste", text)
		require.NoError(t, err)
		r.Check()
		var got []string
		for _, f := range r.Faults() {
			got = append(got, fmt.Sprintf("%s %s %s %d:%d %s", f.Level, f.Rule, f.Place, f.Line, f.Offset, f.Cause))
		}
		require.Equal(t, want, got)
	}
}

// Each response has a number if there are several, also of those that are no header.
func TestEach(t *testing.T) {
	const one, two = "HTTP/1.1 200 OK\n" + limitLine + "\n\n", "HTTP/1.1 429 x\n\n"
	for text, want := range map[string]string{
		one:             "0 200 OK",
		one + two:       "1 200 OK|2 429 x",
		two + one + two: "1 429 x|2 200 OK|3 429 x",
		"GET / HTTP/1.1\n\n" + one + "HTTP/1.1 103 x\n\n":                 "0 200 OK",
		`{"status":200,"headers":{}} {"x":1} {"status":429,"headers":{}}`: "1 200|2 429",
	} {
		var got []string
		err := Each("paste", strings.NewReader(text), func(r *Report) {
			require.Equal(t, "paste", r.Source)
			require.Empty(t, r.Notes())
			got = append(got, fmt.Sprint(r.Number, " ", r.Status))
		})
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(got, "|"))
	}
	// The responses before an error are reported.
	for text, want := range map[string]error{"prose": errNoResponse, `{"headers":{"date":"x"}}{"headers":{"date":"x"}}{`: errCutOff, one + one + "HTTP/1.1 200 OK\nX: " + strings.Repeat("x", maxHeader) + "\n": errHeaderTooLong} {
		n := 0
		require.ErrorIs(t, Each("paste", strings.NewReader(text), func(*Report) { n++ }), want)
		require.Equal(t, want != errNoResponse, n == 2, text[:5])
	}
}

// FuzzRead checks that any text is read or refused, within bounds, and with a result in
// printable ASCII.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", "{", "[]", limitLine, "< HTTP/2 200\n< " + limitLine, "RateLimit:\n\"a\";r=0;t=999999999999999", ":status: 429\n:",
		`{"log":{"entries":[{"response":{"status":429,"headers":[{"name":"RateLimit","value":"x"}]}}]}}`, `{"status":"429 x","headers":{"RateLimit":["x",null]}} {"date":""}`,
		"GET / HTTP/1.1\nHost: x\n\nHTTP/1.1 200 OK\n\n--2026-11-28 14:16:28--  http://a/\n", "RateLimit: \"\u202e\xff\";r=1",
		"HTTP/1.1 200 OK\nRateLimit-Policy: \"a\";q=1, \"a\\\",\";q=2, x\nRateLimit: \"a\";r=9, ,\nRetry-After: soon\n\nHTTP/1.1 103 x\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readText("fuzz", text)
		if err != nil {
			require.Nil(t, r)
			return
		}
		var all []*Report
		require.NoError(t, Each("fuzz", strings.NewReader(text), func(r *Report) { all = append(all, r) }))
		require.Len(t, all, r.of)
		require.Len(t, all[r.number-1].Limits, len(r.Limits))
		r.Check()
		lines := strings.Count(text, "\n") + 1
		shown := []string{r.Heading(), r.Advice.String()}
		shown = append(shown, r.Notes()...)
		for _, fault := range r.Faults() {
			require.LessOrEqual(t, fault.Offset, len(fault.Value))
			require.LessOrEqual(t, fault.Line, lines)
			shown = append(shown, fault.Place, fault.Cause, fault.Remedy)
			if fault.Offset >= 0 {
				excerpt, _ := Excerpt(fault.Value, fault.Offset, 70)
				shown = append(shown, excerpt)
			}
		}
		for _, s := range shown {
			require.Equal(t, Printable(s), s)
		}
		require.NoError(t, WriteJSON(io.Discard, r))
	})
}
