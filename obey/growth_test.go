package obey

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A clientOf sends one request through a RoundTripper, or returns when to come back.
type clientOf func(t *testing.T, base http.RoundTripper, g *Gate) (until time.Time)

// tryEnter asks a Gate, as a queue of work does.
func tryEnter(t *testing.T, base http.RoundTripper, g *Gate) time.Time {
	pass, until := g.TryEnter(trial.Example)
	if pass != nil {
		resp, err := base.RoundTrip(trial.NewRequest(t, trial.Example))
		require.NoError(t, err)
		pass.Answered(ratelimit.Advise(resp, time.Now()), time.Now())
	}
	return until
}

// briefly sends a request that does not wait for longer than two seconds, and reads the state of the
// key when it fails.
func briefly(t *testing.T, base http.RoundTripper, g *Gate) (until time.Time) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	resp, err := (&Transport{Base: base, Gate: g}).RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx))
	if err == nil {
		require.NoError(t, resp.Body.Close())
		return until
	}
	var early *WaitError
	require.ErrorAs(t, err, &early)
	for key := range g.Keys() {
		w, ok := g.State(key)
		require.True(t, ok)
		if until.Before(w.Until) {
			until = w.Until
		}
	}
	require.Equal(t, early.Until, until)
	return until
}

// amongOthers is briefly, for a client whose requests of another route are served.
func amongOthers(t *testing.T, base http.RoundTripper, g *Gate) (until time.Time) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := (&Transport{Base: base, Gate: g}).RoundTrip(trial.NewRequest(t, trial.Example+served[1:]).WithContext(ctx))
	if err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	return briefly(t, base, g)
}

// served is a path whose requests are served.
const served = "/served"

// Each refused probe makes the next wait 1.5 times as long, up to the wait that the server asks for,
// however late the client comes back.
func TestGrowthOfWaits(t *testing.T) {
	const day = 86400
	left := func(seconds int) func(int, time.Duration) string {
		return func(_ int, passed time.Duration) string {
			return fmt.Sprint("HTTP/1.1 429 \nRetry-After: ", max(seconds-int(passed.Seconds()), 0))
		}
	}
	always := func(lines ...string) func(int, time.Duration) string {
		return func(n int, _ time.Duration) string { return lines[n%len(lines)] }
	}
	const bare, long, short = "HTTP/1.1 429 ", "HTTP/1.1 429 \nRetry-After: 86400", "HTTP/1.1 429 \nRetry-After: 5"
	for _, tc := range []struct {
		name    string
		maxWait time.Duration
		late    time.Duration // after the end of a wait the client comes back
		server  func(n int, passed time.Duration) string
		want    string // waits between requests, without late, in whole seconds
	}{
		{"at once", 10 * time.Minute, 0, left(day), "10m 15m 22m30s 33m45s 50m37s"},
		{"a second later", 10 * time.Minute, time.Second, left(day), "10m 15m 22m30s 33m45s 50m37s"},
		{"a minute later", 10 * time.Minute, time.Minute, left(day), "10m 15m 22m30s 33m45s 50m37s"},
		{"an hour later", 10 * time.Minute, time.Hour, left(day), "10m 15m 22m30s 33m45s"},
		{"waits of a minute", time.Minute, time.Second, left(day), "1m 1m30s 2m15s 3m22s 5m3s 7m35s 11m23s 17m5s"},
		{"waits of 20 minutes", 20 * time.Minute, time.Second, left(day), "20m 30m 45m"},
		{"up to the wait that the server asks for", 10 * time.Minute, 0, left(3600), "10m 15m 22m30s 12m30s"},
		{"the server always asks for as much", 10 * time.Minute, time.Second, always("HTTP/1.1 429 \nRetry-After: 1800"), "10m 15m 22m30s 30m 30m"},
		{"a reset", 10 * time.Minute, time.Second, always("HTTP/1.1 429 \nRateLimit: \"a\";r=0;t=86400"), "10m 15m 22m30s"},
		{"a refusal that asks for less", 10 * time.Minute, time.Second, always(long, long, short), "10m 15m 5s 22m30s 33m45s 5s 50m37s"},
		{"a refusal that asks for no wait", 10 * time.Minute, time.Second, always(long, long, bare), "10m 15m 0s 22m30s 33m45s 0s 50m37s"},
		{"a request that is served", 10 * time.Minute, time.Second, always(long, long, "HTTP/1.1 200 "), "10m 15m 0s 10m 15m"},
	} {
		for name, client := range map[string]clientOf{"Gate": tryEnter, "Transport": briefly, "two routes": amongOthers} {
			trial.InBubble(t, tc.name+", "+name, func(t *testing.T) {
				start, sent := time.Now(), []time.Time(nil)
				base := trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
					if req.URL.Path == served {
						return trial.ResponseOf("HTTP/1.1 200 "), nil
					}
					sent = append(sent, time.Now())
					return trial.ResponseOf(tc.server(len(sent)-1, time.Since(start))), nil
				})
				g, late := &Gate{MaxWait: tc.maxWait}, time.Duration(0)
				client(t, base, g)
				for i, want := range strings.Fields(tc.want) {
					for late = 0; len(sent) == i+1; {
						if until := client(t, base, g); !until.IsZero() {
							late = tc.late
							time.Sleep(time.Until(until) + late)
						}
					}
					wait, err := time.ParseDuration(want)
					require.NoError(t, err)
					require.Equal(t, wait, (sent[i+1].Sub(sent[i]) - late).Truncate(time.Second), "wait %d", i)
				}
			})
		}
	}
}

// A key whose waits have grown gives way to another one when its wait is over.
func TestGrowthGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{MaxKeys: 1}
		pass, _ := g.TryEnter("grown")
		pass.Answered(ratelimit.Advice{Refused: true, Wait: 24 * time.Hour}, time.Now())
		enter := func() []string {
			_, until := g.TryEnter("new")
			require.Zero(t, until)
			return slices.Collect(g.Keys())
		}
		require.Equal(t, []string{"grown"}, enter())
		time.Sleep(ratelimit.DefaultMaxWait)
		require.Equal(t, []string{"new"}, enter())
	})
}
