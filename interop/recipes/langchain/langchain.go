// Package langchain waits for the limits of a model behind langchaingo.
package langchain

import (
	"net/http"

	"github.com/httpfields/ratelimit/obey"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

// New returns a model. answer is the estimated number of tokens in an answer.
func New(answer int64, opts ...openai.Option) (llms.Model, error) {
	limits := &obey.Transport{Cost: func(r *http.Request) []obey.Cost {
		prompt := r.ContentLength / 4 // four bytes of JSON to a token, by an estimate
		return []obey.Cost{{Unit: "tokens", Units: prompt + answer}}
	}}
	return openai.New(append(opts, openai.WithHTTPClient(&http.Client{Transport: limits}))...)
}
