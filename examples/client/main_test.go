package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/stretchr/testify/require"
)

// output is a standard error for several goroutines.
type output struct {
	mu sync.Mutex
	strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Builder.Write(b)
}

func download(t *testing.T, list string, args ...string) (status int, stderr string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	var out output
	status = run(t.Context(), append([]string{"-dir", dir}, args...), strings.NewReader(list), &out)
	files = map[string]string{}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name.Name()))
		require.NoError(t, err)
		files[name.Name()] = string(text)
	}
	return status, out.String(), files
}

func say(t *testing.T, w http.ResponseWriter, limit ratelimit.Limit) {
	t.Helper()
	if err := (ratelimit.Fields{Limits: []ratelimit.Limit{limit}}).Set(w.Header()); err != nil {
		t.Error(err)
	}
}

func TestDownload(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("content of " + r.URL.Path))
	}))
	defer server.Close()
	status, stderr, files := download(t, "# a list\n\n"+server.URL+"/a/b.txt\n  "+server.URL+"/%C3%BC..\n"+server.URL+"\n", "-")
	require.Equal(t, exitStored, status)
	require.Equal(t, map[string]string{
		"0003-b.txt": "content of /a/b.txt",
		"0004-_..":   "content of /ü..",
		"0005-index": "content of /",
	}, files)
	require.Equal(t, "3 of 3 done\n", stderr)
}

// A server allows two requests, and then none for longer than the timeout of the client.
func TestWaits(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := served.Add(1)
		say(t, w, ratelimit.Limit{Name: "default", Remaining: max(2-n, 0), Reset: ratelimit.SecondsOf(30)})
	}))
	defer server.Close()
	list := strings.Repeat(server.URL+"/x\n", 4)
	status, stderr, files := download(t, list, "-max-wait", "20ms", "-")
	require.Equal(t, exitStored, status)
	require.Len(t, files, 4)
	host := strings.TrimPrefix(server.URL, "http://")
	require.Regexp(t, `(?m)^[0-3] of 4 done, waiting until \d\d:\d\d:\d\d \(`+host+`: RateLimit "default" is exhausted, for longer\)$`, stderr)
	require.True(t, strings.HasSuffix(stderr, "\n4 of 4 done\n"), stderr)
}

// A server refuses two requests out of three. Each is tried again until its response is
// stored.
func TestRefused(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request){
		"with fields, by the package": func(w http.ResponseWriter, r *http.Request) {
			refused := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "default", Reset: ratelimit.SecondsOf(0)}}}
			if err := announce.Refuse(w, r, refused, nil); err != nil {
				t.Error(err)
			}
		},
		"without a word": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"503, for a time": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1)%3 != 0 {
					refuse(w, r)
				}
			}))
			defer server.Close()
			status, stderr, files := download(t, strings.Repeat(server.URL+"/x\n", 3), "-max-wait", "10ms", "-")
			require.Equal(t, exitStored, status, stderr)
			require.Len(t, files, 3)
			require.EqualValues(t, 9, asked.Load())
		})
	}
}

// If a server always refuses, the client gives up in time.
func TestRefusedForGood(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	defer server.Close()
	status, stderr, files := download(t, server.URL+"/x\n", "-timeout", "300ms", "-")
	require.Equal(t, exitFailed, status)
	require.Empty(t, files)
	require.Contains(t, stderr, "client: line 1: ")
	require.True(t, strings.HasSuffix(stderr, "\n1 of 1 done, 1 failed\n"), stderr)
}

// If a response cannot be stored, its request is not sent.
func TestFolder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{"testdata/missing", file} {
		status, stderr, _ := download(t, server.URL+"/x\n", "-dir", dir, "-")
		require.Equal(t, exitUsage, status)
		require.Regexp(t, `^client: -dir: .*\n$`, stderr)
	}
}

func TestHeader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Header.Get("X-API-Key") + strings.Join(r.Header["Accept"], ",")))
	}))
	defer server.Close()
	status, _, files := download(t, server.URL+"\n"+server.URL+"\n", "-H", "X-API-Key: de:mo", "-H", "accept:a", "-H", "Accept: b", "-")
	require.Equal(t, exitStored, status)
	require.Equal(t, map[string]string{"0001-index": "de:moa,b", "0002-index": "de:moa,b"}, files)

	status, stderr, _ := download(t, server.URL+"\n", "-H", "bad name: x", "-")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "invalid header field name")
}

func TestTimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("RateLimit", `"hour";r=9`)
	}))
	defer server.Close()
	for _, pace := range []string{"-pace=false", "-pace"} {
		status, stderr, files := download(t, strings.Repeat(server.URL+"/x\n", 3), "-timeout", "10s", "-jobs", "1", pace, "-")
		require.Equal(t, exitFailed, status)
		require.Len(t, files, 1)
		require.Contains(t, stderr, "client: line 2: Get \""+server.URL+"/x\": ratelimit: not sent")
		require.Contains(t, stderr, ": Retry-After)")
		require.Contains(t, stderr, "\n3 of 3 done, 2 failed\n")
	}
}

func TestFailures(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/short":
			w.Header().Set("Content-Length", "9")
		}
	}))
	defer server.Close()
	for address, want := range map[string]string{
		server.URL + "/missing": "client: line 1: not stored: status 404",
		server.URL + "/short":   "client: line 1: unexpected EOF",
		"\x7f":                  `client: line 1: parse "\\x7f": net/url: invalid control character in URL`,
		"ftp://api.example/":    "unsupported protocol scheme",
		"http://127.0.0.1:1/":   "client: line 1: Get \"http://127.0.0.1:1/\": ",
		"http://[::1":           "missing ']' in host",
	} {
		status, stderr, files := download(t, address+"\n", "-")
		require.Equal(t, exitFailed, status, address)
		require.Empty(t, files, address)
		require.Contains(t, stderr, want)
		require.Contains(t, stderr, "1 of 1 done, 1 failed\n")
		require.NotContains(t, stderr, "\x7f")
	}
}

func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir()) // the package's folder may be read-only
	for _, args := range [][]string{{}, {"-"}, {"a", "b"}, {"-jobs", "0", "-"}, {"-H", "demo", "-"}, {"-yaml"}, {"missing.txt"}} {
		var stderr strings.Builder
		want := exitUsage
		if len(args) == 1 && args[0] == "-" {
			want = exitStored // an empty list
		}
		require.Equal(t, want, run(t.Context(), args, strings.NewReader(""), &stderr), args)
		require.NotEmpty(t, stderr.String())
	}
	var stderr strings.Builder
	require.Equal(t, exitUsage, run(t.Context(), []string{"-"}, iotest.ErrReader(errors.New("unplugged")), &stderr))
	require.Equal(t, "client: unplugged\n", stderr.String())
	stderr.Reset()
	require.Equal(t, exitStored, run(t.Context(), []string{"-h"}, nil, &stderr))
	require.Contains(t, stderr.String(), usage)
}

func TestList(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list.txt")
	require.NoError(t, os.WriteFile(name, []byte("# one\nhttp://a.example/\n\nhttp://b.example/"), 0o600))
	list, err := readList(name, nil)
	require.NoError(t, err)
	require.Equal(t, []entry{{2, "http://a.example/"}, {4, "http://b.example/"}}, list)
}

func TestFileName(t *testing.T) {
	for address, want := range map[string]string{
		"http://a.example":                             "0007-index",
		"http://a.example/a/b/":                        "0007-b",
		"http://a.example/..":                          "0007-..",
		"http://a.example/..%2F..%2Fpasswd":            "0007-passwd",
		"http://a.example/a%20b%1b%5c":                 "0007-a_b__",
		"http://a.example/" + strings.Repeat("x", 200): "0007-" + strings.Repeat("x", 100),
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, want, fileName(7, u))
	}
}
