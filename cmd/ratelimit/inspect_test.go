package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

const wire = "../../testdata/wire/"

// inspecting runs the verb with a standard input.
func inspecting(stdin string, args ...string) (status int, stdout, stderr string) {
	return running(stdin, append([]string{"inspect"}, args...)...)
}

// response returns a raw response with these field lines.
func response(lines ...string) string {
	return "HTTP/1.1 200 OK\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

// heading is the first line about a response.
const heading = "<stdin>: 200 OK, current form (draft-08 to draft-11)\n"

func TestGolden(t *testing.T) {
	files, err := filepath.Glob(wire + "*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i := range files {
		files[i] = filepath.ToSlash(files[i])
	}
	for golden, args := range map[string][]string{
		"testdata/wire.txt":  files,
		"testdata/wire.json": append([]string{"-json"}, files...),
		"testdata/lint.txt":  append([]string{"-lint"}, files...),
	} {
		t.Run(golden, func(t *testing.T) {
			status, stdout, stderr := inspecting("", args...)
			require.Equal(t, exitDoubtful, status)
			require.Empty(t, stderr)
			trial.RequireGolden(t, golden, stdout)
		})
	}
}

func TestExitStatus(t *testing.T) {
	const (
		found   = wire + "express-draft-8-1.http"
		nothing = "testdata/nothing.http"
		missing = "testdata/missing.http"
	)
	for name, test := range map[string]struct {
		args  []string
		stdin string
		want  int
	}{
		"found":                             {args: []string{found}, want: 0},
		"two rows":                          {args: []string{wire + "express-draft-8-two-1.http"}, want: 0},
		"unescaped":                         {args: []string{wire + "express-draft-8-unescaped-1.http"}, want: 1},
		"an older draft":                    {args: []string{wire + "hono-draft-7-1.http"}, want: 0},
		"guessed":                           {args: []string{wire + "go-httprate-1.http"}, want: 0},
		"malformed":                         {stdin: response(`RateLimit: "a";r=-1`), want: 1},
		"an older draft, malformed in part": {stdin: response("X-RateLimit-Limit: 5", "X-RateLimit-Remaining: x"), want: 1},
		"nothing found":                     {args: []string{nothing}, want: 1},
		"malformed in part":                 {stdin: response(`RateLimit: "a";r=1`, `RateLimit-Policy: a`), want: 1},
		"blank":                             {stdin: response(`RateLimit: `), want: 1},
		"missing file":                      {args: []string{missing}, want: 2},
		"folder":                            {args: []string{"testdata"}, want: 2},
		"not HTTP":                          {args: []string{"main.go"}, want: 2},
		"empty":                             {stdin: "", want: 2},
		"header without its end":            {stdin: "HTTP/1.1 200 OK\r\nRateLimit: \"a\";r=1", want: 0},
		"header lines alone":                {stdin: "RateLimit: \"a\";r=1", want: 0},
		"bare 429":                          {stdin: "HTTP/1.1 429 Too Many Requests\r\n\r\n", want: 1},
		"bare 429 with a wait":              {stdin: "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 9\r\n\r\n", want: 1},
		"a flag after an input":             {args: []string{found, "-lint"}, want: 0},
		"-last alone":                       {args: []string{"-last", found}, want: 2},
		"Retry-After alone, ignored":        {stdin: "HTTP/1.1 200 OK\r\nRetry-After: 9\r\n\r\n", want: 1},
		"read leniently":                    {stdin: response("RateLimit: burst;r=5"), want: 0},
		"read leniently, with -lint":        {args: []string{"-lint"}, stdin: response("RateLimit: burst;r=5"), want: 1},
		"bad flag":                          {args: []string{"-yaml", found}, want: 2},
		"help":                              {args: []string{"-h"}, want: 0},
		"interim alone":                     {stdin: "HTTP/1.1 103 Early Hints\r\n\r\n", want: 2},
		"protocol switched":                 {stdin: "HTTP/1.1 101 Switching Protocols\r\n\r\n", want: 1},
		"bad address":                       {args: []string{"http://[::1"}, want: 2},
		"found twice":                       {args: []string{found, found}, want: 0},
		"highest is 1st":                    {args: []string{nothing, found}, want: 1},
		"highest is 2nd":                    {args: []string{found, nothing}, want: 1},
		"highest is 2":                      {args: []string{missing, nothing, found}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := inspecting(test.stdin, test.args...)
			require.Equal(t, test.want, status)
			require.Equal(t, test.want == 2, stderr != "")

			status, _, _ = inspecting(test.stdin, append([]string{"-json"}, test.args...)...)
			require.Equal(t, test.want, status)
		})
	}
}

func TestTable(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"two limits": {
			[]string{`RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400`, `RateLimit: "burst";r=37;t=12, "daily";r=990;t=80000`},
			`
NAME     PARTITION KEY  REMAINING                 UNIT      WINDOW  RESET
"burst"  -              [###-------] 37 of 100    requests  1m      12s
"daily"  -              [#########-] 990 of 1000  requests  1d      22h13m20s
Go on. To make the quota last, leave 1m21s between requests.
`,
		},
		"policy without limit": {
			[]string{`RateLimit-Policy: "p";q=100;qu="content-bytes";w=61;pk=:YQ==:`},
			`
NAME  PARTITION KEY  REMAINING               UNIT           WINDOW  RESET
"p"   :YQ==:                      quota 100  content-bytes  1m1s    -
`,
		},
		"limits first": {
			[]string{`RateLimit-Policy: "a";q=1, "b";q=2`, `RateLimit: "b";r=1, "c";r=3`},
			`
NAME  PARTITION KEY  REMAINING             UNIT      WINDOW  RESET
"b"   -              [#####-----] 1 of 2   requests  -       -
"c"   -                           3 left   -         -       -
"a"   -                           quota 1  requests  -       -
`,
		},
		"a policy for each partition": {
			[]string{`RateLimit-Policy: "a";q=1, "a";q=2;pk=::, "a";q=4;pk=:YQ==:`, `RateLimit: "a";r=1;pk=:YQ==:, "a";r=1`},
			`
NAME  PARTITION KEY  REMAINING             UNIT      WINDOW  RESET
"a"   :YQ==:         [##--------] 1 of 4   requests  -       -
"a"   -              [##########] 1 of 1   requests  -       -
"a"   ::                          quota 2  requests  -       -
`,
		},
		"long text is cut": {
			[]string{
				`RateLimit-Policy: "` + strings.Repeat("n", 99) + `";q=1;qu="` + strings.Repeat("u", 99) + `";pk=:` + strings.Repeat("AAAA", 99) + `:`,
			},
			`
NAME                                      PARTITION KEY                             REMAINING             UNIT                                      WINDOW  RESET
"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...  :AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA...               quota 1  uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu...  -       -
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := inspecting(response(test.lines...))
			require.Equal(t, 0, status)
			require.Empty(t, stderr)
			require.Equal(t, heading+strings.TrimPrefix(test.want, "\n"), stdout)
		})
	}
}

func TestMalformed(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, test := range map[string]struct{ line, want string }{
		"at the end": {
			`"a";r=`,
			`
malformed member 1 of RateLimit: parameter r: not well-formed, it must be an Integer from 0 to 999999999999999
  "a";r=
        ^
`,
		},
		"bytes beyond ASCII": {
			"\"a\";c=\xc3\xa9;r=!\t;\x9b",
			`
malformed member 1 of RateLimit: an extension parameter: not well-formed
  "a";c=??;r=!?;?
        ^
`,
		},
		"long, in the middle": {
			`"` + long + `";r=!;` + long,
			`
malformed member 1 of RateLimit: parameter r: not well-formed, it must be an Integer from 0 to 999999999999999
  ...xxxxxxxxxxxxxxxxxxxxxxxxxxxx";r=!;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
                                     ^
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := inspecting(response("RateLimit: " + test.line))
			require.Equal(t, 1, status)
			require.Empty(t, stderr)
			require.Equal(t, "<stdin>: 200 OK"+test.want, stdout)
		})
	}
}

// Older fields are read too. The header at fault is shown.
func TestOlderFields(t *testing.T) {
	status, stdout, _ := inspecting(response("Date: Sat, 21 Nov 2026 01:06:19 GMT",
		"X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 2 of 5", "X-RateLimit-Reset: 1795223238"))
	require.Equal(t, 1, status)
	require.Equal(t, `<stdin>: 200 OK, older form: x-ratelimit
NAME       PARTITION KEY  REMAINING             UNIT      WINDOW  RESET
"default"  -                           quota 5  requests  -       59s
malformed X-RateLimit-Remaining: not well-formed
  2 of 5
  ^
`, stdout)
}

// Fields have the spelling of the response, not of net/http. The two fields of the
// specification have its spelling.
func TestSpelling(t *testing.T) {
	for name, want := range map[string]string{
		"x-ratelimit-remaining": "malformed x-ratelimit-remaining",
		"X-RateLimit-Remaining": "malformed X-RateLimit-Remaining",
	} {
		raw := response("RateLimit-Policy: \"a\";q=5", "RateLimit: \"a\";r=1", name+": 3")
		_, stdout, _ := inspecting(raw, "-lint")
		require.Contains(t, stdout, "6-5 (should) "+name+": ")
		_, stdout, _ = inspecting(response(name+": 2 of 5", "X-RateLimit-Limit: 5"))
		require.Contains(t, stdout, want)
		_, stdout, _ = inspecting("HTTP/1.1 103 Early Hints\r\n\r\n"+response(name+": 2 of 5", "X-RateLimit-Limit: 5"), "-json")
		require.Contains(t, stdout, `"field": "`+name+`"`)
	}
	_, stdout, _ := inspecting(response("ratelimit: x"))
	require.Contains(t, stdout, "malformed member 1 of RateLimit: ")
}

// A fault of the whole response has no place.
func TestTooManyFields(t *testing.T) {
	var lines []string
	for i := range 1025 {
		lines = append(lines, fmt.Sprintf("X-RateLimit-Limit-%d: 5", i))
	}
	status, stdout, stderr := inspecting(response(lines...))
	require.Equal(t, 1, status)
	require.Empty(t, stderr)
	require.Equal(t, "<stdin>: 200 OK\nmalformed fields of limits: too many\n", stdout)
}

// The end of a wait has a date, unless both it and the response are of today.
func TestToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on 2000-01-01
		_, stdout, _ := inspecting(response("Date: Sat, 01 Jan 2000 10:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 0.25"))
		require.Contains(t, stdout, "Wait 0.25s, until 10:00:01 UTC (", "rounded up")
		for date, want := range map[string]string{
			"Sat, 01 Jan 2000 10:00:00 GMT": "Wait 30s, until 10:00:30 UTC (",
			"Sat, 01 Jan 2000 23:59:45 GMT": "Wait 30s, until 2000-01-02 00:00:15 UTC (",
			"Fri, 31 Dec 1999 23:59:45 GMT": "Wait 30s, until 2000-01-01 00:00:15 UTC (",
		} {
			_, stdout, _ := inspecting(response("Date: "+date, `RateLimit: "a";r=0;t=30`))
			require.Contains(t, stdout, want)
		}
	})
}

func TestJSON(t *testing.T) {
	status, stdout, stderr := inspecting(response(`RateLimit: "<a>";r=0;t=0`, `RateLimit-Policy: "b";q=0;pk=::, "c";q=2;w=1;qu="requests";pk=:/+8=:`), "-json")
	require.Equal(t, 0, status)
	require.Empty(t, stderr)
	require.Equal(t, `{
  "source": "<stdin>",
  "status": "200 OK",
  "form": "ratelimit",
  "limits": [
    {
      "name": "<a>",
      "remaining": 0,
      "reset": 0
    },
    {
      "name": "b",
      "partition_key": "",
      "quota": 0
    },
    {
      "name": "c",
      "partition_key": "/+8=",
      "quota": 2,
      "unit": "requests",
      "window": 1
    }
  ],
  "malformed": [],
  "advice": {
    "wait": 0,
    "source": "limit",
    "limit": "<a>"
  }
}
`, stdout)
}

func TestJSONMalformed(t *testing.T) {
	long := strings.Repeat("x", 200)
	status, stdout, _ := inspecting(response(`RateLimit: "a";r=1`, "RateLimit: \"a\";c=\"\xc3\xa9\";d="+long), "-json")
	require.Equal(t, 1, status)
	require.JSONEq(t, `{
		"source": "<stdin>",
		"status": "200 OK",
		"limits": [],
		"malformed": [{
			"field": "RateLimit",
			"line": 1,
			"offset": 6,
			"item": 1,
			"param": "c",
			"error": "ratelimit: member 2 of RateLimit, line 2, byte 7: an extension parameter: not well-formed",
			"value": "\"a\";c=\"??\";d=`+long+`"
		}],
		"advice": {"wait": 0, "source": "none"}
	}`, stdout)
}

func requirePrintable(t *testing.T, text string) {
	t.Helper()
	for i := range len(text) {
		c := text[i]
		require.True(t, c == '\n' || ' ' <= c && c <= '~', "byte %#x in %q", c, text)
	}
}

func TestHostileBytes(t *testing.T) {
	const attack = "\x1b[2J\x9b31m\u009b\x07\b\x7f\r\xff"
	for name, raw := range map[string]string{
		"value":        response("RateLimit: " + attack),
		"String":       response(`RateLimit: "` + attack + `";r=1`),
		"beyond ASCII": response("RateLimit: \"\u009b\xff\";r=1"),
		"reason":       "HTTP/1.1 200 " + attack + "\r\nRateLimit: \"a\";r=1\r\n\r\n",
		"status line":  attack + "\r\n\r\n",
		"name":         response(attack + ": 1"),
		"no name":      response(attack),
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{nil, {"-json"}} {
				_, stdout, stderr := inspecting(raw, args...)
				requirePrintable(t, stdout)
				requirePrintable(t, stderr)
				require.NotEmpty(t, stdout+stderr)
			}
		})
	}
	t.Run("file name", func(t *testing.T) {
		_, _, stderr := inspecting("", "\x1b.http")
		requirePrintable(t, stderr)
	})
	// Header lines that package http refuses today must be refused in the future too.
	t.Run("header", func(t *testing.T) {
		h := http.Header{"Ratelimit": {attack}, "Ratelimit-Policy": {`"a";q=` + attack}}
		r := report.New(attack, &http.Response{Status: attack, Header: h})
		require.Len(t, r.Malformed, 2)
		var out strings.Builder
		require.NoError(t, report.WriteJSON(&out, r))
		requirePrintable(t, out.String()+textOf(r, false))
	})
}

func TestSeveralInputs(t *testing.T) {
	status, stdout, stderr := inspecting(response(`RateLimit: "a";r=1`),
		wire+"express-draft-8-1.http", "testdata/missing.http", "-", wire+"fastify-default-1.http")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "testdata/missing.http")
	require.Regexp(t, `^[^\n]*express-draft-8-1[^\0]*\n\n<stdin>:[^\0]*\n\n[^\n]*fastify-default-1`, stdout)

	_, stdout, _ = inspecting("", "-json", wire+"express-draft-8-1.http", wire+"fastify-default-1.http")
	dec := json.NewDecoder(strings.NewReader(stdout))
	for _, source := range []string{wire + "express-draft-8-1.http", wire + "fastify-default-1.http"} {
		var r report.Report
		require.NoError(t, dec.Decode(&r))
		require.Equal(t, source, r.Source)
	}
	require.ErrorIs(t, dec.Decode(&report.Report{}), io.EOF)
}

func TestAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: r.Method, Quota: 10}},
			Limits:   []ratelimit.Limit{{Name: r.Method, Remaining: 5}},
		}
		switch r.URL.Path {
		case "/long":
			w.Header().Set("X", strings.Repeat("x", 2<<20))
		case "/broken":
			panic(http.ErrAbortHandler)
		}
		if err := fields.Set(w.Header()); err != nil {
			t.Error(err)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()

	status, stdout, stderr := inspecting("", server.URL+"/")
	require.Empty(t, stderr)
	require.Equal(t, 0, status)
	require.Equal(t, server.URL+`/: 302 Found, current form (draft-08 to draft-11)
NAME   PARTITION KEY  REMAINING             UNIT      WINDOW  RESET
"GET"  -              [#####-----] 5 of 10  requests  -       -
`, stdout)

	for _, path := range []string{"/long", "/broken"} {
		status, stdout, stderr = inspecting("", server.URL+path)
		require.Equal(t, 2, status)
		require.Empty(t, stdout)
		require.Contains(t, stderr, server.URL+path)
	}
}

// A redirect is shown, even if it leads nowhere.
func TestAddressRedirect(t *testing.T) {
	address := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		w.Header()["Location"], w.Header()["RateLimit"] = []string{"http://[::1"}, []string{`"a";r=1`}
		if name == "user" && password == "hunter2" {
			w.WriteHeader(http.StatusFound)
		}
	})
	address = strings.Replace(address, "http://", "http://user:hunter2@", 1)
	for _, verb := range [][]string{{"inspect"}, {"probe", "-n", "1"}} {
		_, stdout, stderr := running("", append(verb, address)...)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "302")
	}
	_, _, stderr := running("", "inspect", "-H", "Authorization: Bearer x", address)
	require.Empty(t, stderr)

	const advice = "This response is a redirect: inspect the address in its Location.\n"
	status, stdout, _ := inspecting("HTTP/1.1 301 Moved Permanently\nLocation: http://a.example/?key=s3cret\n\n")
	require.Equal(t, 1, status)
	require.Equal(t, "<stdin>: 301 Moved Permanently\nno rate limits found\n"+advice, stdout)
	_, stdout, _ = inspecting("HTTP/1.1 301 Moved Permanently\nLocation: /\nRateLimit: \"a\";r=1\n\n")
	require.NotContains(t, stdout, advice)
	_, stdout, _ = inspecting("HTTP/1.1 304 Not Modified\n\n")
	require.NotContains(t, stdout, advice)
	_, stdout, _ = inspecting("HTTP/1.1 201 Created\nLocation: /\n\n")
	require.NotContains(t, stdout, advice)
}

// The error about a malformed response contains nothing of it.
func TestMalformedResponse(t *testing.T) {
	for response, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nX: hun\x7fter2\r\n\r\n":             "malformed MIME header",
		"HTTP/1.1 200 OK\r\nX hunter2\r\n\r\n":                  "malformed MIME header: missing colon",
		"HTTP/1.1 200 OK\r\n X: hunter2\r\n\r\n":                "malformed MIME header",
		"HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n":    "bad Content-Length",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n": "unsupported transfer encoding",
		"HTTP/1.1 hunter2\r\n\r\n":                              "malformed HTTP status code",
		"hunter2\r\n\r\n":                                       "malformed HTTP response",
		"HTTP/1.1 200 OK\r\nX: hunter2\r\n":                     "unexpected EOF",
	} {
		address := trial.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			require.NoError(t, err)
			_, _ = io.WriteString(conn, response)
			conn.Close()
		})
		for remedy, verb := range map[string][]string{": check the address and the server": {"inspect"}, "": {"probe", "-n", "1"}} {
			status, stdout, stderr := running("", append(verb, address)...)
			require.Equal(t, 2, status)
			require.Empty(t, stdout)
			want := "ratelimit " + verb[0] + ": " + address + ": net/http: HTTP/1.x transport connection broken: " + want + remedy + "\n"
			require.Equal(t, want, stderr)
		}
	}
}

// net/http logs a response that no request asked for.
func TestUnrequestedResponse(t *testing.T) {
	closed := make(chan struct{})
	address := trial.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX: hunter2\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // the client closes it after the second response
		close(closed)
	})
	var logged bytes.Buffer
	log.SetOutput(&logged)
	status, _, stderr := running("", "inspect", address)
	<-closed
	log.SetOutput(os.Stderr)
	require.Equal(t, 1, status)
	require.Empty(t, stderr)
	require.Empty(t, logged.String())
}

// The password and the query of an address are never printed, whatever the result.
func TestAddressPrivate(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, address := range []string{strings.TrimPrefix(server.URL, "http://"), "127.0.0.1:1", "no host", "a:port"} {
		for _, flag := range []string{"-json=false", "-json"} {
			for _, verb := range [][]string{{"inspect"}, {"probe", "-n", "1"}} {
				status, stdout, stderr := running("", append(verb, flag, "http://user:hunter2@"+address+"/?key=s3cret")...)
				require.NotZero(t, status)
				require.NotEmpty(t, stdout+stderr)
				require.NotContains(t, stdout+stderr, "hunter2")
				require.NotContains(t, stdout+stderr, "s3cret")
			}
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputFails(t *testing.T) {
	const file = wire + "express-draft-8-1.http"
	for _, args := range [][]string{{"inspect", file}, {"inspect", "-json", file}, {"inspect", "-by-host", file}, {"fuzz", "-print"}, {"version"}} {
		var stderr strings.Builder
		status := run(t.Context(), args, nil, fullDisk{}, &stderr)
		require.Equal(t, 2, status)
		require.Equal(t, "ratelimit "+args[0]+": no space left\n", stderr.String())
	}
}

func TestLint(t *testing.T) {
	raw := response(`RateLimit-Policy: "a";q=10;w=60`, `RateLimit: "a";r=5;t=9000`, "Cache-Control: max-age=5")
	plain, want, _ := inspecting(raw)
	status, stdout, stderr := inspecting(raw, "-lint")
	require.Empty(t, stderr)
	require.Equal(t, plain, status, "a note makes no difference to the status")
	require.Equal(t, want+`L7 (note) member 1 of RateLimit: t is more than ten times the w of the policy: write it in seconds, and let it end with the window
  "a";r=5;t=9000
  ^
K1 (note) RateLimit-Policy: a cache may store this response, and clients ignore the field on stored responses: send Cache-Control: no-store, or leave the field out
  "a";q=10;w=60
  ^
K1 (note) RateLimit: a cache may store this response, and clients ignore the field on stored responses: send Cache-Control: no-store, or leave the field out
  "a";r=5;t=9000
  ^
`, stdout)

	clean := response(`RateLimit-Policy: "a";q=10;w=60`, `RateLimit: "a";r=5;t=30`)
	_, want, _ = inspecting(clean)
	status, stdout, _ = inspecting(clean, "-lint")
	require.Equal(t, exitFine, status)
	require.Equal(t, want+"no findings\n", stdout)

	// Well-formed fields can break a rule.
	for level, raw := range map[string]string{
		"should": response(`RateLimit-Policy: "a";q=10;w=60, "a";q=20;w=60`, `RateLimit: "a";r=5;t=30`),
		"must":   response(`RateLimit-Policy: "a";q=10;w=60`, `RateLimit: "a";r=5;t=30`, "Retry-After: soon"),
	} {
		status, _, _ = inspecting(raw)
		require.Equal(t, exitFine, status)
		status, stdout, _ = inspecting(raw, "-lint")
		require.Contains(t, stdout, "("+level+")")
		require.Equal(t, exitDoubtful, status)
	}

	for raw, want := range map[string]string{
		response(`RateLimit: "a";t=5`): `[{"rule": "L2", "level": "must", "field": "RateLimit", "item": 0,
			"line": 0, "offset": 0, "message": "add the parameter r, without which strict clients ignore the whole field"}]`,
		clean: `[]`,
	} {
		_, stdout, _ = inspecting(raw, "-lint", "-json")
		var got struct{ Findings json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(stdout), &got))
		require.JSONEq(t, want, string(got.Findings))
	}
	_, stdout, _ = inspecting(clean, "-json")
	require.NotContains(t, stdout, "findings")
}

// An input is an address only if it has a scheme. If it has none, the error suggests what to
// write instead.
func TestHints(t *testing.T) {
	for _, input := range []string{"localhost:8080/hello", "api.example", "HTTPS://api.example", "missing.http"} {
		status, stdout, stderr := inspecting("", input)
		require.Equal(t, exitFailed, status)
		require.Empty(t, stdout)
		require.Equal(t, "ratelimit inspect: open "+input+": no such file or directory: give a file, or an address that begins with http:// or https://\n", stderr)
	}
	for _, input := range []string{"http://[::1", "http://a b/", "https://user:hunter2@a/%zz"} {
		_, _, stderr := inspecting("", input)
		require.Equal(t, "ratelimit inspect: the address is malformed: write http://HOST/\n", stderr)
	}
	status, stdout, stderr := inspecting("", wire+"express-draft-8-1.http", "-json")
	require.Equal(t, exitFine, status, stderr)
	require.Contains(t, stdout, `"limits"`, "flags may be anywhere")
	_, _, stderr = inspecting("", "testdata")
	require.Equal(t, "ratelimit inspect: testdata is a folder: give the files in it\n", stderr)
	empty := filepath.Join(t.TempDir(), "empty.http")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, _, stderr = inspecting("", empty)
	require.Equal(t, "ratelimit inspect: "+empty+": the text is empty: save the output of curl -i, for example\n", stderr)
	_, _, stderr = inspecting("", "http://127.0.0.1:1/?key=s3cret")
	require.Equal(t, "ratelimit inspect: http://127.0.0.1:1/: dial tcp 127.0.0.1:1: connect: connection refused: check the address and the server\n", stderr)
	_, _, stderr = inspecting("", "-last")
	require.Equal(t, "ratelimit inspect: -last is without -lint: add -lint, or leave -last out\nFor help: ratelimit inspect -h\n", stderr)
	_, _, stderr = inspecting("", "--", "-lint")
	require.Contains(t, stderr, "open -lint")
	_, _, stderr = inspecting("")
	require.Contains(t, stderr, "standard input is empty")
}

// The fields of -H are sent to addresses, in their order.
func TestHeaderFlag(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := strings.Join(append(r.Header["X-Key"], r.Header["Empty"]...), ",")
		if err := (ratelimit.Fields{Limits: []ratelimit.Limit{{Name: r.Host + "," + said}}}).Set(w.Header()); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for name, test := range map[string]struct {
		flags []string
		want  string
	}{
		"none":          {nil, host + ","},
		"twice":         {[]string{"-H", "x-key: 1", "-H", "X-Key:2 "}, host + ",1,2"},
		"empty":         {[]string{"-H", "X-Key: 1", "-H", "Empty:"}, host + ",1,"},
		"Host":          {[]string{"-H", "Host: api.example"}, "api.example,"},
		"the last Host": {[]string{"-H", "Host: a.example", "-H", "host: b.example"}, "b.example,"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := inspecting("", append(test.flags, "-json", server.URL)...)
			require.Empty(t, stderr)
			require.Equal(t, exitFine, status)
			require.Contains(t, stdout, `"name": "`+test.want+`"`)
		})
	}
}

// Colours are only for a terminal, and change no character of the text.
func TestColour(t *testing.T) {
	raw := "HTTP/1.1 429 x\nRateLimit-Policy: \"a\";q=9, \"b\";q=9, \"c\";q=9;acme\nRateLimit: \"a\";r=0, \"b\";r=1;t=5, \"c\";r=8"
	r, err := report.Read("x", strings.NewReader(raw))
	require.NoError(t, err)
	r.Check()
	plain, coloured := textOf(r, false), textOf(r, true)
	require.NotContains(t, plain, "\x1b")
	require.Contains(t, coloured, "\x1b[31m\"a\" ", "an exhausted limit is red")
	require.Contains(t, coloured, "\n\"b\" ")
	require.Contains(t, coloured, "\x1b[31mRefused. ")
	require.Equal(t, plain, regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured, ""))

	terminal, err := os.Open("/dev/zero") // a character device, like a terminal
	require.NoError(t, err)
	defer terminal.Close()
	in, pipe, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer pipe.Close()
	for name, test := range map[string]struct {
		w    io.Writer
		env  map[string]string
		want palette
	}{
		"a terminal":               {terminal, map[string]string{"TERM": "xterm"}, true},
		"a pipe":                   {pipe, map[string]string{"TERM": "xterm"}, false},
		"no file":                  {&strings.Builder{}, map[string]string{"TERM": "xterm"}, false},
		"NO_COLOR":                 {terminal, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"NO_COLOR without a value": {terminal, map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		"a terminal without any":   {terminal, map[string]string{"TERM": "dumb"}, false},
	} {
		require.Equal(t, test.want, paletteOf(test.w, func(key string) string { return test.env[key] }), name)
	}
}

// several has five responses. The second and the third have findings.
const several = `HTTP/1.1 200 OK
RateLimit: "a";r=5;t=3

HTTP/1.1 200 OK
RateLimit: "a";r=-3;t=20

HTTP/1.1 103 Early Hints

HTTP/1.1 200 OK
X-RateLimit-Remaining: 2 of 5

HTTP/1.1 200 OK
RateLimit: "a";r=4;t=2

HTTP/1.1 204 No Content
Server: x

`

// With -lint all responses of a text are checked. Those with findings are shown.
func TestLintSeveral(t *testing.T) {
	status, stdout, stderr := inspecting(several, "-lint")
	require.Equal(t, exitDoubtful, status)
	require.Empty(t, stderr)
	require.Equal(t, `<stdin>, response 2: 200 OK
L5 (must) member 1 of RateLimit: parameter r: out of range, it must be an Integer from 0 to 999999999999999
  "a";r=-3;t=20
        ^
  write the parameter r as an Integer from 0 to 999999999999999, or strict clients ignore the whole field

<stdin>, response 3: 200 OK
malformed X-RateLimit-Remaining: not well-formed
  2 of 5
  ^

<stdin>: 5 responses, 2 with findings
`, stdout)

	status, stdout, _ = inspecting(several, "-lint", "-last")
	require.Equal(t, exitFine, status)
	require.Contains(t, stdout, "4 left")
	require.Contains(t, stdout, "Of 5 responses this is number 4, the last one with rate limits.\nno findings\n")

	_, stdout, _ = inspecting(several, "-lint", "-json")
	var got []string
	for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
		var r report.Report
		require.NoError(t, d.Decode(&r))
		require.NotNil(t, r.Findings)
		got = append(got, fmt.Sprint(r.Number, " ", r.Status, " ", len(r.Malformed), " ", len(r.Findings)))
	}
	require.Equal(t, []string{"1 200 OK 0 0", "2 200 OK 1 1", "3 200 OK 1 0", "4 200 OK 0 0", "5 204 No Content 0 0"}, got)
}

// The exit status is 1 if a response breaks a rule that is more than a note, if a field is
// malformed, or if no response has limits.
func TestLintSeveralStatus(t *testing.T) {
	const (
		clean   = "HTTP/1.1 200 OK\nRateLimit: \"a\";r=5;t=3\n\n"
		note    = "HTTP/1.1 200 OK\nRateLimit: \"a\";r=1;q=9\n\n"
		lenient = "HTTP/1.1 200 OK\nRateLimit: a;r=1\n\n"
		silent  = "HTTP/1.1 200 OK\nServer: x\n\n"
		older   = "HTTP/1.1 200 OK\nX-RateLimit-Limit: many\n\n"
	)
	for text, want := range map[string]string{
		clean + clean:          "0 <stdin>: 2 responses, no findings",
		clean + silent:         "0 <stdin>: 2 responses, no findings",
		clean + note:           "0 <stdin>: 2 responses, 1 with findings",
		lenient + clean:        "1 <stdin>: 2 responses, 1 with findings",
		clean + older + silent: "1 <stdin>: 3 responses, 1 with findings",
		silent + silent:        "1 <stdin>: 2 responses, no rate limits found",
		silent:                 "1 no findings",
		clean:                  "0 no findings",
		"X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 2\n":                                "0 no findings (few rules are about older forms)",
		clean + "HTTP/1.1 200 OK\n" + "X: " + strings.Repeat("x", 1<<20) + "\n\n" + older: "2 <stdin>: 2 responses, 1 with findings",
	} {
		status, stdout, stderr := inspecting(text, "-lint")
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		require.Equal(t, want, fmt.Sprint(status, " ", lines[len(lines)-1]))
		require.Equal(t, status == exitFailed, stderr != "")
	}
	// The inputs are counted apart, and the highest status counts.
	file := filepath.Join(t.TempDir(), "several.http")
	require.NoError(t, os.WriteFile(file, []byte(several), 0o600))
	status, stdout, _ := inspecting(clean+clean, "-lint", "-", file, wire+"express-draft-8-1.http")
	require.Equal(t, exitDoubtful, status)
	require.Contains(t, stdout, "<stdin>: 2 responses, no findings\n\n"+file+", response 2: ")
	require.Contains(t, stdout, "\n\n"+file+": 5 responses, 2 with findings\n\n"+wire)
}

// A HAR file contains hosts, which are shown next to the number of a response.
func TestLintHAR(t *testing.T) {
	const entry = `{"request":{"url":"https://A.example/?key=s3cret"},"response":{"status":200,"headers":[{"name":"RateLimit","value":"a"}]}}`
	status, stdout, _ := inspecting(`{"log":{"entries":[{"request":{"url":"https://b.example/"}},`+entry+","+entry+"]}}", "-lint")
	require.Equal(t, exitDoubtful, status)
	require.Contains(t, stdout, "<stdin>, response 1 of a.example: 200\n")
	require.Contains(t, stdout, "\n\n<stdin>: 2 responses, 2 with findings\n")
	require.NotContains(t, stdout, "s3cret")
	_, stdout, _ = inspecting(entry, "-lint", "-json")
	require.Contains(t, stdout, `"host": "a.example",`)
}
