package ratelimit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

var (
	_ error            = (*Problem)(nil)
	_ http.Handler     = (*Problem)(nil)
	_ json.Marshaler   = Problem{}
	_ json.Unmarshaler = (*Problem)(nil)
)

type raw = json.RawMessage

// problemCases are documents, and the documents that are written for the same problem. If
// nothing follows the equals sign, both are equal.
var problemCases = append(trial.PlainCases("testdata/fields/problems.txt"),
	trial.PlainCase{Name: "arrays nested too deeply", In: `{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, Refused: true},
	trial.PlainCase{Name: "objects nested too deeply", In: strings.Repeat(`{"a":`, 1<<20/5), Refused: true},
)

func TestProblemJSON(t *testing.T) {
	for _, tc := range problemCases {
		t.Run(tc.Name, func(t *testing.T) {
			lawProblemRead(t, []byte(tc.In))
			read := Problem{Title: "old", Extensions: map[string]json.RawMessage{"old": raw(`1`)}}
			err := read.UnmarshalJSON([]byte(tc.In))
			if tc.Refused {
				require.Empty(t, tc.Want)
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			got, err := read.MarshalJSON()
			require.NoError(t, err)
			require.Equal(t, cmp.Or(tc.Want, tc.In), string(got))
			lawProblem(t, read)
		})
	}
}

// The problem types of the draft, and one other type.
func TestNewProblem(t *testing.T) {
	for _, want := range []string{
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["a","b"]}`,
		`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"violated-policies":["a"]}`,
		`{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429}`,
		`{"type":"https://example.com/probs/slow"}`,
	} {
		var read Problem
		require.NoError(t, read.UnmarshalJSON([]byte(want)))
		names := slices.Clone(read.ViolatedPolicies)
		p := NewProblem(read.Type, names...)
		clear(names)
		require.Equal(t, &read, p, "the names are copied")
		p.Title = "changed"
		require.Equal(t, &read, NewProblem(read.Type, read.ViolatedPolicies...))
	}
	require.Nil(t, NewProblem(QuotaExceeded, []string{}...).ViolatedPolicies)
}

func TestProblemMarshalErrors(t *testing.T) {
	deepest := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, tc := range []struct {
		name  string
		key   string
		value string
		want  error
	}{
		{"type", "type", `"a"`, ErrDuplicate},
		{"violated-policies", "violated-policies", `["a"]`, ErrDuplicate},
		{"a name that is not UTF-8", "\xff", `1`, ErrSyntax},
		{"a value that is not UTF-8", "a", "\"\xff\"", ErrSyntax},
		{"no value", "a", ``, ErrSyntax},
		{"two values", "a", `1,"b":2`, ErrSyntax},
		{"half a value", "a", `{`, ErrSyntax},
		{"nested too deeply in a document", "a", deepest, ErrSyntax},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Problem{Title: "a", Extensions: map[string]json.RawMessage{tc.key: raw(tc.value), "z": raw(`1`)}}
			got, err := p.MarshalJSON()
			require.ErrorIs(t, err, tc.want)
			require.Nil(t, got)
			lawProblem(t, p)

			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			require.Equal(t, http.StatusInternalServerError, w.Code)
			require.Equal(t, sentDocument(`{"title":"Internal Server Error","status":500}`), w.Body.String())
		})
	}
	require.True(t, json.Valid([]byte(deepest)), "alone it is valid")
}

// lawProblem is the law of round trips: a written problem is read unchanged.
func lawProblem(t testing.TB, p Problem) {
	b, err := p.MarshalJSON()
	if err != nil {
		require.Nil(t, b)
		require.True(t, errors.Is(err, ErrSyntax) || errors.Is(err, ErrDuplicate))
		return
	}
	require.Equal(t, slowProblem(t, p), string(b))
	var again Problem
	require.NoError(t, again.UnmarshalJSON(b))
	require.Equal(t, utf8Problem(p), again)
	fixed, err := again.MarshalJSON()
	require.NoError(t, err)
	if !bytes.Contains(b, []byte(`\ufffd`)) { // it replaces a byte that is not UTF-8
		require.Equal(t, string(b), string(fixed), "a fixed point")
	}

	viaJSON, err := json.Marshal(p) // escapes for HTML
	require.NoError(t, err)
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, b)
	require.Equal(t, escaped.String(), string(viaJSON))
	require.True(t, utf8.ValidString(p.Error()))
	require.NotContains(t, p.Error(), "\n")
}

// slowProblem returns p in JSON, as package json writes it.
func slowProblem(t testing.TB, p Problem) string {
	text := trial.EncodeVector(t, struct {
		Type             string   `json:"type,omitzero"`
		Title            string   `json:"title,omitzero"`
		Status           int      `json:"status,omitzero"`
		Detail           string   `json:"detail,omitzero"`
		Instance         string   `json:"instance,omitzero"`
		ViolatedPolicies []string `json:"violated-policies,omitzero"`
	}{p.Type, p.Title, p.Status, p.Detail, p.Instance, p.ViolatedPolicies})
	if len(p.Extensions) == 0 {
		return text
	}
	comma := ","
	if text == "{}" {
		comma = ""
	}
	return text[:len(text)-1] + comma + trial.EncodeVector(t, p.Extensions)[1:]
}

// Strings are written as package json writes them. The strings contain all pairs of
// characters that need an escape or look as if they do.
func TestProblemStrings(t *testing.T) {
	t.Parallel()
	letters := []string{"", "a", "Z", "0", " ", "~", `"`, `\`, "/", "<", ">", "&", "'",
		"\x00", "\x1f", "\b", "\f", "\n", "\r", "\t", "\x7f",
		"\u0080", "\u2028", "\u2029", "é", "\uFFFD", "\uFEFF", "\U0010FFFF", "\xff", "\xc3", "\xed\xa0\x80", "\xe2\x80"}
	for _, first := range letters {
		for _, second := range letters {
			s := first + second
			value, err := json.Marshal(s)
			require.NoError(t, err)
			extensions := map[string]json.RawMessage{strings.ToValidUTF8(s, ""): value, "x": raw(`1`)}
			lawProblem(t, Problem{s, s, len(s) - 3, s, s, []string{s, first}, extensions})
		}
	}
}

// utf8Problem returns p with valid UTF-8, as in JSON.
func utf8Problem(p Problem) Problem {
	clean := func(s string) string { return string([]rune(s)) }
	q := Problem{Type: clean(p.Type), Title: clean(p.Title), Status: p.Status, Detail: clean(p.Detail), Instance: clean(p.Instance)}
	if p.ViolatedPolicies != nil {
		q.ViolatedPolicies = []string{}
	}
	for _, name := range p.ViolatedPolicies {
		q.ViolatedPolicies = append(q.ViolatedPolicies, clean(name))
	}
	for name, value := range p.Extensions {
		if q.Extensions == nil {
			q.Extensions = map[string]json.RawMessage{}
		}
		var b bytes.Buffer
		_ = json.Compact(&b, value)
		q.Extensions[name] = b.Bytes()
	}
	return q
}

// lawProblemRead compares with a slow reader that decodes into any.
func lawProblemRead(t testing.TB, b []byte) {
	p := Problem{Title: "old"}
	err := p.UnmarshalJSON(b)
	var slow any
	slowErr := json.Unmarshal(b, &slow)
	object, ok := slow.(map[string]any)
	if slowErr != nil && json.Valid(b) {
		return // a number beyond float64
	}
	require.Equal(t, slowErr == nil && ok, err == nil)
	if err != nil {
		require.ErrorIs(t, err, ErrSyntax)
		require.Equal(t, Problem{Title: "old"}, p, "unchanged on error")
		return
	}
	for name, got := range map[string]string{"type": p.Type, "title": p.Title, "detail": p.Detail, "instance": p.Instance} {
		want, _ := object[name].(string)
		require.Equal(t, want, got)
		delete(object, name)
	}
	status, _ := object["status"].(float64)
	require.True(t, float64(p.Status) == status || p.Status == 0 && (status != float64(int32(status))), "status %v, got %d", status, p.Status)
	var policies []string
	if list, ok := object["violated-policies"].([]any); ok {
		policies = []string{}
		for _, name := range list {
			name, ok := name.(string)
			if !ok {
				policies = nil
				break
			}
			policies = append(policies, name)
		}
	}
	require.Equal(t, policies, p.ViolatedPolicies)
	delete(object, "status")
	delete(object, "violated-policies")
	require.Len(t, p.Extensions, len(object))
	for name, value := range p.Extensions {
		require.Contains(t, object, name)
		require.True(t, json.Valid(value) && bytes.Contains([]byte(string([]rune(string(b)))), value), "unchanged")
	}
	lawProblem(t, p)
}

func TestProblemError(t *testing.T) {
	for _, tc := range []struct {
		problem *Problem
		want    string
	}{
		{nil, "<nil>"},
		{&Problem{}, "ratelimit: problem about:blank"},
		{&Problem{Type: "a"}, "ratelimit: problem a"},
		{&Problem{Type: "a", Title: "b"}, "ratelimit: problem b"},
		{&Problem{Status: 503}, "ratelimit: problem 503 about:blank"},
		{NewProblem(QuotaExceeded), "ratelimit: problem 429 Quota Exceeded"},
		{&Problem{Title: "é", Detail: "a\nb\x1b[0m\xff"}, "ratelimit: problem é: a\uFFFDb\uFFFD[0m\uFFFD"},
	} {
		require.Equal(t, tc.want, tc.problem.Error())
	}
}

// sentDocument returns the body of a response with a document. It ends with a newline.
func sentDocument(json string) string {
	if json == "" {
		return "" // a response to HEAD
	}
	return json + "\n"
}

func TestProblemServeHTTP(t *testing.T) {
	for _, tc := range []struct {
		name    string
		problem *Problem
		method  string
		status  int
		body    string
	}{
		{"GET", &Problem{Title: "a", Status: 503}, "GET", 503, `{"title":"a","status":503}`},
		{"POST", &Problem{Title: "a", Status: 403}, "POST", 403, `{"title":"a","status":403}`},
		{"HEAD", &Problem{Title: "a", Status: 503}, "HEAD", 503, ""},
		{"no status", &Problem{Title: "a"}, "GET", 429, `{"title":"a"}`},
		{"nil", nil, "GET", 429, `{}`},
		{"an informational status", &Problem{Status: 103}, "GET", 429, `{"status":429}`},
		{"the last informational status", &Problem{Status: 199}, "GET", 429, `{"status":429}`},
		{"a status that net/http refuses", &Problem{Status: 1000}, "GET", 429, `{"status":429}`},
		{"a negative status", &Problem{Status: -1}, "GET", 429, `{"status":429}`},
		{"the least status", &Problem{Status: 200}, "GET", 200, `{"status":200}`},
		{"the highest status", &Problem{Status: 599}, "GET", 599, `{"status":599}`},
		{"above the highest status", &Problem{Status: 600}, "GET", 429, `{"status":429}`},
		{"a status without content", &Problem{Title: "a", Status: 204}, "GET", 429, `{"title":"a","status":429}`},
		{"a status that resets a form", &Problem{Status: 205}, "GET", 429, `{"status":429}`},
		{"a status of caches", &Problem{Status: 304}, "GET", 429, `{"status":429}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1")
				w.Header().Set("Cache-Control", "max-age=60")
				tc.problem.ServeHTTP(w, r)
			}))
			defer server.Close()
			req, err := http.NewRequest(tc.method, server.URL, nil)
			require.NoError(t, err)
			resp, err := server.Client().Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, sentDocument(tc.body), string(body))
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		})
	}
	w := httptest.NewRecorder()
	new(Problem).ServeHTTP(w, nil)
	require.Equal(t, sentDocument("{}"), w.Body.String(), "a nil request")
	w = httptest.NewRecorder()
	new(Problem).ServeHTTP(w, httptest.NewRequest("HEAD", "/", nil))
	require.Empty(t, w.Body.String(), "a HEAD request without net/http")
}

func TestReadProblem(t *testing.T) {
	padded := func(n int) string { return `{"title":"a"}` + strings.Repeat(" ", n-len(`{"title":"a"}`)) }
	for _, tc := range []struct {
		name  string
		media string
		body  string
		want  error // nil is a problem with the title a
	}{
		{"the media type", "application/problem+json", `{"title":"a"}`, nil},
		{"a parameter", "application/problem+json; charset=utf-8", `{"title":"a"}`, nil},
		{"a parameter without space", "application/problem+json;charset=utf-8", `{"title":"a"}`, nil},
		{"a malformed parameter", "application/problem+json; charset", `{"title":"a"}`, nil},
		{"another case", "Application/Problem+JSON ", `{"title":"a"}`, nil},
		{"JSON", "application/json", `{"title":"a"}`, ErrType},
		{"XML", "application/problem+xml", `{"title":"a"}`, ErrType},
		{"a prefix", "application/problem+json5", `{"title":"a"}`, ErrType},
		{"no media type", "", `{"title":"a"}`, ErrType},
		{"1 MiB", "application/problem+json", padded(1 << 20), nil},
		{"a byte more", "application/problem+json", padded(1<<20 + 1), ErrTooMany},
		{"much more", "application/problem+json", padded(3 << 20), ErrTooMany},
		{"no JSON", "application/problem+json", `<html>`, ErrSyntax},
		{"an empty body", "application/problem+json", ``, ErrSyntax},
		{"an array", "application/problem+json", `[]`, ErrSyntax},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := &trial.Closing{Reader: strings.NewReader(tc.body)}
			got, err := ReadProblem(&http.Response{Header: http.Header{"Content-Type": {tc.media}}, Body: body})
			require.Zero(t, body.Closed, "the caller closes it")
			require.LessOrEqual(t, body.Reads, 1<<20+1)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				require.Nil(t, got)
				require.True(t, tc.want != ErrType || body.Reads == 0)
				return
			}
			require.NoError(t, err)
			require.Equal(t, &Problem{Title: "a"}, got)
		})
	}
}

func TestReadProblemWithoutBody(t *testing.T) {
	for _, resp := range []*http.Response{nil, {}, {Header: http.Header{"Content-Type": {ProblemMediaType}}}} {
		got, err := ReadProblem(resp)
		require.Error(t, err)
		require.Nil(t, got)
	}
	broken := io.NopCloser(io.MultiReader(strings.NewReader(`{"title":`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	got, err := ReadProblem(&http.Response{Header: http.Header{"Content-Type": {ProblemMediaType}}, Body: broken})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Nil(t, got)
}
