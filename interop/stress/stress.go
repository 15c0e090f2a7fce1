package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

const (
	// maxWait is the longest wait that a Transport obeys here.
	maxWait = 20 * time.Millisecond
	// mayWait is the longest time in which all requests of a key may wait. It is maxWait, as long
	// again for a probe that hangs, and as long again for a busy machine.
	mayWait = maxWait + time.Second + 4*time.Second
	// workers is the number of workers of each Transport.
	workers = 32
	keys    = 4
)

// counts are numbers of events. Some must be equal in the end.
type counts struct {
	sent, panics, deadlines, cancelled  atomic.Int64
	bodies, closed, uploads, uploadDone atomic.Int64
	tries, waits, over                  atomic.Int64
}

// String returns the counts as text.
func (c *counts) String() string {
	return fmt.Sprintf("stress: %d requests sent, %d of them by TryEnter, %d panics, %d deadlines refused, %d cancelled; %d of %d waits over; %d of %d bodies and %d of %d uploads closed",
		c.sent.Load(), c.tries.Load(), c.panics.Load(), c.deadlines.Load(), c.cancelled.Load(), c.over.Load(), c.waits.Load(),
		c.closed.Load(), c.bodies.Load(), c.uploadDone.Load(), c.uploads.Load())
}

// stress runs for some time, and returns an error if something went wrong.
func stress(lasts time.Duration, seed uint64) (fmt.Stringer, error) {
	before := runtime.NumGoroutine()
	c := new(counts)
	handler := new(server)
	api := httptest.NewServer(handler)
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = workers
	var all []*rig
	for _, share := range []float64{1, 1, 0.5} {
		r := &rig{counts: c, base: base, address: api.URL, share: share, pace: len(all) == 1}
		r.transport = &obey.Transport{
			Base: r, Gate: &obey.Gate{MaxWait: maxWait, Pace: r.pace, Share: share}, Key: r.key, Cost: r.cost,
			Waiting: r.waiting, Observe: r.observe,
		}
		all = append(all, r)
	}
	errs := []error{drive(all, lasts, seed)}
	base.CloseIdleConnections()
	api.Close()
	errs = append(errs, settle(before))
	for _, r := range all {
		errs = append(errs, r.atRest())
	}
	if c.bodies.Load() != c.closed.Load() || c.uploads.Load() != c.uploadDone.Load() {
		errs = append(errs, errors.New("a body is open"))
	}
	if c.waits.Load() != c.over.Load() {
		errs = append(errs, errors.New("a wait has not been told to be over"))
	}
	return c, errors.Join(errs...)
}

// drive has all workers send requests, and watches them.
func drive(all []*rig, lasts time.Duration, seed uint64) error {
	end := time.Now().Add(lasts)
	var running sync.WaitGroup
	for i, r := range all {
		for j := range workers {
			rnd := rand.New(rand.NewPCG(seed, uint64(i*workers+j)))
			running.Go(func() {
				for time.Now().Before(end) {
					r.request(rnd)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		for _, r := range all {
			if err := r.watch(time.Now()); err != nil {
				return err
			}
		}
	}
}

// A rig is a Transport with its callers and its base.
type rig struct {
	*counts
	transport *obey.Transport
	base      http.RoundTripper
	address   string
	share     float64
	pace      bool

	mu      sync.Mutex
	waiters [keys]int
	since   [keys]time.Time // when the last of that key was sent, or there were none that wait
}

// keyField is the field of a request with its key; it is absent for "".
const keyField = "Stress-Key"

// costField is the field of a request with its cost in tokens.
const costField = "Stress-Cost"

// Stages of a request, in its context, at which something panics.
type stage int

const (
	nowhere stage = iota
	inKey
	inCost
	inWaiting
	inDone
	inBase
	inObserve
)

type stageKey struct{}

var errPanic = errors.New("stress: a panic on purpose")

func panicAt(r *http.Request, at stage) {
	if r.Context().Value(stageKey{}) == at {
		panic(errPanic)
	}
}

func (r *rig) key(req *http.Request) string {
	panicAt(req, inKey)
	return req.Header.Get(keyField)
}

func (r *rig) waiting(req *http.Request, _ obey.Wait) (done func()) {
	panicAt(req, inWaiting)
	r.waits.Add(1)
	return func() {
		r.over.Add(1)
		panicAt(req, inDone)
	}
}

// cost returns the cost in tokens in the fields of a request.
func (r *rig) cost(req *http.Request) (costs []obey.Cost) {
	panicAt(req, inCost)
	if n, err := strconv.ParseInt(req.Header.Get(costField), 10, 64); err == nil {
		costs = append(costs, obey.Cost{Unit: "tokens", Units: n})
	}
	return costs
}

func (r *rig) observe(req *http.Request, _ ratelimit.Advice) { panicAt(req, inObserve) }

// RoundTrip is the base of the Transport.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	r.left(req, true)
	r.sent.Add(1)
	if req.Context().Value(stageKey{}) == inBase && req.Body != nil {
		req.Body.Close()
	}
	panicAt(req, inBase)
	resp, err := r.base.RoundTrip(req)
	if err == nil {
		r.bodies.Add(1)
		resp.Body = &body{ReadCloser: resp.Body, closed: &r.closed}
	}
	return resp, err
}

// body counts that it is closed, once.
type body struct {
	io.ReadCloser
	closed *atomic.Int64
	once   sync.Once
}

func (b *body) Close() error {
	b.once.Do(func() { b.closed.Add(1) })
	return b.ReadCloser.Close()
}

// entered notes that a request may wait.
func (r *rig) entered(req *http.Request) {
	if k, err := strconv.Atoi(req.Header.Get(keyField)); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.waiters[k]++; r.waiters[k] == 1 {
			r.since[k] = time.Now()
		}
	}
}

// left notes, once for each request, that it no longer waits: it was sent or has failed.
func (r *rig) left(req *http.Request, sent bool) {
	k, err := strconv.Atoi(req.Header.Get(keyField))
	once, _ := req.Context().Value(onceKey{}).(*sync.Once)
	if err != nil || once == nil {
		return
	}
	once.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiters[k]--
		if sent {
			r.since[k] = time.Now()
		}
	})
}

type onceKey struct{}

// watch returns an error if requests of a key wait, and none has been sent for mayWait.
func (r *rig) watch(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, n := range r.waiters {
		if n > 0 && now.Sub(r.since[k]) > mayWait {
			return fmt.Errorf("%d requests of key %d wait, and none was sent for %v", n, k, now.Sub(r.since[k]))
		}
	}
	return nil
}

// request sends a random request.
func (r *rig) request(rnd *rand.Rand) {
	ctx := context.WithValue(context.Background(), onceKey{}, new(sync.Once))
	if rnd.IntN(10) == 0 {
		ctx = context.WithValue(ctx, stageKey{}, stage(1+rnd.IntN(int(inObserve))))
	}
	cancel := context.CancelFunc(func() {})
	switch rnd.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(50*time.Millisecond))))
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Millisecond))), cancel).Stop()
	}
	defer cancel()
	req := r.newRequest(ctx, rnd)
	r.entered(req)
	defer r.left(req, false)
	defer func() {
		if p := recover(); p == errPanic {
			r.panics.Add(1)
		} else if p != nil {
			panic(p)
		}
	}()
	if rnd.IntN(8) == 0 {
		r.try(req, rnd)
		return
	}
	resp, err := r.send(req, rnd)
	wait := (*obey.WaitError)(nil)
	switch {
	case errors.As(err, &wait):
		r.deadlines.Add(1)
	case errors.Is(err, context.Canceled):
		r.cancelled.Add(1)
	}
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, rnd.Int64N(8192))
		resp.Body.Close()
	}
}

// try sends a request without the Transport, if its Gate lets it through at once.
func (r *rig) try(req *http.Request, rnd *rand.Rand) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	pass, until := r.transport.Gate.TryEnter(r.key(req), r.cost(req)...)
	if pass == nil {
		if !until.After(time.Now().Add(-time.Second)) {
			panic("TryEnter is to be asked again in the past")
		}
		return
	}
	defer pass.Failed()
	r.tries.Add(1)
	resp, err := r.RoundTrip(req)
	if err != nil || rnd.IntN(10) == 0 {
		if err == nil {
			resp.Body.Close()
		}
		return
	}
	received := time.Now()
	pass.Answered(r.transport.Advisor.Advise(resp, received), received)
	resp.Body.Close()
}

// send sends a request as it is, or by an http.Client that follows redirections.
func (r *rig) send(req *http.Request, rnd *rand.Rand) (*http.Response, error) {
	if rnd.IntN(4) == 0 {
		return (&http.Client{Transport: r.transport}).Do(req)
	}
	return r.transport.RoundTrip(req)
}

func (r *rig) newRequest(ctx context.Context, rnd *rand.Rand) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address, nil)
	if err != nil {
		panic(err)
	}
	if rnd.IntN(4) == 0 {
		r.uploads.Add(1)
		req.Body = &body{ReadCloser: io.NopCloser(strings.NewReader("upload")), closed: &r.uploadDone}
	}
	if rnd.IntN(3) == 0 {
		req.Header.Set(costField, strconv.Itoa(rnd.IntN(200)))
	}
	if key := rnd.IntN(keys + 1); key < keys {
		req.Header.Set(keyField, strconv.Itoa(key))
	}
	return req
}

// atRest returns an error if the Gate still counts requests as waiting or under way.
func (r *rig) atRest() error {
	gate := r.transport.Gate
	for key := range gate.Keys() {
		if w, _ := gate.State(key); w.Queued > 0 || w.UnderWay > 0 {
			return fmt.Errorf("key %s: %d requests wait and %d are under way, but there are none", key, w.Queued, w.UnderWay)
		}
	}
	return nil
}
