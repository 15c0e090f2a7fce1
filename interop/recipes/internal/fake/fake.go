// Package fake has servers for the tests of the recipes.
package fake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/httpfields/ratelimit/announce"
)

// A Window allows Quota requests in each window of time, for all clients together. Its Take
// is the Take of a announce.Middleware.
type Window struct {
	Quota  int64
	Length time.Duration

	mu      sync.Mutex
	end     time.Time
	used    int64
	refused int
}

func (w *Window) Take(*http.Request) (d announce.Decision, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(w.Length), 0
	}
	if w.used < w.Quota {
		w.used++
	} else {
		w.refused++
		d.Violated = []string{"window"}
	}
	d.Fields = announce.FixedWindow{Name: "window", Quota: w.Quota, Used: w.used, Window: w.Length, Left: w.end.Sub(now)}.Fields()
	return d, nil
}

// Refused returns how many requests have been refused.
func (w *Window) Refused() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Handler puts the window in front of a handler.
func (w *Window) Handler(next http.Handler) http.Handler {
	return (&announce.Middleware{Take: w.Take}).Handler(next)
}

// Spent takes one request, after which nothing is left for a minute.
func Spent() *Window { return &Window{Quota: 1, Length: time.Minute} }

// Memory sends requests to a handler without a network, which virtual time requires.
func Memory(h http.Handler) http.RoundTripper { return memory{h} }

type memory struct{ http.Handler }

func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
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
