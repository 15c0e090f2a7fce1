package obey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey/internal/machine"
	"github.com/stretchr/testify/require"
)

// A new request does not overtake a waiting request whose time has come but whose timer has not
// fired. Then it is sent at once too, or waits for a reason that is true after the other was sent.
func TestTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		late := func(fields string) (waits *sync.WaitGroup) {
			waits = new(sync.WaitGroup)
			waits.Go(func() { entered(t, &g, "a", fields) })
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, e := range g.keys {
				e.timer.Stop()
			}
			return waits
		}
		first := enter(t, &g, "a")
		time.Sleep(4 * time.Second) // as long as the fastest response so far
		first.Answered(advised("302; Retry-After: 10"), time.Now())
		waits := late("a r=0;t=7")
		time.Sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := g.Enter(ctx, "a")
		require.NoError(t, err, "it has not waited")
		w, _ := g.State("a")
		require.Zero(t, w.Queued)
		p.Failed()
		waits.Wait()

		waits = late("a r=5;t=60")
		time.Sleep(10 * time.Second)
		pass, until := g.TryEnter("a")
		require.Nil(t, pass, "the other is the probe")
		require.True(t, until.After(time.Now()))
		waits.Wait()

		entered(t, &g, "a", "429; Retry-After: 10")
		waits = late("")
		time.Sleep(10 * time.Second)
		var reasons []string
		g.Waiting = func(w Wait) func() { reasons = append(reasons, string(w.Reason)); return nil }
		enter(t, &g, "a").Failed()
		require.Equal(t, []string{"probe"}, reasons, "the other is the probe again")
		waits.Wait()
	})
}

// A timer that has rung too early is set again.
func TestTimerIsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "302; Retry-After: 10")
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() { enter(t, &g, "a").Failed() })
		synctest.Wait()
		e := g.keys["a"]
		e.timer.Stop()
		e.ring()
		all.Wait()
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

// The function that Waiting returns is called once, when the wait is over, even if something
// panics. The function of the Transport is called last. The response is not passed to it.
func TestWaitingDone(t *testing.T) {
	const (
		both      = "transport waits 5s retry-after, gate waits 5s retry-after, gate is done, transport is done"
		wait      = "RateLimit: \"b\";r=9\nRetry-After: 5"
		gateWaits = "transport waits 5s retry-after, gate waits 5s retry-after"
	)
	for _, tc := range []struct {
		name   string
		first  string        // the first response
		limit  time.Duration // the deadline of the second request, which is before the end of the wait
		cancel time.Duration // when the second request is cancelled
		panics string        // the event that panics
		want   string
	}{
		{name: "it goes", first: wait, want: both},
		{name: "refused at once", first: wait, limit: time.Second, want: both},
		{name: "no wait", first: ""},
		{name: "cancelled", first: wait, cancel: time.Second, want: both},
		{name: "a redirection that asks for a wait", first: seeOther + wait, want: both},
		{name: "a redirection that asks for none", first: seeOther + "Retry-After: 0"},
		{name: "Gate.Waiting panics", first: wait, panics: "gate waits 5s retry-after", want: gateWaits + ", transport is done"},
		{name: "the function of Gate.Waiting panics", first: wait, panics: "gate is done", want: both},
		{name: "the function of Transport.Waiting panics", first: wait, panics: "transport is done", want: both},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			var events []string
			s := newScript(tc.first, "")
			note := func(event string) {
				events = append(events, event)
				if event == tc.panics {
					panic(event)
				}
			}
			waits := func(name string, w Wait) func() {
				require.Zero(t, w.Advice.Fields, "nothing of the response is kept")
				require.Equal(t, "http://api.example", w.Key)
				note(fmt.Sprint(name, " waits ", w.Until.Sub(s.start), " ", w.Reason))
				return func() { note(name + " is done") }
			}
			rt := &Transport{
				Base: s,
				Gate: &Gate{Waiting: func(w Wait) func() { return waits("gate", w) }},
				Waiting: func(req *http.Request, w Wait) func() {
					require.Equal(t, "api.example", req.URL.Host)
					return waits("transport", w)
				},
			}
			client := &http.Client{Transport: rt}
			_, err := client.Do(trial.NewRequest(t, trial.Example))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.limit)
				defer cancel()
			}
			if tc.cancel > 0 {
				time.AfterFunc(tc.cancel, cancel)
			}
			func() {
				defer func() { require.Equal(t, tc.panics != "", recover() != nil) }()
				_, err = rt.RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx))
			}()
			require.Equal(t, tc.limit+tc.cancel > 0, err != nil)
			require.Equal(t, tc.want, strings.Join(events, ", "))
			e := entryOf(rt, "api.example")
			require.Zero(t, e.machine.UnderWay()+e.queue.Len())
		})
	}
}

// A Waiting function that blocks delays only its own request.
func TestWaitingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		entered(t, &g, "a", "302; Retry-After: 5")
		start := time.Now()
		var waiting atomic.Int64
		g.Waiting = func(Wait) func() {
			if waiting.Add(1) == 1 {
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

// If the context of a waiting request ends, the error is the context's cause. If the request has
// already been sent, the error comes from the base.
func TestEnterCause(t *testing.T) {
	trial.InBubble(t, "with a cause of the caller's own", func(t *testing.T) {
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
	trial.InBubble(t, "sent", func(t *testing.T) {
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(trial.NewRequest(t, trial.Example).WithContext(ctx))
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

// Forget finds a key by the text that Enter and Transport use. An origin matches all keys
// that KeyBy has derived from it.
func TestForgetOrigin(t *testing.T) {
	for _, host := range []string{
		"api.example",
		strings.Repeat("a", maxKey-len("https://.example")-len(keyMark)-hashLen) + ".example", // KeyBy's key is as long as a key may be
		strings.Repeat("a", maxKey-len("https://.example")) + ".example",
		strings.Repeat("a", maxKey) + ".example",
	} {
		trial.InBubble(t, strconv.Itoa(len(host)), func(t *testing.T) {
			rt := &Transport{Base: newScript("HTTP/1.1 302 Found\nRetry-After: 60"), Gate: new(Gate), Key: KeyBy("Authorization")}
			byUser := func(address, user string) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				req := trial.NewRequest(t, address).WithContext(ctx)
				if user != "" {
					req.Header.Set("Authorization", user)
				}
				_, err := rt.RoundTrip(req)
				return err
			}
			waits := func(address, user string) bool { return errors.As(byUser(address, user), new(*WaitError)) }
			for _, address := range []string{"https://" + host, "https://" + host + ":8443", "http://" + host} {
				for _, user := range []string{"", "a", "b"} {
					require.False(t, waits(address, user))
					require.True(t, waits(address, user))
				}
			}
			entered(t, rt.Gate, host+"#a", "302; Retry-After: 60")
			rt.Gate.Forget(host)
			pass, _ := rt.Gate.TryEnter(host + "#a")
			require.Nil(t, pass, "the key is the caller's text")
			rt.Gate.Forget("https://" + host)
			for _, user := range []string{"", "a", "b"} {
				require.False(t, waits("https://"+host, user))
				require.True(t, waits("https://"+host+":8443", user))
				require.True(t, waits("http://"+host, user))
			}
		})
	}
}

// Two Transports and a client of another protocol share a Gate.
func TestSharedGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{MaxWait: time.Minute}
		one := &Transport{Base: newScript("HTTP/1.1 302 Found\nRetry-After: 600"), Gate: g, Advisor: ratelimit.Advisor{MaxWait: time.Second}}
		other := &Transport{Base: newScript(""), Gate: g}
		require.NoError(t, get(t, one, trial.Example))
		start := time.Now()
		p, until := g.TryEnter("http://api.example")
		require.Nil(t, p)
		require.Equal(t, time.Minute, until.Sub(start), "the asked wait, cut by the Gate")
		require.NoError(t, get(t, other, trial.Example))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestAdvisorRefused(t *testing.T) {
	secondary := "HTTP/1.1 403 Forbidden\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1800\nX-Body: secondary"
	c := ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
		return 0, resp.StatusCode == http.StatusForbidden && resp.Header.Get("X-Body") == "secondary"
	}}
	synctest.Test(t, func(t *testing.T) {
		s := newScript(secondary, secondary, "")
		rt := &Transport{Base: s, Advisor: c}
		for range 3 {
			require.NoError(t, get(t, rt, trial.Example))
		}
		require.InDelta(t, 0.225, s.seen[1].Seconds(), 0.076, "as after a 429 that asks for no wait")
		require.InDelta(t, 0.34, (s.seen[2] - s.seen[1]).Seconds(), 0.12)
		_, until := rt.gate().TryEnter("http://api.example")
		require.Zero(t, until)
		_, until = rt.gate().TryEnter("http://api.example")
		require.NotZero(t, until, "one may be under way")
	})
	a := c.Advise(answer(trial.NewRequest(t, trial.Example), secondary), trial.Arrival)
	require.True(t, a.Refused)
	require.False(t, ratelimit.Advise(answer(trial.NewRequest(t, trial.Example), secondary), trial.Arrival).Refused)
	require.False(t, c.Advise(answer(trial.NewRequest(t, trial.Example), "HTTP/1.1 403 Forbidden"), trial.Arrival).Refused)
	err := c.CheckResponse(answer(trial.NewRequest(t, trial.Example), secondary), trial.Arrival)
	require.ErrorAs(t, err, new(*ratelimit.RefusedError))
}

// A refusal that asks for a second is obeyed, even if resets of a second are rounded up.
func TestRefusedForASecond(t *testing.T) {
	for name, refusal := range map[string]string{
		"by Advisor.Refused":                   "HTTP/1.1 403 Forbidden",
		"by Retry-After":                       "HTTP/1.1 429 Too Many Requests\nRetry-After: 1",
		"by a limit, what remains is unstated": "HTTP/1.1 429 Too Many Requests\nX-RateLimit-Limit: 5\nX-RateLimit-Reset: 1",
	} {
		trial.InBubble(t, name, func(t *testing.T) {
			s := newScript("HTTP/1.1 200 OK\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: 1", refusal, "")
			rt := &Transport{Base: s, Advisor: ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
				return time.Second, resp.StatusCode == http.StatusForbidden
			}}}
			require.NoError(t, get(t, rt, trial.Example))
			time.Sleep(1500 * time.Millisecond)
			require.NoError(t, get(t, rt, trial.Example))
			require.NoError(t, get(t, rt, trial.Example))
			require.Equal(t, 2500*time.Millisecond, s.seen[2])
		})
	}
}

// While a secondary limit of a minute is in effect, five workers are refused at most five times.
func TestAdvisorRefusedMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, refused := time.Now().Add(time.Minute), 0
		var mu sync.Mutex
		rt := &Transport{
			Advisor: ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
				return time.Until(end), resp.StatusCode == http.StatusForbidden
			}},
			Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				if time.Now().Before(end) {
					mu.Lock()
					defer mu.Unlock()
					refused++
					return answer(req, "HTTP/1.1 403 Forbidden\nX-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1800"), nil
				}
				return answer(req, ""), nil
			}),
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				for time.Now().Before(end.Add(time.Second)) {
					require.NoError(t, get(t, rt, trial.Example))
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, refused, 5)
	})
}

// Errors contain the name of the limit, quoted and cut, and nothing else of the fields.
func TestWaitErrorText(t *testing.T) {
	const early = "ratelimit: not sent: the wait would end too late"
	by := func(source ratelimit.Source, name string) ratelimit.Advice {
		return ratelimit.Advice{Source: source, Limit: ratelimit.Limit{Name: name}}
	}
	for _, tc := range []struct {
		name string
		e    WaitError
		want string
	}{
		{"no limit", WaitError{Until: trial.Arrival}, " at 2026-11-21T03:00:00Z"},
		{"no time", WaitError{}, ""},
		{"a limit", WaitError{Until: trial.Arrival, Advice: by(ratelimit.SourceLimit, "burst")}, ` at 2026-11-21T03:00:00Z, limit "burst"`},
		{"not printable", WaitError{Advice: by(ratelimit.SourceLimit, "a\nb\u00e9")}, `, limit "a\nb\u00e9"`},
		{"long", WaitError{Advice: by(ratelimit.SourceWindow, strings.Repeat("x", 500))}, `, limit "` + strings.Repeat("x", maxName) + `"`},
	} {
		t.Run(tc.name, func(t *testing.T) { require.EqualError(t, &tc.e, early+tc.want) })
	}
}

// Requests that follow redirections are sent before all others, in the order in which they came.
func TestQueueFollowers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first []bool // for each request
		leave int    // the request that leaves before the last comes, or -1
		want  []int
	}{
		{"none", []bool{false, false}, -1, []int{0, 1}},
		{"behind each other", []bool{false, true, true, true}, -1, []int{1, 2, 3, 0}},
		{"between others", []bool{true, false, true, false}, -1, []int{0, 2, 1, 3}},
		{"the last of them leaves", []bool{true, true, false, true}, 1, []int{0, 3, 2}},
		{"the only one leaves", []bool{true, false, true}, 0, []int{2, 1}},
		{"another leaves", []bool{true, false, true}, 1, []int{0, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e line
			waiters := make([]*waiter, len(tc.first))
			for i, first := range tc.first {
				if i == len(tc.first)-1 && tc.leave >= 0 {
					e.dequeue(waiters[tc.leave])
				}
				waiters[i] = &waiter{pass: &Pass{trip: machine.Trip{Follows: first}}}
				e.enqueue(waiters[i])
			}
			var got []int
			for e.queue.Len() > 0 {
				w := e.queue.front()
				e.dequeue(w)
				got = append(got, slices.Index(waiters, w))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// A request that follows a redirection does not wait behind other requests, and Waiting is not
// called.
func TestFollowerDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := 0
		g := Gate{Waiting: func(Wait) func() { waits++; return nil }}
		first := enter(t, &g, "a")
		left := advised("a r=1;t=60")
		first.answered(&left, "", time.Now(), false, true)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = g.Enter(ctx, "a") })
		synctest.Wait()
		_, err := g.enter(t.Context(), []byte("a"), &terms{trip: machine.Trip{Follows: true}})
		require.NoError(t, err)
		require.Equal(t, 1, waits, "of the other request")
		cancel()
		all.Wait()
	})
}

// Spaced requests that follow redirections are sent in the order in which they came.
func TestFollowersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{Pace: true}
		p, _ := g.TryEnter("key")
		resp := answer(nil, "RateLimit: \"l\";r=10;t=10")
		p.Answered(ratelimit.Advise(resp, time.Now()), time.Now())
		sent := make(chan int, 4)
		for i := range 4 {
			go func() {
				_, err := g.enter(t.Context(), []byte("key"), &terms{trip: machine.Trip{Follows: i > 0}})
				if err == nil {
					sent <- i
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, []int{1, 2, 3, 0}, []int{<-sent, <-sent, <-sent, <-sent})
	})
}
