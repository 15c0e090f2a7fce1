// Package google waits as the RetryInfo in the errors of Google's APIs asks for.
package google

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
	return &http.Client{Transport: &obey.Transport{Advisor: ratelimit.Advisor{Refused: retryInfo}}}
}

// retryInfo reads the delay that a google.rpc.RetryInfo contains, such as "34.07s".
func retryInfo(resp *http.Response) (wait time.Duration, refused bool) {
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	found := regexp.MustCompile(`"retryDelay":\s*"([\d.]+s)"`).FindSubmatch(text)
	if found != nil {
		wait, _ = time.ParseDuration(string(found[1]))
	}
	return wait, true
}
