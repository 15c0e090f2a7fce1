package interop

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	ginlimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/didip/tollbooth/v8"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	"github.com/gofiber/fiber/v3"
	fiberlimit "github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululestore "github.com/ulule/limiter/v3/drivers/store/memory"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })

// serve returns a function that starts a server for a handler.
func serve(newHandler func(*testing.T) http.Handler) func(*testing.T) string {
	return func(t *testing.T) string {
		s := httptest.NewServer(newHandler(t))
		t.Cleanup(s.Close)
		return s.URL
	}
}

func httprateServer(limit int, window time.Duration, h http.Handler) func(*testing.T) http.Handler {
	return func(*testing.T) http.Handler { return httprate.LimitBy(limit, window, httprate.Key("*"))(h) }
}

func ululeServer(limit int64, window time.Duration, h http.Handler) func(*testing.T) http.Handler {
	return func(*testing.T) http.Handler {
		rate := ulule.Rate{Period: window, Limit: limit}
		return ululehttp.NewMiddleware(ulule.New(ululestore.NewStore(), rate)).Handler(h)
	}
}

func throttledServer(rate throttled.Rate, burst int, h http.Handler) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		store, err := throttledstore.NewCtx(16)
		require.NoError(t, err)
		limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: rate, MaxBurst: burst - 1})
		require.NoError(t, err)
		return (&throttled.HTTPRateLimiterCtx{RateLimiter: limiter}).RateLimit(h)
	}
}

func goLimiterServer(limit uint64, window time.Duration, h http.Handler) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		store, err := memorystore.New(&memorystore.Config{Tokens: limit, Interval: window})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close(t.Context())) })
		middleware, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
		require.NoError(t, err)
		return middleware.Handle(h)
	}
}

func tollboothServer(perSecond float64, h http.Handler) func(*testing.T) http.Handler {
	return func(*testing.T) http.Handler {
		return tollbooth.HTTPMiddleware(tollbooth.NewLimiter(perSecond, nil))(h)
	}
}

func ginServer(*testing.T) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	store := ginlimit.InMemoryStore(&ginlimit.InMemoryOptions{Rate: time.Minute, Limit: 3})
	router.GET("/", ginlimit.RateLimiter(store, nil), gin.WrapH(ok))
	return router
}

func fiberServer(t *testing.T) string {
	app := fiber.New()
	app.Use(fiberlimit.New(fiberlimit.Config{Max: 3, Expiration: time.Minute}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("ok") })
	return listen(t, func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, app.Shutdown)
}

// listen starts a server that is not an http.Handler, on its own listener.
func listen(t *testing.T, serve func(net.Listener) error, shutdown func() error) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, shutdown())
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String()
}
