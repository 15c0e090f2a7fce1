package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A runningServer is the verb, on a socket.
type runningServer struct {
	url    string
	end    context.CancelFunc // has the effect of an interrupt
	status chan int           // its exit status
	lines  chan string        // that it prints; closed at the end
	stderr *bytes.Buffer      // may be read after the end
}

// startServer runs the verb until the test ends.
func startServer(t testing.TB, args ...string) *runningServer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	s := &runningServer{end: cancel, status: make(chan int, 1), lines: make(chan string, 100), stderr: &bytes.Buffer{}}
	go func() {
		s.status <- run(ctx, append([]string{"serve", "-addr", "127.0.0.1:0"}, args...), nil, in, s.stderr)
		in.Close()
	}()
	lines := bufio.NewReader(out)
	s.url = readAddress(t, lines, "listening on ")
	go func() {
		for err := error(nil); err == nil; {
			var line string
			if line, err = lines.ReadString('\n'); line != "" {
				s.lines <- line
			}
		}
		close(s.lines)
	}()
	t.Cleanup(cancel)
	return s
}

// someTime matches the times in what the server prints.
var someTime = regexp.MustCompile(`(?m)(^ +|t=|wait )[\d.]+`)

// ended interrupts the server, and returns what it printed, without the times.
func (s *runningServer) ended(t testing.TB) string {
	t.Helper()
	s.end()
	require.Equal(t, exitFine, <-s.status)
	require.Empty(t, s.stderr.String())
	var text string
	for line := range s.lines {
		text += line
	}
	return someTime.ReplaceAllString(text, "${1}N")
}

// A line for each answer, and the counts after an interrupt. Nothing of a request is printed.
func TestServe(t *testing.T) {
	s := startServer(t, "-limit", `"hour";q=2;w=3600`, "-limit", `"day";q=9;w=86400`, "-key", "Authorization")
	for _, key := range []string{"s3cret", "hunter2", "s3cret", "s3cret", ""} {
		resp, body := trial.Send(t, http.MethodPost, s.url+"/s3cret?q=hunter2", strings.NewReader("s3cret"), "Authorization", key)
		if resp.StatusCode == http.StatusOK {
			require.Equal(t, "ok\n", body)
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Regexp(t, `^"hour";r=0;t=3\d\d\d, "day";r=7;t=86\d\d\d$`, resp.Header.Get("RateLimit"))
		require.Contains(t, body, `"violated-policies":["hour"]`)
	}
	trial.RequireGolden(t, "testdata/serve.txt", s.ended(t))
}

// With -json each answer is an object in a line, and so are the counts.
func TestServeJSON(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	free.Close()
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"serve", "-json", "-addr", address, "-like", "github", "-limit", `"core";q=1;w=3600`}, nil, in, io.Discard)
		in.Close()
	}()
	trial.Until(t, "it listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	lines := json.NewDecoder(out)
	var got struct {
		Wait        float64
		Status, Key int
		Refused     bool
		Form        string
		Limits      []report.Limit
	}
	for _, want := range []int{http.StatusOK, http.StatusForbidden} {
		go trial.Send(t, http.MethodGet, "http://"+address, nil)
		require.NoError(t, lines.Decode(&got))
		require.Equal(t, want, got.Status)
		require.Equal(t, want != http.StatusOK, got.Refused)
		require.Equal(t, "x-ratelimit", got.Form)
		require.Zero(t, *got.Limits[0].Remaining)
		require.Zero(t, got.Key)
	}
	require.InDelta(t, 3600, got.Wait, 2)
	cancel()
	var counts map[string]int64
	require.NoError(t, lines.Decode(&counts))
	require.Equal(t, map[string]int64{"served": 1, "refused": 1, "early": 0}, counts)
	require.Equal(t, exitFine, <-status)
}

// The flags reach the API.
func TestServeLike(t *testing.T) {
	for _, tc := range []struct {
		name  string
		args  []string
		field string // of the first answer
		want  string
	}{
		{"a vendor", []string{"-like", "openai"}, "X-RateLimit-Limit-Requests", "500"},
		{"a vendor with a limit", []string{"-like", "openai", "-limit", `"requests";q=7;w=1`}, "X-RateLimit-Limit-Requests", "7"},
		{"a vendor in silence", []string{"-like", "openai", "-silent"}, "X-RateLimit-Limit-Requests", ""},
		{"a vendor with a form", []string{"-like", "cloudflare", "-dialect", "draft-06"}, "RateLimit-Limit", "1200"},
		{"two forms", []string{"-limit", `"a";q=7;w=1`, "-dialect", "draft-06", "-dialect", "x-ratelimit"}, "X-RateLimit-Limit", "7"},
		{"two limits in a flag", []string{"-limit", `"a";q=7;w=1, "b";q=8;w=2`}, "RateLimit-Policy", `"a";q=7;w=1, "b";q=8;w=2`},
		{"a kind", []string{"-limit", `"a";q=7`, "-kind", "concurrency"}, "RateLimit-Policy", `"a";q=7;qu="concurrent-requests"`},
		{"the kind of a vendor", []string{"-like", "openai", "-limit", `"requests";q=60;w=60`}, "X-RateLimit-Reset-Requests", "1s"},
		{"a kind in place of it", []string{"-like", "openai", "-limit", `"requests";q=60;w=60`, "-kind", "window-from-first"}, "X-RateLimit-Reset-Requests", "1m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startServer(t, tc.args...)
			resp, _ := trial.Send(t, http.MethodGet, s.url, nil)
			require.Equal(t, tc.want, resp.Header.Get(tc.field))
			require.Contains(t, s.ended(t), "\n1 served, 0 refused, 0 early\n")
		})
	}
}

func TestServeFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	const limit = `"a";q=5;w=60`
	for _, tc := range []struct {
		name string
		args []string
		want string // a part of the output
	}{
		{"nothing", nil, `there are no limits: give -limit '"core";q=50;w=10' or -like github`},
		{"no such vendor", []string{"-like", "s3cret"}, "-like is unknown: write github, openai, anthropic, cloudflare, express, nginx, haproxy, shopify, discord, bare429\n"},
		{"no policy", []string{"-limit", "s3cret"}, `-limit is not a policy: write '"core";q=50;w=10'`},
		{"an empty policy", []string{"-limit", ""}, `-limit is not a policy: write '"core";q=50;w=10'`},
		{"no window", []string{"-limit", `"s3cret";q=5`}, `-limit has no window: write '"core";q=50;w=10'`},
		{"no quota", []string{"-limit", `"s3cret";q=0;w=1`}, `-limit has the quota 0: write '"core";q=50;w=10'`},
		{"a window of centuries", []string{"-limit", `"s3cret";q=2;w=9223372036`, "-kind", "sliding-counter", "-dialect", "draft-06"}, "-limit has a window of more than a century: write '\"core\";q=50;w=10'"},
		{"two of one name", []string{"-limit", limit, "-limit", limit}, "the limits cannot be announced in the current fields: ratelimit: member 2 of RateLimit-Policy: duplicate: change -limit, -kind or -dialect"},
		{"no such kind", []string{"-limit", limit, "-kind", "s3cret"}, "-kind is unknown: write fixed-window, window-from-first, sliding-log, sliding-counter, token-bucket, concurrency\n"},
		{"no such form", []string{"-limit", limit, "-dialect", "s3cret"}, "-dialect is unknown: write draft-06, draft-07, x-ratelimit, x-ratelimit-unix or another one of docs/older.md\n"},
		{"a form without room", []string{"-limit", `"a";q=5`, "-kind", "concurrency", "-dialect", "draft-07"}, "the limits cannot be announced in dialect draft-07: "},
		{"no field", []string{"-limit", limit, "-key", "a,b"}, "-key is not the name of a field: write it without a colon and spaces"},
		{"a negative latency", []string{"-limit", limit, "-latency", "-1s"}, "-latency is negative: give a time of 0 or more"},
		{"no address", []string{"-limit", limit, "-addr", "8080"}, "-addr is not an address: write 127.0.0.1:8080"},
		{"an address without a port", []string{"-limit", limit, "-addr", "127.0.0.1:"}, "-addr is not an address: write 127.0.0.1:8080"},
		{"a busy port", []string{"-limit", limit, "-addr", busy.Addr().String()}, "address already in use: give another address, such as 127.0.0.1:0\n"},
		{"an argument", []string{"-limit", limit, "s3cret"}, "there are arguments: give the limits with -limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := running("", append([]string{"serve"}, tc.args...)...)
			require.Equal(t, exitFailed, status)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tc.want)
			require.NotContains(t, stderr, "s3cret")
		})
	}
}

// A request for no path is one for the API too.
func TestServeOptions(t *testing.T) {
	s := startServer(t, "-limit", `"a";q=1;w=60`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, `"a";r=0;t=60`, resp.Header.Get("RateLimit"))
}

// A client may go before its answer.
func TestServeGone(t *testing.T) {
	var out strings.Builder
	s := &serving{stdout: &out, rows: probeReport{started: time.Now()}}
	flags := newFlags("serve")
	s.flags(flags)
	require.NoError(t, parseAnywhere(flags, []string{"-limit", `"a";q=9;w=9`, "-latency", "1h"}))
	require.NoError(t, s.complete(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	require.Regexp(t, `^ +\d+\.\d+s  lost\n$`, out.String())
}

// The server ends while a request is under way, and prints nothing after the counts.
func TestServeEnds(t *testing.T) {
	s := startServer(t, "-limit", `"a";q=9;w=9`, "-latency", "1h")
	written, gone := make(chan bool), make(chan error)
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written <- true }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, s.url, nil)
	require.NoError(t, err)
	go func() {
		_, err := http.DefaultTransport.RoundTrip(r)
		gone <- err
	}()
	<-written
	text := s.ended(t)
	require.Error(t, <-gone)
	require.Regexp(t, `(^|\n)[01] served, 0 refused, 0 early\n$`, text)
}

// faultsOfVendors are the faults that vendors have, and which probe finds.
var faultsOfVendors = map[string]string{
	"haproxy": "6585-4",      // a 429 without Retry-After and limits
	"bare429": "6585-4",      // the same
	"shopify": "9110-10.2.3", // Retry-After: 2.0
	"discord": "6-9",         // X-RateLimit-Reset-After: 0.234
}

// A probe of each vendor finds the faults that the vendor has, and no others. It goes on after
// refusals, in virtual time.
func TestServeProbed(t *testing.T) {
	for _, vendor := range []string{"github", "openai", "anthropic", "cloudflare", "express", "nginx", "haproxy", "shopify", "discord", "bare429"} {
		t.Run(vendor, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(26*365*24*time.Hour + 300*time.Millisecond) // Unix times have ten digits
				api, err := ratelimittest.Like(vendor)
				require.NoError(t, err)
				for i := range api.Limits {
					l := &api.Limits[i]
					l.Policy.Quota, l.Policy.Window, l.Burst = 8, ratelimit.SecondsOf(60), 0
				}
				p := prober{requests: 100, rate: 5, concurrency: 1, timeout: 100 * time.Hour, pastRefusal: true}
				p.address, p.method, p.base = "http://a.example/", http.MethodGet, api.RoundTripper()
				r, err := p.run(t.Context())
				require.NoError(t, err)
				require.Positive(t, api.Counts().Refused)
				require.Equal(t, len(r.names) > 0, !api.Silent)
				var faults []string
				for _, f := range r.Findings {
					if f.IsFault() && !slices.Contains(faults, f.Rule) {
						faults = append(faults, f.Rule)
					}
				}
				require.Equal(t, faultsOfVendors[vendor], strings.Join(faults, " "), "%+v", r.Findings)
			})
		})
	}
}
