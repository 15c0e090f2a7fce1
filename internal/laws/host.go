package laws

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Host is a server with honest limiters. It writes their numbers in one form.
type Host struct {
	mu       sync.Mutex
	Limiters []Limiter
	Form     string
	Retry    bool // refusals have a Retry-After
	Silent   bool // the only announcement is that Retry-After
	Down     bool // resets are rounded down
}

// Forms are the forms of a host's announcements. The older forms have only the tightest limit.
var Forms = []string{"current", "current and x-ratelimit", "x-ratelimit", "x-ratelimit-unix", "draft-06", "draft-07"}

// Serve returns the response of a request that takes a while.
func (h *Host) Serve(takes time.Duration) *http.Response {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, passes := time.Now(), true
	for _, l := range h.Limiters {
		_, ok := l.Left(now)
		passes = passes && ok
	}
	var f ratelimit.Fields
	for _, l := range h.Limiters {
		if passes {
			l.Take(now)
			time.AfterFunc(takes, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				l.Done()
			})
		}
		of, _ := l.Left(now)
		if n, ok := of.Limits[0].Reset.Value(); ok && h.Down {
			of.Limits[0].Reset = ratelimit.SecondsOf(max(n-1, 0))
		}
		f = f.Join(of)
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}}
	if !passes {
		resp.StatusCode = http.StatusTooManyRequests
		if h.Retry {
			f.SetRetryAfter(resp.Header)
		}
		if h.Silent && resp.Header.Get(text.RetryAfterKey) != "" {
			return resp
		}
	}
	h.Write(resp.Header, f, now)
	return resp
}

// Write writes fields in the form of the host.
func (h *Host) Write(header http.Header, f ratelimit.Fields, now time.Time) {
	name, both := strings.CutPrefix(h.Form, "current")
	if both {
		if err := f.Set(header); err != nil {
			panic(err)
		}
	}
	if d, ok := ratelimit.LookupDialect(strings.TrimPrefix(name, " and ")); ok {
		if err := d.Set(header, f, now); err != nil {
			panic(err)
		}
	}
}
