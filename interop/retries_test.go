package interop

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// The code of the section Retries in docs/client.md is in this file word for word.
func TestReadmeRetries(t *testing.T) {
	readme, err := os.ReadFile("../docs/client.md")
	require.NoError(t, err)
	here, err := os.ReadFile("retries_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go interop\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 5)
	indent := regexp.MustCompile(`(?m)^\t+`)
	for _, b := range blocks {
		code := indent.ReplaceAllString(b[1], "")
		require.True(t, strings.Contains(indent.ReplaceAllString(string(here), ""), code), "no test has\n%s", b[1])
	}
}

// A roundTrip is a server in memory. A network would stop virtual time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// exhausted has nothing left for ten seconds. Its first response announces this.
func exhausted() http.RoundTripper {
	begin := time.Now()
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
		if time.Since(begin) < 10*time.Second {
			resp.Header.Set("RateLimit", `"default";r=0;t=10`)
		} else {
			resp.Header.Set("RateLimit", `"default";r=100;t=10`)
		}
		return resp, nil
	})
}

const address = "http://api.example/"

// jobs lets ten workers call a function at once, after a first call. It returns how many
// calls succeed, and the time they take.
func jobs(t *testing.T, do func() error) (succeeded int, took time.Duration) {
	require.NoError(t, do())
	start := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				succeeded++
			}
		})
	}
	all.Wait()
	return succeeded, time.Since(start)
}

// A Transport below go-retryablehttp waits, so that no tries are used up. If each try has a
// timeout that is shorter than the wait, all tries fail at once, unless CheckRetry recognizes
// a WaitError.
func TestRetryable(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		checks  bool
		want    int
	}{
		{"no timeout of a try", 0, false, 10},
		{"a timeout of a try", time.Second, false, 0},
		{"a timeout of a try, and CheckRetry", time.Second, true, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := retryablehttp.NewClient()
				client.Logger = nil
				client.RetryWaitMin, client.RetryMax = time.Millisecond, 3
				client.HTTPClient.Transport = exhausted()
				client.HTTPClient.Transport = &obey.Transport{Base: client.HTTPClient.Transport}
				client.HTTPClient.Timeout = tc.timeout
				if tc.checks {
					checkRetry(client)
				}
				got, took := jobs(t, func() error {
					resp, err := client.Get(address)
					if err == nil {
						resp.Body.Close()
					}
					return err
				})
				require.Equal(t, tc.want, got)
				require.Less(t, took, 13*time.Second)
			})
		})
	}
}

func checkRetry(client *retryablehttp.Client) {
	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		var wait *obey.WaitError
		if !errors.As(err, &wait) {
			return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
		}
		select { // the request was not sent, because its timeout ends before the wait
		case <-time.After(time.Until(wait.Until)):
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client := &http.Client{Transport: &obey.Transport{Base: exhausted()}, Timeout: time.Second}
		get := func() (*http.Response, error) { return client.Get(address) }
		got, took := jobs(t, func() error {
			resp, err := backoff.Retry(ctx, func() (*http.Response, error) {
				resp, err := get()
				var wait *obey.WaitError
				if errors.As(err, &wait) {
					err = &backoff.RetryAfterError{Duration: time.Until(wait.Until)}
				}
				return resp, err
			})
			if err == nil {
				resp.Body.Close()
			}
			return err
		})
		require.Equal(t, 10, got)
		require.Less(t, took, 13*time.Second)
	})
}

// sign is a layer that signs requests, with the time.
type sign struct{ base http.RoundTripper }

func (s sign) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Signed-At", time.Now().Format(time.RFC3339))
	return s.base.RoundTrip(req)
}

func TestLayers(t *testing.T) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 10 * time.Second // of each try, once it is sent
	client := &http.Client{
		Transport: &obey.Transport{Base: sign{base}}, // signed when it is sent: waiting makes no signature old
		Timeout:   5 * time.Minute,                   // of all, waiting included
	}
	require.NotNil(t, client)

	synctest.Test(t, func(t *testing.T) {
		server, old := exhausted(), time.Duration(0)
		client := &http.Client{Transport: &obey.Transport{Base: sign{roundTrip(func(req *http.Request) (*http.Response, error) {
			at, err := time.Parse(time.RFC3339, req.Header.Get("Signed-At"))
			require.NoError(t, err)
			old = max(old, time.Since(at))
			return server.RoundTrip(req)
		})}}}
		for range 2 {
			_, err := client.Get(address)
			require.NoError(t, err)
		}
		require.Less(t, old, time.Second)
	})
}

func TestClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &obey.Transport{Base: exhausted()}} // in memory
		start := time.Now()
		for range 2 {
			_, err := client.Get(address)
			require.NoError(t, err)
		}
		require.Equal(t, 10*time.Second, time.Since(start)) // of virtual time
	})
}
