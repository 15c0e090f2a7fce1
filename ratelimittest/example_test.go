package ratelimittest_test

import (
	"fmt"
	"net/http"

	"github.com/httpfields/ratelimit/ratelimittest"
)

// A test of a server checks its responses against the specification.
func ExampleCheck() {
	findings := ratelimittest.Check(&http.Response{Header: http.Header{
		"Ratelimit-Policy": {`"default";q=100;w=60`},
		"Ratelimit":        {`"default";r=0;t=30`},
		"Retry-After":      {"1"},
	}})
	for _, f := range findings {
		fmt.Println(f)
	}
	// Output:
	// S3 (should) Retry-After: let Retry-After be no earlier than the reset of each limit with nothing remaining
}
