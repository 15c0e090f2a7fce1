package obey

import (
	"bytes"
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is Gate.MaxKeys if that is 0. If there are more, the Gate looks at some keys
	// that were used longest ago, and forgets the key with which the least is lost. It never
	// forgets a key with a wait in force. If all of these keys have a wait, it looks at all
	// keys, but only once in a sweepTime.
	maxKeys   = 16_384
	looks     = 64
	sweepTime = time.Second
	// maxKey is the length of a key in bytes. Longer keys are remembered by a hash.
	maxKey = 256
	// maxPaths is how many first segments of paths a key remembers.
	maxPaths = 256
	// maxResources is how many resources a key has. If there are more, their limits hold for
	// the key. maxNamed is the same for the resources of a path.
	maxResources = 16
	maxNamed     = 4
)

const (
	keyMark = "#" // is between the origin and the hash in a key of KeyBy; no origin contains it
	hashLen = 32  // the length of that hash
)

// hashOf returns 128 bits of the SHA-256 of data, in hexadecimal: the same in every process.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:hashLen/2])
}

// shortKey returns a key, or a hash of it if it is long.
func shortKey[text string | []byte](key text) text {
	if len(key) > maxKey {
		return text(keyMark + hashOf([]byte(key)))
	}
	return key
}

// KeyBy returns a [Transport.Key] for servers that limit each user. Requests to one origin share
// their limits if all of these fields, such as Authorization, are equal. If a request has none of
// the fields, its key is the origin. The key is the same in every process. It contains 128 bits
// of the SHA-256 of the fields. A short or common credential can be guessed from it, so do not
// show it to strangers.
func KeyBy(fields ...string) func(*http.Request) string {
	fields = slices.Clone(fields)
	return func(req *http.Request) string {
		origin := string(appendOrigin(nil, req.URL))
		var few [256]byte
		hashed, found := few[:0], false
		for _, field := range fields {
			lines := req.Header.Values(field)
			found = found || len(lines) > 0
			hashed = binary.AppendUvarint(hashed, uint64(len(lines)))
			for _, line := range lines {
				hashed = binary.AppendUvarint(hashed, uint64(len(line))) // so that different lists differ
				hashed = append(hashed, line...)
			}
		}
		if !found {
			return origin
		}
		return origin + keyMark + hashOf(hashed)
	}
}

// appendOrigin appends the origin of an address to b: its scheme, and its host with the port,
// unless it is the default port (RFC 6454 Section 6.2).
func appendOrigin(b []byte, u *url.URL) []byte {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	b = append(append(b, scheme...), "://"...)
	return append(b, strings.TrimSuffix(host, ":")...)
}

// isKeyBy reports whether a key is an origin, or what KeyBy makes of it.
func isKeyBy(key, origin []byte) bool {
	rest, ok := bytes.CutPrefix(key, origin)
	return ok && (len(rest) == 0 || rest[0] == keyMark[0] && len(rest) == len(keyMark)+hashLen)
}

// An entry is what is known of a key or of one of its resources, and the requests that wait for it.
// It is guarded by the lock of its Gate. If the Gate forgets a key, it makes a new entry. The
// requests under way still belong to the old entry, and their answers change nothing.
type entry struct {
	gate    *Gate
	key     string // of a resource: that of its key, a space, and the name of the resource
	machine machine.Machine
	advice  ratelimit.Advice // of the newest response that changed the machine
	queue   queue
	doomed  deadlines // of the waiters in queue that have one
	timer   *time.Timer
	until   time.Time // when the timer rings; zero if it is not set

	// Of a key:
	place     *list.Element     // in Gate.used; nil if the entry has been displaced
	resources map[string]*entry // by key; nil until an answer has named one
	// paths has, by first segment, the resources that answers have named. The list is empty
	// after an answer without a name, and has a scout before the first answer.
	paths map[string][]*entry

	// Of a resource:
	parent *entry // the entry of the key
	scout  bool   // it stands for a path whose resource is not known: one request goes first
}

// all returns the entry of a key, and those of its resources and scouts, some repeatedly.
func (e *entry) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		more := yield(e)
		for _, list := range e.paths {
			for _, x := range list {
				more = more && yield(x)
			}
		}
	}
}

// ofKey returns the entry of the key.
func (e *entry) ofKey() *entry { return cmp.Or(e.parent, e) }

// entry returns what is known of a key. It returns nil if there is no room for it, and for the key
// "". The lock is held.
func (g *Gate) entry(key []byte, now time.Time) *entry {
	if len(key) == 0 {
		return nil
	}
	key = shortKey(key)
	if e := g.keys[string(key)]; e != nil {
		g.used.MoveToBack(e.place)
		if e.machine.Idle(now) && e.lost(now) == machine.NothingLost {
			return g.renew(e)
		}
		return e
	}
	return g.remember(&entry{gate: g, key: string(key), machine: g.newMachine()}, now)
}

// remember adds an entry. It returns nil if there is no room for it.
func (g *Gate) remember(e *entry, now time.Time) *entry {
	most := cmp.Or(max(g.MaxKeys, 0), maxKeys)
	if len(g.keys) >= most && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[string]*entry)
	}
	g.keys[e.key], e.place = e, g.used.PushBack(e)
	return e
}

// displace removes a key, and reports whether there is one without a wait in force.
func (g *Gate) displace(now time.Time) bool {
	e := g.leastLost(looks, now)
	if e == nil && now.Sub(g.swept) >= sweepTime {
		g.swept = now
		e = g.leastLost(g.used.Len(), now)
	}
	if e != nil {
		g.used.Remove(e.place)
		delete(g.keys, e.key)
		e.place = nil
	}
	return e != nil
}

// leastLost looks at the keys that were used longest ago, and returns the key with which the
// least is lost. It returns nil if all of them have a wait in force. Keys with a wait count as
// used, so that other keys are looked at next.
func (g *Gate) leastLost(most int, now time.Time) (oldest *entry) {
	least, place := machine.WaitLost, g.used.Front()
	for range min(g.used.Len(), most) {
		e := place.Value.(*entry)
		place = place.Next()
		switch lost := e.lost(now); {
		case lost < least:
			oldest, least = e, lost
		case lost == machine.WaitLost:
			g.used.MoveToBack(e.place)
		}
	}
	return oldest
}

// lost returns what would be lost with a key and its resources.
func (e *entry) lost(now time.Time) machine.Loss {
	lost := machine.NothingLost
	for x := range e.all() {
		if x.queue.Len() > 0 {
			return machine.WaitLost
		}
		lost = max(lost, x.machine.Loss(now))
	}
	return lost
}

// renew replaces the entry of a key by a new entry. All waiters move to its queue.
func (g *Gate) renew(e *entry) *entry {
	fresh := &entry{gate: g, key: e.key, machine: g.newMachine(), place: e.place}
	g.keys[e.key], e.place.Value = fresh, fresh
	for x := range e.all() {
		fresh.take(x)
	}
	return fresh
}

// take moves the waiters of another entry to the queue of e.
func (e *entry) take(x *entry) {
	for x.queue.Len() > 0 {
		w := x.queue.front()
		x.dequeue(w)
		e.enqueue(w)
	}
	x.admit(time.Time{}) // stops the timer
}

// find returns what is known of a key or of a resource of a key, nil if it is not known. The
// lock is held.
func (g *Gate) find(key string) *entry {
	if e := g.keys[shortKey(key)]; e != nil {
		return e
	}
	parent, _, _ := strings.Cut(key, " ")
	if e := g.keys[parent]; e != nil {
		return e.resources[key]
	}
	return nil
}

// ofPath returns the resources that hold requests of a path, or its scout. It adds a scout to a
// path that has not been seen.
func (e *entry) ofPath(path string, now time.Time) []*entry {
	if e.paths == nil || path == "" {
		return nil
	}
	if _, seen := e.paths[path]; !seen && len(e.paths) < maxPaths {
		scout := &entry{gate: e.gate, key: e.key, machine: e.gate.newMachine(), parent: e, scout: true}
		scout.machine.Share = min(scout.machine.Share, 0.1) // one of the first ten
		e.hold(path, scout, now)
	}
	return e.paths[path]
}

// hold makes requests of a path wait for x too. Requests under way are counted for x, as if x
// had been known when they were sent.
func (e *entry) hold(path string, x *entry, now time.Time) {
	e.paths[strings.Clone(path)] = append(e.paths[path], x)
	for t := range e.machine.Trips() {
		if p, ok := t.Owner.(*Pass); ok && p.path == path {
			p.legOf(x, now)
		}
	}
}

// resource returns the entry of a resource that an answer to a request of a path has named. From
// then on requests of the path wait for the resource too. If there is no room, it returns nil.
func (e *entry) resource(path, name string, now time.Time) *entry {
	if e.paths == nil {
		e.paths, e.resources = make(map[string][]*entry), make(map[string]*entry)
	}
	key := e.key + " " + cutName(name)
	list, seen := e.paths[path]
	if i := slices.IndexFunc(list, func(x *entry) bool { return x.key == key }); i >= 0 {
		return list[i]
	}
	x := e.resources[key]
	if len(list) == maxNamed || !seen && len(e.paths) == maxPaths || x == nil && len(e.resources) == maxResources {
		return nil
	}
	if x == nil {
		x = &entry{gate: e.gate, key: key, machine: e.gate.newMachine(), parent: e}
		e.resources[key] = x
	}
	e.hold(path, x, now)
	return x
}

// endScout removes the scout of a path that has been answered. Its waiters go on when the answer
// ends the request.
func (e *entry) endScout(path string) {
	if list := e.paths[path]; len(list) == 1 && list[0].scout {
		e.paths[path] = []*entry{}
	}
}

// forgetResource forgets a resource of a key. Its waiters ask the other entries again.
func (e *entry) forgetResource(x *entry, now time.Time) {
	delete(e.resources, x.key)
	for path, list := range e.paths {
		e.paths[path] = slices.DeleteFunc(list, func(y *entry) bool { return y == x })
	}
	e.take(x)
	e.admit(now)
}
