// Package fleet shares the limits of a server among processes that use the same
// credentials. The processes take turns by Redis or Valkey. No limits are configured: they
// learn from every answer how much is left.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client := &http.Client{Transport: &obey.Transport{Base: &fleet.Turns{Redis: rdb}}}
package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// Turns is an [http.RoundTripper] that sends a request when its turn comes among the requests
// of all processes with the same Redis. Put it below a [obey.Transport], which queues the
// requests of its process. Redis must be set. After the first use a Turns must not be copied,
// and its fields must not be changed. It is safe for concurrent use, if its functions are.
//
// If Redis answers a question with an error, or not within Timeout, each process goes on with its
// share of what was left, and paces its requests. Its share is that of one of the processes that
// used the key in the last minute. Redis is asked again after a second. If Redis cannot read the
// record of a key, this holds for that key alone, and the record is removed.
type Turns struct {
	// Redis is a client of Redis, a cluster, or Valkey. Set ContextTimeoutEnabled in the
	// options of a cluster: a turn then takes half of the time.
	Redis redis.Scripter
	Base  http.RoundTripper // sends the requests; nil is http.DefaultTransport
	// Key returns the same text, in every process, for requests that share their limits;
	// nil is the origin: scheme, host and port. A request with the key "" is sent at once.
	// Redis holds the SHA-256 of the key. See [obey.KeyBy].
	Key func(*http.Request) string
	// Cost returns what a request takes of limits in other units than requests, as
	// Transport.Cost does; nil is none.
	Cost    func(*http.Request) []obey.Cost
	Advisor ratelimit.Advisor // reads the responses
	Prefix  string            // of the keys in Redis; "" is "ratelimit:"
	Timeout time.Duration     // of each question to Redis; 0, or less, is 250 ms
	// OnError is called when Redis has answered with an error, or not in time. If only the record of
	// one key cannot be read, the error contains its key in Redis, and other keys go on. OnError is
	// called once a second, or more often if several questions fail at the same time. It may be nil.
	OnError func(error)

	mu      sync.Mutex
	process string // its name in Redis, a random one
	lines   map[string]*line
	retry   time.Time        // when Redis may be asked again; zero while it answers
	clock   func() time.Time // of the process; nil is time.Now
	once    sync.Once
	client  redis.Scripter // Redis, or a copy that obeys contexts
	obeys   bool           // client obeys the deadlines of contexts
}

var errNoURL = errors.New("ratelimit: request without URL")

// RoundTrip sends req when its turn comes, and returns the result of Base. If the deadline of
// the request comes first, it returns a [*obey.WaitError], as soon as that is certain. If
// the context ends otherwise, it returns the cause.
func (t *Turns) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	sent := false
	defer func() {
		if !sent && req != nil && req.Body != nil { // as a RoundTripper must
			req.Body.Close()
		}
	}()
	if req == nil || req.URL == nil {
		return nil, errNoURL
	}
	turn, err := t.take(req)
	if err != nil {
		return nil, err
	}
	defer turn.fail() // if Base fails, or something panics
	sent = true
	resp, err = t.base().RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	returned := false
	defer func() {
		if !returned && resp.Body != nil { // the caller does not get it
			resp.Body.Close()
		}
	}()
	received := t.now()
	turn.answered(t.Advisor.Advise(resp, received), received)
	returned = true
	return resp, nil
}

// CloseIdleConnections closes the idle connections of Base, if Base can.
func (t *Turns) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Turns) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Turns) now() time.Time {
	if t.clock != nil {
		return t.clock()
	}
	return time.Now()
}

// originOf is the key of a request if there is no Key.
var originOf = obey.KeyBy()

// take waits for the turn of a request. It returns nil if the request needs none.
func (t *Turns) take(req *http.Request) (*turn, error) {
	key := originOf
	if t.Key != nil {
		key = t.Key
	}
	name := key(req)
	if name == "" {
		return nil, nil
	}
	n := &turn{turns: t, keys: t.keysOf(name)}
	if t.Cost != nil {
		n.prices = t.Cost(req)
		n.costs = costsOf(n.prices)
	}
	ctx := req.Context()
	l, err := t.queue(ctx, n.keys[0])
	if err != nil {
		return nil, err
	}
	defer t.leave(n.keys[0], l)
	n.line, n.began = l, time.Now()
	for {
		wait, certain, err := n.enter(ctx)
		switch {
		case err != nil:
			return nil, err
		case n.lease != "":
			n.renew()
			return n, nil
		case wait == 0: // Redis does not answer
			if wait = n.alone(); wait == 0 {
				return n, nil
			}
		}
		if err := n.sleep(ctx, wait, certain); err != nil {
			return nil, err
		}
	}
}

// shortly is how long a request waits at most before it asks again, if the answer to another
// request may end the wait.
const shortly = 50 * time.Millisecond

// sleep waits. It returns an error at once if the deadline of the request is certain to come
// first.
func (n *turn) sleep(ctx context.Context, wait time.Duration, certain bool) error {
	if certain {
		until := time.Now().Add(wait)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			return &obey.WaitError{Until: until}
		}
		n.turns.mu.Lock()
		n.line.until = until
		n.turns.mu.Unlock()
	} else {
		wait = min(wait, shortly)
	}
	if n.costs != "" { // it may have a claim
		wait = min(wait, claimAfter)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended returns why a wait has ended with its context.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
		return cause
	}
	return &obey.WaitError{}
}

// A line is the queue of the requests of a key in this process. Only the first request asks
// Redis, so the number of questions does not grow with the number of requests.
type line struct {
	first chan struct{} // holds an element while a request is the first

	// Guarded by Turns.mu.
	users    int
	until    time.Time // no request is sent before that
	advice   ratelimit.Advice
	received time.Time // when advice, the newest, came; zero if none did
	retry    time.Time // when Redis may be asked again for this key; zero if it can read the record

	// Used by the first request alone.
	processes int        // that use the key, as Redis has counted them
	counted   time.Time  // when that was
	gate      *obey.Gate // while Redis does not answer: the share of this process
}

// queue returns the line of a key when the request is the first in it.
func (t *Turns) queue(ctx context.Context, key string) (*line, error) {
	t.mu.Lock()
	l := t.lines[key]
	if l == nil {
		l = &line{first: make(chan struct{}, 1)}
		if t.lines == nil {
			t.lines, t.process = make(map[string]*line), rand.Text()
		}
		if len(t.lines) >= maxLines {
			for other, o := range t.lines { // in random order
				if o.users == 0 {
					delete(t.lines, other)
					break
				}
			}
		}
		t.lines[key] = l
	}
	l.users++
	until := l.until
	t.mu.Unlock()
	var err error
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		err = &obey.WaitError{Until: until}
	} else {
		select {
		case l.first <- struct{}{}:
			return l, nil
		case <-ctx.Done():
			err = ended(ctx)
		}
	}
	t.drop(key, l)
	return nil, err
}

// leave makes the next request of a line the first.
func (t *Turns) leave(key string, l *line) {
	<-l.first
	t.drop(key, l)
}

// drop forgets the line of a key when no request of it waits. If other processes use the key, the
// line is kept for the time when Redis does not answer, and always during such a time.
func (t *Turns) drop(key string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	needed := l.processes > 1 || l.gate != nil || !l.retry.IsZero()
	if !needed || len(t.lines) > maxLines {
		delete(t.lines, key)
	}
}

// A cost is a [obey.Cost] as the scripts read it.
type cost struct {
	Policy string `json:"policy"`
	Unit   string `json:"unit"`
	Units  int64  `json:"units"`
}

// costsOf returns costs as the scripts read them, "" if there are none.
func costsOf(costs []obey.Cost) string {
	var list []cost
	for _, c := range costs {
		unit := string(c.Unit)
		if unit == "" && c.Policy == "" {
			unit = requests
		}
		if c.Units > 0 || c.Policy != "" || unit == requests {
			list = append(list, cost{nameOf(c.Policy), unit, min(max(c.Units, 0), most)})
		}
	}
	if list == nil {
		return ""
	}
	text, _ := json.Marshal(list) // of strings and numbers: it does not fail
	return string(text)
}
