package ratelimittest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// An SDK is what is tested: a client that sends a request again after a refusal.
type SDK struct{ http.Client }

func (c *SDK) Fetch(url string) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		resp, err := c.Get(url)
		if err != nil {
			return nil, err
		}
		advice := ratelimit.Advise(resp, time.Now())
		if !advice.Refused {
			return resp, nil
		}
		resp.Body.Close()
		time.Sleep(advice.Delay(attempt))
	}
}

// A test of your own begins with a capital: TestRetries. The 25 requests last for two minutes of
// virtual time, and for no real second.
func testRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &ratelimittest.API{Limits: []ratelimittest.Limit{{
			Policy: ratelimit.Policy{Name: "minute", Quota: 10, Window: ratelimit.SecondsOf(60)},
		}}}
		sdk := &SDK{http.Client{Transport: api.RoundTripper()}}
		for range 25 {
			resp, err := sdk.Fetch("https://api.example/")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		want := ratelimittest.Counts{Served: 25, Refused: 2}
		if got := api.Counts(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// A test of a retry loop needs a *testing.T for virtual time, so it is the function testRetries of
// this example.
func ExampleAPI_retries() {}
