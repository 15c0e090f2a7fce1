package ratelimit

import (
	"encoding/base32"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files that tests generate")

// The vectors give the tables of the tests to other implementations.
// testdata/vectors/README.md describes their form, and schema.json defines it. Each
// type of a case begins with what goes in; the rest is what this package makes of it.

// TestVectors fails if the files are not what the tables of the tests say, or if what
// goes in cannot be read from the files as another implementation would.
func TestVectors(t *testing.T) {
	t.Parallel()
	fieldVectors(t)
	headerVectors(t)
	textVectors(t)
	legacyVectors(t)
	joinVectors(t)
	problemVectors(t)
	adviceVectors(t)
	restrictVectors(t)
	lintVectors(t)
	sequenceVectors(t)
}

// maxVector is the length from which a case is no vector. Longer ones are about
// bounds, and say the same as their names.
const maxVector = 3000

// checkVectors checks the file of a kind. The function completes a case: first those
// of the tables, which give the file, and then those that the file has.
func checkVectors[T any](t *testing.T, kind, about string, cases []T, complete func(*T)) {
	t.Helper()
	var list []string
	for i := range cases {
		complete(&cases[i])
		if c := encodeVector(t, cases[i]); len(c) < maxVector {
			list = append(list, c)
		}
	}
	head := fmt.Sprintf("{\n\"kind\": %q,\n\"about\": %q,\n", kind, about)
	if kind == "next" {
		head += "\"unpublished\": true,\n"
	}
	checkVectorFile(t, kind+".json", head+"\"cases\": [\n"+strings.Join(list, ",\n")+"\n]\n}\n")

	seen := map[string]bool{}
	for _, c := range list {
		var named struct{ Name, Group string }
		require.NoError(t, json.Unmarshal([]byte(c), &named))
		require.False(t, seen[named.Group+"/"+named.Name], "%s has %q twice", kind, named.Name)
		seen[named.Group+"/"+named.Name] = true
		dec := json.NewDecoder(strings.NewReader(c))
		dec.DisallowUnknownFields()
		var v T
		require.NoError(t, dec.Decode(&v))
		complete(&v)
		require.Equal(t, c, encodeVector(t, v), "%s: %s", kind, named.Name)
	}
}

// readVectors returns the cases of a file that is a table itself, and is not made of one.
func readVectors[T any](t *testing.T, kind string) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors/" + kind + ".json")
	require.NoError(t, err)
	var file struct{ Cases []T }
	require.NoError(t, json.Unmarshal(b, &file))
	return file.Cases
}

func encodeVector(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSuffix(b.String(), "\n")
}

// checkVectorFile writes a file of vectors, or checks that it is up to date.
func checkVectorFile(t *testing.T, name, want string) {
	t.Helper()
	file := filepath.Join("testdata/vectors", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, string(got) == want, "%s is not what the tables say: go test -run TestVectors -update .", file)
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

// escapeLatin1 makes each byte a character, because JSON cannot hold bytes.
func escapeLatin1(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		for _, c := range []byte(line) {
			out[i] += string(rune(c))
		}
	}
	return out
}

// bytesOf undoes escapeLatin1.
func bytesOf(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		for _, r := range line {
			out[i] += string([]byte{byte(r)})
		}
	}
	return out
}

// vectorHeader returns the lines of a header as they stand in a vector.
func vectorHeader(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"); line != "" {
			lines = append(lines, line)
		}
	}
	return escapeLatin1(lines)
}

// vectorResponse returns the status and the header of a response in the wire's text.
func vectorResponse(text string) (status int, header []string) {
	status = responseOf(text).StatusCode
	if strings.HasPrefix(text, "HTTP/") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return status, vectorHeader(text)
}

// headerOf makes a header of lines in a vector.
func headerOf(lines []string) http.Header { return wire(strings.Join(bytesOf(lines), "\n")) }

// A vectorError says that something is refused, and why.
type vectorError struct {
	Rule   string `json:"rule"`             // an id in CONFORMANCE.md, or a section of an RFC
	Cause  string `json:"cause,omitempty"`  // one of causeNames
	Field  string `json:"field,omitempty"`  // if the case has several
	Line   *int   `json:"line,omitempty"`   // index of the line, from 0
	Offset *int   `json:"offset,omitempty"` // byte in that line, from 0
	Item   *int64 `json:"item,omitempty"`   // index of the member, from 0; absent if none is at fault
	Param  string `json:"param,omitempty"`  // key of the parameter at fault
}

var causeNames = map[error]string{
	ErrSyntax: "syntax", ErrType: "type", ErrMissing: "missing", ErrRange: "range",
	ErrDuplicate: "duplicate", ErrConflict: "conflict", ErrTooMany: "too-many",
}

// vectorErrorOf returns nil if err is nil.
func vectorErrorOf(t *testing.T, err error) *vectorError {
	t.Helper()
	if err == nil {
		return nil
	}
	e := requireFieldError(t, err)
	v := &vectorError{Rule: vectorRule(e), Cause: causeNames[e.Err], Item: orNil(int64(e.Item)), Param: e.Param}
	if e.Offset >= 0 {
		v.Line, v.Offset = &e.Line, &e.Offset
	}
	return v
}

// vectorErrors returns what ParseAny or Parse says of several fields.
func vectorErrors(t *testing.T, err error) (list []vectorError) {
	t.Helper()
	for _, e := range requireFieldErrors(t, err) {
		v := vectorErrorOf(t, e)
		v.Field = e.Field
		list = append(list, *v)
	}
	return list
}

// vectorRules are the rules that a field breaks which cannot be read or written:
// by parameter, and "name", "list" and "missing" for the rest of a member.
var vectorRules = map[string]map[string]string{
	PolicyField: {"q": "P13", "qu": "P14", "w": "P16", "pk": "P17", "missing": "P6", "name": "P2", "list": "P1"},
	LimitField:  {"r": "L5", "t": "L7", "pk": "L10", "missing": "L2", "name": "L1", "list": "L1"},
}

// vectorRule returns the rule that a field breaks when it is read or, without a
// position, written.
func vectorRule(e *FieldError) string {
	rules, reads := vectorRules[e.Field], e.Offset >= 0
	switch {
	case reads && e.Err == ErrMissing:
		return rules["missing"]
	case reads && (e.Err == ErrSyntax || e.Err == ErrTooMany):
		return rules["list"]
	case e.Err == ErrTooMany || e.Err == ErrDuplicate:
		return "9651-3.1.2"
	case e.Param == "":
		return rules["name"]
	case rules[e.Param] == "":
		return "9651-4.1.1.3" // the key of an extension parameter
	}
	return rules[e.Param]
}

// fieldVector is the lines of one field, and what they mean.
type fieldVector struct {
	Name      string       `json:"name"`
	Lines     []string     `json:"lines"`
	Policies  []Policy     `json:"policies,omitzero"`
	Limits    []Limit      `json:"limits,omitzero"`
	Canonical *string      `json:"canonical,omitempty"`
	Error     *vectorError `json:"error,omitempty"`
}

func fieldVectors(t *testing.T) {
	policies := oneFieldVectors(t, policyCodec, "policies", policyCases)
	limits := oneFieldVectors(t, limitCodec, "limits", limitCases)
	listVectors(t, append(policies, limits...))
}

func oneFieldVectors[T memberType[T]](t *testing.T, c codec[T], kind string, cases []fieldCase) (list []fieldVector) {
	for _, tc := range cases {
		list = append(list, fieldVector{Name: tc.name, Lines: escapeLatin1(tc.lines)})
	}
	checkVectors(t, kind, "lines of the field "+c.field, list, func(v *fieldVector) {
		members, err := c.parse(bytesOf(v.Lines)...)
		*v = fieldVector{Name: v.Name, Lines: v.Lines, Error: vectorErrorOf(t, err)}
		if err != nil {
			finding := Check(&http.Response{Header: http.Header{c.key: bytesOf(v.Lines)}})[0]
			require.Equal(t, v.Error.Rule, finding.Rule)
			return
		}
		text, err := c.format(members...)
		require.NoError(t, err)
		v.Canonical = &text
		switch members := any(append([]T{}, members...)).(type) {
		case []Policy:
			v.Policies = members
		case []Limit:
			v.Limits = members
		}
	})
	return list
}

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

// listVectors checks the lines of field vectors as httpsfv reads them. A parser should
// not fail on a Byte Sequence without its padding (RFC 9651 Section 4.2.7), but httpsfv
// does.
func listVectors(t *testing.T, fields []fieldVector) {
	var list []string
	seen := map[string]bool{}
	for _, f := range fields {
		text := strings.Join(f.Lines, "\n")
		if seen[text] || len(f.Lines) == 0 || len(text) > maxVector {
			continue
		}
		seen[text] = true
		v := listVector{Name: f.Name, Raw: f.Lines, HeaderType: "list"}
		var padded []string
		for _, line := range bytesOf(f.Lines) {
			padded = append(padded, padBase64(line))
			v.CanFail = v.CanFail || padBase64(line) != line
		}
		members, err := httpsfv.UnmarshalList(padded)
		if err != nil {
			v.MustFail, v.CanFail = true, false
			require.NotNil(t, f.Error, "what fails as a List fails as a field: %s", f.Name)
		} else {
			v.Expected = expectedList(t, members)
		}
		list = append(list, encodeVector(t, v))
	}
	checkVectorFile(t, "structured-fields/list.json", "[\n"+strings.Join(list, ",\n")+"\n]\n")
}

func expectedList(t *testing.T, members httpsfv.List) []any {
	params := func(ps *httpsfv.Params) []any {
		list := []any{}
		for _, key := range ps.Names() {
			value, _ := ps.Get(key)
			list = append(list, vectorParam{key, value})
		}
		return list
	}
	item := func(i httpsfv.Item) any { return []any{vectorValue(i.Value), params(i.Params)} }
	list := []any{}
	for _, m := range members {
		switch m := m.(type) {
		case httpsfv.Item:
			list = append(list, item(m))
		case httpsfv.InnerList:
			items := []any{}
			for _, i := range m.Items {
				items = append(items, item(i))
			}
			list = append(list, []any{items, params(m.Params)})
		}
	}
	return list
}

// headerVector is a header, and the two fields in it. In one of kind next they are in
// the form of the draft that follows.
type headerVector struct {
	Name     string        `json:"name"`
	Header   []string      `json:"header"`
	Dialect  *string       `json:"dialect,omitempty"` // of kind next alone
	Policies []Policy      `json:"policies,omitempty"`
	Limits   []Limit       `json:"limits,omitempty"`
	Errors   []vectorError `json:"errors,omitempty"`
}

func headerVectors(t *testing.T) {
	var headers, next []headerVector
	for _, tc := range parseCases {
		headers = append(headers, headerVector{Name: tc.name, Header: vectorHeader(tc.wire)})
	}
	for _, tc := range nextCases {
		next = append(next, headerVector{Name: tc.name, Header: vectorHeader(tc.wire)})
	}
	about := "the fields RateLimit-Policy and RateLimit in a header; a malformed one is ignored alone"
	checkVectors(t, "headers", about, headers, func(v *headerVector) {
		f, err := Parse(headerOf(v.Header))
		*v = headerVector{v.Name, v.Header, nil, f.Policies, f.Limits, vectorErrors(t, err)}
	})
	about = "both fields in the form of the draft that follows draft-11, which is not published and may change"
	checkVectors(t, "next", about, next, func(v *headerVector) {
		f, err := ParseAny(headerOf(v.Header), LegacyOptions{})
		*v = headerVector{v.Name, v.Header, &f.Dialect, f.Policies, f.Limits, vectorErrors(t, err)}
	})
}

// A vectorMember is a policy or a limit that may break the rules of its field, so that
// its own methods for JSON refuse it.
type vectorMember struct {
	memberJSON
	Params []vectorParam `json:"params,omitempty"`
}

func (m vectorMember) params() (ps Params) {
	for _, p := range m.Params {
		ps = append(ps, Param(p))
	}
	return ps
}

// A vectorParam is a Param, in range or not.
type vectorParam Param

func (p vectorParam) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.Key, vectorValue(p.Value)})
}

func (p *vectorParam) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	p.Value = readVectorValue(pair[1])
	return json.Unmarshal(pair[0], &p.Key)
}

// vectorValue returns what stands for a value in JSON, as in the test files of the
// Structured Fields working group. It is nil if nothing does.
func vectorValue(v any) any {
	switch v := v.(type) {
	case int64, string, bool:
		return v
	case float64:
		if s := strconv.FormatFloat(v, 'f', -1, 64); strings.Contains(s, ".") {
			return json.RawMessage(s)
		} else if math.Abs(v) <= 1e15 {
			return json.RawMessage(s + ".0")
		}
	case httpsfv.Token:
		return typedJSON{tokenType, string(v)}
	case []byte:
		return typedJSON{binaryType, base32.StdEncoding.EncodeToString(v)}
	case time.Time:
		return typedJSON{dateType, v.Unix()}
	case httpsfv.DisplayString:
		if strings.ToValidUTF8(string(v), "") == string(v) {
			return typedJSON{displayType, string(v)}
		}
	}
	return nil
}

// readVectorValue reads what vectorValue returns.
func readVectorValue(b []byte) any {
	var date struct {
		Type  string `json:"__type"`
		Value int64
	}
	if json.Unmarshal(b, &date) == nil && date.Type == dateType {
		return time.Unix(date.Value, 0) // too late for unmarshalValue, it may be
	}
	return unmarshalValue(b)
}

// textVector is members of a field, and the line that is written for them.
type textVector struct {
	Name     string         `json:"name"`
	Policies []vectorMember `json:"policies,omitzero"`
	Limits   []vectorMember `json:"limits,omitzero"`
	Text     *string        `json:"text,omitempty"`
	Error    *vectorError   `json:"error,omitempty"`
}

func (v *textVector) policies() (list []Policy) {
	for _, m := range v.Policies {
		list = append(list, Policy{m.Name, orUnknown(m.Quota), m.Unit, m.Window, m.PartitionKey, m.params()})
	}
	return list
}

func (v *textVector) limits() (list []Limit) {
	for _, m := range v.Limits {
		list = append(list, Limit{m.Name, orUnknown(m.Remaining), m.Reset, m.PartitionKey, m.params()})
	}
	return list
}

// valueVector is the value of a parameter, and the text behind its key.
type valueVector struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Text  *string         `json:"text,omitempty"`
	Error *vectorError    `json:"error,omitempty"`
}

// valueRule returns the rule for writing a value of a type.
func valueRule(v any) string {
	switch v.(type) {
	case int64:
		return "9651-4.1.4"
	case float64:
		return "9651-4.1.5"
	case string:
		return "9651-4.1.6"
	case httpsfv.Token:
		return "9651-4.1.7"
	}
	return "9651-4.1.10" // a Date
}

// The files of texts and values are tables themselves: whoever adds a case writes what goes in.
func textVectors(t *testing.T) {
	texts := readVectors[textVector](t, "texts")
	checkVectors(t, "texts", "members, and the line that is written for them", texts, func(v *textVector) {
		text, err := FormatPolicies(v.policies()...)
		if v.Limits != nil {
			text, err = FormatLimits(v.limits()...)
		}
		v.Text, v.Error = &text, vectorErrorOf(t, err)
		if err != nil {
			v.Text = nil
		}
	})

	values := readVectors[valueVector](t, "values")
	about := "values of a parameter, and the text that is written behind its key"
	checkVectors(t, "values", about, values, func(v *valueVector) {
		value := readVectorValue(v.Value)
		text, err := FormatLimits(Limit{Params: Params{{"x", value}}})
		text = strings.TrimPrefix(text, `"";r=0;x`)
		v.Text, v.Error = &text, nil
		if err != nil {
			v.Text, v.Error = nil, &vectorError{Rule: valueRule(value), Cause: causeNames[requireFieldError(t, err).Err], Param: "x"}
		}
	})
}

// legacyVector is a response in an older form, and what it says.
type legacyVector struct {
	Name    string        `json:"name"`
	Group   string        `json:"group"`
	Header  []string      `json:"header"`
	Arrived time.Time     `json:"arrived"`
	Dialect string        `json:"dialect"`
	Guessed bool          `json:"guessed,omitempty"`
	Want    []vendorLimit `json:"want"`
	Errors  []vectorError `json:"errors,omitempty"`
}

func legacyVectors(t *testing.T) {
	var list []legacyVector
	add := func(group, name, wire string) {
		list = append(list, legacyVector{Name: name, Group: group, Header: vectorHeader(spell(wire, late)), Arrived: late})
	}
	for _, group := range []string{"generations", "edges", "families", "units", "policies", "clocks", "lines"} {
		for _, tc := range readTable(group) {
			add(group, tc.name, tc.wire)
		}
	}
	for _, tc := range resetCases {
		add("resets", tc.name, "X-RateLimit-Reset: "+tc.value)
	}
	checkVectors(t, "legacy", "responses in older forms, and what they say", list, func(v *legacyVector) {
		f, err := ParseAny(headerOf(v.Header), LegacyOptions{Now: v.Arrived})
		v.Dialect, v.Guessed, v.Want, v.Errors = f.Dialect, f.Guessed, append([]vendorLimit{}, joinedLimits(f)...), nil
		for _, e := range vectorErrors(t, err) {
			rule := "6-9"
			if e.Field == PolicyField || e.Field == LimitField {
				rule = "C3"
			}
			v.Errors = append(v.Errors, vectorError{Rule: rule, Field: e.Field})
		}
	})
}

// joinVector is policies and a limit, and the policy that it reports on.
type joinVector struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
	Limit    Limit    `json:"limit"`
	Policy   *Policy  `json:"policy,omitempty"`
}

// tightestVector is fields, and the name of their tightest limit.
type tightestVector struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies"`
	Limits   []Limit  `json:"limits"`
	Tightest string   `json:"tightest"`
}

// capVector is a policy, a limit, and what remains of it when it is capped.
type capVector struct {
	Name      string  `json:"name"`
	Policy    Policy  `json:"policy"`
	Limit     Limit   `json:"limit"`
	Burst     float64 `json:"burst"`
	Remaining *int64  `json:"remaining,omitempty"`
}

func joinVectors(t *testing.T) {
	var joins []joinVector
	for _, tc := range policyOfCases {
		f := pairOf(t, tc.in)
		joins = append(joins, joinVector{Name: tc.name, Policies: append([]Policy{}, f.Policies...), Limit: f.Limits[0]})
	}
	checkVectors(t, "joins", "policies and a limit, and the policy that the limit reports on", joins, func(v *joinVector) {
		v.Policy = nil
		if p, ok := (Fields{Policies: v.Policies}).PolicyOf(v.Limit); ok {
			v.Policy = &p
		}
	})

	var tightest []tightestVector
	for _, tc := range tightestCases {
		if f := pairOf(t, tc.in); f.Policies != nil { // the others are about limits of one unit
			tightest = append(tightest, tightestVector{Name: tc.name, Policies: f.Policies, Limits: f.Limits})
		}
	}
	about := "policies and limits, and the name of the limit that a client is likely to run into first"
	checkVectors(t, "tightest", about, tightest, func(v *tightestVector) {
		l, _ := Fields{Policies: v.Policies, Limits: v.Limits}.Tightest()
		v.Tightest = l.Name
	})

	var caps []capVector
	for _, tc := range capCases {
		p, l, burst := readCap(t, tc.in)
		if burst != 0 && !(math.Abs(burst) <= 1e15 && math.Abs(burst) >= 1e-15) {
			continue // no other language reads such a number alike
		}
		caps = append(caps, capVector{Name: tc.name, Policy: p, Limit: l, Burst: burst})
	}
	about = "a policy and a limit, and what remains when it is capped (draft-11 Section 8.5)"
	checkVectors(t, "caps", about, caps, func(v *capVector) { v.Remaining = orNil(v.Limit.Cap(v.Policy, v.Burst).Remaining) })
}

// problemVector is the text of a problem document, what it says, and the text that is
// written for it if that is the same.
type problemVector struct {
	Name     string         `json:"name"`
	Document string         `json:"document"`
	Problem  *vectorProblem `json:"problem,omitempty"`
	Written  string         `json:"written,omitempty"`
	Error    *vectorError   `json:"error,omitempty"`
}

type vectorProblem struct {
	Type             string                     `json:"type,omitempty"`
	Title            string                     `json:"title,omitempty"`
	Status           int                        `json:"status,omitempty"`
	Detail           string                     `json:"detail,omitempty"`
	Instance         string                     `json:"instance,omitempty"`
	ViolatedPolicies []string                   `json:"violated-policies,omitzero"`
	Extensions       map[string]json.RawMessage `json:"extensions,omitempty"`
}

func problemVectors(t *testing.T) {
	var list []problemVector
	for _, tc := range problemCases {
		name := tc.name
		if tc.refused {
			name = "no problem document: " + name
		}
		list = append(list, problemVector{Name: name, Document: tc.in})
	}
	checkVectors(t, "problems", "texts of problem documents (RFC 9457), and what they say", list, func(v *problemVector) {
		*v = problemVector{Name: v.Name, Document: v.Document}
		var p Problem
		if err := p.UnmarshalJSON([]byte(v.Document)); err != nil {
			v.Error = &vectorError{Rule: "9457-3"}
			return
		}
		v.Problem = (*vectorProblem)(&p)
		text, err := p.MarshalJSON()
		require.NoError(t, err)
		if string(text) == v.Document {
			v.Written = v.Document
		}
	})
}

// adviceVector is a response, and what it asks of a client. Durations are in
// nanoseconds.
type adviceVector struct {
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
type retryVector struct {
	Name    string         `json:"name"`
	Header  []string       `json:"header"`
	Arrived time.Time      `json:"arrived"`
	Wait    *time.Duration `json:"wait,omitempty"`
}

func adviceVectors(t *testing.T) {
	var advice []adviceVector
	for _, tc := range adviseCases {
		if aboutNext(tc.name) || (Advisor{}).Advise(responseOf(tc.wire), arrival).Pace == math.MaxInt64 {
			continue // only Go saturates there
		}
		status, header := vectorResponse(tc.wire)
		advice = append(advice, adviceVector{Name: tc.name, Status: status, Header: header, Arrived: arrival})
	}
	about := "responses, and how long and at which pace a client has to wait, in nanoseconds"
	checkVectors(t, "advice", about, advice, func(v *adviceVector) {
		a := Advisor{}.Advise(&http.Response{StatusCode: v.Status, Header: headerOf(v.Header)}, v.Arrived)
		*v = adviceVector{v.Name, v.Status, v.Header, v.Arrived, a.Wait, a.Pace, a.Source.String(), a.Limit.Name, a.Capped}
	})

	var retry []retryVector
	for _, tc := range retryAfterCases {
		if tc.want != time.Duration(math.MaxInt64).String() { // where only Go saturates
			retry = append(retry, retryVector{Name: tc.name, Header: vectorHeader(tc.wire), Arrived: arrival})
		}
	}
	about = "headers, and how long they ask a client to wait, in nanoseconds"
	checkVectors(t, "retry-after", about, retry, func(v *retryVector) {
		wait, ok := ParseRetryAfter(headerOf(v.Header), v.Arrived)
		v.Wait = &wait
		if !ok {
			v.Wait = nil
		}
	})
}

// restrictVector is what a server says, what an intermediary in front of it says, and
// what both say together.
type restrictVector struct {
	Name     string       `json:"name"`
	Upstream Fields       `json:"upstream"`
	Own      Fields       `json:"own"`
	Want     *Fields      `json:"want,omitempty"`
	Error    *vectorError `json:"error,omitempty"`
}

func restrictVectors(t *testing.T) {
	var list []restrictVector
	add := func(name, upstream, own string) {
		u, o := pairOf(t, upstream), pairOf(t, own)
		u.Dialect, o.Dialect = "", ""
		list = append(list, restrictVector{Name: name, Upstream: u, Own: o})
	}
	for _, tc := range restrictCases {
		if tc.fault == nil {
			add(tc.name, tc.upstream, tc.own)
		} else if tc.fault.Err == ErrConflict { // else own is no announcement, which is not about joining
			add("refused: "+tc.name, tc.upstream, tc.own)
		}
	}
	about := "what a server says, what an intermediary in front of it says, and what both say together"
	checkVectors(t, "restrict", about, list, func(v *restrictVector) {
		f, err := Restrict(v.Upstream, v.Own)
		v.Want, v.Error = &f, vectorErrorOf(t, err)
		if err != nil {
			v.Want, v.Error.Rule, v.Error.Field = nil, "I1", requireFieldError(t, err).Field // it would permit more
			if v.Error.Param == unitKey {
				v.Error.Rule = "I2"
			}
		}
	})
}

// lintVector is a response, and the rules that it breaks.
type lintVector struct {
	Name     string        `json:"name"`
	Status   int           `json:"status"`
	Header   []string      `json:"header"`
	Findings []lintFinding `json:"findings"`
}

type lintFinding struct {
	Rule  string `json:"rule"`
	Level string `json:"level"`
	Field string `json:"field"`
	Item  *int64 `json:"item,omitempty"`
}

func lintFindingOf(f Finding) lintFinding {
	return lintFinding{f.Rule, f.Level.String(), f.Field, orNil(int64(f.Item))}
}

func lintVectors(t *testing.T) {
	var list []lintVector
	for _, tc := range append(append([]lintCase{}, lintCases...), draftExamples...) {
		if !aboutNext(tc.name) {
			status, header := vectorResponse(tc.wire)
			list = append(list, lintVector{Name: tc.name, Status: status, Header: header})
		}
	}
	checkVectors(t, "lint", "responses, and the rules of CONFORMANCE.md that they break", list, func(v *lintVector) {
		v.Findings = []lintFinding{}
		for _, f := range Check(&http.Response{StatusCode: v.Status, Header: headerOf(v.Header)}) {
			v.Findings = append(v.Findings, lintFindingOf(f))
		}
	})
}

// aboutNext reports whether a row is about the draft that is not published, which has
// a file of its own.
func aboutNext(name string) bool { return nextRule.MatchString(name) }

var nextRule = regexp.MustCompile(`^D\d`)
