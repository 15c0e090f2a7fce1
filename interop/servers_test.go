package interop

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
)

// A server is a real rate limiter. It allows 3 requests in 60 seconds, unless the remarks in
// README.md have other numbers. Its row there is the expected reading of its responses.
//
// Times are compared to the second.
type server struct {
	name   string
	module string // README.md shows its version
	start  func(t *testing.T) (url string)

	// within bounds the time for the whole exchange. If the exchange takes longer, the test
	// repeats it. 0 means no bound.
	within time.Duration
}

// servers are all servers that this package reads.
var servers = []server{
	{"go-chi/httprate", "github.com/go-chi/httprate", serve(httprateServer(3, time.Minute, ok)), 0},
	{"ulule/limiter", "github.com/ulule/limiter/v3", serve(ululeServer(3, time.Minute, ok)), 0},
	{"throttled", "github.com/throttled/throttled/v2", serve(throttledServer(throttled.PerMin(3), 3, ok)), 0},
	{"sethvargo/go-limiter", "github.com/sethvargo/go-limiter", serve(goLimiterServer(3, time.Minute, ok)), 0},
	{"tollbooth", "github.com/didip/tollbooth/v8", serve(tollboothServer(3, ok)), time.Second / 3},
	{"fiber", "github.com/gofiber/fiber/v3", fiberServer, 0},
	{"gin-rate-limit", "github.com/JGLTechnologies/gin-rate-limit", serve(ginServer), 0},
	{"express-rate-limit, draft 6", "express-rate-limit", node("express.mjs", "draft-6"), 0},
	{"express-rate-limit, draft 7", "express-rate-limit", node("express.mjs", "draft-7"), 0},
	{"express-rate-limit, draft 8", "express-rate-limit", node("express.mjs", "draft-8"), 0},
	{"express-rate-limit, legacy", "express-rate-limit", node("express.mjs", "legacy"), 0},
	{"express-rate-limit, legacy and draft 8", "express-rate-limit", node("express.mjs", "both"), 0},
	{"express-rate-limit, draft 6, two", "express-rate-limit", node("express.mjs", "draft-6", "two"), 0},
	{"express-rate-limit, draft 7, two", "express-rate-limit", node("express.mjs", "draft-7", "two"), 0},
	{"express-rate-limit, draft 8, two", "express-rate-limit", node("express.mjs", "draft-8", "two"), 0},
	{"express-rate-limit, legacy, two", "express-rate-limit", node("express.mjs", "legacy", "two"), 0},
	{"@fastify/rate-limit", "@fastify/rate-limit", node("fastify.mjs"), 0},
	{"@fastify/rate-limit, draft", "@fastify/rate-limit", node("fastify.mjs", "draft"), 0},
	{"koa-ratelimit", "koa-ratelimit", node("koa.mjs"), 0},
	{"hono-rate-limiter, draft 6", "hono-rate-limiter", node("hono.mjs", "draft-6"), 0},
	{"hono-rate-limiter, draft 7", "hono-rate-limiter", node("hono.mjs", "draft-7"), 0},
	{"hono-rate-limiter, draft 8", "hono-rate-limiter", node("hono.mjs", "draft-8"), 0},
	{"rate-limiter-flexible", "rate-limiter-flexible", node("flexible.mjs"), 0},
	{"@nestjs/throttler", "@nestjs/throttler", node("nest.mjs"), 0},
	{"@nestjs/throttler, two, the first refuses", "@nestjs/throttler", node("nest.mjs", "first"), 0},
	{"@nestjs/throttler, two, the second refuses", "@nestjs/throttler", node("nest.mjs", "second"), 0},
	{"hapi-rate-limit", "hapi-rate-limit", node("hapi.mjs"), 0},
	{"moleculer-web", "moleculer-web", node("moleculer.mjs"), 0},
}

// readServer sends requests to a server until it refuses one. It compares the readings with the
// row of README.md, and returns the row. The row keeps the readings that agree.
func readServer(t *testing.T, s server, old []string) (row []string) {
	if old == nil {
		old = make([]string, 7) // of a new server
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answers := exhaust(t, client, s)
	last := len(answers) - 1
	require.GreaterOrEqual(t, last, 2, "the first request, or the second, was refused")

	form := answers[0].advice.Fields.Dialect
	row = []string{s.name, version(t, s.module), form}
	for i, e := range []exchange{answers[0], answers[last-1], answers[last]} {
		_, err := ratelimit.ParseAny(e.header, ratelimit.LegacyOptions{Now: e.received})
		require.NoError(t, err)
		require.Equal(t, e.status == http.StatusTooManyRequests, e.advice.Refused)
		requireRetryAfter(t, e)
		got, want := describe(e.advice, form), strings.Trim(old[3+i], "`")
		if agree(want, got, e.received.Sub(answers[0].sent)) {
			got = want
		}
		row = append(row, "`"+got+"`")
	}
	row = append(row, old[6])
	if !*trial.Update {
		require.Equal(t, old, row)
	}
	return row
}

// requireRetryAfter requires that Retry-After decides, except on a success with a remaining quota.
func requireRetryAfter(t *testing.T, e exchange) {
	t.Helper()
	wait, ok := ratelimit.ParseRetryAfter(e.header, e.received)
	if e.status/100 == 2 && e.advice.Source == ratelimit.SourceNone {
		return
	}
	require.Equal(t, e.advice.Source == ratelimit.SourceRetryAfter, ok)
	if ok {
		require.Equal(t, e.advice.Wait, wait)
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
	f := a.Fields
	if f.Dialect == dialect {
		f.Dialect = ""
	}
	text := f.String()
	if a.Source != ratelimit.SourceNone {
		text += fmt.Sprintf("; wait=%d by %v", int64(math.Ceil(a.Wait.Seconds())), a.Source)
	}
	return text
}

var seconds = regexp.MustCompile(`\b(t|wait)=(\d+)`)

// agree reports whether two descriptions are equal. Times may differ by a second, and may be
// lower by the time since the first request.
func agree(want, got string, passed time.Duration) bool {
	if seconds.ReplaceAllString(want, "$1") != seconds.ReplaceAllString(got, "$1") {
		return false
	}
	gots := seconds.FindAllStringSubmatch(got, -1)
	for i, m := range seconds.FindAllStringSubmatch(want, -1) {
		w, _ := strconv.ParseFloat(m[2], 64)
		g, _ := strconv.ParseFloat(gots[i][2], 64)
		if g > w+1 || g < w-passed.Seconds()-1 {
			return false
		}
	}
	return true
}
