package browser

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func (p *page) scheme(name string) {
	p.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// pick selects a capture.
func (p *page) pick(name string) {
	p.Helper()
	p.choose("captures", name)
}

// choose chooses an option.
func (p *page) choose(id, value string) {
	p.Helper()
	require.True(p, eval[bool](p, `((id, value) => {
		const select = document.getElementById(id);
		select.value = value;
		select.dispatchEvent(new Event("change"));
		return select.value === value;
	})(`+quote(id)+`, `+quote(value)+`)`), "no option %q", value)
}

// paste replaces the text with the value of a script, and waits until the page has read it.
func (p *page) paste(script string) rendered {
	p.Helper()
	eval[bool](p, `(async () => {
		const text = document.getElementById("text");
		text.value = `+script+`;
		text.dispatchEvent(new Event("input"));
		const advice = document.getElementById("advice");
		advice.textContent = "";
		while (advice.textContent === "") await new Promise(done => setTimeout(done, 10));
		return true;
	})()`)
	return eval[rendered](p, renderedScript)
}

// The compiled program is small enough for a page, under 2.5 MB with gzip.
func TestSize(t *testing.T) {
	program, err := os.ReadFile(filepath.Join(requireSite(t), "playground.wasm"))
	require.NoError(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	t.Logf("%d bytes, %d with gzip", len(program), b.Len())
	require.Less(t, b.Len(), 2_500_000)
}

const answers = "`RateLimit-Policy: \"a\";q=4;w=60\nRateLimit: \"a\";r=1;t=5`"

// Hostile text is shown as text or refused. No script in it runs, and the page still works.
func TestHostile(t *testing.T) {
	p := open(t)
	const markup = `<img src=x onerror="window.hit=1"><script>window.hit=1</script><svg onload="window.hit=1"><a href="javascript:window.hit=1">x</a>`
	for name, test := range map[string]struct {
		script string
		want   string // in the advice
		text   string // somewhere in the results
	}{
		"markup, malformed":  {quote("RateLimit: " + markup), "Go on", `img src=x onerror="window.hit=1"><script>`},
		"markup in a name":   {quote(`RateLimit: "<img src=x onerror=window.hit=1>";r=0;t=9`), "Wait 9s", "<img src=x onerror=window.hit=1"},
		"markup in a unit":   {quote("RateLimit-Policy: \"a\";q=1;qu=\"<script>window.hit=1</script>\"\nRateLimit: \"a\";r=0;t=9"), "Wait 9s", "<script>window.hit=1</script>"},
		"markup as a status": {quote("HTTP/1.1 200 " + markup + "\nRateLimit: \"a\";r=1"), "Go on", "<svg onload="},
		"markup in a HAR":    {quote(`{"status":200,"statusText":"<script>window.hit=1</script>","headers":[{"name":"RateLimit","value":"\"<b>\";r=1"}]}`), "Go on", `"<b>"`},
		"markup alone":       {quote(markup), "The text contains no response", ""},
		"1 MiB, one line":    {`'RateLimit: "' + "x".repeat((1 << 20) - 20) + '";r=1'`, "Go on", "xxx"},
		"1 MiB, many lines":  {`"RateLimit: \"a\";r=1\n".repeat(50000).slice(0, 1 << 20)`, "Go on", "too many"},
		"1 MiB, many fields": {`Array.from({length: 30000}, (_, i) => "X-RateLimit-Limit-" + i + ": 5\n").join("")`, "Go on", "too many"},
		"1 MiB, members":     {`"RateLimit: " + Array.from({length: 1024}, (_, i) => '"' + i + "x".repeat(900) + '";r=1').join()`, "Go on", "Of a list of 1024 only the first 100 are shown."},
		"1 MiB, status":      {`"HTTP/1.1 200 OK\nRateLimit: x\n".repeat(30000)`, "Go on", "200 OK"},
		"1 MiB, brackets":    {`"[".repeat(1 << 20)`, "The text contains no response", ""},
		"1 MiB, braces":      {`'{"log":'.repeat(1 << 17)`, "JSON object 1 is malformed", ""},
		"beyond 1 MiB":       {`"RateLimit: x\n".repeat(90_000)`, "This is longer than 1 MiB", ""},
		"control characters": {`"RateLimit: \"a" + Array.from({length: 32}, (_, i) => i == 10 ? "" : String.fromCharCode(i)).join("") + "\";r=1"`, "Go on", `"a??????`},
		"lone surrogates":    {`"RateLimit: \"\ud800\udc00\udfff\ud800\";r=1"`, "Go on", "??????"},
		"bidirectional":      {`"RateLimit: \"\u202e\u2066gnp.exe\";r=1"`, "Go on", "??????gnp.exe"},
		"NUL alone":          {`"\0"`, "The text contains no response", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p.TB = t
			got := p.paste(test.script)
			require.Contains(t, got.Advice, test.want)
			results := eval[string](p, `document.querySelector(".results").innerText + document.querySelector("#json").textContent`)
			require.Contains(t, results, test.text)
			require.Equal(t, -1, strings.IndexFunc(strings.ReplaceAll(results, "Loading…", ""), func(r rune) bool { return r > '~' || r < ' ' && r != '\n' && r != '\t' }), "printable ASCII alone")
			require.Zero(t, eval[int](p, `document.querySelectorAll(".results :is(img, script, svg, a, iframe, b > *, form, style, link)").length`))
			require.Equal(t, "undefined", eval[string](p, `typeof window.hit`))

			after := p.paste(answers)
			require.Equal(t, `Go on. To make the quota last, leave 5s between requests.`, after.Advice)
		})
	}
	p.TB = t
	p.requireQuiet()
}

// A loaded page can send nothing, and cannot turn text into markup.
func TestNothingLeaves(t *testing.T) {
	p := open(t)
	p.requireQuiet()
	for name, script := range map[string]string{
		"fetch":        `fetch("/").then(() => "sent", e => "refused")`,
		"another host": `fetch("https://example.com/").then(() => "sent", e => "refused")`,
		"beacon":       `new Promise(done => { document.addEventListener("securitypolicyviolation", () => done("refused"), {once: true}); navigator.sendBeacon("/", "x"); setTimeout(() => done("sent"), 2000); })`,
		"image":        `new Promise(done => { const i = new Image(); i.onload = () => done("sent"); i.onerror = () => done("refused"); i.src = "/icon.svg?x"; })`,
		"script":       `new Promise(done => { const s = document.createElement("script"); document.addEventListener("securitypolicyviolation", () => done("refused"), {once: true}); try { s.src = "/app.js"; document.head.append(s); } catch { done("refused"); } setTimeout(() => done("sent"), 2000); })`,
		"socket":       `new Promise(done => { try { const s = new WebSocket("ws://" + location.host); s.onopen = () => done("sent"); s.onerror = () => done("refused"); } catch { done("refused"); } })`,
		"markup":       `(() => { try { document.body.innerHTML = "<b>"; return "made"; } catch { return "refused"; } })()`,
		"eval":         `(() => { try { return Function("return 'run'")(); } catch { return "refused"; } })()`,
		"form":         `(() => { const f = document.createElement("form"); f.action = "/x"; document.body.append(f); return new Promise(done => { document.addEventListener("securitypolicyviolation", () => done("refused"), {once: true}); f.submit(); setTimeout(() => done("sent"), 2000); }); })()`,
	} {
		require.Equal(t, "refused", eval[string](p, script), name)
	}
}

// A guessed unit is marked at the value, and noted once.
func TestGuessed(t *testing.T) {
	p := open(t)
	got := p.paste(quote("X-RateLimit-Remaining: 2\nX-RateLimit-Reset: 30"))
	require.Equal(t, []map[string]string{{"name": `"default"`, "bar": "", "guessed": "true", "remaining": "2", "reset": "30s"}}, got.Limits)
	require.Contains(t, eval[string](p, `document.getElementById("notes").innerText`), "The unit of a reset is a guess")
	got = p.paste(answers)
	require.Empty(t, got.Limits[0]["guessed"])
	require.False(t, eval[bool](p, `document.getElementById("notes").checkVisibility()`))
}

// The caret is under the byte at fault, also in wrapped text and at the end.
func TestCaret(t *testing.T) {
	p := open(t)
	for _, width := range []int64{320, 1280} {
		p.do(chromedp.EmulateViewport(width, 800))
		for name, test := range map[string]struct{ line, at string }{
			"in the middle": {`"a"b\c"; r=1; t=60`, "b"},
			"at the start":  {`5`, "5"},
			"at the end":    {`"a";r=`, " "},
			"far":           {`"` + strings.Repeat("n", 200) + `";r=!;x`, "!"},
			"a space":       {`"a";r= 1;t=5`, " "},
		} {
			got := p.paste(quote("RateLimit: " + test.line))
			require.NotEmpty(t, got.Faults, name)
			require.Equal(t, test.at, got.Faults[0].At, name)
			require.Equal(t, "under", eval[string](p, `(() => {
				const byte = document.querySelector("mark"), range = document.createRange();
				range.selectNodeContents(byte.firstChild);
				const box = range.getBoundingClientRect();
				const caret = byte.querySelector(".caret").getBoundingClientRect();
				const centre = caret.left + caret.width / 2;
				if (box.width < 1 || caret.width < 1) return "no size";
				if (centre < box.left || centre > box.right) return "outside";
				return caret.top > box.top + box.height / 3 && caret.top < box.bottom + 8 ? "under" : "elsewhere";
			})()`), "%s at %d", name, width)
		}
	}
}

// Everything can be reached and used by keyboard alone, in the order of reading.
func TestKeyboard(t *testing.T) {
	p := open(t)
	p.pick("a quote that is not escaped")
	want := eval[[]string](p, `(() => {
		const name = e => e.id || e.getAttribute("aria-label") || e.textContent.trim();
		window.nameOf = name;
		return [...document.querySelectorAll("select, textarea, button, a[href], summary, [tabindex='0']")].filter(e => e.checkVisibility()).map(name);
	})()`)
	require.Contains(t, want, "the text at fault")
	var got []string
	for range want {
		p.do(chromedp.KeyEvent(kb.Tab))
		got = append(got, eval[string](p, `nameOf(document.activeElement)`))
		require.NotEqual(t, "none", eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`), "no focus to be seen at %q", got[len(got)-1])
	}
	require.Equal(t, want, got)
	require.Equal(t, []string{"captures", "text"}, got[:2])

	p.do(chromedp.Focus(chromedp.CSS("#captures")), chromedp.KeyEvent(kb.ArrowDown))
	require.Equal(t, "a fraction", eval[string](p, `document.getElementById("captures").value`))
	require.Contains(t, eval[string](p, `document.getElementById("text").value`), "r=0.5")
	p.do(chromedp.KeyEvent(kb.Home))
	require.Equal(t, "Paste a response, or pick a capture.", p.settled())
	p.do(chromedp.Focus(chromedp.CSS("#text")), chromedp.KeyEvent("RateLimit: \"k\";r=0;t=7\n"))
	require.Contains(t, p.settled(), "Wait 7s")
	require.Empty(t, eval[string](p, `document.getElementById("captures").value`), "the text is no capture any more")
}

// settled returns the advice after the page has read the typed text.
func (p *page) settled() string {
	p.Helper()
	return eval[string](p, `new Promise(done => setTimeout(() => done(document.getElementById("advice").textContent), 300))`)
}

// Each form can be copied, by its button.
func TestCopy(t *testing.T) {
	p := open(t)
	p.pick("express-rate-limit: two limits")
	eval[bool](p, `(() => {
		window.copied = [];
		Object.defineProperty(navigator, "clipboard", {configurable: true, value: {writeText: async text => { copied.push(text); }}});
		return true;
	})()`)
	forms := eval[rendered](p, renderedScript).Forms
	require.Greater(t, len(forms), 10)
	want := ""
	for i, name := range forms {
		p.choose("form", name)
		eval[bool](p, `document.querySelector("button[aria-label='Copy fields']").focus(), true`)
		p.do(chromedp.KeyEvent(kb.Enter))
		copied := eval[[]string](p, `copied`)
		require.Len(t, copied, i+1)
		want = copied[i]
		require.Equal(t, eval[string](p, `document.querySelector("#form-text pre").textContent`), want)
		require.Contains(t, want, ": ")
	}

	eval[bool](p, `Object.defineProperty(navigator, "clipboard", {value: undefined}), true`)
	p.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, want, eval[string](p, `getSelection().toString() + "\n"`)[:len(want)])
}

// The chosen form stays chosen. If it cannot hold the next text's limits, the page shows why.
func TestForm(t *testing.T) {
	p := open(t)
	p.paste(answers)
	text := func() string { return eval[string](p, `document.querySelector("#forms-section .form").innerText`) }
	require.Contains(t, text(), `RateLimit: "a";r=1;t=5`)
	p.choose("form", "x-ratelimit-by-name")
	require.Contains(t, text(), "X-RateLimit-Limit-A: 4")
	p.paste(quote(`RateLimit: "a b";r=1;t=5`))
	require.Contains(t, text(), "cannot be written in this form")
	p.paste(answers)
	require.Contains(t, text(), "X-RateLimit-Limit-A: 4")
	p.paste(quote("Server: x"))
	require.False(t, eval[bool](p, `document.getElementById("forms-section").checkVisibility()`))
}

// The address holds any text, and a page with this address shows it.
func TestShared(t *testing.T) {
	p := open(t)
	require.Empty(t, eval[string](p, `location.hash`), "nothing was pasted")
	const text = "RateLimit: \"a b%#&\";r=0;t=7\nX: \u00e9\U0001f600\n"
	p.paste(quote(text))
	address := eval[string](p, `new Promise(done => setTimeout(() => done(location.href), 600))`)
	require.Greater(t, len(address), len(p.url)+len(text))

	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("html[data-ready]")))
	require.Equal(t, text, eval[string](p, `document.getElementById("text").value`))
	require.Equal(t, "Wait 7s.", eval[rendered](p, renderedScript).Advice)
	require.Empty(t, eval[string](p, `document.getElementById("captures").value`))

	eval[bool](p, `location.hash = "#" + encodeURIComponent('RateLimit: "b";r=0;t=8'), true`)
	require.Equal(t, "Wait 8s.", p.settled())
	eval[bool](p, `location.hash = "#%", true`)
	require.Equal(t, "Paste a response, or pick a capture.", p.settled(), "not a text")

	p.paste("`RateLimit: x\n`.repeat(2000)")
	require.Empty(t, eval[string](p, `new Promise(done => setTimeout(() => done(location.hash), 600))`))
	require.Contains(t, eval[string](p, `document.getElementById("shared").textContent`), "too long")
	p.paste(`"RateLimit: \ud800"`)
	require.NotEmpty(t, eval[string](p, `new Promise(done => setTimeout(() => done(location.hash), 600))`))
	require.Empty(t, eval[string](p, `document.getElementById("shared").textContent`))
	p.requireQuiet()
	for _, request := range p.requests {
		require.NotContains(t, request, "#")
	}
}

// Faults mark their line in the text, by mouse and by keyboard, and scroll the text if necessary.
func TestPointing(t *testing.T) {
	p := open(t)
	filler := strings.Repeat("X: "+strings.Repeat("word ", 60)+"\n", 20)
	p.paste(quote("HTTP/1.1 200 OK\n" + filler + "RateLimit-Policy: \"a\";q=9\nServer: x\nRateLimit: \"a\";r=x"))
	pointed := func() []string {
		return eval[[]string](p, `[...document.querySelectorAll(".pointed")].map(e => e.textContent)`)
	}
	require.Empty(t, pointed())
	for what, by := range map[string]struct{ selector, begin, end string }{
		"mouse":    {"#faults > li", "mouseenter", "mouseleave"},
		"keyboard": {"#faults .link", "focus", "blur"},
		"touch":    {"#faults .link", "click", "blur"},
	} {
		eval[bool](p, `document.getElementById("text").scrollTop = 0, true`)
		dispatch := func(event string) {
			eval[bool](p, `document.querySelector(`+quote(by.selector)+`).dispatchEvent(new Event(`+quote(event)+`)), true`)
		}
		dispatch(by.begin)
		require.Equal(t, []string{`RateLimit: "a";r=x`}, pointed(), what)
		require.True(t, eval[bool](p, `(() => {
			const text = document.getElementById("text").getBoundingClientRect(), line = document.querySelector(".pointed").getBoundingClientRect();
			return document.getElementById("text").scrollTop > 0 && line.top >= text.top && line.bottom <= text.bottom;
		})()`), "%s: the line is to be seen", what)
		dispatch(by.end)
		require.Empty(t, pointed())
	}
	require.Equal(t, "line 24", eval[string](p, `document.querySelector("#faults .link").textContent`))
	// The copy behind the text wraps in the same places as the text.
	require.True(t, eval[bool](p, `(() => {
		const text = document.getElementById("text");
		point(24);
		return Math.abs(document.getElementById("copy").scrollHeight - text.scrollHeight) <= 4;
	})()`))
}

// On a phone the whole answer is in the first screen.
func TestPhone(t *testing.T) {
	p := open(t)
	p.do(chromedp.EmulateViewport(360, 740))
	for _, c := range captures(t) {
		p.paste(quote(c.Text))
		require.Less(t, eval[float64](p, `scrollTo(0, 0), document.getElementById("heading").getBoundingClientRect().bottom`), 740.0, c.Name)
	}
}

// At 320 pixels nothing scrolls sideways.
func TestNarrow(t *testing.T) {
	p := open(t)
	p.do(chromedp.EmulateViewport(320, 640))
	texts := []string{
		answers,
		quote(`RateLimit-Policy: "` + strings.Repeat("n", 200) + `";q=999999999999999;w=999999999999999;qu="` + strings.Repeat("u", 200) + `";pk=:` + strings.Repeat("AAAA", 99) + ":\n" +
			`RateLimit: "` + strings.Repeat("n", 200) + `";r=999999999999998;t=999999999999999`),
		quote("RateLimit: " + strings.Repeat("x", 3000)),
		quote("HTTP/1.1 200 " + strings.Repeat("x", 300) + "\nX-" + strings.Repeat("a", 300) + "-RateLimit-Limit: 5"),
	}
	check := func(name string) {
		require.Empty(t, eval[[]string](p, `(() => {
			for (const d of document.querySelectorAll("details")) d.open = true;
			const wide = [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > 320.5).map(e => e.tagName + "." + e.className + "#" + e.id);
			if (document.documentElement.scrollWidth > 320) wide.push("the page: " + document.documentElement.scrollWidth);
			return wide;
		})()`), name)
	}
	for _, text := range texts {
		p.paste(text)
		check(text)
	}
	for _, c := range captures(t) {
		p.paste(quote(c.Text))
		check(c.Name)
	}
}

// All text has the contrast of WCAG 2.2 AA, 4.5 to 1, in both schemes.
func TestContrast(t *testing.T) {
	p := open(t)
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		require.True(t, eval[bool](p, `matchMedia("(prefers-color-scheme: `+scheme+`)").matches`))
		grounds := map[string]bool{}
		for _, capture := range []string{"express-rate-limit: two limits", "GitHub: refused", "well-formed, but against the rules", "fastify: a reset in an unknown unit", ""} {
			if capture != "" {
				p.pick(capture)
			} else {
				p.paste(quote("what\nX-RateLimit-Limit: 50\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 30\nRateLimit-Policy: \"a\";q=1;acme"))
			}
			result := eval[struct {
				Ground string
				Texts  int
				Low    []string
			}](p, contrastScript)
			require.Greater(t, result.Texts, 20)
			require.Empty(t, result.Low, "%s, %s", scheme, capture)
			grounds[result.Ground] = true
		}
		require.Len(t, grounds, 1)
	}
}

// contrastScript finds visible text with less contrast than 4.5, by the formula
// of WCAG 2.2, and controls whose edge has less than 3.
const contrastScript = `(() => {
	for (const d of document.querySelectorAll("details")) d.open = true;
	const rgba = color => { const m = color.match(/[\d.]+/g).map(Number); return {c: m.slice(0, 3), a: m[3] ?? 1}; };
	const ground = e => {
		for (; e; e = e.parentElement) { const {c, a} = rgba(getComputedStyle(e).backgroundColor); if (a === 1) return c; if (a > 0) throw Error("half transparent"); }
		throw Error("no ground");
	};
	const luminance = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)]; return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
	const low = [];
	let texts = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walker.nextNode());) {
		const e = n.parentElement;
		if (n.textContent.trim() === "" || !e.checkVisibility()) continue;
		texts++;
		const ratio = contrast(rgba(getComputedStyle(e).color).c, ground(e));
		if (ratio < 4.5) low.push(n.textContent.slice(0, 30) + " " + ratio.toFixed(2));
	}
	for (const e of document.querySelectorAll("select, textarea, button")) {
		const ratio = contrast(rgba(getComputedStyle(e).borderTopColor).c, ground(e.parentElement));
		if (ratio < 3) low.push("edge of " + e.tagName + " " + ratio.toFixed(2));
	}
	return {Ground: getComputedStyle(document.body).backgroundColor, Texts: texts, Low: low};
})()`

// Everything that a screen reader stops at has a name, and a changed advice is read aloud.
func TestNames(t *testing.T) {
	p := open(t)
	p.pick("express-rate-limit: two limits")
	roles := map[string]int{}
	for _, node := range call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role := strings.Trim(string(node.Role.Value), `"`)
		if slices.Contains([]string{"button", "textbox", "combobox", "meter", "link", "heading", "region", "DisclosureTriangle", "RootWebArea"}, role) {
			roles[role]++
			require.NotNil(t, node.Name, role)
			require.NotContains(t, []string{"", `""`, "null"}, string(node.Name.Value), role)
		}
	}
	for _, role := range []string{"textbox", "combobox"} {
		require.Equal(t, map[string]int{"textbox": 1, "combobox": 2}[role], roles[role], "%v", roles)
	}
	require.Equal(t, 2, roles["meter"])
	require.Positive(t, roles["button"])
	require.Equal(t, []string{"status", "en"}, eval[[]string](p, `[document.getElementById("advice").getAttribute("role"), document.documentElement.lang]`))
}
