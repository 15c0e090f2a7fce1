package obey

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// This file decides which requests a limit or a refusal concerns. Some servers have separate limits for
// paths or methods, and few of them name these limits. A limit belongs to the routes whose answers have
// announced it. A wait belongs to the whole key, until answers show that other routes do not share it.

const (
	maxSegments  = 4               // of a path; a route ignores further segments
	maxSegment   = 32              // bytes; longer segments are values
	maxRoutes    = 256             // of a key; all others share one
	fullRoutes   = 192             // later paths are distinguished by their first segment alone
	maxParts     = 512             // of a key; further limits and refusals count for all routes
	maxAnnounced = 16              // limits that a route obeys: those that it announced last
	enoughLonely = 2               // refusals without a wait show that only this route is limited
	sameInstant  = 2 * time.Second // resets that differ by less are one instant: most are rounded
)

// A routeName is the part of a request that a Transport groups requests by, because the server may
// limit such groups apart. Requests of a Gate, and of keys that are not divided, have the zero
// routeName.
type routeName struct {
	path   string // up to its first segment that looks like a value
	writes bool   // the method is not safe
}

// routeOf returns the name of the route of a request.
func routeOf(req *http.Request) routeName {
	return routeName{routePath(req.URL.Path, maxSegments), !isSafe(req.Method)}
}

// routePath cuts a path in front of its first segment that looks like a value, or after this number
// of segments.
func routePath(path string, segments int) string {
	end := 0
	for ; segments > 0 && end < len(path); segments-- {
		next := end + 1
		for next < len(path) && path[next] != '/' {
			next++
		}
		if isValue(path[end+1 : next]) {
			break
		}
		end = next
	}
	if end == 0 {
		return "/"
	}
	return path[:end]
}

// isValue reports whether a segment of a path is empty or looks like a value, such as 42, 4fdc74f or a
// UUID. "2fa" and "feed" are words.
func isValue(segment string) bool {
	const shortHash = 7 // of a commit, as Git prints it
	if len(segment) > maxSegment {
		return true
	}
	digits := 0
	for _, c := range []byte(segment) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c|0x20 < 'a' || 'f' < c|0x20:
			return false
		}
	}
	return digits == len(segment) || digits > 0 && len(segment) >= shortHash
}

// A scope is what a key knows of its routes and parts.
type scope struct {
	routes   map[routeName]*route
	parts    []*part   // parts whose waits hold for the whole key come first
	noScouts time.Time // no scout is sent before this time
	served   int       // how many requests were served
}

// A route is what a key knows of requests that look alike.
type route struct {
	name    routeName
	served  bool      // one of its requests has been served
	refused bool      // the newest answer is a refusal
	limits  []*part   // that its answers have announced
	end     time.Time // the reset of the unnamed limit
	moves   bool      // end moves from answer to answer, so that it is no instant
	own     *part     // its refusals; nil before the first refusal that may concern it alone
	alone   bool      // its waits do not hold for other routes
	doubt   *route    // the route whose refusal has made alone false again
	lonely  int       // refusals in succession without a wait, while other routes were served
	others  int       // scope.served at the last of these refusals
}

// A part of a key is what the server counts apart: a limit that some routes have, or the refusals of
// one route.
type part struct {
	line
	id string // the name of its key, a space, and its own name

	// Of a limit:
	segments []string // of a named resource: the first segments of the paths that have announced it
	routes   int      // that obey it
	unnamed  bool     // it has no name, and is recognized by what answers announce:
	moves    bool     // as in route
	quota    int64
	left     int64     // as announced last
	end      time.Time // the reset

	// Of the refusals of a route:
	route   *route
	whole   bool            // the wait holds for the whole key
	began   time.Time       // when the wait began
	ends    time.Time       // when the wait ends
	prices  []machine.Price // of the refused request
	next    time.Time       // when the next scout may go
	scouted int             // scouts of this wait that were served
}

// A trip is a request as a part counts it.
type trip struct {
	machine.Trip
	part   *part
	scout  bool            // the wait of the part did not hold it back, and the part does not count it
	left   int64           // part.left when the request was sent
	end    time.Time       // part.end then
	stocks []machine.Stock // that its answer announces of the part
	few    [1]machine.Stock
	next   *trip
}

// parts returns the parts of a key.
func (k *key) parts() []*part {
	if k.scope == nil {
		return nil
	}
	return k.scope.parts
}

// newPart adds a part to a key. It returns nil if there is no room.
func (k *key) newPart(id string) *part {
	if len(k.scope.parts) == maxParts {
		return nil
	}
	x := &part{id: id, left: math.MaxInt64}
	x.line = line{of: k, name: id, machine: k.gate.newMachine()}
	x.machine.Part = true
	k.scope.parts = append(k.scope.parts, x)
	return x
}

// ownOf returns the part for the refusals of a route. It returns nil if there is no room. One request
// of the route goes first, and the others wait for its answer.
func (k *key) ownOf(r *route, now time.Time) *part {
	if r.own != nil {
		return r.own
	}
	x := k.newPart(k.idOf(r, ""))
	if r.own = x; x != nil {
		x.route = r
		x.machine.Share = min(x.machine.Share, 0.1) // one request goes first, instead of ten
		k.count(x, now)
	}
	return x
}

// idOf returns the name of a part that belongs to a route: 64 bits of a hash, because paths may
// contain credentials.
func (k *key) idOf(r *route, of string) string {
	if r.name.writes {
		of += "!"
	}
	return k.name + " " + hashOf([]byte(of + r.name.path))[:hashLen/2]
}

// route returns the route with a name, or makes it. If the server has named resources, but none for
// paths like this one, one request of a new route goes first, and the others wait for its answer.
func (k *key) route(name routeName, now time.Time) *route {
	s := k.scope
	if s.routes[name] == nil && len(s.routes) >= fullRoutes && name.path != "" {
		name.path = routePath(name.path, 1)
	}
	if s.routes[name] == nil && len(s.routes) >= maxRoutes {
		name = routeName{path: "*"} // of all routes for which there is no room
	}
	if r := s.routes[name]; r != nil {
		return r
	}
	name.path = strings.Clone(name.path) // so that the address is not kept in memory
	r := &route{name: name}
	s.routes[name] = r
	isResource := func(x *part) bool { return x.segments != nil }
	isOurs := func(x *part) bool { return isResource(x) && r.obeys(x) }
	if name.path != "" && slices.ContainsFunc(s.parts, isResource) && !slices.ContainsFunc(s.parts, isOurs) {
		k.ownOf(r, now)
	}
	return r
}

// obeys reports whether requests of a route wait for a part. A limit holds back the routes that have
// announced it, and routes that have not been served. If a route has not been served, a named resource
// holds it back only if a path with the same first segment has announced the resource.
func (r *route) obeys(x *part) bool {
	switch {
	case x.route != nil:
		return x.route == r || x.whole
	case r.served, x.segments != nil && !slices.Contains(x.segments, routePath(r.name.path, 1)):
		return slices.Contains(r.limits, x)
	}
	return true
}

// holder returns the line that holds a request back, with its verdict. It returns nil if the request
// may be sent. It does not ask the line in whose queue the request has waited.
func (k *key) holder(w *waiter, now time.Time) (*line, machine.Verdict) {
	if v, ok := k.holds(w, now); ok {
		return &k.line, v
	}
	if k.scope != nil {
		r := k.route(w.pass.route, now)
		for _, x := range k.scope.parts {
			if !r.obeys(x) {
				continue
			}
			if v, ok := x.holds(w, now); ok && !x.letsScout(r, w.pass, now) {
				return &x.line, v
			}
		}
	}
	return nil, machine.Verdict{}
}

// send counts a request as sent with a key, and with the parts that its route obeys.
func (k *key) send(p *Pass, now time.Time) {
	p.key = k
	k.machine.Send(&p.trip, now)
	p.trip.Owner = p
	if k.scope == nil {
		return
	}
	r := k.route(p.route, now)
	for _, x := range k.scope.parts {
		switch {
		case !r.obeys(x):
		case now.Before(x.ends): // only scouts are sent then
			x.next = x.ends // if this scout fails or is served, endScouts sets an earlier time
			p.parts = &trip{part: x, scout: true, next: p.parts}
		default:
			t := p.tripOf(x, now)
			t.left, t.end = x.left, x.end
		}
	}
}

// tripOf returns the trip of a request with a part. If there is none, the request is counted as if
// the part had been known when the request was sent.
func (p *Pass) tripOf(x *part, now time.Time) *trip {
	for t := p.parts; t != nil; t = t.next {
		if t.part == x {
			return t
		}
	}
	p.parts = &trip{Trip: machine.Trip{Prices: p.trip.Prices}, part: x, left: math.MaxInt64, next: p.parts}
	x.machine.Send(&p.parts.Trip, now)
	p.parts.At = p.trip.At
	return p.parts
}

// count makes a part count the requests under way of the routes that obey it.
func (k *key) count(x *part, now time.Time) {
	for t := range k.machine.Trips() {
		if p, ok := t.Owner.(*Pass); ok && k.route(p.route, now).obeys(x) {
			p.tripOf(x, now)
		}
	}
}

// A reply is an answer as a key learns it.
type reply struct {
	machine.Answer
	advice        ratelimit.Advice // a copy, so that the caller's Advice stays on the stack
	resource      string           // the name of the resource that the answer is about, or ""
	older         bool             // the answer has an older form, in which limits have no names
	received, now time.Time
	isOwn         bool // the answer is a refusal of the route, and not of the key
}

// unexplained reports whether an answer is a refusal that no exhausted limit explains.
func (y *reply) unexplained() bool { return y.Refused && !y.Exhausted() }

// learn updates a key and its parts from the answer to a request.
func (p *Pass) learn(a *ratelimit.Advice, resource string, received, now time.Time) {
	k, hasRoute := p.key, p.route.path != ""
	if !hasRoute || len(a.Fields.Limits) == 0 {
		resource = ""
	}
	if k.scope == nil && resource == "" && (!hasRoute || k.isSole(p.route, a.Refused)) {
		var few [4]machine.Stock
		answer := answerOf(a, p.trip.Prices, few[:0])
		k.learn(&p.trip, a, &answer, received)
		return
	}
	older := a.Fields.Dialect != draft.Current && a.Fields.Dialect != draft.Next
	if k.scope == nil {
		k.divide(older, now)
	}
	p.endScouts(true, a.Refused)
	k.learnReply(p, &reply{answerOf(a, p.trip.Prices, nil), *a, resource, older, received, now, false})
}

// isSole reports whether only one route has been answered. It remembers the answer.
func (k *key) isSole(name routeName, refused bool) bool {
	if k.sole == nil {
		k.sole = &route{name: routeName{strings.Clone(name.path), name.writes}}
	}
	if k.sole.name != name {
		return false
	}
	k.sole.served, k.sole.refused = k.sole.served || !refused, refused
	return true
}

// divide gives a key parts. What the key has learnt then belongs to the route that has been answered.
func (k *key) divide(older bool, now time.Time) {
	k.scope = &scope{routes: make(map[routeName]*route)}
	r := cmp.Or(k.sole, &route{})
	k.scope.routes[r.name] = r
	p := Pass{key: k, route: r.name, trip: machine.Trip{At: now}}
	k.learnParts(&p, r, &reply{k.machine.Take(now), k.advice, "", older, now, now, false})
}

// learnReply updates a key and its parts.
func (k *key) learnReply(p *Pass, y *reply) {
	r := k.route(p.route, y.now)
	k.noteLoneliness(r, y)
	rest := k.learnParts(p, r, y)
	whole := y.Answer
	whole.Stocks, whole.Pace, whole.Elsewhere = rest, 0, !y.unexplained() || y.isOwn
	if y.Exhausted() || y.isOwn {
		whole.Wait, whole.RetryAfter = 0, false
	}
	if y.Refused && (y.Exhausted() || r.alone && y.Wait > 0) {
		k.machine.Returned(&p.trip, y.now)
	} else {
		k.learn(&p.trip, &y.advice, &whole, y.received)
	}
	if r.refused = y.Refused; !r.refused && !r.served {
		r.served = true
		for _, x := range k.scope.parts { // requests of this route need not wait for limits of other routes
			k.take(&x.line)
		}
	}
}

// noteLoneliness counts the refusals in succession that ask for no wait, while other routes were
// served.
func (k *key) noteLoneliness(r *route, y *reply) {
	switch s := k.scope; {
	case !y.Refused:
		s.served++
		r.lonely = 0
	case y.unexplained() && y.Wait == 0:
		if r.lonely++; !r.refused || s.served == r.others {
			r.lonely = 0
		}
		r.others = s.served
	}
}

// learnParts updates the parts of a key, and returns the limits for which there is no room. A refusal
// that no limit explains goes to the route's own part if it asks for a wait, or if the route was
// refused several times in succession while others were served. Otherwise all routes back off.
func (k *key) learnParts(p *Pass, r *route, y *reply) (rest []machine.Stock) {
	for i := range y.Stocks {
		if x := k.limitOf(p, r, y, &y.Stocks[i]); x != nil {
			t := p.tripOf(x, y.now)
			if t.stocks == nil {
				t.stocks = t.few[:0] // most limits need no other memory
			}
			t.stocks = append(t.stocks, y.Stocks[i])
		} else {
			rest = append(rest, y.Stocks[i])
		}
	}
	y.isOwn = y.unexplained() && (y.Wait > 0 || r.lonely >= enoughLonely) && k.ownOf(r, y.now) != nil
	for t := p.parts; t != nil; t = t.next {
		if !t.scout && !(y.isOwn && t.part == r.own) {
			k.learnTrip(t, r, y)
		}
	}
	if y.isOwn {
		k.learnRefusal(p.tripOf(r.own, y.now), y)
	}
	return rest
}

// learnTrip updates the part of a trip from the answer to its request.
func (k *key) learnTrip(t *trip, r *route, y *reply) {
	x := t.part
	isOther := x.route == nil && t.stocks == nil && (len(y.Stocks) > 0 || !slices.Contains(r.limits, x))
	switch {
	case y.unexplained() && !isOther: // the server may have counted the request
		y.Explained = x.machine.RefusedElsewhere(&t.Trip) || y.Explained
	case t.stocks != nil:
		a := y.about(t)
		x.learn(&t.Trip, &y.advice, &a, y.received)
	case y.Refused || isOther || x.route != nil && x.route != r: // the answer concerns another part
		x.machine.Returned(&t.Trip, y.now)
	default:
		x.machine.Answered(&t.Trip, &machine.Answer{}, y.received)
	}
	if x.whole && !y.Refused && !y.now.Before(x.ends) {
		x.narrow()
	}
}

// about returns what an answer announces of the part of a trip.
func (y *reply) about(t *trip) machine.Answer {
	a := machine.Answer{Stocks: t.stocks}
	for i := range t.stocks {
		switch s := &t.stocks[i]; {
		case s.Remaining == 0 && !isMetered(s, t.Prices):
			a.Wait = max(a.Wait, s.Reset)
		case s.Remaining > 0 && s.Unit == machine.RequestUnit:
			a.Pace = max(a.Pace, s.Reset/time.Duration(s.Remaining))
		}
	}
	if a.Exhausted() {
		if a.Refused, a.RetryAfter = y.Refused, y.RetryAfter; a.RetryAfter {
			a.Wait, a.Jittered = y.Wait, y.Jittered
		}
	}
	return a
}

// limitOf returns the limit that a stock announces, and makes it if it is not known. The route then
// obeys the limit. If there is no room, limitOf returns nil.
func (k *key) limitOf(p *Pass, r *route, y *reply, s *machine.Stock) (x *part) {
	if y.resource == "" && y.older && s.Policy == "default" && s.Unit == machine.RequestUnit {
		x = k.unnamedLimit(p, r, y, s)
	} else {
		name := cutName(cmp.Or(y.resource, s.Policy))
		if x = find(k.scope.parts, func(x *part) bool { return x.id[len(k.name)+1:] == name }); x == nil {
			x = k.newPart(k.name + " " + name)
		}
	}
	if x == nil || slices.Contains(r.limits, x) {
		return x
	}
	if len(r.limits) == maxAnnounced {
		return nil
	}
	if y.resource != "" {
		x.segments = append(x.segments, routePath(r.name.path, 1))
	}
	r.limits = append(r.limits, x)
	x.routes++
	k.count(x, y.now)
	return x
}

// find returns the first part for which is returns true, or nil.
func find(parts []*part, is func(*part) bool) *part {
	if i := slices.IndexFunc(parts, is); i >= 0 {
		return parts[i]
	}
	return nil
}

// unnamedLimit returns the limit without a name that a stock announces. If no other route has the
// limit, this route keeps it. Otherwise each answer may show that the routes have different limits.
func (k *key) unnamedLimit(p *Pass, r *route, y *reply, s *machine.Stock) *part {
	end := y.received.Add(s.Reset)
	r.moves = r.moves || end.Sub(r.end) > sameInstant && r.end.Sub(y.received) > sameInstant
	r.end = end
	agrees := func(x *part) bool { return x.unnamed && x.agrees(p, y, s, r.moves) }
	x := find(r.limits, func(x *part) bool { return x.unnamed })
	if x == nil || r.moves || x.routes > 1 && !agrees(x) {
		was := x
		if x = find(k.scope.parts, agrees); x == nil && was != nil && was.routes == 1 {
			x = was
		}
		if x == nil {
			x = k.newPart(k.idOf(r, strconv.Itoa(k.scope.served)))
		}
		if was != nil && was != x {
			k.leave(r, was)
		}
	}
	if x != nil {
		x.note(r, s, end)
	}
	return x
}

// note keeps what an answer announces of an unnamed limit, unless the answer is late.
func (x *part) note(r *route, s *machine.Stock, end time.Time) {
	x.unnamed, x.moves = true, r.moves
	if s.Quota != x.quota || s.Remaining < x.left || end.Sub(x.end) > sameInstant {
		x.quota, x.left, x.end = s.Quota, s.Remaining, end
	}
}

// agrees reports whether a stock may describe this unnamed limit: the quotas are equal, the resets are
// one instant, and no more is left than when the request was sent. A reset that moves from answer to
// answer, such as the time until a bucket is full, agrees with any other that moves.
func (x *part) agrees(p *Pass, y *reply, s *machine.Stock, moves bool) bool {
	switch {
	case s.Quota != x.quota:
		return false
	case moves || x.moves:
		return moves && x.moves
	case s.Reset < sameInstant || x.end.Sub(y.received) < sameInstant:
		return true // a window is over, or may be
	case y.received.Add(s.Reset).Sub(x.end).Abs() > sameInstant:
		return false
	}
	for t := p.parts; t != nil; t = t.next {
		if t.part == x {
			return s.Remaining <= t.left || t.end.Sub(x.end).Abs() > sameInstant
		}
	}
	return s.Remaining <= x.left
}

// leave makes a route obey a limit no longer.
func (k *key) leave(r *route, x *part) {
	r.limits = slices.DeleteFunc(r.limits, func(y *part) bool { return y == x })
	k.take(&x.line)
	if x.routes--; x.routes == 0 {
		k.forgetPart(x)
	}
}

// forgetPart forgets a part of a key. Its waiters ask the other parts again.
func (k *key) forgetPart(x *part) {
	is := func(y *part) bool { return y == x }
	k.scope.parts = slices.DeleteFunc(k.scope.parts, is)
	for _, r := range k.scope.routes {
		r.limits = slices.DeleteFunc(r.limits, is)
	}
	if x.route != nil {
		x.route.own, x.route.alone = nil, false
	}
	k.take(&x.line)
}
