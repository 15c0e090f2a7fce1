package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// A clock stands still until the test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start runs the server of a command line on a socket.
func start(t *testing.T, args ...string) (url string, c *clock) {
	t.Helper()
	t.Setenv("RATELIMIT_SECRET", "secret of the tests")
	_, api, err := configure(args, io.Discard)
	require.NoError(t, err)
	c = &clock{now: time.Unix(1_800_000_000, 0)}
	api.engine.(*memory).now = c.Now
	server := httptest.NewServer(api.handler(hello()))
	t.Cleanup(server.Close)
	return server.URL, c
}

// request sends a request and returns the response with its body read.
func request(t *testing.T, method, url, key string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url+"/hello", nil)
	require.NoError(t, err)
	req.Header.Set("X-API-Key", key)
	req.Header.Set("Origin", "https://app.example")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	require.Empty(t, faults(resp), resp.Header)
	return resp, string(body)
}

// faults returns the findings of Check for a response, without notes. A nearly empty bucket for
// a whole day gets a note, although its numbers are true.
func faults(resp *http.Response) []ratelimittest.Finding {
	return slices.DeleteFunc(ratelimittest.Check(resp), func(f ratelimittest.Finding) bool { return f.Level == ratelimittest.LevelNote })
}

func fields(t *testing.T, resp *http.Response) ratelimit.Fields {
	t.Helper()
	f, err := ratelimit.Parse(resp.Header)
	require.NoError(t, err)
	require.NoError(t, f.Validate())
	return f
}

func TestAllowed(t *testing.T) {
	url, _ := start(t)
	resp, body := request(t, "GET", url, "demo")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "hello\n", body)
	f := fields(t, resp)
	key := partitionKey([]byte("secret of the tests"), "demo")
	require.Len(t, key, 12)
	require.Equal(t, []ratelimit.Policy{
		{Name: "burst", Quota: 10, Window: ratelimit.SecondsOf(10), PartitionKey: key},
		{Name: "daily", Quota: 1000, Window: ratelimit.SecondsOf(86400), PartitionKey: key},
	}, f.Policies)
	require.Equal(t, []ratelimit.Limit{
		{Name: "burst", Remaining: 9, Reset: ratelimit.SecondsOf(1), PartitionKey: key},
		{Name: "daily", Remaining: 999, Reset: ratelimit.SecondsOf(87), PartitionKey: key},
	}, f.Limits)

	// The tightest limit, for old clients.
	require.Equal(t, "10", resp.Header.Get("X-RateLimit-Limit"))
	require.Equal(t, "9", resp.Header.Get("X-RateLimit-Remaining"))
	require.Equal(t, "1", resp.Header.Get("X-RateLimit-Reset"))

	require.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "RateLimit, RateLimit-Policy, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset",
		resp.Header.Get("Access-Control-Expose-Headers"))
	require.Empty(t, resp.Header["Retry-After"])
}

func TestBurstExceeded(t *testing.T) {
	url, clock := start(t)
	for i := range int64(10) {
		resp, _ := request(t, "GET", url, "demo")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, 9-i, fields(t, resp).Limits[0].Remaining)
	}
	for range 2 { // a refused request costs nothing
		resp, _ := request(t, "GET", url, "demo")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		require.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After")
		f := fields(t, resp)
		require.Zero(t, f.Limits[0].Remaining)
		require.Equal(t, int64(990), f.Limits[1].Remaining)
		require.Equal(t, "0", resp.Header.Get("X-RateLimit-Remaining"))
		p, err := ratelimit.ReadProblem(resp)
		require.NoError(t, err)
		require.Equal(t, ratelimit.NewProblem(ratelimit.QuotaExceeded, "burst"), p)
	}
	resp, _ := request(t, "GET", url, "other")
	require.Equal(t, http.StatusOK, resp.StatusCode, "another client has a quota of its own")

	clock.move(time.Second) // the wait in Retry-After
	resp, _ = request(t, "GET", url, "demo")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, _ = request(t, "GET", url, "demo")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
}

func TestDailyExceeded(t *testing.T) {
	url, clock := start(t)
	var served int
	for {
		resp, _ := request(t, "GET", url, "demo")
		if resp.StatusCode == http.StatusOK {
			served++
			clock.move(time.Second)
			continue
		}
		p, err := ratelimit.ReadProblem(resp)
		require.NoError(t, err)
		require.Equal(t, []string{"daily"}, p.ViolatedPolicies)
		f := fields(t, resp)
		require.Positive(t, f.Limits[0].Remaining)
		require.Zero(t, f.Limits[1].Remaining)
		wait, _ := f.Limits[1].Reset.Duration()
		require.LessOrEqual(t, wait, 87*time.Second)
		clock.move(wait - time.Second)
		resp, _ = request(t, "GET", url, "demo")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		clock.move(time.Second)
		resp, _ = request(t, "GET", url, "demo")
		require.Equal(t, http.StatusOK, resp.StatusCode, "back at the end of the window, not a moment too early")
		break
	}
	require.InDelta(t, 1000, served, 20, "and what flowed in meanwhile")
}

func TestReducedCapacity(t *testing.T) {
	url, _ := start(t, "-reduced")
	for range 2 {
		resp, _ := request(t, "GET", url, "demo")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, int64(2), fields(t, resp).Policies[0].Quota, "the quota that holds at the moment")
	}
	resp, _ := request(t, "GET", url, "demo")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	f := fields(t, resp)
	reset, _ := f.Limits[0].Reset.Value()
	require.True(t, 5 <= reset && reset <= 10, "a unit in 5 seconds, and up to 5 of jitter: %d", reset)
	require.Equal(t, f.Limits[0].Reset.String(), resp.Header.Get("Retry-After")+"s", "both are the same moment")
	p, err := ratelimit.ReadProblem(resp)
	require.NoError(t, err)
	require.Equal(t, ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, "burst"), p)
}

func TestPartitionKeys(t *testing.T) {
	url, _ := start(t)
	demo, _ := request(t, "GET", url, "demo")
	again, _ := request(t, "GET", url, "demo")
	other, _ := request(t, "GET", url, "other")
	require.Equal(t, fields(t, demo).Limits[0].PartitionKey, fields(t, again).Limits[0].PartitionKey)
	require.NotEqual(t, fields(t, demo).Limits[0].PartitionKey, fields(t, other).Limits[0].PartitionKey)
	require.NotContains(t, string(fields(t, demo).Limits[0].PartitionKey), "demo")
	require.NotEqual(t, partitionKey([]byte("a"), "demo"), partitionKey([]byte("b"), "demo"))
}

func TestHead(t *testing.T) {
	url, _ := start(t)
	for range 10 {
		resp, _ := request(t, "HEAD", url, "demo")
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	resp, body := request(t, "HEAD", url, "demo")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	require.Empty(t, body)
}

func TestWithoutQuota(t *testing.T) {
	url, _ := start(t)
	resp, _ := request(t, "GET", url, "unknown")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Equal(t, ratelimit.Fields{}, fields(t, resp))

	resp, _ = request(t, "OPTIONS", url, "")
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Equal(t, "X-API-Key", resp.Header.Get("Access-Control-Allow-Headers"))
}

func TestConcurrentRequests(t *testing.T) {
	url, _ := start(t)
	var wg sync.WaitGroup
	statuses := make(chan int, 30)
	for range cap(statuses) {
		wg.Go(func() {
			req, _ := http.NewRequest("GET", url+"/hello", nil)
			req.Header.Set("X-API-Key", "demo")
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
				statuses <- resp.StatusCode
			}
		})
	}
	wg.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Equal(t, map[int]int{http.StatusOK: 10, http.StatusTooManyRequests: 20}, count)
}

func TestConfigure(t *testing.T) {
	_, _, err := configure([]string{"-what"}, io.Discard)
	require.Error(t, err)
	addr, _, err := configure([]string{"-addr", ":0"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, ":0", addr)

	t.Setenv("RATELIMIT_SECRET", "")
	var stderr strings.Builder
	_, _, err = configure([]string{"-redis", "localhost:6379"}, &stderr)
	require.Error(t, err)
	require.Contains(t, stderr.String(), "RATELIMIT_SECRET")
}

// A field that cannot be written is a fault of the server, not a refusal.
func TestUnwritable(t *testing.T) {
	for quota, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
		logged := captureLog(t)
		api := &api{
			engine:  newMemory(),
			buckets: []bucket{{"é", quota, time.Second}},
			clients: map[string][]byte{"demo": nil},
		}
		server := httptest.NewServer(api.handler(hello()))
		resp, _ := request(t, "GET", server.URL, "demo")
		server.Close()
		require.Equal(t, want, resp.StatusCode)
		require.Equal(t, ratelimit.Fields{}, fields(t, resp))
		require.Equal(t, 1, logged.count("ratelimit: "), "by the Middleware, which has no OnFault")
	}
}
