package browser

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A report is what inspect -json -lint prints.
type report struct {
	Source, Status, Dialect string
	Guessed                 bool
	Limits                  []limit
	Malformed               []struct {
		Offset       int
		Error, Value string
	}
	Advice   struct{ Wait, Pace float64 }
	Findings []struct{ Rule, Level, Message string }
}

// A limit has the numbers that are there.
type limit struct {
	Name                            string
	Remaining, Quota, Window, Reset *int64
}

// rendered is what the page shows.
type rendered struct {
	Advice, Heading string
	Limits          []map[string]string
	Times           []string
	Malformed       []struct{ Error, Before, At, After string }
	Findings        []string
	Forms           []string
	JSON            string
}

const renderedScript = `(() => {
	const all = (selector, from = document) => [...from.querySelectorAll(selector)].filter(e => e.checkVisibility());
	const text = selector => all(selector).map(e => e.textContent);
	return {
		Advice: text("#advice").join(), Heading: text("#heading").join(),
		Limits: all("#limits > li").map(li => Object.fromEntries([
			["name", li.querySelector("h3").textContent],
			["bar", li.querySelector(".bar").getAttribute("aria-valuenow") ?? ""],
			["guessed", li.textContent.includes("unit guessed") ? "true" : ""],
			...all("[data-of]", li).map(e => [e.dataset.of, e.textContent]),
		])),
		Times: text("#times > li .when"),
		Malformed: all("#malformed > li").map(li => {
			const pre = li.querySelector("pre");
			const Error = li.querySelector("p").textContent;
			if (pre === null) return {Error};
			return {Error, Before: pre.firstChild.textContent, At: pre.querySelector("mark").firstChild.textContent, After: pre.lastChild.textContent};
		}),
		Findings: text("#findings > .finding"),
		Forms: all("#forms > li").map(li => li.dataset.form),
		JSON: document.querySelector("#json pre")?.textContent ?? "",
	};
})()`

func captureFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.FromSlash(root + "testdata/wire/*.http"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, file := range files {
		files[i], err = filepath.Abs(file)
		require.NoError(t, err)
	}
	return files
}

// inspect returns the reports of the command on files.
func inspect(t *testing.T, files []string) (list []report) {
	t.Helper()
	out, _ := command(append([]string{"./examples/inspect", "-json", "-lint"}, files...)...) // it exits with 1 where something is malformed
	out, _, _ = bytes.Cut(out, []byte("exit status"))
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var r report
		require.NoError(t, dec.Decode(&r), "%s", out)
		list = append(list, r)
	}
	require.Len(t, list, len(files), "%s", out)
	return list
}

// Every capture shows what inspect says of it.
func TestCaptures(t *testing.T) {
	p := open(t)
	files := captureFiles(t)
	for i, want := range inspect(t, files) {
		name := strings.TrimSuffix(filepath.Base(files[i]), ".http")
		t.Run(name, func(t *testing.T) {
			p.TB = t
			p.pick(name)
			got := eval[rendered](p, renderedScript)
			requireReport(t, want, got)
		})
	}
	p.TB = t
	p.requireQuiet()
}

func requireReport(t *testing.T, want report, got rendered) {
	t.Helper()
	require.Contains(t, got.Heading, want.Status)
	require.Contains(t, got.Heading, want.Dialect)
	require.Len(t, got.Limits, len(want.Limits))
	for i, l := range want.Limits {
		require.Equal(t, strconv.Quote(l.Name), got.Limits[i]["name"])
		for what, n := range map[string]*int64{"remaining": l.Remaining, "quota": l.Quota} {
			requireNumber(t, n, got.Limits[i][what], what)
		}
		for what, n := range map[string]*int64{"window": l.Window, "reset": l.Reset} {
			if n == nil {
				require.Empty(t, got.Limits[i][what], what)
			} else {
				require.Equal(t, readable(float64(*n)), got.Limits[i][what], what)
			}
		}
		if l.Remaining != nil && l.Quota != nil {
			require.Equal(t, strconv.FormatInt(*l.Remaining*100 / *l.Quota, 10), got.Limits[i]["bar"])
		}
		require.Equal(t, want.Guessed && l.Reset != nil, got.Limits[i]["guessed"] == "true")
	}
	if len(want.Limits) > 0 {
		require.Len(t, got.Times, len(want.Limits)+1)
		require.Contains(t, got.Forms, "ratelimit")
	}
	require.Len(t, got.Malformed, len(want.Malformed))
	for i, m := range want.Malformed {
		require.Equal(t, m.Error, got.Malformed[i].Error)
		require.Len(t, got.Malformed[i].Before, m.Offset)
		require.Equal(t, m.Value, got.Malformed[i].Before+strings.TrimSuffix(got.Malformed[i].At, " ")+got.Malformed[i].After)
	}
	if want.Advice.Wait > 0 {
		require.Contains(t, got.Advice, "Wait "+readable(want.Advice.Wait))
	} else if want.Advice.Pace > 0 {
		require.Contains(t, got.Advice, " last: one request every "+readable(want.Advice.Pace))
	}
	require.Len(t, got.Findings, len(want.Findings))
	for i, f := range want.Findings {
		require.Contains(t, got.Findings[i], f.Level)
		require.Contains(t, got.Findings[i], f.Rule)
		require.Contains(t, got.Findings[i], f.Message)
	}
	var shown report
	require.NoError(t, json.Unmarshal([]byte(got.JSON), &shown))
	shown.Source = want.Source
	require.Equal(t, want, shown)
}

var leadingNumber = regexp.MustCompile(`^[0-9]+`)

// requireNumber requires that a text begins with n, or says nothing if there
// is none.
func requireNumber(t *testing.T, n *int64, text, what string) {
	t.Helper()
	want := ""
	if n != nil {
		want = strconv.FormatInt(*n, 10)
	}
	require.Equal(t, want, leadingNumber.FindString(text), "%s: %q", what, text)
}

// readable writes a time as the page does, as 1m26s; no capture has fractions of a
// second.
func readable(seconds float64) (text string) {
	rest := int64(math.Round(seconds))
	for _, unit := range []struct {
		seconds int64
		symbol  string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n := rest / unit.seconds; n > 0 {
			text += strconv.FormatInt(n, 10) + unit.symbol
		}
		rest %= unit.seconds
	}
	return cmp.Or(text, "0s")
}

// captureNames returns what the page calls the captures.
func captureNames(t *testing.T) []string {
	t.Helper()
	names := captureFiles(t)
	for i, file := range names {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".http")
	}
	return names
}
