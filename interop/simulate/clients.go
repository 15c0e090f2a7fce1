package main

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	gofri "github.com/gofri/go-github-ratelimit/v2/github_ratelimit"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
)

// A client sends the requests of a process.
type client struct {
	name  string
	make  func(base http.RoundTripper) http.RoundTripper
	obeys bool // whether its workers obey Retry-After in place of their backoff
}

var (
	plain     = client{name: "plain", make: func(base http.RoundTripper) http.RoundTripper { return base }}
	loop      = client{name: "a loop that obeys Retry-After", make: plain.make, obeys: true}
	ours      = client{name: "Transport", make: transport(0, false, 1)}
	paced     = client{name: "Transport, Pace", make: transport(0, true, 1)}
	hashicorp = client{name: "go-retryablehttp", make: func(base http.RoundTripper) http.RoundTripper {
		c := retryablehttp.NewClient()
		c.HTTPClient.Transport, c.Logger = base, nil
		return &retryablehttp.RoundTripper{Client: c}
	}}
	failsafe = client{name: "failsafe-go", make: func(base http.RoundTripper) http.RoundTripper {
		policy := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3).Build()
		return failsafehttp.NewRoundTripper(base, policy)
	}}
	cenkalti = client{name: "backoff", make: func(base http.RoundTripper) http.RoundTripper { return retried{base} }}
	puerkito = client{name: "rehttp", make: func(base http.RoundTripper) http.RoundTripper {
		return rehttp.NewTransport(base, rehttp.RetryAll(rehttp.RetryMaxRetries(4),
			rehttp.RetryAny(rehttp.RetryIsErr(func(err error) bool { return err != nil }),
				rehttp.RetryStatuses(http.StatusTooManyRequests, http.StatusServiceUnavailable))),
			rehttp.ExpJitterDelay(time.Second, 30*time.Second))
	}}
	github = client{name: "go-github-ratelimit", make: func(base http.RoundTripper) http.RoundTripper { return gofri.New(base) }}
	cubic  = client{name: "aws adaptive", make: func(base http.RoundTripper) http.RoundTripper {
		return &adaptive{base: base, mode: retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
			o.FailOnNoAttemptTokens = true
			o.Throttles = []retry.IsErrorThrottle{retry.IsErrorThrottleFunc(func(err error) aws.Ternary {
				return aws.BoolTernary(errors.Is(err, errThrottled))
			})}
		})}
	}}
)

// transport returns one as a scenario asks for.
func transport(maxWait time.Duration, pace bool, share float64) func(base http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return &ratelimit.Transport{
			Base: base, Gate: &ratelimit.Gate{MaxWait: maxWait, Pace: pace, Share: share}, Cost: costOf}
	}
}

// costOf returns the costs in the fields of a request.
func costOf(req *http.Request) (costs []ratelimit.Cost) {
	for _, field := range []struct{ name, policy string }{{costField, ""}, {inputField, "input-tokens"}, {outputField, "output-tokens"}} {
		if n, err := strconv.ParseInt(req.Header.Get(field.name), 10, 64); err == nil {
			costs = append(costs, ratelimit.Cost{Unit: "tokens", Policy: field.policy, Units: n})
		}
	}
	return costs
}

// shared is one of n processes that share a quota.
func shared(n int) client {
	return client{name: "Transport, Pace, Share", make: transport(0, true, 1/float64(n))}
}

var errThrottled = errors.New("simulate: throttled")

// adaptive is the rate limiter of the adaptive mode of the AWS SDK around plain requests. The
// retries of the jobs replace the SDK's own.
type adaptive struct {
	base    http.RoundTripper
	mode    *retry.AdaptiveMode
	waiting atomic.Int64
}

func (c *adaptive) RoundTrip(req *http.Request) (*http.Response, error) {
	release, err := c.mode.GetAttemptToken(req.Context())
	if err != nil {
		// Its wait is rounded down, in the end to 0, which never ends in virtual time. All
		// requests that wait look for a token a hundred times a second together.
		c.waiting.Add(1)
		for err != nil && req.Context().Err() == nil {
			time.Sleep(time.Duration(c.waiting.Load()) * 10 * time.Millisecond)
			release, err = c.mode.GetAttemptToken(req.Context())
		}
		c.waiting.Add(-1)
		if err != nil {
			return nil, err
		}
	}
	resp, err := c.base.RoundTrip(req)
	outcome := err
	if err == nil && isRefusal(resp.StatusCode) {
		outcome = errThrottled
	}
	if err := release(outcome); err != nil {
		return nil, err
	}
	return resp, err
}

func isRefusal(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusForbidden
}

// retried retries with package backoff, and obeys Retry-After.
type retried struct{ base http.RoundTripper }

func (c retried) RoundTrip(req *http.Request) (*http.Response, error) {
	return backoff.Retry(req.Context(), func() (*http.Response, error) {
		resp, err := c.base.RoundTrip(req)
		if err != nil || !isRefusal(resp.StatusCode) {
			return resp, err
		}
		resp.Body.Close()
		if wait, ok := ratelimit.ParseRetryAfter(resp.Header, time.Now()); ok {
			return nil, &backoff.RetryAfterError{Duration: wait}
		}
		return nil, errThrottled
	})
}
