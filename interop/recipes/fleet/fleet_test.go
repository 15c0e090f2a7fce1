package fleet

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load lets four processes send ten requests each, with two workers each.
func load(t *testing.T, proxied bool) (took time.Duration, refused int64) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		api := fake.Window(8, 10*time.Second)
		server := api.RoundTripper()
		target, err := url.Parse("http://api.example")
		require.NoError(t, err)
		proxy := fake.Memory(&httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &obey.Transport{Base: server},
		})
		var all sync.WaitGroup
		for range 4 {
			address := ""
			if proxied {
				address = "http://proxy.example"
			}
			client, base := NewClient("http://api.example", address, 4)
			if rt, ok := client.Transport.(*obey.Transport); ok {
				rt.Base = server
			} else {
				client.Transport = proxy
			}
			for range 2 {
				all.Go(func() {
					for range 5 {
						resp, err := client.Get(base + "/hello")
						if assert.NoError(t, err) {
							resp.Body.Close()
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		took, refused = time.Since(start), api.Counts().Refused
	})
	return took, refused
}

func TestFleet(t *testing.T) {
	took, refused := load(t, true) // 40 requests are five windows of eight
	require.Less(t, took, 55*time.Second)
	require.LessOrEqual(t, refused, int64(2))
	took, refused = load(t, false)
	require.Less(t, took, 80*time.Second)
	require.Less(t, refused, int64(20))
}

// The client sends its requests to the base, without any other process.
func TestBase(t *testing.T) {
	server := httptest.NewServer(fake.JSON("hello"))
	defer server.Close()
	client, base := NewClient("http://api.invalid", server.URL, 4)
	resp, err := client.Get(base)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
