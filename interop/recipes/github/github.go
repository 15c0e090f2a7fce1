// Package github waits for the limits of GitHub: the secondary ones, and those of each
// resource separately.
package github

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"
	"github.com/httpfields/ratelimit"
)

// NewClient returns a client for one token.
func NewClient(token string) (*github.Client, error) {
	limits := &ratelimit.Transport{Key: resource, Advisor: ratelimit.Advisor{Refused: secondary}}
	return github.NewClient(github.WithTransport(limits), github.WithAuthToken(token), github.WithDisableRateLimitCheck())
}

// resource returns the key of a request: search and GraphQL have limits of their own.
func resource(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/api/v3") // of GitHub Enterprise
	for _, own := range []string{"/search/code", "/search/", "/graphql"} {
		if strings.HasPrefix(path, own) {
			return r.URL.Host + own
		}
	}
	return r.URL.Host
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
