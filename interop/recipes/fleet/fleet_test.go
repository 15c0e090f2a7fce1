package fleet

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// With a proxy, the client sends its requests there.
func TestProxy(t *testing.T) {
	proxy := httptest.NewServer(fake.JSON("hello"))
	defer proxy.Close()
	client, base := NewClient("http://api.invalid", proxy.URL, 4)
	resp, err := client.Get(base)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// Without a proxy, one of four processes does not use up a window of eight requests.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.Window(8, 10*time.Second)
		client, base := NewClient("http://api.example", "", 4)
		client.Transport.(*obey.Transport).Base = api.RoundTripper()
		start := time.Now()
		for range 8 {
			resp, err := client.Get(base)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
