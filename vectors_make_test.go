package ratelimit

import (
	"bytes"
	"encoding/base32"
	"encoding/json"
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

// vectorRules are the rules that a field breaks which cannot be read or written:
// by parameter, and "name", "list" and "missing" for the rest of a member.
var vectorRules = map[string]map[string]string{
	PolicyField: {"q": "P13", "qu": "P14", "w": "P16", "pk": "P17", "missing": "P6", "name": "P2", "list": "P1"},
	LimitField:  {"r": "L5", "t": "L7", "pk": "L10", "missing": "L2", "name": "L1", "list": "L1"},
}

// readRule returns the rule that a field breaks when it is read.
func readRule(field, param string, cause error) string {
	rules := vectorRules[field]
	switch {
	case cause == ErrMissing:
		return rules["missing"]
	case cause == ErrSyntax || cause == ErrTooMany:
		return rules["list"]
	case param == "":
		return rules["name"]
	}
	return rules[param]
}

// writeRule returns the rule that a member breaks when it is written.
func writeRule(field, param string, cause error) string {
	switch id := vectorRules[field][param]; {
	case cause == ErrTooMany || cause == ErrDuplicate:
		return "9651-3.1.2"
	case id != "":
		return id
	case param == "":
		return vectorRules[field]["name"]
	}
	return "9651-4.1.1.3" // the key of an extension parameter
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
	case time.Time:
		return "9651-4.1.10"
	}
	return ""
}

// escapeLatin1 makes each byte a character, because JSON cannot hold bytes.
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

// headerLines returns the lines of a header as they stand in a vector.
func headerLines(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"); line != "" {
			lines = append(lines, line)
		}
	}
	return escapeLatin1(lines)
}

// maxVector is the length of the longest case that is a vector. Longer ones are
// about bounds, and say the same as their names.
const maxVector = 3000

// writeVectors writes a file of vectors, or checks that it is up to date.
func writeVectors[T any](t *testing.T, kind, about string, cases []T) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&b, "{\n\"kind\": %q,\n\"about\": %q,\n", kind, about)
	if kind == "next" {
		b.WriteString("\"unpublished\": true,\n")
	}
	b.WriteString("\"cases\": [\n")
	separator := ""
	for _, c := range cases {
		start := b.Len()
		b.WriteString(separator)
		require.NoError(t, enc.Encode(c))
		if b.Len()-start > maxVector {
			b.Truncate(start)
			continue
		}
		b.Truncate(b.Len() - 1)
		separator = ",\n"
	}
	b.WriteString("\n]\n}\n")
	writeFile(t, kind+".json", b.Bytes())
}

// writeFile writes a file of vectors, or checks that it is up to date.
func writeFile(t *testing.T, name string, want []byte) {
	t.Helper()
	file := filepath.Join("testdata/vectors", name)
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(got, want), "%s is not what the tables say: go test -run TestMakeVectors -update .", file)
}

// TestMakeVectors fails if the vectors are not what the tables of the tests say.
func TestMakeVectors(t *testing.T) {
	makeFieldVectors(t)
	makeTextVectors(t)
	makeLegacyVectors(t)
	makeJoinVectors(t)
	makeProblemVectors(t)
	makeUseVectors(t)
	makeLintVectors(t)
	makeNextVectors(t)
	makeSequenceVectors(t)
}

func makeFieldVectors(t *testing.T) {
	var policies, limits []fieldVector
	for _, tc := range policyCases {
		canonical, err := FormatPolicies(tc.want...)
		require.NoError(t, err)
		policies = append(policies, fieldVector{Name: tc.name, Lines: append([]string{}, tc.lines...), Policies: append([]Policy{}, tc.want...), Canonical: &canonical})
	}
	for _, tc := range limitCases {
		canonical, err := FormatLimits(tc.want...)
		require.NoError(t, err)
		limits = append(limits, fieldVector{Name: tc.name, Lines: append([]string{}, tc.lines...), Limits: append([]Limit{}, tc.want...), Canonical: &canonical})
	}
	for _, tc := range policyErrorCases {
		policies = append(policies, tc.vector(PolicyField))
	}
	for _, tc := range errorCases {
		limits = append(limits, tc.vector(LimitField))
	}
	writeVectors(t, "policies", "lines of the field RateLimit-Policy", policies)
	writeVectors(t, "limits", "lines of the field RateLimit", limits)
	writeLists(t, append(policies, limits...))

	var headers []headerVector
	for _, tc := range parseCases {
		v := headerVector{Name: tc.name, Header: headerLines(tc.header), Policies: tc.want.Policies, Limits: tc.want.Limits}
		for _, err := range tc.errs {
			v.Errors = append(v.Errors, *fieldErrorVector(err.(*FieldError)))
		}
		headers = append(headers, v)
	}
	writeVectors(t, "headers", "the fields RateLimit-Policy and RateLimit in a header; a malformed one is ignored alone", headers)
}

func (tc errorCase) vector(field string) fieldVector {
	lines, line, offset := tc.lines()
	return fieldVector{Name: tc.name, Lines: escapeLatin1(lines), Error: &vectorError{
		Rule: readRule(field, tc.param, tc.want), Cause: causeNames[tc.want], Line: &line, Offset: &offset, Item: &tc.item, Param: tc.param,
	}}
}

func fieldErrorVector(e *FieldError) *vectorError {
	return &vectorError{
		Rule: readRule(e.Field, e.Param, e.Err), Cause: causeNames[e.Err], Field: e.Field,
		Line: &e.Line, Offset: &e.Offset, Item: &e.Item, Param: e.Param,
	}
}

func makeTextVectors(t *testing.T) {
	var texts []textVector
	for _, tc := range formatPolicyCases {
		texts = append(texts, textVector{Name: "policies: " + tc.name, Policies: policyMembers(t, tc.policies), Text: &tc.want})
	}
	for _, tc := range formatLimitCases {
		texts = append(texts, textVector{Name: "limits: " + tc.name, Limits: limitMembers(t, tc.limits), Text: &tc.want})
	}
	item := 0
	for _, tc := range formatPolicyErrorCases {
		e := &vectorError{Rule: writeRule(PolicyField, tc.param, tc.want), Cause: causeNames[tc.want], Item: &item, Param: tc.param}
		texts = append(texts, textVector{Name: "policies: " + tc.name, Policies: policyMembers(t, []Policy{tc.policy}), Error: e})
	}
	for _, tc := range formatLimitErrorCases {
		e := &vectorError{Rule: writeRule(LimitField, tc.param, tc.want), Cause: causeNames[tc.want], Item: &item, Param: tc.param}
		texts = append(texts, textVector{Name: "limits: " + tc.name, Limits: limitMembers(t, []Limit{tc.limit}), Error: e})
	}
	writeVectors(t, "texts", "members, and the line that is written for them", texts)

	var values []valueVector
	for _, tc := range valueCases {
		text, ok := writeVectorValue(tc.value)
		if !ok {
			continue // only Go has such a value
		}
		if strings.HasPrefix(tc.name, "a little") {
			continue // only a float64 is that
		}
		v := valueVector{Name: tc.name, Value: text, Text: &tc.want}
		if tc.err != nil {
			v.Text, v.Error = nil, &vectorError{Rule: valueRule(tc.value), Cause: causeNames[tc.err], Param: "x"}
		}
		values = append(values, v)
	}
	writeVectors(t, "values", "values of a parameter, and the text that is written behind its key", values)
}

func policyMembers(t *testing.T, policies []Policy) []vectorMember {
	list := []vectorMember{}
	for _, p := range policies {
		list = append(list, vectorMember{
			Name: p.Name, Quota: orNil(p.Quota), Unit: p.Unit, Window: p.Window.pointer(), PartitionKey: p.PartitionKey, Params: vectorParams(t, p.Params),
		})
	}
	return list
}

func limitMembers(t *testing.T, limits []Limit) []vectorMember {
	list := []vectorMember{}
	for _, l := range limits {
		list = append(list, vectorMember{
			Name: l.Name, Remaining: orNil(l.Remaining), Reset: l.Reset.pointer(), PartitionKey: l.PartitionKey, Params: vectorParams(t, l.Params),
		})
	}
	return list
}

// pointer returns a pointer to the number, or nil if it is absent.
func (s Seconds) pointer() *int64 {
	if !s.ok {
		return nil
	}
	return &s.n
}

func vectorParams(t *testing.T, ps Params) (list []vectorParam) {
	for _, p := range ps {
		key, err := json.Marshal(p.Key)
		require.NoError(t, err)
		value, ok := writeVectorValue(p.Value)
		require.True(t, ok)
		list = append(list, vectorParam{key, value})
	}
	return list
}

// writeVectorValue writes a value as the test files of the Structured Fields
// working group do, in range or not. ok is false if JSON cannot hold it.
func writeVectorValue(v any) (text json.RawMessage, ok bool) {
	typed := func(name string, value any) (json.RawMessage, bool) {
		b, err := json.Marshal(struct {
			Type  string `json:"__type"`
			Value any    `json:"value"`
		}{name, value})
		return b, err == nil
	}
	switch v := v.(type) {
	case int64:
		return json.RawMessage(strconv.FormatInt(v, 10)), true
	case float64:
		if math.Abs(v) > 1e15 || math.IsNaN(v) {
			return nil, false
		}
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return json.RawMessage(s), true
	case string, bool:
		b, err := json.Marshal(v)
		return b, err == nil
	case httpsfv.Token:
		return typed("token", string(v))
	case []byte:
		return typed("binary", base32.StdEncoding.EncodeToString(v))
	case time.Time:
		return typed("date", v.Unix())
	case httpsfv.DisplayString:
		if strings.ToValidUTF8(string(v), "") != string(v) {
			return nil, false
		}
		return typed("displaystring", string(v))
	}
	return nil, false
}

// typedVectorValue reads what typed writes in writeVectorValue.
func typedVectorValue(name, value string) (any, error) {
	switch name {
	case "token":
		return httpsfv.Token(value), nil
	case "binary":
		return base32.StdEncoding.DecodeString(value)
	case "date":
		n, err := strconv.ParseInt(value, 10, 64)
		return time.Unix(n, 0), err
	case "displaystring":
		return httpsfv.DisplayString(value), nil
	}
	return nil, errVector
}

func makeLegacyVectors(t *testing.T) {
	var list []legacyVector
	for _, group := range []struct {
		name  string
		cases []legacyCase
	}{
		{"generations", generationCases()}, {"edges", edgeCases()}, {"families", familyCases()}, {"units", unitCases()}, {"policies", policyFactCases()},
		{"clocks", clockCases()}, {"lines", lineCases()},
	} {
		for _, tc := range group.cases {
			list = append(list, tc.vector(t, group.name))
		}
	}
	for _, tc := range resetCases() {
		guess := ""
		if tc.guessed {
			guess = "?"
		}
		c := legacyCase{tc.name, "X-RateLimit-Reset: " + tc.value, "x-ratelimit" + guess, fmt.Sprintf("default : -/- w=- t=%d", tc.want), ""}
		list = append(list, c.vector(t, "resets"))
	}
	writeVectors(t, "legacy", "responses in older forms, and what they say", list)
}

func (tc legacyCase) vector(t *testing.T, group string) legacyVector {
	dialect, guessed := strings.CutSuffix(tc.dialect, "?")
	v := legacyVector{
		Name: tc.name, Group: group, Header: headerLines(spell(tc.wire, late)), Arrived: late, Dialect: dialect, Guessed: guessed, Want: []legacyLimit{},
	}
	for want := range strings.SplitSeq(tc.want, " | ") {
		if want != "" {
			v.Want = append(v.Want, parseLegacyLimit(t, want))
		}
	}
	for field := range strings.SplitSeq(tc.wantErr, ", ") {
		switch field {
		case "":
		case PolicyField, LimitField:
			v.Errors = append(v.Errors, vectorError{Rule: "C3", Field: field})
		default:
			v.Errors = append(v.Errors, vectorError{Rule: "6-9", Field: field})
		}
	}
	return v
}

// parseLegacyLimit reads the text of a vendorLimit.
func parseLegacyLimit(t *testing.T, text string) legacyLimit {
	t.Helper()
	colon := strings.LastIndex(text, ": ")
	names, numbers := text[:colon], text[colon+2:]
	space := strings.LastIndexByte(names, ' ')
	amounts, times, _ := strings.Cut(numbers, " w=")
	remaining, quota, _ := strings.Cut(amounts, "/")
	window, reset, ok := strings.Cut(times, " t=")
	require.True(t, ok, "%q", text)
	number := func(s string) *int64 {
		if s == "-" {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err, "%q", text)
		return &n
	}
	return legacyLimit{names[:space], Unit(names[space+1:]), number(quota), number(window), number(remaining), number(reset)}
}

func makeJoinVectors(t *testing.T) {
	var joins []joinVector
	for _, tc := range policyOfCases {
		f := fieldsOf(t, tc.policies, tc.limit)
		v := joinVector{Name: tc.name, Policies: append([]Policy{}, f.Policies...), Limit: f.Limits[0]}
		if want := fieldsOf(t, tc.want, ""); len(want.Policies) > 0 {
			v.Policy = &want.Policies[0]
		}
		joins = append(joins, v)
	}
	writeVectors(t, "joins", "policies and a limit, and the policy that the limit reports on", joins)

	var tightest []tightestVector
	for _, tc := range tightestCases {
		f := fieldsOf(t, tc.policies, tc.limits)
		tightest = append(tightest, tightestVector{tc.name, f.Policies, f.Limits, tc.want})
	}
	writeVectors(t, "tightest", "policies and limits, and the name of the limit that a client is likely to run into first", tightest)
}

func makeProblemVectors(t *testing.T) {
	var list []problemVector
	form := func(p Problem) *vectorProblem {
		return &vectorProblem{p.Type, p.Title, p.Status, p.Detail, p.Instance, p.ViolatedPolicies, p.Extensions}
	}
	for _, tc := range problemCases {
		list = append(list, problemVector{Name: tc.name, Document: tc.json, Problem: form(tc.problem), Written: tc.json})
	}
	for _, tc := range problemReadCases {
		list = append(list, problemVector{Name: tc.name, Document: tc.json, Problem: form(tc.want)})
	}
	for _, tc := range problemSyntaxErrors {
		list = append(list, problemVector{Name: "no problem document: " + tc.name, Document: tc.json, Error: &vectorError{Rule: "9457-3"}})
	}
	writeVectors(t, "problems", "texts of problem documents (RFC 9457), and what they say", list)
}

func makeUseVectors(t *testing.T) {
	var advice []adviceVector
	for _, tc := range adviseCases {
		if tc.want.Pace == math.MaxInt64 {
			continue // only Go saturates there
		}
		if aboutNext(tc.name) {
			continue
		}
		resp := responseOf(tc.wire)
		_, header, found := strings.Cut(tc.wire, "\n")
		if !strings.HasPrefix(tc.wire, "HTTP/") || !found {
			header = tc.wire
		}
		advice = append(advice, adviceVector{
			tc.name, resp.StatusCode, headerLines(header), arrival, tc.want.Wait, tc.want.Pace, tc.want.Source.String(), tc.limit, tc.want.Capped,
		})
	}
	writeVectors(t, "advice", "responses, and how long and at which pace a client has to wait, in nanoseconds", advice)

	var retry []retryVector
	for _, tc := range retryAfterCases {
		v := retryVector{Name: tc.name, Header: headerLines(tc.wire), Arrived: arrival}
		switch {
		case tc.want == longest:
			continue // only Go saturates there
		case tc.ok:
			v.Wait = &tc.want
		}
		retry = append(retry, v)
	}
	writeVectors(t, "retry-after", "headers, and how long they ask a client to wait, in nanoseconds", retry)

	var caps []capVector
	for _, tc := range capCases {
		f := fieldsOf(t, tc.policy, tc.limit)
		if !(math.Abs(tc.burst) <= 1e15 && math.Abs(tc.burst) >= 1e-15 || tc.burst == 0) {
			continue // no other language reads such a number alike
		}
		caps = append(caps, capVector{tc.name, f.Policies[0], f.Limits[0], tc.burst, orNil(tc.want)})
	}
	writeVectors(t, "caps", "a policy and a limit, and what remains when it is capped (draft-11 Section 8.5)", caps)
	makeRestrictVectors(t)
}

func makeRestrictVectors(t *testing.T) {
	var list []restrictVector
	pair := func(texts [2]string) Fields {
		f := fieldsOf(t, texts[0], texts[1])
		f.Dialect = ""
		return f
	}
	for _, tc := range restrictCases {
		want := pair(tc.want)
		list = append(list, restrictVector{Name: tc.name, Upstream: pair(tc.upstream), Own: pair(tc.own), Want: &want})
	}
	for _, tc := range restrictErrorCases {
		if tc.err != nil {
			continue // own is no announcement, which is not about joining
		}
		rule := "I1" // the result would permit more
		if tc.param == unitKey {
			rule = "I2" // units differ
		}
		e := &vectorError{Rule: rule, Cause: causeNames[ErrConflict], Field: tc.field, Item: indexOrNil(tc.item), Param: tc.param}
		list = append(list, restrictVector{Name: "refused: " + tc.name, Upstream: pair(tc.upstream), Own: pair(tc.own), Error: e})
	}
	writeVectors(t, "restrict", "what a server says, what an intermediary in front of it says, and what both say together", list)
}

func makeLintVectors(t *testing.T) {
	var list []lintVector
	for _, tc := range append(append([]lintCase{}, lintCases...), draftExamples...) {
		if aboutNext(tc.name) {
			continue
		}
		status, header := http.StatusOK, tc.wire
		if strings.HasPrefix(tc.wire, "HTTP/") {
			_, header, _ = strings.Cut(tc.wire, "\n")
			status = responseOf(tc.wire).StatusCode
		}
		v := lintVector{Name: tc.name, Status: status, Header: headerLines(header), Findings: []lintFinding{}}
		for _, text := range tc.want {
			words := strings.Fields(text)
			item, err := strconv.Atoi(words[3])
			require.NoError(t, err)
			v.Findings = append(v.Findings, lintFinding{words[0], words[1], words[2], indexOrNil(item)})
		}
		list = append(list, v)
	}
	writeVectors(t, "lint", "responses, and the rules of CONFORMANCE.md that they break", list)
}

// aboutNext reports whether a row is about the draft that is not published, which has
// a file of its own.
func aboutNext(name string) bool { return nextRule.MatchString(name) }

var nextRule = regexp.MustCompile(`^D\d`)

func makeNextVectors(t *testing.T) {
	var list []nextVector
	for _, tc := range nextCases {
		got, err := ParseAny(wire(tc.wire), LegacyOptions{Now: late})
		require.Equal(t, tc.want, got.String())
		v := nextVector{Name: tc.name, Header: headerLines(tc.wire), Dialect: got.Dialect, Policies: got.Policies, Limits: got.Limits}
		if err != nil {
			for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
				v.Errors = append(v.Errors, *fieldErrorVector(requireFieldError(t, err)))
			}
		}
		list = append(list, v)
	}
	writeVectors(t, "next", "both fields in the form of the draft that follows draft-11, which is not published and may change", list)
}
