package ratelimit

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files under testdata that tests generate")

// The vectors give the tables of this package to other implementations;
// testdata/vectors/README.md describes their form.

type vector struct {
	Name      string       `json:"name"`
	Field     string       `json:"field"`
	Lines     []string     `json:"lines"`
	Policies  []Policy     `json:"policies,omitzero"`
	Limits    []Limit      `json:"limits,omitzero"`
	Canonical *string      `json:"canonical,omitzero"`
	Error     *errorVector `json:"error,omitzero"`
}

type errorVector struct {
	Cause  string `json:"cause"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"`
	Item   int    `json:"item"`
	Param  string `json:"param,omitzero"`
}

func newErrorVector(err error) *errorVector {
	e := err.(*FieldError)
	cause := map[error]string{ErrSyntax: "syntax", ErrType: "type", ErrMissing: "missing", ErrRange: "range"}[e.Err]
	return &errorVector{Cause: cause, Line: e.Line, Offset: e.Offset, Item: e.Item, Param: e.Param}
}

func vectors(t *testing.T) []vector {
	var all []vector
	for _, tc := range policyCases {
		canonical, err := FormatPolicies(tc.want...)
		require.NoError(t, err)
		all = append(all, vector{Name: tc.name, Field: PolicyField, Lines: append([]string{}, tc.lines...), Canonical: &canonical, Policies: append([]Policy{}, tc.want...)})
	}
	for _, tc := range limitCases {
		canonical, err := FormatLimits(tc.want...)
		require.NoError(t, err)
		all = append(all, vector{Name: tc.name, Field: LimitField, Lines: append([]string{}, tc.lines...), Canonical: &canonical, Limits: append([]Limit{}, tc.want...)})
	}
	for _, tc := range errorCases {
		_, err := ParseLimits(tc.lines()...)
		all = append(all, vector{Name: tc.name, Field: LimitField, Lines: escapeLatin1(tc.lines()), Error: newErrorVector(err)})
	}
	for _, tc := range policyErrorCases {
		_, err := ParsePolicies(tc.lines()...)
		all = append(all, vector{Name: tc.name, Field: PolicyField, Lines: escapeLatin1(tc.lines()), Error: newErrorVector(err)})
	}
	return all
}

// escapeLatin1 makes each byte a character, as JSON holds no bytes.
func escapeLatin1(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		var b strings.Builder
		for j := range len(line) {
			b.WriteRune(rune(line[j]))
		}
		out[i] = b.String()
	}
	return out
}

// TestVectors fails when testdata/vectors/fields.json is not what the tables
// say: go test -run TestVectors -update writes it anew.
func TestVectors(t *testing.T) {
	const file = "testdata/vectors/fields.json"
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(vectors(t)))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, string(want) == b.String(), "%s is out of date", file)
}
