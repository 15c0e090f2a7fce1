package expvar

import (
	"expvar"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestExpvar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate obey.Gate
		Publish("limits", &gate)
		require.JSONEq(t, `{}`, expvar.Get("limits").String())
		client := &http.Client{Transport: &obey.Transport{Gate: &gate, Base: fake.Spent().RoundTripper()}}
		done := fake.Waiting(t, func() (*http.Response, error) { return client.Get("http://api.example") })
		require.JSONEq(t, `{"http://api.example": {"reason": "limit", "until": "2000-01-01T00:01:00Z", "queued": 1, "under_way": 0,
			"advice": "wait 1m0s (limit \"window\";r=0;t=60)"}}`, expvar.Get("limits").String())
		done()
	})
}
