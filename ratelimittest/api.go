package ratelimittest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
)

// An API is an [http.Handler] that limits requests and announces its limits as real servers do,
// for tests of clients. Its zero value has no limits. In virtual time ([testing/synctest]) use
// [API.RoundTripper], which needs no network: a test of a retry loop then takes no real second.
// Several goroutines may call an API. Do not change its fields after the first request.
type API struct {
	Limits   []Limit                                      // all apply
	Dialects []*ratelimit.Dialect                         // the older forms that are written in place of the current fields
	Current  bool                                         // the current fields are written next to Dialects
	Silent   bool                                         // nothing is announced
	Status   int                                          // of a refusal; 0 is 429
	Bare     bool                                         // a refusal has neither Retry-After nor a problem document
	Key      func(*http.Request) string                   // requests with equal keys share the limits; nil is one key for all
	Cost     func(*http.Request) map[ratelimit.Unit]int64 // what a request takes in other units than requests; nil takes nothing of them
	Skew     time.Duration                                // how far its clock is ahead: Date, and resets that are points in time
	Latency  time.Duration                                // before an answer; requests are under way meanwhile
	Handler  http.Handler                                 // answers requests within the limits; nil is 200 with "ok\n"

	like vendor // of Like

	mu      sync.Mutex
	counts  Counts
	clients map[keyHash]*client
}

// Counts is what an API has counted. A request counts when it arrives.
type Counts struct {
	Served, Refused int64
	Early           int64 // requests, served or refused, that came before the end of a wait that a refusal of their key asked for
}

// Counts returns what a has counted until now.
func (a *API) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// mostClients is how many keys are remembered. Clients choose the keys, so their number is
// bounded: when one more key comes, all remembered keys are dropped, and their counters too.
const mostClients = 10_000

// A keyHash takes the place of a key, which may be long.
type keyHash [sha256.Size]byte

// A client is what an API remembers of a key.
type client struct {
	counters []*counter // of each limit
	until    time.Time  // the end of the longest wait that a refusal has asked for
}

// client returns the client with a key. The caller has locked the mutex.
func (a *API) client(key string) *client {
	hash := keyHash(sha256.Sum256([]byte(key)))
	c := a.clients[hash]
	if c != nil {
		return c
	}
	c = &client{}
	for i := range a.Limits {
		l := &a.Limits[i]
		switch _, windowed := l.Policy.Window.Value(); {
		case l.Policy.Quota < 1:
			panic(fmt.Sprintf("ratelimittest: limit %d has no quota: set Policy.Quota", i+1))
		case l.Kind < FixedWindow || l.Kind > Concurrency:
			panic(fmt.Sprintf("ratelimittest: limit %d has an unknown kind: use one of the constants", i+1))
		case !windowed && l.Kind != Concurrency:
			panic(fmt.Sprintf("ratelimittest: limit %d has no window: set Policy.Window", i+1))
		}
		must("the current fields", l.Policy.Validate())
		c.counters = append(c.counters, newCounter(l))
	}
	must("the current fields", fieldsOf(a.states(c, a.now())).Validate())
	if a.clients == nil || len(a.clients) == mostClients {
		a.clients = make(map[keyHash]*client)
	}
	a.clients[hash] = c
	return c
}

// states returns what each limit announces.
func (a *API) states(c *client, now time.Time) []state {
	states := make([]state, len(c.counters))
	for i := range states {
		s := &states[i]
		*s = c.counters[i].state(now)
		if a.like.untilFull && s.reset != unknown {
			s.reset, s.limit.Reset = s.full, ratelimit.CeilSeconds(s.full)
		}
	}
	return states
}

// now returns the time of the clock of a.
func (a *API) now() time.Time { return time.Now().Add(a.Skew) }

// A visit is a request at an API.
type visit struct {
	client   *client
	units    []int64       // that the request takes of each limit
	now      time.Time     // of the decision
	states   []state       // after the decision
	violated []string      // the names of the policies that the request exceeds; not nil if it is refused
	wait     time.Duration // until the request would be served
}

func (v *visit) refused() bool { return v.violated != nil }

// decide takes the units of a request from all limits, or refuses it.
func (a *API) decide(r *http.Request) *visit {
	var key string
	if a.Key != nil {
		key = a.Key(r)
	}
	v := &visit{units: a.unitsOf(r)}
	a.mu.Lock()
	defer a.mu.Unlock()
	v.client, v.now = a.client(key), a.now()
	if v.now.Before(v.client.until) {
		a.counts.Early++
	}
	for i, c := range v.client.counters {
		c.state(v.now)
		if wait := c.wait(v.units[i]); wait > 0 {
			v.wait = max(v.wait, wait)
			v.violated = append(v.violated, c.Policy.Name)
		}
	}
	if !v.refused() || a.like.countsRefused {
		for i, c := range v.client.counters {
			c.take(v.units[i])
		}
	}
	v.states = a.states(v.client, v.now)
	if !v.refused() {
		a.counts.Served++
		return v
	}
	a.counts.Refused++
	if end := v.now.Add(a.asks(v)); end.After(v.client.until) {
		v.client.until = end
	}
	return v
}

// unitsOf returns how many units of each limit a request takes.
func (a *API) unitsOf(r *http.Request) []int64 {
	var costs map[ratelimit.Unit]int64
	if a.Cost != nil {
		costs = a.Cost(r)
	}
	units := make([]int64, len(a.Limits))
	for i := range a.Limits {
		switch unit := a.Limits[i].unit().Canonical(); unit {
		case ratelimit.Requests, ratelimit.ConcurrentRequests:
			units[i] = 1
		default:
			units[i] = max(costs[unit], 0)
		}
	}
	return units
}

// end gives back what a request held while it was under way.
func (a *API) end(v *visit) {
	if v.refused() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, c := range v.client.counters {
		c.end(v.units[i])
	}
}

// ServeHTTP takes the units of a request from all limits, or refuses the request. It panics if a
// Limit cannot be announced ([ratelimit.Fields.Validate], [ratelimit.Dialect.Set]) or has no quota.
// It also panics if a Limit that is not Concurrency has no window.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := a.decide(r)
	defer a.end(v)
	select {
	case <-time.After(a.Latency):
	case <-r.Context().Done():
		return // the client has gone
	}
	h := w.Header()
	a.announce(h, v)
	h["Date"] = []string{a.now().UTC().Format(http.TimeFormat)}
	switch {
	case v.refused():
		a.refuse(w, r, v)
	case a.Handler != nil:
		a.Handler.ServeHTTP(w, r)
	default:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	}
}

// RoundTripper returns an [http.RoundTripper] that calls a without a network, whatever the host of
// the request. RoundTrip returns when the whole body has been written.
func (a *API) RoundTripper() http.RoundTripper { return roundTripper{a} }

type roundTripper struct{ api *API }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	r.RequestURI, r.RemoteAddr = req.URL.RequestURI(), "192.0.2.1:1234" // RFC 5737
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := httptest.NewRecorder()
	t.api.ServeHTTP(w, r)
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	if req.Method == http.MethodHead {
		w.Body.Reset()
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}
