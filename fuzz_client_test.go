package ratelimit

import (
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

func addResponses(f *testing.F) {
	for _, tc := range adviseCases {
		f.Add(200, tc.wire, int64(0), int64(0))
	}
	for _, tc := range lintCases {
		if len(tc.wire) < 1000 {
			f.Add(302, tc.wire, int64(1795230000), int64(time.Second))
		}
	}
	for _, s := range seeds() {
		if len(s) < 1000 && !strings.Contains(s, "\n") {
			f.Add(429, "RateLimit: "+s+"\nRateLimit-Policy: "+s+"\nRetry-After: "+s, int64(-1<<62), int64(-5))
		}
	}
}

func FuzzAdvise(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, received, most int64) {
		resp, _ := anyResponse(lines)
		resp.StatusCode = status
		c := Advisor{MaxWait: time.Duration(most)}
		a := c.Advise(resp, time.Unix(received, 0))
		require.GreaterOrEqual(t, a.Wait, time.Duration(0))
		require.LessOrEqual(t, a.Wait, longestWait(c.MaxWait))
		require.GreaterOrEqual(t, a.Pace, time.Duration(0))
		require.True(t, !a.Capped || a.Wait == longestWait(c.MaxWait))
		require.True(t, a.Wait == 0 || a.Source != SourceNone)
		lawAdviceLimit(t, &a)
		require.True(t, text.IsName(strings.ReplaceAll(a.String(), "µs", "us")), "%q", a.String())

		d, ok := ParseRetryAfter(resp.Header, time.Unix(received, 0))
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.True(t, ok || d == 0)
		require.Equal(t, ok, a.Source == SourceRetryAfter)
		lawAdvise(t, resp.Header, a)
	})
}

// lawAdviceLimit: a limit that is the reason for a wait is one of the fields, and one
// beside a Retry-After is the tightest of them, and exhausted.
func lawAdviceLimit(t testing.TB, a *Advice) {
	t.Helper()
	same := func(l Limit) bool { return l.Equal(a.Limit) }
	switch a.Source {
	case SourceNone:
		require.True(t, a.Limit.Equal(Limit{}))
	case SourceRetryAfter:
		tightest, ok := a.Fields.Tightest()
		p, known := a.Fields.PolicyOf(tightest)
		if ok && (tightest.Remaining == 0 || known && p.Quota == 0) {
			require.True(t, same(tightest), "%v", a.Fields)
		} else {
			require.True(t, a.Limit.Equal(Limit{}))
		}
	default:
		require.True(t, slices.ContainsFunc(a.Fields.Limits, same), "%v", a.Fields)
	}
}

// lawAdvise checks an Advice against its definition: Retry-After in seconds, else
// the longest wait of a limit with nothing remaining, else, for a refusal, the longest
// of one that does not say what remains; and the slowest pace.
func lawAdvise(t testing.TB, h http.Header, a Advice) {
	t.Helper()
	seconds := h[retryAfterKey]
	if len(seconds) == 1 && len(seconds[0]) < 10 && text.All(seconds[0], text.Digit) && seconds[0] != "" {
		n, err := strconv.Atoi(seconds[0])
		require.NoError(t, err)
		require.Equal(t, time.Duration(n)*time.Second, a.Asked)
	}
	var wait, pace, unknown time.Duration
	explained := false // a limit with nothing remaining says when it ends
	for _, l := range a.Fields.Limits {
		p, known := a.Fields.PolicyOf(l)
		left, _ := l.Reset.Duration()
		switch {
		case l.Remaining == 0 || known && p.Quota == 0:
			if !l.Reset.ok {
				left, _ = p.Window.Duration()
			}
			wait = max(wait, left)
			explained = explained || l.Reset.ok || p.Window.ok
		case l.Remaining == Unknown:
			unknown = max(unknown, left)
		case l.Remaining > 0 && (p.Unit == "" || p.Unit == Requests || p.Unit == "request"):
			n := big.NewInt(l.Remaining)
			if known && 0 < p.Quota && p.Quota < l.Remaining {
				n = big.NewInt(p.Quota)
			}
			d := new(big.Int).Add(big.NewInt(int64(left)), n)
			d.Sub(d, big.NewInt(1)).Quo(d, n) // rounded up
			pace = max(pace, time.Duration(d.Int64()))
		}
	}
	require.Equal(t, pace, a.Pace, "%v", a.Fields)
	if a.Refused && !explained {
		wait = unknown
	}
	if a.Source != SourceRetryAfter {
		require.Equal(t, wait, a.Asked, "%v", a.Fields)
	}
}

func FuzzCheck(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, trailers, _ int64) {
		resp, _ := anyResponse(lines)
		resp.StatusCode = status
		if trailers < 0 {
			resp.Trailer = resp.Header
		}
		for _, found := range Check(resp) {
			lawFinding(t, found)
		}
	})
}

// lawMachine: a query changes nothing, whoever may not go learns when to ask again,
// and whoever does so may go in the end, though no answer ever comes.
func lawMachine(t testing.TB, m machine, r *settings, now time.Time, prices []price) {
	m.budgets, m.meters = slices.Clone(m.budgets), slices.Clone(m.meters)
	under := m.under
	for range 8 {
		m.tick(now, r)
		before := m
		before.budgets, before.meters = slices.Clone(m.budgets), slices.Clone(m.meters)
		v := m.ask(now, r, prices)
		require.True(t, before.under == m.under, "a query changes nothing")
		before.under, m.under = trips{}, trips{} // the rest, without all of the list
		require.Equal(t, before, m, "a query changes nothing")
		m.under = under
		if v.open {
			return
		}
		require.True(t, v.until.After(now), "%+v", m)
		now = v.until
	}
	require.Fail(t, "nobody goes", "%+v", m)
}

// An obedience is what the answer to the latest request asked for, while no other
// answer has come: how many may go, and from when on any.
type obedience struct {
	least time.Time // nobody goes before
	most  int64     // so many go, -1 for any number
	until time.Time // the end of the window
}

func obedienceTo(a *report, now time.Time, r *settings) obedience {
	o := obedience{least: now.Add(min(a.wait, r.maxWait)), most: -1}
	if len(a.stocks) == 1 && a.stocks[0].unit == requestUnit && a.wait == 0 && a.stocks[0].reset > 0 {
		o.most = a.stocks[0].left
		o.until = now.Add(a.stocks[0].reset)
	}
	return o
}

func (o *obedience) lawSent(t testing.TB, now time.Time) {
	t.Helper()
	require.False(t, now.Before(o.least), "nobody goes before %v", o.least)
	if o.most >= 0 && now.Before(o.until) {
		require.Positive(t, o.most, "no more go than remain")
		o.most--
	}
}

// Prices of requests that are fuzzed: most have none.
var fuzzPrices = [][]price{
	nil, nil, nil, {{unit: "tokens", units: 10}}, {{unit: "tokens", units: 1e9}}, {{unit: "requests", units: 3}}, {{policy: "t", units: 40}},
}

// The bytes are events: which request is sent, answered, fails, and how much time
// passes.
func FuzzMachine(f *testing.F) {
	var answers []Advice
	for _, fields := range []string{
		"", "429", "a r=0;t=7", "a r=1;t=30", "a r=5;t=2", "a r=3;t=0", "a r=0;t=0", "a r=0", "a r=2", "Retry-After: 5", "Retry-After: 0", "429; a r=0;t=3",
		"429; a r=9;t=9", "429; Retry-After: 1", "503; Retry-After: 5; a r=2;t=60", "a r=1;t=999999999999999; b r=4;t=1",
		`t r=30;t=1 of q=100;w=60;qu="tokens"`, `t r=5;t=40 of q=100;qu="tokens"`, `t r=0;t=9 of q=100;w=60;qu="tokens"`,
		`429; t r=90;t=1 of q=100;w=60;qu="tokens"`, `t r=5 of q=0;qu="tokens"`, `c r=0 of q=1;qu="concurrent-requests"`,
		"x-ratelimit-limit-tokens: 100; x-ratelimit-remaining-tokens: 4; x-ratelimit-reset-tokens: 120ms",
	} {
		answers = append(answers, Advisor{}.Advise(shortResponse(fields), epoch))
	}
	f.Add([]byte{0, 0, 0, 2, 3, 1, 200, 0, 0, 0, 0}, true, uint8(2))
	f.Add([]byte{0, 2, 0, 1, 1, 0, 3, 0, 1, 1, 0, 2, 11}, false, uint8(0))
	f.Add([]byte{0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false, uint8(0))                   // more than the five that remain
	f.Add([]byte{0, 3, 3, 16, 0, 3, 0, 3, 0, 3, 1, 30, 0, 4, 3, 17, 1, 200, 0, 3, 3, 19}, false, uint8(0)) // tokens
	f.Fuzz(func(t *testing.T, events []byte, pace bool, share uint8) {
		r := settings{maxWait: 10 * time.Minute, share: 1 / (1 + float64(share)), pace: pace}
		m, now := machine{}, epoch
		var under []*trip
		asked := obedience{most: -1}
		for i := 0; i+1 < len(events) && i < 400; i += 2 {
			kind, arg := events[i]%5, events[i+1]
			prices := fuzzPrices[int(arg)%len(fuzzPrices)]
			m.tick(now, &r)
			switch {
			case kind == 0 && m.ask(now, &r, prices).open:
				if prices == nil {
					asked.lawSent(t, now)
				}
				under = append(under, &trip{prices: prices})
				m.send(under[len(under)-1], now, &r)
			case kind == 1:
				now = now.Add(time.Duration(arg) * time.Duration(arg) * time.Millisecond)
			case kind >= 2 && len(under) > 0:
				j := int(arg) % len(under)
				sent := under[j]
				under = slices.Delete(under, j, j+1)
				told := reportOf(&answers[int(arg)%len(answers)], sent.prices, nil)
				switch {
				case kind == 2:
					m.failed(sent)
				case sent.number == m.number:
					m.answered(sent, &told, now, &r)
					asked = obedienceTo(&told, now, &r)
				default:
					m.answered(sent, &told, now, &r)
					asked.most = -1
				}
			}
			require.Equal(t, len(under), m.under.n)
			require.LessOrEqual(t, len(m.budgets), maxBudgets)
			require.LessOrEqual(t, len(m.meters), maxBudgets)
			lawMachine(t, m, &r, now, prices)
		}
	})
}
