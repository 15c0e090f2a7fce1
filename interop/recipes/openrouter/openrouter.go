// Package openrouter waits for the limits of OpenRouter, whose fields are in the body.
package openrouter

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client that waits.
func NewClient() *http.Client {
	return &http.Client{Transport: &obey.Transport{Advisor: ratelimit.Advisor{Refused: inBody}}}
}

// inBody reads the fields that the body of a refusal contains.
func inBody(resp *http.Response) (wait time.Duration, refused bool) {
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	fields := http.Header{}
	for _, found := range regexp.MustCompile(`"(X-RateLimit-\w+)":\s*"(\d+)"`).FindAllSubmatch(text, 10) {
		fields.Set(string(found[1]), string(found[2]))
	}
	return ratelimit.Advise(&http.Response{StatusCode: resp.StatusCode, Header: fields}, time.Now()).Asked, true
}
