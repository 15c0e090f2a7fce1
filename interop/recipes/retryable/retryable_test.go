package retryable

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := fake.Spent()
		server := spent.RoundTripper()
		_, err := (&http.Client{Transport: server}).Get("http://api.example") // by another process
		require.NoError(t, err)
		client := NewClient(server)
		client.Logger = nil
		start := time.Now()
		resp, err := client.Get("http://api.example")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, time.Minute, time.Since(start))
		require.EqualValues(t, 1, spent.Counts().Refused)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)
		require.NoError(t, err)
		start = time.Now()
		_, err = client.Do(req)
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
		require.Zero(t, time.Since(start))
	})
}
