// Package httprate announces the numbers of the counter of go-chi/httprate.
package httprate

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/httpfields/ratelimit/announce"
)

// A Limiter lets Quota requests of each key pass in a Window. Counter is
// httprate.NewLocalLimitCounter(Window), or one in Redis.
type Limiter struct {
	Quota   int
	Window  time.Duration
	Key     httprate.KeyFunc
	Counter httprate.LimitCounter

	mu sync.Mutex // no other request between Get and Increment
}

// Take is the Take of a announce.Middleware.
func (l *Limiter) Take(r *http.Request) (d announce.Decision, err error) {
	key, err := l.Key(r)
	if err != nil {
		return d, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UTC()
	begin := now.Truncate(l.Window)
	current, previous, err := l.Counter.Get(key, begin, begin.Add(-l.Window))
	w := announce.SlidingWindow{
		Name: "api", Quota: int64(l.Quota), Previous: int64(previous), Current: int64(current),
		Window: l.Window, Left: l.Window - now.Sub(begin),
	}
	if d.Fields = w.Fields(); err != nil || d.Fields.Limits[0].Remaining == 0 {
		d.Violated = []string{w.Name}
		return d, err
	}
	w.Current++
	d.Fields = w.Fields()
	return d, l.Counter.Increment(key, begin)
}
