package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/httpfields/ratelimit/announce"
)

// The server of README.md, word for word, with the real package rate.
func TestReadmeServer(t *testing.T) {
	mux := http.NewServeMux()
	bucket := rate.NewLimiter(0.1, 2) // golang.org/x/time/rate; usually one for each client
	limiter := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
		var d announce.Decision
		if !bucket.Allow() {
			d.Violated = []string{"bucket"}
		}
		d.Fields = announce.TokenBucket{Name: "bucket", Burst: int64(bucket.Burst()), PerSecond: float64(bucket.Limit()), Tokens: bucket.Tokens()}.Fields()
		return d, nil
	}}
	handler := limiter.Handler(mux) // for http.ListenAndServe; chi: r.Use(limiter.Handler)

	var got []string
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		got = append(got, w.Header().Get("RateLimit"))
	}
	require.Equal(t, []string{`"bucket";r=1;t=10`, `"bucket";r=0;t=10`, `"bucket";r=0;t=10`}, got)

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(readme), "bucket := rate.")
	code, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	require.Contains(t, strings.ReplaceAll(string(source), "\n\t", "\n"), "bucket := rate."+code)
}
