package resty

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestResty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := fake.Spent()
		server := spent.RoundTripper()
		_, err := NewClient(server).R().Get("http://api.example") // in another process
		require.NoError(t, err)
		client := NewClient(server)
		start := time.Now()
		resp, err := client.R().Get("http://api.example")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode())
		require.Equal(t, time.Minute, time.Since(start))
		require.EqualValues(t, 1, spent.Counts().Refused)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = client.R().SetContext(ctx).Get("http://api.example")
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
	})
}
