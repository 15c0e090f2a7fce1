package obey_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// roundTrip is a server for the examples.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }

// A Transport waits when the server asks for it.
func ExampleTransport() {
	remaining := 3
	server := roundTrip(func(req *http.Request) *http.Response {
		remaining--
		h := http.Header{}
		left := ratelimit.Limit{Name: "default", Remaining: int64(remaining), Reset: ratelimit.SecondsOf(60)}
		_ = ratelimit.Fields{Limits: []ratelimit.Limit{left}}.Set(h)
		return &http.Response{StatusCode: http.StatusOK, Header: h, Body: http.NoBody, Request: req}
	})
	client := &http.Client{
		Transport: &obey.Transport{
			Base: server, // usually nil
			Observe: func(_ *http.Request, a ratelimit.Advice) {
				fmt.Println(a.Fields.Limits[0].Remaining, "left, wait", a.Wait)
			},
		},
		Timeout: 10 * time.Second, // includes the waits
	}
	for range 4 {
		_, err := client.Get("https://api.example/")
		if errors.Is(err, context.DeadlineExceeded) {
			fmt.Println("not sent")
		}
	}
	// Output:
	// 2 left, wait 0s
	// 1 left, wait 0s
	// 0 left, wait 1m0s
	// not sent
}

// A request whose deadline is before the end of the wait fails at once. The error contains the
// time to come back.
func ExampleWaitError() {
	client := &http.Client{Transport: &obey.Transport{
		Base: roundTrip(func(req *http.Request) *http.Response {
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody, Request: req,
			}
		}),
	}}
	_, _ = client.Get("https://api.example/")

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/", nil)
	_, err := client.Do(req)
	var wait *obey.WaitError
	if errors.As(err, &wait) {
		fmt.Println(wait.Advice.Source, time.Until(wait.Until).Round(time.Minute), wait.Timeout())
	}
	// Output: retry-after 1m0s true
}

// A Gate can delay any kind of call, here a function that calls another process.
func ExampleGate() {
	gate := obey.Gate{MaxWait: time.Minute}
	call := func(ctx context.Context, remote func() (http.Header, error)) error {
		pass, err := gate.Enter(ctx, "remote") // waits while the limits do not allow it
		if err != nil {
			return err
		}
		header, err := remote()
		if err != nil {
			pass.Failed()
			return err
		}
		received := time.Now()
		pass.Answered(ratelimit.Advise(&http.Response{StatusCode: http.StatusOK, Header: header}, received), received)
		return nil
	}
	remote := func() (http.Header, error) {
		return http.Header{
			"Ratelimit": {`"default";r=0;t=60`},
		}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(call(ctx, remote))
	var wait *obey.WaitError
	fmt.Println(errors.As(call(ctx, remote), &wait))
	// Output:
	// <nil>
	// true
}

// A worker with a queue does not wait for one host while there is work for another. It puts
// back jobs that may not be sent yet.
func ExampleGate_TryEnter() {
	gate := new(obey.Gate)
	left := map[string]int64{"fast": 9, "slow": 1} // requests that the hosts allow in this minute
	fetch := func(host string) *http.Response {
		left[host]--
		h := http.Header{}
		limit := ratelimit.Limit{Name: "minute", Remaining: left[host], Reset: ratelimit.SecondsOf(60)}
		_ = ratelimit.Fields{Limits: []ratelimit.Limit{limit}}.Set(h)
		return &http.Response{StatusCode: http.StatusOK, Header: h}
	}
	type job struct {
		host  string
		after time.Time
	}
	todo := []job{{host: "slow"}, {host: "slow"}, {host: "fast"}, {host: "fast"}}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		if time.Until(next.after) > 0 {
			fmt.Println(next.host, "must wait") // all other jobs are done
			continue
		}
		pass, until := gate.TryEnter(next.host)
		if pass == nil {
			todo = append(todo, job{next.host, until})
			continue
		}
		resp := fetch(next.host)
		pass.Answered(ratelimit.Advise(resp, time.Now()), time.Now())
		fmt.Println(next.host, "is done")
	}
	// Output:
	// slow is done
	// fast is done
	// fast is done
	// slow must wait
}

// Users with different credentials have separate quotas.
func ExampleKeyBy() {
	client := &http.Client{Transport: &obey.Transport{Key: obey.KeyBy("Authorization", "X-API-Key")}}
	client.CloseIdleConnections()
}

// GitHub counts its resources separately, so an exhausted search delays no other request.
func ExampleTransport_github() {
	core, _ := ratelimittest.Like("github")
	search, _ := ratelimittest.Like("github")
	search.Limits[0].Policy.Name, search.Limits[0].Policy.Quota = "search", 1
	paths := http.NewServeMux()
	paths.Handle("/", core)
	paths.Handle("/search/", search)
	server := httptest.NewServer(paths)
	defer server.Close()
	client := &http.Client{Transport: &obey.Transport{}}
	for _, path := range []string{"/search/issues", "/search/issues", "/repos/golang/go", "/users/gopher"} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // less than the wait of search
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		resp, err := client.Do(req)
		var wait *obey.WaitError
		switch {
		case errors.As(err, &wait):
			fmt.Println(path, "waits for the limit", wait.Advice.Limit.Name)
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println(path, resp.Header.Get("X-RateLimit-Resource"), resp.StatusCode)
			resp.Body.Close()
		}
		cancel()
	}
	// Output:
	// /search/issues search 200
	// /search/issues waits for the limit search
	// /repos/golang/go core 200
	// /users/gopher core 200
}

// A client that waits at most two minutes, and stops at refusals that no wait ends.
func ExampleTransport_patience() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client := &http.Client{Transport: &obey.Transport{
		MaxRetries: 3,
		Patience:   2 * time.Minute,
		Advisor: ratelimit.Advisor{Refused: func(resp *http.Response) (time.Duration, bool) {
			return ratelimit.Final, resp.Header.Get("X-Should-Retry") == "false"
		}},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 429
}

// Requests to a language model also cost tokens.
func ExampleCost() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{Transport: &obey.Transport{
		Cost: func(r *http.Request) []obey.Cost {
			return []obey.Cost{{Unit: "tokens", Units: r.ContentLength / 4}} // of the prompt, by an estimate
		},
	}}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"prompt": "Once upon a time"}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 404
}
