package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// ofRate returns the state of a limiter of golang.org/x/time/rate.
func ofRate(name string, limiter *rate.Limiter, now time.Time) (ratelimit.Policy, ratelimit.Limit) {
	b := announce.TokenBucket{Name: name, Burst: int64(limiter.Burst()), PerSecond: float64(limiter.Limit()), Tokens: limiter.TokensAt(now)}
	f := b.Fields()
	return f.Policies[0], f.Limits[0]
}

// ofRedisRate returns the state in a result of go-redis/redis_rate: a bucket that will be full
// after ResetAfter.
func ofRedisRate(name string, r *redis_rate.Result) (ratelimit.Policy, ratelimit.Limit) {
	burst, perSecond := float64(r.Limit.Burst), float64(r.Limit.Rate)/r.Limit.Period.Seconds()
	b := announce.TokenBucket{Name: name, Burst: int64(r.Limit.Burst), PerSecond: perSecond, Tokens: burst - r.ResetAfter.Seconds()*perSecond}
	f := b.Fields()
	return f.Policies[0], f.Limits[0]
}

// golang.org/x/time/rate, full, after a request, and after a refusal.
func Example_timeRate() {
	limiter, now := rate.NewLimiter(0.5, 3), time.Now()
	for range 5 {
		_, l := ofRate("api", limiter, now)
		fmt.Println(l, limiter.AllowN(now, 1))
	}
	now = now.Add(500 * time.Millisecond)
	p, l := ofRate("api", limiter, now)
	fmt.Println(p, l)
	// Output:
	// "api";r=3;t=2 true
	// "api";r=2;t=2 true
	// "api";r=1;t=2 true
	// "api";r=0;t=2 false
	// "api";r=0;t=2 false
	// "api";q=3;w=6 "api";r=0;t=2
}

// Results of go-redis/redis_rate, for a request that passes and one that does not.
func Example_redisRate() {
	limit := redis_rate.PerMinute(60)
	passed := &redis_rate.Result{Limit: limit, Allowed: 1, Remaining: 39, RetryAfter: -1, ResetAfter: 20500 * time.Millisecond}
	p, l := ofRedisRate("minute", passed)
	fmt.Println(p, l)

	refused := &redis_rate.Result{Limit: limit, RetryAfter: 250 * time.Millisecond, ResetAfter: 59250 * time.Millisecond}
	_, l = ofRedisRate("minute", refused)
	fmt.Println(l)
	// Output:
	// "minute";q=60;w=60 "minute";r=39;t=1
	// "minute";r=0;t=1
}

// The announced number of requests is served at once. The next request is refused, and one is
// served after the reset.
func TestTimeRateTrue(t *testing.T) {
	for _, perSecond := range []rate.Limit{0.1, 0.75, 3, 20} {
		limiter, now := rate.NewLimiter(perSecond, 20), time.Unix(1_800_000_000, 0)
		for step := range 50 {
			_, l := ofRate("a", limiter, now)
			require.True(t, limiter.AllowN(now, int(l.Remaining)), "%v", l)
			require.False(t, limiter.AllowN(now, 1), "%v", l)
			_, l = ofRate("a", limiter, now)
			require.Zero(t, l.Remaining)
			wait, _ := l.Reset.Duration()
			now = now.Add(wait)
			require.True(t, limiter.AllowN(now, 1), "%v", l)
			now = now.Add(time.Duration(step) * 317 * time.Millisecond)
		}
	}
}

// The fields agree with the result of a real Redis.
func TestRedisRateTrue(t *testing.T) {
	s := newRedis(t)
	s.start()
	client := redis.NewClient(&redis.Options{Addr: s.addr()})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	limiter := redis_rate.NewLimiter(client)
	for _, limit := range []redis_rate.Limit{{Rate: 1, Burst: 4, Period: time.Minute}, {Rate: 5, Burst: 9, Period: 90 * time.Second}} {
		refused := 0
		for range limit.Burst + 2 {
			result, err := limiter.Allow(t.Context(), limit.String(), limit)
			require.NoError(t, err)
			p, l := ofRedisRate("a", result)
			require.Equal(t, int64(limit.Burst), p.Quota)
			require.EqualValues(t, result.Remaining, l.Remaining, "%+v", result)
			reset, _ := l.Reset.Duration()
			if result.Allowed == 0 {
				require.GreaterOrEqual(t, reset+time.Millisecond, result.RetryAfter)
				require.Less(t, reset, result.RetryAfter+time.Second+time.Millisecond)
				refused++
			}
		}
		require.Equal(t, 2, refused)
	}
}
