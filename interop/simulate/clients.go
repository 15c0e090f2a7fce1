package main

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	gofri "github.com/gofri/go-github-ratelimit/v2/github_ratelimit"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
)

// A client sends the requests of a process.
type client struct {
	name string
	make func(base http.RoundTripper) http.RoundTripper
}

var (
	plain     = client{"plain", func(base http.RoundTripper) http.RoundTripper { return base }}
	ours      = client{"Transport", transport(0, false, 1)}
	paced     = client{"Transport, Pace", transport(0, true, 1)}
	hashicorp = client{"go-retryablehttp", func(base http.RoundTripper) http.RoundTripper {
		c := retryablehttp.NewClient()
		c.HTTPClient.Transport, c.Logger = base, nil
		return &retryablehttp.RoundTripper{Client: c}
	}}
	puerkito = client{"rehttp", func(base http.RoundTripper) http.RoundTripper {
		return rehttp.NewTransport(base, rehttp.RetryAll(rehttp.RetryMaxRetries(4),
			rehttp.RetryAny(rehttp.RetryIsErr(func(err error) bool { return err != nil }),
				rehttp.RetryStatuses(http.StatusTooManyRequests, http.StatusServiceUnavailable))),
			rehttp.ExpJitterDelay(time.Second, 30*time.Second))
	}}
	github = client{"go-github-ratelimit", func(base http.RoundTripper) http.RoundTripper { return gofri.New(base) }}
	cubic  = client{"aws adaptive", func(base http.RoundTripper) http.RoundTripper {
		return adaptive{base, retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
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
	return client{"Transport, Pace, Share", transport(0, true, 1/float64(n))}
}

var errThrottled = errors.New("simulate: throttled")

// adaptive is the rate limiter of the adaptive mode of the AWS SDK around plain requests. The
// retries of the jobs replace the SDK's own.
type adaptive struct {
	base http.RoundTripper
	mode *retry.AdaptiveMode
}

func (c adaptive) RoundTrip(req *http.Request) (*http.Response, error) {
	release, err := c.mode.GetAttemptToken(req.Context())
	for err != nil { // its wait is rounded down, in the end to 0, which never ends in virtual time
		if req.Context().Err() != nil {
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
		release, err = c.mode.GetAttemptToken(req.Context())
	}
	resp, err := c.base.RoundTrip(req)
	outcome := err
	if err == nil && resp.StatusCode != http.StatusOK {
		outcome = errThrottled
	}
	if err := release(outcome); err != nil {
		return nil, err
	}
	return resp, err
}
