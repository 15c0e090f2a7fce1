package ratelimit

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A play is what happens to a machine, alone or in a Gate, one time on each line, in
// milliseconds since the beginning, and a bar between the events of that time:
//
//	0   send 3              three requests are sent, which the machine must allow
//	0   send 2 tokens=500   two are sent that cost so much of limits in that unit, or of a policy: input:tokens=500
//	100 answer 1 429; F     the first of all requests is answered, with a status if it is not 200, and field lines
//	100 fail 2              the second gets no answer
//	100 open                a request may be sent
//	100 shut 500            none may before that time; "shut 250-500" is a time between the two
//	100 open tokens=500     one of that price may be
//	100 shut 500 certain    and no answer opens the gate earlier
//	100 shut 500 polite     and a request that is in a hurry goes
//	100 is waiting          the phase
//
// Field lines are short: "a r=5;t=30" is RateLimit: "a";r=5;t=30.
type play struct {
	t     *testing.T
	where string // the line and the event
	begin time.Time
	r     settings

	m     *machine
	trips []*trip

	g      *Gate // nil if the machine is alone
	passes []*Pass
}

var epoch = time.Date(2026, time.November, 21, 3, 0, 0, 0, time.UTC)

// runMachine runs a script for a machine that is alone.
func runMachine(t *testing.T, r settings, script string) {
	(&play{t: t, begin: epoch, r: r, m: &machine{}}).run(script)
}

// runGate runs a script for the machine of a key of a Gate, in virtual time.
func runGate(t *testing.T, g *Gate, script string) {
	g.Waiting = func(string, time.Time, Advice) func() { panic("TryEnter does not wait") }
	synctest.Test(t, func(t *testing.T) {
		(&play{t: t, begin: time.Now(), r: g.settings(), m: &machine{}, g: g}).run(script)
	})
}

func (p *play) run(script string) {
	p.t.Helper()
	for line := range strings.Lines(script) {
		at, events, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		ms, err := strconv.Atoi(at)
		require.NoError(p.t, err, line)
		now := p.begin.Add(time.Duration(ms) * time.Millisecond)
		if p.g != nil {
			time.Sleep(time.Until(now))
		}
		for event := range strings.SplitSeq(events, " | ") {
			p.where = at + " " + event
			if e := p.entry(); e != nil {
				p.m = &e.machine
			}
			p.m.tick(now, &p.r)
			before := fmt.Sprint(*p.m)
			event, costs := costsIn(event)
			v := p.m.ask(now, &p.r, pricesOf(costs))
			require.Equal(p.t, before, fmt.Sprint(*p.m), "%s: a query never changes state", p.where)
			require.True(p.t, v.open || v.until.After(now), "%s: nobody asks again and again at the same time", p.where)
			p.event(now, v, event, costs)
		}
	}
}

// entry is what the Gate knows, if there is one.
func (p *play) entry() *entry {
	if p.g == nil {
		return nil
	}
	return p.g.keys[keyName{rest: "a"}]
}

// costsIn cuts the costs out of an event.
func costsIn(event string) (rest string, costs []Cost) {
	words := strings.Fields(event)
	if words[0] == "answer" {
		return event, nil
	}
	words = slices.DeleteFunc(words, func(word string) bool {
		name, units, ok := strings.Cut(word, "=")
		if ok {
			policy, unit, named := strings.Cut(name, ":")
			if !named {
				policy, unit = "", name
			}
			n, _ := strconv.ParseInt(units, 10, 64)
			costs = append(costs, Cost{Unit: Unit(unit), Policy: policy, Units: n})
		}
		return ok
	})
	return strings.Join(words, " "), costs
}

func (p *play) event(now time.Time, v verdict, event string, costs []Cost) {
	p.t.Helper()
	words := strings.Fields(event)
	n := 1
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	switch words[0] {
	case "send":
		for range n {
			p.send(now, costs)
		}
	case "answer":
		_, fields, _ := strings.Cut(event, words[1])
		a := Advisor{MaxWait: p.r.maxWait}.Advise(shortResponse(fields), now)
		if p.g != nil {
			p.passes[n-1].Answered(a, now)
			return
		}
		told := reportOf(&a, p.trips[n-1].prices, nil)
		p.m.answered(p.trips[n-1], &told, now, &p.r)
	case "fail":
		if p.g != nil {
			p.passes[n-1].Failed()
			return
		}
		p.m.failed(p.trips[n-1])
	case "open":
		require.True(p.t, v.open, "%s: %+v", p.where, *p.m)
	case "shut":
		p.shut(v, words[1:])
		if p.g != nil {
			pass, until := p.g.TryEnter("a", costs...)
			require.Nil(p.t, pass, p.where)
			require.Equal(p.t, v.until, until, p.where)
		}
	case "is":
		require.Equal(p.t, words[1], []string{"unknown", "counting", "waiting", "probing"}[p.m.phase], p.where)
	default:
		require.Fail(p.t, "no event", p.where)
	}
}

func (p *play) send(now time.Time, costs []Cost) {
	p.t.Helper()
	if p.g != nil {
		pass, until := p.g.TryEnter("a", costs...)
		require.NotNil(p.t, pass, "%s: request %d", p.where, len(p.passes)+1)
		require.Zero(p.t, until)
		p.passes = append(p.passes, pass)
		return
	}
	prices := pricesOf(costs)
	require.True(p.t, p.m.ask(now, &p.r, prices).open, "%s: request %d", p.where, len(p.trips)+1)
	p.trips = append(p.trips, &trip{prices: prices})
	p.m.send(p.trips[len(p.trips)-1], now, &p.r)
}

func (p *play) shut(v verdict, words []string) {
	p.t.Helper()
	require.False(p.t, v.open, "%s: %+v", p.where, *p.m)
	until := v.until.Sub(p.begin).Milliseconds()
	from, to, _ := strings.Cut(words[0], "-")
	least, _ := strconv.ParseInt(from, 10, 64)
	most := least
	if to != "" {
		most, _ = strconv.ParseInt(to, 10, 64)
	}
	require.GreaterOrEqual(p.t, until, least, p.where)
	require.LessOrEqual(p.t, until, most, p.where)
	kind := ""
	if v.certain {
		kind += " certain"
	}
	if v.polite {
		kind += " polite"
	}
	require.Equal(p.t, strings.Join(words[1:], " "), strings.TrimSpace(kind), p.where)
}

// shortResponse reads "429; a r=5;t=30; Retry-After: 7".
func shortResponse(text string) *http.Response {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	for part := range strings.SplitSeq(text, "; ") {
		part = strings.TrimSpace(part)
		if status, err := strconv.Atoi(part); err == nil {
			resp.StatusCode = status
		} else if name, value, ok := strings.Cut(part, ": "); ok {
			resp.Header.Add(name, value)
		} else if name, params, ok := strings.Cut(part, " "); ok {
			resp.Header.Add(LimitField, `"`+name+`";`+params)
		}
	}
	return resp
}

// Every transition of the machine, alone and in a Gate.
func TestMachine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		r      settings
		script string
	}{
		// unknown
		{"unknown, ten go, the others wait half a second", settings{}, `
			0 is unknown | send 10 | shut 500 polite
			499 shut 500 polite
			500 is counting | open`},
		{"unknown, half a second after the first of them", settings{}, `
			0 send
			400 send 9 | shut 500 polite
			500 open`},
		{"unknown to counting, an answer", settings{}, `
			0 send 10
			100 answer 3 | is counting | open`},
		{"unknown, another goes in place of one that fails", settings{}, `
			0 send 10
			100 fail 3 | is unknown | send 1 | shut 500 polite`},
		{"unknown to waiting", settings{}, `
			0 send 10
			100 answer 1 Retry-After: 7 | is waiting | shut 7100 certain`},
		{"unknown, a share of ten", settings{share: 0.25}, `0 send 2 | shut 500 polite`},
		{"unknown, a share of less than one", settings{share: 0.001}, `0 send 1 | shut 500 polite`},

		// counting
		{"counting, silence", settings{}, `0 send | answer 1 | send 100 | is counting`},
		{"counting, as many as remain", settings{}, `0 send | answer 1 a r=2;t=30 | send 2 | shut 30000`},
		{"counting, certain where nothing is under way", settings{}, `
			0 send | answer 1 a r=1;t=30 | send
			100 fail 2 | shut 30000 certain`},
		{"counting, of two limits the tighter", settings{}, `0 send | answer 1 a r=3;t=10; b r=2;t=30 | send 2 | shut 30000`},
		{"counting, those under way are taken off", settings{}, `
			0 send 3
			100 answer 1 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, those under way for longer than the window are in it", settings{}, `
			0 send 3
			2000 answer 1 a r=3;t=1 | send 3 | shut 3000`},
		{"counting, those under way are taken off where no window is known", settings{}, `
			0 send 3
			2000 answer 1 a r=3 | send 1 | shut 3000`},
		{"counting, an answer gives back what was taken off for it", settings{}, `
			0 send 3
			100 answer 1 a r=1;t=30 | shut 30100 | answer 2 a r=2;t=30 | answer 3 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, silence gives nothing back", settings{}, `
			0 send 3
			100 answer 1 a r=2;t=30 | answer 2 | fail 3 | shut 30100 certain`},
		{"counting, silence before counts", settings{}, `
			0 send 3
			100 answer 1 | fail 2 | answer 3 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, a newer answer replaces", settings{}, `
			0 send | answer 1 a r=1;t=30 | send
			100 answer 2 a r=5;t=40 | send 5 | shut 40100`},
		{"counting, an older answer makes stricter only", settings{}, `
			0 send 2
			100 answer 2 a r=5;t=30 | answer 1 a r=1;t=30 | send 1 | shut 30100`},
		{"counting, an older answer that is looser changes nothing", settings{}, `
			0 send 2
			100 answer 2 a r=1;t=30 | answer 1 a r=9;t=30 | send 1 | shut 30100`},
		{"counting, an answer gives back nothing that was not taken off for it", settings{}, `
			0 send 3
			2000 answer 1 a r=3;t=1 | send | answer 2 a r=9;t=1 | send 2 | shut 3000`},
		{"counting, an answer gives back what it took of a budget that is older", settings{}, `
			0 send 2 | answer 2 a r=5;t=60
			100 send 3 | answer 1 b r=4;t=30 | answer 3 c r=50;t=90 | answer 4 c r=50;t=90 | send 3 | shut 30100`},
		{"counting, an answer gives back a whole one of a share that was learnt before", settings{share: 0.5}, `
			0 send 2 | answer 2 a r=10;t=60
			100 send | answer 1 b r=8;t=30 | answer 3 c r=50;t=90 | send 4 | shut 30100
			30100 is probing | open`},
		{"counting, the last of those in it gives back nothing", settings{}, `
			0 send 3
			2000 answer 1 a r=3;t=1 | answer 3 a r=9;t=1 | send 3 | shut 3000`},
		{"counting, an older answer that leaves all to Retry-After: 0 is no silence", settings{}, `
			0 send 3
			100 answer 2 a r=50;t=30 | answer 1 Retry-After: 0; a r=0;t=30 | answer 3 a r=5;t=30 | send 5 | shut 30100`},
		{"counting, r without t", settings{}, `
			0 send | answer 1 a r=1 | send | shut 1000
			1000 is probing`},
		{"counting, r without t, nothing under way", settings{}, `0 send | answer 1 a r=0 | is probing | send`},
		{"counting, r without t beside a window that is known, which is kept", settings{}, `
			0 send 3 | answer 2 a r=0 | answer 3 a r=1;t=30 | fail 1 | shut 30000 certain`},
		{"counting, t of 0 is within a second", settings{}, `0 send | answer 1 a r=2;t=0 | send 2 | shut 1000`},
		{"counting, other units are not counted", settings{}, `0 send | answer 1 RateLimit-Policy: "a";q=9;qu="content-bytes"; a r=1;t=30 | send 5`},
		{"counting, the window of the policy", settings{}, `0 send | answer 1 RateLimit-Policy: "a";q=9;w=60; a r=1 | send | shut 60000`},
		{"counting, a share", settings{share: 0.5}, `0 send | answer 1 a r=5;t=30 | send 2 | shut 30000`},
		{"counting, less than one whole request waits for the end", settings{share: 0.1}, `
			0 send | answer 1 a r=5;t=30 | shut 30000 certain
			30000 is counting | send | shut 31000`},
		{"counting to probing, the window ends with nothing left", settings{}, `
			0 send | answer 1 a r=1;t=30 | send
			29999 is counting
			30000 is probing`},
		{"counting, the window ends with something left", settings{}, `
			0 send | answer 1 a r=2;t=30 | send
			30000 is counting | send 1`},
		{"counting to waiting", settings{}, `
			0 send | answer 1 a r=5;t=30 | send
			100 answer 2 a r=0;t=7 | is waiting | shut 7100 certain`},
		{"counting, no longer than MaxWait after the last request", settings{maxWait: time.Minute}, `
			0 send | answer 1 a r=1;t=3600 | send | shut 60000
			60000 is probing`},

		// late answers, to three that were sent at the same time
		{"late answers, in order", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=9;t=60 | answer 3 a r=8;t=60 | answer 4 a r=1;t=60 | send | shut 60000`},
		{"late answers, the last is first", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=1;t=60 | answer 3 a r=8;t=60 | answer 4 a r=9;t=60 | send | shut 60000`},
		{"late answers, the wait is first", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=0;t=30 | answer 3 a r=8;t=60 | answer 4 a r=9;t=60 | shut 30000 certain`},
		{"late answers, the wait is last", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=8;t=60 | answer 3 a r=9;t=60 | answer 4 a r=0;t=30 | shut 30000 certain`},
		{"late answers, the longer wait is first", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=0;t=30 | answer 3 a r=0;t=10 | answer 4 a r=9;t=60 | shut 30000 certain`},
		{"late answers, the longer wait is last", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=0;t=10 | answer 3 a r=5;t=60 | answer 4 a r=0;t=30 | shut 30000 certain`},
		{"late answers, silence counts", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 a r=3;t=60 | answer 3 | answer 4 | send | shut 60000`},
		{"late answers, silence first counts too", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 3 | answer 2 | answer 3 | answer 4 a r=3;t=60 | send | shut 60000`},
		{"late answers, one that makes what is known stricter is the newest from then on", settings{}, `
			0 send | answer 1 a r=100;t=60 | send 2 | answer 2 a r=50;t=60 | send | answer 3 a r=1;t=60 | answer 4 a r=40;t=60 | send | shut 60000`},

		// waiting
		{"waiting to probing, nothing was left", settings{}, `
			0 send | answer 1 a r=0;t=7
			6999 is waiting
			7000 is probing`},
		{"waiting to probing, refused", settings{}, `
			0 send | answer 1 429; Retry-After: 7
			7000 is probing`},
		{"waiting to counting, a Retry-After that refused nothing", settings{}, `
			0 send | answer 1 Retry-After: 7
			7000 is counting | send 5`},
		{"waiting to counting, then what remains", settings{}, `
			0 send | answer 1 Retry-After: 7; a r=2;t=30
			7000 send 2 | shut 30000`},
		{"waiting, Retry-After in place of the window", settings{}, `
			0 send | answer 1 Retry-After: 7; a r=0;t=30 | shut 7000 certain
			7000 is probing | send`},
		{"waiting, a longer wait", settings{}, `
			0 send 2 | answer 1 Retry-After: 7
			100 answer 2 Retry-After: 9 | shut 9100 certain`},
		{"waiting, an older answer cannot shorten it", settings{}, `
			0 send 2 | answer 2 Retry-After: 7
			100 answer 1 Retry-After: 1 | shut 7000 certain`},
		{"waiting, an older answer cannot end it", settings{}, `
			0 send 2 | answer 2 Retry-After: 7
			100 answer 1 a r=50;t=60 | shut 7000 certain`},
		{"waiting, the answer to a request that was sent before it was learnt cannot end it", settings{}, `
			0 send 2 | answer 2 a r=50;t=60
			100 send | answer 1 Retry-After: 7 | answer 3 a r=40;t=60 | shut 7100 certain`},
		{"waiting, a longer wait that refused nothing: still a probe", settings{}, `
			0 send 2 | answer 2 429; Retry-After: 2
			100 answer 1 Retry-After: 5 | shut 5100 certain
			5100 is probing`},
		{"waiting, a shorter wait that refused: a probe", settings{}, `
			0 send 2 | answer 2 Retry-After: 5
			100 answer 1 429; Retry-After: 2 | shut 5000 certain
			5000 is probing`},
		{"waiting, silence cannot end it", settings{}, `
			0 send 2 | answer 1 Retry-After: 7
			100 answer 2 | shut 7000 certain`},
		{"waiting, no longer than MaxWait", settings{maxWait: time.Second}, `
			0 send | answer 1 Retry-After: 7 | shut 1000 certain
			1000 is counting`},

		// probing
		{"probing, one, two, four", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1 | shut 8000
			8000 send 2 | shut 9000
			9000 send 4 | shut 10000`},
		{"probing, waves that nobody used do not count", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			10000 send 2 | shut 11000`},
		{"probing, one at a time while answers could not be there yet", settings{}, `
			0 send
			3000 answer 1 a r=0;t=7
			10000 send 1 | shut 11000
			11000 send 1 | shut 12000
			12000 send 1
			13000 send 1
			14000 send 1
			15000 send 1
			16000 send 1
			17000 send 2 | shut 18000
			18000 send 4 | shut 19000`},
		{"probing, another goes in place of one that fails", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			7300 fail 2 | send 1 | shut 8000
			8000 send 2 | shut 9000`},
		{"probing, a window that ends with nothing left begins it anew", settings{}, `
			0 send | answer 1 a r=0;t=1; b r=1;t=5
			1000 send 1
			1500 fail 2 | shut 5000 certain
			5000 send 1 | shut 6000`},
		{"probing, the failure of an earlier request brings none", settings{}, `
			0 send 2 | answer 1 a r=0;t=7
			7000 send 1
			7300 fail 2 | shut 8000`},
		{"probing, the failure of an earlier wave brings none", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			8000 send 2
			8100 fail 2 | shut 9000`},
		{"probing, the failure of a probe of an earlier time brings none", settings{}, `
			0 send | answer 1 a r=0;t=1
			1000 send
			2000 send | answer 3 a r=0;t=1
			3000 send
			3100 fail 2 | shut 4000`},
		{"probing, the late refusal of an earlier request does not end it", settings{}, `
			0 send 2 | answer 2 429; a r=0;t=1
			1000 send
			1100 answer 1 429; Retry-After: 0 | is probing | shut 2000`},
		{"probing to counting, an answer", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			7100 answer 2 | is counting | send 100`},
		{"probing to counting, the answer to an earlier request", settings{}, `
			0 send 2 | answer 1 a r=0;t=7
			7000 send 1
			7100 answer 2 | is counting`},
		{"probing to waiting", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			7100 answer 2 a r=0;t=7 | is waiting | shut 14100 certain`},
		{"probing, an earlier probe is forgotten", settings{}, `
			0 send | answer 1 a r=0;t=7
			7000 send 1
			8000 send 2
			8100 answer 3 a r=9;t=1 | is counting | send 8 | shut 9100
			9100 is probing | send 1`},

		// refusals
		{"refused without a wait, a tenth of a second, half of it random", settings{}, `
			0 send | answer 1 429 | is waiting | shut 50-100 certain
			100 is probing`},
		{"refused without a wait, no longer than MaxWait", settings{maxWait: 40 * time.Millisecond}, `0 send | answer 1 429 | shut 40 certain`},
		{"refused with Retry-After: 0", settings{}, `0 send | answer 1 429; Retry-After: 0 | shut 50-100 certain`},
		{"refused with something remaining", settings{}, `0 send | answer 1 429; a r=50;t=10 | shut 50-100 certain`},
		{"refused with r=0;t=0", settings{}, `0 send | answer 1 429; a r=0;t=0 | shut 50-100 certain`},
		{"refused with nothing remaining, for nobody knows how long", settings{}, `0 send | answer 1 429; a r=0 | shut 50-100 certain`},
		{"refused again, half as long again", settings{}, `
			0 send | answer 1 429
			100 send | answer 2 429 | shut 175-250 certain
			250 send | answer 3 429 | shut 362-475 certain`},
		{"refused later, a third of what was enough, and a quarter more each time until then", settings{}, `
			0 send | answer 1 429
			100 send | answer 2 429
			250 send | answer 3 429
			475 send | answer 4 429
			813 send | answer 5 | send | answer 6 429 | shut 869-926 certain
			926 send | answer 7 429 | shut 996-1067 certain
			1067 send | answer 8 429
			1243 send | answer 9 429
			1463 send | answer 10 429
			1738 send | answer 11 429 | shut 1909-2082 certain
			2082 send | answer 12 429 | shut 2339-2598 certain`},
		{"refused later, a third of what was enough, however many answers there were since", settings{}, `
			0 send | answer 1 429
			100 send | answer 2 429
			250 send | answer 3 429
			475 send | answer 4 429
			813 send | answer 5 | send | answer 6 | send | answer 7 429 | shut 869-926 certain`},
		{"refused later, a third of what was enough, whatever waits were asked for since", settings{}, `
			0 send | answer 1 429
			100 send | answer 2 429
			250 send | answer 3 429
			475 send | answer 4 429
			813 send | answer 5 | send | answer 6 429; Retry-After: 1
			1813 send | answer 7 429 | shut 1869-1926 certain`},
		{"refused, the answers to those under way together count once", settings{}, `
			0 send 3 | answer 1 429 | answer 2 429 | answer 3 429 | shut 50-100 certain
			100 send | answer 4 429 | shut 175-250 certain`},
		{"refused, those that were under way are served: no change", settings{}, `
			0 send 2 | answer 1 429
			50 answer 2
			100 send | answer 3 429 | shut 175-250 certain`},
		{"refused, served, refused: from the beginning", settings{}, `
			0 send | answer 1 429
			100 send | answer 2 429
			250 send | answer 3 | send | answer 4 429 | shut 300-350 certain`},
		{"refused with a wait, no more than that", settings{}, `0 send | answer 1 429; Retry-After: 7 | shut 7000 certain`},
		{"a wait that is cut grows by half each time, up to what was asked", settings{maxWait: time.Second}, `
			0 send | answer 1 429; Retry-After: 2 | shut 1000 certain
			1000 send | answer 2 429; Retry-After: 2 | shut 2500 certain
			2500 send | answer 3 429; Retry-After: 2 | shut 4500 certain
			4500 send | answer 4 | send | answer 5 429; Retry-After: 2 | shut 5500 certain`},
		{"a wait that is cut, and one that is not", settings{maxWait: time.Second}, `
			0 send | answer 1 429; Retry-After: 3
			1000 send | answer 2 429; Retry-After: 1
			2000 send | answer 3 429; Retry-After: 3 | shut 3000 certain`},
		{"served answers do not mention the limit that refuses: half as many are under way", settings{}, `
			0 send 8 | answer 1 | answer 2 429; a r=0;t=1 | fail 3 | fail 4 | fail 5 | fail 6 | fail 7
			1000 send | answer 9 | send 2 | shut 33000`},
		{"a policy of concurrent requests says how many are under way", settings{}, `
			0 send | answer 1 RateLimit-Policy: "c";q=3;qu="concurrent-requests"; c r=2 | send 3 | shut 32000
			100 answer 2 RateLimit-Policy: "c";q=3;qu="concurrent-requests"; c r=0 | send | shut 32100`},
		{"of two policies of concurrent requests the lower counts", settings{}, `
			0 send | answer 1 RateLimit-Policy: "c";q=3;qu="concurrent-requests", "d";q=2;qu="concurrent-requests", "e";q=9;qu="concurrent-requests"; c r=2
			0 send 2 | shut 32000`},
		{"a share of a policy of concurrent requests, at least one", settings{share: 0.1}, `
			0 send | answer 1 RateLimit-Policy: "c";q=3;qu="concurrent-requests"; c r=2 | send | shut 32000`},
		{"more are under way than a policy of concurrent requests allows: half as many", settings{}, `
			0 send | answer 1 RateLimit-Policy: "c";q=4;qu="concurrent-requests"; c r=3 | send 4
			0 answer 2 429; RateLimit-Policy: "c";q=4;qu="concurrent-requests"; c r=0 | shut 50-100 certain
			100 shut 32000`},

		{"refused with something remaining, half as many are under way", settings{}, `
			0 send 8 | answer 1 429; Retry-After: 1 | answer 2 429; Retry-After: 1 | answer 3 429; Retry-After: 1 | answer 4 429; Retry-After: 1 | answer 5
			0 answer 6 | answer 7 | answer 8
			1000 send | answer 9 | send 4 | shut 33000`},
		{"refused with something remaining, another that was under way hangs", settings{}, `
			0 send 2 | answer 2 429; Retry-After: 1
			1000 is probing | shut 32000
			32000 send | answer 3 | shut 64000`},
		{"refused because nothing remains, as many as before are under way", settings{}, `
			0 send 8 | answer 1 429; a r=0;t=1
			1000 send | answer 9 a r=50;t=10 | send 20`},

		// what requests cost
		{"costs, one goes, and the others wait for its answer", settings{}, `
			0 send 1 tokens=10 | shut 32000 tokens=10 | send 9
			600 shut 32000 tokens=10
			900 answer 1 | open tokens=10`},
		{"costs, one goes in place of one that fails", settings{}, `
			0 send 1 tokens=10
			700 fail 1 | send 1 tokens=10 | shut 32700 tokens=10
			32700 open tokens=10`},
		{"costs, as many as remain, and then what flows in by the window", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1 | send 5 tokens=10 | shut 10000 tokens=10 | open
			10000 send 1 tokens=10`},
		{"costs, no more than the quota flows in", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1
			500000 send 6 tokens=10 | shut 510000 tokens=10`},
		{"costs, the longer wait of two limits", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens", "u";q=600;w=6000;qu="tokens"; t r=0;t=1; u r=0;t=1
			0 shut 100000 tokens=10 certain`},
		{"costs, of the policy that is named", settings{}, `
			0 send 1 in:tokens=10 out:tokens=5
			0 answer 1 RateLimit-Policy: "in";q=60;w=60;qu="tokens", "out";q=60;w=60;qu="tokens"; in r=0;t=1; out r=3;t=1 | shut 10000 in:tokens=10 certain
			0 shut 2000 out:tokens=5 certain | shut 7000 tokens=1 out:tokens=10 certain | open other:tokens=5`},
		{"costs, until the window ends where nothing tells how fast units flow", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;qu="tokens"; t r=5;t=30 | shut 30000 tokens=10 certain | open tokens=5
			30000 send 1 tokens=10 | shut 62000 tokens=10
			31000 answer 2 RateLimit-Policy: "t";q=60;qu="tokens"; t r=50;t=29 | send 5 tokens=10`},
		{"costs, no end is known", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;qu="tokens"; t r=5 | send 1 tokens=10 | shut 32000 tokens=10
			32000 open tokens=10`},
		{"costs, more than the quota goes when all is there", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1 | shut 10000 tokens=1000 certain
			10000 send 1 tokens=1000 | shut 11000 tokens=1 | shut 70000 tokens=1000`},
		{"costs, an answer settles its own reservation alone", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1
			1000 send 1 tokens=20
			2000 send 1 tokens=20
			3000 answer 2 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=31;t=1 | shut 5000 tokens=13
			3000 answer 3 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=12;t=1 | open tokens=12 | shut 4000 tokens=13 certain`},
		{"costs, a refused request has taken nothing", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1 | send 1 tokens=20 | send 1 tokens=20
			0 answer 3 429; Retry-After: 1; RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=15;t=1
			0 answer 2 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=30;t=1
			1000 shut 5000 tokens=20 certain | open tokens=16`},
		{"costs, nothing remains: those that cost nothing of it go", settings{}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=0;t=1 | is counting | send 5 | shut 10000 tokens=10`},
		{"costs of requests", settings{}, `
			0 send 1 requests=3 | answer 1 a r=7;t=30 | send 2 requests=3 | send 5 requests=0 | shut 30000 requests=3 | send 1 requests=1 | shut 30000`},
		{"costs of one that is under way", settings{}, `
			0 send | send requests=3
			100 answer 1 a r=5;t=30 | send 2 | shut 30100`},
		{"costs of more requests than are left, where no end is known: a probe", settings{}, `
			0 send 1 requests=3 | answer 1 a r=1 | send 1 requests=3 | shut 1000 requests=3`},
		{"costs, a share", settings{share: 0.5}, `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1 | send 2 tokens=10 | shut 10000 tokens=10`},
		{"costs, a limit that the server does not announce", settings{}, `
			0 send 1 points=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=5;t=1 | send 100 points=10`},

		// pace
		{"paced", settings{pace: true}, `
			0 send | answer 1 a r=10;t=30 | shut 3000 polite
			3000 send | shut 6000 polite`},
		{"not paced", settings{}, `0 send | answer 1 a r=10;t=30 | send 10`},
		{"paced, a share", settings{pace: true, share: 0.5}, `0 send | answer 1 a r=10;t=30 | shut 6000 polite`},
		{"not paced where nothing tells, however small the share", settings{pace: true, share: 5e-324}, `
			0 send | answer 1 RateLimit-Policy: "a";q=9; a r=0;t=0; Retry-After: 0 | open`},
		{"paced, no slower than MaxWait", settings{pace: true, maxWait: time.Minute}, `
			0 send | answer 1 a r=1;t=999999999999999 | shut 60000 polite`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &Gate{MaxWait: tc.r.maxWait, Share: tc.r.share, Pace: tc.r.pace}
			runMachine(t, g.settings(), tc.script)
			runGate(t, g, tc.script)
		})
	}
}

// A refusal without a wait is waited for 32 s at the most.
func TestMachineBackoff(t *testing.T) {
	m, r := &machine{}, settings{maxWait: time.Hour, share: 1}
	now, longest := epoch, leastBackoff
	for range 100 {
		m.tick(now, &r)
		var sent trip
		m.send(&sent, now, &r)
		m.answered(&sent, &report{refused: true}, now, &r)
		wait := m.pause.until.Sub(now)
		require.LessOrEqual(t, wait, longest)
		require.GreaterOrEqual(t, wait, longest/2)
		now, longest = m.pause.until, min(longest+longest/2, mostBackoff)
	}
}

// Where the first wait was enough, it is the first again, and the second is longer by half.
func TestBackoffEnough(t *testing.T) {
	var b backoff
	require.Equal(t, leastBackoff, b.next())
	b.recovered()
	require.Equal(t, leastBackoff, b.next())
	require.Equal(t, leastBackoff*3/2, b.next())
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
