package ratelimit

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/machine"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is Gate.MaxKeys if that is 0. If there are more, the Gate forgets the key with
	// which the least is lost, and of several the one that was used longest ago. It never
	// forgets a key with a wait in force.
	maxKeys = 16_384
	// maxKey is the length of a key in bytes. Longer keys are remembered by a hash.
	maxKey = 256
	// maxPaths is how many first segments of paths a key remembers.
	maxPaths = 256
	// maxResources is how many resources a key has. If there are more, their limits hold for
	// the key. maxNamed is the same for the resources of a path.
	maxResources = 16
	maxNamed     = 4
	// sweepTime is the time between two looks at waits that may have ended.
	sweepTime = time.Second
)

// A keyName is a key in two parts. To look up an origin, which consists of both parts, costs
// no memory.
type keyName struct{ scheme, rest string }

// nameOfKey returns the parts of a key.
func nameOfKey(key string) keyName {
	if scheme, rest, ok := strings.Cut(key, "://"); ok && scheme != "" {
		return keyName{scheme, rest}
	}
	return keyName{rest: key}
}

// String returns the key. An origin is written as in RFC 6454 Section 6.2.
func (k keyName) String() string {
	if k.scheme == "" {
		return k.rest
	}
	return k.scheme + "://" + k.rest
}

// short returns k, or a hash of k if k is long.
func (k keyName) short() keyName {
	if len(k.scheme)+len(k.rest) > maxKey {
		return keyName{keyMark, hashOf([]byte(k.String()))}
	}
	return k
}

// isOf reports whether k is the key of an origin: the origin, or what KeyBy makes of it.
func (k keyName) isOf(origin keyName) bool {
	rest, ok := strings.CutPrefix(k.rest, origin.rest)
	return ok && k.scheme == origin.scheme && (rest == "" || rest[:1] == keyMark && len(rest) == len(keyMark)+hashLen)
}

const (
	keyMark = "#" // is between the origin and the hash in a key of KeyBy; no origin contains it
	hashLen = 32  // the length of that hash
)

// hashOf returns 128 bits of the SHA-256 of data, in hexadecimal: the same in every process.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:hashLen/2])
}

// An entry is what is known of a key or of one of its resources, and the requests that wait
// for it. It is guarded by the lock of its Gate.
type entry struct {
	key     keyName // of a resource: that of its key, a space, and the name of the resource
	machine machine.Machine
	advice  Advice // of the newest response that changed the machine
	era     int    // grows when the entry is forgotten
	queue   queue
	waiting int       // requests in the queues of a key, its resources and its scouts
	doomed  deadlines // of the waiters in queue that have one
	timer   *time.Timer
	until   time.Time // when the timer rings; zero if no request waits
	loss    machine.Loss
	inList  *list.Element // in the list of that loss; nil for a resource
	parent  *entry        // the key of a resource; nil for a key
	scout   bool          // it is a path whose resource is not known: one request goes first
	split   *split        // nil until an answer has named a resource
}

// A split is what a key knows of resources that the server counts apart.
type split struct {
	resources []*entry
	// paths has, by first segment, the resources that answers have named: none after an answer
	// without a name, or a scout before the first answer.
	paths map[string][]*entry
}

// resources returns the resources of a key.
func (e *entry) resources() []*entry {
	if e.split == nil {
		return nil
	}
	return e.split.resources
}

// resourcesOf returns the resources that hold requests of a path, or its scout.
func (e *entry) resourcesOf(path string, now time.Time, r *machine.Settings) []*entry {
	if e.split == nil || path == "" {
		return nil
	}
	list := e.split.paths[path]
	if list == nil && len(e.split.paths) < maxPaths {
		scout := &entry{key: e.key, parent: e, scout: true}
		list = []*entry{scout}
		e.split.paths[strings.Clone(path)] = list
		e.join(scout, path, now, r)
	}
	return list
}

// dropScout forgets the scout of a path after an answer that named no resource.
func (e *entry) dropScout(path string, scout *entry) {
	if list := e.split.paths[path]; len(list) == 1 && list[0] == scout {
		e.split.paths[path] = []*entry{}
	}
}

// join counts the requests of a path under way for a resource too.
func (e *entry) join(x *entry, path string, now time.Time, r *machine.Settings) {
	x.machine.Tick(now, r)
	for t := range e.machine.Trips() {
		if p, ok := t.Owner.(*Pass); ok && p.path == path {
			p.legOf(x, now, r)
		}
	}
}

// name makes requests of a path wait for a resource too, and returns the entry of the
// resource, or nil if there is no room for it. The requests of that path under way are
// counted for it, as if it had been known when they were sent.
func (e *entry) name(path, resource string, now time.Time, r *machine.Settings) *entry {
	if e.split == nil {
		e.split = &split{paths: make(map[string][]*entry)}
	}
	s := e.split
	rest := e.key.rest + " " + cutName(resource)
	is := func(x *entry) bool { return x.key.rest == rest }
	known := s.paths[path]
	if len(known) > 0 && known[0].scout {
		known = nil
	}
	if i := slices.IndexFunc(known, is); i >= 0 {
		return known[i]
	}
	if _, seen := s.paths[path]; len(known) == maxNamed || !seen && len(s.paths) == maxPaths {
		return nil
	}
	i := slices.IndexFunc(s.resources, is)
	if i < 0 {
		if i = len(s.resources); i == maxResources {
			return nil
		}
		s.resources = append(s.resources, &entry{key: keyName{e.key.scheme, rest}, parent: e})
	}
	x := s.resources[i]
	s.paths[strings.Clone(path)] = append(known, x)
	e.join(x, path, now, r)
	return x
}

// settings returns the settings that the machine of an entry obeys.
func (e *entry) settings(g *Gate) machine.Settings {
	r := g.settings()
	if e.scout {
		r.Share = min(r.Share, 0.1) // of the first ten
	}
	return r
}

// forget forgets what was learnt. The requests under way belong to an earlier era.
func (e *entry) forget() {
	e.era++
	e.machine, e.advice = machine.Machine{}, Advice{}
}

// refresh forgets an entry that has not been used for long, if nothing is lost with it. If no
// resource of a key would lose anything, it also forgets the paths, so that there is room for others.
func (e *entry) refresh(now time.Time, r *machine.Settings) {
	if e.queue.n > 0 || !e.machine.Idle(now, r) {
		return
	}
	e.forget()
	if e.lost(now, r) == machine.NothingLost {
		e.split = nil
	}
}

// ofKey returns the entry of the key.
func (e *entry) ofKey() *entry {
	if e.parent != nil {
		return e.parent
	}
	return e
}

// entry returns what is known of a key, or nil if there is no room for it. The lock is held.
func (g *Gate) entry(key keyName, now time.Time) *entry {
	key = key.short()
	if e := g.keys[key]; e != nil {
		r := g.settings()
		e.refresh(now, &r)
		return e
	}
	most := g.MaxKeys
	if most <= 0 {
		most = maxKeys
	}
	if len(g.keys) >= most && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[keyName]*entry)
	}
	e := &entry{key: keyName{strings.Clone(key.scheme), strings.Clone(key.rest)}}
	e.inList = g.lists[e.loss].PushBack(e)
	g.keys[e.key] = e
	return e
}

// find returns what is known of a key or of a resource of a key, nil if it is not known. The
// lock is held.
func (g *Gate) find(key string) *entry {
	name := nameOfKey(key)
	if e := g.keys[name.short()]; e != nil {
		return e
	}
	rest, _, _ := strings.Cut(name.rest, " ")
	if e := g.keys[keyName{name.scheme, rest}]; e != nil {
		if i := slices.IndexFunc(e.resources(), func(x *entry) bool { return x.key == name }); i >= 0 {
			return e.resources()[i]
		}
	}
	return nil
}

// displace forgets the key with which the least is lost, and reports whether there is one.
func (g *Gate) displace(now time.Time) bool {
	for lost := range machine.WaitLost {
		if oldest := g.lists[lost].Front(); oldest != nil {
			e := oldest.Value.(*entry)
			g.lists[e.loss].Remove(e.inList)
			delete(g.keys, e.key)
			return true
		}
	}
	if now.Sub(g.swept) < sweepTime {
		return false
	}
	g.swept = now
	waits := &g.lists[machine.WaitLost]
	for range waits.Len() { // each goes to the back, or to the list where it belongs now
		g.settle(waits.Front().Value.(*entry), now)
	}
	return g.displace(now)
}

// settle puts the key of an entry, which has just been used, into the list where it belongs.
func (g *Gate) settle(e *entry, now time.Time) {
	if e.parent != nil {
		if e = e.parent; g.keys[e.key] != e { // displaced
			return
		}
	}
	r := g.settings()
	lost := e.lost(now, &r)
	if lost == e.loss {
		g.lists[lost].MoveToBack(e.inList)
		return
	}
	g.lists[e.loss].Remove(e.inList)
	e.loss, e.inList = lost, g.lists[lost].PushBack(e)
}

// lost returns what would be lost with a key and its resources.
func (e *entry) lost(now time.Time, r *machine.Settings) machine.Loss {
	if e.waiting > 0 {
		return machine.WaitLost
	}
	lost := e.machine.Loss(now, r)
	for _, x := range e.resources() {
		lost = max(lost, x.machine.Loss(now, r))
	}
	return lost
}
