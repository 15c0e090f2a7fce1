package main

import (
	"context"
	"net/http"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/httpfields/ratelimit"
)

// newClient returns a client of a fleet. All processes that use one Redis together send at most
// perSecond requests a second, with bursts of the same size. Each process also obeys the
// server's announcements. The Transport is on top, because Redis knows only the configured
// rate.
func newClient(store *redis.Client, key string, perSecond int, timeout time.Duration) *http.Client {
	turns := &turns{
		base:    http.DefaultTransport,
		limiter: redis_rate.NewLimiter(store),
		key:     key,
		limit:   redis_rate.PerSecond(perSecond),
		timeout: timeout,
	}
	return &http.Client{Transport: &ratelimit.Transport{Base: turns}}
}

// newStore connects to Redis when it is first asked.
func newStore(addr string, timeout time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  addr,
		DialTimeout:           timeout,
		DialerRetries:         1,
		MaxRetries:            -1, // the next request tries again
		ContextTimeoutEnabled: true,
	})
}

// The client would log each connection that fails, at each request.
func init() { logging.Disable() }

// turns sends each request when it is its turn among the requests of all processes.
type turns struct {
	base    http.RoundTripper
	limiter *redis_rate.Limiter
	key     string
	limit   redis_rate.Limit
	timeout time.Duration // of each request to Redis
}

// RoundTrip waits for the turn of a request, and sends it.
func (t *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.wait(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// wait asks Redis until it grants a turn. If Redis does not answer, the request is sent: the
// Transport still obeys the server.
func (t *turns) wait(ctx context.Context) error {
	for {
		asked, cancel := context.WithTimeout(ctx, t.timeout)
		turn, err := t.limiter.Allow(asked, t.key, t.limit)
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || turn.Allowed > 0:
			return nil
		}
		select {
		case <-time.After(turn.RetryAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
