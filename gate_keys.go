package ratelimit

import (
	"container/list"
	"hash/maphash"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is the number of keys. Beyond it the key with which the least is lost
	// is forgotten, of these the one used longest ago, but never one with a wait in
	// force.
	maxKeys = 1024
	// maxKey is the length of a key; longer ones are remembered by a hash.
	maxKey = 256
	// sweepTime is how often waits are looked at that may have ended.
	sweepTime = time.Second
)

// seed is that of hashes of keys. It differs in each process, so that a hash tells
// strangers nothing of what was hashed.
var seed = maphash.MakeSeed()

// A keyName is a key in two parts, of which an origin needs both: so it costs no
// memory to look one up.
type keyName struct{ scheme, rest string }

// nameOfKey returns a key in its parts.
func nameOfKey(key string) keyName {
	if scheme, rest, ok := strings.Cut(key, "://"); ok && scheme != "" {
		return keyName{scheme, rest}
	}
	return keyName{rest: key}
}

// String returns the key. An origin is written as RFC 6454 Section 6.2 has it.
func (k keyName) String() string {
	if k.scheme == "" {
		return k.rest
	}
	return k.scheme + "://" + k.rest
}

// short returns a hash in place of a long key.
func (k keyName) short() keyName {
	if len(k.scheme)+len(k.rest) > maxKey {
		return keyName{keyMark, hex(maphash.Comparable(seed, k))}
	}
	return k
}

// keyMark stands between the origin and the hash in a key of [KeyBy]. No origin has it.
const keyMark = "#"

func hex(hash uint64) string { return strconv.FormatUint(hash, 16) }

// An entry is what is known of a key, and who waits for it. It is guarded by the
// lock of its Gate.
type entry struct {
	key     keyName
	machine machine
	advice  Advice // from the most recent response that made things newer or stricter
	era     int    // grows when the key is forgotten
	queue   queue
	doomed  deadlines // of these, those with a deadline
	timer   *time.Timer
	until   time.Time // when the timer rings; zero while none waits
	loss    loss
	place   *list.Element // in the list of that loss
}

// forget forgets what was learnt. The requests under way belong to an earlier era.
func (e *entry) forget() {
	e.era++
	e.machine, e.advice = machine{}, Advice{}
}

// entry returns what is known of a key, or nil if nothing can be remembered of it.
// The lock is held.
func (g *Gate) entry(key keyName, now time.Time) *entry {
	key = key.short()
	if e := g.keys[key]; e != nil {
		if r := g.settings(); e.queue.n == 0 && e.machine.idle(now, &r) {
			e.forget()
		}
		return e
	}
	if len(g.keys) >= maxKeys && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[keyName]*entry)
	}
	e := &entry{key: keyName{strings.Clone(key.scheme), strings.Clone(key.rest)}}
	e.place = g.lists[e.loss].PushBack(e)
	g.keys[e.key] = e
	return e
}

// displace forgets the key with which the least is lost, and reports whether there
// is one.
func (g *Gate) displace(now time.Time) bool {
	for loss := range waitLost {
		if oldest := g.lists[loss].Front(); oldest != nil {
			g.remove(oldest.Value.(*entry))
			return true
		}
	}
	if now.Sub(g.swept) < sweepTime {
		return false
	}
	g.swept = now
	waits := &g.lists[waitLost]
	for range waits.Len() { // each goes to the back, or to where it belongs now
		g.settle(waits.Front().Value.(*entry), now)
	}
	return g.displace(now)
}

func (g *Gate) remove(e *entry) {
	g.lists[e.loss].Remove(e.place)
	delete(g.keys, e.key)
}

// settle puts an entry, which has just been used, where it belongs.
func (g *Gate) settle(e *entry, now time.Time) {
	r := g.settings()
	loss := e.machine.loss(now, &r)
	if e.queue.n > 0 {
		loss = waitLost
	}
	if loss == e.loss {
		g.lists[loss].MoveToBack(e.place)
		return
	}
	g.lists[e.loss].Remove(e.place)
	e.loss, e.place = loss, g.lists[loss].PushBack(e)
}
