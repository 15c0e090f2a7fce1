package retryable

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := fake.Spent()
		server := spent.RoundTripper()
		_, err := server.RoundTrip(must(http.NewRequest(http.MethodGet, "http://api.example", nil))) // by another process
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
		start = time.Now()
		_, err = client.Do(must(retryablehttp.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)))
		var wait *obey.WaitError
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

// The vectors of Retry-After are usable as test data for retryablehttp. Its own backoff
// differs from some of them. The Transport agrees with all of them.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../../ratelimittest/vectors/retry-after.json")
	require.NoError(t, err)
	var vectors struct {
		Cases []struct {
			Name    string
			Header  []string
			Arrived time.Time
			Wait    *time.Duration
		}
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	cases, differ := 0, []string{}
	for _, c := range vectors.Cases {
		h := http.Header{}
		for _, line := range c.Header {
			key, value, _ := strings.Cut(line, ":")
			h.Add(key, strings.TrimSpace(value))
		}
		wait, ok := ratelimit.ParseRetryAfter(h, c.Arrived)
		require.Equal(t, c.Wait != nil, ok, c.Name)
		if c.Wait != nil {
			require.Equal(t, *c.Wait, wait, c.Name)
		}
		if len(h) != 1 || len(h["Retry-After"]) != 1 {
			continue // retryablehttp reads one line of one field
		}
		if _, err := http.ParseTime(h.Get("Retry-After")); err == nil {
			continue // retryablehttp compares dates with its own clock
		}
		cases++
		const backoff = 17 * time.Millisecond // the backoff after a response that asks for no wait
		want := backoff
		if ok {
			want = wait
		}
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: h}
		if retryablehttp.DefaultBackoff(backoff, backoff, 0, resp) != want {
			differ = append(differ, c.Name)
		}
	}
	require.Equal(t, []int{10, 25}, []int{len(differ), cases}, "docs/recipes.md has these figures: %q", differ)
}
