package body

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		take, _ := fake.Take()
		handler := (&announce.Middleware{Take: InBody(take)}).Handler(fake.JSON("hello"))
		w := fake.Get(handler, "/")
		require.Equal(t, "\"hello\"\n", w.Body.String())

		w = fake.Get(handler, "/")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.JSONEq(t, `{
			"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded", "status": 429,
			"detail": "Wait 60 seconds before the next request.", "violated-policies": ["window"], "retry-after": 60
		}`, w.Body.String())
	})
}
