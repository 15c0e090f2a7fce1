package ratelimittest

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/laws"
)

// A crowd sends requests to a host.
type crowd struct {
	workers int
	think   time.Duration // at most, between an answer and the next request
	latency time.Duration // at most, each way
	waits   bool          // after a refusal, as long as it asks
	lost    float64       // part of the answers
	others  int           // clients whose responses the Sequence does not get
}

// drive adds n responses of h to s. It returns the findings, and a trace, which is printed
// only after a failure.
func (c *crowd) drive(rnd *rand.Rand, h *laws.Host, s *Sequence, n int) (findings []Finding, trace [][]any) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	between := func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rnd.Int64N(int64(most) + 1))
	}
	for worker := range c.workers + c.others {
		wait.Go(func() {
			for {
				time.Sleep(between(c.think))
				sent, back := time.Now(), between(c.latency)
				time.Sleep(between(c.latency))
				resp := h.Serve(back)
				time.Sleep(back)
				received := time.Now()
				mu.Lock()
				if n <= 0 {
					mu.Unlock()
					return
				}
				if worker < c.workers {
					n--
					seen := []any{sent, received, resp.StatusCode, resp.Header}
					switch lost := rnd.Float64() < c.lost; {
					case lost && rnd.IntN(2) == 0:
						s.Add(nil, sent, received)
						seen = append(seen, "lost, told")
					case lost:
						seen = append(seen, "lost")
					default:
						found := s.Add(resp, sent, received)
						findings = append(findings, found...)
						seen = append(seen, found)
					}
					trace = append(trace, seen)
				}
				mu.Unlock()
				if resp.StatusCode != http.StatusOK && c.waits {
					time.Sleep(ratelimit.Advise(resp, received).Wait)
				}
			}
		})
	}
	wait.Wait()
	return findings, trace
}

// randomHost returns a host with one to three honest limiters.
func randomHost(rnd *rand.Rand) *laws.Host {
	h := &laws.Host{Form: laws.Forms[rnd.IntN(len(laws.Forms))], Retry: rnd.IntN(2) == 0, Silent: rnd.IntN(4) == 0, Down: rnd.IntN(4) == 0}
	for i := range 1 + rnd.IntN(3) {
		l := laws.RandomLimiter(rnd, i)
		if _, ok := l.(*laws.Slots); ok && h.Form != "current" {
			l = &laws.Slots{Name: "a", Most: 3} // alone: the older forms do not tell its unit
			h.Form, h.Limiters = "x-ratelimit", []laws.Limiter{l}
			break // and the older drafts cannot tell a limit without a reset
		}
		if f, ok := l.(*laws.Fixed); ok && !strings.HasPrefix(h.Form, "current") {
			f.Unit = "" // the older forms have none
		}
		h.Limiters = append(h.Limiters, l)
	}
	return h
}

// TestRandomHosts: each form can hold the limits of each host, so that TestSequenceHonest runs for
// any number of hosts.
func TestRandomHosts(t *testing.T) {
	for seed := range uint64(60000) {
		h := randomHost(rand.New(rand.NewPCG(seed, 1)))
		require.NotPanics(t, func() { h.Serve(0) }, "seed %d", seed)
	}
}

// lawHonest runs a Sequence on a random host of honest limiters. No finding is above a note,
// whatever the host, the network and the client are like.
func lawHonest(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h := randomHost(rnd)
		c := &crowd{workers: 1, waits: rnd.IntN(2) == 0}
		c.think = time.Duration(rnd.IntN(2000)) * time.Millisecond >> rnd.IntN(8)
		c.latency = time.Duration(rnd.IntN(1500)) * time.Millisecond >> rnd.IntN(8)
		if rnd.IntN(2) == 0 {
			c.workers += rnd.IntN(8)
		}
		if rnd.IntN(2) == 0 {
			c.lost = rnd.Float64() / 10
		}
		s := &Sequence{Alone: rnd.IntN(4) > 0}
		if !s.Alone {
			c.others = rnd.IntN(3)
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(time.Hour))))
		findings, trace := c.drive(rnd, h, s, 200)
		for _, f := range findings {
			if f.Level > LevelNote {
				for _, seen := range trace {
					t.Log(seen...)
				}
				for _, l := range h.Limiters {
					t.Logf("%T %+v", l, l)
				}
				require.Fail(t, "above a note", "seed %d: %s, %+v: %+v", seed, h.Form, *c, f)
			}
		}
	})
}

var honestRuns = flag.Uint64("hosts", 400, "hosts of TestSequenceHonest")

// tellingHosts are the seeds of hosts that a simpler model would accuse.
var tellingHosts = []uint64{
	1316, // a request whose response was lost may still be in the log
	1351, // a response of the window before arrives after one of the next window
}

// TestSequenceHonest runs the law for many hosts.
func TestSequenceHonest(t *testing.T) {
	t.Parallel()
	seeds := slices.Clone(tellingHosts)
	for seed := range *honestRuns {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			lawHonest(t, seed)
		})
	}
}
