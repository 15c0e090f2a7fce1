package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every transition of the machine, alone, in a Gate and in a Transport.
func TestMachine(t *testing.T) {
	var many strings.Builder
	for i := range maxBudgets + 1 {
		fmt.Fprintf(&many, `m%d r=0;t=60 of q=60;qu="tokens"; `, i)
	}
	playScores(t, "machine", []string{"machine", "gate", "transport"},
		block{"costs, a policy with a long name", strings.ReplaceAll(`
			0 send 1 NAME:tokens=10 | answer 1 NAME r=0;t=30 of q=60;w=60;qu="tokens" | shut 10000 NAME:tokens=10 certain
			0 open other:tokens=10`, "NAME", strings.Repeat("n", 200))},
		block{"costs, more limits than are counted apart", `
			0 send 1 tokens=1 | answer 1 ` + many.String() + ` | shut 60000 m0:tokens=9 certain
			0 shut 60000 m15:tokens=9 certain | open m16:tokens=9`},
	)
}

// Waits that nobody has asked for grow by half, to 32 s at the most. Where the first was
// enough, it is the first again.
func TestBackoff(t *testing.T) {
	b := backoff{latest: time.Second}
	b.recovered()
	b.recovered()
	require.Equal(t, time.Second, b.proven, "whatever follows the first answer")
	b = backoff{}
	require.Equal(t, leastBackoff, b.next())
	b.recovered()
	want := leastBackoff
	for range 100 {
		require.Equal(t, want, b.next())
		want = min(want*3/2, mostBackoff)
	}
	require.Equal(t, 32*time.Second, want)
}

// Budgets of which one allows nothing that another does not are one.
func TestBudgets(t *testing.T) {
	b := func(left float64, seconds int) budget {
		if seconds == 0 {
			return budget{left: left}
		}
		return budget{left: left, end: epoch.Add(time.Duration(seconds) * time.Second)}
	}
	m := &machine{}
	require.True(t, m.budgets.add(b(5, 10)))
	require.False(t, m.budgets.add(b(5, 10)), "the same")
	require.False(t, m.budgets.add(b(6, 9)), "looser")
	require.True(t, m.budgets.add(b(6, 11)), "for longer")
	require.True(t, m.budgets.add(b(7, 0)), "nobody knows for how long")
	require.True(t, m.budgets.add(b(7, 100)), "the other may be over before")
	require.False(t, m.budgets.add(b(8, 0)))
	require.True(t, m.budgets.add(b(4, 11)))
	require.Equal(t, budgets{b(7, 0), b(7, 100), b(4, 11)}, m.budgets)
	require.True(t, m.budgets.add(b(3, 0)))
	require.Equal(t, budgets{b(7, 100), b(4, 11), b(3, 0)}, m.budgets)

	m = &machine{}
	for i := range maxBudgets + 5 {
		require.True(t, m.budgets.add(b(float64(100+i), i+1)))
	}
	require.Len(t, m.budgets, maxBudgets)
	require.Equal(t, b(100+maxBudgets-1, maxBudgets+5), m.budgets[maxBudgets-1], "the stricter of both")

	lower := budget{left: 100 + maxBudgets - 1.5, end: epoch.Add(maxBudgets*time.Second - time.Millisecond), from: epoch, number: 7}
	require.True(t, m.budgets.add(lower))
	lower.end = epoch.Add((maxBudgets + 5) * time.Second)
	require.Equal(t, lower, m.budgets[maxBudgets-1], "what is left of one, and the end of the other")
	require.True(t, m.budgets.add(b(1000, 0)))
	require.Equal(t, lower, m.budgets[maxBudgets-1], "an end is not lost")
	require.True(t, m.budgets.add(b(1, 0)))
	require.Equal(t, budget{left: 1, end: lower.end}, m.budgets[maxBudgets-1], "nor what is left")

	m = &machine{}
	for i := range maxBudgets - 1 {
		require.True(t, m.budgets.add(b(float64(100+i), i+1)))
	}
	require.True(t, m.budgets.add(b(50, 0)))
	require.True(t, m.budgets.add(b(200, 100)))
	require.Equal(t, b(50, 100), m.budgets[maxBudgets-1], "one has no end, and gets that of the other")
}

// TestLoss: what would be lost with a machine that was last used at the epoch.
func TestLoss(t *testing.T) {
	const before, at, after = idleTime - time.Second, idleTime, idleTime + time.Second
	r := settings{maxWait: idleTime, share: 1}
	ends := func(left float64, end time.Duration) []budget { return []budget{{left: left, end: epoch.Add(end)}} }
	for _, tc := range []struct {
		name string
		m    machine
		now  time.Duration
		want loss
		idle bool
	}{
		{"nothing is known", machine{}, at, nothingLost, false},
		{"nothing is known, for longer", machine{}, after, nothingLost, true},
		{"a wait", machine{phase: waiting, pause: pause{until: epoch.Add(2 * after)}}, after, waitLost, false},
		{"a wait that has ended", machine{phase: waiting, pause: pause{until: epoch.Add(after)}}, after, nothingLost, true},
		{"as many as may be under way", machine{pool: pool{most: 2}}, at, countLost, false},
		{"one may be under way", machine{pool: pool{most: 1}}, at, countLost, false},
		{"as many as a policy says may be under way", machine{pool: pool{atOnce: 2}}, at, countLost, false},
		{"as many as might be under way", machine{pool: pool{most: 2}}, after, nothingLost, true},
		{"something is left", machine{budgets: ends(5, 2*after)}, after, countLost, false},
		{"something was left", machine{budgets: ends(5, after)}, after, nothingLost, true},
		{"nothing is left", machine{budgets: ends(0, 2*after)}, before, waitLost, false},
		{"nothing is left for longer than is waited", machine{budgets: ends(0, 2*after)}, at, countLost, false},
		{"something is left without an end", machine{budgets: []budget{{left: 5}}}, at, countLost, false},
		{"nothing is left without an end", machine{budgets: []budget{{}}}, before, countLost, false},
		{"something is left without an end, for longer", machine{budgets: []budget{{left: 5}}}, after, nothingLost, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.last = epoch
			require.Equal(t, tc.want, tc.m.loss(epoch.Add(tc.now), &r))
			require.Equal(t, tc.idle, tc.m.idle(epoch.Add(tc.now), &r))
		})
	}
}

// Numbers at the end of their range do not wrap around.
func TestMachineExtremes(t *testing.T) {
	r := settings{maxWait: time.Duration(math.MaxInt64), share: 1e-300, pace: true}
	for _, fields := range []string{
		"a r=999999999999999;t=999999999999999", "a r=0;t=999999999999999", "429; Retry-After: 99999999999999999999", "a r=1;t=999999999999999",
	} {
		m, now := &machine{}, epoch
		for range 100 {
			m.tick(now, &r)
			if v := m.ask(now, &r, nil); !v.open {
				require.True(t, v.until.After(now), fields)
			}
			var sent trip
			m.send(&sent, now, &r)
			a := Advisor{MaxWait: r.maxWait}.Advise(shortResponse(fields), now)
			told := reportOf(&a, nil, nil)
			m.answered(&sent, &told, now, &r)
			now = now.Add(time.Hour)
		}
	}
}

// After a refusal of so many under way together half as many go, but at least one.
// Then there is one more after so many answers.
func TestMachineRegrows(t *testing.T) {
	for together, rounds := range map[int][]int{
		1: {calmRounds, 2, 3},
		2: {calmRounds, 2 * calmRounds, 3},
		3: {1, 2 * calmRounds, 3 * calmRounds, 4},
		4: {2, 3 * calmRounds, 4 * calmRounds, 5, 6},
	} {
		m, r := machine{}, settings{maxWait: DefaultMaxWait, share: 1}
		trips := make([]trip, together)
		for i := range trips {
			m.send(&trips[i], epoch, &r)
		}
		m.answered(&trips[0], &report{wait: time.Second, refused: true}, epoch, &r)
		require.Equal(t, max(1, together/2), m.pool.most)
		for _, answers := range rounds {
			most := m.pool.most
			for range answers {
				require.Equal(t, most, m.pool.most)
				var one trip
				m.send(&one, epoch.Add(time.Minute), &r)
				m.answered(&one, &report{}, epoch.Add(time.Minute), &r)
			}
			require.Equal(t, most+1, m.pool.most)
		}
	}
}

// Where it is the same number each time that is refused, it is tried four times as
// seldom each time, and one less goes in between.
func TestMachineRefusedAgain(t *testing.T) {
	var p pool
	p.shrink(6)
	require.Equal(t, 3, p.most)
	for _, rounds := range []int{calmRounds, 4 * calmRounds, 16 * calmRounds, 64 * calmRounds, 64 * calmRounds} {
		for p.most < 5 {
			p.regrow()
		}
		for range 5 * rounds {
			require.Equal(t, 5, p.most)
			p.regrow()
		}
		require.Equal(t, 6, p.most)
		p.shrink(6)
		require.Equal(t, 5, p.most)
	}
	p.shrink(4)
	require.Equal(t, 2, p.most, "another number: from the beginning")
	require.Zero(t, p.again)
}
