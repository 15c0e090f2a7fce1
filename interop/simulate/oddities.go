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
	end   func() // called once
	once  sync.Once
}

func (b *slowBody) Read([]byte) (int, error) {
	defer b.once.Do(b.end)
	select {
	case <-time.After(b.takes):
		b.takes = 0
		return 0, io.EOF
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
}

func (b *slowBody) Close() error {
	b.once.Do(b.end)
	return nil
}

// A crowd is a limiter from which other clients also take, at regular times.
type crowd struct {
	limiter
	gap   time.Duration
	batch int       // how many come at the same time
	next  time.Time // when the next ones come
}

func (l *crowd) pass(now time.Time) {
	if l.next.IsZero() {
		l.next = now.Add(l.gap)
	}
	for ; !l.next.After(now); l.next = l.next.Add(l.gap) {
		for range l.batch {
			if _, done := l.limiter.take(l.next, nil); done != nil {
				done()
			}
		}
	}
}

func (l *crowd) has(now time.Time, costs []cost) bool {
	l.pass(now)
	return l.limiter.has(now, costs)
}

func (l *crowd) take(now time.Time, costs []cost) (bool, func()) {
	l.pass(now)
	return l.limiter.take(now, costs)
}

func (l *crowd) state(now time.Time) []state {
	l.pass(now)
	return l.limiter.state(now)
}

// A changing limiter alternates between two limiters: another one at night, or after a change
// of the plan.
type changing struct {
	first, second limiter
	every         time.Duration
	back          bool // it changes back, and so on
}

func (l *changing) in(now time.Time) limiter {
	periods := int(now.Sub(epoch) / l.every)
	if periods == 0 || l.back && periods%2 == 0 {
		return l.first
	}
	return l.second
}

func (l *changing) has(now time.Time, costs []cost) bool { return l.in(now).has(now, costs) }

func (l *changing) take(now time.Time, costs []cost) (bool, func()) {
	return l.in(now).take(now, costs)
}

func (l *changing) state(now time.Time) []state { return l.in(now).state(now) }

func (l *changing) allows(d time.Duration) float64 {
	return max(l.first.allows(d), l.second.allows(d))
}

// A renamed limiter has other names for its policies, as different paths may have.
type renamed struct {
	limiter
	suffix string
}

func (l renamed) state(now time.Time) []state {
	list := l.limiter.state(now)
	for i := range list {
		list[i].policy.Name += l.suffix
	}
	return list
}
