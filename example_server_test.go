package ratelimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// A client turns a refusal into an error, and finds it again with errors.As.
func ExampleProblem() {
	server := httptest.NewServer(ratelimit.NewProblem(ratelimit.QuotaExceeded, "daily"))
	defer server.Close()

	get := func(url string) error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			return nil
		}
		p, err := ratelimit.ReadProblem(resp)
		if err != nil {
			return errors.New(resp.Status) // no reason is known
		}
		return fmt.Errorf("get greeting: %w", p)
	}
	err := get(server.URL)
	fmt.Println(err)

	var p *ratelimit.Problem
	if errors.As(err, &p) && p.Type == ratelimit.QuotaExceeded {
		fmt.Println("exceeded:", p.ViolatedPolicies)
	}
	// Output:
	// get greeting: ratelimit: problem 429 Quota Exceeded
	// exceeded: [daily]
}

func ExampleNewProblem() {
	p := ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, "hourly")
	p.Detail = "One of three data centres is down."
	fmt.Println(p.Status, p.Title)
	fmt.Println(p)
	// Output:
	// 503 Temporary Reduced Capacity
	// ratelimit: problem 503 Temporary Reduced Capacity: One of three data centres is down.
}

// Extensions are members of the document like all others.
func ExampleProblem_MarshalJSON() {
	p := ratelimit.NewProblem(ratelimit.AbnormalUsageDetected, "burst")
	p.Extensions = map[string]json.RawMessage{"support": json.RawMessage(`"https://example.com/help?topic=7"`)}
	b, err := p.MarshalJSON()
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
	// Output:
	// {"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429,"violated-policies":["burst"],"support":"https://example.com/help?topic=7"}
}

// A member of the wrong type is ignored, and the others are read.
func ExampleProblem_UnmarshalJSON() {
	var p ratelimit.Problem
	err := json.Unmarshal([]byte(`{"title": "Slow down", "status": "429", "violated-policies": ["burst"], "balance": 30}`), &p)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Title, p.Status, p.ViolatedPolicies, string(p.Extensions["balance"]))
	// Output:
	// Slow down 0 [burst] 30
}

// The example of the draft: the whole quota, ten seconds before the window ends, would invite a
// hundred times the rate of the policy.
func ExampleLimit_Cap() {
	p := ratelimit.Policy{Name: "somepolicy", Quota: 10000, Window: ratelimit.SecondsOf(1000)}
	l := ratelimit.Limit{Name: "somepolicy", Remaining: 10000, Reset: ratelimit.SecondsOf(10)}
	fmt.Println(l.Cap(p, 1))
	fmt.Println(l.Cap(p, 2.5)) // for a server that can handle bursts
	// Output:
	// "somepolicy";r=100;t=10
	// "somepolicy";r=250;t=10
}

// Clients whose quota ends at midnight do not come back all at once.
func ExampleLimit_Jitter() {
	l := ratelimit.Limit{Name: "daily", Reset: ratelimit.SecondsOf(3600)}
	rnd := rand.New(rand.NewPCG(1, 2)) // nil for a random source
	for range 3 {
		fmt.Println(l.Jitter(30*time.Second, rnd))
	}
	// Output:
	// "daily";r=0;t=3623
	// "daily";r=0;t=3619
	// "daily";r=0;t=3624
}

// Nothing remains of the daily quota, and the limit has no reset, so clients wait for the window.
func ExampleFields_SetRetryAfter() {
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{
			{Name: "burst", Quota: 10, Window: ratelimit.SecondsOf(10)},
			{Name: "daily", Quota: 1000, Window: ratelimit.SecondsOf(86400)},
		},
		Limits: []ratelimit.Limit{
			{Name: "burst", Remaining: 0, Reset: ratelimit.SecondsOf(5)},
			{Name: "daily", Remaining: 0},
		},
	}
	h := http.Header{"Retry-After": {"5"}}
	f.SetRetryAfter(h)
	fmt.Println(h)
	// Output:
	// map[Retry-After:[86400]]
}

// A bucket of 20 requests gets one every ten seconds. The example prints its fields when it is
// full, when half a request has flowed in, and when it refuses.
func ExampleTokenBucket() {
	for _, tokens := range []float64{20, 7.5, 0} {
		f := ratelimit.TokenBucket{Name: "burst", Burst: 20, PerSecond: 0.1, Tokens: tokens}.Fields()
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
	w := ratelimit.SlidingWindow{Name: "search", Quota: 50, Previous: 45, Current: 28, Window: 10 * time.Second, Left: 4500 * time.Millisecond}
	fmt.Println(w.Fields())
	w.Current += 2 // two more requests are served
	fmt.Println(w.Fields())
	// Output:
	// policies "search";q=50;w=10; limits "search";r=1;t=5
	// policies "search";q=50;w=10; limits "search";r=0;t=1
}

// This service refuses all requests while its limiter is down, rather than serve them uncounted.
func ExampleMiddleware() {
	limiter := &ratelimit.Middleware{
		Take: func(*http.Request) (ratelimit.Decision, error) {
			return ratelimit.Decision{}, errors.New("no connection")
		},
		OnError: func(w http.ResponseWriter, r *http.Request, err error) bool {
			fmt.Println("limiter:", err)
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return true
		},
	}
	w := httptest.NewRecorder()
	limiter.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code)
	// Output:
	// limiter: no connection
	// 503
}

// A gateway lowers a policy of the origin, and adds a policy of its own.
func ExampleRestrict() {
	upstream, err := ratelimit.Parse(http.Header{
		"Ratelimit-Policy": {`"daily";q=1000;w=86400`},
		"Ratelimit":        {`"daily";r=400;t=7200`},
	})
	if err != nil {
		panic(err) // malformed: leave it as it is
	}
	own := ratelimit.Fields{
		Policies: []ratelimit.Policy{
			{Name: "daily", Quota: 500, Window: ratelimit.SecondsOf(86400)},
			{Name: "gateway", Quota: 10, Window: ratelimit.SecondsOf(1)},
		},
		Limits: []ratelimit.Limit{
			{Name: "daily", Remaining: 450, Reset: ratelimit.SecondsOf(9000)},
			{Name: "gateway", Remaining: 9, Reset: ratelimit.SecondsOf(1)},
		},
	}
	f, err := ratelimit.Restrict(upstream, own)
	fmt.Println(f.Policies, err)
	fmt.Println(f.Limits)

	own.Policies[0].Window = ratelimit.SecondsOf(3600) // now it is another policy
	_, err = ratelimit.Restrict(upstream, own)
	fmt.Println(err)
	// Output:
	// ["daily";q=500;w=86400 "gateway";q=10;w=1] <nil>
	// ["daily";r=400;t=9000 "gateway";r=9;t=1]
	// ratelimit: member 1 of RateLimit-Policy: parameter w: conflict
}

// One Middleware limits all routes, and one behind it limits a single route. Responses
// announce both limits.
func ExampleMiddleware_stacked() {
	always := func(w ratelimit.FixedWindow) func(*http.Request) (ratelimit.Decision, error) { // a limiter that never refuses
		return func(*http.Request) (ratelimit.Decision, error) { return ratelimit.Decision{Fields: w.Fields()}, nil }
	}
	global := &ratelimit.Middleware{Take: always(ratelimit.FixedWindow{Name: "global", Quota: 1000, Used: 400, Window: time.Hour, Left: 30 * time.Minute})}
	search := &ratelimit.Middleware{Take: always(ratelimit.FixedWindow{Name: "search", Quota: 10, Used: 7, Window: time.Minute, Left: 20 * time.Second})}

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

// Each user may open five sessions an hour. A failed login opens none, so the handler gives the
// unit back to the user in the Decision. To limit guesses of passwords, add another Middleware
// that gives nothing back.
func ExampleDecisionOf() {
	sessions := map[string]int64{} // use Redis or a lock
	limiter := &ratelimit.Middleware{Take: func(r *http.Request) (d ratelimit.Decision, err error) {
		user := r.FormValue("user")
		sessions[user]++
		w := ratelimit.FixedWindow{Name: "sessions", Quota: 5, Used: sessions[user], Window: time.Hour, Left: time.Hour}
		d.Fields = w.Fields()
		d.Fields.Limits[0].PartitionKey = []byte(user)
		return d, nil
	}}
	login := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			if d, ok := ratelimit.DecisionOf(r.Context()); ok {
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

// A request that costs 20 tokens is refused while 5 are left. The fields contain the number of
// tokens left, but not when there will be 20. If you know the time, set Retry-After, which
// Refuse keeps.
func ExampleRefuse_cost() {
	const cost, tokens, perSecond = 20, 5, 0.5
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket := ratelimit.TokenBucket{Name: "search", Burst: 100, PerSecond: perSecond, Tokens: tokens}
		w.Header().Set("Retry-After", fmt.Sprint(math.Ceil((cost-tokens)/perSecond)))
		if err := ratelimit.Refuse(w, r, bucket.Fields(), ratelimit.NewProblem(ratelimit.QuotaExceeded, "search")); err != nil {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	// Output:
	// 429 "search";r=5;t=2 30
}

// A gateway allows five requests in ten seconds. Upstream sends only an older form, which then
// also announces the gateway's limit.
func ExampleRestrictHeader() {
	h := http.Header{}
	h.Set("Date", "Sat, 21 Nov 2026 03:40:00 GMT")
	h.Set("X-RateLimit-Limit", "100")
	h.Set("X-RateLimit-Remaining", "40")
	h.Set("X-RateLimit-Reset", "1795232405")
	own := ratelimit.FixedWindow{Name: "gateway", Quota: 5, Used: 1, Window: 10 * time.Second, Left: 10 * time.Second}.Fields()

	arrived := time.Date(2026, time.November, 21, 3, 40, 1, 0, time.UTC)
	err := ratelimit.RestrictHeader(h, http.StatusOK, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: arrived}}) // the zero Now is time.Now()
	if err != nil {
		panic(err) // forward it as it is
	}
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		fmt.Printf("%s: %s\n", name, h.Get(name))
	}
	// Output:
	// RateLimit-Policy: "default";q=100, "gateway";q=5;w=10
	// RateLimit: "default";r=40;t=5, "gateway";r=4;t=10
	// X-RateLimit-Remaining: 4
	// X-RateLimit-Reset: 1795232410
}

// HeaderOf converts the header metadata of a gRPC response.
func ExampleHeaderOf() {
	metadata := map[string][]string{"content-type": {"application/grpc"}, "ratelimit": {`"burst";r=9;t=1`}}
	f, err := ratelimit.Parse(ratelimit.HeaderOf(metadata))
	fmt.Println(f.Limits, err)
	f, err = ratelimit.Parse(http.Header(metadata)) // compiles too, and finds nothing
	fmt.Println(f.Limits, err)
	// Output:
	// ["burst";r=9;t=1] <nil>
	// [] <nil>
}

// A server refuses a request.
func ExampleRefuse() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "daily", Quota: 1000, Window: ratelimit.SecondsOf(86400)}},
			Limits:   []ratelimit.Limit{{Name: "daily", Remaining: 0, Reset: ratelimit.SecondsOf(3600)}},
		}
		err := ratelimit.Refuse(w, r, f, ratelimit.NewProblem(ratelimit.QuotaExceeded, "daily"))
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

func ExampleExpose() {
	h := http.Header{}
	h.Set("Access-Control-Allow-Origin", "https://app.example")
	h.Set("RateLimit", `"burst";r=9;t=1`)
	h.Set("X-RateLimit-Remaining", "9")
	h.Set("Retry-After", "1")
	ratelimit.Expose(h)
	fmt.Println(h.Get("Access-Control-Expose-Headers"))
	// Output:
	// RateLimit, Retry-After, X-Ratelimit-Remaining
}

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

// This Middleware counts requests in windows of a minute.
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

// This Middleware limits how many requests are served at the same time.
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
