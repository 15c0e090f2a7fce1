package sdk

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An api is a server without a network. It greets each token twice in ten seconds, and counts
// refused requests.
type api struct {
	mu      sync.Mutex
	windows map[string]*window
	refused int
	status  int // of all responses, if it is not 0
}

type window struct {
	end  time.Time
	used int64
}

func (a *api) take(r *http.Request) (announce.Decision, error) {
	const quota, length = 2, 10 * time.Second
	a.mu.Lock()
	defer a.mu.Unlock()
	now, token := time.Now(), r.Header.Get("Authorization")
	w := a.windows[token]
	if w == nil || !now.Before(w.end) {
		w = &window{end: now.Add(length)}
		a.windows[token] = w
	}
	var d announce.Decision
	if w.used < quota {
		w.used++
	} else {
		a.refused++
		d.Violated = []string{"window"}
	}
	d.Fields = announce.FixedWindow{Name: "window", Quota: quota, Used: w.used, Window: length, Left: w.end.Sub(now)}.Fields()
	return d, nil
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(10 * time.Millisecond)
	w := httptest.NewRecorder()
	limiter := &announce.Middleware{Take: a.take, Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}}
	limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		fmt.Fprintf(w, `{"text":%q}`, "hello"+r.URL.Path[len("/greetings"):])
	})).ServeHTTP(w, r)
	return w.Result(), nil
}

func TestGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &api{windows: map[string]*window{}}
		start := time.Now()
		var group sync.WaitGroup
		for _, token := range []string{"a", "b"} {
			client := New("http://api.test", token, server)
			for i := range 10 {
				group.Go(func() {
					got, err := client.Greeting(t.Context(), fmt.Sprint(i))
					assert.NoError(t, err)
					assert.Equal(t, fmt.Sprintf("hello/%d", i), got)
				})
			}
		}
		group.Wait()
		require.GreaterOrEqual(t, time.Since(start), 40*time.Second, "ten greetings are five windows of two")
		require.Less(t, time.Since(start), 50*time.Second)
		require.LessOrEqual(t, server.refused, 16, "only the first ones run into the limit")
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &api{windows: map[string]*window{}}
		client := New("http://api.test", "a", server)
		for range 2 {
			_, err := client.Greeting(t.Context(), "x")
			require.NoError(t, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := client.Greeting(short, "x")
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
		require.Equal(t, 10*time.Second, wait.Until.Sub(start).Round(100*time.Millisecond))
		require.Zero(t, time.Since(start), "it is not waited for")

		other := New("http://api.test", "a", server) // a client without knowledge of the limit
		other.http.Transport = server                // it does not wait either
		_, err = other.Greeting(t.Context(), "x")
		var refused *ratelimit.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusTooManyRequests, refused.Status)
		require.Equal(t, 10*time.Second, refused.Advice.Asked)
		require.Equal(t, []string{"window"}, refused.Problem.ViolatedPolicies)
		require.Equal(t, attempts, server.refused)

		server.status = http.StatusTeapot
		time.Sleep(20 * time.Second)
		_, err = client.Greeting(t.Context(), "x")
		require.EqualError(t, err, "api: 418 I'm a teapot")
	})
}
