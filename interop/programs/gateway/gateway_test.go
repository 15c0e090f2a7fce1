package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

func TestGateway(t *testing.T) {
	reset := time.Now().Add(time.Hour).Truncate(time.Second)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "hour", Quota: 5000, Window: ratelimit.SecondsOf(3600)}},
			Limits:   []ratelimit.Limit{{Name: "hour", Remaining: 4000, Reset: ratelimit.CeilSeconds(time.Until(reset))}},
		}
		if err := ratelimit.XRateLimitUnix.Set(w.Header(), f, time.Time{}); err != nil {
			t.Error(err)
		}
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	inner := httptest.NewServer(New(target))
	defer inner.Close()
	between, err := url.Parse(inner.URL)
	require.NoError(t, err)
	outer := httptest.NewServer(New(between)) // two gateways
	defer outer.Close()

	direct, err := http.Get(upstream.URL)
	require.NoError(t, err)
	require.NoError(t, direct.Body.Close())
	refused := false
	for i := 0; !refused && i < 10_000; i++ { // unless tokens flow in faster than requests are served
		resp, err := http.Get(outer.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		for _, finding := range ratelimittest.Check(resp) {
			require.Equal(t, ratelimittest.LevelNote, finding.Level, "%v", finding)
		}
		own, ok := ratelimit.Limit{}, false
		f, err := ratelimit.Parse(resp.Header)
		require.NoError(t, err)
		for _, l := range f.Limits {
			if l.Name == name {
				own, ok = l, true
			}
		}
		require.True(t, ok, "%v", f)
		if resp.StatusCode == http.StatusTooManyRequests {
			refused = true
			require.Zero(t, own.Remaining)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
			continue
		}
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Len(t, f.Limits, 2)
		requirePace(t, direct.Header, resp.Header)
		resp.Header.Del("RateLimit") // for clients that know only older fields
		resp.Header.Del("RateLimit-Policy")
		old, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{})
		require.NoError(t, err)
		require.LessOrEqual(t, old.Limits[0].Remaining, own.Remaining)
	}
	require.True(t, refused)
}

// requirePace requires that the older form has the limit of the gateway, which is the tighter
// one. Its reset keeps the pace of upstream. Two gateways have the same effect as one.
func requirePace(t *testing.T, direct, through http.Header) {
	t.Helper()
	number := func(h http.Header, name string) float64 {
		n, err := strconv.Atoi(h.Get("X-RateLimit-" + name))
		require.NoError(t, err)
		return float64(n)
	}
	until := func(h http.Header) float64 {
		made, err := http.ParseTime(h.Get("Date"))
		require.NoError(t, err)
		return number(h, "Reset") - float64(made.Unix())
	}
	require.Equal(t, float64(burst), number(through, "Limit"))
	pace := until(direct) / number(direct, "Remaining")
	require.InDelta(t, pace*number(through, "Remaining"), until(through), 2)
}
