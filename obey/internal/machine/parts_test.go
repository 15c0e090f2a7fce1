package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stockOf returns a stock of requests.
func stockOf(policy string, left int64, reset time.Duration) Stock {
	return Stock{Unit: RequestUnit, Policy: policy, Remaining: left, Quota: 10, Reset: reset, Ends: true}
}

// answered sends a request with a Machine, and returns when its answer has been learnt.
func answered(m *Machine, now time.Time, a *Answer) {
	var t Trip
	m.Send(&t, now)
	m.Answered(&t, a, now)
}

// Take returns what a Machine knows of limits, so that another Machine waits as long in its place.
func TestTake(t *testing.T) {
	now := time.Now()
	settings := Settings{MaxWait: time.Hour, Share: 1}
	for _, tc := range []struct {
		name   string
		answer Answer
		under  int // requests under way, which the limit counts
		want   Answer
		open   bool // afterwards
	}{
		{"nothing", Answer{}, 0, Answer{}, true},
		{"something left", Answer{Stocks: []Stock{stockOf("a", 5, time.Minute)}}, 0, Answer{Stocks: []Stock{stockOf("a", 5, time.Minute)}}, true},
		{"requests under way", Answer{Stocks: []Stock{stockOf("a", 5, time.Minute)}}, 3, Answer{Stocks: []Stock{stockOf("a", 5, time.Minute)}}, true},
		{"an exhausted limit", Answer{Wait: time.Minute, Stocks: []Stock{stockOf("a", 0, time.Minute)}}, 0, Answer{Wait: time.Minute, Refused: true, Jittered: true, Stocks: []Stock{stockOf("a", 0, time.Minute)}}, true},
		{"Retry-After of a refusal", Answer{Wait: time.Minute, Refused: true, RetryAfter: true}, 0, Answer{Wait: time.Minute, Refused: true, RetryAfter: true, Jittered: true}, true},
		{"Retry-After of a redirection stays", Answer{Wait: time.Minute, RetryAfter: true}, 0, Answer{}, false},
		{"a backoff stays", Answer{Refused: true}, 0, Answer{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := Machine{Settings: settings}
			answered(&m, now, &tc.answer)
			for range tc.under {
				m.Send(new(Trip), now)
			}
			got := m.Take(now)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.open, m.Ask(now.Add(time.Millisecond), &Trip{}).Open)
			require.Equal(t, Answer{}, m.Take(now), "nothing is left")
			if len(got.Stocks)+int(got.Wait) == 0 {
				return
			}
			part := Machine{Settings: settings}
			answered(&part, now, &got)
			require.Equal(t, tc.answer.Wait == 0, part.Ask(now.Add(30*time.Second), &Trip{}).Open)
			require.True(t, part.Ask(now.Add(time.Minute), &Trip{}).Open)
		})
	}
}

// The Machine of a key counts the requests under way, and the Machines of its parts wait.
func TestPartsRefused(t *testing.T) {
	now := time.Now()
	refused := Answer{Refused: true, Elsewhere: true, Wait: 0}
	key, part := Machine{Settings: Settings{MaxWait: time.Hour, Share: 1}}, Machine{Settings: Settings{MaxWait: time.Hour, Share: 1, Part: true}}
	var trips [8]Trip
	for i := range trips {
		key.Send(&trips[i], now)
	}
	key.Answered(&trips[0], &refused, now)
	require.Equal(t, Concurrency, key.Ask(now, &Trip{}).Reason, "half of eight are under way at most")
	for i := range trips[1:] {
		key.Answered(&trips[1+i], &Answer{}, now)
	}
	require.True(t, key.Ask(now, &Trip{}).Open, "no wait")
	answered(&part, now, &Answer{Refused: true})
	require.Equal(t, Backoff, part.Ask(now, &Trip{}).Reason)
	for range 20 {
		part.Send(new(Trip), now)
	}
	require.True(t, part.Ask(now.Add(time.Minute), &Trip{}).Open, "any number may be under way")
}
