package announce_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/announce"
)

// The test of this file contains code of README.md and docs/ word for word, which TestReadmeCode
// checks.

// respond returns the response of a handler.
func respond(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Result()
}

func TestReadmeGateway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "40")
	}))
	defer server.Close()
	upstream, _ := url.Parse(server.URL)
	take := new(window).take
	limiter := &announce.Middleware{Take: take}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}
	handler := limiter.Handler(proxy) // for http.ListenAndServe
	resp := respond(handler)
	require.Equal(t, []string{`"default";r=40, "minute";r=1;t=60`, "1"}, []string{resp.Header.Get("RateLimit"), resp.Header.Get("X-RateLimit-Remaining")})
}
