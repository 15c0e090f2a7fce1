package browser

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/proxy"
)

// The page of ratelimit proxy -admin shows the limits of each key as bars, and the number of
// waiting requests. It fits a phone, and the name of a policy is shown as text.
func TestAdmin(t *testing.T) {
	requireBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", `"<b>user</b>";q=50;w=60, "day";q=1000;w=86400`)
		w.Header().Set("RateLimit", `"<b>user</b>";r=0;t=60, "day";r=900;t=3600`)
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	require.NoError(t, err)
	p := proxy.New(proxy.Config{To: to, MaxWait: time.Minute * 10, Queue: 10, Log: log.New(io.Discard, "", 0)})
	front, admin := httptest.NewServer(p), httptest.NewServer(p.Admin())
	defer admin.Close()
	resp, err := http.Get(front.URL)
	require.NoError(t, err)
	resp.Body.Close()
	for range 3 {
		go func() {
			if resp, err := http.Get(front.URL); err == nil {
				resp.Body.Close()
			}
		}()
	}
	defer front.Close()
	defer p.Stop()

	page := browse(t, admin.URL+"/")
	for _, width := range []int64{1280, 360} {
		page.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate(page.url))
		text := eval[string](page, `(async () => {
			while (!document.body.innerText.includes("3 wait.")) await new Promise(resolve => setTimeout(resolve, 50))
			return document.body.innerText
		})()`)
		for _, want := range []string{"keys: 1, requests that wait: 3", "anonymous", "<b>user</b>", "0 of 50", "900 of 1000", "the next request waits (limit) until"} {
			require.Contains(t, text, want)
		}
		require.Equal(t, []float64{0, 0.9}, eval[[]float64](page, `[...document.querySelectorAll("meter")].map(m => m.value / m.max)`))
		require.False(t, eval[bool](page, `document.documentElement.scrollWidth > innerWidth`), "it is wider than the window")
	}
	page.requireQuiet()
}
