package machine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A score is what happens to the requests of one key, as in play_test.go of package obey, where a Gate
// and a Transport play the same scores. A line has a time, in milliseconds, and the events of that
// time, with a bar between them:
//
//	0   send 3              three requests are sent, which must be allowed
//	0   send 2 tokens=500   two that cost 500 of each limit in that unit; input:tokens=500 names the policy
//	100 answer 1 429; F     the first request is answered, refused if there is a 429, with field lines
//	100 fail 2              the second gets no answer
//	100 told 429; F         one request is sent and answered at once
//	100 open                a request may be sent
//	100 shut 500            no request may be sent before that time; "shut 250-500" is a time between the two
//	100 open tokens=500     a request of that price may be sent
//	100 shut 500 certain    and no answer allows it earlier
//	100 shut 500 polite     and a request in a hurry is sent
//	100 is waiting          the phase
//
// It may begin with settings: "with share=0.5 pace maxwait=1000: 0 send". readAnswer reads the field
// lines.
type play struct {
	t     testing.TB
	where string // the line and the event
	m     Machine
	trips []*Trip
}

var epoch = time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)

// Every transition of the machine.
func TestMachine(t *testing.T) {
	b, err := os.ReadFile("../../testdata/machine.txt")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(b), "\n## ")
	scores := strings.Split(text, "\n## ")
	require.Greater(t, len(scores), 100)
	for _, score := range scores {
		name, lines, _ := strings.Cut(score, "\n")
		t.Run(name, func(t *testing.T) { playScore(t, lines) })
	}
	var many strings.Builder
	for i := range maxLimits + 1 {
		fmt.Fprintf(&many, `m%d r=0;t=60 of q=60;qu="tokens"; `, i)
	}
	t.Run("costs, more limits than are counted apart", func(t *testing.T) {
		playScore(t, "0 send 1 tokens=1 | answer 1 "+many.String()+" | shut 60000 m0:tokens=9 certain\n"+
			"0 shut 60000 m15:tokens=9 certain | open m16:tokens=9")
	})
}

func playScore(t *testing.T, score string) {
	p := &play{t: t, m: Machine{Settings: Settings{MaxWait: 10 * time.Minute, Share: 1}}}
	for line := range strings.Lines(p.settings(score)) {
		at, events, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at == "" || at[0] == '#' {
			continue
		}
		for event := range strings.SplitSeq(events, " | ") {
			p.where = at + ": " + event
			p.event(epoch.Add(p.milliseconds(at)), event)
		}
	}
}

// settings reads the settings of a score, and returns the lines after them.
func (p *play) settings(score string) (lines string) {
	words, ok := strings.CutPrefix(score, "with ")
	if !ok {
		return score
	}
	words, lines, _ = strings.Cut(words, ":")
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "share":
			share, err := strconv.ParseFloat(value, 64)
			require.NoError(p.t, err)
			p.m.Share = share
		case "pace":
			p.m.Pace = true
		case "maxwait":
			p.m.MaxWait = p.milliseconds(value)
		default:
			require.Fail(p.t, "no setting", word)
		}
	}
	return lines
}

func (p *play) number(text string) int {
	p.t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(p.t, err, p.where)
	return n
}

func (p *play) milliseconds(text string) time.Duration {
	p.t.Helper()
	return time.Duration(p.number(text)) * time.Millisecond
}

// cutPrices cuts the prices out of the words of an event.
func (p *play) cutPrices(words []string) (rest []string, prices []Price) {
	p.t.Helper()
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			rest = append(rest, word)
			continue
		}
		policy, unit, named := strings.Cut(name, ":")
		if !named {
			policy, unit = "", name
		}
		prices = append(prices, Price{unit, policy, float64(p.number(value))})
	}
	return rest, prices
}

// ask asks the machine, which that must not change.
func (p *play) ask(now time.Time, prices []Price) Verdict {
	p.t.Helper()
	before := fmt.Sprint(p.m)
	v := p.m.Ask(now, &Trip{Prices: prices})
	require.Equal(p.t, before, fmt.Sprint(p.m), "%s: a query never changes state", p.where)
	require.True(p.t, v.Open || v.Until.After(now), "%s: the caller does not ask twice at the same time", p.where)
	return v
}

func (p *play) event(now time.Time, event string) {
	p.t.Helper()
	word, rest, _ := strings.Cut(event, " ")
	words := strings.Fields(rest)
	var prices []Price
	if word != "answer" && word != "told" {
		words, prices = p.cutPrices(words)
	}
	v := p.ask(now, prices)
	switch word {
	case "told":
		p.send(now, nil)
		p.answer(now, p.trips[len(p.trips)-1], rest)
	case "answer":
		number, fields, _ := strings.Cut(rest, " ")
		p.answer(now, p.trips[p.number(number)-1], fields)
	case "send":
		for range p.number(append(words, "1")[0]) {
			p.send(now, prices)
		}
	case "fail":
		p.m.Failed(p.trips[p.number(rest)-1])
	case "open":
		require.Empty(p.t, words, p.where)
		require.True(p.t, v.Open, "%s: %s", p.where, p.describe(v))
	case "shut":
		p.shut(v, words)
	case "is":
		require.Equal(p.t, rest, p.phase(now), p.where)
	default:
		require.Fail(p.t, "no event", p.where)
	}
}

func (p *play) send(now time.Time, prices []Price) {
	p.t.Helper()
	v := p.m.Ask(now, &Trip{Prices: prices})
	require.True(p.t, v.Open, "%s: request %d: %s", p.where, len(p.trips)+1, p.describe(v))
	sent := &Trip{Prices: prices}
	p.trips = append(p.trips, sent)
	p.m.Send(sent, now)
}

func (p *play) answer(now time.Time, sent *Trip, fields string) {
	p.t.Helper()
	a := readAnswer(p.t, fields, sent.Prices)
	p.m.Answered(sent, &a, now)
}

func (p *play) shut(v Verdict, words []string) {
	p.t.Helper()
	require.False(p.t, v.Open, "%s: %s", p.where, p.describe(v))
	from, to, isRange := strings.Cut(words[0], "-")
	if !isRange {
		to = from
	}
	until := v.Until.Sub(epoch).Truncate(time.Millisecond)
	require.GreaterOrEqual(p.t, until, p.milliseconds(from), "%s: %s", p.where, p.describe(v))
	require.LessOrEqual(p.t, until, p.milliseconds(to), "%s: %s", p.where, p.describe(v))
	got := Verdict{Certain: v.Certain, Polite: v.Polite}
	var want Verdict
	for _, word := range words[1:] {
		switch word {
		case "certain":
			want.Certain = true
		case "polite":
			want.Polite = true
		default:
			require.Fail(p.t, "no way to be shut", p.where)
		}
	}
	require.Equal(p.t, want, got, "%s: %s", p.where, p.describe(v))
}

// phase returns in which of its phases the machine is at a time.
func (p *play) phase(now time.Time) string {
	isUsedUp := func(x limit) bool { return x.flow == nil && x.remaining < 1 && !now.Before(x.end) }
	switch {
	case now.Before(p.m.until):
		return "waiting"
	case p.m.probing || slices.ContainsFunc(p.m.limits, isUsedUp):
		return "probing"
	case !p.m.anyServed && p.m.refused == 0 && (len(p.m.underWay) == 0 || now.Before(p.m.underWay[0].At.Add(firstWait))):
		return "unknown"
	}
	return "counting"
}

// describe returns until when a request waits, and why, for the author of a score.
func (p *play) describe(v Verdict) string {
	state := fmt.Sprintf("under way %d, limits %+v", p.m.UnderWay(), p.m.limits)
	if v.Open {
		return "open, " + state
	}
	why := "until an answer at the earliest"
	switch {
	case v.Polite:
		why = "for the sake of pace"
	case !v.Depends:
		why = "because of " + string(v.Reason)
	}
	return fmt.Sprintf("shut until %d %s, %s", v.Until.Sub(epoch).Milliseconds(), why, state)
}

// A limitText is a limit of a score, with the parameters of its policy.
type limitText struct {
	name, unit          string
	r, q                int64 // q is -1 if it is not known
	t, w                time.Duration
	hasReset, hasWindow bool
}

// read reads parameters such as r=5;t=30.
func (l *limitText) read(t testing.TB, params string) {
	t.Helper()
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if key == "qu" {
			l.unit = strings.Trim(value, `"`)
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, params)
		switch key {
		case "r":
			l.r = int64(n)
		case "q":
			l.q = int64(n)
		case "t":
			l.t, l.hasReset = scale(time.Second, n), true
		case "w":
			l.w, l.hasWindow = scale(time.Second, n), true
		default:
			require.Fail(t, "no parameter", params)
		}
	}
}

// readAnswer reads what an answer says: "429" is a refusal, "Retry-After: 7" a wait,
// "a r=5;t=30 of q=9" a limit with its policy, and RateLimit-Policy: "a";q=9, "b";q=5
// policies alone. What Advise decides for such a response is decided here too.
func readAnswer(t testing.TB, text string, prices []Price) (a Answer) {
	t.Helper()
	var limits []limitText
	policies := map[string]limitText{}
	for part := range strings.SplitSeq(text, "; ") {
		part = strings.TrimSpace(part)
		if seconds, ok := strings.CutPrefix(part, "Retry-After: "); ok {
			n, err := strconv.ParseFloat(seconds, 64)
			require.NoError(t, err)
			a.Wait, a.RetryAfter = scale(time.Second, n), true
		} else if list, ok := strings.CutPrefix(part, "RateLimit-Policy: "); ok {
			for member := range strings.SplitSeq(list, ", ") {
				name, params, _ := strings.Cut(member, ";")
				l := limitText{name: strings.Trim(name, `"`)}
				l.read(t, params)
				policies[l.name] = l
			}
		} else if name, params, ok := strings.Cut(part, " "); ok {
			l := limitText{name: name}
			params, policy, _ := strings.Cut(params, " of ")
			l.read(t, params)
			if policy != "" {
				p := limitText{name: name}
				p.read(t, policy)
				policies[name] = p
			}
			limits = append(limits, l)
		} else if part == "429" {
			a.Refused = true
		} else if part != "302" { // the wait counts whatever the status
			require.Empty(t, part)
		}
	}
	for _, p := range policies {
		if p.unit == "concurrent-requests" && (a.AtOnce == 0 || p.q < a.AtOnce) {
			a.AtOnce = p.q
		}
	}
	for _, l := range limits {
		p, known := policies[l.name]
		if !known {
			p.q = -1
		}
		if p.unit != "concurrent-requests" {
			l.q, l.w, l.hasWindow, l.unit = p.q, p.w, p.hasWindow, p.unit
			a.add(l, prices)
		}
	}
	return a
}

// add adds a limit to an answer.
func (a *Answer) add(l limitText, prices []Price) {
	s := Stock{Unit: l.unit, Policy: l.name, Remaining: l.r, Quota: max(l.q, 0), Window: l.w, Reset: l.t, Ends: l.hasReset}
	if s.Unit == "" {
		s.Unit = RequestUnit
	}
	if l.q == 0 {
		s.Remaining = 0
	}
	if !s.Ends {
		s.Reset, s.Ends = l.w, l.hasWindow
	}
	a.Stocks = append(a.Stocks, s)
	switch {
	case s.Remaining > 0 && s.Unit == RequestUnit && l.hasReset:
		n := time.Duration(s.Remaining)
		if 0 < s.Quota && s.Quota < s.Remaining {
			n = time.Duration(s.Quota)
		}
		a.Pace = max(a.Pace, l.t/n+min(l.t%n, 1)) // rounded up
	case s.Remaining == 0 && !a.RetryAfter && (s.Unit == RequestUnit || Takes(prices, s.Unit, s.Policy) == 0):
		a.Wait = max(a.Wait, s.Reset)
	}
}
