package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lawMachine: a query changes nothing, a request that may not be sent learns when to ask
// again, and one that does so is sent in the end, though no answer ever comes.
func lawMachine(t testing.TB, m Machine, now time.Time, prices []Price) {
	under := m.underWay
	for range 8 {
		before := m
		before.limits, before.underWay = slices.Clone(m.limits), slices.Clone(m.underWay)
		v := m.Ask(now, &Trip{Prices: prices})
		require.True(t, slices.Equal(before.underWay, m.underWay), "a query changes nothing")
		before.underWay, m.underWay = nil, nil // the rest, without all of the list
		require.Equal(t, before, m, "a query changes nothing")
		m.underWay = under
		if v.Open {
			return
		}
		require.True(t, v.Until.After(now), "%+v", m)
		now = v.Until
	}
	require.Fail(t, "no request goes", "%+v", m)
}

// An obedience is what the answer to the latest request asked for, until another answer comes: how many
// requests may be sent, and from when on.
type obedience struct {
	least time.Time // no request goes before
	most  int64     // how many requests may go, -1 for any number
	until time.Time // the end of the window
}

func obedienceTo(a *Answer, now time.Time, r *Settings) obedience {
	o := obedience{least: now.Add(min(a.Wait, r.MaxWait)), most: -1}
	if len(a.Stocks) == 1 && a.Stocks[0].Unit == RequestUnit && a.Wait == 0 && a.Stocks[0].Reset > 0 {
		o.most = a.Stocks[0].Remaining
		o.until = now.Add(a.Stocks[0].Reset)
	}
	return o
}

func (o *obedience) lawSent(t testing.TB, now time.Time) {
	t.Helper()
	require.False(t, now.Before(o.least), "no request goes before %v", o.least)
	if o.most >= 0 && now.Before(o.until) {
		require.Positive(t, o.most, "no more go than remain")
		o.most--
	}
}

// Prices of requests that are fuzzed: most have none.
var fuzzPrices = [][]Price{
	nil, nil, nil, {{Unit: "tokens", Units: 10}}, {{Unit: "tokens", Units: 1e9}}, {{Unit: "requests", Units: 3}}, {{Policy: "t", Units: 40}},
}

// The bytes are events: which request is sent, answered, fails, and how much time
// passes.
func FuzzMachine(f *testing.F) {
	answers := []string{
		"", "429", "a r=0;t=7", "a r=1;t=30", "a r=5;t=2", "a r=3;t=0", "a r=0;t=0", "a r=0", "a r=2", "Retry-After: 5", "Retry-After: 0", "429; a r=0;t=3",
		"429; a r=9;t=9", "429; Retry-After: 1", "429; Retry-After: 5; a r=2;t=60", "a r=1;t=999999999999999; b r=4;t=1",
		`t r=30;t=1 of q=100;w=60;qu="tokens"`, `t r=5;t=40 of q=100;qu="tokens"`, `t r=0;t=9 of q=100;w=60;qu="tokens"`,
		`429; t r=90;t=1 of q=100;w=60;qu="tokens"`, `t r=5 of q=0;qu="tokens"`, `c r=0 of q=1;qu="concurrent-requests"`,
		`t r=4;t=0.12 of q=100;qu="tokens"`,
	}
	f.Add([]byte{0, 0, 0, 2, 3, 1, 200, 0, 0, 0, 0}, true, uint8(2))
	f.Add([]byte{0, 2, 0, 1, 1, 0, 3, 0, 1, 1, 0, 2, 11}, false, uint8(0))
	f.Add([]byte{0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false, uint8(0))                   // more than the five that remain
	f.Add([]byte{0, 3, 3, 16, 0, 3, 0, 3, 0, 3, 1, 30, 0, 4, 3, 17, 1, 200, 0, 3, 3, 19}, false, uint8(0)) // tokens
	f.Fuzz(func(t *testing.T, events []byte, pace bool, share uint8) {
		m, now := Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1 / (1 + float64(share)), Pace: pace}}, epoch
		var under []*Trip
		asked := obedience{most: -1}
		for i := 0; i+1 < len(events) && i < 400; i += 2 {
			kind, arg := events[i]%5, events[i+1]
			prices := fuzzPrices[int(arg)%len(fuzzPrices)]
			switch {
			case kind == 0 && m.Ask(now, &Trip{Prices: prices}).Open:
				if prices == nil {
					asked.lawSent(t, now)
				}
				under = append(under, &Trip{Prices: prices})
				m.Send(under[len(under)-1], now)
			case kind == 1:
				now = now.Add(time.Duration(arg) * time.Duration(arg) * time.Millisecond)
			case kind >= 2 && len(under) > 0:
				j := int(arg) % len(under)
				sent := under[j]
				under = slices.Delete(under, j, j+1)
				told := readAnswer(t, answers[int(arg)%len(answers)], sent.Prices)
				switch {
				case kind == 2:
					m.Failed(sent)
				case sent.number == m.number:
					m.Answered(sent, &told, now)
					asked = obedienceTo(&told, now, &m.Settings)
				default:
					m.Answered(sent, &told, now)
					asked.most = -1
				}
			}
			require.Len(t, m.underWay, len(under))
			require.LessOrEqual(t, len(m.limits), maxLimits)
			lawMachine(t, m, now, prices)
		}
	})
}
