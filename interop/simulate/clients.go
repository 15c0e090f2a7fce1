package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/httpfields/ratelimit/interop/internal/peers"
	"github.com/httpfields/ratelimit/obey"
)

// A client sends the requests of a process.
type client struct {
	name  string
	make  func(base http.RoundTripper) http.RoundTripper
	obeys bool // its workers obey Retry-After instead of their own backoff
}

var (
	plain     = client{name: "plain", make: func(base http.RoundTripper) http.RoundTripper { return base }}
	loop      = client{name: "a loop that obeys Retry-After", make: plain.make, obeys: true}
	ours      = client{name: "Transport", make: transport(0, false)}
	paced     = client{name: "Transport, Pace", make: transport(0, true)}
	hashicorp = client{name: "go-retryablehttp", make: peers.Retryable}
	failsafe  = client{name: "failsafe-go", make: peers.Failsafe}
	cenkalti  = client{name: "backoff", make: peers.Backoff}
	cubic     = client{name: "aws adaptive", make: peers.Adaptive}
)

// transport returns a function that makes Transports with these settings.
func transport(maxWait time.Duration, pace bool) func(base http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return &obey.Transport{Base: base, Gate: &obey.Gate{MaxWait: maxWait, Pace: pace}, Cost: costOf}
	}
}

// costOf returns the costs in the fields of a request.
func costOf(req *http.Request) (costs []obey.Cost) {
	for _, field := range []struct{ name, policy string }{{costField, ""}, {inputField, "input-tokens"}, {outputField, "output-tokens"}} {
		if n, err := strconv.ParseInt(req.Header.Get(field.name), 10, 64); err == nil {
			costs = append(costs, obey.Cost{Unit: "tokens", Policy: field.policy, Units: n})
		}
	}
	return costs
}
