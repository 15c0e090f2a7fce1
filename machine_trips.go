package ratelimit

import "time"

// traffic is what has been sent with a key.
type traffic struct {
	last   time.Time // when the last request was sent
	number int64     // of the last request, from 1
	silent int64     // answers, and failures, that said nothing of what remains
	under  trips     // requests under way
}

// A trip is a request on its way.
type trip struct {
	prices  []price
	number  int64
	silent  int64 // traffic.silent when it was sent
	crowded bool  // another with prices was sent at about the same time: the server may have seen either first
	at      time.Time
	link[trip]
}

// trips are requests under way in the order in which they were sent.
type trips struct {
	chain[trip, *trip]
	priced int // those with prices
}

func (l *trips) push(t *trip) {
	l.chain.push(t)
	if t.prices != nil {
		l.priced++
	}
}

func (l *trips) remove(t *trip) {
	l.chain.remove(t)
	if t.prices != nil {
		l.priced--
	}
}

// requests returns what the trips that began after a time take of a limit of requests.
func (l *trips) requests(policy string, after time.Time) float64 {
	n := 0.0
	if l.priced == 0 {
		n = float64(l.n)
	}
	for t := l.first; t != nil; t = t.next {
		switch late := t.at.After(after); {
		case l.priced > 0 && late:
			n += takes(t.prices, requestUnit, policy)
		case l.priced == 0 && late:
			return n
		case l.priced == 0:
			n--
		}
	}
	return n
}

// answers are how fast requests were served lately.
type answers struct {
	n       int           // how many answers there were
	fastest time.Duration // the shortest time to one; 0 if nothing is known
}

// manyAnswers is how many answers the fastest is sought among.
const manyAnswers = 64

func (l *answers) add(t *trip, a *report, received time.Time) {
	if a.refused { // which takes no time
		return
	}
	took := max(received.Sub(t.at), 0)
	if l.n%manyAnswers == 0 {
		l.fastest = took
	}
	l.n++
	l.fastest = min(l.fastest, took)
}

// A chain is a list whose elements hold its links themselves, so that to add one, and to
// take it out, costs no memory and no search.
type chain[T any, E interface {
	*T
	links() *link[T]
}] struct {
	first, last *T
	n           int
}

// A link joins an element of a chain to those before and behind it.
type link[T any] struct{ prev, next *T }

func (l *link[T]) links() *link[T] { return l }

func (c *chain[T, E]) push(e *T) {
	E(e).links().prev = c.last
	if c.last == nil {
		c.first = e
	} else {
		E(c.last).links().next = e
	}
	c.last = e
	c.n++
}

func (c *chain[T, E]) remove(e *T) {
	l := E(e).links()
	if l.prev == nil {
		c.first = l.next
	} else {
		E(l.prev).links().next = l.next
	}
	if l.next == nil {
		c.last = l.prev
	} else {
		E(l.next).links().prev = l.prev
	}
	*l = link[T]{}
	c.n--
}
