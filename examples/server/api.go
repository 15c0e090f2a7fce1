package main

import (
	"log"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
)

const keyField = "X-API-Key"

// An api lets requests within their quotas through to next.
type api struct {
	next    http.Handler
	clients map[string]*client // by API key; it does not change
	reduced bool
	now     func() time.Time
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions { // a preflight has no key and costs nothing
		h.Set("Access-Control-Allow-Headers", keyField)
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c, ok := a.clients[r.Header.Get(keyField)]
	if !ok {
		http.Error(w, "unknown "+keyField, http.StatusUnauthorized)
		return
	}
	now := a.now()
	f, violated := c.take(now)
	var err error
	if violated == nil {
		err = announce(h, f, now)
	} else {
		err = a.refuse(w, r, f, violated, now)
	}
	switch {
	case err != nil: // nothing has been written but fields
		log.Print(err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	case violated == nil:
		a.next.ServeHTTP(w, r)
	}
}

// announce writes the fields of a response, in the current form and in the old
// one, and lets scripts of other origins read them.
func announce(h http.Header, f ratelimit.Fields, now time.Time) error {
	if err := f.Set(h); err != nil {
		return err
	}
	if err := ratelimit.XRateLimit.Set(h, f, now); err != nil {
		return err
	}
	ratelimit.Expose(h)
	return nil
}

// refuse answers a request that is beyond a quota. While capacity is reduced, it
// is the capacity that is to blame for a full burst, and many clients at a time
// are refused: jitter keeps them from coming back together (draft-11 Section
// 8.5).
func (a *api) refuse(w http.ResponseWriter, r *http.Request, f ratelimit.Fields, violated []string, now time.Time) error {
	p := ratelimit.NewProblem(ratelimit.QuotaExceeded, violated...)
	if a.reduced && violated[0] == burst {
		p = ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, violated...)
		for i := range f.Limits {
			f.Limits[i] = f.Limits[i].Jitter(5*time.Second, nil)
		}
	}
	if err := announce(w.Header(), f, now); err != nil {
		return err
	}
	return ratelimit.Refuse(w, r, f, p)
}
