package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
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

// toStdout makes package log write to the output of the example.
func toStdout() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
}

func Example_readmeServer() {
	counter := &minuteCounter{used: 99}
	mux := http.NewServeMux()
	limiter := &ratelimit.Middleware{
		Take: func(r *http.Request) (ratelimit.Decision, error) {
			used, left, err := counter.Add(r.Context(), r.Header.Get("X-API-Key")) // in Redis, say
			window := ratelimit.FixedWindow{Name: "minute", Quota: 100, Used: used, Window: time.Minute, Left: left}
			d := ratelimit.Decision{Fields: window.Fields()}
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

func Example_readmeTransport() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{
		Transport: &ratelimit.Transport{MaxRetries: 3}, // waits as servers ask, at most 10 minutes at a time
		Timeout:   time.Minute,                         // includes the waits; a request that cannot go in time fails at once
	}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 404
}

func Example_readmeState() {
	gate := new(ratelimit.Gate)
	if pass, _ := gate.TryEnter("api"); pass != nil {
		spent := ratelimit.Advice{Wait: time.Minute, Source: ratelimit.SourceLimit}
		pass.Answered(spent, time.Date(2099, time.January, 1, 0, 0, 0, 0, time.UTC))
	}
	for key := range gate.Keys() {
		if w, ok := gate.State(key); ok && w.Reason != "" {
			log.Printf("%s waits until %v (%s), %d queued", w.Key, w.Until, w.Reason, w.Queued)
		}
	}
	w, _ := gate.State("api")
	fmt.Println(w.Reason)
	// Output: limit
}

func Example_readmeCost() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{Transport: &ratelimit.Transport{
		Cost: func(r *http.Request) []ratelimit.Cost {
			return []ratelimit.Cost{{Unit: "tokens", Units: r.ContentLength / 4}} // of the prompt, by an estimate
		},
	}}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"prompt": "Once upon a time"}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 404
}

// refusal returns the response to a request that exceeds a limit.
func refusal() *http.Response {
	return respond(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "burst", Quota: 100, Window: ratelimit.SecondsOf(60)}},
			Limits:   []ratelimit.Limit{{Name: "burst", Reset: ratelimit.SecondsOf(12)}},
		}
		if err := ratelimit.Refuse(w, r, f, ratelimit.NewProblem(ratelimit.QuotaExceeded, "burst")); err != nil {
			log.Print(err)
		}
	}))
}

// Retry-After takes precedence over the fields of limits.
func ExampleSource() {
	toStdout()
	resp := refusal()
	advice := ratelimit.Advise(resp, time.Now())
	if advice.Wait > 0 {
		log.Printf("waiting %v because of %v", advice.Wait, advice.Source)
	}
	// Output: waiting 12s because of retry-after
}

// The error of a refusal contains the time to come back.
func ExampleRefusedError() {
	toStdout()
	resp := refusal()
	err := ratelimit.Advisor{}.CheckResponse(resp, time.Now())
	var refused *ratelimit.RefusedError
	if errors.As(err, &refused) {
		log.Printf("refused with %d, come back in %v", refused.Status, refused.Advice.Asked) // 0s if the server named no time
	}
	// Output: refused with 429, come back in 12s
}

// A client reads the limits of a response.
func Example_client() {
	toStdout()
	resp := refusal()
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{})
	if err != nil {
		log.Print(err) // one bad field hides no good one: f has what could be read
	}
	for _, l := range f.Limits {
		if p, ok := f.PolicyOf(l); ok {
			log.Printf("%s: %d of %d left for %v", l.Name, l.Remaining, p.Quota, l.Reset)
		}
	}
	// Output: burst: 0 of 100 left for 12s
}

func Example_readmeGateway() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "40")
	}))
	defer server.Close()
	upstream, _ := url.Parse(server.URL)
	take := new(window).take
	limiter := &ratelimit.Middleware{Take: take}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}
	handler := limiter.Handler(proxy) // for http.ListenAndServe
	resp := respond(handler)
	fmt.Println(resp.Header.Get("RateLimit"), resp.Header.Get("X-RateLimit-Remaining"))
	// Output: "default";r=40, "minute";r=1;t=60 1
}

// A printer prints the errors of a test.
type printer struct{}

func (printer) Error(args ...any) { fmt.Println(args...) }

func Example_readmeCheck() {
	var t printer
	resp := &http.Response{Header: http.Header{"Ratelimit": {`burst;r=37`}}}
	for _, f := range ratelimit.Check(resp) {
		if f.Level > ratelimit.LevelNote {
			t.Error(f)
		}
	}
	// Output: L1 (must) member 1 of RateLimit, line 1, byte 1: write the name in double quotes, or strict clients ignore the whole field
}

// A test sends many requests to a server. On this server the remaining number never falls.
func ExampleSequence() {
	get := func() *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{
			"Ratelimit-Policy": {`"burst";q=100;w=60`},
			"Ratelimit":        {`"burst";r=100;t=60`},
		}}
	}
	var findings []ratelimit.Finding
	s := ratelimit.Sequence{Alone: true} // no other client uses the quota
	for range 20 {
		sent := time.Now()
		resp := get()
		findings = append(findings, s.Add(resp, sent, time.Now())...)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	// Output: L5 (should) member 1 of RateLimit: let r fall by what each request costs: it stays 100 over 5 requests that were served (or is this URL free, or cached?)
}

// A server that moves to the current fields also writes the older fields that its clients know.
func ExampleDialect_Set() {
	f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "burst", Remaining: 37, Reset: ratelimit.SecondsOf(12)}}}
	h := http.Header{}
	err := f.Set(h)
	err = errors.Join(err, ratelimit.XRateLimit.Set(h, f, time.Now()))
	fmt.Println(h.Get("RateLimit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), err)
	// Output: "burst";r=37;t=12 37 12 <nil>
}

// readAcme reads fields whose names do not reveal their meaning.
func readAcme(resp *http.Response) error {
	acme, err := ratelimit.NewDialect("acme",
		ratelimit.DialectField{Name: "Acme-*-Credits", Role: ratelimit.RoleRemaining, Unit: "credits"},
		ratelimit.DialectField{Name: "Acme-*-Again", Role: ratelimit.RoleReset, Format: ratelimit.TimeUnixMilli})
	if err != nil {
		return err // a name that is no field name, or is there twice
	}
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{acme}})
	fmt.Println(f.Dialect, f.Limits[0].Name, f.Limits[0].Remaining)
	return err
}

func Example_readmeDialect() {
	fmt.Println(readAcme(&http.Response{Header: http.Header{
		"Date":                {"Sat, 21 Nov 2026 03:00:00 GMT"},
		"Acme-Search-Credits": {"37"},
		"Acme-Search-Again":   {"1795230012000"},
	}}))
	// Output:
	// acme search 37
	// <nil>
}
