package ratelimittest_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit/ratelimittest"
)

// A printer prints the errors of a test.
type printer struct{}

func (printer) Error(args ...any) { fmt.Println(args...) }

// A test of a server checks its responses against the specification.
func ExampleCheck() {
	var t printer // usually a *testing.T
	resp := &http.Response{Header: http.Header{
		"Ratelimit-Policy": {`"default";q=100;w=60`},
		"Ratelimit":        {`"default";r=0;t=30`},
		"Retry-After":      {"1"},
	}}
	for _, f := range ratelimittest.Check(resp) {
		if f.Level > ratelimittest.LevelNote {
			t.Error(f)
		}
	}
	// Output: S3 (should) Retry-After: let Retry-After be no earlier than the reset of each limit with nothing remaining
}

// A test sends many requests to a server. On this server the remaining number never falls.
func ExampleSequence() {
	get := func() *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{
			"Ratelimit-Policy": {`"burst";q=100;w=60`},
			"Ratelimit":        {`"burst";r=100;t=60`},
		}}
	}
	var findings []ratelimittest.Finding
	s := ratelimittest.Sequence{Alone: true} // no other client uses the quota
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
