package machine

import (
	"iter"
	"time"
)

// A server may count resources of a key apart. Each resource then has a machine of its own,
// next to that of the key, and a request has a Trip with each machine that it may belong to.

// Trips returns the requests under way, in the order in which they were sent.
func (m *Machine) Trips() iter.Seq[*Trip] {
	return func(yield func(*Trip) bool) {
		for t := m.under.first; t != nil && yield(t); t = t.next {
		}
	}
}

// Join counts a request as sent that is under way as another Trip of another machine.
func (m *Machine) Join(t, other *Trip, now time.Time, r *Settings) {
	m.Send(t, now, r)
	t.at = other.at
}

// Returned takes note that a request took nothing of the limits of this machine, because its
// answer is about those of another one.
func (m *Machine) Returned(t *Trip, now time.Time, r *Settings) {
	m.budgets.giveBack(t, r)
	for i := range m.meters {
		x := &m.meters[i]
		need := x.need(t.Prices, r)
		x.left, x.at = x.now(now, r)+need, now
		x.sent -= need
	}
	m.Failed(t)
	m.silent-- // which Failed has counted
}
