// Package sdk is a client library with an error of its own for limits.
package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// A RateLimitError contains the exhausted limit, and the time to come back.
type RateLimitError struct {
	Policy string
	Until  time.Time // zero if unknown
	err    error
}

func (e *RateLimitError) Error() string { return "example: " + e.err.Error() }
func (e *RateLimitError) Unwrap() error { return e.err }

var client = &http.Client{Transport: &obey.Transport{Key: obey.KeyBy("Authorization")}}

// Do sends a request, and reads the answer into v.
func Do(req *http.Request, v any) error {
	resp, err := client.Do(req)
	var wait *obey.WaitError // not sent: the deadline is before the end of the wait
	if errors.As(err, &wait) {
		return &RateLimitError{wait.Advice.Limit.Name, wait.Until, wait}
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var refused *ratelimit.RefusedError // sent, and refused
	if errors.As(ratelimit.Advisor{}.CheckResponse(resp, time.Now()), &refused) {
		return &RateLimitError{refused.Advice.Limit.Name, refused.Until, refused}
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("example: %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}
