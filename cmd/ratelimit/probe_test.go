package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// A quota is an API with one limit. It remembers its requests.
type quota struct {
	ratelimittest.API

	mu            sync.Mutex
	asked         []time.Time
	header        http.Header // of the latest request
	underWay, top int
}

// quotaOf returns a server with windows that begin with a request.
func quotaOf(n int64, window, takes time.Duration) *quota {
	p := ratelimit.Policy{Name: "a", Quota: n, Window: ratelimit.CeilSeconds(window)}
	return &quota{API: ratelimittest.API{
		Limits: []ratelimittest.Limit{{Policy: p, Kind: ratelimittest.WindowFromFirst}}, Latency: takes,
	}}
}

func (q *quota) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.enter(r)
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.underWay--
	}()
	q.API.ServeHTTP(w, r)
}

func (q *quota) enter(r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked, q.header = append(q.asked, time.Now()), r.Header
	q.underWay++
	q.top = max(q.top, q.underWay)
}

// RoundTrip responds without a network, so that the time can be virtual.
func (q *quota) RoundTrip(r *http.Request) (*http.Response, error) {
	return (&ratelimittest.API{Handler: q}).RoundTripper().RoundTrip(r)
}

// liar announces three requests in 10 s, and serves two.
func liar() http.RoundTripper {
	var used int64
	var end time.Time
	return (&ratelimittest.API{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		if !now.Before(end) {
			used, end = 0, now.Add(10*time.Second)
		}
		refused := used == 2
		if !refused {
			used++
		}
		f := announce.FixedWindow{Name: "a", Quota: 3, Used: used, Window: 10 * time.Second, Left: end.Sub(now)}.Fields()
		if refused {
			_ = announce.Refuse(w, r, f, nil)
			return
		}
		_ = f.Set(w.Header())
	})}).RoundTripper()
}

// probing runs the program.
func probing(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(context.Background(), append([]string{"probe"}, args...), strings.NewReader(""), &out, &err)
	return status, out.String(), err.String()
}

// static always sends the same limits.
var static = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(ratelimit.PolicyField, `"a";q=100;w=60`)
	w.Header().Set(ratelimit.LimitField, `"a";r=100;t=60`)
})

// bare refuses without any fields.
var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })

func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		server http.Handler
		args   []string
		want   int
		says   []string
	}{
		"honest": {quotaOf(5, time.Minute, 0), nil, 0, []string{
			"6 sent, 6 answered, 1 refused; a request was refused", `"a"`, "[########--] r=4 t=60", "refused, wait 60s",
			"no findings", "not seen: resets count down", "not seen: quota returns after the requested wait",
		}},
		"never spent":            {static, nil, 1, []string{"30 sent, 30 answered, 0 refused; all requests are sent", "L5 (should) member 1 of RateLimit", "not seen: no request is refused"}},
		"never spent, but lent":  {static, []string{"-shared"}, 0, []string{"L5 (note) member 1 of RateLimit"}},
		"no limits":              {http.NotFoundHandler(), []string{"-n", "2"}, 1, []string{"no rate limits found", "2 sent", "; the server sends no rate limits\n"}},
		"no refusal":             {quotaOf(50, time.Minute, 0), []string{"-n", "5"}, 0, []string{"no findings"}},
		"a refusal is required":  {quotaOf(50, time.Minute, 0), []string{"-n", "5", "-require"}, 1, []string{"no findings", `"a" behaves like a `, "all requests are sent; no request was refused\n"}},
		"a refusal without word": {bare, nil, 1, []string{"1 sent", "6585-4 (should)", "refused without a wait"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(test.server)
			defer s.Close()
			status, stdout, stderr := probing(append(append([]string{"-rate", "1000"}, test.args...), s.URL)...)
			require.Equal(t, test.want, status, stdout)
			require.Empty(t, stderr)
			for _, text := range test.says {
				require.Contains(t, stdout, text)
			}
		})
	}
}

func TestProbeCommandLine(t *testing.T) {
	gone := httptest.NewServer(static)
	gone.Close()
	for name, test := range map[string]struct {
		args []string
		want int
		says string
	}{
		"no address":            {nil, 2, "the address is missing"},
		"two addresses":         {[]string{"http://a/", "http://b/"}, 2, "there are several addresses"},
		"flags behind it":       {[]string{"http://a/", "-n", "0"}, 2, "-n is out"},
		"a file":                {[]string{"a.http"}, 2, "begin it with http://"},
		"no host":               {[]string{"http://"}, 2, "has no host"},
		"no requests":           {[]string{"-n", "0", "http://a/"}, 2, "-n is out"},
		"too many requests":     {[]string{"-n", "10001", "http://a/"}, 2, "-n is out"},
		"too high a rate":       {[]string{"-rate", "1001", "http://a/"}, 2, "-rate is out"},
		"no rate":               {[]string{"-rate", "0", "http://a/"}, 2, "-rate is out"},
		"a rate that overflows": {[]string{"-rate", "1e-10", "http://a/"}, 2, "-rate is out"},
		"a rate of NaN":         {[]string{"-rate", "NaN", "http://a/"}, 2, "-rate is out"},
		"no concurrency":        {[]string{"-c", "0", "http://a/"}, 2, "-c is out"},
		"no time":               {[]string{"-timeout", "0s", "http://a/"}, 2, "-timeout is out"},
		"no method":             {[]string{"-method", "a b", "http://a/"}, 2, "-method is malformed"},
		"not to be reached":     {[]string{gone.URL}, 2, "ratelimit probe: http://"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := probing(test.args...)
			require.Equal(t, test.want, status)
			require.Contains(t, stdout+stderr, test.says)
			require.Equal(t, test.want == 0, stderr == "")
			require.Equal(t, test.want != 0, stdout == "")
		})
	}
}

// The largest values of the flags are allowed.
func TestProbeBounds(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "10000"}, {"-n", "1"}, {"-c", "10000"}, {"-rate", "1000"}, {"-rate", "0.00028"}, {"-timeout", "1ns"},
	} {
		var p prober
		flags := newFlags("probe")
		p.flags(flags)
		require.NoError(t, parseAnywhere(flags, append(args, "http://a/")))
		require.NoError(t, p.check(flags.Args()), args)
	}
}

// Fields of -H reach the server, and are never printed, however the run ends.
func TestProbeHeaderPrivate(t *testing.T) {
	const secret = "hunter2"
	q := quotaOf(5, time.Minute, 0)
	s := httptest.NewServer(q)
	defer s.Close()
	gone := httptest.NewServer(q)
	gone.Close()
	for name, args := range map[string][]string{
		"served":            {"-H", "Authorization: Bearer " + secret, s.URL},
		"JSON":              {"-json", "-H", "Authorization: Bearer " + secret, s.URL},
		"no field":          {"-H", secret, s.URL},
		"no value":          {"-H", "Authorization: " + secret + "\x01", s.URL},
		"two lines":         {"-H", "Authorization: " + secret + "\r\nX: y", s.URL},
		"cannot be reached": {"-H", "Authorization: " + secret, gone.URL},
	} {
		t.Run(name, func(t *testing.T) {
			_, stdout, stderr := probing(append([]string{"-rate", "1000"}, args...)...)
			require.NotContains(t, stdout+stderr, secret)
			require.NotEmpty(t, stdout+stderr)
		})
	}
	_, _, _ = probing("-n", "1", "-H", "Authorization: Bearer "+secret, "-H", "X-Other: 1", s.URL)
	require.Equal(t, "Bearer "+secret, q.header.Get("Authorization"))
	require.Equal(t, "1", q.header.Get("X-Other"))
}

// A redirection is not followed. Its target is not under test, and must not get the
// credentials.
func TestProbeRedirection(t *testing.T) {
	other := quotaOf(5, time.Minute, 0)
	to := httptest.NewServer(other)
	defer to.Close()
	s := httptest.NewServer(http.RedirectHandler(to.URL, http.StatusFound))
	defer s.Close()
	status, stdout, _ := probing("-n", "2", "-rate", "1000", "-H", "Authorization: x", s.URL)
	require.Equal(t, exitDoubtful, status, "it sends no limits")
	require.Regexp(t, `s  302   a redirect, which is not followed\n`, stdout)
	require.Empty(t, other.asked)

	for name, h := range map[string]http.HandlerFunc{
		"a redirect with limits": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("RateLimit", `"a";r=1`)
			http.Redirect(w, r, to.URL, http.StatusFound)
		},
		"no redirect": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
	} {
		_, stdout, _ = probing("-n", "1", trial.Serve(t, h))
		require.Regexp(t, `s  30[24]\b`, stdout, name)
		require.NotContains(t, stdout, "a redirect", name)
	}
}

// In JSON a finding has the names of fields, and not of Go.
func TestProbeJSON(t *testing.T) {
	refuses := httptest.NewServer(bare)
	defer refuses.Close()
	status, stdout, _ := probing("-json", "-rate", "1000", "-n", "1", "-shared", refuses.URL)
	require.Equal(t, exitDoubtful, status)
	require.Contains(t, stdout, `"findings": [
    {
      "rule": "6585-4",
      "level": "should",
      "field": "Retry-After",
      "message": "the refusal has no Retry-After and no limits: send one of them, so that clients know when to come back"
    }
  ]`)
}

// A ran is the result of a run, in virtual time.
type ran struct {
	*probeReport
	took time.Duration
}

// inBubble runs a prober against a server, in virtual time.
func inBubble(t *testing.T, server http.RoundTripper, p prober, check func(r ran)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.address, p.method, p.base = "http://a.example/", http.MethodGet, server
		began := time.Now()
		r, err := p.run(t.Context())
		require.NoError(t, err)
		check(ran{r, time.Since(began)})
	})
}

// The probe never exceeds its rate or its number of requests in flight.
func TestProbeRate(t *testing.T) {
	for _, c := range []int{1, 3} {
		t.Run(fmt.Sprint(c, " at a time"), func(t *testing.T) {
			q := quotaOf(100, time.Minute, 700*time.Millisecond)
			inBubble(t, q, prober{requests: 20, rate: 5, concurrency: c, timeout: time.Minute}, func(r ran) {
				require.Len(t, q.asked, 20)
				require.Equal(t, c, q.top)
				for i := 1; i < len(q.asked); i++ {
					require.GreaterOrEqual(t, q.asked[i].Sub(q.asked[i-1]), 200*time.Millisecond)
				}
				require.Empty(t, r.Findings)
			})
		})
	}
}

// After a refusal the probe waits as asked, but no longer than its own time allows.
func TestProbePastRefusal(t *testing.T) {
	for name, test := range map[string]struct {
		past    bool
		timeout time.Duration
		sent    int
		refused int
		took    time.Duration
		stopped string
	}{
		"ends with a refusal":      {false, time.Minute, 6, 1, time.Second, "a request was refused"},
		"waits":                    {true, time.Minute, 15, 2, 20*time.Second + 4*200*time.Millisecond, "all requests are sent"},
		"has no time for the wait": {true, 10 * time.Second, 6, 1, time.Second, "the requested wait ends after -timeout"},
		"has no time for more":     {true, 10100 * time.Millisecond, 7, 1, 10100 * time.Millisecond, errOver.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotaOf(5, 10*time.Second, 0)
			p := prober{requests: 15, rate: 5, concurrency: 1, pastRefusal: test.past, timeout: test.timeout}
			inBubble(t, q, p, func(r ran) {
				require.Equal(t, test.sent, len(r.Requests))
				require.Equal(t, test.refused, r.Refused)
				require.Equal(t, test.stopped, r.Stopped)
				require.InDelta(t, test.took.Seconds(), r.took.Seconds(), 1)
				require.Empty(t, r.Findings)
			})
		})
	}
}

// An interrupt ends the run at once, with its report so far. The response of an in-flight
// request counts as lost.
func TestProbeInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quotaOf(100, time.Minute, 300*time.Millisecond)
		p := prober{address: "http://a.example/", method: http.MethodGet, base: q, requests: 30, rate: 1, concurrency: 1, timeout: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(2100*time.Millisecond, cancel)
		r, err := p.run(ctx)
		require.NoError(t, err)
		require.Equal(t, 2100*time.Millisecond, time.Since(began))
		require.Equal(t, interrupted, r.Stopped)
		require.Equal(t, 130, r.status())
		require.Equal(t, []int{3, 2}, []int{len(r.Requests), r.Answered})
		require.Zero(t, r.Requests[2].Status)
	})
}

// In JSON a list without elements is an array.
func TestProbeEmptyReport(t *testing.T) {
	r := &probeReport{}
	r.complete()
	var got map[string]any
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	for _, list := range []string{"requests", "findings", "not_seen", "models"} {
		require.IsType(t, []any{}, got[list], list)
	}
}

// A server that never responds counts as unreachable.
func TestProbeNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prober{address: "http://a.example/", method: http.MethodGet, base: &quota{API: ratelimittest.API{Latency: time.Hour}}, requests: 3, rate: 1, concurrency: 1, timeout: 5 * time.Second}
		_, err := p.run(t.Context())
		require.ErrorContains(t, err, "did not answer within 5s")
	})
}

// brittle loses every third response.
type brittle struct {
	*quota
	n int
}

func (b *brittle) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.quota.RoundTrip(r)
	if b.n++; b.n%3 == 0 {
		return nil, errors.New("connection reset")
	}
	return resp, err
}

// Lost responses are counted, but are not faults.
func TestProbeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brittle{quota: quotaOf(5, time.Minute, 0)}
		var rows bytes.Buffer
		p := prober{address: "http://a.example/", method: http.MethodGet, base: b, requests: 30, rate: 5, concurrency: 1, timeout: time.Minute, rows: &rows}
		r, err := p.run(t.Context())
		require.NoError(t, err)
		for _, f := range r.Findings {
			require.False(t, f.IsFault(), "%v", f)
		}
		require.Contains(t, rows.String(), "   0.400s  lost\n")
		require.Equal(t, "a request was refused", r.Stopped)

		b = &brittle{quota: b.quota, n: 2}
		p.base = b
		_, err = p.run(t.Context())
		require.ErrorContains(t, err, "connection reset")
		require.Equal(t, 3, b.n, "one request shows that the server cannot be reached")
	})
}

// The whole report of a run, as text and as JSON.
func TestProbeGolden(t *testing.T) {
	for golden, server := range map[string]http.RoundTripper{
		"testdata/probe.txt":        quotaOf(3, 10*time.Second, 100*time.Millisecond),
		"testdata/probe-faulty.txt": liar(),
		"testdata/probe.json":       quotaOf(3, 10*time.Second, 100*time.Millisecond),
	} {
		t.Run(golden, func(t *testing.T) {
			var out bytes.Buffer
			p := prober{requests: 5, rate: 2, concurrency: 1, timeout: time.Minute, pastRefusal: true, rows: &out}
			p.json = strings.HasSuffix(golden, "json")
			inBubble(t, server, p, func(r ran) {
				if p.json {
					out.Reset()
					require.NoError(t, report.WriteJSON(&out, r.probeReport))
				} else {
					require.NoError(t, r.writeText(&out))
				}
			})
			trial.RequireGolden(t, golden, out.String())
		})
	}
}

// The probe does not wait for the end of a body.
func TestProbeEndlessBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		static(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	_, stdout, stderr := probing("-c", "3", "-n", "3", "-rate", "1000", "-timeout", "20s", s.URL)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "3 sent, 3 answered, 0 refused; all requests are sent")
}

// Lines of the report have a bounded length, even if a limit has a long name.
func TestProbeLongName(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ratelimit.LimitField, `"`+strings.Repeat("n", 100_000)+`";r=1`)
	}))
	defer s.Close()
	_, stdout, _ := probing("-n", "2", "-rate", "1000", s.URL)
	require.Contains(t, stdout, `"nnnn`)
	require.Less(t, len(stdout), 2000)
}

// The report of many answers with long headers and many limits needs little memory.
func TestProbeMemory(t *testing.T) {
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	report, now := &probeReport{}, time.Now()
	before := inUse()
	for i := range 100 {
		long := strings.Repeat("n", 100_000)
		line := fmt.Sprintf(`"%d%s";r=1`, i, long) + strings.Repeat(`, "n";r=1`, 1000)
		policy := fmt.Sprintf(`"%d%s";q=1;qu="%s";pk=:%s:`, i, long, long, long)
		report.add(&http.Response{Header: http.Header{"Ratelimit": {line}, "Ratelimit-Policy": {policy}}}, nil, now, now)
	}
	require.Less(t, inUse()-before, int64(4<<20))
	require.Len(t, report.Requests, 100)
	require.Len(t, report.Requests[99].Limits, mostLimits)
}

// docs/probe.md shows the report of TestProbeGolden.
func TestProbeDocument(t *testing.T) {
	report, err := os.ReadFile("testdata/probe.txt")
	require.NoError(t, err)
	document, err := os.ReadFile("../../docs/probe.md")
	require.NoError(t, err)
	require.Contains(t, string(document), "```\n"+string(report)+"```\n")
}

// answersOf returns a report on the responses of a server: a second apart, each with its status and
// header.
func answersOf(t *testing.T, responses ...string) *probeReport {
	t.Helper()
	r := &probeReport{started: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
	for i, text := range responses {
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 "+strings.ReplaceAll(text, "|", "\r\n")+"\r\n\r\n")), nil)
		require.NoError(t, err)
		sent := r.started.Add(time.Duration(i) * time.Second)
		r.add(resp, nil, sent, sent.Add(time.Millisecond))
	}
	return r
}

// A rule is seen if the responses could have broken it.
func TestProbeSeen(t *testing.T) {
	const (
		falls, down, zero, before = "the remaining quota falls with each request", "resets count down", "a request is refused when nothing remains", "no request is refused while something remains"
		returns, retry, same      = "quota returns after the requested wait", "Retry-After does not end before the reset", "policies stay the same"

		limit  = `200 OK|RateLimit: "a";r=5;t=9`
		policy = `200 OK|RateLimit-Policy: "a";q=5`
		bare   = "429 x"
		waits  = "429 x|Retry-After: 2"
	)
	for name, test := range map[string]struct {
		responses []string
		seen      []string
	}{
		"nothing":                 {nil, nil},
		"no fields":               {[]string{"200 OK", "200 OK"}, nil},
		"three responses":         {[]string{limit, limit, limit}, nil}, // within two seconds
		"no limits in four":       {[]string{"200 OK", "200 OK", "200 OK", "200 OK"}, nil},
		"limits come late":        {[]string{"200 OK", "200 OK", limit, limit}, nil},
		"two seconds":             {[]string{limit, limit, "200 OK"}, nil},
		"four responses":          {[]string{limit, limit, limit, limit}, []string{falls, down}},
		"a refusal is not served": {[]string{limit, limit, limit, `429 x|RateLimit: "a";r=0;t=9`}, []string{down, zero, before}},
		"refused":                 {[]string{bare}, []string{before}},
		"refused, Retry-After":    {[]string{waits, bare}, []string{before, retry}},
		"the wait is not over":    {[]string{waits, "200 OK"}, []string{before, retry}},
		"the wait is over":        {[]string{waits, "200 OK", "200 OK", "200 OK"}, []string{before, returns, retry}},
		"a policy":                {[]string{policy}, nil},
		"two policies":            {[]string{policy, policy}, []string{same}},
	} {
		t.Run(name, func(t *testing.T) {
			r := answersOf(t, test.responses...)
			var seen []string
			for _, rule := range []string{falls, down, zero, before, returns, retry, same} {
				if !slices.Contains(r.notSeen(), rule) {
					seen = append(seen, rule)
				}
			}
			require.Equal(t, test.seen, seen)
		})
	}
}

// The table has the newest policy, and a row and the table have the first limits of many.
func TestProbeTable(t *testing.T) {
	r := answersOf(t, `200 OK|RateLimit-Policy: "a";q=5;w=60|RateLimit: "a";r=4;t=9`, `200 OK|RateLimit-Policy: "a";q=6;w=120|RateLimit: "a";r=3`, `200 OK|RateLimit: "a";r=7`)
	var b bytes.Buffer
	r.writeLimits(&b)
	require.Contains(t, b.String(), "\"a\"   current form (draft-08 to draft-11)  6      2m      7 to 3     9s     3\n")

	many := `200 OK|RateLimit: "l0";r=1`
	for i := range 9 {
		many += fmt.Sprintf(`, "l%d";r=1`, i+1)
	}
	r, b = answersOf(t, many), bytes.Buffer{}
	r.writeLimits(&b)
	require.Equal(t, mostColumns, strings.Count(b.String(), `"l`))
	require.Equal(t, mostColumns, strings.Count(r.row(r.Requests[0]), `"l`))
}
