package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const vectorDir = "../ratelimittest/vectors"

// Every file of vectors is valid against its schema, which refuses other forms.
func TestVectorSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(filepath.Join(vectorDir, "schema.json"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		if filepath.Base(file) == "schema.json" {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err, file)
		require.NoError(t, schema.Validate(value), file)
		require.Equal(t, filepath.Base(file), value.(map[string]any)["kind"].(string)+".json")
	}
	const began = `"name":"a","began":"2026-11-21T03:00:00Z",`
	for name, c := range map[string]string{
		"no lines":                     `"limits": "name":"a","limits":[]`,
		"no name":                      `"limits": "lines":[],"limits":[]`,
		"neither members nor an error": `"limits": "name":"a","lines":[]`,
		"both":                         `"limits": "name":"a","lines":[],"limits":[],"error":{"rule":"L1"}`,
		"a member of another kind":     `"limits": "name":"a","lines":[],"limits":[],"findings":[]`,
		"a negative number":            `"limits": "name":"a","lines":[],"limits":[{"name":"a","remaining":-1}]`,
		"a policy for a limit":         `"limits": "name":"a","lines":[],"limits":[{"name":"a","quota":1}]`,
		"an error without a rule":      `"limits": "name":"a","lines":[],"error":{"cause":"syntax"}`,
		"an unknown cause":             `"limits": "name":"a","lines":[],"error":{"rule":"L1","cause":"weather"}`,
		"a character that is no byte":  `"limits": "name":"a","lines":["\u0100"],"limits":[]`,
		"a value of no type":           `"limits": "name":"a","lines":[],"limits":[{"name":"a","params":[["x",null]]}]`,
		"neither findings nor next":    `"sequences": ` + began + `"exchanges":[{"sent":0}]`,
		"both findings and next":       `"sequences": ` + began + `"exchanges":[{"sent":0}],"findings":[],"next":0`,
		"no exchange":                  `"sequences": ` + began + `"exchanges":[],"next":0`,
		"an answer without a status":   `"sequences": ` + began + `"exchanges":[{"sent":0,"received":1}],"next":0`,
		"a header without an answer":   `"sequences": ` + began + `"exchanges":[{"sent":0,"header":[]}],"next":0`,
		"a finding of no exchange":     `"sequences": ` + began + `"exchanges":[{"sent":0}],"findings":[{"rule":"L5","level":"note","field":"RateLimit"}]`,
	} {
		kind, members, _ := strings.Cut(c, ": ")
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"kind":` + kind + `,"about":"a","cases":[{` + members + `}]}`))
		require.NoError(t, err, name)
		require.Error(t, schema.Validate(value), name)
	}
}

// A vector is a case of policies.json or limits.json.
type vector struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Lines    []string        `json:"lines"`
	Policies json.RawMessage `json:"policies"`
	Limits   json.RawMessage `json:"limits"`
}

// Sixty lines of JavaScript with structured-headers read the strict vectors. The exceptions
// are listed here with their reasons.
func TestVectorsInJavaScript(t *testing.T) {
	const oneType = "JavaScript has one type of number, so 5.0 is as good as 5"
	reasons := map[string]string{
		"policies: w is a Decimal": oneType,
		"limits: r is a Decimal":   oneType,
		"limits: Dates":            "structured-headers 2.1.0 refuses a Date that something follows",
	}
	requireShort(t, "node/vectors.mjs")
	cases := strictVectors(t)
	var got []json.RawMessage
	batch(t, "vectors.mjs", cases, &got)
	requireVectors(t, cases, got, reasons)
}

// Less than eighty lines of Python, without any package, read all vectors.
func TestVectorsInPython(t *testing.T) {
	cases := strictVectors(t)
	var got []json.RawMessage
	python(t, "python/vectors.py", cases, &got)
	requireVectors(t, cases, got, nil)
}

// A client in Python sends its next requests at the times in the vectors.
func TestSequencesInPython(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(vectorDir, "sequences.json"))
	require.NoError(t, err)
	type sequence struct {
		Name      string          `json:"name"`
		Exchanges json.RawMessage `json:"exchanges"`
		Next      *int64          `json:"next"`
	}
	var file struct{ Cases []sequence }
	require.NoError(t, json.Unmarshal(text, &file))
	cases := slices.DeleteFunc(file.Cases, func(s sequence) bool { return s.Next == nil })
	var got []int64
	python(t, "python/sequences.py", cases, &got)
	require.Len(t, got, len(cases))
	require.Greater(t, len(cases), 10)
	for i, c := range cases {
		require.Equal(t, *c.Next, got[i], c.Name)
	}
}

// python runs a program, which reads and writes JSON.
func python(t *testing.T, file string, input, output any) {
	t.Helper()
	needProgram(t, "python3")
	requireShort(t, file)
	text, err := json.Marshal(input)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", file)
	cmd.Stdin = bytes.NewReader(text)
	text, err = cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, output))
}

// requireShort requires that a reader has less than eighty lines.
func requireShort(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Less(t, strings.Count(string(text), "\n"), 80, file)
}

// strictVectors returns the cases of policies.json and limits.json.
func strictVectors(t *testing.T) (cases []vector) {
	t.Helper()
	for _, kind := range []string{"policies", "limits"} {
		text, err := os.ReadFile(filepath.Join(vectorDir, kind+".json"))
		require.NoError(t, err)
		var file struct{ Cases []vector }
		require.NoError(t, json.Unmarshal(text, &file))
		for _, c := range file.Cases {
			c.Kind = kind
			cases = append(cases, c)
		}
	}
	return cases
}

// requireVectors requires that a reader has read each case correctly. The exceptions are in
// reasons.
func requireVectors(t *testing.T, cases []vector, got []json.RawMessage, reasons map[string]string) {
	t.Helper()
	require.Len(t, got, len(cases))
	passed := 0
	for i, c := range cases {
		want := c.Policies
		if c.Kind == "limits" {
			want = c.Limits
		}
		name := c.Kind + ": " + c.Name
		reason := reasons[name]
		delete(reasons, name)
		if sameJSON(t, want, got[i]) {
			require.Empty(t, reason, "%s passes", name)
			passed++
			continue
		}
		require.NotEmpty(t, reason, "%s: want %s, got %s", name, want, got[i])
		t.Logf("%s: %s", name, reason)
	}
	require.Empty(t, reasons, "there are no such vectors")
	t.Logf("%d of %d vectors pass", passed, len(cases))
}

// sameJSON reports whether two texts have the same value. An absent value equals null.
func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var values [2]any
	for i, text := range []json.RawMessage{a, b} {
		if text != nil {
			require.NoError(t, json.Unmarshal(text, &values[i]))
		}
	}
	return assert.ObjectsAreEqual(values[0], values[1])
}
