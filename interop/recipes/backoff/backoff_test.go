package backoff

import (
	"context"
	"net/http"
	"testing"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
)

func TestBackoff(t *testing.T) {
	fake.Retries(t, func(base http.RoundTripper) fake.Fetch {
		client := &http.Client{Transport: &obey.Transport{Base: base}}
		return func(ctx context.Context, url string) (status int, err error) {
			resp, err := Get(ctx, client, url)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, nil
		}
	})
}
