// Package fleet is the client of one of several processes that share a quota.
package fleet

import (
	"net/http"

	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client, and the address to call. With a proxy, which all processes
// share, it is the proxy's address. Otherwise it is that of the API, and the client takes a
// share of the quota.
func NewClient(api, proxy string, processes int) (client *http.Client, base string) {
	if proxy != "" {
		return &http.Client{}, proxy // only the proxy waits
	}
	gate := &obey.Gate{Share: 1 / float64(processes)}
	return &http.Client{Transport: &obey.Transport{Gate: gate}}, api
}
