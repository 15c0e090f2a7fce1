package api

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestAPI(t *testing.T) {
	store := miniredis.RunT(t)
	now := time.Unix(1_800_000_000, 0)
	store.SetTime(now)
	var urls []string
	for range 2 { // instances
		client := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		server := httptest.NewServer(New(client))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	requests := 0
	get := func(key string) (*http.Response, string) {
		req, err := http.NewRequest("GET", urls[requests%len(urls)]+"/hello", nil)
		require.NoError(t, err)
		requests++
		req.Header.Set(keyField, key)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Empty(t, ratelimittest.Check(resp))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(body)
	}

	for i := range 60 {
		resp, body := get("a")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "hello", body)
		f, err := ratelimit.Parse(resp.Header)
		require.NoError(t, err)
		require.EqualValues(t, min(59-i, 10), f.Limits[0].Remaining)
	}
	resp, body := get("a")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, `"minute";q=60;w=60`, resp.Header.Get("RateLimit-Policy"))
	require.Equal(t, `"minute";r=0;t=1`, resp.Header.Get("RateLimit"))
	require.Equal(t, "0", resp.Header.Get("X-RateLimit-Remaining"))
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["minute"]}`, body)
	resp, _ = get("b")
	require.Equal(t, http.StatusOK, resp.StatusCode)

	store.SetTime(now.Add(time.Second))
	resp, _ = get("a")
	require.Equal(t, http.StatusOK, resp.StatusCode)

	logged := &bytes.Buffer{}
	log.SetOutput(logged)
	defer log.SetOutput(os.Stderr)
	store.Close()
	resp, body = get("a")
	require.Equal(t, http.StatusOK, resp.StatusCode, "it fails open")
	require.Equal(t, "hello", body)
	require.Empty(t, resp.Header.Get("RateLimit"))
	require.Contains(t, logged.String(), "without a limit: ")
}
