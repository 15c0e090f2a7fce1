//go:build !js

package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A site has the files of the page, by name.
type site map[string][]byte

//go:embed page
var page embed.FS

// wasm is the name of the compiled program.
const wasm = "playground.wasm"

// build gathers the files of the page: the folder page, Go's script that runs WebAssembly,
// the captures, and this program, compiled. It first prints a line, because compiling takes
// long.
func build(stdout io.Writer) (site, error) {
	fmt.Fprintln(stdout, "compiling the page to WebAssembly: up to a minute the first time")
	s := site{}
	if err := s.addFolder(page); err != nil {
		return nil, err
	}
	env, err := goCommand("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	const exec = "wasm_exec.js"
	if s[exec], err = os.ReadFile(filepath.Join(env, "lib", "wasm", exec)); err != nil {
		return nil, err
	}
	source, err := goCommand("list", "-f", "{{.Dir}}", importPath)
	if err != nil {
		return nil, err
	}
	if s["captures.json"], err = captures(filepath.Join(source, "..", "..", "testdata")); err != nil {
		return nil, err
	}
	s[wasm], err = compile()
	return s, err
}

const importPath = "github.com/httpfields/ratelimit/examples/playground"

func (s site) addFolder(files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		s[path.Base(name)], err = fs.ReadFile(files, name)
		return err
	})
}

func compile() ([]byte, error) {
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, wasm)
	if _, err := goCommand("build", "-trimpath", "-ldflags=-s -w", "-o", name, importPath); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// goCommand runs the go command for WebAssembly, and returns what it prints.
func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

func (s site) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range s {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP serves the page. The page contains its own Content-Security-Policy, for static
// hosts. The fields set here have no equivalent in a page.
func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, ok := s[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Vary", "Accept-Encoding")
	if compressed, ok := s[name+gzipped]; ok && acceptsGzip(r.Header) {
		h.Set("Content-Encoding", "gzip")
		text = compressed
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// gzipped is the suffix of compressed files.
const gzipped = ".gz"

// compress adds a compressed copy of each file that becomes smaller.
func (s site) compress() error {
	for name, text := range maps.Clone(s) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if b.Len() < len(text) {
			s[name+gzipped] = b.Bytes()
		}
	}
	return nil
}

// acceptsGzip reports whether a client accepts gzip (RFC 9110 Section 12.5.3).
func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return weight == "" || err == nil && q > 0
		}
	}
	return false
}
