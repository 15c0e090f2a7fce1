package retryable

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := fake.Spent()
		server := fake.Memory(spent.Handler(fake.JSON("hello")))
		_, err := server.RoundTrip(must(http.NewRequest(http.MethodGet, "http://api.example", nil))) // by another process
		require.NoError(t, err)
		client := NewClient(server)
		client.Logger = nil
		start := time.Now()
		resp, err := client.Get("http://api.example")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, 1, spent.Refused())

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start = time.Now()
		_, err = client.Do(must(retryablehttp.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)))
		var wait *ratelimit.WaitError
		require.ErrorAs(t, err, &wait)
		require.Zero(t, time.Since(start))
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
