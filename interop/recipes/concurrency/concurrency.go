// Package concurrency limits how many requests of a user are served at the same time.
package concurrency

import (
	"net/http"
	"sync"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

const slots = 4

// A Limiter counts the requests of each user that are being served.
type Limiter struct {
	mu   sync.Mutex
	busy map[string]int64
}

// Take is the Take of a announce.Middleware.
func (l *Limiter) Take(r *http.Request) (d announce.Decision, err error) {
	user := r.Header.Get("X-API-Key")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy == nil {
		l.busy = map[string]int64{}
	}
	if l.busy[user] < slots {
		l.busy[user]++
		d.Done = func() { l.leave(user) } // called when the handler has returned
	} else {
		d.Violated = []string{"slots"}
	}
	d.Fields = ratelimit.Fields{ // no window and no reset: it is unknown when a slot will be free
		Policies: []ratelimit.Policy{{Name: "slots", Quota: slots, Unit: ratelimit.ConcurrentRequests}},
		Limits:   []ratelimit.Limit{{Name: "slots", Remaining: slots - l.busy[user]}},
	}
	return d, nil
}

func (l *Limiter) leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[user]--; l.busy[user] == 0 {
		delete(l.busy, user)
	}
}
