// Package oauth puts a Transport above that of x/oauth2.
package oauth

import (
	"net/http"

	"github.com/httpfields/ratelimit/obey"
	"golang.org/x/oauth2"
)

// NewClient returns a client for one user. The token is added after the wait, so that it
// cannot expire during the wait.
func NewClient(tokens oauth2.TokenSource, base http.RoundTripper) *http.Client {
	signed := &oauth2.Transport{Source: oauth2.ReuseTokenSource(nil, tokens), Base: base}
	return &http.Client{Transport: &obey.Transport{Base: signed}}
}
