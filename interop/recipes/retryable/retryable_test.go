package retryable

import (
	"context"
	"net/http"
	"testing"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestRetryable(t *testing.T) {
	fake.Retries(t, func(base http.RoundTripper) fake.Fetch {
		client := NewClient(base)
		client.Logger = nil
		return func(ctx context.Context, url string) (status int, err error) {
			req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, nil
		}
	})
}
