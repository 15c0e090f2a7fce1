package obey_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

func Example_readmeTransport() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{
		Transport: &obey.Transport{MaxRetries: 3}, // waits as servers ask, at most 10 minutes at a time
		Timeout:   time.Minute,                    // includes the waits; a request that cannot go in time fails at once
	}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 404
}

func Example_readmeState() {
	gate := new(obey.Gate)
	if pass, _ := gate.TryEnter("api"); pass != nil {
		spent := ratelimit.Advice{Wait: time.Minute, Source: ratelimit.SourceLimit}
		pass.Answered(spent, time.Date(2099, time.January, 1, 0, 0, 0, 0, time.UTC))
	}
	for key := range gate.Keys() {
		if w, ok := gate.State(key); ok && w.Reason != "" {
			log.Printf("%s waits until %v (%s), %d queued", w.Key, w.Until, w.Reason, w.Queued)
		}
	}
	w, _ := gate.State("api")
	fmt.Println(w.Reason)
	// Output: limit
}

func Example_readmeCost() {
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
