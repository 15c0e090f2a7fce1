package ratelimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// received is when the responses below arrive.
var received = time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)

// Advise returns how long to wait before the next request, and the pace that spreads the
// remaining requests over the time left.
func ExampleAdvise() {
	resp := &http.Response{Header: http.Header{
		"Ratelimit-Policy": {`"burst";q=100;w=60, "daily";q=1000;w=86400`},
		"Ratelimit":        {`"burst";r=0;t=12, "daily";r=990;t=80000`},
	}}
	a := ratelimit.Advise(resp, received)
	fmt.Println("wait", a.Wait, "then go at", a.Pace)
	fmt.Println(a.Source, a.Limit.Name)
	// Output:
	// wait 12s then go at 1m20.808080809s
	// limit burst
}

// Advise reads older fields too. MaxWait bounds the wait that a server asks for.
func ExampleAdvisor() {
	advisor := ratelimit.Advisor{
		MaxWait: time.Minute,
		Legacy:  ratelimit.LegacyOptions{Name: "acme"},
	}
	a := advisor.Advise(&http.Response{Header: http.Header{
		"X-Ratelimit-Limit":     {"5000"},
		"X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset":     {"3600"},
	}}, received)
	fmt.Println(a.Wait, a.Capped, a.Limit.Name)
	// Output: 1m0s true acme
}

// The text of an Advice is for people. Fields has all limits of the response.
func ExampleAdvice_String() {
	for _, h := range []http.Header{
		{
			"Ratelimit": {`"burst";r=60;t=30`},
		},
		{"Ratelimit": {`"burst";r=0;t=30`}},
		{"Ratelimit": {`"daily";r=0;t=2040`}, "Retry-After": {"2040"}},
	} {
		a := ratelimit.Advise(&http.Response{Header: h}, received)
		fmt.Println(a) // log.Print does the same
	}
	a := ratelimit.Advise(&http.Response{StatusCode: http.StatusTooManyRequests}, received)
	fmt.Println(a)
	// Output:
	// go on, pace 500ms
	// wait 30s (limit "burst";r=0;t=30)
	// wait 10m0s of 34m0s (Retry-After, limit "daily";r=0;t=2040)
	// refused, back off
}

func ExampleFields_String() {
	f, _ := ratelimit.ParseAny(http.Header{
		"X-Ratelimit-Limit":     {"5000"},
		"X-Ratelimit-Remaining": {"4997"},
		"X-Ratelimit-Reset":     {"30"},
	}, ratelimit.LegacyOptions{})
	fmt.Println(f)
	// Output: policies "default";q=5000; limits "default";r=4997;t=30; dialect x-ratelimit, guessed
}

func ExampleParseRetryAfter() {
	for _, value := range []string{"120", "Sat, 21 Nov 2026 03:00:30 GMT", "soon"} {
		wait, ok := ratelimit.ParseRetryAfter(http.Header{"Retry-After": {value}}, received)
		fmt.Println(wait, ok)
	}
	// Output:
	// 2m0s true
	// 30s true
	// 0s false
}

// A refusal is an error with the server's own words and the time to come back.
func ExampleAdvisor_CheckResponse() {
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header: http.Header{
			"Retry-After":  {"30"},
			"Content-Type": {"application/problem+json"},
		},
		Body: io.NopCloser(strings.NewReader(`{
			"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title": "Request cannot be satisfied as assigned quota has been exceeded",
			"violated-policies": ["daily"]
		}`)),
	}
	err := ratelimit.Advisor{}.CheckResponse(resp, received)
	fmt.Println(err)
	var refused *ratelimit.RefusedError
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, refused.Problem.ViolatedPolicies, refused.Until.Format(time.TimeOnly))
	}
	// Output:
	// ratelimit: refused with status 429, wait 30s: problem Request cannot be satisfied as assigned quota has been exceeded
	// 429 [daily] 03:00:30
}
