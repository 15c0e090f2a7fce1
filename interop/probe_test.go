package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// knownFaults are the known faults of servers, by name: `rule field`. Other servers are honest.
var knownFaults = map[string][]string{
	"sethvargo/go-limiter": {"9110-10.2.3 Retry-After"},
	"tollbooth":            {"6-9 X-Rate-Limit-Limit"},
	"express-rate-limit, draft 8, a name with quotes": {"P1 RateLimit-Policy", "L1 RateLimit"},
	"koa-ratelimit":                     {"6-9 X-Ratelimit-Reset"},
	"rate-limiter-flexible":             {"9110-10.2.3 Retry-After"},
	"hapi-rate-limit":                   {"6-9 X-Ratelimit-Pathremaining"},
	"by hand: fields that never change": {"L5 X-Ratelimit-Remaining"},
	"by hand: a refusal without a word": {"6585-4 Retry-After"},
}

// faultyServers are further servers: one with a faulty configuration, and two hand-written
// limiters of a common kind.
var faultyServers = []server{
	{name: "express-rate-limit, draft 8, a name with quotes", module: "express-rate-limit", start: node("express.mjs", "draft-8", "unescaped")},
	{name: "by hand: fields that never change", start: serve(func(*testing.T) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Limit", "100")
			w.Header().Set("X-RateLimit-Remaining", "100")
			w.Header().Set("X-RateLimit-Reset", "60")
		})
	})},
	{name: "by hand: a refusal without a word", start: serve(func(*testing.T) http.Handler {
		var n atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) > 3 {
				http.Error(w, "slow down", http.StatusTooManyRequests)
			}
		})
	})},
}

// TestProbe runs ratelimit probe against every server, and compares the findings with
// docs/probe.md.
func TestProbe(t *testing.T) {
	t.Parallel() // it waits half a minute for windows to begin
	program := buildCommand(t)
	var rows strings.Builder
	rows.WriteString("| limiter | version | form | served | refused | faults |\n|---|---|---|---|---|---|\n")
	for _, s := range append(servers[:len(servers):len(servers)], faultyServers...) {
		t.Run(s.name, func(t *testing.T) {
			url, r := probeServer(t, program, s)
			var got, texts []string
			for _, f := range r.Findings {
				if f.Level != "note" {
					got = append(got, f.Rule+" "+f.Field)
					texts = append(texts, fmt.Sprintf("%s (%s) `%s`%s: %s", f.Rule, f.Level, f.Field, f.place(), f.Message))
				}
			}
			require.Equal(t, knownFaults[s.name], got)
			askOn(t, url, knownFaults[s.name])
			form, of := "none", "–"
			for _, request := range r.Requests {
				if request.Form != "" {
					form = request.Form
					break
				}
			}
			if s.module != "" {
				of = version(t, s.module)
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %d | %d | %s |\n", s.name, of, form, r.Answered-r.Refused, r.Refused, strings.Join(texts, "<br>"))
		})
	}
	if t.Failed() {
		return
	}
	trial.CheckSection(t, "../docs/probe.md", "probed", rows.String())
}

// probeServer probes a server. It tries again if the server was too slow for its window.
func probeServer(t *testing.T, program string, s server) (url string, r probeResult) {
	t.Helper()
	const most = 10
	for range most {
		url = s.start(t)
		if r = runProbe(t, program, url); s.within == 0 || r.Refused == 1 && r.Answered == 4 {
			return url, r
		}
	}
	require.FailNow(t, "too slow")
	return "", r
}

// askOn sends 200 more requests to a server. It fails if a Sequence, with or without Alone,
// finds an unknown fault.
func askOn(t *testing.T, url string, known []string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	sequences := []*ratelimittest.Sequence{{Alone: true}, {}}
	for range 200 {
		e := ask(t, client, url)
		for _, s := range sequences {
			for _, f := range s.Add(&http.Response{StatusCode: e.status, Header: e.header}, e.sent, e.received) {
				if f.Level > ratelimittest.LevelNote {
					of := func(fault string) bool { return strings.HasPrefix(fault, f.Rule+" ") }
					require.True(t, slices.ContainsFunc(known, of), "%v", f)
				}
			}
		}
	}
}

// A probeResult is the output of ratelimit probe -json.
type probeResult struct {
	Answered, Refused int
	Requests          []struct{ Form string }
	Findings          []probeFinding
}

// A probeFinding is a finding in the output.
type probeFinding struct {
	Rule, Level, Field, Message string
	Line, Offset                *int // nil if absent
}

// place returns where the fault is, counted from 1, as ", line 1, byte 7".
func (f probeFinding) place() string {
	if f.Line == nil || f.Offset == nil {
		return ""
	}
	return fmt.Sprintf(", line %d, byte %d", *f.Line+1, *f.Offset+1)
}

// runProbe runs ratelimit probe. At this rate, limiters with a window of a second refuse too.
func runProbe(t *testing.T, program, url string) (r probeResult) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "probe", "-json", "-rate", "20", "-n", "12", url)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // returns an error if it finds a fault, or no limits
	require.Empty(t, stderr.String())
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), "%s", &stdout)
	return r
}
