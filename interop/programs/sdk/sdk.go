// Package sdk is the client library of an API that limits its users. It waits where
// the API asks for that, and says why where it gives up.
package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

const attempts = 3

// A Client calls the API with one credential.
type Client struct {
	base, token string
	http        http.Client
}

// New returns a client for the API at an address. base sends the requests; nil is
// http.DefaultTransport.
func New(address, token string, base http.RoundTripper) *Client {
	waiting := &obey.Transport{Base: base, Key: obey.KeyBy("Authorization")}
	return &Client{address, token, http.Client{Transport: waiting}}
}

// Greeting returns how the API greets somebody. A refusal is a
// *ratelimit.RefusedError, and a wait beyond the deadline of ctx a
// *obey.WaitError.
func (c *Client) Greeting(ctx context.Context, name string) (string, error) {
	var greeting struct{ Text string }
	err := c.get(ctx, "/greetings/"+url.PathEscape(name), &greeting)
	return greeting.Text, err
}

func (c *Client) get(ctx context.Context, path string, into any) (err error) {
	for range attempts { // what is refused is sent again, after the wait that it asked for
		if err = c.try(ctx, path, into); !errors.As(err, new(*ratelimit.RefusedError)) {
			break
		}
	}
	return err
}

func (c *Client) try(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := (ratelimit.Advisor{}).CheckResponse(resp, time.Now()); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("api: %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
