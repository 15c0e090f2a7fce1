package ratelimit

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// A listVector is a case in the form of the tests of the Structured Fields working group
// (https://github.com/httpwg/structured-field-tests): of parsing alone, whatever the
// members mean.
type listVector struct {
	Name       string   `json:"name"`
	Raw        []string `json:"raw"`
	HeaderType string   `json:"header_type"`
	Expected   any      `json:"expected,omitempty"`
	MustFail   bool     `json:"must_fail,omitempty"`
	CanFail    bool     `json:"can_fail,omitempty"`
}

// unpadded matches a Byte Sequence without its padding, on which a parser should not
// fail (RFC 9651 Section 4.2.7), but httpsfv does.
var unpadded = regexp.MustCompile(`=:([A-Za-z0-9+/]+):`)

// pad returns a line in which Byte Sequences have their padding.
func pad(line string) string {
	return unpadded.ReplaceAllStringFunc(line, func(s string) string {
		n := len(s) - len("=::")
		if n%4 == 1 {
			return s // of no bytes at all
		}
		return s[:len(s)-1] + strings.Repeat("=", (4-n%4)%4) + ":"
	})
}

// writeLists writes the lines of field vectors as httpsfv reads them.
func writeLists(t *testing.T, fields []fieldVector) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	separator, seen := "[\n", map[string]bool{}
	for _, f := range fields {
		text := strings.Join(f.Lines, "\n")
		if seen[text] || len(f.Lines) == 0 || len(text) > maxVector {
			continue
		}
		seen[text] = true
		b.WriteString(separator)
		require.NoError(t, enc.Encode(f.list(t)))
		b.Truncate(b.Len() - 1)
		separator = ",\n"
	}
	b.WriteString("\n]\n")
	writeFile(t, "structured-fields/list.json", b.Bytes())
}

// list returns the case as one of parsing alone.
func (f fieldVector) list(t *testing.T) listVector {
	v := listVector{Name: f.Name, Raw: f.Lines, HeaderType: "list"}
	var lines []string
	for _, line := range bytesOf(f.Lines) {
		lines = append(lines, pad(line))
		v.CanFail = v.CanFail || pad(line) != line
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		v.MustFail, v.CanFail = true, false
		return v
	}
	expected := []any{}
	for _, m := range list {
		switch m := m.(type) {
		case httpsfv.Item:
			expected = append(expected, itemVector(t, m))
		case httpsfv.InnerList:
			items := []any{}
			for _, item := range m.Items {
				items = append(items, itemVector(t, item))
			}
			expected = append(expected, []any{items, paramsVector(t, m.Params)})
		}
	}
	v.Expected = expected
	return v
}

func itemVector(t *testing.T, item httpsfv.Item) []any {
	value, ok := writeVectorValue(item.Value)
	require.True(t, ok)
	return []any{value, paramsVector(t, item.Params)}
}

func paramsVector(t *testing.T, params *httpsfv.Params) []any {
	list := []any{}
	for _, key := range params.Names() {
		v, _ := params.Get(key)
		value, ok := writeVectorValue(v)
		require.True(t, ok)
		list = append(list, []any{key, value})
	}
	return list
}

// What must fail as a List fails as a field, and what is read as a field is a List.
func TestListVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors/structured-fields/list.json")
	require.NoError(t, err)
	var cases []listVector
	require.NoError(t, json.Unmarshal(text, &cases))
	failing := 0
	for _, c := range cases {
		_, policyErr := ParsePolicies(bytesOf(c.Raw)...)
		_, limitErr := ParseLimits(bytesOf(c.Raw)...)
		if c.MustFail {
			failing++
			require.Error(t, policyErr, c.Name)
			require.Error(t, limitErr, c.Name)
		}
	}
	require.Greater(t, failing, 30)
	require.Greater(t, len(cases)-failing, 50)
}
