// Package anthropic waits for the limits of Anthropic, which counts input and output tokens
// separately.
package anthropic

import (
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client for one model. answer is the estimated number of tokens in an
// answer.
func NewClient(answer int64, opts ...option.RequestOption) anthropic.Client {
	limits := &obey.Transport{Cost: func(r *http.Request) []obey.Cost {
		return []obey.Cost{
			{Policy: "input-tokens", Units: r.ContentLength / 4}, // four bytes of JSON to a token, by an estimate
			{Policy: "output-tokens", Units: answer},
		}
	}}
	return anthropic.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: limits}))...)
}
