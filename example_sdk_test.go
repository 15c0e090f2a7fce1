package ratelimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/httpfields/ratelimit"
)

// API is the client of an API: it waits by itself, says what remains, and has an
// error for what is refused all the same.
type API struct {
	client *http.Client
	base   string
	Rate   ratelimit.Limit // the tightest of the last response
}

func NewAPI(base string) *API {
	return &API{base: base, client: &http.Client{Transport: &ratelimit.Transport{}, Timeout: time.Minute}}
}

// Get reads a resource. Its error is a *ratelimit.RefusedError if the server refused
// the request, and a *ratelimit.WaitError if the wait is longer than ctx allows.
func (a *API) Get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{}); err == nil {
		a.Rate, _ = f.Tightest()
	}
	if err := (ratelimit.Advisor{}).CheckResponse(resp, time.Now()); err != nil {
		return err
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// A small SDK.
func Example_sdk() {
	server := httptest.NewServer(quotaOf(1))
	defer server.Close()
	api := NewAPI(server.URL)
	var user struct{ Name string }
	fmt.Println(api.Get(context.Background(), "/user", &user), user.Name, api.Rate)

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var wait *ratelimit.WaitError
	fmt.Println(errors.As(api.Get(ctx, "/user", &user), &wait), time.Until(wait.Until) > 50*time.Second)
	// Output:
	// <nil> gopher "default";r=0;t=60
	// true true
}

// quotaOf is a server with a quota.
func quotaOf(n int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n--
		left := ratelimit.Limit{Name: "default", Remaining: n, Reset: ratelimit.SecondsOf(60)}
		_ = ratelimit.Fields{Limits: []ratelimit.Limit{left}}.Set(w.Header())
		fmt.Fprint(w, `{"Name": "gopher"}`)
	})
}
