// Package backoff puts a Transport below cenkalti/backoff.
package backoff

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// Get sends a request until it is served.
func Get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	return backoff.Retry(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		resp, err := client.Do(req)
		switch {
		case errors.As(err, new(*obey.WaitError)):
			return nil, backoff.Permanent(err) // the deadline is before the end of the wait
		case err != nil:
			return nil, err
		}
		if err := (ratelimit.Advisor{}).CheckResponse(resp, time.Now()); err != nil {
			resp.Body.Close()
			return nil, &backoff.RetryAfterError{} // without a pause: the Transport waits
		}
		return resp, nil
	}, backoff.WithMaxElapsedTime(0)) // ctx sets the limit
}
