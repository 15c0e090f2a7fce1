// Package browser tests the playground in a headless Chromium. It is a module of its own, so
// that the other modules do not depend on a browser or its driver.
package browser

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "write the screenshots of the README to this `folder`")

const root = "../../../"

var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"}

// requireBrowser returns the path of a browser. Without one the test is skipped, but in CI it
// fails.
func requireBrowser(t testing.TB) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.Empty(t, os.Getenv("CI"), "there is no browser, and CI is set")
	t.Skipf("there is no browser: none of %q is in the path", names)
	return ""
}

var built struct {
	sync.Once
	dir string
	err error
}

// requireSite returns the folder of the page. The command writes it once for all tests.
func requireSite(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "site"); built.err != nil {
			return
		}
		var out []byte
		out, built.err = command("./examples/playground", "-o", built.dir)
		if built.err != nil {
			built.err = &failure{built.err, out}
		}
	})
	require.NoError(t, built.err)
	return built.dir
}

type failure struct {
	error
	output []byte
}

func (f *failure) Error() string { return f.error.Error() + "\n" + string(f.output) }

// command runs a program of the root module, in its folder.
func command(args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"run"}, args...)...)
	cmd.Dir = filepath.FromSlash(root)
	return cmd.CombinedOutput()
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// A page is the playground in a browser of its own.
type page struct {
	testing.TB
	ctx context.Context
	url string

	mu       sync.Mutex
	requests []string
	problems []string // the console's messages
}

// open starts a browser, and loads the page.
func open(t testing.TB) *page {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(requireSite(t)))) // sends no Content-Security-Policy of its own
	t.Cleanup(server.Close)
	p := browse(t, server.URL+"/")
	p.do(chromedp.EmulateViewport(1280, 900))
	p.load()
	return p
}

// browse starts a browser for a page.
func browse(t testing.TB, address string) *page {
	t.Helper()
	path := requireBrowser(t)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{TB: t, ctx: ctx, url: address}
	require.NoError(t, chromedp.Listen(ctx, p.listen))
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	return p
}

// load waits for the first view of the page.
func (p *page) load() {
	p.Helper()
	p.do(chromedp.Navigate(p.url), chromedp.WaitReady(chromedp.CSS("html[data-ready]")))
}

func (p *page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		p.problems = append(p.problems, e.Entry.Text)
	case *runtime.EventConsoleAPICalled:
		p.problems = append(p.problems, "console."+string(e.Type))
	}
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, actions...))
}

func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.Helper()
	result, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p, err)
	return result
}

// eval returns the value of a script, or of its promise.
func eval[T any](p *page, script string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise, obeyPolicy))
	require.NoError(p, err)
	return value
}

// obeyPolicy binds a script to the page's Content-Security-Policy.
func obeyPolicy(p *runtime.EvaluateParams) { p.AllowUnsafeEvalBlockedByCSP = new(bool) }

// requireQuiet requires that no other host got a request, and that the console is empty.
func (p *page) requireQuiet() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p, p.problems)
	want, err := url.Parse(p.url)
	require.NoError(p, err)
	for _, request := range p.requests {
		got, err := url.Parse(request)
		require.NoError(p, err)
		require.Equal(p, want.Host, got.Host)
	}
}

// quote returns a text as a string of JavaScript.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
