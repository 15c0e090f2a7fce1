package obey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

var (
	_ http.RoundTripper           = (*Transport)(nil)
	_ error                       = (*WaitError)(nil)
	_ interface{ Timeout() bool } = (*WaitError)(nil)
	_ http.RoundTripper           = trial.RoundTripFunc(nil)
)

// A script returns responses one after the other, then repeats the last one. It records when
// the requests came.
type script struct {
	mu    sync.Mutex
	lines []string // the field lines of each response
	delay time.Duration
	start time.Time
	seen  []time.Duration
}

func newScript(lines ...string) *script { return &script{lines: lines, start: time.Now()} }

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.seen = append(s.seen, time.Since(s.start))
	lines := s.lines[min(len(s.seen), len(s.lines))-1]
	s.mu.Unlock()
	time.Sleep(s.delay)
	if lines == "fail" {
		return nil, errors.New("script: no connection")
	}
	return answer(req, lines), nil
}

// answer makes a response with the lines.
func answer(req *http.Request, lines string) *http.Response {
	resp := trial.ResponseOf(lines)
	resp.Request = req
	return resp
}

// get sends a request and returns the error.
func get(t testing.TB, rt http.RoundTripper, address string) error {
	t.Helper()
	_, err := rt.RoundTrip(trial.NewRequest(t, address))
	return err
}

// entryOf returns the state of a host's key.
func entryOf(t *Transport, host string) *key { return t.gate().keys["http://"+host] }

func seconds(list ...int) (all []time.Duration) {
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

// times converts milliseconds, the times when requests are sent.
func times(list ...int) (all []time.Duration) {
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	return all
}

// The client's Timeout is a deadline too, and its error reports this.
func TestTransportClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &Transport{Base: newScript(`RateLimit: "a";r=0;t=30`)}, Timeout: 10 * time.Second}
		start := time.Now()
		resp, err := client.Get(trial.Example)
		require.NoError(t, err)
		resp.Body.Close()
		_, err = client.Get(trial.Example)
		var refused *WaitError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "a", refused.Advice.Limit.Name)
		var timeout *url.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Zero(t, time.Since(start))
	})
}

// The client's Timeout also closes Request.Cancel. If the wait depends on an answer, its error is the
// same as for a deadline, and the refusal of a request that waits to be sent again is returned.
func TestTransportClientTimeoutLate(t *testing.T) {
	for range 30 { // which of the two comes first is random
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			rt := &Transport{MaxRetries: 1, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				if tries++; tries == 1 {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				return answer(req, "HTTP/1.1 429 Too Many Requests\nRetry-After: 0"), nil
			})}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = rt.RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx)) }()
			synctest.Wait()
			client := &http.Client{Transport: rt, Timeout: 5 * time.Second}
			resp, err := client.Get(trial.Example)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			resp.Body.Close()
			_, err = client.Get(trial.Example)
			require.ErrorContains(t, err, new(WaitError).Error())
			require.Equal(t, 2, tries)
			cancel()
		})
	}
}

// If its context has ended, a request is neither sent nor counted, even after a redirection.
func TestTransportEnded(t *testing.T) {
	s := newScript(found)
	rt := &Transport{Base: s}
	resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	errStop := errors.New("stop")
	cancel(errStop)
	for address, redirection := range map[string]*http.Response{trial.Example: resp, "http://other.example/": nil} {
		body, req := &trial.Closing{}, trial.NewRequest(t, address).WithContext(ctx)
		req.Body, req.Response = body, redirection
		_, err := rt.RoundTrip(req)
		require.Equal(t, errStop, err)
		require.Equal(t, 1, body.Closed)
	}
	require.Len(t, s.seen, 1)
	require.Len(t, rt.gate().keys, 1)
}

// Requests wait for requests with the same key. The key is the origin, or the result of Key.
// The MaxWait of the Advisor applies to a Transport without a Gate.
func TestTransportWaits(t *testing.T) {
	user := func(req *http.Request) string { return req.Header.Get("Authorization") }
	for _, tc := range []struct {
		name      string
		transport *Transport
		requests  string // addresses; the user follows a number sign
		want      []time.Duration
	}{
		{"other origins", &Transport{}, "http://a/ https://a/ http://a:8080/ http://b/", seconds(0, 0, 0, 0)},
		{"one origin", &Transport{}, "http://api.example/a http://API.EXAMPLE:80/b", seconds(0, 30)},
		{"one user", &Transport{Key: user}, "http://a/#a http://a/#b http://a/ http://b/#a", seconds(0, 0, 0, 30)},
		{"MaxWait", &Transport{Advisor: ratelimit.Advisor{MaxWait: time.Second}}, "http://a/ http://a/ http://a/", seconds(0, 1, 2)},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			s := newScript(`RateLimit: "a";r=0;t=30`)
			tc.transport.Base = s
			for address := range strings.FieldsSeq(tc.requests) {
				req := trial.NewRequest(t, address)
				req.Header.Set("Authorization", req.URL.Fragment)
				_, err := tc.transport.RoundTrip(req)
				require.NoError(t, err)
			}
			require.Equal(t, tc.want, s.seen)
		})
	}
}

func TestTransportDefault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{}}
	resp, err := client.Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestTransportKeys(t *testing.T) {
	for address, want := range map[string]string{
		"http://api.example/a":         "http://api.example",
		"HTTP://API.Example:80/b?c#d":  "http://api.example",
		"http://api.example:/":         "http://api.example",
		"http://api.example:443/":      "http://api.example:443",
		"https://user:pw@api.example/": "https://api.example",
		"https://api.example:443/":     "https://api.example",
		"https://api.example:8443/":    "https://api.example:8443",
		"http://[2001:db8::80]/":       "http://[2001:db8::80]",
		"http://[2001:db8::80]:80/":    "http://[2001:db8::80]",
		"acme://api.example/":          "acme://api.example",
		"opaque:thing":                 "opaque://",
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, want, string(appendOrigin(nil, u)))
	}
}

func TestTransportLeavesResponses(t *testing.T) {
	body := &trial.Closing{Reader: strings.NewReader("no")}
	rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, "HTTP/1.1 302 Found\nRetry-After: 30")
		resp.StatusCode, resp.Body = http.StatusTooManyRequests, body
		return resp, nil
	})}
	req := trial.NewRequest(t, trial.Example)
	before := req.Clone(req.Context())
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, before, req, "the request is as it was")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "nothing is sent again")
	require.Zero(t, body.Closed)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "no", string(text))
}

func TestTransportHandMade(t *testing.T) {
	rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return nil, nil })}
	_, err := rt.RoundTrip(nil)
	require.Equal(t, errNoURL, err)
	body := &trial.Closing{}
	_, err = rt.RoundTrip(&http.Request{Body: body})
	require.Equal(t, errNoURL, err)
	require.Equal(t, 1, body.Closed)
	resp, err := rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.NoError(t, err)
	require.Nil(t, resp)

	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return &http.Response{}, nil })
	_, err = rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.NoError(t, err)

	refusal := &http.Response{StatusCode: 429}
	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return refusal, errCutOff })
	rt.Observe = func(*http.Request, ratelimit.Advice) {
		require.Fail(t, "nothing is learnt from a response with an error")
	}
	_, err = rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.Equal(t, errCutOff, err)

	redirection := &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/there"}}}
	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return redirection, nil })
	resp, err = rt.RoundTrip(&http.Request{URL: &url.URL{}})
	require.NoError(t, err)
	require.Nil(t, resp.Body)

	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return refusal, nil })
	rt.Observe = func(*http.Request, ratelimit.Advice) { panic("observe") }
	require.PanicsWithValue(t, "observe", func() { _, _ = rt.RoundTrip(&http.Request{URL: &url.URL{}}) })
}

func TestTransportObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []ratelimit.Advice
		rt := &Transport{
			Base: newScript("", `RateLimit-Policy: "a";q=1`, "fail", `RateLimit: "a";r=7`, "HTTP/1.1 302 Found\nRetry-After: 3", "", "HTTP/1.1 429 Too Many Requests"),
			Observe: func(req *http.Request, a ratelimit.Advice) {
				require.Equal(t, "api.example", req.URL.Host)
				seen = append(seen, a)
			},
		}
		for range 7 {
			_ = get(t, rt, trial.Example)
		}
		require.Len(t, seen, 4)
		require.Equal(t, "a", seen[0].Fields.Policies[0].Name)
		require.Equal(t, int64(7), seen[1].Fields.Limits[0].Remaining)
		require.Equal(t, 3*time.Second, seen[2].Wait)
		require.True(t, seen[3].Refused)
	})
}

type closingBase struct {
	http.RoundTripper
	closed int
}

func (c *closingBase) CloseIdleConnections() { c.closed++ }

func TestTransportCloseIdleConnections(t *testing.T) {
	base := &closingBase{}
	(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	(&Transport{Base: newScript("")}).CloseIdleConnections() // this base has no such method
}

// Request.Cancel ends a wait for a limit or for a redirection, as in net/http.
func TestTransportRequestCancel(t *testing.T) {
	for _, first := range []string{`RateLimit: "a";r=0;t=30`, seeOther + "Retry-After: 30"} {
		trial.InBubble(t, first, func(t *testing.T) {
			s := newScript(first)
			rt := &Transport{Base: s}
			resp, err := rt.RoundTrip(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			ctx, done := context.WithTimeout(t.Context(), time.Minute) // ends later than the request is cancelled
			defer done()
			req, cancel, body := trial.NewRequest(t, trial.Example).WithContext(ctx), make(chan struct{}), &trial.Closing{}
			req.Response, req.Body = resp, body // nil, or a redirection
			req.Cancel = cancel                 //lint:ignore SA1019 net/http still obeys it
			time.AfterFunc(time.Second, func() { close(cancel) })
			_, err = rt.RoundTrip(req)
			require.Equal(t, errCancelled, err)
			require.Equal(t, time.Second, time.Since(s.start))
			require.Equal(t, 1, body.Closed)
			require.Zero(t, entryOf(rt, "api.example").queue.Len())
		})
	}
}

// If anything panics, bodies are closed, and the request counts as one without a response.
func TestTransportPanics(t *testing.T) {
	for name, rt := range map[string]*Transport{
		"Base":    {},
		"Key":     {Key: func(*http.Request) string { panic("key") }},
		"Observe": {Observe: func(*http.Request, ratelimit.Advice) { panic("observe") }},
		"Waiting": {Waiting: func(*http.Request, Wait) func() { panic("waiting") }},
		"Advise":  {Advisor: ratelimit.Advisor{Refused: func(*http.Response) (time.Duration, bool) { panic("refused") }}},
	} {
		trial.InBubble(t, name, func(t *testing.T) {
			var answers []*trial.Closing
			rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				if req.Body != nil {
					req.Body.Close()
				}
				if name == "Base" {
					panic("base")
				}
				resp := answer(req, "HTTP/1.1 302 Found\nRetry-After: 5\nX-Unknown: 1")
				body := &trial.Closing{}
				answers, resp.Body = append(answers, body), body
				return resp, nil
			})
			for range 3 {
				req := trial.NewRequest(t, trial.Example)
				body := &trial.Closing{}
				req.Body = body
				resp, ok := (*http.Response)(nil), true
				func() {
					defer func() { ok = recover() == nil }()
					resp, _ = rt.RoundTrip(req)
				}()
				if ok {
					resp.Body.Close()
				}
				require.Equal(t, 1, body.Closed)
			}
			for _, body := range answers {
				require.Equal(t, 1, body.Closed)
			}
			if e := entryOf(rt, "api.example"); e != nil {
				require.Zero(t, e.machine.UnderWay())
				require.Zero(t, e.queue.Len())
			}
		})
	}
}

// Every function of the caller may use the Gate: none is called while its lock is held.
func TestTransportCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls := &Gate{}, map[string]int{}
		use := func(name string) {
			calls[name]++
			g.State("http://api.example")
			for key := range g.Keys() {
				g.Forget(key + "x")
			}
			if pass, _ := g.TryEnter("other"); pass != nil {
				pass.Failed()
			}
		}
		g.Waiting = func(Wait) func() { use("Gate.Waiting"); return func() { use("its result") } }
		rt := &Transport{
			Base:    newScript(`RateLimit: "a";r=0;t=30`),
			Gate:    g,
			Advisor: ratelimit.Advisor{Refused: func(*http.Response) (time.Duration, bool) { use("Refused"); return 0, false }},
			Key:     func(*http.Request) string { use("Key"); return "http://api.example" },
			Cost:    func(*http.Request) []Cost { use("Cost"); return nil },
			Waiting: func(*http.Request, Wait) func() { use("Waiting"); return func() { use("and its") } },
			Observe: func(*http.Request, ratelimit.Advice) { use("Observe") },
		}
		require.NoError(t, get(t, rt, trial.Example))
		require.NoError(t, get(t, rt, trial.Example))
		require.Equal(t, map[string]int{
			"Key": 2, "Cost": 2, "Refused": 2, "Observe": 2, "Waiting": 1, "and its": 1, "Gate.Waiting": 1, "its result": 1,
		}, calls)
	})
}

// The key "" is for requests that are never delayed, such as health checks and streams.
func TestTransportNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit: "a";r=0;t=30`)
		seen := 0
		rt := &Transport{Base: s, Key: func(*http.Request) string { return "" }, Observe: func(*http.Request, ratelimit.Advice) { seen++ }}
		for range 50 {
			require.NoError(t, get(t, rt, trial.Example))
		}
		require.Zero(t, time.Since(s.start))
		require.Equal(t, 50, seen, "answers are read all the same")
		pass, until := rt.gate().TryEnter("")
		require.NotNil(t, pass)
		require.Zero(t, until)
		require.Empty(t, rt.gate().keys)
	})
}

// KeyBy keeps the origin, and adds the values of the fields.
func TestKeyBy(t *testing.T) {
	key := func(address string, fields ...string) string {
		req := trial.NewRequest(t, address)
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			req.Header.Add(name, value)
		}
		return KeyBy("authorization", "X-API-Key")(req)
	}
	require.Equal(t, "http://api.example", key(trial.Example))
	require.Equal(t, "http://api.example", KeyBy()(trial.NewRequest(t, trial.Example)))
	require.Equal(t, key(trial.Example, "Authorization: Bearer a"), key(trial.Example+"path?query", "Authorization: Bearer a"))
	keys := map[string]bool{}
	for _, k := range []string{
		key(trial.Example), key(trial.Example, "Authorization: Bearer a"), key(trial.Example, "Authorization: Bearer b"),
		key(trial.Example, "Authorization: Bearer a", "Authorization: Bearer b"), key(trial.Example, "X-Api-Key: Bearer a"),
		key(trial.Example, "Authorization: Bearer a", "X-Api-Key: x"), key(trial.Example, "Authorization: Bearer a", "X-Api-Key: y"),
		key("https://api.example/", "Authorization: Bearer a"), key("http://api.example:8080/", "Authorization: Bearer a"),
	} {
		require.NotContains(t, k, "Bearer")
		keys[k] = true
	}
	require.Len(t, keys, 9)
	require.Equal(t, "http://api.example#f4e3f8aa2656bcc9a58b0d0e21ddd265", key(trial.Example, "Authorization: Bearer a"), "the same in every process")
}

const (
	found    = "HTTP/1.1 302 Found\nLocation: /there\n"
	seeOther = "HTTP/1.1 303 See Other\nLocation: /there\n"
)

// A request that follows a redirection waits like any other request. It also waits as long as
// the redirection asks for (RFC 9110 Section 10.2.3).
func TestTransportRedirect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []string
		timeout time.Duration
		want    []time.Duration // when one request of a client, and the requests that follow it, are sent
		until   time.Duration   // of the WaitError of the first
	}{
		{"302 with limits", []string{found + `RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=0;t=10`}, 0, seconds(0, 10, 20, 30), 0},
		{"302 with limits, the target has more left", []string{found + `RateLimit: "a";r=0;t=10`, `RateLimit: "a";r=5;t=10`},
			0, seconds(0, 10, 10), 0},
		{"303 with Retry-After", []string{seeOther + "Retry-After: 5", ""}, time.Minute, seconds(0, 5), 0},
		{"303 with Retry-After of 0", []string{seeOther + "Retry-After: 0", ""}, time.Minute, seconds(0, 0), 0},
		{"303 with Retry-After, and the deadline is earlier", []string{seeOther + "Retry-After: 5"},
			4 * time.Second, seconds(0), 5 * time.Second},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			s := newScript(tc.answers...)
			var waiting []time.Duration
			rt := &Transport{Base: s, Waiting: func(_ *http.Request, w Wait) func() {
				waiting = append(waiting, w.Until.Sub(s.start))
				return nil
			}}
			resp, err := (&http.Client{Transport: rt, Timeout: tc.timeout}).Do(trial.NewRequest(t, trial.Example))
			if tc.until > 0 {
				var early *WaitError
				require.ErrorAs(t, err, &early)
				require.Equal(t, tc.until, early.Until.Sub(s.start))
				require.Zero(t, time.Since(s.start))
			} else {
				require.NoError(t, err)
				resp.Body.Close()
			}
			for range len(tc.want) - 2 {
				require.NoError(t, get(t, rt, trial.Example))
			}
			require.Equal(t, tc.want, s.seen)
			for _, at := range tc.want {
				if at > 0 {
					require.Contains(t, waiting, at)
				}
			}
		})
	}
	trial.InBubble(t, "cancelled", func(t *testing.T) {
		rt := &Transport{Base: newScript(seeOther+"Retry-After: 60", "")}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := (&http.Client{Transport: rt}).Do(trial.NewRequest(t, trial.Example).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// An exhausted limit of an origin that redirects does not delay the request to another origin.
func TestTransportRedirectLimitElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript("HTTP/1.1 302 Found\nLocation: http://b.example/\nRateLimit: \"a\";r=0;t=10", "")
		resp, err := (&http.Client{Transport: &Transport{Base: s}}).Do(trial.NewRequest(t, "http://a.example/"))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, seconds(0, 0), s.seen)
	})
}

// A redirection delays the next request by at most the MaxWait of the Gate, and no request whose key is
// "". Its fields are read like the fields of other responses.
func TestTransportRedirectSettings(t *testing.T) {
	unread, err := ratelimit.NewDialect("acme", ratelimit.DialectField{Name: "X-RateLimit-Wait"})
	require.NoError(t, err)
	for _, tc := range []struct {
		name, wait string
		rt         *Transport
		want       time.Duration // when the next request is sent
	}{
		{"MaxWait of the Gate", "Retry-After: 5", &Transport{Gate: &Gate{MaxWait: 2 * time.Second}}, 2 * time.Second},
		{"MaxWait of the Advisor", "Retry-After: 5", &Transport{Advisor: ratelimit.Advisor{MaxWait: 2 * time.Second}}, 2 * time.Second},
		{"the Gate obeys more than the Advisor", "Retry-After: 5", &Transport{Advisor: ratelimit.Advisor{MaxWait: 2 * time.Second}, Gate: &Gate{}}, 5 * time.Second},
		{"no key", "Retry-After: 5", &Transport{Key: func(*http.Request) string { return "" }}, 0},
		{"a Dialect does not read the field", "X-RateLimit-Wait: 5", &Transport{Advisor: ratelimit.Advisor{Legacy: ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{unread}}}}, 0},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			s := newScript(seeOther+tc.wait, "")
			tc.rt.Base = s
			resp, err := (&http.Client{Transport: tc.rt}).Do(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, []time.Duration{0, tc.want}, s.seen)
		})
	}
}

// Refused is called once for a redirection, although its wait is computed again when the next
// request follows.
func TestTransportRedirectRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, called := newScript(seeOther+"Retry-After: 5", ""), []int{}
		rt := &Transport{Base: s, Advisor: ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
			called = append(called, resp.StatusCode)
			return 0, false
		}}}
		resp, err := (&http.Client{Transport: rt}).Do(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, seconds(0, 5), s.seen)
		require.Equal(t, []int{http.StatusSeeOther, http.StatusOK}, called)
	})
}

// If a request follows a redirection after its wait, it is the probe that is due then.
func TestTransportRedirectProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(seeOther+"Retry-After: 5\n"+`RateLimit: "a";r=0;t=5`, "")
		s.delay = 500 * time.Millisecond
		rt := &Transport{Base: s}
		var all sync.WaitGroup
		all.Go(func() {
			_, err := (&http.Client{Transport: rt}).Do(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
		})
		time.Sleep(5700 * time.Millisecond)
		require.NoError(t, get(t, rt, trial.Example))
		all.Wait()
		require.Equal(t, times(0, 5500, 6000), s.seen)
	})
}

// A copy of a request that followed a redirection does not wait for the redirection again.
func TestTransportRedirectClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(found+"Retry-After: 10", "", `RateLimit: "a";r=0;t=5`, "")
		rt := &Transport{Base: s}
		resp, err := (&http.Client{Transport: rt}).Do(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		again := resp.Request.Clone(t.Context())
		require.NotNil(t, again.Response)
		require.NoError(t, get(t, rt, trial.Example))
		_, err = rt.RoundTrip(again)
		require.NoError(t, err)
		require.Equal(t, seconds(0, 10, 10, 10), s.seen)
	})
}

// Requests that follow redirections count, and wait for their turn.
func TestTransportRedirectCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var window time.Time
		refused, done, start := 0, 0, time.Now()
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now().Truncate(time.Second)
			if now.Equal(window) {
				refused++
				return answer(req, "HTTP/1.1 429 Too Many Requests\nRateLimit-Policy: \"a\";q=1;w=1\nRateLimit: \"a\";r=0;t=1"), nil
			}
			window = now
			fields := "RateLimit-Policy: \"a\";q=1;w=1\nRateLimit: \"a\";r=0;t=1"
			if req.URL.Path == "/" {
				return answer(req, "HTTP/1.1 307 Temporary Redirect\nLocation: /there\n"+fields), nil
			}
			return answer(req, fields), nil
		})}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				for {
					client := &http.Client{Transport: rt, Timeout: 30 * time.Second}
					resp, err := client.Do(trial.NewRequest(t, trial.Example))
					if err == nil {
						resp.Body.Close()
					}
					if err == nil && resp.StatusCode == http.StatusOK {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				mu.Lock()
				defer mu.Unlock()
				done++
			})
		}
		all.Wait()
		t.Log(time.Since(start), refused)
		require.Equal(t, 30, done)
		require.LessOrEqual(t, time.Since(start), 72*time.Second)
		require.LessOrEqual(t, refused, 40)
	})
}

// The last unit is kept for the request that follows a redirection, although others wait. It
// is kept for no longer than keepTime, because the client may not follow the redirection.
func TestTransportRedirectKeepsLast(t *testing.T) {
	follow := func(*http.Request, []*http.Request) error { return nil }
	ignore := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, tc := range []struct {
		name, fields string
		check        func(*http.Request, []*http.Request) error
		want         string // the time and the path of each request after the first window
	}{
		{"followed", "", follow, "1m0.21s /old, 1m0.31s /new, 2m0.41s /old, 2m0.51s /new"},
		{"followed, with a resource", "X-RateLimit-Resource: core\n", follow, "1m0.2s /old, 1m0.3s /new, 2m0.4s /old, 2m0.5s /new"},
		{"not followed", "", ignore, "1m0.21s /old, 1m0.32s /old"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, used := time.Now(), 0 // two a minute
				var mu sync.Mutex
				var seen []string
				rt := &Transport{Waiting: func(_ *http.Request, w Wait) func() {
					require.Equal(t, ReasonLimit, w.Reason)
					return nil
				}, Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					at := time.Since(start)
					seen = append(seen, fmt.Sprint(at, " ", req.URL.Path))
					used++
					fields := fmt.Sprintf("%sX-RateLimit-Limit: 2\nX-RateLimit-Remaining: %d\nX-RateLimit-Reset: %d",
						tc.fields, used%2, int((time.Minute-at%time.Minute).Seconds()+0.9))
					time.Sleep(100 * time.Millisecond)
					if req.URL.Path == "/old" {
						return answer(req, "HTTP/1.1 307 Temporary Redirect\nLocation: /new\n"+fields), nil
					}
					return answer(req, fields), nil
				})}
				require.NoError(t, get(t, rt, trial.Example+"old"))
				require.NoError(t, get(t, rt, trial.Example+"new"))
				seen = nil
				var all sync.WaitGroup
				for range 2 {
					all.Go(func() {
						client := &http.Client{Transport: rt, CheckRedirect: tc.check}
						resp, err := client.Do(trial.NewRequest(t, trial.Example+"old"))
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
					})
				}
				all.Wait()
				require.Equal(t, tc.want, strings.Join(seen, ", "))
			})
		})
	}
}

// Clients do not follow a 304, so no unit is kept after it.
func TestTransportNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript("HTTP/1.1 304 Not Modified\nRateLimit: \"a\";r=1;t=10")
		rt := &Transport{Base: s}
		for range 3 {
			require.NoError(t, get(t, rt, trial.Example))
		}
		require.Equal(t, seconds(0, 0, 0), s.seen)
	})
}

// The Retry-After of a redirection to another origin delays the request that follows.
func TestTransportRedirectElsewhereLater(t *testing.T) {
	stop := errors.New("stop")
	for _, tc := range []struct {
		name     string
		deadline time.Duration
		end      func(req *http.Request, cancel context.CancelCauseFunc) // after two seconds; nil does nothing
		took     time.Duration
		want     error // nil if the request is sent
	}{
		{name: "sent", took: 5 * time.Second},
		{name: "the deadline is earlier", deadline: 4 * time.Second, want: context.DeadlineExceeded},
		{name: "cancelled", end: func(_ *http.Request, cancel context.CancelCauseFunc) { cancel(stop) }, took: 2 * time.Second, want: stop},
		{name: "Request.Cancel", end: func(req *http.Request, _ context.CancelCauseFunc) {
			close(req.Context().Value(&stop).(chan struct{}))
		}, took: 2 * time.Second, want: errCancelled},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			var hits, events []string
			rt := &Transport{
				Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
					hits = append(hits, req.URL.Host)
					return answer(req, "HTTP/1.1 303 See Other\nLocation: http://b.example/\nRetry-After: 5"), nil
				}),
				Waiting: func(_ *http.Request, w Wait) func() {
					events = append(events, fmt.Sprint(w.Key, " ", w.Reason, " ", time.Until(w.Until)))
					return func() { events = append(events, "done") }
				},
			}
			first, err := rt.RoundTrip(trial.NewRequest(t, "http://a.example/"))
			require.NoError(t, err)
			req, start := trial.NewRequest(t, "http://b.example/"), time.Now()
			abort := make(chan struct{})
			ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), &stop, abort))
			defer cancel(nil)
			if tc.deadline > 0 {
				var done context.CancelFunc
				ctx, done = context.WithTimeout(ctx, tc.deadline)
				defer done()
			}
			req = req.WithContext(ctx)
			req.Response = first
			req.Cancel = abort //lint:ignore SA1019 net/http still obeys it
			if tc.end != nil {
				time.AfterFunc(2*time.Second, func() { tc.end(req, cancel) })
			}
			_, err = rt.RoundTrip(req)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.took, time.Since(start))
			require.Equal(t, []string{"http://b.example retry-after 5s", "done"}, events)
			require.Equal(t, tc.want == nil, len(hits) == 2)
		})
	}
}

// Another origin redirects to an origin whose wait is in effect.
func TestTransportRedirectElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hits := 0
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "a.example" {
				return answer(req, "HTTP/1.1 307 Temporary Redirect\nLocation: http://b.example/"), nil
			}
			hits++
			return answer(req, "RateLimit: \"b\";r=0;t=600"), nil
		})}
		require.NoError(t, get(t, rt, "http://b.example/"))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				client := &http.Client{Transport: rt, Timeout: time.Minute}
				_, err := client.Do(trial.NewRequest(t, "http://a.example/"))
				require.Error(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 1, hits, "the first")
	})
}
