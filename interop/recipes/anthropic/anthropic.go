// Package anthropic waits for the limits of Anthropic, which counts the tokens that go
// in and those that come out apart.
package anthropic

import (
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/httpfields/ratelimit"
)

// NewClient returns a client for one model. An answer is taken to have as many tokens
// as that.
func NewClient(answer int64, opts ...option.RequestOption) anthropic.Client {
	limits := &ratelimit.Transport{Cost: func(r *http.Request) []ratelimit.Cost {
		return []ratelimit.Cost{
			{Policy: "input-tokens", Units: r.ContentLength / 4}, // four bytes of JSON to a token, by an estimate
			{Policy: "output-tokens", Units: answer},
		}
	}}
	return anthropic.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: limits}))...)
}
