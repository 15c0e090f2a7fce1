package obey

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A turnTaker is a RoundTripper of a fleet.
type turnTaker struct{ http.RoundTripper }

func (turnTaker) TakesTurns() bool { return true }

// A wrapper is a RoundTripper that shows what it wraps.
type wrapper struct{ http.RoundTripper }

func (w wrapper) Unwrap() http.RoundTripper { return w.RoundTripper }

// Below the Transport, requests wait for their turn among those of other processes, which take all
// that comes back until then. So one request with costs waits there, and the others in the Transport.
func TestTransportTakesTurns(t *testing.T) {
	for _, tc := range []struct {
		name string
		base func(http.RoundTripper) http.RoundTripper
		want []time.Duration // when three requests are sent, two of them together
	}{
		{"alone", func(s http.RoundTripper) http.RoundTripper { return wrapper{s} }, []time.Duration{0, 1825, 2025}},
		{"a fleet", func(s http.RoundTripper) http.RoundTripper { return turnTaker{s} }, []time.Duration{0, 1000, 2000}},
		{"a fleet below others", func(s http.RoundTripper) http.RoundTripper { return wrapper{wrapper{turnTaker{s}}} }, []time.Duration{0, 1000, 2000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript("RateLimit-Policy: \"a\";q=5000;qu=\"tokens\";w=5\nRateLimit: \"a\";r=0;t=5")
				s.delay = time.Second
				client := &Transport{Base: tc.base(s), Cost: func(*http.Request) []Cost { return []Cost{{Unit: "tokens", Units: 200}} }}
				require.NoError(t, get(t, client, trial.Example))
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if err := get(t, client, trial.Example); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				var got []time.Duration
				for _, at := range s.seen {
					got = append(got, at/time.Millisecond)
				}
				require.Equal(t, tc.want, got)
			})
		})
	}
}
