package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// start runs an upstream that responds with a status and a header, and a gateway in front of
// it, each on a socket. The gateway's clock stands still until the test moves it.
func start(t *testing.T, status int, header http.Header, args ...string) (url string, now *time.Time, served *int) {
	t.Helper()
	served = new(int)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*served++
		for key, values := range header {
			w.Header()[key] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "hello from upstream")
	}))
	t.Cleanup(upstream.Close)
	clock := time.Unix(1_800_000_000, 0)
	_, handler, err := configure(append(args, upstream.URL), func() time.Time { return clock }, io.Discard)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, &clock, served
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp, string(body)
}

// getClean sends a request to a gateway. The response must break no rule.
func getClean(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, _ := get(t, url)
	require.Empty(t, ratelimittest.Check(resp))
	return resp
}

func TestForwarded(t *testing.T) {
	made := time.Now().Truncate(time.Second)
	in10, in30 := strconv.FormatInt(made.Unix()+10, 10), strconv.FormatInt(made.Unix()+30, 10)
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		policy string
		want   http.Header // the fields that differ from upstream's
	}{
		{"nothing from upstream", 200, http.Header{}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"gateway";q=5;w=10`}, "Ratelimit": {`"gateway";r=4;t=10`}}},
		{"X-RateLimit", 200, http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"60"}, "X-Ratelimit-Reset": {"30"}}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"default";q=100, "gateway";q=5;w=10`}, "Ratelimit": {`"default";r=60;t=30, "gateway";r=4;t=10`},
				"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"10"}}},
		{"an absolute reset", 200, http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"60"}, "X-Ratelimit-Reset": {in30}}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"default";q=100, "gateway";q=5;w=10`}, "Ratelimit": {`"default";r=60;t=30, "gateway";r=4;t=10`},
				"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {in10}}},
		{"draft-06, restricted", 200, http.Header{"Ratelimit-Limit": {"100"}, "Ratelimit-Remaining": {"60"}, "Ratelimit-Reset": {"5"}, "Ratelimit-Policy": {"100;w=60"}}, `"default";q=50;w=60`,
			http.Header{"Ratelimit-Policy": {`"default";q=50;w=60`}, "Ratelimit": {`"default";r=49;t=60`},
				"Ratelimit-Limit": {"50"}, "Ratelimit-Remaining": {"49"}, "Ratelimit-Reset": {"60"}}},
		{"the current fields", 200, http.Header{"Ratelimit-Policy": {`"a";q=9;w=1`, `"b";q=99;w=60`}, "Ratelimit": {`"a";r=3;t=1`}}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"a";q=9;w=1, "b";q=99;w=60, "gateway";q=5;w=10`}, "Ratelimit": {`"a";r=3;t=1, "gateway";r=4;t=10`}}},
		{"a stricter share of a policy", 200, http.Header{"Ratelimit-Policy": {`"a";q=9;w=10`}, "Ratelimit": {`"a";r=8;t=3`}}, `"a";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"a";q=5;w=10`}, "Ratelimit": {`"a";r=4;t=10`}}},
		{"refused by upstream", 429, http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30"}, "Retry-After": {"20"}}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"default";q=100, "gateway";q=5;w=10`}, "Ratelimit": {`"default";r=0;t=30, "gateway";r=4;t=10`}}},
		{"for scripts", 200, http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"X-Id"}}, `"gateway";q=5;w=10`,
			http.Header{"Ratelimit-Policy": {`"gateway";q=5;w=10`}, "Ratelimit": {`"gateway";r=4;t=10`},
				"Access-Control-Expose-Headers": {"X-Id, RateLimit, RateLimit-Policy"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.header.Set("Date", made.UTC().Format(http.TimeFormat))
			url, _, served := start(t, tc.status, tc.header, "-policy", tc.policy)
			resp, body := get(t, url)
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, "hello from upstream", body)
			require.Equal(t, 1, *served)

			want := tc.header.Clone()
			for key, values := range tc.want {
				want[key] = values
			}
			resp.Header.Del("Content-Length")
			resp.Header.Del("Content-Type")
			require.Equal(t, want, resp.Header)
			for _, finding := range ratelimittest.Check(resp) { // a limit without a policy is noted
				ofUpstream := finding.Rule == "S3" && tc.status == http.StatusTooManyRequests // its Retry-After is early
				require.True(t, finding.Level == ratelimittest.LevelNote || ofUpstream, "%v", finding)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	url, now, served := start(t, 200, http.Header{}, "-policy", `"gateway";q=2;w=10;pk=:Zw==:`)
	for range 2 {
		resp := getClean(t, url)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	*now = now.Add(2500 * time.Millisecond)
	resp := getClean(t, url)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, 2, *served, "the gateway enforces its policy")
	require.Equal(t, `"gateway";r=0;t=8;pk=:Zw==:`, resp.Header.Get("RateLimit"))
	require.Equal(t, "8", resp.Header.Get("Retry-After"))
	require.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"), "pages can read it")
	require.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After")
	p, err := ratelimit.ReadProblem(resp)
	require.NoError(t, err)
	require.Equal(t, ratelimit.NewProblem(ratelimit.QuotaExceeded, "gateway"), p)

	*now = now.Add(8 * time.Second)
	resp = getClean(t, url)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, 3, *served)
}

// Requests that upstream is likely to refuse are forwarded too.
func TestForwardsWithNothingRemaining(t *testing.T) {
	url, _, served := start(t, 429, http.Header{"Ratelimit-Policy": {`"a";q=9;w=60`}, "Ratelimit": {`"a";r=0;t=60`}})
	for i := range 3 {
		resp := getClean(t, url)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, `"a";r=0;t=60, "gateway";r=`+strconv.Itoa(4-i)+";t=10", resp.Header.Get("RateLimit"))
		require.Empty(t, resp.Header.Get("Retry-After"), "upstream has none")
		require.Equal(t, i+1, *served)
	}
}

func TestConfigure(t *testing.T) {
	for _, args := range [][]string{
		{}, {"a", "b"}, {"-what"}, {"-h"}, {"localhost"}, {"http://\n"}, {"/path"},
		{"-policy", "gateway", "http://localhost"},
		{"-policy", `"gateway";q=1`, "http://localhost"},
		{"-policy", `"gateway";q=1;w=1;qu="content-bytes"`, "http://localhost"},
	} {
		var stderr strings.Builder
		_, handler, err := configure(args, time.Now, &stderr)
		require.Error(t, err, "%q", args)
		require.Nil(t, handler)
		require.NotEmpty(t, stderr.String())
	}
	addr, _, err := configure([]string{"-addr", ":0", "-policy", `"a";q=1;w=1;qu="requests"`, "http://localhost"}, time.Now, io.Discard)
	require.NoError(t, err)
	require.Equal(t, ":0", addr)
}

// The command line refuses a policy that cannot be written, but code could pass one.
func TestRefusalThatCannotBeWritten(t *testing.T) {
	g := newGateway(nil, ratelimit.Policy{Name: "é", Window: ratelimit.SecondsOf(1)}, time.Now)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), "Quota Exceeded")
}
