package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goast "go/ast"
	"go/importer"
	goparser "go/parser"
	"go/token"
	"go/types"

	"github.com/stretchr/testify/require"
)

// The files of the machine use no other identifier of this package: they are a package
// by themselves.
func TestMachineAlone(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("machine*.go")
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	require.Contains(t, names, "machine.go")
	positions := token.NewFileSet()
	var files []*goast.File
	for _, name := range names {
		f, err := goparser.ParseFile(positions, name, nil, goparser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	config := types.Config{Importer: importer.ForCompiler(positions, "source", nil)}
	_, err = config.Check("machine", positions, files, nil)
	require.NoError(t, err)
}

const tokenFields = `RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=`

func TestTryEnter(t *testing.T) {
	t.Run("the key that is not held back", func(t *testing.T) {
		var g Gate
		for range 100 {
			p, until := g.TryEnter("")
			require.NotNil(t, p)
			require.Zero(t, until)
		}
		require.Empty(t, g.keys)
	})
	inBubble(t, "it does not overtake those that wait", func(t *testing.T) {
		start := time.Now()
		var g Gate
		entered(t, &g, "a", tokenFields+"20;t=1", Cost{Unit: "tokens", Units: 40})
		var all sync.WaitGroup
		all.Go(func() { entered(t, &g, "a", tokenFields+"0;t=1", Cost{Unit: "tokens", Units: 50}) })
		synctest.Wait()
		p, until := g.TryEnter("a", Cost{Unit: "tokens", Units: 1})
		require.Nil(t, p)
		require.Equal(t, 30*time.Second, until.Sub(start))
		all.Wait()
		require.Equal(t, 30*time.Second, time.Since(start))
	})
	inBubble(t, "asked again at that time, it goes in the end", func(t *testing.T) {
		for _, fields := range []string{"a r=0;t=7", "429", "a r=1", "429; Retry-After: 5", tokenFields + "0;t=1", "a r=9;t=1; Retry-After: 3"} {
			var g Gate
			entered(t, &g, "a", fields, Cost{Unit: "tokens", Units: 1000})
			goes := 0
			for tries := 0; goes < 10 && tries < 1000; tries++ {
				p, until := g.TryEnter("a", Cost{Unit: "tokens", Units: 3})
				if p != nil {
					goes++
					continue
				}
				require.True(t, until.After(time.Now()), fields)
				time.Sleep(time.Until(until))
			}
			require.Equal(t, 10, goes, fields)
		}
	})
	inBubble(t, "behind one whose turn has come", func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "a r=0;t=7")
		var all sync.WaitGroup
		all.Go(func() { entered(t, &g, "a", "a r=5;t=60") })
		synctest.Wait()
		g.mu.Lock()
		for _, e := range g.keys {
			e.timer.Stop() // as if it had not rung yet
		}
		g.mu.Unlock()
		time.Sleep(10 * time.Second)
		p, until := g.TryEnter("a")
		require.Nil(t, p, "the other is the probe")
		require.True(t, until.After(time.Now()))
		all.Wait()
	})
	inBubble(t, "all keys wait", func(t *testing.T) {
		var g Gate
		for i := range maxKeys {
			entered(t, &g, fmt.Sprint(i), "a r=0;t=60")
		}
		p, until := g.TryEnter("another")
		require.NotNil(t, p)
		require.Zero(t, until)
		p.Answered(advised("a r=0;t=60"), time.Now())
	})
}

// What Waiting returns is called when the wait is over, once, whatever ends it.
func TestWaitingDone(t *testing.T) {
	var events []string
	listener := func(name string) func(time.Time) func() {
		return func(until time.Time) func() {
			events = append(events, name+" waits")
			return func() { events = append(events, name+" is done") }
		}
	}
	both := []string{"transport waits", "gate waits", "gate is done", "transport is done"}
	newTransport := func(lines ...string) *Transport {
		events = nil
		request, gate := listener("transport"), listener("gate")
		return &Transport{
			Base:    newScript(lines...),
			Gate:    &Gate{Waiting: func(key string, until time.Time, _ Advice) func() { return gate(until) }},
			Waiting: func(_ *http.Request, until time.Time, _ Advice) func() { return request(until) },
			Observe: func(*http.Request, Advice) { events = append(events, "observed") },
		}
	}
	send := func(t *testing.T, rt *Transport, timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		return err
	}
	for _, tc := range []struct {
		name    string
		lines   []string
		timeout time.Duration
		fails   bool
		want    []string
	}{
		{"it goes", []string{"Retry-After: 5", "", ""}, time.Minute, false, both},
		{"refused at once", []string{"Retry-After: 5", ""}, time.Second, true, both},
		{"no wait", []string{"", ""}, time.Second, false, nil},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			rt := newTransport(tc.lines...)
			require.NoError(t, send(t, rt, time.Minute))
			events = nil
			require.Equal(t, tc.fails, send(t, rt, tc.timeout) != nil)
			require.Equal(t, tc.want, events)
		})
	}
	inBubble(t, "cancelled", func(t *testing.T) {
		rt := newTransport("Retry-After: 5", "")
		require.NoError(t, send(t, rt, time.Minute))
		events = nil
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, both, events)
	})
	inBubble(t, "a redirection that asks for a wait", func(t *testing.T) {
		rt := newTransport("HTTP/1.1 303 See Other\nLocation: /a\nRetry-After: 5", "")
		rt.Observe = nil
		resp, err := (&http.Client{Transport: rt}).Get(example)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, both, events)

		rt = newTransport("HTTP/1.1 303 See Other\nLocation: /a\nRetry-After: 0", "")
		rt.Observe = nil
		resp, err = (&http.Client{Transport: rt}).Get(example)
		require.NoError(t, err)
		resp.Body.Close()
		require.Empty(t, events, "there is nothing to wait for")
	})
	t.Run("panics", func(t *testing.T) {
		for _, at := range []string{"gate waits", "gate is done", "transport is done"} {
			synctest.Test(t, func(t *testing.T) {
				rt := newTransport("Retry-After: 5", "")
				note := func(event string) {
					events = append(events, event)
					if event == at {
						panic(at)
					}
				}
				rt.Gate.Waiting = func(string, time.Time, Advice) func() {
					note("gate waits")
					return func() { note("gate is done") }
				}
				rt.Waiting = func(*http.Request, time.Time, Advice) func() {
					note("transport waits")
					return func() { note("transport is done") }
				}
				require.NoError(t, send(t, rt, time.Minute))
				events = nil
				require.PanicsWithValue(t, at, func() { _ = send(t, rt, time.Minute) })
				require.Contains(t, events, "transport is done", "whatever panics")
				e := entryOf(rt, "api.example")
				require.Zero(t, e.machine.under.n)
				require.Zero(t, e.queue.n)
			})
		}
	})
}

// A Waiting that blocks holds back its caller alone.
func TestWaitingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "Retry-After: 5")
		start := time.Now()
		var mu sync.Mutex
		first := true
		g.Waiting = func(string, time.Time, Advice) func() {
			mu.Lock()
			blocks := first
			first = false
			mu.Unlock()
			if blocks {
				time.Sleep(time.Hour)
			}
			return nil
		}
		var all sync.WaitGroup
		all.Go(func() { entered(t, &g, "a", "") })
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				entered(t, &g, "a", "")
				require.Equal(t, 5*time.Second, time.Since(start))
			})
		}
		all.Wait()
		require.Equal(t, time.Hour, time.Since(start))
	})
}

// Whose context ends hears of its cause; a request that has been sent gets the error of its
// base.
func TestEnterCause(t *testing.T) {
	inBubble(t, "with a cause of the caller's own", func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "a r=1;t=60")
		under := enter(t, &g, "a")
		defer under.Failed()
		late := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		_, err := g.Enter(ctx, "a")
		require.Equal(t, late, err)
	})
	inBubble(t, "sent", func(t *testing.T) {
		rt := &Transport{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(newRequest(t, example).WithContext(ctx))
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

// An answer from the future lasts no longer than one that arrives now.
func TestAnsweredInFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		p := enter(t, &g, "a")
		p.Answered(advised("Retry-After: 5"), time.Now().Add(1e6*time.Hour))
		start := time.Now()
		entered(t, &g, "a", "")
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

// Forget knows a key by the text that Enter and Transport use for it, and an origin
// stands for the keys that KeyBy has made of it.
func TestForgetOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Base: newScript("Retry-After: 60"), Gate: new(Gate), Key: KeyBy("Authorization")}
		byUser := func(address, user string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req := newRequest(t, address).WithContext(ctx)
			if user != "" {
				req.Header.Set("Authorization", user)
			}
			_, err := rt.RoundTrip(req)
			return err
		}
		waits := func(address, user string) bool { return errors.As(byUser(address, user), new(*WaitError)) }
		for _, address := range []string{"https://api.example/", "https://api.example:8443/", "http://api.example/"} {
			for _, user := range []string{"", "a", "b"} {
				require.False(t, waits(address, user))
				require.True(t, waits(address, user))
			}
		}
		rt.Gate.Forget("https://api.example")
		for _, user := range []string{"", "a", "b"} {
			require.False(t, waits("https://api.example/", user))
			require.True(t, waits("https://api.example:8443/", user))
			require.True(t, waits("http://api.example/", user))
		}
	})
}

// One Gate for two Transports and a client of another protocol.
func TestSharedGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{MaxWait: time.Minute}
		one := &Transport{Base: newScript("Retry-After: 600"), Gate: g, Advisor: Advisor{MaxWait: time.Second}}
		other := &Transport{Base: newScript(""), Gate: g}
		require.NoError(t, get(t, one, example))
		start := time.Now()
		p, until := g.TryEnter("http://api.example")
		require.Nil(t, p)
		require.Equal(t, time.Minute, until.Sub(start), "what is asked for, cut by the Gate")
		require.NoError(t, get(t, other, example))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// What Cost returns counts, and the refusals that only Advisor.Refused tells.
func TestTransportCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(`RateLimit-Policy: "t";q=60;w=60;qu="tokens"` + "\n" + `RateLimit: "t";r=10;t=1`)
		rt := &Transport{Base: s, Cost: func(*http.Request) []Cost { return []Cost{{Unit: "tokens", Units: 20}} }}
		for range 3 {
			require.NoError(t, get(t, rt, example))
		}
		require.Equal(t, seconds(0, 10, 20), s.seen)
	})
}

func TestAdvisorRefused(t *testing.T) {
	secondary := "HTTP/1.1 403 Forbidden\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1800\nX-Body: secondary"
	c := Advisor{Refused: func(resp *http.Response) bool {
		return resp.StatusCode == http.StatusForbidden && resp.Header.Get("X-Body") == "secondary"
	}}
	synctest.Test(t, func(t *testing.T) {
		s := newScript(secondary, secondary, "")
		rt := &Transport{Base: s, Advisor: c}
		for range 3 {
			require.NoError(t, get(t, rt, example))
		}
		require.InDelta(t, 0.075, s.seen[1].Seconds(), 0.026, "as after a 429 that asks for no wait")
		require.InDelta(t, 0.11, (s.seen[2] - s.seen[1]).Seconds(), 0.041)
		require.Equal(t, 1, entryOf(rt, "api.example").machine.pool.most)
	})
	a := c.Advise(answer(newRequest(t, example), secondary), arrival)
	require.True(t, a.Refused)
	require.False(t, Advisor{}.Advise(answer(newRequest(t, example), secondary), arrival).Refused)
	require.False(t, c.Advise(answer(newRequest(t, example), "HTTP/1.1 403 Forbidden"), arrival).Refused)
	err := c.CheckResponse(answer(newRequest(t, example), secondary), arrival)
	require.ErrorAs(t, err, new(*RefusedError))
}

// Times keep the precision that the response had.
func TestExactTimes(t *testing.T) {
	for _, tc := range []struct {
		name       string
		lines      string
		wait, pace time.Duration
		reset      int64
	}{
		{"OpenAI", "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 120ms", 120 * time.Millisecond, 0, 1},
		{"more than a minute", "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1m12.5s", 72500 * time.Millisecond, 0, 73},
		{"a pace", "x-ratelimit-remaining-requests: 5\nx-ratelimit-reset-requests: 120ms", 0, 24 * time.Millisecond, 1},
		{"a fraction", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 0.25", 250 * time.Millisecond, 0, 1},
		{"milliseconds by the name", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: 1250", 1250 * time.Millisecond, 0, 2},
		{"Unix milliseconds", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230001250", 1250 * time.Millisecond, 0, 2},
		{"Unix milliseconds, from Date", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795230001250\nDate: Sat, 21 Nov 2026 03:00:01 GMT", 250 * time.Millisecond, 0, 1},
		{"a timestamp", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-11-21T03:00:00.75Z", 750 * time.Millisecond, 0, 1},
		{"past", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-11-21T02:59:59.75Z", 0, 0, 0},
		{"whole seconds", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 12", 12 * time.Second, 0, 12},
		{"Retry-After", "Retry-After: 0.25", 250 * time.Millisecond, 0, 0},
		{"more than anybody counts", "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 99999999.5", 99999999500 * time.Millisecond, 0, 100000000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1795230000, 0)
			resp := answer(newRequest(t, example), tc.lines)
			a := Advisor{MaxWait: 1e6 * time.Hour}.Advise(resp, now)
			if tc.name == "more than anybody counts" {
				require.GreaterOrEqual(t, a.Wait, tc.wait)
				return
			}
			require.Equal(t, tc.wait, a.Wait)
			require.Equal(t, tc.pace, a.Pace)
			if len(a.Fields.Limits) > 0 {
				require.Equal(t, SecondsOf(tc.reset), a.Fields.Limits[0].Reset)
				require.Nil(t, a.Fields.Writable().exact)
			}
		})
	}
	t.Run("not of a limit that has changed since", func(t *testing.T) {
		f := Fields{Limits: []Limit{{Reset: SecondsOf(1)}, {Reset: SecondsOf(9)}}, exact: []time.Duration{120 * time.Millisecond}}
		d, ok := f.reset(0)
		require.True(t, ok)
		require.Equal(t, 120*time.Millisecond, d)
		f.Limits[0].Reset = SecondsOf(2)
		d, _ = f.reset(0)
		require.Equal(t, 2*time.Second, d)
		d, _ = f.reset(1)
		require.Equal(t, 9*time.Second, d)
	})
	inBubble(t, "the gate", func(t *testing.T) {
		s := newScript("x-ratelimit-limit-requests: 9\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 120ms")
		rt := &Transport{Base: s}
		for range 3 {
			require.NoError(t, get(t, rt, example))
		}
		require.Equal(t, times(0, 120, 240), s.seen)
	})
}

// Errors name the limit, quoted and cut, and nothing else of the fields.
func TestWaitErrorText(t *testing.T) {
	until := time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		e    WaitError
		want string
	}{
		{"no limit", WaitError{Until: until}, "the wait at 2026-11-21T03:00:00Z"},
		{"no time", WaitError{}, "the end of the wait"},
		{"a limit", WaitError{Until: until, Advice: Advice{Source: SourceLimit, Limit: Limit{Name: "burst"}}}, `03:00:00Z, limit "burst"`},
		{"not printable", WaitError{Until: until, Advice: Advice{Source: SourceLimit, Limit: Limit{Name: "a\nb\u00e9"}}}, `limit "a\nb\u00e9"`},
		{"long", WaitError{Advice: Advice{Source: SourceWindow, Limit: Limit{Name: strings.Repeat("x", 500)}}}, `limit "` + strings.Repeat("x", maxKeptName) + `"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.True(t, strings.HasPrefix(tc.e.Error(), "ratelimit: not sent: the deadline is before the end of the wait"))
			require.True(t, strings.HasSuffix(tc.e.Error(), tc.want), tc.e.Error())
		})
	}
}
