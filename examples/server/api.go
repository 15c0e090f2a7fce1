package main

import (
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

const keyField = "X-API-Key"

// An api forwards requests within their quotas to a handler.
type api struct {
	engine  engine
	buckets []bucket
	clients map[string][]byte // partition keys by API key; it does not change
	reduced bool
	failing atomic.Bool
}

// handler puts the api in front of next.
func (a *api) handler(next http.Handler) http.Handler {
	m := announce.Middleware{
		Take:     a.take,
		Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}, // for old clients
		OnError:  a.failed,
	}
	limited := m.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*") // the Middleware lets scripts of other origins read the fields then
		if r.Method == http.MethodOptions {       // a preflight has no key and costs nothing
			h.Set("Access-Control-Allow-Headers", keyField)
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if _, ok := a.clients[r.Header.Get(keyField)]; !ok {
			http.Error(w, "unknown "+keyField, http.StatusUnauthorized)
			return
		}
		limited.ServeHTTP(w, r)
	})
}

// failed is the OnError of the Middleware. If the limiter fails, requests are served without
// a quota. Only the first of several errors in a row is logged. Errors because the client has
// gone are not logged.
func (a *api) failed(_ http.ResponseWriter, r *http.Request, err error) (answered bool) {
	if r.Context().Err() == nil && !a.failing.Swap(true) {
		log.Printf("requests pass without a quota: %v", err)
	}
	return false
}

// take is the Take of the Middleware.
//
// While capacity is reduced, many clients are refused at the same time. Jitter keeps them from
// coming back together (draft-11 Section 8.5).
func (a *api) take(r *http.Request) (d announce.Decision, err error) {
	partition := a.clients[r.Header.Get(keyField)]
	tokens, violated, err := a.engine.take(r.Context(), partition, a.buckets)
	if err != nil {
		return d, err
	}
	if a.failing.Swap(false) {
		log.Print("quotas are kept again")
	}
	d.Fields, d.Violated = fieldsOf(partition, a.buckets, tokens), violated
	if a.reduced && len(violated) > 0 && violated[0] == burst {
		d.Problem = ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, violated...)
		for i, l := range d.Fields.Limits {
			d.Fields.Limits[i] = l.Jitter(5*time.Second, nil)
		}
	}
	return d, nil
}
