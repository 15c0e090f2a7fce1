package announce_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// A bucket takes the place of a [rate.Limiter] of golang.org/x/time/rate, which this module does not
// require.
//
// [rate.Limiter]: https://pkg.go.dev/golang.org/x/time/rate#Limiter
type bucket struct {
	rate   float64
	tokens int
}

func (b *bucket) Allow() bool {
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

func (b *bucket) Limit() float64  { return b.rate }
func (b *bucket) Burst() int      { return 2 }
func (b *bucket) Tokens() float64 { return float64(b.tokens) }

// rate takes the place of package rate.
var rate = struct {
	NewLimiter func(perSecond float64, burst int) *bucket
}{func(perSecond float64, burst int) *bucket { return &bucket{perSecond, burst} }}

// A server with a limiter of golang.org/x/time/rate: two requests at once, and one each ten seconds.
func ExampleMiddleware() {
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

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Header()["Retry-After"])
	}
	// Output:
	// 404 "bucket";r=1;t=10 []
	// 404 "bucket";r=0;t=10 []
	// 429 "bucket";r=0;t=10 [10]
}

// One Middleware limits all routes, and one behind it limits a single route. Responses
// announce both limits.
func ExampleMiddleware_stacked() {
	always := func(w announce.FixedWindow) func(*http.Request) (announce.Decision, error) { // a limiter that never refuses
		return func(*http.Request) (announce.Decision, error) { return announce.Decision{Fields: w.Fields()}, nil }
	}
	global := &announce.Middleware{Take: always(announce.FixedWindow{Name: "global", Quota: 1000, Used: 400, Window: time.Hour, Left: 30 * time.Minute})}
	search := &announce.Middleware{Take: always(announce.FixedWindow{Name: "search", Quota: 10, Used: 7, Window: time.Minute, Left: 20 * time.Second})}

	mux := http.NewServeMux()
	mux.Handle("/search", search.Handler(http.NotFoundHandler())) // chi: r.With(search.Handler)
	handler := global.Handler(mux)                                // chi: r.Use(global.Handler)

	for _, path := range []string{"/", "/search"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Header().Get("RateLimit"))
	}
	// Output:
	// / "global";r=600;t=1800
	// /search "search";r=3;t=20, "global";r=600;t=1800
}

// A semaphore allows as many requests at the same time as it has slots.
type semaphore chan struct{}

func (s semaphore) take(*http.Request) (announce.Decision, error) {
	var d announce.Decision
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

// This Middleware limits how many requests are served at the same time.
func ExampleMiddleware_semaphore() {
	limiter := &announce.Middleware{Take: make(semaphore, 1).take}
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

// Each user may open five sessions an hour. A failed login opens none, so the handler gives the
// unit back to the user in the Decision. To limit guesses of passwords, add another Middleware
// that gives nothing back.
func ExampleDecisionOf() {
	sessions := map[string]int64{} // use Redis or a lock
	limiter := &announce.Middleware{Take: func(r *http.Request) (d announce.Decision, err error) {
		user := r.FormValue("user")
		sessions[user]++
		w := announce.FixedWindow{Name: "sessions", Quota: 5, Used: sessions[user], Window: time.Hour, Left: time.Hour}
		d.Fields = w.Fields()
		d.Fields.Limits[0].PartitionKey = []byte(user)
		return d, nil
	}}
	login := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			if d, ok := announce.DecisionOf(r.Context()); ok {
				sessions[string(d.Fields.Limits[0].PartitionKey)]--
			}
			http.Error(w, "wrong password", http.StatusForbidden)
		}
	}))
	for _, password := range []string{"guess", "secret"} {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest("POST", "/?user=ada&password="+password, nil))
		fmt.Println(w.Code, sessions)
	}
	// Output:
	// 403 map[ada:0]
	// 200 map[ada:1]
}

// A server refuses a request.
func ExampleRefuse() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "daily", Quota: 1000, Window: ratelimit.SecondsOf(86400)}},
			Limits:   []ratelimit.Limit{{Name: "daily", Remaining: 0, Reset: ratelimit.SecondsOf(3600)}},
		}
		err := announce.Refuse(w, r, f, ratelimit.NewProblem(ratelimit.QuotaExceeded, "daily"))
		if err != nil { // nothing was written
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	}

	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code)
	fmt.Println("RateLimit:", w.Header().Get("RateLimit"))
	fmt.Println("Retry-After:", w.Header().Get("Retry-After"))
	fmt.Println(w.Body)
	// Output:
	// 429
	// RateLimit: "daily";r=0;t=3600
	// Retry-After: 3600
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["daily"]}
}

// A window allows two requests in each minute.
type window struct {
	mu   sync.Mutex
	end  time.Time
	used int64
}

func (w *window) take(*http.Request) (announce.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(length), 0
	}
	var d announce.Decision
	if w.used < quota {
		w.used++
	} else {
		d.Violated = []string{"minute"}
	}
	d.Fields = announce.FixedWindow{Name: "minute", Quota: quota, Used: w.used, Window: length, Left: w.end.Sub(now)}.Fields()
	return d, nil
}

const quota, length = 2, time.Minute

// This Middleware counts requests in windows of a minute.
func ExampleFixedWindow() {
	limiter := &announce.Middleware{Take: new(window).take, Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}}
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

// A bucket of 20 requests gets one every ten seconds. The example prints its fields when it is
// full, when half a request has flowed in, and when it refuses.
func ExampleTokenBucket() {
	for _, tokens := range []float64{20, 7.5, 0} {
		f := announce.TokenBucket{Name: "burst", Burst: 20, PerSecond: 0.1, Tokens: tokens}.Fields()
		fmt.Println(f.Policies[0], f.Limits[0])
	}
	// Output:
	// "burst";q=20;w=200 "burst";r=20;t=10
	// "burst";q=20;w=200 "burst";r=7;t=5
	// "burst";q=20;w=200 "burst";r=0;t=10
}

// This limiter adds a part of the previous window to the current one.
func ExampleSlidingWindow() {
	// 45 of 50 were used in the previous 10 seconds, and 28 in the current window, with 4.5 s
	// left: 28 + 45 × 0.45 = 48.25.
	w := announce.SlidingWindow{Name: "search", Quota: 50, Previous: 45, Current: 28, Window: 10 * time.Second, Left: 4500 * time.Millisecond}
	fmt.Println(w.Fields())
	w.Current += 2 // two more requests are served
	fmt.Println(w.Fields())
	// Output:
	// policies "search";q=50;w=10; limits "search";r=1;t=5
	// policies "search";q=50;w=10; limits "search";r=0;t=1
}
