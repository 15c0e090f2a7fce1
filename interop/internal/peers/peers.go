// Package peers has HTTP clients of other libraries that retry refused requests, each configured
// as its documentation shows.
package peers

import (
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
)

// Retryable returns a client of go-retryablehttp.
func Retryable(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport, c.Logger = base, nil
	return &retryablehttp.RoundTripper{Client: c}
}

// Failsafe returns a client of failsafe-go.
func Failsafe(base http.RoundTripper) http.RoundTripper {
	policy := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3).Build()
	return failsafehttp.NewRoundTripper(base, policy)
}

// Backoff returns a client that retries with package backoff, and obeys Retry-After.
func Backoff(base http.RoundTripper) http.RoundTripper { return retried{base} }

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

var errThrottled = errors.New("peers: throttled")

// Adaptive returns the rate limiter of the adaptive mode of the AWS SDK around plain requests. It
// does not retry.
func Adaptive(base http.RoundTripper) http.RoundTripper {
	return &adaptive{base: base, first: make(chan struct{}, 1), mode: retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
		o.FailOnNoAttemptTokens = true
		o.Throttles = []retry.IsErrorThrottle{retry.IsErrorThrottleFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(errors.Is(err, errThrottled))
		})}
	})}
}

type adaptive struct {
	base  http.RoundTripper
	mode  *retry.AdaptiveMode
	first chan struct{} // holds the first request that waits
}

func (c *adaptive) RoundTrip(req *http.Request) (*http.Response, error) {
	release, err := c.mode.GetAttemptToken(req.Context())
	if err != nil {
		// Its own wait is rounded down, in the end to 0, which never ends in virtual time. Instead,
		// the first waiting request looks for a token every 10 ms, and in a long wait each
		// hundredth of the time that it has waited.
		select {
		case c.first <- struct{}{}:
		case <-req.Context().Done():
			return nil, err
		}
		for since := time.Now(); err != nil && req.Context().Err() == nil; {
			time.Sleep(max(10*time.Millisecond, time.Since(since)/100))
			release, err = c.mode.GetAttemptToken(req.Context())
		}
		<-c.first
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
