package shopify

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A shop has a bucket of 40 points, and 2 come back each second. A query takes 10.
type shop struct {
	mu        sync.Mutex
	points    float64
	at        time.Time
	served    int
	throttled int
}

func (s *shop) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Body.Close()
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.points, s.at = min(s.points+2*now.Sub(s.at).Seconds(), 40), now
	errors := ""
	if s.points < 10 {
		s.throttled++
		errors = `"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],`
	} else {
		s.served++
		s.points -= 10
	}
	w := httptest.NewRecorder()
	fmt.Fprintf(w, `{%s"extensions":{"cost":{"requestedQueryCost":10,"throttleStatus":{"maximumAvailable":40.0,"currentlyAvailable":%.0f,"restoreRate":2.0}}}}`, errors, s.points)
	return w.Result(), nil
}

// Five workers do 40 queries in the shortest possible time, and none is throttled.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{points: 40, at: time.Now()}
		client := &http.Client{Transport: NewTransport(s, 10)}
		start, jobs := time.Now(), make(chan int)
		var workers sync.WaitGroup
		for range 5 {
			workers.Go(func() {
				for range jobs {
					resp, err := client.Post("https://shop.example/admin/api/graphql.json", "application/json", strings.NewReader(`{"query":"{shop{name}}"}`))
					require.NoError(t, err)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					resp.Body.Close()
				}
			})
		}
		for i := range 40 {
			jobs <- i
		}
		close(jobs)
		workers.Wait()
		require.Equal(t, 40, s.served)
		require.Zero(t, s.throttled)
		t.Log(time.Since(start))
		require.LessOrEqual(t, time.Since(start), 182*time.Second) // (40 × 10 − 40) ÷ 2 s is the least
	})
}

// A throttled query is sent again until it is served.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{at: time.Now()}
		client := &http.Client{Transport: NewTransport(s, 10)}
		resp, err := client.Post("https://shop.example/", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, 1, s.throttled)
		require.Equal(t, 1, s.served)
	})
}

func TestBody(t *testing.T) {
	for text, want := range map[string]string{
		`{"extensions":{"cost":{"throttleStatus":{"maximumAvailable":40,"currentlyAvailable":30.5,"restoreRate":2}}}}`:  `"points";r=30;t=1`,
		`{"extensions":{"cost":{"throttleStatus":{"maximumAvailable":1e99,"currentlyAvailable":-1,"restoreRate":-2}}}}`: `"points";r=0`,
		`{"extensions":{"cost":{"throttleStatus":"none"}}}`:                                                             "",
		`{"errors":[]}`: "",
		"<html>":        "",
		"":              "",
	} {
		base := trial.RoundTripFunc(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.WriteString(text)
			return w.Result(), nil
		})
		resp, err := body{base}.RoundTrip(httptest.NewRequest(http.MethodPost, "/", nil))
		require.NoError(t, err)
		require.Equal(t, want, resp.Header.Get("RateLimit"), text)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, text, string(got), "the caller reads the whole body")
	}
}
