package obey_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/obey"
)

// An account has a bucket of 5,000 tokens, into which 1,000 flow each second. Each request takes
// as many as its field Tokens has. Answers take 20 ms.
type account struct {
	reset func(missing float64) string // the parameter t, or nothing

	mu      sync.Mutex
	left    float64
	at      time.Time
	served  []float64 // tokens, by client
	refused int
	tries   int
}

func (a *account) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	client, _ := strconv.Atoi(req.Header.Get("Client"))
	tokens, _ := strconv.ParseFloat(req.Header.Get("Tokens"), 64)
	now := time.Now()
	a.left, a.at = min(5000, a.left+1000*now.Sub(a.at).Seconds()), now
	a.tries++
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if a.left < tokens {
		resp.StatusCode = http.StatusTooManyRequests
		a.refused++
	} else {
		a.left -= tokens
		a.served[client] += tokens
	}
	resp.Header.Set("RateLimit-Policy", `"t";q=5000;qu="tokens";w=5`)
	resp.Header.Set("RateLimit", fmt.Sprintf(`"t";r=%d%s`, int(a.left), a.reset(5000-a.left)))
	return resp, nil
}

// work lets the workers of a client send requests of as many tokens until the context ends. Each
// begins after one of the waits.
func (a *account) work(ctx context.Context, client, tokens int, waits []time.Duration) {
	rt := &obey.Transport{Base: a, Cost: func(*http.Request) []obey.Cost {
		return []obey.Cost{{Unit: "tokens", Units: int64(tokens)}}
	}}
	var all sync.WaitGroup
	for _, wait := range waits {
		all.Go(func() {
			time.Sleep(wait)
			for {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/", nil)
				if err != nil {
					panic(err)
				}
				req.Header = http.Header{"Client": {strconv.Itoa(client)}, "Tokens": {strconv.Itoa(tokens)}}
				if _, err := rt.RoundTrip(req); err != nil {
					return // there is no time for another request
				}
			}
		})
	}
	all.Wait()
}

// Clients of one account that know nothing of each other share its tokens, and are seldom refused.
func TestTwoClients(t *testing.T) {
	untilFull := func(missing float64) string { return fmt.Sprintf(";t=%d", int(missing/1000+0.999)) }
	next := func(float64) string { return ";t=1" }
	silent := func(float64) string { return "" }
	for _, tc := range []struct {
		name    string
		reset   func(missing float64) string
		tokens  []int   // of each request, by client
		least   float64 // the tokens of the client with the fewest, in those of the one with the most
		refused float64 // the largest part of the requests
	}{
		{"the reset is when all tokens are back", untilFull, []int{200, 200}, 0.5, 0.05},
		{"the reset is that of the next token", next, []int{200, 200}, 0.5, 0.05},
		{"no reset", silent, []int{200, 200}, 0.5, 0.05},
		{"one needs twice as much", untilFull, []int{200, 400}, 0.5, 0.05},
		{"three", untilFull, []int{200, 200, 200}, 0.5, 0.05},
		{"five", untilFull, []int{200, 200, 200, 200, 200}, 0.33, 0.1},
		{"alone", untilFull, []int{200}, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(10) {
				synctest.Test(t, func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, 1))
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					a := &account{reset: tc.reset, left: 5000, at: time.Now(), served: make([]float64, len(tc.tokens))}
					var all sync.WaitGroup
					for i, tokens := range tc.tokens {
						waits := make([]time.Duration, 4)
						for j := range waits {
							waits[j] = time.Duration(rnd.Int64N(int64(time.Second)))
						}
						all.Go(func() { a.work(ctx, i, tokens, waits) })
					}
					all.Wait()
					t.Log("seed", seed, "served", a.served, "refused", a.refused, "of", a.tries)
					require.GreaterOrEqual(t, slices.Min(a.served), tc.least*slices.Max(a.served))
					require.LessOrEqual(t, float64(a.refused), tc.refused*float64(a.tries))
					sum := 0.0
					for _, n := range a.served {
						sum += n
					}
					require.GreaterOrEqual(t, sum, 62_000.0, "of 65,000")
				})
			}
		})
	}
}
