package ratelimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
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
	// ratelimit: member 1 of RateLimit-Policy: parameter w: conflict, upstream has a policy of this name with another w: give one of them another name
}

// A gateway allows five requests in ten seconds. Upstream sends only an older form, which then
// also announces the gateway's limit.
func ExampleRestrictHeader() {
	h := http.Header{}
	h.Set("Date", "Sat, 21 Nov 2026 03:40:00 GMT")
	h.Set("X-RateLimit-Limit", "100")
	h.Set("X-RateLimit-Remaining", "40")
	h.Set("X-RateLimit-Reset", "1795232405")
	own := announce.FixedWindow{Name: "gateway", Quota: 5, Used: 1, Window: 10 * time.Second, Left: 10 * time.Second}.Fields()

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
