// Package github waits for the limits of GitHub: the secondary ones, and those of each
// resource separately.
package github

import (
	"bytes"
	"io"
	"net/http"
	"strings"

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

// secondary reports whether a response is a refusal, which only its body shows.
func secondary(resp *http.Response) bool {
	if resp.StatusCode != http.StatusForbidden {
		return false
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return bytes.Contains(body, []byte("secondary rate limit"))
}
