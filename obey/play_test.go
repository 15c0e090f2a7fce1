package obey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey/internal/machine"
	"github.com/stretchr/testify/require"
)

// A score is what happens to the requests of one key. A line is a time, in milliseconds
// since the beginning, and the events of that time, with a bar between them. Requests are
// numbered in the order in which they come:
//
//	0   send 3              three are sent, and must be allowed
//	0   send 2 tokens=500   two that cost 500 of limits in that unit; input:tokens=500 names the policy
//	100 answer 1 429; F     the first is answered, with a status if it is not 200, and field lines
//	100 fail 2              the second gets no answer
//	100 told 429; F         one is sent and answered at once
//	100 open                one may be sent
//	100 shut 500            none may before that time; "shut 250-500" allows any time between the two
//	100 open tokens=500     one of that price may be
//	100 shut 500 certain    and no answer opens the gate earlier
//	100 shut 500 polite     and one that is in a hurry goes
//	100 shut 500 behind     none may, but only because earlier requests wait
//	100 is waiting          the phase, which internal/machine checks
//	100 wait 2              two come, one after the other, and must wait
//	100 wait 1 by=900       one comes; its deadline is at 900
//	500 went 4 5            exactly these have proceeded at this time
//	500 missed 6 900        this request could proceed at 900 at the earliest, which is too late; 0 means unknown
//	500 cancel 7            this one gives up
//	500 forget              the key is forgotten
//
// A score may begin with the settings of the Gate: "with share=0.5 pace maxwait=1000: 0
// send". Field lines are short: "a r=5;t=30" is RateLimit: "a";r=5;t=30. "a r=5;t=30 of q=9"
// also has RateLimit-Policy: "a";q=9.
type play struct {
	t        testing.TB
	where    string // the line and the event
	begin    time.Time
	gate     *Gate
	via      *Transport // nil for a Gate without a Transport
	requests []*request
	waits    atomic.Int64 // waits that the Gate has announced and not yet ended
}

// A request comes to a Gate or to a Transport. The lock of the Gate guards its state, because
// the goroutines of a bubble can run at the same virtual time.
type request struct {
	costs  []Cost
	cancel context.CancelFunc
	pass   *Pass       // of a Gate
	answer chan string // of a Transport: the response to send
	body   trial.Closing
	done   bool      // it has proceeded, or given up
	at     time.Time // when it was done
	err    error
	seen   bool // the score has mentioned it
}

// gateOf returns a Gate with the settings of a score, and the rest of the score.
func gateOf(t testing.TB, score string) (g *Gate, lines string) {
	g = &Gate{}
	words, ok := strings.CutPrefix(strings.TrimSpace(score), "with ")
	if !ok {
		return g, score
	}
	words, lines, _ = strings.Cut(words, ":")
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "share":
			g.Share, err = strconv.ParseFloat(value, 64)
		case "pace":
			g.Pace = true
		case "maxwait":
			g.MaxWait = milliseconds(t, value)
		default:
			err = errors.New("no setting")
		}
		require.NoError(t, err, word)
	}
	return g, lines
}

func milliseconds(t testing.TB, text string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return time.Duration(n) * time.Millisecond
}

// playScores plays the scores of a table of testdata, and more scores, with a Gate and with a
// Transport.
func playScores(t *testing.T, table string, more ...trial.Block) {
	t.Helper()
	for _, b := range append(trial.BlocksOf("testdata/"+table+".txt"), more...) {
		t.Run(b.Name, func(t *testing.T) {
			playScore(t, "gate", b.Text)
			playScore(t, "transport", b.Text)
		})
	}
}

func playScore(t *testing.T, place, score string) {
	synctest.Test(t, func(t *testing.T) {
		g, lines := gateOf(t, score)
		p := &play{t: t, begin: time.Now(), gate: g}
		g.Waiting = func(Wait) func() {
			p.waits.Add(1)
			return func() { p.waits.Add(-1) }
		}
		if place == "transport" {
			p.via = &Transport{
				Base: trial.RoundTripFunc(p.serve), Gate: g, Advisor: ratelimit.Advisor{MaxWait: g.MaxWait},
				Key:  func(*http.Request) string { return "a" },
				Cost: func(req *http.Request) []Cost { return p.requestOf(req).costs },
			}
		}
		p.run(place, lines)
	})
}

func (p *play) run(place, lines string) {
	p.t.Helper()
	number := 0
	for line := range strings.Lines(lines) {
		number++
		at, events, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at == "" {
			continue // the settings fill the line
		}
		now := p.begin.Add(milliseconds(p.t, at))
		time.Sleep(time.Until(now))
		synctest.Wait()
		for event := range strings.SplitSeq(events, " | ") {
			p.where = fmt.Sprintf("%s, line %d, at %s: %s", place, number, at, event)
			p.event(now, event)
		}
		p.settled()
	}
}

// settled checks that exactly the requests proceeded that the score names, and that the
// counts of the machine are right.
func (p *play) settled() {
	p.t.Helper()
	defer p.lock()()
	waits, under := 0, 0
	for i, r := range p.requests {
		require.Equal(p.t, r.done, r.seen, "%s: request %d: %v", p.where, i+1, r.err)
		switch {
		case !r.done:
			waits++
		case r.err == nil && r.answer != nil:
			under++
		}
	}
	require.Equal(p.t, waits, int(p.waits.Load()), p.where)
	if e := p.entry(); e != nil {
		require.Equal(p.t, waits, e.queue.Len(), p.where)
		require.Equal(p.t, under, e.machine.UnderWay(), p.where)
	}
}

// lock takes the lock of the Gate, and returns the function to unlock it.
func (p *play) lock() (unlock func()) {
	p.gate.mu.Lock()
	return p.gate.mu.Unlock
}

// entry returns the state of the key in the Gate, or nil.
func (p *play) entry() *key { return p.gate.keys["a"] }

// verdict returns the verdict of the machine. An unknown key gets a new machine.
func (p *play) verdict(now time.Time, costs []Cost) machine.Verdict {
	p.t.Helper()
	defer p.lock()()
	e := p.entry()
	if e == nil {
		e = p.gate.newKey("a")
	}
	return e.machine.Ask(now, &machine.Trip{Prices: pricesOf(costs)})
}

// mostWords has the number of words that may follow the name of an event, without costs and
// deadline.
var mostWords = map[string]int{"send": 1, "wait": 1, "missed": 2, "fail": 1, "forget": 0, "open": 0, "is": 1}

func (p *play) event(now time.Time, event string) {
	p.t.Helper()
	word, rest, _ := strings.Cut(event, " ")
	words := strings.Fields(rest)
	var costs []Cost
	var deadline time.Time
	if word != "answer" && word != "told" {
		words, costs, deadline = p.options(words)
	}
	if most, ok := mostWords[word]; ok {
		require.LessOrEqual(p.t, len(words), most, p.where)
	}
	v := p.verdict(now, costs)
	switch word {
	case "told":
		p.send(now, nil, time.Time{})
		p.answer(now, len(p.requests), rest)
	case "answer":
		number, fields, _ := strings.Cut(rest, " ")
		p.answer(now, p.number(number), fields)
	case "send":
		for range p.number(strings.Join(append(words, "1")[:1], "")) {
			p.send(now, costs, deadline)
		}
	case "wait":
		for range p.number(words[0]) {
			p.come(costs, deadline)
		}
	case "went", "missed", "cancel":
		p.gone(now, word, words)
	case "fail":
		p.answer(now, p.number(words[0]), word)
	case "forget":
		p.gate.Forget("a")
		p.gate.Forget("never seen")
		synctest.Wait()
	case "open":
		require.True(p.t, v.Open, "%s: %s", p.where, p.describe(v))
	case "shut":
		p.shut(v, words, costs)
	case "is":
	default:
		require.Fail(p.t, "no event", p.where)
	}
}

func (p *play) number(text string) int {
	p.t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(p.t, err, p.where)
	return n
}

// options splits the costs and the deadline from the words of an event.
func (p *play) options(words []string) (rest []string, costs []Cost, deadline time.Time) {
	p.t.Helper()
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			rest = append(rest, word)
		case name == "by":
			deadline = p.begin.Add(milliseconds(p.t, value))
		default:
			policy, unit, named := strings.Cut(name, ":")
			if !named {
				policy, unit = "", name
			}
			costs = append(costs, Cost{Unit: ratelimit.Unit(unit), Policy: policy, Units: int64(p.number(value))})
		}
	}
	return rest, costs, deadline
}

// send sends a request, which must be allowed. Without a Transport it uses TryEnter.
func (p *play) send(now time.Time, costs []Cost, deadline time.Time) {
	p.t.Helper()
	switch {
	case p.via == nil && deadline.IsZero():
		pass, until := p.gate.TryEnter("a", costs...)
		require.NotNil(p.t, pass, "%s: request %d has to wait until %d", p.where, len(p.requests)+1, until.Sub(p.begin).Milliseconds())
		require.Zero(p.t, until, p.where)
		p.requests = append(p.requests, &request{pass: pass, answer: make(chan string), done: true, seen: true})
	default:
		r := p.come(costs, deadline)
		defer p.lock()()
		require.True(p.t, r.done, "%s: request %d", p.where, len(p.requests))
		require.NoError(p.t, r.err, p.where)
		r.seen = true
	}
}

// come lets a request arrive at the Gate or the Transport.
func (p *play) come(costs []Cost, deadline time.Time) *request {
	r := &request{costs: costs, answer: make(chan string, 1)}
	p.requests = append(p.requests, r)
	ctx := context.WithValue(p.t.Context(), p, r)
	if deadline.IsZero() {
		ctx, r.cancel = context.WithCancel(ctx)
	} else {
		ctx, r.cancel = context.WithDeadline(ctx, deadline)
	}
	go func() {
		if p.via == nil {
			pass, err := p.gate.Enter(ctx, "a", costs...)
			defer p.lock()()
			r.pass, r.err, r.done, r.at = pass, err, true, time.Now()
			return
		}
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, trial.Example, &r.body)
		_, err := p.via.RoundTrip(req)
		defer p.lock()()
		if !r.done {
			r.err, r.done, r.at = err, true, time.Now()
		}
	}()
	synctest.Wait()
	return r
}

func (p *play) requestOf(req *http.Request) *request { return req.Context().Value(p).(*request) }

// serve is the server behind the Transport. It responds when the score has the response.
func (p *play) serve(req *http.Request) (*http.Response, error) {
	r := p.requestOf(req)
	unlock := p.lock()
	r.done, r.at = true, time.Now()
	unlock()
	select {
	case fields := <-r.answer:
		if fields == "fail" {
			return nil, errors.New("no connection")
		}
		return shortResponse(fields), nil
	case <-p.t.Context().Done():
		return nil, context.Canceled
	}
}

// answer sends field lines as the response to a request. "fail" sends no response.
func (p *play) answer(now time.Time, n int, fields string) {
	switch r := p.requests[n-1]; {
	case p.via != nil:
		r.answer <- fields
	case fields == "fail":
		r.pass.Failed()
	default:
		r.pass.Answered(ratelimit.Advisor{MaxWait: p.gate.MaxWait}.Advise(shortResponse(fields), now), now)
	}
	synctest.Wait()
	p.requests[n-1].answer = nil
}

// gone checks that requests have proceeded or missed their deadlines, or makes them give up.
func (p *play) gone(now time.Time, how string, words []string) {
	p.t.Helper()
	var until string
	if how == "missed" {
		words, until = words[:1], words[1]
	}
	for _, word := range words {
		r := p.requests[p.number(word)-1]
		if how == "cancel" {
			r.cancel()
			synctest.Wait()
		}
		p.ended(now, how, until, word, r)
	}
}

func (p *play) ended(now time.Time, how, until, word string, r *request) {
	p.t.Helper()
	defer p.lock()()
	require.True(p.t, r.done && !r.seen, "%s: request %s", p.where, word)
	require.Equal(p.t, now, r.at, "%s: request %s", p.where, word)
	r.seen = true
	switch how {
	case "went":
		require.NoError(p.t, r.err, p.where)
		return // the server owns this body
	case "cancel":
		require.ErrorIs(p.t, r.err, context.Canceled, p.where)
	default:
		var early *WaitError
		require.ErrorAs(p.t, r.err, &early, p.where)
		require.ErrorIs(p.t, r.err, context.DeadlineExceeded, p.where)
		if until == "0" {
			require.Zero(p.t, early.Until, p.where)
		} else {
			require.Equal(p.t, p.begin.Add(milliseconds(p.t, until)), early.Until, p.where)
		}
	}
	if p.via != nil {
		require.Equal(p.t, 1, r.body.Closed, p.where)
	}
}

func (p *play) shut(v machine.Verdict, words []string, costs []Cost) {
	p.t.Helper()
	require.Subset(p.t, []string{"certain", "polite", "behind"}, words[1:], p.where)
	behind := slices.Contains(words, "behind")
	require.Equal(p.t, behind, v.Open, "%s: %s", p.where, p.describe(v))
	pass, again := p.gate.TryEnter("a", costs...)
	require.Nil(p.t, pass, p.where)
	unlock := p.lock()
	waits := p.entry().queue.Len() > 0
	unlock()
	require.True(p.t, waits || again.Equal(v.Until), p.where)
	if behind {
		v.Until = again
	}
	from, to, isRange := strings.Cut(words[0], "-")
	if !isRange {
		to = from
	}
	until := v.Until.Sub(p.begin).Truncate(time.Millisecond)
	require.GreaterOrEqual(p.t, until, milliseconds(p.t, from), "%s: %s", p.where, p.describe(v))
	require.LessOrEqual(p.t, until, milliseconds(p.t, to), "%s: %s", p.where, p.describe(v))
	require.Equal(p.t, v.Certain, slices.Contains(words, "certain"), p.where)
	require.Equal(p.t, v.Polite, slices.Contains(words, "polite"), p.where)
}

// describe returns the end and the reason of a wait, for the author of a score.
func (p *play) describe(v machine.Verdict) string {
	p.t.Helper()
	defer p.lock()()
	waits, under := 0, 0
	if e := p.entry(); e != nil {
		waits, under = e.queue.Len(), e.machine.UnderWay()
	}
	state := fmt.Sprintf("under way %d, waiting %d", under, waits)
	if v.Open {
		return "the machine is open, " + state
	}
	return fmt.Sprintf("shut until %d (%s, certain %t, polite %t), %s", v.Until.Sub(p.begin).Milliseconds(), v.Reason, v.Certain, v.Polite, state)
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
			limit, policy, known := strings.Cut(params, " of ")
			resp.Header.Add(ratelimit.LimitField, `"`+name+`";`+limit)
			if known {
				resp.Header.Add(ratelimit.PolicyField, `"`+name+`";`+policy)
			}
		} else if part != "" {
			panic("no part of a response: " + part)
		}
	}
	return resp
}
