package machine

import (
	"iter"
	"time"
)

// If a server counts resources of a key apart, each resource has a Machine, as the key has. A
// request has a Trip with the key, and one with each resource that it may belong to.

// Trips returns the requests under way, in the order in which they were sent.
func (m *Machine) Trips() iter.Seq[*Trip] {
	return func(yield func(*Trip) bool) {
		for t := m.under.first; t != nil && yield(t); t = t.next {
		}
	}
}

// Join counts a request that is under way as a Trip of another Machine.
func (m *Machine) Join(t, other *Trip, now time.Time) {
	m.Send(t, now)
	t.at = other.at
}

// Returned ends a request that took nothing from the limits of this Machine, because its answer
// belongs to another Machine.
func (m *Machine) Returned(t *Trip, now time.Time) {
	m.limits.giveBack(t, now, &m.Settings)
	m.Failed(t)
	m.failed-- // the request got an answer
}
