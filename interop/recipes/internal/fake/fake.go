// Package fake has servers for the tests of the recipes.
package fake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// Window returns an API with a limit for all clients together. It answers with JSON.
func Window(quota int64, window time.Duration) *ratelimittest.API {
	p := ratelimit.Policy{Name: "window", Quota: quota, Window: ratelimit.CeilSeconds(window)}
	return &ratelimittest.API{
		Limits:  []ratelimittest.Limit{{Policy: p, Kind: ratelimittest.WindowFromFirst}},
		Handler: JSON("hello"),
	}
}

// Spent returns an API that serves one request, after which nothing is left for a minute.
func Spent() *ratelimittest.API { return Window(1, time.Minute) }

// Take returns the Take of a Middleware, which allows one request, and counts all.
func Take() (take func(*http.Request) (announce.Decision, error), taken *int) {
	taken = new(int)
	return func(*http.Request) (d announce.Decision, err error) {
		if *taken++; *taken > 1 {
			d.Violated = []string{"window"}
		}
		d.Fields = announce.FixedWindow{Name: "window", Quota: 1, Used: 1, Window: time.Minute, Left: time.Minute}.Fields()
		return d, nil
	}, taken
}

// Memory sends requests to a handler without a network, which virtual time requires.
func Memory(h http.Handler) http.RoundTripper {
	return (&ratelimittest.API{Handler: h}).RoundTripper()
}

// Get sends a request to a handler.
func Get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// JSON answers with a value in JSON.
func JSON(v any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(err)
		}
	})
}
