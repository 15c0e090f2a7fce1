package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// MaxVector is the length of the longest vector. Longer cases are about bounds.
const MaxVector = 3000

// CheckVectors writes the file of a kind of vectors, or checks that the file is up to date. It calls
// made for each case of the tables, and again for the case as it is read back from JSON: both results
// must be equal.
func CheckVectors[In, Out any](t *testing.T, kind, about string, cases []In, made func(In) Out) {
	t.Helper()
	var list []string
	seen := map[string]bool{}
	for _, in := range cases {
		c := vectorOf(t, in, made(in))
		if len(c) >= MaxVector {
			continue
		}
		list = append(list, c)
		var named struct{ Name, Group string }
		require.NoError(t, json.Unmarshal([]byte(c), &named))
		require.False(t, seen[named.Group+"/"+named.Name], "%s has %q twice", kind, named.Name)
		seen[named.Group+"/"+named.Name] = true
		var read In
		require.NoError(t, json.Unmarshal([]byte(c), &read))
		require.Equal(t, c, vectorOf(t, read, made(read)), "%s: %s", kind, named.Name)
	}
	head := fmt.Sprintf("{\n\"kind\": %q,\n\"about\": %q,\n", kind, about)
	if kind == "next" {
		head += "\"unpublished\": true,\n"
	}
	CheckVectorFile(t, kind+".json", head+"\"cases\": [\n"+strings.Join(list, ",\n")+"\n]\n}\n")
}

// vectorOf returns a case with its input and its result.
func vectorOf(t *testing.T, in, made any) string {
	t.Helper()
	c, rest := EncodeVector(t, in), EncodeVector(t, made)
	if rest == "{}" {
		return c
	}
	return strings.TrimSuffix(c, "}") + "," + strings.TrimPrefix(rest, "{")
}

// ReadVectors returns the cases of a file that is itself a table.
func ReadVectors[T any](t testing.TB, kind string) []T {
	t.Helper()
	b, err := os.ReadFile(vectorFile(kind + ".json"))
	require.NoError(t, err)
	var file struct{ Cases []T }
	require.NoError(t, json.Unmarshal(b, &file))
	return file.Cases
}

// vectorFile returns the path of a file of vectors, from the folder of any package.
func vectorFile(name string) string {
	module := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			break
		}
		module = filepath.Join("..", module)
	}
	return filepath.Join(module, "ratelimittest", "vectors", name)
}

// EncodeVector returns v as JSON in one line.
func EncodeVector(t testing.TB, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSuffix(b.String(), "\n")
}

// CheckVectorFile writes a file of vectors, or checks that it is up to date.
func CheckVectorFile(t *testing.T, name, want string) {
	t.Helper()
	file := vectorFile(name)
	if *Update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	RequireText(t, want, string(got), file+" is made of the tables: go test -run TestVectors -update .")
}

// EscapeLatin1 converts each byte to a character, because JSON cannot contain bytes.
func EscapeLatin1(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		for _, c := range []byte(line) {
			out[i] += string(rune(c))
		}
	}
	return out
}

// BytesOf undoes EscapeLatin1.
func BytesOf(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		for _, r := range line {
			out[i] += string([]byte{byte(r)})
		}
	}
	return out
}

// VectorHeader returns the lines of a header in the form of a vector.
func VectorHeader(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"); line != "" {
			lines = append(lines, line)
		}
	}
	return EscapeLatin1(lines)
}

// A ResponseVector is a response, or only its header, with or without the time of arrival.
type ResponseVector struct {
	Name    string    `json:"name"`
	Group   string    `json:"group,omitempty"`
	Status  int       `json:"status,omitempty"`
	Header  []string  `json:"header"`
	Arrived time.Time `json:"arrived,omitzero"`
}

// ResponseVectorOf returns a response from wire text.
func ResponseVectorOf(name, text string, arrived time.Time) ResponseVector {
	status := ResponseOf(text).StatusCode
	if strings.HasPrefix(text, "HTTP/") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return ResponseVector{Name: name, Status: status, Header: VectorHeader(text), Arrived: arrived}
}

// MakeHeader returns the header.
func (v *ResponseVector) MakeHeader() http.Header { return Wire(strings.Join(BytesOf(v.Header), "\n")) }

// Response returns the response.
func (v *ResponseVector) Response() *http.Response {
	return &http.Response{StatusCode: v.Status, Header: v.MakeHeader(), Body: http.NoBody}
}
