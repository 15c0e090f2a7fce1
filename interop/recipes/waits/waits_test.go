// Package waits tests a client that waits, without waiting.
package waits

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// memory sends requests to a handler: a connection would hold up virtual time.
type memory struct{ http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("RateLimit", `"hour";r=0;t=300`)
		})
		client := &http.Client{Transport: &obey.Transport{Base: memory{server}}}
		start := time.Now()
		for range 2 {
			_, err := client.Get("http://api.example")
			require.NoError(t, err)
		}
		require.Equal(t, 5*time.Minute, time.Since(start)) // virtual time; the test takes no time
	})
}
