// Package openai waits for the limits of OpenAI, in requests and in tokens.
package openai

import (
	"net/http"

	"github.com/httpfields/ratelimit"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// NewClient returns a client for one model. answer is the estimated number of tokens in an
// answer.
func NewClient(answer int64, opts ...option.RequestOption) openai.Client {
	limits := &ratelimit.Transport{Cost: func(r *http.Request) []ratelimit.Cost {
		prompt := r.ContentLength / 4 // four bytes of JSON to a token, by an estimate
		return []ratelimit.Cost{{Unit: "tokens", Units: prompt + answer}}
	}}
	return openai.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: limits}))...)
}
