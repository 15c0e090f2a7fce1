package prometheus

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestPrometheus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate obey.Gate
		reg := prometheus.NewRegistry()
		reg.MustRegister(Collector{&gate})
		client := &http.Client{Transport: &obey.Transport{Gate: &gate, Base: fake.Spent().RoundTripper()}}
		done := fake.Waiting(t, func() (*http.Response, error) { return client.Get("http://api.example") })
		time.Sleep(20 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_queued Requests that wait.
# TYPE ratelimit_queued gauge
ratelimit_queued{key="http://api.example",reason="limit"} 1
# HELP ratelimit_wait_seconds Until the next request may go, if that is known.
# TYPE ratelimit_wait_seconds gauge
ratelimit_wait_seconds{key="http://api.example",reason="limit"} 40
`)))
		done()
	})
}
