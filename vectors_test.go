package ratelimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files that tests generate")

// The vectors give the tables of the tests to other implementations.
// testdata/vectors/README.md describes their form, and schema.json defines it.
// This file reads them as another implementation would; vectors_make_test.go
// makes them of the tables.

// A vectorFile is one file of testdata/vectors: cases of one kind.
type vectorFile[T any] struct {
	Kind        string `json:"kind"`
	About       string `json:"about"`
	Unpublished bool   `json:"unpublished"` // no document has what the cases show
	Cases       []T    `json:"cases"`
}

// A vectorError says that something is refused, and why.
type vectorError struct {
	Rule   string `json:"rule"`             // an id in CONFORMANCE.md, or a section of an RFC
	Cause  string `json:"cause,omitempty"`  // one of causeNames
	Field  string `json:"field,omitempty"`  // if the case has several
	Line   *int   `json:"line,omitempty"`   // index of the line, from 0
	Offset *int   `json:"offset,omitempty"` // byte in that line, from 0
	Item   *int   `json:"item,omitempty"`   // index of the member, from 0; absent if none is at fault
	Param  string `json:"param,omitempty"`  // key of the parameter at fault
}

var causeNames = map[error]string{
	ErrSyntax: "syntax", ErrType: "type", ErrMissing: "missing", ErrRange: "range",
	ErrDuplicate: "duplicate", ErrConflict: "conflict", ErrTooMany: "too-many",
}

type (
	// fieldVector is the lines of one field, and what they mean.
	fieldVector struct {
		Name      string       `json:"name"`
		Lines     []string     `json:"lines"`
		Policies  []Policy     `json:"policies,omitzero"`
		Limits    []Limit      `json:"limits,omitzero"`
		Canonical *string      `json:"canonical,omitempty"`
		Error     *vectorError `json:"error,omitempty"`
	}
	// headerVector is a header, and the current fields in it.
	headerVector struct {
		Name     string        `json:"name"`
		Header   []string      `json:"header"`
		Policies []Policy      `json:"policies,omitempty"`
		Limits   []Limit       `json:"limits,omitempty"`
		Errors   []vectorError `json:"errors,omitempty"`
	}
	// textVector is members of a field, and the line that is written for them.
	textVector struct {
		Name     string         `json:"name"`
		Policies []vectorMember `json:"policies,omitzero"`
		Limits   []vectorMember `json:"limits,omitzero"`
		Text     *string        `json:"text,omitempty"`
		Error    *vectorError   `json:"error,omitempty"`
	}
	// valueVector is the value of a parameter, and the text behind its key.
	valueVector struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
		Text  *string         `json:"text,omitempty"`
		Error *vectorError    `json:"error,omitempty"`
	}
	// legacyVector is a response in an older form, and what it says.
	legacyVector struct {
		Name    string        `json:"name"`
		Group   string        `json:"group"`
		Header  []string      `json:"header"`
		Arrived time.Time     `json:"arrived"`
		Dialect string        `json:"dialect"`
		Guessed bool          `json:"guessed,omitempty"`
		Want    []legacyLimit `json:"want"`
		Errors  []vectorError `json:"errors,omitempty"`
	}
	legacyLimit struct {
		Name      string `json:"name"`
		Unit      Unit   `json:"unit,omitempty"`
		Quota     *int64 `json:"quota,omitempty"`
		Window    *int64 `json:"window,omitempty"`
		Remaining *int64 `json:"remaining,omitempty"`
		Reset     *int64 `json:"reset,omitempty"`
	}
	// adviceVector is a response, and what it asks of a client. Durations are in
	// nanoseconds.
	adviceVector struct {
		Name    string        `json:"name"`
		Status  int           `json:"status"`
		Header  []string      `json:"header"`
		Arrived time.Time     `json:"arrived"`
		Wait    time.Duration `json:"wait"`
		Pace    time.Duration `json:"pace"`
		Source  string        `json:"source"`
		Limit   string        `json:"limit,omitempty"`
		Capped  bool          `json:"capped,omitempty"`
	}
	// retryVector is a header, and how long it asks to wait, in nanoseconds.
	retryVector struct {
		Name    string         `json:"name"`
		Header  []string       `json:"header"`
		Arrived time.Time      `json:"arrived"`
		Wait    *time.Duration `json:"wait,omitempty"`
	}
	// joinVector is policies and a limit, and the policy that it reports on.
	joinVector struct {
		Name     string   `json:"name"`
		Policies []Policy `json:"policies"`
		Limit    Limit    `json:"limit"`
		Policy   *Policy  `json:"policy,omitempty"`
	}
	// tightestVector is fields, and the name of their tightest limit.
	tightestVector struct {
		Name     string   `json:"name"`
		Policies []Policy `json:"policies"`
		Limits   []Limit  `json:"limits"`
		Tightest string   `json:"tightest"`
	}
	// capVector is a policy, a limit, and what remains of it when it is capped.
	capVector struct {
		Name      string  `json:"name"`
		Policy    Policy  `json:"policy"`
		Limit     Limit   `json:"limit"`
		Burst     float64 `json:"burst"`
		Remaining *int64  `json:"remaining,omitempty"`
	}
	// restrictVector is what a server says, what an intermediary in front of it
	// says, and what both say together.
	restrictVector struct {
		Name     string       `json:"name"`
		Upstream Fields       `json:"upstream"`
		Own      Fields       `json:"own"`
		Want     *Fields      `json:"want,omitempty"`
		Error    *vectorError `json:"error,omitempty"`
	}
	// problemVector is the text of a problem document, what it says, and the text
	// that is written for the same problem.
	problemVector struct {
		Name     string         `json:"name"`
		Document string         `json:"document"`
		Problem  *vectorProblem `json:"problem,omitempty"`
		Written  string         `json:"written,omitempty"`
		Error    *vectorError   `json:"error,omitempty"`
	}
	vectorProblem struct {
		Type             string                     `json:"type,omitempty"`
		Title            string                     `json:"title,omitempty"`
		Status           int                        `json:"status,omitempty"`
		Detail           string                     `json:"detail,omitempty"`
		Instance         string                     `json:"instance,omitempty"`
		ViolatedPolicies []string                   `json:"violated-policies,omitzero"`
		Extensions       map[string]json.RawMessage `json:"extensions,omitempty"`
	}
	// lintVector is a response, and the rules that it breaks.
	lintVector struct {
		Name     string        `json:"name"`
		Status   int           `json:"status"`
		Header   []string      `json:"header"`
		Findings []lintFinding `json:"findings"`
	}
	// nextVector is a header in the form of the next draft, or nearly, and what it says.
	nextVector struct {
		Name     string        `json:"name"`
		Header   []string      `json:"header"`
		Dialect  string        `json:"dialect"`
		Policies []Policy      `json:"policies,omitempty"`
		Limits   []Limit       `json:"limits,omitempty"`
		Errors   []vectorError `json:"errors,omitempty"`
	}
	lintFinding struct {
		Rule  string `json:"rule"`
		Level string `json:"level"`
		Field string `json:"field"`
		Item  *int   `json:"item,omitempty"`
	}
)

// A vectorMember is a policy or a limit that may break the rules of its field,
// so that it cannot be read with UnmarshalJSON.
type vectorMember struct {
	Name         string        `json:"name"`
	Quota        *int64        `json:"quota,omitempty"`
	Unit         Unit          `json:"unit,omitempty"`
	Window       *int64        `json:"window,omitempty"`
	Remaining    *int64        `json:"remaining,omitempty"`
	Reset        *int64        `json:"reset,omitempty"`
	PartitionKey []byte        `json:"partition_key,omitzero"`
	Params       []vectorParam `json:"params,omitempty"`
}

// A vectorParam is a key and a value.
type vectorParam [2]json.RawMessage

func (m vectorMember) params(t *testing.T) (ps Params) {
	for _, p := range m.Params {
		var key string
		require.NoError(t, json.Unmarshal(p[0], &key))
		ps = append(ps, Param{key, vectorValue(t, p[1])})
	}
	return ps
}

func orElse(n *int64, absent int64) int64 {
	if n == nil {
		return absent
	}
	return *n
}

func optional(n *int64) Seconds {
	if n == nil {
		return Seconds{}
	}
	return SecondsOf(*n)
}

func (m vectorMember) policy(t *testing.T) Policy {
	return Policy{m.Name, orElse(m.Quota, Unknown), m.Unit, optional(m.Window), m.PartitionKey, m.params(t)}
}

func (m vectorMember) limit(t *testing.T) Limit {
	return Limit{m.Name, orElse(m.Remaining, Unknown), optional(m.Reset), m.PartitionKey, m.params(t)}
}

// bytesOf undoes escapeLatin1.
func bytesOf(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		var b []byte
		for _, r := range line {
			b = append(b, byte(r))
		}
		out[i] = string(b)
	}
	return out
}

func headerOf(lines []string) http.Header { return wire(strings.Join(bytesOf(lines), "\n")) }

// requireVectorError fails unless err is the error of a vector. A nil want is no
// error.
func requireVectorError(t *testing.T, want *vectorError, err error) {
	t.Helper()
	if want == nil {
		require.NoError(t, err)
		return
	}
	e := requireFieldError(t, err)
	require.Equal(t, want.Cause, causeNames[e.Err])
	require.Equal(t, want.Param, e.Param)
	for name, got := range map[string][2]any{"line": {want.Line, e.Line}, "offset": {want.Offset, e.Offset}, "item": {want.Item, e.Item}} {
		if n := got[0].(*int); n != nil {
			require.Equal(t, *n, got[1], name)
		}
	}
	if want.Field != "" {
		require.Equal(t, want.Field, e.Field)
	}
}

// runVectors runs a test for each case of a kind.
func runVectors[T any](t *testing.T, kind string, run func(*testing.T, T)) {
	text, err := os.ReadFile(filepath.Join("testdata/vectors", kind+".json"))
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var file vectorFile[json.RawMessage]
	require.NoError(t, dec.Decode(&file))
	require.Equal(t, kind, file.Kind)
	require.Equal(t, kind == "next", file.Unpublished)
	seen := map[string]bool{}
	for i, c := range file.Cases {
		var named struct{ Name, Group string }
		require.NoError(t, json.Unmarshal(c, &named))
		name := strings.TrimPrefix(named.Group+"/"+named.Name, "/")
		require.False(t, seen[name], "%s has %q twice", kind, name)
		seen[name] = true
		t.Run(kind+"/"+name, func(t *testing.T) {
			dec := json.NewDecoder(bytes.NewReader(c))
			dec.DisallowUnknownFields()
			var v T
			require.NoError(t, dec.Decode(&v), "case %d", i)
			run(t, v)
		})
	}
	vectorCount += len(file.Cases)
}

var vectorCount int // the cases that runVectors has run

// TestVectors reads the vectors as another implementation would.
func TestVectors(t *testing.T) {
	t.Parallel()
	vectorCount = 0
	runVectors(t, "policies", func(t *testing.T, v fieldVector) {
		got, err := ParsePolicies(bytesOf(v.Lines)...)
		requireVectorError(t, v.Error, err)
		require.True(t, slices.EqualFunc(v.Policies, got, Policy.Equal), "want %v, got %v", v.Policies, got)
		requireField(t, PolicyField, v, func() (string, error) { return FormatPolicies(got...) })
	})
	runVectors(t, "limits", func(t *testing.T, v fieldVector) {
		got, err := ParseLimits(bytesOf(v.Lines)...)
		requireVectorError(t, v.Error, err)
		require.True(t, slices.EqualFunc(v.Limits, got, Limit.Equal), "want %v, got %v", v.Limits, got)
		requireField(t, LimitField, v, func() (string, error) { return FormatLimits(got...) })
	})
	runVectors(t, "headers", func(t *testing.T, v headerVector) {
		got, err := Parse(headerOf(v.Header))
		require.True(t, slices.EqualFunc(v.Policies, got.Policies, Policy.Equal), "got %v", got.Policies)
		require.True(t, slices.EqualFunc(v.Limits, got.Limits, Limit.Equal), "got %v", got.Limits)
		requireVectorErrors(t, v.Errors, err)
	})
	runVectors(t, "next", func(t *testing.T, v nextVector) {
		got, err := ParseAny(headerOf(v.Header), LegacyOptions{})
		require.Equal(t, v.Dialect, got.Dialect)
		require.True(t, slices.EqualFunc(v.Policies, got.Policies, Policy.Equal), "got %v", got.Policies)
		require.True(t, slices.EqualFunc(v.Limits, got.Limits, Limit.Equal), "got %v", got.Limits)
		requireVectorErrors(t, v.Errors, err)
	})
	runVectors(t, "texts", func(t *testing.T, v textVector) {
		var policies []Policy
		for _, m := range v.Policies {
			policies = append(policies, m.policy(t))
		}
		var limits []Limit
		for _, m := range v.Limits {
			limits = append(limits, m.limit(t))
		}
		got, err := FormatLimits(limits...)
		if v.Policies != nil {
			got, err = FormatPolicies(policies...)
		}
		requireVectorError(t, v.Error, err)
		if v.Error == nil {
			require.Equal(t, *v.Text, got)
		}
	})
	runVectors(t, "values", func(t *testing.T, v valueVector) {
		got, err := FormatLimits(Limit{Params: Params{{"x", vectorValue(t, v.Value)}}})
		requireVectorError(t, v.Error, err)
		if v.Error == nil {
			require.Equal(t, `"";r=0;x`+*v.Text, got)
		}
	})
	t.Run("meaning", testMeaningVectors)
	t.Run("use", testUseVectors)
	t.Run("sequences", testSequenceVectors)
	require.GreaterOrEqual(t, vectorCount, 800, "the vectors are read")
}

// requireField checks that a field is written as its vector says, and that Check
// names the rule that it breaks.
func requireField(t *testing.T, field string, v fieldVector, format func() (string, error)) {
	t.Helper()
	if v.Error == nil {
		text, err := format()
		require.NoError(t, err)
		require.Equal(t, *v.Canonical, text)
		return
	}
	require.Equal(t, v.Error.Rule, Check(&http.Response{Header: http.Header{http.CanonicalHeaderKey(field): bytesOf(v.Lines)}})[0].Rule)
}

func requireVectorErrors(t *testing.T, want []vectorError, err error) {
	t.Helper()
	var got []error
	if err != nil {
		got = err.(interface{ Unwrap() []error }).Unwrap()
	}
	require.Len(t, got, len(want), "%v", err)
	for i := range want {
		requireVectorError(t, &want[i], got[i])
	}
}

// testMeaningVectors runs the vectors about older forms, and about how members
// belong together.
func testMeaningVectors(t *testing.T) {
	runVectors(t, "legacy", func(t *testing.T, v legacyVector) {
		got, err := ParseAny(headerOf(v.Header), LegacyOptions{Now: v.Arrived})
		want := []string{}
		for _, l := range v.Want {
			want = append(want, vendorLimit{l.Name, l.Unit, l.Quota, l.Remaining, l.Window, l.Reset}.String())
		}
		require.ElementsMatch(t, want, vendorLimits(got))
		require.Equal(t, v.Dialect, got.Dialect)
		require.Equal(t, v.Guessed, got.Guessed)
		var names []string
		for _, e := range v.Errors {
			names = append(names, e.Field)
		}
		require.Equal(t, strings.Join(names, ", "), faultsOf(t, err))
	})
	runVectors(t, "joins", func(t *testing.T, v joinVector) {
		got, ok := Fields{Policies: v.Policies}.PolicyOf(v.Limit)
		require.Equal(t, v.Policy != nil, ok)
		require.True(t, !ok || v.Policy.Equal(got), "got %v", got)
	})
	runVectors(t, "tightest", func(t *testing.T, v tightestVector) {
		got, ok := Fields{Policies: v.Policies, Limits: v.Limits}.Tightest()
		require.True(t, ok)
		require.Equal(t, v.Tightest, got.Name)
	})
	runVectors(t, "problems", func(t *testing.T, v problemVector) {
		var got Problem
		err := got.UnmarshalJSON([]byte(v.Document))
		if v.Error != nil {
			require.ErrorIs(t, err, ErrSyntax)
			return
		}
		require.NoError(t, err)
		p := v.Problem
		want := Problem{p.Type, p.Title, p.Status, p.Detail, p.Instance, p.ViolatedPolicies, p.Extensions}
		require.Equal(t, compactExtensions(t, want), compactExtensions(t, got))
		if v.Written != "" {
			text, err := want.MarshalJSON()
			require.NoError(t, err)
			require.Equal(t, v.Written, string(text))
		}
	})
}

// compactExtensions returns p with the white space of its Extensions removed,
// which JSON does not keep.
func compactExtensions(t *testing.T, p Problem) Problem {
	var out map[string]json.RawMessage
	for name, value := range p.Extensions {
		var b bytes.Buffer
		require.NoError(t, json.Compact(&b, value))
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out[name] = b.Bytes()
	}
	p.Extensions = out
	return p
}

// testUseVectors runs the vectors about clients, servers and intermediaries.
func testUseVectors(t *testing.T) {
	runVectors(t, "advice", func(t *testing.T, v adviceVector) {
		got := Advisor{}.Advise(&http.Response{StatusCode: v.Status, Header: headerOf(v.Header)}, v.Arrived)
		require.Equal(t, v.Wait, got.Wait)
		require.Equal(t, v.Pace, got.Pace)
		require.Equal(t, v.Source, got.Source.String())
		require.Equal(t, v.Limit, got.Limit.Name)
		require.Equal(t, v.Capped, got.Capped)
	})
	runVectors(t, "retry-after", func(t *testing.T, v retryVector) {
		got, ok := ParseRetryAfter(headerOf(v.Header), v.Arrived)
		require.Equal(t, v.Wait != nil, ok)
		require.True(t, !ok || got == *v.Wait, "got %v", got)
	})
	runVectors(t, "caps", func(t *testing.T, v capVector) {
		require.Equal(t, orElse(v.Remaining, Unknown), v.Limit.Cap(v.Policy, v.Burst).Remaining)
	})
	runVectors(t, "restrict", func(t *testing.T, v restrictVector) {
		got, err := Restrict(v.Upstream, v.Own)
		requireVectorError(t, v.Error, err)
		if v.Error == nil {
			require.True(t, slices.EqualFunc(v.Want.Policies, got.Policies, Policy.Equal), "got %v", got.Policies)
			require.True(t, slices.EqualFunc(v.Want.Limits, got.Limits, Limit.Equal), "got %v", got.Limits)
		}
	})
	runVectors(t, "lint", func(t *testing.T, v lintVector) {
		got := []lintFinding{}
		for _, f := range Check(&http.Response{StatusCode: v.Status, Header: headerOf(v.Header)}) {
			got = append(got, lintFinding{f.Rule, f.Level.String(), f.Field, indexOrNil(f.Item)})
		}
		require.Equal(t, v.Findings, got)
	})
}

// indexOrNil returns a pointer to an index, or nil if it is -1.
func indexOrNil(i int) *int {
	if i < 0 {
		return nil
	}
	return &i
}

// Every rule that a vector names is in CONFORMANCE.md, or is a section of an RFC.
func TestVectorRules(t *testing.T) {
	conformance, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/vectors/*.json")
	require.NoError(t, err)
	section := regexp.MustCompile(`^(9110|9457|9651)-\d+(\.\d+)*$`)
	rules := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"rule":"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			rules[m[1]] = true
		}
	}
	require.Greater(t, len(rules), 30)
	for id := range rules {
		row := regexp.MustCompile(`(?m)^\| ([\w-]+, )*` + regexp.QuoteMeta(id) + `(, [\w-]+)* \|`)
		require.True(t, section.MatchString(id) || row.Match(conformance), "%s is in no row of CONFORMANCE.md", id)
	}
}

var errVector = errors.New("vector: a value of no known type")

// vectorValue reads a value as the test files of the Structured Fields working
// group write it, in range or not.
func vectorValue(t *testing.T, text json.RawMessage) any {
	t.Helper()
	v, err := readVectorValue(text)
	require.NoError(t, err, "%s", text)
	return v
}

func readVectorValue(text json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case json.Number:
		if strings.Contains(v.String(), ".") {
			return v.Float64()
		}
		return v.Int64()
	case string, bool:
		return v, nil
	case map[string]any:
		return typedVectorValue(fmt.Sprint(v["__type"]), fmt.Sprint(v["value"]))
	}
	return nil, errVector
}
