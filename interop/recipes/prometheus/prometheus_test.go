package prometheus

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestPrometheus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		rt := NewTransport("example", reg)
		rt.Base = fake.Memory(fake.Spent().Handler(fake.JSON("hello")))
		client := &http.Client{Transport: rt}
		_, err := client.Get("http://api.example")
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := client.Get("http://api.example")
			done <- err
		}()
		time.Sleep(20 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_remaining Quota units that remain, as the server said last.
# TYPE ratelimit_remaining gauge
ratelimit_remaining{api="example",policy="window"} 0
# HELP ratelimit_reset_timestamp_seconds When they are reset.
# TYPE ratelimit_reset_timestamp_seconds gauge
ratelimit_reset_timestamp_seconds{api="example",policy="window"} 9.4668486e+08
# HELP ratelimit_waiting Requests that wait now.
# TYPE ratelimit_waiting gauge
ratelimit_waiting{api="example",reason="limit"} 1
`), "ratelimit_remaining", "ratelimit_reset_timestamp_seconds", "ratelimit_waiting"))
		require.NoError(t, <-done)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_waiting Requests that wait now.
# TYPE ratelimit_waiting gauge
ratelimit_waiting{api="example",reason="limit"} 0
`), "ratelimit_waiting"))
		n, err := testutil.GatherAndCount(reg, "ratelimit_wait_seconds")
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
