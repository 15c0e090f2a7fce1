// Package resty puts a Transport below resty.
package resty

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewClient returns a client that waits, and retries a refused request twice.
func NewClient(base http.RoundTripper) *resty.Client {
	return resty.New().
		SetTransport(&obey.Transport{Base: base}).
		SetRetryCount(2).
		AddRetryCondition(func(resp *resty.Response, err error) bool {
			if err != nil {
				return !errors.As(err, new(*obey.WaitError)) // the deadline is before the end of the wait
			}
			return ratelimit.Advise(resp.RawResponse, time.Now()).Refused
		})
}
