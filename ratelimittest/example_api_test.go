package ratelimittest_test

import (
	"fmt"
	"net/http"

	"github.com/httpfields/ratelimit/ratelimittest"
)

// With a smaller quota, the second request is refused, as GitHub refuses: with 403, and without
// Retry-After.
func ExampleLike() {
	api, err := ratelimittest.Like("github")
	if err != nil {
		panic(err)
	}
	api.Limits[0].Policy.Quota = 1
	client := &http.Client{Transport: api.RoundTripper()}
	for range 2 {
		resp, err := client.Get("https://api.example/")
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		h := resp.Header
		fmt.Printf("%d %s of %s, %q\n", resp.StatusCode, h.Get("X-RateLimit-Used"), h.Get("X-RateLimit-Limit"), h.Get("Retry-After"))
	}
	fmt.Printf("%+v\n", api.Counts())
	// Output:
	// 200 1 of 1, ""
	// 403 1 of 1, ""
	// {Served:1 Refused:1 Early:0}
}
