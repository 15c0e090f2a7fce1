// Package retryable puts a Transport below go-retryablehttp.
package retryable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client that waits, and retries refused requests.
func NewClient(base http.RoundTripper) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = &obey.Transport{Base: base}
	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if errors.As(err, new(*obey.WaitError)) {
			return false, err // the deadline is before the end of the wait
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	client.Backoff = func(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
		if resp != nil && ratelimit.Advise(resp, time.Now()).Refused {
			return 0 // the Transport waits
		}
		return retryablehttp.DefaultBackoff(least, most, attempt, resp)
	}
	return client
}
