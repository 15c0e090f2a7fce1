// Package fleet is the client of one of several processes that share a quota.
package fleet

import (
	"net/http"

	"github.com/httpfields/ratelimit"
)

// NewClient returns a client, and the address of an API to call with it: that of a proxy
// which all processes share, or, without one, the API's own and a share of what remains.
func NewClient(api, proxy string, processes int) (client *http.Client, base string) {
	if proxy != "" {
		return &http.Client{}, proxy // which waits, and nobody else
	}
	gate := &ratelimit.Gate{Share: 1 / float64(processes)}
	return &http.Client{Transport: &ratelimit.Transport{Gate: gate}}, api
}
