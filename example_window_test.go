package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A window allows two requests in each minute.
type window struct {
	mu   sync.Mutex
	end  time.Time
	used int64
}

const quota, length = 2, time.Minute

func (w *window) take(*http.Request) (ratelimit.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(length), 0
	}
	var d ratelimit.Decision
	if w.used < quota {
		w.used++
	} else {
		d.Violated = []string{"minute"}
	}
	d.Fields = ratelimit.FixedWindow{Name: "minute", Quota: quota, Used: w.used, Window: length, Left: w.end.Sub(now)}.Fields()
	return d, nil
}

// A limiter that counts requests in windows of a minute, in front of a handler.
func ExampleFixedWindow() {
	limiter := &ratelimit.Middleware{Take: new(window).take, Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}}
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Header().Get("X-RateLimit-Remaining"), w.Header()["Retry-After"])
	}
	// Output:
	// 200 "minute";r=1;t=60 1 []
	// 200 "minute";r=0;t=60 0 []
	// 429 "minute";r=0;t=60 0 [60]
}
