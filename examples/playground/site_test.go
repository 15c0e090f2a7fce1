//go:build !js

package main

import (
	"bufio"
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
	require.Error(t, site{}.listen("localhost:none", io.Discard))
}

// The page names no file that it does not have, and nothing of another host
// but the links of its foot.
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

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	require.NoError(t, site{"a": []byte("1"), "b": []byte("2")}.write(dir))
	got, err := os.ReadFile(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.Equal(t, "2", string(got))
}

func TestCaptures(t *testing.T) {
	b, err := captures(filepath.FromSlash("../../testdata/wire"))
	require.NoError(t, err)
	var list []capture
	require.NoError(t, json.Unmarshal(b, &list))
	names, err := filepath.Glob(filepath.FromSlash("../../testdata/wire/*.http"))
	require.NoError(t, err)
	require.Len(t, list, len(names))
	require.True(t, strings.HasPrefix(list[0].Text, "HTTP/1.1 "))
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
