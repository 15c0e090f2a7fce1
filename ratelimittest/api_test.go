package ratelimittest_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// The fields decide what a response announces, and how a request is refused. The limit is one
// request in 60 seconds.
func TestAPI(t *testing.T) {
	const (
		current = " Ratelimit Ratelimit-Policy"
		older   = " X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset"
		named   = " X-Ratelimit-Limit-A X-Ratelimit-Remaining-A X-Ratelimit-Reset-A"
		plain   = " text/plain"
		problem = " application/problem+json"
	)
	for _, tc := range []struct {
		name            string
		api             *ratelimittest.API
		forms           string
		served, refused string // the status, the names of fields about limits, and the type of the body
	}{
		{"current", &ratelimittest.API{}, "", "200" + current + plain, "429" + current + " Retry-After" + problem},
		{"an older form", &ratelimittest.API{}, "x-ratelimit", "200" + older + plain, "429 Retry-After" + older + problem},
		{
			"two older forms", &ratelimittest.API{Bare: true}, "draft-07 openai",
			"200" + current + named + plain, "429" + current + named + plain,
		},
		{
			"both", &ratelimittest.API{Current: true, Bare: true}, "x-ratelimit",
			"200" + current + older + plain, "429" + current + older + plain,
		},
		{"silent", &ratelimittest.API{Silent: true}, "x-ratelimit", "200" + plain, "429 Retry-After" + problem},
		{"bare", &ratelimittest.API{Bare: true}, "", "200" + current + plain, "429" + current + plain},
		{"silent and bare", &ratelimittest.API{Silent: true, Bare: true}, "", "200" + plain, "429" + plain},
		{
			"another status", &ratelimittest.API{Status: 503}, "",
			"200" + current + plain, "503" + current + " Retry-After" + problem,
		},
		{
			"a handler", &ratelimittest.API{Handler: http.NotFoundHandler()}, "",
			"404" + current + plain, "429" + current + " Retry-After" + problem,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := tc.api
				api.Limits, api.Dialects = one("a", 1, 60, ratelimittest.WindowFromFirst), dialects(t, tc.forms)
				for _, want := range []string{tc.served, tc.refused} {
					resp := get(t, api, "/")
					keys := slices.Sorted(maps.Keys(formsOf(resp.Header)))
					media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
					require.Equal(t, want, strings.Join(append(append([]string{strconv.Itoa(resp.StatusCode)}, keys...), media), " "))
					require.Equal(t, time.Now().UTC().Format(http.TimeFormat), resp.Header.Get("Date"))
					if problem, err := ratelimit.ReadProblem(resp); err == nil {
						require.Equal(t, resp.StatusCode, problem.Status)
						require.Equal(t, !api.Silent, slices.Equal([]string{"a"}, problem.ViolatedPolicies))
					}
				}
				require.Equal(t, ratelimittest.Counts{Served: 1, Refused: 1}, api.Counts())
			})
		})
	}
}

// The zero value has no limits, and no fields.
func TestZeroAPI(t *testing.T) {
	var api ratelimittest.API
	for range 100 {
		resp := get(t, &api, "/")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Empty(t, formsOf(resp.Header))
	}
	body, err := io.ReadAll(get(t, &api, "/").Body)
	require.NoError(t, err)
	require.Equal(t, "ok\n", string(body))
	require.Equal(t, ratelimittest.Counts{Served: 101}, api.Counts())
}

// Two limits announce their numbers, and the second one refuses.
func TestTwoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &ratelimittest.API{Limits: append(one("hour", 9, 3600, ratelimittest.WindowFromFirst), one("burst", 2, 10, ratelimittest.TokenBucket)...)}
		api.Limits[0].Policy.PartitionKey = []byte("x")
		var got []string
		for range 3 {
			resp := get(t, api, "/")
			got = append(got, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("RateLimit"), " ", resp.Header.Get("Retry-After")))
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{
			`200 "hour";r=8;t=3600;pk=:eA==:, "burst";r=1;t=5 `,
			`200 "hour";r=7;t=3599;pk=:eA==:, "burst";r=0;t=4 `,
			`429 "hour";r=7;t=3598;pk=:eA==:, "burst";r=0;t=3 3`, // a refusal takes nothing
		}, got)
	})
}

// Of several limits, Retry-After is the longest wait, and ends no earlier than the reset of a limit
// with nothing remaining. The longest of several refusals counts for what is early.
func TestLongestWait(t *testing.T) {
	limits := func(first, second string) []ratelimittest.Limit {
		windows := map[string]int64{"requests": 10, "tokens": 60}
		list := append(one(first, 1, windows[first], ratelimittest.WindowFromFirst), one(second, 1, windows[second], ratelimittest.WindowFromFirst)...)
		for i := range list {
			list[i].Policy.Unit = ratelimit.Unit(list[i].Policy.Name)
		}
		return list
	}
	for _, tc := range []struct {
		name    string
		limits  []ratelimittest.Limit
		silent  bool
		refused string // Retry-After of a request that takes a token, and of one that takes none
	}{
		{"tokens last", limits("requests", "tokens"), false, "60 60"},
		{"tokens first", limits("tokens", "requests"), false, "60 60"},
		{"in silence, the limits that are exceeded count", limits("tokens", "requests"), true, "60 10"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &ratelimittest.API{Limits: tc.limits, Silent: tc.silent, Cost: func(r *http.Request) map[ratelimit.Unit]int64 {
					n, _ := strconv.ParseInt(r.Header.Get("Tokens"), 10, 64)
					return map[ratelimit.Unit]int64{"tokens": n}
				}}
				require.Equal(t, http.StatusOK, get(t, api, "/", "Tokens", "1").StatusCode)
				var waits []string
				for _, tokens := range []string{"1", "0"} {
					resp := get(t, api, "/", "Tokens", tokens)
					waits = append(waits, resp.Header.Get("Retry-After"))
					for _, f := range ratelimittest.Check(resp) {
						require.LessOrEqual(t, f.Level, ratelimittest.LevelNote, f)
					}
				}
				require.Equal(t, tc.refused, strings.Join(waits, " "))
				time.Sleep(59 * time.Second)
				require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
				require.Equal(t, ratelimittest.Counts{Served: 2, Refused: 2, Early: 2}, api.Counts())
			})
		})
	}
}

// A request that takes nothing of a limit does not begin its window, and a negative cost gives
// nothing back.
func TestFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &ratelimittest.API{Limits: one("tokens", 5, 60, ratelimittest.WindowFromFirst)}
		api.Limits[0].Policy.Unit = "tokens"
		api.Cost = func(r *http.Request) map[ratelimit.Unit]int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Tokens"), 10, 64)
			return map[ratelimit.Unit]int64{"tokens": n}
		}
		var got []string
		for _, tokens := range []string{"0", "2", "-9223372036854775808", "-1", "9223372036854775807", "3"} {
			resp := get(t, api, "/", "Tokens", tokens)
			got = append(got, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("RateLimit")))
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{
			`200 "tokens";r=5;t=60`, `200 "tokens";r=3;t=60`, `200 "tokens";r=3;t=59`, `200 "tokens";r=3;t=58`,
			`429 "tokens";r=3;t=57`, `200 "tokens";r=0;t=56`,
		}, got)
	})
}

// Requests with equal keys share the limits. The number of keys is bounded.
func TestKeys(t *testing.T) {
	api := &ratelimittest.API{
		Limits: one("a", 1, 3600, ratelimittest.WindowFromFirst),
		Key:    func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
	}
	status := func(key string) int { return get(t, api, "/", "X-Api-Key", key).StatusCode }
	require.Equal(t, []int{200, 200, 429, 429, 200}, []int{status("1"), status("2"), status("1"), status("2"), status("")})
	long := strings.Repeat("x", 1<<16)
	require.Equal(t, []int{200, 429}, []int{status(long), status(long)})
	for n := range 10_000 - 4 {
		require.Equal(t, 200, status("n"+strconv.Itoa(n)))
	}
	require.Equal(t, 429, status("1"), "10,000 keys are remembered")
	require.Equal(t, 200, status("one more"))
	require.Equal(t, 200, status("1"), "all are forgotten")
}

// A clock that is ahead shows in Date and in resets that are points in time.
func TestSkew(t *testing.T) {
	for _, form := range []string{"", "x-ratelimit-unix", "anthropic", "x-ratelimit"} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(250 * time.Millisecond)
			api := &ratelimittest.API{
				Limits: one("a", 1, 60, ratelimittest.WindowFromFirst), Dialects: dialects(t, form), Bare: true, Skew: time.Hour,
			}
			require.Equal(t, 200, get(t, api, "/").StatusCode)
			resp := get(t, api, "/")
			date, err := http.ParseTime(resp.Header.Get("Date"))
			require.NoError(t, err)
			require.Equal(t, time.Hour, date.Sub(time.Now().Truncate(time.Second)))
			wait := ratelimit.Advise(resp, time.Now()).Wait // by Date
			require.Contains(t, []time.Duration{60 * time.Second, 61 * time.Second}, wait, form)
			if form == "anthropic" {
				until, err := time.Parse(time.RFC3339, resp.Header.Get("Anthropic-Ratelimit-A-Reset"))
				require.NoError(t, err)
				require.Equal(t, time.Hour+61*time.Second, until.Sub(time.Now().Truncate(time.Second)), "the end of the window, rounded up")
			}
		})
	}
}

// Requests are under way during Latency. A client that goes does not wait for it, and its unit
// comes back.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &ratelimittest.API{Limits: one("slots", 1, 0, ratelimittest.Concurrency), Latency: time.Minute}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, io.ErrUnexpectedEOF)
		defer cancel()
		began := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			resp := get(t, api, "/")
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, `"slots";r=0`, resp.Header.Get("RateLimit"))
			require.Equal(t, `"slots";q=1;qu="concurrent-requests"`, resp.Header.Get("RateLimit-Policy"))
			require.Empty(t, resp.Header.Get("Retry-After"), "nothing is known about the end of a request")
			require.Equal(t, time.Minute+time.Millisecond, time.Since(began), "refusals have the latency too")
		}()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/", nil)
		require.NoError(t, err)
		_, err = api.RoundTripper().RoundTrip(req)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

// A request is early until the wait of a refusal of its key is over, and until the longest of
// several.
func TestEarly(t *testing.T) {
	for _, tc := range []struct {
		name string
		api  *ratelimittest.API
		want []int64 // after a request at 0, 1, 9, 10 and 11 seconds
	}{
		{"by Retry-After", &ratelimittest.API{}, []int64{0, 0, 1, 1, 1}},
		{"by a reset", &ratelimittest.API{Bare: true}, []int64{0, 0, 1, 1, 1}},
		{"in silence, by Retry-After", &ratelimittest.API{Silent: true}, []int64{0, 0, 1, 1, 1}},
		{"not asked", &ratelimittest.API{Silent: true, Bare: true}, []int64{0, 0, 0, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := tc.api
				api.Limits = one("a", 1, 10, ratelimittest.WindowFromFirst)
				api.Key = func(r *http.Request) string { return r.URL.Path }
				began := time.Now()
				var got []int64
				for _, at := range []int{0, 1, 9, 10, 11} {
					time.Sleep(time.Until(began.Add(time.Duration(at) * time.Second)))
					get(t, api, "/")
					got = append(got, api.Counts().Early)
				}
				get(t, api, "/other")
				require.Equal(t, tc.want, got)
				require.Equal(t, tc.want[4], api.Counts().Early)
			})
		})
	}
}

// What cannot be announced panics, with the way out.
func TestPanics(t *testing.T) {
	const form = "ratelimittest: the limits cannot be announced in "
	slots := one("a", 1, 0, ratelimittest.Concurrency)
	for _, tc := range []struct {
		name    string
		limits  []ratelimittest.Limit
		dialect string
		want    string
	}{
		{"no quota", one("a", 0, 60, 0), "", "ratelimittest: limit 1 has no quota: set Policy.Quota"},
		{
			"no window", []ratelimittest.Limit{{Policy: ratelimit.Policy{Quota: 1}}}, "",
			"ratelimittest: limit 1 has no window: set Policy.Window",
		},
		{"a kind below", one("a", 1, 1, -1), "", "ratelimittest: limit 1 has an unknown kind: use one of the constants"},
		{
			"a kind above", append(one("a", 1, 1, 0), one("b", 1, 1, 6)...), "",
			"ratelimittest: limit 2 has an unknown kind: use one of the constants",
		},
		{"a window of no time", one("a", 1, 0, 0), "", form + "the current fields: "},
		{"a name that cannot be written", one("é", 1, 1, 0), "", form + "the current fields: "},
		{"two of one name", append(one("a", 1, 1, 0), one("a", 2, 2, 0)...), "", form + "the current fields: "},
		{"a form that needs a reset", slots, "draft-07", form + "dialect draft-07: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				require.Contains(t, text, tc.want)
			}()
			get(t, &ratelimittest.API{Limits: tc.limits, Dialects: dialects(t, tc.dialect)}, "/")
		})
	}
	both := &ratelimittest.API{Limits: one("a", 1, 1, 0), Dialects: dialects(t, "draft-07"), Current: true}
	require.Panics(t, func() { get(t, both, "/") }, "draft-07 excludes the current fields")
}

// RoundTripper is like a network: what a handler reads, and what a client gets.
func TestRoundTripper(t *testing.T) {
	api := &ratelimittest.API{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NotEmpty(t, r.RemoteAddr)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s", r.Host, r.RequestURI, body)
	})}
	body := &closing{Reader: strings.NewReader("text")}
	req, err := http.NewRequest(http.MethodPost, "http://api.example/a?b=c", body)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: api.RoundTripper()}).Do(req)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "api.example /a?b=c text", string(got))
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
	require.True(t, body.closed)
	require.Equal(t, req, resp.Request)
	require.Empty(t, req.RequestURI)

	head, err := (&http.Client{Transport: api.RoundTripper()}).Head("http://api.example/")
	require.NoError(t, err)
	got, err = io.ReadAll(head.Body)
	require.NoError(t, err)
	require.Empty(t, got)
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// Over real connections, many clients take exactly the quota.
func TestRealConnections(t *testing.T) {
	api := &ratelimittest.API{
		Limits: append(one("a", 100, 3600, ratelimittest.SlidingLog), one("b", 1000, 3600, ratelimittest.TokenBucket)...),
		Key:    func(r *http.Request) string { return r.URL.Path },
	}
	server := httptest.NewServer(api)
	defer server.Close()
	var workers sync.WaitGroup
	for worker := range 20 {
		workers.Go(func() {
			for range 15 {
				resp, err := http.Get(server.URL + "/" + strconv.Itoa(worker%2))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	workers.Wait()
	require.Equal(t, ratelimittest.Counts{Served: 200, Refused: 100, Early: 100 - 2}, api.Counts())
}

// A client of package obey and an API agree, with every vendor: the client never comes early, and
// is seldom refused where limits are announced.
func TestObey(t *testing.T) {
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(27*365*24*time.Hour + 300*time.Millisecond)
				api := like(t, vendor)
				api.Latency = 20 * time.Millisecond
				for i := range api.Limits {
					api.Limits[i].Policy.Quota, api.Limits[i].Policy.Window, api.Limits[i].Burst = 20, ratelimit.SecondsOf(10), 0
				}
				client := &http.Client{Transport: &obey.Transport{Base: api.RoundTripper()}}
				for range 60 {
					resp, err := client.Get("http://api.example/")
					require.NoError(t, err)
					resp.Body.Close()
				}
				require.Zero(t, api.Counts().Early)
				if !api.Silent {
					require.Less(t, 4*api.Counts().Refused, api.Counts().Served)
				}
			})
		})
	}
}

// An API is a server behind a gateway that has a limit of its own.
func TestBehindGateway(t *testing.T) {
	api := &ratelimittest.API{Limits: one("api", 9, 60, ratelimittest.FixedWindow)}
	to, err := url.Parse("http://api.example/")
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = api.RoundTripper()
	gateway := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
		return announce.Decision{Fields: announce.FixedWindow{Name: "gateway", Quota: 5, Used: 1, Window: time.Minute, Left: time.Minute}.Fields()}, nil
	}}
	w := httptest.NewRecorder()
	gateway.Handler(proxy).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	f, err := ratelimit.Parse(w.Header())
	require.NoError(t, err)
	require.Len(t, f.Limits, 2)
	require.Equal(t, int64(8), f.Limits[slices.IndexFunc(f.Limits, func(l ratelimit.Limit) bool { return l.Name == "api" })].Remaining)
}

// The test in ExampleAPI_retries passes: virtual time needs a test, which an example is not.
func TestExampleRetries(t *testing.T) { testRetries(t) }
