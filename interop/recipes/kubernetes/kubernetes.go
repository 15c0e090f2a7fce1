// Package kubernetes sets up clients of client-go.
package kubernetes

import (
	"net/http"

	"github.com/httpfields/ratelimit/obey"
	"k8s.io/client-go/rest"
)

// Configure makes all clients of config wait together, for as long as the API server asks. It
// switches off the rate limit of each client.
func Configure(config *rest.Config) {
	gate := new(obey.Gate)
	config.QPS = -1 // or each client is limited to 5 requests a second
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &obey.Transport{Base: rt, Gate: gate}
	})
}
