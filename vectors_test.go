package ratelimit

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// The vectors give the tables of the tests to other implementations.
// ratelimittest/vectors/README.md describes their form, and schema.json defines it. A case begins
// with its input, which has a type. The result of this package follows.

// TestVectors fails if the files differ from the tables of the tests, or if an input cannot be read
// back from the files.
func TestVectors(t *testing.T) {
	t.Parallel()
	fieldVectors(t)
	headerVectors(t)
	textVectors(t)
	legacyVectors(t)
	joinVectors(t)
	capVectors(t)
	problemVectors(t)
	adviceVectors(t)
	restrictVectors(t)
}

// A madeVector is the result of this package for a case. Each kind has some of its members.
type madeVector struct {
	Dialect   *string        `json:"dialect,omitempty"`
	Guessed   bool           `json:"guessed,omitempty"`
	Want      any            `json:"want,omitempty"`
	Policy    *Policy        `json:"policy,omitempty"`
	Policies  []Policy       `json:"policies,omitzero"`
	Limits    []Limit        `json:"limits,omitzero"`
	Canonical *string        `json:"canonical,omitempty"`
	Text      *string        `json:"text,omitempty"`
	Problem   *vectorProblem `json:"problem,omitempty"`
	Written   string         `json:"written,omitempty"` // if that is the text of a problem
	Wait      *time.Duration `json:"wait,omitempty"`    // in nanoseconds
	Pace      *time.Duration `json:"pace,omitempty"`
	Source    string         `json:"source,omitempty"`
	Limit     string         `json:"limit,omitempty"`
	Capped    bool           `json:"capped,omitempty"`
	Tightest  *string        `json:"tightest,omitempty"`
	Remaining *int64         `json:"remaining,omitempty"`
	Error     *vectorError   `json:"error,omitempty"`
	Errors    []vectorError  `json:"errors,omitempty"`
}

// Every rule that a vector names is in CONFORMANCE.md, or is a section of an RFC.
func TestVectorRules(t *testing.T) {
	conformance, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	files, err := filepath.Glob("ratelimittest/vectors/*.json")
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

// A vectorError is the fault of a rejected input.
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

// vectorErrors returns the errors of ParseAny or Parse for several fields.
func vectorErrors(t *testing.T, err error) (list []vectorError) {
	t.Helper()
	for _, e := range requireFieldErrors(t, err) {
		v := vectorErrorOf(t, e)
		v.Field = e.Field
		list = append(list, *v)
	}
	return list
}

// vectorRules are the rules that an unreadable or unwritable field breaks. The keys are
// parameters, and "name", "list" and "missing" for the rest of a member.
var vectorRules = map[string]map[string]string{
	PolicyField: {"q": "P13", "qu": "P14", "w": "P16", "pk": "P17", "missing": "P6", "name": "P2", "list": "P1"},
	LimitField:  {"r": "L5", "t": "L7", "pk": "L10", "missing": "L2", "name": "L1", "list": "L1"},
}

// vectorRule returns the rule that a field breaks. If the error has no position, it is about
// writing.
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

// A lineVector has the lines of one field.
type lineVector struct {
	Name  string   `json:"name"`
	Lines []string `json:"lines"`
}

func fieldVectors(t *testing.T) {
	policies := oneFieldVectors(t, policyCodec, "policies", policyCases)
	limits := oneFieldVectors(t, limitCodec, "limits", limitCases)
	listVectors(t, append(policies, limits...))
}

func oneFieldVectors[T memberType[T]](t *testing.T, c codec[T], kind string, cases []fieldCase) (list []lineVector) {
	for _, tc := range cases {
		list = append(list, lineVector{tc.name, trial.EscapeLatin1(tc.lines)})
	}
	trial.CheckVectors(t, kind, "lines of the field "+c.field, list, func(v lineVector) madeVector {
		lines := trial.BytesOf(v.Lines)
		members, err := c.parse(lines...)
		if err != nil {
			return madeVector{Error: vectorErrorOf(t, err)}
		}
		text, err := c.format(members...)
		require.NoError(t, err)
		f := c.alone(append([]T{}, members...)...)
		return madeVector{Policies: f.Policies, Limits: f.Limits, Canonical: &text}
	})
	return list
}

// A listVector is a case in the form of the tests of the Structured Fields working group
// (https://github.com/httpwg/structured-field-tests). It is only about parsing, not about the
// meaning of the members.
type listVector struct {
	Name       string   `json:"name"`
	Raw        []string `json:"raw"`
	HeaderType string   `json:"header_type"`
	Expected   any      `json:"expected,omitempty"`
	MustFail   bool     `json:"must_fail,omitempty"`
	CanFail    bool     `json:"can_fail,omitempty"`
}

// listVectors compares field vectors with httpsfv. A parser should accept a Byte Sequence
// without its padding (RFC 9651 Section 4.2.7), but httpsfv does not.
func listVectors(t *testing.T, fields []lineVector) {
	var list []string
	seen := map[string]bool{}
	for _, f := range fields {
		text := strings.Join(f.Lines, "\n")
		if seen[text] || len(f.Lines) == 0 || len(text) > trial.MaxVector {
			continue
		}
		seen[text] = true
		v := listVector{Name: f.Name, Raw: f.Lines, HeaderType: "list"}
		var padded []string
		for _, line := range trial.BytesOf(f.Lines) {
			padded = append(padded, padBase64(line))
			v.CanFail = v.CanFail || padBase64(line) != line
		}
		members, err := httpsfv.UnmarshalList(padded)
		if err != nil {
			v.MustFail, v.CanFail = true, false
			_, policyErr := ParsePolicies(trial.BytesOf(f.Lines)...)
			_, limitErr := ParseLimits(trial.BytesOf(f.Lines)...)
			require.True(t, policyErr != nil && limitErr != nil, "a field that fails as a List fails as a field: %s", f.Name)
		} else {
			v.Expected = expectedList(t, members)
		}
		list = append(list, trial.EncodeVector(t, v))
	}
	trial.CheckVectorFile(t, "structured-fields/list.json", "[\n"+strings.Join(list, ",\n")+"\n]\n")
}

func expectedList(t *testing.T, members httpsfv.List) []any {
	item := func(value any, params *httpsfv.Params) any {
		list := Params{}
		for _, key := range params.Names() {
			value, _ := params.Get(key)
			list = append(list, Param{key, value})
		}
		return []any{value, list}
	}
	list := []any{}
	for _, m := range members {
		switch m := m.(type) {
		case httpsfv.Item:
			list = append(list, item(bareItem(t, m.Value), m.Params))
		case httpsfv.InnerList:
			items := []any{}
			for _, i := range m.Items {
				items = append(items, item(bareItem(t, i.Value), i.Params))
			}
			list = append(list, item(items, m.Params))
		}
	}
	return list
}

// bareItem returns the JSON of a value after the key of a parameter.
func bareItem(t *testing.T, value any) any {
	if s, ok := value.(string); ok {
		return s
	}
	b, err := Param{"x", value}.MarshalJSON()
	require.NoError(t, err)
	var pair [2]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &pair))
	return pair[1]
}

func headerVectors(t *testing.T) {
	var headers, next []trial.ResponseVector
	for _, tc := range parseCases {
		headers = append(headers, trial.ResponseVector{Name: tc.name, Header: trial.VectorHeader(tc.wire)})
	}
	for _, tc := range nextCases {
		next = append(next, trial.ResponseVector{Name: tc.name, Header: trial.VectorHeader(tc.wire)})
	}
	about := "the fields RateLimit-Policy and RateLimit in a header; a malformed one is ignored alone"
	trial.CheckVectors(t, "headers", about, headers, func(v trial.ResponseVector) madeVector {
		f, err := Parse(v.MakeHeader())
		return madeVector{Policies: f.Policies, Limits: f.Limits, Errors: vectorErrors(t, err)}
	})
	about = "both fields in the form of the draft that follows draft-11, which is not published and may change"
	trial.CheckVectors(t, "next", about, next, func(v trial.ResponseVector) madeVector {
		f, err := ParseAny(v.MakeHeader(), LegacyOptions{})
		return madeVector{Dialect: &f.Dialect, Policies: f.Policies, Limits: f.Limits, Errors: vectorErrors(t, err)}
	})
}

// A vectorMember is a policy or a limit that may break the rules of its field. The JSON
// methods of Policy and Limit would refuse it.
type vectorMember struct {
	memberJSON
	Quota     *int64               `json:"quota"`
	Remaining *int64               `json:"remaining"`
	Params    [][2]json.RawMessage `json:"params"` // key and value
}

func (m *vectorMember) policy() Policy {
	return Policy{m.Name, orUnknown(m.Quota), m.Unit, m.Window, m.PartitionKey, m.params()}
}

func (m *vectorMember) limit() Limit {
	return Limit{m.Name, orUnknown(m.Remaining), m.Reset, m.PartitionKey, m.params()}
}

func (m *vectorMember) params() (ps Params) {
	for _, p := range m.Params {
		var key string
		_ = json.Unmarshal(p[0], &key)
		ps = append(ps, Param{key, readVectorValue(p[1])})
	}
	return ps
}

// readVectorValue reads the value of a parameter.
func readVectorValue(b []byte) any {
	var date struct {
		Type  string `json:"__type"`
		Value int64
	}
	if json.Unmarshal(b, &date) == nil && date.Type == "date" {
		return time.Unix(date.Value, 0) // unmarshalValue refuses some late times
	}
	return unmarshalValue(b)
}

// A textVector has the members of a field, each list in the form of the file.
type textVector struct {
	Name     string          `json:"name"`
	Policies json.RawMessage `json:"policies,omitempty"`
	Limits   json.RawMessage `json:"limits,omitempty"`
}

// vectorMembers reads a list of members.
func vectorMembers[T any](t *testing.T, text json.RawMessage, of func(*vectorMember) T) (members []T) {
	var list []vectorMember
	require.NoError(t, json.Unmarshal(text, &list))
	for i := range list {
		members = append(members, of(&list[i]))
	}
	return members
}

// A valueVector is the value of a parameter.
type valueVector struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// writtenOf returns the line that is written for members, or an error.
func writtenOf(t *testing.T, text string, err error) madeVector {
	if err != nil {
		return madeVector{Error: vectorErrorOf(t, err)}
	}
	return madeVector{Text: &text}
}

// valueRule returns the rule for writing a value of this type.
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

// The files of texts and values are tables themselves. A new case needs only its input.
func textVectors(t *testing.T) {
	texts := trial.ReadVectors[textVector](t, "texts")
	trial.CheckVectors(t, "texts", "members, and the line that is written for them", texts, func(v textVector) madeVector {
		if v.Limits != nil {
			text, err := FormatLimits(vectorMembers(t, v.Limits, (*vectorMember).limit)...)
			return writtenOf(t, text, err)
		}
		text, err := FormatPolicies(vectorMembers(t, v.Policies, (*vectorMember).policy)...)
		return writtenOf(t, text, err)
	})

	values := trial.ReadVectors[valueVector](t, "values")
	about := "values of a parameter, and the text that is written after its key"
	trial.CheckVectors(t, "values", about, values, func(v valueVector) madeVector {
		value := readVectorValue(v.Value)
		text, err := FormatLimits(Limit{Params: Params{{"x", value}}})
		made := writtenOf(t, strings.TrimPrefix(text, `"";r=0;x`), err)
		if err != nil {
			made.Error.Rule, made.Error.Item = valueRule(value), nil
		}
		return made
	})
}

func legacyVectors(t *testing.T) {
	var list []trial.ResponseVector
	add := func(group, name, wire string) {
		header := trial.VectorHeader(trial.Spell(wire, late))
		list = append(list, trial.ResponseVector{Name: name, Group: group, Header: header, Arrived: late})
	}
	for _, group := range []string{"generations", "edges", "families", "units", "policies", "clocks", "lines", "shares"} {
		for _, tc := range readTable(group) {
			add(group, tc.name, tc.wire)
		}
	}
	for _, tc := range resetCases {
		add("resets", tc.name, "X-RateLimit-Reset: "+tc.value)
	}
	trial.CheckVectors(t, "legacy", "responses in older forms, and their meaning", list, func(v trial.ResponseVector) madeVector {
		f, err := ParseAny(v.MakeHeader(), LegacyOptions{Now: v.Arrived})
		made := madeVector{Dialect: &f.Dialect, Guessed: f.Guessed, Want: append([]vendorLimit{}, joinedLimits(f)...)}
		for _, e := range vectorErrors(t, err) {
			rule := "6-9"
			if e.Field == PolicyField || e.Field == LimitField {
				rule = "C3"
			}
			made.Errors = append(made.Errors, vectorError{Rule: rule, Field: e.Field})
		}
		return made
	})
}

func joinVectors(t *testing.T) {
	type join struct {
		Name     string   `json:"name"`
		Policies []Policy `json:"policies"`
		Limit    Limit    `json:"limit"`
	}
	var joins []join
	for _, tc := range policyOfCases {
		f := pairOf(t, tc.In)
		joins = append(joins, join{tc.Name, append([]Policy{}, f.Policies...), f.Limits[0]})
	}
	about := "policies and a limit, and the policy that the limit reports on"
	trial.CheckVectors(t, "joins", about, joins, func(v join) madeVector {
		if p, ok := (Fields{Policies: v.Policies}).PolicyOf(v.Limit); ok {
			return madeVector{Policy: &p}
		}
		return madeVector{}
	})

	type pair struct {
		Name     string   `json:"name"`
		Policies []Policy `json:"policies"`
		Limits   []Limit  `json:"limits"`
	}
	var pairs []pair
	for _, tc := range tightestCases {
		if f := pairOf(t, tc.In); f.Policies != nil { // the other cases are about limits of one unit
			pairs = append(pairs, pair{tc.Name, f.Policies, f.Limits})
		}
	}
	about = "policies and limits, and the name of the limit that a client is likely to run into first"
	trial.CheckVectors(t, "tightest", about, pairs, func(v pair) madeVector {
		l, _ := Fields{Policies: v.Policies, Limits: v.Limits}.Tightest()
		return madeVector{Tightest: &l.Name}
	})
}

func capVectors(t *testing.T) {
	type cap struct {
		Name   string  `json:"name"`
		Policy Policy  `json:"policy"`
		Limit  Limit   `json:"limit"`
		Burst  float64 `json:"burst"`
	}
	var caps []cap
	for _, tc := range capCases {
		p, l, burst := readCap(t, tc.In)
		if burst == 0 || math.Abs(burst) <= 1e15 && math.Abs(burst) >= 1e-15 { // other languages may read other numbers differently
			caps = append(caps, cap{tc.Name, p, l, burst})
		}
	}
	about := "a policy and a limit, and what remains when it is capped (draft-11 Section 8.5)"
	trial.CheckVectors(t, "caps", about, caps, func(v cap) madeVector {
		return madeVector{Remaining: orNil(v.Limit.Cap(v.Policy, v.Burst).Remaining)}
	})
}

// A problemVector is the text of a problem document.
type problemVector struct {
	Name     string `json:"name"`
	Document string `json:"document"`
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
		name := tc.Name
		if tc.Refused {
			name = "no problem document: " + name
		}
		list = append(list, problemVector{name, tc.In})
	}
	about := "texts of problem documents (RFC 9457), and their meaning"
	trial.CheckVectors(t, "problems", about, list, func(v problemVector) madeVector {
		var p Problem
		if err := p.UnmarshalJSON([]byte(v.Document)); err != nil {
			return madeVector{Error: &vectorError{Rule: "9457-3"}}
		}
		made := madeVector{Problem: (*vectorProblem)(&p)}
		text, err := p.MarshalJSON()
		require.NoError(t, err)
		if string(text) == v.Document {
			made.Written = v.Document
		}
		return made
	})
}

func adviceVectors(t *testing.T) {
	var advice []trial.ResponseVector
	for _, tc := range adviseCases {
		if aboutNext(tc.Name) || Advise(trial.ResponseOf(tc.Wire), trial.Arrival).Pace == math.MaxInt64 {
			continue // only Go saturates there
		}
		advice = append(advice, trial.ResponseVectorOf(tc.Name, tc.Wire, trial.Arrival))
	}
	about := "responses, with the wait and the pace for a client, in nanoseconds"
	trial.CheckVectors(t, "advice", about, advice, func(v trial.ResponseVector) madeVector {
		a := Advise(v.Response(), v.Arrived)
		return madeVector{Wait: &a.Wait, Pace: &a.Pace, Source: a.Source.String(), Limit: a.Limit.Name, Capped: a.Capped}
	})

	var retry []trial.ResponseVector
	for _, tc := range retryAfterCases {
		if tc.Want != time.Duration(math.MaxInt64).String() { // only Go saturates there
			retry = append(retry, trial.ResponseVector{Name: tc.Name, Header: trial.VectorHeader(tc.Wire), Arrived: trial.Arrival})
		}
	}
	about = "headers, and how long they ask a client to wait, in nanoseconds"
	trial.CheckVectors(t, "retry-after", about, retry, func(v trial.ResponseVector) madeVector {
		if wait, ok := ParseRetryAfter(v.MakeHeader(), v.Arrived); ok {
			return madeVector{Wait: &wait}
		}
		return madeVector{}
	})
}

// A restrictVector has the fields of a server and those of an intermediary in front of it.
type restrictVector struct {
	Name     string `json:"name"`
	Upstream Fields `json:"upstream"`
	Own      Fields `json:"own"`
}

func restrictVectors(t *testing.T) {
	var list []restrictVector
	add := func(name, upstream, own string) {
		u, o := pairOf(t, upstream), pairOf(t, own)
		u.Dialect, o.Dialect = "", ""
		list = append(list, restrictVector{name, u, o})
	}
	for _, tc := range restrictCases {
		if tc.fault == nil {
			add(tc.name, tc.upstream, tc.own)
		} else if tc.fault.Err == ErrConflict { // the other errors are about own, not about joining
			add("refused: "+tc.name, tc.upstream, tc.own)
		}
	}
	about := "the fields of a server, the fields of an intermediary in front of it, and the joined fields"
	trial.CheckVectors(t, "restrict", about, list, func(v restrictVector) madeVector {
		f, err := Restrict(v.Upstream, v.Own)
		if err == nil {
			return madeVector{Want: &f}
		}
		e := vectorErrorOf(t, err)
		e.Rule, e.Field = "I1", requireFieldError(t, err).Field // it would permit more
		if e.Param == draft.Unit {
			e.Rule = "I2"
		}
		return madeVector{Error: e}
	})
}

// aboutNext reports whether a row is about the unpublished draft, which has its own file.
func aboutNext(name string) bool { return nextRule.MatchString(name) }

var nextRule = regexp.MustCompile(`^D\d`)

// orNil returns a pointer to n, or nil if n is Unknown.
func orNil(n int64) *int64 {
	if n == Unknown {
		return nil
	}
	return &n
}

// orUnknown returns *n, or Unknown if n is nil.
func orUnknown(n *int64) int64 {
	if n == nil {
		return Unknown
	}
	return *n
}
