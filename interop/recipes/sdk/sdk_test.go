package sdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestSDK(t *testing.T) {
	spent := fake.Spent()
	server := httptest.NewServer(spent)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	do := func(token string) (name string, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		err = Do(req, &name)
		return name, err
	}
	name, err := do("a")
	require.NoError(t, err)
	require.Equal(t, "hello", name)

	var limit *RateLimitError
	for _, token := range []string{"a", "b"} { // the first request is not sent; the second is refused, because the second user's limits are unknown
		_, err = do(token)
		require.ErrorAs(t, err, &limit)
		require.Equal(t, "window", limit.Policy)
		require.InDelta(t, 60, time.Until(limit.Until).Seconds(), 5)
	}
	require.EqualValues(t, 1, spent.Counts().Refused)
}
