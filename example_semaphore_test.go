package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/httpfields/ratelimit"
)

// A semaphore allows as many requests at the same time as it has slots.
type semaphore chan struct{}

func (s semaphore) take(*http.Request) (ratelimit.Decision, error) {
	var d ratelimit.Decision
	select {
	case s <- struct{}{}:
		d.Done = func() { <-s } // called when the handler has returned
	default:
		d.Violated = []string{"slots"}
	}
	// There is neither window nor reset, because it is unknown when a slot will be free.
	d.Fields = ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "slots", Quota: int64(cap(s)), Unit: ratelimit.ConcurrentRequests}},
		Limits:   []ratelimit.Limit{{Name: "slots", Remaining: int64(cap(s) - len(s))}},
	}
	return d, nil
}

// A limit on requests at the same time.
func ExampleMiddleware_semaphore() {
	limiter := &ratelimit.Middleware{Take: make(semaphore, 1).take}
	var handler http.Handler
	get := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	handler = limiter.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			get("/meanwhile")
		}
	}))

	get("/slow")
	get("/afterwards")
	// Output:
	// /meanwhile 429 "slots";r=0
	// /slow 200 "slots";r=0
	// /afterwards 200 "slots";r=0
}
