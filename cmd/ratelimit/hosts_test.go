package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// requests of several hosts, as curl -v prints them.
const verbose = `* Connected to a.example
> GET /1 HTTP/1.1
> Host: A.example
>
< HTTP/1.1 200 OK
< RateLimit-Policy: "burst";q=10;w=60
< RateLimit: "burst";r=3;t=20
<
{ [5 bytes data]
> GET /2 HTTP/1.1
> Host: a.example
>
< HTTP/1.1 103 Early Hints
<
< HTTP/1.1 429 Too Many Requests
< Retry-After: 20
< X-RateLimit-Limit: 10
< X-RateLimit-Remaining: 5
<
> GET / HTTP/2
> Host: quiet.example
>
< HTTP/2 200
< content-type: text/plain
<
> GET / HTTP/2
> Host: faulty.example
>
< HTTP/2 200
< ratelimit-policy: "a";q=5;w=0
< ratelimit: "a";r=-1
< retry-after: soon
<
`

// A table has one row for each host of all inputs.
func TestHosts(t *testing.T) {
	har := filepath.Join(t.TempDir(), "session.har")
	require.NoError(t, os.WriteFile(har, []byte(`{"log":{"version":"1.2","pages":[{"id":"p"}],"entries":[
		{"request":{"url":"https://a.example:8443/x?token=s3cret"},"response":{"status":503,"headers":[{"name":"Retry-After","value":"7200"}]}},
		{"request":{"url":"https://b.example/"},"response":{"status":200,"content":{"text":"{}"},"headers":[{"name":"x-ratelimit-remaining","value":"0"},{"name":"x-ratelimit-reset","value":"9"}]}},
		{"request":{"url":"https://b.example/"},"response":{"status":200,"headers":[]}}
	]}}`), 0o600))
	server := trial.Serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("RateLimit", `"a";r=1`) })
	for golden, format := range map[string]string{"testdata/hosts.txt": "-json=false", "testdata/hosts.json": "-json"} {
		status, stdout, stderr := running(verbose, "inspect", "-by-host", format, "-", har, har)
		require.Equal(t, exitFine, status, stderr)
		require.NotContains(t, stdout, "s3cret")
		trial.RequireGolden(t, golden, stdout)
	}
	status, stdout, stderr := running("", "inspect", "-by-host", "-json", server, server, har)
	require.Equal(t, exitFine, status, stderr)
	var got struct {
		Hosts []struct {
			Host     string
			Requests int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, 2, got.Hosts[1].Requests)
	require.Contains(t, server, got.Hosts[1].Host)
}

// The exit status is 1 if no response announces limits or, with -lint, if one is at fault, and 2 if an input cannot be read.
// Readable responses are shown.
func TestHostsStatus(t *testing.T) {
	const none = "HOST  REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST  LONGEST WAIT  FORM\n"
	for name, test := range map[string]struct {
		stdin  string
		args   []string
		status int
		stdout string
		stderr string
	}{
		"no limits":   {"HTTP/1.1 200 OK\n\nHTTP/1.1 429 x\nRetry-After: 5\n", nil, 1, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST  LONGEST WAIT  FORM\n(unknown)  2         1        0          0         -       5s            -\n", ""},
		"empty":       {"", nil, 2, none, "ratelimit inspect: standard input is empty: did curl fail? -s hides its errors, -sS shows them\n"},
		"no response": {"hello\n", nil, 2, none, "ratelimit inspect: <stdin>: the text contains no response: give its header lines, the output of curl -i or curl -v, a HAR file, or JSON such as {\"status\":200,\"headers\":{\"RateLimit\":\"...\"}}\n"},
		"no entries":  {`{"log":{"entries":[]}}`, nil, 2, none, "ratelimit inspect: <stdin>: JSON object 1 has an empty \"log.entries\": record a request, and save the HAR file again\n"},
		"no answer":   {`{"log":{"entries":[{"request":{"url":"http://a/"},"response":{"status":0,"headers":[]}}]}}`, nil, 1, "HOST  REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST  LONGEST WAIT  FORM\na     1         0        0          0         -       -             -\n", ""},
		"cut off":     {`{"log":{"entries":[{"request":{"url":"http://a/"},"response":{"headers":[{"name":"RateLimit","value":"\"a\";r=1"}]}},{"req`, nil, 2, "HOST  REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST      LONGEST WAIT  FORM\na     1         0        0          0         \"a\" 1 left  -             current form (draft-08 to draft-11)\n", "ratelimit inspect: <stdin>: entry 2 of log.entries ends too early: save the whole text\n"},
		"malformed":   {"RateLimit: \"a\";r=1\nRateLimit-Policy: a, b\nRetry-After: soon\n", nil, 0, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST      LONGEST WAIT  FORM\n(unknown)  1         0        1          2         \"a\" 1 left  -             current form (draft-08 to draft-11)\n", ""},
		"with -lint":  {"RateLimit: \"a\";r=1\nRetry-After: soon\n", []string{"-lint"}, 1, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST      LONGEST WAIT  FORM\n(unknown)  1         0        0          1         \"a\" 1 left  -             current form (draft-08 to draft-11)\n", ""},
		"older":       {"X-RateLimit-Limit: 5\nX-RateLimit-Remaining: x\n", []string{"-lint"}, 1, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST  LONGEST WAIT  FORM\n(unknown)  1         0        1          0         -       -             older form: x-ratelimit\n", ""},
		"a note":      {"RateLimit: \"a\";r=1;q=9\n", []string{"-lint"}, 0, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST      LONGEST WAIT  FORM\n(unknown)  1         0        0          0         \"a\" 1 left  -             current form (draft-08 to draft-11)\n", ""},
		"clean":       {"RateLimit: \"a\";r=1\n", []string{"-lint"}, 0, "HOST       REQUESTS  REFUSED  MALFORMED  FINDINGS  LOWEST      LONGEST WAIT  FORM\n(unknown)  1         0        0          0         \"a\" 1 left  -             current form (draft-08 to draft-11)\n", ""},
		"with -last":  {"", []string{"-lint", "-last"}, 2, "", "ratelimit inspect: -last and -by-host exclude each other: leave one out\nFor help: ratelimit inspect -h\n"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := running(test.stdin, append([]string{"inspect", "-by-host"}, test.args...)...)
			require.Equal(t, []any{test.status, test.stdout, test.stderr}, []any{status, stdout, stderr})
		})
	}
}
