package obey

import (
	"container/list"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/obey/internal/machine"
)

const (
	// scoutPause is how long no scouts are sent after a refused scout.
	scoutPause = 10 * time.Minute
	// enoughScouts is how many scouts must be served to show that a wait holds for one route alone.
	enoughScouts = 2
	// leastScout is the least time between a refusal and the second scout. A second scout that is
	// served sooner shows nothing, because an empty bucket gets back a unit now and then.
	leastScout = time.Second
)

// learnRefusal learns from a refusal that no exhausted limit explains. If the refusal asks for a wait,
// the whole key waits, unless scouts have shown that such waits hold for the route alone.
func (k *key) learnRefusal(t *trip, y *reply) {
	x := t.part
	refusal := machine.Answer{Refused: true, Wait: y.Wait, RetryAfter: y.RetryAfter, Jittered: y.Jittered}
	x.learn(&t.Trip, &y.advice, &refusal, y.received)
	v := x.machine.Ask(y.now, &machine.Trip{})
	if y.Wait == 0 || v.Open {
		return
	}
	if !y.now.Before(x.ends) {
		x.began, x.next, x.scouted = y.now, latest(y.now, k.scope.noScouts), 0
	}
	x.ends, x.prices = v.Until, t.Prices
	if x.route.alone {
		return
	}
	for _, r := range k.scope.routes {
		if r.alone && y.now.Before(r.own.ends) {
			r.alone, r.doubt = false, x.route // the whole key may share the limit
		}
	}
	x.whole, x.name = true, k.name
	others := slices.DeleteFunc(k.scope.parts, func(y *part) bool { return y == x })
	k.scope.parts = slices.Insert(others, 0, x) // it is asked first
}

// narrow makes a wait hold for one route alone.
func (x *part) narrow() { x.whole, x.name = false, x.id }

// letsScout reports whether a request of another route may go as a scout while the whole key waits.
func (x *part) letsScout(r *route, p *Pass, now time.Time) bool {
	return x.whole && x.route != r && r.served && !r.refused && !now.Before(x.next) && now.Before(x.ends) && noSmaller(p.trip.Prices, x.prices)
}

// latest returns the latest of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// noSmaller reports whether a request costs at least as much as another one.
func noSmaller(prices, others []machine.Price) bool {
	return !slices.ContainsFunc(others, func(o machine.Price) bool {
		return !slices.ContainsFunc(prices, func(p machine.Price) bool {
			return p.Unit == o.Unit && p.Policy == o.Policy && p.Units >= o.Units
		})
	})
}

// scoutOf returns a request in the queue of a line that may go as a scout. If none may go yet, w is nil,
// and next is the time when one may go. If none may go at all, next is zero.
func (k *key) scoutOf(e *line, now time.Time) (w *waiter, next time.Time) {
	x := find(k.parts(), func(x *part) bool { return &x.line == e && x.whole && now.Before(x.ends) })
	if x == nil {
		return nil, next
	}
	if now.Before(x.next) {
		return nil, x.next
	}
	for _, queued := range []*list.List{&e.queue.followers, &e.queue.others} {
		for place := queued.Front(); place != nil; place = place.Next() {
			if w := place.Value.(*waiter); x.letsScout(k.route(w.pass.route, now), w.pass, now) {
				return w, next
			}
		}
	}
	return nil, next
}

// endScouts ends a request as a scout of the waits that did not hold it back. If enough scouts were
// served, such a wait holds for one route alone.
func (p *Pass) endScouts(answered, refused bool) {
	for t := p.parts; t != nil; t = t.next {
		x, s := t.part, p.key.scope
		switch sent := p.trip.At; {
		case !t.scout:
		case refused:
			s.noScouts = sent.Add(scoutPause)
			for _, x := range s.parts {
				x.next = latest(x.next, s.noScouts)
			}
		case sent.Before(x.began): // it belongs to an earlier wait
		case !answered:
			x.next = latest(sent, s.noScouts)
		default:
			x.scouted++
			x.next = x.began.Add(max(x.ends.Sub(x.began)/2, leastScout))
			if x.scouted >= enoughScouts && x.whole {
				p.key.isAlone(x)
			}
		}
	}
}

// isAlone notes that the waits of a part's route do not hold for other routes.
func (k *key) isAlone(x *part) {
	for _, r := range k.scope.routes {
		if r.own != nil && (r == x.route || r.doubt == x.route) {
			r.alone, r.doubt = true, nil
			r.own.narrow()
			k.take(&r.own.line)
		}
	}
}
