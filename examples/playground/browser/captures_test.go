package browser

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A report is the output of inspect -json -lint for a response.
type report struct {
	Source, Status, Dialect string
	Guessed                 bool
	Limits                  []limit
	Malformed               []struct {
		Offset       int
		Error, Value string
	}
	Advice struct {
		Wait, Asked, Pace float64
		Refused           bool
	}
	Findings []struct{ Rule, Level, Message string }
}

// A limit has the numbers of a report. Unknown numbers are nil.
type limit struct {
	Name                            string
	Remaining, Quota, Window, Reset *int64
}

// rendered is the visible content of the page.
type rendered struct {
	Advice, Reason, Heading string
	Limits                  []map[string]string
	Times                   []string
	Faults                  []struct{ Level, Text, Before, At, After string }
	Forms                   []string
	JSON                    string
}

const renderedScript = `(() => {
	const all = (selector, from = document) => [...from.querySelectorAll(selector)].filter(e => e.checkVisibility());
	const text = selector => all(selector).map(e => e.textContent);
	return {
		Advice: text("#advice").join(), Reason: text("#reason").join(), Heading: text("#heading").join(),
		Limits: all("#limits > li").map(li => Object.fromEntries([
			["name", li.querySelector("h3").textContent],
			["bar", li.querySelector(".bar").getAttribute("aria-valuenow") ?? ""],
			["guessed", li.textContent.includes("unit guessed") ? "true" : ""],
			...all("[data-of]", li).map(e => [e.dataset.of, e.textContent]),
		])),
		Times: text("#times > li .when"),
		Faults: all("#faults > .fault").map(li => {
			const pre = li.querySelector("pre");
			const fault = {Level: li.querySelector(".badge").textContent, Text: [...li.querySelectorAll("p")].map(e => e.textContent).join(" ")};
			if (pre === null) return fault;
			return {...fault, Before: pre.firstChild.textContent, At: pre.querySelector("mark").firstChild.textContent, After: pre.lastChild.textContent};
		}),
		Forms: document.getElementById("form").checkVisibility() ? [...document.querySelectorAll("#form option")].map(e => e.value) : [],
		JSON: document.querySelector("#json pre")?.textContent ?? "",
	};
})()`

// A capture is a response that the page offers.
type capture struct{ Group, Name, Text string }

// captures returns the captures of the page, and all of testdata/wire.
func captures(t *testing.T) (list []capture) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(requireSite(t), "captures.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &list))
	require.NotEmpty(t, list)
	files, err := filepath.Glob(filepath.FromSlash(root + "testdata/wire/*.http"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		list = append(list, capture{Name: filepath.Base(file), Text: string(text)})
	}
	return list
}

// inspect returns the reports of the command.
func inspect(t *testing.T, texts []capture) (list []report) {
	t.Helper()
	args := []string{"./cmd/ratelimit", "inspect", "-json", "-lint"}
	for i, c := range texts {
		name := filepath.Join(t.TempDir(), strconv.Itoa(i))
		require.NoError(t, os.WriteFile(name, []byte(c.Text), 0o600))
		args = append(args, name)
	}
	out, _ := command(args...) // it exits with 1 if something is malformed
	out, _, _ = bytes.Cut(out, []byte("exit status"))
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var r report
		require.NoError(t, dec.Decode(&r), "%s", out)
		list = append(list, r)
	}
	require.Len(t, list, len(texts), "%s", out)
	return list
}

// For every capture the page shows the same as the command.
func TestCaptures(t *testing.T) {
	p := open(t)
	texts := captures(t)
	for i, want := range inspect(t, texts) {
		c := texts[i]
		t.Run(c.Name, func(t *testing.T) {
			p.TB = t
			var got rendered
			if c.Group != "" {
				p.pick(c.Name)
				got = eval[rendered](p, renderedScript)
			} else {
				got = p.paste(quote(c.Text))
			}
			requireReport(t, want, got)
		})
	}
	p.TB = t
	p.requireQuiet()
}

func requireReport(t *testing.T, want report, got rendered) {
	t.Helper()
	require.Contains(t, got.Heading, want.Status)
	form := want.Dialect
	if form == "ratelimit" || form == "ratelimit-lenient" {
		form = "current form (draft-08 to draft-11)"
	}
	require.Contains(t, got.Heading, form)
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
		if slices.ContainsFunc(want.Limits, func(l limit) bool { return l.Reset != nil }) {
			require.Len(t, got.Times, len(want.Limits)+1)
		}
		require.Contains(t, got.Forms, "current form")
	}
	requireFaults(t, want, got)
	switch a := want.Advice; {
	case a.Asked > 0:
		require.Contains(t, got.Advice, "Wait "+readable(a.Asked))
		require.NotEmpty(t, got.Reason)
	case a.Refused:
		require.Contains(t, got.Advice, "Refused. ")
	case a.Pace > 0:
		require.Contains(t, got.Advice, " last, leave "+readable(a.Pace)+" between requests")
	}
	var shown report
	require.NoError(t, json.Unmarshal([]byte(got.JSON), &shown))
	shown.Source = want.Source
	require.Equal(t, want, shown)
}

// requireFaults requires that malformed fields and findings are shown. A finding about a
// malformed field is shown once, with it.
func requireFaults(t *testing.T, want report, got rendered) {
	t.Helper()
	require.LessOrEqual(t, len(got.Faults), len(want.Malformed)+len(want.Findings))
	shown := func(parts ...string) bool {
		return slices.ContainsFunc(got.Faults, func(f struct{ Level, Text, Before, At, After string }) bool {
			all := f.Level + f.Text + f.Before + strings.TrimSuffix(f.At, " ") + f.After
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(strings.ToLower(all), strings.ToLower(part)) })
		})
	}
	cause := regexp.MustCompile(`^.*, byte [0-9]+: `)
	for _, m := range want.Malformed {
		require.True(t, shown(cause.ReplaceAllString(m.Error, ""), m.Value), "%s: %v", m.Error, got.Faults)
	}
	for _, f := range want.Findings {
		require.True(t, shown(f.Level, f.Rule, f.Message), "%s: %v", f.Message, got.Faults)
	}
	for _, f := range got.Faults {
		require.NotEmpty(t, f.At, "each has its caret")
	}
}

var leadingNumber = regexp.MustCompile(`^[0-9]+`)

// requireNumber requires that a text begins with n, or has no number if n is nil.
func requireNumber(t *testing.T, n *int64, text, what string) {
	t.Helper()
	want := ""
	if n != nil {
		want = strconv.FormatInt(*n, 10)
	}
	require.Equal(t, want, leadingNumber.FindString(text), "%s: %q", what, text)
}

// readable returns a time in the form of the page: 1m26s, and below a minute seconds with up
// to three decimals.
func readable(seconds float64) (text string) {
	if seconds < 59.9995 {
		return strconv.FormatFloat(math.Round(seconds*1000)/1000, 'f', -1, 64) + "s"
	}
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
	return text
}
