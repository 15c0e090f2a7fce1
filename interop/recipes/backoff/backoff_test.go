package backoff

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

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := fake.Spent()
		server := spent.RoundTripper()
		client := func() *http.Client { return &http.Client{Transport: &obey.Transport{Base: server}} }
		_, err := client().Get("http://api.example")
		require.NoError(t, err)
		start := time.Now()
		resp, err := Get(t.Context(), client(), "http://api.example")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, time.Minute, time.Since(start))
		require.EqualValues(t, 1, spent.Counts().Refused)

		waiting := client()
		_, err = Get(t.Context(), waiting, "http://api.example")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start = time.Now()
		_, err = Get(ctx, waiting, "http://api.example")
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
		require.Zero(t, time.Since(start))
	})
}
