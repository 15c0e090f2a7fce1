package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// An oddity is a special behaviour of a server in addition to its limits. The zero oddity has
// no effect.
type oddity struct {
	fails      float64       // the part of the responses that are 500 but count
	shard      float64       // the part of the requests that get 503 and Retry-After for another reason
	shardWait  time.Duration // that Retry-After
	redirects  float64       // the part of the jobs that are redirected to another path
	body       time.Duration // the time for the body, after the head
	stored     float64       // the part of the requests that a cache serves, if it has a response
	storedFor  time.Duration // how long the cache keeps a response
	storedAged bool          // whether the cache writes Age

	cache *cache
}

// answer simulates the network in front of the server for a request.
func (o *oddity) answer(s *server, req *http.Request, rnd *rand.Rand) (*http.Response, error) {
	if o.stored > 0 && rnd.Float64() < o.stored {
		if resp := o.cache.get(req, o.storedFor, o.storedAged); resp != nil {
			return resp, nil
		}
	}
	if o.shard > 0 && rnd.Float64() < o.shard {
		resp := answerOf(req, http.StatusServiceUnavailable)
		resp.Header.Set("Retry-After", strconv.Itoa(int(o.shardWait.Seconds())))
		return resp, nil
	}
	resp, err := s.serve(req, rnd)
	if err == nil && o.stored > 0 && resp.StatusCode == http.StatusOK {
		o.cache.put(resp)
	}
	return resp, err
}

// spoil replaces the response to a served request by a failure or a redirection.
func (o *oddity) spoil(resp *http.Response, rnd *rand.Rand) {
	if o.fails > 0 && rnd.Float64() < o.fails {
		resp.StatusCode = http.StatusInternalServerError
		return
	}
	if o.redirects == 0 || resp.Request.URL.Path != "/" {
		return
	}
	if job, _ := strconv.Atoi(resp.Request.Header.Get(jobField)); float64(job%100) < 100*o.redirects {
		resp.StatusCode = http.StatusTemporaryRedirect
		resp.Header.Set("Location", "/moved")
	}
}

// A cache is the store of a CDN, with one response.
type cache struct {
	mu     sync.Mutex
	header http.Header
	at     time.Time
}

func (c *cache) put(resp *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, c.at = resp.Header.Clone(), time.Now()
}

func (c *cache) get(req *http.Request, lifetime time.Duration, aged bool) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.at)
	if c.header == nil || age > lifetime {
		return nil
	}
	resp := answerOf(req, http.StatusOK)
	resp.Header = c.header.Clone()
	if aged {
		resp.Header.Set("Age", strconv.Itoa(int(age.Seconds())))
	}
	return resp
}

// A slowBody arrives some time after its head.
type slowBody struct {
	ctx   context.Context
	takes time.Duration
	end   func() // has an effect once
}

func (b *slowBody) Read([]byte) (int, error) {
	defer b.end()
	select {
	case <-time.After(b.takes):
		b.takes = 0
		return 0, io.EOF
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
}

func (b *slowBody) Close() error {
	b.end()
	return nil
}

// A front is what is in front of a limiter. Each of the functions may be nil.
type front struct {
	limiter
	tick  func(now time.Time)                         // is called before anything else
	shut  func(now time.Time) time.Duration           // returns how long all requests are refused
	took  func(now time.Time, ok bool)                // is called after a request was served or refused
	show  func(now time.Time, states []state) []state // returns what is announced
	delay func() time.Duration                        // returns how long the request that was served last is delayed
}

func (l *front) refuses(now time.Time) time.Duration {
	if l.tick != nil {
		l.tick(now)
	}
	if l.shut == nil {
		return 0
	}
	return l.shut(now)
}

func (l *front) wait(now time.Time, costs []cost) time.Duration {
	shut := l.refuses(now)
	return max(shut, l.limiter.wait(now, costs))
}

func (l *front) take(now time.Time, costs []cost, served bool) (done func()) {
	if served || l.refuses(now) == 0 {
		done = l.limiter.take(now, costs, served)
	}
	if l.took != nil {
		l.took(now, served)
	}
	return done
}

func (l *front) state(now time.Time) []state {
	if l.tick != nil {
		l.tick(now)
	}
	states := l.limiter.state(now)
	if l.show != nil {
		states = l.show(now, states)
	}
	return states
}

// withOthers returns a limiter from which other clients also take: a batch of requests with these
// costs, after each gap.
func withOthers(l limiter, gap time.Duration, batch int, costs []cost) limiter {
	var next time.Time
	return &front{limiter: l, tick: func(now time.Time) {
		if next.IsZero() {
			next = now.Add(gap)
		}
		for ; !next.After(now); next = next.Add(gap) {
			for range batch {
				if _, done := try(l, next, costs); done != nil {
					done()
				}
			}
		}
	}}
}

// changing returns a limiter that becomes another one after a time: after a change of the plan, or
// at night, if it changes back, and so on.
func changing(first, second limiter, every time.Duration, back bool) limiter {
	l := &front{limiter: first}
	l.tick = func(now time.Time) {
		l.limiter = second
		if periods := int(now.Sub(epoch) / every); periods == 0 || back && periods%2 == 0 {
			l.limiter = first
		}
	}
	return l
}

// renamed returns a limiter with other names for its policies, as different paths may have.
func renamed(l limiter, suffix string) limiter {
	return &front{limiter: l, show: func(_ time.Time, states []state) []state {
		for i := range states {
			states[i].policy.Name += suffix
		}
		return states
	}}
}
