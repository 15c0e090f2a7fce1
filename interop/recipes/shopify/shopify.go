// Package shopify waits for the points of Shopify's GraphQL API, which are in the bodies of successes.
package shopify

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
)

// NewTransport returns a Transport for queries that take at most this many points.
func NewTransport(base http.RoundTripper, points int64) *obey.Transport {
	cost := func(*http.Request) []obey.Cost { return []obey.Cost{{Unit: "points", Units: points}} }
	return &obey.Transport{Base: body{base}, Cost: cost, MaxRetries: 10}
}

// A body writes the limit in a body into the header, and makes a refusal a 429.
type body struct{ http.RoundTripper }

func (b body) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var answer struct {
		Extensions struct {
			Cost struct {
				ThrottleStatus struct{ MaximumAvailable, CurrentlyAvailable, RestoreRate float64 }
			}
		}
		Errors []struct{ Extensions struct{ Code string } }
	}
	if status := &answer.Extensions.Cost.ThrottleStatus; json.Unmarshal(text, &answer) == nil && status.MaximumAvailable > 0 {
		f := announce.TokenBucket{Burst: int64(status.MaximumAvailable), PerSecond: status.RestoreRate, Tokens: status.CurrentlyAvailable}.Fields()
		f.Policies[0].Name, f.Limits[0].Name, f.Policies[0].Unit = "points", "points", "points"
		_ = f.Set(resp.Header) // it writes nothing if Shopify's numbers are impossible
	}
	if len(answer.Errors) > 0 && answer.Errors[0].Extensions.Code == "THROTTLED" {
		resp.StatusCode, resp.Status = http.StatusTooManyRequests, "429 Too Many Requests"
	}
	return resp, nil
}
