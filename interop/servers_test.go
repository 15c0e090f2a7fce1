package interop

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/stretchr/testify/require"
)

// A server is a real rate limiter and the expected reading of its responses. It allows 3
// requests in 60 seconds, unless note has other numbers.
//
// A response is written as
//
//	dialect: name remaining/quota w=window t=reset pk=key guessed; wait=seconds by source
//
// The dialect is left out if it is the server's. A comma separates two limits. "?" is a number
// missing from a pair. All other missing numbers are left out. Times are compared to the second.
// See describe.
type server struct {
	name    string
	module  string // the matrix shows its version
	start   func(t *testing.T) (url string)
	dialect string

	first   string // the first response
	last    string // the last response before the refusal
	refused string

	// within bounds the time for the whole exchange. If the exchange takes longer, the test
	// repeats it. 0 means no bound.
	within time.Duration
	note   string
}

// servers are all servers that this package reads.
var servers = []server{
	{
		name: "go-chi/httprate", module: "github.com/go-chi/httprate",
		start: serve(httprateServer), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by retry-after",
		note:    "Retry-After is the whole window",
	},
	{
		name: "ulule/limiter", module: "github.com/ulule/limiter/v3",
		start: serve(ululeServer), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by limit",
	},
	{
		name: "throttled", module: "github.com/throttled/throttled/v2",
		start: serve(throttledServer), dialect: "x-ratelimit",
		first:   "default 2/3 t=20 guessed",
		last:    "default 0/3 t=60 guessed; wait=60 by limit",
		refused: "default 0/3 t=60 guessed; wait=20 by retry-after",
		note:    "GCRA: t is when all is back, Retry-After when the next unit is",
	},
	{
		name: "sethvargo/go-limiter", module: "github.com/sethvargo/go-limiter",
		start: serve(goLimiterServer), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by retry-after",
		note:    "dates that end in UTC",
	},
	{
		name: "tollbooth v7", module: "github.com/didip/tollbooth/v7",
		start: serve(tollbooth7Server), dialect: "draft-06",
		first:   "default 2/3 w=1 t=1",
		last:    "default 0/3 w=1 t=1; wait=1 by limit",
		refused: "default 0/3 w=1 t=1; wait=1 by limit",
		within:  time.Second / 3,
		note:    "3 in a second, the only window it has",
	},
	{
		name: "tollbooth v8", module: "github.com/didip/tollbooth/v8",
		start: serve(tollbooth8Server), dialect: "draft-06",
		first:   "default 2/3 w=1 t=1",
		last:    "default 0/3 w=1 t=1; wait=1 by limit",
		refused: "default 0/3 w=1 t=1; wait=1 by limit",
		within:  time.Second / 3,
		note:    "3 in a second, the only window it has",
	},
	{
		name: "fiber v2", module: "github.com/gofiber/fiber/v2",
		start: fiber2Server, dialect: "x-ratelimit",
		first:   "default 2/3 t=60 guessed",
		last:    "default 0/3 t=60 guessed; wait=60 by limit",
		refused: "; wait=60 by retry-after",
		note:    "a refusal has Retry-After alone",
	},
	{
		name: "fiber v3", module: "github.com/gofiber/fiber/v3",
		start: fiber3Server, dialect: "x-ratelimit",
		first:   "default 2/3 t=60 guessed",
		last:    "default 0/3 t=60 guessed; wait=60 by limit",
		refused: "; wait=60 by retry-after",
		note:    "a refusal has Retry-After alone",
	},
	{
		name: "gin-rate-limit", module: "github.com/JGLTechnologies/gin-rate-limit",
		start: serve(ginServer), dialect: "x-rate-limit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by limit",
	},
	{
		name: "express-rate-limit, draft 6", module: "express-rate-limit",
		start: node("express.mjs", "draft-6"), dialect: "draft-06",
		first:   "default 2/3 w=60 t=60",
		last:    "default 0/3 w=60 t=60; wait=60 by limit",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
	},
	{
		name: "express-rate-limit, draft 7", module: "express-rate-limit",
		start: node("express.mjs", "draft-7"), dialect: "draft-07",
		first:   "default 2/3 w=60 t=60",
		last:    "default 0/3 w=60 t=60; wait=60 by limit",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
	},
	{
		name: "express-rate-limit, draft 8", module: "express-rate-limit",
		start: node("express.mjs", "draft-8"), dialect: "ratelimit",
		first:   "3-in-1min 2/3 w=60 t=60 pk=12ca17b49af2",
		last:    "3-in-1min 0/3 w=60 t=60 pk=12ca17b49af2; wait=60 by limit",
		refused: "3-in-1min 0/3 w=60 t=60 pk=12ca17b49af2; wait=60 by retry-after",
		note:    "the key is that of 127.0.0.1",
	},
	{
		name: "express-rate-limit, legacy", module: "express-rate-limit",
		start: node("express.mjs", "legacy"), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by retry-after",
	},
	{
		name: "express-rate-limit, legacy and draft 8", module: "express-rate-limit",
		start: node("express.mjs", "both"), dialect: "ratelimit",
		first:   "3-in-1min 2/3 w=60 t=60 pk=12ca17b49af2",
		last:    "3-in-1min 0/3 w=60 t=60 pk=12ca17b49af2; wait=60 by limit",
		refused: "3-in-1min 0/3 w=60 t=60 pk=12ca17b49af2; wait=60 by retry-after",
	},
	{
		name: "express-rate-limit, draft 6, two", module: "express-rate-limit",
		start: node("express.mjs", "draft-6", "two"), dialect: "draft-06",
		first:   "default 999/1000 w=86400 t=86400",
		last:    "default 997/1000 w=86400 t=86400",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
		note:    "and 1000 a day: the second limiter replaces the fields of the first",
	},
	{
		name: "express-rate-limit, draft 7, two", module: "express-rate-limit",
		start: node("express.mjs", "draft-7", "two"), dialect: "draft-07",
		first:   "default 999/1000 w=86400 t=86400",
		last:    "default 997/1000 w=86400 t=86400",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
		note:    "and 1000 a day: the second limiter replaces the fields of the first",
	},
	{
		name: "express-rate-limit, draft 8, two", module: "express-rate-limit",
		start: node("express.mjs", "draft-8", "two"), dialect: "ratelimit",
		first: "burst 2/3 w=60 t=60 pk=12ca17b49af2, daily 999/1000 w=86400 t=86400 pk=12ca17b49af2",
		last: "burst 0/3 w=60 t=60 pk=12ca17b49af2, daily 997/1000 w=86400 t=86400 pk=12ca17b49af2" +
			"; wait=60 by limit",
		refused: "burst 0/3 w=60 t=60 pk=12ca17b49af2; wait=60 by retry-after",
		note:    "and 1000 a day",
	},
	{
		name: "express-rate-limit, legacy, two", module: "express-rate-limit",
		start: node("express.mjs", "legacy", "two"), dialect: "x-ratelimit",
		first:   "default 999/1000 t=86400",
		last:    "default 997/1000 t=86400",
		refused: "default 0/3 t=60; wait=60 by retry-after",
		note:    "and 1000 a day: the second limiter replaces the fields of the first",
	},
	{
		name: "@fastify/rate-limit", module: "@fastify/rate-limit",
		start: node("fastify.mjs"), dialect: "x-ratelimit",
		first:   "default 2/3 t=60 guessed",
		last:    "default 0/3 t=60 guessed; wait=60 by limit",
		refused: "default 0/3 t=60 guessed; wait=60 by retry-after",
	},
	{
		name: "@fastify/rate-limit, draft", module: "@fastify/rate-limit",
		start: node("fastify.mjs", "draft"), dialect: "draft-06",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by retry-after",
	},
	{
		name: "koa-ratelimit", module: "koa-ratelimit",
		start: node("koa.mjs"), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by retry-after",
		note:    "the reset is a fraction of a Unix time; Retry-After is rounded down",
	},
	{
		name: "hono-rate-limiter, draft 6", module: "hono-rate-limiter",
		start: node("hono.mjs", "draft-6"), dialect: "draft-06",
		first:   "default 2/3 w=60 t=60",
		last:    "default 0/3 w=60 t=60; wait=60 by limit",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
	},
	{
		name: "hono-rate-limiter, draft 7", module: "hono-rate-limiter",
		start: node("hono.mjs", "draft-7"), dialect: "draft-07",
		first:   "default 2/3 w=60 t=60",
		last:    "default 0/3 w=60 t=60; wait=60 by limit",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
	},
	{
		name: "hono-rate-limiter, draft 8", module: "hono-rate-limiter",
		start: node("hono.mjs", "draft-8"), dialect: "draft-06",
		first:   "default 2/3 w=60 t=60",
		last:    "default 0/3 w=60 t=60; wait=60 by limit",
		refused: "default 0/3 w=60 t=60; wait=60 by retry-after",
		note:    "asked for draft 8, it writes draft 6",
	},
	{
		name: "rate-limiter-flexible", module: "rate-limiter-flexible",
		start: node("flexible.mjs"), dialect: "x-ratelimit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by retry-after",
		refused: "default 0/3 t=60; wait=60 by retry-after",
		note:    "the fields of its README, with a Retry-After in fractions on every response",
	},
	{
		name: "@nestjs/throttler", module: "@nestjs/throttler",
		start: node("nest.mjs"), dialect: "x-ratelimit",
		first:   "default 2/3 t=60 guessed",
		last:    "default 0/3 t=60 guessed; wait=60 by limit",
		refused: "; wait=60 by retry-after",
		note:    "a refusal has Retry-After alone",
	},
	{
		name: "@nestjs/throttler, two, the first refuses", module: "@nestjs/throttler",
		start: node("nest.mjs", "first"), dialect: "x-ratelimit",
		first:   "long 4/5 t=600, short 2/3 t=60 guessed",
		last:    "long 2/5 t=600, short 0/3 t=60 guessed; wait=60 by limit",
		refused: "retry-after: short 0/? t=60; wait=60 by limit",
		note:    "and 5 in 600 s; a refusal has Retry-After-short alone",
	},
	{
		name: "@nestjs/throttler, two, the second refuses", module: "@nestjs/throttler",
		start: node("nest.mjs", "second"), dialect: "x-ratelimit",
		first:   "long 2/3 t=600, short 4/5 t=60 guessed",
		last:    "long 0/3 t=600, short 2/5 t=60 guessed; wait=600 by limit",
		refused: "long 0/? t=600, short 1/5 t=60 guessed; wait=600 by limit",
		note:    "5 in 60 s, and 3 in 600 s; a refusal has Retry-After-long",
	},
	{
		name: "hapi-rate-limit", module: "hapi-rate-limit",
		start: node("hapi.mjs"), dialect: "x-ratelimit",
		first:   "path 2/3 t=60, user 4/5 t=600",
		last:    "path 0/3 t=60, user 2/5 t=600; wait=60 by limit",
		refused: "path 0/3 t=60, user 1/5 t=600; wait=60 by limit",
		note:    "and 5 in 600 s for a user; a refusal has -1 as remaining",
	},
	{
		name: "moleculer-web", module: "moleculer-web",
		start: node("moleculer.mjs"), dialect: "x-rate-limit",
		first:   "default 2/3 t=60",
		last:    "default 0/3 t=60; wait=60 by limit",
		refused: "default 0/3 t=60; wait=60 by limit",
		note:    "the reset is in Unix milliseconds",
	},
}

// readServer sends requests to a server until it refuses one, and compares the readings.
func readServer(t *testing.T, s server) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answers := exhaust(t, client, s)
	last := len(answers) - 1
	require.GreaterOrEqual(t, last, 2, "the first request, or the second, was refused")
	started := answers[0].sent

	for _, response := range []struct {
		name string
		exchange
		want string
	}{
		{"first", answers[0], s.first},
		{"last", answers[last-1], s.last},
		{"refused", answers[last], s.refused},
	} {
		t.Run(response.name, func(t *testing.T) {
			_, err := ratelimit.ParseAny(response.header, ratelimit.LegacyOptions{Now: response.received})
			require.NoError(t, err)
			require.Equal(t, response.status == http.StatusTooManyRequests, response.advice.Refused)
			got := describe(response.advice, s.dialect)
			if !agree(response.want, got, response.received.Sub(started)) {
				require.Equal(t, response.want, got)
			}

			// Retry-After decides, except on a success with a remaining quota.
			d, ok := ratelimit.ParseRetryAfter(response.header, response.received)
			if response.status/100 == 2 && response.advice.Source == ratelimit.SourceNone {
				return
			}
			require.Equal(t, response.advice.Source == ratelimit.SourceRetryAfter, ok)
			if ok {
				require.Equal(t, response.advice.Wait, d)
			}
		})
	}
}

// exhaust sends requests until the server refuses one, and returns all exchanges.
func exhaust(t *testing.T, client *http.Client, s server) []exchange {
	t.Helper()
	const most = 10 // more than any server allows, and more tries than any server needs
	for range most {
		url := s.start(t)
		var answers []exchange
		for range most {
			e := ask(t, client, url)
			answers = append(answers, e)
			if e.status == http.StatusTooManyRequests {
				break
			}
			require.Equal(t, http.StatusOK, e.status)
		}
		end := answers[len(answers)-1]
		if s.within == 0 || end.received.Sub(answers[0].sent) < s.within {
			require.Equal(t, http.StatusTooManyRequests, end.status, "no request was refused")
			return answers
		}
	}
	require.FailNow(t, "too slow")
	return nil
}

// An exchange is one request and its response.
type exchange struct {
	sent, received time.Time
	status         int
	header         http.Header
	advice         ratelimit.Advice
}

func ask(t *testing.T, client *http.Client, url string) exchange {
	t.Helper()
	e := exchange{sent: time.Now()}
	resp, err := client.Get(url)
	require.NoError(t, err)
	e.received = time.Now()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	e.status, e.header = resp.StatusCode, resp.Header
	e.advice = ratelimit.Advisor{MaxWait: 24 * time.Hour}.Advise(resp, e.received)
	return e
}

// describe returns the limits and the wait of a response, in the form of the table of servers.
func describe(a ratelimit.Advice, dialect string) string {
	var parts []string
	f := a.Fields
	known := map[string]bool{}
	for _, l := range f.Limits {
		p, ok := f.PolicyOf(l)
		if !ok {
			p = ratelimit.Policy{Quota: ratelimit.Unknown}
		}
		known[l.Name] = true
		parts = append(parts, describeLimit(p, l))
	}
	for _, p := range f.Policies {
		if !known[p.Name] {
			parts = append(parts, describeLimit(p, ratelimit.Limit{Name: p.Name, Remaining: ratelimit.Unknown}))
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" && f.Dialect != dialect {
		text = f.Dialect + ": " + text
	}
	if f.Guessed {
		text += " guessed"
	}
	if a.Source != ratelimit.SourceNone {
		text += fmt.Sprintf("; wait=%d by %v", int64(math.Ceil(a.Wait.Seconds())), a.Source)
	}
	return text
}

func describeLimit(p ratelimit.Policy, l ratelimit.Limit) string {
	count := func(n int64) string {
		if n == ratelimit.Unknown {
			return "?"
		}
		return strconv.FormatInt(n, 10)
	}
	text := l.Name + " " + count(l.Remaining) + "/" + count(p.Quota)
	if p.Unit != "" {
		text += " qu=" + string(p.Unit)
	}
	if w, ok := p.Window.Value(); ok {
		text += fmt.Sprint(" w=", w)
	}
	if r, ok := l.Reset.Value(); ok {
		text += fmt.Sprint(" t=", r)
	}
	for _, key := range [][]byte{p.PartitionKey, l.PartitionKey} {
		if key != nil {
			text += " pk=" + string(key)
		}
	}
	for _, params := range []ratelimit.Params{p.Params, l.Params} {
		for _, param := range params {
			text += fmt.Sprint(" ", param.Key, "=", param.Value)
		}
	}
	return text
}

// agree reports whether two descriptions are equal. Times may differ by a second, and may be
// lower by the time since the first request.
func agree(want, got string, passed time.Duration) bool {
	wants, gots := strings.Fields(want), strings.Fields(got)
	if len(wants) != len(gots) {
		return false
	}
	for i := range wants {
		if wants[i] == gots[i] {
			continue
		}
		wantKey, w := timeOf(wants[i])
		gotKey, g := timeOf(gots[i])
		if wantKey == "" || wantKey != gotKey || g > w+1 || float64(g) < float64(w)-passed.Seconds()-1 {
			return false
		}
	}
	return true
}

// timeOf splits t=60 and wait=60 into the number and the rest of the word. It returns "" for
// any other word.
func timeOf(word string) (rest string, n int64) {
	key, value, _ := strings.Cut(word, "=")
	digits := strings.TrimRight(value, ",;")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || (key != "t" && key != "wait") {
		return "", 0
	}
	return key + value[len(digits):], n
}
