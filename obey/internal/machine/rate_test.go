package machine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A plainServer announces nothing. It reports whether it serves a request at a time.
type plainServer func(now time.Duration) bool

// unlucky serves a part of the requests at random, at any rate.
func unlucky(part float64) plainServer {
	rnd := rand.New(rand.NewPCG(1, 2))
	return func(time.Duration) bool { return rnd.Float64() < part }
}

// crowded is a bucket of one request. Other clients take a part of what flows in, at random.
func crowded(perSecond, part float64) plainServer {
	rnd := rand.New(rand.NewPCG(3, 4))
	var level float64
	var last, next time.Duration
	take := func(now time.Duration) bool {
		level, last = min(1, level+(now-last).Seconds()*perSecond), now
		if level < 1 {
			return false
		}
		level--
		return true
	}
	return func(now time.Duration) bool {
		for next < now {
			take(next)
			next += scale(time.Second, rnd.ExpFloat64()/(perSecond*part))
		}
		return take(now)
	}
}

// logged serves a quota of requests per window. It counts the requests that it refuses too.
// After ten minutes the quota is another one.
func logged(before, after int, window time.Duration) plainServer {
	var log []time.Duration
	return func(now time.Duration) bool {
		quota := before
		if now > 10*time.Minute {
			quota = after
		}
		for len(log) > 0 && log[0] <= now-window {
			log = log[1:]
		}
		log = append(log, now)
		return len(log) <= quota
	}
}

// A rate does not become lower and lower in the long run. The figures are of the second half of
// 100,000 answers to one client.
func TestRateInTheLongRun(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server plainServer
		served float64 // the least number of requests that are served per second
		part   float64 // the least part of the requests that is served
	}{
		{"three of five are refused", unlucky(0.4), 0.025, 0.3},
		{"one of five is refused", unlucky(0.8), 0.25, 0.7},
		{"others take 60 % of ten a second", crowded(10, 0.6), 0.06, 0.5},
		{"50 per 5 s", logged(50, 50, 5*time.Second), 6.5, 0.8},
		{"12 per 5 s, and 50 before", logged(50, 12, 5*time.Second), 1.8, 0.85},
		{"50 per 5 s, and 12 before", logged(12, 50, 5*time.Second), 6.5, 0.8},
		{"10 per minute", logged(10, 10, time.Minute), 0.09, 0.6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const answers = 100_000
			m, now := Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}, epoch
			var half time.Time
			served := 0
			for n := 0; n < answers; {
				if v := m.Ask(now, &Trip{}); !v.Open {
					now = v.Until
					continue
				}
				var trip Trip
				m.Send(&trip, now)
				now = now.Add(20 * time.Millisecond)
				ok := tc.server(now.Sub(epoch))
				m.Answered(&trip, &Answer{Refused: !ok}, now)
				if n++; n == answers/2 {
					half = now
				}
				if ok && n > answers/2 {
					served++
				}
			}
			perSecond, part := float64(served)/now.Sub(half).Seconds(), float64(served)/(answers/2)
			t.Logf("%.3f served a second, %.2f of all", perSecond, part)
			require.GreaterOrEqual(t, perSecond, tc.served)
			require.GreaterOrEqual(t, part, tc.part)
		})
	}
}
