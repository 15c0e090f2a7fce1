// Package openai waits for the limits of OpenAI, in requests and in tokens.
package openai

import (
	"net/http"

	"github.com/httpfields/ratelimit/obey"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// NewClient returns a client for one model. answer is the estimated number of tokens in an
// answer.
func NewClient(answer int64, opts ...option.RequestOption) openai.Client {
	limits := &obey.Transport{Cost: func(r *http.Request) []obey.Cost {
		prompt := r.ContentLength / 4 // four bytes of JSON to a token, by an estimate
		return []obey.Cost{{Unit: "tokens", Units: prompt + answer}}
	}}
	return openai.NewClient(append(opts, option.WithHTTPClient(&http.Client{Transport: limits}))...)
}
