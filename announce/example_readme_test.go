package announce_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// This file contains the code of README.md word for word, which TestReadmeCode checks. The
// functions around it make it run.

// A minuteCounter counts the requests of a minute, in place of one in Redis.
type minuteCounter struct{ used int64 }

func (c *minuteCounter) Add(context.Context, string) (used int64, left time.Duration, err error) {
	c.used++
	return c.used, 30 * time.Second, nil
}

// respond returns the response of a handler.
func respond(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Result()
}

func Example_readmeServer() {
	counter := &minuteCounter{used: 99}
	mux := http.NewServeMux()
	limiter := &announce.Middleware{
		Take: func(r *http.Request) (announce.Decision, error) {
			used, left, err := counter.Add(r.Context(), r.Header.Get("X-API-Key")) // in Redis, say
			window := announce.FixedWindow{Name: "minute", Quota: 100, Used: used, Window: time.Minute, Left: left}
			d := announce.Decision{Fields: window.Fields()}
			if used > 100 {
				d.Violated = []string{"minute"}
			}
			return d, err
		},
		OnError: func(w http.ResponseWriter, r *http.Request, err error) bool {
			log.Print(err)
			return false // the request passes; to refuse it, answer 503 and return true
		},
		Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit},
	}
	handler := limiter.Handler(mux) // for http.ListenAndServe; chi: r.Use(limiter.Handler)
	for range 2 {
		resp := respond(handler)
		fmt.Println(resp.StatusCode, resp.Header.Get("RateLimit"), resp.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 404 "minute";r=0;t=30 0
	// 429 "minute";r=0;t=30 0
}

func Example_readmeGateway() {
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
	fmt.Println(resp.Header.Get("RateLimit"), resp.Header.Get("X-RateLimit-Remaining"))
	// Output: "default";r=40, "minute";r=1;t=60 1
}
