// Package github waits for the limits of GitHub, the secondary ones included.
package github

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/google/go-github/v88/github"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client for one token.
func NewClient(token string) (*github.Client, error) {
	limits := &obey.Transport{Advisor: ratelimit.Advisor{Refused: secondary}}
	return github.NewClient(github.WithTransport(limits), github.WithAuthToken(token), github.WithDisableRateLimitCheck())
}

// secondary reports a refusal that only the body shows. GitHub asks to wait for a minute.
func secondary(resp *http.Response) (wait time.Duration, refused bool) {
	if resp.StatusCode != http.StatusForbidden {
		return 0, false
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	url := regexp.MustCompile(`"documentation_url": ?"[^"]*(secondary-rate-limits|#abuse-rate-limits)"`)
	return time.Minute, url.Match(body) || bytes.Contains(body, []byte("abuse detection mechanism"))
}
