package ratelimit

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files under testdata that tests generate")

// The vectors give the tables of this package to other implementations;
// testdata/vectors/README.md describes their form.

type vector struct {
	Name      string         `json:"name"`
	Field     string         `json:"field"`
	Lines     []string       `json:"lines"`
	Policies  []policyVector `json:"policies,omitzero"`
	Limits    []limitVector  `json:"limits,omitzero"`
	Canonical *string        `json:"canonical,omitzero"`
	Error     *errorVector   `json:"error,omitzero"`
}

type policyVector struct {
	Name         string        `json:"name"`
	Quota        int64         `json:"q"`
	Unit         string        `json:"qu,omitzero"`
	Window       *int64        `json:"w,omitzero"`
	PartitionKey *string       `json:"pk,omitzero"`
	Params       []paramVector `json:"params,omitzero"`
}

type limitVector struct {
	Name         string        `json:"name"`
	Remaining    int64         `json:"r"`
	Reset        *int64        `json:"t,omitzero"`
	PartitionKey *string       `json:"pk,omitzero"`
	Params       []paramVector `json:"params,omitzero"`
}

type paramVector struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

type errorVector struct {
	Cause  string `json:"cause"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"`
	Item   int    `json:"item"`
	Param  string `json:"param,omitzero"`
}

func secondsVector(s Seconds) *int64 {
	if !s.ok {
		return nil
	}
	return &s.n
}

func keyVector(key []byte) *string {
	if key == nil {
		return nil
	}
	s := base64.StdEncoding.EncodeToString(key)
	return &s
}

func paramVectors(ps Params) []paramVector {
	var out []paramVector
	for _, p := range ps {
		v := paramVector{Key: p.Key, Value: p.Value}
		switch value := p.Value.(type) {
		case int64:
			v.Type = "integer"
		case float64:
			v.Type = "decimal"
		case string:
			v.Type = "string"
		case httpsfv.Token:
			v.Type = "token"
		case []byte:
			v.Type = "byte sequence" // base64 in JSON
		case bool:
			v.Type = "boolean"
		case time.Time:
			v.Type, v.Value = "date", value.Unix()
		case httpsfv.DisplayString:
			v.Type = "display string"
		}
		out = append(out, v)
	}
	return out
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
		v := vector{Name: tc.name, Field: PolicyField, Lines: append([]string{}, tc.lines...), Canonical: &canonical, Policies: []policyVector{}}
		for _, p := range tc.want {
			v.Policies = append(v.Policies, policyVector{p.Name, p.Quota, string(p.Unit), secondsVector(p.Window), keyVector(p.PartitionKey), paramVectors(p.Params)})
		}
		all = append(all, v)
	}
	for _, tc := range limitCases {
		canonical, err := FormatLimits(tc.want...)
		require.NoError(t, err)
		v := vector{Name: tc.name, Field: LimitField, Lines: append([]string{}, tc.lines...), Canonical: &canonical, Limits: []limitVector{}}
		for _, l := range tc.want {
			v.Limits = append(v.Limits, limitVector{l.Name, l.Remaining, secondsVector(l.Reset), keyVector(l.PartitionKey), paramVectors(l.Params)})
		}
		all = append(all, v)
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
