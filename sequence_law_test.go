package ratelimit

import (
	"flag"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/text"
	"github.com/stretchr/testify/require"
)

// A limiter of these tests is honest: it announces its numbers, and enforces them.
type limiter interface {
	left(now time.Time) (f Fields, ok bool) // whether one more may pass
	take(now time.Time)
	done() // a request that was taken has ended
}

// fixed counts in windows, which begin at multiples of the window, or else with the
// first request. A request costs one or more.
type fixed struct {
	name    string
	quota   int64
	cost    int64
	unit    Unit // of its own where a request costs more than one
	window  time.Duration
	aligned bool
	used    int64
	end     time.Time
}

func (l *fixed) left(now time.Time) (Fields, bool) {
	if !now.Before(l.end) {
		l.used, l.end = 0, time.Time{}
		if l.aligned {
			l.end = now.Truncate(l.window).Add(l.window)
		}
	}
	left := l.end.Sub(now)
	if l.end.IsZero() {
		left = 0
	}
	f := FixedWindow{l.name, l.quota, l.used, l.window, left}.Fields()
	f.Policies[0].Unit = l.unit
	return f, l.used+max(l.cost, 1) <= l.quota
}

func (l *fixed) take(now time.Time) {
	if l.used += max(l.cost, 1); l.end.IsZero() {
		l.end = now.Add(l.window)
	}
}

func (*fixed) done() {}

// pail is a token bucket. If full is set, its reset is when all tokens are back, as GCRA
// limiters often announce. Otherwise its reset is when the next token is back.
type pail struct {
	name      string
	burst     int64
	perSecond float64
	full      bool
	inside    float64
	last      time.Time
}

func (l *pail) left(now time.Time) (Fields, bool) {
	if l.last.IsZero() {
		l.inside = float64(l.burst)
	} else {
		l.inside = min(l.inside+now.Sub(l.last).Seconds()*l.perSecond, float64(l.burst))
	}
	l.last = now
	f := TokenBucket{l.name, l.burst, l.perSecond, l.inside}.Fields()
	if l.full {
		f.Limits[0].Reset = SecondsOf(int64(math.Ceil((float64(l.burst) - l.inside) / l.perSecond)))
	}
	return f, l.inside >= 1
}

func (l *pail) take(time.Time) { l.inside-- }
func (*pail) done()            {}

// sliding is a log of the requests of the last window. Its reset is when the oldest request
// leaves the window or, if all is set, when the last one does.
type sliding struct {
	name   string
	quota  int64
	window time.Duration
	all    bool
	log    []time.Time
}

func (l *sliding) left(now time.Time) (Fields, bool) {
	l.log = slices.DeleteFunc(l.log, func(t time.Time) bool { return now.Sub(t) >= l.window })
	var left time.Duration
	if n := len(l.log); n > 0 {
		at := l.log[0]
		if l.all {
			at = l.log[n-1]
		}
		left = at.Add(l.window).Sub(now)
	}
	return FixedWindow{l.name, l.quota, int64(len(l.log)), l.window, left}.Fields(), int64(len(l.log)) < l.quota
}

func (l *sliding) take(now time.Time) { l.log = append(l.log, now) }
func (*sliding) done()                {}

// weighted counts the previous window as if its requests were spread evenly.
type weighted struct {
	name         string
	quota        int64
	window       time.Duration
	start        time.Time
	before, used int64
}

func (l *weighted) left(now time.Time) (Fields, bool) {
	start := now.Truncate(l.window)
	switch start.Sub(l.start) {
	case 0:
	case l.window:
		l.before, l.used = l.used, 0
	default:
		l.before, l.used = 0, 0
	}
	l.start = start
	left := l.window - now.Sub(start)
	used := l.used + int64(math.Ceil(float64(l.before)*left.Seconds()/l.window.Seconds()))
	return FixedWindow{l.name, l.quota, used, l.window, left}.Fields(), used < l.quota
}

func (l *weighted) take(time.Time) { l.used++ }
func (*weighted) done()            {}

// slots is a limit of concurrent requests.
type slots struct {
	name       string
	most, used int64
}

func (l *slots) left(time.Time) (Fields, bool) {
	return oneLimit(Policy{Name: l.name, Quota: l.most, Unit: ConcurrentRequests}, Limit{Name: l.name, Remaining: l.most - l.used}), l.used < l.most
}

func (l *slots) take(time.Time) { l.used++ }
func (l *slots) done()          { l.used-- }

// randomLimiter returns an honest limiter of any kind, the ith of a host. Except for slots,
// all limiters of a host have different quotas, because clients of draft-06 distinguish
// limiters by quota.
func randomLimiter(rnd *rand.Rand, i int) limiter {
	name, quota := string(rune('a'+i)), int64(1+i+3*rnd.IntN(13))
	window := time.Duration(500+rnd.IntN(30000)) * time.Millisecond
	flag := rnd.IntN(2) == 0
	switch rnd.IntN(9) {
	case 0, 1:
		cost := int64(1 + rnd.IntN(3))
		unit := Unit("")
		if cost > 1 {
			unit = "cost"
		}
		for quota < cost {
			quota += 3 // the step of quotas, so that no other limiter has this one
		}
		return &fixed{name: name, quota: quota, cost: cost, unit: unit, window: window, aligned: flag}
	case 2, 3:
		return &pail{name: name, burst: quota, perSecond: float64(quota) / window.Seconds(), full: flag}
	case 4, 5:
		return &sliding{name: name, quota: quota, window: window, all: flag}
	case 6, 7:
		return &weighted{name: name, quota: quota, window: window.Round(time.Second) + time.Second}
	}
	return &slots{name: name, most: 1 + quota%5}
}

// A host is a server with honest limiters. It writes their numbers in one form.
type host struct {
	mu       sync.Mutex
	limiters []limiter
	form     string
	retry    bool // refusals have a Retry-After
	silent   bool // and nothing else
	down     bool // resets are rounded down
}

// forms are the forms of a host's announcements. The older forms have only the tightest limit.
var forms = []string{"current", "current and x-ratelimit", "x-ratelimit", "x-ratelimit-unix", "draft-06", "draft-07"}

// serve returns the response of a request that takes a while.
func (h *host) serve(takes time.Duration) *http.Response {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, passes := time.Now(), true
	for _, l := range h.limiters {
		_, ok := l.left(now)
		passes = passes && ok
	}
	var f Fields
	for _, l := range h.limiters {
		if passes {
			l.take(now)
			time.AfterFunc(takes, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				l.done()
			})
		}
		of, _ := l.left(now)
		if n, ok := of.Limits[0].Reset.Value(); ok && h.down {
			of.Limits[0].Reset = SecondsOf(max(n-1, 0))
		}
		f = f.Join(of)
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}}
	if !passes {
		resp.StatusCode = http.StatusTooManyRequests
		if h.retry {
			f.SetRetryAfter(resp.Header)
		}
		if h.silent && resp.Header.Get(text.RetryAfterKey) != "" {
			return resp
		}
	}
	h.write(resp.Header, f, now)
	return resp
}

func (h *host) write(header http.Header, f Fields, now time.Time) {
	name, both := strings.CutPrefix(h.form, "current")
	if both {
		if err := f.Set(header); err != nil {
			panic(err)
		}
	}
	if d, ok := LookupDialect(strings.TrimPrefix(name, " and ")); ok {
		if err := d.Set(header, f, now); err != nil {
			panic(err)
		}
	}
}

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
func (c *crowd) drive(rnd *rand.Rand, h *host, s *Sequence, n int) (findings []Finding, trace [][]any) {
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
				resp := h.serve(back)
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
					time.Sleep(Advise(resp, received).Wait)
				}
			}
		})
	}
	wait.Wait()
	return findings, trace
}

// randomHost returns a host with one to three honest limiters.
func randomHost(rnd *rand.Rand) *host {
	h := &host{form: forms[rnd.IntN(len(forms))], retry: rnd.IntN(2) == 0, silent: rnd.IntN(4) == 0, down: rnd.IntN(4) == 0}
	for i := range 1 + rnd.IntN(3) {
		l := randomLimiter(rnd, i)
		if _, ok := l.(*slots); ok && h.form != "current" {
			l = &slots{name: "a", most: 3} // alone: the older forms do not tell its unit
			h.form, h.limiters = "x-ratelimit", []limiter{l}
			break // and the older drafts cannot tell a limit without a reset
		}
		if f, ok := l.(*fixed); ok && !strings.HasPrefix(h.form, "current") {
			f.unit = "" // the older forms have none
		}
		h.limiters = append(h.limiters, l)
	}
	return h
}

// TestRandomHosts: each form can hold the limits of each host, so that TestSequenceHonest runs for
// any number of hosts.
func TestRandomHosts(t *testing.T) {
	for seed := range uint64(60000) {
		h := randomHost(rand.New(rand.NewPCG(seed, 1)))
		require.NotPanics(t, func() { h.serve(0) }, "seed %d", seed)
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
				for _, l := range h.limiters {
					t.Logf("%T %+v", l, l)
				}
				require.Fail(t, "above a note", "seed %d: %s, %+v: %+v", seed, h.form, *c, f)
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
