package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// resourceOf returns the origin of a request to GitHub, and the resource whose limit it counts
// against. Search and GraphQL have limits of their own. All other paths share the limit "core".
func resourceOf(req *http.Request) string {
	resource := "core"
	switch first, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/"); first {
	case "search", "graphql":
		resource = first
	}
	return req.URL.Scheme + "://" + req.URL.Host + "#" + resource
}

// gitHub answers like GitHub: nothing is left of search, and much of core.
func gitHub(w http.ResponseWriter, r *http.Request) {
	limit := ratelimit.Limit{Name: "core", Remaining: 4999, Reset: ratelimit.SecondsOf(3600)}
	policy := ratelimit.Policy{Name: "core", Quota: 5000}
	if strings.HasPrefix(r.URL.Path, "/search/") {
		limit = ratelimit.Limit{Name: "search", Remaining: 0, Reset: ratelimit.SecondsOf(60)}
		policy = ratelimit.Policy{Name: "search", Quota: 30}
	}
	f := ratelimit.Fields{Policies: []ratelimit.Policy{policy}, Limits: []ratelimit.Limit{limit}}
	if err := ratelimit.GitHub.Set(w.Header(), f, time.Now()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// GitHub counts its resources separately. Without a Key an exhausted search would delay all
// other requests to the same host.
func ExampleTransport_github() {
	server := httptest.NewServer(http.HandlerFunc(gitHub))
	defer server.Close()
	client := &http.Client{Transport: &ratelimit.Transport{Key: resourceOf}}
	for _, path := range []string{"/search/issues", "/search/issues", "/repos/golang/go", "/users/gopher"} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // less than the wait of search
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		resp, err := client.Do(req)
		var wait *ratelimit.WaitError
		switch {
		case errors.As(err, &wait):
			fmt.Println(path, "has to wait for", wait.Advice.Limit.Name)
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
	// /search/issues has to wait for search
	// /repos/golang/go core 200
	// /users/gopher core 200
}
