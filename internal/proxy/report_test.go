package proxy

import (
	"bytes"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// scriptedServer answers with the status in the path. A path of "down" gets no answer.
func scriptedServer(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch r.URL.Path {
	case "/down":
		return nil, errors.New("connection refused")
	case "/redirect":
		w.Header().Set("Location", "https://api.example/elsewhere")
		w.WriteHeader(http.StatusFound)
	case "/limits":
		w.Header().Set("RateLimit-Policy", `"burst";q=2;w=10, "daily";q=1000;w=86400`)
		w.Header().Set("RateLimit", `"burst";r=0;t=5, "daily";r=998;t=3600`)
	case "/refused":
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// The whole report of a proxy is in testdata/report.txt: its log, and /state and /metrics while
// requests wait and at the end.
func TestReportGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, printed bytes.Buffer
		logger := log.New(&printed, "", 0)
		server, _ := url.Parse("https://api.example/")
		p := New(Config{
			To: server, Fields: []string{"Authorization"}, MaxWait: 6 * time.Second, Queue: 2, Rewrite: true,
			Log: logger, Talk: logger,
			Share: answeredBy(scriptedServer),
		})
		var all sync.WaitGroup
		ask := func(path, user string, status int) {
			all.Go(func() {
				r := httptest.NewRequest(http.MethodGet, path+"?key=s3cret", nil)
				if user != "" {
					r.Header.Set("Authorization", user)
				}
				w := httptest.NewRecorder()
				p.ServeHTTP(w, r)
				require.Equal(t, status, w.Code, path)
			})
			synctest.Wait()
			p.stats.mu.Lock()
			for _, k := range p.stats.keys {
				if k.Key != "anonymous" {
					k.Key = "0123456789abcdef" // instead of a random hash
				}
			}
			p.stats.mu.Unlock()
		}
		report := func(heading string) {
			for _, path := range []string{"/state", "/metrics"} {
				w := httptest.NewRecorder()
				p.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				out.WriteString("== " + path + " " + heading + "\n" + w.Body.String())
			}
		}
		ask("/redirect", "", http.StatusFound)
		ask("/down", "", http.StatusBadGateway)
		ask("/limits", "Bearer s3cret", http.StatusOK)
		time.Sleep(1234567 * time.Nanosecond) // numbers are rounded
		ask("/ok", "Bearer s3cret", http.StatusOK)
		ask("/ok", "Bearer s3cret", http.StatusOK)
		ask("/full", "Bearer s3cret", http.StatusTooManyRequests)
		ask("/refused", "", http.StatusTooManyRequests)
		time.Sleep(2 * time.Second)
		report("while requests wait")
		time.Sleep(time.Minute)
		ask("/limits", "Bearer s3cret", http.StatusOK)
		ask("/stopped", "Bearer s3cret", http.StatusServiceUnavailable)
		time.Sleep(2 * time.Second)
		p.Stop()
		all.Wait()
		p.underWay.Wait()
		report("at the end")
		out.WriteString("== printed\n" + regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(printed.String(), "HH:MM:SS"))

		require.NotContains(t, out.String(), "s3cret")
		trial.RequireGolden(t, "testdata/report.txt", out.String())
	})
}
