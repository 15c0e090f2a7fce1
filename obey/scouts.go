package obey

import (
	"container/list"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/obey/internal/machine"
)

const (
	// scoutPause is how long no scouts are sent after one of them was refused.
	scoutPause = 10 * time.Minute
	// enoughScouts is how many scouts must be served to show that a wait is that of one route.
	enoughScouts = 2
	// leastScout is the least time between a refusal and the second scout. An empty bucket may
	// have let one unit through in less.
	leastScout = time.Second
)

// learnRefusal learns from a refusal that no exhausted limit explains. If it asks for a wait, the
// whole key waits, unless scouts have shown that such waits are those of the route alone.
func (k *key) learnRefusal(t *trip, y *reply) {
	x := t.part
	x.learn(&t.Trip, &y.advice, &machine.Answer{
		Refused: true, Wait: y.Wait, RetryAfter: y.RetryAfter,
	}, y.received)
	v := x.machine.Ask(y.now, &machine.Trip{})
	if y.Wait == 0 || v.Open {
		return
	}
	if !y.now.Before(x.ends) {
		x.began, x.scouting, x.scouted = y.now, false, 0
	}
	x.ends, x.prices = v.Until, t.Prices
	if x.route.alone {
		return
	}
	for _, r := range k.scope.routes {
		if r.alone && y.now.Before(r.own.ends) {
			r.alone, r.doubt = false, x.route // the limit may be that of the whole key
		}
	}
	x.whole, x.name = true, k.name
	others := slices.DeleteFunc(k.scope.parts, func(y *part) bool { return y == x })
	k.scope.parts = slices.Insert(others, 0, x) // it is asked first
}

// narrow makes a wait that of one route.
func (x *part) narrow() { x.whole, x.name = false, x.id }

// letsScout reports whether a request of another route may go as a scout while the whole key waits.
func (x *part) letsScout(r *route, p *Pass, now time.Time) bool {
	return x.whole && x.route != r && r.served && !r.refused && !now.Before(x.nextScout()) && now.Before(x.ends) && !x.scouting &&
		noSmaller(p.trip.Prices, x.prices)
}

// nextScout returns when the next scout of a wait may go: the first one at once, the second one after
// half of the wait.
func (x *part) nextScout() time.Time {
	next := x.began
	if x.scouted > 0 {
		next = next.Add(max(x.ends.Sub(x.began)/2, leastScout))
	}
	if pause := x.of.scope.noScouts; next.Before(pause) {
		return pause
	}
	return next
}

// noSmaller reports whether a request costs at least as much as another one.
func noSmaller(prices, others []machine.Price) bool {
	return !slices.ContainsFunc(others, func(o machine.Price) bool {
		return !slices.ContainsFunc(prices, func(p machine.Price) bool {
			return p.Unit == o.Unit && p.Policy == o.Policy && p.Units >= o.Units
		})
	})
}

// scoutOf returns a request in the queue of a line that may go as a scout; nil if none may. If one
// may later, next is when.
func (k *key) scoutOf(e *line, now time.Time) (w *waiter, next time.Time) {
	for _, x := range k.parts() {
		if &x.line != e || !x.whole || x.scouting {
			continue
		}
		if next = x.nextScout(); now.Before(next) {
			return nil, next
		}
		for _, queued := range []*list.List{&e.queue.followers, &e.queue.others} {
			for place := queued.Front(); place != nil; place = place.Next() {
				if w := place.Value.(*waiter); x.letsScout(k.route(w.pass.route, now), w.pass, now) {
					return w, next
				}
			}
		}
	}
	return nil, time.Time{}
}

// endScouts learns from a request whether the waits that did not hold it back are those of one route.
func (p *Pass) endScouts(answered, refused bool) {
	for t := p.parts; t != nil; t = t.next {
		if !t.scout {
			continue
		}
		x := t.part
		x.scouting = false
		switch {
		case !answered:
		case refused:
			x.of.scope.noScouts = p.trip.Sent().Add(scoutPause)
		case !p.trip.Sent().Before(x.began): // else it belongs to an earlier wait
			if x.scouted++; x.scouted >= enoughScouts && x.whole {
				x.of.isAlone(x)
			}
		}
	}
}

// isAlone takes note that the waits of a route are not those of other routes.
func (k *key) isAlone(x *part) {
	for _, r := range k.scope.routes {
		if r.own != nil && (r == x.route || r.doubt == x.route) {
			r.alone, r.doubt = true, nil
			r.own.narrow()
			k.take(&r.own.line)
		}
	}
}
