package machine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The bounds of waits that the server did not ask for grow by half, to 32 s at most. The
// next time the first is half of the wait that was enough.
func TestBackoff(t *testing.T) {
	b := backoff{latest: time.Second}
	b.recovered()
	b.recovered()
	require.Equal(t, 875*time.Millisecond, b.enough, "also after a second answer")
	require.Equal(t, 437500*time.Microsecond, b.next())
	require.Equal(t, 656250*time.Microsecond, b.next())
	require.Equal(t, 875*time.Millisecond, b.next(), "the wait that was enough is not skipped")
	require.Equal(t, 1312500*time.Microsecond, b.next())
	b.recovered()
	require.Equal(t, 943359375*time.Nanosecond, b.enough, "a longer wait counts for a quarter")
	b.latest = 400 * time.Millisecond
	b.recovered()
	require.Equal(t, 350*time.Millisecond, b.enough, "a shorter one at once")
	b = backoff{}
	want := firstBackoff
	for range 100 {
		require.Equal(t, want, b.next())
		want = min(want*3/2, mostBackoff)
	}
	require.Equal(t, 32*time.Second, want)
}

// play lets a rate live through answers, one after the other: "+" is served, "-" refused.
func (x *rate) play(begin time.Time, each time.Duration, answers string) (end time.Time) {
	for i := range answers {
		x.sent(begin, begin.Add(each))
		begin = begin.Add(each)
		if answers[i] == '+' {
			x.recovered()
		} else {
			x.slow(begin, true)
		}
	}
	return begin
}

// A rate begins with a refusal after something was served, if no other request is under way.
func TestRate(t *testing.T) {
	x := rate{gap: firstGap}
	now := x.play(epoch, 100*time.Millisecond, "----")
	require.Zero(t, x.interval(), "nothing was served")
	now = x.play(now, 100*time.Millisecond, strings.Repeat("+", 40))
	x.slow(now, false)
	require.Zero(t, x.interval(), "others are under way")
	now = x.play(now, 100*time.Millisecond, "++++-")
	require.InDelta(t, 7, x.perSecond, 0.3, "seven tenths of ten a second")
	was := x.perSecond
	now = x.play(now, 100*time.Millisecond, "-------")
	require.InDelta(t, was*(1+0.7/regainTime), x.perSecond, 0.001, "nothing was served in between, and 0.7 s have passed")
	was = x.perSecond
	now = x.play(now, 100*time.Millisecond, "+-")
	require.Less(t, x.perSecond, was, "something was")
	now = x.play(now, time.Millisecond, strings.Repeat("+", 100))
	require.NotZero(t, x.perSecond, "it grows by less than a hundredth each time")
	x.play(now, 10*time.Second, strings.Repeat("+", 40))
	require.Zero(t, x.perSecond, "requests are far apart")
}

// Spacing begins with what was served between two refusals, if that is less than the latest requests
// suggest: after a wait of the backoff a few requests go close together.
func TestRateBeginsSlowly(t *testing.T) {
	for _, tc := range []struct {
		name   string
		served int
		within time.Duration // from one refusal to the next
		want   float64
	}{
		{"as fast as requests came", 40, 4 * time.Second, 7},
		{"a window of 10 s that takes 40", 40, 10 * time.Second, 5},
		{"a pause of a minute", 40, time.Minute, 1.75},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := rate{gap: firstGap}
			now := x.play(epoch, 100*time.Millisecond, strings.Repeat("+", 40))
			x.slow(now, false)
			end := now.Add(tc.within)
			now = x.play(now, 100*time.Millisecond, strings.Repeat("+", tc.served))
			require.InDelta(t, 0.1, x.gap, 0.01)
			x.slow(end, true)
			require.InDelta(t, tc.want, x.perSecond, 0.2)
			require.False(t, now.After(end))
		})
	}
}

// A client that seldom sends a request waits for seconds after a single refusal.
func TestRateOfSeldomRequests(t *testing.T) {
	x := rate{gap: firstGap}
	x.play(epoch, time.Hour, strings.Repeat("+", 1000)+"-")
	require.InDelta(t, 14.3, x.interval().Seconds(), 0.1)
}

// A Machine waits half of a second only if a limit asks for a second.
func TestWholeSecondOfNoLimit(t *testing.T) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: time.Minute, Share: 1}}}
	for i, a := range []Answer{readAnswer(t, "a r=4;t=1 of q=5", nil), {Wait: time.Second}} {
		now := epoch.Add(time.Duration(i) * time.Second)
		p.send(now, nil)
		p.m.Answered(p.trips[i], &a, now)
	}
	require.Equal(t, 2*time.Second, p.ask(epoch.Add(time.Second), nil).Until.Sub(epoch))
}

// If a limiter refuses three of five requests at any rate, the rate does not fall below the rate of the
// served requests.
func TestRateOfRandomRefusals(t *testing.T) {
	x := rate{gap: firstGap}
	now := x.play(epoch, 100*time.Millisecond, strings.Repeat("+-+--", 40))
	for range 200 {
		now = x.play(now, max(x.interval(), 100*time.Millisecond), "+-+--")
		require.Less(t, x.interval(), 10*time.Second)
	}
}

// Limits in different units may have one name.
func TestOneNameTwoUnits(t *testing.T) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}}
	price := []Price{{Unit: "tokens", Units: 10}}
	p.send(epoch, price)
	p.m.Answered(p.trips[0], &Answer{Stocks: []Stock{
		{Unit: RequestUnit, Policy: "a", Remaining: 50, Reset: time.Minute, Ends: true},
		{Unit: "tokens", Policy: "a", Remaining: 5, Reset: time.Hour, Ends: true},
	}}, epoch)
	require.True(t, p.ask(epoch, []Price{{Unit: "tokens", Units: 5}}).Open)
	v := p.ask(epoch, price)
	require.False(t, v.Open)
	require.Equal(t, p.m.MaxWait, v.Until.Sub(epoch))
}

// A request whose answer belongs to another machine has taken nothing here, and has not failed.
func TestReturnedTakesNothing(t *testing.T) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}}
	price := []Price{{Unit: "points", Units: 10}}
	stocks := func(left int64) *Answer {
		return &Answer{Stocks: []Stock{
			{Unit: RequestUnit, Policy: "a", Remaining: left, Quota: 100, Window: time.Minute, Reset: time.Minute, Ends: true},
			{Unit: "points", Policy: "b", Remaining: 10 * left, Quota: 600, Window: time.Minute, Reset: time.Minute, Ends: true},
		}}
	}
	p.send(epoch, price)
	p.m.Answered(p.trips[0], stocks(2), epoch)
	later := epoch.Add(10 * time.Second)
	p.send(later, price)
	p.send(later.Add(time.Second), price)
	p.m.Returned(p.trips[1], later.Add(time.Second))
	p.m.Answered(p.trips[2], stocks(5), later.Add(time.Second))
	for range 5 {
		p.send(later.Add(time.Second), nil)
	}
	require.False(t, p.ask(later.Add(time.Second), nil).Open, "five are left")
	// 10 of 20 were taken, and 50 are left: 40 have flowed in during 11 s, of 110 by the window.
	rate := 40.0/11 + 70.0/11*claim
	v := p.ask(later.Add(time.Second), []Price{{Unit: "points", Units: 90}, {Unit: RequestUnit}})
	require.InDelta(t, 40/rate+1, v.Until.Sub(later.Add(time.Second)).Seconds(), 0.001)
}

// An answer that is reported after a newer one gives back no flow of the time between the two.
func TestLateAnswer(t *testing.T) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}}
	answer := func(left int64) *Answer {
		return &Answer{Stocks: []Stock{{Unit: "tokens", Remaining: left, Quota: 100, Window: 100 * time.Second}}}
	}
	later := epoch.Add(time.Minute)
	p.send(epoch, []Price{{Unit: "tokens", Units: 1}})
	p.m.Answered(p.trips[0], answer(99), epoch)
	p.send(epoch.Add(time.Second), []Price{{Unit: "tokens", Units: 1}})
	p.send(epoch.Add(2*time.Second), []Price{{Unit: "tokens", Units: 1}})
	p.m.Answered(p.trips[2], answer(50), later)
	p.m.Answered(p.trips[1], answer(98), epoch.Add(2*time.Second))
	require.InDelta(t, 50, p.m.remaining(&p.m.limits[0], later), 0.001)
}

// A request that joins counts from the time when it was sent.
func TestJoin(t *testing.T) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}}
	now := epoch.Add(2 * time.Second)
	joins := &Trip{}
	p.m.Send(joins, now)
	joins.At = epoch
	p.send(now, nil)
	p.answer(now, p.trips[0], "a r=3;t=1")
	for range 3 {
		p.send(now, nil)
	}
	require.False(t, p.ask(now, nil).Open, "the window of a second includes the first request")
}

// The reason of requests that are spaced.
func TestSpaced(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    Machine
		want Reason
	}{
		{"by refusals", Machine{rate: rate{perSecond: 1}}, Backoff},
		{"by quotas", Machine{spacing: time.Second}, Limit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.Settings = Settings{MaxWait: time.Minute, Share: 1}
			tc.m.last, tc.m.anyServed = epoch, true
			require.Equal(t, tc.want, tc.m.Ask(epoch, &Trip{}).Reason)
		})
	}
}

// A request ends once, also if a copy of it ends again.
func TestEndsOnce(t *testing.T) {
	m := Machine{Settings: Settings{MaxWait: time.Hour, Share: 1}}
	first, second := Trip{Prices: []Price{{Unit: "tokens", Units: 5}}}, Trip{}
	m.Send(&first, epoch)
	m.Send(&second, epoch)
	again := first
	m.Failed(&first)
	m.Failed(&again)
	require.Equal(t, []*Trip{&second}, m.underWay)
	require.Zero(t, m.pricedUnderWay)
}

// TestLoss: what would be lost with a machine that was last used at the epoch.
func TestLoss(t *testing.T) {
	const before, at, after = idleTime - time.Second, idleTime, idleTime + time.Second
	settings := Settings{MaxWait: idleTime, Share: 1}
	ends := func(left float64, end time.Duration) []limit { return []limit{{remaining: left, end: epoch.Add(end)}} }
	for _, tc := range []struct {
		name string
		m    Machine
		now  time.Duration
		want Loss
		idle bool
	}{
		{"nothing is known", Machine{}, at, NothingLost, false},
		{"nothing is known, for longer", Machine{}, after, NothingLost, true},
		{"a wait", Machine{until: epoch.Add(2 * after)}, after, WaitLost, false},
		{"a wait that has ended", Machine{until: epoch.Add(after)}, after, NothingLost, true},
		{"a wait that was cut has ended", Machine{until: epoch.Add(at), backoff: backoff{asked: time.Hour}}, at + time.Hour - 1, CountLost, false},
		{"a wait that was cut has ended, for longer", Machine{until: epoch.Add(at), backoff: backoff{asked: time.Hour}}, at + time.Hour, NothingLost, true},
		{"as many as may be under way", Machine{pool: pool{bound: 2}}, at, CountLost, false},
		{"one may be under way", Machine{pool: pool{bound: 1}}, at, CountLost, false},
		{"as many as a policy says may be under way", Machine{pool: pool{atOnce: 2}}, at, CountLost, false},
		{"as many as might be under way", Machine{pool: pool{bound: 2}}, after, NothingLost, true},
		{"requests are spaced", Machine{rate: rate{perSecond: 1}}, at, CountLost, false},
		{"tokens are counted", Machine{limits: []limit{{flow: &flow{}}}}, at, CountLost, false},
		{"something is left", Machine{limits: ends(5, 2*after)}, after, CountLost, false},
		{"one is left", Machine{limits: ends(1, 2*after)}, before, CountLost, false},
		{"something was left", Machine{limits: ends(5, after)}, after, NothingLost, true},
		{"nothing is left", Machine{limits: ends(0, 2*after)}, before, WaitLost, false},
		{"nothing is left for longer than is waited", Machine{limits: ends(0, 2*after)}, at, CountLost, false},
		{"one is over, and nothing is left of another", Machine{limits: append(ends(5, time.Second), ends(0, 2*after)...)}, before, WaitLost, false},
		{"something is left without an end", Machine{limits: []limit{{remaining: 5}}}, at, CountLost, false},
		{"nothing is left without an end", Machine{limits: []limit{{}}}, before, CountLost, false},
		{"something is left without an end, for longer", Machine{limits: []limit{{remaining: 5}}}, after, NothingLost, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.Settings, tc.m.last = settings, epoch
			require.Equal(t, tc.want, tc.m.Loss(epoch.Add(tc.now)))
			require.Equal(t, tc.idle, tc.want == NothingLost && tc.m.Idle(epoch.Add(tc.now)))
		})
	}
}

// Numbers at the end of their range do not wrap around.
func TestExtremes(t *testing.T) {
	settings := Settings{MaxWait: time.Duration(math.MaxInt64), Share: 1e-300, Pace: true}
	for _, fields := range []string{
		"a r=999999999999999;t=999999999999999", "a r=0;t=999999999999999", "429; Retry-After: 99999999999999999999", "a r=1;t=999999999999999",
	} {
		m, now := &Machine{Settings: settings}, epoch
		for range 100 {
			if v := m.Ask(now, &Trip{}); !v.Open {
				require.True(t, v.Until.After(now), fields)
			}
			var sent Trip
			m.Send(&sent, now)
			a := readAnswer(t, fields, nil)
			m.Answered(&sent, &a, now)
			now = now.Add(time.Hour)
		}
	}
}

// After a refusal, half as many requests as before may be under way, but at least one. Then
// the pool grows by one after some rounds of answers.
func TestPoolRegrows(t *testing.T) {
	for together, rounds := range map[int][]int{
		1: {calmRounds, 2, 3},
		2: {calmRounds, 2 * calmRounds, 3},
		3: {1, 2 * calmRounds, 3 * calmRounds, 4},
		4: {2, 3 * calmRounds, 4 * calmRounds, 5, 6},
	} {
		m := Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}
		trips := make([]Trip, together)
		for i := range trips {
			m.Send(&trips[i], epoch)
		}
		m.Answered(&trips[0], &Answer{Wait: time.Second, Refused: true}, epoch)
		require.Equal(t, max(1, together/2), m.pool.bound)
		for _, answers := range rounds {
			most := m.pool.bound
			for range answers * slowRounds {
				require.Equal(t, most, m.pool.bound)
				var one Trip
				m.Send(&one, epoch.Add(time.Minute))
				m.Answered(&one, &Answer{}, epoch.Add(time.Minute))
			}
			require.Equal(t, most+1, m.pool.bound)
		}
	}
}

// Of refusals with nothing served in between, only the first sets the ceiling of the pool.
func TestPoolSpell(t *testing.T) {
	var p pool
	p.shrink(6)
	require.Equal(t, 3, p.bound)
	p.regrow()
	p.shrink(4)
	require.Equal(t, 2, p.bound, "another spell")
	p.shrink(6)
	require.Equal(t, 1, p.bound)
	for range 5 {
		p.shrink(1)
	}
	require.Equal(t, 1, p.bound)
	require.Equal(t, 4, p.ceiling, "up to which it grows again soon")
	for range slowRounds * (1 + 2) {
		require.Less(t, p.bound, 3)
		p.regrow()
	}
	require.Equal(t, 3, p.bound)

	p = pool{}
	p.shrink(1)
	p.regrow()
	p.shrink(1)
	require.Equal(t, 1, p.bound, "one always goes")
}

// If the pool has grown to the number that was refused, one less than that may be under way.
func TestPoolRefusedAgain(t *testing.T) {
	grown := func() (p pool) {
		p.shrink(6)
		for p.bound < 6 {
			p.regrow()
		}
		return p
	}
	p := grown()
	p.shrink(6)
	require.Equal(t, 5, p.bound)
	p.shrink(6)
	require.Equal(t, 2, p.bound, "the same spell")

	p = grown()
	p.shrink(5)
	require.Equal(t, 2, p.bound, "fewer were under way")

	p = grown()
	for p.bound < 7 {
		p.regrow()
	}
	p.shrink(7)
	require.Equal(t, 3, p.bound, "more were served before")
}

// A request that belongs to another resource gives its tokens back.
func TestReturned(t *testing.T) {
	m := Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}
	prices := []Price{{Unit: "tokens", Units: 60}}
	trips := []Trip{{Prices: prices}, {Prices: prices}}
	m.Send(&trips[0], epoch)
	a := readAnswer(t, `t r=90;t=60 of q=100;qu="tokens"`, prices)
	m.Answered(&trips[0], &a, epoch)
	m.Send(&trips[1], epoch)
	require.False(t, m.Ask(epoch, &Trip{Prices: prices}).Open, "30 are left")
	m.Returned(&trips[1], epoch)
	require.True(t, m.Ask(epoch, &Trip{Prices: prices}).Open, "90 are left")
}

// If answers take longer than a window, they show nothing of what is left. Requests are then
// spaced, so that each window has no more than its quota.
func TestSpacing(t *testing.T) {
	const third = time.Second / 3
	for _, tc := range []struct {
		name, fields string
		took         time.Duration
		share        float64
		want         time.Duration // between two requests; 0 if the answer does not space them
	}{
		{"used up", "a r=0;t=1 of q=3;w=1", 1500 * time.Millisecond, 1, third},
		{"something is left", "a r=2;t=1 of q=3;w=1", 1500 * time.Millisecond, 1, third},
		{"answers take exactly a window", "a r=0;t=1 of q=3;w=1", time.Second, 1, third},
		{"a share", "a r=0;t=1 of q=3;w=1", 1500 * time.Millisecond, 0.5, 2 * third},
		{"of two limits the slower", "a r=0;t=1 of q=3;w=1; b r=0;t=1 of q=2;w=1", 1500 * time.Millisecond, 1, time.Second / 2},
		{"tokens remain", `a r=0;t=1 of q=3;w=1; t r=5;t=1 of q=9;w=1;qu="tokens"`, 1500 * time.Millisecond, 1, third},
		{"answers in time", "a r=2;t=1 of q=3;w=1", 900 * time.Millisecond, 1, 0},
		{"a second limit whose window is longer", "a r=2;t=1 of q=3;w=1; b r=5;t=9 of q=9;w=9", 1500 * time.Millisecond, 1, 0},
		{"a refusal", "429; a r=2;t=1 of q=3;w=1", 1500 * time.Millisecond, 1, 0},
		{"no quota", "a r=2;t=1 of q=0;w=1", 1500 * time.Millisecond, 1, 0},
	} {
		m, now := Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: tc.share}}, epoch
		var trips [3]Trip
		m.Send(&trips[0], now)
		m.Send(&trips[1], now)
		now = now.Add(tc.took)
		m.Answered(&trips[0], &Answer{}, now)
		a := readAnswer(t, tc.fields, nil)
		m.Answered(&trips[1], &a, now)
		if tc.want == 0 {
			require.Zero(t, m.spacing, tc.name)
			continue
		}
		require.True(t, m.Ask(now, &Trip{}).Open, tc.name)
		m.Send(&trips[2], now)
		v := m.Ask(now, &Trip{})
		require.Equal(t, Limit, v.Reason, tc.name)
		require.InDelta(t, tc.want, v.Until.Sub(now), 10, tc.name)
		a = readAnswer(t, "429; "+tc.fields, nil)
		m.Answered(&trips[2], &a, now.Add(tc.took))
		require.Zero(t, m.spacing, "%s: a refusal ends it", tc.name)
	}
}

// The typical time is the average time of the latest answers, without refusals.
func TestTypical(t *testing.T) {
	m, now := Machine{Settings: Settings{MaxWait: time.Minute, Share: 1}}, epoch
	answer := func(took time.Duration, a Answer) {
		var trip Trip
		m.Send(&trip, now)
		now = now.Add(took)
		m.Answered(&trip, &a, now)
	}
	require.Zero(t, m.Typical)
	answer(time.Millisecond, Answer{Refused: true})
	require.Zero(t, m.Typical)
	answer(2*time.Second, Answer{})
	require.Equal(t, 2*time.Second, m.Typical)
	answer(10*time.Second, Answer{})
	require.Equal(t, 3*time.Second, m.Typical)
	for range 100 {
		answer(2*time.Second, Answer{})
	}
	require.InDelta(t, 2*time.Second, m.Typical, 10_000, "earlier ones are forgotten")
}

// How fast units flow back, by what a limit announces and by what answers have shown.
func TestFlowRate(t *testing.T) {
	for _, tc := range []struct {
		name string
		flow flow
		want float64
	}{
		{"unknown", flow{}, 0},
		{"a window", flow{byPolicy: 5}, 5},
		{"a reset", flow{byReset: 5}, 0},
		{"resets that agree", flow{byReset: 5, agreed: 2}, 5},
		{"a window, and resets that agree", flow{byPolicy: 4, byReset: 5, agreed: 2}, 4},
		{"shown, nothing else is known", flow{byAnswers: 3, shown: true}, 3},
		{"shown, the limit is full", flow{untilReset: time.Minute, byAnswers: 3, shown: true}, 3},
		{"shown, slower than the window", flow{byPolicy: 5, byAnswers: 3, shown: true}, 3 + 2*claim},
		{"shown, faster than the window", flow{byPolicy: 5, byAnswers: 8, shown: true}, 5},
		{"shown, next to nothing", flow{byPolicy: 5, byAnswers: 5*leastFlow - 0.01, shown: true}, 0},
		{"shown, next to nothing, because others take it", flow{byPolicy: 5, byAnswers: 0, shown: true, steady: true}, 5 * claim},
		{"shown, a little more", flow{byPolicy: 5, byAnswers: 5 * leastFlow, shown: true}, 5 * (leastFlow + (1-leastFlow)*claim)},
		{"shown, slower than the reset", flow{byReset: 5, untilReset: time.Minute, byAnswers: 3, shown: true}, 3 + 2*claim},
		{"shown, faster than the reset", flow{byReset: 5, untilReset: time.Minute, byAnswers: 8, shown: true}, 5},
		{"shown, and the reset is that of the next unit", flow{byReset: 5, untilReset: 200 * time.Millisecond, byAnswers: 8, shown: true}, 8},
		{"shown, and the window is short", flow{byPolicy: 5, untilReset: 200 * time.Millisecond, byAnswers: 8, shown: true}, 5},
	} {
		require.InDelta(t, tc.want, tc.flow.rate(), 1e-9, tc.name)
	}
}

// A request is under way until its body ends, if the server may bound the requests under way.
func TestBodies(t *testing.T) {
	m := Machine{Settings: Settings{MaxWait: time.Minute, Share: 1}}
	answer := func(a Answer) {
		var trip Trip
		m.Send(&trip, epoch)
		m.Answered(&trip, &a, epoch)
	}
	for range firstRequests {
		answer(Answer{})
		require.True(t, m.OpenBody(), "the key is new")
	}
	require.Equal(t, firstRequests, m.UnderWay())
	for range firstRequests {
		m.CloseBody()
	}
	require.Zero(t, m.UnderWay())
	answer(Answer{})
	require.False(t, m.OpenBody())
	answer(Answer{AtOnce: 3})
	require.True(t, m.OpenBody(), "a policy bounds them")
	m.pool = pool{bound: 3}
	require.True(t, m.OpenBody(), "a refusal does")
	require.Equal(t, 2, m.UnderWay())
}

// The reason of a wait is what the server asked for, if it asked for a wait.
func TestReasons(t *testing.T) {
	for fields, want := range map[string]Reason{
		"429": Backoff, "429; Retry-After: 0": Backoff, "429; Retry-After: 3": RetryAfter, "a r=0;t=3": Limit,
	} {
		m := Machine{Settings: Settings{MaxWait: time.Minute, Share: 1}}
		var trip Trip
		m.Send(&trip, epoch)
		a := readAnswer(t, fields, nil)
		m.Answered(&trip, &a, epoch)
		require.Equal(t, want, m.Ask(epoch, &Trip{}).Reason, fields)
	}
}
