//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit"
	"github.com/stretchr/testify/require"
)

const date = "Date: Sat, 21 Nov 2026 01:06:19 GMT\n"

const refusedSilently = "Refused. The server names no time: back off, and double the wait each time."

func TestAdvice(t *testing.T) {
	for name, test := range map[string]struct{ text, tone, want string }{
		"wait":                  {`RateLimit: "a";r=0;t=30`, "wait", "Wait 30s."},
		"pace":                  {`RateLimit: "a";r=20;t=30`, "go", `Go on. To make the quota last, leave 1.5s between requests.`},
		"go on":                 {`RateLimit: "a";r=20`, "go", "Go on: nothing asks to wait."},
		"malformed":             {`RateLimit: "a";r=x`, "none", "Go on: what is malformed is ignored, and nothing else asks to wait."},
		"nothing":               {"Server: x", "none", "This response contains no rate limits."},
		"refused":               {"HTTP/1.1 429\nServer: x", "wait", refusedSilently},
		"refused, without wait": {"HTTP/1.1 429\nRetry-After: 0", "wait", "Refused. The server asks for no wait."},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(test.text)
			require.Equal(t, test.want, v.Advice)
			require.Equal(t, test.tone, v.Tone)
		})
	}
}

func TestRows(t *testing.T) {
	half, none := 0.5, 0.0
	for name, test := range map[string]struct {
		text string
		want row
	}{
		"whole": {
			"RateLimit-Policy: \"a\";q=2;w=90;pk=::\nRateLimit: \"a\";r=1;t=5;pk=::",
			row{Name: `"a"`, Key: "::", Remaining: "1", Quota: "2", Unit: "requests", Window: "1m30s", Reset: "5s", Filled: &half},
		},
		"exhausted": {
			"RateLimit-Policy: \"a\";q=2;qu=\"content-bytes\"\nRateLimit: \"a\";r=0",
			row{Name: `"a"`, Key: "-", Remaining: "0", Quota: "2", Unit: "content-bytes", Window: "-", Reset: "-", Filled: &none, Exhausted: true},
		},
		"without policy": {
			`RateLimit: "a";r=1`,
			row{Name: `"a"`, Key: "-", Remaining: "1", Quota: "-", Unit: "-", Window: "-", Reset: "-"},
		},
		"guessed": {
			"X-RateLimit-Remaining: 3\nX-RateLimit-Reset: 30",
			row{Name: `"default"`, Key: "-", Remaining: "3", Quota: "-", Unit: "-", Window: "-", Reset: "30s", Guessed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(test.text)
			require.Equal(t, []row{test.want}, v.Limits)
			require.Equal(t, test.want.Guessed, len(v.Notes) > 0)
		})
	}
}

func TestTimeline(t *testing.T) {
	v := viewOf(date + `RateLimit: "a";r=1;t=60, "b";r=0;t=4000, "c";r=1, "d";r=1;t=0, "e";r=1;t=999999999999999`)
	type line struct{ name, text string }
	var got []line
	for i, m := range v.Times {
		got = append(got, line{m.Name, m.Text})
		require.Equal(t, i == 0, m.Next)
		if m.At != nil {
			require.True(t, 0 <= *m.At && *m.At <= 1, "%v", *m.At)
		}
	}
	require.Equal(t, []line{
		{"next request", "can be sent in 1h6m40s, at 2026-11-21 02:12:59 UTC"},
		{`"a"`, "t ends in 1m, at 2026-11-21 01:07:19 UTC"},
		{`"b"`, "t ends in 1h6m40s, at 2026-11-21 02:12:59 UTC"},
		{`"c"`, "no time is known"},
		{`"d"`, "t ends now"},
		{`"e"`, "t ends in more than a century"},
	}, got)
	require.Nil(t, v.Times[3].At)
	v = viewOf("HTTP/1.1 429\nRateLimit: \"a\";r=1;t=60")
	require.Equal(t, moment{Name: "next request", Text: "no time is known", Next: true}, v.Times[0], "a refusal is no invitation")

	for text, want := range map[string]string{
		`RateLimit: "a";r=1`:         "",
		`RateLimit: "a";r=1;t=0`:     "now 1s 10s",
		`RateLimit: "a";r=1;t=60`:    "now 1s 10s 1m",
		`RateLimit: "a";r=1;t=61`:    "now 1s 10s 1m 10m",
		`RateLimit: "a";r=1;t=86400`: "now 10s 1m 10m 1h 6h 1d",
		"Retry-After: 5":             "now 1s 10s",
	} {
		var ticks []string
		for _, t := range viewOf(text).Ticks {
			ticks = append(ticks, t.Text)
		}
		require.Equal(t, want, strings.Join(ticks, " "), text)
	}
}

func TestFaults(t *testing.T) {
	v := viewOf("RateLimit: \"a\";r=x5\nRateLimit-Policy: \"a\";q=1\nRetry-After: soon\nX-RateLimit-Limit: 5 of")
	require.Equal(t, []fault{
		{Level: "must", Place: "L5 member 1 of RateLimit", Cause: "parameter r: wrong type, it must be an Integer from 0 to 999999999999999",
			Remedy: "write the parameter r as an Integer from 0 to 999999999999999, or strict clients ignore the whole field",
			Before: `"a";r=`, At: `x`, After: `5`, Placed: true, Line: 1},
	}, v.Faults[:1])
	require.Equal(t, "malformed", v.Faults[1].Level)
	require.Equal(t, 4, v.Faults[1].Line)

	v = viewOf("x-ratelimit-limit: 5\nx-ratelimit-remaining: 2 of 5")
	require.Contains(t, v.Faults[0].Place, "x-ratelimit-remaining", "the pasted spelling")
	v = viewOf(`{"headers":[{"name":"x-RateLimit-Limit","value":"9"},{"name":"RateLimit-Policy","value":"\"a\";q=5"}]}`)
	require.Contains(t, v.Faults[0].Place, "x-RateLimit-Limit", "the spelling of a HAR file")
	require.Zero(t, v.Faults[0].Line)

	var lines []string
	for i := range 1025 {
		lines = append(lines, fmt.Sprintf("X-RateLimit-Limit-%d: 5", i))
	}
	v = viewOf(strings.Join(lines, "\n"))
	require.Equal(t, []fault{{Level: "malformed", Place: "fields of limits", Cause: "too many"}}, v.Faults)
}

func TestForms(t *testing.T) {
	v := viewOf(date + "RateLimit-Policy: \"Ratelimit\";q=2;w=60, \"day\";q=50;w=86400\nRateLimit: \"Ratelimit\";r=1;t=5, \"day\";r=40;t=50")
	got := map[string]form{}
	refused := 0
	for _, f := range v.Forms {
		got[f.Name] = f
		require.NotEqual(t, f.Text == "", f.Error == "")
		if f.Error != "" {
			refused++
			require.Contains(t, f.Error, "not well-formed")
		}
	}
	require.Equal(t, form{"current form", "draft-08 to draft-11",
		"RateLimit: \"Ratelimit\";r=1;t=5, \"day\";r=40;t=50\nRateLimit-Policy: \"Ratelimit\";q=2;w=60, \"day\";q=50;w=86400\n", ""}, got["current form"])
	require.Equal(t, form{"x-ratelimit-unix", "the tightest limit alone",
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1795223184\n", ""}, got["x-ratelimit-unix"])
	require.Equal(t, 3, refused, "a capital letter in the name of a field")
	require.Len(t, v.Forms, 1+len(dialects))
}

// The page offers every dialect of the package.
func TestDialects(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash("../../dialect.go"), nil, 0)
	require.NoError(t, err)
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		dialect, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if of, ok := dialect.Type.(*ast.Ident); !ok || of.Name != "Dialect" {
			return true
		}
		literal, ok := dialect.Elts[0].(*ast.KeyValueExpr).Value.(*ast.BasicLit)
		if !ok { // in NewDialect
			return true
		}
		name, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		names = append(names, name)
		return false
	})
	require.ElementsMatch(t, names, dialects)
	for _, name := range dialects {
		_, ok := ratelimit.LookupDialect(name)
		require.True(t, ok, name)
	}
}

func TestLongLists(t *testing.T) {
	policies, limits := []string{}, []string{}
	for i := range 1024 {
		policies = append(policies, fmt.Sprintf(`"%d";q=1;acme`, i))
		limits = append(limits, fmt.Sprintf(`"%d";r=5;acme`, i))
	}
	v := viewOf("RateLimit-Policy: " + strings.Join(policies, ", ") + "\nRateLimit: " + strings.Join(limits, ", "))
	require.Len(t, v.Limits, maxRows)
	require.Len(t, v.Faults, maxRows)
	require.Contains(t, v.Notes, "Of a list of 1024 only the first 100 are shown.")
}

// If a name is as long as the text, the page does not repeat it.
func TestLongText(t *testing.T) {
	long := func(n int) *view {
		v := viewOf(`RateLimit: "` + strings.Repeat("n", n) + `";r=1`)
		require.Equal(t, "Go on: nothing asks to wait.", v.Advice)
		require.Less(t, len(v.Limits[0].Name), 50)
		return v
	}
	v := long(maxText / 2)
	require.Equal(t, "current form", v.Forms[0].Name)
	require.NotEmpty(t, v.Forms[0].Text)
	require.NotEmpty(t, v.JSON)
	v = long(maxText)
	for _, f := range v.Forms {
		require.Less(t, len(f.Text), 100)
	}
	require.Equal(t, form{"current form", "draft-08 to draft-11", "", "longer than 64 KiB, which is too long to show"}, v.Forms[0])
	require.Empty(t, v.JSON)
}

func seeds(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.FromSlash("../../testdata/wire/*.http"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	list := []string{
		"", "\x00", "{", "[]", `{"log":{"entries":[{"response":{"headers":[{"name":"RateLimit","value":"x"}]}}]}}`,
		"RateLimit: <img src=x onerror=alert(1)>", "RateLimit: \"\u202e\xff\";r=1", "RateLimit:\n\"a\";r=0;t=999999999999999",
		"X-RateLimit-Limit: 5\nX-RateLimit-Window: 60\nX-RateLimit-Reset: 9", "Retry-After: 99999999999999999999", ":status: 429\n:",
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		list = append(list, string(text))
	}
	return list
}

// FuzzShow checks that any text is shown or refused, with a result in printable ASCII.
func FuzzShow(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := show(text)
		var v view
		require.NoError(t, json.Unmarshal([]byte(out), &v))
		require.False(t, slices.ContainsFunc([]byte(out), func(c byte) bool { return c < ' ' || c > '~' }), "%q", out)
		require.True(t, (v.Error != "") != (v.Advice != ""))
		for _, m := range v.Times {
			require.True(t, m.At == nil || 0 <= *m.At && *m.At <= 1)
		}
	})
}
