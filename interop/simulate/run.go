package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
)

// Fields of a request: its job, and its estimated cost in tokens, in total or for input and
// output.
const (
	jobField    = "Simulate-Job"
	costField   = "Simulate-Cost"
	inputField  = "Simulate-Input"
	outputField = "Simulate-Output"
)

// A load has the jobs for a server.
type load struct {
	workers   int
	jobs      int             // of all workers together
	each      int             // of each worker; if not 0, it replaces jobs
	apart     time.Duration   // between the first jobs of two workers
	begins    []time.Duration // of the first job of each worker; nil if apart counts
	paths     int             // the jobs take turns to use as many paths; 0 means one
	timeout   time.Duration   // of each try, 0 for none
	cancelled time.Duration   // after this time the first try of every fifth job is cancelled; 0 means never
	within    time.Duration   // jobs that take longer are given up; 0 means never
	costs     func(seed uint64, job int) []cost
}

// total returns the number of all jobs.
func (l load) total() int { return max(l.jobs, l.each*l.workers) }

// A cost is the cost of a job for a limit in a unit other than requests.
type cost struct {
	field            string
	estimated, taken int64
}

// A result is the result of a load.
type result struct {
	time    time.Duration // until the last job was done
	refused int
	longest time.Duration // of a job, from its first try until it was done
	done    int           // jobs
	events  []event
}

// epoch is the beginning of simulations. It is the beginning of a window, and a Unix time
// that no reader takes for a number of seconds.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// run lets workers do jobs in virtual time.
func run(t *testing.T, l load, c client, newServer func() *server, seed uint64) (r result) {
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(epoch))
		s := newServer()
		s.seed, s.tries = seed, make(map[string]uint64)
		r = l.run(s, c, seed)
	})
	return r
}

func (l load) run(s *server, c client, seed uint64) result {
	o := &office{load: l, client: c, rt: c.make(s), seed: seed, workers: make([]worker, l.workers)}
	var all sync.WaitGroup
	for i := range o.workers {
		all.Go(func() {
			// This makes the order of the first requests independent of the scheduler.
			time.Sleep(time.Duration(i) * max(l.apart, time.Microsecond))
			if l.begins != nil {
				time.Sleep(l.begins[i])
			}
			o.work(&o.workers[i])
		})
	}
	all.Wait()
	return o.result(s)
}

// An office hands out jobs.
type office struct {
	load
	client
	rt      http.RoundTripper
	seed    uint64
	workers []worker
	mu      sync.Mutex
	handed  int
}

// A worker does one job after the other.
type worker struct {
	done    int           // jobs
	longest time.Duration // of them
	end     time.Time     // of the last
}

func (o *office) work(w *worker) {
	for {
		job, ok := o.next(w)
		if !ok {
			return
		}
		begin := time.Now()
		done := o.do(job)
		w.end = time.Now()
		if done {
			w.done, w.longest = w.done+1, max(w.longest, w.end.Sub(begin))
		}
	}
}

// next returns the number of a worker's next job.
func (o *office) next(w *worker) (job int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	job = o.handed
	switch {
	case o.late():
	case o.each > 0:
		ok = w.done < o.each
	default:
		ok = o.handed < o.jobs
	}
	if ok {
		o.handed++
	}
	return job, ok
}

// late reports whether jobs are given up.
func (o *office) late() bool { return o.within > 0 && time.Since(epoch) > o.within }

// Between the tries of a job, a worker waits up to firstBackoff·2^k, and at most maxBackoff.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
)

// do tries a job until it is done or given up.
func (o *office) do(job int) bool {
	rnd := rand.New(rand.NewPCG(^o.seed, uint64(job)))
	for try := 0; ; try++ {
		ok, wait := o.try(job, try == 0)
		if ok || o.late() {
			return ok
		}
		pause := time.Duration(rnd.Float64() * float64(min(firstBackoff<<min(try, 10), maxBackoff)))
		if wait > 0 {
			pause = wait
		}
		time.Sleep(pause)
	}
}

// try sends the request of a job, and reports whether it was served. If the workers obey the
// server, wait is the wait that the server asks for.
func (o *office) try(job int, first bool) (ok bool, wait time.Duration) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	timeout := o.timeout
	if first && o.cancelled > 0 && job%5 == 0 {
		timeout = o.cancelled
	}
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	address := "http://api.example/"
	if o.paths > 0 {
		address += fmt.Sprint("e", job%o.paths, "/x")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set(jobField, strconv.Itoa(job))
	if o.costs != nil {
		for _, c := range o.costs(o.seed, job) {
			req.Header.Set(c.field, strconv.FormatInt(c.estimated, 10))
			req = req.WithContext(context.WithValue(req.Context(), costKey{}, append(costsOf(req), c)))
		}
	}
	resp, err := (&http.Client{Transport: o.rt}).Do(req)
	if err != nil {
		return false, 0
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if o.obeys && resp.StatusCode != http.StatusOK {
		wait, _ = ratelimit.ParseRetryAfter(resp.Header, time.Now())
	}
	return err == nil && resp.StatusCode == http.StatusOK, wait
}

type costKey struct{}

// costsOf returns the true costs of a request.
func costsOf(req *http.Request) []cost {
	costs, _ := req.Context().Value(costKey{}).([]cost)
	return costs
}

func (o *office) result(s *server) result {
	r := result{events: s.events}
	for i := range o.workers {
		w := &o.workers[i]
		r.done += w.done
		r.longest = max(r.longest, w.longest)
		r.time = max(r.time, w.end.Sub(epoch))
	}
	for _, e := range s.events {
		if !e.served && e.at < r.time {
			r.refused++
		}
	}
	return r
}
