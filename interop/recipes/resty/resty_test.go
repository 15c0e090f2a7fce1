package resty

import (
	"context"
	"net/http"
	"testing"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
)

func TestResty(t *testing.T) {
	fake.Retries(t, func(base http.RoundTripper) fake.Fetch {
		client := NewClient(base)
		return func(ctx context.Context, url string) (status int, err error) {
			resp, err := client.R().SetContext(ctx).Get(url)
			return resp.StatusCode(), err
		}
	})
}
