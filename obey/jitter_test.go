package obey

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/trial"
)

// Clients that were refused together come back within Jitter, but none earlier than the server asked.
func TestGateJitter(t *testing.T) {
	const clients, asked, jitter = 30, 10 * time.Minute, time.Minute
	for _, tc := range []struct{ name, wire string }{
		{"seconds", "HTTP/1.1 429 \nRetry-After: 600"},
		{"a point in time", "HTTP/1.1 429 \nDate: @http+0\nRetry-After: @http+600"},
		{"503", "HTTP/1.1 503 \nRetry-After: 600"},
		{"a reset", "HTTP/1.1 429 \nRateLimit: \"a\";r=0;t=600"},
		{"the last unit was served", "RateLimit: \"a\";r=0;t=600"},
		{"Unix seconds", "HTTP/1.1 429 \nX-RateLimit-Limit: 9\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: @unix+600"},
		{"a window alone", "HTTP/1.1 429 \nRateLimit-Policy: \"a\";q=9;w=600\nRateLimit: \"a\";r=0"},
		{"more than MaxWait", "HTTP/1.1 429 \nRetry-After: 86400"},
		{"a redirection", "HTTP/1.1 302 \nLocation: /b\nRetry-After: 600"},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			start := time.Now()
			back := make(chan time.Duration, clients)
			for range clients {
				sent := 0
				base := trial.RoundTripFunc(func(*http.Request) (*http.Response, error) {
					if sent++; sent == 1 {
						return trial.ResponseOf(trial.Spell(tc.wire, start)), nil
					}
					back <- time.Since(start)
					return trial.ResponseOf("HTTP/1.1 200 "), nil
				})
				tr := &Transport{Base: base, Gate: &Gate{Jitter: jitter, MaxWait: asked}}
				go func() {
					for sent < 2 {
						_, err := (&http.Client{Transport: tr}).Get("http://a.example/a")
						require.NoError(t, err)
					}
				}()
				synctest.Wait()
			}
			first, last := <-back, time.Duration(0)
			for range clients - 1 {
				last = <-back
			}
			require.GreaterOrEqual(t, first, asked, "never earlier than asked")
			require.LessOrEqual(t, last, asked+jitter)
			require.Greater(t, last-first, jitter/2, "not together")
		})
	}
}

// When another route is answered, the wait of a key becomes the wait of one route. It gets no second
// random part.
func TestGateJitterTwoRoutes(t *testing.T) {
	const clients, asked, jitter = 40, 5 * time.Minute, time.Minute
	for _, refusal := range []string{"Retry-After: 300", `RateLimit: "a";r=0;t=300`, "RateLimit: \"a\";r=0;t=9\nRetry-After: 300"} {
		trial.InBubble(t, refusal, func(t *testing.T) {
			for range clients {
				start, refused := time.Now(), false
				base := trial.RoundTripFunc(func(r *http.Request) (*http.Response, error) {
					switch {
					case r.URL.Path == "/slow":
						time.Sleep(time.Second)
					case !refused:
						refused = true
						return trial.ResponseOf("HTTP/1.1 429 \n" + refusal), nil
					}
					return trial.ResponseOf("HTTP/1.1 200 "), nil
				})
				client := &http.Client{Transport: &Transport{Base: base, Gate: &Gate{Jitter: jitter}}}
				get := func(path string) {
					_, err := client.Get("http://a.example" + path)
					require.NoError(t, err)
				}
				go get("/slow")
				synctest.Wait()
				get("/a")
				time.Sleep(2 * time.Second) // the answer of /slow arrives
				get("/a")
				require.GreaterOrEqual(t, time.Since(start), asked)
				require.LessOrEqual(t, time.Since(start), asked+jitter)
			}
		})
	}
}
