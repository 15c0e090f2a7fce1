package fleet

import (
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// Without Redis each process goes on with its share of what the newest answer announced. Paced
// requests leave room for those of the other processes, which it cannot see.

// alone gives a turn without Redis, or returns how long to wait before asking again.
func (n *turn) alone() (wait time.Duration) {
	l := n.line
	if l.gate == nil {
		others := l.processes > 1
		l.gate = &obey.Gate{Share: 1 / float64(max(l.processes, 1)), Pace: others, MaxWait: n.turns.maxWait()}
		if a, received := l.newest(n.turns); !received.IsZero() {
			pass, _ := l.gate.TryEnter(gateKey)
			pass.Answered(a, received)
		}
	}
	pass, until := l.gate.TryEnter(gateKey, n.prices...)
	if pass == nil {
		return max(time.Until(until), 1)
	}
	n.pass = pass
	return 0
}

// gateKey is the one key of the gate of a line.
const gateKey = "alone"

// report lets Redis, which answers again, learn what this process knows, since it may have
// lost its data, or missed what the processes did meanwhile. It reports whether Redis answers.
func (n *turn) report() bool {
	wait, text := time.Duration(0), ""
	if a, received := n.line.newest(n.turns); !received.IsZero() {
		age := time.Since(received)
		limits := limitsOf(&a, n.turns.maxWait())
		current := limits[:0]
		for _, l := range limits {
			if l.Reset -= age.Milliseconds(); l.Reset > 0 {
				current = append(current, l)
			}
		}
		wait, text = max(waitOf(&a)-age, 0), textOf(current)
	}
	if _, ok := n.ask(learnScript, n.arguments("0", "reported", wait.Milliseconds(), text), nil); !ok {
		return false
	}
	n.line.gate = nil
	return true
}

// learn keeps an advice. An answer without limits that asks for no wait shows nothing, so an
// earlier advice is kept.
func (l *line) learn(t *Turns, a *ratelimit.Advice) {
	if len(a.Fields.Limits) == 0 && a.Wait == 0 && !a.Refused {
		return
	}
	k := *a
	k.Fields = ratelimit.Fields{}
	k.Limit = keptLimit(a.Limit)
	for _, limit := range a.Fields.Limits[:min(len(a.Fields.Limits), maxLimits)] {
		k.Fields.Limits = append(k.Fields.Limits, keptLimit(limit))
	}
	for _, p := range a.Fields.Policies[:min(len(a.Fields.Policies), maxLimits)] {
		p.Name, p.Unit = strings.Clone(nameOf(p.Name)), ratelimit.Unit(strings.Clone(nameOf(string(p.Unit))))
		p.Params, p.PartitionKey = nil, nil
		k.Fields.Policies = append(k.Fields.Policies, p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.advice, l.received = k, time.Now()
}

// keptLimit returns a limit without the memory of its response.
func keptLimit(l ratelimit.Limit) ratelimit.Limit {
	l.Name, l.Params, l.PartitionKey = strings.Clone(nameOf(l.Name)), nil, nil
	return l
}

// newest returns the newest advice with limits or a wait that this process got, and when. The
// time is zero if it got none.
func (l *line) newest(t *Turns) (ratelimit.Advice, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.advice, l.received
}
