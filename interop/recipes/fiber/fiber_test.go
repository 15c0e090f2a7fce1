package fiber

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

func TestFiber(t *testing.T) {
	take, _ := fake.Take()
	failing := false
	app := fiber.New()
	app.Use(Limit(func(fiber.Ctx) (announce.Decision, error) {
		if failing {
			return announce.Decision{}, errors.New("no connection")
		}
		return take(nil)
	}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	get := func() *http.Response {
		resp, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil))
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		require.Empty(t, ratelimittest.Check(resp))
		return resp
	}
	resp := get()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Regexp(t, `^"window";r=0;t=60$`, strings.Join(resp.Header.Values("RateLimit"), ", "))

	resp = get()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Regexp(t, `^60$`, resp.Header.Get("Retry-After"))
	problem, err := ratelimit.ReadProblem(resp)
	require.NoError(t, err)
	require.Equal(t, []string{"window"}, problem.ViolatedPolicies)

	failing = true
	body, err := io.ReadAll(get().Body)
	require.NoError(t, err)
	require.Equal(t, "hello", string(body))
}
