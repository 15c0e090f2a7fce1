//go:build !js

package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe(t *testing.T) {
	s := site{wasm: []byte("program")}
	require.NoError(t, s.addFolder(page))
	for path, want := range map[string]struct {
		status      int
		contentType string
	}{
		"/":                {200, "text/html; charset=utf-8"},
		"/index.html":      {200, "text/html; charset=utf-8"},
		"/app.js":          {200, "text/javascript; charset=utf-8"},
		"/style.css":       {200, "text/css; charset=utf-8"},
		"/icon.svg":        {200, "image/svg+xml"},
		"/playground.wasm": {200, "application/wasm"},
		"/page/index.html": {404, "text/plain; charset=utf-8"},
		"/../site.go":      {404, "text/plain; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		require.Equal(t, want.status, w.Code, path)
		require.Equal(t, want.contentType, w.Header().Get("Content-Type"), path)
		if want.status == 200 {
			require.Equal(t, "frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		}
	}
}

func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	out, stdout := io.Pipe()
	served := make(chan error)
	go func() { served <- site{"index.html": []byte("<p>")}.serve(l, stdout) }()

	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	resp, err := http.Get(strings.TrimSpace(address))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "<p>", string(body))

	require.NoError(t, l.Close())
	require.ErrorIs(t, <-served, net.ErrClosed)
	var said strings.Builder
	require.Error(t, listen("localhost:none", &said))
	require.Empty(t, said.String(), "nothing is compiled for an address that cannot be had")
}

// The page refers to no missing file. Only the links of its foot refer to other hosts.
func TestPageIsWhole(t *testing.T) {
	s := site{wasm: nil, "wasm_exec.js": nil, "captures.json": nil}
	require.NoError(t, s.addFolder(page))
	text := string(s["index.html"]) + string(s["style.css"]) + string(s["app.js"])
	named := regexp.MustCompile(`(?:src=|href=|load\()"([^"]*)"`).FindAllStringSubmatch(text, -1)
	require.Len(t, named, 9, "two links among them")
	for _, name := range named {
		if !strings.HasPrefix(name[1], "https://") {
			require.Contains(t, s, name[1])
		}
	}
	require.Equal(t, 2, strings.Count(text, "://"))
}

// The line about compiling is the first output, because compiling takes long.
func TestCompiling(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without Go
	var stdout, stderr strings.Builder
	require.Equal(t, 1, run([]string{"-o", t.TempDir()}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "compiling the page to WebAssembly")
	require.Contains(t, stderr.String(), "playground: go env: ")
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	require.NoError(t, site{"a": []byte("1"), "b": []byte("2")}.write(dir))
	got, err := os.ReadFile(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.Equal(t, "2", string(got))
}

// Files are compressed for clients that accept gzip.
func TestCompressed(t *testing.T) {
	text := strings.Repeat("program ", 1000)
	s := site{wasm: []byte(text), "short.js": []byte("x")}
	require.NoError(t, s.compress())
	for name, test := range map[string]struct {
		path, accepts string
		want          bool
	}{
		"as browsers request": {wasm, "gzip, deflate, br, zstd", true},
		"in capitals":         {wasm, "br;q=1, GZIP ;q=0.5", true},
		"refused":             {wasm, "gzip;q=0, br", false},
		"refused, at length":  {wasm, "gzip; q=0.000", false},
		"not asked":           {wasm, "", false},
		"another":             {wasm, "x-gzip", false},
		"not worth it":        {"short.js", "gzip", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/"+test.path, nil)
			r.Header.Set("Accept-Encoding", test.accepts)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, 200, w.Code)
			require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
			require.Equal(t, test.want, w.Header().Get("Content-Encoding") == "gzip")
			if !test.want {
				require.Equal(t, string(s[test.path]), w.Body.String())
				return
			}
			require.Less(t, w.Body.Len(), len(text)/10)
			unpacked, err := gzip.NewReader(w.Body)
			require.NoError(t, err)
			got, err := io.ReadAll(unpacked)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		})
	}
}

// Captures match their names. The first is refused, malformed captures have faults, and all
// other captures have limits or a wait.
func TestCaptures(t *testing.T) {
	b, err := captures(filepath.FromSlash("../../testdata"))
	require.NoError(t, err)
	var list []capture
	require.NoError(t, json.Unmarshal(b, &list))
	require.Len(t, list, len(sources))
	require.Contains(t, viewOf(list[0].Text).Advice, "Refused. Wait 50m25s, until 2013-08-20 15:41:06 UTC")
	names := map[string]bool{}
	for _, c := range list {
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		v := viewOf(c.Text)
		require.Empty(t, v.Error, c.Name)
		if strings.Contains(c.Name, "refuse") || strings.Contains(c.Name, "refusal") {
			require.Contains(t, v.Advice, "Refused. ", c.Name)
		}
		if c.Group != faulty {
			require.True(t, len(v.Limits) > 0 || strings.Contains(v.Advice, "Wait "), c.Name)
		} else if !strings.Contains(c.Name, "without limits") {
			require.NotEmpty(t, v.Faults, c.Name)
		}
	}
	_, err = captures("none")
	require.Error(t, err)
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"-port", "1"}, {"folder"}} {
		var stdout, stderr strings.Builder
		want := 2
		if args[0] == "-h" {
			want = 0
		}
		require.Equal(t, want, run(args, &stdout, &stderr))
		require.Empty(t, stdout.String())
		require.Contains(t, stderr.String(), usage)
	}
}
